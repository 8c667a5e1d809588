package run

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/internal/safecall"
)

// Observer watches a run without ever slowing it: it has a queue of its own, and
// events that do not fit are lost. After a loss it gets an event of type
// EventObserverLost whose Delta.Index says how many.
type Observer interface{ Observe(ev rouse.Event) }

// EventObserverLost is the delta that tells an Observer how many events it missed.
const EventObserverLost rouse.EventType = "observer.lost"

// ObserverQueue is how many events wait for one slow Observer; ObserverGrace is
// how long the end of a run waits for it to catch up.
const (
	ObserverQueue = 1024
	ObserverGrace = time.Second
)

// Sink receives every event in order; the run waits for it. Its error ends the
// run as failed.
type Sink interface {
	Deliver(ctx context.Context, ev rouse.Event) error
}

// outlet carries events from whatever goroutine made them to the one that ranges
// over Events, where sink and consumer are called.
type outlet struct {
	mu    sync.Mutex
	queue []rouse.Event
	wake  chan struct{} // holds one token while queue may be non-empty

	// For the consumer's goroutine only:
	ctx       context.Context
	yield     func(rouse.Event, error) bool // nil: nobody ranges
	sink      Sink
	observers []*watcher
	stopped   bool            // the consumer broke off
	panicked  *safecall.Panic // of the consumer's loop body, to be raised again
	current   rouse.Event     // what the body is called with
	body      func(context.Context) error
	err       error // the sink's
	spare     []rouse.Event
}

// keepQueue is how many places a drained queue keeps.
const keepQueue = 8

func newOutlet() *outlet {
	return &outlet{queue: make([]rouse.Event, 0, 4), wake: make(chan struct{}, 1)}
}

// push queues events; safe for concurrent use.
func (o *outlet) push(evs ...rouse.Event) { o.pushMixed(evs, nil) }

// pushMixed queues events with deltas between them; safe for concurrent use.
func (o *outlet) pushMixed(events []rouse.Event, deltas []heldDelta) {
	if len(events)+len(deltas) == 0 {
		return
	}
	o.mu.Lock()
	o.queue = slices.Grow(o.queue, len(events)+len(deltas))
	from := 0
	for _, d := range deltas {
		o.queue = append(append(o.queue, events[from:d.after]...), d.ev)
		from = d.after
	}
	o.queue = append(o.queue, events[from:]...)
	o.mu.Unlock()
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// direct hands one event to the consumer at once, behind those that are queued.
func (o *outlet) direct(ev rouse.Event) {
	o.drain()
	o.hand(ev)
}

// drain hands over what is queued. Only for the consumer's goroutine.
func (o *outlet) drain() {
	for {
		o.mu.Lock()
		batch := o.queue
		if len(batch) == 0 {
			o.mu.Unlock()
			return
		}
		o.queue = o.spare[:0]
		o.mu.Unlock()
		for i := range batch {
			o.hand(batch[i])
		}
		clear(batch)
		if o.spare = batch; cap(batch) > keepQueue {
			o.spare = nil // a run in flight is not to hold memory for a rush that is over
		}
	}
}

func (o *outlet) hand(ev rouse.Event) {
	for _, w := range o.observers {
		w.offer(ev)
	}
	if o.sink != nil && o.err == nil {
		o.err = safecall.Do(o.ctx, "run.sink", func(ctx context.Context) error { return o.sink.Deliver(ctx, ev) })
	}
	// The end of the stream is yielded by Events itself, after everything is settled.
	if o.yield != nil && !o.stopped && !ev.Ends() {
		o.consume(ev)
	}
}

// consume calls the consumer's loop body. Its panic ends the run like a break,
// and goes on its way when the run has settled.
func (o *outlet) consume(ev rouse.Event) {
	o.stopped = true // also when the body ends its goroutine
	o.current = ev
	if err := safecall.Do(o.ctx, "run.events", o.body); err != nil {
		errors.As(err, &o.panicked)
	}
}

// open gets the outlet ready for a drive.
func (o *outlet) open(ctx context.Context, yield func(rouse.Event, error) bool, opt *Options) {
	o.ctx, o.yield, o.sink, o.stopped, o.err = ctx, yield, opt.Sink, false, nil
	o.body = func(context.Context) error {
		o.stopped = !o.yield(o.current, nil)
		return nil
	}
	for _, obs := range opt.Observers {
		o.observers = append(o.observers, watch(context.WithoutCancel(ctx), obs))
	}
}

// close ends what open began. Closing again changes nothing.
func (o *outlet) close() {
	for _, w := range o.observers {
		w.close()
	}
	o.observers, o.yield = nil, nil
}

// watcher feeds one Observer from a bounded queue.
type watcher struct {
	obs  Observer
	ch   chan rouse.Event
	done chan struct{}
	lost int
}

func watch(ctx context.Context, obs Observer) *watcher {
	w := &watcher{obs: obs, ch: make(chan rouse.Event, ObserverQueue), done: make(chan struct{})}
	go func() {
		defer close(w.done)
		for ev := range w.ch {
			// A panicking observer loses that event and nothing else.
			_ = safecall.Do(ctx, "run.observe", func(context.Context) error { obs.Observe(ev); return nil })
		}
	}()
	return w
}

func (w *watcher) offer(ev rouse.Event) {
	if w.lost > 0 {
		select {
		case w.ch <- rouse.Event{Thread: ev.Thread, Run: ev.Run, Class: rouse.ClassDelta, Type: EventObserverLost, Delta: rouse.Delta{Index: w.lost}}:
			w.lost = 0
		default:
			w.lost++
			return
		}
	}
	select {
	case w.ch <- ev:
	default:
		w.lost++
	}
}

// close ends the queue and gives the observer a moment to catch up. One that
// never returns keeps its goroutine; that is its own fault.
func (w *watcher) close() {
	close(w.ch)
	t := time.NewTimer(ObserverGrace)
	defer t.Stop()
	select {
	case <-w.done:
	case <-t.C:
	}
}
