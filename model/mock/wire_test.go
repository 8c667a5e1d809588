package mock_test

import (
	"encoding/json"
	"errors"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/model"
	"github.com/rouse-run/rouse/model/mock"
)

var update = flag.Bool("update", false, "write the golden files anew")

func full() mock.Result {
	return mock.Result{Reasoning: "think first", Signature: "c2ln", Text: "Let me look: <&> é漢🙂.",
		Calls: []mock.Call{{Name: "read_file", Args: map[string]any{"path": "a.txt"}}, {Name: "list_dir"}}}
}

// TestGoldenBytes holds the wire to files that were looked at, and each way of
// asking to the same bytes.
func TestGoldenBytes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		file          string
		stream, usage bool
		cfg           mock.Config
	}{
		{"stream.golden", true, true, mock.Config{}},
		{"stream-varied.golden", true, false, mock.Config{Seed: 42, Vary: true, Interleave: true, ChunkRunes: 5}},
		{"whole.golden", false, false, mock.Config{}},
	} {
		t.Run(c.file, func(t *testing.T) {
			t.Parallel()
			c.cfg.Rules = []mock.Rule{{Prompt: mock.Any, Generator: full()}}
			path := filepath.Join("testdata", c.file)
			var got [][]byte
			for _, cl := range []client{inProcess(newGPT(t, c.cfg)), overTCP(t, newGPT(t, c.cfg))} {
				b, err := cl.body(t.Context(), wire("golden", c.stream, c.usage))
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, b)
			}
			if *update {
				if err := os.WriteFile(path, got[0], 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for i := range got {
				if string(got[i]) != string(want) {
					t.Errorf("transport %d wrote\n%s\nwant\n%s", i, got[i], want)
				}
			}
		})
	}
}

// TestOneScriptThreeWays asks the same conversation in process, without a socket
// and over TCP, streamed and not: the messages are equal, call ids included.
func TestOneScriptThreeWays(t *testing.T) {
	t.Parallel()
	rules := []mock.Rule{
		{Prompt: "const", Generator: "a constant that is longer than one piece"},
		{Prompt: "object", Generator: map[string]bool{"online": true}},
		{Prompt: "echo", Generator: func(r *model.Request) string { return r.System + "|" + r.Messages[0].Text() }},
		{Prompt: "seq", Sequence: []any{full(), "done"}},
	}
	for _, prompt := range []string{"const", "object", "echo", "seq"} {
		for range 2 {
			direct := newGPT(t, mock.Config{Rules: rules})
			clients := []client{inProcess(newGPT(t, mock.Config{Rules: rules})), overTCP(t, newGPT(t, mock.Config{Rules: rules})),
				inProcess(newGPT(t, mock.Config{Rules: rules})), overTCP(t, newGPT(t, mock.Config{Rules: rules}))}
			for range 2 {
				want, err := direct.Generate(t.Context(), ask(prompt))
				if err != nil {
					t.Fatal(err)
				}
				for i, c := range clients {
					read := c.stream
					if i >= 2 {
						read = c.whole
					}
					got, err := read(t.Context(), wire(prompt, i < 2, false))
					if err != nil || !reflect.DeepEqual(got.message, want) {
						t.Errorf("%s, client %d: got %+v, %v, want %+v", prompt, i, got.message, err, want)
					}
				}
			}
		}
	}
}

const conversation = `{"model":"m1","stream":true,"temperature":0.5,"top_p":0.9,"max_completion_tokens":77,"seed":3,"stop":["a","b"],"reasoning_effort":"low",
"messages":[
 {"role":"system","content":"be brief"},{"role":"developer","content":[{"type":"text","text":"be kind"}]},
 {"role":"user","content":[{"type":"text","text":"look at "},{"type":"text","text":"this"},
  {"type":"image_url","image_url":{"url":"data:image/png;base64,AQI="}},{"type":"image_url","image_url":{"url":"https://example.com/a.png","detail":"low"}},
  {"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,Aw=="}}]},
 {"role":"assistant","content":"looking","reasoning_content":"hm","reasoning_details":[{"type":"reasoning.text","text":"hm","signature":"s1"}],
  "tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"n\": 1.10}"}},{"id":"c2","type":"function","function":{"name":"g","arguments":""}}]},
 {"role":"tool","tool_call_id":"c2","content":"two"},{"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"one"}]},
 {"role":"assistant","content":[{"type":"refusal","refusal":"no"}]},
 {"role":"user","content":"go on"}],
"tools":[{"type":"function","function":{"name":"f","description":"does f","parameters":{"type":"object","properties":{"n":{"type":"number"}}}}},
 {"type":"function","function":{"name":"g"}}],
"tool_choice":{"type":"function","function":{"name":"g"}},
"response_format":{"type":"json_schema","json_schema":{"name":"out","schema":{"type":"object"},"strict":true}}}`

