package tool

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

const notKept = "the rest was not kept"

// Bound returns output as a model may be shown it: valid UTF-8 of at most max
// bytes. Every byte that is not part of valid UTF-8 is replaced by U+FFFD.
//
// What is too long keeps its head and its tail, cut between lines or elements
// where one ends nearby and never inside a character; between them stands a
// marker that says how many bytes of how many are left out. Cut reports that
// something was left out. When max is too small for the long marker a short one
// is used, and below that only the head is kept.
func Bound(output []byte, max int) (text string, cut bool) {
	return bound(output, max, notKept)
}

// bound is Bound with a marker that says how to get the rest.
func bound(output []byte, max int, how string) (text string, cut bool) {
	if len(output) == 0 {
		return "", false
	}
	if len(output) <= max {
		if utf8.Valid(output) {
			return string(output), false
		}
		if headLen(output, max) == len(output) {
			return valid(output), false
		}
	}
	for _, f := range [...]func(cut, of int) string{
		func(cut, of int) string {
			return fmt.Sprintf("\n\n[... %d of %d bytes left out here; %s ...]\n\n", cut, of, how)
		},
		func(cut, of int) string { return fmt.Sprintf("[...%d of %d bytes left out...]", cut, of) },
	} {
		room := max - len(f(len(output), len(output)))
		if room < 0 {
			continue
		}
		h := headLen(output, room-room/4)
		t := tailStart(output[h:], room/4) + h
		h, t = boundary(output, h, t)
		return valid(output[:h]) + f(t-h, len(output)) + valid(output[t:]), true
	}
	h := headLen(output, max)
	return valid(output[:h]), true
}

// headLen returns the length of the longest head of b that, after replacement, fits into n.
func headLen(b []byte, n int) int {
	h := 0
	for h < len(b) {
		r, size := utf8.DecodeRune(b[h:])
		n -= shown(r, size)
		if n < 0 {
			break
		}
		h += size
	}
	return h
}

// tailStart returns where the longest tail of b begins that, after replacement, fits into n.
func tailStart(b []byte, n int) int {
	t := len(b)
	for t > 0 {
		r, size := utf8.DecodeLastRune(b[:t])
		n -= shown(r, size)
		if n < 0 {
			break
		}
		t -= size
	}
	return t
}

// shown is the length of a decoded rune after replacement.
func shown(r rune, size int) int {
	if r == utf8.RuneError {
		return len("\ufffd")
	}
	return size
}

// boundary moves the ends of the head and the tail to the end of a line, or of an
// element or a word, when there is one within the last eighth of what is kept.
func boundary(b []byte, h, t int) (int, int) {
	for _, ends := range [...]string{"\n", ",", " "} {
		if i := strings.LastIndexAny(string(b[h-h/8:h]), ends); i >= 0 {
			h = h - h/8 + i + 1
			break
		}
	}
	near := (len(b) - t) / 8
	for _, ends := range [...]string{"\n", ",", " "} {
		if i := strings.IndexAny(string(b[t:t+near]), ends); i >= 0 {
			t += i + 1
			break
		}
	}
	return h, t
}

// valid returns b with every byte that is not part of valid UTF-8 replaced.
func valid(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var s strings.Builder
	s.Grow(len(b))
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		s.WriteRune(r)
		b = b[size:]
	}
	return s.String()
}
