package tool

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// field is one property of a struct, as encoding/json sees it.
type field struct {
	name     string
	typ      reflect.Type
	tag      reflect.StructTag
	goName   string
	index    []int
	tagged   bool
	optional bool
	quoted   bool // the option "string": the value is wrapped in a JSON string
}

// fieldsOf returns the properties of a struct type in the order of declaration,
// by the rules of encoding/json: embedded structs without a name lend their
// fields, the least nested field of a name wins, then the tagged one, and two
// that are still equal hide each other.
func fieldsOf(t reflect.Type) ([]field, error) {
	level := []field{{typ: t}}
	seen := map[reflect.Type]bool{}
	var all []field
	for len(level) > 0 {
		var next []field
		for _, parent := range level {
			st := deref(parent.typ)
			if seen[st] {
				continue
			}
			for i := range st.NumField() {
				f, embedded, err := makeField(parent, st.Field(i), i)
				if err != nil {
					return nil, err
				}
				switch {
				case f == nil:
				case embedded:
					next = append(next, *f)
				default:
					all = append(all, *f)
				}
			}
		}
		for _, parent := range level {
			seen[deref(parent.typ)] = true
		}
		level = next
	}
	return dominant(all), nil
}

// makeField returns nil for a field that JSON does not see.
func makeField(parent field, sf reflect.StructField, i int) (f *field, embedded bool, err error) {
	tag := sf.Tag.Get("json")
	if tag == "-" {
		return nil, false, nil
	}
	name, options, _ := strings.Cut(tag, ",")
	isStruct := deref(sf.Type).Kind() == reflect.Struct
	if !sf.IsExported() && (!sf.Anonymous || !isStruct) {
		return nil, false, nil
	}
	if strings.ContainsFunc(name, badInName) {
		return nil, false, fmt.Errorf("%s: the name in the json tag %q has a character that is not allowed there", sf.Name, tag)
	}
	f = &field{
		name: name, typ: sf.Type, tag: sf.Tag, goName: sf.Name, tagged: name != "",
		index: append(slices.Clone(parent.index), i), optional: parent.optional,
	}
	if sf.Anonymous && name == "" && isStruct {
		if sf.Type.Kind() == reflect.Pointer {
			if !sf.IsExported() {
				return nil, false, fmt.Errorf("%s: a pointer to an embedded unexported struct cannot be set", sf.Name)
			}
			f.optional = true
		}
		return f, true, nil
	}
	if !sf.IsExported() {
		return nil, false, nil
	}
	if name == "" {
		f.name = sf.Name
	}
	for option := range strings.SplitSeq(options, ",") {
		switch option {
		case "omitempty", "omitzero":
			f.optional = true
		case "string":
			f.quoted = true
		}
	}
	return f, false, nil
}

// badInName reports a character with which versions of encoding/json read a name
// in a tag differently.
func badInName(r rune) bool { return strings.ContainsRune("\"'`\\,", r) || r < ' ' }

// dominant keeps the field of each name that encoding/json keeps, in order of index.
func dominant(all []field) []field {
	best := map[string][]field{}
	for _, f := range all {
		had := best[f.name]
		switch {
		case len(had) == 0 || outranks(f, had[0]):
			best[f.name] = []field{f}
		case !outranks(had[0], f):
			best[f.name] = append(had, f)
		}
	}
	var out []field
	for _, fs := range best {
		if len(fs) == 1 {
			out = append(out, fs[0])
		}
	}
	slices.SortFunc(out, func(a, b field) int { return slices.Compare(a.index, b.index) })
	return out
}

func outranks(a, b field) bool {
	if len(a.index) != len(b.index) {
		return len(a.index) < len(b.index)
	}
	return a.tagged && !b.tagged
}

func deref(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer && t.Name() == "" {
		return t.Elem()
	}
	return t
}
