package storetest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/run"
	"pgregory.net/rapid"
)

func journalChecks() []check[run.Journal] {
	return []check[run.Journal]{
		{"seq", "Commit sets Seq of every event: consecutive in the thread, from 1, without a gap", checkSeq},
		{"fields", "events come back as they were committed, with Thread and Run set, At in UTC and whole milliseconds", checkFields},
		{"no events", "a batch without events updates the run's row and takes no place in the thread", checkNoEvents},
		{"revision", "CodeConflict when the revision differs", checkRevision},
		{"create twice", "CodeConflict when the run exists already", checkCreateTwice},
		{"unknown run", "CodeNotFound when there is no such run", checkUnknownRun},
		{"other thread", "CodeNotFound when the run is not one of the thread", checkOtherThread},
		{"claim", "with Claim the epoch must be b.Epoch-1 and becomes b.Epoch", checkClaim},
		{"fence", "CodeFenced when the epoch differs: an owner that was replaced writes nothing more", checkFence},
		{"busy", "CodeBusy when another run of the thread is open, running or waiting", checkBusy},
		{"reopen", "there are never two open runs in one thread", checkReopen},
		{"all or nothing", "after an error nothing has changed", checkAllOrNothing},
		{"empty ids", "a batch without a thread or a run is refused with CodeInvalid", checkEmptyIDs},
		{"query", "Read selects by run, After, Until and types, in the order of Seq", checkQuery},
		{"unknown thread", "an unknown thread yields nothing", checkUnknownThread},
		{"break", "a reader may stop after any event", checkBreak},
		{"commit while reading", "the journal may be used within a loop over Read", checkCommitWhileReading},
		{"large", "large payloads and many events come back whole", checkLarge},
		{"text", "text is kept byte for byte, or refused with CodeInvalid; it is never altered", checkText},
		{"canceled", "a commit whose context has ended is done or not done, as its error says", checkCanceled},
		{"canceled read", "a read whose context has ended is whole or ends with an error", checkCanceledRead},
		{"model", "every sequence of commits does what the contract says", checkModel},
	}
}

func checkSeq(t *testing.T, j run.Journal) {
	a, b := newPen(t, j, "t", "a"), newPen(t, j, "u", "b")
	events := facts(3)
	a.commit(rouse.StatusRunning, events...)
	if got := seqs(events); got != "1 2 3" {
		t.Fatalf("the batch's events have the places %s, want 1 2 3", got)
	}
	b.commit(rouse.StatusRunning, facts(1)...)
	events = facts(2)
	a.commit(rouse.StatusCompleted, events...)
	if got := seqs(events); got != "4 5" {
		t.Fatalf("the second batch's events have the places %s, want 4 5", got)
	}
	events = facts(1)
	newPen(t, j, "t", "c").commit(rouse.StatusRunning, events...)
	if got := seqs(events); got != "6" {
		t.Fatalf("the places go on over runs of a thread: %s, want 6", got)
	}
	whole(t, j, "t", 6)
	whole(t, j, "u", 1)
}

func checkFields(t *testing.T, j run.Journal) {
	in := []rouse.Event{
		{Path: "/", Class: rouse.ClassFact, Type: rouse.EventRunStarted, At: start(), Data: []byte(`{"a":1.000000000000000000001}`)},
		{Path: "/a/b", Class: rouse.ClassDraw, Type: rouse.EventOnce, Key: "call\x00é", Sum: 1<<64 - 1, At: start().Add(time.Millisecond), Data: []byte("{ \"b\" : [ 1e400 ] }\n")},
		{Path: "/é", Class: rouse.ClassFact, Type: "my.type", At: time.UnixMilli(-1).UTC()},
	}
	want := slices.Clone(in)
	for i := range want {
		want[i].Seq, want[i].Thread, want[i].Run = int64(i)+1, "t", "a"
	}
	newPen(t, j, "t", "a").commit(rouse.StatusRunning, in...)
	for i, got := range whole(t, j, "t", len(want)) {
		if describe(got) != describe(want[i]) || got.At != want[i].At {
			t.Errorf("got  %s\nwant %s", describe(got), describe(want[i]))
		}
		if describe(in[i]) != describe(want[i]) {
			t.Errorf("in the batch %s\nwant %s", describe(in[i]), describe(want[i]))
		}
	}
}

