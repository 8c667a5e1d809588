package run

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/rouse-run/rouse"
)

// Cursor names a position within a step: the place where its next Do begins.
// The empty cursor is the beginning.
type Cursor string

// Step is a definition of work: an immutable value that is shared by every run
// of it. S is the state of one run, JSON in and out; O is what the run returns.
//
// Do makes one indivisible unit of progress from sc.At() and says what comes
// next. It may be executed again after a crash, from the same state, so whatever
// it does to the outside goes through the scope: Draw, Effect, Once. It changes
// the state only through the patch of the move it returns.
//
// Result is pure: it projects the committed state at the cursor that Complete named.
type Step[S, O any] interface {
	Info() Info
	Do(ctx context.Context, sc *Scope[S]) (Move, error)
	Result(at Cursor, s S) (O, error)
}

// Info describes a step.
type Info struct {
	// ID names the step in journals; it is the same in every process.
	ID string
	// Version changes when a run that began under the old definition could not
	// continue under the new one.
	Version string
	// Children are the steps that it may call. A resumed run finds them here.
	Children []AnyStep
	// Cursors are the positions it knows, for describing it.
	Cursors []Cursor
}

// AnyStep is a step whose types are forgotten.
type AnyStep struct {
	info func() Info
	load func(state json.RawMessage) (body, error)
}

// Erase forgets the types of step.
func Erase[S, O any](step Step[S, O]) AnyStep {
	return AnyStep{
		info: step.Info,
		load: func(state json.RawMessage) (body, error) {
			t := &typed[S, O]{step: step}
			if err := json.Unmarshal(state, &t.val); err != nil {
				return nil, &rouse.Error{Code: rouse.CodeCorrupt, Op: "run.load", Message: "the state of step " + step.Info().ID + " cannot be read", Err: err}
			}
			return t, nil
		},
	}
}

// Info returns the step's description.
func (a AnyStep) Info() Info { return a.info() }

type moveKind uint8

const (
	moveNone moveKind = iota
	moveContinue
	moveComplete
	moveAwait
	moveCall
)

func (k moveKind) String() string {
	return [...]string{"", "continue", "complete", "await", "call"}[k]
}

// Move is what a Do decided. The zero Move is not valid; make one with Continue,
// Complete, Await or Call.
type Move struct {
	kind     moveKind
	next     Cursor
	patch    any // func(*S) or nil
	asks     []Ask
	children []Child
	join     Join
	soft     bool
}

// Soft returns the move with less haste: its commit may wait for the next one of
// the run, for at most HoldTime, while the next Do begins already. It is for a
// Do whose successor changes nothing outside until it commits something itself:
// when the process dies in between, this Do is executed again. The first move of a
// run in a thread that exists is never soft.
func (m Move) Soft() Move {
	m.soft = true
	return m
}

// Ask is a question to somebody outside: a person, or a program that stands for one.
type Ask struct {
	// ID names the question within the run; empty means that the kernel makes one.
	ID string `json:"id"`
	// Kind tells the asker's code what to show, for example "permission".
	Kind string `json:"kind"`
	// Payload is whatever the kind needs.
	Payload json.RawMessage `json:"payload,omitempty"`
	// Expires is when the question is void; zero means never. A later decision is refused.
	Expires time.Time `json:"expires,omitzero"`
}

// Decision answers an Ask.
type Decision struct {
	Ask   string          `json:"ask"`
	By    string          `json:"by,omitempty"` // who decided
	Value json.RawMessage `json:"value"`
}

// Child is a frame to be: a step with its first state, under a key of the caller's.
type Child struct {
	key    string
	budget Budget
	info   Info
	body   body
	state  json.RawMessage
	err    error
}

// Spawn prepares a child. The key is unique among the children of one Call; a
// resumed run finds a child by it, so it must not depend on chance. A zero budget
// means no limit beyond the caller's own, which always holds too.
func Spawn[S, O any](key string, step Step[S, O], init S, budget Budget) Child {
	t := &typed[S, O]{step: step, val: init}
	c := Child{key: key, budget: budget, info: step.Info(), body: t}
	c.state, c.err = encodeState(&t.val)
	return c
}

// Join says how children run together.
type Join struct {
	// Limit is how many run at once. Zero means DefaultParallel.
	Limit int `json:"limit,omitempty"`
	// FailFast cancels the others when one fails.
	FailFast bool `json:"fail_fast,omitempty"`
}

// Outcome is how a child ended.
type Outcome[O any] struct {
	Key   string
	Value O
	Err   error
}

// body is a frame's step together with its typed state. Its methods other than
// apply and load do not change it.
type body interface {
	stepInfo() Info
	do(ctx context.Context, sv Services) (Move, error)
	// apply returns the body after patch, and with encode its state, nil when it
	// did not change.
	apply(patch any, encode bool) (body, json.RawMessage, error)
	output(at Cursor) (json.RawMessage, any, error)
}

type typed[S, O any] struct {
	step Step[S, O]
	val  S
}

func (t *typed[S, O]) stepInfo() Info { return t.step.Info() }

func (t *typed[S, O]) do(ctx context.Context, sv Services) (Move, error) {
	return t.step.Do(ctx, &Scope[S]{Services: sv, committed: &t.val})
}

// appender is a state that writes its own JSON: the same as encoding/json would,
// but cheaper. It is not asked for anything else.
type appender interface{ AppendJSON(b []byte) []byte }

func (t *typed[S, O]) apply(patch any, encode bool) (body, json.RawMessage, error) {
	fn, _ := patch.(func(*S))
	if fn == nil {
		return t, nil, nil
	}
	next := &typed[S, O]{step: t.step}
	var err error
	if next.val, err = clone(&t.val); err != nil {
		return nil, nil, err
	}
	fn(&next.val)
	if !encode {
		return next, nil, nil
	}
	raw, err := encodeState(&next.val)
	return next, raw, err
}

func encodeState[S any](s *S) (json.RawMessage, error) {
	if a, ok := any(s).(appender); ok {
		return a.AppendJSON(make([]byte, 0, 128)), nil
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, &rouse.Error{Code: rouse.CodeInvalid, Op: "run.state", Message: fmt.Sprintf("the state %T cannot be written as JSON", *s), Err: err}
	}
	return raw, nil
}

func (t *typed[S, O]) output(at Cursor) (json.RawMessage, any, error) {
	out, err := t.step.Result(at, t.val)
	if err != nil {
		return nil, nil, err
	}
	raw, err := json.Marshal(out)
	if err != nil {
		return nil, nil, &rouse.Error{Code: rouse.CodeInvalid, Op: "run.commit", Message: fmt.Sprintf("the result %T cannot be written as JSON", out), Err: err}
	}
	return raw, out, nil
}

// clone copies a state: through its own Clone method when it has one, else
// through JSON, so that a copy shares no memory with the original.
func clone[S any](s *S) (out S, err error) {
	if c, ok := any(s).(interface{ Clone() S }); ok {
		return c.Clone(), nil
	}
	raw, err := json.Marshal(s)
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil {
		return out, &rouse.Error{Code: rouse.CodeInvalid, Op: "run.state", Message: fmt.Sprintf("the state %T cannot be copied through JSON", *s), Err: err}
	}
	return out, nil
}
