package state_test

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/state"
)

type plan struct {
	Goal  string `json:"goal"`
	Extra any    `json:"extra,omitempty"`
}

// keys are what most tests use.
type keys struct {
	plan  state.Exclusive[plan]
	note  state.Exclusive[*string]
	spent state.Commutative[int64, int64]
	peak  state.Commutative[int, int]
	tags  state.Commutative[[]string, string]
}

func newKeys() keys {
	return keys{
		plan:  state.NewExclusive[plan](state.Options{Name: "plan"}),
		note:  state.NewExclusive[*string](state.Options{Name: "note", Scope: state.ScopeThread}),
		spent: state.Sum(state.Options{Name: "spent"}),
		peak:  state.Max[int](state.Options{Name: "peak", Scope: state.ScopeShared}),
		tags:  state.Union[string](state.Options{Name: "tags", Scope: state.ScopeProfile}),
	}
}

func (k keys) all() []state.Key { return []state.Key{k.plan, k.note, k.spent, k.peak, k.tags} }

type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

func newStore(t fataler, c state.Config) *state.Store {
	t.Helper()
	s, err := state.New(c)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return s
}

func value[V any](t fataler, k interface {
	Get(state.Snapshot) (V, error)
}, s *state.Store) V {
	t.Helper()
	v, err := k.Get(s.Snapshot())
	if err != nil {
		t.Fatalf("%v", err)
	}
	return v
}

func wantCode(t fataler, err error, code rouse.Code) {
	t.Helper()
	if rouse.CodeOf(err) != code {
		t.Fatalf("got code %q (%v), want %q", rouse.CodeOf(err), err, code)
	}
}

func must(t fataler, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v", err)
	}
}

func TestReadAndWrite(t *testing.T) {
	t.Parallel()
	k := newKeys()
	s := newStore(t, state.Config{Keys: k.all()})
	old := s.Snapshot()
	if k.plan.Has(old) {
		t.Error("an empty store has a value")
	}

	b := old.Batch()
	k.plan.Set(b, plan{Goal: "first"})
	k.plan.Set(b, plan{Goal: "second"}) // the same writer may change its mind
	k.spent.Add(b, 3)
	k.spent.Add(b, -1)
	k.tags.Add(b, "x")
	k.tags.Add(b, "a")
	k.tags.Add(b, "x")
	k.peak.Add(b, -7)
	if got, want := b.Keys(), []string{"peak", "plan", "spent", "tags"}; !reflect.DeepEqual(got, want) {
		t.Errorf("keys of the batch: got %q, want %q", got, want)
	}
	must(t, s.Commit(*b))

	if got := value(t, k.plan, s); got.Goal != "second" {
		t.Errorf("got %+v", got)
	}
	if got := value(t, k.spent, s); got != 2 {
		t.Errorf("sum: got %d, want 2", got)
	}
	if got := value(t, k.tags, s); !reflect.DeepEqual(got, []string{"a", "x"}) {
		t.Errorf("union: got %q", got)
	}
	if got := value(t, k.peak, s); got != -7 {
		t.Errorf("the maximum of one negative number: got %d", got)
	}
	if got := s.Snapshot().Revision(); got != 1 {
		t.Errorf("revision %d after one commit", got)
	}
	if k.plan.Has(old) || old.Revision() != 0 {
		t.Error("an old snapshot changed")
	}

	b = s.Snapshot().Batch()
	k.plan.Delete(b)
	k.note.Set(b, nil) // null is a value
	must(t, s.Commit(*b))
	if k.plan.Has(s.Snapshot()) || !k.note.Has(s.Snapshot()) {
		t.Error("a deleted value is there, or one that is null is not")
	}
	must(t, s.Commit())
	must(t, s.Commit(*s.Snapshot().Batch()))
	if got := s.Snapshot().Revision(); got != 2 {
		t.Errorf("revision %d: a commit of nothing counts", got)
	}
}

