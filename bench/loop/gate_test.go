package main

import (
	"context"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
)

// passWith returns a pass in which all peers have the same figures, one
// repetition, except for what change does.
func passWith(t *testing.T, args string, change func(s samples)) *pass {
	t.Helper()
	o, err := parseOptions(strings.Fields(args), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	p := &pass{o: o, samples: samples{}, peers: []entry{
		{Name: floorName}, {Name: tunedName}, {Name: "m", Mode: modeMemory}, {Name: "s", Mode: modeSQLite},
	}}
	for _, c := range o.cells() {
		for _, e := range p.peers {
			rounds := float64(c.Workload.Answers())
			p.samples.add(c, e.Name, cpuMS, rounds)
			p.samples.add(c, e.Name, allocs, 100*rounds)
			if c.Workload.InFlight > 0 {
				p.samples.add(c, e.Name, rss, 50)
				p.samples.add(c, e.Name, heapStack, 40)
			}
		}
	}
	if change != nil {
		change(p.samples)
	}
	return p
}

func TestGate(t *testing.T) {
	t.Parallel()
	set := func(workload string, c int, peer string, f figure, v float64) func(samples) {
		return func(s samples) { s[series{workload, c, peer, f}] = []float64{v} }
	}
	for name, c := range map[string]struct {
		change func(samples)
		missed []string // "workload c mode rule"
		aims   []string
	}{
		"all good":              {},
		"memory above floor":    {change: set("W1", 16, "m", cpuMS, 2.02), missed: []string{"W1 16 memory CPU / floor <= 1"}},
		"memory in W5":          {change: set("W5", 1000, "m", cpuMS, 2.02), missed: []string{"W5 1000 memory CPU / floor <= 1"}},
		"sqlite in bounds":      {change: func(s samples) { set("W1", 16, "s", cpuMS, 3)(s); set("W1", 1, "s", cpuMS, 4)(s) }},
		"sqlite at 16":          {change: set("W1", 16, "s", cpuMS, 3.1), missed: []string{"W1 16 sqlite CPU / floor <= 1.5"}},
		"sqlite at 1":           {change: set("W1", 1, "s", cpuMS, 4.1), missed: []string{"W1 1 sqlite CPU / floor <= 2"}},
		"CPU grows":             {change: set("W3x", 1, "s", cpuMS, 101*1.21), missed: []string{"W3x 1 sqlite CPU per round, W3x / W3 <= 1.2"}},
		"CPU grows in bounds":   {change: set("W3x", 1, "s", cpuMS, 101*1.19)},
		"allocations grow":      {change: set("W3x", 16, "m", allocs, 10100*1.21), missed: []string{"W3x 16 memory allocs per round, W3x / W3 <= 1.2"}},
		"20 KiB beyond":         {change: set("W5", 1000, "m", rss, 70)},
		"resident":              {change: set("W5", 1000, "m", rss, 71), missed: []string{"W5 1000 memory resident KiB in flight beyond floor <= 20"}},
		"heap and stack":        {change: set("W5", 1000, "s", heapStack, 61), missed: []string{"W5 1000 sqlite heap+stack KiB in flight beyond floor <= 20"}},
		"aim":                   {change: set("W2", 1, tunedName, cpuMS, 3), aims: []string{"W2 1 memory CPU / tuned <= 1.3"}},
		"the tuned floor grows": {change: set("W3x", 1, tunedName, cpuMS, 1000)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := passWith(t, "", c.change)
			vs := judge(newReport(p), p.o)
			var must, aims []string
			for _, v := range vs {
				what := strings.Join([]string{strings.Join(strings.Fields(v.String())[:2], " "), v.Mode, v.rule()}, " ")
				switch {
				case v.OK:
				case v.Aim:
					aims = append(aims, what)
				default:
					must = append(must, what)
				}
			}
			if !slices.Equal(must, c.missed) || !slices.Equal(aims, c.aims) || missed(vs) != (len(c.missed) > 0) {
				t.Errorf("missed %q, aims %q, gate closed: %v", must, aims, missed(vs))
			}
		})
	}
}

