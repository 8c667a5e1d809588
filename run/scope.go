package run

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/rouse-run/rouse"
)

// Scope is what one Do sees of its run. It is valid until that Do returns.
type Scope[S any] struct {
	Services
	committed *S
	snapshot  *S
}

// State returns a private copy of the frame's committed state. Every call in one
// Do returns the same copy.
func (sc *Scope[S]) State() S {
	if sc.snapshot == nil {
		s, err := clone(sc.committed)
		if err != nil {
			// What was committed came from JSON, so it can be copied through JSON;
			// a Clone method cannot fail.
			s = *sc.committed
		}
		sc.snapshot = &s
	}
	return *sc.snapshot
}

// Continue goes on at next. The patch, which may be nil, changes a private copy
// of the state that becomes the state once it is committed.
func (sc *Scope[S]) Continue(next Cursor, patch func(*S)) Move {
	return newMove(moveContinue, next, patch)
}

// Complete ends the frame; its output is Result(at, state after patch). What
// remains of the frame is its output: the state after patch is not stored.
func (sc *Scope[S]) Complete(at Cursor, patch func(*S)) Move {
	return newMove(moveComplete, at, patch)
}

// Await puts questions and releases everything until one of them is answered;
// then Do runs at next and finds the answers with Decision. Questions that stay
// open are named again in the next Await, by their ID; those that are not named
// are withdrawn.
func (sc *Scope[S]) Await(next Cursor, patch func(*S), asks ...Ask) Move {
	m := newMove(moveAwait, next, patch)
	m.asks = asks
	return m
}

// Call runs children and goes on at next when all have ended; Outputs has their results.
func (sc *Scope[S]) Call(next Cursor, patch func(*S), join Join, children ...Child) Move {
	m := newMove(moveCall, next, patch)
	m.join, m.children = join, children
	return m
}

func newMove[S any](k moveKind, next Cursor, patch func(*S)) Move {
	m := Move{kind: k, next: next}
	if patch != nil {
		m.patch = patch
	}
	return m
}

// Outputs returns how the children of the last Call ended, in the order in which
// they were given.
func Outputs[O, S any](sc *Scope[S]) ([]Outcome[O], error) {
	out := make([]Outcome[O], len(sc.f.inbox))
	for i, c := range sc.f.inbox {
		out[i].Key = c.key
		if c.err != nil {
			out[i].Err = c.err
			continue
		}
		if err := json.Unmarshal(c.output, &out[i].Value); err != nil {
			return nil, &rouse.Error{Code: rouse.CodeInvalid, Op: "run.outputs", Message: fmt.Sprintf("the output of child %q is no %T", c.key, out[i].Value), Err: err}
		}
	}
	return out, nil
}

// Services is the part of a scope that does not depend on the state's type: what
// a step, a node or a tool may ask of the kernel. Its methods are for the
// goroutine that runs Do, except where they say otherwise.
type Services struct {
	r *runner
	f *frame
}

// RunID returns the run's id.
func (s Services) RunID() string { return s.r.id }

// ThreadID returns the id of the run's thread.
func (s Services) ThreadID() string { return s.r.thread }

// Path returns the path of the frame, "/" for the root.
func (s Services) Path() string { return s.f.path }

// Visit counts the committed moves of the frame, from 0. It is the same when a
// Do is executed again.
func (s Services) Visit() int { return s.f.visit }

// At returns the cursor at which this Do begins.
func (s Services) At() Cursor { return s.f.at }

// Decision returns the answer to a question of the last Await.
func (s Services) Decision(ask string) (Decision, bool) {
	for _, d := range s.f.decisions {
		if d.Ask == ask {
			return d, true
		}
	}
	return Decision{}, false
}

// OpenAsks returns the questions that are not answered yet.
func (s Services) OpenAsks() []Ask { return append([]Ask(nil), s.f.asks...) }

// Now returns the time and records it, so that a replay sees the same.
func (s Services) Now() (time.Time, error) { return s.r.now(s.f) }

// NewID returns a UUIDv7 that is the same when this Do is executed again.
func (s Services) NewID() string { return s.f.newID(s.r) }

// Uint64 returns a random number that is the same when this Do is executed
// again. With it, Services is a rand.Source for math/rand/v2.
func (s Services) Uint64() uint64 { return s.f.source(s.r).Uint64() }

