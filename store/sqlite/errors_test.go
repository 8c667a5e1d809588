//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package sqlite_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/run"
	"github.com/rouse-run/rouse/store/sqlite"
)

// raw opens the database of a store beside it.
func raw(t *testing.T, dir string) *sqlite3.Conn {
	t.Helper()
	c, err := sqlite3.Open(filepath.Join(dir, sqlite.FileName))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func rawExec(t *testing.T, c *sqlite3.Conn, sql string) {
	t.Helper()
	if err := c.Exec(sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// made returns a directory with a closed store that holds run "r" of thread "t".
func made(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	commit(t, s, batch("t", "r"))
	if _, err := s.PutBlob(t.Context(), []byte("blob")); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func batch(thread, id string) *run.Batch {
	return &run.Batch{Thread: thread, Run: id, Epoch: 1, Status: rouse.StatusRunning, Events: batchEvents(1)}
}

func commit(t *testing.T, s *sqlite.Store, b *run.Batch) {
	t.Helper()
	if err := s.Commit(t.Context(), b); err != nil {
		t.Fatalf("Commit: %v", err)
	}
	b.Revision++
}

func wantError(t *testing.T, err error, code rouse.Code, hint bool) {
	t.Helper()
	var e *rouse.Error
	if rouse.CodeOf(err) != code {
		t.Fatalf("got %v of code %q, want %q", err, rouse.CodeOf(err), code)
	}
	if hint && (!errors.As(err, &e) || e.Hint == "") {
		t.Errorf("%v has no hint", err)
	}
	if strings.Contains(err.Error(), "database is locked") {
		t.Errorf("the text of SQLite reaches the caller: %v", err)
	}
}

func TestOpenErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		dir  func(t *testing.T) string
		code rouse.Code
	}{
		"the directory is a file": {func(t *testing.T) string {
			f := filepath.Join(t.TempDir(), "file")
			write(t, f, []byte("x"))
			return f
		}, rouse.CodeStorage},
		"the database is a directory": {func(t *testing.T) string {
			dir := t.TempDir()
			if err := os.Mkdir(filepath.Join(dir, sqlite.FileName), 0o700); err != nil {
				t.Fatal(err)
			}
			return dir
		}, rouse.CodeStorage},
		"not a database": {func(t *testing.T) string {
			dir := t.TempDir()
			write(t, filepath.Join(dir, sqlite.FileName), bytes.Repeat([]byte("not a database "), 1000))
			return dir
		}, rouse.CodeCorrupt},
		"a damaged header": {func(t *testing.T) string {
			dir := made(t)
			damage(t, dir, 0, 64)
			return dir
		}, rouse.CodeCorrupt},
		"a damaged schema": {func(t *testing.T) string {
			dir := made(t)
			damage(t, dir, 100, 3000)
			return dir
		}, rouse.CodeCorrupt},
		"a newer version": {func(t *testing.T) string {
			dir := made(t)
			rawExec(t, raw(t, dir), `INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, 1)`)
			return dir
		}, rouse.CodeSchemaVersion},
		"another program's database": {func(t *testing.T) string {
			dir := t.TempDir()
			rawExec(t, raw(t, dir), `CREATE TABLE other (x)`)
			return dir
		}, rouse.CodeInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := c.dir(t)
			_, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir})
			wantError(t, err, c.code, true)
			if left, _ := filepath.Glob(filepath.Join(dir, "nodes", "*")); len(left) > 0 {
				t.Errorf("the lock file stays: %v", left)
			}
		})
	}
}

