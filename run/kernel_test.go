package run_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/run"
)

// fn makes a step out of a function, for tests.
type fn[S, O any] struct {
	id       string
	version  string
	children []run.AnyStep
	do       func(ctx context.Context, sc *run.Scope[S]) (run.Move, error)
	result   func(at run.Cursor, s S) (O, error)
}

func (f fn[S, O]) Info() run.Info {
	return run.Info{ID: f.id, Version: f.version, Children: f.children}
}
func (f fn[S, O]) Do(ctx context.Context, sc *run.Scope[S]) (run.Move, error) { return f.do(ctx, sc) }
func (f fn[S, O]) Result(at run.Cursor, s S) (O, error)                       { return f.result(at, s) }

type tally struct {
	N    int      `json:"n"`
	Seen []string `json:"seen,omitempty"`
}

func count(to int) fn[tally, int] {
	return fn[tally, int]{
		id: "count",
		do: func(ctx context.Context, sc *run.Scope[tally]) (run.Move, error) {
			if sc.State().N == to {
				return sc.Complete("done", nil), nil
			}
			return sc.Continue("again", func(s *tally) { s.N++ }), nil
		},
		result: func(at run.Cursor, s tally) (int, error) { return s.N, nil },
	}
}

func collect(t *testing.T, seq func(func(rouse.Event, error) bool)) (out []rouse.Event) {
	t.Helper()
	for ev, err := range seq {
		if err != nil {
			t.Fatalf("event %s: %v", ev.Type, err)
		}
		out = append(out, ev)
	}
	return out
}

func types(evs []rouse.Event) string {
	var s []string
	for _, ev := range evs {
		s = append(s, string(ev.Type))
	}
	return strings.Join(s, " ")
}

// verify replays the run and fails the test when it differs from the journal.
func verify[S, O any](t *testing.T, step run.Step[S, O], j *run.Memory, id string, opt run.Options) run.Report {
	t.Helper()
	row, ok := j.Row(id)
	if !ok {
		t.Fatalf("no run %s", id)
	}
	opt.Journal = j
	rep, err := run.Verify(t.Context(), step, row, opt)
	if err != nil {
		t.Fatal(err)
	}
	if rep.Divergence != nil {
		t.Fatalf("diverged: %v\nrecorded %s\nreplayed %s", rep.Divergence, rep.Divergence.Recorded, rep.Divergence.Replayed)
	}
	return rep
}

func TestRunGivesItsOutputAndOneLastEvent(t *testing.T) {
	t.Parallel()
	j := run.NewMemory()
	r, err := run.Start(t.Context(), count(3), tally{}, run.Options{Journal: j})
	if err != nil {
		t.Fatal(err)
	}
	evs := collect(t, r.Events(t.Context()))
	if got, want := types(evs), "run.started step step step step run.finished"; got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
	for i, ev := range evs {
		if ev.Seq != int64(i+1) || ev.Run != r.ID() || ev.Thread != r.Thread() || ev.At.IsZero() {
			t.Errorf("event %d: %+v", i, ev)
		}
		if ev.Ends() != (i == len(evs)-1) {
			t.Errorf("event %d (%s) ends the stream", i, ev.Type)
		}
	}
	n, err := r.Wait(t.Context())
	if err != nil || n != 3 {
		t.Fatalf("got %d, %v", n, err)
	}
	if again := collect(t, r.Events(t.Context())); len(again) != 1 || again[0].Type != rouse.EventRunFinished {
		t.Fatalf("driven again: %s", types(again))
	}
	if rep := verify(t, count(3), j, r.ID(), run.Options{}); !rep.Complete || rep.Events != 6 {
		t.Fatalf("report %+v", rep)
	}
}

