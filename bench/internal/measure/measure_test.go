package measure

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/rouse-run/rouse/bench/internal/mockllm"
	"github.com/rouse-run/rouse/bench/internal/workload"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRatios(t *testing.T) {
	t.Parallel()
	nan, inf := math.NaN(), math.Inf(1)
	for name, c := range map[string]struct {
		a, b       []float64
		ratio, sub Spread
	}{
		"one":       {[]float64{3}, []float64{2}, Spread{1, 1.5, 1.5, 1.5}, Spread{1, 1, 1, 1}},
		"odd":       {[]float64{10, 2, 6}, []float64{10, 1, 2}, Spread{3, 2, 1, 3}, Spread{3, 1, 0, 4}},
		"even":      {[]float64{1, 2, 3, 8}, []float64{1, 1, 1, 1}, Spread{4, 2.5, 1, 8}, Spread{4, 1.5, 0, 7}},
		"unequal":   {[]float64{1, 2}, []float64{1}, Spread{}, Spread{}},
		"none":      {nil, nil, Spread{}, Spread{}},
		"not a one": {[]float64{1, nan}, []float64{1, 1}, Spread{}, Spread{}},
		"by zero":   {[]float64{1}, []float64{0}, Spread{}, Spread{1, 1, 1, 1}},
		"infinite":  {[]float64{inf}, []float64{1}, Spread{}, Spread{}},
	} {
		if got := Ratios(c.a, c.b); got != c.ratio {
			t.Errorf("%s: ratio %+v, want %+v", name, got, c.ratio)
		}
		if got := Differences(c.a, c.b); got != c.sub {
			t.Errorf("%s: difference %+v, want %+v", name, got, c.sub)
		}
	}
	// The ratio inside a repetition, then the median: not the ratio of the medians.
	if got := Ratios([]float64{1, 30, 2}, []float64{1, 10, 8}); got.Median != 1 {
		t.Errorf("median %v, want 1", got.Median)
	}
	if (Spread{}).Measured() || !NewSpread([]float64{0}).Measured() {
		t.Error("zero is a figure, no value is none")
	}
}

func TestCPUTimeGrows(t *testing.T) {
	t.Parallel()
	start, err := cpuTime()
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		if now, err := cpuTime(); err == nil && now-start > 10*time.Millisecond {
			return
		}
	}
	t.Error("30 s of work took no processor time")
}

// subject returns one that makes one call of a tool and answers as it should, after d.
func subject(d time.Duration) *Subject {
	w := workload.Workload{Name: "test", Model: mockllm.Model{Rounds: 1, Calls: 1, Chunks: 16}}
	tools := new(workload.Tools)
	return &Subject{
		Task: workload.Task{Workload: w, Tools: tools},
		Run: func(ctx context.Context, _ int) (workload.Result, error) {
			select {
			case <-time.After(d):
			case <-ctx.Done():
				return workload.Result{}, ctx.Err()
			}
			tools.Add(workload.AddIn{A: 1, B: 2})
			return workload.Result{TextBytes: len(w.Model.Text()), ToolCalls: 1}, nil
		},
	}
}

func TestRuns(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		run         time.Duration
		concurrency int
		want        int
	}{
		"until the budget ends": {100 * time.Millisecond, 1, 10},
		"side by side":          {100 * time.Millisecond, 4, 40},
		"at least one each":     {time.Hour, 3, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cost, err := subject(c.run).Runs(t.Context(), c.concurrency, time.Second)
				if err != nil || cost.Runs != c.want {
					t.Fatalf("%+v, %v, want %d runs", cost, err, c.want)
				}
				if wall := milliseconds(c.run) / float64(c.concurrency); math.Abs(cost.WallMS-wall) > wall/1e6 {
					t.Errorf("%v ms a run, want %v", cost.WallMS, wall)
				}
				if cost.Allocs <= 0 {
					t.Errorf("runs without an allocation: %+v", cost)
				}
			})
		})
	}
}

