//go:build unix

package builtin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/rouse-run/rouse"
)

const (
	// maxSweep bounds how long killed processes are waited for.
	maxSweep = 5 * time.Second
	// drainTime is how long output is waited for when all processes are gone.
	drainTime = time.Second
)

// process is a running command and all that it starts.
type process struct {
	cmd      *exec.Cmd
	marker   string      // the entry in the environment of all its processes
	lifeline lifeline    // the descriptor that all its processes inherit
	seen     map[int]int // when each process that was found was started; for supervise only
	out      *os.File    // what they write; the caller closes it

	// Set before ended is closed.
	ended      chan struct{}
	cause      error  // why it was ended early, nil when it was not
	status     string // how the shell ended
	background bool   // something was left when the shell had ended
	survivors  int    // processes that could not be killed
}

// startProcess starts a command. The caller runs supervise.
func startProcess(command, dir string, env []string, marker string) (*process, error) {
	fail := func(err error) error {
		return &rouse.Error{Code: rouse.CodeToolFailed, Op: "shell", Message: "the shell could not be started", Err: bare(err)}
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fail(err)
	}
	cmd := exec.Command("/bin/sh", "-c", command)
	cmd.Dir, cmd.Env = dir, env
	cmd.Stdout, cmd.Stderr = w, w
	// A session of its own is also a process group of its own, and has no terminal.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	lifeline, err := addLifeline(cmd)
	if err == nil {
		err = cmd.Start()
	}
	if err := errors.Join(err, w.Close(), lifeline.close()); err != nil {
		return nil, errors.Join(fail(err), r.Close())
	}
	return &process{cmd: cmd, marker: marker, lifeline: lifeline, seen: map[int]int{}, out: r, ended: make(chan struct{})}, nil
}

// supervise waits until the command has ended, or ends it when ctx does, and
// returns when none of its processes is left. It closes p.ended.
func (p *process) supervise(ctx context.Context, grace time.Duration) {
	defer close(p.ended)
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		p.awaitExit()
	}()
	select {
	case <-exited:
		p.background = p.alive() > 0
		p.signalGroup(syscall.SIGKILL)
	case <-ctx.Done():
		p.cause = context.Cause(ctx)
		p.alive() // finds descendants before their parents die
		p.signalGroup(syscall.SIGTERM)
		p.waitGone(grace, func() {})
		p.killAll() // all of one look, so that none is lost when its parent dies
	}
	p.survivors = p.waitGone(maxSweep, p.killAll)
	if p.survivors == 0 {
		<-exited
		p.status = p.reap()
	} else {
		go func() { // what even SIGKILL does not end now is reaped when the system lets it go
			<-exited
			p.reap()
		}()
	}
	// Whoever could write is gone. If not, reading ends all the same.
	if err := p.out.SetReadDeadline(time.Now().Add(drainTime)); err != nil {
		_ = p.out.Close() // this ends reading too
	}
}

// signalGroup sends sig to the process group. That there is none any more is
// what is wanted, so the error does not matter.
func (p *process) signalGroup(sig syscall.Signal) {
	_ = syscall.Kill(-p.cmd.Process.Pid, sig)
}

// waitGone calls act and looks whether any process is left, until two looks in
// a row have found none or the time is over. It returns how many are left.
func (p *process) waitGone(limit time.Duration, act func()) int {
	deadline := time.Now().Add(limit)
	pause := time.Millisecond
	for empty := 0; empty < 2; {
		n := p.alive()
		if n == 0 {
			empty++
			continue
		}
		if !time.Now().Before(deadline) {
			return n
		}
		empty = 0
		act()
		time.Sleep(pause) //nolint:forbidigo // nothing tells when a process that is not our child has ended
		pause = min(2*pause, 50*time.Millisecond)
	}
	return 0
}

// describe says how the shell ended.
func describe(s *os.ProcessState) string {
	if ws, ok := s.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return fmt.Sprintf("ended by signal %d, %s", ws.Signal(), ws.Signal())
	}
	return fmt.Sprintf("exit code %d", s.ExitCode())
}

// endOfOutput returns nil when err says that nobody can write any more.
func endOfOutput(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
