package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/run"
	"github.com/rouse-run/rouse/store"
)

func durableChecks(c Config) []check[string] {
	checks := []check[string]{
		{"reopen the store", "Commit and PutBlob are durable when they return nil", c.checkReopen},
		{"close", "Close may be called twice; later calls fail", c.checkClose},
		{"node", "Node differs for every opening, and a batch without an Owner has it", c.checkNode},
		{"orphans", "Orphans returns the running runs whose owner is no longer alive", c.checkOrphans},
	}
	if c.Shared {
		checks = append(checks,
			check[string]{"two stores", "what one store has committed, another of the same data sees", c.checkTwoStores},
			check[string]{"two stores at once", "the guarantees hold over several stores of the same data; none is told that it is locked", c.checkTwoAtOnce})
	}
	return checks
}

// dump describes all that a store holds, but for the times of rows.
func dump(t *testing.T, s store.Store, blobs ...string) string {
	t.Helper()
	var b strings.Builder
	threads, _, err := s.ListThreads(t.Context(), 1000, "")
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(threads, func(a, b store.ThreadInfo) int { return strings.Compare(a.ID, b.ID) })
	for _, th := range threads {
		th.Created, th.Updated = time.Time{}, time.Time{}
		fmt.Fprintf(&b, "%+v\n", th)
		for _, e := range read(t, s, run.Query{Thread: th.ID}) {
			fmt.Fprintln(&b, describe(e))
		}
	}
	runs, _, err := s.ListRuns(t.Context(), store.RunFilter{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		fmt.Fprintf(&b, "%+v\n", timeless(t, r))
	}
	for _, ref := range blobs {
		data, err := s.Blob(t.Context(), ref)
		fmt.Fprintf(&b, "%s %q %s\n", ref, data, rouse.CodeOf(err))
	}
	return b.String()
}

func mustClose(t *testing.T, s store.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
}

func (c Config) checkReopen(t *testing.T, dir string) {
	s := c.Open(t, dir)
	p := newPen(t, s, "t", "a").commit(rouse.StatusRunning, facts(3)...).claim("owner-b").commit(rouse.StatusRunning, facts(2)...)
	newPen(t, s, "u", "b").commit(rouse.StatusCompleted, facts(700)...)
	ref, err := s.PutBlob(t.Context(), []byte("kept"))
	if err != nil {
		t.Fatal(err)
	}
	before := dump(t, s, ref)
	for range 2 {
		mustClose(t, s)
		s = c.Open(t, dir)
		if after := dump(t, s, ref); after != before {
			t.Fatalf("after opening again:\n%s\nbefore:\n%s", after, before)
		}
	}
	p.j = s
	p.commit(rouse.StatusCompleted, facts(1)...)
	newPen(t, s, "t", "c").commit(rouse.StatusRunning, facts(1)...)
	whole(t, s, "t", 7)
	mustClose(t, s)
}

func (c Config) checkClose(t *testing.T, dir string) {
	s := c.Open(t, dir)
	p := newPen(t, s, "t", "a").commit(rouse.StatusRunning, facts(600)...)
	for e, err := range s.Read(t.Context(), run.Query{Thread: "t"}) { // a reader that is not done does not hold Close up
		if err != nil {
			break
		}
		if e.Seq == 1 {
			mustClose(t, s)
			mustClose(t, s)
		}
	}
	failed := func(what string, err error) {
		t.Helper()
		if rouse.CodeOf(err) != rouse.CodeStorage {
			t.Errorf("%s after Close: %v, want the code storage", what, err)
		}
	}
	failed("Commit", p.try(t.Context(), rouse.StatusRunning, facts(1)...))
	var err error
	for _, err = range s.Read(t.Context(), run.Query{Thread: "t"}) {
		break
	}
	failed("Read", err)
	_, err = s.Run(t.Context(), "a")
	failed("Run", err)
	_, _, err = s.ListThreads(t.Context(), 0, "")
	failed("ListThreads", err)
	_, err = s.PutBlob(t.Context(), []byte("x"))
	failed("PutBlob", err)
	_, err = s.Orphans(t.Context())
	failed("Orphans", err)
}

func orphans(t *testing.T, s store.Store) string {
	t.Helper()
	runs, err := s.Orphans(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]string, len(runs))
	for i, r := range runs {
		ids[i] = r.ID
	}
	return strings.Join(ids, " ")
}

