package mock

import (
	"context"
	"crypto/subtle"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rouse-run/rouse"
)

// reply is the response to one HTTP request, whatever carries it. With a break
// and nothing started there is no response at all.
type reply struct {
	first   time.Duration
	status  int
	header  http.Header
	pieces  []piece
	length  int64 // of the body, -1 for a stream
	end     Break
	started bool
}

// silent reports that the connection breaks before any response.
func (r *reply) silent() bool { return r.end != "" && r.end != BreakEnd && !r.started }

// exchange decides what one HTTP request is answered. It does not pause.
func (g *GPT) exchange(r *http.Request) *reply {
	path := strings.TrimSuffix(r.URL.Path, "/")
	models, single := strings.HasSuffix(path, "/models"), strings.HasSuffix(path, "/models/"+g.cfg.Model)
	switch {
	case !g.authorized(r):
		return errorReply(http.StatusUnauthorized, "invalid_request_error", "invalid_api_key", "the API key is missing or wrong")
	case strings.HasSuffix(path, "/chat/completions") && r.Method == http.MethodPost:
		return g.complete(r)
	case (models || single) && r.Method == http.MethodGet:
		return g.listModels(single)
	case models || single || strings.HasSuffix(path, "/chat/completions"):
		return errorReply(http.StatusMethodNotAllowed, "invalid_request_error", "method_not_allowed", "this method is not supported here")
	default:
		return errorReply(http.StatusNotFound, "invalid_request_error", "unknown_url", "there is nothing at this path; try /v1/chat/completions or /v1/models")
	}
}

func (g *GPT) authorized(r *http.Request) bool {
	if g.cfg.APIKey == "" {
		return true
	}
	key, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && subtle.ConstantTimeCompare([]byte(key), []byte(g.cfg.APIKey)) == 1
}

func (g *GPT) listModels(single bool) *reply {
	type entry struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Created int64  `json:"created"`
		Owner   string `json:"owned_by"`
	}
	e := entry{g.cfg.Model, "model", g.cfg.Clock.Now().Unix(), "rouse"}
	if single {
		return document(http.StatusOK, encode(e))
	}
	return document(http.StatusOK, encode(struct {
		Object string  `json:"object"`
		Data   []entry `json:"data"`
	}{"list", []entry{e}}))
}

func (g *GPT) complete(r *http.Request) *reply {
	body, err := readBody(r.Body, g.cfg.MaxBody)
	if err != nil {
		return scriptReply(err)
	}
	req, f, err := decodeRequest(body)
	if err != nil {
		return scriptReply(err)
	}
	a, err := g.answer(r.Context(), &req)
	if err != nil {
		return scriptReply(err)
	}
	p, err := g.plan(a, req.Model, f)
	if err != nil {
		return scriptReply(err)
	}
	if p.status != 0 {
		return faultReply(&a.fault, p.first)
	}
	out := &reply{first: p.first, status: http.StatusOK, header: http.Header{}, pieces: p.pieces, length: -1, end: p.end, started: p.started}
	out.header.Set("Content-Type", "text/event-stream; charset=utf-8")
	out.header.Set("Cache-Control", "no-store")
	if f&streamed == 0 {
		out.header.Set("Content-Type", "application/json")
		if p.end == "" {
			out.length = int64(len(p.pieces[0].data))
		}
	}
	return out
}

func readBody(body io.Reader, limit int64) ([]byte, error) {
	if body == nil {
		return nil, refused("the body is missing")
	}
	b, err := io.ReadAll(io.LimitReader(body, limit+1))
	switch {
	case err != nil:
		return nil, &rouse.Error{Code: rouse.CodeProviderRefused, Op: op, Message: "the body could not be read", Err: err}
	case int64(len(b)) > limit:
		return nil, &rouse.Error{Code: rouse.CodeTooLarge, Op: op, Message: "the body is larger than MaxBody, " + strconv.FormatInt(limit, 10) + " bytes"}
	}
	return b, nil
}

// document is a reply of one JSON document.
func document(status int, body []byte) *reply {
	return &reply{status: status, header: http.Header{"Content-Type": {"application/json"}},
		pieces: []piece{{data: body}}, length: int64(len(body))}
}

