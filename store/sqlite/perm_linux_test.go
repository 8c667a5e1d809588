package sqlite_test

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/store/sqlite"
)

// asNobody runs fn without the rights of root, which may read and write everything.
func asNobody(t *testing.T, fn func()) {
	t.Helper()
	if os.Getuid() != 0 {
		fn()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		// The thread that has lost its rights ends with this goroutine.
		runtime.LockOSThread()
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETFSUID, 65534, 0, 0); errno != 0 {
			t.Error(errno)
			return
		}
		fn()
	}()
	<-done
}

func TestPermissions(t *testing.T) {
	t.Parallel()
	for name, modes := range map[string]map[string]os.FileMode{
		"unreadable directory": {".": 0},
		"unwritable directory": {".": 0o555, "nodes": 0o555},
		"read-only database":   {".": 0o777, "nodes": 0o777, "opening.lock": 0o666, sqlite.FileName: 0o444},
		"unreadable database":  {".": 0o777, "nodes": 0o777, "opening.lock": 0o666, sqlite.FileName: 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := made(t)
			for parent := dir; parent != os.TempDir() && parent != "/"; parent = filepath.Dir(parent) {
				chmod(t, parent, 0o755)
			}
			for file, mode := range modes {
				if file != "." {
					chmod(t, filepath.Join(dir, file), mode)
				}
			}
			chmod(t, dir, modes["."])
			t.Cleanup(func() { chmod(t, dir, 0o700) })
			var err error
			asNobody(t, func() {
				var s *sqlite.Store
				if s, err = sqlite.Open(t.Context(), sqlite.Config{Dir: dir}); err == nil {
					s.Close()
				}
			})
			wantError(t, err, rouse.CodeStorage, true)
		})
	}
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}
