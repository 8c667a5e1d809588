package tool

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/rouse-run/rouse"
)

// emptySchema is the schema of a tool that gives none.
const emptySchema = `{"type":"object","properties":{},"additionalProperties":false}`

// schema is a compiled schema of arguments. It is immutable.
type schema struct {
	raw  json.RawMessage
	lib  *jsonschema.Schema
	fast *node // nil: every text goes through lib
}

// checked is the proof that arguments match a schema: it belongs to exactly
// these bytes.
type checked struct {
	by   *schema
	args []byte
}

// holds reports whether args is the very slice that s has accepted.
func (c *checked) holds(s *schema, args []byte) bool {
	return c.by == s && s != nil && len(args) > 0 && len(args) == len(c.args) && &args[0] == &c.args[0]
}

// noLoader refuses every document that a schema refers to outside of itself.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, errors.New("a schema may refer to its own parts only")
}

// compile checks and compiles raw. Nothing is ever loaded from a file or a
// network: a $ref that leads out of the document is an error. The keyword format
// is asserted.
func compile(raw json.RawMessage) (*schema, error) {
	if len(raw) == 0 {
		raw = json.RawMessage(emptySchema)
	}
	if len(raw) > MaxSchema {
		return nil, fmt.Errorf("the schema has %d bytes, more than the limit max_schema (%d)", len(raw), MaxSchema)
	}
	doc, err := parse(raw, Limits{}.withDefaults())
	if err != nil {
		return nil, fmt.Errorf("the schema is not usable JSON: %w", err)
	}
	obj, ok := doc.(map[string]any)
	if !ok {
		return nil, errors.New("the schema is not a JSON object")
	}
	if !typeIsObject(obj["type"]) {
		return nil, errors.New(`/type: the schema's type must be "object"`)
	}
	const url = "rouse:///arguments" // hierarchical, so that a relative $ref leads elsewhere
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{})
	c.AssertFormat()
	if err := c.AddResource(url, doc); err != nil {
		return nil, fmt.Errorf("the schema cannot be read: %w", err)
	}
	lib, err := c.Compile(url)
	if err != nil {
		return nil, compileError(err, doc)
	}
	return &schema{raw: raw, lib: lib, fast: newNode(lib)}, nil
}

func typeIsObject(t any) bool {
	if list, ok := t.([]any); ok && len(list) == 1 {
		t = list[0]
	}
	return t == "object"
}

// compileError names the place in the schema for the common kinds of failure.
func compileError(err error, doc any) error {
	var sv *jsonschema.SchemaValidationError
	var ve *jsonschema.ValidationError
	if errors.As(err, &sv) && errors.As(sv.Err, &ve) {
		list := problems(ve, doc)
		errs := make([]error, len(list))
		for i, p := range list {
			errs[i] = errors.New(p)
		}
		return fmt.Errorf("the schema is not valid: %w", errors.Join(errs...))
	}
	return fmt.Errorf("the schema does not compile: %w", err)
}

// check returns args as a JSON object that matches s, or why it is none. What
// models send for "no arguments" (nothing, white space, null) is {}.
func (s *schema) check(name, args string, lim Limits) (json.RawMessage, *rouse.Error) {
	if len(args) > lim.Args {
		return nil, &rouse.Error{
			Code: rouse.CodeTooLarge, Op: "tool " + shorten(name),
			Message: fmt.Sprintf("the arguments for the tool %s have %d bytes, more than the limit max_args (%d)", quote(name), len(args), lim.Args),
			Hint:    "Send less in one call. The tool was not run.",
		}
	}
	b := []byte(args)
	l := lexer{b: b, depth: lim.Depth, number: lim.Number}
	if s.fast != nil && s.fast.accepts(&l) {
		return b, nil
	}
	l = lexer{b: b}
	if l.space(); l.i == len(b) || string(b[l.i:min(len(b), l.i+4)]) == "null" && blank(b[l.i+4:]) {
		b = []byte("{}")
	}
	return s.checkSlow(name, b, lim)
}

func blank(b []byte) bool {
	l := lexer{b: b}
	l.space()
	return l.i == len(b)
}

func (s *schema) checkSlow(name string, b []byte, lim Limits) (json.RawMessage, *rouse.Error) {
	v, err := parse(b, lim)
	if err != nil {
		e := &rouse.Error{
			Code: rouse.CodeInvalid, Op: "tool " + shorten(name),
			Message: fmt.Sprintf("the arguments for the tool %s are not valid JSON: %v", quote(name), err),
			Hint:    s.hint(), Err: err,
		}
		var f *fault
		if errors.As(err, &f) && f.code != "" {
			e.Code = f.code
			e.Message = fmt.Sprintf("the arguments for the tool %s cannot be used: %v", quote(name), err)
		}
		return nil, e
	}
	err = s.lib.Validate(v)
	if err == nil {
		return b, nil
	}
	var ve *jsonschema.ValidationError
	if !errors.As(err, &ve) {
		return nil, &rouse.Error{Code: rouse.CodeInternal, Op: "tool " + shorten(name), Message: "the arguments could not be checked", Err: err}
	}
	return nil, &rouse.Error{
		Code: rouse.CodeInvalid, Op: "tool " + shorten(name),
		Message: violations(name, problems(ve, v)), Hint: s.hint(),
	}
}

// hint shows the schema to a model that got it wrong.
func (s *schema) hint() string {
	text, _ := bound(s.raw, maxSchemaShown, "it is too long to show")
	return "The tool was not run. Send the arguments as one JSON object that matches this schema: " + text
}