func TestRunsFindWhatIsWrong(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for want, change := range map[string]func(s *Subject, good RunFunc){
		"final text of 0 bytes": func(s *Subject, _ RunFunc) {
			s.Run = func(context.Context, int) (workload.Result, error) { return workload.Result{ToolCalls: 1}, nil }
		},
		"0 tool calls, want 1": func(s *Subject, good RunFunc) {
			s.Run = func(ctx context.Context, id int) (workload.Result, error) {
				r, err := good(ctx, id)
				r.ToolCalls = 0
				return r, err
			}
		},
		"the tools were called": func(s *Subject, good RunFunc) {
			s.Run = func(ctx context.Context, id int) (workload.Result, error) {
				s.Task.Tools.Add(workload.AddIn{})
				return good(ctx, id)
			}
		},
		"run 3: broken": func(s *Subject, good RunFunc) {
			s.Run = func(ctx context.Context, id int) (workload.Result, error) {
				if id == 3 {
					return workload.Result{}, broken
				}
				return good(ctx, id)
			}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := subject(time.Millisecond)
			change(s, s.Run)
			if _, err := s.Runs(t.Context(), 2, time.Second); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
}

func TestRunsStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if _, err := subject(time.Millisecond).Runs(ctx, 2, time.Hour); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

// gate holds the runs of a subject.
type gate struct {
	held     atomic.Int64
	open     chan struct{}
	held2    int64 // what Held says after the first time that all were there
	all      int64
	seen     bool
	fail     error
	released int
}

func (g *gate) Held(context.Context) (int64, error) {
	if g.seen && g.held2 != 0 {
		return g.held2, nil
	}
	g.seen = g.held.Load() == g.all
	return g.held.Load(), g.fail
}

func (g *gate) Release(context.Context) error {
	g.released++
	close(g.open)
	g.open, g.all, g.seen = make(chan struct{}), 40, false
	g.held.Store(0)
	return nil
}

// hold makes the runs of s wait at the gate, each with size bytes in its hands.
func (g *gate) hold(s *Subject, size int) {
	good := s.Run
	s.Run = func(ctx context.Context, id int) (workload.Result, error) {
		b := make([]byte, size)
		for i := range b {
			b[i] = 1
		}
		open := g.open
		g.held.Add(1)
		select {
		case <-open:
		case <-ctx.Done():
			return workload.Result{}, ctx.Err()
		}
		b[0]++
		return good(ctx, id)
	}
}

func TestInFlight(t *testing.T) {
	s := subject(0)
	g := &gate{open: make(chan struct{}), all: warmInFlight}
	g.hold(s, 1<<20)
	m, err := s.InFlight(t.Context(), 40, g)
	if err != nil {
		t.Fatal(err)
	}
	// The race detector has memory of its own, so resident memory has no upper bound here.
	if m.HeapStack < 1020 || m.HeapStack > 1100 || m.RSS < 1000 {
		t.Errorf("%+v for runs that hold 1,024 KiB each", m)
	}
	if g.released != 2 {
		t.Errorf("the gate was opened %d times", g.released)
	}
}

func TestInFlightFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		gate *gate
		run  RunFunc
		want error
	}{
		"the gate fails":        {gate: &gate{all: warmInFlight, fail: broken}, want: broken},
		"a run fails":           {gate: &gate{all: warmInFlight}, run: func(context.Context, int) (workload.Result, error) { return workload.Result{}, broken }, want: broken},
		"a run ends in between": {gate: &gate{all: warmInFlight, held2: warmInFlight - 1}, want: errMoved},
		"nobody reaches the gate": {gate: &gate{all: warmInFlight}, run: func(ctx context.Context, _ int) (workload.Result, error) {
			<-ctx.Done()
			return workload.Result{}, ctx.Err()
		}, want: context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				s := subject(0)
				c.gate.open = make(chan struct{})
				c.gate.hold(s, 1)
				if c.run != nil {
					s.Run = c.run
				}
				if _, err := s.InFlight(ctx, 40, c.gate); !errors.Is(err, c.want) {
					t.Errorf("got %v, want %v", err, c.want)
				}
			})
		})
	}
}
