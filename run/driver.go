package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/internal/safecall"
)

// errSuspended says that a branch waits for an answer. It never leaves the package.
var errSuspended = errors.New("run: suspended")

// drive advances f until it ends (nil), waits (errSuspended), or the run must be
// let go (any other error). A frame's own failure is not an error of drive: it is
// a fact, which the parent sees as an outcome. main tells that this is the
// consumer's goroutine.
//
//	           Do: continue
//	          ┌─────┐
//	spawn ──▶ ready ─┴──▶ done | failed
//	          ▲   │ Do: await ──▶ asking ── answer ──┐
//	          │   │ Do: call  ──▶ calling ─ all end ─┤
//	          └────────────────────────────────────-─┘
func (r *runner) drive(ctx context.Context, f *frame, main bool) error {
	f.main = main
	ctx, stop := r.wall(ctx, f)
	defer stop()
	for !f.ended() {
		if err := r.before(ctx, f); err != nil {
			return err
		}
		switch f.state {
		case frameAsking:
			if !r.takeDecisions(f) {
				return errSuspended
			}
			f.state = frameReady
		case frameCalling:
			if err := r.driveChildren(ctx, f); err != nil {
				return err
			}
			f.inbox, f.state = f.children, frameReady
		case frameReady:
			if err := r.step(ctx, f); err != nil {
				return err
			}
		}
		if main {
			r.out.drain()
		}
		if err := r.consumer(main); err != nil {
			r.halt(err)
		}
	}
	return nil
}

// consumer reports why whoever watches wants the run to stop.
func (r *runner) consumer(main bool) error {
	switch {
	case !main:
		return nil
	case r.out.err != nil:
		return &rouse.Error{Code: rouse.CodeInternal, Op: "run.sink", Message: "the sink failed", Err: r.out.err}
	case r.out.stopped:
		return ErrStopped
	}
	return nil
}

// wall bounds ctx by what is left of f's wall time.
func (r *runner) wall(ctx context.Context, f *frame) (context.Context, context.CancelFunc) {
	if f.budget.Wall <= 0 || r.replay != nil {
		return ctx, func() {}
	}
	r.mu.Lock()
	left := f.budget.Wall - r.active(f.since, r.opt.Clock.Now())
	r.mu.Unlock()
	return context.WithTimeoutCause(ctx, left, budgetError("wall", f.budget.Wall.String()))
}

// before ends f when the run is canceled or a budget is used up. Its error lets
// the run go.
func (r *runner) before(ctx context.Context, f *frame) error {
	if r.replay != nil {
		// Children had their say before their parent was ended.
		if how, ok := r.replay.endedOutside(f); ok && f.state != frameCalling {
			r.replay.skip(f)
			f.taken = how.Decided
			if how.Cut {
				r.charge(f, how.Spent.Add(Meter{Steps: 1}))
			}
			return r.fail(ctx, f, how.Error.Err(), *how)
		}
	} else if ctx.Err() != nil {
		if errors.Is(context.Cause(ctx), ErrDetach) {
			return ErrDetach
		}
		return r.fail(ctx, f, cancelError(ctx), failedData{Before: true})
	}
	if f.state != frameReady {
		return nil
	}
	if err := r.spend(f, Meter{Steps: 1}); err != nil {
		return r.fail(ctx, f, err, failedData{Before: true})
	}
	return nil
}

// step executes one Do and commits what it decided.
func (r *runner) step(ctx context.Context, f *frame) error {
	if r.replay != nil && r.replay.exhausted(f) {
		return errReplayEnd
	}
	f.reserved = 0
	var mv Move
	err := safecall.Do(ctx, "run.step", func(ctx context.Context) (err error) {
		mv, err = f.body.do(ctx, Services{r, f})
		return err
	})
	if fatal := r.broken(ctx, err); fatal != nil {
		return fatal
	}
	if err == nil {
		err = r.move(ctx, f, mv)
		if fatal := r.broken(ctx, err); fatal != nil {
			return fatal
		}
	}
	if err != nil {
		err, cut := doError(ctx, err)
		return r.fail(ctx, f, err, failedData{Cut: cut})
	}
	return nil
}

