package e2e_test

import (
	"context"
	"encoding/json"
	"iter"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/agent"
	"github.com/rouse-run/rouse/model"
	"github.com/rouse-run/rouse/model/mock"
	"github.com/rouse-run/rouse/run"
	"github.com/rouse-run/rouse/tool"
)

// Case 12: google/adk-go PR #359; modelcontextprotocol/go-sdk #958. Each test of
// this file: user code panics; the process lives, the run settles, and no stack
// reaches a model, a stream or a journal. TestMain finds what is left running.

func threeCalls() mock.Config {
	return mock.Config{Rules: []mock.Rule{{Prompt: mock.Any, Sequence: []any{
		mock.Result{Text: saying, Calls: []mock.Call{{ID: "c1", Name: "one"}, {ID: "c2", Name: "boom"}, {ID: "c3", Name: "two"}}}, "done",
	}}}}
}

// exploding is a panic whose value must not be told to a model.
func exploding(context.Context, json.RawMessage) ([]byte, error) { panic("secret value") }

func TestPanicInATool(t *testing.T) {
	// Case 12: google/adk-go PR #359; modelcontextprotocol/go-sdk #958.
	t.Parallel()
	for _, parallel := range []int{1, 3} {
		_, m := provider(t, threeCalls())
		h := hands{does: map[string]func(context.Context, json.RawMessage) ([]byte, error){"boom": exploding}}
		a := newAgent(t, agent.Config{Model: wrapped(m), Tools: h.tools(t, "one", "boom", "two"), Parallel: parallel})
		r, evs := drive(t, a, run.NewMemory(), "go")
		if ans := completed(t, r); ans.Text != "done" {
			t.Errorf("got %+v", ans)
		}
		noStack(t, evs)
		got := results(t, evs)
		if len(got) != 3 || len(h.calls()) != 3 {
			t.Fatalf("%+v, ran %q", got, h.calls())
		}
		for _, res := range got {
			if res.Error != (res.Name == "boom") || strings.Contains(res.Output, "secret value") {
				t.Errorf("the model was shown %+v", res)
			}
		}
	}
}

func TestPanicInAGate(t *testing.T) {
	// Case 12: google/adk-go PR #359; modelcontextprotocol/go-sdk #958.
	t.Parallel()
	_, m := provider(t, threeCalls())
	var h hands
	gate := func(_ context.Context, c rouse.ToolCall, _ tool.Spec) (tool.Verdict, error) {
		if c.Name == "boom" {
			panic("secret value")
		}
		return tool.Verdict{Action: tool.Allow}, nil
	}
	a := newAgent(t, agent.Config{Model: wrapped(m), Tools: h.tools(t, "one", "boom", "two"), Gate: tool.GateFunc(gate)})
	r, evs := drive(t, a, run.NewMemory(), "go")
	completed(t, r)
	noStack(t, evs)
	for _, ran := range h.calls() {
		if strings.HasPrefix(ran, "boom") {
			t.Errorf("a call ran that no gate has allowed: %q", ran)
		}
	}
	for _, res := range results(t, evs) {
		if res.Error != (res.Name == "boom") || strings.Contains(res.Output, "secret value") {
			t.Errorf("the model was shown %+v", res)
		}
	}
}

// brokenModel panics in the middle of its answer.
type brokenModel struct{ model.Model }

func (m brokenModel) Stream(ctx context.Context, req *model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		for c, err := range m.Model.Stream(ctx, req) {
			if !yield(c, err) {
				return
			}
			panic("secret value")
		}
	}
}

func TestPanicInAModel(t *testing.T) {
	// Case 12: google/adk-go PR #359; modelcontextprotocol/go-sdk #958.
	t.Parallel()
	_, m := provider(t, threeCalls())
	var h hands
	a := newAgent(t, agent.Config{Model: wrapped(brokenModel{m}), Tools: h.tools(t, "one", "boom", "two")})
	r, evs := drive(t, a, run.NewMemory(), "go")
	if err := failed(t, r); err.Code != rouse.CodeInternal || strings.Contains(err.Message, "secret value") {
		t.Errorf("got %+v", err)
	}
	noStack(t, evs)
	if len(h.calls()) > 0 {
		t.Errorf("ran %q", h.calls())
	}
}

