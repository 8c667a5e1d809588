package mockllm

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParseModel(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]Model{
		"k3-n4-t64-d0":              {Rounds: 3, Calls: 4, Chunks: 64, PerWrite: 1},
		"k0-n0-t2000-d0-f0":         {Chunks: 2000},
		"d200":                      {Rounds: 1, Calls: 1, Chunks: 16, PerWrite: 1, Delay: 200 * time.Millisecond},
		"h1-t5-n2-k7-f3":            {Rounds: 7, Calls: 2, Chunks: 5, PerWrite: 3, Hold: true},
		"k1000-n64-t100000-d60000":  {Rounds: 1000, Calls: 64, Chunks: 100_000, PerWrite: 1, Delay: time.Minute},
		"k100-n1-t16-d0-f1-h0":      {Rounds: 100, Calls: 1, Chunks: 16, PerWrite: 1},
		"k1-n1-t16-d200-f1-h1":      {Rounds: 1, Calls: 1, Chunks: 16, PerWrite: 1, Delay: 200 * time.Millisecond, Hold: true},
		"k00001-n01-t16-d0-f1-h0":   {Rounds: 1, Calls: 1, Chunks: 16, PerWrite: 1},
		"k1-n1-t16-d0-f100000-h0":   {Rounds: 1, Calls: 1, Chunks: 16, PerWrite: 100_000},
		"k1-k2-n1-t16-d0-f1-h0":     {Rounds: 2, Calls: 1, Chunks: 16, PerWrite: 1},
		"k20-n1-t16-d1000-f1-h0-h1": {Rounds: 20, Calls: 1, Chunks: 16, PerWrite: 1, Delay: time.Second, Hold: true},
	} {
		got, err := ParseModel(name)
		if err != nil || got != want {
			t.Errorf("ParseModel(%q) = %+v, %v, want %+v", name, got, err, want)
		}
	}
	for _, name := range []string{"", "k", "k1--n1", "x1", "k-1", "kk", "k1001", "n65", "t100001", "d60001", "h2", "gpt-4"} {
		if m, err := ParseModel(name); err == nil {
			t.Errorf("ParseModel(%q) = %+v, want an error", name, m)
		}
	}
}

func FuzzParseModel(f *testing.F) {
	f.Add("k3-n4-t64-d0-f1-h0")
	f.Fuzz(func(t *testing.T, name string) {
		m, err := ParseModel(name)
		if err != nil {
			return
		}
		if again, err := ParseModel(m.String()); err != nil || again != m {
			t.Errorf("%q is %+v, its name is %+v, %v", name, m, again, err)
		}
	})
}

func FuzzReadRequest(f *testing.F) {
	f.Add([]byte("POST /x HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}"))
	f.Add([]byte("POST /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n2\r\n{}\r\n0\r\n\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		br := bufio.NewReaderSize(bytes.NewReader(in), readBuffer)
		var r request
		for readRequest(br, io.Discard, &r) == nil {
			if len(r.body) > len(in) {
				t.Fatalf("a body of %d bytes from %d", len(r.body), len(in))
			}
		}
	})
}

