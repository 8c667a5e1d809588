//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package sqlite_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/run"
	"github.com/rouse-run/rouse/store/sqlite"
)

// BenchmarkCommit measures durable commits as agents make them: every run has a
// new thread, begins with three events of 300 bytes, goes on with two or three of
// 500 and ends with the fourth commit. It reports the processor's time, of the
// process and of the kernel for it, and how long a caller waits.
func BenchmarkCommit(b *testing.B) {
	for _, callers := range []int{1, 16, 32, 128} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			s, err := sqlite.Open(b.Context(), sqlite.Config{Dir: b.TempDir()})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			b.ReportAllocs()
			b.ResetTimer()
			user, kernel := processorTime(b)
			commitRuns(b, s, callers)
			userAfter, kernelAfter := processorTime(b)
			n := float64(b.N)
			b.ReportMetric(n/b.Elapsed().Seconds(), "commits/s")
			b.ReportMetric(float64((userAfter-user).Nanoseconds())/n/1e3, "user-µs/op")
			b.ReportMetric(float64((kernelAfter-kernel).Nanoseconds())/n/1e3, "kernel-µs/op")
		})
	}
}

// BenchmarkPages counts the pages that a commit adds to the write-ahead log.
func BenchmarkPages(b *testing.B) {
	for _, callers := range []int{1, 16, 32} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			dir := b.TempDir()
			s, err := sqlite.Open(b.Context(), sqlite.Config{Dir: dir, CheckpointPages: 1 << 30})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			log := filepath.Join(dir, sqlite.FileName+"-wal")
			before := logPages(b, log)
			commitRuns(b, s, callers)
			b.ReportMetric(float64(logPages(b, log)-before)/float64(b.N), "pages/op")
		})
	}
}

func logPages(b *testing.B, path string) int64 {
	b.Helper()
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	return info.Size() / (4096 + 24)
}

func processorTime(b *testing.B) (user, kernel time.Duration) {
	b.Helper()
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano()), time.Duration(r.Stime.Nano())
}

// commitRuns makes b.N commits in all.
func commitRuns(b *testing.B, s *sqlite.Store, callers int) {
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			ids := rouse.NewIDs(rouse.SystemClock{}, nil)
			for left.Load() > 0 {
				commitRun(b, s, ids, &left)
			}
		})
	}
	wg.Wait()
}

func commitRun(b *testing.B, s *sqlite.Store, ids rouse.IDs, left *atomic.Int64) {
	small, large := bytes.Repeat([]byte("x"), 300), bytes.Repeat([]byte("y"), 500)
	at := rouse.Stamp(time.Now())
	batch := run.Batch{Thread: ids.NewID(), Run: ids.NewID(), Epoch: 1, Agent: "assistant", Title: "What is the weather?"}
	for ; batch.Revision < 4 && left.Add(-1) >= 0; batch.Revision++ {
		data, n := large, int64(2)
		batch.Status = rouse.StatusRunning
		switch batch.Revision {
		case 0:
			data, n = small, 3
		case 2:
			n = 3
		case 3:
			batch.Status = rouse.StatusCompleted
		}
		batch.Events = make([]rouse.Event, n)
		for i := range batch.Events {
			batch.Events[i] = rouse.Event{Path: "/", Class: rouse.ClassFact, Type: rouse.EventToolFinished, At: at, Sum: 1 << 63, Data: data}
		}
		if err := s.Commit(b.Context(), &batch); err != nil {
			b.Error(err)
			return
		}
	}
}