func TestDecodesTheWholeRequest(t *testing.T) {
	t.Parallel()
	temp, topP, seed := 0.5, 0.9, int64(3)
	want := model.Request{Model: "m1", System: "be brief\n\nbe kind", ToolChoice: "g",
		Params: model.Params{Temperature: &temp, TopP: &topP, MaxOutput: 77, Seed: &seed, Stop: []string{"a", "b"}, Effort: "low"},
		Output: &model.OutputSpec{Name: "out", Schema: json.RawMessage(`{"type":"object"}`)},
		Tools: []model.ToolSpec{
			{Name: "f", Description: "does f", Schema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"number"}}}`)},
			{Name: "g", Schema: json.RawMessage(`{"type":"object","properties":{}}`)}},
		Messages: []rouse.Message{
			{Role: rouse.RoleUser, Parts: []rouse.Part{rouse.Text("look at "), rouse.Text("this"), rouse.ImageData("image/png", []byte{1, 2}),
				rouse.ImageURL("https://example.com/a.png"), rouse.FileData("a.pdf", "application/pdf", []byte{3})}},
			{Role: rouse.RoleAssistant, Parts: []rouse.Part{rouse.Reasoning("hm", "s1"), rouse.Text("looking"),
				rouse.CallPart(rouse.ToolCall{ID: "c1", Name: "f", Args: `{"n": 1.10}`}), rouse.CallPart(rouse.ToolCall{ID: "c2", Name: "g"})}},
			rouse.ResultMessage(rouse.ToolResult{CallID: "c2", Name: "g", Output: "two"}),
			rouse.ResultMessage(rouse.ToolResult{CallID: "c1", Name: "f", Output: "one"}),
			{Role: rouse.RoleAssistant, Parts: []rouse.Part{rouse.Text("no")}},
			rouse.UserText("go on"),
		}}
	g := one(t, "x")
	if _, err := inProcess(g).stream(t.Context(), conversation); err != nil {
		t.Fatal(err)
	}
	if got := g.Requests()[0]; !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestDecodesTheOtherForms(t *testing.T) {
	t.Parallel()
	g := one(t, "x")
	_, err := inProcess(g).whole(t.Context(), `{"model":"m","max_tokens":5,"stop":"end","tool_choice":"required","response_format":{"type":"json_object"},
"tools":[{"type":"function","function":{"name":"f"}}],"messages":[{"role":"user","content":"x"},
{"role":"assistant","content":"","reasoning_details":[{"type":"reasoning.encrypted","data":"d1"},{"type":"reasoning.text","text":"t","signature":"s2"}]},
{"role":"user","content":"y"},{"role":"system","content":"late"},{"role":"assistant","content":""},{"role":"user","content":null,"content":"z"}]}`)
	if err != nil {
		t.Fatal(err)
	}
	r := g.Requests()[0]
	if r.Params.MaxOutput != 5 || !reflect.DeepEqual(r.Params.Stop, []string{"end"}) || r.ToolChoice != "required" || r.Output.Name != "json_object" ||
		r.System != "" || len(r.Messages) != 6 || r.Messages[3].Role != rouse.RoleSystem {
		t.Errorf("got %+v", r)
	}
	if want := []rouse.Part{rouse.Reasoning("", "d1"), rouse.Reasoning("t", "s2")}; !reflect.DeepEqual(r.Messages[1].Parts, want) {
		t.Errorf("got %+v, want %+v", r.Messages[1].Parts, want)
	}
	if _, err = inProcess(g).whole(t.Context(), `{"response_format":{"type":"text"},"stop":null,"tool_choice":null,`+wire("x", false, false)[1:]); err != nil {
		t.Error(err)
	}
}

func TestRefusesMalformedRequests(t *testing.T) {
	t.Parallel()
	c := inProcess(one(t, "x"))
	user := `{"role":"user","content":"x"}`
	for part, body := range map[string]string{
		"not a chat completion":  `{"model":1}`,
		"model is missing":       `{"messages":[` + user + `]}`,
		"messages is empty":      `{"model":"m","messages":[]}`,
		"n must be 1":            `{"model":"m","n":2,"messages":[` + user + `]}`,
		"stream_options":         `{"model":"m","stream_options":{"include_usage":true},"messages":[` + user + `]}`,
		"unknown role":           `{"model":"m","messages":[{"role":"boss","content":"x"}]}`,
		"content is missing":     `{"model":"m","messages":[{"role":"user"}]}`,
		"content is neither":     `{"model":"m","messages":[{"role":"user","content":7}]}`,
		"part of type":           `{"model":"m","messages":[{"role":"user","content":[{"type":"smell"}]}]}`,
		"not in base64":          `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,?"}}]}]}`,
		"data URL is not":        `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:text/plain,x"}}]}]}`,
		"file_data":              `{"model":"m","messages":[{"role":"user","content":[{"type":"file","file":{"file_data":"https://x"}}]}]}`,
		"belong to":              `{"model":"m","messages":[{"role":"user","content":"x","tool_call_id":"1"}]}`,
		"needs content":          `{"model":"m","messages":[{"role":"assistant","content":null}]}`,
		"is \\\"\\\", not":       `{"model":"m","messages":[` + user + `,{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":""}}]}]}`,
		"no call":                `{"model":"m","messages":[` + user + `,{"role":"tool","tool_call_id":"1","content":"x"}]}`,
		"not function":           `{"model":"m","messages":[` + user + `],"tools":[{"type":"custom"}]}`,
		"1 to 64":                `{"model":"m","messages":[` + user + `],"tools":[{"type":"function","function":{"name":"a.b"}}]}`,
		"not a JSON object":      `{"model":"m","messages":[` + user + `],"tools":[{"type":"function","function":{"name":"f","parameters":[]}}]}`,
		"tool_choice is \\\"any": `{"model":"m","messages":[` + user + `],"tool_choice":"any"}`,
		"neither a word":         `{"model":"m","messages":[` + user + `],"tool_choice":{"type":"x"}}`,
		"not among":              `{"model":"m","messages":[` + user + `],"tool_choice":{"type":"function","function":{"name":"f"}}}`,
		"response_format":        `{"model":"m","messages":[` + user + `],"response_format":{"type":"xml"}}`,
		"stop is neither":        `{"model":"m","messages":[` + user + `],"stop":7}`,
	} {
		_, err := c.whole(t.Context(), body)
		var se *statusError
		if !errors.As(err, &se) || se.status != http.StatusBadRequest || !strings.Contains(string(se.body), part) {
			t.Errorf("%s: %v", part, err)
		}
	}
}

