package mock_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/model"
	"github.com/rouse-run/rouse/model/mock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newGPT(t testing.TB, cfg mock.Config) *mock.GPT {
	t.Helper()
	g, err := mock.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// one returns a model with one rule for every prompt.
func one(t testing.TB, generator any) *mock.GPT {
	t.Helper()
	return newGPT(t, mock.Config{Rules: []mock.Rule{{Prompt: mock.Any, Generator: generator}}})
}

func ask(prompt string) *model.Request {
	return &model.Request{Model: "demo", Messages: []rouse.Message{rouse.UserText(prompt)}}
}

func say(t testing.TB, g *mock.GPT, prompt string) string {
	t.Helper()
	m, err := g.Generate(t.Context(), ask(prompt))
	if err != nil {
		t.Fatalf("%q: %v", prompt, err)
	}
	return m.Text()
}

func wantCode(t testing.TB, err error, code rouse.Code) {
	t.Helper()
	if rouse.CodeOf(err) != code {
		t.Fatalf("got %v (%s), want the code %s", err, rouse.CodeOf(err), code)
	}
}

// client is a strict reader of the wire: it knows the members that the format
// has and refuses others.
type client struct {
	http *http.Client
	base string
	key  string
}

func inProcess(g *mock.GPT) client {
	return client{http: &http.Client{Transport: g.RoundTripper()}, base: "http://mock.invalid/v1"}
}

func overTCP(t testing.TB, g *mock.GPT) client {
	t.Helper()
	s, err := g.NewServer()
	if err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{DisableKeepAlives: true}
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return client{http: &http.Client{Transport: tr}, base: s.BaseURL()}
}

func (c client) post(ctx context.Context, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/chat/completions", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	return c.http.Do(req)
}

type statusError struct {
	status int
	header http.Header
	body   []byte
}

func (e *statusError) Error() string { return fmt.Sprintf("status %d: %s", e.status, e.body) }

// body posts and reads everything; a status other than 200 is a *statusError.
func (c client) body(ctx context.Context, request string) ([]byte, error) {
	resp, err := c.post(ctx, request)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = &statusError{resp.StatusCode, resp.Header, b}
	}
	return b, err
}

