package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/rouse-run/rouse/internal/jsonx"
	"github.com/rouse-run/rouse/model"
)

// toolset is a list of tools as it goes over the wire. It is immutable.
type toolset struct {
	specs []model.ToolSpec
	json  []byte            // the array; nil without tools
	real  map[string]string // wire name to real name, where the two differ
}

// holds reports whether s was made from tools with the same contents. It
// compares headers, not contents, as long as the strings are the same ones.
func (s *toolset) holds(tools []model.ToolSpec) bool {
	return slices.EqualFunc(s.specs, tools, func(a, b model.ToolSpec) bool {
		return a.Name == b.Name && a.Description == b.Description && sameBytes(a.Schema, b.Schema)
	})
}

func sameBytes(a, b []byte) bool {
	return len(a) == len(b) && (first(a) == first(b) || bytes.Equal(a, b))
}

// first returns the address of the first element, nil when there is none.
func first[T any](s []T) *T {
	if len(s) == 0 {
		return nil
	}
	return &s[0]
}

// toolCache keeps the toolsets that were encoded last. It is safe for concurrent use.
type toolCache struct {
	mu   sync.Mutex
	sets [16]*toolset
	next int
}

func (c *toolCache) get(tools []model.ToolSpec) (*toolset, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.sets {
		if s != nil && s.holds(tools) {
			return s, nil
		}
	}
	s, err := newToolset(tools)
	if err != nil {
		return nil, err
	}
	c.sets[c.next] = s
	c.next = (c.next + 1) % len(c.sets)
	return s, nil
}

func newToolset(tools []model.ToolSpec) (*toolset, error) {
	s := &toolset{specs: slices.Clone(tools)}
	if len(tools) == 0 {
		return s, nil
	}
	seen := make(map[string]bool, len(tools))
	s.real = make(map[string]string)
	b := []byte{'['}
	for i := range tools {
		t := &tools[i]
		if t.Name == "" || seen[t.Name] {
			return nil, invalid(fmt.Errorf("tools[%d]: the name %q is empty or used twice", i, t.Name))
		}
		seen[t.Name] = true
		schema, err := wireSchema(t.Schema)
		if err != nil {
			return nil, invalid(fmt.Errorf("tools[%d] %q: schema: %w", i, t.Name, err))
		}
		wire := model.WireName(t.Name)
		if wire != t.Name {
			s.real[wire] = t.Name
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"type":"function","function":`...)
		o := jsonx.Open(b)
		o.String("name", wire)
		o.String("description", t.Description)
		o.Raw("parameters", schema)
		b = append(o.Close(), '}')
	}
	s.json = append(b, ']')
	return s, nil
}

// wireSchema returns schema without white space, with the members that
// providers demand of an object.
func wireSchema(schema json.RawMessage) ([]byte, error) {
	if len(bytes.TrimSpace(schema)) == 0 {
		return []byte(`{"type":"object","properties":{}}`), nil
	}
	f := object(schema)
	if f == nil {
		return nil, errors.New("is not a JSON object")
	}
	var out bytes.Buffer
	if err := json.Compact(&out, schema); err != nil {
		return nil, err
	}
	b := out.Bytes()
	_, typed := f["type"]
	_, shaped := f["properties"]
	refers := false
	for _, k := range []string{"$ref", "anyOf", "oneOf", "allOf"} {
		_, ok := f[k]
		refers = refers || ok
	}
	var missing []byte
	if !typed && !refers {
		missing = append(missing, `"type":"object",`...)
	}
	if !shaped && !refers {
		missing = append(missing, `"properties":{},`...)
	}
	if len(missing) == 0 {
		return b, nil
	}
	if len(f) == 0 {
		missing = missing[:len(missing)-1]
	}
	return slices.Insert(b, 1, missing...), nil
}
