//go:build unix

package builtin_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/internal/safecall"
	"github.com/rouse-run/rouse/tool/builtin"
)

func TestShell(t *testing.T) {
	t.Parallel()
	tools, root := newTools(t, nil)
	sh := tools.Shell()
	put(t, root, "f", "content")
	for _, c := range []struct{ command, want string }{
		{"echo hi", "hi\n[exit code 0]\n"},
		{"cat f", "content\n[exit code 0]\n"},
		{"true", "[exit code 0]\n"},
		{"echo out; echo err >&2; exit 3", "out\nerr\n[exit code 3]\n"},
		{"cat", "[exit code 0]\n"}, // there is no input
		{"kill -9 $$", "[ended by signal 9, killed]\n"},
		{"printf 'a\\377b'", "a\uFFFDb\n[exit code 0]\n"},
		{"no-such-command 2>/dev/null", "[exit code 127]\n"},
		{"(exec </dev/tty) 2>/dev/null || echo no terminal", "no terminal\n[exit code 0]\n"},
	} {
		if got := call(t, sh, m{"command": c.command}); got != c.want {
			t.Errorf("%s: got %q, want %q", c.command, got, c.want)
		}
	}
	refused(t, sh, m{"command": "  "}, rouse.CodeInvalid)
	refused(t, sh, m{"command": "a\x00b"}, rouse.CodeInvalid)
	refused(t, sh, m{"command": strings.Repeat("#", 200_000)}, rouse.CodeTooLarge)
	refused(t, sh, m{"command": "true", "timeout_seconds": -1}, rouse.CodeInvalid)
	refused(t, sh, m{"command": "true", "timeout_seconds": 601}, rouse.CodeInvalid)
	refused(t, sh, m{"command": "true", "timeout_seconds": 1e300}, rouse.CodeInvalid)
}

func TestShellEnvironment(t *testing.T) {
	t.Setenv("SECRET_KEY", "hunter2") // so this test is not parallel
	tools, root := newTools(t, func(c *builtin.Config) { c.Env = map[string]string{"EXTRA": "1 2", "LANG": "C"} })
	got := map[string]string{}
	for line := range strings.SplitSeq(call(t, tools.Shell(), m{"command": "/usr/bin/env"}), "\n") {
		if name, value, ok := strings.Cut(line, "="); ok {
			got[name] = value
		}
	}
	for name, value := range map[string]string{"HOME": root, "PWD": root, "TERM": "dumb", "LANG": "C", "EXTRA": "1 2"} {
		if got[name] != value {
			t.Errorf("%s is %q, want %q", name, got[name], value)
		}
	}
	for _, name := range []string{"PATH", "ROUSE_SHELL_CALL", "HOME", "PWD", "TERM", "LANG", "EXTRA", "_", "SHLVL", "OLDPWD"} {
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("more than expected in the environment: %v", got)
	}
}

func TestShellOutputIsBounded(t *testing.T) {
	t.Parallel()
	tools, _ := newTools(t, func(c *builtin.Config) { c.MaxShellOutput = 10_000 })
	var mu sync.Mutex
	reports, most := 0, 0
	out, err := callWith(t.Context(), t, tools.Shell(), m{"command": "echo first; yes 'some line é' | head -c 20000000; echo; echo last"}, func(text string) {
		mu.Lock()
		defer mu.Unlock()
		reports, most = reports+1, max(most, len(text))
	})
	if err != nil {
		t.Fatal(err)
	}
	wantIn(t, out, "first\nsome line é\n", "bytes left out]\n", "\nlast\n[exit code 0]\n")
	if len(out) > 10_200 || strings.Contains(out, "\uFFFD") {
		t.Errorf("%d bytes", len(out))
	}
	if reports == 0 || most > 8<<10 {
		t.Errorf("%d reports of up to %d bytes", reports, most)
	}
}

