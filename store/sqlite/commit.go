package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/ncruces/go-sqlite3"
	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/run"
)

// Commit implements run.Journal. An empty b.Owner means Node.
//
// A commit that is still waiting for its turn when ctx ends is not done. One
// that has begun is waited for, so its outcome is known.
//
// Beyond the errors of run.Journal it returns CodeInvalid for a batch without a
// thread, a run, an epoch or a known status, for a claim of a new run and for
// deltas, which are not stored; and CodeTooLarge for more than Config.MaxBytes.
func (s *Store) Commit(ctx context.Context, b *run.Batch) error {
	if err := s.check(b); err != nil {
		return err
	}
	return s.submit(ctx, opCommit, &request{batch: b, done: make(chan struct{}, 1)})
}

// submit gives r to the writer and waits for the outcome.
func (s *Store) submit(ctx context.Context, op string, r *request) error {
	if ctx.Err() != nil {
		return contextError(ctx, op)
	}
	if err := s.queue.push(r); err != nil {
		return err
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		if r.state.CompareAndSwap(waiting, abandoned) {
			return contextError(ctx, op)
		}
		<-r.done
	}
	return r.err
}

// check refuses what no store could write.
func (s *Store) check(b *run.Batch) error {
	if err := b.Check(); err != nil {
		return err
	}
	if !known(b.Status) {
		return invalid(opCommit, fmt.Sprintf("there is no status %q", b.Status))
	}
	size := int64(len(b.Thread) + len(b.Run) + len(b.Owner) + len(b.Agent) + len(b.Title))
	for i := range b.Events {
		e := &b.Events[i]
		if e.Class != rouse.ClassFact && e.Class != rouse.ClassDraw {
			return invalid(opCommit, fmt.Sprintf("an event of class %q is not stored", e.Class))
		}
		size += int64(len(e.Path) + len(e.Type) + len(e.Key) + len(e.Data))
	}
	if size > s.cfg.MaxBytes {
		return &rouse.Error{
			Code: rouse.CodeTooLarge, Op: opCommit, Message: fmt.Sprintf("a batch of %d bytes is over the limit of %d", size, s.cfg.MaxBytes),
			Hint: "keep large values as blobs, or raise MaxBytes",
		}
	}
	return nil
}

func known(s rouse.Status) bool {
	return s == rouse.StatusRunning || s == rouse.StatusWaiting || s.Final()
}

// row is what the writer needs to know of a run and of its thread.
type row struct {
	run, thread       int64 // the n columns
	revision, epoch   int64
	firstSeq, lastSeq int64 // of the run
	threadSeq         int64 // the last of the thread
	otherThread       bool  // it is not the thread of the batch
	sameStatus        bool
}

// writeBatch writes the rows of r.batch. Its error is a verdict when the batch
// cannot be written as things stand.
func (w *writer) writeBatch(r *request) error {
	b := r.batch
	at, found, err := w.findRun(b)
	if err != nil {
		return err
	}
	if b.Revision == 0 {
		if found {
			return refuse(rouse.CodeConflict, fmt.Sprintf("the run %q exists already", b.Run))
		}
		at, err = w.create(b)
	} else {
		if err := compare(b, at, found); err != nil {
			return err
		}
		err = w.update(b, at)
	}
	if err != nil {
		return err
	}
	r.first = at.threadSeq + 1
	if err := w.fault(PointCommitRun); err != nil {
		return err
	}
	for i := range b.Events {
		if err := w.addEvent(at, r.first+int64(i), &b.Events[i]); err != nil {
			return err
		}
	}
	return w.fault(PointCommitEvents)
}

// compare holds b against the run that is there.
func compare(b *run.Batch, at row, found bool) error {
	before := b.Epoch
	if b.Claim {
		before--
	}
	switch {
	case !found || at.otherThread:
		return refuse(rouse.CodeNotFound, fmt.Sprintf("there is no run %q in the thread", b.Run))
	case at.epoch != before:
		return refuse(rouse.CodeFenced, fmt.Sprintf("the run is in epoch %d, not %d: another owner has it", at.epoch, before))
	case at.revision != b.Revision:
		return refuse(rouse.CodeConflict, fmt.Sprintf("the run is at revision %d, not %d", at.revision, b.Revision))
	}
	return nil
}

