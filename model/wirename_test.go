package model_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/rouse-run/rouse/model"
	"pgregory.net/rapid"
)

var wireShape = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// Case 10 (mastra #6302, github/copilot-cli #1879, xorbitsai/xagent PR #1342):
// names that providers refuse become stable, distinct, legal ones.
func TestWireName(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("p", 70)
	names := []string{
		"plain", "Plain", "with-dash_9", strings.Repeat("n", 64),
		"a.b", "a/b", "a b", "a_b", "读文件", "读文档", "", ".", "..", "9lives.", "-x", "-x-",
		long + "aaaaaaaaaa", long + "bbbbbbbbbb", strings.Repeat("n", 65),
		"server1/search", "server2/search", "search\x00", "search\xff",
	}
	for _, n := range names {
		names = append(names, model.WireName(n), model.WireName(model.WireName(n)))
	}
	seen := map[string]string{}
	for _, n := range names {
		w := model.WireName(n)
		if !wireShape.MatchString(w) {
			t.Errorf("%q became %q", n, w)
		}
		if other, ok := seen[w]; ok && other != n {
			t.Errorf("%q and %q share %q", n, other, w)
		}
		seen[w] = n
		if w != model.WireName(n) {
			t.Errorf("%q is not stable", n)
		}
	}
	for _, n := range []string{"plain", "Plain", "with-dash_9", strings.Repeat("n", 64), "mcp__github__search", "-x"} {
		if model.WireName(n) != n {
			t.Errorf("%q became %q", n, model.WireName(n))
		}
	}
}

func TestWireNamesStayDistinct(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		gen := rapid.OneOf(rapid.StringMatching(`[a-c./ _-]{0,4}`), rapid.String(), rapid.StringMatching(`[a-z]{60,70}`))
		a, b := gen.Draw(t, "a"), gen.Draw(t, "b")
		for range rapid.IntRange(0, 2).Draw(t, "wrapped") {
			b = model.WireName(b)
		}
		wa, wb := model.WireName(a), model.WireName(b)
		if !wireShape.MatchString(wa) || !wireShape.MatchString(wb) || (wa == wb) != (a == b) {
			t.Fatalf("%q -> %q, %q -> %q", a, wa, b, wb)
		}
	})
}

func ExampleWireName() {
	fmt.Println(model.WireName("read_file"))
	fmt.Println(model.WireName("files.read/all"))
	// Output:
	// read_file
	// files_read_all-x-c4acc06c0601e81d7784
}
