package tool

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

const (
	maxSchemaNodes = 10_000 // parts of an inferred schema; nested types are written out
	maxPointers    = 4      // of one value: ****T
)

// inference makes the schema of one Go type. Scalars are described by
// jsonschema-go; everything that is composed follows the rules by which
// encoding/json decodes, so that what matches the schema also decodes.
type inference struct {
	recursive map[reflect.Type]bool // types that go into $defs
	defs      map[string]*jsonschema.Schema
	names     map[reflect.Type]string
	nodes     int
	anything  bool // some part decodes into an interface
}

// infer returns the schema for arguments of type t and whether part of t is an
// interface, which needs json.Number to keep its numbers.
func infer(t reflect.Type) (raw json.RawMessage, anything bool, err error) {
	x := &inference{recursive: map[reflect.Type]bool{}, defs: map[string]*jsonschema.Schema{}, names: map[reflect.Type]string{}}
	root := deref(t)
	if k := root.Kind(); k != reflect.Struct && k != reflect.Map || opaque(root) != nil {
		return nil, false, fmt.Errorf("%s: arguments are one JSON object, so their type must be a struct or a map with string keys", t)
	}
	if err := x.cycles(root, map[reflect.Type]bool{}, root.String()); err != nil {
		return nil, false, err
	}
	s, err := x.composed(root, root.String())
	if err != nil {
		return nil, false, err
	}
	if len(x.defs) > 0 {
		s.Defs = x.defs
	}
	raw, err = json.Marshal(s)
	return raw, x.anything, err
}

// opaque returns the schema of a type that decodes itself or is treated
// specially by encoding/json, nil for all others.
func opaque(t reflect.Type) *jsonschema.Schema {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return &jsonschema.Schema{Type: "string", Format: "date-time"}
	case t == reflect.TypeFor[json.Number]():
		return &jsonschema.Schema{Type: "number"}
	case t == reflect.TypeFor[big.Int]():
		return &jsonschema.Schema{Type: "integer"}
	case reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()):
		return &jsonschema.Schema{} // json.RawMessage too
	case reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		return &jsonschema.Schema{Type: "string"}
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 && opaque(t.Elem()) == nil:
		return &jsonschema.Schema{Type: "string", ContentEncoding: "base64"}
	default:
		return nil
	}
}

// children calls visit for the types that t is composed of, with their paths.
func children(t reflect.Type, path string, visit func(reflect.Type, string) error) error {
	switch t.Kind() {
	case reflect.Pointer:
		return visit(t.Elem(), path)
	case reflect.Slice, reflect.Array:
		return visit(t.Elem(), path+"[]")
	case reflect.Map:
		return visit(t.Elem(), path+"{}")
	case reflect.Struct:
		fields, err := fieldsOf(t)
		if err != nil {
			return fmt.Errorf("%s.%w", path, err)
		}
		for _, f := range fields {
			if err := visit(f.typ, path+"."+f.goName); err != nil {
				return err
			}
		}
	}
	return nil
}

// cycles finds the types that contain themselves and marks at least one of each
// cycle as recursive. State is true while a type is being visited.
func (x *inference) cycles(t reflect.Type, state map[reflect.Type]bool, path string) error {
	if opaque(t) != nil {
		return nil
	}
	visit := func(c reflect.Type, p string) error { return x.cycles(c, state, p) }
	if t.Name() == "" { // every cycle goes through a named type
		return children(t, path, visit)
	}
	if open, seen := state[t]; seen {
		if open {
			x.recursive[t] = true
		}
		return nil
	}
	state[t] = true
	err := children(t, path, visit)
	state[t] = false
	return err
}

