package main

import "github.com/alecthomas/kong"

const description = "Rouse runs AI agents that work in a directory, keeps everything they do, and never does anything twice."

// grammar is the command line.
type grammar struct {
	Data    string   `help:"Directory that everything is kept in. Default: $ROUSE_DATA, $XDG_DATA_HOME/rouse or ~/.local/share/rouse." placeholder:"DIR"`
	Quiet   bool     `short:"q" help:"Say nothing that is not asked for: no progress, no summary."`
	Verbose bool     `short:"v" help:"Log what goes on inside, and show the model's reasoning."`
	Help    helpFlag `short:"h" help:"Show help."`

	Run     runCmd     `cmd:"" help:"Run an agent on one prompt."`
	Chat    chatCmd    `cmd:"" help:"Talk to an agent in the terminal."`
	Resume  resumeCmd  `cmd:"" help:"Continue runs that were interrupted or wait for an answer."`
	Threads threadsCmd `cmd:"" help:"List conversations, the last used first."`
	Runs    runsCmd    `cmd:"" help:"List runs, the newest first."`
	Events  eventsCmd  `cmd:"" help:"Show what happened in a run."`
	Replay  replayCmd  `cmd:"" help:"Show a run again from its journal, or verify it."`
	Fork    forkCmd    `cmd:"" help:"Begin a new run that shares the past of another."`
	Models  modelsCmd  `cmd:"" help:"List the models that were found."`
	Version versionCmd `cmd:"" help:"Show the version of this program."`
}

type helpFlag bool

// BeforeReset prints the help of the selected command.
func (helpFlag) BeforeReset(ctx *kong.Context) error {
	if err := ctx.PrintUsage(false); err != nil {
		return err
	}
	return errShown
}

// Help implements kong.HelpProvider.
func (runCmd) Help() string {
	return `The text of the answer goes to the standard output as it comes, everything else to the standard error. With
"-", or without PROMPT when the standard input is no terminal, the prompt is read from there.

Tools that change something are asked about on the terminal. Without a terminal they are denied, unless --yes is given.
Ctrl-C cancels the run; twice in two seconds it ends the program at once, and the run can be resumed.

Examples:

    rouse run "What is in this directory?"
    rouse run --tools list_dir,read_file --root /srv/docs "Summarise the manuals."
    git diff | rouse run --thread last --json -
    rouse run --model ollama/qwen3:8b --yes "Run the tests and fix what fails."`
}

// Help implements kong.HelpProvider.
func (chatCmd) Help() string {
	return `A line is a message; one that ends with a backslash goes on in the next line. The arrow keys call up earlier lines.
Ctrl-C cancels the run, not the program. Ctrl-D or /quit leaves; /history shows the conversation, /help the commands.

Examples:

    rouse chat
    rouse chat --thread last
    rouse chat --agent reviewer.json --root ~/src/project`
}

// Help implements kong.HelpProvider.
func (resumeCmd) Help() string {
	return `Without RUN, every run whose process is gone is continued, one after the other. With RUN, that one: also when it waits
for an answer. Nothing that is known to have happened happens again. A call that changes something and may or may not
have happened is a question: on the terminal, or answered by --resolve.

RUN is an id, the beginning of one (at least 6 characters), or "last".

Examples:

    rouse resume
    rouse resume last --yes
    rouse resume 0197f0c2-51 --resolve give_up`
}

// Help implements kong.HelpProvider.
func (eventsCmd) Help() string {
	return `Facts are what happened; draws are what came from outside and where the run stood.

Examples:

    rouse events last
    rouse events last --json | jq -c 'select(.type == "tool.finished") | .data.result'`
}

// Help implements kong.HelpProvider.
func (replayCmd) Help() string {
	return `Without --verify the run is shown again as it looked. With --verify it is driven again, every answer and every result
taken from the journal: no model and no tool is called. All that the agent asks for, decides and records is compared
byte for byte, and the checksums of the journal are checked. The first difference is reported with its index, and the
exit status is 1.

Examples:

    rouse replay last
    rouse replay last --verify
    rouse runs --json | jq -r .id | xargs -n1 rouse replay --verify`
}

// Help implements kong.HelpProvider.
func (forkCmd) Help() string {
	return `The new run has a thread of its own; the original is not touched. STEP is the seq of an event, as "rouse events" shows it:
that event, and what was committed together with it, are the last that are kept. "last" keeps everything but the end of
the run, so its last answer is given anew; "start" keeps nothing of the run itself.

--prompt puts another message in place of the one that the run began with. Nothing that followed the old message can
follow the new one, so such a fork always begins at "start": it keeps the earlier conversation of the thread only.

Examples:

    rouse fork last --model openai/gpt-5
    rouse fork last --at 14
    rouse fork last --prompt "The same, but in French."`
}

// Help implements kong.HelpProvider.
func (modelsCmd) Help() string {
	return `OpenAI and compatible servers are found by OPENAI_API_KEY, OPENAI_BASE_URL and OPENAI_MODEL; Ollama by OLLAMA_HOST or at
127.0.0.1:11434; llama-server by LLAMACPP_HOST or at 127.0.0.1:8080. ROUSE_MODEL names the model to use by default.
Only servers on this machine are looked for without being configured. Keys are never shown.`
}
