package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rouse-run/rouse/bench/internal/workload"
)

// Bounds of the options.
const (
	maxReps        = 100
	maxConcurrency = 1024
	maxScale       = 10
	minCheckReps   = 5 // fewer repetitions are no basis for a verdict
)

// fullBudget is how long one measurement takes runs at scale 1; a quarter of
// it goes before that to warm up.
const fullBudget = 1200 * time.Millisecond

// options is what the command line asks for.
type options struct {
	reps        int
	workloads   []workload.Workload
	concurrency []int
	modes       []string
	budget      time.Duration
	json        bool
	check       bool
	profile     string // directory, "" for none
	dir         string // where peers keep files, "" for the system's temporary directory
}

func parseOptions(args []string, stderr io.Writer) (options, error) {
	var o options
	fs := flag.NewFlagSet("loop", flag.ContinueOnError)
	fs.SetOutput(stderr)
	names := fs.String("workloads", "W1,W2,W3,W3x,W4,W4b,W5", "workloads, comma separated")
	conc := fs.String("c", "1,16", "runs at once, comma separated (W5 has its own number)")
	modes := fs.String("modes", strings.Join(allModes(), ","), "modes of the runtime, comma separated")
	scale := fs.Float64("scale", 1, "length of each measurement, as a factor")
	fs.IntVar(&o.reps, "reps", 5, "repetitions")
	fs.BoolVar(&o.json, "json", false, "print one JSON document instead of tables")
	fs.BoolVar(&o.check, "check", false, "judge the figures and exit with 1 when a Must is missed")
	fs.StringVar(&o.profile, "profile", "", "write profiles of one more repetition, which does not count, to this directory")
	fs.StringVar(&o.dir, "dir", "", "directory for the peers' databases (default the system's temporary one)")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	o.budget = time.Duration(*scale * float64(fullBudget))
	return o, errors.Join(o.parseLists(*names, *conc, *modes), o.validate(*scale))
}

func (o *options) parseLists(names, conc, modes string) error {
	for name := range strings.SplitSeq(names, ",") {
		w, err := workload.Named(name)
		if err != nil {
			return fmt.Errorf("-workloads: %w", err)
		}
		o.workloads = append(o.workloads, w)
	}
	for s := range strings.SplitSeq(conc, ",") {
		c, err := strconv.Atoi(s)
		if err != nil || c < 1 || c > maxConcurrency {
			return fmt.Errorf("-c: %q is not a number from 1 to %d", s, maxConcurrency)
		}
		o.concurrency = append(o.concurrency, c)
	}
	for m := range strings.SplitSeq(modes, ",") {
		if !slices.Contains(allModes(), m) {
			return fmt.Errorf("-modes: no mode %q", m)
		}
		o.modes = append(o.modes, m)
	}
	return nil
}

func (o *options) validate(scale float64) error {
	var errs []error
	if o.reps < 1 || o.reps > maxReps {
		errs = append(errs, fmt.Errorf("-reps: %d is not from 1 to %d", o.reps, maxReps))
	}
	if !(scale > 0 && scale <= maxScale) {
		errs = append(errs, fmt.Errorf("-scale: %v is not above 0 and at most %d", scale, maxScale))
	}
	if o.check && o.reps < minCheckReps {
		errs = append(errs, fmt.Errorf("-check needs -reps %d or more", minCheckReps))
	}
	for _, dir := range []string{o.profile, o.dir} {
		if dir == "" {
			continue
		}
		if fi, err := os.Stat(dir); err != nil || !fi.IsDir() {
			errs = append(errs, fmt.Errorf("%s is not a directory", dir))
		}
	}
	return errors.Join(errs...)
}

// cell is one workload at one concurrency.
type cell struct {
	Workload    workload.Workload
	Concurrency int
}

func (c cell) String() string { return fmt.Sprintf("%s c=%d", c.Workload.Name, c.Concurrency) }

// cells returns what is measured in each repetition, in order.
func (o *options) cells() []cell {
	var out []cell
	for _, w := range o.workloads {
		if w.InFlight > 0 {
			out = append(out, cell{w, w.InFlight})
			continue
		}
		for _, c := range o.concurrency {
			out = append(out, cell{w, c})
		}
	}
	return out
}
