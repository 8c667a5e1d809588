package openai

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

// maxDepth is how deep the parser follows nested values it skips; deeper ones
// are left to encoding/json.
const maxDepth = 64

// parser walks JSON without allocating. It accepts a strict subset of RFC 8259
// and of what encoding/json accepts: whatever is outside sets bad, which is
// sticky and means "ask encoding/json", not "wrong".
type parser struct {
	b     []byte
	i     int
	first bool // the container just opened has no member yet
	bad   bool
	// from and to are where the last string that str read lies, quotes included.
	from, to int
}

func (p *parser) fail() { p.bad, p.i = true, len(p.b) }

// peek returns the next byte that is not white space, 0 at the end.
func (p *parser) peek() byte {
	for p.i < len(p.b) {
		switch c := p.b[p.i]; c {
		case ' ', '\t', '\n', '\r':
			p.i++
		default:
			return c
		}
	}
	return 0
}

// open consumes c, the beginning of an object or array.
func (p *parser) open(c byte) {
	if p.peek() != c {
		p.fail()
		return
	}
	p.i++
	p.first = true
}

// more moves to the next member of the innermost container, which end closes.
func (p *parser) more(end byte) bool {
	c := p.peek()
	first := p.first
	p.first = false
	switch {
	case p.bad:
		return false
	case c == end:
		p.i++
		return false
	case first:
		return true
	case c == ',':
		p.i++
		return true
	}
	p.fail()
	return false
}

// key consumes the name of a member and its colon. Names with escapes or beyond
// ASCII are not for this parser.
func (p *parser) key() []byte {
	raw, plain := p.str()
	if !plain || p.peek() != ':' {
		p.fail()
		return nil
	}
	p.i++
	return raw
}

// null consumes null if it comes next.
func (p *parser) null() bool {
	if p.peek() != 'n' {
		return false
	}
	p.word("null")
	return !p.bad
}

func (p *parser) word(w string) {
	if len(p.b)-p.i < len(w) || string(p.b[p.i:p.i+len(w)]) != w {
		p.fail()
		return
	}
	p.i += len(w)
}

// str consumes a string and returns what is between its quotes, and whether
// that is ASCII without escapes.
func (p *parser) str() (raw []byte, plain bool) {
	if p.peek() != '"' {
		p.fail()
		return nil, false
	}
	start := p.i + 1
	plain = true
	for j := start; j < len(p.b); j++ {
		switch c := p.b[j]; {
		case c == '"':
			p.from, p.to = p.i, j+1
			p.i = j + 1
			return p.b[start:j], plain
		case c == '\\':
			plain = false
			j++
		case c < ' ':
			p.fail()
			return nil, false
		case c >= utf8.RuneSelf:
			plain = false
		}
	}
	p.fail()
	return nil, false
}

// text consumes a string and appends its value to dst.
func (p *parser) text(dst []byte) []byte {
	raw, plain := p.str()
	if plain {
		return append(dst, raw...)
	}
	if !utf8.Valid(raw) {
		p.fail()
		return dst
	}
	dst, ok := unescape(dst, raw)
	if !ok {
		p.fail()
	}
	return dst
}

// unescape appends s, the inside of a JSON string, to dst. Unpaired surrogates
// are refused.
func unescape(dst, s []byte) ([]byte, bool) {
	for {
		i := bytes.IndexByte(s, '\\')
		if i < 0 {
			return append(dst, s...), true
		}
		dst = append(dst, s[:i]...)
		if i++; i == len(s) {
			return dst, false
		}
		switch s[i] {
		case '"', '\\', '/':
			dst = append(dst, s[i])
		case 'n':
			dst = append(dst, '\n')
		case 't':
			dst = append(dst, '\t')
		case 'r':
			dst = append(dst, '\r')
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'u':
			r, n := unicodeEscape(s[i+1:])
			if n == 0 {
				return dst, false
			}
			dst = utf8.AppendRune(dst, r)
			i += n
		default:
			return dst, false
		}
		s = s[i+1:]
	}
}

// unicodeEscape reads what follows "\u", a surrogate pair whole, and returns how
// many bytes that was; 0 when it is not one whole character.
func unicodeEscape(s []byte) (rune, int) {
	hi, ok := hex4(s)
	if !ok {
		return 0, 0
	}
	if hi < 0xd800 || hi > 0xdfff {
		return hi, 4
	}
	if hi >= 0xdc00 || len(s) < 10 || s[4] != '\\' || s[5] != 'u' {
		return 0, 0
	}
	lo, ok := hex4(s[6:])
	if !ok || lo < 0xdc00 || lo > 0xdfff {
		return 0, 0
	}
	return (hi-0xd800)<<10 + (lo - 0xdc00) + 0x10000, 10
}

func hex4(s []byte) (rune, bool) {
	if len(s) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range s[:4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// int consumes a whole number of at most 15 digits that is not negative.
func (p *parser) int() int64 {
	p.peek()
	start := p.i
	p.number()
	digits := p.b[min(start, p.i):p.i]
	if p.bad || len(digits) > 15 {
		p.fail()
		return 0
	}
	n, err := strconv.ParseUint(string(digits), 10, 62)
	if err != nil {
		p.fail()
		return 0
	}
	return int64(n) //nolint:gosec // 62 bits were asked for
}

func (p *parser) number() {
	p.accept('-')
	if !p.accept('0') && !p.digits() {
		p.fail()
		return
	}
	if p.accept('.') && !p.digits() {
		p.fail()
		return
	}
	if p.accept('e') || p.accept('E') {
		_ = p.accept('+') || p.accept('-')
		if !p.digits() {
			p.fail()
		}
	}
}

func (p *parser) accept(c byte) bool {
	if p.i < len(p.b) && p.b[p.i] == c {
		p.i++
		return true
	}
	return false
}

func (p *parser) digits() bool {
	start := p.i
	for p.i < len(p.b) && '0' <= p.b[p.i] && p.b[p.i] <= '9' {
		p.i++
	}
	return p.i > start
}

// skip consumes any value, checking it.
func (p *parser) skip() { p.skipValue(0) }

func (p *parser) skipValue(depth int) {
	if depth > maxDepth {
		p.fail()
		return
	}
	switch c := p.peek(); c {
	case '"':
		p.skipString()
	case '{':
		for p.open('{'); p.more('}'); {
			p.skipString()
			if p.peek() != ':' {
				p.fail()
				return
			}
			p.i++
			p.skipValue(depth + 1)
		}
	case '[':
		for p.open('['); p.more(']'); {
			p.skipValue(depth + 1)
		}
	case 't':
		p.word("true")
	case 'f':
		p.word("false")
	case 'n':
		p.word("null")
	default:
		p.number()
	}
}

func (p *parser) skipString() {
	raw, plain := p.str()
	for i := 0; !plain && i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		i++
		switch raw[i] {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		case 'u':
			if _, ok := hex4(raw[i+1:]); !ok {
				p.fail()
				return
			}
		default:
			p.fail()
			return
		}
	}
}

// done reports whether all of the input was one value that this parser takes.
func (p *parser) done() bool {
	return p.peek() == 0 && p.i == len(p.b) && !p.bad
}
