package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/rouse-run/rouse"
)

const weather = `{"type":"object","properties":{"city":{"type":"string","description":"x"},"days":{"type":"integer","minimum":0,"maximum":255},` +
	`"unit":{"type":["string","null"],"enum":["c","f",null]},"at":{"type":"string","format":"date-time"},"tags":{"type":"array","items":{"type":"string"},"maxItems":2},` +
	`"p":{"type":"object","properties":{"x":{"type":"number"},"ok":{"type":"boolean"}},"required":["x"],"additionalProperties":false}},"required":["city"],"additionalProperties":false}`

const recursive = `{"type":"object","properties":{"kids":{"type":"array","items":{"$ref":"#/$defs/n"}}},"$defs":{"n":{"type":"object","properties":{"v":{"type":"integer"},` +
	`"kids":{"type":"array","items":{"$ref":"#/$defs/n"}},"odd":{"type":"string","minLength":2}},"additionalProperties":false}}}`

// schemas of every kind that the fast path may meet, with keywords it must not ignore
var corpus = []string{
	weather, recursive, emptySchema, `{"type":"object"}`,
	`{"type":"object","properties":{"a":true,"b":false}}`,
	`{"type":"object","properties":{"a":{"type":"string","pattern":"^a"},"b":{"type":"integer","multipleOf":3}}}`,
	`{"type":"object","properties":{"a":{"type":"number","minimum":0.5}},"patternProperties":{"^a":{"maximum":1}}}`,
	`{"type":"object","properties":{"a":{"type":"integer"}},"dependentRequired":{"a":["b"]}}`,
	`{"type":"object","properties":{"a":{"type":"array","items":{"type":"integer"},"uniqueItems":true}},"minProperties":1}`,
	`{"type":"object","properties":{"a":{"type":"array","prefixItems":[{"type":"null"}],"items":{"type":"integer"}}}}`,
	`{"type":"object","properties":{"a":{"$ref":"#/properties/a"},"b":{"$ref":"#","maxProperties":1}}}`,
	`{"type":"object","properties":{"a":{"type":"integer"}},"allOf":[{"required":["a"]}]}`,
	`{"type":"object","properties":{"a":{"type":"integer"}},"not":{"required":["a"]},"unevaluatedProperties":false}`,
	`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"a":{"type":"array","items":[{"type":"integer"}]}}}`,
	`{"type":"object","properties":{"a":{"type":"integer","format":"date-time","minimum":-5}},"required":["z"]}`,
}

func compiled(t testing.TB, raw string) *schema {
	t.Helper()
	s, err := compile(json.RawMessage(raw))
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return s
}

// agree checks both readers of arguments against encoding/json and the library.
func agree(t interface {
	Fatalf(string, ...any)
}, s *schema, args []byte,
) {
	lim := Limits{}.withDefaults()
	var lib any
	libErr := errors.New("not JSON")
	if json.Valid(args) {
		var err error
		if lib, err = jsonschema.UnmarshalJSON(bytes.NewReader(args)); err != nil {
			t.Fatalf("%q: %v", args, err)
		}
	}
	v, err := parse(args, lim)
	var f *fault
	switch {
	case err == nil:
		if !json.Valid(args) || !utf8.Valid(args) || !reflect.DeepEqual(v, lib) {
			t.Fatalf("%q was read as %v, the library reads %v", args, v, lib)
		}
		libErr = s.lib.Validate(lib)
	case !errors.As(err, &f):
		t.Fatalf("%q: %v", args, err)
	case json.Valid(args) && utf8.Valid(args) && f.code != rouse.CodeTooLarge && !strings.Contains(f.text, "occurs twice"):
		t.Fatalf("%q is refused: %v", args, err)
	}
	l := lexer{b: args, depth: lim.Depth, number: lim.Number}
	if s.fast != nil && s.fast.accepts(&l) && libErr != nil {
		t.Fatalf("%q is accepted, but: %v\n%s", args, libErr, s.raw)
	}
	got, refused := s.check("t", string(args), lim)
	if refused == nil && libErr != nil && string(got) != "{}" {
		t.Fatalf("%q passed the check, but: %v", args, libErr)
	}
	if refused != nil && libErr == nil && len(args) <= lim.Args {
		if v != nil { // null stands for {}
			t.Fatalf("%q matches, but: %v", args, refused)
		}
	}
}

func FuzzCheck(f *testing.F) {
	for i := range corpus {
		for _, args := range []string{
			`{}`, ``, `null`, `{"a":1}`, `{"city":"x","days":3,"unit":null,"at":"2020-01-02T03:04:05Z","tags":["a"],"p":{"x":-1.5e3,"ok":true}}`,
			`{"kids":[{"v":1,"kids":[{"odd":"a"}]}]}`, `{"a":[1,1]}`, `{"a":"\ud800","a":1}`, `{"city":"\u00e9","days":-0}`, "{\"city\":\"\xff\"}", `{"a":1e400}`,
			strings.Repeat(`{"a":`, 70) + "1" + strings.Repeat("}", 70),
		} {
			f.Add(uint8(i), []byte(args))
		}
	}
	all := make([]*schema, len(corpus))
	for i, raw := range corpus {
		all[i] = compiled(f, raw)
	}
	f.Fuzz(func(t *testing.T, i uint8, args []byte) { agree(t, all[int(i)%len(all)], args) })
}

