package mock_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/model"
	"github.com/rouse-run/rouse/model/mock"
)

func TestFirstMatchingRuleWins(t *testing.T) {
	t.Parallel()
	g := newGPT(t, mock.Config{Rules: []mock.Rule{
		{Prompt: "status", Generator: "by text"},
		{Prompt: regexp.MustCompile(`(?i)order \d+`), Generator: "by pattern"},
		{Prompt: func(r *model.Request) bool { return r.System == "secret" }, Generator: "by predicate"},
		{Prompt: "order", Generator: "too late for order 7"},
	}})
	for prompt, want := range map[string]string{
		"the status of order 7": "by text", "Order 7": "by pattern", "an order": "too late for order 7",
	} {
		if got := say(t, g, prompt); got != want {
			t.Errorf("%q: got %q, want %q", prompt, got, want)
		}
	}
	req := ask("an order")
	req.System = "secret"
	if m, err := g.Generate(t.Context(), req); err != nil || m.Text() != "by predicate" {
		t.Errorf("got %q, %v", m.Text(), err)
	}
}

func TestPromptIsTheLastUserText(t *testing.T) {
	t.Parallel()
	g := newGPT(t, mock.Config{Rules: []mock.Rule{{Prompt: "first", Generator: "wrong"}, {Prompt: "second", Generator: "right"}}})
	req := ask("first")
	req.Messages = append(req.Messages,
		rouse.Message{Role: rouse.RoleAssistant, Parts: []rouse.Part{rouse.Text("first again")}},
		rouse.UserText("the second"),
		rouse.Message{Role: rouse.RoleAssistant, Parts: []rouse.Part{rouse.CallPart(rouse.ToolCall{ID: "1", Name: "f"})}},
		rouse.ResultMessage(rouse.ToolResult{CallID: "1", Output: "first"}))
	m, err := g.Generate(t.Context(), req)
	if err != nil || m.Text() != "right" {
		t.Fatalf("got %q, %v", m.Text(), err)
	}
}

func TestNoMatchNamesThePrompt(t *testing.T) {
	t.Parallel()
	g := newGPT(t, mock.Config{Rules: []mock.Rule{{Prompt: "a", Generator: "x"}}})
	_, err := g.Generate(t.Context(), ask("quiz"))
	wantCode(t, err, rouse.CodeNotFound)
	if !strings.Contains(err.Error(), `"quiz"`) {
		t.Errorf("the prompt is missing: %v", err)
	}
	_, long := g.Generate(t.Context(), ask(strings.Repeat("q", 5000)))
	if len(long.Error()) > 400 {
		t.Errorf("the prompt is not cut: %d bytes", len(long.Error()))
	}
	_, err = inProcess(g).whole(t.Context(), wire("quiz", false, false))
	var se *statusError
	if !errors.As(err, &se) || se.status != 404 || !strings.Contains(string(se.body), "quiz") || se.header.Get("X-Should-Retry") != "false" {
		t.Errorf("wire: %v", err)
	}
}