func (c Config) checkNode(t *testing.T, dir string) {
	seen := make(map[string]bool)
	for i := range 2 {
		s := c.Open(t, dir)
		if n := s.Node(); n == "" || n != s.Node() || seen[n] {
			t.Fatalf("opening %d has the node %q", i, n)
		}
		seen[s.Node()] = true
		p := newPen(t, s, fmt.Sprint("t", i), fmt.Sprint("r", i))
		p.b.Owner = ""
		p.commit(rouse.StatusRunning)
		if r := getRun(t, s, p.b.Run); r.Owner != s.Node() {
			t.Errorf("the owner is %q, want the node %q", r.Owner, s.Node())
		}
		mustClose(t, s)
	}
}

func (c Config) checkOrphans(t *testing.T, dir string) {
	s := c.Open(t, dir)
	own := func(s store.Store, thread, id string) *pen {
		p := newPen(t, s, thread, id)
		p.b.Owner = s.Node()
		return p
	}
	running := own(s, "t", "running").commit(rouse.StatusRunning, facts(1)...)
	own(s, "u", "waiting").commit(rouse.StatusRunning).commit(rouse.StatusWaiting)
	own(s, "v", "finished").commit(rouse.StatusRunning).commit(rouse.StatusCompleted)
	if got := orphans(t, s); got != "" {
		t.Errorf("the owner is alive, and yet these are orphans: %s", got)
	}
	mustClose(t, s)

	s = c.Open(t, dir)
	if got := orphans(t, s); got != "running" {
		t.Errorf("the orphans are %q, want the one that was running", got)
	}
	running.j = s
	running.claim(s.Node()).commit(rouse.StatusRunning, facts(1)...)
	if got := orphans(t, s); got != "" {
		t.Errorf("after the claim the orphans are %q", got)
	}
	mustClose(t, s)
}

func (c Config) checkTwoStores(t *testing.T, dir string) {
	a, b := c.Open(t, dir), c.Open(t, dir)
	p := newPen(t, a, "t", "a").commit(rouse.StatusRunning, facts(2)...)
	whole(t, b, "t", 2)
	newPen(t, b, "t", "b").refused(rouse.StatusRunning, rouse.CodeBusy)
	taken := *p
	taken.j = b
	taken.claim("owner-b").commit(rouse.StatusRunning, facts(1)...)
	p.b.Revision = taken.b.Revision
	p.refused(rouse.StatusRunning, rouse.CodeFenced)
	q := newPen(t, b, "u", "of b")
	q.b.Owner = b.Node()
	q.commit(rouse.StatusRunning)
	taken.claim(a.Node()).commit(rouse.StatusRunning)
	if got := orphans(t, a) + orphans(t, b); got != "" {
		t.Errorf("both are alive, and yet these are orphans: %s", got)
	}
	mustClose(t, b)
	if got := orphans(t, a); got != "of b" {
		t.Errorf("the orphans are %q, want the run of the store that was closed", got)
	}
	mustClose(t, b)
	before := dump(t, a)
	mustClose(t, a)
	a = c.Open(t, dir)
	if after := dump(t, a); after != before {
		t.Errorf("after opening again:\n%s\nbefore:\n%s", after, before)
	}
	mustClose(t, a)
}

func (c Config) checkTwoAtOnce(t *testing.T, dir string) {
	const threads, rounds = 10, 5
	stores := []store.Store{c.Open(t, dir), c.Open(t, dir)}
	for round := range rounds {
		// Fifty messages at once through two stores, five for every thread.
		won := race(t, 50, func(i int) error {
			p := newPen(t, stores[i%2], fmt.Sprint("t", i%threads), fmt.Sprint("r", round, "-", i))
			if err := p.try(t.Context(), rouse.StatusRunning, facts(2)...); err != nil {
				return err
			}
			for range 3 {
				if err := p.try(t.Context(), rouse.StatusRunning, facts(1)...); err != nil {
					t.Errorf("the run that has the thread: %v", err)
				}
			}
			return p.try(t.Context(), rouse.StatusWaiting, facts(1)...)
		}, rouse.CodeBusy)
		if won != threads {
			t.Fatalf("%d runs are open in %d threads", won, threads)
		}
		for i, th := range openRuns(t, stores[0]) {
			p := &pen{t: t, j: stores[i%2], b: run.Batch{Thread: th.Thread, Run: th.ID, Revision: th.Revision, Epoch: th.Epoch}}
			p.commit(rouse.StatusCompleted)
		}
	}
	for th := range threads {
		whole(t, stores[th%2], fmt.Sprint("t", th), rounds*6)
	}
	for _, s := range stores {
		mustClose(t, s)
	}
}

func openRuns(t *testing.T, s store.Store) []store.RunInfo {
	t.Helper()
	runs, _, err := s.ListRuns(t.Context(), store.RunFilter{Status: []rouse.Status{rouse.StatusRunning, rouse.StatusWaiting}, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	return runs
}
