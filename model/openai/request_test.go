package openai_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/model"
	"github.com/rouse-run/rouse/model/openai"
)

// sent returns the body that the server got for req.
func sent(t testing.TB, cfg openai.Config, req *model.Request) string {
	t.Helper()
	s, _ := answering(t, chunked(finish("stop")+done))
	cfg.BaseURL = s.url
	if g := collect(t, newModel(t, cfg), t.Context(), req); g.err != nil {
		t.Fatal(g.err)
	}
	body := s.body(0)
	if !json.Valid([]byte(body)) {
		t.Fatalf("not JSON: %s", body)
	}
	return body
}

func TestRequestBody(t *testing.T) {
	t.Parallel()
	warm, seed := 0.25, int64(7)
	req := &model.Request{
		System: "be \"brief\"",
		Messages: []rouse.Message{
			rouse.UserText("look at\nthis"),
			{Role: rouse.RoleAssistant, Parts: []rouse.Part{
				rouse.Text("I will"), rouse.CallPart(rouse.ToolCall{ID: "a", Name: "fs.read", Args: `{"p":1.0}`}),
				rouse.CallPart(rouse.ToolCall{ID: "b", Name: "ls", Args: ""})}},
			rouse.ResultMessage(rouse.ToolResult{CallID: "a", Name: "fs.read", Output: "一"}),
			rouse.ResultMessage(rouse.ToolResult{CallID: "b", Name: "ls", Output: "failed", Error: true}),
			{Role: rouse.RoleUser, Parts: []rouse.Part{
				rouse.Text("and"), rouse.ImageURL("https://example.org/a.png"), rouse.ImageData("image/jpeg", []byte{1, 2, 3}),
				rouse.FileData("a.pdf", "application/pdf", []byte("%PDF"))}},
		},
		Tools: []model.ToolSpec{
			{Name: "fs.read", Description: "reads", Schema: json.RawMessage(`{ "type":"object", "properties":{"p":{"type":"number"}} }`)},
			{Name: "ls"},
		},
		ToolChoice: "fs.read",
		Output:     &model.OutputSpec{Name: "answer", Schema: json.RawMessage(`{"type":"object"}`)},
		Params:     model.Params{Temperature: &warm, MaxOutput: 100, Stop: []string{"a", "b"}, Seed: &seed, Effort: "low"},
	}
	wire := model.WireName("fs.read")
	want := `{"model":"test-model","stream":true,"stream_options":{"include_usage":true},"temperature":0.25,"max_tokens":100,"stop":["a","b"],"seed":7,"reasoning_effort":"low",` +
		`"tools":[{"type":"function","function":{"name":"` + wire + `","description":"reads","parameters":{"type":"object","properties":{"p":{"type":"number"}}}}},` +
		`{"type":"function","function":{"name":"ls","parameters":{"type":"object","properties":{}}}}],` +
		`"tool_choice":{"type":"function","function":{"name":"` + wire + `"}},` +
		`"response_format":{"type":"json_schema","json_schema":{"name":"answer","schema":{"type":"object"}}},"provider":{"sort":"price"},` +
		`"messages":[{"role":"system","content":"be \"brief\""},{"role":"user","content":"look at\nthis"},` +
		`{"role":"assistant","content":"I will","tool_calls":[{"id":"a","type":"function","function":{"name":"` + wire + `","arguments":"{\"p\":1.0}"}},` +
		`{"id":"b","type":"function","function":{"name":"ls","arguments":"{}"}}]},` +
		`{"role":"tool","tool_call_id":"a","content":"一"},{"role":"tool","tool_call_id":"b","content":"failed"},` +
		`{"role":"user","content":[{"type":"text","text":"and"},{"type":"image_url","image_url":{"url":"https://example.org/a.png"}},` +
		`{"type":"image_url","image_url":{"url":"data:image/jpeg;base64,AQID"}},{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,JVBERg=="}}]}]}`
	cfg := openai.Config{Extra: map[string]json.RawMessage{"provider": json.RawMessage(`{"sort":"price"}`)}}
	if got := sent(t, cfg, req); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestRequestBodySmallest(t *testing.T) {
	t.Parallel()
	got := sent(t, openai.Config{OmitUsage: true, MaxTokensField: "max_completion_tokens"},
		&model.Request{Model: "other", Messages: []rouse.Message{{Role: rouse.RoleUser}}, Params: model.Params{MaxOutput: 5}, ToolChoice: "auto"})
	if want := `{"model":"other","stream":true,"max_completion_tokens":5,"messages":[ {"role":"user","content":""}]}`; got != want {
		t.Errorf("got %s", got)
	}
}

func TestInvalidRequests(t *testing.T) {
	t.Parallel()
	s, _ := answering(t, chunked(finish("stop")+done))
	inf := 1.0
	inf /= inf - 1
	for name, req := range map[string]*model.Request{
		"role":   {Messages: []rouse.Message{{Role: "narrator"}}},
		"schema": {Tools: []model.ToolSpec{{Name: "a", Schema: json.RawMessage(`{`)}}},
		"choice": {ToolChoice: "b", Tools: []model.ToolSpec{{Name: "a"}}},
		"output": {Output: &model.OutputSpec{Schema: json.RawMessage(`true`)}},
		"param":  {Params: model.Params{TopP: &inf}},
	} {
		m := newModel(t, openai.Config{BaseURL: s.url})
		req.Memo = new(model.Memo)
		wantCode(t, collect(t, m, t.Context(), req).err, rouse.CodeInvalid)
		// the memo is of use afterwards
		next := hello()
		next.Memo = req.Memo
		if g := collect(t, m, t.Context(), next); g.err != nil {
			t.Errorf("%s: %v", name, g.err)
		}
	}
	m, err := openai.New(openai.Config{BaseURL: s.url})
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, collect(t, m, t.Context(), hello()).err, rouse.CodeInvalid, "names no model")
	m.CloseIdleConnections()
}

