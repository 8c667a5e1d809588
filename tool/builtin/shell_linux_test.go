package builtin_test

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/tool/builtin"
)

// stat returns the fields of /proc/pid/stat after the name, nil for no process.
func stat(pid int) [][]byte {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	return bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
}

// running reports whether a process exists and is not a zombie.
func running(pid int) bool {
	f := stat(pid)
	return f != nil && f[0][0] != 'Z' && f[0][0] != 'X'
}

// anyInGroup reports whether a group has a member that runs.
func anyInGroup(group int) bool {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return true
	}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			if f := stat(pid); f != nil && string(f[2]) == strconv.Itoa(group) && running(pid) {
				return true
			}
		}
	}
	return false
}

// Processes that leave the group and the session do not outlive the call.
func TestShellSessions(t *testing.T) {
	t.Parallel()
	const ready = `while ! test -s ready; do sleep 0.01; done`
	for name, command := range map[string]string{
		"setsid":         `setsid sh -c 'echo $$ >>pids; echo ok >ready; exec sleep 1000' >/dev/null 2>&1 & ` + ready,
		"daemon":         `(setsid sh -c '(echo ok >ready; exec sleep 1000) & echo $! >>pids' >/dev/null 2>&1 &); ` + ready,
		"setsid deaf":    `setsid sh -c 'trap "" TERM HUP; echo $$ >>pids; echo ok >ready; while :; do sleep 1000; done' & ` + ready,
		"clean":          `env -i setsid sh -c 'echo $$ >>pids; echo ok >ready; exec sleep 1000' >/dev/null 2>&1 & ` + ready,
		"child of clean": `setsid sh -c 'echo $$ >>pids; env -i sh -c "echo \$\$ >>pids; echo ok >ready; sleep 1000"; true' >/dev/null 2>&1 & ` + ready,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tools, root := newTools(t, nil)
			wantIn(t, call(t, tools.Shell(), m{"command": "echo $$ >pids; " + command}), "[processes left in the background were ended]\n[exit code 0]\n")
			gone(t, root)
		})
		t.Run(name+" timeout", func(t *testing.T) {
			t.Parallel()
			tools, root := newTools(t, func(c *builtin.Config) { c.ShellGrace = 50 * time.Millisecond })
			refused(t, tools.Shell(), m{"command": "echo $$ >pids; " + command + "; sleep 1000", "timeout_seconds": 1.5}, rouse.CodeTimeout)
			gone(t, root)
		})
	}
}

// While the shell lives, also a process without the marker is found by its
// parent, and is not lost when the shell obeys SIGTERM and it does not.
func TestShellCleanEnvironment(t *testing.T) {
	t.Parallel()
	for _, trap := range []string{"", "trap '' TERM; "} {
		tools, root := newTools(t, func(c *builtin.Config) { c.ShellGrace = 50 * time.Millisecond })
		refused(t, tools.Shell(), m{"command": trap + `echo $$ >pids; env -i setsid sh -c 'echo $$ >>pids; exec sleep 1000' >/dev/null 2>&1 & wait; sleep 1000`,
			"timeout_seconds": 1}, rouse.CodeTimeout)
		if n := len(pids(t, root)); n != 2 {
			t.Errorf("%d processes were started", n)
		}
		gone(t, root)
	}
}

// Neither calls nor their ends leave file descriptors open.
func TestShellDescriptors(t *testing.T) { // not parallel: it counts
	tools, _ := newTools(t, nil)
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	call(t, tools.Shell(), m{"command": "true"})
	before := count()
	for range 20 {
		call(t, tools.Shell(), m{"command": "sleep 1000 & true"})
		call(t, tools.ListDir(), m{"depth": 3})
		call(t, tools.Search(), m{"pattern": "x"})
		call(t, tools.WriteFile(), m{"path": "f", "content": "x", "mode": "overwrite"})
	}
	if after := count(); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

// A host that adopts orphans, as the first process of a container does, is not
// left with their remains.
func TestShellAdoptedOrphans(t *testing.T) { // not parallel: it changes the process
	const prSetChildSubreaper = 36
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0); errno != 0 {
		t.Fatal(errno)
	}
	defer func() {
		if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, 0, 0); errno != 0 {
			t.Error(errno)
		}
	}()
	tools, root := newTools(t, nil)
	call(t, tools.Shell(), m{"command": `echo $$ >pids; sleep 1000 & echo $! >>pids; (sh -c 'sleep 1000 & echo $! >>pids')`})
	for _, pid := range pids(t, root) {
		if f := stat(pid); f != nil {
			t.Errorf("process %d is in state %s", pid, f[0])
		}
	}
}