func TestShellProgress(t *testing.T) {
	t.Parallel()
	tools, root := newTools(t, nil)
	if err := syscall.Mkfifo(filepath.Join(root, "go"), 0o600); err != nil {
		t.Fatal(err)
	}
	var got []string
	// The command goes on only after its first line has been reported.
	out, err := callWith(t.Context(), t, tools.Shell(), m{"command": "echo one; read x <go; printf 'two\\nthr'; printf ee"}, func(text string) {
		if got = append(got, text); len(got) == 1 {
			if err := os.WriteFile(filepath.Join(root, "go"), []byte("on\n"), 0); err != nil {
				t.Error(err)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if got[0] != "one" || strings.Join(got, "\n") != "one\ntwo\nthree" {
		t.Errorf("reported %q", got)
	}
	if out != "one\ntwo\nthree\n[exit code 0]\n" {
		t.Errorf("got %q", out)
	}
}

// A panic of whoever watches leaves no process behind.
func TestShellProgressPanics(t *testing.T) {
	t.Parallel()
	tools, root := newTools(t, nil)
	err := safecall.Do(t.Context(), "test", func(ctx context.Context) error {
		_, err := callWith(ctx, t, tools.Shell(), m{"command": "echo $$ >pids; echo x; sleep 1000"}, func(string) { panic("watcher") })
		return err
	})
	var p *safecall.Panic
	if !errors.As(err, &p) {
		t.Errorf("got %v, want the panic", err)
	}
	gone(t, root)
}

// pids returns what a command has written to the file pids.
func pids(t *testing.T, root string) []int {
	t.Helper()
	var out []int
	for _, f := range strings.Fields(content(t, root, "pids")) {
		pid, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, pid)
	}
	return out
}

// gone checks that no process that is named in the file pids runs any more.
func gone(t *testing.T, root string) {
	t.Helper()
	all := pids(t, root)
	if len(all) == 0 {
		t.Fatal("no process was started")
	}
	for _, pid := range all {
		if running(pid) {
			t.Errorf("process %d of %v runs on", pid, all)
		}
	}
	if syscall.Kill(-all[0], 0) == nil && anyInGroup(all[0]) {
		t.Errorf("the group %d has members", all[0])
	}
}

// The shell writes its id first, then those of what it starts.
var hideouts = map[string]string{
	"plain":       `echo $$ >>pids; sleep 1000`,
	"child":       `echo $$ >>pids; sleep 1000 & echo $! >>pids; wait`,
	"grandchild":  `echo $$ >>pids; sh -c 'sleep 1000 & echo $! >>pids; wait' & wait`,
	"deaf":        `echo $$ >>pids; trap '' TERM HUP INT; sleep 1000 & echo $! >>pids; while :; do sleep 1000; done`,
	"stopped":     `echo $$ >>pids; sleep 1000 & echo $! >>pids; kill -STOP $!; kill -STOP $$`,
	"pipeline":    `echo $$ >>pids; sleep 1000 | cat`,
	"fork chain":  `echo $$ >>pids; f() { sh -c 'echo $$ >>pids; sleep 1000' & }; for i in 1 2 3 4 5 6 7 8; do f; done; wait`,
	"flood":       `echo $$ >>pids; yes`,
	"quiet child": `echo $$ >>pids; sleep 1000 >/dev/null 2>&1 </dev/null & echo $! >>pids; wait`,
}

func TestShellTimeout(t *testing.T) {
	t.Parallel()
	for name, command := range hideouts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tools, root := newTools(t, func(c *builtin.Config) { c.ShellGrace = 100 * time.Millisecond })
			e := refused(t, tools.Shell(), m{"command": "echo started; " + command, "timeout_seconds": 1}, rouse.CodeTimeout)
			wantIn(t, e.Message, "1s", "its output:\n")
			wantIn(t, e.Hint, "timeout_seconds")
			gone(t, root)
		})
	}
}

