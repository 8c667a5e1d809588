package openai

import (
	"bytes"

	"github.com/rouse-run/rouse"
)

// pieceKind tells which fields of a piece are set.
type pieceKind uint8

const (
	pieceText      pieceKind = iota + 1 // text
	pieceReasoning                      // text
	pieceSignature                      // text
	pieceCall                           // index, id, name, text (arguments), whole
	pieceFinish                         // text
	pieceUsage                          // index into batch.usages
	pieceError                          // index into batch.errs
	pieceDone                           // nothing: the stream says that it is over
)

// span is a part of batch.text.
type span struct{ from, to int }

func (s span) empty() bool { return s.from == s.to }

// piece is one thing that an event said.
type piece struct {
	kind  pieceKind
	whole bool // a call that is not a delta of another one
	index int  // of a call: the provider's, -1 when it gave none
	text  span
	id    span
	name  span
	raw   []byte
}

// batch is what the events of one read said, in order. Its strings lie side by
// side in text, so that the batch needs one allocation when they are handed out.
type batch struct {
	pieces []piece
	text   []byte
	usages []rouse.Usage
	errs   []error
}

func (b *batch) reset() {
	clear(b.pieces)
	clear(b.errs)
	b.pieces, b.text, b.usages, b.errs = b.pieces[:0], b.text[:0], b.usages[:0], b.errs[:0]
}

// add appends a piece of text unless it is empty.
func (b *batch) add(kind pieceKind, text span) {
	if !text.empty() {
		b.pieces = append(b.pieces, piece{kind: kind, text: text})
	}
}

func (b *batch) addUsage(u rouse.Usage) {
	if u != (rouse.Usage{}) {
		b.pieces = append(b.pieces, piece{kind: pieceUsage, index: len(b.usages)})
		b.usages = append(b.usages, u)
	}
}

func (b *batch) addError(err error) {
	b.pieces = append(b.pieces, piece{kind: pieceError, index: len(b.errs)})
	b.errs = append(b.errs, err)
}

// keep copies s into the batch.
func (b *batch) keep(s string) span {
	from := len(b.text)
	b.text = append(b.text, s...)
	return span{from, len(b.text)}
}

// decoder reads the events of one stream. Most events of a stream differ in one
// string only; the decoder remembers what surrounds it.
type decoder struct {
	prefix, suffix []byte // around the string that varies
	like           piece  // what an event of that shape says
	known          bool
}

func (d *decoder) reset() {
	if cap(d.prefix)+cap(d.suffix) > keepText {
		*d = decoder{}
	}
	d.prefix, d.suffix, d.known = d.prefix[:0], d.suffix[:0], false
}

// event decodes one event into b. What it cannot read becomes an error piece.
func (d *decoder) event(data []byte, b *batch) {
	pieces, text, usages := len(b.pieces), len(b.text), len(b.usages)
	if d.similar(data, b) {
		return
	}
	b.text = b.text[:text]
	f := fast{b: b}
	f.p.b = data
	if f.chunk() {
		d.learn(data, &f, b.pieces[pieces:])
		return
	}
	b.pieces, b.text, b.usages = b.pieces[:pieces], b.text[:text], b.usages[:usages]
	decodeAny(data, b, false)
}

// similar takes an event that differs from the remembered one in its string. It
// is the same JSON with one string token for another, so it needs no other look.
func (d *decoder) similar(data []byte, b *batch) bool {
	if !d.known || !bytes.HasPrefix(data, d.prefix) || !bytes.HasSuffix(data, d.suffix) {
		return false
	}
	p := parser{b: data, i: len(d.prefix)}
	from := len(b.text)
	b.text = p.text(b.text)
	// an empty string can change which member counts: that is for the others
	if p.bad || p.i != len(data)-len(d.suffix) || len(b.text) == from {
		return false
	}
	next := d.like
	next.text = span{from, len(b.text)}
	b.pieces = append(b.pieces, next)
	return true
}

func (d *decoder) learn(data []byte, f *fast, said []piece) {
	if len(said) != 1 || f.to == 0 || said[0].text.empty() || !said[0].id.empty() || !said[0].name.empty() {
		return
	}
	switch said[0].kind {
	case pieceText, pieceReasoning, pieceCall:
	default:
		return
	}
	d.prefix = append(d.prefix[:0], data[:f.from]...)
	d.suffix = append(d.suffix[:0], data[f.to:]...)
	d.like, d.known = said[0], true
}

// fast decodes the usual shape of a chat.completion.chunk. Anything unusual
// makes it give up, and decodeAny decides.
type fast struct {
	p        parser
	b        *batch
	from, to int // where the string of the last piece lies in the event
}

// member marks bit in seen and gives up when it was marked already, since
// encoding/json lets the last of equal names win.
func (f *fast) member(seen *uint, bit uint) {
	if *seen&(1<<bit) != 0 {
		f.p.fail()
	}
	*seen |= 1 << bit
}

// unless gives up when the value that comes next is not null.
func (f *fast) unless() {
	if !f.p.null() {
		f.p.fail()
	}
}

func (f *fast) chunk() bool {
	p := &f.p
	var seen uint
	var finish span
	var usage rouse.Usage
	for p.open('{'); p.more('}'); {
		switch string(p.key()) {
		case "choices":
			f.member(&seen, 0)
			finish = f.choices()
		case "usage":
			f.member(&seen, 1)
			if !p.null() {
				usage = f.usage()
			}
		case "error", "x_groq":
			f.unless()
		default:
			p.skip()
		}
	}
	if !p.done() || seen&1 == 0 {
		return false
	}
	f.b.add(pieceFinish, finish)
	f.b.addUsage(usage)
	return true
}

