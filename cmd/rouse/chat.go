package main

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/agent"
	"github.com/rouse-run/rouse/run"
	"github.com/rouse-run/rouse/store"
	"github.com/rouse-run/rouse/store/sqlite"
)

type chatCmd struct {
	Thread string `help:"Continue this conversation: an id, the beginning of one, or 'last'." placeholder:"ID"`
	definition
	Yes bool `help:"Let every tool run without asking."`
}

// Run executes the command.
func (c *chatCmd) Run(ctx context.Context, a *app) error {
	if !a.term.there() {
		return usage(`for scripts there is: rouse run "..."`, "a chat needs a terminal for its input and its errors")
	}
	pin, err := a.pin(ctx, c.definition)
	if err != nil {
		return err
	}
	return a.withStore(ctx, func(st *sqlite.Store) (err error) {
		t := &chat{session: a.session(st, conduct{Yes: c.Yes, Resolve: "ask"}), pin: pin}
		if t.b, err = a.build(ctx, st, pin); err != nil {
			return err
		}
		defer func() { err = join(err, t.b.close()) }()
		if c.Thread != "" {
			if t.thread, err = t.readyThread(ctx, c.Thread); err != nil {
				return err
			}
			if err := t.remember(ctx); err != nil {
				return err
			}
		}
		return t.talk(ctx)
	})
}

// chat is one conversation in the terminal.
type chat struct {
	*session
	pin    pinned
	b      *built
	thread string // empty before the first message
}

const chatHelp = `/history  show the conversation
/thread   show its id
/quit     leave (or Ctrl-D)
Ctrl-C cancels a run. A line that ends with \ goes on in the next.`

// talk reads messages and runs the agent on them until the person leaves.
func (t *chat) talk(ctx context.Context) error {
	t.a.note("rouse: agent %s, model %s, in %s; /help for help", t.pin.Agent.Name, t.pin.Model, t.pin.Root)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t.a.stop.rests(func(cause error) {
		if errors.Is(cause, run.ErrDetach) {
			cancel(cause)
		}
	})
	for {
		text, err := t.message(ctx)
		switch {
		case errors.Is(err, errInterrupt):
			t.a.note("(Ctrl-D or /quit leaves)")
			continue
		case isLeave(err), ctx.Err() != nil:
			t.farewell()
			return nil
		case err != nil:
			return err
		}
		leave, err := t.act(ctx, text)
		if err != nil && (leave || errors.Is(err, errQuiet)) {
			return err
		}
		if err != nil {
			t.a.report(err)
		}
		if leave {
			t.farewell()
			return nil
		}
	}
}

func (t *chat) farewell() {
	if t.thread != "" && !t.a.cli.Quiet {
		t.a.note("rouse: continue this conversation with: rouse chat --thread %s", t.thread)
	}
}

// message reads one message; a line that ends with a backslash goes on.
func (t *chat) message(ctx context.Context) (string, error) {
	var text strings.Builder
	for prompt := "> "; ; prompt = ". " {
		line, err := t.a.term.readLine(ctx, prompt, true)
		if err != nil {
			return "", err
		}
		more, on := strings.CutSuffix(line, `\`)
		text.WriteString(more)
		if !on {
			return strings.TrimSpace(text.String()), nil
		}
		text.WriteByte('\n')
	}
}

// act does what one message asks for.
func (t *chat) act(ctx context.Context, text string) (leave bool, err error) {
	switch {
	case text == "":
		return false, nil
	case text == "/quit" || text == "/exit":
		return true, nil
	case text == "/help":
		t.a.note("%s", chatHelp)
		return false, nil
	case text == "/thread":
		t.a.note("%s", firstOf(t.thread, "(there is none before the first message)"))
		return false, nil
	case text == "/history":
		return false, t.show(ctx)
	case strings.HasPrefix(text, "/"):
		t.a.note("There is no command %s; /help lists them.", text)
		return false, nil
	}
	opt := t.options(t.b, firstLine(text, maxTitle))
	opt.Thread = t.thread
	r, err := t.b.Start(ctx, opt, rouse.Text(text))
	if err != nil {
		return false, err
	}
	err = t.drive(ctx, r, t.b)
	if r.Status().Final() || err == nil {
		t.thread = r.Thread()
		return false, err
	}
	// The run is not over: nothing can be said in this thread before it is.
	return true, err
}

// show prints the conversation.
func (t *chat) show(ctx context.Context) error {
	return t.messages(ctx, func(who, text string) error {
		_, err := io.WriteString(t.a.Stdout, clean(who+": "+text)+"\n")
		return err
	})
}

// remember makes earlier messages of the person callable with the arrow keys.
func (t *chat) remember(ctx context.Context) error {
	t.a.term.lines.keep(true)
	return t.messages(ctx, func(who, text string) error {
		if who == "you" {
			t.a.term.lines.Add(clean(firstLine(text, maxPrompt)))
		}
		return nil
	})
}

// messages calls fn for what was said in the thread.
func (t *chat) messages(ctx context.Context, fn func(who, text string) error) error {
	if t.thread == "" {
		return nil
	}
	return eachEvent(ctx, t.st, store.RunInfo{Thread: t.thread}, func(ev *rouse.Event) error {
		if ev.Path != "/" {
			return nil
		}
		switch ev.Type {
		case rouse.EventMessage:
			var m rouse.Message
			if err := ev.Decode(&m); err != nil {
				return err
			}
			return fn("you", m.Text())
		case rouse.EventAnswer:
			var d agent.AnswerData
			if err := ev.Decode(&d); err != nil || d.Message.Text() == "" {
				return err
			}
			return fn(t.pin.Agent.Name, d.Message.Text())
		}
		return nil
	})
}