// TestKindsAreTypes: what does not commute does not compile, because the method is not there.
func TestKindsAreTypes(t *testing.T) {
	t.Parallel()
	k := newKeys()
	for _, c := range []struct {
		key     any
		has, no []string
	}{
		{&k.plan, []string{"Get", "Set", "Delete"}, []string{"Add"}},
		{&k.spent, []string{"Get", "Add"}, []string{"Set", "Delete"}},
	} {
		typ := reflect.TypeOf(c.key)
		for _, m := range c.has {
			if _, ok := typ.MethodByName(m); !ok {
				t.Errorf("%v has no %s", typ, m)
			}
		}
		for _, m := range c.no {
			if _, ok := typ.MethodByName(m); ok {
				t.Errorf("%v has %s", typ, m)
			}
		}
	}
}

func TestConflicts(t *testing.T) {
	t.Parallel()
	k := newKeys()
	write := func(snap state.Snapshot, goal string) state.Batch {
		b := snap.Batch()
		k.spent.Add(b, 1)
		k.plan.Set(b, plan{Goal: goal})
		return *b
	}
	want := func(t *testing.T, err error, batch, first int) {
		t.Helper()
		wantCode(t, err, rouse.CodeConflict)
		var c *state.Conflict
		if !errors.As(err, &c) || *c != (state.Conflict{Key: "plan", Scope: state.ScopeRun, Batch: batch, First: first}) {
			t.Errorf("got %+v", c)
		}
		if !strings.Contains(err.Error(), "plan") {
			t.Errorf("the error does not name the key: %v", err)
		}
	}
	t.Run("parallel", func(t *testing.T) {
		t.Parallel()
		s := newStore(t, state.Config{Keys: k.all()})
		snap := s.Snapshot()
		other := snap.Batch()
		k.spent.Add(other, 1)
		want(t, s.Commit(*other, write(snap, "a"), write(snap, "a")), 2, 1)
		if value(t, k.spent, s) != 0 || s.Snapshot().Revision() != 0 {
			t.Error("a refused commit changed something")
		}
	})
	t.Run("parallel deletion", func(t *testing.T) {
		t.Parallel()
		s := newStore(t, state.Config{Keys: k.all()})
		b := s.Snapshot().Batch()
		k.plan.Delete(b)
		want(t, s.Commit(write(s.Snapshot(), "a"), *b), 1, 0)
	})
	t.Run("stale", func(t *testing.T) {
		t.Parallel()
		s := newStore(t, state.Config{Keys: k.all()})
		snap := s.Snapshot()
		must(t, s.Commit(write(snap, "a")))
		want(t, s.Commit(write(snap, "b")), 0, -1)
		var zero state.Batch
		k.plan.Set(&zero, plan{})
		want(t, s.Commit(zero), 0, -1)
		if got := value(t, k.plan, s); got.Goal != "a" {
			t.Errorf("overwritten by %q", got.Goal)
		}
		must(t, s.Commit(write(s.Snapshot(), "b")))
	})
	t.Run("stale against a deletion", func(t *testing.T) {
		t.Parallel()
		s := newStore(t, state.Config{Keys: k.all()})
		must(t, s.Commit(write(s.Snapshot(), "a")))
		snap := s.Snapshot()
		b := snap.Batch()
		k.plan.Delete(b)
		must(t, s.Commit(*b))
		want(t, s.Commit(write(snap, "b")), 0, -1)
	})
	t.Run("stale against a restoration", func(t *testing.T) {
		t.Parallel()
		s := newStore(t, state.Config{Keys: k.all()})
		must(t, s.Commit(write(s.Snapshot(), "a")))
		snap := s.Snapshot()
		must(t, s.Restore(state.ScopeRun, json.RawMessage(`{}`)))
		if k.plan.Has(s.Snapshot()) {
			t.Error("a value that was not exported is still there")
		}
		want(t, s.Commit(write(snap, "b")), 0, -1)
	})
}

