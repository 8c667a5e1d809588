package model

import (
	"fmt"
	"strconv"

	"github.com/rouse-run/rouse"
)

// DefaultMaxAnswer is the default of Folder.MaxBytes.
const DefaultMaxAnswer = 64 << 20

// Folder folds the chunks of one answer into a message. The zero value is ready
// to use. A Folder is not safe for concurrent use, and must not be copied after
// the first Add.
//
//   - Text that follows text goes into one text part, reasoning that follows
//     reasoning into one reasoning part; pieces of arguments in between do not
//     end a part. Empty pieces leave no trace.
//   - A signature ends the reasoning part before it. Where there is none, it is
//     a reasoning part of its own, without text.
//   - Each call is one part; pieces of the arguments of several calls may come
//     in any order.
//   - A ChunkReset forgets everything before it, the usage too.
//   - Pieces of one kind that are joined by Chunk.More are one piece.
type Folder struct {
	// MaxBytes bounds the answer: its texts, signatures, arguments, names and ids
	// together. Zero means DefaultMaxAnswer, negative no bound. Beyond it Add
	// fails with CodeTooLarge.
	MaxBytes int

	buf   []byte // texts and signatures of the parts, in order
	parts []span
	calls []callBuffer
	ids   map[string]struct{}
	size  int

	cuts  []byte
	group byte // letter of the group that cuts ends with, 0 for none
	index int  // of the call, in group 'a'
	piece int  // bytes of the last piece; its size is not in cuts yet
	sizes bool // the group holds a size already
	more  bool // the next piece of the same group belongs to the last one

	usage    rouse.Usage
	hasUsage bool
	stop     StopReason
}

// span is one part: buf[start:end] is its text and buf[end:sig] its signature.
type span struct {
	kind            rouse.PartType
	start, end, sig int
	call            int
}

type callBuffer struct {
	id, name string
	args     []byte
}

// Add takes the next chunk. After an error the answer is what it was before, and
// more chunks may be added. The code is CodeProviderOutput when the chunk breaks
// a rule: one that follows a ChunkStop, a second usage, arguments of a call that
// has not begun, an Index out of order, an empty or repeated ID, a stop without
// a reason, an unknown type.
func (f *Folder) Add(c Chunk) error {
	if f.stop != "" {
		return foldError("a chunk came after the end of the answer")
	}
	if c.Type == ChunkReset {
		f.reset()
		return nil
	}
	n := len(c.Text) + len(c.ID) + len(c.Name)
	if c.Type == ChunkCall {
		n += callCost
	}
	if err := f.fits(n); err != nil {
		return err
	}
	if err := f.apply(&c); err != nil {
		return err
	}
	f.size += n
	return nil
}

func (f *Folder) apply(c *Chunk) error {
	switch c.Type {
	case ChunkText:
		f.addText(rouse.PartText, 't', c)
	case ChunkReasoning:
		f.addText(rouse.PartReasoning, 'r', c)
	case ChunkSignature:
		f.addSignature(c.Text)
	case ChunkCall:
		return f.addCall(c)
	case ChunkArgs:
		if c.Index < 0 || c.Index >= len(f.calls) {
			return foldError(fmt.Sprintf("arguments came for call %d, but %d calls have begun", c.Index, len(f.calls)))
		}
		call := &f.calls[c.Index]
		call.args = append(call.args, c.Text...)
		f.cut('a', c.Index, len(c.Text), c.More)
	case ChunkUsage:
		if f.hasUsage {
			return foldError("the usage was reported twice")
		}
		f.usage, f.hasUsage = c.Usage, true
		f.mark('u')
	case ChunkStop:
		if c.Stop == "" {
			return foldError("the answer ended without a reason")
		}
		f.stop = c.Stop
	default:
		return foldError(fmt.Sprintf("there is no chunk of type %d", c.Type))
	}
	return nil
}

// Answer returns the complete answer. Without a ChunkStop it returns what
// Partial returns and an error of code CodeStreamCut.
func (f *Folder) Answer() (Answer, error) {
	a := f.Partial()
	if f.stop == "" {
		return a, errCut()
	}
	return a, nil
}

// Partial returns what has arrived so far. Its Stop is empty unless the answer
// is complete, and its calls may be cut off: see CallComplete. It shares no
// memory with f.
func (f *Folder) Partial() Answer {
	a := Answer{Message: rouse.Message{Role: rouse.RoleAssistant}, Usage: f.usage, Stop: f.stop}
	if len(f.parts) > 0 {
		a.Message.Parts = make([]rouse.Part, len(f.parts))
	}
	text := string(f.buf)
	for i, s := range f.parts {
		p := &a.Message.Parts[i]
		p.Type = s.kind
		if s.kind == rouse.PartToolCall {
			call := &f.calls[s.call]
			p.Call = &rouse.ToolCall{ID: call.id, Name: call.name, Args: string(call.args)}
			continue
		}
		p.Text, p.Signature = text[s.start:s.end], text[s.end:s.sig]
	}
	a.Cuts = string(f.appendPiece(f.cuts)) // f.cuts itself stays as it is
	return a
}

