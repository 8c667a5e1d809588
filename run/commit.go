package run

import (
	"context"
	"encoding/binary"
	"hash/crc32"
	"slices"
	"time"

	"github.com/rouse-run/rouse"
)

// group gathers what several frames want to commit while another commit is under
// way; it becomes one batch.
type group struct {
	events []rouse.Event
	deltas []heldDelta
	status rouse.Status
	joined chan struct{} // closed when written; nil while nobody else has joined
	err    error
}

// heldDelta is a delta that is to be handed over behind the first so many events.
type heldDelta struct {
	after int
	ev    rouse.Event
}

// add appends events, behind what is held.
func (g *group) add(held []rouse.Event, deltas []heldDelta, events []rouse.Event) {
	for i := range deltas {
		deltas[i].after += len(g.events)
	}
	if g.deltas == nil {
		g.deltas = deltas
	} else {
		g.deltas = append(g.deltas, deltas...)
	}
	if g.events == nil {
		g.events = held
	} else {
		g.events = append(g.events, held...)
	}
	if g.events == nil {
		g.events = events[:len(events):len(events)]
	} else {
		g.events = append(g.events, events...)
	}
}

// commit writes events durably and then publishes them. It sets their At, when
// it is zero, in place. The status "" leaves the run's as it is.
//
// The caller's context only carries values: what is about to be written is
// already true, so it is written even when the run is being canceled.
func (r *runner) commit(ctx context.Context, events []rouse.Event, status rouse.Status) error {
	if r.replay != nil {
		err := r.replay.commit(r, events, status)
		if err != nil {
			r.noteFatal(err)
		}
		return err
	}
	r.stamp(events)
	r.groupMu.Lock()
	g := r.group
	leader := g == nil
	if leader {
		g = &group{}
	} else if g.joined == nil {
		g.joined = make(chan struct{})
	}
	g.add(r.held, r.heldDeltas, events)
	if r.held != nil {
		r.timer.Stop()
	}
	r.held, r.heldDeltas = nil, nil
	r.group = g
	if status != "" {
		g.status = status
	}
	r.groupMu.Unlock()
	if !leader {
		<-g.joined
		return g.err
	}
	r.writing <- struct{}{}
	r.groupMu.Lock()
	r.group = nil
	r.groupMu.Unlock()
	g.err = r.write(ctx, g)
	<-r.writing
	if g.joined != nil {
		close(g.joined)
	}
	return g.err
}

func (r *runner) stamp(events []rouse.Event) {
	now := rouse.Stamp(r.opt.Clock.Now())
	for i := range events {
		if events[i].At.IsZero() {
			events[i].At = now
		}
	}
}

// write commits a group and publishes it.
func (r *runner) write(ctx context.Context, g *group) error {
	if len(g.events) == 0 {
		r.publish(g, nil)
		return nil
	}
	r.mu.Lock()
	if n := len(r.prelude); n > 0 {
		g.events = slices.Concat(r.prelude, g.events)
		for i := range g.deltas {
			g.deltas[i].after += n
		}
	}
	r.mu.Unlock()
	r.mu.Lock()
	if r.fatal != nil {
		r.mu.Unlock()
		return r.fatal
	}
	b := &r.batch
	*b = Batch{
		Thread: r.thread, Run: r.id, Revision: r.row.Revision, Epoch: r.row.Epoch,
		Claim: r.claim, Owner: r.opt.Owner, Status: g.status,
		Agent: r.opt.Agent, Title: r.opt.Title, Events: g.events,
	}
	if b.Status == "" {
		b.Status = rouse.StatusRunning
	}
	r.mu.Unlock()
	before := r.sum.last
	for i := range b.Events {
		b.Events[i].Sum = r.sum.add(&b.Events[i])
	}
	if err := r.opt.Journal.Commit(context.WithoutCancel(ctx), b); err != nil {
		r.sum.last = before
		r.mu.Lock()
		r.fatal = err
		r.mu.Unlock()
		return err
	}
	r.mu.Lock()
	r.prelude, r.claim = nil, false
	r.row.Revision++
	r.row.Status = b.Status
	r.noteEnds(b.Events)
	r.mu.Unlock()
	stored := b.Events
	b.Events = nil // nothing keeps them alive while the run goes on
	r.publish(g, stored)
	return nil
}

