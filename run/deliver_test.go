package run_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/run"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type sinkFunc func(ctx context.Context, ev rouse.Event) error

func (f sinkFunc) Deliver(ctx context.Context, ev rouse.Event) error { return f(ctx, ev) }

type observerFunc func(ev rouse.Event)

func (f observerFunc) Observe(ev rouse.Event) { f(ev) }

// chatty streams n deltas from several goroutines at once and then completes.
func chatty(n int) fn[tally, int] {
	return fn[tally, int]{
		id: "chatty",
		do: func(ctx context.Context, sc *run.Scope[tally]) (run.Move, error) {
			sc.Emit(rouse.EventText, rouse.Delta{Text: "first"})
			err := sc.Each(ctx, 4, 4, func(ctx context.Context, i int) error {
				for k := range n {
					sc.Emit(rouse.EventText, rouse.Delta{Index: i, Text: string(rune('a' + k%26))})
				}
				return nil
			})
			sc.Emit(rouse.EventText, rouse.Delta{Text: "last"})
			return sc.Complete("done", nil), err
		},
		result: func(run.Cursor, tally) (int, error) { return 0, nil },
	}
}

func TestSinkGetsEverythingInTheOrderOfTheConsumer(t *testing.T) {
	t.Parallel()
	var got []rouse.Event
	r, err := run.Start(t.Context(), chatty(100), tally{}, run.Options{Sink: sinkFunc(func(_ context.Context, ev rouse.Event) error {
		got = append(got, ev)
		return nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	evs := collect(t, r.Events(t.Context()))
	if len(evs) != 402+3 || len(got) != len(evs) {
		t.Fatalf("consumer %d, sink %d", len(evs), len(got))
	}
	for i := range evs {
		if evs[i].Delta != got[i].Delta || evs[i].Type != got[i].Type {
			t.Fatalf("event %d differs", i)
		}
	}
	if evs[0].Delta.Text != "first" || evs[401].Delta.Text != "last" {
		t.Errorf("the deltas of the frame are out of order: %v ... %v", evs[0], evs[401])
	}
}

func TestFailingSinkEndsTheRun(t *testing.T) {
	t.Parallel()
	for _, bad := range []func() error{func() error { return errors.New("full") }, func() error { panic("oh") }} {
		r, err := run.Start(t.Context(), count(50), tally{}, run.Options{Sink: sinkFunc(func(_ context.Context, ev rouse.Event) error {
			if ev.Type == rouse.EventStep {
				return bad()
			}
			return nil
		})})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Wait(t.Context()); rouse.CodeOf(err) != rouse.CodeInternal {
			t.Fatalf("got %v", err)
		}
	}
}

func TestSlowObserverLosesEventsAndIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var mu sync.Mutex
		seen, lost := 0, 0
		obs := observerFunc(func(ev rouse.Event) {
			<-release
			mu.Lock()
			defer mu.Unlock()
			if ev.Type == run.EventObserverLost {
				lost += ev.Delta.Index
			} else {
				seen++
			}
			if seen == 3 {
				panic("an observer may panic")
			}
		})
		r, err := run.Start(t.Context(), chatty(1000), tally{}, run.Options{Observers: []run.Observer{obs}})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for ev := range r.Events(t.Context()) {
			if n++; ev.Type == rouse.EventRunStarted {
				close(release) // the run got far without the observer
				synctest.Wait()
			}
		}
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if lost == 0 || seen+lost != n {
			t.Fatalf("%d events, %d seen, %d lost", n, seen, lost)
		}
	})
}

func TestDetachLetsTheRunGo(t *testing.T) {
	t.Parallel()
	j := run.NewMemory()
	r, err := run.Start(t.Context(), count(10), tally{}, run.Options{Journal: j})
	if err != nil {
		t.Fatal(err)
	}
	var last rouse.Event
	var lastErr error
	for ev, err := range r.Events(t.Context()) {
		if last, lastErr = ev, err; ev.Seq == 4 {
			r.Cancel(run.ErrDetach)
		}
	}
	if last.Type != rouse.EventRunInterrupted || !errors.Is(lastErr, run.ErrDetach) {
		t.Fatalf("%s %v", last.Type, lastErr)
	}
	row, _ := j.Row(r.ID())
	if row.Status != rouse.StatusRunning {
		t.Fatalf("status %s", row.Status)
	}
	again, err := run.Resume(t.Context(), count(10), row, run.Options{Journal: j})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := again.Wait(t.Context()); err != nil || n != 10 {
		t.Fatalf("%d %v", n, err)
	}
	verify(t, count(10), j, r.ID(), run.Options{})
}

func TestTwoDriversAreOneTooMany(t *testing.T) {
	t.Parallel()
	r, err := run.Start(t.Context(), count(3), tally{}, run.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range r.Events(t.Context()) {
		if _, err := r.Wait(t.Context()); rouse.CodeOf(err) != rouse.CodeBusy {
			t.Fatalf("got %v", err)
		}
	}
}

func TestDependenciesAreSuppliedAgain(t *testing.T) {
	t.Parallel()
	key := run.DepKey[func() int]{Name: "dice"}
	step := fn[tally, int]{
		id: "deps",
		do: func(ctx context.Context, sc *run.Scope[tally]) (run.Move, error) {
			dice, err := run.Dep(sc.Services, key)
			if err != nil {
				return run.Move{}, err
			}
			return sc.Complete("done", func(s *tally) { s.N = dice() }), nil
		},
		result: func(at run.Cursor, s tally) (int, error) { return s.N, nil },
	}
	r, err := run.Start(t.Context(), step, tally{}, run.Options{Deps: []run.DepValue{run.Provide(key, func() int { return 6 })}})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := r.Wait(t.Context()); err != nil || n != 6 {
		t.Fatal(n, err)
	}
	r, err = run.Start(t.Context(), step, tally{}, run.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Wait(t.Context()); rouse.CodeOf(err) != rouse.CodeNotFound {
		t.Fatal(err)
	}
}
