//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package sqlite

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ncruces/go-sqlite3"
	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/run"
)

func TestClassify(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		code rouse.Code
		word string // of the message
	}{
		{sqlite3.BUSY, rouse.CodeStorage, "locked"},
		{sqlite3.BUSY_SNAPSHOT, rouse.CodeStorage, "locked"},
		{sqlite3.FULL, rouse.CodeStorage, "full"},
		{sqlite3.IOERR_WRITE, rouse.CodeStorage, "written"},
		{sqlite3.READONLY_DIRECTORY, rouse.CodeStorage, "writing"},
		{sqlite3.CANTOPEN, rouse.CodeStorage, "opened"},
		{sqlite3.CORRUPT_INDEX, rouse.CodeCorrupt, "damaged"},
		{sqlite3.NOTADB, rouse.CodeCorrupt, "damaged"},
		{sqlite3.TOOBIG, rouse.CodeTooLarge, "large"},
		{sqlite3.MISUSE, rouse.CodeStorage, "failed"},
		{errors.New("other"), rouse.CodeStorage, "failed"},
		{errNoLocks(errors.ErrUnsupported), rouse.CodeUnsupported, "locks"},
		{refuse(rouse.CodeBusy, "busy"), rouse.CodeBusy, "busy"},
		{errors.Join(sqlite3.FULL, sqlite3.MISUSE), rouse.CodeStorage, "full"},
	} {
		err := classify("op", fmt.Errorf("within: %w", c.err))
		if rouse.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.word) || strings.Contains(err.Error(), "database is locked") {
			t.Errorf("%v becomes %v of code %q, want %q", c.err, err, rouse.CodeOf(err), c.code)
		}
	}
	if err := classify("op", nil); err != nil {
		t.Error(err)
	}
}

// TestUnknown tells the failures of COMMIT after which the transaction cannot be
// in the file from those after which it can.
func TestUnknown(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]bool{
		sqlite3.FULL: false, sqlite3.IOERR_WRITE: false, sqlite3.BUSY: false, sqlite3.READONLY: false,
		sqlite3.IOERR_FSYNC: true, sqlite3.IOERR_SHMMAP: true, sqlite3.INTERNAL: true,
	} {
		if got := unknown(err); got != want {
			t.Errorf("%v: %t, want %t", err, got, want)
		}
	}
}

// TestPragmas asks the connections for what their durability and safety rest on.
func TestPragmas(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	w, err := s.openWriter()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	r, err := s.openReader()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, p := range []struct {
		conn *sqlite3.Conn
		name string
		want int64
	}{
		{w, "synchronous", 2}, {w, "foreign_keys", 1}, {w, "trusted_schema", 0}, {w, "wal_autocheckpoint", 0}, {w, "query_only", 0},
		{r, "query_only", 1}, {r, "trusted_schema", 0},
	} {
		if got, err := queryInt(p.conn, "PRAGMA "+p.name); err != nil || got != p.want {
			t.Errorf("%s is %d, %v, want %d", p.name, got, err, p.want)
		}
	}
	if err := r.Exec(`DELETE FROM events`); !errors.Is(err, sqlite3.READONLY) {
		t.Errorf("a reader writes: %v", err)
	}
	var mode string
	st, _, err := w.Prepare(`PRAGMA journal_mode`)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if st.Step() {
		mode = st.ColumnText(0)
	}
	if mode != "wal" {
		t.Errorf("the journal mode is %q", mode)
	}
}

func testBatch(thread string, events ...rouse.Event) *run.Batch {
	return &run.Batch{Thread: thread, Run: "run of " + thread, Epoch: 1, Status: rouse.StatusRunning, Events: events}
}

