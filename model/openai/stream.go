package openai

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"syscall"
	"time"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/internal/sse"
	"github.com/rouse-run/rouse/model"
)

const (
	// refusalTime bounds the wait for the body of a refusal.
	refusalTime = 2 * time.Second
	// drainBytes and drainTime bound what is read behind the end of an answer so
	// that its connection can be used again.
	drainBytes = 64 << 10
	drainTime  = 50 * time.Millisecond
	// keepText and keepPieces bound the memory that a pooled stream keeps.
	keepText   = 32 << 10
	keepPieces = 256
)

// stream reads one answer. Everything that one read brought is decoded before
// the first of it is handed on, so a chunk knows whether another follows.
type stream struct {
	events sse.Reader
	dec    decoder
	batch  batch
	answer answer
	yield  func(model.Chunk, error) bool
	next   model.Chunk // decided, but it is not known yet whether another follows
	held   bool        // next is set
	broken bool        // the consumer wants no more
	ended  bool        // the answer is whole and all of it was offered
	eof    bool
	scrap  [512]byte
}

func (s *stream) release() {
	s.events.Release()
	s.answer.reset(nil, 0)
	s.batch.reset()
	s.dec.reset()
	if cap(s.batch.text) > keepText || cap(s.batch.pieces) > keepPieces {
		s.batch = batch{}
	}
	for i, c := range s.answer.calls[:cap(s.answer.calls)] {
		if cap(c.args) > keepText || i >= keepPieces/16 {
			s.answer.calls = nil
			break
		}
	}
	s.yield, s.next = nil, model.Chunk{}
	s.held, s.broken, s.ended, s.eof = false, false, false, false
}

// run yields the answer in src. whole reports that it came to its end; false
// without an error means that the consumer broke off.
func (s *stream) run(ctx context.Context, src io.Reader, m *Model) (whole bool, err error) {
	c, err := s.firstByte(src)
	switch {
	case errors.Is(err, io.EOF):
		return false, s.answer.cut("the stream ended without a finish reason")
	case err != nil:
		return false, readError(err)
	case c == '{' || c == '[':
		return s.runDocument(ctx, io.MultiReader(bytes.NewReader([]byte{c}), src), m.cfg.MaxEventBytes)
	case c == '<':
		return false, &rouse.Error{Code: rouse.CodeProviderOutput, Op: op, Message: "the provider answered with a page instead of a stream", Hint: "check BaseURL"}
	}
	s.events.Reset(src, &m.pages, m.cfg.MaxEventBytes)
	s.events.Unread(c)
	for !s.broken && !s.ended {
		if err := s.deliver(ctx); err != nil {
			return false, err
		}
		if s.broken || s.ended {
			break
		}
		err := s.events.Fill()
		if err == nil {
			continue
		}
		if err := s.atEnd(ctx, err); err != nil {
			return false, err
		}
	}
	return s.ended, nil
}

// firstByte skips the blank lines that some proxies send while they wait, and
// tells a stream from a document.
func (s *stream) firstByte(src io.Reader) (byte, error) {
	for n := 0; n < len(s.scrap); {
		k, err := src.Read(s.scrap[:1])
		if k == 0 {
			if err != nil {
				return 0, err
			}
			n++
			continue
		}
		switch c := s.scrap[0]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c, nil
		}
	}
	return 0, io.ErrNoProgress
}

// deliver decodes the events that have arrived and hands on what they say.
func (s *stream) deliver(ctx context.Context) error {
	s.batch.reset()
	for {
		ev, ok := s.events.Next()
		if !ok || !s.decode(ev) {
			break
		}
	}
	return s.handOn(ctx)
}

// decode adds what an event says to the batch and reports whether the stream
// goes on after it.
func (s *stream) decode(ev sse.Event) bool {
	b := &s.batch
	from := len(b.pieces)
	switch {
	case len(ev.Data) == 0:
	case string(ev.Data) == "[DONE]" || string(bytes.TrimSpace(ev.Data)) == "[DONE]":
		b.pieces = append(b.pieces, piece{kind: pieceDone})
		return false
	case ev.Name == "error":
		b.addError(answerError(ev.Data))
	default:
		s.dec.event(ev.Data, b)
	}
	for i := from; i < len(b.pieces); i++ {
		b.pieces[i].raw = ev.Data
		if b.pieces[i].kind == pieceError {
			return false
		}
	}
	return true
}

// atEnd handles the end of the connection: err is io.EOF or what broke it.
func (s *stream) atEnd(ctx context.Context, err error) error {
	s.eof = errors.Is(err, io.EOF)
	// behind the finish reason only the usage can be missing
	if lost := errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET); !s.eof && (s.answer.finish == "" || !lost) {
		return s.broke(err)
	}
	s.batch.reset()
	// an event without its final blank line counts if it is a whole object
	if ev, ok := s.events.Tail(); s.eof && ok {
		var p parser
		p.b = ev.Data
		if p.skip(); p.done() || string(bytes.TrimSpace(ev.Data)) == "[DONE]" {
			s.decode(ev)
		}
	}
	if err := s.handOn(ctx); err != nil || s.ended || s.broken {
		return err
	}
	return s.finish(false)
}

