package run_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/run"
)

// asker puts three questions at once and goes on asking until all are answered.
func asker() fn[map[string]string, map[string]string] {
	return fn[map[string]string, map[string]string]{
		id: "asker",
		do: func(ctx context.Context, sc *run.Scope[map[string]string]) (run.Move, error) {
			var open []run.Ask
			got := sc.State()
			if got == nil {
				got = map[string]string{}
			}
			for _, k := range []string{"a", "b", "c"} {
				if d, ok := sc.Decision(k); ok {
					got[k] = string(d.Value)
				} else if got[k] == "" {
					open = append(open, run.Ask{ID: k, Kind: "test", Payload: json.RawMessage(`{"q":"` + k + `"}`)})
				}
			}
			keep := func(s *map[string]string) { *s = got }
			sc.Record("test.saw", json.RawMessage(`{}`)) // a fact of its own does not keep a run from being loaded
			if len(open) > 0 {
				return sc.Await("asked", keep, open...), nil
			}
			return sc.Complete("done", keep), nil
		},
		result: func(at run.Cursor, s map[string]string) (map[string]string, error) { return s, nil },
	}
}

func TestEachAnswerFindsItsQuestionAcrossRestarts(t *testing.T) {
	t.Parallel()
	j := run.NewMemory()
	r, err := run.Start(t.Context(), asker(), nil, run.Options{Journal: j})
	if err != nil {
		t.Fatal(err)
	}
	var we *run.WaitingError
	if _, err := r.Wait(t.Context()); !errors.As(err, &we) || len(we.Asks) != 3 {
		t.Fatalf("got %v", err)
	}
	for i, k := range []string{"c", "a", "b"} {
		row, _ := j.Row(r.ID())
		if row.Status != rouse.StatusWaiting {
			t.Fatalf("status %s", row.Status)
		}
		if r, err = run.Resume(t.Context(), asker(), row, run.Options{Journal: j}); err != nil {
			t.Fatal(err)
		}
		if got := len(r.Asks()); got != 3-i {
			t.Fatalf("%d open questions, want %d", got, 3-i)
		}
		if err := r.Answer(t.Context(), run.Decision{Ask: k, By: "me", Value: json.RawMessage(`"` + k + `"`)}); err != nil {
			t.Fatal(err)
		}
		if err := r.Answer(t.Context(), run.Decision{Ask: k, Value: json.RawMessage(`1`)}); rouse.CodeOf(err) != rouse.CodeConflict {
			t.Fatalf("answered twice: %v", err)
		}
		evs := collect(t, r.Events(t.Context()))
		want := rouse.EventRunWaiting
		if i == 2 {
			want = rouse.EventRunFinished
		}
		if last := evs[len(evs)-1]; last.Type != want {
			t.Fatalf("after %s: %s", k, types(evs))
		}
		verify(t, asker(), j, r.ID(), run.Options{})
	}
	out, err := r.Wait(t.Context())
	if err != nil || fmt.Sprint(out) != `map[a:"a" b:"b" c:"c"]` {
		t.Fatalf("got %v %v", out, err)
	}
}