func errorReply(status int, kind, code, message string) *reply {
	return document(status, wireError(kind, code, message))
}

// faultReply is the status that a Fault asks for.
func faultReply(f *Fault, first time.Duration) *reply {
	kind := "invalid_request_error"
	switch {
	case f.Status == http.StatusTooManyRequests:
		kind = "rate_limit_error"
	case f.Status >= 500:
		kind = "server_error"
	}
	r := errorReply(f.Status, kind, f.ErrorCode, "scripted status "+strconv.Itoa(f.Status))
	r.first = first
	if d := f.retryAfter(); d > 0 {
		r.header.Set("Retry-After", strconv.Itoa(int(d/time.Second)))
	}
	return r
}

// scriptReply reports a request that is refused, or a fault of the script
// itself. The header keeps clients from trying again.
func scriptReply(err error) *reply {
	code := rouse.CodeOf(err)
	status := code.Info().HTTP
	if code == rouse.CodeProviderRefused {
		status = http.StatusBadRequest
	}
	kind := "invalid_request_error"
	if status >= 500 {
		kind = "server_error"
	}
	r := errorReply(status, kind, "mock_"+string(code), err.Error())
	r.header.Set("X-Should-Retry", "false")
	return r
}

// RoundTripper returns a transport that answers every request itself, in the
// wire format of OpenAI's chat completions: POST to a path that ends in
// /chat/completions, GET of one that ends in /models. Host and scheme do not
// matter. There is no socket and no goroutine; pauses happen while the caller
// waits for the response or reads its body, so that testing/synctest can run them.
func (g *GPT) RoundTripper() http.RoundTripper { return transport{g} }

type transport struct{ g *GPT }

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer func() { _ = r.Body.Close() }() // it was read; there is nothing left to fail
	}
	ctx := r.Context()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	rep := t.g.exchange(r)
	if sleep(ctx, rep.first) != nil {
		return nil, context.Cause(ctx)
	}
	if rep.silent() {
		if rep.end == BreakHang {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		return nil, rep.end.netError(false)
	}
	resp := &http.Response{
		Status: strconv.Itoa(rep.status) + " " + http.StatusText(rep.status), StatusCode: rep.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: rep.header, ContentLength: rep.length, Request: r,
		Body: &body{ctx: ctx, pieces: rep.pieces, end: rep.end, closed: make(chan struct{})},
	}
	if rep.length < 0 {
		resp.TransferEncoding = []string{"chunked"}
	}
	return resp, nil
}

// body plays the pieces of a reply to whoever reads. Close may be called while
// a Read waits, and ends it.
type body struct {
	ctx    context.Context //nolint:containedctx // the body lives as long as its request
	pieces []piece
	rest   []byte // of the current piece
	end    Break
	once   sync.Once
	closed chan struct{}
}

var errBodyClosed = errors.New("mock: read on a closed body")

func (b *body) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(b.rest) == 0 {
		if err := b.wait(0); err != nil {
			return 0, err
		}
		if len(b.pieces) == 0 {
			return 0, b.finish()
		}
		if err := b.wait(b.pieces[0].delay); err != nil {
			return 0, err
		}
		b.rest, b.pieces = b.pieces[0].data, b.pieces[1:]
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// wait fails when the body is closed or its request ends before d is over.
func (b *body) wait(d time.Duration) error {
	select {
	case <-b.closed:
		return errBodyClosed
	case <-b.ctx.Done():
		return context.Cause(b.ctx)
	default:
	}
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-b.closed:
		return errBodyClosed
	case <-b.ctx.Done():
		return context.Cause(b.ctx)
	}
}

func (b *body) finish() error {
	if b.end != BreakHang {
		if err := b.end.netError(true); err != nil {
			return err
		}
		return io.EOF
	}
	select {
	case <-b.closed:
		return errBodyClosed
	case <-b.ctx.Done():
		return context.Cause(b.ctx)
	}
}

func (b *body) Close() error {
	b.once.Do(func() { close(b.closed) })
	return nil
}