// Case 10: names that the protocol refuses go out changed and come back real.
func TestToolNamesComeBack(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("p", 70)
	names := []string{"a.b", "a/b", "a b", "读文件", long + "aaaaaaaaaa", long + "bbbbbbbbbb", "plain", model.WireName("a.b")}
	var tools []model.ToolSpec
	var body string
	for i, n := range names {
		tools = append(tools, model.ToolSpec{Name: n})
		b, err := json.Marshal(map[string]any{"index": i, "id": n, "function": map[string]string{"name": model.WireName(n), "arguments": "{}"}})
		if err != nil {
			t.Fatal(err)
		}
		body += delta(`{"tool_calls":[` + string(b) + `]}`)
	}
	_, m := answering(t, chunked(body+finish("tool_calls")+done))
	g := collect(t, m, t.Context(), &model.Request{Messages: hello().Messages, Tools: tools})
	if len(g.calls) != len(names) {
		t.Fatalf("%+v", g)
	}
	for i, c := range g.calls {
		if c.Name != names[i] {
			t.Errorf("%q came back as %q", names[i], c.Name)
		}
	}
}

// Case 8 (mastra #13635, vercel/ai #11602): reasoning goes back byte for byte,
// before the calls that it led to.
func TestReasoningGoesBack(t *testing.T) {
	t.Parallel()
	sealed := `{"type":"reasoning.encrypted","data":"d==","id":"r1","format":"x"}`
	msg := rouse.Message{Role: rouse.RoleAssistant, Parts: []rouse.Part{
		rouse.Reasoning("hm \u2028 \"q\"", "sig+/=="), rouse.Reasoning("", sealed), rouse.CallPart(rouse.ToolCall{ID: "a", Name: "f", Args: "{}"})}}
	plain := rouse.Message{Role: rouse.RoleAssistant, Parts: []rouse.Part{rouse.Reasoning("a", ""), rouse.Reasoning("b", ""), rouse.Text("x")}}
	blocks := `"reasoning_details":[{"type":"reasoning.text","text":"hm \u2028 \"q\"","signature":"sig+/=="},` + sealed + `]`
	for _, c := range []struct {
		how           openai.Reasoning
		signed, plain string
	}{
		{openai.ReasoningAuto, `{"role":"assistant","reasoning_content":"hm \u2028 \"q\"",` + blocks + `,"content":"","tool_calls":`, `{"role":"assistant","reasoning_content":"ab","content":"x"}`},
		{openai.ReasoningPlain, `{"role":"assistant","reasoning":"hm \u2028 \"q\"",` + blocks + `,"content":"","tool_calls":`, `{"role":"assistant","reasoning":"ab","content":"x"}`},
		{openai.ReasoningDetails, `{"role":"assistant",` + blocks + `,"content":"","tool_calls":`, `"reasoning_details":[{"type":"reasoning.text","text":"a"},{"type":"reasoning.text","text":"b"}],"content":"x"}`},
		{openai.ReasoningNone, `{"role":"assistant","content":"","tool_calls":`, `{"role":"assistant","content":"x"}`},
	} {
		got := sent(t, openai.Config{Reasoning: c.how}, &model.Request{Messages: []rouse.Message{rouse.UserText("q"), msg, plain}})
		if !strings.Contains(got, c.signed) || !strings.Contains(got, c.plain) {
			t.Errorf("%q: %s", c.how, got)
		}
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	_, err := openai.New(openai.Config{
		BaseURL: "ftp://user:hunter2@host", APIKey: "sk-a\nb", MaxEventBytes: -1, Window: -1, Reasoning: "loud",
		Extra: map[string]json.RawMessage{"messages": nil, "x": json.RawMessage(`{`)},
	})
	wantCode(t, err, rouse.CodeInvalid, "BaseURL", "APIKey", "MaxEventBytes", "Window", "Reasoning", `"messages"`, `"x"`)
	if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "sk-a") {
		t.Error(err)
	}
	m := newModel(t, openai.Config{BaseURL: "https://x.openai.azure.com/openai/v1?api-version=1", Model: "vendor/gpt-4o-mini"})
	if c := m.Capabilities(""); c.Window != 128_000 || !c.Images || !c.Output {
		t.Errorf("%+v", c)
	}
	if c := m.Capabilities("o3-mini-high"); c.Images || c.Window != 200_000 {
		t.Errorf("%+v", c)
	}
	if c := m.Capabilities("nobody-knows"); c != (model.Capabilities{}) {
		t.Errorf("%+v", c)
	}
	m = newModel(t, openai.Config{Window: 5, Capabilities: func(string) model.Capabilities { return model.Capabilities{Window: 9, Files: true} }})
	if c := m.Capabilities("x"); c != (model.Capabilities{Window: 5, Files: true}) {
		t.Errorf("%+v", c)
	}
	if _, ok := model.As[model.Capable](m); !ok {
		t.Error("not Capable")
	}
}
