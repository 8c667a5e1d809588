package tuned

import (
	"bytes"
	"encoding/json"
)

// decoder walks a JSON text once without allocating. After the first mistake
// bad is set, every loop ends and every value is empty. It checks no more than
// it needs to find its way.
type decoder struct {
	b   []byte
	i   int
	bad bool
}

// peek returns the next byte that is not white space, 0 at the end.
func (d *decoder) peek() byte {
	for ; d.i < len(d.b); d.i++ {
		switch c := d.b[d.i]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// enter steps into an object or array and reports whether it has an element.
// Any other value (null) is skipped.
func (d *decoder) enter(open, end byte) bool {
	if d.peek() != open {
		d.skip()
		return false
	}
	d.i++
	if d.peek() == end {
		d.i++
		return false
	}
	return !d.bad
}

// more steps behind a value and reports whether another one follows.
func (d *decoder) more(end byte) bool {
	switch c := d.peek(); {
	case d.bad:
		return false
	case c == ',':
		d.i++
		return true
	case c == end:
		d.i++
		return false
	}
	d.bad = true
	return false
}

// key reads a member's name and the colon behind it.
func (d *decoder) key() []byte {
	k, _ := d.raw()
	if d.peek() != ':' {
		d.bad = true
		return nil
	}
	d.i++
	return k
}

// raw returns the bytes between the quotation marks of a string and whether
// they hold an escape.
func (d *decoder) raw() (s []byte, escaped bool) {
	if d.peek() != '"' {
		d.bad = true
		return nil, false
	}
	start := d.i + 1
	for j := start; ; {
		k := bytes.IndexByte(d.b[j:], '"')
		if k < 0 {
			d.bad = true
			return nil, false
		}
		j += k
		n := 0 // backslashes before the mark
		for j-n > start && d.b[j-n-1] == '\\' {
			n++
		}
		if n%2 == 0 {
			s = d.b[start:j]
			d.i = j + 1
			return s, escaped || bytes.IndexByte(s, '\\') >= 0
		}
		escaped = true
		j++
	}
}

// text appends the string at the cursor to dst; null appends nothing.
func (d *decoder) text(dst []byte) []byte {
	if d.peek() != '"' {
		d.skip()
		return dst
	}
	start := d.i
	s, escaped := d.raw()
	if !escaped {
		return append(dst, s...)
	}
	return d.unescape(dst, s, start)
}

// unescape handles the escapes that are frequent in arguments; a string with
// any other one is left to encoding/json.
func (d *decoder) unescape(dst, s []byte, start int) []byte {
	n := len(dst)
	for {
		k := bytes.IndexByte(s, '\\')
		if k < 0 {
			return append(dst, s...)
		}
		dst = append(dst, s[:k]...)
		switch c := s[k+1]; c {
		case '"', '\\', '/':
			dst = append(dst, c)
		case 'n':
			dst = append(dst, '\n')
		default:
			var v string
			if json.Unmarshal(d.b[start:d.i], &v) != nil {
				d.bad = true
			}
			return append(dst[:n], v...)
		}
		s = s[k+2:]
	}
}

// int reads a whole number from 0 to limit.
func (d *decoder) int(limit int) int {
	d.peek()
	start := d.i
	d.skip()
	n := 0
	for _, c := range d.b[start:d.i] {
		if c < '0' || c > '9' || n > limit {
			d.bad = true
			return 0
		}
		n = n*10 + int(c-'0')
	}
	if n > limit {
		d.bad = true
		return 0
	}
	return n
}

// skip steps over one value.
func (d *decoder) skip() {
	depth := 0
	for {
		switch d.peek() {
		case '"':
			d.raw()
		case '{', '[':
			depth++
			d.i++
		case '}', ']':
			depth--
			d.i++
		case ',', ':':
			d.i++
			continue // within an object or array: a value follows
		case 0:
			d.bad = true
		default:
			d.literal()
		}
		if depth <= 0 || d.bad {
			d.bad = d.bad || depth < 0
			return
		}
	}
}

// literal steps over a number, true, false or null.
func (d *decoder) literal() {
	for d.i < len(d.b) {
		switch d.b[d.i] {
		case ',', ':', '}', ']', '{', '[', '"', ' ', '\t', '\n', '\r':
			return
		}
		d.i++
	}
}