func TestAnswersThatCannotBe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		step := asker()
		step.do = func(ctx context.Context, sc *run.Scope[map[string]string]) (run.Move, error) {
			return sc.Await("x", nil, run.Ask{ID: "q", Kind: "test", Expires: time.Now().Add(time.Hour)}), nil
		}
		r, err := run.Start(t.Context(), step, nil, run.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if evs := collect(t, r.Events(t.Context())); evs[len(evs)-1].Type != rouse.EventRunWaiting {
			t.Fatal(types(evs))
		}
		for _, tc := range []struct {
			d    run.Decision
			code rouse.Code
		}{
			{run.Decision{Ask: "nobody", Value: json.RawMessage(`1`)}, rouse.CodeNotFound},
			{run.Decision{Ask: "", Value: json.RawMessage(`1`)}, rouse.CodeNotFound},
			{run.Decision{Ask: "q", Value: json.RawMessage(`{`)}, rouse.CodeInvalid},
			{run.Decision{Ask: "q"}, rouse.CodeInvalid},
		} {
			if err := r.Answer(t.Context(), tc.d); rouse.CodeOf(err) != tc.code {
				t.Errorf("%+v: %v", tc.d, err)
			}
		}
		<-time.After(time.Hour) // fake time: the question expires
		if err := r.Answer(t.Context(), run.Decision{Ask: "q", Value: json.RawMessage(`1`)}); rouse.CodeOf(err) != rouse.CodeConflict {
			t.Errorf("expired: %v", err)
		}
		r.Cancel(nil)
		if _, err := r.Wait(t.Context()); rouse.CodeOf(err) != rouse.CodeCanceled {
			t.Errorf("canceled while waiting: %v", err)
		}
		if len(r.Asks()) != 0 {
			t.Error("a canceled run still asks")
		}
	})
}

// tree calls children that ask, so that answers meet frames below the root.
func tree(fail string) fn[tally, []string] {
	leaf := fn[tally, string]{
		id: "leaf",
		do: func(ctx context.Context, sc *run.Scope[tally]) (run.Move, error) {
			if sc.Path() == "/"+fail {
				return run.Move{}, &rouse.Error{Code: rouse.CodeToolFailed, Message: "leaf failed"}
			}
			if err := sc.Spend(run.Meter{ModelCalls: 1}); err != nil {
				return run.Move{}, err
			}
			if d, ok := sc.Decision("q" + sc.Path()); ok {
				return sc.Complete("done", func(s *tally) { s.Seen = append(s.Seen, sc.Path()+string(d.Value)) }), nil
			}
			if sc.Path() == "/quick" {
				return sc.Complete("done", func(s *tally) { s.Seen = []string{"quick"} }), nil
			}
			return sc.Await("", nil, run.Ask{ID: "q" + sc.Path(), Kind: "test"}), nil
		},
		result: func(at run.Cursor, s tally) (string, error) { return fmt.Sprint(s.Seen), nil },
	}
	return fn[tally, []string]{
		id: "tree", children: []run.AnyStep{run.Erase(leaf)},
		do: func(ctx context.Context, sc *run.Scope[tally]) (run.Move, error) {
			if sc.At() == "" {
				return sc.Call("joined", nil, run.Join{FailFast: fail != ""},
					run.Spawn("x", leaf, tally{}, run.Budget{}),
					run.Spawn("quick", leaf, tally{}, run.Budget{ModelCalls: 5}),
					run.Spawn("y", leaf, tally{}, run.Budget{})), nil
			}
			outs, err := run.Outputs[string](sc)
			if err != nil {
				return run.Move{}, err
			}
			return sc.Complete("done", func(s *tally) {
				for _, o := range outs {
					s.Seen = append(s.Seen, o.Key+"="+o.Value+" "+string(rouse.CodeOf(o.Err)))
				}
			}), nil
		},
		result: func(at run.Cursor, s tally) ([]string, error) { return s.Seen, nil },
	}
}

func TestChildrenWaitAndGoOnAfterARestart(t *testing.T) {
	t.Parallel()
	j := run.NewMemory()
	step := tree("")
	r, err := run.Start(t.Context(), step, tally{}, run.Options{Journal: j})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/y", "/x"} {
		evs := collect(t, r.Events(t.Context()))
		if evs[len(evs)-1].Type != rouse.EventRunWaiting {
			t.Fatal(types(evs))
		}
		row, _ := j.Row(r.ID())
		frames, err := run.StateAt(t.Context(), j, row, 0)
		if err != nil || len(frames) != 4 || frames[0].Status != "calling" || frames[2].Status != "done" {
			t.Fatalf("frames %+v %v", frames, err)
		}
		if r, err = run.Resume(t.Context(), step, row, run.Options{Journal: j}); err != nil {
			t.Fatal(err)
		}
		if err := r.Answer(t.Context(), run.Decision{Ask: "q" + path, Value: json.RawMessage(`1`)}); err != nil {
			t.Fatal(err)
		}
	}
	out, err := r.Wait(t.Context())
	if want := "[x=[/x1]  quick=[quick]  y=[/y1] ]"; err != nil || fmt.Sprint(out) != want {
		t.Fatalf("got %v, want %s (%v)", out, want, err)
	}
	if got := r.Spent().ModelCalls; got != 5 {
		t.Errorf("%d model calls counted, want 5: the finished leaf ran once, the others twice", got)
	}
	verify(t, step, j, r.ID(), run.Options{})
}

