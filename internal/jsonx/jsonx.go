// Package jsonx appends JSON to byte slices without reflection, for the paths
// that run once per event.
package jsonx

import (
	"strconv"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// plain tells which ASCII bytes stand for themselves within a JSON string.
var plain = func() (t [utf8.RuneSelf]bool) {
	for c := range t {
		t[c] = c >= 0x20 && c != '"' && c != '\\' && c != 0x7f
	}
	t[0x7f] = true
	return t
}()

// AppendString appends s as a JSON string (RFC 8259): control characters,
// quotes and backslashes escaped, U+2028 and U+2029 too, and every byte that is
// not part of valid UTF-8 replaced by U+FFFD. HTML characters are left alone.
func AppendString[S string | []byte](b []byte, s S) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			if plain[c] {
				i++
				continue
			}
			b = append(b, s[start:i]...)
			b = appendEscape(b, c)
			i++
			start = i
			continue
		}
		n := min(len(s)-i, utf8.UTFMax)
		r, size := utf8.DecodeRuneInString(string(s[i : i+n]))
		switch {
		case r == utf8.RuneError && size == 1:
			b = append(append(b, s[start:i]...), "\ufffd"...)
		case r == '\u2028' || r == '\u2029':
			b = append(append(b, s[start:i]...), `\u202`...)
			b = append(b, hexDigits[r&0xf])
		default:
			i += size
			continue
		}
		i += size
		start = i
	}
	return append(append(b, s[start:]...), '"')
}

func appendEscape(b []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\n':
		return append(b, '\\', 'n')
	case '\r':
		return append(b, '\\', 'r')
	case '\t':
		return append(b, '\\', 't')
	case '\b':
		return append(b, '\\', 'b')
	case '\f':
		return append(b, '\\', 'f')
	default:
		return append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
	}
}

// Object appends the members of a JSON object one after the other. Begin with
// Open, end with Close.
type Object struct {
	B     []byte
	first bool
}

// Open begins an object at the end of b.
func Open(b []byte) Object { return Object{B: append(b, '{'), first: true} }

// Close ends the object and returns the buffer.
func (o *Object) Close() []byte { return append(o.B, '}') }

// Key appends a member's name, which must not need escaping.
func (o *Object) Key(k string) {
	if !o.first {
		o.B = append(o.B, ',')
	}
	o.first = false
	o.B = append(append(append(o.B, '"'), k...), '"', ':')
}

// String appends a string member; an empty one is left out.
func (o *Object) String(k, v string) {
	if v != "" {
		o.Key(k)
		o.B = AppendString(o.B, v)
	}
}

// Int appends an integer member; zero is left out.
func (o *Object) Int(k string, v int64) {
	if v != 0 {
		o.Key(k)
		o.B = strconv.AppendInt(o.B, v, 10)
	}
}

// Bool appends a boolean member; false is left out.
func (o *Object) Bool(k string, v bool) {
	if v {
		o.Key(k)
		o.B = append(o.B, "true"...)
	}
}

// Raw appends a member that is JSON already; an empty one is left out.
func (o *Object) Raw(k string, v []byte) {
	if len(v) > 0 {
		o.Key(k)
		o.B = append(o.B, v...)
	}
}