func TestOtherPathsAndMethods(t *testing.T) {
	t.Parallel()
	g := one(t, "x")
	for _, c := range []struct {
		method, path string
		status       int
		part         string
	}{
		{"GET", "/v1/models", 200, `{"object":"list","data":[{"id":"mock","object":"model","created":1735689600,"owned_by":"rouse"}]}`},
		{"GET", "/v1/models/mock", 200, `{"id":"mock",`},
		{"GET", "/v1/models/other", 404, "unknown_url"},
		{"POST", "/v1/models", 405, "method_not_allowed"},
		{"GET", "/v1/chat/completions", 405, "method_not_allowed"},
		{"POST", "/v1/embeddings", 404, "unknown_url"},
		{"POST", "/openai/deployments/x/chat/completions/", 400, "not a chat completion"},
	} {
		w := httptest.NewRecorder()
		g.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), c.method, c.path, nil))
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.part) {
			t.Errorf("%s %s: %d %s", c.method, c.path, w.Code, w.Body)
		}
	}
}

func TestAPIKey(t *testing.T) {
	t.Parallel()
	g := newGPT(t, mock.Config{APIKey: "right-key", Rules: []mock.Rule{{Prompt: mock.Any, Generator: "x"}}})
	c := inProcess(g)
	for key, status := range map[string]int{"": 401, "wrong": 401, "right-key": 200} {
		c.key = key
		_, err := c.whole(t.Context(), wire("x", false, false))
		var se *statusError
		switch {
		case status == 200 && err != nil:
			t.Error(err)
		case status != 200 && (!errors.As(err, &se) || se.status != status || strings.Contains(string(se.body), "right-key")):
			t.Errorf("%q: %v", key, err)
		}
	}
	if len(g.Requests()) != 1 {
		t.Error("a request without the key was recorded")
	}
}

