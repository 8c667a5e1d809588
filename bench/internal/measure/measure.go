// Package measure runs a peer's runs in this process and says what they cost
// it: processor time, allocations and, for runs in flight, memory.
package measure

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rouse-run/rouse/bench/internal/workload"
)

// RunFunc does one run; id is unique to it.
type RunFunc func(ctx context.Context, id int) (workload.Result, error)

// Subject is what is measured.
type Subject struct {
	Task workload.Task
	Run  RunFunc

	lastID atomic.Int64
}

// Cost is what the runs of a measurement cost this process, per run.
type Cost struct {
	Runs   int     `json:"runs"`
	CPUms  float64 `json:"cpu_ms"`
	Allocs float64 `json:"allocs"`
	WallMS float64 `json:"wall_ms"` // of the whole measurement, over its runs
}

// Runs keeps `concurrency` runs in flight for the time budget, and at least one
// each, and returns what they cost. Every run is checked; the first that fails
// is the error.
func (s *Subject) Runs(ctx context.Context, concurrency int, budget time.Duration) (Cost, error) {
	var before, after runtime.MemStats
	calls := s.Task.Tools.Calls()
	runtime.GC()
	runtime.ReadMemStats(&before)
	cpu, err := cpuTime()
	if err != nil {
		return Cost{}, err
	}
	start := time.Now()
	runs, err := s.loop(ctx, concurrency, start.Add(budget))
	if err != nil {
		return Cost{}, err
	}
	wall := time.Since(start)
	cpuEnd, err := cpuTime()
	if err != nil {
		return Cost{}, err
	}
	runtime.ReadMemStats(&after)
	if got, want := s.Task.Tools.Calls()-calls, int64(runs*s.Task.Model.Rounds*s.Task.Model.Calls); got != want {
		return Cost{}, fmt.Errorf("the tools were called %d times, want %d", got, want)
	}
	n := float64(runs)
	return Cost{
		Runs:   runs,
		CPUms:  milliseconds(cpuEnd-cpu) / n,
		Allocs: float64(after.Mallocs-before.Mallocs) / n,
		WallMS: milliseconds(wall) / n,
	}, nil
}

// loop runs until the deadline and returns how many runs there were.
func (s *Subject) loop(ctx context.Context, concurrency int, deadline time.Time) (int, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var runs atomic.Int64
	var wg sync.WaitGroup
	for range concurrency {
		wg.Go(func() {
			for first := true; first || time.Now().Before(deadline); first = false {
				if err := s.one(ctx); err != nil {
					cancel(err)
					return
				}
				runs.Add(1)
			}
		})
	}
	wg.Wait()
	return int(runs.Load()), context.Cause(ctx)
}

// one does one run and checks it.
func (s *Subject) one(ctx context.Context) error {
	id := int(s.lastID.Add(1))
	res, err := s.Run(ctx, id)
	if err == nil {
		err = s.Task.Check(res)
	}
	if err != nil {
		return fmt.Errorf("run %d: %w", id, err)
	}
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Gate is how a measurement sees and releases the runs that a model server holds.
type Gate interface {
	// Held returns how many runs wait at the gate.
	Held(ctx context.Context) (int64, error)
	// Release lets all of them go.
	Release(ctx context.Context) error
}

// Memory is what a run in flight takes, in KiB.
type Memory struct {
	RSS float64 `json:"rss_kib"`
	// HeapStack is live heap and stacks in use.
	HeapStack float64 `json:"heap_stack_kib"`
}

// warmInFlight is how many runs are in flight before the idle state is read.
const warmInFlight = 16

var errMoved = errors.New("not all runs were in flight while memory was read")

// InFlight puts n runs in flight, all waiting at the gate for their final
// text, and returns the memory that each takes beyond the idle process.
func (s *Subject) InFlight(ctx context.Context, n int, gate Gate) (Memory, error) {
	if _, err := s.flight(ctx, warmInFlight, gate); err != nil {
		return Memory{}, err
	}
	idle, err := readMemory()
	if err != nil {
		return Memory{}, err
	}
	busy, err := s.flight(ctx, n, gate)
	if err != nil {
		return Memory{}, err
	}
	return Memory{
		RSS:       (busy.RSS - idle.RSS) / float64(n),
		HeapStack: (busy.HeapStack - idle.HeapStack) / float64(n),
	}, nil
}

// flight returns the memory of the process while n runs wait at the gate, and
// lets them end.
func (s *Subject) flight(ctx context.Context, n int, gate Gate) (m Memory, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			if err := s.one(ctx); err != nil {
				cancel(err)
			}
		})
	}
	m, err = s.snapshot(ctx, n, gate)
	if err == nil {
		err = gate.Release(ctx)
	}
	if err != nil {
		cancel(err)
	}
	wg.Wait()
	err = context.Cause(ctx)
	cancel(nil)
	return m, err
}

func (s *Subject) snapshot(ctx context.Context, n int, gate Gate) (Memory, error) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		held, err := gate.Held(ctx)
		if err != nil {
			return Memory{}, err
		}
		if held == int64(n) {
			break
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return Memory{}, context.Cause(ctx)
		}
	}
	m, err := readMemory()
	if err != nil {
		return Memory{}, err
	}
	if held, err := gate.Held(ctx); err != nil || held != int64(n) {
		return Memory{}, errors.Join(errMoved, err)
	}
	return m, nil
}

// readMemory collects garbage, gives free memory back and reads what is left, in KiB.
func readMemory() (Memory, error) {
	runtime.GC()
	debug.FreeOSMemory()
	var ms runtime.MemStats
	runtime.ReadMemStats(&ms)
	rss, err := residentKiB()
	return Memory{RSS: rss, HeapStack: float64(ms.HeapAlloc+ms.StackInuse) / 1024}, err
}