// broken returns the reason to let the run go: the journal failed, the replay
// diverged, or somebody detached while a Do failed for it.
func (r *runner) broken(ctx context.Context, err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fatal != nil {
		return r.fatal
	}
	if err != nil && ctx.Err() != nil && errors.Is(context.Cause(ctx), ErrDetach) {
		return ErrDetach
	}
	return nil
}

// doError is what a failed Do is recorded as; cut tells that it failed because
// ctx ended, and then the error says why that was.
func doError(ctx context.Context, err error) (e error, cut bool) {
	if err == nil || ctx.Err() == nil {
		return err, false
	}
	cause := context.Cause(ctx)
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, cause) || rouse.CodeOf(err) == rouse.CodeCanceled {
		return cancelError(ctx), true
	}
	return err, false
}

// move commits what a Do decided. An error that is not the journal's means that
// the move was not possible; then nothing was committed.
func (r *runner) move(ctx context.Context, f *frame, mv Move) error {
	next, data, err := r.prepare(ctx, f, mv)
	if err != nil {
		return err
	}
	delta, publish, err := r.prepareKeyed(ctx, f)
	if err != nil {
		return err
	}
	if f.scratch == nil {
		f.scratch = make([]rouse.Event, 0, 5)
	}
	events := f.take(f.scratch[:0], false)
	if delta != nil {
		events = append(events, newEvent(f, rouse.ClassDraw, rouse.EventState, stateData{delta}))
	}
	for i := range mv.asks {
		if r.isOpen(f, mv.asks[i].ID) {
			continue
		}
		events = append(events, newEvent(f, rouse.ClassFact, rouse.EventAsked, mv.asks[i]))
	}
	data.Spent, data.Decided = r.takeOwn(f), f.taken
	status := rouse.Status("")
	output := data.Output
	if f.parent == nil {
		data.Output = nil
	}
	events = append(events, newEvent(f, rouse.ClassDraw, rouse.EventStep, data))
	if f.parent == nil && mv.kind == moveComplete {
		status = rouse.StatusCompleted
		events = append(events, newEvent(f, rouse.ClassFact, rouse.EventRunFinished, FinishedData{Status: status, Output: output, Spent: r.spent(f)}))
	}
	if err := r.commitMove(ctx, events, status, mv.soft); err != nil {
		return err
	}
	if publish != nil {
		publish()
	}
	if status == rouse.StatusCompleted {
		r.result = data.result
	}
	f.body = next
	r.adopt(f, mv, data, output, events[len(events)-1].At)
	clear(events)
	f.scratch = events
	return nil
}

func (r *runner) commitMove(ctx context.Context, events []rouse.Event, status rouse.Status, soft bool) error {
	// A thread that exists may be busy: that must be known before anything is begun.
	known := r.fresh || r.rowNow().Revision > 0
	if soft && status == "" && r.canHold && known {
		r.hold(ctx, events)
		return nil
	}
	return r.commit(ctx, events, status)
}

// adopt makes a committed move the frame's own.
func (r *runner) adopt(f *frame, mv Move, data *stepData, output json.RawMessage, now time.Time) {
	f.at = mv.next
	if mv.kind != moveAwait {
		f.decisions = nil
	}
	f.inbox, f.children = nil, nil
	r.setAsks(f, mv.asks)
	switch mv.kind {
	case moveAwait:
		f.state = frameAsking
	case moveCall:
		f.state, f.join = frameCalling, mv.join
		for i, c := range mv.children {
			f.children = append(f.children, &frame{path: data.Children[i].Path, key: c.key, parent: f, budget: c.budget, body: c.body, last: now, since: now})
		}
	case moveComplete:
		f.state, f.output = frameDone, output
	default:
		f.state = frameReady
	}
	f.moved(now)
}