func TestGenerators(t *testing.T) {
	t.Parallel()
	message := rouse.Message{Role: rouse.RoleAssistant, Parts: []rouse.Part{
		rouse.Reasoning("because", "sig"), rouse.Text("before"),
		rouse.CallPart(rouse.ToolCall{ID: "c9", Name: "f", Args: "not JSON {"}), rouse.Text("after"),
	}}
	text := func(s string) rouse.Message {
		return rouse.Message{Role: rouse.RoleAssistant, Parts: []rouse.Part{rouse.Text(s)}}
	}
	for name, c := range map[string]struct {
		generator any
		want      rouse.Message
	}{
		"string":       {"hello", text("hello")},
		"empty string": {"", rouse.Message{Role: rouse.RoleAssistant}},
		"object":       {map[string]any{"online": true, "a": "<b>"}, text(`{"a":"<b>","online":true}`)},
		"number":       {42, text("42")},
		"raw":          {json.RawMessage(`{"n":1.10}`), text(`{"n":1.10}`)},
		"message":      {message, message},
		"function": {mock.Func(func(_ context.Context, r *model.Request) (any, error) {
			return len(r.Messages), nil
		}), text("1")},
		"function of the request alone": {func(r *model.Request) any { return r.Model }, text("demo")},
		"function that returns text":    {func(*model.Request) string { return "s" }, text("s")},
		"function that returns a result": {func(*model.Request) any {
			return mock.Calls(mock.Call{ID: "1", Name: "f"}, mock.Call{ID: "2", Name: "g", Args: map[string]int{"b": 1, "a": 2}})
		}, rouse.Message{Role: rouse.RoleAssistant, Parts: []rouse.Part{
			rouse.CallPart(rouse.ToolCall{ID: "1", Name: "f", Args: "{}"}),
			rouse.CallPart(rouse.ToolCall{ID: "2", Name: "g", Args: `{"a":2,"b":1}`}),
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := one(t, c.generator).Generate(t.Context(), ask("x"))
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Fatalf("got %+v, %v, want %+v", got, err, c.want)
			}
		})
	}
}

func TestGeneratorErrors(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		generator any
		code      rouse.Code
		is        error
	}{
		"panic":             {func(*model.Request) string { panic(boom) }, rouse.CodeInternal, boom},
		"error":             {mock.Func(func(context.Context, *model.Request) (any, error) { return nil, boom }), rouse.CodeInvalid, boom},
		"coded error":       {mock.Func(func(context.Context, *model.Request) (any, error) { return nil, &rouse.Error{Code: rouse.CodeBusy} }), rouse.CodeBusy, nil},
		"nothing":           {func(*model.Request) any { return nil }, rouse.CodeInvalid, nil},
		"a function":        {func(*model.Request) any { return func(*model.Request) string { return "" } }, rouse.CodeInvalid, nil},
		"no JSON":           {func(*model.Request) any { return make(chan int) }, rouse.CodeInvalid, nil},
		"impossible fault":  {func(*model.Request) any { return mock.Result{Text: "x", Fault: mock.Fault{CutArgs: true}} }, rouse.CodeInvalid, nil},
		"panic in the JSON": {func(*model.Request) any { return badJSON{} }, rouse.CodeInternal, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := one(t, c.generator)
			_, err := g.Generate(t.Context(), ask("x"))
			wantCode(t, err, c.code)
			if c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("%v does not wrap the cause", err)
			}
			_, err = inProcess(g).stream(t.Context(), wire("x", true, false))
			var se *statusError
			if !errors.As(err, &se) || se.status != c.code.Info().HTTP {
				t.Errorf("wire: %v", err)
			}
		})
	}
}

type badJSON struct{}

func (badJSON) MarshalJSON() ([]byte, error) { panic("cannot") }

func TestPredicatePanicIsAnError(t *testing.T) {
	t.Parallel()
	g := newGPT(t, mock.Config{Rules: []mock.Rule{{Name: "shaky", Prompt: func(*model.Request) bool { panic("no") }, Generator: "x"}}})
	_, err := g.Generate(t.Context(), ask("x"))
	wantCode(t, err, rouse.CodeInternal)
	if !strings.Contains(err.Error(), "shaky") {
		t.Errorf("the rule is not named: %v", err)
	}
}

