package sqlite

import (
	"errors"
	"fmt"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/rouse-run/rouse"
)

// crowded is how many commits must have shared the last transaction for the next
// one to wait for company.
const crowded = 4

// writer owns the connection that writes. Whoever has the queue's turn uses it.
type writer struct {
	crowd      int // of the last turn
	store      *Store
	conn       *sqlite3.Conn
	stmts      statements
	open       openRuns
	event      [4]string // the texts that addEvent is bound to
	checkpoint *checkpointer
	group      []*request
	pages      int   // in the write-ahead log, as of the last commit
	now        int64 // the time of the transaction, in milliseconds
}

func newWriter(s *Store, c *sqlite3.Conn) (*writer, error) {
	w := &writer{store: s, conn: c, open: openRuns{rows: make(map[string]row)}}
	if err := w.stmts.prepare(c); err != nil {
		return nil, err
	}
	for i := range w.event {
		if err := w.stmts.addEvent.BindText(firstEventText+i, ""); err != nil {
			return nil, err
		}
	}
	c.WALHook(func(_ *sqlite3.Conn, _ string, pages int) error {
		w.pages = pages
		return nil
	})
	return w, nil
}

// serve does one turn, which own has: it does own and what has come meanwhile,
// tells the others and passes the turn on. A panic, of Config.Clock for instance,
// is the panic of the caller who has the turn; it ends the store, and nobody waits
// for ever.
func (w *writer) serve(q *queue, own *request) {
	if w.crowd >= crowded && w.store.cfg.Gather > 0 && !own.alone {
		<-time.After(w.store.cfg.Gather)
	}
	w.group = q.take(append(w.group, own), w.store.cfg.GroupSize)
	w.crowd = len(w.group)
	done := false
	defer func() {
		if !done {
			q.die(errStopped())
			fail(w.group, uncertain(errStopped()))
		}
		for i, r := range w.group {
			if r != own {
				r.turn <- false
			}
			w.group[i] = nil
		}
		w.group = w.group[:0]
		w.checkpoint.grown(w.pages)
		q.pass()
	}()
	w.write(w.group)
	done = true
}

// write sets the outcome of every request of the group.
func (w *writer) write(group []*request) {
	again, err := w.transaction(group)
	if err == nil {
		return
	}
	if !again || len(group) == 1 {
		fail(group, err)
		return
	}
	// One request met a failure that is not its own verdict, such as a full disk,
	// and took the others along. Alone, each gets what it deserves.
	for i := range group {
		if _, err := w.transaction(group[i : i+1]); err != nil {
			fail(group[i:i+1], err)
		}
	}
}

func fail(group []*request, err error) {
	for _, r := range group {
		if r.err == nil {
			r.err = err
		}
	}
}

// transaction writes the group in one transaction and sets the verdict of each
// request that is refused. When it returns an error nothing was written, or it
// is of code CodeUncertain; again tells that a smaller group may succeed.
func (w *writer) transaction(group []*request) (again bool, err error) {
	if err := w.store.queue.err(); err != nil && w.store.queue.died() {
		return false, err
	}
	if err := w.fault(PointCommitBegin); err != nil {
		return false, err
	}
	w.now = w.store.cfg.Clock.Now().UnixMilli()
	if err := w.stmts.begin.Exec(); err != nil {
		return false, classify(opCommit, err)
	}
	version, err := w.version()
	if err != nil {
		return false, with(classify(opCommit, err), w.rollback())
	}
	w.open.begin(version)
	changed := false
	for _, r := range group {
		r.err = nil
		if err := w.apply(r); err != nil {
			return !w.store.queue.died(), with(classify(opCommit, err), w.rollback())
		}
		changed = changed || r.err == nil
	}
	if !changed {
		return false, w.rollback()
	}
	if err := w.fault(PointCommitLast); err != nil {
		return false, with(err, w.rollback())
	}
	if err := w.stmts.commit.Exec(); err != nil {
		err = with(err, w.rollback())
		if unknown(err) {
			return false, uncertain(err)
		}
		return true, classify(opCommit, err)
	}
	if err := w.fault(PointCommitDone); err != nil {
		return false, uncertain(err)
	}
	w.open.committed(w.version())
	for _, r := range group {
		r.settle()
	}
	return false, nil
}