// Record adds a fact to this step's commit. data is one JSON object, which the
// kernel keeps. It is discarded when Do fails.
func (s Services) Record(t rouse.EventType, data json.RawMessage) {
	s.f.record(rouse.Event{Path: s.f.path, Class: rouse.ClassFact, Type: t, Data: data}, true)
}

// Emit streams a delta of this frame. It is never stored. Safe for concurrent
// use while Each runs.
func (s Services) Emit(t rouse.EventType, d rouse.Delta) {
	s.r.emit(s.f, rouse.Event{Thread: s.r.thread, Run: s.r.id, Path: s.f.path, Class: rouse.ClassDelta, Type: t, Delta: d})
}

// Held reports whether a soft move is still held back. Until it is committed,
// deltas other than text and reasoning wait behind it, and are handed over while
// Each runs or with the next text.
func (s Services) Held() bool { return s.r.holding.Load() }

// Spend reserves what is about to be used, from this frame's budget and those
// above it. The error has the code CodeBudget; then nothing was spent. Reserve
// for all calls of an Each before it, not within: which of several was refused
// would depend on their order.
func (s Services) Spend(m Meter) error { return s.r.reserve(s.f, m) }

// Charge adds what was used and is only known now. Safe for concurrent use.
func (s Services) Charge(m Meter) { s.r.charge(s.f, m) }

// Spent returns what this frame and those below it have used. Safe for concurrent use.
func (s Services) Spent() Meter { return s.r.spent(s.f) }

// Memo is a slot that lives as long as this frame does in this process: a step
// keeps what it can rebuild from the log there. It is empty after a resume.
func (s Services) Memo() *any { return &s.f.memo }

// Mutate adds a batch of keyed state to this step's commit. The batch is of the
// type that Options.Keyed works with.
func (s Services) Mutate(batch any) { s.f.batches = append(s.f.batches, batch) }

// Keyed returns the keyed state as of the last commit, nil without Options.Keyed.
func (s Services) Keyed() any {
	if s.r.opt.Keyed == nil {
		return nil
	}
	return s.r.opt.Keyed.Snapshot()
}

// Once executes fn the first time that this frame, at this visit, asks for key,
// and commits its result before it returns. A later execution of the same Do
// decodes that result into v instead. v is a pointer, or nil when there is no
// result. fn may run again when the process dies between its effect and the commit.
func (s Services) Once(ctx context.Context, key string, v any, fn func(ctx context.Context) (any, error)) error {
	raw, err := s.Effect(ctx, Effect{
		Key: "once:" + key, Type: rouse.EventOnce, Class: rouse.ClassDraw,
		Live: func(ctx context.Context) (json.RawMessage, error) {
			res, err := fn(ctx)
			if err != nil {
				return nil, err
			}
			return json.Marshal(struct {
				Value any `json:"value"`
			}{res})
		},
	})
	if err != nil || v == nil {
		return err
	}
	got := struct {
		Value any `json:"value"`
	}{v}
	if err := json.Unmarshal(raw, &got); err != nil {
		return &rouse.Error{Code: rouse.CodeCorrupt, Op: "run.once", Message: fmt.Sprintf("the recorded result of %q is no %T", key, v), Err: err}
	}
	return nil
}

// DepKey names a dependency: something that a run needs and cannot hold as data,
// such as a function, a provider or a secret.
type DepKey[T any] struct{ Name string }

// DepValue is a dependency with its key.
type DepValue struct {
	name string
	val  any
}

// Provide gives the dependency that Dep finds under key.
func Provide[T any](key DepKey[T], v T) DepValue { return DepValue{key.Name, v} }

// Dep returns the dependency that the run was started or resumed with. The error
// has the code CodeNotFound when there is none of that name and type.
func Dep[T any](s Services, key DepKey[T]) (T, error) {
	for _, d := range s.r.opt.Deps {
		if d.name == key.Name {
			if v, ok := d.val.(T); ok {
				return v, nil
			}
		}
	}
	var zero T
	return zero, &rouse.Error{
		Code: rouse.CodeNotFound, Op: "run.dep",
		Message: fmt.Sprintf("the run has no dependency %q of type %T", key.Name, zero),
		Hint:    "give it in Options.Deps when the run is started or resumed",
	}
}
