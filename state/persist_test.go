package state_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/state"
)

func TestExportIsCanonical(t *testing.T) {
	t.Parallel()
	k := newKeys()
	s := newStore(t, state.Config{Keys: k.all()})
	if got := string(s.Snapshot().Export(state.ScopeRun)); got != "{}" {
		t.Errorf("empty: got %s", got)
	}
	b := s.Snapshot().Batch()
	k.spent.Add(b, 5)
	k.plan.Set(b, plan{Goal: "<a&b>"})
	k.tags.Add(b, "t")
	delta, publish, err := s.Prepare([]state.Batch{*b})
	must(t, err)
	publish()
	run := `{"plan":{"version":1,"value":{"goal":"<a&b>"}},"spent":{"version":1,"value":5}}`
	profile := `{"tags":{"version":1,"value":["t"]}}`
	if got := string(s.Snapshot().Export(state.ScopeRun)); got != run {
		t.Errorf("got  %s\nwant %s", got, run)
	}
	if got, want := string(delta), `{"base":0,"revision":1,"run":`+run+`,"profile":`+profile+`}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	b = s.Snapshot().Batch()
	k.plan.Delete(b)
	k.spent.Add(b, 0) // changes nothing
	delta, publish, err = s.Prepare([]state.Batch{*b})
	must(t, err)
	publish()
	if got, want := string(delta), `{"base":1,"revision":2,"run":{"plan":null}}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got, want := string(s.Snapshot().Checkpoint()), `{"base":0,"revision":2,"run":{"spent":{"version":1,"value":5}},"profile":`+profile+`}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestNumbersStay: no number goes through a float64.
func TestNumbersStay(t *testing.T) {
	t.Parallel()
	raw := state.NewExclusive[json.RawMessage](state.Options{Name: "raw"})
	loose := state.NewExclusive[any](state.Options{Name: "loose"})
	sum := state.Sum(state.Options{Name: "sum"})
	keys := []state.Key{raw, loose, sum}
	s := newStore(t, state.Config{Keys: keys})
	const text = `[9007199254740993,1.10,1e400,-0,0.1234567890123456789]`
	must(t, s.Restore(state.ScopeRun, json.RawMessage(`{"raw":{"version":1,"value": `+text+`},"loose":{"version":1,"value":`+text+`},"sum":{"version":1,"value":9007199254740993}}`)))
	b := s.Snapshot().Batch()
	loose.Set(b, value(t, loose, s)) // read, written, read
	raw.Set(b, value(t, raw, s))
	sum.Add(b, 2)
	must(t, s.Commit(*b))
	want := `{"loose":{"version":1,"value":` + text + `},"raw":{"version":1,"value":` + text + `},"sum":{"version":1,"value":9007199254740995}}`
	if got := string(s.Snapshot().Export(state.ScopeRun)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestPrepare(t *testing.T) {
	t.Parallel()
	k := newKeys()
	batch := func(s *state.Store) []state.Batch {
		b := s.Snapshot().Batch()
		k.spent.Add(b, 1)
		return []state.Batch{*b}
	}
	t.Run("nothing is published early or twice", func(t *testing.T) {
		t.Parallel()
		s := newStore(t, state.Config{Keys: k.all()})
		_, publish, err := s.Prepare(batch(s))
		must(t, err)
		if s.Snapshot().Revision() != 0 {
			t.Fatal("visible before it is durable")
		}
		publish()
		publish()
		if s.Snapshot().Revision() != 1 || value(t, k.spent, s) != 1 {
			t.Errorf("revision %d", s.Snapshot().Revision())
		}
		must(t, s.Commit(batch(s)...))
	})
	t.Run("abandoned", func(t *testing.T) {
		t.Parallel()
		s := newStore(t, state.Config{Keys: k.all()})
		_, _, err := s.Prepare(batch(s))
		must(t, err)
		_, publish, err := s.Prepare(batch(s))
		must(t, err)
		publish()
		if got := value(t, k.spent, s); got != 1 {
			t.Errorf("got %d, want 1: a change that was never published counts", got)
		}
	})
	t.Run("nothing changes", func(t *testing.T) {
		t.Parallel()
		s := newStore(t, state.Config{Keys: k.all()})
		delta, publish, err := s.Prepare(nil)
		must(t, err)
		publish()
		if delta != nil || s.Snapshot().Revision() != 0 {
			t.Errorf("got %s", delta)
		}
	})
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		s := newStore(t, state.Config{Keys: k.all()})
		b := s.Snapshot().Batch()
		state.Sum(state.Options{Name: "else"}).Add(b, 1)
		_, publish, err := s.Prepare([]state.Batch{*b})
		wantCode(t, err, rouse.CodeNotFound)
		publish()
		must(t, s.Commit(batch(s)...))
	})
	t.Run("a change in between is not lost silently", func(t *testing.T) {
		t.Parallel()
		s := newStore(t, state.Config{Keys: k.all()})
		_, publish, err := s.Prepare(batch(s))
		must(t, err)
		must(t, s.Commit(batch(s)...))
		publish()
		if got := value(t, k.spent, s); got != 1 {
			t.Errorf("got %d", got)
		}
		wantCode(t, s.Commit(batch(s)...), rouse.CodeInternal)
		_, _, err = s.Prepare(batch(s))
		wantCode(t, err, rouse.CodeInternal)
		wantCode(t, s.Load(json.RawMessage(`{"base":1,"revision":2}`)), rouse.CodeInternal)
		wantCode(t, s.Restore(state.ScopeRun, json.RawMessage(`{}`)), rouse.CodeInternal)
		wantCode(t, s.Seed(json.RawMessage(`{}`)), rouse.CodeInternal)
	})
}

func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	k := newKeys()
	for name, c := range map[string]struct {
		delta string
		code  rouse.Code
	}{
		"no JSON":            {`{`, rouse.CodeCorrupt},
		"another shape":      {`[]`, rouse.CodeCorrupt},
		"more than one":      {`{"base":0,"revision":1} {}`, rouse.CodeCorrupt},
		"unknown scope":      {`{"base":0,"revision":1,"global":{}}`, rouse.CodeCorrupt},
		"a gap":              {`{"base":1,"revision":2}`, rouse.CodeCorrupt},
		"backwards":          {`{"base":0,"revision":-1}`, rouse.CodeCorrupt},
		"not empty at zero":  {`{"base":0,"revision":0,"run":{"spent":{"version":1,"value":1}}}`, rouse.CodeCorrupt},
		"unknown key":        {`{"base":0,"revision":1,"run":{"else":{"version":1,"value":1}}}`, rouse.CodeNotFound},
		"unknown deletion":   {`{"base":0,"revision":1,"run":{"else":null}}`, rouse.CodeNotFound},
		"wrong scope":        {`{"base":0,"revision":1,"thread":{"spent":{"version":1,"value":1}}}`, rouse.CodeCorrupt},
		"wrong type":         {`{"base":0,"revision":1,"run":{"spent":{"version":1,"value":"1"}}}`, rouse.CodeCorrupt},
		"rounded":            {`{"base":0,"revision":1,"run":{"spent":{"version":1,"value":1.5}}}`, rouse.CodeCorrupt},
		"no value":           {`{"base":0,"revision":1,"run":{"spent":{"version":1}}}`, rouse.CodeCorrupt},
		"unknown member":     {`{"base":0,"revision":1,"run":{"spent":{"version":1,"value":1,"x":1}}}`, rouse.CodeCorrupt},
		"a later version":    {`{"base":0,"revision":1,"run":{"spent":{"version":2,"value":1}}}`, rouse.CodeSchemaVersion},
		"an earlier version": {`{"base":0,"revision":1,"run":{"spent":{"version":0,"value":1}}}`, rouse.CodeSchemaVersion},
		"half good":          {`{"base":0,"revision":1,"run":{"plan":{"version":1,"value":{}}},"shared":{"peak":null,"spent":null}}`, rouse.CodeCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStore(t, state.Config{Keys: k.all()})
			wantCode(t, s.Load(json.RawMessage(c.delta)), c.code)
			if s.Snapshot().Revision() != 0 || string(s.Snapshot().Export(state.ScopeRun)) != "{}" {
				t.Error("half of it was loaded")
			}
		})
	}
	s := newStore(t, state.Config{Keys: k.all()})
	must(t, s.Load(json.RawMessage(`{"base":0,"revision":0}`)))
	must(t, s.Load(json.RawMessage(`{"base":0,"revision":1,"run":{"spent":{"version":1,"value":1}}}`)))
	wantCode(t, s.Load(json.RawMessage(`{"base":0,"revision":1}`)), rouse.CodeCorrupt) // once more
	wantCode(t, s.Load(json.RawMessage(`{"base":1,"revision":3}`)), rouse.CodeCorrupt) // one is missing
	wantCode(t, s.Restore(state.Scope(9), json.RawMessage(`{}`)), rouse.CodeInvalid)
	wantCode(t, s.Restore(state.ScopeRun, json.RawMessage(`{"spent":null}`)), rouse.CodeCorrupt)
	wantCode(t, s.Restore(state.ScopeRun, json.RawMessage(`{`)), rouse.CodeCorrupt)
}

func TestMigration(t *testing.T) {
	t.Parallel()
	type v3 struct {
		Words []string `json:"words"`
	}
	type migrate = func(int, json.RawMessage) (json.RawMessage, error)
	key := func(m migrate) state.Exclusive[v3] {
		return state.NewExclusive[v3](state.Options{Name: "k", Version: 3, Migrate: m})
	}
	restore := func(t *testing.T, k state.Exclusive[v3], stored string) (*state.Store, error) {
		s := newStore(t, state.Config{Keys: []state.Key{k}})
		return s, s.Restore(state.ScopeRun, json.RawMessage(`{"k":`+stored+`}`))
	}
	good := key(func(from int, raw json.RawMessage) (json.RawMessage, error) {
		if from == 1 { // a bare string became a list
			raw = json.RawMessage(`[` + string(raw) + `]`)
		}
		return json.RawMessage(`{ "words": ` + string(raw) + ` }`), nil
	})
	for stored, want := range map[string]string{
		`{"version":1,"value":"a"}`:             `{"k":{"version":3,"value":{"words":["a"]}}}`,
		`{"version":2,"value":["a","b"]}`:       `{"k":{"version":3,"value":{"words":["a","b"]}}}`,
		`{"version":3,"value":{"words":["a"]}}`: `{"k":{"version":3,"value":{"words":["a"]}}}`,
		`{"version":3,"value":{"more": 1.10 }}`: `{"k":{"version":3,"value":{"more":1.10}}}`, // kept, though the type has no such member
	} {
		s, err := restore(t, good, stored)
		must(t, err)
		if got := string(s.Snapshot().Export(state.ScopeRun)); got != want {
			t.Errorf("%s: got %s, want %s", stored, got, want)
		}
	}
	for name, c := range map[string]struct {
		migrate migrate
		code    rouse.Code
	}{
		"none":      {nil, rouse.CodeSchemaVersion},
		"fails":     {func(int, json.RawMessage) (json.RawMessage, error) { return nil, errors.New("no") }, rouse.CodeSchemaVersion},
		"no JSON":   {func(int, json.RawMessage) (json.RawMessage, error) { return json.RawMessage(`{`), nil }, rouse.CodeSchemaVersion},
		"bad value": {func(int, json.RawMessage) (json.RawMessage, error) { return json.RawMessage(`1`), nil }, rouse.CodeCorrupt},
		"panics":    {func(int, json.RawMessage) (json.RawMessage, error) { panic("user code") }, rouse.CodeInternal},
	} {
		s, err := restore(t, key(c.migrate), `{"version":1,"value":"a"}`)
		if rouse.CodeOf(err) != c.code {
			t.Errorf("%s: got %v, want %s", name, err, c.code)
		}
		if s.Snapshot().Revision() != 0 {
			t.Errorf("%s: half of it was restored", name)
		}
	}
}

func TestUnknownKeys(t *testing.T) {
	t.Parallel()
	k := newKeys()
	const stored = `{"else":{"version":7,"value":{"b":1.10,"a":[]}},"spent":{"version":1,"value":1}}`
	refuse := newStore(t, state.Config{Keys: k.all()})
	wantCode(t, refuse.Restore(state.ScopeRun, json.RawMessage(stored)), rouse.CodeNotFound)

	keep := newStore(t, state.Config{Keys: k.all(), Unknown: state.UnknownKeep})
	must(t, keep.Restore(state.ScopeRun, json.RawMessage(stored)))
	must(t, keep.Restore(state.ScopeThread, json.RawMessage(`{"else":{"version":1,"value":2}}`)))
	b := keep.Snapshot().Batch()
	k.peak.Add(b, 1)
	must(t, keep.Commit(*b))
	if got := string(keep.Snapshot().Export(state.ScopeRun)); got != stored {
		t.Errorf("got  %s\nwant %s", got, stored)
	}
	other := newStore(t, state.Config{Keys: k.all(), Unknown: state.UnknownKeep})
	must(t, other.Load(keep.Snapshot().Checkpoint()))
	if got, want := string(other.Snapshot().Checkpoint()), string(keep.Snapshot().Checkpoint()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	wantCode(t, keep.Seed(json.RawMessage(`{"else":{"value":1}}`)), rouse.CodeNotFound)
}

func TestSeed(t *testing.T) {
	t.Parallel()
	k := newKeys()
	s := newStore(t, state.Config{Keys: k.all(), MaxValue: 32})
	b := s.Snapshot().Batch()
	k.peak.Add(b, 3)
	k.spent.Add(b, 1)
	must(t, s.Commit(*b))
	must(t, s.Seed(json.RawMessage(`{"plan":{"value":{"goal":"g"}},"spent":{"version":1,"value":40},"note":{"value":null}}`)))
	if value(t, k.plan, s).Goal != "g" || value(t, k.spent, s) != 40 || value(t, k.peak, s) != 3 || !k.note.Has(s.Snapshot()) {
		t.Errorf("got %s", s.Snapshot().Checkpoint())
	}
	before := string(s.Snapshot().Checkpoint())
	for seed, code := range map[string]rouse.Code{
		`[]`: rouse.CodeInvalid,
		`{"spent":{"value":"x"},"peak":{"value":9}}`:                                rouse.CodeInvalid,
		`{"spent":null,"peak":{"value":9}}`:                                         rouse.CodeInvalid,
		`{"spent":{},"peak":{"value":9}}`:                                           rouse.CodeInvalid,
		`{"spent":{"version":2,"value":1},"peak":{"value":9}}`:                      rouse.CodeSchemaVersion,
		`{"plan":{"value":{"goal":"123456789012345678901234"}},"peak":{"value":9}}`: rouse.CodeTooLarge,
	} {
		wantCode(t, s.Seed(json.RawMessage(seed)), code)
		if got := string(s.Snapshot().Checkpoint()); got != before {
			t.Errorf("%s changed something: %s", seed, got)
		}
	}
}

// FuzzLoad: whatever is stored, loading it succeeds as a whole or changes
// nothing, and what was loaded is exported in a form that loads to the same.
func FuzzLoad(f *testing.F) {
	for _, s := range []string{
		`{"base":0,"revision":3,"run":{"spent":{"version":1,"value":9007199254740993}},"thread":{"note":null}}`,
		`{"base":0,"revision":1,"run":{"else":{"version":-4,"value": [ 1.10, "\u2028" ] }}}`,
		`{"base":0,"revision":0}`, `{}`, `null`, `{"base":1}`, `{"base":0,"revision":1,"run":{"":{"version":1,"value":{}}}}`,
	} {
		f.Add([]byte(s))
	}
	keys := newKeys().all()
	f.Fuzz(func(t *testing.T, delta []byte) {
		s := newStore(t, state.Config{Keys: keys, Unknown: state.UnknownKeep})
		err := s.Load(delta)
		first := string(s.Snapshot().Checkpoint())
		if err != nil {
			if rouse.CodeOf(err) == rouse.CodeInternal || first != `{"base":0,"revision":0}` {
				t.Fatalf("%v left %s", err, first)
			}
			return
		}
		again := newStore(t, state.Config{Keys: keys, Unknown: state.UnknownKeep})
		must(t, again.Load(json.RawMessage(first)))
		if got := string(again.Snapshot().Checkpoint()); got != first {
			t.Fatalf("%s became %s", first, got)
		}
	})
}