func TestSequenceRepeatsItsLastResult(t *testing.T) {
	t.Parallel()
	cfg := mock.Config{Rules: []mock.Rule{{Prompt: "x", Sequence: []any{"1", func(*model.Request) string { return "2" }, 3}}}}
	g := newGPT(t, cfg)
	for _, want := range []string{"1", "2", "3", "3"} {
		if got := say(t, g, "x"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	g.Reset()
	if got := say(t, g, "x"); got != "1" || len(g.Requests()) != 1 {
		t.Errorf("Reset did not begin anew: %q", got)
	}
	cfg.Strict = true
	g = newGPT(t, cfg)
	for range 3 {
		say(t, g, "x")
	}
	_, err := g.Generate(t.Context(), ask("x"))
	wantCode(t, err, rouse.CodeNotFound)
}

func TestTimesGivesWayToLaterRules(t *testing.T) {
	t.Parallel()
	g := newGPT(t, mock.Config{Rules: []mock.Rule{{Prompt: "x", Generator: "a", Times: 2}, {Prompt: "x", Generator: "b", Times: 1}}})
	if got := say(t, g, "x") + say(t, g, "x") + say(t, g, "x"); got != "aab" {
		t.Errorf("got %q", got)
	}
	_, err := g.Generate(t.Context(), ask("x"))
	wantCode(t, err, rouse.CodeNotFound)
}

func TestNewReportsEveryProblem(t *testing.T) {
	t.Parallel()
	_, err := mock.New(mock.Config{ChunkRunes: -1, MaxRequests: -1, MaxBody: -1, Rules: []mock.Rule{
		{},
		{Prompt: "", Generator: "x"},
		{Prompt: 7, Generator: make(chan int)},
		{Prompt: "x", Generator: "x", Sequence: []any{"x"}, Times: -1},
		{Prompt: (*regexp.Regexp)(nil), Sequence: []any{}},
		{Prompt: (func(*model.Request) bool)(nil), Generator: mock.Func(nil)},
		{Prompt: "x", Sequence: []any{"fine", mock.Result{Stop: "later", Fault: mock.Fault{Status: 200}}}},
		{Prompt: "x", Generator: rouse.UserText("x")},
		{Prompt: "x", Generator: "\xff"},
		{Prompt: "x", Generator: errors.New("x")},
		{Prompt: "x", Generator: mock.Calls(mock.Call{}, mock.Call{Name: "f", Args: make(chan int)})},
		{Prompt: "x", Generator: mock.Result{Text: "x", Parts: []rouse.Part{rouse.ImageURL("x")}}},
		{Prompt: "x", Generator: (*mock.Result)(nil)},
		{Prompt: "x", Generator: mock.Calls(mock.Call{ID: "1", Name: "f"}, mock.Call{ID: "1", Name: "f"})},
		{Prompt: "x", Generator: mock.Result{Parts: []rouse.Part{rouse.ImageURL("x")}}},
	}})
	wantCode(t, err, rouse.CodeInvalid)
	for _, part := range []string{
		"ChunkRunes", "MaxRequests", "MaxBody", "Rules[0].Prompt", "Rules[0].Generator", "Rules[1].Prompt", "Rules[2].Prompt", "Rules[2].Generator",
		"Rules[3] ", "Rules[3].Times", "Rules[4].Prompt", "Rules[4].Sequence", "Rules[5].Prompt", "Rules[5].Generator",
		"Rules[6].Sequence[1].Stop", "Rules[6].Sequence[1].Fault.Status", "Rules[7].Generator.Role", "Rules[8].Generator.parts[0]",
		"Rules[9].Generator", "Rules[10].Generator.parts[0]", "Rules[10].Generator.Calls[1].Args", "Rules[11].Generator.Parts",
		"Rules[12].Generator", "Rules[13].Generator.parts[1]", "Rules[14].Generator.parts[0]",
	} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%s is not reported", part)
		}
	}
	_, err = mock.New(mock.Config{})
	wantCode(t, err, rouse.CodeInvalid)
}

func TestConstantsAreCopied(t *testing.T) {
	t.Parallel()
	m := rouse.Message{Parts: []rouse.Part{rouse.CallPart(rouse.ToolCall{ID: "1", Name: "f", Args: "{}"})}}
	u := &rouse.Usage{Input: 1}
	g := newGPT(t, mock.Config{Rules: []mock.Rule{{Prompt: "m", Generator: m}, {Prompt: "u", Generator: mock.Result{Usage: u}}}})
	m.Parts[0].Call.Name, u.Input = "changed", 2
	if got, err := g.Generate(t.Context(), ask("m")); err != nil || got.Calls()[0].Name != "f" {
		t.Errorf("got %+v, %v", got, err)
	}
	for c := range g.Stream(t.Context(), ask("u")) {
		if c.Type == model.ChunkUsage && c.Usage.Input != 1 {
			t.Errorf("usage changed: %+v", c.Usage)
		}
	}
}

