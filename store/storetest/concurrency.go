package storetest

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/run"
)

func concurrencyChecks() []check[run.Journal] {
	return []check[run.Journal]{
		{"many runs at once", "a Journal is safe for concurrent use: no event is lost, no place is left out or given twice", checkManyRuns},
		{"one wins a revision", "of commits that saw the same revision one is done, the others are CodeConflict", checkOneWins},
		{"one opens a thread", "of runs that begin in one thread at once one is made, the others are CodeBusy", checkOneOpens},
		{"one claims", "of claims of one run one is done, the others are CodeFenced or CodeConflict", checkOneClaims},
		{"bad among good", "a commit that is refused does not fail the ones beside it", checkBadAmongGood},
		{"canceled meanwhile", "a commit that reports that it was canceled has not been done", checkCanceledMeanwhile},
		{"read meanwhile", "a reader sees whole commits only, in order and without a gap", checkReadMeanwhile},
	}
}

func checkManyRuns(t *testing.T, j run.Journal) {
	const threads, runs, commits = 16, 3, 20
	var wg sync.WaitGroup
	for th := range threads {
		wg.Go(func() {
			for r := range runs {
				p := newPen(t, j, fmt.Sprint("t", th), fmt.Sprint("r", th, "-", r))
				for c := range commits {
					status := rouse.StatusRunning
					if c == commits-1 {
						status = rouse.StatusCompleted
					}
					events := facts(1 + c%3)
					for i := range events {
						events[i].Data = fmt.Appendf(nil, `{"run":%d,"commit":%d,"event":%d}`, r, c, i)
					}
					if err := p.try(t.Context(), status, events...); err != nil {
						t.Errorf("thread %d, run %d, commit %d: %v", th, r, c, err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	for th := range threads {
		thread := fmt.Sprint("t", th)
		events := read(t, j, run.Query{Thread: thread})
		at := 0
		for r := range runs {
			for c := range commits {
				for i := range 1 + c%3 {
					want := fmt.Sprintf(`{"run":%d,"commit":%d,"event":%d}`, r, c, i)
					if at >= len(events) || string(events[at].Data) != want || events[at].Seq != int64(at)+1 {
						t.Fatalf("%s: event %d of %d is not %s", thread, at+1, len(events), want)
					}
					at++
				}
			}
		}
		if at != len(events) {
			t.Fatalf("%s has %d events, want %d", thread, len(events), at)
		}
	}
}

// race lets n goroutines call try at once and returns how many succeeded; the
// others must fail with one of the codes.
func race(t *testing.T, n int, try func(i int) error, codes ...rouse.Code) int {
	t.Helper()
	var won atomic.Int32
	var wg sync.WaitGroup
	begin := make(chan struct{})
	errs := make([]error, n)
	for i := range n {
		wg.Go(func() {
			<-begin
			if errs[i] = try(i); errs[i] == nil {
				won.Add(1)
			}
		})
	}
	close(begin)
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			wantCode(t, err, codes...)
		}
	}
	return int(won.Load())
}

func checkOneWins(t *testing.T, j run.Journal) {
	p := newPen(t, j, "t", "a").commit(rouse.StatusRunning, facts(1)...)
	for round := range 20 {
		won := race(t, 8, func(int) error {
			q := *p
			return q.try(t.Context(), rouse.StatusRunning, facts(1)...)
		}, rouse.CodeConflict)
		if won != 1 {
			t.Fatalf("%d commits of revision %d were done", won, p.b.Revision)
		}
		p.b.Revision++
		whole(t, j, "t", round+2)
	}
}

func checkOneOpens(t *testing.T, j run.Journal) {
	for round := range 10 {
		thread := fmt.Sprint("t", round)
		won := race(t, 50, func(i int) error {
			return newPen(t, j, thread, fmt.Sprint("r", round, "-", i)).try(t.Context(), rouse.StatusRunning, facts(2)...)
		}, rouse.CodeBusy)
		if won != 1 {
			t.Fatalf("%d runs of one thread are open", won)
		}
		whole(t, j, thread, 2)
	}
}

func checkOneClaims(t *testing.T, j run.Journal) {
	p := newPen(t, j, "t", "a").commit(rouse.StatusRunning, facts(1)...)
	won := race(t, 16, func(i int) error {
		q := *p
		return q.claim(fmt.Sprint("owner", i)).try(t.Context(), rouse.StatusRunning, facts(1)...)
	}, rouse.CodeFenced, rouse.CodeConflict)
	if won != 1 {
		t.Fatalf("%d claims were done", won)
	}
	whole(t, j, "t", 2)
}

func checkBadAmongGood(t *testing.T, j run.Journal) {
	newPen(t, j, "busy", "open").commit(rouse.StatusRunning, facts(1)...)
	var wg sync.WaitGroup
	for i := range 24 {
		wg.Go(func() {
			p := newPen(t, j, fmt.Sprint("t", i), fmt.Sprint("r", i))
			for range 20 {
				var err error
				switch want := rouse.Code(""); i % 3 {
				case 0:
					if err = p.try(t.Context(), rouse.StatusRunning, facts(2)...); rouse.CodeOf(err) != want {
						t.Errorf("a good commit: %v", err)
					}
				case 1:
					want = rouse.CodeBusy
					err = newPen(t, j, "busy", fmt.Sprint("r", i)).try(t.Context(), rouse.StatusRunning, facts(2)...)
					if rouse.CodeOf(err) != want {
						t.Errorf("a commit to a busy thread: %v", err)
					}
				default:
					want = rouse.CodeNotFound
					q := *p
					q.b.Revision = 5
					if err = q.try(t.Context(), rouse.StatusRunning, facts(2)...); rouse.CodeOf(err) != want {
						t.Errorf("a commit of no run: %v", err)
					}
				}
			}
		})
	}
	wg.Wait()
	whole(t, j, "busy", 1)
	for i := range 24 {
		want := 0
		if i%3 == 0 {
			want = 40
		}
		whole(t, j, fmt.Sprint("t", i), want)
	}
}

func checkCanceledMeanwhile(t *testing.T, j run.Journal) {
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			p := newPen(t, j, fmt.Sprint("t", w), fmt.Sprint("r", w))
			done := 0
			for i := range 60 {
				ctx, cancel := context.WithCancel(t.Context())
				wg.Go(func() {
					for range i * 3 {
						runtime.Gosched()
					}
					cancel()
				})
				err := p.try(ctx, rouse.StatusRunning, facts(2)...)
				if err == nil {
					done++
				} else if c := rouse.CodeOf(err); c != rouse.CodeCanceled {
					// A conflict would mean that a commit before was done after all.
					t.Errorf("commit %d of run %d: %v", i, w, err)
					return
				}
			}
			if n := len(read(t, j, run.Query{Thread: p.b.Thread})); n != 2*done {
				t.Errorf("run %d has %d events after %d commits of two", w, n, done)
			}
		})
	}
	wg.Wait()
}

func checkReadMeanwhile(t *testing.T, j run.Journal) {
	const commits, each = 60, 3
	p := newPen(t, j, "t", "a").commit(rouse.StatusRunning, facts(each)...)
	var wg sync.WaitGroup
	wg.Go(func() {
		for range commits - 1 {
			if err := p.try(t.Context(), rouse.StatusRunning, facts(each)...); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 4 {
		wg.Go(func() {
			for last := int64(0); last < commits*each && !t.Failed(); {
				n := int64(0)
				for e, err := range j.Read(t.Context(), run.Query{Thread: "t"}) {
					if n++; err != nil || e.Seq != n {
						t.Errorf("seq %d at place %d: %v", e.Seq, n, err)
						return
					}
				}
				if n < last || n%each != 0 {
					t.Errorf("%d events were seen after %d", n, last)
					return
				}
				last = n
			}
		})
	}
	wg.Wait()
}
