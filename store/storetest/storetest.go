// Package storetest is the contract of packages run and store as a test suite.
// Whoever writes a journal or a store runs it and has the same guarantees as the
// ones of this module.
//
// Run covers a whole store, RunJournal a journal alone, and Faults what a store
// makes of the end of its process in the middle of a write.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/run"
	"github.com/rouse-run/rouse/store"
)

// Config says how to get at the store under test and what it can do.
type Config struct {
	// Open opens the store that lives in dir, an empty directory at first. It is
	// called again with the same dir after the store was closed. It fails t when it
	// cannot. Required.
	Open func(t *testing.T, dir string) store.Store
	// Shared says that two stores may have the same dir open at once.
	Shared bool
}

// JournalConfig says how to get at the journal under test.
type JournalConfig struct {
	// New returns an empty journal. It fails t when it cannot. Required.
	New func(t *testing.T) run.Journal
}

// check is one case: a rule of a doc comment and what shows that it holds.
type check[T any] struct {
	name string
	rule string
	run  func(t *testing.T, v T)
}

func runChecks[T any](t *testing.T, checks []check[T], open func(t *testing.T) T) {
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			t.Cleanup(func() {
				if t.Failed() {
					t.Log("the rule: " + c.rule)
				}
			})
			c.run(t, open(t))
		})
	}
}

// RunJournal tests the contract of run.Journal.
func RunJournal(t *testing.T, c JournalConfig) {
	t.Helper()
	runChecks(t, journalChecks(), c.New)
	runChecks(t, concurrencyChecks(), c.New)
}

// Run tests the contracts of run.Journal and of package store.
func Run(t *testing.T, c Config) {
	t.Helper()
	open := func(t *testing.T) store.Store {
		s := c.Open(t, t.TempDir())
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
		return s
	}
	t.Run("journal", func(t *testing.T) {
		t.Parallel()
		RunJournal(t, JournalConfig{New: func(t *testing.T) run.Journal { return open(t) }})
	})
	runChecks(t, storeChecks(), open)
	runChecks(t, durableChecks(c), func(t *testing.T) string { return t.TempDir() })
}

// pen writes one run, keeping track of its revision.
type pen struct {
	t *testing.T
	j run.Journal
	b run.Batch
}

// newPen returns a pen for a run that does not exist yet.
func newPen(t *testing.T, j run.Journal, thread, id string) *pen {
	return &pen{t: t, j: j, b: run.Batch{
		Thread: thread, Run: id, Epoch: 1, Status: rouse.StatusRunning, Owner: "owner-a", Agent: "agent of " + id, Title: "title of " + id,
	}}
}

// try commits the events and moves the pen on when that went well.
func (p *pen) try(ctx context.Context, status rouse.Status, events ...rouse.Event) error {
	p.b.Status, p.b.Events = status, events
	err := p.j.Commit(ctx, &p.b)
	if err == nil {
		p.b.Revision++
		p.b.Claim = false
	}
	return err
}

// commit is try for a commit that must go well.
func (p *pen) commit(status rouse.Status, events ...rouse.Event) *pen {
	p.t.Helper()
	if err := p.try(p.t.Context(), status, events...); err != nil {
		p.t.Fatalf("commit of run %q at revision %d: %v", p.b.Run, p.b.Revision, err)
	}
	return p
}

// refused is try for a commit that must fail with one of the codes.
func (p *pen) refused(status rouse.Status, codes ...rouse.Code) {
	p.t.Helper()
	wantCode(p.t, p.try(p.t.Context(), status, facts(1)...), codes...)
}

// claim takes the run over for another owner with the next commit.
func (p *pen) claim(owner string) *pen {
	p.b.Claim, p.b.Owner = true, owner
	p.b.Epoch++
	return p
}

func wantCode(t *testing.T, err error, codes ...rouse.Code) {
	t.Helper()
	got := rouse.CodeOf(err)
	for _, c := range codes {
		if c == got {
			return
		}
	}
	t.Fatalf("error %v has the code %q, want one of %q", err, got, codes)
}

// start is the time of the suite's first event.
func start() time.Time { return time.Date(2031, 2, 3, 4, 5, 6, 789e6, time.UTC) }

// facts returns n events that are not alike.
func facts(n int) []rouse.Event {
	out := make([]rouse.Event, n)
	for i := range out {
		out[i] = rouse.Event{
			Path: "/", Class: rouse.ClassFact, Type: rouse.EventMessage, At: start().Add(time.Duration(i) * time.Millisecond),
			Data: fmt.Appendf(nil, `{"n":%d}`, i),
		}
	}
	return out
}

// fact returns one event with a type and a payload.
func fact(typ rouse.EventType, data string) rouse.Event {
	return rouse.Event{Path: "/", Class: rouse.ClassFact, Type: typ, At: start(), Data: []byte(data)}
}

// read returns the events that q selects.
func read(t *testing.T, j run.Journal, q run.Query) []rouse.Event {
	t.Helper()
	var out []rouse.Event
	for e, err := range j.Read(t.Context(), q) {
		if err != nil {
			t.Fatalf("read %+v: %v", q, err)
		}
		out = append(out, e)
	}
	return out
}

// whole returns the events of a thread, whose places must be 1 to n.
func whole(t *testing.T, j run.Journal, thread string, n int) []rouse.Event {
	t.Helper()
	events := read(t, j, run.Query{Thread: thread})
	for i, e := range events {
		if e.Seq != int64(i)+1 {
			t.Fatalf("thread %q: event %d of %d has seq %d, want %d", thread, i, len(events), e.Seq, i+1)
		}
	}
	if len(events) != n {
		t.Fatalf("thread %q has %d events, want %d", thread, len(events), n)
	}
	return events
}

// seqs returns the places of events.
func seqs(events []rouse.Event) string {
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, "%d ", e.Seq)
	}
	return strings.TrimSpace(b.String())
}

// describe returns an event in one line, for comparison.
func describe(e rouse.Event) string {
	return fmt.Sprintf("%d %q %q %q %q %q %q %s %d %q", e.Seq, e.Thread, e.Run, e.Path, e.Class, e.Type, e.Key, e.At.Format(time.RFC3339Nano), e.Sum, e.Data)
}

// canceled returns a context that has ended.
func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the test has canceled it"))
	return ctx
}
