package run

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rouse-run/rouse"
)

// runner drives one run. Its parts and the locks that guard them:
//
//   - frames belong to the goroutine that drives them (frame.go);
//   - mu guards the row, the meters, the questions and the cancellation;
//   - writing lets one commit through at a time (commit.go);
//   - answerMu makes an answer and the decision to wait exclude each other.
type runner struct {
	id, thread string
	opt        Options
	seed       uint64
	root       *frame
	out        *outlet
	replay     *replayer // nil when live
	driving    atomic.Bool

	result any // the root's typed output, when it completed in this process

	mu       sync.Mutex
	row      Row
	claim    bool // the next commit takes the run over
	prelude  []rouse.Event
	fatal    error // the journal failed: nothing more can be written
	stop     context.CancelCauseFunc
	stopping error // cancel came before a drive
	asks     []*openAsk
	end      *rouse.Event // the last event that ended a stream
	waits    []interval   // when the run waited for answers
	until    int64        // History ends here; 0: at the end of the thread
	base     int64        // of run.started, when the run was rebuilt from the journal
	fresh    bool         // the thread begins with this run: it has no history

	canHold    bool // the journal is slow enough for soft moves to matter
	groupMu    sync.Mutex
	group      *group
	holding    atomic.Bool // deltas must wait behind what is held
	held       []rouse.Event
	heldDeltas []heldDelta
	flushing   sync.WaitGroup
	timer      *time.Timer
	unhold     func() error
	writing    chan struct{} // holds a token while a commit is being written
	batch      Batch         // guarded by writing
	sum        summer        // guarded by writing
	answerMu   sync.Mutex
}

type interval struct{ from, to time.Time }

// openAsk is a question that was put, with its answer once there is one.
type openAsk struct {
	ask      Ask
	f        *frame
	decision *Decision // set by answer
	taken    bool      // the frame has been given the answer
	closed   bool      // taken or withdrawn
}

func newRunner(ctx context.Context, c Child, opt Options) (*runner, error) {
	opt = opt.withDefaults()
	r := &runner{id: opt.ID, thread: opt.Thread, opt: opt, seed: opt.Rand.Uint64(), out: newOutlet(), writing: make(chan struct{}, 1)}
	if r.id == "" {
		r.id = opt.IDs.NewID()
	}
	if r.thread == "" {
		r.thread = opt.IDs.NewID()
		r.fresh = true
	}
	if ctx.Err() != nil {
		return nil, cancelError(ctx)
	}
	if len(opt.Meta) > 0 && !json.Valid(opt.Meta) {
		return nil, &rouse.Error{Code: rouse.CodeInvalid, Op: "run.start", Message: "Options.Meta is not JSON"}
	}
	began := rouse.Stamp(opt.Clock.Now())
	r.row = Row{Thread: r.thread, Run: r.id, Epoch: 1, Status: rouse.StatusRunning}
	r.root = &frame{path: "/", key: c.key, budget: opt.Budget, body: c.body, last: began, since: began}
	started := newEvent(r.root, rouse.ClassFact, rouse.EventRunStarted, startedData{Step: c.info.ID, Version: c.info.Version, State: c.state, Seed: r.seed, Budget: opt.Budget, Meta: opt.Meta})
	started.At = began
	r.prelude = []rouse.Event{started}
	return r, nil
}

func (r *runner) rowNow() Row {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.row
}

// events drives the run on the caller's goroutine.
func (r *runner) events(ctx context.Context, yield func(rouse.Event, error) bool) {
	if !r.driving.CompareAndSwap(false, true) {
		yield(rouse.Event{}, &rouse.Error{Code: rouse.CodeBusy, Op: "run.events", Message: "the run is being driven already"})
		return
	}
	defer r.driving.Store(false)
	end, err := r.settle(ctx, yield)
	if p := r.out.panicked; p != nil {
		r.out.panicked = nil
		panic(p.Value) //nolint:forbidigo // it is the consumer's own, on its way through the range
	}
	if yield != nil && !r.out.stopped {
		yield(end, err)
	}
}

