package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"runtime/pprof"
	"time"

	"github.com/rouse-run/rouse/bench/internal/measure"
	"github.com/rouse-run/rouse/bench/internal/mockllm"
	"github.com/rouse-run/rouse/bench/internal/workload"
)

// The hidden subcommands. A child reads one job from its standard input, and
// ends at once when that is closed: it cannot outlive its parent.
const (
	mockCommand    = "child-mock"
	measureCommand = "child-measure"
)

// job tells a child what to measure.
type job struct {
	Peer        string            `json:"peer"`
	Workload    workload.Workload `json:"workload"`
	Concurrency int               `json:"concurrency"`
	Budget      time.Duration     `json:"budget"`
	// Memory asks for the memory of runs in flight instead of the cost of runs.
	Memory bool `json:"memory"`
	// Server is the address of the model server.
	Server string `json:"server"`
	Dir    string `json:"dir"`
	// Profile is the path of the profiles without an ending, "" for none.
	Profile string `json:"profile,omitempty"`
}

// outcome is what a child found.
type outcome struct {
	Cost   measure.Cost   `json:"cost,omitzero"`
	Memory measure.Memory `json:"memory,omitzero"`
}

type childFunc func(ctx context.Context, in *json.Decoder, out io.Writer) error

// childNamed returns the child of a hidden subcommand, nil if it is none.
func childNamed(command string) childFunc {
	switch command {
	case mockCommand:
		return mockChild
	case measureCommand:
		return measureChild
	}
	return nil
}

// serveChild runs a child and returns its exit code.
func serveChild(child childFunc, stdin io.Reader, stdout, stderr io.Writer) int {
	if err := child(context.Background(), json.NewDecoder(stdin), stdout); err != nil {
		printf(stderr, "%v\n", err)
		return exitError
	}
	return exitOK
}

// mockChild serves the model until the parent closes the pipe.
func mockChild(_ context.Context, in *json.Decoder, out io.Writer) error {
	s, err := mockllm.Start(mockllm.Config{})
	if err != nil {
		return err
	}
	defer s.Close()
	if err := json.NewEncoder(out).Encode(s.URL()); err != nil {
		return err
	}
	var end struct{}
	if err := in.Decode(&end); !errors.Is(err, io.EOF) {
		return fmt.Errorf("unexpected input: %w", err)
	}
	return nil
}

// measureChild does one job.
func measureChild(ctx context.Context, in *json.Decoder, out io.Writer) error {
	var j job
	if err := in.Decode(&j); err != nil {
		return fmt.Errorf("read job: %w", err)
	}
	go exitWithParent(in, j.Dir)
	res, err := j.do(ctx)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(res)
}

// exitWithParent ends the process when the parent's end of the pipe is gone.
// The directory is the parent's to remove, and now nobody else can.
func exitWithParent(in *json.Decoder, dir string) {
	var more struct{}
	_ = in.Decode(&more) // whatever it says: nothing more may come
	_ = os.RemoveAll(dir)
	os.Exit(exitError)
}

func (j *job) do(ctx context.Context) (res outcome, err error) {
	if j.Profile != "" {
		runtime.MemProfileRate = 4096
	}
	p, err := newPeer(j.Peer)
	if err != nil {
		return res, err
	}
	s := measure.Subject{Run: p.Run, Task: workload.Task{
		Workload: j.Workload, BaseURL: j.Server + "/v1", Dir: j.Dir, Tools: new(workload.Tools),
	}}
	defer p.Close()
	if err := p.Prepare(s.Task); err != nil {
		return res, fmt.Errorf("prepare: %w", err)
	}
	if j.Memory {
		res.Memory, err = s.InFlight(ctx, j.Concurrency, httpGate{j.Server, &http.Client{Transport: workload.Transport()}})
		return res, err
	}
	if _, err := s.Runs(ctx, j.Concurrency, j.Budget/4); err != nil {
		return res, fmt.Errorf("warm-up: %w", err)
	}
	stop, err := j.startProfile()
	if err != nil {
		return res, err
	}
	res.Cost, err = s.Runs(ctx, j.Concurrency, j.Budget)
	return res, errors.Join(err, stop())
}

// startProfile begins the profiles of the job and returns what writes them.
func (j *job) startProfile() (stop func() error, err error) {
	if j.Profile == "" {
		return func() error { return nil }, nil
	}
	cpu, err := os.Create(j.Profile + ".cpu.pprof")
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return nil, errors.Join(err, cpu.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		allocs, err := os.Create(j.Profile + ".allocs.pprof")
		if err != nil {
			return errors.Join(err, cpu.Close())
		}
		return errors.Join(pprof.Lookup("allocs").WriteTo(allocs, 0), allocs.Close(), cpu.Close())
	}, nil
}

// httpGate is the gate of a mockllm server.
type httpGate struct {
	server string
	client *http.Client
}

func (g httpGate) Held(ctx context.Context) (int64, error) {
	var s mockllm.Stats
	err := g.do(ctx, http.MethodGet, "/stats", &s)
	return s.Held, err
}

func (g httpGate) Release(ctx context.Context) error {
	var empty struct{}
	return g.do(ctx, http.MethodPost, "/release", &empty)
}

func (g httpGate) do(ctx context.Context, method, path string, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, g.server+path, nil)
	if err != nil {
		return err
	}
	resp, err := g.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // it has been read
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(out)
}
