package openai

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/internal/sse"
	"github.com/rouse-run/rouse/model"
)

// keepMemo is the largest buffer that is kept for requests without a memo.
const keepMemo = 256 << 10

// Model is a client of one endpoint. It implements model.Model and
// model.Capable, and is safe for concurrent use.
type Model struct {
	cfg     Config
	url     *url.URL
	header  http.Header // shared by all requests, never changed
	extra   []member
	secrets []string
	tools   toolCache
	pages   sse.Pool
	streams sync.Pool // of *stream
	memos   sync.Pool // of *memo, for requests without one
}

type member struct {
	name  string
	value json.RawMessage
}

// New returns a Model for cfg. The error has the code CodeInvalid and names
// every field that is wrong.
func New(cfg Config) (*Model, error) {
	cfg.APIKey = strings.TrimSpace(cfg.APIKey)
	u, err := endpoint(cfg.BaseURL)
	if err := errors.Join(err, cfg.validate()); err != nil {
		return nil, invalid(err)
	}
	cfg = cfg.withDefaults(u.Hostname())
	m := &Model{cfg: cfg, url: u, header: cfg.header()}
	for _, name := range slices.Sorted(maps.Keys(cfg.Extra)) {
		m.extra = append(m.extra, member{name, slices.Clone(cfg.Extra[name])})
	}
	m.secrets = secretsOf(cfg.APIKey, m.header, u)
	return m, nil
}

// String returns the host, so that a Model in a log shows no key.
func (m *Model) String() string { return "openai(" + m.url.Host + ")" }

// GoString is String.
func (m *Model) GoString() string { return m.String() }

// CloseIdleConnections closes connections that are not in use. A Model whose
// Config had no Transport owns its connections; call it when done with the Model.
func (m *Model) CloseIdleConnections() {
	if c, ok := m.cfg.Transport.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// Stream implements model.Model.
//
// Ranging over the sequence runs on the caller's goroutine. A chunk's Raw is the
// data of the event that it came from; usage and stop have none.
func (m *Model) Stream(ctx context.Context, req *model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		if err := m.stream(ctx, req, yield); err != nil {
			yield(model.Chunk{}, err)
		}
	}
}

// stream sends req and yields the answer. When yield returned false it returns nil.
func (m *Model) stream(ctx context.Context, req *model.Request, yield func(model.Chunk, error) bool) error {
	if ctx.Err() != nil {
		return contextError(ctx)
	}
	e, _ := req.Memo.Load(m).(*memo)
	switch {
	case e != nil:
	case req.Memo != nil:
		e = new(memo)
		req.Memo.Store(m, e)
	default:
		e = m.borrowMemo()
		defer m.returnMemo(e)
	}
	b, err := e.encode(m, req)
	if err != nil {
		e.forget()
		return err
	}
	names := e.head.tools.real
	reqCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := m.send(reqCtx, b)
	if err != nil {
		return m.sendError(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }() // its error says nothing about the answer
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		timer := time.AfterFunc(refusalTime, cancel)
		defer timer.Stop()
		return m.statusError(ctx, resp)
	}
	s := m.borrowStream()
	defer m.returnStream(s)
	s.answer.reset(names, m.cfg.MaxEventBytes)
	s.yield = yield
	whole, err := s.run(ctx, resp.Body, m)
	switch {
	case err == nil && whole:
		s.drain(resp.Body, cancel)
		return nil
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return contextError(ctx)
	}
	return m.clean(err)
}

// send posts b. The transport may read b after send has returned, until it
// closes the reader that it was given.
func (m *Model) send(ctx context.Context, b body) (*http.Response, error) {
	r := &http.Request{
		Method: http.MethodPost, URL: m.url, Host: m.url.Host, Header: m.header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		ContentLength: int64(len(b.b)), Body: b.open(),
		GetBody: func() (io.ReadCloser, error) { return b.open(), nil },
	}
	return m.cfg.Transport.RoundTrip(r.WithContext(ctx))
}

func (m *Model) borrowMemo() *memo {
	if e, ok := m.memos.Get().(*memo); ok {
		return e
	}
	return new(memo)
}

// returnMemo keeps e unless its buffer is still being sent.
func (m *Model) returnMemo(e *memo) {
	e.forget()
	if cap(e.buf) <= keepMemo && (e.readers == nil || e.readers.Load() == 0) {
		m.memos.Put(e)
	}
}

func (m *Model) borrowStream() *stream {
	if s, ok := m.streams.Get().(*stream); ok {
		return s
	}
	return new(stream)
}

func (m *Model) returnStream(s *stream) {
	s.release()
	m.streams.Put(s)
}

// contextError says why ctx ended. A cause that is a *rouse.Error keeps its code.
func contextError(ctx context.Context) error {
	cause := context.Cause(ctx)
	e := &rouse.Error{Code: rouse.CodeCanceled, Op: op, Message: "the request was canceled", Err: cause}
	var own *rouse.Error
	switch {
	case errors.As(cause, &own):
		e.Code, e.Message = own.Code, "the request was given up"
	case errors.Is(cause, context.DeadlineExceeded):
		e.Code, e.Message = rouse.CodeTimeout, "the request took longer than its time limit"
	}
	return e
}
