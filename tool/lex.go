package tool

import (
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/rouse-run/rouse"
)

// lexer reads the tokens of one JSON text (RFC 8259) strictly: valid UTF-8 only,
// nothing after the value, bounded depth and bounded numbers.
type lexer struct {
	b     []byte
	i     int
	depth int // levels that may still be entered
	// number bounds the length of a number and the value of its exponent. Without
	// it a dozen bytes could ask for arbitrary-precision work of any size.
	number int
}

// fault says why a text is refused. An empty code means CodeInvalid.
type fault struct {
	code rouse.Code
	text string
	at   int
}

func (f *fault) Error() string { return fmt.Sprintf("%s (at byte %d)", f.text, f.at) }

func (l *lexer) fault(format string, args ...any) error {
	return &fault{text: fmt.Sprintf(format, args...), at: l.i}
}

// space skips white space and returns the next byte, 0 at the end.
func (l *lexer) space() byte {
	for ; l.i < len(l.b); l.i++ {
		switch c := l.b[l.i]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// next consumes c after white space and reports whether it was there.
func (l *lexer) next(c byte) bool {
	if l.space() != c || l.i >= len(l.b) {
		return false
	}
	l.i++
	return true
}

// literal consumes the word w and reports whether it was there.
func (l *lexer) literal(w string) bool {
	if len(l.b)-l.i < len(w) || string(l.b[l.i:l.i+len(w)]) != w {
		return false
	}
	l.i += len(w)
	return true
}

// str consumes a string, which begins at the current byte, and returns what lies
// between its quotes and whether that has escapes. After !ok, i is the bad byte.
func (l *lexer) str() (raw []byte, escaped, ok bool) {
	if l.i >= len(l.b) || l.b[l.i] != '"' {
		return nil, false, false
	}
	l.i++
	start := l.i
	for l.i < len(l.b) {
		c := l.b[l.i]
		switch {
		case c == '"':
			l.i++
			return l.b[start : l.i-1], escaped, true
		case c == '\\':
			n := escapeLen(l.b[l.i:])
			if n == 0 {
				return nil, false, false
			}
			escaped = true
			l.i += n
		case c < ' ':
			return nil, false, false
		case c < utf8.RuneSelf:
			l.i++
		default:
			r, n := utf8.DecodeRune(l.b[l.i:])
			if r == utf8.RuneError && n == 1 {
				return nil, false, false
			}
			l.i += n
		}
	}
	return nil, false, false
}

// escapeLen returns the length of the escape sequence at the start of b, 0 for none.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(b) < 6 {
			return 0
		}
		for _, c := range b[2:6] {
			if !('0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F') {
				return 0
			}
		}
		return 6
	}
	return 0
}

// digits consumes decimal digits and returns how many.
func (l *lexer) digits() int {
	start := l.i
	for l.i < len(l.b) && '0' <= l.b[l.i] && l.b[l.i] <= '9' {
		l.i++
	}
	return l.i - start
}

func (l *lexer) peek() byte {
	if l.i < len(l.b) {
		return l.b[l.i]
	}
	return 0
}

// num consumes a number. whole reports that it has neither point nor exponent;
// big that it is longer than the limit or its exponent is larger than it.
func (l *lexer) num() (raw []byte, whole, big, ok bool) {
	start := l.i
	if l.peek() == '-' {
		l.i++
	}
	if l.peek() == '0' {
		l.i++
	} else if l.digits() == 0 {
		return nil, false, false, false
	}
	whole = true
	if l.peek() == '.' {
		l.i++
		whole = false
		if l.digits() == 0 {
			return nil, false, false, false
		}
	}
	if c := l.peek(); c == 'e' || c == 'E' {
		l.i++
		whole = false
		if c := l.peek(); c == '+' || c == '-' {
			l.i++
		}
		from := l.i
		if l.digits() == 0 {
			return nil, false, false, false
		}
		exp, err := strconv.Atoi(string(l.b[from:l.i]))
		big = err != nil || exp > l.number
	}
	raw = l.b[start:l.i]
	return raw, whole, big || len(raw) > l.number, true
}

// parse reads data into maps, slices, strings, json.Number, bool and nil. It
// refuses what encoding/json lets pass and two readers may understand
// differently: names that occur twice in one object and invalid UTF-8.
func parse(data []byte, lim Limits) (any, error) {
	l := lexer{b: data, depth: lim.Depth, number: lim.Number}
	v, err := l.value()
	if err != nil {
		return nil, err
	}
	if l.space(); l.i < len(l.b) {
		return nil, l.fault("something follows the JSON value")
	}
	return v, nil
}

func (l *lexer) value() (any, error) {
	switch c := l.space(); {
	case c == '{':
		return l.object()
	case c == '[':
		return l.array()
	case c == '"':
		return l.text()
	case c == '-' || '0' <= c && c <= '9':
		raw, _, big, ok := l.num()
		if !ok {
			return nil, l.fault("this is not a JSON number")
		}
		if big {
			return nil, &fault{rouse.CodeTooLarge, fmt.Sprintf("a number has more digits or a larger exponent than the limit max_number (%d) allows", l.number), l.i}
		}
		return json.Number(raw), nil
	case l.literal("true"):
		return true, nil
	case l.literal("false"):
		return false, nil
	case l.literal("null"):
		return nil, nil
	case l.i >= len(l.b):
		return nil, l.fault("the JSON text ends too early")
	default:
		return nil, l.fault("no JSON value begins here")
	}
}

func (l *lexer) text() (string, error) {
	from := l.i
	raw, escaped, ok := l.str()
	if !ok {
		if l.i >= len(l.b) {
			return "", l.fault("the JSON text ends within a string")
		}
		return "", l.fault("this byte is not allowed in a JSON string")
	}
	if !escaped {
		return string(raw), nil
	}
	var s string
	if err := json.Unmarshal(l.b[from:l.i], &s); err != nil {
		return "", l.fault("the string cannot be read: %v", err)
	}
	return s, nil
}

func (l *lexer) enter() error {
	if l.depth <= 0 {
		return &fault{rouse.CodeTooLarge, "the value is nested deeper than the limit max_depth allows", l.i}
	}
	l.depth--
	l.i++
	return nil
}

func (l *lexer) object() (any, error) {
	if err := l.enter(); err != nil {
		return nil, err
	}
	m := map[string]any{}
	for first := true; !l.next('}'); first = false {
		if !first && !l.next(',') {
			return nil, l.fault("a comma or the end of the object is missing")
		}
		if l.space() != '"' {
			return nil, l.fault("a property's name in double quotes is missing")
		}
		name, err := l.text()
		if err != nil {
			return nil, err
		}
		if _, twice := m[name]; twice {
			return nil, l.fault("the property %s occurs twice in one object", quote(name))
		}
		if !l.next(':') {
			return nil, l.fault("a colon is missing after the name %s", quote(name))
		}
		v, err := l.value()
		if err != nil {
			return nil, err
		}
		m[name] = v
	}
	l.depth++
	return m, nil
}

func (l *lexer) array() (any, error) {
	if err := l.enter(); err != nil {
		return nil, err
	}
	a := []any{}
	for first := true; !l.next(']'); first = false {
		if !first && !l.next(',') {
			return nil, l.fault("a comma or the end of the array is missing")
		}
		v, err := l.value()
		if err != nil {
			return nil, err
		}
		a = append(a, v)
	}
	l.depth++
	return a, nil
}