func TestRequestsAreDeepCopies(t *testing.T) {
	t.Parallel()
	g := one(t, func(r *model.Request) string {
		r.Messages[0].Parts[0].Text = "changed by the generator"
		return "x"
	})
	temp := 0.5
	req := ask("original")
	req.Memo = &model.Memo{}
	req.Tools = []model.ToolSpec{{Name: "f", Schema: json.RawMessage(`{"type":"object"}`)}}
	req.Params = model.Params{Temperature: &temp, Stop: []string{"stop"}}
	req.Output = &model.OutputSpec{Name: "o", Schema: json.RawMessage(`{}`)}
	if _, err := g.Generate(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if req.Messages[0].Text() != "original" {
		t.Error("the caller's request was changed")
	}
	temp, req.Messages[0].Parts[0].Text, req.Tools[0].Schema[0], req.Params.Stop[0], req.Output.Schema[0] = 1, "later", 'x', "y", 'z'
	first := g.Requests()
	first[0].Messages[0].Parts[0].Text = "by the reader"
	got := g.Requests()[0]
	if got.Messages[0].Text() != "original" || *got.Params.Temperature != 0.5 || string(got.Tools[0].Schema) != `{"type":"object"}` ||
		got.Params.Stop[0] != "stop" || string(got.Output.Schema) != "{}" || got.Memo != nil {
		t.Errorf("the record was changed: %+v", got)
	}
}

func TestRecordIsBounded(t *testing.T) {
	t.Parallel()
	g := newGPT(t, mock.Config{MaxRequests: 2, Rules: []mock.Rule{{Prompt: mock.Any, Generator: "x"}}})
	say(t, g, "1")
	say(t, g, "2")
	_, err := g.Generate(t.Context(), ask("3"))
	wantCode(t, err, rouse.CodeTooLarge)
	if len(g.Requests()) != 2 {
		t.Errorf("%d requests are recorded", len(g.Requests()))
	}
}

func TestRefusesWhatAProviderRefuses(t *testing.T) {
	t.Parallel()
	g := one(t, "x")
	user := rouse.UserText("x")
	asks := rouse.Message{Role: rouse.RoleAssistant, Parts: []rouse.Part{rouse.CallPart(rouse.ToolCall{ID: "1", Name: "f"})}}
	result := rouse.ResultMessage(rouse.ToolResult{CallID: "1"})
	spec := model.ToolSpec{Name: "f", Schema: json.RawMessage(`{"type":"object"}`)}
	for name, req := range map[string]*model.Request{
		"no messages":           {},
		"unknown role":          {Messages: []rouse.Message{{Role: "boss"}}},
		"call without result":   {Messages: []rouse.Message{user, asks, user}},
		"ends with a call":      {Messages: []rouse.Message{user, asks}},
		"result without call":   {Messages: []rouse.Message{user, result}},
		"result twice":          {Messages: []rouse.Message{user, asks, result, result}},
		"tool message of text":  {Messages: []rouse.Message{user, asks, {Role: rouse.RoleTool, Parts: []rouse.Part{rouse.Text("x")}}}},
		"call of a user":        {Messages: []rouse.Message{{Role: rouse.RoleUser, Parts: asks.Parts}}},
		"call without id":       {Messages: []rouse.Message{user, {Role: rouse.RoleAssistant, Parts: []rouse.Part{rouse.CallPart(rouse.ToolCall{Name: "f"})}}}},
		"tool twice":            {Messages: []rouse.Message{user}, Tools: []model.ToolSpec{spec, spec}},
		"schema is no object":   {Messages: []rouse.Message{user}, Tools: []model.ToolSpec{{Name: "f", Schema: json.RawMessage(`[1]`)}}},
		"schema is broken":      {Messages: []rouse.Message{user}, Tools: []model.ToolSpec{{Name: "f", Schema: json.RawMessage(`{`)}}},
		"choice of another":     {Messages: []rouse.Message{user}, Tools: []model.ToolSpec{spec}, ToolChoice: "g"},
		"required without":      {Messages: []rouse.Message{user}, ToolChoice: "required"},
		"output without schema": {Messages: []rouse.Message{user}, Output: &model.OutputSpec{Name: "o"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := g.Generate(t.Context(), req)
			wantCode(t, err, rouse.CodeProviderRefused)
		})
	}
	ok := &model.Request{Messages: []rouse.Message{user, asks, result, user}, Tools: []model.ToolSpec{spec}, ToolChoice: "f"}
	if _, err := g.Generate(t.Context(), ok); err != nil {
		t.Error(err)
	}
}

// TestStreamContract checks what model.Model promises, at every point where a
// consumer may break off.
func TestStreamContract(t *testing.T) {
	t.Parallel()
	g := newGPT(t, mock.Config{ChunkRunes: 3, Capabilities: model.Capabilities{Window: 7}, Rules: []mock.Rule{{Prompt: mock.Any, Generator: mock.Result{
		Reasoning: "thinking", Signature: "sig", Text: "some text", Calls: []mock.Call{{Name: "f", Args: `{"a":1}`}, {Name: "g"}}}}}})
	var types []model.ChunkType
	for c, err := range g.Model().Stream(t.Context(), ask("x")) {
		if err != nil {
			t.Fatal(err)
		}
		types = append(types, c.Type)
		if c.Raw != nil && !json.Valid(c.Raw) {
			t.Errorf("Raw is not JSON: %s", c.Raw)
		}
		if c.Type == model.ChunkStop && c.Stop != model.StopTools {
			t.Errorf("stop is %q", c.Stop)
		}
	}
	n := len(types)
	if types[n-1] != model.ChunkStop || types[n-2] != model.ChunkUsage {
		t.Fatalf("the end is %v", types)
	}
	for at := range n {
		seen := 0
		for range g.Stream(t.Context(), ask("x")) {
			if seen++; seen > at {
				break
			}
		}
		if seen != at+1 {
			t.Fatalf("saw %d chunks, want %d", seen, at+1)
		}
	}
	if c, ok := model.As[model.Capable](g.Model()); !ok || c.Capabilities("any").Window != 7 {
		t.Error("capabilities are lost")
	}
	if got := len(g.Requests()); got != n+1 {
		t.Errorf("%d requests, want one per range: %d", got, n+1)
	}
	_ = g.Stream(t.Context(), ask("not ranged over"))
	if got := len(g.Requests()); got != n+1 {
		t.Error("a request was sent without a range")
	}
}

func TestPiecesAreWholeRunes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.String().Draw(rt, "text")
		args := rapid.Map(rapid.String(), func(s string) string { return "!" + s }).Draw(rt, "args") // no beginning of JSON, which would be a cut
		size := rapid.IntRange(1, 9).Draw(rt, "size")
		cfg := mock.Config{ChunkRunes: size, Vary: rapid.Bool().Draw(rt, "vary"), Interleave: rapid.Bool().Draw(rt, "interleave"),
			Seed: rapid.Uint64().Draw(rt, "seed"), Rules: []mock.Rule{{Prompt: mock.Any,
				Generator: mock.Result{Text: text, Calls: []mock.Call{{Name: "f", Args: args}, {Name: "g", Args: args + args}}}}}}
		g := newGPT(t, cfg)
		var got string
		for c, err := range g.Stream(t.Context(), ask("x")) {
			if err != nil {
				rt.Fatal(err)
			}
			limit := size
			if cfg.Vary {
				limit = 2*size - 1
			}
			if n := len([]rune(c.Text)); n > limit {
				rt.Fatalf("a piece of %d runes", n)
			}
			if c.Type == model.ChunkText {
				got += c.Text
			}
		}
		m, err := g.Generate(t.Context(), ask("x"))
		if err != nil {
			rt.Fatal(err)
		}
		cs := m.Calls()
		if got != text || m.Text() != text || cs[0].Args != args || cs[1].Args != args+args {
			rt.Fatalf("got %+v", m)
		}
		s, err := inProcess(newGPT(t, cfg)).stream(t.Context(), wire("x", true, true))
		if err != nil {
			rt.Fatal(err)
		}
		first, err := newGPT(t, cfg).Generate(t.Context(), ask("x"))
		if err != nil || !reflect.DeepEqual(s.message, first) {
			rt.Fatalf("wire %+v, direct %+v, %v", s.message, first, err)
		}
	})
}

