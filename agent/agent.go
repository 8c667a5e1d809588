// Package agent is the loop that lets a model use tools: a run.Step whose cursors
// are the durable boundaries of a round.
//
//	start ──▶ infer ──▶ exec ──▶ infer ──▶ … ──▶ done
//	            │         │ ▲
//	            │         ▼ │ a person must be asked
//	            │       waiting
//	            └──▶ done: the model called no tool
//
// What is committed, and when:
//
//	start  the user's message
//	infer  the model's answer, with the gate's verdict on each of its calls
//	exec   each finished call as soon as it is known; the last of them together
//	       with the end of the round
//
// A run that dies continues at the last of these: an answer that was being
// streamed is asked for again, a finished call is not made again. In rounds whose
// calls only read the first and the last may wait for each other for run.HoldTime.
package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/internal/jsonx"
	"github.com/rouse-run/rouse/model"
	"github.com/rouse-run/rouse/run"
	"github.com/rouse-run/rouse/tool"
)

// The defaults of Config.
const (
	DefaultName          = "agent"
	DefaultMaxRounds     = 50
	DefaultParallel      = 8
	DefaultMaxEmpty      = 2
	DefaultOutputRetries = 2
)

// Config defines an agent.
type Config struct {
	// Name is the id of its step in journals. Default DefaultName.
	Name string
	// Version changes when runs that began under an older definition must not
	// continue under this one.
	Version string
	// Model answers. Required.
	Model model.Model
	// ModelName is what requests ask for; empty leaves it to Model.
	ModelName string
	// System is the system prompt, sent as it is: nothing in it is expanded.
	System string
	// Tools are what the model may call. Nil means none.
	Tools *tool.Set
	// Gate decides about every call. Nil means tool.AskUnlessReadOnly.
	Gate tool.Gate
	// Output asks for a structured answer. Nil means text.
	Output *Output
	// Params are settings of every request.
	Params model.Params
	// MaxRounds bounds how often the model is asked. Default DefaultMaxRounds.
	MaxRounds int
	// Parallel bounds how many calls of one answer run at once. Default DefaultParallel.
	Parallel int
	// MaxEmpty is how many answers without text and calls are followed by another
	// try. Default DefaultMaxEmpty, negative none.
	MaxEmpty int
	// Keeper stores results of tools that are too long to show. Nil keeps only
	// what is shown.
	Keeper tool.Keeper
	// Log receives what nobody else is told: the stack of a tool that panicked, and
	// a Keeper's failure. Nil discards it.
	Log *slog.Logger
}

// Output describes a structured answer: one JSON object.
type Output struct {
	// Name of the object, for the model. Default "answer".
	Name string
	// Schema is its JSON Schema, of type object. Required.
	Schema json.RawMessage
	// Retries is how often the model is told what is wrong and asked again.
	// Default DefaultOutputRetries, negative none.
	Retries int
}

// Agent is an immutable definition, safe for concurrent use by any number of runs.
type Agent struct {
	cfg    Config
	info   run.Info
	head   []byte // what of a request is the same in every round, for its hash
	tools  []model.ToolSpec
	system string
	output *tool.Set // one tool whose arguments are the structured answer
	native bool      // the model honours Request.Output
}