func checkNoEvents(t *testing.T, j run.Journal) {
	p := newPen(t, j, "t", "a").commit(rouse.StatusRunning).commit(rouse.StatusWaiting)
	whole(t, j, "t", 0)
	p.commit(rouse.StatusCompleted, facts(1)...)
	whole(t, j, "t", 1)
}

func checkRevision(t *testing.T, j run.Journal) {
	p := newPen(t, j, "t", "a").commit(rouse.StatusRunning, facts(1)...).commit(rouse.StatusRunning, facts(1)...)
	for _, wrong := range []int64{1, 3, 100} {
		q := *p
		q.b.Revision = wrong
		q.refused(rouse.StatusRunning, rouse.CodeConflict)
	}
	p.commit(rouse.StatusRunning, facts(1)...)
	whole(t, j, "t", 3)
}

func checkCreateTwice(t *testing.T, j run.Journal) {
	newPen(t, j, "t", "a").commit(rouse.StatusCompleted, facts(1)...)
	newPen(t, j, "t", "a").refused(rouse.StatusRunning, rouse.CodeConflict)
	whole(t, j, "t", 1)
}

func checkUnknownRun(t *testing.T, j run.Journal) {
	p := newPen(t, j, "t", "a")
	p.b.Revision = 1
	p.refused(rouse.StatusRunning, rouse.CodeNotFound)
	newPen(t, j, "t", "b").commit(rouse.StatusCompleted, facts(1)...)
	p.refused(rouse.StatusRunning, rouse.CodeNotFound)
	whole(t, j, "t", 1)
}

func checkOtherThread(t *testing.T, j run.Journal) {
	p := newPen(t, j, "t", "a").commit(rouse.StatusRunning, facts(1)...)
	newPen(t, j, "u", "b").commit(rouse.StatusCompleted, facts(1)...)
	for _, thread := range []string{"u", "nobody"} {
		q := *p
		q.b.Thread = thread
		q.refused(rouse.StatusRunning, rouse.CodeNotFound)
		q.refused(rouse.StatusCompleted, rouse.CodeNotFound)
		q.claim("owner-b").refused(rouse.StatusRunning, rouse.CodeNotFound)
		newPen(t, j, thread, "a").refused(rouse.StatusRunning, rouse.CodeConflict) // it exists already
	}
	p.commit(rouse.StatusCompleted, facts(1)...)
	whole(t, j, "t", 2)
	whole(t, j, "u", 1)
	whole(t, j, "nobody", 0)
}

func checkClaim(t *testing.T, j run.Journal) {
	p := newPen(t, j, "t", "a").commit(rouse.StatusRunning, facts(1)...)
	p.claim("owner-b").commit(rouse.StatusRunning, facts(1)...)
	p.commit(rouse.StatusRunning, facts(1)...)
	skip := *p
	skip.b.Epoch++
	skip.claim("owner-c").refused(rouse.StatusRunning, rouse.CodeFenced)
	again := *p
	again.b.Epoch--
	again.claim("owner-d").refused(rouse.StatusRunning, rouse.CodeFenced)
	p.commit(rouse.StatusCompleted, facts(1)...)
	whole(t, j, "t", 4)
}

func checkFence(t *testing.T, j run.Journal) {
	p := newPen(t, j, "t", "a").commit(rouse.StatusRunning, facts(1)...)
	stale := *p
	p.claim("owner-b").commit(rouse.StatusRunning, facts(1)...)
	stale.refused(rouse.StatusRunning, rouse.CodeFenced, rouse.CodeConflict) // both differ
	stale.b.Revision = p.b.Revision
	stale.refused(rouse.StatusRunning, rouse.CodeFenced)
	p.commit(rouse.StatusRunning, facts(1)...)
	whole(t, j, "t", 3)
}

