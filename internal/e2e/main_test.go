package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/agent"
	"github.com/rouse-run/rouse/model"
	"github.com/rouse-run/rouse/model/mock"
	"github.com/rouse-run/rouse/model/openai"
	"github.com/rouse-run/rouse/run"
	"github.com/rouse-run/rouse/store/sqlite"
	"github.com/rouse-run/rouse/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a silence lasts before it counts, where a test wants one;
// noSilence is for all others, so that a slow machine changes nothing.
const (
	patience  = 300 * time.Millisecond
	noSilence = time.Minute
)

// wrapped puts around m what programs put around a wire.
func wrapped(m model.Model) model.Model { return impatient(m, noSilence, noSilence) }

// impatient is wrapped with these limits of silence.
func impatient(m model.Model, first, idle time.Duration) model.Model {
	quick := model.BackoffConfig{Base: time.Millisecond, Cap: time.Millisecond}
	return model.Chain(m,
		model.Recover(model.RecoverConfig{MaxRetries: 1, Backoff: quick, StallDelay: time.Millisecond}),
		model.Retry(model.RetryConfig{Attempts: 2, Backoff: quick}),
		model.Timeouts(model.TimeoutConfig{FirstByte: first, Idle: idle}))
}

// wire is a client of the provider at url.
func wire(t *testing.T, url string) model.Model {
	t.Helper()
	m, err := openai.New(openai.Config{BaseURL: url, Model: "mock"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.CloseIdleConnections)
	return m
}

// provider is a scripted model behind a socket.
func provider(t *testing.T, cfg mock.Config) (*mock.GPT, model.Model) {
	t.Helper()
	g, err := mock.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	srv, err := g.NewServer()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
	})
	return g, wire(t, srv.BaseURL())
}

// rawProvider answers the n-th request, from 0, with what answer writes; after the
// last answer it repeats that one.
func rawProvider(t *testing.T, answers ...func(w http.ResponseWriter)) model.Model {
	t.Helper()
	var mu sync.Mutex
	n := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		answer := answers[min(n, len(answers)-1)]
		n++
		mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		answer(w)
	}))
	t.Cleanup(srv.Close)
	return wire(t, srv.URL+"/v1")
}

// events writes each of these as an event of the stream, and the end of it.
func events(data ...string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		for _, d := range append(data, "[DONE]") {
			_, _ = w.Write([]byte("data: " + d + "\n\n")) // a client that has gone is the test's business
			_ = http.NewResponseController(w).Flush()
		}
	}
}

