package state

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math/bits"
	"reflect"
	"slices"
	"strconv"

	"github.com/rouse-run/rouse"
)

// Scope says how long a value lives and who shares it.
type Scope uint8

// The four scopes. The zero value is ScopeRun.
const (
	ScopeRun     Scope = iota // one run, also while it waits and after a crash
	ScopeThread               // all runs of a thread
	ScopeShared               // all threads
	ScopeProfile              // all threads of one owner
	scopeCount
)

// scopeNames are the names of the scopes in JSON.
var scopeNames = [scopeCount]string{"run", "thread", "shared", "profile"} //nolint:gochecknoglobals // a table that nothing writes

// String returns the scope's name in JSON.
func (s Scope) String() string {
	if s < scopeCount {
		return scopeNames[s]
	}
	return "scope(" + strconv.Itoa(int(s)) + ")"
}

// Merge says how the writes of several batches join.
type Merge string

// The two ways, one per type of key.
const (
	MergeExclusive   Merge = "exclusive"
	MergeCommutative Merge = "commutative"
)

// Options describes a key.
type Options struct {
	// Name is unique among the keys of a store, not empty, and valid UTF-8.
	// Plugins prefix theirs: "reminder.last".
	Name string
	// Scope says how long the value lives; default ScopeRun.
	Scope Scope
	// Version is the version of the value's schema; default 1. Raise it when
	// values written so far can no longer be read as they are.
	Version int
	// Migrate turns a value of an earlier version into one of Version. Without it
	// an earlier version is an error of code CodeSchemaVersion. It must be pure.
	Migrate func(from int, value json.RawMessage) (json.RawMessage, error)
}

// Key is what a store is configured with; Exclusive and Commutative implement it.
type Key interface {
	Define() Definition
}

// Definition is a key without its Go types: what a store knows of it, and what a
// listing may show. Only Exclusive and Commutative make useful ones.
type Definition struct {
	Options
	Merge Merge

	value, update reflect.Type
	check         func(json.RawMessage) error
	fold          func(old json.RawMessage, updates []json.RawMessage) (json.RawMessage, error)
}

// same reports whether two definitions of one name can stand for each other.
func (d *Definition) same(o *Definition) bool {
	return d.Scope == o.Scope && d.Version == o.Version && d.Merge == o.Merge && d.value == o.value && d.update == o.update
}

func define[V any](o Options, m Merge) *Definition {
	if o.Version == 0 {
		o.Version = 1
	}
	return &Definition{Options: o, Merge: m, value: reflect.TypeFor[V](), check: func(raw json.RawMessage) error {
		_, err := decode[V](raw)
		return err
	}}
}

// Exclusive is a key whose value is replaced as a whole. Make one with NewExclusive.
type Exclusive[V any] struct{ def *Definition }

// NewExclusive returns a key for values of type V. Whether o is valid is checked
// by the store that the key is given to.
func NewExclusive[V any](o Options) Exclusive[V] {
	return Exclusive[V]{define[V](o, MergeExclusive)}
}

// Define implements Key.
func (k Exclusive[V]) Define() Definition { return definition(k.def) }

// Get returns the value, the zero V when there is none. The caller owns it.
// CodeNotFound when the snapshot's store does not have this key.
func (k Exclusive[V]) Get(s Snapshot) (V, error) { return get[V](s, k.def) }

// Has reports whether the snapshot holds a value.
func (k Exclusive[V]) Has(s Snapshot) bool { return s.has(k.def) }

// Set replaces the value. It is encoded now; what happens to v later does not
// matter. A value that cannot be encoded makes the whole batch fail.
func (k Exclusive[V]) Set(b *Batch, v V) {
	raw, err := encode(v)
	b.add(k.def, raw, err)
}

// Delete removes the value.
func (k Exclusive[V]) Delete(b *Batch) { b.add(k.def, nil, nil) }

// Commutative is a key whose value grows by updates of type U that join in any
// order. Make one with Sum, Max, Union or NewCommutative.
type Commutative[V, U any] struct{ def *Definition }

// NewCommutative returns a key whose updates are applied one after the other,
// the first to the zero V. Apply must be pure, may change and return its first
// argument, and must commute: apply(apply(v, a), b) and apply(apply(v, b), a) are
// equal. Commutes checks that for given values; test it.
//
// A commit does not depend on the order of its batches even if apply breaks that
// promise: updates are applied in the order of their encodings.
func NewCommutative[V, U any](o Options, apply func(V, U) (V, error)) Commutative[V, U] {
	return newCommutative(o, func(v V, _ bool, updates []U) (V, error) {
		for _, u := range updates {
			var err error
			if v, err = apply(v, u); err != nil {
				return v, err
			}
		}
		return v, nil
	})
}

