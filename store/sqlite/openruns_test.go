//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package sqlite

import (
	"fmt"
	"testing"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/run"
)

func testEvent() rouse.Event {
	return rouse.Event{Path: "/", Class: rouse.ClassFact, Type: rouse.EventMessage, Data: []byte(`{}`)}
}

// TestRemembered watches what is remembered of runs: what runs, and nothing that
// another connection, a failed transaction or another run may have changed.
func TestRemembered(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := Open(t.Context(), Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	other, err := Open(t.Context(), Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	commit := func(s *Store, b *run.Batch, status rouse.Status, code rouse.Code) {
		t.Helper()
		b.Status, b.Events = status, []rouse.Event{testEvent(), testEvent()}
		err := s.Commit(t.Context(), b)
		if rouse.CodeOf(err) != code {
			t.Fatalf("run %q at revision %d: %v, want the code %q", b.Run, b.Revision, err, code)
		}
		if err == nil {
			b.Revision++
			b.Claim = false
		}
	}
	remembered := func(b *run.Batch, want bool) {
		t.Helper()
		at, found := s.writer.open.rows[b.Run]
		v, err := s.writer.version()
		if err != nil || found != want {
			t.Fatalf("run %q is remembered: %t, want %t; %v", b.Run, found, want, err)
		}
		if found && (v != s.writer.open.version || at.revision != b.Revision || at.threadSeq != b.Events[1].Seq) {
			t.Fatalf("version %d, remembered for %d: %+v", v, s.writer.open.version, at)
		}
	}
	a, b := testBatch("a"), testBatch("b")
	commit(s, a, rouse.StatusRunning, "")
	commit(s, b, rouse.StatusRunning, "")
	remembered(a, true)
	remembered(b, true)
	commit(s, a, rouse.StatusRunning, "")
	remembered(a, true)
	commit(s, a, rouse.StatusWaiting, "")
	remembered(a, false)
	commit(s, a, rouse.StatusRunning, "")
	remembered(a, true)

	// Another connection takes a over, which this one does not know.
	taken := *a
	taken.Epoch, taken.Claim = 2, true
	commit(other, &taken, rouse.StatusRunning, "")
	a.Revision = taken.Revision
	commit(s, a, rouse.StatusRunning, rouse.CodeFenced)
	commit(other, &taken, rouse.StatusRunning, "")
	commit(s, &taken, rouse.StatusRunning, "")
	remembered(&taken, true)
	commit(s, &taken, rouse.StatusCompleted, "")
	remembered(&taken, false)

	// A run that is over writes to the thread of one that runs.
	second := testBatch("a")
	second.Run = "second"
	commit(s, second, rouse.StatusRunning, "")
	remembered(second, true)
	commit(s, &taken, rouse.StatusCompleted, "")
	remembered(second, false)
	commit(s, second, rouse.StatusRunning, "")
	remembered(second, true)

	// A transaction that is not committed.
	if err := s.writer.conn.Exec(`CREATE TRIGGER no BEFORE INSERT ON events WHEN NEW.thread = 2 BEGIN SELECT RAISE(ABORT, 'no'); END`); err != nil {
		t.Fatal(err)
	}
	commit(s, b, rouse.StatusRunning, rouse.CodeCorrupt)
	remembered(b, false)
	remembered(second, false)
	commit(s, second, rouse.StatusRunning, "")
	remembered(second, true)
	for i := range maxRemembered + 10 {
		s.writer.open.written(testBatch(fmt.Sprint("many", i)), row{}, false)
		if n := len(s.writer.open.rows); n > maxRemembered {
			t.Fatalf("%d runs are remembered", n)
		}
	}
}
