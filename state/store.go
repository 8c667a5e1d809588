package state

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/internal/safecall"
)

// DefaultMaxValue is the default of Config.MaxValue, in bytes.
const DefaultMaxValue = 1 << 20

// Unknown says what to do with a stored value whose key the store does not have.
type Unknown uint8

// The two policies. The zero value is UnknownRefuse.
const (
	UnknownRefuse Unknown = iota // an error of code CodeNotFound
	UnknownKeep                  // kept as it is and exported again, but nobody can read it
)

// Config is what a Store is made of.
type Config struct {
	// Keys are all keys that the store has. Names must not repeat.
	Keys []Key
	// Unknown is what Restore and Load do with other keys; default UnknownRefuse.
	Unknown Unknown
	// MaxValue bounds one encoded value that is written, in bytes; default
	// DefaultMaxValue. What is larger is an error of code CodeTooLarge.
	MaxValue int
}

// Store holds the current snapshot and commits batches. It is safe for
// concurrent use and needs no closing.
//
// A change is made in one step with Commit, or in two with Prepare: first what
// would change, to be written to a journal, then its publication.
type Store struct {
	unknown  Unknown
	maxValue int
	defs     map[string]*Definition

	mu     sync.Mutex
	now    Snapshot
	broken error // a prepared change could not be published; nothing goes on from there
}

// New returns an empty store. The error, of code CodeInvalid, names every key
// that is wrong.
func New(c Config) (*Store, error) {
	if c.MaxValue == 0 {
		c.MaxValue = DefaultMaxValue
	}
	s := &Store{unknown: c.Unknown, maxValue: c.MaxValue, defs: make(map[string]*Definition, len(c.Keys))}
	var wrong []string
	for i, k := range c.Keys {
		var d Definition
		if k != nil {
			d = k.Define()
		}
		if problem := d.problem(); problem != "" {
			wrong = append(wrong, fmt.Sprintf("keys[%d] %q: %s", i, d.Name, problem))
		} else if s.defs[d.Name] != nil {
			wrong = append(wrong, fmt.Sprintf("keys[%d] %q: the name is taken", i, d.Name))
		} else {
			s.defs[d.Name] = &d
		}
	}
	if c.MaxValue < 0 {
		wrong = append(wrong, "max_value: negative")
	}
	if len(wrong) > 0 {
		return nil, fail(rouse.CodeInvalid, "state.new", strings.Join(wrong, "; "), nil)
	}
	s.now.defs = s.defs
	return s, nil
}

func (d *Definition) problem() string {
	switch {
	case d.check == nil:
		return "no constructor made it"
	case d.Name == "" || !utf8.ValidString(d.Name):
		return "the name must be UTF-8 and not empty"
	case d.Scope >= scopeCount:
		return "there is no such scope"
	case d.Version < 0:
		return "the version is negative"
	}
	return ""
}

// Keys returns the definitions of the store's keys, by name.
func (s *Store) Keys() []Definition {
	out := make([]Definition, 0, len(s.defs))
	for _, d := range s.defs {
		out = append(out, *d)
	}
	slices.SortFunc(out, func(a, b Definition) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Snapshot returns the current state.
func (s *Store) Snapshot() Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// Commit merges the batches and makes the result current, all or nothing. The
// errors are those of Prepare.
func (s *Store) Commit(batches ...Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	changes, err := s.merge(batches)
	if err == nil && len(changes) > 0 {
		s.now = s.now.with(changes)
	}
	return err
}

// Prepare merges the batches without making the result current. Delta is what
// changed, as canonical JSON that Load understands; nil when nothing did. Publish,
// never nil, makes it current; call it once delta is durable, and not at all when
// it is not. Between Prepare and publish nothing else may change the store: if
// something did, the published change is refused, and so is every later one.
//
// Errors: CodeConflict with a *Conflict when exclusive writes clash, CodeNotFound
// for a key that the store does not have, CodeTooLarge for a value over the limit,
// CodeInvalid for a write that could not be encoded, applied, or read again,
// CodeInternal when the key's own code panicked.
func (s *Store) Prepare(batches []Batch) (delta json.RawMessage, publish func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changes, err := s.merge(batches)
	if err != nil {
		return nil, func() {}, err
	}
	if len(changes) == 0 {
		return nil, func() {}, nil
	}
	base, next := s.now.revision, s.now.with(changes)
	published := false
	publish = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case published:
		case s.now.revision != base:
			s.broken = fail(rouse.CodeInternal, "state.publish", fmt.Sprintf("revision %d was published after %d", next.revision, s.now.revision), nil)
		default:
			s.now, published = next, true
		}
	}
	return appendDelta(nil, base, next.revision, changes), publish, nil
}