func TestConfigErrors(t *testing.T) {
	t.Parallel()
	_, err := sqlite.Open(t.Context(), sqlite.Config{BusyTimeout: -1, Readers: -1, GroupSize: -1, CheckpointPages: -1, MaxBytes: 1 << 40})
	wantError(t, err, rouse.CodeInvalid, false)
	for _, field := range []string{"Dir", "BusyTimeout", "Readers", "GroupSize", "CheckpointPages", "MaxBytes"} {
		if !strings.Contains(err.Error(), field) {
			t.Errorf("%v does not name %s", err, field)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s, err := sqlite.Open(ctx, sqlite.Config{Dir: t.TempDir()})
	if err == nil {
		s.Close()
	}
	wantError(t, err, rouse.CodeCanceled, false)
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// damage overwrites a part of the database.
func damage(t *testing.T, dir string, from, n int) {
	t.Helper()
	path := filepath.Join(dir, sqlite.FileName)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := from; i < min(from+n, len(data)); i++ {
		data[i] = 0xa5
	}
	write(t, path, data)
}

// TestDamagedPages damages the indexes: calls fail with
// CodeCorrupt and the process lives.
func TestDamagedPages(t *testing.T) {
	t.Parallel()
	dir := made(t)
	damageTables(t, dir)
	s := open(t, sqlite.Config{Dir: dir})
	_, err := s.Run(t.Context(), "r")
	wantError(t, err, rouse.CodeCorrupt, true)
	for _, err = range s.Read(t.Context(), run.Query{Thread: "t"}) {
		wantError(t, err, rouse.CodeCorrupt, true)
	}
	b := batch("t", "r")
	b.Revision = 1
	wantError(t, s.Commit(t.Context(), b), rouse.CodeCorrupt, true)
}

// damageTables overwrites the pages of the indexes through which everything is found.
func damageTables(t *testing.T, dir string) {
	t.Helper()
	c := raw(t, dir)
	st, _, err := c.Prepare(`SELECT rootpage FROM sqlite_schema WHERE name LIKE 'sqlite_autoindex_%' AND tbl_name IN ('runs', 'threads', 'events')`)
	if err != nil {
		t.Fatal(err)
	}
	var pages []int
	for st.Step() {
		pages = append(pages, st.ColumnInt(0))
	}
	st.Close()
	for _, p := range pages {
		damage(t, dir, (p-1)*4096, 4096)
	}
}

func TestDamagedBlob(t *testing.T) {
	t.Parallel()
	dir := made(t)
	rawExec(t, raw(t, dir), `UPDATE blobs SET data = x'00'`)
	s := open(t, sqlite.Config{Dir: dir})
	ref, err := s.PutBlob(t.Context(), []byte("blob"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Blob(t.Context(), ref)
	wantError(t, err, rouse.CodeCorrupt, false)
}

func TestRefusedBatches(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite.Config{Dir: t.TempDir(), MaxBytes: 1000})
	for name, c := range map[string]struct {
		change func(b *run.Batch)
		code   rouse.Code
	}{
		"negative revision": {func(b *run.Batch) { b.Revision = -1 }, rouse.CodeInvalid},
		"no epoch":          {func(b *run.Batch) { b.Epoch = 0 }, rouse.CodeInvalid},
		"claim of nothing":  {func(b *run.Batch) { b.Claim = true }, rouse.CodeInvalid},
		"no status":         {func(b *run.Batch) { b.Status = "" }, rouse.CodeInvalid},
		"unknown status":    {func(b *run.Batch) { b.Status = "sleeping" }, rouse.CodeInvalid},
		"delta":             {func(b *run.Batch) { b.Events[0].Class = rouse.ClassDelta }, rouse.CodeInvalid},
		"large":             {func(b *run.Batch) { b.Events[1].Data = make([]byte, 1000) }, rouse.CodeTooLarge},
	} {
		b := batch("t", "r")
		c.change(b)
		if err := s.Commit(t.Context(), b); rouse.CodeOf(err) != c.code {
			t.Errorf("%s: %v, want the code %s", name, err, c.code)
		}
	}
	_, err := s.PutBlob(t.Context(), make([]byte, 1001))
	wantError(t, err, rouse.CodeTooLarge, true)
	_, err = s.PutBlob(t.Context(), make([]byte, 1000))
	if err != nil {
		t.Error(err)
	}
	commit(t, s, batch("t", "r"))
}

// TestLocked lets another connection keep the database locked.
func TestLocked(t *testing.T) {
	t.Parallel()
	dir := made(t)
	s := open(t, sqlite.Config{Dir: dir, BusyTimeout: 30 * time.Millisecond})
	c := raw(t, dir)
	rawExec(t, c, `BEGIN IMMEDIATE`)
	b := batch("u", "s")
	wantError(t, s.Commit(t.Context(), b), rouse.CodeStorage, true)
	_, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir, BusyTimeout: 30 * time.Millisecond})
	wantError(t, err, rouse.CodeStorage, true)
	rawExec(t, c, `ROLLBACK`)
	commit(t, s, b)
}

// TestCanceledWhileWaiting cancels commits that wait behind one that is stuck.
func TestCanceledWhileWaiting(t *testing.T) {
	t.Parallel()
	begun, proceed := make(chan struct{}), make(chan struct{})
	var once sync.Once
	s := open(t, sqlite.Config{Dir: t.TempDir(), Fault: func(point string) error {
		if point == sqlite.PointCommitRun {
			once.Do(func() {
				close(begun)
				<-proceed
			})
		}
		return nil
	}})
	ctx, cancel := context.WithCancel(t.Context())
	stuck := make(chan error)
	go func() { stuck <- s.Commit(ctx, batch("t", "stuck")) }()
	<-begun
	waiting := make(chan error)
	for _, id := range []string{"a", "b"} {
		go func() { waiting <- s.Commit(ctx, batch(id, id)) }()
	}
	cancel()
	for range 2 {
		wantError(t, <-waiting, rouse.CodeCanceled, false) // at once: the first one is still stuck
	}
	close(proceed)
	if err := <-stuck; err != nil {
		t.Errorf("a commit that had begun: %v, want its outcome", err)
	}
	if _, err := s.Run(t.Context(), "stuck"); err != nil {
		t.Error(err)
	}
	_, err := s.Run(t.Context(), "a")
	wantError(t, err, rouse.CodeNotFound, false)
	commit(t, s, batch("a", "a"))
}
