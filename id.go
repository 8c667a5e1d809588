package rouse

import (
	crand "crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"time"
)

// Clock tells the time. Times that are stored come from one, so that a test or
// a replay can supply its own.
type Clock interface{ Now() time.Time }

// IDs makes identifiers of things that are stored.
type IDs interface{ NewID() string }

// SystemClock is the machine's clock.
type SystemClock struct{}

// Now returns time.Now.
func (SystemClock) Now() time.Time { return time.Now() }

// Stamp returns t as it is stored: UTC, whole milliseconds, no monotonic reading.
func Stamp(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// UUIDv7 returns the UUID of version 7 (RFC 9562, section 5.7) with the
// milliseconds of t and the random bits of r; the version and variant bits of r
// are overwritten.
func UUIDv7(t time.Time, r [10]byte) string {
	var u [16]byte
	ms := uint64(t.UnixMilli()) //nolint:gosec // the 48 low bits are what RFC 9562 asks for
	for i := range 6 {
		u[i] = byte(ms >> (40 - 8*i))
	}
	copy(u[6:], r[:])
	u[6] = u[6]&0x0f | 0x70
	u[8] = u[8]&0x3f | 0x80
	var b [36]byte
	hex.Encode(b[0:8], u[0:4])
	b[8], b[13], b[18], b[23] = '-', '-', '-', '-'
	hex.Encode(b[9:13], u[4:6])
	hex.Encode(b[14:18], u[6:8])
	hex.Encode(b[19:23], u[8:10])
	hex.Encode(b[24:36], u[10:16])
	return string(b[:])
}

// SystemRand is the machine's cryptographic source of random numbers, as a
// rand.Source. It never fails.
type SystemRand struct{}

// Uint64 returns 64 random bits.
func (SystemRand) Uint64() uint64 {
	var b [8]byte
	_, _ = crand.Read(b[:]) // documented to never return an error
	return binary.LittleEndian.Uint64(b[:])
}

// NewIDs returns an IDs that makes UUIDs of version 7 from a clock and a source
// of randomness. Nil means SystemClock and SystemRand. It is as safe for
// concurrent use as the two are; the defaults are.
func NewIDs(c Clock, random rand.Source) IDs {
	if c == nil {
		c = SystemClock{}
	}
	if random == nil {
		random = SystemRand{}
	}
	return &uuids{c, random}
}

type uuids struct {
	clock  Clock
	random rand.Source
}

func (u *uuids) NewID() string {
	var r [10]byte
	binary.LittleEndian.PutUint64(r[:8], u.random.Uint64())
	binary.LittleEndian.PutUint16(r[8:], uint16(u.random.Uint64())) //nolint:gosec // 16 random bits are wanted
	return UUIDv7(u.clock.Now(), r)
}
