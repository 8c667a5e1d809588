package rouse_test

import (
	"encoding/hex"
	"math"
	"math/rand/v2"
	"regexp"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rouse-run/rouse"
)

// layout is RFC 9562, section 4 (the text form) with the version 7 and the
// variant 10.
var layout = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// The example of RFC 9562, appendix A.6.
func TestUUIDv7Example(t *testing.T) {
	t.Parallel()
	r := [10]byte{0x0c, 0xc3, 0x18, 0xc4, 0xdc, 0x0c, 0x0c, 0x07, 0x39, 0x8f}
	at := time.Date(2022, 2, 22, 14, 22, 22, 0, time.FixedZone("", -5*60*60))
	if got, want := rouse.UUIDv7(at, r), "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestUUIDv7Layout(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.Int64Range(0, 1<<48-1).Draw(t, "ms")
		var r [10]byte
		copy(r[:], rapid.SliceOfN(rapid.Byte(), 10, 10).Draw(t, "random"))
		id := rouse.UUIDv7(time.UnixMilli(ms), r)
		if !layout.MatchString(id) {
			t.Fatalf("%s is no UUID of version 7", id)
		}
		b, err := hex.DecodeString(strings.ReplaceAll(id, "-", ""))
		if err != nil {
			t.Fatal(err)
		}
		var got int64
		for _, x := range b[:6] {
			got = got<<8 | int64(x)
		}
		if got != ms {
			t.Fatalf("the time is %d, not %d", got, ms)
		}
		// 74 bits are those of r, in their places.
		for i, x := range b[6:] {
			keep := byte(0xff)
			switch i {
			case 0:
				keep = 0x0f
			case 2:
				keep = 0x3f
			}
			if x&keep != r[i]&keep {
				t.Fatalf("random byte %d is %x, not %x", i, x, r[i])
			}
		}
	})
}

// A later millisecond sorts later as text, whatever the random bits are.
func TestUUIDv7Sorts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.Int64Range(0, 1<<48-2).Draw(t, "a")
		b := rapid.Int64Range(a+1, 1<<48-1).Draw(t, "b")
		high, low := [10]byte{}, [10]byte{}
		for i := range high {
			high[i] = math.MaxUint8
		}
		if x, y := rouse.UUIDv7(time.UnixMilli(a), high), rouse.UUIDv7(time.UnixMilli(b), low); x >= y {
			t.Fatalf("%s of %d does not sort before %s of %d", x, a, y, b)
		}
	})
}

// ticking is a clock that goes on by a millisecond each time it is looked at.
type ticking struct{ at time.Time }

func (c *ticking) Now() time.Time {
	c.at = c.at.Add(time.Millisecond)
	return c.at
}

func TestIDsAreTheirSources(t *testing.T) {
	t.Parallel()
	draw := func(seed uint64) (ids []string) {
		gen := rouse.NewIDs(&ticking{time.UnixMilli(1_700_000_000_000)}, rand.NewPCG(seed, 1))
		for range 1000 {
			ids = append(ids, gen.NewID())
		}
		return ids
	}
	a, same, other := draw(1), draw(1), draw(2)
	if !sort.StringsAreSorted(a) {
		t.Error("ids of later times do not sort later")
	}
	seen := map[string]bool{}
	for i, id := range a {
		if id != same[i] {
			t.Fatalf("id %d differs although clock and seed are the same: %s, %s", i, id, same[i])
		}
		if id == other[i] || id[:13] != other[i][:13] {
			t.Fatalf("id %d: %s and, of another seed at the same time, %s", i, id, other[i])
		}
		if seen[id] || !layout.MatchString(id) {
			t.Fatalf("id %d: %s", i, id)
		}
		seen[id] = true
	}
}

func TestIDsOfTheSystem(t *testing.T) {
	t.Parallel()
	gen := rouse.NewIDs(nil, nil)
	const crowd, each = 8, 200
	from := rouse.UUIDv7(time.Now(), [10]byte{})[:13]
	ids := make([][]string, crowd)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			for range each {
				ids[i] = append(ids[i], gen.NewID())
			}
		})
	}
	wg.Wait()
	to := rouse.UUIDv7(time.Now(), [10]byte{})[:13]
	seen := map[string]bool{}
	for _, of := range ids {
		for _, id := range of {
			if seen[id] || !layout.MatchString(id) || id[:13] < from || id[:13] > to {
				t.Fatalf("%s, between %s and %s", id, from, to)
			}
			seen[id] = true
		}
	}
	if len(seen) != crowd*each {
		t.Errorf("%d ids", len(seen))
	}
}

func TestStamp(t *testing.T) {
	t.Parallel()
	in := time.Date(2026, 1, 2, 3, 4, 5, 678_999_999, time.FixedZone("", 3600))
	if got, want := rouse.Stamp(in), time.Date(2026, 1, 2, 2, 4, 5, 678_000_000, time.UTC); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := rouse.Stamp(rouse.SystemClock{}.Now()); strings.Contains(got.String(), "m=") || got.Location() != time.UTC {
		t.Errorf("a stored time holds a monotonic reading or a zone: %v", got)
	}
}