type call struct {
	Index    *int   `json:"index"`
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

type content struct {
	Role      string  `json:"role"`
	Content   *string `json:"content"`
	Refusal   *string `json:"refusal"`
	Reasoning string  `json:"reasoning_content"`
	Details   []struct {
		Type      string `json:"type"`
		Signature string `json:"signature"`
		Index     int    `json:"index"`
	} `json:"reasoning_details"`
	Calls []call `json:"tool_calls"`
}

type usage struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	Total      int64 `json:"total_tokens"`
	PromptBy   struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionBy struct {
		Reasoning int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

type document struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Model   string `json:"model"`
	Choices []struct {
		Index    int       `json:"index"`
		Delta    *content  `json:"delta"`
		Message  *content  `json:"message"`
		Logprobs *struct{} `json:"logprobs"`
		Finish   *string   `json:"finish_reason"`
	} `json:"choices"`
	Usage *usage `json:"usage"`
}

// answer is what the strict client read.
type answer struct {
	message rouse.Message
	finish  string
	usage   *usage
	raw     []byte
}

var errCut = errors.New("no [DONE] or no finish reason")

func decodeStrict(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

func (d *document) check(object string) error {
	if !strings.HasPrefix(d.ID, "chatcmpl-") || d.Object != object || d.Created == 0 || d.Model == "" {
		return fmt.Errorf("bad head: %+v", d)
	}
	return nil
}

// whole asks for an answer that is not streamed.
func (c client) whole(ctx context.Context, request string) (answer, error) {
	b, err := c.body(ctx, request)
	if err != nil {
		return answer{}, err
	}
	var d document
	if err := decodeStrict(b, &d); err != nil {
		return answer{}, err
	}
	if err := d.check("chat.completion"); err != nil {
		return answer{}, err
	}
	if len(d.Choices) != 1 || d.Choices[0].Message == nil || d.Choices[0].Finish == nil {
		return answer{}, fmt.Errorf("no finished choice: %s", b)
	}
	a := answer{message: rouse.Message{Role: rouse.RoleAssistant}, finish: *d.Choices[0].Finish, usage: d.Usage, raw: b}
	m := d.Choices[0].Message
	if m.Role != "assistant" || m.Content == nil && len(m.Calls) == 0 {
		return answer{}, fmt.Errorf("bad message: %s", b)
	}
	a.add(m)
	for _, cl := range m.Calls {
		if cl.Index != nil || cl.ID == "" || cl.Type != "function" {
			return answer{}, fmt.Errorf("bad call: %s", b)
		}
		a.message.Parts = append(a.message.Parts, rouse.CallPart(rouse.ToolCall{ID: cl.ID, Name: cl.Function.Name, Args: cl.Function.Arguments}))
	}
	return a, nil
}

func (a *answer) add(m *content) {
	grow := func(p rouse.Part) *rouse.Part {
		if n := len(a.message.Parts); n > 0 && a.message.Parts[n-1].Type == p.Type && a.message.Parts[n-1].Signature == "" {
			return &a.message.Parts[n-1]
		}
		a.message.Parts = append(a.message.Parts, p)
		return &a.message.Parts[len(a.message.Parts)-1]
	}
	if m.Reasoning != "" {
		grow(rouse.Reasoning("", "")).Text += m.Reasoning
	}
	for _, d := range m.Details {
		grow(rouse.Reasoning("", "")).Signature = d.Signature
	}
	if m.Content != nil && *m.Content != "" {
		grow(rouse.Text("")).Text += *m.Content
	}
}

// stream asks for a streamed answer.
func (c client) stream(ctx context.Context, request string) (answer, error) {
	b, err := c.body(ctx, request)
	if err != nil {
		return answer{raw: b}, err
	}
	return parseStream(b)
}

func parseStream(b []byte) (answer, error) {
	a := answer{message: rouse.Message{Role: rouse.RoleAssistant}, raw: b}
	calls := map[int]int{}
	first, done := true, false
	sc := bufio.NewScanner(bytes.NewReader(b))
	for sc.Scan() {
		line := sc.Text()
		if line == "" {
			continue
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok || done {
			return a, fmt.Errorf("unexpected line %q", line)
		}
		if data == "[DONE]" {
			done = true
			continue
		}
		var d document
		if err := decodeStrict([]byte(data), &d); err != nil {
			return a, err
		}
		if err := d.check("chat.completion.chunk"); err != nil {
			return a, err
		}
		if d.Usage != nil {
			if a.usage != nil || len(d.Choices) != 0 {
				return a, errors.New("usage twice, or with choices")
			}
			a.usage = d.Usage
		}
		for _, ch := range d.Choices {
			if a.finish != "" || ch.Delta == nil || first != (ch.Delta.Role == "assistant") {
				return a, fmt.Errorf("bad order at %s", data)
			}
			first = false
			a.add(ch.Delta)
			if err := a.grow(calls, ch.Delta.Calls); err != nil {
				return a, err
			}
			if ch.Finish != nil {
				a.finish = *ch.Finish
			}
		}
	}
	if !done || a.finish == "" {
		return a, errCut
	}
	return a, nil
}

// grow adds pieces of calls by their index.
func (a *answer) grow(calls map[int]int, pieces []call) error {
	for _, p := range pieces {
		if p.Index == nil {
			return errors.New("a piece of a call without an index")
		}
		at, ok := calls[*p.Index]
		if !ok {
			if p.ID == "" || p.Type != "function" || p.Function.Name == "" || *p.Index != len(calls) {
				return fmt.Errorf("bad begin of a call: %+v", p)
			}
			at = len(a.message.Parts)
			calls[*p.Index] = at
			a.message.Parts = append(a.message.Parts, rouse.CallPart(rouse.ToolCall{ID: p.ID, Name: p.Function.Name}))
		}
		a.message.Parts[at].Call.Args += p.Function.Arguments
	}
	return nil
}

// wire returns the body of a chat completion request with one user message.
func wire(prompt string, stream, withUsage bool) string {
	m := map[string]any{"model": "demo", "messages": []any{map[string]any{"role": "user", "content": prompt}}}
	if stream {
		m["stream"] = true
	}
	if withUsage {
		m["stream_options"] = map[string]any{"include_usage": true}
	}
	b, _ := json.Marshal(m) // strings and booleans only
	return string(b)
}