// broke is the error for a read that failed within the answer.
func (s *stream) broke(err error) error {
	var own *rouse.Error
	if errors.As(err, &own) {
		return own
	}
	if isTimeout(err) {
		return readError(err)
	}
	cut := s.answer.cut("the connection broke before the finish reason")
	if errors.As(cut, &own) {
		own.Err = err
	}
	return cut
}

// handOn turns the batch into chunks. Its strings become one string, of which
// the chunks' texts are parts.
func (s *stream) handOn(ctx context.Context) error {
	b := &s.batch
	if len(b.pieces) == 0 {
		return nil
	}
	text := string(b.text)
	for i := range b.pieces {
		err := ctx.Err() // what has arrived does not matter any more
		if err == nil {
			err = s.take(&b.pieces[i], text)
		}
		if err != nil {
			s.flush(false)
			if s.broken {
				return nil
			}
			return err
		}
		if s.broken || s.ended {
			return nil
		}
	}
	s.flush(false)
	return nil
}

func (s *stream) take(p *piece, text string) error {
	str := func(x span) string { return text[x.from:x.to] }
	switch p.kind {
	case pieceText:
		s.say(model.ChunkText, str(p.text), p.raw)
	case pieceReasoning:
		s.say(model.ChunkReasoning, str(p.text), p.raw)
	case pieceSignature:
		s.say(model.ChunkSignature, str(p.text), p.raw)
	case pieceCall:
		return s.takeCall(p, str(p.id), str(p.name), str(p.text))
	case pieceFinish:
		if f := str(p.text); f != "null" {
			s.answer.finish = strings.Clone(f)
		}
	case pieceUsage:
		s.answer.usage = s.batch.usages[p.index]
	case pieceError:
		return s.batch.errs[p.index]
	case pieceDone:
		return s.finish(true)
	}
	return nil
}

func (s *stream) say(kind model.ChunkType, text string, raw []byte) {
	s.answer.said = true
	s.emit(model.Chunk{Type: kind, Text: text, Raw: raw})
}

func (s *stream) takeCall(p *piece, id, name, args string) error {
	c, err := s.answer.delta(p, id, name, args)
	if err != nil {
		return err
	}
	if c.name == "" {
		return nil // what has come is kept until the name does
	}
	if !c.started {
		chunk := s.answer.start(c)
		chunk.Raw = p.raw
		s.emit(chunk)
		if len(c.args) > len(args) {
			args = string(c.args)
		}
	}
	if args != "" {
		s.emit(model.Chunk{Type: model.ChunkArgs, Index: c.number, Text: args, Raw: p.raw})
	}
	return nil
}

// finish hands on usage and stop, if the answer is whole.
func (s *stream) finish(marked bool) error {
	stop, err := s.answer.end(marked)
	if err != nil {
		return err
	}
	if s.answer.usage != (rouse.Usage{}) {
		s.emit(model.Chunk{Type: model.ChunkUsage, Usage: s.answer.usage})
	}
	s.emit(model.Chunk{Type: model.ChunkStop, Stop: stop})
	s.flush(false)
	s.ended = true
	return nil
}

// emit hands on the chunk that was held back and holds c instead.
func (s *stream) emit(c model.Chunk) {
	s.flush(true)
	s.next, s.held = c, true
}

func (s *stream) flush(more bool) {
	if s.held && !s.broken {
		s.held = false
		s.next.More = more
		s.broken = !s.yield(s.next, nil)
	}
}

// runDocument takes an answer that was not streamed.
func (s *stream) runDocument(ctx context.Context, src io.Reader, limit int) (whole bool, err error) {
	data, err := io.ReadAll(io.LimitReader(src, int64(limit)+1))
	switch {
	case err != nil:
		return false, s.broke(err)
	case len(data) > limit:
		return false, &rouse.Error{Code: rouse.CodeTooLarge, Op: op, Message: "the answer is larger than MaxEventBytes"}
	}
	s.eof = true
	s.batch.reset()
	decodeAny(data, &s.batch, true)
	for i := range s.batch.pieces {
		s.batch.pieces[i].raw = data
	}
	s.batch.pieces = append(s.batch.pieces, piece{kind: pieceDone})
	err = s.handOn(ctx)
	return s.ended, err
}

// drain reads what little lies between the answer and the end of the response,
// so that the connection can carry the next request.
func (s *stream) drain(src io.Reader, cancel context.CancelFunc) {
	if s.eof {
		return
	}
	timer := time.AfterFunc(drainTime, cancel)
	defer timer.Stop()
	for n := 0; n < drainBytes; {
		k, err := src.Read(s.scrap[:])
		if err != nil {
			return
		}
		n += k + 1
	}
}
