//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/agent"
	"github.com/rouse-run/rouse/model"
	"github.com/rouse-run/rouse/model/mock"
	"github.com/rouse-run/rouse/run"
	"github.com/rouse-run/rouse/store"
	"github.com/rouse-run/rouse/store/sqlite"
)

// worker is the model of the crash tests. What it says depends on the request
// alone, so it does not matter how often it is asked. Each of its two rounds has
// two calls that leave a line in a file outside of the store, one with a result
// that is too long to show, and one that changes nothing.
func worker(_ context.Context, req *model.Request) (any, error) {
	rounds := 0
	for _, m := range req.Messages {
		if m.Role == rouse.RoleAssistant {
			rounds++
		}
	}
	if rounds == 2 {
		return "All of the work has been done, and this is what there is to say about it.", nil
	}
	line := fmt.Sprint("round", rounds)
	r := mock.Calls(
		mock.Call{Name: "shell", Args: map[string]any{"command": "echo " + line + " >> shell.log"}},
		mock.Call{Name: "write_file", Args: map[string]any{"path": "write.log", "content": line + "\n", "mode": "append"}},
		mock.Call{Name: "shell", Args: map[string]any{"command": fmt.Sprintf("seq %d 20000", rounds)}},
		mock.Call{Name: "list_dir", Args: map[string]any{"path": "."}},
	)
	r.Text = "Now I do " + line + " of what is to be done."
	return r, nil
}

// crashes is a directory that processes work and die in.
type crashes struct {
	t          *testing.T
	data, root string
	base       string // of the model's server
}

func newCrashes(t *testing.T, base string) *crashes {
	t.Helper()
	dir := t.TempDir()
	c := &crashes{t: t, data: filepath.Join(dir, "data"), root: filepath.Join(dir, "root"), base: base}
	if err := os.Mkdir(c.root, 0o700); err != nil {
		t.Fatal(err)
	}
	return c
}