func TestGateIsClosedWithoutFigures(t *testing.T) {
	t.Parallel()
	p := passWith(t, "-workloads W1,W3x,W5 -c 1", nil)
	p.peers = p.peers[:3] // nobody for sqlite
	vs := judge(newReport(p), p.o)
	var got []string
	for _, v := range vs {
		if !v.OK {
			got = append(got, v.Workload+" "+v.Peer+" "+v.Mode+" "+v.Rule)
		}
	}
	want := []string{
		"W1 - sqlite CPU / floor", "W3x - sqlite CPU / floor",
		"W3x m memory CPU per round, W3x / W3", "W3x - sqlite CPU per round, W3x / W3", // W3 was not asked for
		"W3x m memory allocs per round, W3x / W3", "W3x - sqlite allocs per round, W3x / W3",
		"W5 - sqlite resident KiB in flight beyond floor", "W5 - sqlite heap+stack KiB in flight beyond floor",
	}
	if !slices.Equal(got, want) || !missed(vs) {
		t.Errorf("missed %q, want %q", got, want)
	}
}

func TestFiguresOfUnequalRepetitionsAreNone(t *testing.T) {
	t.Parallel()
	p := passWith(t, "-workloads W1 -c 1", func(s samples) {
		k := series{"W1", 1, "m", cpuMS}
		s[k] = append(s[k], 1)
	})
	r := newReport(p)
	if got := cpuOfFloor(r, rowKey{"W1", 1, "m", modeMemory}); got.Measured() {
		t.Errorf("a ratio %+v of 2 repetitions and 1", got)
	}
}

func TestReportTables(t *testing.T) {
	t.Parallel()
	p := passWith(t, "-workloads W1,W3,W3x,W5 -c 1", func(s samples) {
		s[series{"W1", 1, "m", cpuMS}] = []float64{3}
		delete(s, series{"W5", 1000, "s", rss})
	})
	r := newReport(p)
	r.Verdicts = judge(r, p.o)
	var b strings.Builder
	if err := r.write(&b, false); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(b.String()) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	for _, want := range []string{
		"W1 1 m memory 3.000 1.50 (1.50..1.50) 1.50 (1.50..1.50) 200 1.00 (1.00..1.00)",
		"W3x 1 s sqlite 1.0000 -> 1.0000 1.00 (1.00..1.00) 100.0 -> 100.0 1.00 (1.00..1.00)",
		"W5 1000 m memory 50.0 0.0 (0.0..0.0) 40.0 0.0 (0.0..0.0)",
		"W5 1000 s sqlite not measured not measured 40.0 0.0 (0.0..0.0)",
		"MISSED W1 1 m memory CPU / floor <= 1 1.50 (1.50..1.50)",
		"aim missed W1 1 m memory CPU / tuned <= 1.3 1.50 (1.50..1.50)",
		"MISSED W5 1000 s sqlite resident KiB in flight beyond floor <= 20 not measured",
		"ok W3 1 m memory CPU / floor <= 1 1.00 (1.00..1.00)",
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("no line %q in\n%s", want, b.String())
		}
	}
}

func TestOrderRotates(t *testing.T) {
	t.Parallel()
	p := passWith(t, "-workloads W1 -c 1,16", nil)
	p.progress = io.Discard
	first := map[string]int{}
	for rep := range 4 {
		seen := map[cell][]string{}
		err := p.repetition(t.Context(), rep, func(_ context.Context, c cell, e entry) (string, error) {
			seen[c] = append(seen[c], e.Name)
			return "", nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for c, names := range seen {
			first[names[0]]++
			if slices.Sort(names); !slices.Equal(names, []string{"floor", "m", "s", "tuned"}) {
				t.Errorf("%s: peers %q", c, names)
			}
		}
	}
	if want := map[string]int{"floor": 2, "tuned": 2, "m": 2, "s": 2}; !maps.Equal(first, want) {
		t.Errorf("first were %v, want %v", first, want)
	}
}
