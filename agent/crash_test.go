package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/agent"
	"github.com/rouse-run/rouse/model"
	"github.com/rouse-run/rouse/model/mock"
	"github.com/rouse-run/rouse/run"
	"github.com/rouse-run/rouse/tool"
)

// dying is a journal whose process dies at its n-th commit, before or after it is written.
type dying struct {
	*run.Memory
	n     int
	after bool
	seen  int
}

func (d *dying) Commit(ctx context.Context, b *run.Batch) error {
	if d.seen++; d.seen < d.n {
		return d.Memory.Commit(ctx, b)
	}
	if d.seen == d.n && d.after {
		if err := d.Memory.Commit(ctx, b); err != nil {
			return err
		}
	}
	return &rouse.Error{Code: rouse.CodeStorage, Message: "the process died"}
}

// crashScript has two rounds: calls that only read, then an unsafe one between two that read.
func crashScript() mock.Rule {
	return mock.Rule{Prompt: "go", Sequence: []any{
		mock.Calls(call("1", "echo", textIn{"a"}), call("2", "fail", textIn{"b"})),
		mock.Calls(call("1", "echo", textIn{"c"}), call("2", "write", textIn{"d"}), call("3", "echo", textIn{"e"})),
		"done",
	}}
}

func TestDeathAtEveryCommitLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	for n := 1; ; n++ {
		finished := 0
		for _, after := range []bool{false, true} {
			// The script goes on where it was asked last, so an answer that was lost
			// is given again from a script of its own.
			b := newBench(t, func(c *agent.Config) { c.Gate = tool.GateFunc(tool.AllowAll) }, mock.Rule{Prompt: "go", Generator: mock.Func(replies)})
			r, err := b.agent.Start(t.Context(), run.Options{Journal: &dying{Memory: b.journal, n: n, after: after}, ID: "r", Thread: "t"}, rouse.Text("go"))
			if err != nil {
				t.Fatal(err)
			}
			var last rouse.Event
			for ev := range r.Events(t.Context()) {
				last = ev
			}
			if last.Type == rouse.EventRunFinished {
				finished++
				continue
			}
			row, ok := b.journal.Row("r")
			if !ok {
				continue
			}
			intent, receipt := effectsOf(t, b.journal)
			if r, err = b.agent.Resume(t.Context(), row, run.Options{Journal: b.journal}); err != nil {
				t.Fatal(err)
			}
			b.drive(r)
			if doubt := intent && !receipt; doubt != (r.Status() == rouse.StatusWaiting) {
				t.Fatalf("died at %d (after %v): in doubt %v, status %s", n, after, doubt, r.Status())
			}
			if r.Status() == rouse.StatusWaiting {
				ask := r.Asks()[0]
				if ask.Kind != agent.AskUncertain {
					t.Fatalf("asked %s", ask.Kind)
				}
				if err := r.Answer(t.Context(), run.Decision{Ask: ask.ID, Value: json.RawMessage(`{"action":"supply","output":"wrote d"}`)}); err != nil {
					t.Fatal(err)
				}
				b.drive(r)
			}
			if ans, err := r.Wait(t.Context()); err != nil || ans.Text != "done" {
				t.Fatalf("died at %d (after %v): %+v %v", n, after, ans, err)
			}
			if got := strings.Count(b.calls(), "write:d"); got > 1 {
				t.Fatalf("died at %d (after %v): the unsafe call ran %d times", n, after, got)
			}
			wellFormed(t, b.gpt.Requests())
			results := b.results()
			if want := "echo a|it broke|echo c|wrote d|echo e"; len(results) != 5 || joined(results) != want {
				t.Fatalf("died at %d (after %v): the model was shown %q", n, after, joined(results))
			}
		}
		if finished == 2 {
			if n < 6 {
				t.Fatalf("only %d commits", n)
			}
			return
		}
	}
}

