//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package sqlite_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/run"
	"github.com/rouse-run/rouse/store/sqlite"
	"go.uber.org/goleak"
)

// childVar makes the test binary do a child's work instead of running tests.
const childVar = "ROUSE_SQLITE_TEST_CHILD"

func TestMain(m *testing.M) {
	if mode := os.Getenv(childVar); mode != "" {
		if err := child(mode, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1) //nolint:forbidigo // this is the child's func main
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// child does what a test wants another process to do.
func child(mode string, args []string) error {
	switch mode {
	case "commit":
		return childCommits(args[0], nil)
	case "die":
		nth, err := strconv.Atoi(args[2])
		if err != nil {
			return err
		}
		return childCommits(args[0], func(point string) error {
			if point == args[1] {
				if nth--; nth == 0 {
					return syscall.Kill(os.Getpid(), syscall.SIGKILL)
				}
			}
			return nil
		})
	case "hold":
		return childHolds(args[0])
	case "full":
		return childFillsDisk(args[0])
	}
	return errors.New("no such mode")
}

// process is a running child.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	wait sync.Once
}

func spawn(t *testing.T, mode string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.CommandContext(t.Context(), os.Args[0], args...)}
	p.cmd.Env = append(os.Environ(), childVar+"="+mode)
	p.cmd.Stderr = os.Stderr
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return p
}

// line returns the child's next line, "" at the end of its output.
func (p *process) line() string {
	s, err := p.out.ReadString('\n')
	if err != nil {
		return "" // what a kill cut off was not said
	}
	return s[:len(s)-1]
}

// kill ends the child with SIGKILL and reaps it.
func (p *process) kill() {
	p.wait.Do(func() {
		_ = p.cmd.Process.Kill() // it may have ended by itself
		for p.line() != "" {
		}
		_ = p.cmd.Wait()
	})
}

// end lets the child finish and reports how.
func (p *process) end() error {
	err := errors.New("it was waited for before")
	p.wait.Do(func() {
		_ = p.in.Close()
		for p.line() != "" {
		}
		err = p.cmd.Wait()
	})
	return err
}

const childThreads = 4

// childCommits goes on with one run in each of a few threads for ever, and says
// which revisions were acknowledged. The commit that makes revision r adds
// 1+r%3 events.
func childCommits(dir string, fault func(string) error) error {
	ctx := context.Background()
	s, err := sqlite.Open(ctx, sqlite.Config{Dir: dir, Fault: fault, CheckpointPages: 40})
	if err != nil {
		return err
	}
	errs := make(chan error)
	for i := range childThreads {
		go func() { errs <- childRun(ctx, s, fmt.Sprint("t", i)) }()
	}
	return <-errs
}

func childRun(ctx context.Context, s *sqlite.Store, thread string) error {
	b := run.Batch{Thread: thread, Run: "run of " + thread, Epoch: 1, Owner: s.Node(), Status: rouse.StatusRunning}
	r, err := s.Run(ctx, b.Run)
	switch rouse.CodeOf(err) {
	case "":
		b.Revision, b.Epoch, b.Claim = r.Revision, r.Epoch+1, true
	case rouse.CodeNotFound:
	default:
		return err
	}
	for {
		b.Events = batchEvents(b.Revision + 1)
		if err := s.Commit(ctx, &b); err != nil {
			return err
		}
		b.Revision++
		b.Claim = false
		fmt.Println(thread, b.Revision)
		if b.Revision%8 == 0 {
			if _, err := s.PutBlob(ctx, fmt.Append(nil, thread, b.Revision)); err != nil {
				return err
			}
		}
	}
}

func batchEvents(revision int64) []rouse.Event {
	events := make([]rouse.Event, 1+revision%3)
	for i := range events {
		events[i] = rouse.Event{Path: "/", Class: rouse.ClassFact, Type: "test.event", Data: fmt.Appendf(nil, `{"revision":%d,"event":%d}`, revision, i)}
	}
	return events
}

// childHolds opens the store, starts a run, says so, and ends when its input does.
func childHolds(dir string) error {
	ctx := context.Background()
	s, err := sqlite.Open(ctx, sqlite.Config{Dir: dir})
	if err != nil {
		return err
	}
	b := run.Batch{Thread: "held", Run: "held", Epoch: 1, Owner: s.Node(), Status: rouse.StatusRunning, Events: batchEvents(1)}
	if err := s.Commit(ctx, &b); err != nil {
		return err
	}
	fmt.Println(s.Node())
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return s.Close()
}