// Conflict is the cause of an error of code CodeConflict: two writes of an
// exclusive key whose writers did not see each other.
type Conflict struct {
	Key   string
	Scope Scope
	// Batch is the index of the batch that came second.
	Batch int
	// First is the index of the batch that wrote first, -1 when that write was
	// committed before, after the snapshot of the second.
	First int
}

// Error names the key.
func (c *Conflict) Error() string {
	if c.First < 0 {
		return fmt.Sprintf("%s key %s changed after the snapshot of batch %d", c.Scope, c.Key, c.Batch)
	}
	return fmt.Sprintf("%s key %s is written by batch %d and by batch %d", c.Scope, c.Key, c.First, c.Batch)
}

// pending is what the batches do to one key.
type pending struct {
	def     *Definition
	batch   int               // that wrote it, for an exclusive key
	value   json.RawMessage   // for an exclusive key; nil deletes
	updates []json.RawMessage // for a commutative key
}

// merge returns what the batches change, by scope and name.
func (s *Store) merge(batches []Batch) ([]change, error) {
	if s.broken != nil {
		return nil, s.broken
	}
	byName := map[string]*pending{}
	for i := range batches {
		if err := s.gather(byName, i, &batches[i]); err != nil {
			return nil, err
		}
	}
	changes := make([]change, 0, len(byName))
	for name, p := range byName {
		old := s.now.scopes[p.def.Scope].get(name)
		value, err := p.settle(old.value)
		if err != nil {
			return nil, err
		}
		if err := s.fits(name, value); err != nil {
			return nil, err
		}
		if (value == nil) != (old.value == nil) || !bytes.Equal(value, old.value) {
			changes = append(changes, change{p.def.Scope, name, entry{version: p.def.Version, value: value}})
		}
	}
	sortChanges(changes)
	return changes, nil
}

// settle returns the new value, checked to be readable again; nil when it is deleted.
func (p *pending) settle(old json.RawMessage) (value json.RawMessage, err error) {
	value = p.value
	err = safecall.Do(context.Background(), "state key "+p.def.Name, func(context.Context) (err error) {
		if p.def.Merge == MergeCommutative {
			if value, err = p.def.fold(old, p.updates); err != nil {
				return err
			}
		}
		if value == nil {
			return nil
		}
		return p.def.check(value)
	})
	if panicked := (*safecall.Panic)(nil); errors.As(err, &panicked) {
		return nil, err
	}
	if err != nil {
		return nil, fail(rouse.CodeInvalid, "state.commit", "the write to "+p.def.Name+" cannot be applied", err)
	}
	return value, nil
}

// gather adds the writes of one batch and finds conflicts.
func (s *Store) gather(byName map[string]*pending, i int, b *Batch) error {
	if b.err != nil {
		return b.err
	}
	if b.base > s.now.revision {
		return fail(rouse.CodeInvalid, "state.commit", fmt.Sprintf("batch %d belongs to revision %d, which this store never had", i, b.base), nil)
	}
	for _, w := range b.writes() {
		if err := known(s.defs, w.def); err != nil {
			return err
		}
		d := s.defs[w.def.Name]
		p := byName[d.Name]
		if p == nil {
			p = &pending{def: d, batch: i}
			byName[d.Name] = p
		}
		if d.Merge == MergeCommutative {
			p.updates = append(p.updates, w.value)
			continue
		}
		if p.batch != i {
			return conflict(d, i, p.batch)
		}
		if s.now.scopes[d.Scope].get(d.Name).revision > b.base {
			return conflict(d, i, -1)
		}
		p.value = w.value
	}
	return nil
}

func conflict(d *Definition, batch, first int) error {
	return &rouse.Error{
		Code: rouse.CodeConflict, Op: "state.commit", Message: "two writers changed the state key " + d.Name + " at the same time",
		Hint: "read it again and repeat the later write, or use a commutative key", Err: &Conflict{d.Name, d.Scope, batch, first},
	}
}

func (s *Store) fits(name string, value json.RawMessage) error {
	if len(value) > s.maxValue {
		return fail(rouse.CodeTooLarge, "state.commit", fmt.Sprintf("the value of %s has %d bytes, max_value is %d", name, len(value), s.maxValue), nil)
	}
	return nil
}