// wait drives the run without a consumer and returns its run.finished event.
func (r *runner) wait(ctx context.Context) (rouse.Event, error) {
	if !r.driving.CompareAndSwap(false, true) {
		return rouse.Event{}, &rouse.Error{Code: rouse.CodeBusy, Op: "run.wait", Message: "the run is being driven already"}
	}
	defer r.driving.Store(false)
	end, err := r.settle(ctx, nil)
	if err == nil && end.Type == rouse.EventRunWaiting {
		err = &WaitingError{Run: r.id, Asks: r.openAsks()}
	}
	return end, err
}

// settle drives until the run ends, waits or must be let go, and returns the
// event that ends the stream.
func (r *runner) settle(ctx context.Context, yield func(rouse.Event, error) bool) (rouse.Event, error) {
	if end := r.finished(); end != nil {
		return *end, nil
	}
	dctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r.mu.Lock()
	r.stop = cancel
	if r.stopping != nil {
		cancel(r.stopping)
	}
	r.mu.Unlock()
	_, memory := r.opt.Journal.(*Memory)
	r.canHold = !memory && r.replay == nil
	o := r.out
	o.open(dctx, yield, &r.opt)
	defer o.close() // also when the consumer ends its goroutine
	err := r.driveRoot(dctx)
	if ferr := r.release(dctx); err == nil || errors.Is(err, ErrDetach) && ferr != nil {
		err = ferr
	}
	if err != nil {
		o.push(r.interrupted(err))
	}
	o.drain()
	o.close()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stop, r.stopping = nil, nil
	if err != nil {
		return r.interrupted(err), err
	}
	return *r.end, nil
}

// driveRoot drives the root frame until it ends or every open branch waits.
func (r *runner) driveRoot(ctx context.Context) error {
	for {
		err := r.drive(ctx, r.root, true)
		if err == nil || !errors.Is(err, errSuspended) {
			return err
		}
		again, err := r.suspend(ctx)
		if err != nil || !again {
			return err
		}
	}
}

// suspend commits that the run waits, unless an answer came in the meantime.
func (r *runner) suspend(ctx context.Context) (again bool, err error) {
	r.answerMu.Lock()
	defer r.answerMu.Unlock()
	r.mu.Lock()
	var ids []string
	for _, a := range r.asks {
		again = again || a.decision != nil && !a.closed
		if a.decision == nil && !a.closed {
			ids = append(ids, a.ask.ID)
		}
	}
	idle := r.row.Status == rouse.StatusWaiting && r.end != nil
	r.mu.Unlock()
	if again || idle {
		return again, nil
	}
	slices.Sort(ids) // branches put them in no order
	return false, r.commit(ctx, []rouse.Event{newEvent(r.root, rouse.ClassFact, rouse.EventRunWaiting, WaitingData{Asks: ids})}, rouse.StatusWaiting)
}

func (r *runner) finished() *rouse.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.end != nil && r.end.Type == rouse.EventRunFinished {
		return r.end
	}
	return nil
}

func (r *runner) interrupted(err error) rouse.Event {
	e := asError(err)
	return rouse.Event{
		Thread: r.thread, Run: r.id, Path: "/", Class: rouse.ClassDelta, Type: rouse.EventRunInterrupted,
		Delta: rouse.Delta{Text: e.Message, Name: string(e.Code)},
	}
}

func (r *runner) cancel(cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stop != nil {
		r.stop(cause)
	} else {
		r.stopping = cause
	}
}

// halt stops the drive because the consumer or the sink wants no more.
func (r *runner) halt(cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stop != nil {
		r.stop(cause)
	}
}

func (r *runner) openAsks() []Ask {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []Ask
	for _, a := range r.asks {
		if a.decision == nil && !a.closed {
			out = append(out, a.ask)
		}
	}
	return out
}

