//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package sqlite_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/run"
	"github.com/rouse-run/rouse/store"
	"github.com/rouse-run/rouse/store/sqlite"
)

func fileSize(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// TestLogIsBounded commits without a pause, with readers beside it, and watches
// the write-ahead log.
func TestLogIsBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const pages = 50
	s := open(t, sqlite.Config{Dir: dir, CheckpointPages: pages})
	var wg sync.WaitGroup
	var stop atomic.Bool
	for w := range 8 {
		wg.Go(func() {
			b := batch(fmt.Sprint("t", w), fmt.Sprint("r", w))
			for !stop.Load() {
				if err := s.Commit(t.Context(), b); err != nil {
					t.Error(err)
					return
				}
				b.Revision++
				if b.Revision%16 == 0 {
					for _, err := range s.Read(t.Context(), run.Query{Thread: b.Thread, After: b.Revision}) {
						if err != nil {
							t.Error(err)
							return
						}
					}
				}
			}
		})
	}
	b := batch("watched", "watched")
	largest := int64(0)
	for range 300 {
		commit(t, s, b)
		largest = max(largest, fileSize(t, filepath.Join(dir, sqlite.FileName+"-wal")))
	}
	stop.Store(true)
	wg.Wait()
	written := fileSize(t, filepath.Join(dir, sqlite.FileName))
	if limit := int64(20 * pages * 4096); largest > limit {
		t.Errorf("the log grew to %d bytes, over %d, while the database has %d", largest, limit, written)
	}
	if largest < pages*4096 {
		t.Errorf("the log grew to %d bytes only, so nothing was tested", largest)
	}
}

// TestGrowth writes 1000 turns with 10 kB each: the store grows with the bytes,
// not with the turns squared.
func TestGrowth(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	b := batch("t", "r")
	b.Events = []rouse.Event{{Path: "/", Class: rouse.ClassFact, Type: rouse.EventToolFinished, Data: make([]byte, 10_000)}}
	for b.Revision < 1000 {
		commit(t, s, b)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	size := fileSize(t, filepath.Join(dir, sqlite.FileName))
	if limit := int64(1000 * 10_000 * 13 / 10); size > limit {
		t.Errorf("10 MB of payload take %d bytes, over %d", size, limit)
	}
}

// TestLiveness has a second process: its run is nobody's orphan while it lives,
// and one at once when it is killed.
func TestLiveness(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(p *process) error{
		"killed":  func(p *process) error { p.kill(); return nil },
		"stopped": (*process).end,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := open(t, sqlite.Config{Dir: dir})
			p := spawn(t, "hold", dir)
			node := p.line()
			orphans, err := s.Orphans(t.Context())
			if err != nil || len(orphans) != 0 {
				t.Fatalf("the owner lives, and the orphans are %+v, %v", orphans, err)
			}
			if err := end(p); err != nil {
				t.Fatal(err)
			}
			orphans, err = s.Orphans(t.Context())
			if err != nil || len(orphans) != 1 || orphans[0].Owner != node || orphans[0].ID != "held" {
				t.Fatalf("the owner %s is gone, and the orphans are %+v, %v", node, orphans, err)
			}
			claim := &run.Batch{Thread: "held", Run: "held", Revision: 1, Epoch: 2, Claim: true, Status: rouse.StatusRunning}
			commit(t, s, claim)
			if orphans, err = s.Orphans(t.Context()); err != nil || len(orphans) != 0 {
				t.Fatalf("after the claim the orphans are %+v, %v", orphans, err)
			}
		})
	}
}

// TestOwners has owners that are no nodes, among them names that are paths.
func TestOwners(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, sqlite.Config{Dir: dir})
	for i, owner := range []string{"somebody", "../opening", "../nodes/" + s.Node(), "/etc/passwd", "\x00", "."} {
		b := batch(fmt.Sprint("t", i), fmt.Sprint("r", i))
		b.Owner = owner
		commit(t, s, b)
	}
	commit(t, s, batch("own", "own")) // no owner means this store
	if r, err := s.Run(t.Context(), "own"); err != nil || r.Owner != s.Node() {
		t.Errorf("the owner is %q, %v, want the node %q", r.Owner, err, s.Node())
	}
	if orphans, err := s.Orphans(t.Context()); err != nil || len(orphans) != 6 {
		t.Errorf("%d orphans, %v, want 6", len(orphans), err)
	}
}

// TestCloseWhileCommitting closes the store under its callers: what was
// acknowledged is there, the rest was refused.
func TestCloseWhileCommitting(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, sqlite.Config{Dir: dir})
	batches := make([]*run.Batch, 16)
	var wg sync.WaitGroup
	var total atomic.Int64
	for w := range batches {
		b := batch(fmt.Sprint("t", w), fmt.Sprint("r", w))
		batches[w] = b
		wg.Go(func() {
			for {
				b.Events = batchEvents(b.Revision + 1)
				if err := s.Commit(t.Context(), b); err != nil {
					if rouse.CodeOf(err) != rouse.CodeStorage {
						t.Errorf("refused with %v", err)
					}
					return
				}
				b.Revision++
				if total.Add(1) == 100 {
					wg.Go(func() {
						if err := s.Close(); err != nil {
							t.Error(err)
						}
					})
				}
			}
		})
	}
	wg.Wait()
	s = open(t, sqlite.Config{Dir: dir})
	for _, b := range batches {
		r, err := s.Run(t.Context(), b.Run)
		if b.Revision == 0 && rouse.CodeOf(err) == rouse.CodeNotFound {
			continue
		}
		if err != nil || r.Revision != b.Revision {
			t.Errorf("%s is at revision %d, acknowledged were %d: %v", b.Run, r.Revision, b.Revision, err)
		}
		checkEvents(t, s, "after Close", b.Thread, r.Revision, r.LastSeq)
	}
}