// New returns the agent that cfg defines. The error reports every problem.
func New(cfg Config) (*Agent, error) {
	cfg.Name = cmp.Or(cfg.Name, DefaultName)
	cfg.MaxRounds = cmp.Or(cfg.MaxRounds, DefaultMaxRounds)
	cfg.Parallel = cmp.Or(cfg.Parallel, DefaultParallel)
	cfg.MaxEmpty = cmp.Or(cfg.MaxEmpty, DefaultMaxEmpty)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Gate == nil {
		cfg.Gate = tool.GateFunc(tool.AskUnlessReadOnly)
	}
	var problems []error
	bad := func(field, format string, args ...any) {
		problems = append(problems, &rouse.Error{Code: rouse.CodeInvalid, Op: "agent " + cfg.Name, Message: field + " " + fmt.Sprintf(format, args...)})
	}
	if cfg.Model == nil {
		bad("model", "is missing")
	}
	if cfg.MaxRounds < 0 {
		bad("max_rounds", "is negative")
	}
	if cfg.Parallel < 0 {
		bad("parallel", "is negative")
	}
	if cfg.Tools == nil {
		none, err := tool.NewSet()
		if err != nil {
			return nil, err
		}
		cfg.Tools = none
	}
	a := &Agent{cfg: cfg, system: cfg.System}
	for _, s := range cfg.Tools.Specs() {
		a.tools = append(a.tools, model.ToolSpec{Name: s.Name, Description: s.Description, Schema: s.Schema})
	}
	if cfg.Output != nil {
		if err := a.setOutput(*cfg.Output); err != nil {
			problems = append(problems, err)
		}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	a.head = a.requestHead()
	a.info = run.Info{ID: cfg.Name, Version: cfg.Version, Cursors: []run.Cursor{atStart, atInfer, atExec, atDone}}
	return a, nil
}

// requestHead encodes everything of a request but its messages.
func (a *Agent) requestHead() []byte {
	o := jsonx.Open(nil)
	o.String("model", a.cfg.ModelName)
	o.String("system", a.system)
	o.Key("tools")
	o.B = append(o.B, '[')
	for i, t := range a.tools {
		if i > 0 {
			o.B = append(o.B, ',')
		}
		in := jsonx.Open(o.B)
		in.String("name", t.Name)
		in.String("description", t.Description)
		in.Raw("schema", t.Schema)
		o.B = in.Close()
	}
	o.B = append(o.B, ']')
	if a.cfg.Output != nil {
		o.Raw("output", a.cfg.Output.Schema)
	}
	// Params is plain data: encoding it cannot fail.
	params, _ := json.Marshal(a.cfg.Params)
	o.Raw("params", params)
	return o.Close()
}

// Answer is what a run of an agent returns.
type Answer struct {
	// Text is the model's last text.
	Text string `json:"text"`
	// Output is the structured answer, when one was asked for: it matches the schema.
	Output json.RawMessage  `json:"output,omitempty"`
	Stop   model.StopReason `json:"stop"`
	Rounds int              `json:"rounds"`
	Usage  rouse.Usage      `json:"usage,omitzero"`
}

// input is the dependency that holds what a run was started with. It is asked
// for once; after that it is in the journal.
func input() run.DepKey[[]rouse.Part] { return run.DepKey[[]rouse.Part]{Name: "agent.input"} }

// Start begins a run with the user's parts as its message. opt.Thread continues
// a conversation. Nothing happens until the run is driven.
func (a *Agent) Start(ctx context.Context, opt run.Options, parts ...rouse.Part) (*run.Run[Answer], error) {
	if err := checkInput(parts); err != nil {
		return nil, err
	}
	opt.Agent = cmp.Or(opt.Agent, a.cfg.Name)
	opt.Deps = append(opt.Deps[:len(opt.Deps):len(opt.Deps)], run.Provide(input(), parts))
	return run.Start(ctx, a.Step(), State{}, opt)
}

func checkInput(parts []rouse.Part) error {
	for _, p := range parts {
		switch p.Type {
		case rouse.PartText, rouse.PartImage, rouse.PartFile:
		default:
			return &rouse.Error{Code: rouse.CodeInvalid, Op: "agent.start", Message: fmt.Sprintf("a user's message cannot hold a %q part", p.Type)}
		}
		if p.Type != rouse.PartText || p.Text != "" {
			return nil
		}
	}
	return &rouse.Error{Code: rouse.CodeInvalid, Op: "agent.start", Message: "the prompt is empty", Hint: "say what the agent is to do"}
}

// Resume continues a run of this agent; see run.Resume.
func (a *Agent) Resume(ctx context.Context, row run.Row, opt run.Options) (*run.Run[Answer], error) {
	return run.Resume(ctx, a.Step(), row, opt)
}

// Fork begins a new run that shares the past of another; see run.Fork.
func (a *Agent) Fork(ctx context.Context, row run.Row, at run.ForkAt, opt run.Options) (*run.Run[Answer], error) {
	return run.Fork(ctx, a.Step(), row, at, nil, opt)
}

// Verify replays a run of this agent; see run.Verify. It calls no model and no tool.
func (a *Agent) Verify(ctx context.Context, row run.Row, opt run.Options) (run.Report, error) {
	return run.Verify(ctx, a.Step(), row, opt)
}

// Step returns the agent as a step, to be called by another. Its State's Input
// is the message that it begins with.
func (a *Agent) Step() run.Step[State, Answer] { return step{a} }