func (f *Folder) addText(kind rouse.PartType, group byte, c *Chunk) {
	if c.Text != "" {
		s := f.last()
		if s == nil || s.kind != kind || s.sig > s.end {
			s = f.open(kind)
		}
		f.buf = append(f.buf, c.Text...)
		s.end, s.sig = len(f.buf), len(f.buf)
	}
	f.cut(group, 0, len(c.Text), c.More)
}

func (f *Folder) addSignature(sig string) {
	if sig == "" {
		return
	}
	s := f.last()
	if s == nil || s.kind != rouse.PartReasoning || s.sig > s.end {
		s = f.open(rouse.PartReasoning)
	}
	f.buf = append(f.buf, sig...)
	s.sig = len(f.buf)
	f.mark('s')
}

func (f *Folder) addCall(c *Chunk) error {
	if c.Index != len(f.calls) {
		return foldError(fmt.Sprintf("call %d began after %d others", c.Index, len(f.calls)))
	}
	if c.ID == "" {
		return foldError("a call has no id")
	}
	if _, taken := f.ids[c.ID]; taken {
		return foldError(fmt.Sprintf("two calls have the id %q", c.ID))
	}
	if f.ids == nil {
		f.ids = make(map[string]struct{})
	}
	f.ids[c.ID] = struct{}{}
	f.open(rouse.PartToolCall).call = len(f.calls)
	f.calls = append(f.calls, callBuffer{id: c.ID, name: c.Name})
	f.mark('c')
	return nil
}

// last returns the newest part, nil when there is none.
func (f *Folder) last() *span {
	if len(f.parts) == 0 {
		return nil
	}
	return &f.parts[len(f.parts)-1]
}

// open begins a part.
func (f *Folder) open(kind rouse.PartType) *span {
	at := len(f.buf)
	f.parts = append(f.parts, span{kind: kind, start: at, end: at, sig: at})
	return &f.parts[len(f.parts)-1]
}

// cut notes a piece of n bytes. Its size is written when the next one begins,
// since that one may still be joined to it.
func (f *Folder) cut(group byte, index, n int, more bool) {
	same := group == f.group && index == f.index
	switch {
	case n == 0:
		f.more = f.more && (more || !same)
		return
	case same && f.more:
		f.piece += n
	default:
		f.cuts = f.appendPiece(f.cuts)
		f.sizes = same
		if !same {
			f.group, f.index = group, index
			f.cuts = append(f.cuts, group)
			if group == 'a' {
				f.cuts = append(strconv.AppendInt(f.cuts, int64(index), 10), ':')
			}
		}
		f.piece = n
	}
	f.more = more
}

// mark notes something that has no size.
func (f *Folder) mark(group byte) {
	f.cuts = append(f.appendPiece(f.cuts), group)
	f.group, f.index, f.piece, f.sizes, f.more = group, 0, 0, false, false
}

func (f *Folder) appendPiece(b []byte) []byte {
	if f.piece == 0 {
		return b
	}
	if f.sizes {
		b = append(b, ',')
	}
	return strconv.AppendInt(b, int64(f.piece), 10)
}

func (f *Folder) reset() {
	clear(f.ids)
	*f = Folder{MaxBytes: f.MaxBytes, buf: f.buf[:0], parts: f.parts[:0], calls: f.calls[:0], ids: f.ids, cuts: f.cuts[:0]}
}

// callCost is what a call adds to the size of the answer besides its texts.
const callCost = 128

// fits checks that there is room for n more bytes.
func (f *Folder) fits(n int) error {
	limit := f.MaxBytes
	if limit == 0 {
		limit = DefaultMaxAnswer
	}
	if limit > 0 && n > limit-f.size {
		return &rouse.Error{
			Code: rouse.CodeTooLarge, Op: "model.fold", Message: fmt.Sprintf("the model's answer is larger than %d bytes", limit),
			Hint: "ask for a shorter answer, or raise MaxBytes",
		}
	}
	return nil
}

func foldError(message string) error {
	return &rouse.Error{Code: rouse.CodeProviderOutput, Op: "model.fold", Message: message}
}

func errCut() error {
	return &rouse.Error{Code: rouse.CodeStreamCut, Op: "model", Message: "the answer broke off before its end"}
}
