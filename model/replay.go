package model

import (
	"fmt"
	"iter"
	"strconv"

	"github.com/rouse-run/rouse"
)

// Replay yields the chunks that a was folded from: each piece, in the order of
// arrival, with the usage where it came and the stop last. Empty pieces, Raw,
// More and what a ChunkReset had forgotten are gone; pieces that More had joined
// are one. An answer without a Stop ends without a ChunkStop.
//
// Folding the chunks gives a again, byte for byte; a.Message.ID is not part of
// a stream. When a.Cuts does not fit a, the last pair is an error of code
// CodeCorrupt.
func Replay(a Answer) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		r := replayer{a: &a, yield: yield}
		if err := r.run(); err != nil {
			yield(Chunk{}, &rouse.Error{Code: rouse.CodeCorrupt, Op: "model.replay", Message: "the stored answer does not fit its cuts", Err: err})
		}
	}
}

type replayer struct {
	a     *Answer
	yield func(Chunk, error) bool
	gone  bool // the consumer broke off

	parts  int      // how many parts have begun
	text   string   // what is left of the last part's text
	signed bool     // the last part's signature was yielded
	args   []string // what is left of each call's arguments
	usage  bool
}

func (r *replayer) run() error {
	if r.a.Message.Role != rouse.RoleAssistant {
		return fmt.Errorf("the message's role is %q", r.a.Message.Role)
	}
	cuts, last := r.a.Cuts, ""
	for cuts != "" && !r.gone {
		head, rest, err := cutHead(cuts)
		if err != nil {
			return err
		}
		kind := head[0]
		sized := kind == 't' || kind == 'r' || kind == 'a'
		if sized && head == last {
			return fmt.Errorf("the group %q is split", head)
		}
		if sized {
			rest, err = r.pieces(kind, head, rest)
		} else {
			err = r.single(kind)
		}
		if err != nil {
			return err
		}
		cuts, last = rest, head
	}
	if r.gone {
		return nil
	}
	if err := r.complete(); err != nil {
		return err
	}
	if r.a.Stop != "" {
		r.send(Chunk{Type: ChunkStop, Stop: r.a.Stop})
	}
	return nil
}

// cutHead splits off a group's head: its letter, and for arguments the number.
func cutHead(cuts string) (head, rest string, err error) {
	switch cuts[0] {
	case 't', 'r', 's', 'c', 'u':
		return cuts[:1], cuts[1:], nil
	case 'a':
		_, rest, err := cutNumber(cuts[1:])
		if err != nil {
			return "", "", err
		}
		if rest == "" || rest[0] != ':' {
			return "", "", fmt.Errorf("arguments without a colon")
		}
		return cuts[:len(cuts)-len(rest)], rest[1:], nil
	}
	return "", "", fmt.Errorf("there is no group %q", cuts[0])
}

// cutNumber reads a decimal number without leading zeros.
func cutNumber(s string) (n int, rest string, err error) {
	i := 0
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	if i > 1 && s[0] == '0' {
		return 0, "", fmt.Errorf("the number %q begins with a zero", s[:i])
	}
	n, err = strconv.Atoi(s[:i])
	return n, s[i:], err
}

// pieces yields the pieces of a group of sizes and returns what follows it.
func (r *replayer) pieces(kind byte, head, cuts string) (string, error) {
	for {
		n, rest, err := cutNumber(cuts)
		if err != nil {
			return "", err
		}
		if err := r.piece(kind, head, n); err != nil {
			return "", err
		}
		if r.gone || rest == "" || rest[0] != ',' {
			return rest, nil
		}
		cuts = rest[1:]
	}
}

func (r *replayer) piece(kind byte, head string, n int) error {
	if n == 0 {
		return fmt.Errorf("a piece of no bytes")
	}
	c := Chunk{Type: ChunkArgs}
	from := &r.text
	switch kind {
	case 't':
		c.Type = ChunkText
		if err := r.enter(rouse.PartText); err != nil {
			return err
		}
	case 'r':
		c.Type = ChunkReasoning
		if err := r.enter(rouse.PartReasoning); err != nil {
			return err
		}
	default:
		i, _, err := cutNumber(head[1:])
		if err != nil {
			return err
		}
		if i >= len(r.args) {
			return fmt.Errorf("arguments of call %d before it begins", i)
		}
		c.Index, from = i, &r.args[i]
	}
	if n > len(*from) {
		return fmt.Errorf("a piece of %d bytes where %d are left", n, len(*from))
	}
	c.Text, *from = (*from)[:n], (*from)[n:]
	r.send(c)
	return nil
}

