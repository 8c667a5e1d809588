package mock

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/model"
)

// form says how an answer is written.
type form uint8

const (
	streamed  form = 1 << iota // server-sent events instead of one document
	withUsage                  // usage is wanted in a stream
)

// piece is one step of an answer: a pause, then bytes for the wire and, for use
// in process, a chunk (if its type is set) or the end of the answer with err.
type piece struct {
	delay time.Duration
	data  []byte
	chunk model.Chunk
	err   error
}

// plan is an answer laid out in time and bytes, faults included.
type plan struct {
	first   time.Duration // before the status
	status  int           // an error status instead of pieces, or 0
	pieces  []piece
	end     Break
	started bool // a break comes after the response has begun
}

// planner turns an answer into a plan. Everything it draws comes from one
// source in a fixed order, so the plan follows from the answer and the form.
type planner struct {
	cfg    *Config
	a      *answer
	rand   *rand.Rand
	enc    encoder
	parts  []rouse.Part // with faults and ids
	wire   []string     // id of each call on the wire
	pieces []piece
	sent   int // pieces of content so far
	calls  int // calls begun so far
}

// plan lays out a. The error is CodeInvalid when a fault cannot happen to it.
func (g *GPT) plan(a answer, modelName string, f form) (plan, error) {
	fault := &a.fault
	p := planner{cfg: &g.cfg, a: &a, rand: rand.New(rand.NewPCG(a.seed[0], a.seed[1]))} //nolint:gosec // repeatable on purpose
	if modelName == "" {
		modelName = g.cfg.Model
	}
	p.enc = encoder{id: fmt.Sprintf("chatcmpl-%016x%016x", p.rand.Uint64(), p.rand.Uint64()), model: modelName,
		created: g.cfg.Clock.Now().Unix(), nullUsage: f&withUsage != 0}
	p.identify()
	pl := plan{first: p.vary(fault.FirstByte), status: fault.Status, end: fault.Break}
	if pl.status != 0 {
		return pl, nil
	}
	p.stream(f)
	pl.pieces = p.pieces
	if f&streamed == 0 {
		pl.pieces = p.whole()
	}
	pl.started = fault.AfterBytes > 0 || fault.AfterChunks > 0
	switch {
	case pl.end != "" && !pl.started:
		pl.pieces = nil
	case pl.end != "":
		var ok bool
		if pl.pieces, ok = cut(pl.pieces, fault, f); !ok {
			return plan{}, &rouse.Error{Code: rouse.CodeInvalid, Op: op, Message: "Fault.AfterBytes or AfterChunks lies beyond the end of the answer"}
		}
	case fault.MalformedJSON && fault.AfterChunks >= p.sent:
		return plan{}, &rouse.Error{Code: rouse.CodeInvalid, Op: op, Message: "Fault.MalformedJSON has no piece to break: the answer is too short"}
	}
	return pl, nil
}

// identify applies the faults of calls and gives each call its ids. In process
// an id is unique; on the wire DuplicateID repeats the first one.
func (p *planner) identify() {
	p.parts = rouse.Message{Parts: p.a.fault.apply(p.a.parts)}.Clone().Parts
	for i := range p.parts {
		c := p.parts[i].Call
		if c == nil {
			continue
		}
		if c.ID == "" {
			c.ID = fmt.Sprintf("call_%016x", p.rand.Uint64())
		}
		id := c.ID
		if len(p.wire) == 1 && p.a.fault.DuplicateID {
			id = p.wire[0]
			c.ID = id + "_2"
		}
		p.wire = append(p.wire, id)
	}
}

// stream lays out the events of a streamed answer.
func (p *planner) stream(f form) {
	fault := &p.a.fault
	if fault.EmptyChunk {
		p.event(p.enc.event(nil, nil))
	}
	if fault.EmptyChoices {
		p.event(p.enc.event(nil, nil))
	} else {
		p.content()
	}
	err := p.broken()
	if usage := p.usage(); f&withUsage != 0 && usage != nil {
		pc := piece{data: p.enc.event(nil, usage)}
		if err == nil && *usage != (rouse.Usage{}) {
			pc.chunk = model.Chunk{Type: model.ChunkUsage, Usage: *usage}
		}
		p.pieces = append(p.pieces, pc)
	}
	done := piece{chunk: model.Chunk{Type: model.ChunkStop, Stop: p.stop()}, err: err}
	if !fault.NoFinish {
		done.data = []byte("data: [DONE]\n\n")
	}
	p.pieces = append(p.pieces, done)
}

// broken is what a client says of an answer that arrived and is not whole.
func (p *planner) broken() error {
	cut := func(text string) error { return &rouse.Error{Code: rouse.CodeStreamCut, Op: op, Message: text} }
	switch fault := &p.a.fault; {
	case fault.EmptyChoices:
		return cut("the answer has no choices")
	case fault.NoFinish:
		return cut("the answer ended without a finish reason")
	}
	stop := p.stop()
	for _, c := range (rouse.Message{Parts: p.parts}).Calls() {
		switch {
		case (stop == model.StopLength || stop == model.StopFiltered) && !model.CallComplete(c):
			return cut(fmt.Sprintf("the answer ended (%s) within the arguments of a call", stop))
		case cutOff(c.Args):
			return cut("the arguments of a call are cut off")
		}
	}
	return nil
}

