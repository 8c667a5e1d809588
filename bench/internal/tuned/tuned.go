// Package tuned is the loop of package floor, written for speed with the
// standard library alone. It shows what is left to gain:
//   - the request is an append-only buffer with the messages last, so a loop of
//     K rounds encodes each message once;
//   - events are split in a pooled buffer and decoded by a decoder that knows
//     the schema and does not allocate;
//   - http.Transport.RoundTrip with a shared header and URL.
package tuned

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"

	"github.com/rouse-run/rouse/bench/internal/workload"
)

// Peer runs a task. It is used by any number of runs at once, between Prepare and Close.
type Peer struct {
	transport *http.Transport
	url       *url.URL
	header    http.Header
	prefix    []byte // the request up to and with the user's message
	tools     map[string]func(args []byte) ([]byte, error)
	pool      sync.Pool // of *run

	mu       sync.Mutex
	sessions map[int][]byte
}

// New returns a Peer.
func New() *Peer {
	return &Peer{
		transport: workload.Transport(),
		header: http.Header{
			"Content-Type":  {"application/json"},
			"Accept":        {"text/event-stream"},
			"Authorization": {"Bearer sk-bench"},
		},
		sessions: map[int][]byte{},
	}
}

// Prepare sets the task.
func (p *Peer) Prepare(t workload.Task) (err error) {
	if p.url, err = url.Parse(t.BaseURL + "/chat/completions"); err != nil {
		return err
	}
	p.tools = map[string]func(args []byte) ([]byte, error){
		workload.WeatherName: typed(t.Tools.Weather),
		workload.AddName:     typed(t.Tools.Add),
	}
	b := []byte(`{"model":"` + t.Model.String() + `","stream":true,"stream_options":{"include_usage":true}`)
	if t.Model.Rounds > 0 {
		b = append(b, `,"tools":`+workload.ToolsJSON...)
	}
	b = append(b, `,"messages":[{"role":"system","content":`...)
	b = appendString(b, []byte(workload.SystemPrompt))
	b = append(b, `},{"role":"user","content":`...)
	b = appendString(b, []byte(workload.UserPrompt))
	p.prefix = append(b, '}')
	return nil
}

// Close releases the connections.
func (p *Peer) Close() { p.transport.CloseIdleConnections() }

// Run does one run; id is unique to it.
func (p *Peer) Run(ctx context.Context, id int) (workload.Result, error) {
	var res workload.Result
	r, ok := p.pool.Get().(*run)
	if !ok {
		r = &run{body: make([]byte, 0, 8<<10), buf: make([]byte, 16<<10)}
	}
	r.body = append(r.body[:0], p.prefix...)
	defer p.forget(id)
	for {
		p.keep(id, r.body)
		if err := p.ask(ctx, r); err != nil {
			return res, err
		}
		res.TextBytes += len(r.answer.text)
		r.appendAnswer()
		if len(r.answer.calls) == 0 {
			p.keep(id, r.body)
			p.pool.Put(r) // not after an error: the transport may still read it then
			return res, nil
		}
		if err := p.execute(r); err != nil {
			return res, err
		}
		res.ToolCalls += len(r.outs)
		r.appendResults()
	}
}

func (p *Peer) keep(id int, body []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sessions[id] = body
}

func (p *Peer) forget(id int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.sessions, id)
}

// ask sends the request and reads the answer into r.
func (p *Peer) ask(ctx context.Context, r *run) error {
	r.answer.reset()
	n := len(r.body)
	r.body = append(r.body, "]}"...)
	req := (&http.Request{
		Method: http.MethodPost, URL: p.url, Host: p.url.Host, Header: p.header,
		Body: body{bytes.NewReader(r.body)}, ContentLength: int64(len(r.body)), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(ctx)
	resp, err := p.transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // it has been read
	if resp.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)) // the status is the error; its text is an extra
		return fmt.Errorf("status %d: %s", resp.StatusCode, b)
	}
	r.body = r.body[:n]
	return r.read(resp.Body)
}

// execute runs the calls of the answer, the first one on this goroutine.
func (p *Peer) execute(r *run) error {
	n := len(r.answer.calls)
	r.outs = append(r.outs[:0], make([][]byte, n)...)
	r.errs = append(r.errs[:0], make([]error, n)...)
	one := func(i int) {
		c := &r.answer.calls[i]
		f := p.tools[string(c.name)]
		if f == nil {
			r.errs[i] = fmt.Errorf("no tool %q", c.name)
			return
		}
		r.outs[i], r.errs[i] = f(c.args)
	}
	var wg sync.WaitGroup
	for i := 1; i < n; i++ {
		wg.Go(func() { one(i) })
	}
	one(0)
	wg.Wait()
	for _, err := range r.errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func typed[In, Out any](f func(In) Out) func(args []byte) ([]byte, error) {
	return func(args []byte) ([]byte, error) {
		var in In
		if err := json.Unmarshal(args, &in); err != nil {
			return nil, err
		}
		return json.Marshal(f(in))
	}
}

type body struct{ *bytes.Reader }

func (body) Close() error { return nil }
