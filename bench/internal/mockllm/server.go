package mockllm

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// maxHold bounds how long a held answer waits for a release.
const maxHold = time.Minute

// Stats is what GET /stats answers.
type Stats struct {
	// Requests counts chat completions since the start.
	Requests int64 `json:"requests"`
	// Held counts the final texts that wait for a release now.
	Held int64 `json:"held"`
}

// Config configures a Server.
type Config struct {
	// Addr is the loopback address to listen on; empty means 127.0.0.1:0.
	Addr string
	// Observe, if not nil, sees the body of each completion request before it is
	// answered. It must not keep the slice.
	Observe func(body []byte)
}

// Server answers POST /v1/chat/completions, GET /stats, which returns Stats,
// and POST /release, which lets all held answers go.
type Server struct {
	observe  func(body []byte)
	listener net.Listener
	ctx      context.Context // ends when the server closes
	cancel   context.CancelFunc
	conns    sync.WaitGroup

	requests atomic.Int64
	held     atomic.Int64

	mu      sync.Mutex
	answers map[answerKey]*answer // prepared so far
	gate    chan struct{}         // closed by the next release
}

// Start listens and serves until Close.
func Start(cfg Config) (*Server, error) {
	addr := cfg.Addr
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("mockllm: listen: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{observe: cfg.Observe, listener: l, ctx: ctx, cancel: cancel, answers: map[answerKey]*answer{}, gate: make(chan struct{})}
	s.conns.Go(s.accept)
	return s, nil
}

// URL returns the server's address, http://127.0.0.1:port.
func (s *Server) URL() string { return "http://" + s.listener.Addr().String() }

// Close ends all connections and returns when nothing runs any more. It may be
// called more than once.
func (s *Server) Close() {
	s.cancel()
	_ = s.listener.Close() // a second Close has nothing to say
	s.conns.Wait()
}

func (s *Server) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.conns.Go(func() { s.serve(c) })
	}
}

func (s *Server) serve(c net.Conn) {
	stop := context.AfterFunc(s.ctx, func() { _ = c.Close() })
	defer func() {
		stop()
		_ = c.Close()
	}()
	br := bufio.NewReaderSize(c, readBuffer)
	var r request
	for {
		if err := readRequest(br, c, &r); err != nil {
			return
		}
		if err := s.route(c, &r); err != nil {
			return
		}
	}
}

func (s *Server) route(c net.Conn, r *request) error {
	switch r.method + " " + r.path {
	case "POST /v1/chat/completions":
		return s.complete(c, r.body)
	case "GET /stats":
		b, err := json.Marshal(Stats{Requests: s.requests.Load(), Held: s.held.Load()})
		if err != nil {
			return err
		}
		return reply(c, "200 OK", string(b))
	case "POST /release":
		s.release()
		return reply(c, "200 OK", "{}")
	}
	return reply(c, "404 Not Found", `{"error":{"message":"no such path"}}`)
}

func (s *Server) complete(c net.Conn, body []byte) error {
	s.requests.Add(1)
	if s.observe != nil {
		s.observe(body)
	}
	a, err := s.answerTo(body)
	if err != nil {
		return reply(c, "400 Bad Request", `{"error":{"message":`+strconv.Quote(err.Error())+`}}`)
	}
	if err := s.pause(a); err != nil {
		return err
	}
	for _, w := range a.writes {
		if _, err := c.Write(w); err != nil {
			return err
		}
	}
	return nil
}

// answerTo finds the answer to a request. The round follows from the number of
// tool results that the conversation holds.
func (s *Server) answerTo(body []byte) (*answer, error) {
	if !has(body, "stream", "true") {
		return nil, fmt.Errorf("mockllm: only streams are answered")
	}
	k := answerKey{model: field(body, "model"), usage: has(body, "include_usage", "true")}
	m, err := ParseModel(k.model)
	if err != nil {
		return nil, err
	}
	var tools []string
	for _, name := range []string{"get_weather", "add"} {
		if has(body, "name", `"`+name+`"`) {
			tools = append(tools, name)
		}
	}
	k.tools = strings.Join(tools, ",")
	if m.Rounds > 0 && m.Calls > 0 {
		k.round = min(count(body, "role", `"tool"`)/m.Calls, m.Rounds)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.answers[k]
	if a == nil {
		a = newAnswer(k, m)
		s.answers[k] = a
	}
	return a, nil
}

// pause waits as long as the answer's model says.
func (s *Server) pause(a *answer) error {
	if a.model.Delay > 0 {
		if err := s.wait(a.model.Delay, nil); err != nil {
			return err
		}
	}
	if !a.model.Hold || !a.final {
		return nil
	}
	s.mu.Lock()
	gate := s.gate
	s.held.Add(1)
	s.mu.Unlock()
	defer s.held.Add(-1)
	return s.wait(maxHold, gate)
}

// wait returns nil after d or when gate is closed, and an error when the server closes.
func (s *Server) wait(d time.Duration, gate <-chan struct{}) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-gate:
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
	return nil
}

func (s *Server) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.gate)
	s.gate = make(chan struct{})
}