func TestBreakingOffCancelsTheRun(t *testing.T) {
	t.Parallel()
	for stop := range 6 {
		j := run.NewMemory()
		r, err := run.Start(t.Context(), count(3), tally{}, run.Options{Journal: j})
		if err != nil {
			t.Fatal(err)
		}
		i := 0
		for range r.Events(t.Context()) {
			if i == stop {
				break
			}
			i++
		}
		row, _ := j.Row(r.ID())
		if !row.Status.Final() {
			t.Errorf("stopped at %d: status %s", stop, row.Status)
		}
		_, err = r.Wait(t.Context())
		if row.Status == rouse.StatusCanceled && rouse.CodeOf(err) != rouse.CodeCanceled {
			t.Errorf("stopped at %d: %v", stop, err)
		}
		verify(t, count(3), j, r.ID(), run.Options{})
	}
}

func TestFailuresAreFacts(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		do   func(ctx context.Context, sc *run.Scope[tally]) (run.Move, error)
		code rouse.Code
	}{
		{"error", func(ctx context.Context, sc *run.Scope[tally]) (run.Move, error) {
			sc.Record("x.y", []byte(`{}`))
			return run.Move{}, errors.New("no")
		}, rouse.CodeInternal},
		{"panic", func(ctx context.Context, sc *run.Scope[tally]) (run.Move, error) { panic("oh") }, rouse.CodeInternal},
		{"panic in patch", func(ctx context.Context, sc *run.Scope[tally]) (run.Move, error) {
			return sc.Continue("x", func(s *tally) { panic("oh") }), nil
		}, rouse.CodeInternal},
		{"no move", func(ctx context.Context, sc *run.Scope[tally]) (run.Move, error) { return run.Move{}, nil }, rouse.CodeInvalid},
		{"no ask", func(ctx context.Context, sc *run.Scope[tally]) (run.Move, error) { return sc.Await("x", nil), nil }, rouse.CodeInvalid},
		{"undeclared child", func(ctx context.Context, sc *run.Scope[tally]) (run.Move, error) {
			return sc.Call("x", nil, run.Join{}, run.Spawn("a", count(1), tally{}, run.Budget{})), nil
		}, rouse.CodeInvalid},
		{"endless", func(ctx context.Context, sc *run.Scope[tally]) (run.Move, error) { return sc.Continue("x", nil), nil }, rouse.CodeBudget},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			j := run.NewMemory()
			step := fn[tally, int]{id: "bad", do: tc.do, result: func(run.Cursor, tally) (int, error) { return 0, nil }}
			r, err := run.Start(t.Context(), step, tally{}, run.Options{Journal: j, Budget: run.Budget{Steps: 5}})
			if err != nil {
				t.Fatal(err)
			}
			evs := collect(t, r.Events(t.Context()))
			if last := evs[len(evs)-1]; last.Type != rouse.EventRunFinished {
				t.Fatalf("last event %s", last.Type)
			}
			if strings.Contains(types(evs), "x.y") {
				t.Error("a failed step's record was kept")
			}
			_, err = r.Wait(t.Context())
			if rouse.CodeOf(err) != tc.code {
				t.Errorf("got %v, want %s", err, tc.code)
			}
			verify(t, step, j, r.ID(), run.Options{})
		})
	}
}

// world is the outside: it counts what was really done.
type world struct{ reads, writes atomic.Int64 }