func checkBusy(t *testing.T, j run.Journal) {
	p := newPen(t, j, "t", "a")
	for i, open := range []rouse.Status{rouse.StatusRunning, rouse.StatusWaiting} {
		p.commit(open, facts(1)...)
		newPen(t, j, "t", "b").refused(rouse.StatusRunning, rouse.CodeBusy)
		newPen(t, j, "t", "b").refused(rouse.StatusWaiting, rouse.CodeBusy)
		newPen(t, j, fmt.Sprint("other", i), fmt.Sprint("c", i)).commit(rouse.StatusRunning, facts(1)...)
	}
	for i, final := range []rouse.Status{rouse.StatusCompleted, rouse.StatusFailed, rouse.StatusCanceled} {
		p.commit(final, facts(1)...)
		p = newPen(t, j, "t", fmt.Sprint("next", i)).commit(rouse.StatusRunning, facts(1)...)
	}
	whole(t, j, "t", 8)
}

func checkReopen(t *testing.T, j run.Journal) {
	p := newPen(t, j, "t", "a").commit(rouse.StatusCompleted, facts(1)...)
	newPen(t, j, "t", "b").commit(rouse.StatusRunning, facts(1)...)
	if err := p.try(t.Context(), rouse.StatusRunning, facts(1)...); err == nil {
		t.Fatal("a second run of the thread became open")
	}
	whole(t, j, "t", 2)
}

func checkAllOrNothing(t *testing.T, j run.Journal) {
	p := newPen(t, j, "t", "a").commit(rouse.StatusRunning, facts(2)...)
	before := read(t, j, run.Query{Thread: "t"})
	bad := *p
	bad.b.Revision = 9
	wantCode(t, bad.try(t.Context(), rouse.StatusCompleted, facts(500)...), rouse.CodeConflict)
	wantCode(t, newPen(t, j, "t", "b").try(t.Context(), rouse.StatusRunning, facts(500)...), rouse.CodeBusy)
	after := read(t, j, run.Query{Thread: "t"})
	if !slices.EqualFunc(before, after, func(a, b rouse.Event) bool { return describe(a) == describe(b) }) {
		t.Fatalf("the thread changed from %s to %s", seqs(before), seqs(after))
	}
	p.commit(rouse.StatusRunning, facts(1)...)
	newPen(t, j, "new", "b").commit(rouse.StatusRunning, facts(1)...) // "b" was not made
	whole(t, j, "t", 3)
}

func checkEmptyIDs(t *testing.T, j run.Journal) {
	newPen(t, j, "", "a").refused(rouse.StatusRunning, rouse.CodeInvalid)
	newPen(t, j, "t", "").refused(rouse.StatusRunning, rouse.CodeInvalid)
	whole(t, j, "t", 0)
	for e, err := range j.Read(t.Context(), run.Query{}) {
		if err == nil {
			t.Fatalf("a read without a thread yields %s", describe(e))
		}
		wantCode(t, err, rouse.CodeInvalid)
	}
}

