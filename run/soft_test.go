package run_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/run"
)

// slowly is a journal whose commits take a while.
type slowly struct {
	*run.Memory
	took    time.Duration
	commits int
}

func (s *slowly) Commit(ctx context.Context, b *run.Batch) error {
	s.commits++
	<-time.After(s.took) // fake time
	return s.Memory.Commit(ctx, b)
}

// softly is a tree whose children make soft moves and then do something unsafe, at
// different times.
func softly() fn[tally, int] {
	leaf := fn[tally, int]{
		id: "leaf",
		do: func(ctx context.Context, sc *run.Scope[tally]) (run.Move, error) {
			<-time.After(time.Duration(sc.Uint64() % uint64(2*run.HoldTime))) // fake time
			sc.Emit(rouse.EventToolProgress, rouse.Delta{Text: sc.Path()})
			if sc.State().N < 5 {
				return sc.Continue("again", func(s *tally) { s.N++ }).Soft(), nil
			}
			_, err := sc.Effect(ctx, run.Effect{
				Key: "pay", Type: rouse.EventToolFinished, Intent: json.RawMessage(`{"pay":1}`),
				Live: func(context.Context) (json.RawMessage, error) { return json.RawMessage(`{"paid":1}`), nil },
			})
			return sc.Complete("done", nil), err
		},
		result: func(_ run.Cursor, s tally) (int, error) { return s.N, nil },
	}
	return fn[tally, int]{
		id: "softly", children: []run.AnyStep{run.Erase(leaf)},
		do: func(ctx context.Context, sc *run.Scope[tally]) (run.Move, error) {
			if sc.At() == "" {
				var kids []run.Child
				for i := range 6 {
					kids = append(kids, run.Spawn(fmt.Sprint(i), leaf, tally{}, run.Budget{}))
				}
				return sc.Call("joined", nil, run.Join{}, kids...).Soft(), nil
			}
			return sc.Complete("done", nil), nil
		},
		result: func(_ run.Cursor, s tally) (int, error) { return s.N, nil },
	}
}

func TestSoftMovesKeepTheOrderOfEachFrame(t *testing.T) {
	t.Parallel()
	for _, took := range []time.Duration{0, time.Millisecond, run.HoldTime, 3 * run.HoldTime} {
		synctest.Test(t, func(t *testing.T) {
			j := &slowly{Memory: run.NewMemory(), took: took}
			r, err := run.Start(t.Context(), softly(), tally{}, run.Options{Journal: j})
			if err != nil {
				t.Fatal(err)
			}
			evs := collect(t, r.Events(t.Context()))
			seq, facts, deltas := int64(0), 0, 0
			for _, ev := range evs {
				if ev.Class == rouse.ClassDelta {
					deltas++
				} else if seq, facts = seq+1, facts+1; ev.Seq != seq {
					t.Fatalf("event %d comes after %d", ev.Seq, seq-1)
				}
			}
			// Six children: six moves, an intent and a receipt each; the root's two
			// moves, the run's beginning and end.
			if facts != 6*8+4 || deltas != 6*6 {
				t.Errorf("%d facts and %d deltas", facts, deltas)
			}
			if took > 0 && j.commits >= facts-6 {
				t.Errorf("%d commits for %d facts: nothing was shared", j.commits, facts)
			}
			verify(t, softly(), j.Memory, r.ID(), run.Options{})
		})
	}
}
