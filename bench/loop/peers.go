package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/rouse-run/rouse/bench/internal/floor"
	"github.com/rouse-run/rouse/bench/internal/tuned"
	"github.com/rouse-run/rouse/bench/internal/workload"
)

// peer is one way to run an agent loop.
type peer interface {
	// Prepare builds what the runs of a task share. It is called once, first.
	Prepare(t workload.Task) error
	// Run does one whole run; id is unique to it. It is called from many
	// goroutines at once.
	Run(ctx context.Context, id int) (workload.Result, error)
	// Close releases everything; no run is in flight.
	Close()
}

// The modes of the runtime.
const (
	modeMemory = "memory"
	modeSQLite = "sqlite"
)

func allModes() []string { return []string{modeMemory, modeSQLite} }

// The names of the floors; the other peers are measured against them.
const (
	floorName = "floor"
	tunedName = "tuned"
)

// entry registers a peer.
type entry struct {
	Name string
	Mode string // "" for the floors, which are always measured
	New  func() peer
}

// allPeers returns the peers in the order in which they are reported.
func allPeers() []entry {
	return []entry{
		{Name: floorName, New: func() peer { return floor.New() }},
		{Name: tunedName, New: func() peer { return tuned.New() }},
		{Name: "rouse-memory", Mode: modeMemory, New: func() peer { return newRouse(modeMemory) }},
		{Name: "rouse-sqlite", Mode: modeSQLite, New: func() peer { return newRouse(modeSQLite) }},
	}
}

// peersFor returns the floors and the peers of the modes.
func peersFor(modes []string) []entry {
	return slices.DeleteFunc(allPeers(), func(e entry) bool {
		return e.Mode != "" && !slices.Contains(modes, e.Mode)
	})
}

func newPeer(name string) (peer, error) {
	for _, e := range allPeers() {
		if e.Name == name {
			return e.New(), nil
		}
	}
	return nil, fmt.Errorf("no peer %q", name)
}