// TestOpenAtOnce opens one new directory many times at once.
func TestOpenAtOnce(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new", "directory with spaces?#%20")
	stores := make([]*sqlite.Store, 8)
	errs := make([]error, len(stores))
	var wg sync.WaitGroup
	for i := range stores {
		wg.Go(func() { stores[i], errs[i] = sqlite.Open(t.Context(), sqlite.Config{Dir: dir}) })
	}
	wg.Wait()
	for i, s := range stores {
		if errs[i] != nil {
			t.Fatal(errs[i])
		}
		defer s.Close()
		commit(t, s, batch(fmt.Sprint("t", i), fmt.Sprint("r", i)))
	}
	runs, _, err := stores[0].ListRuns(t.Context(), store.RunFilter{})
	if err != nil || len(runs) != len(stores) {
		t.Errorf("%d runs, %v, want %d", len(runs), err, len(stores))
	}
}

// TestOneOpenRunIsAnIndex writes past the store: the database itself refuses a
// second open run of a thread.
func TestOneOpenRunIsAnIndex(t *testing.T) {
	t.Parallel()
	dir := made(t)
	c := raw(t, dir)
	const insert = `INSERT INTO runs (id, thread, agent, title, status, revision, epoch, owner, first_seq, last_seq, created, updated)
		SELECT id || '2', thread, '', '', 'waiting', 1, 1, '', 0, 0, 0, 0 FROM runs`
	if err := c.Exec(insert); err == nil {
		t.Fatal("two runs of one thread are open")
	}
	rawExec(t, c, `UPDATE runs SET status = 'completed'`)
	rawExec(t, c, insert)
}

type fixedClock struct{ at time.Time }

func (c fixedClock) Now() time.Time { return c.at }

func TestClock(t *testing.T) {
	t.Parallel()
	at := time.Date(2040, 1, 2, 3, 4, 5, 6789e5, time.FixedZone("east", 3600))
	s := open(t, sqlite.Config{Dir: t.TempDir(), Clock: fixedClock{at}})
	commit(t, s, batch("t", "r"))
	r, err := s.Run(t.Context(), "r")
	if want := rouse.Stamp(at); err != nil || r.Created != want || r.Updated != want {
		t.Errorf("created %s, updated %s, %v, want %s", r.Created, r.Updated, err, want)
	}
}

// TestLimits holds the limit of a page against its documented maximum.
func TestLimits(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite.Config{Dir: t.TempDir()})
	_, _, err := s.ListRuns(t.Context(), store.RunFilter{Limit: 1001})
	wantError(t, err, rouse.CodeInvalid, false)
	_, _, err = s.ListThreads(t.Context(), 1001, "")
	wantError(t, err, rouse.CodeInvalid, false)
	if _, _, err = s.ListRuns(t.Context(), store.RunFilter{Limit: 1000, Status: []rouse.Status{"asleep"}}); rouse.CodeOf(err) != rouse.CodeInvalid {
		t.Errorf("an unknown status: %v", err)
	}
}

// TestTampered gives the database, behind the store, a constraint that only one
// run breaks, and only with its second event. Its commit is refused whole, and
// those that share its transaction are not.
func TestTampered(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, sqlite.Config{Dir: dir})
	bad := batch("bad", "bad")
	commit(t, s, bad)
	rawExec(t, raw(t, dir), `CREATE TRIGGER tampered BEFORE INSERT ON events
		WHEN NEW.seq = 4 AND NEW.run = (SELECT n FROM runs WHERE id = 'bad') BEGIN SELECT RAISE(ABORT, 'no'); END`)
	before, err := s.Run(t.Context(), "bad")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for w := range 16 {
		wg.Go(func() {
			good := batch(fmt.Sprint("t", w), fmt.Sprint("r", w))
			for range 10 {
				if err := s.Commit(t.Context(), good); err != nil {
					t.Errorf("a commit beside the bad ones: %v", err)
					return
				}
				good.Revision++
				b := *bad
				b.Events = batchEvents(2)
				if err := s.Commit(t.Context(), &b); rouse.CodeOf(err) != rouse.CodeCorrupt {
					t.Errorf("a commit that breaks the constraint: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if after, err := s.Run(t.Context(), "bad"); err != nil || after != before {
		t.Errorf("the run changed from %+v to %+v, %v", before, after, err)
	}
}

// TestRunWithGaps reads, over several pages, one run whose events lie among those
// of others.
func TestRunWithGaps(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite.Config{Dir: t.TempDir()})
	a, b := batch("t", "a"), batch("t", "b")
	a.Status, b.Status = rouse.StatusCompleted, rouse.StatusCompleted
	var want []int64
	for range 300 {
		commit(t, s, a)
		for _, e := range a.Events {
			want = append(want, e.Seq)
		}
		commit(t, s, b)
	}
	var got []int64
	for e, err := range s.Read(t.Context(), run.Query{Thread: "t", Run: "a"}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e.Seq)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d places, want %d:\n%v\n%v", len(got), len(want), got, want)
	}
}
