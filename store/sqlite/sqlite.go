// Package sqlite is a store in one SQLite file.
//
// Every commit is on the disk when it returns. Commits that arrive at the same
// time share a transaction, so many runs at once cost few writes to the disk.
// Several processes may open the same directory, on a local file system.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/store"
)

// FileName is the name of the database within Config.Dir.
const FileName = "rouse.db"

// Config says where the store is and what its limits are.
type Config struct {
	// Dir is the directory of the database and of the lock files. It is made,
	// for the current user only, when it does not exist. Required.
	Dir string
	// Clock gives the times of threads, runs and blobs; the default is the
	// machine's. Events bring their own times.
	Clock rouse.Clock
	// BusyTimeout is how long a call waits for another process that is writing,
	// and how long Open waits for another process that is opening; then the call
	// fails with CodeStorage. The default is 10 s.
	BusyTimeout time.Duration
	// Readers is how many reads run at once; more wait for their turn. The
	// default is 4. Each costs about 2 MB.
	Readers int
	// GroupSize is how many commits share one transaction at most. The default is 64.
	GroupSize int
	// Gather is how long a transaction waits for more commits to share it, when the
	// last one was shared by several: it trades latency under load for work that is
	// not done. The default is 500 µs, negative means not at all.
	Gather time.Duration
	// CheckpointPages is how many pages of 4 KiB the write-ahead log grows to
	// before it is moved to the database in the background. The default is 1000.
	CheckpointPages int
	// MaxBytes is the size of the largest blob, and of the largest batch with all
	// its text; more is refused with CodeTooLarge. The default is 64 MiB, the most is 512 MiB.
	MaxBytes int64
	// Log receives the failures that nobody waits for: of checkpoints in the
	// background, which are tried again. The default discards them.
	Log *slog.Logger
	// Fault is a seam for tests, nil otherwise. It is called at every point that
	// FaultPoints lists. When it returns an error, the store behaves as if its
	// process had ended there: it writes nothing more, and the call in progress
	// and every later one fail. It is called by one goroutine at a time.
	Fault func(point string) error
}

func (c Config) withDefaults() Config {
	if c.Clock == nil {
		c.Clock = rouse.SystemClock{}
	}
	if c.BusyTimeout == 0 {
		c.BusyTimeout = 10 * time.Second
	}
	if c.Readers == 0 {
		c.Readers = 4
	}
	if c.GroupSize == 0 {
		c.GroupSize = 64
	}
	if c.Gather == 0 {
		c.Gather = 500 * time.Microsecond
	}
	if c.CheckpointPages == 0 {
		c.CheckpointPages = 1000
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = 64 << 20
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Fault == nil {
		c.Fault = func(string) error { return nil }
	}
	return c
}

func (c Config) validate() error {
	var errs []error
	if c.Dir == "" {
		errs = append(errs, errors.New("no Dir"))
	}
	for _, f := range []struct {
		name string
		bad  bool
	}{
		{"BusyTimeout", c.BusyTimeout < 0},
		{"Readers", c.Readers < 0},
		{"GroupSize", c.GroupSize < 0},
		{"CheckpointPages", c.CheckpointPages < 0},
		{"MaxBytes", c.MaxBytes < 0 || c.MaxBytes > 512<<20},
	} {
		if f.bad {
			errs = append(errs, fmt.Errorf("%s is out of range", f.name))
		}
	}
	if len(errs) > 0 {
		return &rouse.Error{Code: rouse.CodeInvalid, Op: opOpen, Message: "the configuration cannot be used", Err: errors.Join(errs...)}
	}
	return nil
}

// Store is a store.Store. It is safe for concurrent use.
type Store struct {
	cfg   Config
	path  string
	node  *node
	queue *queue
	pool  *pool

	writer    *writer // of whoever has the queue's turn
	closeOnce sync.Once
	closeErr  error
}

var _ store.Store = (*Store)(nil)

// Open opens the store in cfg.Dir and makes or updates its tables. It is
// not done when ctx ends first.
//
// Errors: CodeInvalid for an unusable configuration, CodeStorage for a directory or
// a file that cannot be read and written, CodeCorrupt for a file that is not a
// whole SQLite database, CodeSchemaVersion for one of a newer version of this
// program, CodeUnsupported where the system has no file locks or shared memory.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, &rouse.Error{Code: rouse.CodeStorage, Op: opOpen, Message: "the directory's path cannot be made absolute", Err: err}
	}
	cfg.Dir = dir
	if err := makeDir(filepath.Join(dir, nodesDir)); err != nil {
		return nil, err
	}
	n, err := newNode(ctx, dir, rouse.NewIDs(cfg.Clock, nil).NewID())
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, path: filepath.Join(dir, FileName), node: n, queue: newQueue()}
	if err := s.start(ctx); err != nil {
		return nil, with(err, n.release(true))
	}
	return s, nil
}

// start prepares the file under a lock that only one opener holds, and then
// starts the goroutine that Close waits for.
func (s *Store) start(ctx context.Context) error {
	unlock, err := lockOpening(ctx, s.cfg.Dir, s.cfg.BusyTimeout)
	if err != nil {
		return err
	}
	w, err := s.prepare(ctx)
	if err = errors.Join(err, unlock()); err != nil {
		if w != nil {
			err = errors.Join(err, closeConn(w.conn))
		}
		return err
	}
	s.pool = newPool(s.cfg.Readers, s.openReader)
	w.checkpoint = newCheckpointer(s, func() { w.takeTurn(s.queue) })
	s.writer = w
	return nil
}

// Node implements store.Node.
func (s *Store) Node() string { return s.node.id }

// Close waits for the commits that have begun, moves the write-ahead log to the
// database and gives up the node. Calls that come later fail with CodeStorage;
// closing again does nothing and returns the same error.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		s.queue.close()
		s.writer.checkpoint.stop()
		err := errors.Join(s.pool.close(), s.writer.close())
		s.closeErr = errors.Join(err, s.node.release(!s.queue.died()))
	})
	return s.closeErr
}

// makeDir makes a directory and its parents.
func makeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return errDir(err)
	}
	return nil
}