func (r *runner) answer(ctx context.Context, d Decision) error {
	r.answerMu.Lock()
	defer r.answerMu.Unlock()
	fail := func(c rouse.Code, msg string) error {
		return &rouse.Error{Code: c, Op: "run.answer", Message: msg}
	}
	if !json.Valid(d.Value) {
		return fail(rouse.CodeInvalid, "the decision's value is not JSON")
	}
	r.mu.Lock()
	var a *openAsk
	for _, o := range r.asks {
		if o.ask.ID == d.Ask {
			a = o
		}
	}
	r.mu.Unlock()
	switch {
	case a == nil:
		return fail(rouse.CodeNotFound, "the run has no question "+d.Ask)
	case a.closed || a.decision != nil:
		return fail(rouse.CodeConflict, "the question "+d.Ask+" is answered or withdrawn")
	case !a.ask.Expires.IsZero() && !r.opt.Clock.Now().Before(a.ask.Expires):
		return fail(rouse.CodeConflict, "the question "+d.Ask+" has expired")
	}
	ev := newEvent(a.f, rouse.ClassFact, rouse.EventAnswered, d)
	if err := r.commit(ctx, []rouse.Event{ev}, rouse.StatusRunning); err != nil {
		return err
	}
	r.mu.Lock()
	a.decision = &d
	r.mu.Unlock()
	return nil
}

// active is how long the run has run since from, without the time it waited.
func (r *runner) active(from, now time.Time) time.Duration {
	d := now.Sub(from)
	for _, w := range r.waits {
		if w.from.Before(from) {
			w.from = from
		}
		if w.to.IsZero() {
			w.to = now
		}
		if w.to.After(w.from) {
			d -= w.to.Sub(w.from)
		}
	}
	return d
}

// spend, charge and spent keep the meters of f and of every frame above it.
func (r *runner) spend(f *frame, m Meter) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.replay == nil { // a replay is told what was refused
		for p := f; p != nil; p = p.parent {
			if err := p.budget.over(p.used, m); err != nil {
				return err
			}
		}
	}
	add(f, m)
	f.own = f.own.Add(m)
	return nil
}

// reserve is spend for a step: that it was refused is recorded, since in a tree
// of frames it depends on what the others have spent in the meantime.
func (r *runner) reserve(f *frame, m Meter) error {
	f.mu.Lock()
	f.reserved++
	n := f.reserved
	f.mu.Unlock()
	var err error
	if r.replay != nil {
		err = r.replay.refused(f, n)
	}
	if err == nil {
		err = r.spend(f, m)
	}
	if err != nil {
		f.record(newEvent(f, rouse.ClassDraw, rouse.EventDrawFailed, drawFailedData{Type: spendType, N: n, Error: errorData(asError(err))}), false)
	}
	return err
}

// spendType stands for Spend in a draw that failed.
const spendType rouse.EventType = "spend"

func (r *runner) charge(f *frame, m Meter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	add(f, m)
	f.own = f.own.Add(m)
}

func (r *runner) spent(f *frame) Meter {
	r.mu.Lock()
	defer r.mu.Unlock()
	return f.used
}

func add(f *frame, m Meter) {
	for p := f; p != nil; p = p.parent {
		p.used = p.used.Add(m)
	}
}

func (r *runner) takeOwn(f *frame) *Meter {
	r.mu.Lock()
	defer r.mu.Unlock()
	own := f.own
	own.Steps = 0 // one per move, which is implied
	f.own = Meter{}
	if own == (Meter{}) {
		return nil
	}
	return &own
}

// asError makes any error one that can be stored.
func asError(err error) *rouse.Error {
	var e *rouse.Error
	if errors.As(err, &e) {
		return e
	}
	return &rouse.Error{Code: rouse.CodeInternal, Message: err.Error(), Err: err}
}

// cancelError says why ctx ended.
func cancelError(ctx context.Context) *rouse.Error {
	cause := context.Cause(ctx)
	var e *rouse.Error
	if errors.As(cause, &e) {
		return e
	}
	msg := "the run was canceled"
	if errors.Is(cause, context.DeadlineExceeded) {
		msg = "the run was canceled: its time was up"
	}
	return &rouse.Error{Code: rouse.CodeCanceled, Op: "run", Message: msg, Err: cause}
}