func TestRefusedWrites(t *testing.T) {
	t.Parallel()
	k := newKeys()
	number := state.NewExclusive[float64](state.Options{Name: "number"})
	mute := state.NewExclusive[error](state.Options{Name: "mute"}) // encodes, cannot be decoded
	broken := state.NewCommutative(state.Options{Name: "broken"}, func(v int, u string) (int, error) {
		if u == "panic" {
			panic("user code")
		}
		return v, errors.New("no")
	})
	store := newStore(t, state.Config{Keys: append(k.all(), number, mute, broken), MaxValue: 64})
	for name, c := range map[string]struct {
		write func(*state.Batch)
		code  rouse.Code
	}{
		"unknown key":     {func(b *state.Batch) { state.Sum(state.Options{Name: "else"}).Add(b, 1) }, rouse.CodeNotFound},
		"same name":       {func(b *state.Batch) { state.NewExclusive[int](state.Options{Name: "plan"}).Set(b, 1) }, rouse.CodeInvalid},
		"other merge":     {func(b *state.Batch) { state.NewExclusive[int64](state.Options{Name: "spent"}).Set(b, 1) }, rouse.CodeInvalid},
		"other version":   {func(b *state.Batch) { state.Sum(state.Options{Name: "spent", Version: 2}).Add(b, 1) }, rouse.CodeInvalid},
		"zero key":        {func(b *state.Batch) { var z state.Exclusive[int]; z.Set(b, 1) }, rouse.CodeInvalid},
		"not a number":    {func(b *state.Batch) { number.Set(b, math.NaN()) }, rouse.CodeInvalid},
		"cannot be read":  {func(b *state.Batch) { mute.Set(b, errors.New("x")) }, rouse.CodeInvalid},
		"too large":       {func(b *state.Batch) { k.plan.Set(b, plan{Goal: strings.Repeat("x", 64)}) }, rouse.CodeTooLarge},
		"too large a set": {func(b *state.Batch) { k.tags.Add(b, strings.Repeat("x", 64)) }, rouse.CodeTooLarge},
		"overflow":        {func(b *state.Batch) { k.spent.Add(b, math.MaxInt64); k.spent.Add(b, 1) }, rouse.CodeInvalid},
		"underflow":       {func(b *state.Batch) { k.spent.Add(b, math.MinInt64); k.spent.Add(b, -1) }, rouse.CodeInvalid},
		"apply fails":     {func(b *state.Batch) { broken.Add(b, "") }, rouse.CodeInvalid},
		"apply panics":    {func(b *state.Batch) { broken.Add(b, "panic") }, rouse.CodeInternal},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			good, bad := store.Snapshot().Batch(), store.Snapshot().Batch()
			k.peak.Add(good, 1)
			c.write(bad)
			k.peak.Add(bad, 1)
			wantCode(t, store.Commit(*good, *bad), c.code)
			if k.peak.Has(store.Snapshot()) {
				t.Error("half of it was committed")
			}
		})
	}
	b := store.Snapshot().Batch()
	number.Set(b, math.Inf(1))
	first := b.Err()
	wantCode(t, first, rouse.CodeInvalid)
	number.Set(b, math.NaN())
	number.Set(b, 1)
	if b.Err() != first { //nolint:errorlint // the very same error is meant
		t.Errorf("got %v, want the first error", b.Err())
	}
	if b.Empty() {
		t.Error("a batch with an error is not empty: it must not be dropped")
	}
}

func TestReadsOfOtherKeys(t *testing.T) {
	t.Parallel()
	k := newKeys()
	s := newStore(t, state.Config{Keys: k.all()})
	_, err := state.Sum(state.Options{Name: "else"}).Get(s.Snapshot())
	wantCode(t, err, rouse.CodeNotFound)
	_, err = state.NewExclusive[string](state.Options{Name: "plan"}).Get(s.Snapshot())
	wantCode(t, err, rouse.CodeInvalid)
	_, err = state.Exclusive[int]{}.Get(s.Snapshot())
	wantCode(t, err, rouse.CodeInvalid)
	_, err = k.plan.Get(state.Snapshot{})
	wantCode(t, err, rouse.CodeNotFound)
}

func TestFutureBatch(t *testing.T) {
	t.Parallel()
	k := newKeys()
	ahead, s := newStore(t, state.Config{Keys: k.all()}), newStore(t, state.Config{Keys: k.all()})
	b := ahead.Snapshot().Batch()
	k.spent.Add(b, 1)
	must(t, ahead.Commit(*b))
	wantCode(t, s.Commit(*ahead.Snapshot().Batch()), rouse.CodeInvalid)
}

