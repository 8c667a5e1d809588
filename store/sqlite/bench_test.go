//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package sqlite_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/run"
	"github.com/rouse-run/rouse/store/sqlite"
)

// BenchmarkCommit measures durable commits of two or three events of 250 bytes
// each, every caller with a run and a thread of its own.
func BenchmarkCommit(b *testing.B) {
	for _, callers := range []int{1, 8, 32, 128} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			s, err := sqlite.Open(b.Context(), sqlite.Config{Dir: b.TempDir()})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			var left atomic.Int64
			left.Store(int64(b.N))
			var wg sync.WaitGroup
			b.ReportAllocs()
			b.ResetTimer()
			for c := range callers {
				wg.Go(func() { commitLoop(b, s, c, &left) })
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
		})
	}
}

func commitLoop(b *testing.B, s *sqlite.Store, caller int, left *atomic.Int64) {
	data := fmt.Appendf(nil, `{"output":"%0230d"}`, caller)
	events := make([]rouse.Event, 3)
	at := rouse.Stamp(time.Now())
	for i := range events {
		events[i] = rouse.Event{Path: "/", Class: rouse.ClassFact, Type: rouse.EventToolFinished, At: at, Data: data}
	}
	batch := run.Batch{
		Thread: fmt.Sprintf("0190aaaa-bbbb-7ccc-8ddd-%012d", caller), Run: fmt.Sprintf("0190aaaa-bbbb-7ccc-9eee-%012d", caller),
		Epoch: 1, Status: rouse.StatusRunning,
	}
	for left.Add(-1) >= 0 {
		batch.Events = events[:2+batch.Revision%2]
		if err := s.Commit(b.Context(), &batch); err != nil {
			b.Error(err)
			return
		}
		batch.Revision++
	}
}
