package sqlite

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"
	"github.com/rouse-run/rouse"
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
	w, err := s.openConn(sqlite3.OPEN_READWRITE, writerPragmas)
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
