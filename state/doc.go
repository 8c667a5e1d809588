// Package state is the keyed state of a run: values that plugins, tools and
// steps share, each under a typed key, changed by batches that are merged and
// committed together.
//
// # Keys
//
// A key is Exclusive (its value is replaced) or Commutative (writers hand in
// updates that join in any order). The two are different Go types: an exclusive
// key has no Add and a commutative one has no Set, so a merge that cannot commute
// does not compile. Keys are values without state; they may be package variables.
//
// # Reading and writing
//
// Everybody reads from an immutable Snapshot and writes to a Batch that the
// snapshot made. A Store commits batches, all or nothing. Two batches that write
// the same exclusive key, or one that writes a key which changed since its
// snapshot, are a conflict with a *Conflict as its cause; never does one write
// silently replace another that its writer has not seen. Reads are not checked:
// a batch that read one key and wrote another does not notice that the first changed.
//
// # Values are bytes
//
// A value is stored as JSON and decoded anew for each reader, so nobody can change
// what others see, and no number is rounded: numbers decoded into an interface
// are json.Number. With a value goes the version of its schema; a key of a later
// version migrates it when it is loaded.
package state
