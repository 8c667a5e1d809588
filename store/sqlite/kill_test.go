//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package sqlite_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/run"
	"github.com/rouse-run/rouse/store/sqlite"
)

// TestKill ends a process that commits with SIGKILL, over and over, and opens
// what it leaves: every acknowledged commit is there, of each run at most one
// more, and the places of the events have no gap.
func TestKill(t *testing.T) {
	t.Parallel()
	for store := range 4 {
		t.Run(fmt.Sprint("store ", store), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			acked := make(map[string]int64)
			for kill := range 15 {
				p := spawn(t, "commit", dir)
				for range 1 + rand.IntN(60) {
					acknowledge(t, p.line(), acked)
				}
				_ = p.cmd.Process.Kill()
				for l := p.line(); l != ""; l = p.line() {
					acknowledge(t, l, acked) // said before the end
				}
				p.kill()
				checkKilled(t, dir, fmt.Sprint("kill ", kill), acked)
			}
			if acked["t0"] < 15 {
				t.Errorf("only %d commits of a run were acknowledged in 15 lives", acked["t0"])
			}
		})
	}
}

// TestKillAtPoints ends the process at every fault point with SIGKILL.
func TestKillAtPoints(t *testing.T) {
	t.Parallel()
	for _, point := range sqlite.FaultPoints() {
		if point == sqlite.PointCloseNode {
			continue // this child never closes its store; TestFaults does
		}
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			acked := make(map[string]int64)
			for _, nth := range []int{1, 2, 7} {
				if nth > 1 && point[:5] == "open." {
					nth = 1 // a process opens its store once
				}
				p := spawn(t, "die", dir, point, fmt.Sprint(nth))
				for l := p.line(); l != ""; l = p.line() {
					acknowledge(t, l, acked)
				}
				p.kill()
				if p.cmd.ProcessState.Exited() {
					t.Fatalf("the child ended by itself: %v", p.cmd.ProcessState)
				}
				checkKilled(t, dir, fmt.Sprint("time ", nth), acked)
			}
		})
	}
}

func acknowledge(t *testing.T, line string, acked map[string]int64) {
	t.Helper()
	var thread string
	var revision int64
	if _, err := fmt.Sscan(line, &thread, &revision); err != nil {
		t.Fatalf("the child said %q: %v", line, err)
	}
	if revision != acked[thread]+1 {
		t.Fatalf("%s goes from revision %d to %d", thread, acked[thread], revision)
	}
	acked[thread] = revision
}

// checkKilled opens the store that a killed process left.
func checkKilled(t *testing.T, dir, when string, acked map[string]int64) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir})
	if err != nil {
		t.Fatalf("%s: Open: %v", when, err)
	}
	for i := range childThreads {
		thread := fmt.Sprint("t", i)
		r, err := s.Run(t.Context(), "run of "+thread)
		if rouse.CodeOf(err) == rouse.CodeNotFound && acked[thread] == 0 {
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		if r.Revision < acked[thread] || r.Revision > acked[thread]+1 {
			t.Fatalf("%s: %s is at revision %d, acknowledged were %d", when, thread, r.Revision, acked[thread])
		}
		checkEvents(t, s, when, thread, r.Revision, r.LastSeq)
		acked[thread] = r.Revision
	}
	orphans, err := s.Orphans(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := len(acked); len(orphans) != want {
		t.Fatalf("%s: %d orphans, want the %d runs of the process that is gone", when, len(orphans), want)
	}
	files, err := os.ReadDir(filepath.Join(dir, "nodes"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%s: %d lock files, want only that of this store: %v", when, len(files), err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// checkEvents compares a thread with what the commits up to revision have written.
func checkEvents(t *testing.T, s *sqlite.Store, when, thread string, revision, lastSeq int64) {
	t.Helper()
	var want []string
	for r := int64(1); r <= revision; r++ {
		for _, e := range batchEvents(r) {
			want = append(want, string(e.Data))
		}
	}
	n := 0
	for e, err := range s.Read(t.Context(), run.Query{Thread: thread}) {
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		if n >= len(want) || e.Seq != int64(n)+1 || string(e.Data) != want[n] {
			t.Fatalf("%s: %s has %s at place %d of %d, seq %d", when, thread, e.Data, n+1, len(want), e.Seq)
		}
		n++
	}
	if n != len(want) || lastSeq != int64(n) {
		t.Fatalf("%s: %s has %d events and the last place %d, want %d", when, thread, n, lastSeq, len(want))
	}
}
