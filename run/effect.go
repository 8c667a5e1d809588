package run

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/internal/safecall"
)

// Draw is something that a step takes from the outside and that need not be kept
// when the process dies before the step commits: a model's answer, a reading.
type Draw struct {
	// Type and Class of the event that records it. Class defaults to fact.
	Type  rouse.EventType
	Class rouse.Class
	// Live takes it and returns what is recorded, one JSON object. It may emit deltas.
	Live func(ctx context.Context) (json.RawMessage, error)
	// Replay derives the same record from one that was made before, with all the
	// work that Live does after the outside has answered; a replay compares the
	// two. Nil means that the record is taken as it is.
	Replay func(ctx context.Context, recorded json.RawMessage) (json.RawMessage, error)
}

// Draw takes d, and returns what is recorded with this step's commit. An error of
// Live is recorded too, and returned.
func (s Services) Draw(ctx context.Context, d Draw) (json.RawMessage, error) {
	if d.Class == "" {
		d.Class = rouse.ClassFact
	}
	var raw json.RawMessage
	var err error
	if s.r.replay != nil {
		raw, err = s.r.replay.draw(ctx, s.f, d)
	} else {
		raw, err = call(ctx, "run.draw", d.Live)
		err, _ = doError(ctx, err)
	}
	if err != nil {
		s.f.record(failedDraw(s.f, d.Type, "", err), false)
		return nil, err
	}
	s.f.record(rouse.Event{Path: s.f.path, Class: d.Class, Type: d.Type, Data: raw}, false)
	return raw, nil
}

func failedDraw(f *frame, t rouse.EventType, key string, err error) rouse.Event {
	ev := newEvent(f, rouse.ClassDraw, rouse.EventDrawFailed, drawFailedData{Type: t, Error: errorData(asError(err))})
	ev.Key = key
	return ev
}

// call runs live with its panics caught and its result checked.
func call(ctx context.Context, op string, live func(context.Context) (json.RawMessage, error)) (raw json.RawMessage, err error) {
	err = safecall.Do(ctx, op, func(ctx context.Context) (err error) {
		raw, err = live(ctx)
		return err
	})
	if err == nil && (len(raw) == 0 || raw[0] != '{') {
		err = &rouse.Error{Code: rouse.CodeInternal, Op: op, Message: "what is recorded must be a JSON object"}
	}
	return raw, err
}

// Effect is something that a step does to the outside, or takes from it, and that
// must not happen again once it is known to have happened.
type Effect struct {
	// Key names it within this visit of the frame.
	Key string
	// Type and Class of the receipt's event. Class defaults to fact.
	Type  rouse.EventType
	Class rouse.Class
	// Intent, one JSON object, marks it as unsafe: it is committed, as an
	// EventToolIntent, before Live is called. An intent that has no receipt means
	// that Live may or may not have had its effect.
	Intent json.RawMessage
	// Last tells that nothing but the end of the step follows, so that the receipt
	// may be committed with it. Within Each it is implied.
	Last bool
	// Live does it and returns the receipt, one JSON object.
	Live func(ctx context.Context) (json.RawMessage, error)
}

// Effect does e at most once per visit of the frame and returns its receipt,
// which is committed as soon as it is known. When a receipt exists, Live is not
// called. When an intent exists without one, the error has the code CodeUncertain
// and Live is not called; the step then asks somebody, and what they decide is
// done at a later visit. An error of Live leaves no receipt. Safe for concurrent use while Each runs.
func (s Services) Effect(ctx context.Context, e Effect) (json.RawMessage, error) {
	if e.Key == "" || len(e.Key) > MaxKey {
		return nil, &rouse.Error{Code: rouse.CodeInvalid, Op: "run.effect", Message: fmt.Sprintf("the key of an effect has 1 to %d bytes", MaxKey)}
	}
	if e.Class == "" {
		e.Class = rouse.ClassFact
	}
	f, r := s.f, s.r
	if r.replay != nil {
		return r.replay.effect(f, e)
	}
	f.mu.Lock()
	raw, done := f.receipts[e.Key]
	doubt := f.intents[e.Key]
	f.mu.Unlock()
	if done {
		return raw, nil
	}
	if e.Intent != nil {
		if doubt {
			return nil, uncertain(e.Key)
		}
		if err := r.intend(ctx, f, e); err != nil {
			return nil, err
		}
	}
	raw, err := call(ctx, "run.effect", e.Live)
	if err, _ = doError(ctx, err); err != nil {
		f.record(failedDraw(f, e.Type, e.Key, err), false)
		return nil, err
	}
	ev := rouse.Event{Path: f.path, Class: e.Class, Type: e.Type, Key: e.Key, Data: raw, At: rouse.Stamp(r.opt.Clock.Now())}
	return raw, r.receive(ctx, f, ev, e.Last)
}

func uncertain(key string) error {
	return &rouse.Error{
		Code: rouse.CodeUncertain, Op: "run.effect",
		Message: "the call " + key + " was begun, and it is not known whether it took effect",
		Hint:    "decide whether to do it again, to supply its result, or to give up",
	}
}

func (r *runner) intend(ctx context.Context, f *frame, e Effect) error {
	ev := rouse.Event{Path: f.path, Class: rouse.ClassFact, Type: rouse.EventToolIntent, Key: e.Key, Data: e.Intent}
	if err := r.commit(ctx, []rouse.Event{ev}, ""); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.intents == nil {
		f.intents = map[string]bool{}
	}
	f.intents[e.Key] = true
	return nil
}

