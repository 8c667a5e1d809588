package model

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const (
	wireNameMax  = 64
	wireMark     = "-x-" // between the readable part of a made name and its hash
	wireHashSize = 10    // bytes, twice as many hexadecimal digits
	wireReadable = wireNameMax - len(wireMark) - 2*wireHashSize
)

// WireName returns the name under which a tool goes over a wire that accepts
// only ^[a-zA-Z0-9_-]{1,64}$. A name that fits is returned as it is; any other
// becomes a readable beginning, "-x-" and a hash of the whole name. A name that
// fits but looks like a made one is treated like one that does not, so two
// different names never share a wire name. The result depends on name alone;
// whoever sends it keeps the way back for the tools of the request.
func WireName(name string) string {
	if wireSafe(name) && !wireMade(name) {
		return name
	}
	var b strings.Builder
	b.Grow(wireNameMax)
	gap := false
	for i := 0; i < len(name) && b.Len() < wireReadable-1; i++ {
		if !wireByte(name[i]) {
			gap = true
			continue
		}
		if c := name[i]; b.Len() == 0 && (c == '-' || '0' <= c && c <= '9') {
			gap = true // some providers want a letter or an underscore in front
		}
		if gap {
			b.WriteByte('_')
			gap = false
		}
		b.WriteByte(name[i])
	}
	if b.Len() == 0 {
		b.WriteString("tool")
	}
	sum := sha256.Sum256([]byte(name))
	b.WriteString(wireMark)
	b.WriteString(hex.EncodeToString(sum[:wireHashSize]))
	return b.String()
}

func wireByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

func wireSafe(name string) bool {
	if name == "" || len(name) > wireNameMax {
		return false
	}
	for i := range len(name) {
		if !wireByte(name[i]) {
			return false
		}
	}
	return true
}

// wireMade reports whether name has the form of a made name.
func wireMade(name string) bool {
	at := len(name) - len(wireMark) - 2*wireHashSize
	if at < 0 || name[at:at+len(wireMark)] != wireMark {
		return false
	}
	for _, c := range []byte(name[at+len(wireMark):]) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