// prepare checks a move and computes what committing it will change.
func (r *runner) prepare(ctx context.Context, f *frame, mv Move) (next body, data *stepData, err error) {
	data = &stepData{Visit: f.visit, At: mv.next}
	err = safecall.Do(ctx, "run.step", func(context.Context) error {
		if mv.kind == moveNone {
			return moveError(f, "Do returned no move")
		}
		data.Move = mv.kind.String()
		if next, data.State, err = f.body.apply(mv.patch, mv.kind != moveComplete); err != nil {
			return err
		}
		switch mv.kind {
		case moveComplete:
			data.Output, data.result, err = next.output(mv.next)
		case moveAwait:
			data.Asks, err = prepareAsks(r, f, mv.asks)
		case moveCall:
			data.Join = &mv.join
			data.Children, err = prepareChildren(f, mv.children)
		}
		return err
	})
	return next, data, err
}

func moveError(f *frame, format string, args ...any) error {
	return &rouse.Error{Code: rouse.CodeInvalid, Op: "step " + f.body.stepInfo().ID, Message: fmt.Sprintf(format, args...)}
}

func prepareAsks(r *runner, f *frame, asks []Ask) ([]string, error) {
	if len(asks) == 0 {
		return nil, moveError(f, "Await without a question would wait for ever")
	}
	ids := make([]string, len(asks))
	for i := range asks {
		a := &asks[i]
		if a.ID == "" {
			a.ID = f.newID(r)
		}
		if a.Kind == "" {
			return nil, moveError(f, "a question has no kind")
		}
		if len(a.Payload) > 0 && !json.Valid(a.Payload) {
			return nil, moveError(f, "the payload of question %s is not JSON", a.ID)
		}
		if r.wasAnswered(f, a.ID) {
			return nil, moveError(f, "the question %s was answered already; a new question needs a new id", a.ID)
		}
		for _, id := range ids[:i] {
			if id == a.ID {
				return nil, moveError(f, "two questions have the id %s", id)
			}
		}
		ids[i] = a.ID
	}
	return ids, nil
}

func prepareChildren(f *frame, children []Child) ([]childData, error) {
	if len(children) == 0 {
		return nil, moveError(f, "Call without children")
	}
	declared := f.body.stepInfo().Children
	seen := map[string]bool{}
	out := make([]childData, len(children))
	for i, c := range children {
		switch {
		case c.err != nil:
			return nil, moveError(f, "the state of child %q cannot be written as JSON: %v", c.key, c.err)
		case c.key == "" || len(c.key) > MaxKey || strings.ContainsAny(c.key, "/~"):
			return nil, moveError(f, "the child key %q is not allowed: 1 to %d bytes without / and ~", c.key, MaxKey)
		case seen[c.key]:
			return nil, moveError(f, "two children have the key %q", c.key)
		case !isDeclared(declared, c.info.ID):
			return nil, moveError(f, "the step %q is not among the declared children of %q, so a resumed run could not find it", c.info.ID, f.body.stepInfo().ID)
		}
		seen[c.key] = true
		out[i] = childData{Key: c.key, Step: c.info.ID, Version: c.info.Version, State: c.state, Budget: c.budget}
	}
	for i := range out {
		out[i].Path = f.childPath(out[i].Key)
	}
	return out, nil
}

// MaxKey bounds the key of a child and of an effect, in bytes.
const MaxKey = 200

func isDeclared(steps []AnyStep, id string) bool {
	for _, s := range steps {
		if s.Info().ID == id {
			return true
		}
	}
	return false
}

func (r *runner) prepareKeyed(ctx context.Context, f *frame) (delta json.RawMessage, publish func(), err error) {
	if len(f.batches) == 0 {
		return nil, nil, nil
	}
	batches := f.batches
	f.batches = nil
	if r.opt.Keyed == nil {
		return nil, nil, moveError(f, "the step changes keyed state, but the run has none (Options.Keyed)")
	}
	err = safecall.Do(ctx, "run.keyed", func(context.Context) (err error) {
		delta, publish, err = r.opt.Keyed.Prepare(batches)
		if err == nil && !json.Valid(delta) {
			err = moveError(f, "the keyed state's delta is not JSON")
		}
		return err
	})
	return delta, publish, err
}

