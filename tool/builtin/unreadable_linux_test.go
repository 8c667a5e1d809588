package builtin_test

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/rouse-run/rouse"
)

// What may not be read is said, and does not end a walk.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	tools, root := newTools(t, nil)
	put(t, root, "dir/x", "needle")
	put(t, root, "file", "needle")
	put(t, root, "ok", "needle")
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"dir", "file"} {
		if err := os.Chmod(filepath.Join(root, p), 0); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		// The superuser may read everything, so this thread stops being that. It is
		// never unlocked, so it ends with the goroutine.
		runtime.LockOSThread()
		if os.Geteuid() == 0 {
			if err := syscall.Setfsuid(65534); err != nil {
				t.Error(err)
				return
			}
		}
		out, err := callWith(t.Context(), t, tools.Search(), m{"pattern": "needle"}, nil)
		if err != nil {
			t.Error(err)
		}
		wantIn(t, out, "[matches: 1;", "2 unreadable")
		out, err = callWith(t.Context(), t, tools.ListDir(), m{"depth": 2}, nil)
		if err != nil {
			t.Error(err)
		}
		wantIn(t, out, "file 6 ok\n", "1 unreadable")
		if _, err = callWith(t.Context(), t, tools.ReadFile(), m{"path": "file"}, nil); rouse.CodeOf(err) != rouse.CodeDenied {
			t.Errorf("got %v", err)
		}
	}()
	<-done
	if err := os.Chmod(filepath.Join(root, "dir"), 0o700); err != nil {
		t.Fatal(err)
	}
}