// receive keeps a receipt and has it committed: at once, or with the step itself
// when every other call of an Each has its receipt too and nothing but the step's
// end is left to do.
func (r *runner) receive(ctx context.Context, f *frame, ev rouse.Event, last bool) error {
	f.mu.Lock()
	if f.receipts == nil {
		f.receipts = map[string]json.RawMessage{}
	}
	f.receipts[ev.Key] = ev.Data
	es := f.each
	if es == nil && last {
		f.pending = append(f.pending, pendingEvent{ev: ev})
	}
	f.mu.Unlock()
	if es == nil && last {
		return nil
	}
	if es == nil {
		return r.commit(ctx, []rouse.Event{ev}, "")
	}
	return es.receive(ctx, r, ev)
}

// eachState gathers the receipts of calls that run at the same time.
type eachState struct {
	mu       sync.Mutex
	receipts []rouse.Event
	left     int // calls that have not returned
	received int // of those: calls that have a receipt
	flushing bool
}

// eachCall is one call of an Each; its context carries it.
type eachCall struct{ received bool }

type eachKey struct{}

func (es *eachState) receive(ctx context.Context, r *runner, ev rouse.Event) error {
	es.mu.Lock()
	es.receipts = append(es.receipts, ev)
	if c, ok := ctx.Value(eachKey{}).(*eachCall); ok && !c.received {
		c.received = true
		es.received++
	}
	if es.flushing || es.received >= es.left {
		es.mu.Unlock()
		return nil
	}
	es.flushing = true
	es.mu.Unlock()
	// Others may be about to finish: one commit for all of them.
	runtime.Gosched()
	es.mu.Lock()
	defer es.mu.Unlock()
	for len(es.receipts) > 0 && es.received < es.left {
		batch := es.receipts
		es.receipts = nil
		es.mu.Unlock()
		err := r.commit(ctx, batch, "")
		es.mu.Lock()
		if err != nil {
			return err
		}
	}
	es.flushing = false
	return nil
}

func (es *eachState) returned(c *eachCall) {
	es.mu.Lock()
	defer es.mu.Unlock()
	es.left--
	if c.received {
		es.received--
	}
}

// Each calls fn for 0 to n-1 on goroutines of its own, at most limit at once
// (zero means DefaultParallel), and returns when all have returned. Within fn,
// with the context it is given, the methods that say so are safe for concurrent
// use; an Effect is the last thing that fn does. The first error cancels the
// context of the others; the one with the lowest index is returned. A panic in fn
// is an error of that call.
func (s Services) Each(ctx context.Context, n, limit int, fn func(ctx context.Context, i int) error) error {
	if n <= 0 {
		return nil
	}
	if limit <= 0 {
		limit = DefaultParallel
	}
	f, r := s.f, s.r
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	es := &eachState{left: n}
	f.mu.Lock()
	f.each = es
	f.mu.Unlock()
	errs := make([]error, n)
	done := make(chan struct{})
	var next, running atomic.Int64
	workers := min(n, limit)
	running.Store(int64(workers))
	for range workers {
		go func() {
			defer func() { // also when user code ends its goroutine with runtime.Goexit
				if running.Add(-1) == 0 {
					close(done)
				}
			}()
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				c := &eachCall{}
				errs[i] = errGone
				errs[i] = safecall.Do(context.WithValue(ctx, eachKey{}, c), "call", func(ctx context.Context) error { return fn(ctx, i) })
				es.returned(c)
				if errs[i] != nil {
					cancel(errs[i])
				}
			}
		}()
	}
	r.pump(f, done)
	f.mu.Lock()
	f.each = nil
	for _, ev := range es.receipts {
		f.pending = append(f.pending, pendingEvent{ev: ev})
	}
	f.mu.Unlock()
	for i, err := range errs {
		if err == nil && i >= int(next.Load()) {
			err = errGone // nobody was left to call it
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// errGone is the error of a call that ended its goroutine.
var errGone = &rouse.Error{Code: rouse.CodeInternal, Op: "run.each", Message: "user code ended its goroutine"}

// now draws the time.
func (r *runner) now(f *frame) (time.Time, error) {
	t := rouse.Stamp(r.opt.Clock.Now())
	if r.replay != nil {
		var err error
		if t, err = r.replay.clock(f); err != nil {
			return t, err
		}
	}
	f.record(newEvent(f, rouse.ClassDraw, rouse.EventClock, clockData{t}), false)
	return t, nil
}

// emit hands a delta over: at once when nothing else of the run is in motion,
// else through the queue.
func (r *runner) emit(f *frame, ev rouse.Event) {
	if r.holding.Load() {
		// What a person reads is not kept from them: it is worth a commit.
		if shown := ev.Type == rouse.EventText || ev.Type == rouse.EventReasoning; shown && f.main && f.each == nil {
			r.letGo()
		} else if r.holdDelta(ev) {
			return
		}
	}
	if !f.main || f.each != nil {
		r.out.push(ev)
		return
	}
	r.out.direct(ev)
	if r.out.stopped || r.out.err != nil {
		r.halt(r.consumer(true))
	}
}
