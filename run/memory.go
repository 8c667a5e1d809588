package run

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/rouse-run/rouse"
)

// Memory is a Journal in the memory of the process. The zero value is ready to
// use. It keeps everything until Forget.
type Memory struct {
	mu      sync.RWMutex
	threads map[string]*memThread
	runs    map[string]*memRun
}

type memThread struct {
	events []rouse.Event
	open   string // the run that is running or waiting
	runs   []string
}

type memRun struct {
	thread   string
	revision int64
	epoch    int64
	status   rouse.Status
}

// NewMemory returns an empty Memory.
func NewMemory() *Memory { return &Memory{} }

// Commit implements Journal.
func (m *Memory) Commit(ctx context.Context, b *Batch) error {
	if err := b.Check(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return &rouse.Error{Code: rouse.CodeCanceled, Op: "journal.commit", Message: "the commit was canceled", Err: context.Cause(ctx)}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.runs == nil {
		m.threads, m.runs = map[string]*memThread{}, map[string]*memRun{}
	}
	t := m.threads[b.Thread]
	if t == nil {
		t = &memThread{events: make([]rouse.Event, 0, 12)}
	}
	r := m.runs[b.Run]
	if err := checkRow(b, t, r); err != nil {
		return err
	}
	if r == nil {
		r = &memRun{thread: b.Thread}
		m.runs[b.Run] = r
		m.threads[b.Thread] = t
		t.runs = append(t.runs, b.Run)
	}
	r.revision, r.epoch, r.status = b.Revision+1, b.Epoch, b.Status
	if !b.Status.Final() {
		t.open = b.Run
	} else if t.open == b.Run {
		t.open = ""
	}
	for i := range b.Events {
		ev := &b.Events[i]
		ev.Seq, ev.Thread, ev.Run = int64(len(t.events))+1, b.Thread, b.Run
		t.events = append(t.events, *ev)
	}
	return nil
}

func checkRow(b *Batch, t *memThread, r *memRun) error {
	fail := func(c rouse.Code, format string, args ...any) error {
		return &rouse.Error{Code: c, Op: "journal.commit", Message: fmt.Sprintf(format, args...)}
	}
	epoch := b.Epoch
	if b.Claim {
		epoch--
	}
	switch {
	case r == nil && b.Revision != 0:
		return fail(rouse.CodeNotFound, "there is no run %s", b.Run)
	case r == nil && t.open != "":
		return fail(rouse.CodeBusy, "the thread has the open run %s", t.open)
	case r == nil:
		return nil
	case b.Revision == 0:
		return fail(rouse.CodeConflict, "the run exists already")
	case r.thread != b.Thread:
		return fail(rouse.CodeNotFound, "there is no run %s in the thread", b.Run)
	case r.epoch != epoch:
		return fail(rouse.CodeFenced, "the run's epoch is %d, the writer's %d", r.epoch, epoch)
	case r.revision != b.Revision:
		return fail(rouse.CodeConflict, "the run's revision is %d, the writer saw %d", r.revision, b.Revision)
	case t.open != "" && t.open != b.Run && !b.Status.Final():
		return fail(rouse.CodeBusy, "the thread has the open run %s", t.open)
	}
	return nil
}

// Read implements Journal.
func (m *Memory) Read(ctx context.Context, q Query) iter.Seq2[rouse.Event, error] {
	return func(yield func(rouse.Event, error) bool) {
		m.mu.RLock()
		var events []rouse.Event
		if t := m.threads[q.Thread]; t != nil {
			events = t.events // append-only: what lies below its length never changes
		}
		m.mu.RUnlock()
		for i := max(q.After, 0); i < int64(len(events)); i++ {
			ev := events[i]
			if q.Until != 0 && ev.Seq > q.Until {
				return
			}
			if q.Run != "" && ev.Run != q.Run || len(q.Types) > 0 && !slices.Contains(q.Types, ev.Type) {
				continue
			}
			if err := ctx.Err(); err != nil {
				yield(rouse.Event{}, &rouse.Error{Code: rouse.CodeCanceled, Op: "journal.read", Message: "the reading was canceled", Err: context.Cause(ctx)})
				return
			}
			if !yield(ev, nil) {
				return
			}
		}
	}
}

// Row returns the run's row; ok is false when there is no such run.
func (m *Memory) Row(run string) (row Row, ok bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	r := m.runs[run]
	if r == nil {
		return Row{}, false
	}
	return Row{Thread: r.thread, Run: run, Revision: r.revision, Epoch: r.epoch, Status: r.status}, true
}

// Forget removes a thread and its runs.
func (m *Memory) Forget(thread string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.threads[thread]; t != nil {
		for _, id := range t.runs {
			delete(m.runs, id)
		}
		delete(m.threads, thread)
	}
}