func joined(rs []rouse.ToolResult) string {
	var s []string
	for _, r := range rs {
		s = append(s, r.Output)
	}
	return strings.Join(s, "|")
}

// replies answers by what has been said, so that an answer that was lost is given again.
func replies(_ context.Context, req *model.Request) (any, error) {
	n := 0
	for _, m := range req.Messages {
		if m.Role == rouse.RoleAssistant {
			n++
		}
	}
	return crashScript().Sequence[n], nil
}

func effectsOf(t *testing.T, j *run.Memory) (intent, receipt bool) {
	t.Helper()
	for ev, err := range j.Read(t.Context(), run.Query{Thread: "t"}) {
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case ev.Type == rouse.EventToolIntent:
			intent = true
		case ev.Type == rouse.EventToolFinished && strings.Contains(string(ev.Data), "wrote d"):
			receipt = true
		}
	}
	return intent, receipt
}

func TestCallsInDoubtAreNeverRepeatedSilently(t *testing.T) {
	t.Parallel()
	for action, want := range map[string]struct {
		runs int
		say  string
	}{
		`{"action":"retry"}`: {2, "wrote a"}, `{"action":"supply","output":"it was there"}`: {1, "it was there"},
		`{"action":"give_up"}`: {1, "may have taken effect"}, `{"action":"what"}`: {1, "may have taken effect"}, `7`: {1, "may have taken effect"},
	} {
		t.Run(action, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, func(c *agent.Config) { c.Gate = tool.GateFunc(tool.AllowAll) }, mock.Rule{Prompt: "go", Sequence: []any{
				mock.Calls(call("1", "write", textIn{"a"})), "done",
			}})
			// Commits: start, answer, intent, receipt. It dies before the receipt.
			r, err := b.agent.Start(t.Context(), run.Options{Journal: &dying{Memory: b.journal, n: 4}, ID: "r", Thread: "t"}, rouse.Text("go"))
			if err != nil {
				t.Fatal(err)
			}
			for range r.Events(t.Context()) {
			}
			if b.calls() != "write:a" {
				t.Fatalf("ran %q before it died", b.calls())
			}
			for range 2 { // it may die again before anybody answers
				row, _ := b.journal.Row("r")
				if r, err = b.agent.Resume(t.Context(), row, run.Options{Journal: b.journal}); err != nil {
					t.Fatal(err)
				}
				b.drive(r)
			}
			if err := r.Answer(t.Context(), run.Decision{Ask: r.Asks()[0].ID, Value: json.RawMessage(action)}); err != nil {
				t.Fatal(err)
			}
			if ans := b.wait(r); ans.Text != "done" {
				t.Fatalf("%+v", ans)
			}
			if got := strings.Count(b.calls(), "write:a"); got != want.runs {
				t.Errorf("the call ran %d times, want %d", got, want.runs)
			}
			if got := b.results()[0].Output; !strings.Contains(got, want.say) {
				t.Errorf("the model was told %q", got)
			}
		})
	}
}

// slow is a journal that takes as long as its caller says.
type slow struct {
	*run.Memory
	took time.Duration
	n    int
}

func (s *slow) Commit(ctx context.Context, b *run.Batch) error {
	s.n++
	<-time.After(s.took) // fake time
	return s.Memory.Commit(ctx, b)
}