func TestReadRequest(t *testing.T) {
	t.Parallel()
	in := "POST /a HTTP/1.1\r\ncontent-length: 3\r\n\r\nabc" +
		"GET /b HTTP/1.1\r\n\r\n" +
		"POST /c HTTP/1.1\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n2\r\nde\r\n1\r\nf\r\n0\r\n\r\n"
	br := bufio.NewReaderSize(strings.NewReader(in), readBuffer)
	var r request
	var out strings.Builder
	for _, want := range []string{"POST /a abc", "GET /b ", "POST /c def"} {
		if err := readRequest(br, &out, &r); err != nil {
			t.Fatal(err)
		}
		if got := r.method + " " + r.path + " " + string(r.body); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if out.String() != "HTTP/1.1 100 Continue\r\n\r\n" {
		t.Errorf("the server said %q before the body", out.String())
	}
	for name, bad := range map[string]string{
		"request line":  "POST /a\r\n\r\n",
		"header":        "POST /a HTTP/1.1\r\nnonsense\r\n\r\n",
		"many headers":  "POST /a HTTP/1.1\r\n" + strings.Repeat("A: b\r\n", maxHeaders) + "\r\n",
		"long line":     "POST /a HTTP/1.1\r\nA: " + strings.Repeat("b", readBuffer) + "\r\n\r\n",
		"length":        "POST /a HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
		"large":         "POST /a HTTP/1.1\r\nContent-Length: 67108865\r\n\r\n",
		"chunk size":    "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
		"large chunk":   "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n4000001\r\n",
		"end of chunk":  "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
		"body cut off":  "POST /a HTTP/1.1\r\nContent-Length: 5\r\n\r\nabc",
		"chunk cut off": "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc",
	} {
		if err := readRequest(bufio.NewReaderSize(strings.NewReader(bad), readBuffer), io.Discard, &r); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// event is what the tests read of a stream.
type event struct {
	Choices []struct {
		Delta struct {
			Content   string `json:"content"`
			ToolCalls []struct {
				Index    int    `json:"index"`
				ID       string `json:"id"`
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		} `json:"delta"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct{} `json:"usage"`
}

// gathered is a whole answer.
type gathered struct {
	text, finish string
	ids          map[string]bool
	calls        []string // name and arguments
	events       int
	usage, done  bool
}

func gather(t *testing.T, stream string) gathered {
	t.Helper()
	g := gathered{ids: map[string]bool{}}
	for _, line := range strings.Split(strings.TrimSuffix(stream, "\n\n"), "\n\n") {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok || g.done {
			t.Fatalf("unexpected line %q", line)
		}
		g.events++
		if g.done = data == "[DONE]"; g.done {
			continue
		}
		var e event
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatal(err)
		}
		g.usage = g.usage || e.Usage != nil
		for _, c := range e.Choices {
			g.text += c.Delta.Content
			g.finish += c.FinishReason
			for _, tc := range c.Delta.ToolCalls {
				if tc.ID != "" {
					g.ids[tc.ID] = true
					g.calls = append(g.calls, tc.Function.Name+" ")
				}
				g.calls[tc.Index] += tc.Function.Arguments
			}
		}
	}
	return g
}

func start(t *testing.T, cfg Config) *Server {
	t.Helper()
	s, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// client returns a client whose connections are gone before the server closes.
func client(t *testing.T) *http.Client {
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 30 * time.Second}
}

func post(t *testing.T, c *http.Client, url, body string) (int, string) {
	t.Helper()
	resp, err := c.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func ask(model string, results int) string {
	return `{"model":"` + model + `","stream":true,"stream_options":{"include_usage":true},` +
		`"tools":[{"function":{"name":"get_weather"}},{"function":{"name": "add"}}],"messages":[{"role":"user","content":"say \"model\":\"no\""}` +
		strings.Repeat(`,{"role":"tool","content":"x"}`, results) + `]}`
}

func TestRounds(t *testing.T) {
	t.Parallel()
	s, c := start(t, Config{}), client(t)
	for results, want := range map[int][]string{
		0: {`get_weather {"city":"Paris-0-0","days":1}`, `add {"a":1,"b":36}`, `get_weather {"city":"Paris-0-2","days":3}`},
		3: {`get_weather {"city":"Paris-1-0","days":1}`, `add {"a":8,"b":36}`, `get_weather {"city":"Paris-1-2","days":3}`},
	} {
		_, body := post(t, c, s.URL()+"/v1/chat/completions", ask("k2-n3-t5", results))
		g := gather(t, body)
		if strings.Join(g.calls, "; ") != strings.Join(want, "; ") || len(g.ids) != 3 {
			t.Errorf("%d results: calls %q with %d ids, want %q", results, g.calls, len(g.ids), want)
		}
		if g.finish != "tool_calls" || g.text != "" || !g.usage || !g.done {
			t.Errorf("%d results: %+v", results, g)
		}
	}
	for _, results := range []int{6, 7} {
		_, body := post(t, c, s.URL()+"/v1/chat/completions", ask("k2-n3-t5", results))
		g := gather(t, body)
		if g.text != " the answer is forty-two" || g.finish != "stop" || g.calls != nil || !g.usage || !g.done {
			t.Errorf("%d results: %+v", results, g)
		}
	}
}

func TestWithoutToolsOrUsage(t *testing.T) {
	t.Parallel()
	s, c := start(t, Config{}), client(t)
	_, body := post(t, c, s.URL()+"/v1/chat/completions", `{"model":"k2-n3-t2","stream":true,"messages":[]}`)
	if g := gather(t, body); g.text != " the answer" || g.calls != nil || g.usage || !g.done {
		t.Errorf("%+v", g)
	}
}

func TestWrites(t *testing.T) {
	t.Parallel()
	// role, 2,000 chunks, stop, [DONE]
	for perWrite, want := range map[int]int{1: 2003, 0: 1, 2: 1002, 5000: 1} {
		m := Model{Chunks: 2000, PerWrite: perWrite}
		a := newAnswer(answerKey{model: m.String()}, m)
		if len(a.writes) != want {
			t.Errorf("%d events a write: %d writes, want %d", perWrite, len(a.writes), want)
		}
		resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(bytes.Join(a.writes, nil))), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		if g := gather(t, string(body)); g.text != m.Text() || g.events != 2003 {
			t.Errorf("%d events a write: %d events, text of %d bytes", perWrite, g.events, len(g.text))
		}
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	s, c := start(t, Config{}), client(t)
	for body, want := range map[string]string{
		`{"model":"gpt-4","stream":true}`: "is not a letter and a number",
		`{"stream":true}`:                 "empty part",
		`{"model":"k1"}`:                  "only streams",
	} {
		if code, got := post(t, c, s.URL()+"/v1/chat/completions", body); code != 400 || !strings.Contains(got, want) {
			t.Errorf("%s: %d %s", body, code, got)
		}
	}
	if code, _ := post(t, c, s.URL()+"/v1/responses", "{}"); code != 404 {
		t.Errorf("an unknown path gives %d", code)
	}
}

func TestHold(t *testing.T) {
	t.Parallel()
	s, c := start(t, Config{}), client(t)
	const n = 3
	answers := make(chan string, n)
	for range n {
		go func() {
			_, body := post(t, c, s.URL()+"/v1/chat/completions", ask("k1-n1-t2-h1", 1))
			answers <- body
		}()
	}
	for held := int64(0); held != n; {
		resp, err := c.Get(s.URL() + "/stats")
		if err != nil {
			t.Fatal(err)
		}
		var st Stats
		err = json.NewDecoder(resp.Body).Decode(&st)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		held = st.Held
	}
	if len(answers) != 0 {
		t.Error("an answer came before the release")
	}
	// A request for tool calls is never held.
	if _, body := post(t, c, s.URL()+"/v1/chat/completions", ask("k1-n1-t2-h1", 0)); gather(t, body).finish != "tool_calls" {
		t.Errorf("got %s", body)
	}
	post(t, c, s.URL()+"/release", "")
	for range n {
		if g := gather(t, <-answers); g.text != " the answer" {
			t.Errorf("%+v", g)
		}
	}
}

func TestCloseEndsHeldAnswers(t *testing.T) {
	t.Parallel()
	seen := make(chan struct{}, 1)
	s, c := start(t, Config{Observe: func([]byte) { seen <- struct{}{} }}), client(t)
	failed := make(chan error, 1)
	go func() {
		resp, err := c.Post(s.URL()+"/v1/chat/completions", "", strings.NewReader(ask("k0-h1", 0)))
		if err == nil {
			resp.Body.Close()
		}
		failed <- err
	}()
	<-seen
	s.Close()
	s.Close()
	if err := <-failed; err == nil {
		t.Error("a held answer came from a closed server")
	}
}
