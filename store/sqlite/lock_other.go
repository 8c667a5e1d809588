//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package sqlite

import (
	"errors"
	"os"
)

func flock(*os.File, bool) (bool, error) { return false, errNoLocks(errors.ErrUnsupported) }