func TestQuickReadingRoundsShareOneCommitAndSlowOnesDoNotWait(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		tool    time.Duration
		commits int
	}{
		{"quick", 0, 2},                   // start, answer and results; answer
		{"slow", 4 * run.HoldTime, 3},     // the answer is durable long before the tool ends
		{"as slow", run.HoldTime + 1, 3},  // it ends while the answer is being written
		{"at the limit", run.HoldTime, 3}, // whichever comes first
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				gpt, err := mock.New(mock.Config{Rules: []mock.Rule{{Prompt: "go", Sequence: []any{mock.Calls(call("1", "nap", struct{}{})), "done"}}}})
				if err != nil {
					t.Fatal(err)
				}
				nap, err := tool.FuncCall(tool.FuncConfig{Name: "nap", Effect: tool.ReadOnly}, func(_ context.Context, c *tool.Call, _ struct{}) (string, error) {
					c.Progress("zzz")
					<-time.After(tc.tool) // fake time
					return "slept", nil
				})
				if err != nil {
					t.Fatal(err)
				}
				set, err := tool.NewSet(nap)
				if err != nil {
					t.Fatal(err)
				}
				a, err := agent.New(agent.Config{Model: gpt, Tools: set})
				if err != nil {
					t.Fatal(err)
				}
				j := &slow{Memory: run.NewMemory(), took: time.Millisecond}
				r, err := a.Start(t.Context(), run.Options{Journal: j}, rouse.Text("go"))
				if err != nil {
					t.Fatal(err)
				}
				var order []string
				seq := int64(0)
				for ev, err := range r.Events(t.Context()) {
					if err != nil {
						t.Fatal(err)
					}
					if ev.Class != rouse.ClassDelta {
						if seq++; ev.Seq != seq {
							t.Fatalf("%s is number %d after %d", ev.Type, ev.Seq, seq-1)
						}
					}
					switch ev.Type {
					case rouse.EventAnswer, rouse.EventToolStarted, rouse.EventToolProgress, rouse.EventToolFinished:
						order = append(order, string(ev.Type))
					}
				}
				if got, want := fmt.Sprint(order), "[model.answer tool.started tool.progress tool.finished model.answer]"; got != want {
					t.Errorf("order %s", got)
				}
				if j.n != tc.commits && !(tc.name == "at the limit" && j.n == 2) {
					t.Errorf("%d commits, want %d", j.n, tc.commits)
				}
			})
		})
	}
}

func TestCancelBetweenCallAndResultLeavesAUsableThread(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil,
		mock.Rule{Prompt: "hi", Generator: "hello"},
		mock.Rule{Prompt: "go", Generator: mock.Calls(call("1", "echo", textIn{"a"}), call("2", "write", textIn{"b"}))})
	for _, at := range []rouse.EventType{rouse.EventMessage, rouse.EventCallStarted, rouse.EventAnswer, rouse.EventToolStarted, rouse.EventToolFinished, rouse.EventAsked} {
		r := b.start("", "go")
		for ev, err := range r.Events(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if ev.Type == at {
				r.Cancel(nil)
			}
		}
		if r.Status() == rouse.StatusWaiting {
			r.Cancel(nil)
		}
		if _, err := r.Wait(t.Context()); rouse.CodeOf(err) != rouse.CodeCanceled {
			t.Fatalf("canceled at %s: %v", at, err)
		}
		b.verify(r)
		if ans := b.wait(b.start(r.Thread(), "hi")); ans.Text != "hello" {
			t.Fatalf("after a cancel at %s: %+v", at, ans)
		}
	}
	wellFormed(t, b.gpt.Requests())
}

func TestForkWithAnotherModelSharesThePast(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil, mock.Rule{Prompt: "go", Sequence: []any{mock.Calls(call("1", "echo", textIn{"a"})), "first"}})
	r := b.start("", "go")
	b.wait(r)
	other := newBench(t, nil, mock.Rule{Prompt: "go", Generator: "second"})
	row, _ := b.journal.Row(r.ID())
	other.journal = b.journal
	f, err := other.agent.Fork(t.Context(), row, run.ForkAt{}, run.Options{Journal: b.journal})
	if err != nil {
		t.Fatal(err)
	}
	if ans := other.wait(f); ans.Text != "second" || ans.Rounds != 2 {
		t.Fatalf("%+v", ans)
	}
	if n := len(other.gpt.Requests()[0].Messages); n != 3 {
		t.Fatalf("the other model was shown %d messages", n)
	}
	if b.calls() != "echo:a" || other.calls() != "" {
		t.Fatal("the past was done again")
	}
}
