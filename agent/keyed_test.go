package agent_test

import (
	"context"
	"testing"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/agent"
	"github.com/rouse-run/rouse/run"
	"github.com/rouse-run/rouse/state"
)

// adder is a step that counts in keyed state, twice per move, until it has moved three times.
type adder struct {
	sum   state.Commutative[int64, int64]
	last  state.Exclusive[string]
	clash bool
}

func (adder) Info() run.Info { return run.Info{ID: "adder"} }

func (a adder) Do(_ context.Context, sc *run.Scope[int]) (run.Move, error) {
	snap := sc.Keyed().(state.Snapshot)
	one, two := snap.Batch(), snap.Batch()
	a.sum.Add(one, 1)
	a.sum.Add(two, 10)
	a.last.Set(one, "one")
	if a.clash {
		a.last.Set(two, "two")
	}
	sc.Mutate(one)
	sc.Mutate(*two)
	if sc.State() == 2 {
		return sc.Complete("done", nil), nil
	}
	return sc.Continue("again", func(n *int) { *n++ }), nil
}

func (adder) Result(_ run.Cursor, n int) (int, error) { return n, nil }

func newAdder(t *testing.T, clash bool) (adder, *state.Store) {
	t.Helper()
	a := adder{sum: state.Sum(state.Options{Name: "sum"}), last: state.NewExclusive[string](state.Options{Name: "last"}), clash: clash}
	s, err := state.New(state.Config{Keys: []state.Key{a.sum, a.last}})
	if err != nil {
		t.Fatal(err)
	}
	return a, s
}

func TestKeyedStateIsCommittedWithTheMoveAndComesBack(t *testing.T) {
	t.Parallel()
	for n := 1; n < 4; n++ {
		j := run.NewMemory()
		a, s := newAdder(t, false)
		r, err := run.Start(t.Context(), a, 0, run.Options{Journal: &dying{Memory: j, n: n, after: n%2 == 0}, ID: "r", Thread: "t", Keyed: agent.Keyed(s)})
		if err != nil {
			t.Fatal(err)
		}
		for range r.Events(t.Context()) {
		}
		row, ok := j.Row("r")
		if !ok {
			continue
		}
		_, s = newAdder(t, false)
		if r, err = run.Resume(t.Context(), a, row, run.Options{Journal: j, Keyed: agent.Keyed(s)}); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, err := a.sum.Get(s.Snapshot()); err != nil || got != 33 {
			t.Fatalf("died at %d: the sum is %d (%v), want 33", n, got, err)
		}
		_, s = newAdder(t, false)
		row, _ = j.Row("r")
		if rep, err := run.Verify(t.Context(), a, row, run.Options{Journal: j, Keyed: agent.Keyed(s)}); err != nil || rep.Divergence != nil {
			t.Fatalf("%v %+v", err, rep.Divergence)
		}
	}
}

func TestKeyedStateNeverLosesAWrite(t *testing.T) {
	t.Parallel()
	a, s := newAdder(t, true)
	r, err := run.Start(t.Context(), a, 0, run.Options{Keyed: agent.Keyed(s)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Wait(t.Context()); rouse.CodeOf(err) != rouse.CodeConflict {
		t.Fatalf("got %v", err)
	}
	if got, err := a.sum.Get(s.Snapshot()); err != nil || got != 0 {
		t.Fatalf("half of a refused commit is there: %d %v", got, err)
	}
}
