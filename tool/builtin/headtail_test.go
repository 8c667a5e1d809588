package builtin

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// Whatever the limit and the sizes of the writes are, the first and the last
// half are kept, and the remark counts the rest.
func TestHeadTail(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		h := headTail{most: rapid.IntRange(1, 20).Draw(rt, "most")}
		var all []byte
		for _, p := range rapid.SliceOfN(rapid.SliceOfN(rapid.ByteRange('a', 'z'), 0, 25), 0, 8).Draw(rt, "writes") {
			h.write(p)
			all = append(all, p...)
		}
		want := string(all)
		if left := len(all) - h.most; left > 0 {
			head, tail := h.most-h.most/2, h.most/2
			want = fmt.Sprintf("%s\n[%d bytes left out]\n%s", all[:head], left, all[len(all)-tail:])
		}
		if got := string(h.bytes()); got != want {
			rt.Fatalf("got %q, want %q", got, want)
		}
		if len(h.head)+len(h.tail) > h.most {
			rt.Fatalf("%d bytes kept", len(h.head)+len(h.tail))
		}
	})
}
