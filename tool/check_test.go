package tool_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math/big"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/tool"
)

// raw is a tool written by hand.
type raw struct {
	spec tool.Spec
	call func(context.Context, *tool.Call) (tool.Result, error)
}

func (r *raw) Spec() tool.Spec { return r.spec }

func (r *raw) Call(ctx context.Context, c *tool.Call) (tool.Result, error) {
	if r.call == nil {
		return tool.Result{Output: c.Args}, nil
	}
	return r.call(ctx, c)
}

func mustSet(t testing.TB, ts ...tool.Tool) *tool.Set {
	t.Helper()
	s, err := tool.NewSet(ts...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func named(name, schema string) *raw {
	return &raw{spec: tool.Spec{Name: name, Schema: json.RawMessage(schema)}}
}

// case 2: what stands for "no arguments"
func TestNoArguments(t *testing.T) {
	t.Parallel()
	set := mustSet(t,
		named("none", ""),
		named("needs", `{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`))
	for _, args := range []string{"", " ", "\n\t", "null", " null ", "{}"} {
		got, err := set.Check("none", args)
		if err != nil || string(got) != "{}" {
			t.Errorf("%q: %q %v", args, got, err)
		}
		_, err = set.Check("needs", args)
		if err == nil || err.Code != rouse.CodeInvalid || !strings.Contains(err.Message, `the required property "city" is missing`) || strings.Contains(err.Message, "JSON") {
			t.Errorf("%q: %v", args, err)
		}
	}
	if _, err := set.Check("none", `{"x":1}`); err == nil || !strings.Contains(err.Message, `there is no property "x"`) {
		t.Errorf("unknown property: %v", err)
	}
}

// case 1: malformed arguments name the tool and show its schema
func TestMalformedArguments(t *testing.T) {
	t.Parallel()
	set := mustSet(t, named("fetch_all", `{"type":"object","properties":{"ids":{"type":"array"}}}`))
	for args, want := range map[string]string{
		`{"{"ids":[1`:              "not valid JSON",
		`{"ids":[1`:                "comma or the end of the array is missing",
		`{"ids":[1]} x`:            "something follows",
		`{"ids":[1]}{}`:            "something follows",
		`{"ids":[01]}`:             "comma or the end",
		`{"ids":[1.]}`:             "not a JSON number",
		`{"ids":[1,]}`:             "no JSON value",
		`{"ids":[1],}`:             "a property's name",
		`{"ids" [1]}`:              "a colon is missing",
		`{"ids":["a`:               "ends within a string",
		"{\"ids\":[\"a\nb\"]}":     "not allowed in a JSON string",
		"{\"ids\":[\"\xff\"]}":     "not allowed in a JSON string",
		`{"ids":["\x"]}`:           "not allowed in a JSON string",
		`{"ids":[NaN]}`:            "no JSON value",
		`{"ids":[1],"ids":[2]}`:    `"ids" occurs twice`,
		`{"a":{"b":1,"\u0062":2}}`: `"b" occurs twice`,
		`nul`:                      "no JSON value",
	} {
		_, err := set.Check("fetch_all", args)
		if err == nil || err.Code != rouse.CodeInvalid {
			t.Fatalf("%q: %v", args, err)
		}
		for _, w := range []string{want, `"fetch_all"`} {
			if !strings.Contains(err.Message, w) {
				t.Errorf("%q: %q lacks %q", args, err.Message, w)
			}
		}
		if !strings.Contains(err.Hint, `{"type":"object","properties":{"ids"`) {
			t.Errorf("%q: the hint does not show the schema: %q", args, err.Hint)
		}
	}
}

func TestViolationsAreWrittenForTheModel(t *testing.T) {
	t.Parallel()
	set := mustSet(t, named("t", `{"type":"object","properties":{
		"n":{"type":"integer","minimum":1,"maximum":9007199254740993},"s":{"type":"string","minLength":2,"pattern":"^a"},
		"e":{"enum":["x","y"]},"l":{"type":"array","items":{"type":"object","properties":{"a/b":{"type":"boolean"}}},"maxItems":2},
		"u":{"anyOf":[{"type":"string"},{"type":"null"}]},"d":{"type":"string","format":"date-time"},"c":{"const":3},
		"m":{"multipleOf":0.01},"x":{"type":"number","exclusiveMinimum":0.1}, "p":{"propertyNames":{"maxLength":1}},
		"o":{"oneOf":[{"type":"object","required":["k"]},{"type":"object","required":["j"]}]}},
		"required":["n"],"additionalProperties":false}`))
	for args, want := range map[string]string{
		`{"n":"three"}`:                          `- /n: expected integer, found string "three"`,
		`{"n":1.5}`:                              `- /n: expected integer, found number 1.5`,
		`{"n":0}`:                                `- /n: expected at least 1, found number 0`,
		`{"n":9007199254740994}`:                 `- /n: expected at most 9007199254740993, found number 9007199254740994`,
		`{"n":1,"s":"a"}`:                        `- /s: expected at least 2 characters, found 1`,
		`{"n":1,"s":"ba"}`:                       `- /s: expected a text that matches the pattern "^a", found string "ba"`,
		`{"n":1,"e":"z"}`:                        `- /e: expected one of ["x","y"], found string "z"`,
		`{"n":1,"l":[{},{"a/b":1}]}`:             `- /l/1/a~1b: expected boolean, found number 1`,
		`{"n":1,"l":[{},{},{}]}`:                 `- /l: expected at most 2 items, found 3`,
		`{"n":1,"u":[]}`:                         `- /u: expected string or null, found array`,
		`{"n":1,"d":"today"}`:                    `- /d: expected a text of the format "date-time", found string "today"`,
		`{"n":1,"c":4}`:                          `- /c: expected 3, found number 4`,
		`{"n":1,"m":0.005}`:                      `- /m: expected a multiple of 0.01, found number 0.005`,
		`{"n":1,"x":0.1}`:                        `- /x: expected more than 0.1, found number 0.1`,
		`{"n":1,"zz":1,"aa":2}`:                  `- there is no property "aa", "zz"`,
		`{"n":1,"p":{"long":1}}`:                 `- the property name "long" is not allowed: expected at most 1 characters, found 4`,
		`{"n":1,"o":{}}`:                         `- /o: the required property "j" is missing`,
		`[]`:                                     `- expected object, found array`,
		`"x"`:                                    `- expected object, found string "x"`,
		`{"e":"x"}`:                              `- the required property "n" is missing`,
		`{"n":` + strings.Repeat("9", 500) + `}`: `expected at most 9007199254740993, found number 99999999999`,
	} {
		_, err := set.Check("t", args)
		if err == nil || err.Code != rouse.CodeInvalid || !strings.Contains(err.Message, want) {
			t.Errorf("%s: got %v\nwant %s", args, err, want)
		}
	}
}

func TestLongListsOfViolationsAreCut(t *testing.T) {
	t.Parallel()
	set := mustSet(t, named("t", `{"type":"object","properties":{"l":{"type":"array","items":{"enum":["<",">"]}}}}`))
	_, err := set.Check("t", `{"l":[`+strings.Repeat("1,", 99)+`1]}`)
	if err == nil || !strings.Contains(err.Message, "- and 90 more") || !strings.Contains(err.Message, `/l/0: expected one of ["<",">"], found number 1`) {
		t.Errorf("%v", err)
	}
	if _, err = set.Check("unknown", ""); err == nil || err.Code != rouse.CodeNotFound || !strings.Contains(err.Hint, `"t"`) {
		t.Errorf("%v", err)
	}
}

// What matches the schema and still does not fit into the Go type is refused
// with the place.
func TestValuesThatDoNotFit(t *testing.T) {
	t.Parallel()
	type in struct {
		N []struct {
			I int64 `json:"i"`
		} `json:"n,omitempty"`
		B []byte  `json:"b,omitempty"`
		F float64 `json:"f,omitempty"`
		C color   `json:"c,omitempty"`
	}
	set := setOf[in](t)
	for args, want := range map[string]string{
		`{"n":[{"i":1},{"i":9223372036854775808}]}`: "a number 9223372036854775808 does not fit",
		`{"b":"%%"}`:  "cannot be used: ",
		`{"f":1e400}`: "f: a number 1e400 does not fit",
	} {
		out := set.Invoke(t.Context(), tool.Invocation{Call: rouse.ToolCall{Name: "x", Args: args}})
		if out.Code != rouse.CodeInvalid || !strings.Contains(out.Result.Output, want) {
			t.Errorf("%s: %+v", args, out)
		}
	}
}

// The function of a typed tool is entered only with what the library, asked
// independently, accepts, and integers arrive as they were written.
func FuzzTyped(f *testing.F) {
	type in struct {
		I    int64    `json:"i,omitempty"`
		U    uint8    `json:"u,omitempty"`
		S    string   `json:"s" enum:"a,b"`
		Any  any      `json:"any,omitempty"`
		Kids []*in3   `json:"kids,omitempty"`
		P    *float64 `json:"p,omitempty"`
	}
	var got *in
	tl, err := tool.Func(tool.FuncConfig{Name: "x"}, func(_ context.Context, v in) (string, error) { got = &v; return "", nil })
	if err != nil {
		f.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(tl.Spec().Schema))
	if err != nil {
		f.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err = c.AddResource("x:///y", doc); err != nil {
		f.Fatal(err)
	}
	lib := c.MustCompile("x:///y")
	set := mustSet(f, tl)
	for _, args := range []string{`{"s":"a","i":2.0}`, `{"s":"b","u":255,"kids":[{"n":1},null],"any":1e3,"p":null}`, `{"s":"a","S":"c"}`, `{"s":"a","i":9223372036854775807}`, `{"s":"\u0061"}`} {
		f.Add(args)
	}
	f.Fuzz(func(t *testing.T, args string) {
		got = nil
		out := set.Invoke(t.Context(), tool.Invocation{Call: rouse.ToolCall{Name: "x", Args: args}})
		if (got != nil) != (out.Code == "") || (got != nil) != (out.Attempts == 1 && out.Code == "") {
			t.Fatalf("%+v", out)
		}
		if got == nil {
			return
		}
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(args))
		if err == nil {
			err = lib.Validate(v)
		}
		if err != nil {
			t.Fatalf("entered with %q: %v", args, err)
		}
		obj, _ := v.(map[string]any)
		if n, ok := obj["i"].(json.Number); ok {
			want, _ := new(big.Rat).SetString(string(n))
			if want.Cmp(new(big.Rat).SetInt64(got.I)) != 0 {
				t.Fatalf("%s became %d", n, got.I)
			}
		}
		if n, ok := obj["any"].(json.Number); ok && got.Any != n && got.Any != json.Number(want(n)) {
			t.Fatalf("%s became %v", n, got.Any)
		}
	})
}

// want is a whole number written out, as a second reading may have it.
func want(n json.Number) string {
	r, _ := new(big.Rat).SetString(string(n))
	return r.RatString()
}

type in3 struct {
	N    int    `json:"n"`
	Kids []*in3 `json:"kids,omitempty"`
}

func TestArgumentLimits(t *testing.T) {
	t.Parallel()
	set, err := tool.New(tool.Config{
		Tools:  []tool.Tool{named("t", `{"type":"object"}`), named("typed", `{"type":"object","properties":{"a":{"type":"array","items":{"type":"array","items":{"type":"number"}}}}}`)},
		Limits: tool.Limits{Args: 100, Depth: 2, Number: 10},
	})
	if err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		`{"a":"` + strings.Repeat("x", 100) + `"}`: "max_args (100)",
		`{"a":[[1]]}`:         "max_depth",
		`{"a":1e11}`:          "max_number (10)",
		`{"a":1e-11}`:         "max_number (10)",
		`{"a":12345678901}`:   "max_number (10)",
		`{"a":1e99999999999}`: "max_number (10)",
	} {
		for _, name := range set.Names() {
			_, err := set.Check(name, args)
			if err == nil || err.Code != rouse.CodeTooLarge || !strings.Contains(err.Message, want) {
				t.Errorf("%s %s: %v", name, args, err)
			}
		}
	}
	// the same at the edge
	for _, args := range []string{`{"a":[1]}`, `{"a":1e10}`, `{"a":1234567890}`} {
		if _, err := set.Check("t", args); err != nil {
			t.Errorf("%s: %v", args, err)
		}
	}
	// the defaults stop a number that would take the validator's memory
	if _, err := mustSet(t, named("t", `{"type":"object","properties":{"a":{"minimum":1}}}`)).Check("t", `{"a":1e999999999}`); err == nil {
		t.Error("an enormous exponent was accepted")
	}
	if _, err := tool.New(tool.Config{Limits: tool.Limits{Args: -1, Result: -1}}); err == nil || !strings.Contains(err.Error(), "/limits/args") || !strings.Contains(err.Error(), "/limits/result") {
		t.Errorf("negative limits: %v", err)
	}
}

func TestNumbersKeepTheirDigits(t *testing.T) {
	t.Parallel()
	type in struct {
		I   int64           `json:"i,omitempty"`
		U   uint64          `json:"u,omitempty"`
		Any any             `json:"any,omitempty"`
		M   map[string]any  `json:"m,omitempty"`
		Raw json.RawMessage `json:"raw,omitempty"`
		N   json.Number     `json:"n,omitempty"`
		Big *big.Int        `json:"big,omitempty"`
	}
	echo, err := tool.Func(tool.FuncConfig{Name: "echo"}, func(_ context.Context, v in) (in, error) { return v, nil })
	if err != nil {
		t.Fatal(err)
	}
	set := mustSet(t, echo)
	for args, want := range map[string]string{
		`{"i":9007199254740993}`:                     "",
		`{"u":18446744073709551615}`:                 "",
		`{"any":9007199254740993}`:                   "",
		`{"any":[0.10,1.0e5]}`:                       "",
		`{"m":{"a":{"b":12345678901234567890.123}}}`: "",
		`{"raw":{"x":1.000}}`:                        "",
		`{"n":0.1000000000000000000001}`:             "",
		`{"big":123456789012345678901234567890}`:     "",
		`{"i":2.0}`:                                  `{"i":2}`,
		`{"i":9.007199254740993e15}`:                 `{"i":9007199254740993}`,
		`{"i":-2e3,"n":2.0}`:                         `{"i":-2000,"n":2}`,
	} {
		out := set.Invoke(t.Context(), tool.Invocation{Call: rouse.ToolCall{Name: "echo", Args: args}})
		if want == "" {
			want = args
		}
		if out.Result.Output != want {
			t.Errorf("%s became %s", args, out.Result.Output)
		}
	}
	for _, args := range []string{`{"i":9223372036854775808}`, `{"i":1e30}`, `{"u":-1}`, `{"i":1.5}`, `{"i":1e1000}`} {
		out := set.Invoke(t.Context(), tool.Invocation{Call: rouse.ToolCall{Name: "echo", Args: args}})
		if out.Code != rouse.CodeInvalid {
			t.Errorf("%s was accepted: %+v", args, out.Result)
		}
	}
}

// A typed tool checks its arguments itself when it is called without a set, or
// through a wrapper that has changed them.
func TestFuncNeverSeesUncheckedArguments(t *testing.T) {
	t.Parallel()
	type in struct {
		Unit string `json:"unit" enum:"c,f"`
	}
	entered := ""
	fn, err := tool.Func(tool.FuncConfig{Name: "f"}, func(_ context.Context, v in) (string, error) { entered += v.Unit; return "", nil })
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{`{"unit":"k"}`, `{"UNIT":"k","unit":"c"}`, `{"Unit":"c"}`, `{"unit":"c","unit":"k"}`, `{}`, ``, `{"unit":"c"} ` + "\x00"} {
		if _, err := fn.Call(t.Context(), &tool.Call{Args: json.RawMessage(args)}); rouse.CodeOf(err) != rouse.CodeInvalid {
			t.Errorf("%q: %v", args, err)
		}
	}
	rewriting := &raw{spec: tool.Spec{Name: "w"}, call: func(ctx context.Context, c *tool.Call) (tool.Result, error) {
		d := *c
		d.Args = json.RawMessage(`{"unit":"k"}`)
		return fn.Call(ctx, &d)
	}}
	loose := &raw{spec: tool.Spec{Name: "loose", Schema: json.RawMessage(`{"type":"object"}`)}, call: fn.Call}
	set := mustSet(t, rewriting, loose)
	for _, c := range []rouse.ToolCall{{Name: "w"}, {Name: "loose", Args: `{"unit":"k"}`}} {
		if out := set.Invoke(t.Context(), tool.Invocation{Call: c}); out.Code != rouse.CodeInvalid {
			t.Errorf("%+v: %+v", c, out)
		}
	}
	if entered != "" {
		t.Errorf("the function was entered with %q", entered)
	}
}

func TestNewSetReportsEveryProblem(t *testing.T) {
	t.Parallel()
	bad := func(edit func(*tool.Spec)) *raw {
		r := named("ok", "")
		edit(&r.spec)
		return r
	}
	panics := specPanics{}
	_, err := tool.NewSet(
		nil,
		named("", ""),
		named("dup", ""), named("dup", ""), named("Dup", ""),
		named("notobject", `{"type":"string"}`),
		named("untyped", `{}`),
		named("broken", `{"type":`),
		named("twice", `{"type":"object","type":"object"}`),
		named("badkey", `{"type":"object","properties":{"a":{"type":"strin"}}}`),
		named("badpattern", `{"type":"object","properties":{"a":{"pattern":"("}}}`),
		named("http", `{"type":"object","properties":{"a":{"$ref":"http://127.0.0.1:1/x.json"}}}`),
		named("file", `{"type":"object","properties":{"a":{"$ref":"file:///etc/passwd"}}}`),
		named("relative", `{"type":"object","$ref":"other.json"}`),
		named("dangling", `{"type":"object","$ref":"#/$defs/none"}`),
		named("metaschema", `{"$schema":"http://127.0.0.1:1/meta","type":"object"}`),
		named("huge", `{"type":"object","description":"`+strings.Repeat("x", tool.MaxSchema)+`"}`),
		bad(func(s *tool.Spec) { s.Name, s.Retries = "retried", 1 }),
		bad(func(s *tool.Spec) { s.Name, s.Retries = "negative", -1 }),
		bad(func(s *tool.Spec) { s.Name, s.MaxOutput = "output", -1 }),
		bad(func(s *tool.Spec) { s.Name, s.Effect = "effect", "sometimes" }),
		bad(func(s *tool.Spec) { s.Name = "utf8\xff" }),
		panics,
	)
	if rouse.CodeOf(err) != rouse.CodeInvalid {
		t.Fatal(err)
	}
	for _, want := range []string{
		"tool 0 (\"\"): the tool is nil", "tool 1 (\"\"): /name: must not be empty", `tool 3 ("dup"): /name: another tool has the same name`,
		`("notobject"): /schema: /type: the schema's type must be "object"`, `("untyped"): /schema: /type`, `("broken"): /schema`,
		`("twice"): /schema: the schema is not usable JSON: the property "type" occurs twice`,
		`("badkey"): /schema: the schema is not valid: /properties/a/type:`, `("badpattern"): /schema: the schema is not valid: /properties/a/pattern`,
		`("http"): /schema: the schema does not compile`, `("file"): /schema`, `("relative"): /schema`, `("dangling"): /schema`, `("metaschema"): /schema`,
		`("huge"): /schema: the schema has`, "max_schema",
		`("retried"): /retries: an Unsafe tool`, `("negative"): /retries: must not`, `("output"): /max_output`, `("effect"): /effect`, "valid UTF-8", "panicked",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), `"Dup"`) {
		t.Error("two names that differ in case are two tools")
	}
}

