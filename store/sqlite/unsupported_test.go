//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package sqlite_test

import (
	"testing"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/store/sqlite"
)

// TestUnsupported opens a store where the system has no file locks of the kind
// that ends with the process.
func TestUnsupported(t *testing.T) {
	t.Parallel()
	_, err := sqlite.Open(t.Context(), sqlite.Config{Dir: t.TempDir()})
	if rouse.CodeOf(err) != rouse.CodeUnsupported {
		t.Errorf("got %v, want the code unsupported", err)
	}
}
