package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
)

// figure is one of the numbers that a measurement yields.
type figure string

const (
	cpuMS     figure = "cpu"        // ms per run
	allocs    figure = "allocs"     // per run
	rss       figure = "rss"        // KiB per run in flight
	heapStack figure = "heap+stack" // KiB per run in flight
)

// series names the values of a figure, one a repetition.
type series struct {
	workload    string
	concurrency int
	peer        string
	figure      figure
}

// samples holds all values of a pass, in the order of the repetitions.
type samples map[series][]float64

func (s samples) add(c cell, peer string, f figure, v float64) {
	k := series{c.Workload.Name, c.Concurrency, peer, f}
	s[k] = append(s[k], v)
}

func (s samples) of(c cell, peer string, f figure) []float64 {
	return s[series{c.Workload.Name, c.Concurrency, peer, f}]
}

// pass is one pass over all cells, repetitions and peers.
type pass struct {
	o        options
	peers    []entry
	server   *server
	progress io.Writer
	samples  samples
}

// measureAll measures everything that the options ask for. Without an error
// every series has one value per repetition; with one there is no report.
func measureAll(ctx context.Context, o options, progress io.Writer) (*report, error) {
	s, err := startServer(ctx)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	p := &pass{o: o, peers: peersFor(o.modes), server: s, progress: progress, samples: samples{}}
	for _, mode := range o.modes {
		if !hasMode(p.peers, mode) {
			printf(progress, "no peer for mode %s\n", mode)
		}
	}
	for rep := range o.reps {
		if err := p.repetition(ctx, rep, p.measure); err != nil {
			return nil, err
		}
	}
	if o.profile != "" {
		if err := p.repetition(ctx, 0, p.profile); err != nil {
			return nil, err
		}
	}
	return newReport(p), nil
}

func hasMode(peers []entry, mode string) bool {
	for _, e := range peers {
		if e.Mode == mode {
			return true
		}
	}
	return false
}

// repetition visits all cells with all peers; which peer is first rotates.
func (p *pass) repetition(ctx context.Context, rep int, visit func(context.Context, cell, entry) (string, error)) error {
	for i, c := range p.o.cells() {
		for k := range p.peers {
			e := p.peers[(k+rep+i)%len(p.peers)]
			said, err := visit(ctx, c, e)
			if errors.Is(err, context.Canceled) {
				return errors.New("interrupted; no figures")
			}
			if err != nil {
				return fmt.Errorf("%s %s: %w", e.Name, c, err)
			}
			printf(p.progress, "%d/%d %s %s: %s\n", rep+1, p.o.reps, c, e.Name, said)
		}
	}
	return nil
}

func (p *pass) job(c cell, e entry) job {
	return job{Peer: e.Name, Workload: c.Workload, Concurrency: c.Concurrency, Budget: p.o.budget, Server: p.server.url}
}

// measure takes the figures of one peer in one cell.
func (p *pass) measure(ctx context.Context, c cell, e entry) (string, error) {
	j := p.job(c, e)
	res, err := runJob(ctx, j, p.o.dir)
	if err != nil {
		return "", err
	}
	p.samples.add(c, e.Name, cpuMS, res.Cost.CPUms)
	p.samples.add(c, e.Name, allocs, res.Cost.Allocs)
	said := fmt.Sprintf("%d runs, %.3f ms CPU, %.0f allocations each", res.Cost.Runs, res.Cost.CPUms, res.Cost.Allocs)
	if c.Workload.InFlight == 0 {
		return said, nil
	}
	j.Memory, j.Workload = true, c.Workload.Held()
	if res, err = runJob(ctx, j, p.o.dir); err != nil {
		return "", err
	}
	p.samples.add(c, e.Name, rss, res.Memory.RSS)
	p.samples.add(c, e.Name, heapStack, res.Memory.HeapStack)
	return said + fmt.Sprintf(", %.1f KiB resident in flight", res.Memory.RSS), nil
}

// profile writes the profiles of one peer in one cell and keeps no figure.
func (p *pass) profile(ctx context.Context, c cell, e entry) (string, error) {
	j := p.job(c, e)
	path, err := filepath.Abs(filepath.Join(p.o.profile, e.Name+"-"+c.Workload.Name+"-c"+strconv.Itoa(c.Concurrency)))
	if err != nil {
		return "", err
	}
	j.Profile = path
	if _, err := runJob(ctx, j, p.o.dir); err != nil {
		return "", err
	}
	return "profiles " + path + ".*", nil
}