// TestPageIsBounded reads large events: a page holds little more than its limit.
func TestPageIsBounded(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	events := make([]rouse.Event, 20)
	for i := range events {
		events[i] = rouse.Event{Path: "/", Class: rouse.ClassFact, Type: rouse.EventMessage, Data: make([]byte, pageBytes/3)}
	}
	if err := s.Commit(t.Context(), testBatch("t", events...)); err != nil {
		t.Fatal(err)
	}
	err = s.read(t.Context(), opRead, func(r *reader) error {
		sc, err := begin(r, run.Query{Thread: "t"})
		if err != nil {
			return err
		}
		for sc.after < sc.until {
			if err := sc.page(r); err != nil {
				return err
			}
			if n := len(sc.events); n == 0 || n > 4 {
				t.Errorf("a page of %d events, each of a third of the limit", n)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// waitFor waits until n commits are queued.
func (q *queue) waitFor(n int) {
	for waiting := -1; waiting < n; runtime.Gosched() {
		q.mu.Lock()
		waiting = len(q.pending)
		q.mu.Unlock()
	}
}

// TestOneTooManyInGroup has one commit for which there is no room among some for
// which there is, all in one transaction: it alone fails, and works later.
func TestOneTooManyInGroup(t *testing.T) {
	t.Parallel()
	var s *Store
	begun, proceed := make(chan struct{}), make(chan struct{})
	var pages atomic.Int64 // at most, from the next transaction on
	fault := func(point string) error {
		if point != PointCommitBegin {
			return nil
		}
		if n := pages.Load(); n > 0 {
			return s.writer.conn.Exec(fmt.Sprintf(`PRAGMA max_page_count = %d`, n))
		}
		begun <- struct{}{}
		<-proceed
		return nil
	}
	s, err := Open(t.Context(), Config{Dir: t.TempDir(), Fault: fault})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	errs := make(chan error)
	go func() { errs <- s.Commit(t.Context(), testBatch("first")) }()
	<-begun
	big := testBatch("big", rouse.Event{Path: "/", Class: rouse.ClassFact, Type: rouse.EventMessage, Data: make([]byte, 2<<20)})
	bigErr := make(chan error)
	for i := range 4 {
		if i == 2 {
			go func() { bigErr <- s.Commit(t.Context(), big) }()
			s.queue.waitFor(3)
		}
		go func() { errs <- s.Commit(t.Context(), testBatch(fmt.Sprint("small", i))) }()
		s.queue.waitFor(i + 1)
	}
	s.queue.waitFor(5)
	pages.Store(60)
	close(proceed)
	if err := <-bigErr; rouse.CodeOf(err) != rouse.CodeStorage || !strings.Contains(err.Error(), "full") {
		t.Errorf("the commit without room: %v", err)
	}
	for range 5 {
		if err := <-errs; err != nil {
			t.Errorf("a commit with room: %v", err)
		}
	}
	pages.Store(1 << 20)
	if err := s.Commit(t.Context(), big); err != nil {
		t.Errorf("with room again: %v", err)
	}
	if threads, _, err := s.ListThreads(t.Context(), 0, ""); err != nil || len(threads) != 6 {
		t.Errorf("%d threads, %v, want 6", len(threads), err)
	}
}

// TestDeathWithWaiters ends the store while commits wait behind the one that dies:
// they fail and are not written.
func TestDeathWithWaiters(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	begun, proceed := make(chan struct{}), make(chan struct{})
	s, err := Open(t.Context(), Config{Dir: dir, GroupSize: 1, Fault: func(point string) error {
		if point != PointCommitLast {
			return nil
		}
		close(begun) // a second time panics: nothing comes after the end
		<-proceed
		return errors.New("the end")
	}})
	if err != nil {
		t.Fatal(err)
	}
	errs := make(chan error)
	commit := func(thread string) { errs <- s.Commit(t.Context(), testBatch(thread)) }
	go commit("first")
	<-begun
	for i := range 3 {
		go commit(fmt.Sprint("waiting", i))
	}
	s.queue.waitFor(3)
	close(proceed)
	for range 4 {
		if err := <-errs; rouse.CodeOf(err) != rouse.CodeStorage {
			t.Errorf("after the end: %v", err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	s, err = Open(t.Context(), Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if threads, _, err := s.ListThreads(t.Context(), 0, ""); err != nil || len(threads) != 0 {
		t.Errorf("%d threads were written, %v", len(threads), err)
	}
}

// TestPlans asks the database how it answers the queries that must not become
// slower as the store grows.
func TestPlans(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for sql, want := range map[string]string{
		`SELECT ` + through(openIndex) + `WHERE r.status = 'running' ` + isOpen + `ORDER BY r.n`:     "INDEX runs_open",
		`SELECT ` + through(failedIndex) + `WHERE r.status IN (?) ` + isFailed + `ORDER BY r.n DESC`: "INDEX runs_failed",
		`SELECT ` + runColumns + `WHERE r.n < ? ORDER BY r.n DESC LIMIT ?`:                           "SEARCH r USING INTEGER PRIMARY KEY",
		`SELECT ` + threadColumns + `AND r.n < ? ORDER BY r.n DESC LIMIT ?`:                          "SEARCH r USING INTEGER PRIMARY KEY (rowid<?)",
		`SELECT ` + threadColumns + `AND t.id = ?`:                                                   "SEARCH e USING COVERING INDEX sqlite_autoindex_events_1 (thread=?)",
	} {
		err := s.read(t.Context(), opRead, func(r *reader) error {
			var plan strings.Builder
			err := r.query(`EXPLAIN QUERY PLAN `+sql, func(st *sqlite3.Stmt) error {
				fmt.Fprintln(&plan, st.ColumnText(3))
				return nil
			})
			if p := plan.String(); !strings.Contains(p, want) || strings.Contains(p, "SCAN") && !strings.Contains(p, "SCAN r USING INDEX runs_open") || strings.Contains(sql, "LIMIT") && strings.Contains(p, "TEMP B-TREE") {
				t.Errorf("%s\nis answered by\n%swant %s, no scan of a table and no page sorted", sql, p, want)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// TestPanicInTurn has a hook panic while one caller has the turn and another
// waits: the panic is the caller's, the other one is told, and the store closes.
func TestPanicInTurn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	begun, proceed := make(chan struct{}), make(chan struct{})
	var turns atomic.Int32
	s, err := Open(t.Context(), Config{Dir: dir, Fault: func(point string) error {
		switch {
		case point != PointCommitEvents:
		case turns.Add(1) == 1:
			close(begun)
			<-proceed
		default:
			panic("broken")
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	outcomes := make(chan string, 4)
	commit := func(thread string) {
		defer func() {
			if v := recover(); v != nil { //nolint:forbidigo // the test plays a caller that survives
				outcomes <- fmt.Sprint("panic ", v)
			}
		}()
		outcomes <- string(rouse.CodeOf(s.Commit(t.Context(), testBatch(thread))))
	}
	go commit("first")
	<-begun
	for i := range 3 {
		go commit(fmt.Sprint("later", i))
	}
	s.queue.waitFor(3)
	close(proceed)
	got := map[string]int{}
	for range 4 {
		got[<-outcomes]++
	}
	if want := map[string]int{"": 1, "panic broken": 1, string(rouse.CodeUncertain): 2}; !maps.Equal(got, want) {
		t.Errorf("the outcomes are %v, want %v", got, want)
	}
	if err := s.Commit(t.Context(), testBatch("after")); rouse.CodeOf(err) != rouse.CodeStorage {
		t.Errorf("after the panic: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if s, err = Open(t.Context(), Config{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if threads, _, err := s.ListThreads(t.Context(), 0, ""); err != nil || len(threads) != 1 || threads[0].ID != "first" {
		t.Errorf("what is stored: %v, %v", threads, err)
	}
}
