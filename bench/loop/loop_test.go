package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rouse-run/rouse/bench/internal/mockllm"
	"github.com/rouse-run/rouse/bench/internal/workload"
)

// TestMain plays the children too, and fails when one is left behind.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 {
		if child := childNamed(os.Args[1]); child != nil {
			os.Exit(serveChild(child, os.Stdin, os.Stdout, os.Stderr))
		}
	}
	flag.Parse()
	code := m.Run()
	if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); !errors.Is(err, syscall.ECHILD) {
		fmt.Fprintln(os.Stderr, "a child was left behind:", pid, err)
		code = 1
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func passReport(t *testing.T, args ...string) report {
	t.Helper()
	var out, progress bytes.Buffer
	if code := bench(t.Context(), append(args, "-json"), &out, &progress); code != exitOK {
		t.Fatalf("exit code %d: %s", code, progress.String())
	}
	var r report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	return r
}

func TestWholePass(t *testing.T) {
	t.Parallel()
	dir, peers := t.TempDir(), len(allPeers())
	r := passReport(t, "-scale", "0.02", "-reps", "2", "-workloads", "W1,W3,W3x", "-c", "2", "-dir", dir, "-profile", dir)
	if len(r.Runs) != 3*peers || len(r.Growth) != peers || len(r.InFlight) != 0 {
		t.Errorf("%d, %d and %d rows for %d peers", len(r.Runs), len(r.Growth), len(r.InFlight), peers)
	}
	for _, x := range r.Runs {
		if x.CPU.N != 2 || x.CPU.Min <= 0 || x.Allocs.Min <= 0 || x.CPUOfFloor.N != 2 || x.CPUOfTuned.N != 2 || x.AllocsFloor.N != 2 {
			t.Errorf("%+v", x)
		}
		if x.Peer == floorName && (x.CPUOfFloor.Min != 1 || x.CPUOfFloor.Max != 1) {
			t.Errorf("the floor beside itself: %+v", x)
		}
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(left) != 2*3*peers {
		t.Errorf("%d files, want two profiles for each peer and cell and nothing else: %v, %v", len(left), left, err)
	}
	for _, f := range left {
		if fi, err := os.Stat(f); err != nil || fi.Size() == 0 || filepath.Ext(f) != ".pprof" {
			t.Errorf("%s: %v", f, err)
		}
	}
}

func TestPassInFlight(t *testing.T) {
	t.Parallel()
	r := passReport(t, "-scale", "0.02", "-reps", "1", "-workloads", "W5", "-dir", t.TempDir())
	if len(r.Runs) != len(allPeers()) || len(r.InFlight) != len(allPeers()) {
		t.Fatalf("%d and %d rows", len(r.Runs), len(r.InFlight))
	}
	for _, x := range r.InFlight {
		if x.Concurrency != 1000 || x.RSS.Min <= 1 || x.HeapStack.Min <= 1 || !x.RSSBeyond.Measured() || !x.HeapStackBeyond.Measured() {
			t.Errorf("%+v", x)
		}
	}
}

// stopAt cancels when something is written that holds the mark.
type stopAt struct {
	mark   string
	cancel context.CancelFunc
	bytes.Buffer
}

func (s *stopAt) Write(p []byte) (int, error) {
	if strings.Contains(string(p), s.mark) {
		s.cancel()
	}
	return s.Buffer.Write(p)
}

func TestInterruptedPassHasNoFigures(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	progress := &stopAt{mark: "2/2 W1 c=1 tuned", cancel: cancel}
	var out bytes.Buffer
	dir := t.TempDir()
	code := bench(ctx, []string{"-scale", "0.01", "-reps", "2", "-workloads", "W1", "-c", "1", "-dir", dir}, &out, progress)
	if code != exitError || out.Len() != 0 || !strings.Contains(progress.String(), "interrupted") {
		t.Errorf("exit code %d, %q, %s", code, out.String(), progress.String())
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left in the directory: %v, %v", left, err)
	}
}

func TestChildrenEndWithTheirParent(t *testing.T) {
	t.Parallel()
	w, err := workload.Named("W1")
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{}, 1)
	s, err := mockllm.Start(mockllm.Config{Observe: func([]byte) {
		select {
		case asked <- struct{}{}:
		default:
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir := filepath.Join(t.TempDir(), "scratch")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, send := range map[string]any{
		// runs that wait for a release that nobody gives
		measureCommand: job{Peer: floorName, Workload: w.Held(), Concurrency: 1, Budget: time.Hour, Server: s.URL(), Dir: dir},
		mockCommand:    nil,
	} {
		cmd, err := command(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if send != nil {
			if err := json.NewEncoder(in).Encode(send); err != nil {
				t.Fatal(err)
			}
			select {
			case <-asked:
			case <-ctx.Done():
			}
		}
		if err := in.Close(); err != nil { // what the system does when a parent dies
			t.Fatal(err)
		}
		var exit *exec.ExitError
		if err := cmd.Wait(); err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
			t.Errorf("%s: %v, %v", name, err, ctx.Err())
		}
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the child left its directory: %v", err)
	}
}

func TestFailedChild(t *testing.T) {
	t.Parallel()
	w, err := workload.Named("W1")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for want, j := range map[string]job{
		`no peer "nobody"`: {Peer: "nobody", Workload: w},
		"connect":          {Peer: floorName, Workload: w, Concurrency: 1, Server: "http://127.0.0.1:1"},
	} {
		if _, err := runJob(t.Context(), j, dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left in the directory: %v, %v", left, err)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	o, err := parseOptions(nil, io.Discard)
	if err != nil || o.reps != 5 || len(o.cells()) != 13 || !slices.Equal(o.modes, allModes()) || o.budget != fullBudget {
		t.Errorf("defaults: %+v, %v", o, err)
	}
	o, err = parseOptions([]string{"-workloads", "W5,W2", "-c", "16", "-modes", "sqlite", "-scale", "0.5", "-reps", "7"}, io.Discard)
	if err != nil || fmt.Sprint(o.cells()) != "[W5 c=1000 W2 c=16]" || o.reps != 7 || o.budget != fullBudget/2 {
		t.Errorf("got %v, %+v, %v", o.cells(), o, err)
	}
	for _, args := range []string{
		"-workloads W9", "-c 0", "-c 1025", "-c x", "-modes disk", "-reps 0", "-reps 101", "-scale 0", "-scale 11", "-scale NaN",
		"-check -reps 4", "-profile /nowhere", "-dir /nowhere", "-nonsense", "extra",
	} {
		if code := bench(t.Context(), strings.Fields(args), io.Discard, io.Discard); code != exitError {
			t.Errorf("%s: exit code %d", args, code)
		}
	}
	if code := bench(t.Context(), []string{"-h"}, io.Discard, io.Discard); code != exitOK {
		t.Errorf("-h: exit code %d", code)
	}
}
