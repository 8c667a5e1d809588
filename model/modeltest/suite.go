package modeltest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/model"
)

// Config configures Run. Both fields are required.
type Config struct {
	// New makes a model whose provider plays s for every request. What it starts
	// is stopped by t.Cleanup; then not one goroutine of it may be left.
	New func(t testing.TB, s Scenario) Subject
	// Can is what the wire is able to express.
	Can Can
}

// Subject is a model under test.
type Subject struct {
	Model model.Model
	// Sent returns how many requests have reached the provider.
	Sent func() int
}

// Run holds a model against every rule of the doc comment of model.Model. A
// failure says which rule was broken. The test that calls it must not be
// parallel, since goroutines are counted; run it with -race.
func Run(t *testing.T, cfg Config) {
	for _, s := range Scenarios(cfg.Can) {
		for _, c := range checks() {
			if !c.applies(s) {
				continue
			}
			t.Run(s.Name+"/"+c.name, func(t *testing.T) {
				leaked := watchGoroutines()
				t.Cleanup(func() { // runs after the factory's own
					if err := leaked(); err != nil {
						t.Errorf("%v\nThe rule: %s", err, ruleReleased)
					}
				})
				if err := c.run(trial{cfg.New(t, s), s, cfg.Can}, t.Context()); err != nil {
					t.Errorf("%v\nThe rule: %s", err, c.rule)
				}
			})
		}
	}
}

// The rules, in the words of model.Model.
const (
	ruleLazy       = "Nothing is sent before the sequence is ranged over; each range sends anew."
	ruleStop       = "A successful answer ends with exactly one ChunkStop, which is the last chunk. Usage is yielded at most once, before it."
	ruleError      = "An error is the last pair, its Chunk is zero, and it is a *rouse.Error. An answer that breaks off is an error of code CodeStreamCut, never a ChunkStop; so is one that runs out of output tokens within the arguments of a call."
	ruleReleased   = "When the consumer breaks off or ctx ends, the request is aborted and everything it held is released before Stream's function returns."
	ruleRequest    = "Neither req nor what it points to is changed or kept."
	ruleConcurrent = "A Model is safe for concurrent use."
)

// trial is one check of one scenario.
type trial struct {
	Subject
	scenario Scenario
	can      Can
}

type check struct {
	name, rule string
	applies    func(Scenario) bool
	run        func(trial, context.Context) error
}

func checks() []check {
	always := func(Scenario) bool { return true }
	ends := func(s Scenario) bool { return !s.Stall }
	return []check{
		{"answer", ruleStop, Scenario.succeeds, trial.answer},
		{"error", ruleError, func(s Scenario) bool { return s.Err != "" }, trial.failure},
		{"lazy", ruleLazy, ends, trial.lazy},
		{"break", ruleReleased, ends, trial.breakOff},
		{"cancel", ruleReleased, ends, trial.cancelMidway},
		{"cancelled before", ruleReleased, always, trial.cancelBefore},
		{"cancelled in silence", ruleReleased, func(s Scenario) bool { return s.Stall }, trial.cancelInSilence},
		{"request", ruleRequest, ends, trial.request},
		{"concurrent", ruleConcurrent, Scenario.succeeds, trial.concurrent},
	}
}

// watchGoroutines returns a function that finds goroutines which are new since.
func watchGoroutines() func() error {
	before := goleak.IgnoreCurrent()
	return func() error { return goleak.Find(before) }
}

// patience is how long an aborted stream may take to return.
const patience = 10 * time.Second

// stream ranges over one stream to its end and checks its shape. The error is
// about the shape; got is the stream's own.
func (t trial) stream(ctx context.Context, req *model.Request) (a model.Answer, got, err error) {
	var f model.Folder
	for c, e := range t.Model.Stream(ctx, req) {
		switch {
		case got != nil:
			return a, got, fmt.Errorf("a pair came after the error %w", got)
		case e != nil:
			var coded *rouse.Error
			if !errors.As(e, &coded) {
				return a, e, fmt.Errorf("the error is a %T: %w", e, e)
			}
			if !reflect.DeepEqual(c, model.Chunk{}) {
				return a, e, fmt.Errorf("the error comes with the chunk %+v", c)
			}
			if f.Partial().Stop != "" {
				return a, e, fmt.Errorf("an error came after the stop: %w", e)
			}
			got = e
		default:
			if err := f.Add(c); err != nil {
				return a, nil, err
			}
		}
	}
	a = f.Partial()
	if got == nil && a.Stop == "" {
		return a, nil, errors.New("the stream ended with neither a stop nor an error")
	}
	return a, got, nil
}

// within calls fn and fails when it does not return in time.
func within(fn func() error) error {
	done := make(chan error, 1)
	go func() { done <- fn() }()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return fmt.Errorf("the stream did not return within %v", patience)
	}
}