func serveWorker(t *testing.T) string {
	t.Helper()
	g, err := mock.New(mock.Config{Rules: []mock.Rule{{Prompt: mock.Any, Generator: mock.Func(worker)}}, ChunkRunes: 3, MaxRequests: 1 << 20})
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

// command prepares the program as a process of its own.
func (c *crashes) command(kill string, args ...string) *exec.Cmd {
	exe, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	cmd := exec.CommandContext(c.t.Context(), exe, args...)
	cmd.Dir = c.root
	cmd.Env = []string{
		asProgram + "=1", "PATH=" + os.Getenv("PATH"), "ROUSE_DATA=" + c.data, "OPENAI_BASE_URL=" + c.base,
		"OPENAI_MODEL=worker", "OLLAMA_HOST=127.0.0.1:1", "LLAMACPP_HOST=127.0.0.1:1", "ROUSE_TEST_KILL=" + kill,
	}
	return cmd
}

// ends runs a prepared process and returns its status, -1 when it was killed.
func (c *crashes) ends(cmd *exec.Cmd) (code int, said string) {
	var out bytes.Buffer
	if cmd.Stdout == nil {
		cmd.Stdout = &out
	}
	cmd.Stderr = &out
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		c.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String()
}

// killAfter ends a process with SIGKILL once it has written n bytes. It reports
// whether it was quick enough.
func (c *crashes) killAfter(n int64, args ...string) bool {
	cmd := c.command("", args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	if n == 0 {
		_ = cmd.Process.Kill()
	}
	r := bufio.NewReader(out)
	if _, err := io.CopyN(io.Discard, r, n); err == nil {
		_ = cmd.Process.Kill()
	}
	_, _ = io.Copy(io.Discard, r)
	_ = cmd.Wait()
	return cmd.ProcessState.ExitCode() == -1
}

// open opens the store while no process has it.
func (c *crashes) open() *sqlite.Store {
	st, err := sqlite.Open(c.t.Context(), sqlite.Config{Dir: c.data})
	if err != nil {
		c.t.Fatal(err)
	}
	return st
}

// runs returns all runs of the directory.
func (c *crashes) runs(st *sqlite.Store) []store.RunInfo {
	rows, _, err := st.ListRuns(c.t.Context(), store.RunFilter{})
	if err != nil {
		c.t.Fatal(err)
	}
	return rows
}

// doubts returns the effects of a run that were begun and have no receipt, with
// the questions about them that were put.
func (c *crashes) doubts(st *sqlite.Store, r store.RunInfo) (begun map[string]bool, asked int) {
	begun = map[string]bool{}
	for ev, err := range st.Read(c.t.Context(), run.Query{Thread: r.Thread, Run: r.ID}) {
		switch {
		case err != nil:
			c.t.Fatal(err)
		case ev.Type == rouse.EventToolIntent:
			var d agent.IntentData
			c.decode(&ev, &d)
			begun[d.Call.ID] = true
		case ev.Type == rouse.EventToolFinished:
			var d agent.ResultData
			c.decode(&ev, &d)
			delete(begun, d.Result.CallID)
		case ev.Type == rouse.EventAsked:
			var q run.Ask
			c.decode(&ev, &q)
			if q.Kind == agent.AskUncertain {
				asked++
			}
		}
	}
	return begun, asked
}

func (c *crashes) decode(ev *rouse.Event, v any) {
	if err := ev.Decode(v); err != nil {
		c.t.Fatal(err)
	}
}

// recover brings what a killed process left to its end, as a person would, and
// checks that every call in doubt became a question and none ran again unasked.
func (c *crashes) recover(when string) {
	st := c.open()
	runs := c.runs(st)
	if len(runs) == 0 || runs[0].Status.Final() {
		c.close(st)
		return
	}
	r := runs[0]
	before, askedBefore := c.doubts(st, r)
	c.close(st)
	args := []string{"-q", "resume", "--yes"}
	if r.Status == rouse.StatusWaiting {
		args = append(args, r.ID)
	}
	code, said := c.ends(c.command("", args...))
	st = c.open()
	now, err := st.Run(c.t.Context(), r.ID)
	if err != nil {
		c.t.Fatal(err)
	}
	_, asked := c.doubts(st, r)
	c.close(st)
	if len(before) == 0 {
		if code != 0 || now.Status != rouse.StatusCompleted || asked != askedBefore {
			c.t.Fatalf("%s: nothing was in doubt, but resume ended with %d, the run is %s, %d questions were put\n%s", when, code, now.Status, asked-askedBefore, said)
		}
		return
	}
	if code != 1 || now.Status != rouse.StatusWaiting || asked-askedBefore > len(before) || asked == 0 || !strings.Contains(said, "[uncertain]") {
		c.t.Fatalf("%s: %d calls are in doubt, resume ended with %d, the run is %s, %d questions were put\n%s", when, len(before), code, now.Status, asked-askedBefore, said)
	}
	if code, said = c.ends(c.command("", "-q", "resume", r.ID, "--yes", "--resolve", "give_up")); code != 0 {
		c.t.Fatalf("%s: after the answers resume ended with %d\n%s", when, code, said)
	}
}

func (c *crashes) close(st *sqlite.Store) {
	if err := st.Close(); err != nil {
		c.t.Fatal(err)
	}
}

// check looks at what all of it came to: one run, complete, nothing lost, nothing
// done twice.
func (c *crashes) check(when string) {
	st := c.open()
	runs := c.runs(st)
	if len(runs) != 1 || runs[0].Status != rouse.StatusCompleted {
		c.t.Fatalf("%s: the runs are %+v", when, runs)
	}
	count := map[rouse.EventType]int{}
	lines := map[string]int{} // that finished calls must have left
	for ev, err := range st.Read(c.t.Context(), queryOf(runs[0].Thread)) {
		if err != nil {
			c.t.Fatal(err)
		}
		count[ev.Type]++
		if ev.Type == rouse.EventToolFinished {
			var d agent.ResultData
			c.decode(&ev, &d)
			if d.By == "" && d.Code == "" {
				lines[fmt.Sprintf("%d round%d", d.Index, count[rouse.EventAnswer]-1)]++
			}
			if d.By != "" && d.Code != rouse.CodeUncertain || d.By == "" && d.Code != "" {
				c.t.Fatalf("%s: a call ended with %+v", when, d)
			}
		}
	}
	c.close(st)
	for typ, want := range map[rouse.EventType]int{rouse.EventRunStarted: 1, rouse.EventMessage: 1, rouse.EventAnswer: 3, rouse.EventToolFinished: 8, rouse.EventRunFinished: 1} {
		if count[typ] != want {
			c.t.Fatalf("%s: the journal has %d events %s, want %d", when, count[typ], typ, want)
		}
	}
	for index, file := range []string{"shell.log", "write.log"} {
		text, err := os.ReadFile(filepath.Join(c.root, file))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			c.t.Fatal(err)
		}
		for _, round := range []string{"round0", "round1"} {
			happened, known := strings.Count(string(text), round+"\n"), lines[fmt.Sprint(index, " ", round)]
			if happened > 1 || known > happened {
				c.t.Fatalf("%s: %s of %s happened %d times, and is known to have happened %d times", when, file, round, happened, known)
			}
		}
	}
	verifyAll(c.t.Context(), c.t, c.data)
}

// TestKillAtPoints kills the program at every fault point of the store, at its
// first, second, ... passage, until a run gets through without reaching it.
func TestKillAtPoints(t *testing.T) {
	t.Parallel()
	base := serveWorker(t)
	for _, point := range sqlite.FaultPoints() {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			killed := 0
			for nth := 1; ; nth += killStep {
				if nth > 200 {
					t.Fatal("there is no end to it")
				}
				c := newCrashes(t, base)
				when := fmt.Sprintf("%s:%d", point, nth)
				code, said := c.ends(c.command(when, "-q", "run", "--yes", "work"))
				through := code == 0
				if code > 0 {
					t.Fatalf("%s: the program ended with %d\n%s", when, code, said)
				}
				if !through {
					killed++
				}
				c.recover(when)
				if st := c.open(); len(c.runs(st)) == 0 { // nothing was ever committed: it is as if it had not begun
					c.close(st)
					if code, said = c.ends(c.command("", "-q", "run", "--yes", "work")); code != 0 {
						t.Fatalf("%s: after it the program ended with %d\n%s", when, code, said)
					}
				} else {
					c.close(st)
				}
				c.check(when)
				if through {
					break
				}
			}
			if killed == 0 {
				t.Error("a run never passes this point")
			}
			t.Logf("killed %d times", killed)
		})
	}
}

