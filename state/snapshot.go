package state

import (
	"encoding/json"
	"strings"

	"github.com/rouse-run/rouse"
)

// Snapshot is the state at one revision. It never changes, costs nothing to
// keep, and is safe for concurrent use. Keys read from it. The zero Snapshot is
// empty and has no keys.
type Snapshot struct {
	revision int64
	scopes   [scopeCount]*node
	defs     map[string]*Definition // of the store; never written after New
}

// Revision counts the changes of the store, from 0.
func (s Snapshot) Revision() int64 { return s.revision }

// Batch returns an empty batch that knows it was made from s.
func (s Snapshot) Batch() *Batch { return &Batch{base: s.revision} }

// lookup returns d's entry, the zero entry when there is none.
func (s Snapshot) lookup(d *Definition) (entry, error) {
	if d == nil {
		return entry{}, fail(rouse.CodeInvalid, "state.get", "a key was used that no constructor made", nil)
	}
	if err := known(s.defs, d); err != nil {
		return entry{}, err
	}
	return s.scopes[d.Scope].get(d.Name), nil
}

func (s Snapshot) has(d *Definition) bool {
	e, err := s.lookup(d)
	return err == nil && e.value != nil
}

// known returns an error unless d is a key of the store, of the same types.
func known(defs map[string]*Definition, d *Definition) error {
	have, ok := defs[d.Name]
	switch {
	case !ok:
		return &rouse.Error{Code: rouse.CodeNotFound, Op: "state", Message: "there is no state key " + d.Name, Hint: "list it in Config.Keys"}
	case !have.same(d):
		return fail(rouse.CodeInvalid, "state", "another key has the name "+d.Name, nil)
	}
	return nil
}

// with returns the state after changes, which become its newest revision.
func (s Snapshot) with(changes []change) Snapshot {
	s.revision++
	for _, c := range changes {
		c.revision = s.revision
		s.scopes[c.scope] = s.scopes[c.scope].put(c.name, c.entry)
	}
	return s
}

// entry is a stored value. A deleted one stays as an entry without value, so that
// its revision is known.
type entry struct {
	version  int
	value    json.RawMessage
	revision int64 // of the change that wrote it
}

// change is one entry of the next revision.
type change struct {
	scope Scope
	name  string
	entry
}

// node is a treap by name that is never changed: put copies the path to what it
// changes, so that a commit costs what it changes, and older snapshots stay.
type node struct {
	name        string
	rank        uint64 // of the name; no child has a higher one
	left, right *node
	entry       entry
}

func (n *node) get(name string) entry {
	for n != nil {
		switch c := strings.Compare(name, n.name); {
		case c < 0:
			n = n.left
		case c > 0:
			n = n.right
		default:
			return n.entry
		}
	}
	return entry{}
}

func (n *node) put(name string, e entry) *node {
	if n == nil {
		return &node{name: name, rank: rank(name), entry: e}
	}
	c := *n
	switch {
	case name < n.name:
		l := n.left.put(name, e)
		c.left = l
		if l.rank > c.rank {
			c.left, l.right = l.right, &c
			return l
		}
	case name > n.name:
		r := n.right.put(name, e)
		c.right = r
		if r.rank > c.rank {
			c.right, r.left = r.left, &c
			return r
		}
	default:
		c.entry = e
	}
	return &c
}

// each calls f for every value in the order of the names, deleted ones included.
func (n *node) each(f func(name string, e entry)) {
	if n != nil {
		n.left.each(f)
		f(n.name, n.entry)
		n.right.each(f)
	}
}

// rank is FNV-1a with its high bits mixed in, so that similar names rank apart.
func rank(name string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	return h ^ h>>33
}