func TestBodyLimit(t *testing.T) {
	t.Parallel()
	g := newGPT(t, mock.Config{MaxBody: 100, Rules: []mock.Rule{{Prompt: mock.Any, Generator: "x"}}})
	_, err := inProcess(g).whole(t.Context(), wire(strings.Repeat("x", 100), false, false))
	var se *statusError
	if !errors.As(err, &se) || se.status != http.StatusRequestEntityTooLarge || !strings.Contains(string(se.body), "MaxBody") {
		t.Errorf("got %v", err)
	}
	if _, err := inProcess(g).whole(t.Context(), wire("x", false, false)); err != nil {
		t.Error(err)
	}
}

// TestBreakNeedsAConnection checks that a fault which cannot be done is said,
// not left out.
func TestBreakNeedsAConnection(t *testing.T) {
	t.Parallel()
	for _, how := range []mock.Break{mock.BreakReset, mock.BreakClose} {
		w := httptest.NewRecorder()
		g := one(t, mock.Result{Text: longText, Fault: mock.Fault{Break: how, AfterChunks: 1}})
		g.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/chat/completions", strings.NewReader(wire("x", true, false))))
		if w.Code != rouse.CodeUnsupported.Info().HTTP || !strings.Contains(w.Body.String(), "taken over") {
			t.Errorf("%s: %d %s", how, w.Code, w.Body)
		}
	}
}

// wrapped hides a ResponseWriter as middleware does.
type wrapped struct{ http.ResponseWriter }

func (w wrapped) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func TestHandlerBehindMiddleware(t *testing.T) {
	t.Parallel()
	g := one(t, mock.Result{Text: longText, Fault: mock.Fault{Break: mock.BreakClose, AfterChunks: 1}})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { g.Handler().ServeHTTP(wrapped{w}, r) }))
	defer s.Close()
	if _, err := (client{http: s.Client(), base: s.URL}).body(t.Context(), wire("x", true, false)); err == nil {
		t.Error("the connection was not cut")
	}
}

type fixedClock struct{ at time.Time }

func (c fixedClock) Now() time.Time { return c.at }

func TestClockAndModelNames(t *testing.T) {
	t.Parallel()
	g := newGPT(t, mock.Config{Model: "house", Clock: fixedClock{time.Unix(1234567890, 0)}, Rules: []mock.Rule{{Prompt: mock.Any, Generator: "x"}}})
	a, err := inProcess(g).whole(t.Context(), wire("x", false, false))
	if err != nil || !strings.Contains(string(a.raw), `"created":1234567890,"model":"demo"`) {
		t.Errorf("%s, %v", a.raw, err)
	}
	req := ask("x")
	req.Model = ""
	for c := range g.Stream(t.Context(), req) {
		if c.Raw != nil && !strings.Contains(string(c.Raw), `"model":"house"`) {
			t.Errorf("no default model: %s", c.Raw)
		}
	}
}

// FuzzRequest posts anything: the answer is a status with a JSON object.
func FuzzRequest(f *testing.F) {
	for _, s := range []string{"", "{}", "null", conversation, wire("x", true, true), wire("x", false, false), `{"model":"m","messages":[{"role":"tool"}]}`, `[`} {
		f.Add(s)
	}
	g, err := mock.New(mock.Config{MaxRequests: 1 << 30, Rules: []mock.Rule{{Prompt: mock.Any, Generator: "x"}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body string) {
		c := inProcess(g)
		resp, err := c.post(t.Context(), body)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		switch ct := resp.Header.Get("Content-Type"); {
		case resp.StatusCode == http.StatusOK && strings.HasPrefix(ct, "text/event-stream"):
		case ct == "application/json" && (resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusBadRequest):
			var v map[string]json.RawMessage
			if err := json.NewDecoder(resp.Body).Decode(&v); err != nil {
				t.Fatal(err)
			}
		default:
			t.Fatalf("status %d, %s", resp.StatusCode, ct)
		}
		g.Reset()
	})
}
