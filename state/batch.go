package state

import (
	"encoding/json"
	"slices"

	"github.com/rouse-run/rouse"
)

// Batch is a list of writes that are committed together or not at all. Snapshot
// makes one; keys write to it. A Batch is not safe for concurrent use. A copy of
// a batch holds what it held then, and the two go separate ways.
//
// The zero Batch belongs to the empty state: it conflicts with every value that exists.
type Batch struct {
	base int64
	last *write // newest first, never changed, so that copies share it
	err  error  // of the first write that could not be encoded
}

// write is one Set, Delete (value is nil) or Add.
type write struct {
	before *write
	def    *Definition
	value  json.RawMessage
}

func (b *Batch) add(d *Definition, raw json.RawMessage, err error) {
	switch {
	case b.err != nil:
	case d == nil:
		b.err = fail(rouse.CodeInvalid, "state.write", "a key was used that no constructor made", nil)
	case err != nil:
		b.err = fail(rouse.CodeInvalid, "state.write", "the value for "+d.Name+" cannot be encoded", err)
	default:
		b.last = &write{b.last, d, raw}
	}
}

// Err returns the error of the first write that could not be encoded. A batch
// with an error is refused as a whole when it is committed.
func (b *Batch) Err() error { return b.err }

// Empty reports whether nothing was written.
func (b *Batch) Empty() bool { return b.last == nil && b.err == nil }

// Keys returns the names of the keys that were written, sorted.
func (b *Batch) Keys() []string {
	var out []string
	for w := b.last; w != nil; w = w.before {
		out = append(out, w.def.Name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// writes returns the writes, oldest first.
func (b *Batch) writes() []*write {
	var out []*write
	for w := b.last; w != nil; w = w.before {
		out = append(out, w)
	}
	slices.Reverse(out)
	return out
}
