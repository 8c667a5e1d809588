//go:build unix

package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/creack/pty"
	"github.com/rogpeppe/go-internal/testscript"
)

// patience bounds how long the tests wait for something that should come at once.
const patience = 30 * time.Second

// person is somebody at a terminal with the program in it.
type person struct {
	cmd  *exec.Cmd
	term *os.File

	mu   sync.Mutex
	seen []byte
	from int           // what was seen before has been waited for
	more chan struct{} // holds a token when something new was seen
	gone chan struct{} // closed when the program has let go of the terminal
}

func sit(cmd *exec.Cmd) (*person, error) {
	term, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 50, Cols: 400})
	if err != nil {
		return nil, err
	}
	p := &person{cmd: cmd, term: term, more: make(chan struct{}, 1), gone: make(chan struct{})}
	go func() {
		defer close(p.gone)
		buf := make([]byte, 4096)
		for {
			n, err := term.Read(buf)
			p.mu.Lock()
			p.seen = append(p.seen, buf[:n]...)
			p.mu.Unlock()
			select {
			case p.more <- struct{}{}:
			default:
			}
			if err != nil {
				return
			}
		}
	}()
	return p, nil
}

// expect waits until text was shown, after what was expected before.
func (p *person) expect(text string) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for over := false; ; {
		p.mu.Lock()
		i := bytes.Index(p.seen[p.from:], []byte(text))
		if i >= 0 {
			p.from += i + len(text)
		}
		p.mu.Unlock()
		switch {
		case i >= 0:
			return nil
		case over:
			return errors.New("the program ended without showing " + text)
		}
		select {
		case <-p.more:
		case <-p.gone:
			over = true
		case <-timer.C:
			return errors.New("nobody showed " + text)
		}
	}
}

func (p *person) hit(keys string) error {
	_, err := io.WriteString(p.term, keys)
	return err
}

// leave waits for the end of the program.
func (p *person) leave() error {
	timer := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() })
	defer timer.Stop()
	err := p.cmd.Wait()
	<-p.gone
	return errors.Join(err, p.term.Close())
}

func (p *person) transcript() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.ReplaceAll(string(p.seen), "\r\n", "\n")
}

// act does what one line of a file for the script command tty says:
//
//	? TEXT   wait until TEXT is shown
//	> TEXT   type a line
//	^C, ^D   hit Ctrl-C, Ctrl-D
//	^UP      hit the arrow key
func (p *person) act(line string) error {
	switch {
	case strings.HasPrefix(line, "? "):
		return p.expect(line[2:])
	case strings.HasPrefix(line, "> "):
		return p.hit(line[2:] + "\r")
	case line == "^C":
		return p.hit("\x03")
	case line == "^D":
		return p.hit("\x04")
	case line == "^UP":
		return p.hit("\x1b[A")
	}
	return errors.New("what is " + line)
}

// cmdTTY runs the program in a terminal; what was shown is the file "tty" then.
//
//	tty FILE ARGS...
func cmdTTY(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: tty FILE ARGS...")
	}
	exe, err := os.Executable()
	ts.Check(err)
	cmd := exec.Command(exe, args[1:]...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = []string{asProgram + "=1", "TERM=xterm"}
	for _, name := range []string{"PATH", "HOME", "ROUSE_DATA", "OLLAMA_HOST", "LLAMACPP_HOST", "OPENAI_BASE_URL", "ROUSE_TEST_KILL"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	p, err := sit(cmd)
	ts.Check(err)
	var wrong error
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		if wrong = p.act(strings.TrimSuffix(line, "\n")); wrong != nil {
			_ = cmd.Process.Kill()
			break
		}
	}
	end := p.leave()
	ts.Logf("[tty: %v]\n%s", end, p.transcript())
	ts.Check(os.WriteFile(ts.MkAbs("tty"), []byte(p.transcript()), 0o600))
	ts.Check(wrong)
	var exit *exec.ExitError
	if failed := errors.As(end, &exit); failed != neg {
		ts.Fatalf("the program ended with %v", end)
	}
}
