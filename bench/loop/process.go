package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// Limits of a child.
const (
	maxJobTime = 3 * time.Minute // beyond its time budget
	maxStart   = 10 * time.Second
	killDelay  = 2 * time.Second // for the pipes of a killed child
	maxOutput  = 64 << 10        // bytes kept of what a child prints
)

// command returns a child that is killed when ctx ends.
func command(ctx context.Context, name string) (*exec.Cmd, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, exe, name)
	cmd.WaitDelay = killDelay
	return cmd, nil
}

// server is a model server in a process of its own.
type server struct {
	url  string
	kill context.CancelFunc
	cmd  *exec.Cmd
}

// startServer returns when the server listens. The caller stops it.
func startServer(ctx context.Context) (*server, error) {
	ctx, kill := context.WithCancel(ctx)
	s := &server{kill: kill}
	if err := s.start(ctx); err != nil {
		kill()
		return nil, fmt.Errorf("model server: %w", err)
	}
	return s, nil
}

func (s *server) start(ctx context.Context) (err error) {
	if s.cmd, err = command(ctx, mockCommand); err != nil {
		return err
	}
	if _, err := s.cmd.StdinPipe(); err != nil { // open until Wait
		return err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	late := time.AfterFunc(maxStart, s.kill)
	defer late.Stop()
	if err := json.NewDecoder(io.LimitReader(out, maxOutput)).Decode(&s.url); err != nil {
		s.stop()
		return fmt.Errorf("no address: %w", err)
	}
	return nil
}

// stop kills the server and returns when it is gone.
func (s *server) stop() {
	s.kill()
	_ = s.cmd.Wait() // it says that the process was killed
}

// runJob has a child do the job. The child and its files are gone when it returns.
func runJob(ctx context.Context, j job, dir string) (res outcome, err error) {
	ctx, cancel := context.WithTimeout(ctx, maxJobTime+j.Budget)
	defer cancel()
	if j.Dir, err = os.MkdirTemp(dir, "rouse-bench-"); err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(j.Dir)) }()
	cmd, err := command(ctx, measureCommand)
	if err != nil {
		return res, err
	}
	var out, diag limitedBuffer
	cmd.Stdout, cmd.Stderr = &out, &diag
	in, err := cmd.StdinPipe()
	if err != nil {
		return res, err
	}
	if err := cmd.Start(); err != nil {
		return res, err
	}
	sent := json.NewEncoder(in).Encode(j)
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return res, ctx.Err()
	case err != nil:
		return res, fmt.Errorf("%w: %s", err, bytes.TrimSpace(diag.b))
	case sent != nil:
		return res, sent
	}
	if err := json.Unmarshal(out.b, &res); err != nil {
		return res, fmt.Errorf("result: %w", err)
	}
	return res, nil
}

// limitedBuffer keeps the first maxOutput bytes and drops the rest.
type limitedBuffer struct{ b []byte }

func (l *limitedBuffer) Write(p []byte) (int, error) {
	l.b = append(l.b, p[:min(len(p), maxOutput-len(l.b))]...)
	return len(p), nil
}