// publish hands over what was committed, with the deltas of the group where they
// belong, and then the deltas that came while it was being written.
func (r *runner) publish(g *group, stored []rouse.Event) {
	r.out.pushMixed(stored, g.deltas)
	if !r.holding.Load() {
		return
	}
	r.groupMu.Lock()
	defer r.groupMu.Unlock()
	if len(r.held) == 0 {
		for _, d := range r.heldDeltas {
			r.out.push(d.ev)
		}
		r.heldDeltas = nil
		r.holding.Store(false)
	}
}

// HoldTime bounds how long the commit of a soft move waits for company.
const HoldTime = 20 * time.Millisecond

// hold keeps the events of a soft move for the next commit.
func (r *runner) hold(ctx context.Context, events []rouse.Event) {
	r.stamp(events)
	r.groupMu.Lock()
	defer r.groupMu.Unlock()
	r.holding.Store(true)
	first := len(r.held) == 0
	if first {
		r.held = make([]rouse.Event, 0, 8)
	}
	r.held = append(r.held, events...)
	if r.timer != nil {
		if first { // whoever waits longest decides
			r.timer.Reset(HoldTime)
		}
		return
	}
	r.timer = time.AfterFunc(HoldTime, func() {
		if err := r.flush(ctx); err != nil {
			r.halt(err)
		}
	})
	r.unhold = func() error { return r.flush(ctx) }
}

// holdDelta queues a delta behind what is held; false when nothing is.
func (r *runner) holdDelta(ev rouse.Event) bool {
	r.groupMu.Lock()
	defer r.groupMu.Unlock()
	if !r.holding.Load() {
		return false
	}
	if r.heldDeltas == nil {
		r.heldDeltas = make([]heldDelta, 0, 8)
	}
	r.heldDeltas = append(r.heldDeltas, heldDelta{len(r.held), ev})
	return true
}

// flush commits what is held.
func (r *runner) flush(ctx context.Context) error {
	r.groupMu.Lock()
	if len(r.held) == 0 {
		r.groupMu.Unlock()
		return nil
	}
	r.flushing.Add(1)
	r.groupMu.Unlock()
	defer r.flushing.Done()
	return r.commit(ctx, nil, "")
}

// letGo commits what is held and waits until it is published.
func (r *runner) letGo() {
	r.groupMu.Lock()
	unhold := r.unhold
	r.groupMu.Unlock()
	if err := unhold(); err != nil {
		r.halt(err)
		return
	}
	r.writing <- struct{}{} // the timer may be at it
	<-r.writing
}

// release ends the holding at the end of a drive: nothing is left behind.
func (r *runner) release(ctx context.Context) error {
	if r.timer == nil {
		return nil
	}
	r.timer.Stop()
	err := r.flush(ctx)
	r.flushing.Wait()
	return err
}

// noteEnds keeps the event that ended a stream and the times of waiting.
func (r *runner) noteEnds(events []rouse.Event) {
	for i := range events {
		ev := &events[i]
		if n := len(r.waits); n > 0 && r.waits[n-1].to.IsZero() {
			r.waits[n-1].to = ev.At
		}
		switch {
		case ev.Type == rouse.EventRunWaiting:
			r.waits = append(r.waits, interval{from: ev.At})
			end := *ev
			r.end = &end
		case ev.Ends():
			end := *ev
			r.end = &end
		default:
			r.end = nil
		}
	}
}

// summer makes the checksums that chain the events of a run. The zero value
// begins a run.
type summer struct {
	last uint64
	buf  []byte
}

// add returns the sum of the next event: the CRC-32C (RFC 3720, appendix B.4) of
// its content, continued from the sum of the event before. Seq, Thread and Run
// are left out, so a fork's copied events keep theirs.
func (s *summer) add(ev *rouse.Event) uint64 {
	b := append(append(s.buf[:0], ev.Path...), 0)
	b = append(append(b, ev.Class...), 0)
	b = append(append(b, ev.Type...), 0)
	b = append(append(b, ev.Key...), 0)
	b = binary.BigEndian.AppendUint64(b, uint64(ev.At.UnixMilli())) //nolint:gosec // bits are what is summed
	table := crc32.MakeTable(crc32.Castagnoli)
	c := crc32.Update(uint32(s.last), table, b) //nolint:gosec // a sum has 32 bits
	s.last, s.buf = uint64(crc32.Update(c, table, ev.Data)), b
	return s.last
}
