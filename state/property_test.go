package state_test

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/state"
)

// op writes one thing to a batch.
type op struct {
	name  string // of the key
	apply func(*state.Batch)
}

// drawAdd draws an update of a commutative key. Sums stay far from overflow.
func drawAdd(t *rapid.T, k keys) op {
	switch rapid.IntRange(0, 2).Draw(t, "commutative key") {
	case 0:
		v := rapid.Int64Range(-1<<40, 1<<40).Draw(t, "sum")
		return op{"spent", func(b *state.Batch) { k.spent.Add(b, v) }}
	case 1:
		v := rapid.Int().Draw(t, "max")
		return op{"peak", func(b *state.Batch) { k.peak.Add(b, v) }}
	default:
		v := rapid.StringN(0, 3, -1).Draw(t, "union")
		return op{"tags", func(b *state.Batch) { k.tags.Add(b, v) }}
	}
}

func drawSet(t *rapid.T, k keys) op {
	switch rapid.IntRange(0, 3).Draw(t, "exclusive key") {
	case 0:
		return op{"plan", func(b *state.Batch) { k.plan.Delete(b) }}
	case 1:
		return op{"note", func(b *state.Batch) { k.note.Set(b, nil) }}
	case 2:
		v := rapid.String().Draw(t, "note")
		return op{"note", func(b *state.Batch) { k.note.Set(b, &v) }}
	default:
		v := plan{Goal: rapid.String().Draw(t, "goal"), Extra: json.Number(rapid.StringMatching(`-?[1-9][0-9]{0,30}(\.[0-9]{1,5})?`).Draw(t, "number"))}
		return op{"plan", func(b *state.Batch) { k.plan.Set(b, v) }}
	}
}

func drawOps(t *rapid.T, k keys) []op {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) op {
		if rapid.Bool().Draw(t, "commutative") {
			return drawAdd(t, k)
		}
		return drawSet(t, k)
	}), 0, 6).Draw(t, "ops")
}

func batchOf(s state.Snapshot, ops ...op) state.Batch {
	b := s.Batch()
	for _, o := range ops {
		o.apply(b)
	}
	return *b
}

// values is the content without its revision.
func values(s *state.Store) string {
	var out []byte
	for _, scope := range []state.Scope{state.ScopeRun, state.ScopeThread, state.ScopeShared, state.ScopeProfile} {
		out = append(out, s.Snapshot().Export(scope)...)
	}
	return string(out)
}

// TestCommutativeUpdates: however updates are spread over batches and commits,
// and in whatever order, the result is the same.
func TestCommutativeUpdates(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		k := newKeys()
		adds := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) op { return drawAdd(t, k) }), 0, 12).Draw(t, "updates")
		one := newStore(t, state.Config{Keys: k.all()})
		must(t, one.Commit(batchOf(one.Snapshot(), adds...)))

		other := newStore(t, state.Config{Keys: k.all()})
		rest := rapid.Permutation(adds).Draw(t, "order")
		for len(rest) > 0 { // commits of batches of updates
			snap := other.Snapshot()
			var batches []state.Batch
			for range rapid.IntRange(1, 3).Draw(t, "batches") {
				n := rapid.IntRange(0, len(rest)).Draw(t, "size")
				batches, rest = append(batches, batchOf(snap, rest[:n]...)), rest[n:]
			}
			must(t, other.Commit(batches...))
		}
		if a, b := values(one), values(other); a != b {
			t.Fatalf("%s\n%s", a, b)
		}
	})
}

// TestOneCommitHasNoOrder: the order of the batches of a commit does not matter
// even to a key whose apply does not commute.
func TestOneCommitHasNoOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		k := newKeys()
		concat := state.NewCommutative(state.Options{Name: "concat"}, func(v, u string) (string, error) { return v + u, nil })
		store := func() *state.Store { return newStore(t, state.Config{Keys: append(k.all(), concat)}) }
		a, b := store(), store()
		var batches []state.Batch
		for range rapid.IntRange(0, 4).Draw(t, "batches") {
			add := batchOf(a.Snapshot(), rapid.SliceOfN(rapid.Custom(func(t *rapid.T) op { return drawAdd(t, k) }), 0, 3).Draw(t, "ops")...)
			concat.Add(&add, rapid.String().Draw(t, "piece"))
			batches = append(batches, add)
		}
		must(t, a.Commit(batches...))
		must(t, b.Commit(rapid.Permutation(batches).Draw(t, "order")...))
		if x, y := values(a), values(b); x != y {
			t.Fatalf("%s\n%s", x, y)
		}
	})
}

