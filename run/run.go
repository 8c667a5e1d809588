package run

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"math/rand/v2"

	"github.com/rouse-run/rouse"
)

// Options say how a run is driven. The zero value is a run in memory without limits
// but DefaultSteps.
type Options struct {
	// Journal keeps what happens. Nil means a Memory of the run's own.
	Journal Journal
	// Thread is the conversation that the run belongs to; empty makes a new one.
	Thread string
	// ID is the run's id; empty makes one.
	ID string
	// Agent and Title describe the run in listings.
	Agent string
	Title string
	// Meta is stored with the first event: whatever is needed to build the same
	// step again, as one JSON value.
	Meta json.RawMessage
	// Budget limits the run.
	Budget Budget
	// Owner names this process to the journal.
	Owner string
	// Deps are the dependencies that steps ask for with Dep.
	Deps []DepValue
	// Keyed is the run's keyed state, nil for none.
	Keyed Keyed
	// Observers watch without slowing the run; Sink receives every event in order.
	Observers []Observer
	Sink      Sink
	// AnyVersion lets a run continue although the version of a step has changed.
	AnyVersion bool

	// Clock, IDs and Rand default to the system's.
	Clock rouse.Clock
	IDs   rouse.IDs
	Rand  rand.Source
}

// Keyed is the kernel's view of typed state that many steps share; package state
// implements it. Its methods are called by one goroutine at a time.
type Keyed interface {
	// Snapshot returns the immutable current state.
	Snapshot() any
	// Prepare merges batches, all or nothing. delta describes the change as one
	// JSON value; publish makes it current after delta was committed.
	Prepare(batches []any) (delta json.RawMessage, publish func(), err error)
	// Load applies a delta that was committed before.
	Load(delta json.RawMessage) error
}

func (o Options) withDefaults() Options {
	if o.Journal == nil {
		o.Journal = NewMemory()
	}
	if o.Clock == nil {
		o.Clock = rouse.SystemClock{}
	}
	if o.Rand == nil {
		o.Rand = rouse.SystemRand{}
	}
	if o.IDs == nil {
		o.IDs = rouse.NewIDs(o.Clock, o.Rand)
	}
	if o.Budget.Steps == 0 {
		o.Budget.Steps = DefaultSteps
	}
	return o
}

// The causes with which a driven run is stopped; see Run.Cancel and Events.
var (
	// ErrDetach lets a run go without ending it: it stops at its last commit and
	// whoever resumes it continues from there.
	ErrDetach = errors.New("run: detached")
	// ErrStopped is the cause of a cancellation by a consumer that broke off.
	ErrStopped = errors.New("run: the consumer stopped")
	// ErrCanceled is the cause of a cancellation without a better one.
	ErrCanceled = errors.New("run: canceled")
)

// WaitingError is what Wait returns for a run that waits for answers.
type WaitingError struct {
	Run  string
	Asks []Ask
}

func (e *WaitingError) Error() string {
	return "run " + e.Run + " waits for an answer"
}

// Run is one run in this process: a handle to drive it, ask and answer.
//
// Nothing happens until Events or Wait drives it, on the caller's goroutine; one
// of them at a time. Asks, Answer, Cancel and Checkpoint are safe for concurrent use.
type Run[O any] struct{ r *runner }

// Start begins a run of step with the state init. Nothing is written or executed
// before it is driven.
func Start[S, O any](ctx context.Context, step Step[S, O], init S, opt Options) (*Run[O], error) {
	c := Spawn("root", step, init, opt.Budget)
	if c.err != nil {
		return nil, &rouse.Error{Code: rouse.CodeInvalid, Op: "run.start", Message: "the state cannot be written as JSON", Err: c.err}
	}
	r, err := newRunner(ctx, c, opt)
	if err != nil {
		return nil, err
	}
	return &Run[O]{r}, nil
}

// ID returns the run's id.
func (r *Run[O]) ID() string { return r.r.id }

// Thread returns the id of the run's thread.
func (r *Run[O]) Thread() string { return r.r.thread }

// Status returns where the run stands, as of its last commit.
func (r *Run[O]) Status() rouse.Status { return r.r.rowNow().Status }

// Spent returns what the run has used so far.
func (r *Run[O]) Spent() Meter { return r.r.spent(r.r.root) }

// Events drives the run and yields what happens, in order, until it ends, waits
// or is let go. The last event always is one for which rouse.Event.Ends holds;
// its error is nil unless it is rouse.EventRunInterrupted.
//
// When the consumer breaks off, the run is canceled. When ctx ends, it is
// canceled too, unless the cause is ErrDetach. A run that waits can be driven
// again after an Answer.
func (r *Run[O]) Events(ctx context.Context) iter.Seq2[rouse.Event, error] {
	return func(yield func(rouse.Event, error) bool) { r.r.events(ctx, yield) }
}

// Wait drives the run if need be and returns its output. The error of a run that
// waits is a *WaitingError, that of a failed or canceled one a *rouse.Error.
func (r *Run[O]) Wait(ctx context.Context) (out O, err error) {
	end, err := r.r.wait(ctx)
	if err != nil {
		return out, err
	}
	if v, ok := r.r.result.(O); ok {
		return v, nil
	}
	var fin FinishedData
	if err := end.Decode(&fin); err != nil {
		return out, err
	}
	if fin.Status != rouse.StatusCompleted {
		if cause := r.r.root.err; cause != nil {
			return out, cause
		}
		return out, fin.Error.Err()
	}
	if err := json.Unmarshal(fin.Output, &out); err != nil {
		return out, &rouse.Error{Code: rouse.CodeCorrupt, Op: "run.wait", Message: "the output of the run cannot be read", Err: err}
	}
	return out, nil
}

// Asks returns the open questions, in the order in which they were put.
func (r *Run[O]) Asks() []Ask { return r.r.openAsks() }

// Answer decides an open question, durably. The run goes on when it is driven
// again. Errors: CodeNotFound when there is no such question, CodeConflict when
// it is answered, withdrawn or expired.
func (r *Run[O]) Answer(ctx context.Context, d Decision) error { return r.r.answer(ctx, d) }

// Cancel asks the run to end as canceled, or to be let go when cause is
// ErrDetach. It returns at once; Events or Wait tells when it has ended. Nil
// means ErrCanceled.
func (r *Run[O]) Cancel(cause error) {
	if cause == nil {
		cause = ErrCanceled
	}
	r.r.cancel(cause)
}
