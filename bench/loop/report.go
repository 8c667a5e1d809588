package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/rouse-run/rouse/bench/internal/measure"
)

// report is everything that a pass found. A Spread without values was not measured.
type report struct {
	Runs     []runRow    `json:"runs"`
	Growth   []growthRow `json:"growth,omitempty"`
	InFlight []memoryRow `json:"in_flight,omitempty"`
	Verdicts []verdict   `json:"verdicts,omitempty"`
}

// rowKey says what a row is about.
type rowKey struct {
	Workload    string `json:"workload"`
	Concurrency int    `json:"c"`
	Peer        string `json:"peer"`
	Mode        string `json:"mode,omitempty"`
}

// runRow is what a run costs.
type runRow struct {
	rowKey
	CPU         measure.Spread `json:"cpu_ms"`
	CPUOfFloor  measure.Spread `json:"cpu_of_floor"`
	CPUOfTuned  measure.Spread `json:"cpu_of_tuned"`
	Allocs      measure.Spread `json:"allocs"`
	AllocsFloor measure.Spread `json:"allocs_of_floor"`
}

// growthRow is what a round costs in a short and in a long loop.
type growthRow struct {
	rowKey
	CPUShort     measure.Spread `json:"cpu_ms_short"`
	CPULong      measure.Spread `json:"cpu_ms_long"`
	CPUGrowth    measure.Spread `json:"cpu_growth"`
	AllocsShort  measure.Spread `json:"allocs_short"`
	AllocsLong   measure.Spread `json:"allocs_long"`
	AllocsGrowth measure.Spread `json:"allocs_growth"`
}

// memoryRow is what a run in flight takes, in KiB.
type memoryRow struct {
	rowKey
	RSS             measure.Spread `json:"rss_kib"`
	RSSBeyond       measure.Spread `json:"rss_kib_beyond_floor"`
	HeapStack       measure.Spread `json:"heap_stack_kib"`
	HeapStackBeyond measure.Spread `json:"heap_stack_kib_beyond_floor"`
}

// The workloads whose rounds are compared.
const (
	shortLoop = "W3"
	longLoop  = "W3x"
)

func newReport(p *pass) *report {
	r := &report{}
	s := p.samples
	for _, c := range p.o.cells() {
		for _, e := range p.peers {
			k := rowKey{c.Workload.Name, c.Concurrency, e.Name, e.Mode}
			cpu, alloc := s.of(c, e.Name, cpuMS), s.of(c, e.Name, allocs)
			r.Runs = append(r.Runs, runRow{
				rowKey: k, CPU: measure.NewSpread(cpu), Allocs: measure.NewSpread(alloc),
				CPUOfFloor:  measure.Ratios(cpu, s.of(c, floorName, cpuMS)),
				CPUOfTuned:  measure.Ratios(cpu, s.of(c, tunedName, cpuMS)),
				AllocsFloor: measure.Ratios(alloc, s.of(c, floorName, allocs)),
			})
			if c.Workload.InFlight > 0 {
				r.InFlight = append(r.InFlight, newMemoryRow(s, c, k))
			}
			if c.Workload.Name == longLoop {
				r.addGrowth(p, c, k)
			}
		}
	}
	return r
}

func newMemoryRow(s samples, c cell, k rowKey) memoryRow {
	res, heap := s.of(c, k.Peer, rss), s.of(c, k.Peer, heapStack)
	return memoryRow{
		rowKey: k, RSS: measure.NewSpread(res), HeapStack: measure.NewSpread(heap),
		RSSBeyond:       measure.Differences(res, s.of(c, floorName, rss)),
		HeapStackBeyond: measure.Differences(heap, s.of(c, floorName, heapStack)),
	}
}

