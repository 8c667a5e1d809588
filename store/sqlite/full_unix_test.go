//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"sync"
	"syscall"
	"testing"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/run"
	"github.com/rouse-run/rouse/store/sqlite"
)

// TestDiskFull lets a process run into the limit on the size of its files, with
// many commits at once, and then have room again.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := spawn(t, "full", dir)
	if err := p.end(); err != nil {
		t.Fatalf("the child: %v", err)
	}
	s := open(t, sqlite.Config{Dir: dir})
	for w := range fillers {
		thread := fmt.Sprint("t", w)
		r, err := s.Run(t.Context(), "run of "+thread)
		if err != nil {
			t.Fatal(err)
		}
		checkEvents(t, s, "after the child", thread, r.Revision, r.LastSeq)
	}
}

const fillers = 8

// childFillsDisk is the process: it checks that a full disk is told as such, that
// what was acknowledged stays, and that the next commit works when there is room.
func childFillsDisk(dir string) error {
	ctx := context.Background()
	signal.Ignore(syscall.SIGXFSZ) // the write fails with EFBIG instead
	s, err := sqlite.Open(ctx, sqlite.Config{Dir: dir})
	if err != nil {
		return err
	}
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		return err
	}
	batches := make([]*run.Batch, fillers)
	for w := range batches {
		thread := fmt.Sprint("t", w)
		batches[w] = &run.Batch{Thread: thread, Run: "run of " + thread, Epoch: 1, Status: rouse.StatusRunning}
	}
	for round := range 3 {
		limit := before
		limit.Cur = 1 << 19 // its type is not the same everywhere
		for range round {
			limit.Cur *= 2
		}
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
			return err
		}
		if err := fill(ctx, s, batches); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
			return err
		}
		for _, b := range batches {
			if r, err := s.Run(ctx, b.Run); err != nil || r.Revision != b.Revision {
				return fmt.Errorf("%s is at revision %d, acknowledged were %d: %w", b.Run, r.Revision, b.Revision, err)
			}
			b.Events = batchEvents(b.Revision + 1)
			if err := s.Commit(ctx, b); err != nil {
				return fmt.Errorf("with room again: %w", err)
			}
			b.Revision++
		}
	}
	return s.Close()
}

// fill commits until every writer has met the full disk.
func fill(ctx context.Context, s *sqlite.Store, batches []*run.Batch) error {
	errs := make([]error, len(batches))
	var wg sync.WaitGroup
	for w, b := range batches {
		wg.Go(func() {
			for range 1 << 16 {
				b.Events = batchEvents(b.Revision + 1)
				if err := s.Commit(ctx, b); err != nil {
					var e *rouse.Error
					if !errors.As(err, &e) || e.Code != rouse.CodeStorage || e.Hint == "" {
						errs[w] = fmt.Errorf("a full disk is told as %w", err)
					}
					return
				}
				b.Revision++
			}
			errs[w] = errors.New("the disk did not become full")
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
