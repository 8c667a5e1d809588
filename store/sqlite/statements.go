package sqlite

import (
	"github.com/ncruces/go-sqlite3"
)

// statements are what the writer executes, prepared once.
type statements struct {
	begin, version, commit, rollback *sqlite3.Stmt

	findRun, findThread, findOpen *sqlite3.Stmt
	addThread, addRun             *sqlite3.Stmt
	touchRun, moveRun, claimRun   *sqlite3.Stmt
	addEvent, addBlob             *sqlite3.Stmt
}

func (s *statements) prepare(c *sqlite3.Conn) error {
	for _, p := range []struct {
		to  **sqlite3.Stmt
		sql string
	}{
		{&s.begin, `BEGIN IMMEDIATE`},
		{&s.version, `PRAGMA data_version`},
		{&s.commit, `COMMIT`},
		{&s.rollback, `ROLLBACK`},

		{&s.findRun, `SELECT r.n, r.thread, t.id, r.revision, r.epoch, r.status, r.first_seq, r.last_seq,
			(SELECT max(e.seq) FROM events e WHERE e.thread = r.thread)
			FROM runs r JOIN threads t ON t.n = r.thread WHERE r.id = ?1`},
		{&s.findThread, `SELECT t.n, (SELECT max(e.seq) FROM events e WHERE e.thread = t.n) FROM threads t WHERE t.id = ?1`},
		{&s.findOpen, `SELECT 1 FROM runs WHERE thread = ?1 AND status IN ('running', 'waiting')`},
		{&s.addThread, `INSERT INTO threads (id, title, created) VALUES (?1, ?2, ?3)`},
		{&s.addRun, `INSERT INTO runs (id, thread, agent, title, status, revision, epoch, owner, first_seq, last_seq, created, updated)
			VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6, ?7, ?8, ?9, ?10, ?10)`},
		{&s.touchRun, `UPDATE runs SET revision = ?2, first_seq = ?3, last_seq = ?4, updated = ?5 WHERE n = ?1`},
		{&s.moveRun, `UPDATE runs SET revision = ?2, first_seq = ?3, last_seq = ?4, updated = ?5, status = ?6 WHERE n = ?1`},
		{&s.claimRun, `UPDATE runs SET epoch = ?2, owner = ?3 WHERE n = ?1`},

		{&s.addEvent, `INSERT INTO events (thread, seq, run, path, class, type, key, at, sum, data) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)`},
		{&s.addBlob, `INSERT INTO blobs (hash, data, created) VALUES (?1, ?2, ?3) ON CONFLICT (hash) DO NOTHING`},
	} {
		stmt, _, err := c.PrepareFlags(p.sql, sqlite3.PREPARE_PERSISTENT)
		if err != nil {
			return err
		}
		*p.to = stmt
	}
	return nil
}

// firstEventText is the first of the four text parameters of addEvent.
const firstEventText = 4

// binder binds parameters one after the other and keeps the first error.
type binder struct {
	s   *sqlite3.Stmt
	n   int
	err error
}

func (b *binder) text(v string) *binder {
	b.n++
	if b.err == nil {
		b.err = b.s.BindText(b.n, v)
	}
	return b
}

// changed is text for a parameter that was bound to *last before; it is kept
// when v is the same.
func (b *binder) changed(v string, last *string) *binder {
	if v == *last {
		b.n++
		return b
	}
	if b.text(v); b.err == nil {
		*last = v
	}
	return b
}

func (b *binder) int(v int64) *binder {
	b.n++
	if b.err == nil {
		b.err = b.s.BindInt64(b.n, v)
	}
	return b
}

func (b *binder) blob(v []byte) *binder {
	b.n++
	if b.err == nil {
		b.err = b.s.BindBlob(b.n, v)
	}
	return b
}

// exec runs the statement.
func (b *binder) exec() error {
	if b.err != nil {
		return b.err
	}
	return b.s.Exec()
}