func newCommutative[V, U any](o Options, fold func(v V, has bool, updates []U) (V, error)) Commutative[V, U] {
	d := define[V](o, MergeCommutative)
	d.update = reflect.TypeFor[U]()
	d.fold = func(old json.RawMessage, raws []json.RawMessage) (json.RawMessage, error) {
		var v V
		var err error
		if old != nil {
			if v, err = decode[V](old); err != nil {
				return nil, err
			}
		}
		slices.SortFunc(raws, func(a, b json.RawMessage) int { return bytes.Compare(a, b) })
		updates := make([]U, len(raws))
		for i, raw := range raws {
			if updates[i], err = decode[U](raw); err != nil {
				return nil, err
			}
		}
		if v, err = fold(v, old != nil, updates); err != nil {
			return nil, err
		}
		return encode(v)
	}
	return Commutative[V, U]{d}
}

// Define implements Key.
func (k Commutative[V, U]) Define() Definition { return definition(k.def) }

// Get returns the value, the zero V when there is none. The caller owns it.
// CodeNotFound when the snapshot's store does not have this key.
func (k Commutative[V, U]) Get(s Snapshot) (V, error) { return get[V](s, k.def) }

// Has reports whether the snapshot holds a value.
func (k Commutative[V, U]) Has(s Snapshot) bool { return s.has(k.def) }

// Add hands in an update. It is encoded now; what happens to u later does not
// matter. An update that cannot be encoded makes the whole batch fail.
func (k Commutative[V, U]) Add(b *Batch, u U) {
	raw, err := encode(u)
	b.add(k.def, raw, err)
}

// Commutes applies a and b to v in both orders, each update in a commit of its
// own, and returns an error of code CodeInvalid when the results differ.
func (k Commutative[V, U]) Commutes(v V, a, b U) error {
	const op = "state.commutes"
	start, err := encode(v)
	if err != nil {
		return fail(rouse.CodeInvalid, op, "the value cannot be encoded", err)
	}
	var results [2]json.RawMessage
	for i, order := range [2][2]U{{a, b}, {b, a}} {
		raw := start
		for _, u := range order {
			update, err := encode(u)
			if err != nil {
				return fail(rouse.CodeInvalid, op, "the update cannot be encoded", err)
			}
			if raw, err = k.def.fold(raw, []json.RawMessage{update}); err != nil {
				return fail(rouse.CodeInvalid, op, "the update cannot be applied", err)
			}
		}
		results[i] = raw
	}
	if !bytes.Equal(results[0], results[1]) {
		return fail(rouse.CodeInvalid, op, "key "+k.def.Name+" does not commute: "+string(results[0])+" and "+string(results[1]), nil)
	}
	return nil
}

// Sum returns a key that adds up integers. A commit whose result does not fit
// into an int64 fails. Floats have no Sum, because adding them does not commute
// with rounding.
func Sum(o Options) Commutative[int64, int64] {
	return newCommutative(o, func(v int64, _ bool, updates []int64) (int64, error) {
		// 128 bits, so that only the result counts and not the order
		lo, hi := uint64(v), v>>63
		for _, u := range updates {
			var carry uint64
			lo, carry = bits.Add64(lo, uint64(u), 0)
			hi += u>>63 + int64(carry)
		}
		if sum := int64(lo); hi == sum>>63 {
			return sum, nil
		}
		return 0, fail(rouse.CodeInvalid, "state.sum", "the sum does not fit into 64 bits", nil)
	})
}

// Max returns a key that keeps the largest update.
func Max[V cmp.Ordered](o Options) Commutative[V, V] {
	return newCommutative(o, func(v V, has bool, updates []V) (V, error) {
		m := slices.Max(updates)
		if has {
			m = max(m, v)
		}
		return m, nil
	})
}

// Union returns a key that collects a set: its value is sorted, without repetition.
func Union[E cmp.Ordered](o Options) Commutative[[]E, E] {
	return newCommutative(o, func(v []E, _ bool, updates []E) ([]E, error) {
		v = append(v, updates...)
		slices.Sort(v)
		return slices.Compact(v), nil
	})
}

func definition(d *Definition) Definition {
	if d == nil { // the zero key
		return Definition{}
	}
	return *d
}

func get[V any](s Snapshot, d *Definition) (V, error) {
	var zero V
	e, err := s.lookup(d)
	if err != nil || e.value == nil {
		return zero, err
	}
	v, err := decode[V](e.value)
	if err != nil {
		return zero, fail(rouse.CodeCorrupt, "state.get", "the value of "+d.Name+" cannot be read", err)
	}
	return v, nil
}

// encode returns v as compact JSON.
func encode[T any](v T) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// decode reads one value, numbers in interfaces as json.Number.
func decode[T any](raw json.RawMessage) (T, error) {
	var v T
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	err := dec.Decode(&v)
	return v, err
}

func fail(code rouse.Code, op, message string, err error) error {
	return &rouse.Error{Code: code, Op: op, Message: message, Err: err}
}