func TestNewNamesEveryProblem(t *testing.T) {
	t.Parallel()
	_, err := state.New(state.Config{MaxValue: -1, Keys: []state.Key{
		state.Sum(state.Options{Name: "twice"}),
		state.Sum(state.Options{Name: "twice"}),
		state.Sum(state.Options{}),
		state.Sum(state.Options{Name: "bad\xff"}),
		state.Sum(state.Options{Name: "scope", Scope: 9}),
		state.Sum(state.Options{Name: "version", Version: -1}),
		state.Exclusive[int]{},
		nil,
	}})
	wantCode(t, err, rouse.CodeInvalid)
	for _, want := range []string{"keys[1]", "keys[2]", "keys[3]", "keys[4]", "keys[5]", "keys[6]", "keys[7]", "max_value"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
	if strings.Contains(err.Error(), "keys[0]") {
		t.Errorf("%v names a good key", err)
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	var got []string
	for _, d := range newStore(t, state.Config{Keys: newKeys().all()}).Keys() {
		got = append(got, d.Scope.String()+" "+d.Name+" "+string(d.Merge))
	}
	want := []string{"thread note exclusive", "shared peak commutative", "run plan exclusive", "run spent commutative", "profile tags commutative"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestValuesAreOwned: neither what was written nor what was read is shared.
func TestValuesAreOwned(t *testing.T) {
	t.Parallel()
	list := state.NewExclusive[[]string](state.Options{Name: "list"})
	s := newStore(t, state.Config{Keys: []state.Key{list}})
	v := []string{"a"}
	b := s.Snapshot().Batch()
	list.Set(b, v)
	v[0] = "changed after Set"
	must(t, s.Commit(*b))
	value(t, list, s)[0] = "changed by a reader"
	exported := s.Snapshot().Export(state.ScopeRun)
	exported[len(exported)-2] = '!'
	if got := value(t, list, s); got[0] != "a" {
		t.Errorf("got %q", got)
	}
}

// TestCopiesOfABatch: a batch that was copied and continued twice loses nothing.
func TestCopiesOfABatch(t *testing.T) {
	t.Parallel()
	k := newKeys()
	s := newStore(t, state.Config{Keys: k.all()})
	a := *s.Snapshot().Batch()
	for range 3 {
		k.spent.Add(&a, 1)
	}
	b := a
	k.spent.Add(&a, 10)
	k.spent.Add(&b, 100)
	must(t, s.Commit(a, b))
	if got := value(t, k.spent, s); got != 116 {
		t.Errorf("got %d, want 3+10+3+100", got)
	}
}

func TestCommutes(t *testing.T) {
	t.Parallel()
	k := newKeys()
	must(t, k.spent.Commutes(1, 2, 3))
	must(t, k.peak.Commutes(1, 2, 3))
	must(t, k.tags.Commutes(nil, "a", "b"))
	last := state.NewCommutative(state.Options{Name: "last"}, func(_, u string) (string, error) { return u, nil })
	wantCode(t, last.Commutes("", "a", "b"), rouse.CodeInvalid)
	wantCode(t, k.spent.Commutes(math.MaxInt64, 1, -1), rouse.CodeInvalid)
}

// TestConcurrentWriters: nobody's write is lost, whoever conflicts tries again.
func TestConcurrentWriters(t *testing.T) {
	t.Parallel()
	const writers, rounds = 16, 20
	k := newKeys()
	count := state.NewExclusive[int](state.Options{Name: "count"})
	s := newStore(t, state.Config{Keys: append(k.all(), count)})
	increment := func() error {
		for {
			snap := s.Snapshot()
			n, err := count.Get(snap)
			if err != nil {
				return err
			}
			b := snap.Batch()
			count.Set(b, n+1)
			k.spent.Add(b, 1)
			if err := s.Commit(*b); rouse.CodeOf(err) != rouse.CodeConflict {
				return err
			}
		}
	}
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range rounds {
				if err := increment(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if n, sum := value(t, count, s), value(t, k.spent, s); n != writers*rounds || sum != writers*rounds {
		t.Errorf("got %d and %d, want %d", n, sum, writers*rounds)
	}
}