// addGrowth compares the long loop with the short one, if both were measured.
func (r *report) addGrowth(p *pass, long cell, k rowKey) {
	for _, short := range p.o.cells() {
		if short.Workload.Name != shortLoop || short.Concurrency != long.Concurrency {
			continue
		}
		cpuShort, cpuLong := perRound(p.samples, short, k.Peer, cpuMS), perRound(p.samples, long, k.Peer, cpuMS)
		allocShort, allocLong := perRound(p.samples, short, k.Peer, allocs), perRound(p.samples, long, k.Peer, allocs)
		r.Growth = append(r.Growth, growthRow{
			rowKey:   k,
			CPUShort: measure.NewSpread(cpuShort), CPULong: measure.NewSpread(cpuLong),
			CPUGrowth:   measure.Ratios(cpuLong, cpuShort),
			AllocsShort: measure.NewSpread(allocShort), AllocsLong: measure.NewSpread(allocLong),
			AllocsGrowth: measure.Ratios(allocLong, allocShort),
		})
	}
}

// perRound divides a figure by the answers of a run.
func perRound(s samples, c cell, peer string, f figure) []float64 {
	var out []float64
	for _, v := range s.of(c, peer, f) {
		out = append(out, v/float64(c.Workload.Answers()))
	}
	return out
}

// write writes the report in one piece.
func (r *report) write(w io.Writer, asJSON bool) error {
	var b bytes.Buffer
	if asJSON {
		e := json.NewEncoder(&b)
		e.SetIndent("", "  ")
		if err := e.Encode(r); err != nil {
			return err
		}
	} else {
		t := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
		r.tables(t)
		if err := t.Flush(); err != nil {
			return err
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

func (r *report) tables(w io.Writer) {
	printf(w, "workload\tc\tpeer\tmode\tCPU ms/run\tCPU / floor\tCPU / tuned\tallocs/run\tallocs / floor\n")
	for _, x := range r.Runs {
		printf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", x.rowKey, number(x.CPU, "%.3f"), ratio(x.CPUOfFloor), ratio(x.CPUOfTuned),
			number(x.Allocs, "%.0f"), ratio(x.AllocsFloor))
	}
	if len(r.Growth) > 0 {
		printf(w, "\nper round, %s -> %s\tc\tpeer\tmode\tCPU ms\tgrowth\tallocs\tgrowth\n", shortLoop, longLoop)
	}
	for _, x := range r.Growth {
		printf(w, "%s\t%s -> %s\t%s\t%s -> %s\t%s\n", x.rowKey, number(x.CPUShort, "%.4f"), number(x.CPULong, "%.4f"), ratio(x.CPUGrowth),
			number(x.AllocsShort, "%.1f"), number(x.AllocsLong, "%.1f"), ratio(x.AllocsGrowth))
	}
	if len(r.InFlight) > 0 {
		printf(w, "\nKiB per run in flight\tc\tpeer\tmode\tresident\tbeyond floor\theap+stack\tbeyond floor\n")
	}
	for _, x := range r.InFlight {
		printf(w, "%s\t%s\t%s\t%s\t%s\n", x.rowKey, number(x.RSS, "%.1f"), spread(x.RSSBeyond, "%.1f"),
			number(x.HeapStack, "%.1f"), spread(x.HeapStackBeyond, "%.1f"))
	}
	if len(r.Verdicts) > 0 {
		printf(w, "\nverdict\tc\tpeer\tmode\trule\tfigure\n")
	}
	for _, v := range r.Verdicts {
		printf(w, "%s %s\t%s\t%s\n", v.word(), v.rowKey, v.rule(), spread(v.Value, "%.2f"))
	}
}

func (k rowKey) String() string {
	mode := k.Mode
	if mode == "" {
		mode = "-"
	}
	return fmt.Sprintf("%s\t%d\t%s\t%s", k.Workload, k.Concurrency, k.Peer, mode)
}

// none stands in a table for what was not measured.
const none = "not measured"

func number(s measure.Spread, format string) string {
	if !s.Measured() {
		return none
	}
	return fmt.Sprintf(format, s.Median)
}

func ratio(s measure.Spread) string { return spread(s, "%.2f") }

func spread(s measure.Spread, format string) string {
	if !s.Measured() {
		return none
	}
	return fmt.Sprintf(format+" ("+format+".."+format+")", s.Median, s.Min, s.Max)
}
