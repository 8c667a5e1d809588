package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"
	"github.com/rouse-run/rouse"
)

// writerPragmas make a commit durable, also when the power fails. What logFile does
// rests on synchronous = FULL, so it comes first.
const writerPragmas = `PRAGMA synchronous = FULL; PRAGMA journal_mode = WAL; PRAGMA cache_size = -16000; PRAGMA journal_size_limit = 67108864`

// openWriter opens the connection that writes, and makes the file if need be.
func (s *Store) openWriter() (*sqlite3.Conn, error) {
	uri, err := logURI(s.path)
	if err != nil {
		return nil, err
	}
	return s.openConn(uri, sqlite3.OPEN_READWRITE|sqlite3.OPEN_CREATE|sqlite3.OPEN_URI, writerPragmas)
}

// openConn opens the file and sets what every connection needs.
func (s *Store) openConn(name string, flags sqlite3.OpenFlag, pragmas string) (*sqlite3.Conn, error) {
	c, err := sqlite3.OpenFlags(name, flags)
	if err != nil {
		return nil, err
	}
	err = c.BusyTimeout(s.cfg.BusyTimeout)
	if err == nil {
		err = c.Exec(`PRAGMA trusted_schema = OFF; PRAGMA foreign_keys = ON; PRAGMA temp_store = MEMORY;` + pragmas)
	}
	if err == nil {
		// Checkpoints are the checkpointer's, never a commit's.
		err = c.WALAutoCheckpoint(0)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// openReader opens a connection that cannot write.
func (s *Store) openReader() (*sqlite3.Conn, error) {
	return s.openSecond(`PRAGMA query_only = ON; PRAGMA cache_size = -2000`)
}

// openCheckpointer opens a connection that moves the write-ahead log.
func (s *Store) openCheckpointer() (*sqlite3.Conn, error) {
	return s.openSecond(`PRAGMA synchronous = FULL`)
}

// openSecond opens a connection beside the writer's. Closing it, even as the last
// one, leaves the write-ahead log alone.
func (s *Store) openSecond(pragmas string) (*sqlite3.Conn, error) {
	c, err := s.openConn(s.path, sqlite3.OPEN_READWRITE, pragmas)
	if err != nil {
		return nil, err
	}
	if _, err = c.Config(sqlite3.DBCONFIG_NO_CKPT_ON_CLOSE, true); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// prepare makes the file ready and returns the one connection that writes. The
// caller holds the opening lock.
func (s *Store) prepare(ctx context.Context) (*writer, error) {
	if !vfs.SupportsFileLocking || !vfs.SupportsSharedMemory {
		return nil, errNoLocks(errors.ErrUnsupported)
	}
	if err := s.fault(PointOpenBegin); err != nil {
		return nil, err
	}
	c, err := s.openWriter()
	if err != nil {
		return nil, classify(opOpen, err)
	}
	w, err := s.prepareOn(ctx, c)
	if err != nil {
		if ctx.Err() != nil {
			err = contextError(ctx, opOpen)
		}
		_, off := c.Config(sqlite3.DBCONFIG_NO_CKPT_ON_CLOSE, true)
		return nil, with(classify(opOpen, err), errors.Join(off, closeConn(c)))
	}
	return w, nil
}

func (s *Store) prepareOn(ctx context.Context, c *sqlite3.Conn) (*writer, error) {
	if readOnly, _ := c.ReadOnly("main"); readOnly {
		return nil, sqlite3.READONLY
	}
	if err := migrate(ctx, c, s.path); err != nil {
		return nil, err
	}
	if err := s.fault(PointOpenSchema); err != nil {
		return nil, err
	}
	if err := s.register(c); err != nil {
		return nil, err
	}
	if err := s.fault(PointOpenNode); err != nil {
		return nil, err
	}
	return newWriter(s, c)
}

// register writes the node's row and forgets the nodes that are gone.
func (s *Store) register(c *sqlite3.Conn) error {
	if err := s.node.sweep(); err != nil {
		return errDir(err)
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("host name: %w", err)
	}
	gone, err := s.goneNodes(c)
	if err != nil {
		return err
	}
	for _, id := range gone {
		if err := exec(c, `DELETE FROM nodes WHERE id = ?1`, id); err != nil {
			return err
		}
	}
	return exec(c, `INSERT INTO nodes (id, host, pid, started) VALUES (?1, ?2, ?3, ?4)`,
		s.node.id, host, int64(os.Getpid()), s.cfg.Clock.Now().UnixMilli())
}

func (s *Store) goneNodes(c *sqlite3.Conn) (gone []string, err error) {
	st, _, err := c.Prepare(`SELECT id FROM nodes`)
	if err != nil {
		return nil, err
	}
	for st.Step() {
		id := st.ColumnText(0)
		alive, err := s.node.alive(id)
		if err != nil {
			return nil, errors.Join(errDir(err), st.Close())
		}
		if !alive {
			gone = append(gone, id)
		}
	}
	return gone, errors.Join(st.Err(), st.Close())
}

// fault calls the test's hook. Its error ends the store.
func (s *Store) fault(point string) error {
	if err := s.cfg.Fault(point); err != nil {
		return &rouse.Error{Code: rouse.CodeStorage, Op: point, Message: "the store has stopped", Err: err}
	}
	return nil
}

// exec runs one statement once.
func exec(c *sqlite3.Conn, sql string, args ...any) error {
	s, _, err := c.Prepare(sql)
	if err != nil {
		return err
	}
	if err = bind(s, args...); err == nil {
		err = s.Exec()
	}
	return errors.Join(err, s.Close())
}

// bind sets the parameters of s, which are strings, integers and byte slices.
func bind(s *sqlite3.Stmt, args ...any) error {
	for i, a := range args {
		var err error
		switch v := a.(type) {
		case string:
			err = s.BindText(i+1, v)
		case int64:
			err = s.BindInt64(i+1, v)
		case []byte:
			err = s.BindBlob(i+1, v)
		default:
			err = fmt.Errorf("parameter %d has the type %T", i+1, a)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// closeConn closes c and the statements that were prepared on it.
func closeConn(c *sqlite3.Conn) error {
	var stmts []*sqlite3.Stmt
	for s := range c.Stmts() {
		stmts = append(stmts, s)
	}
	var errs []error
	for _, s := range stmts {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, c.Close())...)
}