// worker draws, does things once, and completes; it is the step of the crash tests.
func worker(w *world) fn[tally, []string] {
	return fn[tally, []string]{
		id: "worker",
		do: func(ctx context.Context, sc *run.Scope[tally]) (run.Move, error) {
			switch sc.At() {
			case "":
				now, err := sc.Now()
				if err != nil {
					return run.Move{}, err
				}
				id := sc.NewID()
				raw, err := sc.Draw(ctx, run.Draw{Type: "test.read", Live: func(context.Context) (json.RawMessage, error) {
					return json.RawMessage(fmt.Sprintf(`{"n":%d}`, w.reads.Add(1))), nil
				}})
				if err != nil {
					return run.Move{}, err
				}
				return sc.Continue("write", func(s *tally) { s.Seen = append(s.Seen, now.String(), id, string(raw)) }), nil
			case "write":
				var first int64
				if err := sc.Once(ctx, "first", &first, func(context.Context) (any, error) { return w.writes.Add(1), nil }); err != nil {
					return run.Move{}, err
				}
				got := make([]string, 5)
				err := sc.Each(ctx, 5, 2, func(ctx context.Context, i int) error {
					raw, err := sc.Effect(ctx, run.Effect{
						Key: fmt.Sprint("call", i), Type: rouse.EventToolFinished,
						Live: func(context.Context) (json.RawMessage, error) {
							w.writes.Add(1)
							sc.Emit(rouse.EventToolProgress, rouse.Delta{Text: "working"})
							return json.RawMessage(fmt.Sprintf(`{"i":%d}`, i)), nil
						},
					})
					got[i] = string(raw)
					return err
				})
				if err != nil {
					return run.Move{}, err
				}
				return sc.Complete("done", func(s *tally) { s.N = int(first); s.Seen = append(s.Seen, got...) }), nil
			}
			return run.Move{}, fmt.Errorf("at %q", sc.At())
		},
		result: func(at run.Cursor, s tally) ([]string, error) { return s.Seen, nil },
	}
}

// dying is a journal whose process dies at its n-th commit, before or after it is written.
type dying struct {
	*run.Memory
	n     int
	after bool
	seen  int
}

var errDied = &rouse.Error{Code: rouse.CodeStorage, Message: "the process died"}

func (d *dying) Commit(ctx context.Context, b *run.Batch) error {
	d.seen++
	if d.seen == d.n {
		if d.after {
			if err := d.Memory.Commit(ctx, b); err != nil {
				return err
			}
		}
		return errDied
	}
	return d.Memory.Commit(ctx, b)
}

func TestDeathAtEveryCommitLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	for n := 1; n < 12; n++ {
		for _, after := range []bool{false, true} {
			j := run.NewMemory()
			w := &world{}
			r, err := run.Start(t.Context(), worker(w), tally{}, run.Options{Journal: &dying{Memory: j, n: n, after: after}, Thread: "t", ID: "r"})
			if err != nil {
				t.Fatal(err)
			}
			var last rouse.Event
			for ev := range r.Events(t.Context()) {
				last = ev
			}
			if last.Type == rouse.EventRunFinished {
				return // there are no more commits to die at
			}
			if last.Type != rouse.EventRunInterrupted {
				t.Fatalf("died at %d: last event %s", n, last.Type)
			}
			row, ok := j.Row("r")
			if !ok {
				continue // nothing was written, nothing is to be resumed
			}
			verify(t, worker(w), j, "r", run.Options{})
			before := w.writes.Load()
			again, err := run.Resume(t.Context(), worker(w), row, run.Options{Journal: j})
			if err != nil {
				t.Fatal(err)
			}
			evs := collect(t, again.Events(t.Context()))
			if evs[len(evs)-1].Type != rouse.EventRunFinished {
				t.Fatalf("died at %d: resumed to %s", n, types(evs))
			}
			out, err := again.Wait(t.Context())
			if err != nil || len(out) != 8 {
				t.Fatalf("died at %d: %v %v", n, out, err)
			}
			// Whatever has a receipt was done once: what was done twice lies between
			// its effect and the commit that failed.
			receipts := map[string]int{}
			seq := int64(0)
			for ev, err := range j.Read(t.Context(), run.Query{Thread: "t"}) {
				if err != nil || ev.Seq != seq+1 {
					t.Fatalf("gap after %d: %d %v", seq, ev.Seq, err)
				}
				seq = ev.Seq
				if ev.Key != "" {
					receipts[ev.Key]++
				}
			}
			if len(receipts) != 6 {
				t.Errorf("died at %d: receipts %v", n, receipts)
			}
			for k, c := range receipts {
				if c != 1 {
					t.Errorf("died at %d after=%v: %d receipts for %s (writes before %d)", n, after, c, k, before)
				}
			}
			verify(t, worker(w), j, "r", run.Options{})
		}
	}
	t.Fatal("the run never got through")
}

