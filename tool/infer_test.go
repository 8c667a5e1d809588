package tool_test

import (
	"context"
	"encoding/json"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/rouse-run/rouse/tool"
)

// mk makes a tool that does nothing and returns its schema or the refusal.
func mk[In any](t *testing.T) (string, error) {
	t.Helper()
	tl, err := tool.Func(tool.FuncConfig{Name: "x"}, func(context.Context, In) (string, error) { return "ok", nil })
	if err != nil {
		return "", err
	}
	if _, err := tool.NewSet(tl); err != nil {
		t.Fatalf("a tool that Func made is refused by NewSet: %v", err)
	}
	return string(tl.Spec().Schema), nil
}

type base struct {
	ID string `json:"id" jsonschema:"who it is"`
}

type Opt struct {
	Note string `json:"note"`
}

type tree struct {
	Name string  `json:"name"`
	Kids []*tree `json:"kids,omitempty"`
	Next *tree   `json:"next,omitzero"`
}

type ping struct {
	Pong *pong `json:"pong,omitempty"`
}

type pong struct {
	Pings map[string]ping `json:"pings,omitempty"`
}

type list []list

type color string

func (c *color) UnmarshalText(b []byte) error { *c = color(b); return nil }

type hidden struct{ A, B int }

// case 9: nullable and odd types
func TestInfer(t *testing.T) {
	t.Parallel()
	type odd struct {
		base
		*Opt
		P     *string            `json:"p"`
		Ps    []*int8            `json:"ps"`
		M     map[string]int     `json:"m,omitempty"`
		Raw   json.RawMessage    `json:"raw,omitempty"`
		Any   any                `json:"any,omitempty"`
		When  time.Time          `json:"when"`
		Maybe *time.Time         `json:"maybe,omitzero"`
		Data  []byte             `json:"data,omitempty"`
		Unit  string             `json:"unit" enum:"c, f"`
		Units []string           `json:"units,omitempty" enum:"c,f"`
		Level *int               `json:"level,omitempty" enum:"1,2"`
		N     json.Number        `json:"n,omitempty"`
		Big   *big.Int           `json:"big,omitempty"`
		Col   color              `json:"col,omitempty"`
		Arr   [2]bool            `json:"arr,omitempty"`
		Q     int64              `json:"q,string,omitempty"`
		Named hidden             `json:"named,omitzero"`
		F     float64            `json:"f,omitempty"`
		Fs    map[string]float32 `json:"fs,omitempty"`
		Skip  chan int           `json:"-"`
		inner func()             //nolint:unused // shows that unexported fields do not matter
		Plain uint16
	}
	got, err := mk[odd](t)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"type":"object","properties":{` +
		`"id":{"type":"string","description":"who it is"},` +
		`"note":{"type":"string"},` +
		`"p":{"type":["string","null"]},` +
		`"ps":{"type":"array","items":{"type":["integer","null"],"minimum":-128,"maximum":127}},` +
		`"m":{"type":"object","additionalProperties":{"type":"integer"}},` +
		`"raw":true,"any":true,` +
		`"when":{"type":"string","format":"date-time"},` +
		`"maybe":{"type":["string","null"],"format":"date-time"},` +
		`"data":{"type":"string","contentEncoding":"base64"},` +
		`"unit":{"type":"string","enum":["c","f"]},` +
		`"units":{"type":"array","items":{"type":"string","enum":["c","f"]}},` +
		`"level":{"type":["integer","null"],"enum":[1,2,null]},` +
		`"n":{"type":"number"},"big":{"type":["integer","null"]},"col":{"type":"string"},` +
		`"arr":{"type":"array","items":{"type":"boolean"},"minItems":2,"maxItems":2},` +
		`"q":{"type":"string","pattern":"^-?(0|[1-9][0-9]*)$"},` +
		`"named":{"type":"object","properties":{"A":{"type":"integer"},"B":{"type":"integer"}},"required":["A","B"],"additionalProperties":false},` +
		`"f":{"type":"number"},"fs":{"type":"object","additionalProperties":{"type":"number"}},` +
		`"Plain":{"type":"integer","minimum":0,"maximum":65535}},` +
		`"required":["id","p","ps","when","unit","Plain"],"additionalProperties":false}`
	same(t, got, want)
}

func TestInferRecursive(t *testing.T) {
	t.Parallel()
	got, err := mk[tree](t)
	if err != nil {
		t.Fatal(err)
	}
	node := `"type":"object","properties":{"name":{"type":"string"},` +
		`"kids":{"type":"array","items":{"anyOf":[{"$ref":"#/$defs/tree"},{"type":"null"}]}},` +
		`"next":{"anyOf":[{"$ref":"#/$defs/tree"},{"type":"null"}]}},"required":["name"],"additionalProperties":false`
	same(t, got, `{`+node+`,"$defs":{"tree":{`+node+`}}}`)

	type holder struct {
		L list  `json:"l"`
		P *ping `json:"p"`
	}
	if _, err = mk[holder](t); err != nil {
		t.Fatal(err)
	}
	set := setOf[holder](t)
	for args, ok := range map[string]bool{
		`{"l":[[],[[]]],"p":{"pong":{"pings":{"a":{"pong":null}}}}}`: true,
		`{"l":[[],[[1]]],"p":null}`:                                  false,
		`{"l":[],"p":{"pong":{"pings":{"a":{"pong":3}}}}}`:           false,
	} {
		if _, err := set.Check("x", args); (err == nil) != ok {
			t.Errorf("%s: %v", args, err)
		}
	}
}

type cyclicPointer *cyclicPointer

func TestInferRefuses(t *testing.T) {
	t.Parallel()
	type deep struct {
		List []struct {
			Ch chan int `json:"ch"`
		} `json:"list"`
	}
	type unsettable struct{ *hidden }
	for name, tc := range map[string]struct {
		make func(*testing.T) (string, error)
		want string
	}{
		"channel":          {mk[deep], "tool_test.deep.List[].Ch: chan int"},
		"func":             {mk[struct{ F func() }], ".F: func()"},
		"complex":          {mk[struct{ C complex128 }], ".C: complex128"},
		"map keys":         {mk[struct{ M map[int]string }], ".M: a map with keys of type int"},
		"interface":        {mk[struct{ E error }], ".E: the interface error"},
		"pointer cycle":    {mk[struct{ P cyclicPointer }], ".P: a chain of more than"},
		"embedded pointer": {mk[unsettable], "hidden: a pointer to an embedded unexported struct"},
		"malformed tag": {mk[struct {
			A int `json:"bad\"name"` //nolint:staticcheck // malformed on purpose
		}], ".A: the name in the json tag"},
		"string root": {mk[string], "must be a struct or a map"},
		"list root":   {mk[[]int], "must be a struct or a map"},
		"any root":    {mk[any], "must be a struct or a map"},
		"time root":   {mk[time.Time], "must be a struct or a map"},
		"option as text": {mk[struct {
			A int `jsonschema:"minimum=3"`
		}], "WORD="},
		"enum of bool": {mk[struct {
			A bool `enum:"true"`
		}], "enum is for strings and integers"},
		"enum of words for int": {mk[struct {
			A int `enum:"1,two"`
		}], "not a whole number"},
		"empty enum": {mk[struct {
			A string `enum:"a,,b"`
		}], "empty value"},
	} {
		_, err := tc.make(t)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q in it", name, err, tc.want)
		}
	}
	_, err := tool.Func(tool.FuncConfig{Name: "x"}, func(context.Context, struct{}) (map[string][]chan int, error) { return nil, nil })
	if err == nil || !strings.Contains(err.Error(), "{}[]: chan int") {
		t.Errorf("a result that cannot be encoded: %v", err)
	}
}

// What encoding/json writes for a type has to match the type's schema, whatever
// the rules for embedded and shadowed fields say.
func TestInferAgreesWithEncodingJSON(t *testing.T) {
	t.Parallel()
	type A struct{ X, Y int }
	type B struct {
		X int
		Z string `json:"z"`
	}
	type Tagged struct {
		X string `json:"X"`
	}
	type shadow struct {
		A
		B
		Y string
	}
	type tagWins struct {
		A
		Tagged
	}
	type named struct {
		A `json:"a"`
		B `json:",omitempty"`
	}
	type twice struct {
		A
		In   struct{ A } `json:"in"`
		Dash int         `json:"-,"` //nolint:staticcheck // the name is "-", as encoding/json documents
	}
	agrees(t, shadow{A: A{1, 2}, B: B{3, "z"}, Y: "y"})
	agrees(t, tagWins{A: A{1, 2}, Tagged: Tagged{"x"}})
	agrees(t, named{A: A{1, 2}})
	agrees(t, twice{})
	type quoted struct {
		I  int8     `json:"i,string"`
		U  uint64   `json:"u,string"`
		B  bool     `json:"b,string"`
		F  float64  `json:"f,string"`
		S  string   `json:"s,string"`
		P  *int     `json:"p,string"`
		Np *int     `json:"np,string"`
		L  []string `json:"l,string"` //nolint:staticcheck // encoding/json ignores the option here
	}
	n := -7
	agrees(t, quoted{-1, 1 << 63, true, 1.5e-300, "a\"\nb", &n, nil, []string{"x"}})
	agrees(t, tree{Name: "r", Kids: []*tree{{Name: "k"}, nil}, Next: &tree{Name: "n"}})
	agrees(t, map[string]A{"k": {}})
}

func agrees[In any](t *testing.T, v In) {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var got In
	tl, err := tool.Func(tool.FuncConfig{Name: "x"}, func(_ context.Context, in In) (string, error) { got = in; return "", nil })
	if err != nil {
		t.Fatal(err)
	}
	if _, err = tl.Call(t.Context(), &tool.Call{Args: b}); err != nil {
		t.Fatalf("%s does not match %s: %v", b, tl.Spec().Schema, err)
	}
	back, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	same(t, string(back), string(b))
}

func setOf[In any](t testing.TB) *tool.Set {
	t.Helper()
	tl, err := tool.Func(tool.FuncConfig{Name: "x"}, func(context.Context, In) (string, error) { return "ok", nil })
	if err != nil {
		t.Fatal(err)
	}
	s, err := tool.NewSet(tl)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// same compares two JSON texts.
func same(t *testing.T, got, want string) {
	t.Helper()
	var g, w any
	if err := json.Unmarshal([]byte(got), &g); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatal(err)
	}
	gb, _ := json.Marshal(g)
	wb, _ := json.Marshal(w)
	if string(gb) != string(wb) {
		t.Fatalf("got  %s\nwant %s", gb, wb)
	}
}