// schema describes a value of type t at path.
func (x *inference) schema(t reflect.Type, path string) (*jsonschema.Schema, error) {
	if x.nodes++; x.nodes > maxSchemaNodes {
		return nil, fmt.Errorf("%s: the schema would have more than %d parts", path, maxSchemaNodes)
	}
	nullable := 0
	for ; t.Kind() == reflect.Pointer && opaque(t) == nil; t = t.Elem() {
		if nullable++; nullable > maxPointers {
			return nil, fmt.Errorf("%s: a chain of more than %d pointers cannot be expressed", path, maxPointers)
		}
	}
	s, err := x.named(t, path)
	if err == nil && nullable > 0 {
		s = orNull(s)
	}
	return s, err
}

// named refers to t when it is recursive and writes it out otherwise.
func (x *inference) named(t reflect.Type, path string) (*jsonschema.Schema, error) {
	if !x.recursive[t] {
		return x.composed(t, path)
	}
	name, done := x.names[t]
	if !done {
		name = x.newName(t)
		s, err := x.composed(t, path)
		if err != nil {
			return nil, err
		}
		x.defs[name] = s
	}
	return &jsonschema.Schema{Ref: "#/$defs/" + name}, nil
}

// newName reserves a name for t that is safe within a JSON Pointer and a URI.
func (x *inference) newName(t reflect.Type) string {
	base := strings.Map(func(r rune) rune {
		if r < 0x80 && (r == '_' || '0' <= r && r <= '9' || 'a' <= r|0x20 && r|0x20 <= 'z') {
			return r
		}
		return '_'
	}, t.Name())
	name := base
	for n := 2; ; n++ {
		if _, taken := x.defs[name]; !taken {
			break
		}
		name = base + strconv.Itoa(n)
	}
	x.names[t], x.defs[name] = name, nil
	return name
}

// composed describes t itself, its parts by reference where they are recursive.
func (x *inference) composed(t reflect.Type, path string) (*jsonschema.Schema, error) {
	if s := opaque(t); s != nil {
		return s, nil
	}
	switch t.Kind() {
	case reflect.Interface:
		if t.NumMethod() > 0 {
			return nil, fmt.Errorf("%s: the interface %s cannot be decoded from JSON", path, t)
		}
		x.anything = true
		return &jsonschema.Schema{}, nil
	case reflect.Slice, reflect.Array:
		items, err := x.schema(t.Elem(), path+"[]")
		if err != nil {
			return nil, err
		}
		s := &jsonschema.Schema{Type: "array", Items: items}
		if t.Kind() == reflect.Array {
			s.MinItems, s.MaxItems = jsonschema.Ptr(t.Len()), jsonschema.Ptr(t.Len())
		}
		return s, nil
	case reflect.Map:
		if t.Key().Kind() != reflect.String {
			return nil, fmt.Errorf("%s: a map with keys of type %s cannot be expressed, only string keys can", path, t.Key())
		}
		values, err := x.schema(t.Elem(), path+"{}")
		if err != nil {
			return nil, err
		}
		return &jsonschema.Schema{Type: "object", AdditionalProperties: values}, nil
	case reflect.Struct:
		return x.object(t, path)
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer, reflect.Uintptr:
		return nil, fmt.Errorf("%s: %s cannot be expressed in JSON", path, t)
	default:
		s, err := jsonschema.ForType(t, nil)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return s, nil
	}
}

// object describes a struct. Unknown properties are always refused: encoding/json
// would match them without regard to case.
func (x *inference) object(t reflect.Type, path string) (*jsonschema.Schema, error) {
	fields, err := fieldsOf(t)
	if err != nil {
		return nil, fmt.Errorf("%s.%w", path, err)
	}
	s := &jsonschema.Schema{
		Type: "object", Properties: map[string]*jsonschema.Schema{},
		AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
	}
	for _, f := range fields {
		at := path + "." + f.goName
		p, err := x.schema(f.typ, at)
		if err != nil {
			return nil, err
		}
		if f.quoted && opaque(f.typ) == nil {
			p = quoted(f.typ, p)
		}
		if p, err = annotate(p, f); err != nil {
			return nil, fmt.Errorf("%s: %w", at, err)
		}
		s.Properties[f.name] = p
		s.PropertyOrder = append(s.PropertyOrder, f.name)
		if !f.optional {
			s.Required = append(s.Required, f.name)
		}
	}
	return s, nil
}