func TestFinishedEffectsAreNotDoneAgain(t *testing.T) {
	t.Parallel()
	j := run.NewMemory()
	w := &world{}
	// Commits: 1 start+first step, 2 once, 3.. receipts and the end. Dying after
	// the second leaves the thing that is done once behind.
	r, err := run.Start(t.Context(), worker(w), tally{}, run.Options{Journal: &dying{Memory: j, n: 2, after: true}, ID: "r", Thread: "t"})
	if err != nil {
		t.Fatal(err)
	}
	for range r.Events(t.Context()) {
	}
	row, _ := j.Row("r")
	again, err := run.Resume(t.Context(), worker(w), row, run.Options{Journal: j})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := again.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := w.writes.Load(); got != 6 {
		t.Fatalf("%d writes, want 6", got)
	}
	if got := w.reads.Load(); got != 1 {
		t.Fatalf("%d reads, want 1", got)
	}
}

func TestStaleOwnerIsFenced(t *testing.T) {
	t.Parallel()
	j := run.NewMemory()
	release := make(chan struct{})
	reached := make(chan struct{})
	step := func(block bool) fn[tally, int] {
		s := count(2)
		do := s.do
		s.do = func(ctx context.Context, sc *run.Scope[tally]) (run.Move, error) {
			if block && sc.State().N == 1 {
				close(reached)
				<-release
			}
			return do(ctx, sc)
		}
		return s
	}
	r, err := run.Start(t.Context(), step(true), tally{}, run.Options{Journal: j})
	if err != nil {
		t.Fatal(err)
	}
	errs := make(chan error, 1)
	go func() { _, err := r.Wait(t.Context()); errs <- err }()
	<-reached
	row, _ := j.Row(r.ID())
	thief, err := run.Resume(t.Context(), step(false), row, run.Options{Journal: j, Owner: "thief"})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := thief.Wait(t.Context()); err != nil || n != 2 {
		t.Fatalf("%d %v", n, err)
	}
	close(release)
	if err := <-errs; rouse.CodeOf(err) != rouse.CodeFenced {
		t.Fatalf("the stale owner got %v", err)
	}
	verify(t, step(false), j, r.ID(), run.Options{})
}

func TestOneFlippedByteIsFound(t *testing.T) {
	t.Parallel()
	j := run.NewMemory()
	w := &world{}
	r, err := run.Start(t.Context(), worker(w), tally{}, run.Options{Journal: j})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	row, _ := j.Row(r.ID())
	cp, err := r.Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var n int
	for ev := range j.Read(t.Context(), run.Query{Thread: row.Thread}) {
		for _, at := range []int{1, len(ev.Data) / 2, len(ev.Data) - 2} {
			k := run.NewMemory()
			if _, err := k.Import(cp); err != nil {
				t.Fatal(err)
			}
			flipped := slices.Clone(ev.Data)
			flipped[at] ^= 1
			for e := range k.Read(t.Context(), run.Query{Thread: row.Thread, After: ev.Seq - 1, Until: ev.Seq}) {
				copy(e.Data, flipped)
			}
			rep, err := run.Verify(t.Context(), worker(w), row, run.Options{Journal: k})
			if err != nil {
				t.Fatal(err)
			}
			if rep.Divergence == nil || rep.Divergence.Index != n {
				t.Fatalf("byte %d of event %d: %v", at, n, rep.Divergence)
			}
		}
		n++
	}
}

func TestChangedDefinitionDiverges(t *testing.T) {
	t.Parallel()
	j := run.NewMemory()
	r, err := run.Start(t.Context(), count(3), tally{}, run.Options{Journal: j})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	row, _ := j.Row(r.ID())
	for _, to := range []int{2, 4} {
		rep, err := run.Verify(t.Context(), count(to), row, run.Options{Journal: j})
		if err != nil || rep.Divergence == nil {
			t.Fatalf("count to %d: %+v %v", to, rep, err)
		}
		if rouse.CodeOf(rep.Err()) != rouse.CodeNondeterministic {
			t.Fatalf("got %v", rep.Err())
		}
	}
}