// fail ends f, and whatever is still open below it, with err. how says whether
// its Do was executed.
func (r *runner) fail(ctx context.Context, f *frame, err error, how failedData) error {
	e := asError(err)
	var events []rouse.Event
	var frames []*frame
	f.walk(func(c *frame) {
		if c == f || c.ended() {
			return
		}
		frames = append(frames, c)
		events = append(c.take(events, true), newEvent(c, rouse.ClassFact, rouse.EventStepFailed,
			failedData{Visit: c.visit, Before: true, Spent: r.takeOwn(c), Error: ErrorData{Code: rouse.CodeCanceled, Message: "the parent ended"}}))
	})
	events = f.take(events, true)
	f.batches = nil
	events = append(events, newEvent(f, rouse.ClassFact, rouse.EventStepFailed, failedData{Visit: f.visit, Before: how.Before, Cut: how.Cut, Decided: f.taken, Spent: r.takeOwn(f), Error: errorData(e)}))
	status := rouse.Status("")
	if f.parent == nil {
		status = rouse.StatusFailed
		if e.Code == rouse.CodeCanceled {
			status = rouse.StatusCanceled
		}
		d := errorData(e)
		events = append(events, newEvent(f, rouse.ClassFact, rouse.EventRunFinished, FinishedData{Status: status, Error: &d, Spent: r.spent(f)}))
	}
	if err := r.commit(ctx, events, status); err != nil {
		return err
	}
	for _, c := range frames {
		c.state, c.err = frameFailed, &rouse.Error{Code: rouse.CodeCanceled, Message: "the parent ended"}
		r.setAsks(c, nil)
	}
	f.state, f.err = frameFailed, e
	r.setAsks(f, nil)
	return nil
}

func (r *runner) noteFatal(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fatal == nil {
		r.fatal = err
	}
}

// driveChildren drives the children of f's last Call. It returns nil when all
// have ended and errSuspended when those that have not wait for answers.
func (r *runner) driveChildren(ctx context.Context, f *frame) error {
	kids := f.children
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for {
		var open []*frame
		for _, c := range kids {
			if !c.ended() && !(c.state == frameAsking && !r.hasDecisions(c) && ctx.Err() == nil) {
				open = append(open, c)
			}
		}
		if len(open) == 0 {
			break
		}
		err := r.driveAll(ctx, f, open, func(c *frame) {
			if f.join.FailFast && c.state == frameFailed {
				cancel(&rouse.Error{Code: rouse.CodeCanceled, Op: "run.call", Message: "the child " + c.key + " failed"})
			}
		})
		if err != nil && !errors.Is(err, errSuspended) {
			return err
		}
		if errors.Is(err, errSuspended) && !r.anyDecisions(open) && ctx.Err() == nil {
			return errSuspended
		}
	}
	for _, c := range kids {
		if !c.ended() {
			return errSuspended
		}
	}
	return nil
}

// driveAll drives frames at the same time, as many as the join allows.
func (r *runner) driveAll(ctx context.Context, f *frame, open []*frame, ended func(*frame)) error {
	if len(open) == 1 {
		err := r.drive(ctx, open[0], f.main)
		ended(open[0])
		return err
	}
	limit := f.join.Limit
	if limit <= 0 {
		limit = DefaultParallel
	}
	errs := make([]error, len(open))
	var wg sync.WaitGroup
	slots := make(chan struct{}, limit)
	done := make(chan struct{})
	for i, c := range open {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			errs[i] = r.drive(ctx, c, false)
			ended(c)
		})
	}
	go func() { wg.Wait(); close(done) }()
	r.pump(f, done)
	var suspended error
	for _, err := range errs {
		if errors.Is(err, errSuspended) {
			suspended = err
		} else if err != nil {
			return err
		}
	}
	return suspended
}

// pump waits for done; on the consumer's goroutine it hands over events meanwhile.
func (r *runner) pump(f *frame, done <-chan struct{}) {
	if !f.main {
		<-done
		return
	}
	for {
		select {
		case <-done:
			r.out.drain()
			return
		case <-r.out.wake:
			r.out.drain()
			if err := r.consumer(true); err != nil {
				r.halt(err)
			}
		}
	}
}