// apply does one request. A verdict about it goes to r.err; then it has written
// nothing. Any other failure is returned.
func (w *writer) apply(r *request) error {
	var err error
	if r.batch != nil {
		err = w.writeBatch(r)
	} else {
		err = w.writeBlob(r)
	}
	if v := (*verdict)(nil); errors.As(err, &v) {
		r.err = v.err
		return nil
	}
	if errors.Is(err, sqlite3.CONSTRAINT) {
		return contradiction(err)
	}
	return err
}

// verdict is an error that concerns one request only.
type verdict struct{ err *rouse.Error }

func (v *verdict) Error() string { return v.err.Error() }
func (v *verdict) Unwrap() error { return v.err }

func refuse(code rouse.Code, message string) error {
	return &verdict{&rouse.Error{Code: code, Op: opCommit, Message: message}}
}

// contradiction is the failure of a constraint that no batch can break by itself.
func contradiction(err error) error {
	return &rouse.Error{
		Code: rouse.CodeCorrupt, Op: opCommit, Message: "the stored rows of the thread contradict each other", Err: err,
		Hint: "somebody has changed " + FileName + " by other means; restore it from a backup",
	}
}

// settle gives the events of a written batch their places.
func (r *request) settle() {
	if r.err != nil || r.batch == nil {
		return
	}
	b := r.batch
	for i := range b.Events {
		e := &b.Events[i]
		e.Thread, e.Run, e.Seq = b.Thread, b.Run, r.first+int64(i)
	}
}

// version returns a number that every commit to the database changes.
func (w *writer) version() (uint32, error) {
	v, err := w.conn.FileControl("main", sqlite3.FCNTL_DATA_VERSION)
	if err != nil {
		return 0, err
	}
	n, ok := v.(uint32)
	if !ok {
		return 0, fmt.Errorf("the database's version has the type %T", v)
	}
	return n, nil
}

// rollback ends the transaction, unless the failure has done so already.
func (w *writer) rollback() error {
	w.open.forget()
	if w.conn.GetAutocommit() {
		return nil
	}
	return w.stmts.rollback.Exec()
}

// fault calls the test's hook. Its error ends the store.
func (w *writer) fault(point string) error {
	err := w.store.fault(point)
	if err != nil {
		w.store.queue.die(err)
	}
	return err
}

// takeTurn waits for the turn and finishes a checkpoint in it. It does nothing
// when the store is closed: then Close does it.
func (w *writer) takeTurn(q *queue) {
	r := newRequest()
	r.alone = true
	turn, err := q.push(r)
	if err != nil {
		return
	}
	if !turn {
		<-r.turn
	}
	w.finishCheckpoint()
	q.pass()
}

// finishCheckpoint moves what the checkpointer left of the log, which is what was
// committed meanwhile. Nobody commits now, so the log can begin anew.
func (w *writer) finishCheckpoint() {
	if w.fault(PointCheckpointBegin) != nil {
		return
	}
	start := time.Now()
	size, moved, err := w.conn.WALCheckpoint("main", sqlite3.CHECKPOINT_PASSIVE)
	w.checkpoint.finished(size, moved, time.Since(start), err)
	_ = w.fault(PointCheckpointDone) // the next call finds the store dead
}

// close ends the connection. After a fault it leaves everything as a killed
// process would.
func (w *writer) close() error {
	if w.store.queue.died() {
		_, err := w.conn.Config(sqlite3.DBCONFIG_NO_CKPT_ON_CLOSE, true)
		return errors.Join(err, closeConn(w.conn))
	}
	err := w.fault(PointCloseNode)
	if err == nil {
		err = exec(w.conn, `DELETE FROM nodes WHERE id = ?1`, w.store.node.id)
	}
	if err == nil {
		w.finishCheckpoint()
	}
	if w.store.queue.died() {
		_, off := w.conn.Config(sqlite3.DBCONFIG_NO_CKPT_ON_CLOSE, true)
		err = errors.Join(err, off)
	}
	return classify(opClose, errors.Join(err, closeConn(w.conn)))
}
