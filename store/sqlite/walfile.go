package sqlite

import (
	"errors"
	"io"
	"net/url"
	"syscall"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"
)

const (
	// logVFS is the name under which SQLite finds logFiles.
	logVFS = "rouse-log"
	// logBuffer is how much of a transaction is gathered before it is written.
	logBuffer = 256 << 10
)

// logFiles opens files as the system's VFS does, but for the write-ahead log.
type logFiles struct{ vfs.VFSFilename }

// logURI names the database at path, to be opened through logFiles.
func logURI(path string) (string, error) {
	system, ok := vfs.Find("").(vfs.VFSFilename)
	if !ok {
		return "", errNoLocks(errors.ErrUnsupported)
	}
	vfs.Register(logVFS, logFiles{system}) // again is the same: it has no state
	u := url.URL{Scheme: "file", Path: path, RawQuery: "vfs=" + logVFS}
	return u.String(), nil
}

func (v logFiles) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	f, flags, err := v.VFSFilename.OpenFilename(name, flags)
	if err == nil && flags&vfs.OPEN_WAL != 0 {
		f = &logFile{File: f}
	}
	return f, flags, err
}

// logFile gathers the writes to a write-ahead log, two for every page, and makes
// one of them at the next Sync. That is early enough as long as SQLite syncs the
// log before it lets others, through the shared index, see what it has written:
// so it does for every commit with synchronous = FULL, which the writer has.
type logFile struct {
	vfs.File
	at      int64  // where pending belongs
	pending []byte // not written yet
}

// WriteAt keeps what continues pending. The error is that of what was pending.
func (f *logFile) WriteAt(p []byte, at int64) (int, error) {
	if at != f.at+int64(len(f.pending)) || len(f.pending)+len(p) > logBuffer {
		if err := f.flush(); err != nil {
			return 0, err
		}
		f.at = at
	}
	f.pending = append(f.pending, p...)
	return len(p), nil
}

// flush writes what is pending. When it fails that is given up, as SQLite, which
// gets the error, gives up the transaction.
func (f *logFile) flush() error {
	if len(f.pending) == 0 {
		return nil
	}
	n, err := f.File.WriteAt(f.pending, f.at)
	if err == nil && n < len(f.pending) {
		err = io.ErrShortWrite
	}
	f.at += int64(len(f.pending))
	f.pending = f.pending[:0]
	if errors.Is(err, syscall.ENOSPC) {
		return vfs.SystemError(err, sqlite3.FULL)
	}
	return vfs.SystemError(err, sqlite3.IOERR_WRITE)
}

func (f *logFile) Sync(flags vfs.SyncFlag) error {
	if err := f.flush(); err != nil {
		return err
	}
	return f.File.Sync(flags)
}

func (f *logFile) ReadAt(p []byte, at int64) (int, error) {
	if err := f.flush(); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, at)
}

func (f *logFile) Truncate(size int64) error {
	if err := f.flush(); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

func (f *logFile) Size() (int64, error) {
	if err := f.flush(); err != nil {
		return 0, err
	}
	return f.File.Size()
}

// Unwrap implements vfs.FileUnwrap.
func (f *logFile) Unwrap() vfs.File { return f.File }