// The fast path is taken for what typed tools usually are.
func TestFastPathIsTaken(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ schema, args string }{
		{weather, `{"city":"x"}`},
		{weather, ` { "unit" : null , "city" : "a\nb" , "days":255, "at":"2020-01-02T03:04:05Z","tags":[ "a" , "b" ],"p":{"x":1e5,"ok":false}} `},
		{weather, `{"city":"x","tags":[],"unit":"c"}`},
		{recursive, `{"kids":[{"v":1,"kids":[{"v":2,"kids":[]}]}]}`},
		{emptySchema, `{}`},
	} {
		s := compiled(t, tc.schema)
		l := lexer{b: []byte(tc.args), depth: DefaultMaxDepth, number: DefaultMaxNumber}
		if s.fast == nil || !s.fast.accepts(&l) {
			t.Errorf("%s is left to the library", tc.args)
		}
	}
}

// Random schemas, among them keywords that the fast path does not know, and
// values that nearly match them.
func TestFastPathProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		doc := map[string]any{"type": "object", "properties": map[string]any{"a": drawSchema(t, 3), "b": drawSchema(t, 2)}, "$defs": map[string]any{"d": drawSchema(t, 1)}}
		if rapid.Bool().Draw(t, "required") {
			doc["required"] = []string{"a"}
		}
		raw, err := json.Marshal(doc)
		if err != nil {
			t.Fatalf("%v", err)
		}
		s, err := compile(raw)
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		for range 5 {
			agree(t, s, []byte(drawJSON(t, 4, true)))
		}
	})
}

func drawSchema(t *rapid.T, depth int) any {
	s := map[string]any{}
	types := []string{"null", "boolean", "integer", "number", "string", "array", "object"}
	if rapid.IntRange(0, 9).Draw(t, "typed") > 0 {
		s["type"] = rapid.SliceOfNDistinct(rapid.SampledFrom(types), 1, 3, rapid.ID).Draw(t, "types")
	}
	extra := map[string]any{
		"minimum": 1, "maximum": 2, "enum": []any{"x", nil}, "format": "date-time", "minItems": 1, "maxItems": 1, "required": []string{"a"},
		"additionalProperties": false, "description": "d", "minLength": 2, "const": 1, "multipleOf": 2, "pattern": "x", "uniqueItems": true,
		"exclusiveMinimum": 1, "$ref": "#/$defs/d", "not": map[string]any{"type": "string"}, "propertyNames": map[string]any{"maxLength": 0},
		"contains": map[string]any{"type": "null"}, "minProperties": 1, "if": true, "then": false, "contentEncoding": "base64", "maximum2": 1,
		"unevaluatedProperties": false, "anyOf": []any{map[string]any{"type": "integer"}, map[string]any{"type": "object"}},
	}
	for _, k := range rapid.SliceOfN(rapid.SampledFrom(slices.Sorted(maps.Keys(extra))), 0, 2).Draw(t, "keywords") {
		s[k] = extra[k]
	}
	if depth > 0 {
		s["properties"] = map[string]any{"a": drawSchema(t, depth-1), "b": drawSchema(t, 0)}
		s["items"] = drawSchema(t, depth-1)
	}
	return s
}

func drawJSON(t *rapid.T, depth int, object bool) string {
	kind := rapid.IntRange(0, 7).Draw(t, "kind")
	if object {
		kind = 7
	}
	switch {
	case kind == 7 && depth > 0:
		var m []string
		for _, k := range rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "a", "c", `\u0061`}), 0, 2).Draw(t, "names") {
			m = append(m, fmt.Sprintf(`"%s": %s`, k, drawJSON(t, depth-1, false)))
		}
		return "{" + strings.Join(m, " ,") + "}"
	case kind == 6 && depth > 0:
		var a []string
		for range rapid.IntRange(0, 2).Draw(t, "items") {
			a = append(a, drawJSON(t, depth-1, false))
		}
		return "[" + strings.Join(a, ",") + " ]"
	default:
		return rapid.SampledFrom([]string{
			"null", "true", "false", "0", "1", "2", "3", "-1", "1.0", "1.5", "2e0", "1e999", `""`, `"x"`, `"xy"`, `"\u0078"`,
			`"2020-01-02T03:04:05Z"`, "01", "tru", `"\q"`, "\"\xff\"", "9223372036854775808",
		}).Draw(t, "scalar")
	}
}

// The tables of the fast path are complete: a keyword that a new version of the
// library compiles into a new field makes a schema not simple.
func TestSimpleFieldsExist(t *testing.T) {
	t.Parallel()
	for _, name := range simple() {
		if _, ok := reflect.TypeFor[jsonschema.Schema]().FieldByName(name); !ok {
			t.Errorf("the library's Schema has no field %s", name)
		}
	}
}
