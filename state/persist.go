package state

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/internal/jsonx"
	"github.com/rouse-run/rouse/internal/safecall"
)

// stored is a value at rest.
type stored struct {
	Version int             `json:"version"`
	Value   json.RawMessage `json:"value"`
}

// Export returns the values of a scope as canonical JSON: an object by name,
// sorted, without white space, each member {"version":…,"value":…}. It is {} when
// there are none.
func (s Snapshot) Export(scope Scope) json.RawMessage {
	var changes []change
	if scope < scopeCount {
		s.scopes[scope].each(func(name string, e entry) {
			if e.value != nil {
				changes = append(changes, change{scope, name, e})
			}
		})
	}
	return appendEntries(nil, changes)
}

// Checkpoint returns the whole state, in the form that Load takes, for a store
// that is still empty.
func (s Snapshot) Checkpoint() json.RawMessage {
	var changes []change
	for scope := range scopeCount {
		s.scopes[scope].each(func(name string, e entry) {
			if e.value != nil {
				changes = append(changes, change{scope, name, e})
			}
		})
	}
	return appendDelta(nil, 0, s.revision, changes)
}

// Restore replaces the values of a scope by what Export returned, all or nothing,
// as one revision. Values of earlier versions are migrated.
//
// Errors: CodeCorrupt for what cannot be read, CodeSchemaVersion for a version
// that is later than the key's or cannot be migrated, and what Config.Unknown says.
func (s *Store) Restore(scope Scope, exported json.RawMessage) error {
	const op = "state.restore"
	if scope >= scopeCount {
		return fail(rouse.CodeInvalid, op, "there is no "+scope.String(), nil)
	}
	entries, err := decodeStrict[map[string]*stored](exported)
	if err != nil {
		return fail(rouse.CodeCorrupt, op, "the exported state cannot be read", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return s.broken
	}
	changes, err := s.accept(op, scope, entries, false)
	if err != nil {
		return err
	}
	s.now.scopes[scope].each(func(name string, e entry) {
		if _, ok := entries[name]; !ok && e.value != nil {
			changes = append(changes, change{scope: scope, name: name})
		}
	})
	s.now = s.now.with(changes)
	return nil
}

// Seed sets values by the names of their keys, of any scope, all or nothing, as
// one revision: {"name":{"value":…}}, with "version" when it is not the key's own.
// Other keys keep their values.
//
// Errors: CodeInvalid for what cannot be read, CodeNotFound for an unknown key
// whatever Config.Unknown says, CodeSchemaVersion, CodeTooLarge.
func (s *Store) Seed(values json.RawMessage) error {
	const op = "state.seed"
	entries, err := decodeStrict[map[string]*stored](values)
	if err != nil {
		return fail(rouse.CodeInvalid, op, "the seed cannot be read", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return s.broken
	}
	var changes []change
	for name, st := range entries {
		d := s.defs[name]
		if d == nil {
			return unknownKey(op, name)
		}
		if st == nil {
			return fail(rouse.CodeInvalid, op, "there is no value for "+name, nil)
		}
		if st.Version == 0 {
			st.Version = d.Version
		}
		e, err := d.accept(op, rouse.CodeInvalid, st)
		if err != nil {
			return err
		}
		if err := s.fits(name, e.value); err != nil {
			return err
		}
		changes = append(changes, change{d.Scope, name, e})
	}
	s.now = s.now.with(changes)
	return nil
}

// delta is what Prepare returns: what changed from one revision to the next. A
// member that is null was deleted.
type delta struct {
	Base     int64              `json:"base"`
	Revision int64              `json:"revision"`
	Run      map[string]*stored `json:"run"`
	Thread   map[string]*stored `json:"thread"`
	Shared   map[string]*stored `json:"shared"`
	Profile  map[string]*stored `json:"profile"`
}

// follows reports whether the revisions fit: a change is one revision, a
// checkpoint begins at 0, and revision 0 is empty.
func (d *delta) follows() bool {
	if d.Base > 0 {
		return d.Revision == d.Base+1
	}
	return d.Revision > 0 || d.Revision == 0 && len(d.Run)+len(d.Thread)+len(d.Shared)+len(d.Profile) == 0
}

// Load applies what Prepare returned, as if it had been published, or a
// checkpoint. Values of earlier versions are migrated. Deltas are loaded in their
// order, each once.
//
// Errors: CodeCorrupt for what cannot be read or does not follow the current
// revision, CodeSchemaVersion, and what Config.Unknown says.
func (s *Store) Load(raw json.RawMessage) error {
	const op = "state.load"
	d, err := decodeStrict[delta](raw)
	if err != nil {
		return fail(rouse.CodeCorrupt, op, "the change cannot be read", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return s.broken
	}
	if d.Base != s.now.revision || !d.follows() {
		return fail(rouse.CodeCorrupt, op, fmt.Sprintf("the change from revision %d to %d does not follow revision %d", d.Base, d.Revision, s.now.revision), nil)
	}
	var changes []change
	for scope, entries := range []map[string]*stored{d.Run, d.Thread, d.Shared, d.Profile} {
		cs, err := s.accept(op, Scope(scope), entries, true)
		if err != nil {
			return err
		}
		changes = append(changes, cs...)
	}
	next := s.now
	next.revision = d.Revision - 1
	s.now = next.with(changes)
	return nil
}

// accept checks stored values of a scope and migrates them.
func (s *Store) accept(op string, scope Scope, entries map[string]*stored, deletes bool) ([]change, error) {
	changes := make([]change, 0, len(entries))
	for name, st := range entries {
		d := s.defs[name]
		var e entry
		var err error
		switch {
		case d == nil && s.unknown == UnknownRefuse:
			return nil, unknownKey(op, name)
		case d != nil && d.Scope != scope:
			return nil, fail(rouse.CodeCorrupt, op, fmt.Sprintf("%s is of scope %s, not %s", name, d.Scope, scope), nil)
		case st == nil && deletes:
		case st == nil || st.Value == nil:
			return nil, fail(rouse.CodeCorrupt, op, "there is no value for "+name, nil)
		case d == nil:
			e, err = entry{version: st.Version, value: compact(st.Value)}, nil
		default:
			e, err = d.accept(op, rouse.CodeCorrupt, st)
		}
		if err != nil {
			return nil, err
		}
		changes = append(changes, change{scope, name, e})
	}
	return changes, nil
}

// accept returns st as an entry of the key's own version, checked against its
// type; unreadable is the code of an error when it does not fit.
func (d *Definition) accept(op string, unreadable rouse.Code, st *stored) (entry, error) {
	value, name := compact(st.Value), d.Name
	if st.Version > d.Version || st.Version < 0 || st.Version < d.Version && d.Migrate == nil {
		return entry{}, fail(rouse.CodeSchemaVersion, op, fmt.Sprintf("the value of %s has version %d, the key has %d", name, st.Version, d.Version), nil)
	}
	err := safecall.Do(context.Background(), "state key "+name, func(context.Context) error {
		if st.Version < d.Version {
			migrated, err := d.Migrate(st.Version, value)
			if err != nil {
				return fail(rouse.CodeSchemaVersion, op, fmt.Sprintf("the value of %s cannot be migrated from version %d", name, st.Version), err)
			}
			if !json.Valid(migrated) {
				return fail(rouse.CodeSchemaVersion, op, fmt.Sprintf("the migration of %s from version %d returned no JSON", name, st.Version), nil)
			}
			value = compact(migrated)
		}
		if err := d.check(value); err != nil {
			return fail(unreadable, op, "the value of "+name+" cannot be read", err)
		}
		return nil
	})
	return entry{version: d.Version, value: value}, err
}

func unknownKey(op, name string) error {
	return &rouse.Error{Code: rouse.CodeNotFound, Op: op, Message: "there is no state key " + name, Hint: "list it in Config.Keys, or keep unknown keys"}
}

func sortChanges(changes []change) {
	slices.SortFunc(changes, func(a, b change) int {
		return cmp.Or(cmp.Compare(a.scope, b.scope), cmp.Compare(a.name, b.name))
	})
}

// appendDelta appends changes, which are sorted.
func appendDelta(b []byte, base, revision int64, changes []change) json.RawMessage {
	b = strconv.AppendInt(append(b, `{"base":`...), base, 10)
	b = strconv.AppendInt(append(b, `,"revision":`...), revision, 10)
	for len(changes) > 0 {
		scope, n := changes[0].scope, 1
		for n < len(changes) && changes[n].scope == scope {
			n++
		}
		b = append(append(append(b, `,"`...), scope.String()...), `":`...)
		b = appendEntries(b, changes[:n])
		changes = changes[n:]
	}
	return append(b, '}')
}

func appendEntries(b []byte, changes []change) json.RawMessage {
	b = append(b, '{')
	for i, c := range changes {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(jsonx.AppendString(b, c.name), ':')
		if c.value == nil {
			b = append(b, "null"...)
			continue
		}
		b = strconv.AppendInt(append(b, `{"version":`...), int64(c.version), 10)
		b = append(append(append(b, `,"value":`...), c.value...), '}')
	}
	return append(b, '}')
}

// decodeStrict reads one JSON value without unknown members or anything after it.
func decodeStrict[T any](raw json.RawMessage) (T, error) {
	var v T
	if !json.Valid(raw) {
		return v, fail(rouse.CodeCorrupt, "json", "it is no JSON", nil)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	err := dec.Decode(&v)
	return v, err
}

// compact returns raw without white space, in memory of its own. Raw is valid JSON.
func compact(raw json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	_ = json.Compact(&b, raw) // fails for invalid JSON only
	return b.Bytes()
}
