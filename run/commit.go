package run

import (
	"context"
	"encoding/binary"
	"hash/crc64"
	"slices"

	"github.com/rouse-run/rouse"
)

// group gathers what several frames want to commit while another commit is under
// way; it becomes one batch.
type group struct {
	events []rouse.Event
	status rouse.Status
	joined chan struct{} // closed when written; nil while nobody else has joined
	err    error
}

// commit writes events durably and then publishes them. It sets their At, when
// it is zero, in place. The status "" leaves the run's as it is.
//
// The caller's context only carries values: what is about to be written is
// already true, so it is written even when the run is being canceled.
func (r *runner) commit(ctx context.Context, events []rouse.Event, status rouse.Status) error {
	if r.replay != nil {
		return r.replay.commit(r, events, status)
	}
	now := rouse.Stamp(r.opt.Clock.Now())
	for i := range events {
		if events[i].At.IsZero() {
			events[i].At = now
		}
	}
	r.groupMu.Lock()
	g := r.group
	leader := g == nil
	if leader {
		g = &group{}
		r.group = g
	} else if g.joined == nil {
		g.joined = make(chan struct{})
	}
	if leader {
		g.events = events[:len(events):len(events)]
	} else {
		g.events = append(g.events, events...)
	}
	if status != "" {
		g.status = status
	}
	r.groupMu.Unlock()
	if !leader {
		<-g.joined
		return g.err
	}
	r.writeMu.Lock()
	r.groupMu.Lock()
	r.group = nil
	r.groupMu.Unlock()
	g.err = r.write(ctx, g)
	r.writeMu.Unlock()
	if g.joined != nil {
		close(g.joined)
	}
	return g.err
}

func (r *runner) write(ctx context.Context, g *group) error {
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
	if len(r.prelude) > 0 {
		b.Events = slices.Concat(r.prelude, g.events)
	}
	if b.Status == "" {
		b.Status = rouse.StatusRunning
	}
	r.mu.Unlock()
	sum := chain(r.sum, b.Events)
	if err := r.opt.Journal.Commit(context.WithoutCancel(ctx), b); err != nil {
		r.mu.Lock()
		r.fatal = err
		r.mu.Unlock()
		return err
	}
	r.sum = sum
	r.mu.Lock()
	r.prelude, r.claim = nil, false
	r.row.Revision++
	r.row.Status = b.Status
	r.noteEnds(b.Events)
	r.mu.Unlock()
	r.out.push(b.Events...)
	return nil
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

// chain sets the Sum of each event, which depends on everything before it in the
// run, and returns the last.
func chain(sum uint64, events []rouse.Event) uint64 {
	for i := range events {
		sum = eventSum(sum, &events[i])
		events[i].Sum = sum
	}
	return sum
}

// eventSum is the CRC-64 (ECMA-182) of an event's content, continued from the
// sum of the event before. It leaves out Seq, Thread and Run, so a fork's copied
// events keep theirs.
func eventSum(sum uint64, ev *rouse.Event) uint64 {
	var buf [192]byte
	b := buf[:0]
	b = append(append(b, ev.Path...), 0)
	b = append(append(b, ev.Class...), 0)
	b = append(append(b, ev.Type...), 0)
	b = append(append(b, ev.Key...), 0)
	b = binary.BigEndian.AppendUint64(b, uint64(ev.At.UnixMilli())) //nolint:gosec // bits are what is summed
	sum = crc64.Update(sum, sumTable, b)
	return crc64.Update(sum, sumTable, ev.Data)
}

// sumTable is a constant that Go cannot express as one.
var sumTable = crc64.MakeTable(crc64.ECMA)
