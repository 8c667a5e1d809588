package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"

	"go.uber.org/goleak"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/agent"
	"github.com/rouse-run/rouse/internal/safecall"
	"github.com/rouse-run/rouse/model/mock"
	"github.com/rouse-run/rouse/run"
)

// A panic in the body of the loop over a run's events is the caller's own: it
// reaches the caller, and nothing is left behind: no goroutine, and a run that
// has ended or can be driven on.
func TestPanicInTheLoopOverEvents(t *testing.T) {
	// Case 12: google/adk-go PR #359; modelcontextprotocol/go-sdk #958.
	t.Parallel()
	for n := 1; ; n++ {
		more := true
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			more = panicAt(t, n)
		})
		if !more {
			if n < 10 {
				t.Errorf("only %d events", n)
			}
			return
		}
	}
}

var errMine = errors.New("the caller's own")

// panicAt panics at event n and reports whether there was one.
func panicAt(t *testing.T, n int) bool {
	g, err := mock.New(threeCalls())
	if err != nil {
		t.Fatal(err)
	}
	var h hands
	a := newAgent(t, agent.Config{Model: g, Tools: h.tools(t, "one", "boom", "two")})
	j := run.NewMemory()
	r, err := a.Start(t.Context(), run.Options{Journal: j, ID: "r"}, rouse.Text("go"))
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	got := safecall.Do(t.Context(), "consumer", func(ctx context.Context) error {
		for range r.Events(ctx) {
			if seen++; seen == n {
				panic(errMine)
			}
		}
		return nil
	})
	if seen < n {
		if got != nil {
			t.Errorf("nobody panicked, but %v", got)
		}
		return false
	}
	if !errors.Is(got, errMine) {
		t.Errorf("at event %d: the caller sees %v", n, got)
	}
	if seen > n {
		t.Errorf("at event %d: the loop went on for %d events", n, seen-n)
	}
	// The run has ended, or goes on from its last commit.
	if row, ok := j.Row("r"); ok {
		if !row.Status.Final() {
			if r, err = a.Resume(t.Context(), row, run.Options{Journal: j}); err != nil {
				t.Fatalf("at event %d: %v", n, err)
			}
			goOn(t, a, j, r)
		}
		verify(t, a, j, r)
	}
	return true
}

// A loop that is left by a panic or by runtime.Goexit (which is what t.FailNow
// does) leaves no goroutine of an observer behind. Not parallel: it counts them.
func TestNoObserverOutlivesTheLoop(t *testing.T) {
	for name, leave := range map[string]func(){"panic": func() { panic(errMine) }, "goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			before := goleak.IgnoreCurrent()
			g, err := mock.New(threeCalls())
			if err != nil {
				t.Fatal(err)
			}
			var h hands
			a := newAgent(t, agent.Config{Model: g, Tools: h.tools(t, "one", "boom", "two")})
			r, err := a.Start(t.Context(), run.Options{Observers: []run.Observer{&watcher{}}}, rouse.Text("go"))
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				_ = safecall.Do(t.Context(), "consumer", func(ctx context.Context) error {
					for range r.Events(ctx) {
						leave()
					}
					return nil
				})
			}()
			<-done
			if err := goleak.Find(before); err != nil {
				t.Error(err)
			}
		})
	}
}

// What a provider reports cannot lift a budget: neither less than nothing nor so
// much that the sum overflows.
func TestAbsurdUsageDoesNotLiftABudget(t *testing.T) {
	t.Parallel()
	for name, u := range map[string]rouse.Usage{"negative": {Input: -1000, Output: 1000}, "most": {Input: 1<<63 - 1, Output: 1<<63 - 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, err := mock.New(mock.Config{Rules: []mock.Rule{{Prompt: mock.Any, Generator: mock.Result{Calls: []mock.Call{{Name: "one"}}, Usage: &u}}}})
			if err != nil {
				t.Fatal(err)
			}
			var h hands
			a := newAgent(t, agent.Config{Model: g, Tools: h.tools(t, "one"), MaxRounds: 6})
			r, err := a.Start(t.Context(), run.Options{Budget: run.Budget{OutputTokens: 100}}, rouse.Text("go"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.Wait(t.Context()); rouse.CodeOf(err) != rouse.CodeBudget || len(g.Requests()) != 1 {
				t.Errorf("%d requests, %v", len(g.Requests()), err)
			}
			if s := r.Spent(); s.InputTokens < 0 || s.OutputTokens < 0 {
				t.Errorf("spent %+v", s)
			}
		})
	}
}