// say is a whole streamed answer of one text.
func say(text string) func(http.ResponseWriter) {
	b, _ := json.Marshal(text) // a string always marshals
	return events(`{"choices":[{"index":0,"delta":{"content":`+string(b)+`}}]}`, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`)
}

// hands counts what tools were called with.
type hands struct {
	mu   sync.Mutex
	ran  []string
	does map[string]func(ctx context.Context, args json.RawMessage) ([]byte, error)
}

func (h *hands) calls() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.ran)
}

// handTool is a tool that takes any object, and notes it.
type handTool struct {
	*hands
	spec tool.Spec
}

func (h handTool) Spec() tool.Spec { return h.spec }

func (h handTool) Call(ctx context.Context, c *tool.Call) (tool.Result, error) {
	h.mu.Lock()
	h.ran = append(h.ran, h.spec.Name+" "+string(c.Args))
	h.mu.Unlock()
	if do := h.does[h.spec.Name]; do != nil {
		out, err := do(ctx, c.Args)
		return tool.Result{Output: out}, err
	}
	return tool.Text("did " + h.spec.Name), nil
}

// tools makes a tool of each name; names that begin with "write" are unsafe.
func (h *hands) tools(t *testing.T, names ...string) *tool.Set {
	t.Helper()
	var ts []tool.Tool
	for _, n := range names {
		s := tool.Spec{Name: n, Description: "does it", Schema: json.RawMessage(`{"type":"object"}`), Effect: tool.ReadOnly}
		if strings.HasPrefix(n, "write") {
			s.Effect = tool.Unsafe
		}
		ts = append(ts, handTool{h, s})
	}
	set, err := tool.NewSet(ts...)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func newAgent(t *testing.T, cfg agent.Config) *agent.Agent {
	t.Helper()
	if cfg.Gate == nil {
		cfg.Gate = tool.GateFunc(tool.AllowAll)
	}
	a, err := agent.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func open(t *testing.T, dir string) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// drive starts a run of a and brings it to where it stops.
func drive(t *testing.T, a *agent.Agent, j run.Journal, prompt string) (*run.Run[agent.Answer], []rouse.Event) {
	t.Helper()
	r, err := a.Start(t.Context(), run.Options{Journal: j}, rouse.Text(prompt))
	if err != nil {
		t.Fatal(err)
	}
	return r, goOn(t, a, j, r)
}

// goOn drives r and checks what holds for every run: one last event, facts
// without a gap in the journal as in the stream, and a replay that is identical.
func goOn(t *testing.T, a *agent.Agent, j run.Journal, r *run.Run[agent.Answer]) []rouse.Event {
	t.Helper()
	var evs []rouse.Event
	for ev, err := range r.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		evs = append(evs, ev)
	}
	for i := range evs {
		if evs[i].Ends() != (i == len(evs)-1) {
			t.Fatalf("event %d of %d is %s", i, len(evs), evs[i].Type)
		}
	}
	if len(evs) == 0 || evs[len(evs)-1].Type == rouse.EventRunInterrupted {
		t.Fatalf("the run was let go: %+v", evs)
	}
	verify(t, a, j, r)
	return evs
}

func verify(t *testing.T, a *agent.Agent, j run.Journal, r *run.Run[agent.Answer]) {
	t.Helper()
	rep, err := a.Verify(t.Context(), rowOf(t, j, r.ID()), run.Options{Journal: j})
	if err != nil {
		t.Fatal(err)
	}
	if d := rep.Divergence; d != nil {
		t.Fatalf("the replay differs: %v\nrecorded %s\nreplayed %s", d, d.Recorded, d.Replayed)
	}
	stored := 0
	for _, ev := range journal(t, j, r.Thread()) {
		if ev.Run == r.ID() {
			stored++
		}
	}
	if rep.Events == 0 || rep.Events != stored || rep.Complete != r.Status().Final() {
		t.Fatalf("the replay saw %d of %d events, complete %v", rep.Events, stored, rep.Complete)
	}
}

func rowOf(t *testing.T, j run.Journal, id string) run.Row {
	t.Helper()
	switch j := j.(type) {
	case *run.Memory:
		if row, ok := j.Row(id); ok {
			return row
		}
	case *sqlite.Store:
		info, err := j.Run(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return run.Row{Thread: info.Thread, Run: info.ID, Revision: info.Revision, Epoch: info.Epoch, Status: info.Status}
	}
	t.Fatalf("there is no run %s in a %T", id, j)
	return run.Row{}
}

func journal(t *testing.T, j run.Journal, thread string) (evs []rouse.Event) {
	t.Helper()
	for ev, err := range j.Read(t.Context(), run.Query{Thread: thread}) {
		if err != nil {
			t.Fatal(err)
		}
		evs = append(evs, ev)
	}
	for i := range evs {
		if evs[i].Seq != int64(i+1) {
			t.Fatalf("event %d has the number %d", i+1, evs[i].Seq)
		}
	}
	return evs
}

// of returns the events of a type.
func of(evs []rouse.Event, typ rouse.EventType) (out []rouse.Event) {
	for _, ev := range evs {
		if ev.Type == typ {
			out = append(out, ev)
		}
	}
	return out
}

func decode[T any](t *testing.T, ev rouse.Event) (v T) {
	t.Helper()
	if err := ev.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// completed returns the answer of a run that must have one.
func completed(t *testing.T, r *run.Run[agent.Answer]) agent.Answer {
	t.Helper()
	ans, err := r.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return ans
}

// failed returns the error of a run that must have failed.
func failed(t *testing.T, r *run.Run[agent.Answer]) *rouse.Error {
	t.Helper()
	_, err := r.Wait(t.Context())
	var coded *rouse.Error
	if r.Status() != rouse.StatusFailed || !errors.As(err, &coded) {
		t.Fatalf("the run is %s, %v", r.Status(), err)
	}
	return coded
}

// results returns what became of the calls, in the order in which they finished.
func results(t *testing.T, evs []rouse.Event) (out []rouse.ToolResult) {
	t.Helper()
	for _, ev := range of(evs, rouse.EventToolFinished) {
		out = append(out, decode[agent.ResultData](t, ev).Result)
	}
	return out
}

// noStack fails when what is stored, or what is streamed, holds a stack.
func noStack(t *testing.T, evs []rouse.Event) {
	t.Helper()
	for i := range evs {
		raw := string(evs[i].AppendJSON(nil))
		for _, leak := range []string{"goroutine ", ".go:", "runtime/debug"} {
			if strings.Contains(raw, leak) {
				t.Errorf("a stack is in the event %s", raw)
			}
		}
	}
}