// watcher panics at the n-th event, from 1.
type watcher struct {
	n    int32
	seen atomic.Int32
}

func (w *watcher) watch() {
	if w.seen.Add(1) == w.n {
		panic("secret value")
	}
}

func (w *watcher) Observe(rouse.Event) { w.watch() }

func (w *watcher) Deliver(context.Context, rouse.Event) error {
	w.watch()
	return nil
}

func TestPanicInAnObserver(t *testing.T) {
	// Case 12: google/adk-go PR #359; modelcontextprotocol/go-sdk #958.
	t.Parallel()
	_, m := provider(t, threeCalls())
	var h hands
	a := newAgent(t, agent.Config{Model: wrapped(m), Tools: h.tools(t, "one", "boom", "two")})
	j := run.NewMemory()
	w := &watcher{n: 3}
	r, err := a.Start(t.Context(), run.Options{Journal: j, Observers: []run.Observer{w}}, rouse.Text("go"))
	if err != nil {
		t.Fatal(err)
	}
	evs := goOn(t, a, j, r)
	completed(t, r)
	noStack(t, evs)
	if n := int(w.seen.Load()); n != len(evs) {
		t.Errorf("it saw %d of %d events: the panic must cost it one and no more", n, len(evs))
	}
}

func TestPanicInASink(t *testing.T) {
	// Case 12: google/adk-go PR #359; modelcontextprotocol/go-sdk #958.
	t.Parallel()
	for n := int32(1); ; n++ {
		_, m := provider(t, threeCalls())
		var h hands
		a := newAgent(t, agent.Config{Model: wrapped(m), Tools: h.tools(t, "one", "boom", "two")})
		j := run.NewMemory()
		w := &watcher{n: n}
		r, err := a.Start(t.Context(), run.Options{Journal: j, Sink: w}, rouse.Text("go"))
		if err != nil {
			t.Fatal(err)
		}
		evs := goOn(t, a, j, r)
		noStack(t, evs)
		if w.seen.Load() < n {
			completed(t, r)
			if n < 10 {
				t.Errorf("only %d events", n)
			}
			return
		}
		switch r.Status() {
		case rouse.StatusFailed:
			if err := failed(t, r); err.Code != rouse.CodeInternal || strings.Contains(err.Message, "secret value") {
				t.Errorf("at event %d: got %+v", n, err)
			}
		case rouse.StatusCompleted: // it had ended when the sink was told so
		default:
			t.Errorf("at event %d: the run is %s", n, r.Status())
		}
	}
}

// brokenKeeper is a store of blobs that panics.
type brokenKeeper struct{}

func (brokenKeeper) PutBlob(context.Context, []byte) (string, error) { panic("secret value") }

func TestPanicInAKeeper(t *testing.T) {
	// Case 12: google/adk-go PR #359; modelcontextprotocol/go-sdk #958.
	t.Parallel()
	_, m := provider(t, threeCalls())
	long := []byte(strings.Repeat("漢", tool.DefaultMaxOutput))
	h := hands{does: map[string]func(context.Context, json.RawMessage) ([]byte, error){
		"boom": func(context.Context, json.RawMessage) ([]byte, error) { return long, nil },
	}}
	a := newAgent(t, agent.Config{Model: wrapped(m), Tools: h.tools(t, "one", "boom", "two"), Keeper: brokenKeeper{}})
	r, evs := drive(t, a, run.NewMemory(), "go")
	completed(t, r)
	noStack(t, evs)
	for _, res := range results(t, evs) {
		if res.Error || res.Whole != "" || strings.Contains(res.Output, "secret value") {
			t.Errorf("the model was shown %+v", res)
		}
		if res.Name == "boom" && !strings.Contains(res.Output, "the rest was not kept") {
			t.Error("the model is not told that the rest is lost")
		}
	}
}
