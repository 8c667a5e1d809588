package sqlite

import (
	"context"
	"errors"

	"github.com/ncruces/go-sqlite3"
	"github.com/rouse-run/rouse"
)

const (
	opOpen   = "store.open"
	opClose  = "store.close"
	opCommit = "store.commit"
	opRead   = "store.read"
	opRuns   = "store.runs"
	opThread = "store.threads"
	opBlob   = "store.blob"
)

// errLockTimeout is why a wait for another process ended.
var errLockTimeout error = &rouse.Error{
	Code: rouse.CodeStorage, Message: "another process keeps the store locked",
	Hint: "try again, or raise BusyTimeout",
}

func errNoLocks(err error) error {
	return &rouse.Error{
		Code: rouse.CodeUnsupported, Op: opOpen, Err: err,
		Message: "this system or file system has no file locks, without which the store is not safe",
		Hint:    "put the store on a local file system of Linux, macOS or BSD",
	}
}

func errDir(err error) error {
	var e *rouse.Error
	if errors.As(err, &e) {
		return err
	}
	return &rouse.Error{
		Code: rouse.CodeStorage, Op: opOpen, Message: "the store's directory cannot be used", Err: err,
		Hint: "name a directory that this user may read and write",
	}
}

func errClosed() error {
	return &rouse.Error{Code: rouse.CodeStorage, Op: opClose, Message: "the store is closed"}
}

// errStopped tells what comes after a panic in the middle of a write.
func errStopped() error {
	return &rouse.Error{
		Code: rouse.CodeStorage, Op: opCommit, Message: "the store has stopped in the middle of a write",
		Hint: "close it and open it again; what was committed is safe",
	}
}

func invalid(op, message string) error {
	return &rouse.Error{Code: rouse.CodeInvalid, Op: op, Message: message}
}

func notFound(op, what string) error {
	return &rouse.Error{Code: rouse.CodeNotFound, Op: op, Message: "there is no such " + what}
}

// contextError tells why ctx ended.
func contextError(ctx context.Context, op string) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, errLockTimeout) {
		return cause
	}
	if errors.Is(cause, context.DeadlineExceeded) {
		return &rouse.Error{Code: rouse.CodeTimeout, Op: op, Message: "the time for it is over", Err: cause}
	}
	return &rouse.Error{Code: rouse.CodeCanceled, Op: op, Message: "it was canceled", Err: cause}
}

// classify turns an error of the database into one of ours. The text "database
// is locked" does not pass: it says nothing that the message does not say better.
func classify(op string, err error) error {
	var ours *rouse.Error
	if err == nil || errors.As(err, &ours) {
		return err
	}
	e := &rouse.Error{Code: rouse.CodeStorage, Op: op, Message: "the database failed", Err: err}
	var code sqlite3.ErrorCode
	if !errors.As(err, &code) {
		return e
	}
	switch code {
	case sqlite3.BUSY, sqlite3.LOCKED, sqlite3.PROTOCOL:
		e.Message, e.Err = "another process keeps the database locked", nil
		e.Hint = "try again, or raise BusyTimeout"
	case sqlite3.CORRUPT, sqlite3.NOTADB:
		e.Code, e.Message = rouse.CodeCorrupt, "the database file is damaged or is not a database"
		e.Hint = "restore " + FileName + " from a backup, or move it away to begin with an empty store"
	case sqlite3.FULL:
		e.Message = "the disk is full"
		e.Hint = "make room; what was committed is safe"
	case sqlite3.READONLY, sqlite3.PERM, sqlite3.CANTOPEN, sqlite3.AUTH:
		e.Message = "the database file cannot be opened for writing"
		e.Hint = "let this user read and write the directory and every file in it"
	case sqlite3.IOERR:
		e.Message = "the database file could not be read or written"
		e.Hint = "see whether the disk is full or failing; what was committed is safe"
	case sqlite3.TOOBIG:
		e.Code, e.Message = rouse.CodeTooLarge, "a value is too large for the database"
	}
	return e
}

// unknown reports whether a COMMIT that failed with err may be found done after a
// crash all the same. It is not when the write failed, since the frame that
// makes a transaction valid is the last one; it is when the write may be in the
// file and only the confirmation failed.
func unknown(err error) bool {
	for _, code := range []sqlite3.ErrorCode{sqlite3.FULL, sqlite3.BUSY, sqlite3.CONSTRAINT, sqlite3.READONLY} {
		if errors.Is(err, code) {
			return false
		}
	}
	return !errors.Is(err, sqlite3.IOERR_WRITE)
}

func uncertain(err error) error {
	return &rouse.Error{
		Code: rouse.CodeUncertain, Op: opCommit, Err: err,
		Message: "it is not known whether the commit was written",
		Hint:    "read the run again before going on",
	}
}

// with adds to err, which is not nil, what went wrong afterwards, if anything did.
func with(err, more error) error {
	if more == nil {
		return err
	}
	return errors.Join(err, more)
}