func TestInterleave(t *testing.T) {
	t.Parallel()
	for _, on := range []bool{false, true} {
		g := newGPT(t, mock.Config{ChunkRunes: 2, Interleave: on, Rules: []mock.Rule{{Prompt: mock.Any,
			Generator: mock.Calls(mock.Call{Name: "f", Args: "aabb"}, mock.Call{Name: "g", Args: "ccddee"})}}})
		var order []string
		for c := range g.Stream(t.Context(), ask("x")) {
			switch c.Type {
			case model.ChunkCall:
				order = append(order, fmt.Sprint(c.Index, c.Name))
			case model.ChunkArgs:
				order = append(order, fmt.Sprint(c.Index, c.Text))
			case model.ChunkText, model.ChunkReasoning, model.ChunkSignature, model.ChunkUsage, model.ChunkReset, model.ChunkStop:
			}
		}
		want := "0f 0aa 0bb 1g 1cc 1dd 1ee"
		if on {
			want = "0f 1g 0aa 1cc 0bb 1dd 1ee"
		}
		if got := strings.ReplaceAll(strings.Join(order, "|"), " ", ""); got != strings.ReplaceAll(want, " ", "|") {
			t.Errorf("interleave %v: %s", on, got)
		}
	}
}

// TestIDs checks that ids follow from seed, request and repetition, and from
// nothing else.
func TestIDs(t *testing.T) {
	t.Parallel()
	ids := func(seed uint64, prompts ...string) (out []string) {
		g := newGPT(t, mock.Config{Seed: seed, Rules: []mock.Rule{{Prompt: mock.Any, Generator: mock.Calls(mock.Call{Name: "f"}, mock.Call{Name: "f"})}}})
		for _, p := range prompts {
			m, err := g.Generate(t.Context(), ask(p))
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, m.Calls()[0].ID, m.Calls()[1].ID)
		}
		return out
	}
	first := ids(1, "a", "b", "a")
	seen := map[string]bool{}
	for _, id := range append(first, ids(2, "a")...) {
		if seen[id] {
			t.Errorf("%s is repeated in %q", id, first)
		}
		seen[id] = true
	}
	if again := ids(1, "b", "a", "a"); !reflect.DeepEqual(again[:2], first[2:4]) || !reflect.DeepEqual(again[2:4], first[:2]) || !reflect.DeepEqual(again[4:], first[4:]) {
		t.Errorf("the order of arrival changed ids: %q, %q", first, again)
	}
}

// TestConcurrentUse asks 32 different things at once, twice: what each gets
// does not depend on the order of arrival.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	all := func() [32]rouse.Message {
		g := one(t, func(r *model.Request) any { return mock.Calls(mock.Call{Name: "f", Args: r.Messages[0].Text()}) })
		var out [32]rouse.Message
		var wg sync.WaitGroup
		for i := range out {
			wg.Go(func() {
				m, err := g.Generate(t.Context(), ask(fmt.Sprint("prompt ", i)))
				if err != nil {
					t.Error(err)
				}
				out[i] = m
			})
		}
		wg.Wait()
		return out
	}
	if a, b := all(), all(); !reflect.DeepEqual(a, b) {
		t.Error("two runs differ")
	}
}