type specPanics struct{ tool.Tool }

func (specPanics) Spec() tool.Spec { panic("no spec") }

func TestSetIsImmutable(t *testing.T) {
	t.Parallel()
	a := mustSet(t, named("a", ""), named("A", ""))
	b, err := a.With(named("b", ""))
	if err != nil {
		t.Fatal(err)
	}
	c := b.Without("a", "nobody")
	a.Names()[0] = "changed"
	for set, want := range map[*tool.Set]string{a: "a A", b: "a A b", c: "A b", {}: ""} {
		if got := strings.Join(set.Names(), " "); got != want {
			t.Errorf("got %q want %q", got, want)
		}
	}
	if _, err = a.With(named("A", "")); rouse.CodeOf(err) != rouse.CodeInvalid {
		t.Errorf("a repeated name: %v", err)
	}
	if _, ok := c.Lookup("a"); ok {
		t.Error("a is still there")
	}
	got, ok := c.Lookup("A")
	if !ok || got.Spec().Name != "A" {
		t.Error("A is not there")
	}
	for _, s := range b.Specs() {
		if !json.Valid(s.Schema) {
			t.Errorf("%s has the schema %q", s.Name, s.Schema)
		}
	}
	if s, ok := b.Spec("b"); !ok || s.Name != "b" || len(s.Schema) == 0 {
		t.Errorf("%+v %v", s, ok)
	}
	if _, ok := b.Spec("nobody"); ok {
		t.Error("a spec of nobody")
	}
	zero := tool.Set{}
	if out := zero.Invoke(t.Context(), tool.Invocation{Call: rouse.ToolCall{Name: "x"}}); out.Code != rouse.CodeNotFound || !strings.Contains(out.Result.Output, "no tools") {
		t.Errorf("%+v", out)
	}
}

