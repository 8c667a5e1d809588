//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/store/sqlite"
)

// asProgram makes the test binary be the program.
const asProgram = "ROUSE_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(program())
	}
	testscript.Main(leakFree{m}, map[string]func(){"rouse": func() { os.Exit(program()) }})
}

// leakFree runs the tests and then looks for goroutines that they left.
type leakFree struct{ m *testing.M }

func (l leakFree) Run() int {
	code := l.m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// program is main with the seams that the tests need:
//
//	ROUSE_TEST_KILL=point:n  SIGKILL at the n-th passage of a fault point
//	ROUSE_TEST_FSIZE=bytes   no file may grow beyond this, as on a full disk
func program() int {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	p := Process{Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv, Signals: signals}
	if spec := os.Getenv("ROUSE_TEST_KILL"); spec != "" {
		point, nth, _ := strings.Cut(spec, ":")
		left, err := strconv.Atoi(nth)
		if err != nil {
			panic(err)
		}
		p.Fault = func(at string) error {
			if at == point {
				if left--; left == 0 {
					_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
					select {} // the signal is on its way
				}
			}
			return nil
		}
	}
	if limit, err := strconv.ParseUint(os.Getenv("ROUSE_TEST_FSIZE"), 10, 64); err == nil {
		signal.Ignore(syscall.SIGXFSZ)
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
			panic(err)
		}
	}
	return Main(context.Background(), p)
}

// in runs the program in this process.
func in(ctx context.Context, env map[string]string, args ...string) (stdout, stderr string, code int) {
	var out, errs bytes.Buffer
	code = Main(ctx, Process{
		Args: args, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs,
		Getenv: func(name string) string { return env[name] },
	})
	return out.String(), errs.String(), code
}

// failer is testing.TB or a script.
type failer interface {
	Fatalf(format string, args ...any)
}

// verifyAll replays every run in dir, and checks that each thread's journal has
// no gap and each of its runs exactly one end at most.
func verifyAll(ctx context.Context, t failer, dir string) {
	st, err := sqlite.Open(ctx, sqlite.Config{Dir: dir})
	if err != nil {
		t.Fatalf("%v", err)
	}
	defer func() { _ = st.Close() }()
	env := map[string]string{"ROUSE_DATA": dir}
	for cursor := ""; ; {
		threads, next, err := st.ListThreads(ctx, 1000, cursor)
		if err != nil {
			t.Fatalf("%v", err)
		}
		for _, th := range threads {
			for id := range checkThread(ctx, t, st, th.ID) {
				if out, errs, code := in(ctx, env, "-q", "replay", "--verify", id); code != 0 || !strings.Contains(out, "identical") {
					t.Fatalf("replay of run %s: status %d\n%s%s", id, code, out, errs)
				}
			}
		}
		if next == "" {
			return
		}
		cursor = next
	}
}

// checkThread checks one journal and returns its runs with how often they ended.
func checkThread(ctx context.Context, t failer, st *sqlite.Store, thread string) map[string]int {
	runs := map[string]int{}
	seq := int64(0)
	for ev, err := range st.Read(ctx, queryOf(thread)) {
		if err != nil {
			t.Fatalf("%v", err)
		}
		if seq++; ev.Seq != seq {
			t.Fatalf("thread %s: event %d stands where %d should", thread, ev.Seq, seq)
		}
		if _, ok := runs[ev.Run]; !ok {
			runs[ev.Run] = 0
		}
		if ev.Type == rouse.EventRunFinished {
			runs[ev.Run]++
		}
	}
	for id, ends := range runs {
		info, err := st.Run(ctx, id)
		if err != nil {
			t.Fatalf("%v", err)
		}
		want := 0
		if info.Status.Final() {
			want = 1
		}
		if ends != want {
			t.Fatalf("run %s is %s and has ended %d times", id, info.Status, ends)
		}
	}
	return runs
}
