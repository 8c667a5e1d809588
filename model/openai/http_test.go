package openai_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/model"
	"github.com/rouse-run/rouse/model/openai"
)

func TestStatusCodes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		body   string
		want   rouse.Code
	}{
		{429, `{"error":{"message":"slow"}}`, rouse.CodeRateLimited},
		{429, `{"error":{"message":"pay","code":"insufficient_quota"}}`, rouse.CodeRateLimited},
		{503, ``, rouse.CodeOverloaded}, {529, `busy`, rouse.CodeOverloaded},
		{408, ``, rouse.CodeTimeout}, {504, `<html>`, rouse.CodeTimeout},
		{500, `{"error":`, rouse.CodeProvider}, {502, `<html><head><title>502</title>`, rouse.CodeProvider}, {520, ``, rouse.CodeProvider},
		{400, `{"error":{"message":"This model's maximum context length is 8192 tokens","code":"context_length_exceeded"}}`, rouse.CodeContextOverflow},
		{400, `{"object":"error","message":"maximum context length is 10 tokens"}`, rouse.CodeContextOverflow},
		{500, `{"error":{"message":"context size exceeded while crashing"}}`, rouse.CodeProvider},
		{400, `{"error":{"message":"no such parameter"}}`, rouse.CodeProviderRefused}, {422, `{"detail":[{"loc":["body"],"msg":"bad"}]}`, rouse.CodeProviderRefused},
		{401, `{"error":{"message":"who"}}`, rouse.CodeProviderAuth}, {403, ``, rouse.CodeProviderAuth}, {402, ``, rouse.CodeProviderAuth},
		{404, `{"error":"model \"x\" not found"}`, rouse.CodeProviderRefused}, {413, ``, rouse.CodeContextOverflow}, {307, ``, rouse.CodeProviderRefused},
	} {
		m := newModel(t, openai.Config{Transport: canned{status: c.status, body: func() io.Reader { return strings.NewReader(c.body) }}})
		g := collect(t, m, t.Context(), hello())
		wantCode(t, g.err, c.want, fmt.Sprint(c.status))
		if strings.Contains(g.err.Error(), "<") {
			t.Errorf("markup in %q", g.err)
		}
		for _, words := range []string{"slow", "busy", "who", "model \"x\" not found", "no such parameter"} {
			if strings.Contains(strings.ReplaceAll(c.body, `\`, ""), words) {
				wantCode(t, g.err, c.want, words)
			}
		}
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		date := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }
		for _, c := range []struct {
			header http.Header
			want   time.Duration
		}{
			{http.Header{"Retry-After": {"7"}}, 7 * time.Second},
			{http.Header{"Retry-After": {"1.5"}}, 1500 * time.Millisecond},
			{http.Header{"Retry-After": {date(90 * time.Second)}}, 90 * time.Second},
			{http.Header{"Retry-After": {date(90 * time.Second)}, "Date": {date(60 * time.Second)}}, 30 * time.Second},
			{http.Header{"Retry-After": {date(-time.Minute)}}, 0},
			{http.Header{"Retry-After-Ms": {"250"}, "Retry-After": {"1"}}, 250 * time.Millisecond},
			{http.Header{"Retry-After": {"soon"}}, 0}, {http.Header{"Retry-After": {"-4"}}, 0}, {http.Header{"Retry-After": {"NaN"}}, 0},
			{http.Header{"Retry-After": {"1e300"}}, 24 * time.Hour}, {nil, 0},
		} {
			m := newModel(t, openai.Config{Transport: canned{status: 429, header: c.header, body: func() io.Reader { return strings.NewReader("") }}})
			var e *rouse.Error
			if err := collect(t, m, t.Context(), hello()).err; !errors.As(err, &e) || e.RetryAfter != c.want {
				t.Errorf("%v: %v", c.header, err)
			}
		}
	})
}

// langchaingo #1419: the words of a provider, or of a network error, may hold the key.
func TestNoKeyInErrors(t *testing.T) {
	t.Parallel()
	const key, other = "s3cr3t/key+of=mine", "tok-0123456789"
	leak := `Incorrect API key provided: ` + key + `. Bearer ` + key + ` s3cr3t%2Fkey%2Bof%3Dmine ` + other + ` sk-live-abcdefghijklmnop hunter2`
	quoted := `{"error":{"message":"` + strings.ReplaceAll(leak, "/", `\/`) + `","type":"` + key + `"}}`
	transports := map[string]http.RoundTripper{
		"network": failing{errors.New("dial " + leak)},
	}
	for name, body := range map[string]string{
		"in an event": event(quoted), "behind text": delta(`{"content":"x"}`) + event(quoted), "as a document": quoted,
		"in a reason": finish(key) + event(`{"error":{"message":"`+leak+`"}}`), "in a cut call": delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"`+key+`","arguments":"{"}}]}`) + finish("stop"),
	} {
		transports[name] = canned{body: func() io.Reader { return strings.NewReader(body) }}
	}
	for _, status := range []int{400, 401, 429, 500} {
		for name, body := range map[string]string{
			"json": quoted, "text": leak, "long": strings.Repeat("x ", 290) + leak, "huge": strings.Repeat("x ", 1<<16) + leak, "broken": quoted[:len(quoted)-5],
			"a list": `{"detail":[{"msg":"` + leak + `"}]}`,
		} {
			transports[fmt.Sprint(status, " ", name)] = canned{status: status, header: http.Header{"X-Request-Id": {key}}, body: func() io.Reader { return strings.NewReader(body) }}
		}
	}
	for name, tr := range transports {
		m := newModel(t, openai.Config{BaseURL: "https://user:hunter2@example.org/v1", APIKey: " " + key + "\n", Transport: tr, Headers: http.Header{"X-Proxy-Token": {other}}})
		err := collect(t, m, t.Context(), hello()).err
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		text := fmt.Sprintf("%v %+v %v %+v %#v", err, err, m, m, m)
		for e := err; e != nil; e = errors.Unwrap(e) {
			text += fmt.Sprintf(" %v %+v", e, e)
		}
		for _, secret := range []string{key, "s3cr3t", other, "abcdefghijklmnop", "hunter2"} {
			if strings.Contains(text, secret) {
				t.Errorf("%s: %q in %s", name, secret, text)
			}
		}
	}
}

type failing struct{ err error }

func (f failing) RoundTrip(r *http.Request) (*http.Response, error) {
	_ = r.Body.Close()
	return nil, f.err
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	m := newModel(t, openai.Config{BaseURL: url})
	wantCode(t, collect(t, m, t.Context(), hello()).err, rouse.CodeProvider, "could not be reached")
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	s, _ := answering(t, chunked(finish("stop")+done))
	headers := http.Header{"X-Mine": {"1"}}
	for i, c := range []struct {
		cfg  openai.Config
		name string
		want string
	}{
		{openai.Config{APIKey: " k3y\n"}, "Authorization", "Bearer k3y"},
		{openai.Config{APIKey: "k3y", AuthHeader: "api-key"}, "Api-Key", "k3y"},
		{openai.Config{}, "Authorization", ""},
		{openai.Config{Headers: headers, APIKey: "k3y"}, "X-Mine", "1"},
		{openai.Config{Organization: "org", Project: "p"}, "OpenAI-Organization", "org"},
	} {
		c.cfg.BaseURL = s.url
		if g := collect(t, newModel(t, c.cfg), t.Context(), hello()); g.err != nil {
			t.Fatal(g.err)
		}
		s.mu.Lock()
		h := s.heads[i]
		s.mu.Unlock()
		if h.Get(c.name) != c.want || h.Get("Accept") != "text/event-stream" || h.Get("Content-Type") != "application/json" {
			t.Errorf("%v", h)
		}
	}
	if len(headers) != 1 {
		t.Errorf("the caller's headers were changed: %v", headers)
	}
}

// Whatever chunk a consumer breaks off at, nothing is left behind; a connection
// is used again exactly if its answer was over.
func TestBreakAtEveryChunk(t *testing.T) {
	t.Parallel()
	parts := []string{
		delta(`{"reasoning_content":"a"}`), delta(`{"content":"b"}`), delta(`{"content":"c"}`),
		delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}`),
		finish("tool_calls") + event(usageEvent) + done,
	}
	const chunks = 7
	for _, slow := range []bool{false, true} {
		for at := range chunks + 1 {
			// the server waits with the next part until the consumer has gone on
			next := make(chan struct{}, chunks+1)
			s := newRawServer(t, func(c net.Conn, n int) bool {
				if n > 0 || !slow {
					_, err := io.WriteString(c, chunked(strings.Join(parts, "")))
					return err == nil
				}
				if _, err := io.WriteString(c, sseHead+"Transfer-Encoding: chunked\r\n\r\n"); err != nil {
					return false
				}
				for i, p := range append(parts, "") {
					if i > 0 {
						<-next
					}
					if _, err := fmt.Fprintf(c, "%x\r\n%s\r\n", len(p), p); err != nil {
						return false
					}
				}
				return true
			})
			m := newModel(t, openai.Config{BaseURL: s.url})
			seen := 0
			for c, err := range m.Stream(t.Context(), hello()) {
				if err != nil {
					t.Fatal(err)
				}
				if !c.More {
					next <- struct{}{}
				}
				if seen++; seen > at {
					break
				}
			}
			close(next)
			if g := collect(t, m, t.Context(), hello()); g.err != nil || g.text != "bc" {
				t.Fatalf("slow=%v at=%d: %+v", slow, at, g)
			}
			// what arrives at once has been read whole before the consumer could break off
			want := 2
			if at >= chunks-1 || !slow {
				want = 1
			}
			if n := s.connections(); n != want {
				t.Errorf("slow=%v at=%d: %d connections, want %d", slow, at, n, want)
			}
		}
	}
}

// A server that has sent its last event but keeps the response open holds the
// caller up for a moment only.
func TestResponseLeftOpen(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	s := newRawServer(t, func(c net.Conn, _ int) bool {
		body := delta(`{"content":"x"}`) + finish("stop") + done
		_, _ = fmt.Fprintf(c, "%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", sseHead, len(body), body)
		_, _ = io.Copy(io.Discard, c) // until the client hangs up
		close(gone)
		return false
	})
	m := newModel(t, openai.Config{BaseURL: s.url})
	if g := collect(t, m, t.Context(), hello()); g.err != nil || g.stop != model.StopEnd {
		t.Fatalf("%+v", g)
	}
	<-gone
}

// Whoever cancels gets the reason at once, before the response, between its
// chunks and while the consumer works.
func TestCancel(t *testing.T) {
	t.Parallel()
	why := &rouse.Error{Code: rouse.CodeBudget, Message: "the run's time is used up"}
	for name, response := range map[string]string{
		"before the response": "", "before the first chunk": sseHead + "Transfer-Encoding: chunked\r\n\r\n",
		"between chunks":  sseHead + "Transfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x\r\n%s\r\n", len(delta(`{"content":"x"}`)), delta(`{"content":"x"}`)),
		"within an event": sseHead + "Transfer-Encoding: chunked\r\n\r\n5\r\ndata:\r\n",
		"in a document":   "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
		"in a refusal":    "HTTP/1.1 500 No\r\nContent-Length: 100\r\n\r\n{",
	} {
		for cause, code := range map[error]rouse.Code{nil: rouse.CodeCanceled, why: rouse.CodeBudget, context.DeadlineExceeded: rouse.CodeTimeout} {
			t.Run(fmt.Sprint(name, " ", code), func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				s := newRawServer(t, func(c net.Conn, _ int) bool {
					_, _ = io.WriteString(c, response)
					cancel(cause)
					_, _ = io.Copy(io.Discard, c)
					return false
				})
				m := newModel(t, openai.Config{BaseURL: s.url})
				wantCode(t, collect(t, m, ctx, hello()).err, code)
			})
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s, m := answering(t, chunked(finish("stop")+done))
	wantCode(t, collect(t, m, ctx, hello()).err, rouse.CodeCanceled)
	if s.connections() != 0 {
		t.Error("something was sent")
	}
}

// A consumer that cancels gets no more than the chunk that More has promised.
func TestCancelWithinABatch(t *testing.T) {
	t.Parallel()
	_, m := answering(t, chunked(longAnswer(50)))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := 0
	for _, err := range m.Stream(ctx, hello()) {
		if err != nil {
			wantCode(t, err, rouse.CodeCanceled)
			break
		}
		if seen++; seen == 3 {
			cancel()
		}
	}
	if seen > 4 {
		t.Errorf("%d chunks", seen)
	}
}

// A refusal whose body never ends is reported all the same.
func TestRefusalWithoutEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newModel(t, openai.Config{Transport: stalling{}})
		g := collect(t, m, t.Context(), hello())
		wantCode(t, g.err, rouse.CodeRateLimited, "429")
	})
}

// stalling refuses with a body that ends when the request is canceled.
type stalling struct{}

func (stalling) RoundTrip(r *http.Request) (*http.Response, error) {
	_ = r.Body.Close()
	return &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{}, Body: untilDone{r.Context()}}, nil
}

type untilDone struct{ ctx context.Context }

func (u untilDone) Read([]byte) (int, error) {
	<-u.ctx.Done()
	return 0, u.ctx.Err()
}

func (untilDone) Close() error { return nil }

// Case 6, the fourth cut: silence lasts as long as the context allows.
func TestSilence(t *testing.T) {
	t.Parallel()
	s := newRawServer(t, func(c net.Conn, _ int) bool {
		_, _ = io.WriteString(c, sseHead+"Transfer-Encoding: chunked\r\n\r\n")
		_, _ = io.Copy(io.Discard, c)
		return false
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	wantCode(t, collect(t, newModel(t, openai.Config{BaseURL: s.url}), ctx, hello()).err, rouse.CodeTimeout)
}

// A sequence may be ranged over again, and nothing is sent before that.
func TestEachRangeSendsAnew(t *testing.T) {
	t.Parallel()
	s, m := answering(t, chunked(delta(`{"content":"x"}`)+finish("stop")+done))
	req := hello()
	req.Memo = new(model.Memo)
	seq := m.Stream(t.Context(), req)
	if s.connections() != 0 {
		t.Fatal("sent too early")
	}
	for range 3 {
		for _, err := range seq {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if s.body(0) != s.body(2) || s.connections() != 1 {
		t.Errorf("%s\n%s", s.body(0), s.body(2))
	}
}

// More is set exactly while the rest of the same read is handed on.
func TestMore(t *testing.T) {
	t.Parallel()
	one := delta(`{"content":"a"}`) + delta(`{"content":"b"}`)
	two := delta(`{"content":"c"}`) + finish("stop") + event(usageEvent) + done
	m := newModel(t, openai.Config{Transport: canned{body: func() io.Reader {
		return io.MultiReader(strings.NewReader(one[:1]), strings.NewReader(one[1:]), strings.NewReader(two[:1]), strings.NewReader(two[1:]))
	}}})
	var trace []string
	for c, err := range m.Stream(t.Context(), hello()) {
		if err != nil {
			t.Fatal(err)
		}
		trace = append(trace, fmt.Sprint(c.Type, c.Text, c.More))
	}
	if got := fmt.Sprint(trace); got != "[1atrue 1bfalse 1ctrue 6true 8false]" {
		t.Error(got)
	}
}

// A kept connection that the server has closed costs no answer.
func TestClosedIdleConnection(t *testing.T) {
	t.Parallel()
	s := newRawServer(t, func(c net.Conn, n int) bool {
		if n%2 == 1 && n < 6 {
			return false // hang up on a request of a kept connection
		}
		_, err := io.WriteString(c, chunked(delta(`{"content":"x"}`)+finish("stop")+done))
		return err == nil
	})
	m := newModel(t, openai.Config{BaseURL: s.url})
	for range 4 {
		if g := collect(t, m, t.Context(), hello()); g.err != nil || g.text != "x" {
			t.Fatalf("%+v", g)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, h := range s.heads {
		if _, ok := h["Idempotency-Key"]; ok || s.bodies[i] != s.bodies[0] {
			t.Errorf("%v %s", h, s.bodies[i])
		}
	}
}

// Two models that take turns in one conversation do not read each other's memo.
func TestModelsShareAMemo(t *testing.T) {
	t.Parallel()
	req := hello()
	req.Memo = new(model.Memo)
	s1, _ := answering(t, chunked(finish("stop")+done))
	s2, _ := answering(t, chunked(finish("stop")+done))
	one, two := newModel(t, openai.Config{BaseURL: s1.url, Model: "one"}), newModel(t, openai.Config{BaseURL: s2.url, Model: "two"})
	for i := range 3 {
		for _, m := range []*openai.Model{one, two} {
			if g := collect(t, m, t.Context(), req); g.err != nil {
				t.Fatal(g.err)
			}
		}
		if a, b := s1.body(i), s2.body(i); strings.Replace(a, `"one"`, `"two"`, 1) != b || !strings.Contains(a, `"one"`) {
			t.Errorf("%s\n%s", a, b)
		}
		req.Messages = append(req.Messages, rouse.UserText(fmt.Sprint(i)))
	}
}

// One Model serves many conversations at once.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	s := newRawServer(t, func(c net.Conn, n int) bool {
		body := delta(fmt.Sprintf(`{"content":"%d"}`, n)) + delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}`) + finish("tool_calls") + done
		_, err := io.WriteString(c, chunked(body))
		return err == nil
	})
	m := newModel(t, openai.Config{BaseURL: s.url})
	tools := []model.ToolSpec{{Name: "f"}}
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			req := hello()
			req.Tools = tools
			if i%2 == 0 {
				req.Memo = new(model.Memo)
			}
			for range 10 {
				g := collect(t, m, t.Context(), req)
				if g.err != nil || len(g.calls) != 1 {
					t.Errorf("%+v", g)
					return
				}
				req.Messages = append(req.Messages, rouse.UserText(strings.Repeat(g.text, 100)))
			}
		})
	}
	wg.Wait()
}