func checkQuery(t *testing.T, j run.Journal) {
	newPen(t, j, "t", "a").commit(rouse.StatusCompleted,
		fact(rouse.EventRunStarted, `{}`), fact(rouse.EventMessage, `{}`), fact(rouse.EventRunFinished, `{}`))
	newPen(t, j, "t", "b").
		commit(rouse.StatusRunning, fact(rouse.EventRunStarted, `{}`), fact(rouse.EventMessage, `{}`)).
		commit(rouse.StatusCompleted, fact(rouse.EventMessage, `{}`), fact(rouse.EventRunFinished, `{}`))
	newPen(t, j, "u", "c").commit(rouse.StatusRunning, facts(9)...)
	for _, c := range []struct {
		q    run.Query
		want string
	}{
		{run.Query{Thread: "t"}, "1 2 3 4 5 6 7"},
		{run.Query{Thread: "t", Run: "a"}, "1 2 3"},
		{run.Query{Thread: "t", Run: "b"}, "4 5 6 7"},
		{run.Query{Thread: "t", Run: "c"}, ""}, // a run of another thread
		{run.Query{Thread: "t", Run: "nobody"}, ""},
		{run.Query{Thread: "t", After: 2}, "3 4 5 6 7"},
		{run.Query{Thread: "t", After: 7}, ""},
		{run.Query{Thread: "t", After: 70}, ""},
		{run.Query{Thread: "t", Until: 2}, "1 2"},
		{run.Query{Thread: "t", Until: 70}, "1 2 3 4 5 6 7"},
		{run.Query{Thread: "t", After: 2, Until: 5}, "3 4 5"},
		{run.Query{Thread: "t", After: 5, Until: 2}, ""},
		{run.Query{Thread: "t", Types: []rouse.EventType{rouse.EventMessage}}, "2 5 6"},
		{run.Query{Thread: "t", Types: []rouse.EventType{rouse.EventRunFinished, rouse.EventRunStarted}}, "1 3 4 7"},
		{run.Query{Thread: "t", Types: []rouse.EventType{"no.such"}}, ""},
		{run.Query{Thread: "t", Run: "b", After: 4, Until: 6, Types: []rouse.EventType{rouse.EventMessage}}, "5 6"},
	} {
		if got := seqs(read(t, j, c.q)); got != c.want {
			t.Errorf("%+v yields %q, want %q", c.q, got, c.want)
		}
	}
}

func checkUnknownThread(t *testing.T, j run.Journal) {
	for _, q := range []run.Query{{Thread: "nobody"}, {Thread: "nobody", Run: "a", After: 1}} {
		if got := read(t, j, q); len(got) != 0 {
			t.Errorf("%+v yields %s", q, seqs(got))
		}
	}
}

func checkBreak(t *testing.T, j run.Journal) {
	newPen(t, j, "t", "a").commit(rouse.StatusRunning, facts(8)...)
	for stop := range int64(9) {
		last := int64(0)
		for e, err := range j.Read(t.Context(), run.Query{Thread: "t"}) {
			if err != nil {
				t.Fatal(err)
			}
			if last = e.Seq; last == stop {
				break
			}
		}
		if want := stop; stop > 0 && last != want {
			t.Errorf("stopped at %d, want %d", last, want)
		}
	}
}

func checkCommitWhileReading(t *testing.T, j run.Journal) {
	p := newPen(t, j, "t", "a").commit(rouse.StatusRunning, facts(8)...)
	next := int64(1)
	for e, err := range j.Read(t.Context(), run.Query{Thread: "t", Until: 8}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Seq != next {
			t.Fatalf("seq %d follows %d", e.Seq, next-1)
		}
		next++
		p.commit(rouse.StatusRunning, facts(1)...)
		for inner, err := range j.Read(t.Context(), run.Query{Thread: "t", After: e.Seq}) {
			if err != nil || inner.Seq != e.Seq+1 {
				t.Fatalf("within: seq %d after %d: %v", inner.Seq, e.Seq, err)
			}
			break
		}
	}
	whole(t, j, "t", 16)
}

func checkLarge(t *testing.T, j run.Journal) {
	big := fact(rouse.EventToolFinished, `{"output":"`+strings.Repeat("x", 3<<20)+`"}`)
	big.Path = "/" + strings.Repeat("p", 10_000)
	p := newPen(t, j, "t", "a").commit(rouse.StatusRunning, facts(2500)...)
	p.commit(rouse.StatusRunning, big, fact(rouse.EventMessage, `{}`), big)
	events := whole(t, j, "t", 2503)
	for _, i := range []int{2500, 2502} {
		if e := events[i]; !bytes.Equal(e.Data, big.Data) || e.Path != big.Path {
			t.Errorf("event %d has %d bytes and a path of %d, want %d and %d", i, len(e.Data), len(e.Path), len(big.Data), len(big.Path))
		}
	}
	if got := len(read(t, j, run.Query{Thread: "t", Types: []rouse.EventType{rouse.EventToolFinished}})); got != 2 {
		t.Errorf("%d events of a type that is rare, want 2", got)
	}
}

