//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package sqlite_test

import (
	"testing"

	"github.com/rouse-run/rouse/store"
	"github.com/rouse-run/rouse/store/sqlite"
	"github.com/rouse-run/rouse/store/storetest"
)

func TestFaults(t *testing.T) {
	t.Parallel()
	storetest.Faults(t, storetest.FaultConfig{
		Points: sqlite.FaultPoints(),
		Open: func(t *testing.T, dir string, fault func(string) error) (store.Store, error) {
			s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir, Fault: fault})
			if err != nil {
				return nil, err
			}
			return s, nil
		},
	})
}
