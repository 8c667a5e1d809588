package tooltest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// generator makes values that mostly match a JSON Schema: it follows the keywords
// that schemas of arguments commonly have and ignores others, so what it makes
// is checked before it is used.
type generator struct {
	root map[string]any
	rand *rand.Rand
}

func newGenerator(schema []byte, r *rand.Rand) (*generator, error) {
	g := &generator{rand: r}
	d := json.NewDecoder(bytes.NewReader(schema))
	d.UseNumber()
	if err := d.Decode(&g.root); err != nil {
		return nil, fmt.Errorf("read the schema: %w", err)
	}
	return g, nil
}

// args returns a JSON text for the whole schema.
func (g *generator) args() string {
	b, err := json.Marshal(g.value(g.root, 0))
	if err != nil {
		return "{}" // every value is made of JSON
	}
	return string(b)
}

const maxDepth = 6

func (g *generator) value(schema any, depth int) any {
	s, _ := schema.(map[string]any)
	s = g.resolve(s, 0)
	if v, ok := s["const"]; ok {
		return v
	}
	if list, ok := s["enum"].([]any); ok && len(list) > 0 {
		return pick(g, list)
	}
	switch g.kind(s, depth) {
	case "null":
		return nil
	case "boolean":
		return g.rand.IntN(2) == 0
	case "integer":
		return g.number(s, []json.Number{"0", "1", "-1", "7", "255", "9007199254740993", "-9223372036854775808", "2.0", "1e3"})
	case "number":
		return g.number(s, []json.Number{"0", "-1", "0.1", "1e-9", "1.5e300", "9007199254740993", "0.30000000000000004"})
	case "string":
		return g.text(s)
	case "array":
		return g.list(s, depth)
	default:
		return g.object(s, depth)
	}
}

// resolve follows references and takes one way through alternatives.
func (g *generator) resolve(s map[string]any, hops int) map[string]any {
	if hops > maxDepth {
		return s
	}
	var more []any
	if ref, ok := s["$ref"].(string); ok {
		more = append(more, g.at(ref))
	}
	for _, k := range []string{"anyOf", "oneOf"} {
		if list, ok := s[k].([]any); ok && len(list) > 0 {
			more = append(more, pick(g, list))
		}
	}
	if list, ok := s["allOf"].([]any); ok {
		more = append(more, list...)
	}
	if len(more) == 0 {
		return s
	}
	out := maps.Clone(s)
	for _, m := range more {
		if sub, ok := m.(map[string]any); ok {
			maps.Copy(out, g.resolve(sub, hops+1))
		}
	}
	return out
}

// at returns the part of the schema that a reference within it names.
func (g *generator) at(ref string) any {
	var v any = g.root
	for tok := range strings.SplitSeq(strings.TrimPrefix(ref, "#"), "/") {
		if tok == "" {
			continue
		}
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[strings.ReplaceAll(strings.ReplaceAll(tok, "~1", "/"), "~0", "~")]
	}
	return v
}

func (g *generator) kind(s map[string]any, depth int) string {
	kinds := []any{"null", "boolean", "integer", "number", "string", "array", "object"}
	switch t := s["type"].(type) {
	case string:
		return t
	case []any:
		kinds = t
	default:
		if s["properties"] != nil {
			return "object"
		}
		if depth > maxDepth {
			return "null"
		}
	}
	if depth > maxDepth && slices.Contains(kinds, any("null")) {
		return "null"
	}
	k, _ := pick(g, kinds).(string)
	return k
}

func (g *generator) number(s map[string]any, some []json.Number) json.Number {
	for _, k := range []string{"minimum", "maximum"} {
		if n, ok := s[k].(json.Number); ok {
			some = append(some, n, n)
		}
	}
	return pick(g, some)
}

func (g *generator) text(s map[string]any) string {
	switch s["format"] {
	case "date-time":
		return pick(g, []string{"2006-01-02T15:04:05Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999+14:00"})
	case "date":
		return "2024-02-29"
	case "uri":
		return "https://example.com/a?b=%20#c"
	case "email":
		return "a@example.com"
	}
	if s["contentEncoding"] == "base64" {
		return pick(g, []string{"", "AA==", "////"})
	}
	text := pick(g, []string{"", "a", "0", "true", "2s", "漢字🙂", "\"\\\n\t\x00\u2028", "../../etc/passwd", "<script>", strings.Repeat("long ", 500)})
	for n := count(s["minLength"]); len([]rune(text)) < n; {
		text += "x"
	}
	return text
}

// count reads a small number of a keyword, 0 when there is none.
func count(v any) int {
	n, _ := v.(json.Number)
	i, err := n.Int64()
	if err != nil || i < 0 || i > 1000 {
		return 0
	}
	return int(i)
}

func (g *generator) list(s map[string]any, depth int) []any {
	n := count(s["minItems"])
	if depth < maxDepth {
		n += g.rand.IntN(3)
	}
	if s["maxItems"] != nil {
		n = min(n, count(s["maxItems"]))
	}
	out := make([]any, n)
	for i := range out {
		out[i] = g.value(s["items"], depth+1)
	}
	return out
}

func (g *generator) object(s map[string]any, depth int) map[string]any {
	props, _ := s["properties"].(map[string]any)
	required, _ := s["required"].([]any)
	out := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(props)) {
		if slices.Contains(required, any(name)) || depth < maxDepth && g.rand.IntN(2) == 0 {
			out[name] = g.value(props[name], depth+1)
		}
	}
	if more, closed := s["additionalProperties"]; more != false && depth < maxDepth && g.rand.IntN(3) == 0 {
		if !closed {
			more = map[string]any{}
		}
		out[pick(g, []string{"", "extra", "漢"})] = g.value(more, depth+1)
	}
	return out
}

func pick[T any](g *generator, list []T) T { return list[g.rand.IntN(len(list))] }
