//go:build unix && !linux

package builtin

import (
	"os/exec"
	"syscall"
)

// lifeline does not exist where nobody could look for it.
type lifeline struct{}

func addLifeline(*exec.Cmd) (lifeline, error) { return lifeline{}, nil }

func (lifeline) close() error { return nil }

// awaitExit returns when the shell has ended.
func (p *process) awaitExit() {
	_ = p.cmd.Wait() // reap reads the state
}

// reap says how the shell ended.
func (p *process) reap() string {
	if p.cmd.ProcessState == nil {
		return "the exit code is not known"
	}
	return describe(p.cmd.ProcessState)
}

// alive returns whether the process group has members, as 0 or 1.
func (p *process) alive() int {
	if syscall.Kill(-p.cmd.Process.Pid, 0) != nil {
		return 0
	}
	return 1
}

func (p *process) killAll() { p.signalGroup(syscall.SIGKILL) }
