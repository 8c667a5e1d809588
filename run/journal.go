// Package run is the kernel: it drives a step from commit to commit, writes what
// happened to a Journal, and continues a run from there after a crash.
package run

import (
	"context"
	"iter"

	"github.com/rouse-run/rouse"
)

// Journal is where the kernel writes what happened and reads it back. It is the
// whole of what durability asks of a store; NewMemory is one without a database.
//
// A Journal is safe for concurrent use.
type Journal interface {
	// Commit appends b.Events to the journal of b.Thread and updates the run's
	// row, all or nothing and durable when it returns nil. It sets Seq of every
	// event in b.Events: consecutive in the thread, from 1, without a gap.
	//
	// With b.Revision 0 it creates the run (and the thread, if new). Otherwise the
	// run's revision must be b.Revision and its epoch b.Epoch; with b.Claim the
	// epoch must be b.Epoch-1 and becomes b.Epoch. The revision becomes b.Revision+1.
	//
	// Errors: CodeConflict when the revision differs or the run exists already,
	// CodeFenced when the epoch differs, CodeBusy when another run of the thread
	// is open (running or waiting), CodeNotFound when the thread has no such run,
	// CodeStorage when it could not be written. After an error nothing has
	// changed, unless the code is CodeUncertain: then it is not known.
	Commit(ctx context.Context, b *Batch) error
	// Read yields events in the order of Seq. The error, if any, is the last pair.
	// An unknown thread yields nothing.
	Read(ctx context.Context, q Query) iter.Seq2[rouse.Event, error]
}

// Batch is one commit of one run.
type Batch struct {
	Thread string
	Run    string
	// Revision is what the writer saw last; 0 for the first commit.
	Revision int64
	// Epoch is the writer's; it starts at 1 and grows with every claim.
	Epoch int64
	// Claim takes the run over from another owner.
	Claim bool
	// Owner names the process that writes; it is stored on creation and on a claim.
	Owner string
	// Status is the run's state after this commit.
	Status rouse.Status
	// Agent and Title describe the run in listings; stored on creation only.
	Agent string
	Title string
	// Events belong to Thread and Run. Their Thread, Run and Seq fields are set by
	// the journal; Data is kept without copying.
	Events []rouse.Event
}

// Query selects events of one thread.
type Query struct {
	Thread string
	// Run keeps the events of one run only; empty means all.
	Run string
	// After keeps events with a larger Seq; Until, unless 0, those with at most this Seq.
	After, Until int64
	// Types keeps these types only; empty means all.
	Types []rouse.EventType
}

// Check reports what makes b impossible to commit to any journal; the error has
// the code CodeInvalid. Implementations call it first.
func (b *Batch) Check() error {
	var what string
	switch {
	case b.Thread == "":
		what = "it names no thread"
	case b.Run == "":
		what = "it names no run"
	case b.Revision < 0:
		what = "its revision is negative"
	case b.Epoch < 1:
		what = "its epoch is not positive"
	case b.Claim && b.Revision == 0:
		what = "it claims a run that does not exist yet"
	case b.Status == "":
		what = "it has no status"
	default:
		return nil
	}
	return &rouse.Error{Code: rouse.CodeInvalid, Op: "journal.commit", Message: "the batch cannot be committed: " + what}
}

// Row is what a journal's owner knows of a run besides its events; resuming
// needs it.
type Row struct {
	Thread   string       `json:"thread"`
	Run      string       `json:"run"`
	Revision int64        `json:"revision"`
	Epoch    int64        `json:"epoch"`
	Status   rouse.Status `json:"status"`
}
