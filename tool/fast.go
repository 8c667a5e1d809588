package tool

import (
	"math/big"
	"reflect"
	"slices"
	"strconv"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// node is a schema that is simple enough to be checked while the bytes are read,
// without building a value. It may say "yes" only where the library would; on
// everything else it says "do not know" and the library decides.
type node struct {
	types    typeSet
	props    []prop
	required uint64 // bits of props
	items    *node
	minItems int
	maxItems int // -1: any number
	enum     []string
	min, max *int64
	format   *jsonschema.Format
}

type prop struct {
	name string
	node *node // nil: not simple
}

type typeSet uint8

const (
	typeNull typeSet = 1 << iota
	typeBoolean
	typeNumber
	typeInteger
	typeString
	typeArray
	typeObject
)

// simple returns the fields of a compiled schema that a node understands or that
// say nothing about validity. A schema with any other exported field set is not simple.
func simple() []string {
	return []string{
		"DraftVersion", "Location", "ID", "Anchor", "Title", "Description", "Default", "Comment", "ReadOnly", "WriteOnly",
		"Examples", "Deprecated", "Types", "Enum", "Format", "Required", "Properties", "AdditionalProperties", "MinItems",
		"MaxItems", "Items2020", "Minimum", "Maximum",
	}
}

// maxHops is how many references in a row a node follows.
const maxHops = 16

// newNode returns the node of s, nil when s is not simple.
func newNode(s *jsonschema.Schema) *node {
	return makeNode(s, map[*jsonschema.Schema]*node{})
}

func makeNode(s *jsonschema.Schema, memo map[*jsonschema.Schema]*node) *node {
	// a reference that stands alone is its target; the count ends a cycle of them
	for hops := 0; s.Ref != nil; hops++ {
		if hops > maxHops || !isSimple(s, "Ref") || s.Types != nil || s.Enum != nil || s.Format != nil ||
			s.Properties != nil || s.Required != nil || s.AdditionalProperties != nil || s.Items2020 != nil ||
			s.MinItems != nil || s.MaxItems != nil || s.Minimum != nil || s.Maximum != nil {
			return nil
		}
		s = s.Ref
	}
	if n, ok := memo[s]; ok {
		return n
	}
	memo[s] = nil
	if s.DraftVersion < 2020 || !isSimple(s) || s.Types == nil {
		return nil
	}
	n := &node{types: typesOf(s.Types), maxItems: -1, format: s.Format}
	memo[s] = n
	if !n.fill(s, memo) {
		memo[s] = nil
		// a recursive part may hold n already: empty, it accepts nothing
		*n = node{}
		return nil
	}
	return n
}

func (n *node) fill(s *jsonschema.Schema, memo map[*jsonschema.Schema]*node) bool {
	if s.Enum != nil {
		only := typeSet(0)
		for _, v := range s.Enum.Values {
			switch v := v.(type) {
			case string:
				n.enum = append(n.enum, v)
				only |= typeString
			case nil:
				only |= typeNull
			default:
				return false
			}
		}
		n.types &= only
	}
	var ok bool
	if n.min, ok = wholeBound(s.Minimum); !ok {
		return false
	}
	if n.max, ok = wholeBound(s.Maximum); !ok {
		return false
	}
	if s.MinItems != nil {
		n.minItems = *s.MinItems
	}
	if s.MaxItems != nil {
		n.maxItems = *s.MaxItems
	}
	if s.Items2020 != nil {
		n.items = makeNode(s.Items2020, memo)
	}
	return n.fillProps(s, memo)
}

// wholeBound returns r as a whole number, nil for nil, and whether it is one.
func wholeBound(r *big.Rat) (*int64, bool) {
	if r == nil {
		return nil, true
	}
	if !r.IsInt() || !r.Num().IsInt64() {
		return nil, false
	}
	i := r.Num().Int64()
	return &i, true
}

// fillProps takes over the properties. Whether others are allowed does not
// matter: an object that has one is left to the library.
func (n *node) fillProps(s *jsonschema.Schema, memo map[*jsonschema.Schema]*node) bool {
	if len(s.Properties) > 64 {
		return false
	}
	for name := range s.Properties {
		n.props = append(n.props, prop{name: name})
	}
	slices.SortFunc(n.props, func(a, b prop) int {
		if len(a.name) != len(b.name) {
			return len(a.name) - len(b.name)
		}
		return slices.Compare([]byte(a.name), []byte(b.name))
	})
	for i := range n.props {
		n.props[i].node = makeNode(s.Properties[n.props[i].name], memo)
	}
	for _, name := range s.Required {
		i := n.index([]byte(name))
		if i < 0 {
			return false
		}
		n.required |= 1 << i
	}
	return true
}

func (n *node) index(name []byte) int {
	for i := range n.props {
		if n.props[i].name == string(name) {
			return i
		}
	}
	return -1
}

// isSimple reports whether every exported field of s that is set is a known one.
func isSimple(s *jsonschema.Schema, also ...string) bool {
	known := append(simple(), also...)
	v := reflect.ValueOf(s).Elem()
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.IsExported() && !v.Field(i).IsZero() && !slices.Contains(known, f.Name) {
			return false
		}
	}
	return true
}

