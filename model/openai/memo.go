package openai

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/model"
)

// head is what a body says besides its conversation.
type head struct {
	model, system, choice string
	tools                 *toolset
	output                *model.OutputSpec
	params                model.Params
}

func (h *head) equal(o *head) bool {
	return h.model == o.model && h.system == o.system && h.choice == o.choice && h.tools == o.tools &&
		equalOutput(h.output, o.output) && equalParams(&h.params, &o.params)
}

func equalOutput(a, b *model.OutputSpec) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Name == b.Name && sameBytes(a.Schema, b.Schema)
}

func equalParams(a, b *model.Params) bool {
	return same(a.Temperature, b.Temperature) && same(a.TopP, b.TopP) && same(a.Seed, b.Seed) &&
		a.MaxOutput == b.MaxOutput && a.Effort == b.Effort && slices.Equal(a.Stop, b.Stop)
}

func same[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// mark remembers a message that is encoded: which one it was and where its bytes
// end. Messages are immutable, so the same parts are the same message; holding
// the pointer keeps their memory from becoming another message's.
type mark struct {
	id    string
	role  rouse.Role
	parts *rouse.Part
	n     int
	end   int // relative to the end of the head
}

func (k *mark) is(m *rouse.Message) bool {
	return k.id == m.ID && k.role == m.Role && k.n == len(m.Parts) && k.parts == first(m.Parts)
}

// memo is the encoded form of one conversation: a body to which the next round
// only appends. It is not safe for concurrent use; bodies made from it are.
type memo struct {
	head    head
	headLen int // 0: nothing is encoded
	buf     []byte
	marks   []mark
	readers *atomic.Int32 // readers of buf that are not closed
}

// firstBody is the first capacity of a body: most short conversations fit.
const firstBody = 4 << 10

// forget drops what refers to the conversation and keeps the buffer.
func (e *memo) forget() {
	clear(e.marks)
	e.head, e.headLen, e.marks = head{}, 0, e.marks[:0]
}

// encode returns the body of req. It writes what the last call did not: when the
// conversation went on, the new messages; when it was changed, everything after
// the first change. The body is valid until the next call, or, while a reader of
// it is open, until that is closed.
func (e *memo) encode(m *Model, req *model.Request) (body, error) {
	h, err := m.headOf(e, req)
	if err != nil {
		return body{}, err
	}
	keep, end := 0, 0
	if e.headLen > 0 {
		for keep < len(e.marks) && keep < len(req.Messages) && e.marks[keep].is(&req.Messages[keep]) {
			end = e.marks[keep].end
			keep++
		}
	}
	if e.readers == nil {
		e.readers = new(atomic.Int32)
	} else if e.readers.Load() > 0 {
		// a transport is still sending the last body: leave its bytes alone
		e.buf, e.readers = slices.Clone(e.buf), new(atomic.Int32)
	}
	if e.buf == nil {
		e.buf = make([]byte, 0, firstBody)
	}
	e.setHead(m, &h, end)
	clear(e.marks[keep:])
	e.marks = e.marks[:keep]
	for i := keep; i < len(req.Messages); i++ {
		msg := &req.Messages[i]
		switch msg.Role {
		case rouse.RoleUser, rouse.RoleAssistant, rouse.RoleTool, rouse.RoleSystem:
		default:
			return body{}, invalid(fmt.Errorf("messages[%d]: there is no role %q", i, msg.Role))
		}
		e.buf = m.appendMessage(e.buf, msg)
		e.marks = append(e.marks, mark{msg.ID, msg.Role, first(msg.Parts), len(msg.Parts), len(e.buf) - e.headLen})
	}
	// the comma before the first message stands only when the system prompt does
	if len(e.buf) > e.headLen {
		e.buf[e.headLen] = ','
		if h.system == "" {
			e.buf[e.headLen] = ' '
		}
	}
	e.buf = append(e.buf, "]}"...)
	return body{e.buf, e.readers}, nil
}

// setHead makes buf the head h and the first end bytes of encoded messages.
func (e *memo) setHead(m *Model, h *head, end int) {
	switch {
	case e.headLen == 0:
		e.buf = m.appendHead(e.buf[:0], h)
		e.headLen = len(e.buf)
	case e.head.equal(h):
		e.buf = e.buf[:e.headLen+end]
		return
	default:
		head := m.appendHead(nil, h)
		e.buf = slices.Replace(e.buf[:e.headLen+end], 0, e.headLen, head...)
		e.headLen = len(head)
	}
	e.head = *h
	e.head.params = cloneParams(&h.params)
	if h.output != nil {
		o := *h.output
		e.head.output = &o
	}
}

func cloneParams(p *model.Params) model.Params {
	c := *p
	c.Temperature, c.TopP, c.Seed, c.Stop = clonePtr(p.Temperature), clonePtr(p.TopP), clonePtr(p.Seed), slices.Clone(p.Stop)
	return c
}

func clonePtr[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

// headOf checks what is not the conversation.
func (m *Model) headOf(e *memo, req *model.Request) (head, error) {
	h := head{model: req.Model, system: req.System, choice: req.ToolChoice, output: req.Output, params: req.Params}
	if h.model == "" {
		h.model = m.cfg.Model
	}
	if h.model == "" {
		return head{}, invalid(errors.New("the request names no model and Config.Model is empty"))
	}
	if !finite(req.Params.Temperature) || !finite(req.Params.TopP) {
		return head{}, invalid(errors.New("params: temperature and top_p must be finite"))
	}
	if e.headLen > 0 && equalOutput(e.head.output, req.Output) {
		h.output = e.head.output
	} else if o := req.Output; o != nil && object(o.Schema) == nil {
		return head{}, invalid(errors.New("output: the schema is not a JSON object"))
	}
	if e.headLen > 0 && e.head.tools.holds(req.Tools) {
		h.tools = e.head.tools
	} else {
		set, err := m.tools.get(req.Tools)
		if err != nil {
			return head{}, err
		}
		h.tools = set
	}
	switch h.choice {
	case "", "auto", "none", "required":
	default:
		if !slices.ContainsFunc(req.Tools, func(t model.ToolSpec) bool { return t.Name == h.choice }) {
			return head{}, invalid(fmt.Errorf("tool_choice: there is no tool %q", h.choice))
		}
	}
	return h, nil
}

// body is an encoded request.
type body struct {
	b       []byte
	readers *atomic.Int32
}

// open returns a new reader of the body.
func (b body) open() *bodyReader {
	b.readers.Add(1)
	r := &bodyReader{readers: b.readers}
	r.src.Reset(b.b)
	return r
}

// bodyReader reads a body until it is closed. A transport may close it from
// another goroutine than the one that reads.
type bodyReader struct {
	mu      sync.Mutex
	src     bytes.Reader
	readers *atomic.Int32
}

func (r *bodyReader) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.readers == nil {
		return 0, io.ErrClosedPipe
	}
	return r.src.Read(p)
}

// Close ends the use of the body's bytes; when it returns no Read is under way.
func (r *bodyReader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.readers != nil {
		r.readers.Add(-1)
		r.readers = nil
		r.src.Reset(nil)
	}
	return nil
}