// enter makes the last part one of kind that has text left to yield.
func (r *replayer) enter(kind rouse.PartType) error {
	if r.text != "" && r.a.Message.Parts[r.parts-1].Type == kind {
		return nil
	}
	p, err := r.next(kind)
	if err != nil {
		return err
	}
	if p.Text == "" {
		return fmt.Errorf("part %d has no text", r.parts-1)
	}
	r.text = p.Text
	return nil
}

// last returns the part that began last, or an empty one.
func (r *replayer) last() *rouse.Part {
	if r.parts == 0 {
		return &rouse.Part{}
	}
	return &r.a.Message.Parts[r.parts-1]
}

// ended checks that nothing of the last part is left.
func (r *replayer) ended() error {
	if r.text != "" {
		return fmt.Errorf("part %d is left with %d bytes", r.parts-1, len(r.text))
	}
	if r.last().Signature != "" && !r.signed {
		return fmt.Errorf("the signature of part %d was left out", r.parts-1)
	}
	return nil
}

// next begins the next part, which must be of kind.
func (r *replayer) next(kind rouse.PartType) (*rouse.Part, error) {
	if err := r.ended(); err != nil {
		return nil, err
	}
	if r.parts >= len(r.a.Message.Parts) {
		return nil, fmt.Errorf("there is no part %d", r.parts)
	}
	p := &r.a.Message.Parts[r.parts]
	if p.Type != kind {
		return nil, fmt.Errorf("part %d is of type %q, not %q", r.parts, p.Type, kind)
	}
	if prev := r.last(); kind != rouse.PartToolCall && kind == prev.Type && prev.Signature == "" {
		return nil, fmt.Errorf("part %d continues the one before it", r.parts)
	}
	r.parts++
	r.signed = false
	return p, nil
}

func (r *replayer) single(kind byte) error {
	switch kind {
	case 's':
		return r.signature()
	case 'c':
		p, err := r.next(rouse.PartToolCall)
		if err != nil {
			return err
		}
		if p.Call == nil {
			return fmt.Errorf("part %d holds no call", r.parts-1)
		}
		r.send(Chunk{Type: ChunkCall, Index: len(r.args), ID: p.Call.ID, Name: p.Call.Name})
		r.args = append(r.args, p.Call.Args)
	default:
		if r.usage {
			return fmt.Errorf("two usages")
		}
		r.usage = true
		r.send(Chunk{Type: ChunkUsage, Usage: r.a.Usage})
	}
	return nil
}

// signature yields the signature of the reasoning that came last, or that of a
// part that has nothing else.
func (r *replayer) signature() error {
	p := r.last()
	if p.Type != rouse.PartReasoning || r.signed {
		next, err := r.next(rouse.PartReasoning)
		if err != nil {
			return err
		}
		if p = next; p.Text != "" {
			return fmt.Errorf("part %d is signed before its text", r.parts-1)
		}
	}
	if r.text != "" || p.Signature == "" {
		return fmt.Errorf("part %d is signed too early or has no signature", r.parts-1)
	}
	r.signed = true
	r.send(Chunk{Type: ChunkSignature, Text: p.Signature})
	return nil
}

// complete checks that all of the answer was yielded.
func (r *replayer) complete() error {
	if err := r.ended(); err != nil {
		return err
	}
	if n := len(r.a.Message.Parts); r.parts != n {
		return fmt.Errorf("%d of %d parts were left out", n-r.parts, n)
	}
	for i, rest := range r.args {
		if rest != "" {
			return fmt.Errorf("the arguments of call %d are left with %d bytes", i, len(rest))
		}
	}
	if !r.usage && r.a.Usage != (rouse.Usage{}) {
		return fmt.Errorf("the usage was left out")
	}
	return nil
}

func (r *replayer) send(c Chunk) {
	if !r.gone && !r.yield(c, nil) {
		r.gone = true
	}
}
