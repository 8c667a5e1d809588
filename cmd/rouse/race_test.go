//go:build unix && race

package main

// A process under the race detector takes some ten times as long, and the kills
// are about what is on the disk, so fewer are made.
const (
	killMoments = 6
	killStep    = 7
)
