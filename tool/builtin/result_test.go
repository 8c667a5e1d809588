package builtin_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/tool/builtin"
)

type blobs map[string]string

func (b blobs) Blob(_ context.Context, ref string) ([]byte, error) {
	if ref == "broken" {
		return nil, errors.New("disk on fire")
	}
	if s, ok := b[ref]; ok {
		return []byte(s), nil
	}
	return nil, &rouse.Error{Code: rouse.CodeNotFound, Message: "no blob"}
}

func TestReadResult(t *testing.T) {
	t.Parallel()
	r := builtin.ReadResult(blobs{"a": "häuser", "empty": "", "big": strings.Repeat("x", 100_000), "bin": "a\xffb"})
	for _, c := range []struct {
		args m
		want string
	}{
		{m{"ref": "a"}, "häuser\n[bytes 0 to 7 of 7]\n"},
		{m{"ref": "a", "limit": 2}, "h\n[bytes 0 to 1 of 7; read on with offset 1]\n"},
		{m{"ref": "a", "offset": 1, "limit": 1}, "ä\n[bytes 1 to 3 of 7; read on with offset 3]\n"},
		{m{"ref": "a", "offset": 2, "limit": 3}, "äu\n[bytes 1 to 4 of 7; read on with offset 4]\n"},
		{m{"ref": "empty"}, "\n[bytes 0 to 0 of 0]\n"},
		{m{"ref": "bin"}, "a\uFFFDb\n[bytes 0 to 3 of 3; invalid UTF-8 is shown as \uFFFD]\n"},
	} {
		if got := call(t, r, c.args); got != c.want {
			t.Errorf("%v: got %q, want %q", c.args, got, c.want)
		}
	}
	wantIn(t, call(t, r, m{"ref": "big"}), "[bytes 0 to 16384 of 100000; read on with offset 16384]")
	wantIn(t, refused(t, r, m{"ref": "none"}, rouse.CodeNotFound).Message, "none")
	refused(t, r, m{"ref": "broken"}, rouse.CodeInternal)
	wantIn(t, refused(t, r, m{"ref": "a", "offset": 7}, rouse.CodeInvalid).Message, "7 bytes")
	refused(t, r, m{"ref": ""}, rouse.CodeInvalid)
	refused(t, r, m{"ref": strings.Repeat("r", 2000)}, rouse.CodeInvalid)
	refused(t, r, m{"ref": "a", "offset": -1}, rouse.CodeInvalid)
	refused(t, r, m{"ref": "a", "limit": 1 << 20}, rouse.CodeInvalid)
}

// Reading on gives every byte once, whatever the limit.
func TestReadResultReadsOn(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.StringMatching(`[a-zä€😀]{1,60}`).Draw(rt, "text")
		limit := rapid.IntRange(1, 9).Draw(rt, "limit")
		r := builtin.ReadResult(blobs{"x": text})
		got := ""
		for offset, more := 0, true; more; {
			out, err := callWith(context.Background(), t, r, m{"ref": "x", "offset": offset, "limit": limit}, nil)
			if err != nil {
				rt.Fatal(err)
			}
			i := strings.LastIndex(out, "\n[bytes ")
			got += out[:i]
			var on string
			if _, on, more = strings.Cut(out[i:], "offset "); more {
				if _, err := fmt.Sscanf(on, "%d", &offset); err != nil {
					rt.Fatal(err)
				}
			}
		}
		if got != text {
			rt.Fatalf("got %q, want %q", got, text)
		}
	})
}