// A request whose body is still being sent when the caller gives up does not
// spoil the next one of the same conversation.
func TestNextRoundWhileTheBodyIsSent(t *testing.T) {
	t.Parallel()
	block := make(chan struct{})
	var wg sync.WaitGroup
	tr := &lingering{block: block, wg: &wg}
	m := newModel(t, openai.Config{Transport: tr})
	req := hello()
	req.Memo = new(model.Memo)
	wantCode(t, collect(t, m, t.Context(), req).err, rouse.CodeProvider)
	req.Messages = append(req.Messages, rouse.UserText("more"))
	wantCode(t, collect(t, m, t.Context(), req).err, rouse.CodeProvider)
	close(block)
	wg.Wait()
	if len(tr.bodies) != 2 || !bytes.HasSuffix(tr.bodies[0], []byte(`"hello"}]}`)) && !bytes.HasSuffix(tr.bodies[1], []byte(`"hello"}]}`)) {
		t.Errorf("%s", tr.bodies)
	}
}

// lingering fails at once and reads the body later, as transports may.
type lingering struct {
	block  chan struct{}
	wg     *sync.WaitGroup
	mu     sync.Mutex
	bodies [][]byte
}

func (l *lingering) RoundTrip(r *http.Request) (*http.Response, error) {
	l.wg.Go(func() {
		<-l.block
		b, _ := io.ReadAll(r.Body)
		_ = r.Body.Close()
		l.mu.Lock()
		l.bodies = append(l.bodies, b)
		l.mu.Unlock()
	})
	return nil, errors.New("gone")
}