// TestHistory drives three stores through one random history with writers that
// read old snapshots: one commits, one prepares and publishes, one loads what was
// prepared. A model says which commits must conflict.
func TestHistory(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		k := newKeys()
		config := state.Config{Keys: k.all()}
		direct, durable, resumed := newStore(t, config), newStore(t, config), newStore(t, config)
		old := []state.Snapshot{direct.Snapshot()}
		text := []string{string(old[0].Checkpoint())}
		changed := map[string]int64{} // revision at which an exclusive key changed last
		for range rapid.IntRange(1, 12).Draw(t, "commits") {
			var batches []state.Batch
			clash, writer := false, map[string]int{}
			for i := range rapid.IntRange(1, 3).Draw(t, "batches") {
				snap := old[rapid.IntRange(max(0, len(old)-2), len(old)-1).Draw(t, "snapshot")]
				ops := drawOps(t, k)
				for _, o := range ops {
					if o.name != "plan" && o.name != "note" {
						continue
					}
					if first, ok := writer[o.name]; ok && first != i || changed[o.name] > snap.Revision() {
						clash = true
					}
					if _, ok := writer[o.name]; !ok {
						writer[o.name] = i
					}
				}
				batches = append(batches, batchOf(snap, ops...))
			}
			before := direct.Snapshot()
			err := direct.Commit(batches...)
			delta, publish, perr := durable.Prepare(batches)
			if clash != (err != nil) || clash != (perr != nil) {
				t.Fatalf("conflict expected: %v, got %v and %v", clash, err, perr)
			}
			if clash {
				wantConflict(t, err, writer)
				wantConflict(t, perr, writer)
				if direct.Snapshot().Revision() != before.Revision() || string(direct.Snapshot().Checkpoint()) != string(before.Checkpoint()) {
					t.Fatal("half of a refused commit is there")
				}
				continue
			}
			if string(durable.Snapshot().Checkpoint()) != string(before.Checkpoint()) {
				t.Fatal("visible before it is published")
			}
			publish()
			if delta != nil {
				must(t, resumed.Load(delta))
				old, text = append(old, direct.Snapshot()), append(text, string(direct.Snapshot().Checkpoint()))
				noteChanges(t, delta, changed)
			}
			want := string(direct.Snapshot().Checkpoint())
			if a, b := string(durable.Snapshot().Checkpoint()), string(resumed.Snapshot().Checkpoint()); a != want || b != want {
				t.Fatalf("committed %s\npublished %s\nloaded    %s", want, a, b)
			}
		}
		for i, s := range old {
			if string(s.Checkpoint()) != text[i] {
				t.Fatalf("snapshot %d changed from %s to %s", i, text[i], s.Checkpoint())
			}
		}
	})
}

func wantConflict(t *rapid.T, err error, written map[string]int) {
	t.Helper()
	wantCode(t, err, rouse.CodeConflict)
	var c *state.Conflict
	if !errors.As(err, &c) {
		t.Fatalf("no *Conflict in %v", err)
	}
	if _, ok := written[c.Key]; !ok || c.First >= c.Batch {
		t.Fatalf("got %+v", c)
	}
}

// noteChanges reads from a delta which exclusive keys changed.
func noteChanges(t *rapid.T, delta json.RawMessage, changed map[string]int64) {
	t.Helper()
	var d struct {
		Revision    int64
		Run, Thread map[string]json.RawMessage
	}
	must(t, json.Unmarshal(delta, &d))
	for _, name := range slices.Concat(slices.Collect(maps.Keys(d.Run)), slices.Collect(maps.Keys(d.Thread))) {
		changed[name] = d.Revision
	}
}

// TestExportRestore: a restored scope exports what was restored, and other
// scopes keep what they had.
func TestExportRestore(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		k := newKeys()
		from, to := newStore(t, state.Config{Keys: k.all()}), newStore(t, state.Config{Keys: k.all()})
		for _, s := range []*state.Store{from, to} {
			for range rapid.IntRange(0, 4).Draw(t, "commits") {
				must(t, s.Commit(batchOf(s.Snapshot(), drawOps(t, k)...)))
			}
		}
		scope := state.Scope(rapid.IntRange(0, 3).Draw(t, "scope"))
		before := to.Snapshot()
		must(t, to.Restore(scope, from.Snapshot().Export(scope)))
		for other := state.ScopeRun; other <= state.ScopeProfile; other++ {
			want := before
			if other == scope {
				want = from.Snapshot()
			}
			if got := to.Snapshot().Export(other); string(got) != string(want.Export(other)) {
				t.Fatalf("%s: got %s, want %s", other, got, want.Export(other))
			}
		}
		fresh := newStore(t, state.Config{Keys: k.all()})
		must(t, fresh.Load(to.Snapshot().Checkpoint()))
		if a, b := to.Snapshot(), fresh.Snapshot(); string(a.Checkpoint()) != string(b.Checkpoint()) || a.Revision() != b.Revision() {
			t.Fatalf("%s\n%s", a.Checkpoint(), b.Checkpoint())
		}
	})
}
