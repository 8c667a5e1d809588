//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package sqlite_test

import (
	"testing"

	"github.com/rouse-run/rouse/store"
	"github.com/rouse-run/rouse/store/sqlite"
	"github.com/rouse-run/rouse/store/storetest"
)

func open(t *testing.T, c sqlite.Config) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), c)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func TestContract(t *testing.T) {
	t.Parallel()
	storetest.Run(t, storetest.Config{
		Open:   func(t *testing.T, dir string) store.Store { return open(t, sqlite.Config{Dir: dir}) },
		Shared: true,
	})
}