// killBatches is how many sequences of killMoments each are made.
const killBatches = 4

// TestKillAnywhere kills the program at random moments: after a random number of
// bytes of its output, now and then a second time while it recovers.
func TestKillAnywhere(t *testing.T) {
	t.Parallel()
	base := serveWorker(t)
	whole := newCrashes(t, base)
	cmd := whole.command("", "-q", "run", "--yes", "--json", "work")
	var out bytes.Buffer
	cmd.Stdout = &out
	if code, said := whole.ends(cmd); code != 0 {
		t.Fatalf("status %d\n%s", code, said)
	}
	whole.check("undisturbed")
	for batch := range killBatches {
		t.Run(fmt.Sprint(batch), func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			random := rand.New(rand.NewPCG(seed, uint64(batch)))
			killed := 0
			for moment := range killMoments {
				c := newCrashes(t, base)
				when := fmt.Sprintf("seed %d, moment %d", seed, moment)
				if c.killAfter(random.Int64N(int64(out.Len())), "-q", "run", "--yes", "--json", "work") {
					killed++
				}
				if random.IntN(3) == 0 {
					c.killAfter(random.Int64N(int64(out.Len())/2), "-q", "resume", "--yes", "--json")
				}
				c.recover(when)
				st := c.open()
				begun := len(c.runs(st)) > 0
				c.close(st)
				if begun {
					c.check(when)
				}
			}
			if killed < killMoments/2 {
				t.Errorf("only %d of %d processes were killed in time", killed, killMoments)
			}
		})
	}
}