func TestShellDefaultTimeout(t *testing.T) {
	t.Parallel()
	tools, root := newTools(t, func(c *builtin.Config) { c.ShellTimeout = 200 * time.Millisecond })
	wantIn(t, refused(t, tools.Shell(), m{"command": "echo $$ >pids; sleep 1000"}, rouse.CodeTimeout).Message, "200ms")
	gone(t, root)
}

// On SIGTERM a command may clean up.
func TestShellGrace(t *testing.T) {
	t.Parallel()
	tools, root := newTools(t, func(c *builtin.Config) { c.ShellGrace = 30 * time.Second })
	refused(t, tools.Shell(), m{"command": `echo $$ >pids; trap 'echo clean >done; kill $!; exit 0' TERM; sleep 1000 & wait`, "timeout_seconds": 0.5}, rouse.CodeTimeout)
	if got := content(t, root, "done"); got != "clean\n" {
		t.Errorf("got %q", got)
	}
	gone(t, root)
}

func TestShellCanceled(t *testing.T) {
	t.Parallel()
	for name, command := range hideouts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tools, root := newTools(t, func(c *builtin.Config) { c.ShellGrace = 50 * time.Millisecond })
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			out, err := callWith(ctx, t, tools.Shell(), m{"command": "echo $$ >>pids; echo started; " + command}, func(string) { cancel() })
			coded(t, out, err, rouse.CodeCanceled)
			gone(t, root)
		})
	}
	tools, root := newTools(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	out, err := callWith(ctx, t, tools.Shell(), m{"command": "echo $$ >pids; sleep 1000"}, nil)
	coded(t, out, err, rouse.CodeTimeout)
	gone(t, root)
}

// What a command leaves in the background ends with the call.
func TestShellBackground(t *testing.T) {
	t.Parallel()
	for name, command := range map[string]string{
		"output":  `echo $$ >pids; sleep 1000 & echo $! >>pids`,
		"silent":  `echo $$ >pids; sleep 1000 >/dev/null 2>&1 & echo $! >>pids`,
		"nohup":   `echo $$ >pids; nohup sleep 1000 >/dev/null 2>&1 & echo $! >>pids`,
		"deaf":    `echo $$ >pids; sh -c 'trap "" TERM HUP; echo $$ >>pids; echo ok >ready; while :; do sleep 1000; done' & while ! test -s ready; do sleep 0.01; done`,
		"jobs on": `echo $$ >pids; set -m; sleep 1000 & echo $! >>pids`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tools, root := newTools(t, nil)
			wantIn(t, call(t, tools.Shell(), m{"command": command}), "[processes left in the background were ended]\n[exit code 0]\n")
			gone(t, root)
		})
	}
}

// Calls at the same time do not end each other's processes.
func TestShellParallel(t *testing.T) {
	t.Parallel()
	tools, _ := newTools(t, nil)
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			want := fmt.Sprintf("%d\n[exit code 0]\n", i)
			if got := call(t, tools.Shell(), m{"command": fmt.Sprintf("sleep 0.%d; echo %d", i%4, i)}); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
	wg.Wait()
}

// A root that was moved away is not used by its path.
func TestMovedRoot(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	root, moved := filepath.Join(base, "root"), filepath.Join(base, "moved")
	put(t, root, "f", "mine")
	tools, err := builtin.New(builtin.Config{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	defer tools.Close()
	if err := os.Rename(root, moved); err != nil {
		t.Fatal(err)
	}
	refused(t, tools.Shell(), m{"command": "touch x"}, rouse.CodeConflict)
	put(t, root, "f", "another")
	refused(t, tools.Shell(), m{"command": "touch x"}, rouse.CodeConflict)
	if got := call(t, tools.ReadFile(), m{"path": "f"}); got != "mine" {
		t.Errorf("got %q", got)
	}
	call(t, tools.WriteFile(), m{"path": "g", "content": "x"})
	if len(names(t, root)) != 1 || len(names(t, moved)) != 2 {
		t.Errorf("%v, %v", names(t, root), names(t, moved))
	}
}