// quoted is the schema of a field with the option "string", which encoding/json
// applies to scalars only.
func quoted(t reflect.Type, p *jsonschema.Schema) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "string"}
	switch k := deref(t).Kind(); {
	case k == reflect.Bool:
		s.Enum = []any{"true", "false"}
	case reflect.Int <= k && k <= reflect.Int64:
		s.Pattern = "^-?(0|[1-9][0-9]*)$"
	case reflect.Uint <= k && k <= reflect.Uint64:
		s.Pattern = "^(0|[1-9][0-9]*)$"
	case k == reflect.Float32 || k == reflect.Float64:
		s.Pattern = `^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`
	case k == reflect.String:
		s.Pattern = `^"(.|\n)*"$`
	default:
		return p
	}
	if t.Kind() == reflect.Pointer {
		return orNull(s)
	}
	return s
}

// looksLikeOption is kept free for options, as jsonschema-go does.
var looksLikeOption = regexp.MustCompile(`^[^ \t\n]*=`)

// annotate applies the tags "jsonschema" and "enum".
func annotate(p *jsonschema.Schema, f field) (*jsonschema.Schema, error) {
	if text, ok := f.tag.Lookup("jsonschema"); ok {
		if text == "" || looksLikeOption.MatchString(text) {
			return nil, fmt.Errorf("the tag jsonschema is a description: it must not be empty or begin with WORD= (it is %q)", text)
		}
		p.Description = text
	}
	list, ok := f.tag.Lookup("enum")
	if !ok {
		return p, nil
	}
	target := p
	for target.Items != nil {
		target = target.Items
	}
	kinds := target.Types
	if target.Type != "" {
		kinds = []string{target.Type}
	}
	for word := range strings.SplitSeq(list, ",") {
		v, err := enumValue(kinds, strings.TrimSpace(word))
		if err != nil {
			return nil, err
		}
		target.Enum = append(target.Enum, v)
	}
	if len(kinds) > 1 {
		target.Enum = append(target.Enum, nil)
	}
	return p, nil
}

func enumValue(kinds []string, word string) (any, error) {
	switch {
	case word == "":
		return nil, errors.New("the tag enum has an empty value")
	case len(kinds) > 0 && kinds[0] == "string":
		return word, nil
	case len(kinds) > 0 && kinds[0] == "integer":
		if _, err := strconv.ParseInt(word, 10, 64); err != nil {
			return nil, fmt.Errorf("the tag enum has %q, which is not a whole number", word)
		}
		return json.Number(word), nil
	default:
		return nil, errors.New("the tag enum is for strings and integers and lists of them")
	}
}

// orNull allows null as well.
func orNull(s *jsonschema.Schema) *jsonschema.Schema {
	switch {
	case s.Ref != "":
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{s, {Type: "null"}}}
	case s.Type != "":
		s.Types, s.Type = []string{s.Type, "null"}, ""
		if s.Enum != nil {
			s.Enum = append(s.Enum, nil)
		}
	}
	return s
}

// encodable refuses a result type that encoding/json can never encode.
func encodable(t reflect.Type, seen map[reflect.Type]bool, path string) error {
	if seen[t] || t.Implements(reflect.TypeFor[json.Marshaler]()) || t.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
		return nil
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		return fmt.Errorf("%s: %s cannot be expressed in JSON", path, t)
	case reflect.Map:
		k := t.Key()
		if kind := k.Kind(); kind != reflect.String && (kind < reflect.Int || kind > reflect.Uintptr) && !k.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
			return fmt.Errorf("%s: a map with keys of type %s cannot be expressed in JSON", path, k)
		}
	}
	return children(t, path, func(c reflect.Type, p string) error { return encodable(c, seen, p) })
}
