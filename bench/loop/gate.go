package main

import (
	"fmt"

	"github.com/rouse-run/rouse/bench/internal/measure"
)

// rule is one demand on the figures. An empty or zero field of its scope
// stands for all.
type rule struct {
	name        string
	mode        string
	workload    string
	concurrency int
	value       func(r *report, k rowKey) measure.Spread
	max         float64
	aim         bool // reported, but nothing fails when it is missed
}

// rules is the gate. A figure is the median over the repetitions.
func rules() []rule {
	return []rule{
		{name: "CPU / floor", mode: modeMemory, value: cpuOfFloor, max: 1.0},
		{name: "CPU / floor", mode: modeSQLite, concurrency: 16, value: cpuOfFloor, max: 1.5},
		{name: "CPU / floor", mode: modeSQLite, concurrency: 1, value: cpuOfFloor, max: 2.0},
		{name: "CPU per round, W3x / W3", workload: longLoop, value: cpuGrowth, max: 1.2},
		{name: "allocs per round, W3x / W3", workload: longLoop, value: allocsGrowth, max: 1.2},
		{name: "resident KiB in flight beyond floor", workload: "W5", value: rssBeyond, max: 20},
		{name: "heap+stack KiB in flight beyond floor", workload: "W5", value: heapStackBeyond, max: 20},
		{name: "CPU / tuned", mode: modeMemory, value: cpuOfTuned, max: 1.3, aim: true},
	}
}

// verdict is what a rule says about one row.
type verdict struct {
	rowKey
	Rule  string         `json:"rule"`
	Max   float64        `json:"max"`
	Value measure.Spread `json:"value"`
	Aim   bool           `json:"aim,omitempty"`
	OK    bool           `json:"ok"`
}

func (v verdict) word() string {
	switch {
	case v.OK:
		return "ok"
	case v.Aim:
		return "aim missed"
	}
	return "MISSED"
}

func (v verdict) rule() string { return fmt.Sprintf("%s <= %g", v.Rule, v.Max) }

// judge applies every rule to every cell and mode that was asked for. What was
// asked for and not measured is missed.
func judge(r *report, o options) []verdict {
	var out []verdict
	for _, u := range rules() {
		for _, c := range o.cells() {
			if u.workload != "" && u.workload != c.Workload.Name || u.concurrency != 0 && u.concurrency != c.Concurrency {
				continue
			}
			for _, mode := range o.modes {
				if u.mode == "" || u.mode == mode {
					out = append(out, u.judge(r, c, mode)...)
				}
			}
		}
	}
	return out
}

// judge returns a verdict for each peer of the mode, and one without a figure
// when there is none.
func (u rule) judge(r *report, c cell, mode string) []verdict {
	keys := []rowKey{}
	for _, row := range r.Runs {
		if row.Mode == mode && row.Workload == c.Workload.Name && row.Concurrency == c.Concurrency {
			keys = append(keys, row.rowKey)
		}
	}
	if len(keys) == 0 {
		keys = []rowKey{{Workload: c.Workload.Name, Concurrency: c.Concurrency, Peer: "-", Mode: mode}}
	}
	var out []verdict
	for _, k := range keys {
		v := u.value(r, k)
		out = append(out, verdict{rowKey: k, Rule: u.name, Max: u.max, Value: v, Aim: u.aim, OK: v.Measured() && v.Median <= u.max})
	}
	return out
}

// missed reports whether a Must is among the misses.
func missed(vs []verdict) bool {
	for _, v := range vs {
		if !v.OK && !v.Aim {
			return true
		}
	}
	return false
}

func cpuOfFloor(r *report, k rowKey) measure.Spread   { return find(r.Runs, k).CPUOfFloor }
func cpuOfTuned(r *report, k rowKey) measure.Spread   { return find(r.Runs, k).CPUOfTuned }
func cpuGrowth(r *report, k rowKey) measure.Spread    { return find(r.Growth, k).CPUGrowth }
func allocsGrowth(r *report, k rowKey) measure.Spread { return find(r.Growth, k).AllocsGrowth }
func rssBeyond(r *report, k rowKey) measure.Spread    { return find(r.InFlight, k).RSSBeyond }
func heapStackBeyond(r *report, k rowKey) measure.Spread {
	return find(r.InFlight, k).HeapStackBeyond
}

// find returns the row of that key, or a zero row in which nothing was measured.
func find[R interface{ key() rowKey }](rows []R, k rowKey) (row R) {
	for _, r := range rows {
		if r.key() == k {
			return r
		}
	}
	return row
}

func (k rowKey) key() rowKey { return k }