func (w *writer) findRun(b *run.Batch) (at row, found bool, err error) {
	s := w.stmts.findRun
	if err := s.BindText(1, b.Run); err != nil {
		return row{}, false, err
	}
	if found = s.Step(); found {
		at = row{
			run: s.ColumnInt64(0), thread: s.ColumnInt64(1),
			otherThread: string(s.ColumnRawText(2)) != b.Thread,
			revision:    s.ColumnInt64(3), epoch: s.ColumnInt64(4),
			sameStatus: string(s.ColumnRawText(5)) == string(b.Status),
			firstSeq:   s.ColumnInt64(6), lastSeq: s.ColumnInt64(7), threadSeq: s.ColumnInt64(8),
		}
	}
	return at, found, s.Reset()
}

// create adds the run, and the thread if it is new.
func (w *writer) create(b *run.Batch) (at row, err error) {
	s := w.stmts.findThread
	if err := s.BindText(1, b.Thread); err != nil {
		return row{}, err
	}
	if s.Step() {
		at.thread, at.threadSeq = s.ColumnInt64(0), s.ColumnInt64(1)
	}
	if err := s.Reset(); err != nil {
		return row{}, err
	}
	if at.thread == 0 {
		add := binder{s: w.stmts.addThread}
		if err := add.text(b.Thread).text(b.Title).int(w.now).exec(); err != nil {
			return row{}, err
		}
		at.thread = w.conn.LastInsertRowID()
	}
	at.extend(len(b.Events))
	add := binder{s: w.stmts.addRun}
	add.text(b.Run).int(at.thread).text(b.Agent).text(b.Title).text(string(b.Status)).int(b.Epoch)
	if err := add.text(w.owner(b)).int(at.firstSeq).int(at.lastSeq).int(w.now).exec(); err != nil {
		return row{}, busy(err)
	}
	at.run = w.conn.LastInsertRowID()
	count := binder{s: w.stmts.countRun}
	if err := count.int(at.thread).exec(); err != nil {
		return row{}, err
	}
	return at, w.touchThread(b, at)
}

func (w *writer) update(b *run.Batch, at row) error {
	if !at.sameStatus {
		move := binder{s: w.stmts.moveRun}
		if err := move.text(string(b.Status)).int(at.run).exec(); err != nil {
			return busy(err)
		}
	}
	if b.Claim {
		claim := binder{s: w.stmts.claimRun}
		if err := claim.int(b.Epoch).text(w.owner(b)).int(at.run).exec(); err != nil {
			return err
		}
	}
	at.extend(len(b.Events))
	touch := binder{s: w.stmts.touchRun}
	if err := touch.int(b.Revision + 1).int(at.firstSeq).int(at.lastSeq).int(w.now).int(at.run).exec(); err != nil {
		return err
	}
	return w.touchThread(b, at)
}

func (w *writer) touchThread(b *run.Batch, at row) error {
	used := binder{s: w.stmts.used}
	return used.int(at.threadSeq + int64(len(b.Events))).int(w.now).int(at.thread).exec()
}

func (w *writer) owner(b *run.Batch) string {
	if b.Owner == "" {
		return w.store.node.id
	}
	return b.Owner
}

// extend moves the run's first and last place over n more events.
func (at *row) extend(n int) {
	if n == 0 {
		return
	}
	if at.firstSeq == 0 {
		at.firstSeq = at.threadSeq + 1
	}
	at.lastSeq = at.threadSeq + int64(n)
}

// busy makes the verdict of the index that allows one open run per thread. No
// other unique index can refuse a write of a run: its id has been looked up.
func busy(err error) error {
	if errors.Is(err, sqlite3.CONSTRAINT_UNIQUE) {
		return refuse(rouse.CodeBusy, "another run of the thread is open")
	}
	return err
}

func (w *writer) addEvent(at row, seq int64, e *rouse.Event) error {
	add := binder{s: w.stmts.addEvent}
	add.int(at.thread).int(seq).int(at.run).text(e.Path).text(string(e.Class)).text(string(e.Type)).text(e.Key)
	return add.int(e.At.UnixMilli()).int(int64(e.Sum)).blob(e.Data).exec() //nolint:gosec // the bits are kept
}
