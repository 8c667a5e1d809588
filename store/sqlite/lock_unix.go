//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package sqlite

import (
	"errors"
	"os"
	"syscall"
)

// flock tries to lock f without waiting and reports whether it has the lock. The
// lock belongs to the open file: the system releases it when the file is closed,
// also when the process is killed.
func flock(f *os.File, exclusive bool) (bool, error) {
	how := syscall.LOCK_SH
	if exclusive {
		how = syscall.LOCK_EX
	}
	for {
		err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB) //nolint:gosec // a descriptor fits an int
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, errors.ErrUnsupported):
			return false, errNoLocks(err)
		default:
			return false, err
		}
	}
}
