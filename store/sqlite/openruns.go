package sqlite

import (
	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/run"
)

// maxRemembered bounds openRuns.
const maxRemembered = 4096

// openRuns remembers the rows of running runs, so that the next commit of each
// need not look for them. It holds for the transaction that is under way, and
// nothing that another connection may have changed: begin says so. What is
// remembered of a thread stays true because only its open run writes to it;
// whoever else does makes everything be forgotten.
type openRuns struct {
	rows    map[string]row
	version uint32 // of the database, as of the connection's last commit
}

// begin is called within a transaction with the version of the database that the
// connection sees. Every commit changes it, also another connection's.
func (o *openRuns) begin(version uint32) {
	if version != o.version {
		o.forget()
	}
}

// committed is called after a commit of the connection.
func (o *openRuns) committed(version uint32, err error) {
	o.version = version
	if err != nil {
		o.forget()
	}
}

// forget is called when a transaction is not committed.
func (o *openRuns) forget() { clear(o.rows) }

// written tells that b was written at the given place; open, that its run was
// the open one of its thread before.
func (o *openRuns) written(b *run.Batch, at row, open bool) {
	switch {
	case b.Status.Final() && !open:
		o.forget()
	case b.Status != rouse.StatusRunning:
		delete(o.rows, b.Run)
	default:
		if len(o.rows) >= maxRemembered {
			o.forget()
		}
		at.threadID, at.revision, at.epoch, at.status = b.Thread, b.Revision+1, b.Epoch, b.Status
		at.threadSeq += int64(len(b.Events))
		o.rows[b.Run] = at
	}
}
