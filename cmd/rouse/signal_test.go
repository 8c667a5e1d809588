//go:build unix

package main

import (
	"bufio"
	"bytes"
	"errors"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/model/mock"
)

// serve starts a model that gives these answers, one after the other.
func serve(t *testing.T, answers ...any) string {
	t.Helper()
	g, err := mock.New(mock.Config{Rules: []mock.Rule{{Prompt: mock.Any, Sequence: answers}}, Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	srv, err := g.NewServer()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	return srv.BaseURL()
}

// stalls is an answer that stops in its middle, and never ends by itself.
func stalls() mock.Result {
	return mock.Result{Text: "This is the beginning of an answer that has no end.", Fault: mock.Fault{Break: mock.BreakHang, AfterChunks: 2}}
}

// process is a running program whose output is read line by line.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	out  *bufio.Reader
	said *bufio.Reader
	errs strings.Builder
}

func (c *crashes) begin(args ...string) *process {
	p := &process{t: c.t, cmd: c.command("", args...)}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	said, err := p.cmd.StderrPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	p.out, p.said = bufio.NewReader(out), bufio.NewReader(said)
	return p
}

// until reads lines of the output until one holds text.
func (p *process) until(text string) {
	p.t.Helper()
	for {
		line, err := p.out.ReadString('\n')
		if strings.Contains(line, text) {
			return
		}
		if err != nil {
			p.t.Fatalf("the output ended without %s", text)
		}
	}
}

// hears reads lines of the standard error until one holds text.
func (p *process) hears(text string) {
	p.t.Helper()
	for {
		line, err := p.said.ReadString('\n')
		p.errs.WriteString(line)
		if strings.Contains(line, text) {
			return
		}
		if err != nil {
			p.t.Fatalf("the standard error ended without %s", text)
		}
	}
}

func (p *process) signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
}

// end reads what is left and returns the exit status and the standard error.
func (p *process) end() (code int, said string) {
	p.t.Helper()
	var rest bytes.Buffer
	_, _ = rest.ReadFrom(p.out)
	_, _ = rest.ReadFrom(p.said)
	err := p.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.t.Fatal(err)
	}
	return p.cmd.ProcessState.ExitCode(), p.errs.String() + rest.String()
}

// status returns the state of the only run.
func (c *crashes) status() rouse.Status {
	c.t.Helper()
	st := c.open()
	defer c.close(st)
	runs := c.runs(st)
	if len(runs) != 1 {
		c.t.Fatalf("there are %d runs", len(runs))
	}
	return runs[0].Status
}

// TestTerminate: SIGTERM and a hang-up let the run go, and it continues later.
func TestTerminate(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			c := newCrashes(t, serve(t, stalls()))
			p := c.begin("run", "--json", "go")
			p.until(`"type":"text"`)
			p.signal(sig)
			if code, said := p.end(); code != 1 || !strings.Contains(said, "was let go") || !strings.Contains(said, "hint: continue it with: rouse resume") {
				t.Fatalf("status %d\n%s", code, said)
			}
			if s := c.status(); s != rouse.StatusRunning {
				t.Fatalf("the run is %s", s)
			}
			c.base = serve(t, "The whole answer.")
			if code, said := c.ends(c.command("", "resume")); code != 0 || !strings.Contains(said, "The whole answer.") {
				t.Fatalf("resume: status %d\n%s", code, said)
			}
			if s := c.status(); s != rouse.StatusCompleted {
				t.Fatalf("the run is %s", s)
			}
			verifyAll(t.Context(), t, c.data)
		})
	}
}

// TestInterrupt: Ctrl-C ends the run for good.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	c := newCrashes(t, serve(t, stalls()))
	p := c.begin("run", "--json", "go")
	p.until(`"type":"text"`)
	p.signal(syscall.SIGINT)
	p.until(`"status":"canceled"`)
	if code, said := p.end(); code != 1 || !strings.Contains(said, "[canceled]") {
		t.Fatalf("status %d\n%s", code, said)
	}
	if s := c.status(); s != rouse.StatusCanceled {
		t.Fatalf("the run is %s", s)
	}
	verifyAll(t.Context(), t, c.data)
}

// TestInsist: a second Ctrl-C does not wait for a tool that does not want to end;
// what it did is not known then.
func TestInsist(t *testing.T) {
	t.Parallel()
	c := newCrashes(t, serve(t, mock.Calls(mock.Call{Name: "shell", Args: map[string]any{"command": "trap '' TERM; echo ready; sleep 5 & wait; wait"}}), "done"))
	p := c.begin("run", "--json", "--yes", "go")
	p.until(`"type":"tool.progress"`)
	p.signal(syscall.SIGINT)
	p.hears("canceling the run")
	over := make(chan struct{})
	go func() { // a person who hits the key again and again
		defer close(over)
		for tick := time.NewTicker(2 * bounce); p.cmd.Process.Signal(syscall.SIGINT) == nil; <-tick.C {
		}
	}()
	defer func() { <-over }()
	if code, said := p.end(); code != 1 {
		t.Fatalf("status %d\n%s", code, said)
	}
	if s := c.status(); s != rouse.StatusRunning {
		t.Fatalf("the run is %s", s)
	}
	c.recover("after two interrupts")
	verifyAll(t.Context(), t, c.data)
}

// TestHangUp: the terminal goes away while a question is open, and the run waits.
func TestHangUp(t *testing.T) {
	t.Parallel()
	c := newCrashes(t, serve(t, mock.Calls(mock.Call{Name: "shell", Args: map[string]any{"command": "echo one >> log"}})))
	cmd := c.command("", "run", "go")
	term, err := pty.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	// Read here and not beside: a read in progress would keep the terminal open.
	var seen []byte
	for buf := make([]byte, 256); !bytes.Contains(seen, []byte("= no:")); {
		n, err := term.Read(buf)
		if seen = append(seen, buf[:n]...); err != nil {
			t.Fatalf("%v\n%s", err, seen)
		}
	}
	if err := term.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the program ended as if all were well")
	}
	if s := c.status(); s != rouse.StatusWaiting {
		t.Fatalf("the run is %s", s)
	}
	verifyAll(t.Context(), t, c.data)
}

// TestBusy: a run that a living process drives is not taken over.
func TestBusy(t *testing.T) {
	t.Parallel()
	c := newCrashes(t, serve(t, stalls()))
	p := c.begin("run", "--json", "go")
	p.until(`"type":"text"`)
	for _, args := range [][]string{{"resume", "last"}, {"run", "--thread", "last", "more"}} {
		if code, said := c.ends(c.command("", args...)); code != 1 || !strings.Contains(said, "another process is driving run") || !strings.Contains(said, "[busy]") {
			t.Errorf("%q: status %d\n%s", args, code, said)
		}
	}
	if code, said := c.ends(c.command("", "resume")); code != 0 || !strings.Contains(said, "no interrupted run") {
		t.Errorf("resume: status %d\n%s", code, said)
	}
	p.signal(syscall.SIGINT)
	p.end()
	verifyAll(t.Context(), t, c.data)
}
