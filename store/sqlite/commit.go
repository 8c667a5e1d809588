package sqlite

import (
	"context"
	"fmt"

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
	r := newRequest()
	r.batch = b
	return s.submit(ctx, opCommit, r)
}

// submit has r done, by this caller or by another one, and returns the outcome.
func (s *Store) submit(ctx context.Context, op string, r *request) error {
	if ctx.Err() != nil {
		return contextError(ctx, op)
	}
	turn, err := s.queue.push(r)
	if err != nil {
		return err
	}
	if !turn {
		select {
		case turn = <-r.turn:
		case <-ctx.Done():
			if r.state.CompareAndSwap(waiting, abandoned) {
				return contextError(ctx, op)
			}
			turn = <-r.turn
		}
	}
	if turn {
		s.writer.serve(s.queue, r)
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
	threadID          string
	revision, epoch   int64
	status            rouse.Status
	firstSeq, lastSeq int64 // of the run
	threadSeq         int64 // the last of the thread
}

// open reports whether the run exists and is running or waiting.
func (at row) open() bool { return at.run != 0 && !at.status.Final() }

// writeBatch writes the rows of r.batch. Its error is a verdict when the batch
// cannot be written as things stand; then nothing has been written. After
// another error the transaction must not be committed.
func (w *writer) writeBatch(r *request) error {
	b := r.batch
	at, err := w.judge(b)
	if err != nil {
		return err
	}
	open := at.open()
	r.first = at.threadSeq + 1
	if n := len(b.Events); n > 0 {
		if at.firstSeq == 0 {
			at.firstSeq = r.first
		}
		at.lastSeq = at.threadSeq + int64(n)
	}
	if b.Revision == 0 {
		err = w.create(b, &at)
	} else {
		err = w.update(b, at)
	}
	if err != nil {
		return err
	}
	if err := w.fault(PointCommitRun); err != nil {
		return err
	}
	for i := range b.Events {
		if err := w.addEvent(at, r.first+int64(i), &b.Events[i]); err != nil {
			return err
		}
	}
	w.open.written(b, at, open)
	return w.fault(PointCommitEvents)
}

// judge holds b against what is stored and returns where it goes, or the verdict
// that it cannot be written. It only reads.
func (w *writer) judge(b *run.Batch) (row, error) {
	at, found, err := w.findRun(b)
	if err != nil {
		return row{}, err
	}
	if b.Revision != 0 {
		if err := compare(b, at, found); err != nil {
			return row{}, err
		}
		if at.open() || b.Status.Final() {
			return at, nil // it does not become open
		}
	} else {
		if found {
			return row{}, refuse(rouse.CodeConflict, fmt.Sprintf("the run %q exists already", b.Run))
		}
		if at, found, err = w.findThread(b.Thread); err != nil || !found {
			return at, err
		}
		if b.Status.Final() {
			return at, nil
		}
	}
	return at, w.alone(at.thread)
}

// compare holds b against the run that is there.
func compare(b *run.Batch, at row, found bool) error {
	before := b.Epoch
	if b.Claim {
		before--
	}
	switch {
	case !found || at.threadID != b.Thread:
		return refuse(rouse.CodeNotFound, fmt.Sprintf("there is no run %q in the thread", b.Run))
	case at.epoch != before:
		return refuse(rouse.CodeFenced, fmt.Sprintf("the run is in epoch %d, not %d: another owner has it", at.epoch, before))
	case at.revision != b.Revision:
		return refuse(rouse.CodeConflict, fmt.Sprintf("the run is at revision %d, not %d", at.revision, b.Revision))
	}
	return nil
}

func (w *writer) findRun(b *run.Batch) (at row, found bool, err error) {
	if at, found = w.open.rows[b.Run]; found {
		return at, true, nil
	}
	s := w.stmts.findRun
	if err := s.BindText(1, b.Run); err != nil {
		return row{}, false, err
	}
	if found = s.Step(); found {
		at = row{
			run: s.ColumnInt64(0), thread: s.ColumnInt64(1), threadID: s.ColumnText(2),
			revision: s.ColumnInt64(3), epoch: s.ColumnInt64(4), status: rouse.Status(s.ColumnText(5)),
			firstSeq: s.ColumnInt64(6), lastSeq: s.ColumnInt64(7), threadSeq: s.ColumnInt64(8),
		}
	}
	return at, found, s.Reset()
}

func (w *writer) findThread(id string) (at row, found bool, err error) {
	s := w.stmts.findThread
	if err := s.BindText(1, id); err != nil {
		return row{}, false, err
	}
	if found = s.Step(); found {
		at.thread, at.threadSeq = s.ColumnInt64(0), s.ColumnInt64(1)
	}
	return at, found, s.Reset()
}

// alone is the verdict CodeBusy when a run of the thread is open. The index
// runs_open would refuse a second one too, but only once it is written.
func (w *writer) alone(thread int64) error {
	s := w.stmts.findOpen
	if err := s.BindInt64(1, thread); err != nil {
		return err
	}
	found := s.Step()
	if err := s.Reset(); err != nil || !found {
		return err
	}
	return refuse(rouse.CodeBusy, "another run of the thread is open")
}

// create adds the run, and the thread if it is new.
func (w *writer) create(b *run.Batch, at *row) error {
	if at.thread == 0 {
		add := binder{s: w.stmts.addThread}
		if err := add.text(b.Thread).text(b.Title).int(w.now).exec(); err != nil {
			return err
		}
		at.thread = w.conn.LastInsertRowID()
	}
	add := binder{s: w.stmts.addRun}
	add.text(b.Run).int(at.thread).text(b.Agent).text(b.Title).text(string(b.Status)).int(b.Epoch)
	if err := add.text(w.owner(b)).int(at.firstSeq).int(at.lastSeq).int(w.now).exec(); err != nil {
		return err
	}
	at.run = w.conn.LastInsertRowID()
	return nil
}

// update writes what a commit changes. The columns that seldom change have
// indexes or long values; they are left alone when they stay what they were.
func (w *writer) update(b *run.Batch, at row) error {
	if b.Claim {
		claim := binder{s: w.stmts.claimRun}
		if err := claim.int(at.run).int(b.Epoch).text(w.owner(b)).exec(); err != nil {
			return err
		}
	}
	touch := binder{s: w.stmts.touchRun}
	if at.status != b.Status {
		touch.s = w.stmts.moveRun
	}
	touch.int(at.run).int(b.Revision + 1).int(at.firstSeq).int(at.lastSeq).int(w.now)
	if at.status != b.Status {
		touch.text(string(b.Status))
	}
	return touch.exec()
}

func (w *writer) owner(b *run.Batch) string {
	if b.Owner == "" {
		return w.store.node.id
	}
	return b.Owner
}

func (w *writer) addEvent(at row, seq int64, e *rouse.Event) error {
	add := binder{s: w.stmts.addEvent}
	add.int(at.thread).int(seq).int(at.run)
	for i, v := range [...]string{e.Path, string(e.Class), string(e.Type), e.Key} {
		add.changed(v, &w.event[i])
	}
	return add.int(e.At.UnixMilli()).int(int64(e.Sum)).blob(e.Data).exec() //nolint:gosec // the bits are kept
}