// content lays out role, parts and finish reason.
func (p *planner) content() {
	p.event(p.enc.delta(&wireDelta{Role: "assistant", Content: new(string)}, ""))
	for i := 0; i < len(p.parts); {
		part := &p.parts[i]
		if part.Type == rouse.PartToolCall {
			n := 1
			for p.cfg.Interleave && i+n < len(p.parts) && p.parts[i+n].Type == rouse.PartToolCall {
				n++
			}
			p.callGroup(p.parts[i : i+n])
			i += n
			continue
		}
		for _, s := range p.split(part.Text) {
			if part.Type == rouse.PartText {
				p.say(model.Chunk{Type: model.ChunkText, Text: s}, &wireDelta{Content: &s})
			} else {
				p.say(model.Chunk{Type: model.ChunkReasoning, Text: s}, &wireDelta{Reasoning: s})
			}
		}
		if part.Signature != "" {
			p.say(model.Chunk{Type: model.ChunkSignature, Text: part.Signature}, &wireDelta{Details: signatureDetails(part.Signature)})
		}
		i++
	}
	if !p.a.fault.NoFinish {
		p.event(p.enc.delta(&wireDelta{}, p.finish()))
	}
}

// callGroup lays out calls that are written at the same time.
func (p *planner) callGroup(parts []rouse.Part) {
	first := p.calls
	fragments := make([][]string, len(parts))
	for k := range parts {
		c, i := parts[k].Call, first+k
		p.say(model.Chunk{Type: model.ChunkCall, Index: i, ID: c.ID, Name: c.Name},
			&wireDelta{Calls: []wireCall{{Index: &i, ID: p.wire[i], Type: "function", Function: wireFunction{Name: c.Name}}}})
		fragments[k] = p.split(c.Args)
	}
	p.calls += len(parts)
	for round, more := 0, true; more; round++ {
		more = false
		for k, fs := range fragments {
			if round >= len(fs) {
				continue
			}
			more = true
			i := first + k
			p.say(model.Chunk{Type: model.ChunkArgs, Index: i, Text: fs[round]},
				&wireDelta{Calls: []wireCall{{Index: &i, Function: wireFunction{Arguments: fs[round]}}}})
		}
	}
}

// say lays out one piece of content.
func (p *planner) say(c model.Chunk, d *wireDelta) {
	pc := piece{chunk: c, data: p.enc.delta(d, "")}
	if p.sent > 0 {
		pc.delay = p.vary(p.a.fault.Piece)
	}
	if p.a.fault.MalformedJSON && p.sent == p.a.fault.AfterChunks {
		pc.data = malform(pc.data, "\n\n")
		pc.chunk = model.Chunk{}
		pc.err = malformedError()
	} else {
		pc.chunk.Raw = payload(pc.data)
	}
	p.sent++
	p.pieces = append(p.pieces, pc)
}

// event lays out bytes that mean no chunk.
func (p *planner) event(data []byte) { p.pieces = append(p.pieces, piece{data: data}) }

// whole lays out the answer as one document, after all the pauses of a stream.
func (p *planner) whole() []piece {
	var one piece
	for i := range p.pieces {
		one.delay += p.pieces[i].delay
	}
	one.data = p.enc.whole(p.parts, p.wire, p.finish(), p.usage(), &p.a.fault)
	if p.a.fault.MalformedJSON {
		one.data = malform(one.data, "")
	}
	return []piece{one}
}

func (p *planner) usage() *rouse.Usage {
	if p.a.fault.NoUsage {
		return nil
	}
	return p.a.usage
}

func (p *planner) finish() string {
	switch {
	case p.a.fault.NoFinish:
		return ""
	case p.a.fault.Finish != "":
		return p.a.fault.Finish
	default:
		return wireStop(p.a.stop)
	}
}

// stop is why the answer ends, as clients read it: calls decide between StopEnd
// and StopTools.
func (p *planner) stop() model.StopReason {
	stop := p.a.stop
	if p.a.fault.Finish != "" {
		stop = modelStop(p.a.fault.Finish)
	}
	switch calls := len(p.wire) > 0; {
	case calls && (stop == model.StopEnd || stop == model.StopSequence):
		return model.StopTools
	case !calls && stop == model.StopTools:
		return model.StopEnd
	default:
		return stop
	}
}

// split cuts s into pieces of the configured size; an empty s has none.
func (p *planner) split(s string) []string {
	var out []string
	for r := []rune(s); len(r) > 0; {
		n := p.cfg.ChunkRunes
		if p.cfg.Vary {
			n = 1 + p.rand.IntN(2*n-1)
		}
		n = min(n, len(r))
		out = append(out, string(r[:n]))
		r = r[n:]
	}
	return out
}

func (p *planner) vary(d time.Duration) time.Duration {
	if !p.cfg.Vary || d <= 0 {
		return d
	}
	return d/2 + time.Duration(p.rand.Int64N(int64(d)))
}

// cut keeps what is sent before the break of f; false when the answer is shorter.
func cut(ps []piece, f *Fault, as form) ([]piece, bool) {
	if f.AfterChunks > 0 && as&streamed == 0 {
		half := ps[0]
		half.data = half.data[:len(half.data)/2]
		return []piece{half}, true
	}
	bytes, chunks := 0, 0
	for i := range ps {
		if f.AfterBytes > 0 && bytes+len(ps[i].data) > f.AfterBytes {
			part := piece{delay: ps[i].delay, data: ps[i].data[:f.AfterBytes-bytes]}
			return append(ps[:i:i], part), true
		}
		bytes += len(ps[i].data)
		switch ps[i].chunk.Type {
		case 0, model.ChunkUsage, model.ChunkStop:
			continue
		}
		if chunks++; f.AfterChunks > 0 && chunks == f.AfterChunks {
			return ps[: i+1 : i+1], true
		}
	}
	return nil, false
}

func malformedError() error {
	return &rouse.Error{Code: rouse.CodeProviderOutput, Op: op, Message: "the provider sent JSON that cannot be read"}
}

// malform takes the last brace out of data, which ends with tail.
func malform(data []byte, tail string) []byte {
	return append(data[:len(data)-len(tail)-1:len(data)-len(tail)-1], tail...)
}