func TestFuncRefusesBadConfig(t *testing.T) {
	t.Parallel()
	fn := func(context.Context, struct{}) (string, error) { return "", nil }
	for _, c := range []tool.FuncConfig{{}, {Name: "x", Retries: 1}, {Name: "x", MaxOutput: -1}, {Name: "x", Effect: "no"}} {
		if _, err := tool.Func(c, fn); rouse.CodeOf(err) != rouse.CodeInvalid {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if _, err := tool.Func[struct{}, string](tool.FuncConfig{Name: "x"}, nil); rouse.CodeOf(err) != rouse.CodeInvalid {
		t.Errorf("nil: %v", err)
	}
	if _, err := tool.FuncCall[struct{}, string](tool.FuncConfig{Name: "x"}, nil); rouse.CodeOf(err) != rouse.CodeInvalid {
		t.Errorf("nil: %v", err)
	}
}

func TestResultsAreEncoded(t *testing.T) {
	t.Parallel()
	results := []any{
		"plain <b>", []byte("bytes"), json.RawMessage(`{"a":1.10}`), tool.Text("result"), map[string]any{"html": "<&>", "n": json.Number("1.10")}, 7, nil,
	}
	want := []string{"plain <b>", "bytes", `{"a":1.10}`, "result", `{"html":"<&>","n":1.10}`, "7", "null"}
	for i, r := range results {
		f, err := tool.Func(tool.FuncConfig{Name: "x"}, func(context.Context, struct{}) (any, error) { return r, nil })
		if err != nil {
			t.Fatal(err)
		}
		got, err := f.Call(t.Context(), &tool.Call{})
		if err != nil || string(got.Output) != want[i] {
			t.Errorf("%v: %q %v", r, got.Output, err)
		}
	}
	f, err := tool.Func(tool.FuncConfig{Name: "x"}, func(context.Context, struct{}) (any, error) { return make(chan int), nil })
	if err != nil {
		t.Fatal(err)
	}
	var ue *json.UnsupportedTypeError
	if _, err = f.Call(t.Context(), &tool.Call{}); rouse.CodeOf(err) != rouse.CodeToolFailed || !errors.As(err, &ue) {
		t.Errorf("%v", err)
	}
}