func TestFailFastCancelsTheOthers(t *testing.T) {
	t.Parallel()
	j := run.NewMemory()
	step := tree("y")
	r, err := run.Start(t.Context(), step, tally{}, run.Options{Journal: j})
	if err != nil {
		t.Fatal(err)
	}
	out, err := r.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := out[len(out)-1]; got != "y= tool_failed" {
		t.Errorf("y ended as %q", got)
	}
	if got := out[0]; got != "x= canceled" {
		t.Errorf("x ended as %q", got)
	}
	verify(t, step, j, r.ID(), run.Options{})
}

func TestAChildCanOnlyHaveLess(t *testing.T) {
	t.Parallel()
	j := run.NewMemory()
	step := tree("")
	r, err := run.Start(t.Context(), step, tally{}, run.Options{Journal: j, Budget: run.Budget{ModelCalls: 2}})
	if err != nil {
		t.Fatal(err)
	}
	collect(t, r.Events(t.Context()))
	frames := map[string]int{}
	row, _ := j.Row(r.ID())
	states, err := run.StateAt(t.Context(), j, row, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range states[1:] {
		if f.Error != nil && f.Error.Code != rouse.CodeBudget {
			t.Errorf("%s failed with %s", f.Path, f.Error.Code)
		}
		frames[f.Status]++
	}
	if frames["failed"] != 1 {
		t.Errorf("frames %v: the third call had to fail", frames)
	}
	if got := r.Spent().ModelCalls; got != 2 {
		t.Errorf("%d model calls", got)
	}
	verify(t, step, j, r.ID(), run.Options{})
}

func TestCheckpointForkAndResumeElsewhere(t *testing.T) {
	t.Parallel()
	j := run.NewMemory()
	step := tree("")
	r, err := run.Start(t.Context(), step, tally{}, run.Options{Journal: j, Meta: json.RawMessage(`{"who":"a"}`)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Checkpoint(t.Context()); rouse.CodeOf(err) != rouse.CodeNotFound {
		t.Fatalf("checkpoint of nothing: %v", err)
	}
	collect(t, r.Events(t.Context()))
	cp, err := r.Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	k := run.NewMemory()
	row, err := k.Import(cp)
	if err != nil {
		t.Fatal(err)
	}
	moved, err := run.Resume(t.Context(), step, row, run.Options{Journal: k})
	if err != nil {
		t.Fatal(err)
	}
	forked, err := run.Fork(t.Context(), step, row, run.ForkAt{Meta: json.RawMessage(`{"who":"b"}`)}, func(s *tally) { s.Seen = append(s.Seen, "edited") }, run.Options{Journal: k})
	if err != nil {
		t.Fatal(err)
	}
	if forked.ID() == moved.ID() || forked.Thread() == moved.Thread() {
		t.Fatal("a fork is a run and a thread of its own")
	}
	for i, r := range []*run.Run[[]string]{moved, forked} {
		for _, a := range r.Asks() {
			if err := r.Answer(t.Context(), run.Decision{Ask: a.ID, Value: json.RawMessage(`2`)}); err != nil {
				t.Fatal(err)
			}
		}
		out, err := r.Wait(t.Context())
		if err != nil || len(out) != 3+i {
			t.Fatalf("%d: %v %v", i, out, err)
		}
		verify(t, step, k, r.ID(), run.Options{})
	}
	frow, _ := k.Row(forked.ID())
	if meta, err := run.Meta(t.Context(), k, frow); err != nil || string(meta) != `{"who":"b"}` {
		t.Fatalf("meta %s %v", meta, err)
	}
	for _, bad := range []run.Checkpoint{nil, []byte("{}\n"), []byte("x\n"), cp[:len(cp)-10], append(append(run.Checkpoint{}, cp...), "{}\n"...)} {
		if _, err := run.NewMemory().Import(bad); err == nil {
			t.Errorf("a checkpoint of %d bytes was read", len(bad))
		}
	}
}

func TestForkAtEveryStep(t *testing.T) {
	t.Parallel()
	j := run.NewMemory()
	r, err := run.Start(t.Context(), count(4), tally{}, run.Options{Journal: j})
	if err != nil {
		t.Fatal(err)
	}
	evs := collect(t, r.Events(t.Context()))
	row, _ := j.Row(r.ID())
	for _, ev := range evs {
		f, err := run.Fork(t.Context(), count(10), row, run.ForkAt{Seq: ev.Seq}, nil, run.Options{Journal: j})
		if err != nil {
			t.Fatal(err)
		}
		if n, err := f.Wait(t.Context()); err != nil || n != 10 {
			t.Fatalf("fork at %d (%s): %d %v", ev.Seq, ev.Type, n, err)
		}
		verify(t, count(10), j, f.ID(), run.Options{})
	}
}

func TestWallTimeDoesNotCountWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := run.NewMemory()
		step := fn[tally, int]{
			id: "slow",
			do: func(ctx context.Context, sc *run.Scope[tally]) (run.Move, error) {
				if sc.State().N == 1 && len(sc.OpenAsks()) == 0 {
					if _, ok := sc.Decision("q"); !ok {
						return sc.Await("", nil, run.Ask{ID: "q", Kind: "test"}), nil
					}
				}
				select {
				case <-ctx.Done():
					return run.Move{}, context.Cause(ctx)
				case <-time.After(4 * time.Second):
				}
				return sc.Continue("", func(s *tally) { s.N++ }), nil
			},
			result: func(run.Cursor, tally) (int, error) { return 0, nil },
		}
		r, err := run.Start(t.Context(), step, tally{}, run.Options{Journal: j, Budget: run.Budget{Wall: 10 * time.Second}})
		if err != nil {
			t.Fatal(err)
		}
		collect(t, r.Events(t.Context()))
		<-time.After(time.Hour) // fake time: it waits for the answer
		if err := r.Answer(t.Context(), run.Decision{Ask: "q", Value: json.RawMessage(`1`)}); err != nil {
			t.Fatal(err)
		}
		_, err = r.Wait(t.Context())
		if rouse.CodeOf(err) != rouse.CodeBudget {
			t.Fatalf("got %v", err)
		}
		if got := r.Spent().Steps; got != 4 {
			t.Errorf("%d steps: 4 s, the question, 4 s, and 2 s of the third", got)
		}
		verify(t, step, j, r.ID(), run.Options{})
	})
}

func TestCancelWhileChildrenWaitOrRunReplays(t *testing.T) {
	t.Parallel()
	for _, after := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 100} {
		j := run.NewMemory()
		step := tree("")
		r, err := run.Start(t.Context(), step, tally{}, run.Options{Journal: j})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for range r.Events(t.Context()) {
			if n++; n == after {
				r.Cancel(nil)
			}
		}
		if r.Status() == rouse.StatusWaiting {
			r.Cancel(nil)
		}
		if _, err := r.Wait(t.Context()); rouse.CodeOf(err) != rouse.CodeCanceled {
			t.Fatalf("after %d events: %v", after, err)
		}
		verify(t, step, j, r.ID(), run.Options{})
	}
}
