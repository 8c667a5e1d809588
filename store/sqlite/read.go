package sqlite

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/run"
)

const (
	// A read takes this many events, or bytes, at a time; between two pages it
	// holds neither a connection nor a snapshot.
	pageEvents = 256
	pageBytes  = 1 << 20
)

// pool lends connections that read. The slots are filled on first use.
type pool struct {
	open   func() (*sqlite3.Conn, error)
	slots  chan *reader
	closed chan struct{}
	once   sync.Once
}

func newPool(n int, open func() (*sqlite3.Conn, error)) *pool {
	p := &pool{open: open, slots: make(chan *reader, n), closed: make(chan struct{})}
	for range n {
		p.slots <- &reader{}
	}
	return p
}

// close waits for the readers that are in use.
func (p *pool) close() error {
	var errs []error
	p.once.Do(func() {
		close(p.closed)
		for range cap(p.slots) {
			if r := <-p.slots; r.conn != nil {
				errs = append(errs, closeConn(r.conn))
			}
		}
	})
	return errors.Join(errs...)
}

// reader is a connection and the statements prepared on it, by their text.
type reader struct {
	conn  *sqlite3.Conn
	stmts map[string]*sqlite3.Stmt
}

// query calls row for every row that sql yields.
func (r *reader) query(sql string, row func(*sqlite3.Stmt) error, args ...any) error {
	s := r.stmts[sql]
	if s == nil {
		var err error
		if s, _, err = r.conn.PrepareFlags(sql, sqlite3.PREPARE_PERSISTENT); err != nil {
			return err
		}
		r.stmts[sql] = s
	}
	err := bind(s, args...)
	for err == nil && s.Step() {
		err = row(s)
	}
	if err == nil {
		err = s.Err()
	}
	if reset := s.Reset(); err == nil { // after a failed step it only repeats that error
		err = reset
	}
	return err
}

// read lends fn a connection, interrupts it when ctx ends and classifies its error.
func (s *Store) read(ctx context.Context, op string, fn func(*reader) error) error {
	if err := s.queue.err(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return contextError(ctx, op)
	}
	var r *reader
	select {
	case r = <-s.pool.slots:
	case <-ctx.Done():
		return contextError(ctx, op)
	case <-s.pool.closed:
		return errClosed()
	}
	defer func() { s.pool.slots <- r }()
	if r.conn == nil {
		c, err := s.pool.open()
		if err != nil {
			return classify(op, err)
		}
		r.conn, r.stmts = c, make(map[string]*sqlite3.Stmt)
	}
	r.conn.SetInterrupt(ctx)
	defer r.conn.SetInterrupt(context.Background())
	err := fn(r)
	if errors.Is(err, sqlite3.INTERRUPT) && ctx.Err() != nil {
		return contextError(ctx, op)
	}
	return classify(op, err)
}

// Read implements run.Journal. It yields what was committed when the iteration
// began, and holds nothing while the loop's body runs. The error is CodeInvalid
// for a query without a thread.
func (s *Store) Read(ctx context.Context, q run.Query) iter.Seq2[rouse.Event, error] {
	return func(yield func(rouse.Event, error) bool) {
		if q.Thread == "" {
			yield(rouse.Event{}, invalid(opRead, "a query needs a thread"))
			return
		}
		var sc *scan
		err := s.read(ctx, opRead, func(r *reader) (err error) {
			if sc, err = begin(r, q); err == nil {
				err = sc.page(r)
			}
			return err
		})
		for {
			if err != nil {
				yield(rouse.Event{}, err)
				return
			}
			for _, e := range sc.events {
				if !yield(e, nil) {
					return
				}
			}
			if sc.after >= sc.until {
				return
			}
			err = s.read(ctx, opRead, sc.page)
		}
	}
}

// scan is where a Read stands.
type scan struct {
	query        run.Query
	thread, run  int64 // the n columns; run is 0 for all runs
	after, until int64 // what is left to look at; nothing when after is not smaller
	events       []rouse.Event
	names        map[string]string
}

// begin finds the thread and the run and the last Seq that belongs to the answer.
func begin(r *reader, q run.Query) (*scan, error) {
	sc := &scan{query: q, after: q.After}
	err := r.query(`SELECT t.n, (SELECT max(e.seq) FROM events e WHERE e.thread = t.n) FROM threads t WHERE t.id = ?1`, func(st *sqlite3.Stmt) error {
		sc.thread, sc.until = st.ColumnInt64(0), st.ColumnInt64(1)
		return nil
	}, q.Thread)
	if err != nil || sc.thread == 0 {
		return sc, err
	}
	if q.Until != 0 {
		sc.until = min(sc.until, q.Until)
	}
	if q.Run == "" {
		return sc, nil
	}
	err = r.query(`SELECT n, first_seq, last_seq FROM runs WHERE id = ?1 AND thread = ?2`, func(st *sqlite3.Stmt) error {
		sc.run = st.ColumnInt64(0)
		sc.after = max(sc.after, st.ColumnInt64(1)-1)
		sc.until = min(sc.until, st.ColumnInt64(2))
		return nil
	}, q.Run, sc.thread)
	if sc.run == 0 {
		sc.until = sc.after
	}
	return sc, err
}

// page replaces sc.events by the next ones and moves sc.after behind them.
func (sc *scan) page(r *reader) error {
	sc.events = nil
	if sc.after >= sc.until {
		return nil
	}
	seen, bytes, last := 0, 0, sc.after
	err := r.query(`SELECT e.seq, r.id, e.path, e.class, e.type, e.key, e.at, e.sum, e.data
		FROM events e CROSS JOIN runs r ON r.n = e.run
		WHERE e.thread = ?1 AND e.seq > ?2 AND e.seq <= ?3 AND (?4 = 0 OR e.run = ?4)
		ORDER BY e.seq LIMIT ?5`, func(st *sqlite3.Stmt) error {
		seen++
		if bytes > pageBytes {
			return nil
		}
		last = st.ColumnInt64(0)
		typ := rouse.EventType(sc.intern(st.ColumnRawText(4)))
		if len(sc.query.Types) > 0 && !slices.Contains(sc.query.Types, typ) {
			return nil
		}
		e := rouse.Event{
			Seq: last, Thread: sc.query.Thread, Run: sc.intern(st.ColumnRawText(1)), Path: sc.intern(st.ColumnRawText(2)),
			Class: rouse.Class(sc.intern(st.ColumnRawText(3))), Type: typ,
			Key: sc.intern(st.ColumnRawText(5)), At: time.UnixMilli(st.ColumnInt64(6)).UTC(),
			Sum: uint64(st.ColumnInt64(7)), Data: st.ColumnBlob(8, nil), //nolint:gosec // the bits are kept
		}
		bytes += len(e.Data)
		sc.events = append(sc.events, e)
		return nil
	}, sc.thread, sc.after, sc.until, sc.run, int64(pageEvents))
	if err != nil {
		return err
	}
	sc.after = last
	if seen < pageEvents && bytes <= pageBytes {
		sc.after = sc.until
	}
	return nil
}

// intern returns the text of b, one copy for equal ones.
func (sc *scan) intern(b []byte) string {
	if s, ok := sc.names[string(b)]; ok {
		return s
	}
	if sc.names == nil {
		sc.names = make(map[string]string)
	}
	s := string(b)
	sc.names[s] = s
	return s
}
