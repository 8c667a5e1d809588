package mock

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/rouse-run/rouse"
)

// Handler returns a handler that speaks the same wire as RoundTripper. It needs
// HTTP/1.1 for resets and cuts; where the connection cannot be taken over, such
// an answer is a status 500 that says so.
func (g *GPT) Handler() http.Handler { return http.HandlerFunc(g.serveHTTP) }

func (g *GPT) serveHTTP(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	rep := g.exchange(r)
	breaks := rep.end == BreakReset || rep.end == BreakClose
	if breaks && !canHijack(w) {
		rep = scriptReply(&rouse.Error{Code: rouse.CodeUnsupported, Op: op, Message: "the fault needs a connection that can be taken over (HTTP/1.1)"})
		breaks = false
	}
	rc := http.NewResponseController(w)
	switch {
	case sleep(ctx, rep.first) != nil || !rep.silent() && !writeReply(ctx, w, rc, rep):
		breakConn(rc, BreakClose) // or net/http would end the answer in good order
	case rep.end == BreakHang:
		<-ctx.Done()
		breakConn(rc, BreakClose)
	case breaks:
		breakConn(rc, rep.end)
	}
}

// writeReply writes head and pieces; false when the client is gone.
func writeReply(ctx context.Context, w http.ResponseWriter, rc *http.ResponseController, rep *reply) bool {
	for k, v := range rep.header {
		w.Header()[k] = v
	}
	if rep.length >= 0 {
		w.Header().Set("Content-Length", strconv.FormatInt(rep.length, 10))
	}
	w.WriteHeader(rep.status)
	if rep.length < 0 && rc.Flush() != nil {
		return false
	}
	for i := range rep.pieces {
		if sleep(ctx, rep.pieces[i].delay) != nil {
			return false
		}
		if _, err := w.Write(rep.pieces[i].data); err != nil {
			return false
		}
		if rep.length < 0 && rc.Flush() != nil {
			return false
		}
	}
	return true
}

// canHijack reports whether some writer below w gives its connection away.
func canHijack(w http.ResponseWriter) bool {
	for {
		if _, ok := w.(http.Hijacker); ok {
			return true
		}
		u, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return false
		}
		w = u.Unwrap()
	}
}

// breakConn closes the connection, with RST for BreakReset. Errors mean that it
// is broken already.
func breakConn(rc *http.ResponseController, how Break) {
	conn, _, err := rc.Hijack()
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }() // it is to be broken, and may be already
	if how != BreakReset {
		return
	}
	raw := conn
	if t, ok := conn.(interface{ NetConn() net.Conn }); ok { // TLS
		raw = t.NetConn()
	}
	if t, ok := raw.(interface{ SetLinger(sec int) error }); ok {
		_ = t.SetLinger(0) // without it the close is an orderly one, which breaks the answer as well
		_ = raw.Close()
	}
}

// readHeaderTimeout bounds how long a client of a Server may take for its headers.
const readHeaderTimeout = 10 * time.Second

// Server is a running HTTP server of a scripted model.
type Server struct {
	// URL is the base URL of the server, without a path: http://127.0.0.1:port.
	URL string

	http   *http.Server
	next   http.Handler
	cancel context.CancelFunc // ends every answer
	served chan error

	mu      sync.Mutex
	closing bool
	busy    sync.WaitGroup // answers; grows under mu and not after closing

	once sync.Once
	err  error
}

// NewServer starts a server of g on a free port of 127.0.0.1. Clients that want
// the version in the base URL use BaseURL. Whoever calls it closes the server.
func (g *GPT) NewServer() (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // listening on loopback does not wait
	if err != nil {
		return nil, &rouse.Error{Code: rouse.CodeInternal, Op: "mock.NewServer", Message: "no port of 127.0.0.1 can be opened", Err: err}
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{URL: "http://" + l.Addr().String(), next: g.Handler(), cancel: cancel, served: make(chan error, 1)}
	s.http = &http.Server{Handler: http.HandlerFunc(s.serve), ReadHeaderTimeout: readHeaderTimeout,
		BaseContext: func(net.Listener) context.Context { return ctx }}
	go func() { s.served <- s.http.Serve(l) }()
	return s, nil
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		return
	}
	s.busy.Add(1)
	s.mu.Unlock()
	defer s.busy.Done()
	s.next.ServeHTTP(w, r)
}

// BaseURL returns URL with /v1, as clients of the wire expect it.
func (s *Server) BaseURL() string { return s.URL + "/v1" }

// Close stops listening, breaks every connection and returns when all answers,
// hung ones too, have ended. It may be called more than once and at any time.
func (s *Server) Close() error {
	s.once.Do(func() {
		s.mu.Lock()
		s.closing = true
		s.mu.Unlock()
		s.err = s.http.Close()
		s.cancel()
		if err := <-s.served; !errors.Is(err, http.ErrServerClosed) {
			s.err = errors.Join(s.err, err)
		}
		s.busy.Wait()
	})
	return s.err
}
