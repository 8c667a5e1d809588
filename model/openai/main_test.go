package openai_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/model"
	"github.com/rouse-run/rouse/model/openai"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rawServer answers each request on a plain TCP connection by the bytes that
// handle writes; returning false closes the connection.
type rawServer struct {
	url    string
	mu     sync.Mutex
	conns  int
	bodies []string
	heads  []http.Header
}

func (s *rawServer) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns
}

func (s *rawServer) body(i int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bodies[i]
}

func newRawServer(t testing.TB, handle func(c net.Conn, n int) bool) *rawServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &rawServer{url: "http://" + l.Addr().String() + "/v1"}
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns++
			s.mu.Unlock()
			stop := context.AfterFunc(ctx, func() { _ = c.Close() })
			wg.Go(func() {
				defer stop()
				defer func() { _ = c.Close() }()
				s.serve(c, handle)
			})
		}
	})
	t.Cleanup(func() {
		cancel()
		_ = l.Close()
		wg.Wait()
	})
	return s
}

func (s *rawServer) serve(c net.Conn, handle func(c net.Conn, n int) bool) {
	in := bufio.NewReader(c)
	for {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		s.mu.Lock()
		n := len(s.bodies)
		s.bodies = append(s.bodies, string(body))
		s.heads = append(s.heads, req.Header)
		s.mu.Unlock()
		if !handle(c, n) {
			return
		}
	}
}

const sseHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"

// untilClose is a response whose end is the end of the connection.
func untilClose(body string) string { return sseHead + "Connection: close\r\n\r\n" + body }

// chunked is a response in one HTTP chunk.
func chunked(body string) string {
	if body == "" {
		return sseHead + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
	}
	return sseHead + "Transfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
}

// answering returns a server that answers every request with response, and a model for it.
func answering(t testing.TB, response string) (*rawServer, *openai.Model) {
	t.Helper()
	data := []byte(response)
	s := newRawServer(t, func(c net.Conn, _ int) bool {
		_, err := c.Write(data)
		return err == nil && !strings.Contains(response, "Connection: close")
	})
	return s, newModel(t, openai.Config{BaseURL: s.url})
}

func newModel(t testing.TB, cfg openai.Config) *openai.Model {
	t.Helper()
	if cfg.Model == "" {
		cfg.Model = "test-model"
	}
	m, err := openai.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.CloseIdleConnections)
	return m
}

// canned is a transport that answers from memory.
type canned struct {
	status int
	header http.Header
	body   func() io.Reader
}

func (c canned) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return nil, err
	}
	if err := r.Body.Close(); err != nil {
		return nil, err
	}
	status, h := c.status, c.header
	if status == 0 {
		status = http.StatusOK
	}
	if h == nil {
		h = http.Header{}
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(c.body())}, nil
}

func hello() *model.Request {
	return &model.Request{Messages: []rouse.Message{rouse.UserText("hello")}}
}

// got is what a consumer sees of an answer.
type got struct {
	text, reasoning string
	signatures      []string
	calls           []rouse.ToolCall
	usage           rouse.Usage
	stop            model.StopReason
	err             error
	trace           string // one line per chunk, neighbours of a kind joined
}

// collect ranges over an answer and checks the contract of model.Model on the way.
func collect(t testing.TB, m model.Model, ctx context.Context, req *model.Request) got {
	t.Helper()
	var g got
	var b bytes.Buffer
	last := model.ChunkType(0)
	lastIndex, usages := -1, 0
	more := false
	for c, err := range m.Stream(ctx, req) {
		if g.err != nil || g.stop != "" {
			t.Errorf("a chunk after the end: %+v %v", c, err)
		}
		if err != nil {
			if more {
				t.Error("More promised a chunk and an error came")
			}
			g.err = err
			continue
		}
		more = c.More
		if c.Type != last || c.Index != lastIndex {
			fmt.Fprintf(&b, "\n%d/%d ", c.Type, c.Index)
		}
		last, lastIndex = c.Type, c.Index
		b.WriteString(c.ID + c.Name + c.Text + string(c.Stop))
		switch c.Type {
		case model.ChunkText:
			g.text += c.Text
		case model.ChunkReasoning:
			g.reasoning += c.Text
		case model.ChunkSignature:
			g.signatures = append(g.signatures, c.Text)
		case model.ChunkCall:
			if c.Index != len(g.calls) || c.ID == "" {
				t.Errorf("call %+v at %d", c, len(g.calls))
			}
			g.calls = append(g.calls, rouse.ToolCall{ID: c.ID, Name: c.Name})
		case model.ChunkArgs:
			g.calls[c.Index].Args += c.Text
		case model.ChunkUsage:
			usages++
			g.usage = c.Usage
		case model.ChunkStop:
			g.stop = c.Stop
		default:
			t.Errorf("chunk %+v", c)
		}
		if c.Type <= model.ChunkArgs && len(c.Raw) == 0 {
			t.Errorf("no raw event with %+v", c)
		}
	}
	if more || usages > 1 || (g.stop == "") == (g.err == nil) {
		t.Errorf("more=%v usages=%d stop=%q err=%v", more, usages, g.stop, g.err)
	}
	g.trace = b.String()
	return g
}

func wantCode(t testing.TB, err error, code rouse.Code, words ...string) {
	t.Helper()
	if rouse.CodeOf(err) != code {
		t.Errorf("got %v (%s), want %s", err, rouse.CodeOf(err), code)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}

func event(data string) string { return "data: " + data + "\n\n" }

func delta(d string) string {
	return event(`{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":` + d + `,"finish_reason":null}]}`)
}

func finish(reason string) string {
	return event(`{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"` + reason + `"}]}`)
}

const done = "data: [DONE]\n\n"
