// Package store declares what Rouse asks of a database, as small interfaces.
// store/sqlite implements them, and store/storetest is the contract suite that
// every implementation passes.
package store

import (
	"context"
	"io"
	"time"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/run"
)

// Store is everything together.
type Store interface {
	run.Journal
	Node
	Runs
	Threads
	Blobs
	io.Closer
}

// Node is who writes to a store.
type Node interface {
	// Node names this opening of the store, differently from every other one. Who
	// commits says so in Batch.Owner; an empty Owner means the same. Then Orphans,
	// here and in other processes, can tell that the owner is alive, which it is
	// until Close or the end of its process.
	Node() string
}

// Runs are the rows that Commit maintains.
type Runs interface {
	// Run returns one run; CodeNotFound when there is none.
	Run(ctx context.Context, id string) (RunInfo, error)
	// ListRuns returns runs, newest first, at most f.Limit, and a cursor for the
	// next page ("" when this was the last).
	ListRuns(ctx context.Context, f RunFilter) (runs []RunInfo, next string, err error)
	// Orphans returns the open (running) runs whose owner is no longer alive.
	Orphans(ctx context.Context) ([]RunInfo, error)
}

// RunInfo is one run's row.
type RunInfo struct {
	ID       string       `json:"id"`
	Thread   string       `json:"thread"`
	Agent    string       `json:"agent,omitempty"`
	Title    string       `json:"title,omitempty"`
	Status   rouse.Status `json:"status"`
	Revision int64        `json:"revision"`
	Epoch    int64        `json:"epoch"`
	Owner    string       `json:"owner,omitempty"`
	FirstSeq int64        `json:"first_seq"` // of the run's first event in the thread
	LastSeq  int64        `json:"last_seq"`
	Created  time.Time    `json:"created"`
	Updated  time.Time    `json:"updated"`
}

// RunFilter selects runs; its zero value selects all.
type RunFilter struct {
	Thread string
	Status []rouse.Status
	Limit  int    // default 50, at most 1000
	Cursor string // from an earlier page
}

// Threads are the conversations.
type Threads interface {
	// Thread returns one thread; CodeNotFound when there is none.
	Thread(ctx context.Context, id string) (ThreadInfo, error)
	// ListThreads returns threads, the one whose latest run began last first.
	ListThreads(ctx context.Context, limit int, cursor string) (threads []ThreadInfo, next string, err error)
}

// ThreadInfo is one thread's row.
type ThreadInfo struct {
	ID      string    `json:"id"`
	Title   string    `json:"title,omitempty"` // of its first run
	Runs    int       `json:"runs"`
	LastSeq int64     `json:"last_seq"`
	Created time.Time `json:"created"`
	Updated time.Time `json:"updated"` // by its latest run
}

// Blobs keeps large values once each, under the hash of their content.
type Blobs interface {
	// PutBlob stores data durably and returns its reference, "sha256:" and 64
	// hexadecimal digits. Storing the same bytes again is cheap and changes nothing.
	PutBlob(ctx context.Context, data []byte) (ref string, err error)
	// Blob returns the bytes; CodeNotFound when there are none.
	Blob(ctx context.Context, ref string) ([]byte, error)
}
