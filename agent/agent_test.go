package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/agent"
	"github.com/rouse-run/rouse/model"
	"github.com/rouse-run/rouse/model/mock"
	"github.com/rouse-run/rouse/run"
	"github.com/rouse-run/rouse/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is an agent with a scripted model, tools that count, and a journal.
type bench struct {
	t       *testing.T
	gpt     *mock.GPT
	agent   *agent.Agent
	journal *run.Memory
	mu      sync.Mutex
	ran     []string // tool calls that were entered
}

type textIn struct {
	Text string `json:"text,omitempty"`
}

func (b *bench) entered(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ran = append(b.ran, what)
}

func (b *bench) calls() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.ran, " ")
}

// newBench makes an agent with the tools echo (read-only), strict (read-only, one
// required argument), write (unsafe), fail and crash.
func newBench(t *testing.T, edit func(*agent.Config), rules ...mock.Rule) *bench {
	t.Helper()
	b := &bench{t: t, journal: run.NewMemory()}
	gpt, err := mock.New(mock.Config{Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	b.gpt = gpt
	add := func(name string, e tool.Effect, fn func(ctx context.Context, in textIn) (string, error)) tool.Tool {
		tl, err := tool.Func(tool.FuncConfig{Name: name, Description: name, Effect: e}, func(ctx context.Context, in textIn) (string, error) {
			b.entered(name + ":" + in.Text)
			return fn(ctx, in)
		})
		if err != nil {
			t.Fatal(err)
		}
		return tl
	}
	strict, err := tool.Func(tool.FuncConfig{Name: "strict", Effect: tool.ReadOnly}, func(_ context.Context, in struct {
		ID int `json:"id"`
	}) (int, error) {
		b.entered(fmt.Sprint("strict:", in.ID))
		return in.ID, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	set, err := tool.NewSet(
		add("echo", tool.ReadOnly, func(_ context.Context, in textIn) (string, error) { return "echo " + in.Text, nil }),
		add("write", tool.Unsafe, func(_ context.Context, in textIn) (string, error) { return "wrote " + in.Text, nil }),
		add("fail", tool.ReadOnly, func(context.Context, textIn) (string, error) { return "", errors.New("it broke") }),
		add("crash", tool.ReadOnly, func(context.Context, textIn) (string, error) { panic("secret stack") }),
		strict,
	)
	if err != nil {
		t.Fatal(err)
	}
	cfg := agent.Config{Model: gpt, Tools: set, System: "be brief"}
	if edit != nil {
		edit(&cfg)
	}
	if b.agent, err = agent.New(cfg); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bench) start(thread, prompt string) *run.Run[agent.Answer] {
	b.t.Helper()
	r, err := b.agent.Start(b.t.Context(), run.Options{Journal: b.journal, Thread: thread}, rouse.Text(prompt))
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// drive runs r to where it stops, and checks everything that must always hold:
// exactly one last event, gapless numbers, and a replay that is identical.
func (b *bench) drive(r *run.Run[agent.Answer]) []rouse.Event {
	b.t.Helper()
	var evs []rouse.Event
	for ev, err := range r.Events(b.t.Context()) {
		if err != nil {
			b.t.Fatal(err)
		}
		evs = append(evs, ev)
	}
	for i, ev := range evs {
		if ev.Ends() != (i == len(evs)-1) {
			b.t.Fatalf("event %d of %d is %s", i, len(evs), ev.Type)
		}
	}
	b.verify(r)
	return evs
}

func (b *bench) verify(r *run.Run[agent.Answer]) {
	b.t.Helper()
	asked, ran := len(b.gpt.Requests()), b.calls()
	row, ok := b.journal.Row(r.ID())
	if !ok {
		b.t.Fatal("no row")
	}
	rep, err := b.agent.Verify(b.t.Context(), row, run.Options{Journal: b.journal})
	if err != nil {
		b.t.Fatal(err)
	}
	if d := rep.Divergence; d != nil {
		b.t.Fatalf("the replay differs: %v\nrecorded %s\nreplayed %s", d, d.Recorded, d.Replayed)
	}
	if len(b.gpt.Requests()) != asked || b.calls() != ran {
		b.t.Fatal("the replay called the model or a tool")
	}
}

func (b *bench) wait(r *run.Run[agent.Answer]) agent.Answer {
	b.t.Helper()
	b.drive(r)
	ans, err := r.Wait(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return ans
}

// results returns what the model was shown of the calls in its last request.
func (b *bench) results() (out []rouse.ToolResult) {
	reqs := b.gpt.Requests()
	for _, m := range reqs[len(reqs)-1].Messages {
		for _, p := range m.Parts {
			if p.Result != nil {
				out = append(out, *p.Result)
			}
		}
	}
	return out
}

func call(id, name string, args any) mock.Call { return mock.Call{ID: id, Name: name, Args: args} }

func TestTextArrivesBeforeTheCallAndTheToolRuns(t *testing.T) {
	t.Parallel() // text before a call must not end the loop, nor be held back
	b := newBench(t, nil, mock.Rule{Prompt: "go", Sequence: []any{
		mock.Result{Text: "Let me look", Calls: []mock.Call{call("c1", "echo", textIn{"a"})}}, "done",
	}})
	r := b.start("", "go")
	evs := b.drive(r)
	text, started := -1, -1
	for i, ev := range evs {
		if ev.Type == rouse.EventText && text < 0 {
			text = i
		}
		if ev.Type == rouse.EventToolStarted {
			started = i
		}
	}
	if text < 0 || started < text {
		t.Errorf("text at %d, tool at %d", text, started)
	}
	ans, err := r.Wait(t.Context())
	if err != nil || ans.Text != "done" || ans.Rounds != 2 || b.calls() != "echo:a" {
		t.Fatalf("%+v %v, ran %s", ans, err, b.calls())
	}
}

func TestResultsComeInCallOrderAndFailuresAreTold(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil, mock.Rule{Prompt: "go", Sequence: []any{
		mock.Calls(
			call("1", "echo", textIn{"a"}), call("2", "fail", textIn{}), call("3", "nosuch", textIn{}),
			call("4", "strict", map[string]any{}), call("5", "crash", textIn{}), call("6", "echo", textIn{"b"}),
			call("7", "strict", `{"{"ids":[1`), call("8", "echo", ""),
		), "done",
	}})
	if ans := b.wait(b.start("", "go")); ans.Text != "done" {
		t.Fatalf("%+v", ans)
	}
	got := b.results()
	if len(got) != 8 {
		t.Fatalf("%d results", len(got))
	}
	for i, want := range []struct {
		say   string
		error bool
	}{
		{"echo a", false}, {"it broke", true}, {"nosuch", true}, {"id", true}, {"", true}, {"echo b", false}, {"strict", true}, {"echo ", false},
	} {
		r := got[i]
		if r.CallID != fmt.Sprint(i+1) || r.Error != want.error || !strings.Contains(r.Output, want.say) {
			t.Errorf("result %d: %+v", i+1, r)
		}
		if strings.Contains(r.Output, "goroutine") || strings.Contains(r.Output, ".go:") {
			t.Errorf("result %d shows a stack: %s", i+1, r.Output)
		}
	}
	if strings.Contains(b.calls(), "strict") {
		t.Error("a tool was entered with arguments that do not match its schema")
	}
}

func TestUnsafeCallsAreAskedAbout(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil, mock.Rule{Prompt: "go", Sequence: []any{
		mock.Calls(call("1", "echo", textIn{"x"}), call("2", "write", textIn{"a"}), call("3", "write", textIn{"b"}), call("4", "fail", textIn{})), "done",
	}})
	r := b.start("", "go")
	evs := b.drive(r)
	if last := evs[len(evs)-1]; last.Type != rouse.EventRunWaiting || b.calls() != "echo:x fail:" && b.calls() != "fail: echo:x" {
		t.Fatalf("%s, ran %s", last.Type, b.calls())
	}
	asks := r.Asks()
	if len(asks) != 2 || asks[0].Kind != agent.AskPermission {
		t.Fatalf("%+v", asks)
	}
	var about agent.PermissionAsk
	if err := json.Unmarshal(asks[1].Payload, &about); err != nil || about.Call.ID != "3" || about.Call.Args != `{"text":"b"}` {
		t.Fatalf("%+v %v", about, err)
	}
	if n := len(b.gpt.Requests()); n != 1 {
		t.Fatalf("the model was asked %d times", n)
	}
	// The second is allowed first, in a process of its own; the model is asked
	// again only when the first is decided too.
	for i, answer := range []string{`{"allow":true}`, `{"allow":false,"reason":"not today"}`} {
		row, _ := b.journal.Row(r.ID())
		var err error
		if r, err = b.agent.Resume(t.Context(), row, run.Options{Journal: b.journal}); err != nil {
			t.Fatal(err)
		}
		if err := r.Answer(t.Context(), run.Decision{Ask: asks[1-i].ID, By: "ann", Value: json.RawMessage(answer)}); err != nil {
			t.Fatal(err)
		}
		b.drive(r)
		if got := len(b.gpt.Requests()); got != 1+i {
			t.Fatalf("after answer %d the model was asked %d times", i, got)
		}
	}
	if !strings.Contains(b.calls(), "write:b") || strings.Contains(b.calls(), "write:a") {
		t.Fatalf("ran %s", b.calls())
	}
	got := b.results()
	if len(got) != 4 || got[1].Output != "The call was denied, it did not run: not today" || !got[1].Error || got[2].Output != "wrote b" {
		t.Fatalf("%+v", got)
	}
}

func TestDecisionsThatCannotBeReadDeny(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil, mock.Rule{Prompt: "go", Sequence: []any{mock.Calls(call("1", "write", textIn{"a"})), "done"}})
	r := b.start("", "go")
	b.drive(r)
	if err := r.Answer(t.Context(), run.Decision{Ask: r.Asks()[0].ID, Value: json.RawMessage(`"yes"`)}); err != nil {
		t.Fatal(err)
	}
	b.wait(r)
	if b.calls() != "" || !b.results()[0].Error {
		t.Fatalf("ran %q", b.calls())
	}
}

func TestGatesThatFailDeny(t *testing.T) {
	t.Parallel()
	for name, gate := range map[string]tool.GateFunc{
		"error": func(context.Context, rouse.ToolCall, tool.Spec) (tool.Verdict, error) {
			return tool.Verdict{Action: tool.Allow}, errors.New("rules cannot be read")
		},
		"panic": func(context.Context, rouse.ToolCall, tool.Spec) (tool.Verdict, error) { panic("oh") },
		"empty": func(context.Context, rouse.ToolCall, tool.Spec) (tool.Verdict, error) { return tool.Verdict{}, nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, func(c *agent.Config) { c.Gate = gate }, mock.Rule{Prompt: "go", Sequence: []any{mock.Calls(call("1", "echo", textIn{"a"})), "done"}})
			b.wait(b.start("", "go"))
			if b.calls() != "" || !b.results()[0].Error {
				t.Fatalf("ran %q", b.calls())
			}
		})
	}
}

func TestLoopsThatNeverEndStopAtTheirOwnLimit(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		answer any
		edit   func(*agent.Config)
		code   rouse.Code
		say    string
	}{
		{"always calls", mock.Calls(call("1", "echo", textIn{"a"})), func(c *agent.Config) { c.MaxRounds = 3 }, rouse.CodeBudget, "max_rounds"},
		{"always empty", mock.Result{}, nil, rouse.CodeProviderOutput, "max_empty"},
		{"only reasons", mock.Result{Reasoning: "hmm"}, nil, rouse.CodeProviderOutput, "max_empty"},
		{"wrong output", "not json", func(c *agent.Config) {
			c.Output = &agent.Output{Schema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`)}
		}, rouse.CodeProviderOutput, "output.retries"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, tc.edit, mock.Rule{Prompt: "hi", Generator: "hello"}, mock.Rule{Prompt: mock.Any, Generator: tc.answer})
			r := b.start("", "go")
			b.drive(r)
			_, err := r.Wait(t.Context())
			if rouse.CodeOf(err) != tc.code || !strings.Contains(err.Error(), tc.say) {
				t.Fatalf("got %v", err)
			}
			if tc.name == "wrong output" {
				return
			}
			// The thread is usable: its next request is well-formed.
			if ans := b.wait(b.start(r.Thread(), "hi")); ans.Text != "hello" {
				t.Fatalf("%+v", ans)
			}
			wellFormed(t, b.gpt.Requests())
		})
	}
}

// wellFormed checks that every call of a request is answered before anything else is said.
func wellFormed(t *testing.T, reqs []model.Request) {
	t.Helper()
	for _, req := range reqs {
		open := map[string]bool{}
		for i, m := range req.Messages {
			if m.Role == rouse.RoleTool {
				id := m.Parts[0].Result.CallID
				if !open[id] {
					t.Fatalf("message %d answers %s, which nobody asked", i, id)
				}
				delete(open, id)
				continue
			}
			if len(open) > 0 {
				t.Fatalf("message %d (%s) comes before the results of %v", i, m.Role, open)
			}
			for _, c := range m.Calls() {
				open[c.ID] = true
			}
		}
		if len(open) > 0 {
			t.Fatalf("calls %v have no result", open)
		}
	}
}

func TestStructuredOutputIsValidatedAndSentBack(t *testing.T) {
	t.Parallel()
	type city struct {
		Name string `json:"name"`
		Size int64  `json:"size"`
	}
	out, err := agent.OutputFor[city]("city")
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, func(c *agent.Config) { c.Output = out }, mock.Rule{Prompt: mock.Any, Sequence: []any{
		`{"name":"Oslo","size":"big"}`, "```json\n{\"name\":\"Oslo\",\"size\":9007199254740993}\n```",
	}})
	r := b.start("", "go")
	ans := b.wait(r)
	if string(ans.Output) != `{"name":"Oslo","size":9007199254740993}` {
		t.Fatalf("%s", ans.Output)
	}
	reqs := b.gpt.Requests()
	if msg := reqs[1].Messages[2].Text(); !strings.Contains(msg, "size") {
		t.Errorf("the model was told %q", msg)
	}
	if _, err := agent.OutputFor[chan int]("x"); rouse.CodeOf(err) != rouse.CodeInvalid {
		t.Errorf("a channel: %v", err)
	}
}

func TestReasoningGoesBackByteForByteAfterAReload(t *testing.T) {
	t.Parallel()
	const thought, sig = "I  think <so>\u2028\n", "c2lnbmF0dXJl+/=="
	b := newBench(t, nil, mock.Rule{Prompt: mock.Any, Sequence: []any{
		mock.Result{Reasoning: thought, Signature: sig, Calls: []mock.Call{call("1", "write", textIn{"a"})}}, "done",
	}})
	r := b.start("", "go")
	b.drive(r)
	cp, err := r.Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b.journal = run.NewMemory()
	row, err := b.journal.Import(cp)
	if err != nil {
		t.Fatal(err)
	}
	if r, err = b.agent.Resume(t.Context(), row, run.Options{Journal: b.journal}); err != nil {
		t.Fatal(err)
	}
	if err := r.Answer(t.Context(), run.Decision{Ask: r.Asks()[0].ID, Value: json.RawMessage(`{"allow":true}`)}); err != nil {
		t.Fatal(err)
	}
	b.wait(r)
	parts := b.gpt.Requests()[1].Messages[1].Parts
	if parts[0].Type != rouse.PartReasoning || parts[0].Text != thought || parts[0].Signature != sig || parts[1].Call == nil {
		t.Fatalf("%+v", parts)
	}
}

func TestEmptyPromptsAreRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil, mock.Rule{Prompt: mock.Any, Generator: "x"})
	for _, parts := range [][]rouse.Part{nil, {rouse.Text("")}, {rouse.CallPart(rouse.ToolCall{})}} {
		if _, err := b.agent.Start(t.Context(), run.Options{}, parts...); rouse.CodeOf(err) != rouse.CodeInvalid {
			t.Errorf("%+v: %v", parts, err)
		}
	}
	_, err := agent.New(agent.Config{MaxRounds: -1, Parallel: -1})
	for _, want := range []string{"model", "max_rounds", "parallel"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
}

func TestOperatorsAreToldOfAPanicWithItsStack(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	b := newBench(t, func(c *agent.Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) }, mock.Rule{Prompt: "go", Sequence: []any{
		mock.Calls(call("1", "crash", textIn{}), call("2", "fail", textIn{})), "done",
	}})
	r := b.start("", "go")
	b.wait(r)
	if got := log.String(); strings.Count(got, "a tool panicked") != 1 || !strings.Contains(got, "agent_test.go") || !strings.Contains(got, r.ID()) {
		t.Errorf("the log says %q", got)
	}
	for ev, err := range b.journal.Read(t.Context(), run.Query{Thread: r.Thread()}) {
		if err != nil || strings.Contains(string(ev.Data), "agent_test.go") {
			t.Errorf("event %s shows the stack (%v)", ev.Type, err)
		}
	}
}
