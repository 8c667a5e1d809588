package tool

import (
	"context"

	"github.com/rouse-run/rouse"
)

// Gate decides whether a call may run, between the model's choice and the
// execution. It is asked for every call, is pure (it changes nothing and may be
// asked again), and is safe for concurrent use. A gate that fails denies.
type Gate interface {
	Check(ctx context.Context, c rouse.ToolCall, s Spec) (Verdict, error)
}

// Action is what a gate decides.
type Action string

// The actions. The zero value denies: a verdict that nobody filled in lets
// nothing run.
const (
	Deny  Action = ""
	Ask   Action = "ask"   // a person decides; the run waits for them
	Allow Action = "allow" // the call runs
)

// Verdict is a gate's decision about one call.
type Verdict struct {
	Action Action
	// Reason is told to the model when the call is denied, and to the person who is asked.
	Reason string
}

// GateFunc is a Gate made of a function.
type GateFunc func(ctx context.Context, c rouse.ToolCall, s Spec) (Verdict, error)

// Check implements Gate.
func (f GateFunc) Check(ctx context.Context, c rouse.ToolCall, s Spec) (Verdict, error) {
	return f(ctx, c, s)
}

// AskUnlessReadOnly lets ReadOnly calls run and asks about every other. It is
// what an agent without a gate has.
func AskUnlessReadOnly(_ context.Context, _ rouse.ToolCall, s Spec) (Verdict, error) {
	if s.Effect == ReadOnly {
		return Verdict{Action: Allow}, nil
	}
	return Verdict{Action: Ask, Reason: "the tool " + s.Name + " can change something"}, nil
}

// AllowAll lets every call run. It is for tests, and for tools that are harmless by themselves.
func AllowAll(context.Context, rouse.ToolCall, Spec) (Verdict, error) {
	return Verdict{Action: Allow}, nil
}
