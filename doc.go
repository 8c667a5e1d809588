// Package rouse holds the nouns that every other package of the runtime speaks:
// messages and their parts, tool calls and results, events, usage, coded errors,
// ids and the seams for time, identity and randomness. It has no behaviour that
// needs a network, a file or a goroutine, and imports the standard library only.
//
// There are two ways in. A Go program builds an agent (package agent), starts a
// run of it (package run) and ranges over the run's events; the example of this
// package shows it. A team runs the binary cmd/rouse, which wires the same
// packages to a store, to model providers and to a terminal.
//
// # Immutability
//
// A Message that has been put into a request, an event or a log is never changed
// again: whoever wants another one makes a copy. Packages rely on this to share
// slices instead of cloning them.
//
// # Raw JSON stays raw
//
// Arguments of calls, results of tools and states of runs are kept as the bytes
// they arrived in. Nothing in the runtime decodes them into float64 and back, so
// no number is ever rounded.
package rouse
