package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rouse-run/rouse"
)

const (
	nodesDir   = "nodes"
	nodeSuffix = ".lock"
	// openingFile is locked by whoever prepares the database.
	openingFile = "opening.lock"
	// lockPoll is the time between two attempts at a lock that somebody else has.
	lockPoll = 2 * time.Millisecond
)

// node is the lock by which other processes see that this one is alive. The
// file is named after the node and locked as long as the store is open.
type node struct {
	id   string
	dir  string
	file *os.File
}

func newNode(ctx context.Context, dir, id string) (*node, error) {
	n := &node{id: id, dir: filepath.Join(dir, nodesDir)}
	f, err := lockFile(ctx, n.path(id), time.Second)
	if err != nil {
		return nil, err
	}
	n.file = f
	return n, nil
}

func (n *node) path(id string) string { return filepath.Join(n.dir, id+nodeSuffix) }

// release gives the lock up. With remove false the file stays, as after a kill.
func (n *node) release(remove bool) error {
	var err error
	if remove {
		err = os.Remove(n.path(n.id))
	}
	if err = errors.Join(err, n.file.Close()); err != nil {
		return &rouse.Error{Code: rouse.CodeStorage, Op: opClose, Message: "the node's lock file could not be removed", Err: err}
	}
	return nil
}

// alive reports whether a store that is open now, here or in another process,
// has the given id.
func (n *node) alive(id string) (bool, error) {
	if id == n.id {
		return true, nil
	}
	if id == "" || strings.ContainsFunc(id, notInID) {
		return false, nil
	}
	f, err := os.Open(n.path(id))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	free, err := flock(f, false)
	return !free, errors.Join(err, f.Close())
}

// notInID keeps an owner's name from being a path to another file.
func notInID(r rune) bool {
	return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '-' && r != '_'
}

// sweep removes the lock files of nodes that are no longer alive.
func (n *node) sweep() error {
	entries, err := os.ReadDir(n.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if id, ok := strings.CutSuffix(e.Name(), nodeSuffix); ok && id != n.id {
			if err := removeStale(filepath.Join(n.dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeStale removes the lock file at path unless somebody has it locked. It
// holds a shared lock meanwhile: a node that has just made the file cannot have
// its exclusive lock yet, and finds out afterwards that its file is gone.
func removeStale(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	free, err := flock(f, false)
	if free && isAt(f, path) {
		if err = os.Remove(path); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	return errors.Join(err, f.Close())
}

// isAt reports whether path still names the open file f.
func isAt(f *os.File, path string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Stat(path)
	return err == nil && os.SameFile(a, b)
}

// lockFile makes the file at path, if need be, and locks it exclusively, waiting
// at most limit for others. The lock ends when the file is closed.
func lockFile(ctx context.Context, path string, limit time.Duration) (*os.File, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errLockTimeout)
	defer cancel()
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, errDir(err)
		}
		ok, err := flock(f, true)
		if err == nil && ok && isAt(f, path) {
			return f, nil
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, errDir(err)
		}
		select {
		case <-ctx.Done():
			return nil, contextError(ctx, opOpen)
		case <-time.After(lockPoll):
		}
	}
}

// lockOpening makes sure that one opener at a time prepares the database.
func lockOpening(ctx context.Context, dir string, limit time.Duration) (unlock func() error, err error) {
	f, err := lockFile(ctx, filepath.Join(dir, openingFile), limit)
	if err != nil {
		return nil, err
	}
	return f.Close, nil
}