func typesOf(t *jsonschema.Types) typeSet {
	var out typeSet
	for _, s := range t.ToStrings() {
		switch s {
		case "null":
			out |= typeNull
		case "boolean":
			out |= typeBoolean
		case "number":
			out |= typeNumber
		case "integer":
			out |= typeInteger
		case "string":
			out |= typeString
		case "array":
			out |= typeArray
		case "object":
			out |= typeObject
		}
	}
	return out
}

// accepts reports that the whole text is one value that certainly matches.
func (n *node) accepts(l *lexer) bool {
	if !n.value(l) {
		return false
	}
	l.space()
	return l.i == len(l.b)
}

func (n *node) value(l *lexer) bool {
	if n == nil {
		return false
	}
	switch c := l.space(); c {
	case '{':
		return n.types&typeObject != 0 && n.object(l)
	case '[':
		return n.types&typeArray != 0 && n.array(l)
	case '"':
		return n.types&typeString != 0 && n.text(l)
	case 't':
		return n.types&typeBoolean != 0 && l.literal("true")
	case 'f':
		return n.types&typeBoolean != 0 && l.literal("false")
	case 'n':
		return n.types&typeNull != 0 && l.literal("null")
	default:
		return n.types&(typeNumber|typeInteger) != 0 && n.number(l)
	}
}

func (n *node) text(l *lexer) bool {
	raw, escaped, ok := l.str()
	if !ok {
		return false
	}
	if n.enum == nil && n.format == nil {
		return true
	}
	if escaped || n.format != nil && n.format.Validate(string(raw)) != nil {
		return false
	}
	return n.enum == nil || slices.ContainsFunc(n.enum, func(s string) bool { return s == string(raw) })
}

func (n *node) number(l *lexer) bool {
	raw, whole, big, ok := l.num()
	if !ok || big {
		return false
	}
	if n.types&typeNumber == 0 && !whole {
		return false
	}
	if n.min == nil && n.max == nil {
		return n.format == nil
	}
	i, err := strconv.ParseInt(string(raw), 10, 64)
	return err == nil && n.format == nil && (n.min == nil || i >= *n.min) && (n.max == nil || i <= *n.max)
}

func (n *node) object(l *lexer) bool {
	if l.depth <= 0 {
		return false
	}
	l.depth--
	l.i++
	var seen uint64
	for first := true; !l.next('}'); first = false {
		if !first && !l.next(',') || l.space() != '"' {
			return false
		}
		name, escaped, ok := l.str()
		if !ok || escaped || !l.next(':') {
			return false
		}
		i := n.index(name)
		if i < 0 || seen&(1<<i) != 0 || !n.props[i].node.value(l) {
			return false
		}
		seen |= 1 << i
	}
	l.depth++
	return seen&n.required == n.required
}

func (n *node) array(l *lexer) bool {
	if l.depth <= 0 || n.items == nil {
		return false
	}
	l.depth--
	l.i++
	count := 0
	for ; !l.next(']'); count++ {
		if count > 0 && !l.next(',') || !n.items.value(l) {
			return false
		}
	}
	l.depth++
	return count >= n.minItems && (n.maxItems < 0 || count <= n.maxItems)
}