// choices reads at most one choice, of index 0.
func (f *fast) choices() (finish span) {
	p := &f.p
	n := 0
	for p.open('['); p.more(']'); {
		if n++; n > 1 {
			p.fail()
			return span{}
		}
		finish = f.choice()
	}
	return finish
}

func (f *fast) choice() (finish span) {
	p := &f.p
	var seen uint
	for p.open('{'); p.more('}'); {
		switch string(p.key()) {
		case "index":
			f.member(&seen, 0)
			if p.int() != 0 {
				p.fail()
			}
		case "delta":
			f.member(&seen, 1)
			f.delta()
		case "finish_reason":
			f.member(&seen, 2)
			finish = f.text()
		case "message", "usage", "stop_reason":
			f.unless()
		default:
			p.skip()
		}
	}
	return finish
}

// text reads a string into the batch; null counts as empty.
func (f *fast) text() span {
	from := len(f.b.text)
	if !f.p.null() {
		f.b.text = f.p.text(f.b.text)
	}
	return span{from, len(f.b.text)}
}

// payload is text whose place in the event is remembered when it is not empty.
func (f *fast) payload() span {
	s := f.text()
	if !s.empty() {
		f.from, f.to = f.p.from, f.p.to
	}
	return s
}

func (f *fast) delta() {
	p := &f.p
	var seen uint
	var content, reasoning, other span
	var calls bool
	for p.open('{'); p.more('}'); {
		switch string(p.key()) {
		case "content":
			f.member(&seen, 0)
			content = f.payload()
		case "reasoning_content":
			f.member(&seen, 1)
			reasoning = f.payload()
		case "reasoning":
			f.member(&seen, 2)
			other = f.payload()
		case "tool_calls":
			f.member(&seen, 3)
			if !p.null() {
				calls = f.calls()
			}
		case "function_call", "refusal", "reasoning_details", "thinking_blocks":
			f.unless()
		default:
			p.skip()
		}
	}
	if !reasoning.empty() && !other.empty() {
		other, f.to = span{}, 0 // the same text twice; such an event is not remembered
	}
	if said := !content.empty() || !reasoning.empty() || !other.empty(); said && calls {
		p.fail()
		return
	}
	f.b.add(pieceReasoning, reasoning)
	f.b.add(pieceReasoning, other)
	f.b.add(pieceText, content)
}

func (f *fast) calls() (any bool) {
	p := &f.p
	for p.open('['); p.more(']'); {
		f.call()
		any = true
	}
	return any
}

func (f *fast) call() {
	p := &f.p
	c := piece{kind: pieceCall, index: -1}
	var seen uint
	for p.open('{'); p.more('}'); {
		switch string(p.key()) {
		case "index":
			f.member(&seen, 0)
			if !p.null() {
				c.index = int(p.int())
			}
		case "id":
			f.member(&seen, 1)
			c.id = f.text()
		case "function":
			f.member(&seen, 2)
			f.function(&c)
		default:
			p.skip()
		}
	}
	f.b.pieces = append(f.b.pieces, c)
}

func (f *fast) function(c *piece) {
	p := &f.p
	var seen uint
	for p.open('{'); p.more('}'); {
		switch string(p.key()) {
		case "name":
			f.member(&seen, 0)
			c.name = f.text()
		case "arguments":
			f.member(&seen, 1)
			c.text = f.payload()
		default:
			p.skip()
		}
	}
}

func (f *fast) usage() rouse.Usage {
	p := &f.p
	var seen uint
	var c counts
	for p.open('{'); p.more('}'); {
		switch string(p.key()) {
		case "prompt_tokens":
			f.count(&seen, 0, &c.prompt)
		case "completion_tokens":
			f.count(&seen, 1, &c.completion)
		case "total_tokens":
			f.count(&seen, 2, &c.total)
		case "prompt_tokens_details":
			f.member(&seen, 3)
			f.detail("cached_tokens", &c.cached)
		case "completion_tokens_details":
			f.member(&seen, 4)
			f.detail("reasoning_tokens", &c.reasoning)
		case "cost", "prompt_cache_hit_tokens", "cache_creation_input_tokens", "cache_read_input_tokens":
			f.unless()
		default:
			p.skip()
		}
	}
	return c.usage()
}

func (f *fast) count(seen *uint, bit uint, n *int64) {
	f.member(seen, bit)
	if !f.p.null() {
		*n = f.p.int()
	}
}

func (f *fast) detail(name string, n *int64) {
	p := &f.p
	if p.null() {
		return
	}
	var seen uint
	for p.open('{'); p.more('}'); {
		switch string(p.key()) {
		case name:
			f.count(&seen, 0, n)
		case "cache_write_tokens":
			f.unless()
		default:
			p.skip()
		}
	}
}

// counts is a usage object as providers write it.
type counts struct {
	prompt, completion, total, cached, written, reasoning int64
	micro                                                 int64
}

func (c counts) usage() rouse.Usage {
	u := rouse.Usage{
		Input: c.prompt, Output: c.completion, CacheRead: c.cached, CacheWrite: c.written,
		Reasoning: c.reasoning, MicroUSD: c.micro,
	}
	// some providers count reasoning beside the completion; their total tells
	if c.reasoning > 0 && c.total == c.prompt+c.completion+c.reasoning {
		u.Output += c.reasoning
	}
	return u
}
