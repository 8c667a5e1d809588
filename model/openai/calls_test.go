package openai_test

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/model/openai"
	"pgregory.net/rapid"
)

// toolDelta is one delta as a server may write it.
type toolDelta struct {
	Index    any    `json:"index,omitempty"`
	ID       string `json:"id,omitempty"`
	Function struct {
		Name string `json:"name,omitempty"`
		Args string `json:"arguments"`
	} `json:"function"`
}

// However a server cuts and interleaves the arguments of its calls, as long as
// it says in one way or another which call a piece belongs to, each call gets its
// own arguments and nothing of another one's.
func TestCallsAreNeverMixed(t *testing.T) {
	t.Parallel()
	var body string
	m := newModel(t, openai.Config{Transport: canned{body: func() io.Reader { return strings.NewReader(body) }}})
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(rt, "calls")
		style := rapid.SampledFrom([]string{"index", "index as text", "id", "id and name", "one index", "nothing"}).Draw(rt, "style")
		interleaved := style != "one index" && style != "nothing"
		var want []rouse.ToolCall
		rest := make([][]toolDelta, n)
		for i := range n {
			c := rouse.ToolCall{ID: fmt.Sprint("id", i), Name: rapid.SampledFrom([]string{"f", "g"}).Draw(rt, "name"), Args: fmt.Sprintf(`{"call":%d,"text":%q}`, i, rapid.StringMatching(`[a-z{}:"]{0,12}`).Draw(rt, "text"))}
			want = append(want, c)
			text := c.Args
			for k := 0; k == 0 || text != ""; k++ {
				cut := rapid.IntRange(0, len(text)).Draw(rt, "cut")
				var d toolDelta
				d.Function.Args, text = text[:cut], text[cut:]
				if k == 0 || style == "id and name" {
					d.Function.Name = c.Name
				}
				if k == 0 || style == "id" || style == "id and name" {
					d.ID = c.ID
				}
				switch style {
				case "index":
					d.Index = json.Number(fmt.Sprint(i))
				case "index as text":
					d.Index = fmt.Sprint(i)
				case "one index":
					d.Index = json.Number("0")
				}
				rest[i] = append(rest[i], d)
			}
		}
		var list []toolDelta
		for i := range rest { // calls begin in order
			list, rest[i] = append(list, rest[i][0]), rest[i][1:]
			for !interleaved && len(rest[i]) > 0 {
				list, rest[i] = append(list, rest[i][0]), rest[i][1:]
			}
		}
		for left := true; left; {
			left = false
			i := rapid.IntRange(0, n-1).Draw(rt, "next")
			if len(rest[i]) > 0 {
				list, rest[i] = append(list, rest[i][0]), rest[i][1:]
			}
			for _, r := range rest {
				left = left || len(r) > 0
			}
		}
		body = ""
		for len(list) > 0 {
			k := rapid.IntRange(1, len(list)).Draw(rt, "together")
			b, err := json.Marshal(map[string]any{"tool_calls": list[:k]})
			if err != nil {
				rt.Fatal(err)
			}
			body += delta(string(b))
			list = list[k:]
		}
		body += finish("tool_calls") + done
		if g := collect(t, m, t.Context(), hello()); g.err != nil || fmt.Sprintf("%q", g.calls) != fmt.Sprintf("%q", want) {
			rt.Fatalf("%s: got %q %v\nwant %q\n%s", style, g.calls, g.err, want, body)
		}
	})
}