func checkText(t *testing.T, j run.Journal) {
	for i, text := range []string{
		"\x00", "a\x00b", "\xff\xfe", "a\xc3", "'; DROP TABLE runs; --", "%s%d?:@$1", "日本語 🙂 é", "\u2028\r\n\t", " ", strings.Repeat("é", 500),
	} {
		p := newPen(t, j, "thread "+text, "run "+text)
		p.b.Agent, p.b.Title, p.b.Owner = text, text, "owner-a"
		e := fact(rouse.EventType("my."+text), "{}")
		e.Path = "/" + text
		e.Data = fmt.Appendf(nil, `{"text":%q}`, text)
		want := e
		want.Seq, want.Thread, want.Run = 1, p.b.Thread, p.b.Run
		if err := p.try(t.Context(), rouse.StatusRunning, e); err != nil {
			wantCode(t, err, rouse.CodeInvalid)
			continue
		}
		got := whole(t, j, p.b.Thread, 1)
		if describe(got[0]) != describe(want) {
			t.Errorf("text %d\ngot  %s\nwant %s", i, describe(got[0]), describe(want))
		}
	}
}

func checkCanceled(t *testing.T, j run.Journal) {
	p := newPen(t, j, "t", "a").commit(rouse.StatusRunning, facts(1)...)
	n := 1
	switch err := p.try(canceled(t), rouse.StatusRunning, facts(1)...); rouse.CodeOf(err) {
	case "":
		n++
	case rouse.CodeCanceled, rouse.CodeTimeout:
	default:
		t.Fatalf("a canceled commit fails with %v", err)
	}
	whole(t, j, "t", n)
	p.commit(rouse.StatusRunning, facts(1)...)
	whole(t, j, "t", n+1)
}

func checkCanceledRead(t *testing.T, j run.Journal) {
	newPen(t, j, "t", "a").commit(rouse.StatusRunning, facts(1000)...)
	n := 0
	var failed error
	for _, err := range j.Read(canceled(t), run.Query{Thread: "t"}) {
		if failed != nil {
			t.Fatal("a pair follows the error")
		}
		if failed = err; err == nil {
			n++
		}
	}
	if failed != nil {
		wantCode(t, failed, rouse.CodeCanceled, rouse.CodeTimeout)
	} else if n != 1000 {
		t.Fatalf("%d of 1000 events and no error", n)
	}
}

// checkModel compares random commits with a model of the contract.
func checkModel(t *testing.T, j run.Journal) {
	trial := 0
	rapid.Check(t, func(rt *rapid.T) {
		trial++
		m := newModel(fmt.Sprintf("trial %d ", trial))
		for range rapid.IntRange(1, 40).Draw(rt, "commits") {
			b := m.draw(rt)
			allowed := m.allowed(b)
			err := j.Commit(t.Context(), b)
			if !slices.Contains(allowed, rouse.CodeOf(err)) {
				rt.Fatalf("%+v: got %v, want one of %q", *b, err, allowed)
			}
			if err == nil {
				m.apply(b)
			}
		}
		for thread, want := range m.events {
			got := read(t, j, run.Query{Thread: thread})
			if len(got) != len(want) {
				rt.Fatalf("thread %q has %d events, want %d", thread, len(got), len(want))
			}
			for i, e := range got {
				if describe(e) != want[i] {
					rt.Fatalf("got  %s\nwant %s", describe(e), want[i])
				}
			}
		}
	})
}
