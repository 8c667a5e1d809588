// Package tooltest is the contract suite that every implementation of tool.Tool
// passes, and Echo, a small implementation to start from.
package tooltest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/internal/safecall"
	"github.com/rouse-run/rouse/tool"
)

// Config describes the tool to the suite.
type Config struct {
	// Tool is the tool under test. It is called many times, so what it changes
	// should be made for the test. Required.
	Tool tool.Tool
	// Args are argument texts with which a call succeeds, any number of times. At
	// least one is required.
	Args []string
	// Blocking are arguments with which a call does not return before its context
	// ends. Empty means that the tool has none; then it is only called with a
	// context that has ended already.
	Blocking string
	// Patience is how soon a call returns after its context has ended. Default 5 s.
	Patience time.Duration
	// Changes counts what the tool has changed in the world so far. Required for a
	// tool that says it is ReadOnly or Idempotent.
	Changes func() int64
	// Generated is how many arguments are made from the tool's schema. Calls with
	// them may fail and are ended after a moment. Default 200.
	Generated int
	// Seed selects which. Default 1.
	Seed uint64
}

func (c Config) withDefaults() Config {
	c.Patience = cmp.Or(c.Patience, 5*time.Second)
	c.Generated = cmp.Or(c.Generated, 200)
	c.Seed = cmp.Or(c.Seed, 1)
	return c
}

// check is one rule of the contract. Run returns how the tool breaks it.
type check struct {
	name string
	rule string
	run  func(ctx context.Context, c Config) error
}

func checks() []check {
	return []check{
		{"config", "the suite needs a tool, arguments, and a count of changes for a tool that promises something about them", checkConfig},
		{"spec", "Spec returns the same value every time, from any goroutine", checkSpec},
		{"set", "the spec is valid and its schema compiles", checkSet},
		{"args", "a call with the given arguments succeeds", checkArgs},
		{"context", "Call returns soon after its context ends", checkContext},
		{"concurrent", "a tool is safe for concurrent use", checkConcurrent},
		{"generated", "no arguments that match the schema make the tool panic", checkGenerated},
		{"effect", "a ReadOnly tool changes nothing, an Idempotent one applies a key once only", checkEffect},
	}
}

// Run holds c.Tool to the contract of tool.Tool, one subtest per rule. Run it
// with the race detector.
func Run(t *testing.T, c Config) {
	t.Helper()
	c = c.withDefaults()
	for _, k := range checks() {
		ok := t.Run(k.name, func(t *testing.T) {
			if err := k.run(t.Context(), c); err != nil {
				t.Errorf("%v\nThe rule: %s.", err, k.rule)
			}
		})
		if !ok && (k.name == "config" || k.name == "set") {
			return // the other rules cannot be looked at
		}
	}
}

func checkConfig(_ context.Context, c Config) error {
	switch {
	case c.Tool == nil:
		return errors.New("Config.Tool is nil")
	case len(c.Args) == 0:
		return errors.New("Config.Args is empty")
	case c.Tool.Spec().Effect != tool.Unsafe && c.Changes == nil:
		return fmt.Errorf("the tool says that it is %q, but Config.Changes is nil", c.Tool.Spec().Effect)
	}
	return nil
}

const (
	goroutines = 16
	// moment is how long a call that may block is let run.
	moment = 20 * time.Millisecond
)

func checkSpec(_ context.Context, c Config) error {
	first := c.Tool.Spec()
	return parallel(func(int) error {
		for range 10 {
			if again := c.Tool.Spec(); !reflect.DeepEqual(first, again) {
				return fmt.Errorf("Spec returned %+v and then %+v", first, again)
			}
		}
		return nil
	})
}

// parallel runs fn in several goroutines at once and joins their errors.
func parallel(fn func(i int) error) error {
	errs := make([]error, goroutines)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = fn(i) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func checkSet(_ context.Context, c Config) error {
	_, err := tool.NewSet(c.Tool)
	return err
}

// invoke makes one call through a set, as a run does.
func invoke(ctx context.Context, c Config, args, key string) (tool.Outcome, error) {
	set, err := tool.NewSet(c.Tool)
	if err != nil {
		return tool.Outcome{}, err
	}
	name := set.Names()[0]
	out := set.Invoke(ctx, tool.Invocation{Call: rouse.ToolCall{ID: key, Name: name, Args: args}, Key: key})
	if errors.As(out.Err, new(*safecall.Panic)) {
		return out, fmt.Errorf("the tool panicked with the arguments %s: %w", args, out.Err)
	}
	return out, nil
}

// succeed makes one call that has to succeed.
func succeed(ctx context.Context, c Config, args, key string) error {
	out, err := invoke(ctx, c, args, key)
	if err != nil {
		return err
	}
	if out.Code != "" {
		return fmt.Errorf("the call with the arguments %s failed (%s): %w", args, out.Code, out.Err)
	}
	return nil
}

func checkArgs(ctx context.Context, c Config) error {
	var errs []error
	for i, args := range c.Args {
		errs = append(errs, succeed(ctx, c, args, fmt.Sprintf("args/%d", i)))
	}
	return errors.Join(errs...)
}

func checkContext(ctx context.Context, c Config) error {
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := returns(ended, func() {}, c, c.Args[0]); err != nil || c.Blocking == "" {
		return err
	}
	live, cancel := context.WithCancel(ctx)
	defer cancel()
	return returns(live, cancel, c, c.Blocking)
}

// returns calls the tool itself, ends the call's context a moment later, and
// waits for the call.
func returns(ctx context.Context, cancel context.CancelFunc, c Config, args string) error {
	set, err := tool.NewSet(c.Tool)
	if err != nil {
		return err
	}
	name := set.Names()[0]
	checked, refused := set.Check(name, args)
	if refused != nil {
		return refused
	}
	done := make(chan error, 1)
	go func() {
		done <- safecall.Do(ctx, "tool", func(ctx context.Context) error {
			_, err := c.Tool.Call(ctx, &tool.Call{ID: "ctx", Name: name, Args: checked, Key: "ctx", Attempt: 1, Progress: func(string) {}})
			return err
		})
	}()
	if ctx.Err() == nil {
		soon := time.NewTimer(moment)
		defer soon.Stop()
		select {
		case err := <-done:
			return errors.Join(errors.New("the call with Config.Blocking returned on its own"), err)
		case <-soon.C:
			cancel()
		}
	}
	patience := time.NewTimer(c.Patience)
	defer patience.Stop()
	select {
	case err := <-done:
		if errors.As(err, new(*safecall.Panic)) {
			return err
		}
		return nil
	case <-patience.C:
		return fmt.Errorf("the call with the arguments %s was still running %s after its context had ended", args, c.Patience)
	}
}

func checkConcurrent(ctx context.Context, c Config) error {
	return parallel(func(i int) error {
		for j, args := range c.Args {
			if err := succeed(ctx, c, args, fmt.Sprintf("concurrent/%d/%d", i, j)); err != nil {
				return err
			}
		}
		return nil
	})
}

func checkGenerated(ctx context.Context, c Config) error {
	set, err := tool.NewSet(c.Tool)
	if err != nil {
		return err
	}
	spec := set.Specs()[0]
	g, err := newGenerator(spec.Schema, rand.New(rand.NewPCG(c.Seed, 0))) //nolint:gosec // a repeatable choice is wanted
	if err != nil {
		return err
	}
	var texts []string
	for range c.Generated {
		args := g.args()
		if _, refused := set.Check(spec.Name, args); refused == nil { // the generator does not know every keyword
			texts = append(texts, args)
		}
	}
	return parallel(func(i int) error {
		for n := i; n < len(texts); n += goroutines {
			if err := try(ctx, c, texts[n], fmt.Sprintf("generated/%d", n)); err != nil {
				return err
			}
		}
		return nil
	})
}

// try makes one call, which may fail, and ends it after a moment.
func try(ctx context.Context, c Config, args, key string) error {
	ctx, cancel := context.WithTimeout(ctx, moment)
	defer cancel()
	_, err := invoke(ctx, c, args, key)
	return err
}

func checkEffect(ctx context.Context, c Config) error {
	effect := c.Tool.Spec().Effect
	if effect == tool.Unsafe {
		return nil
	}
	var errs []error
	for i, args := range c.Args {
		key := fmt.Sprintf("effect/%d", i)
		before := c.Changes()
		errs = append(errs, succeed(ctx, c, args, key))
		once := c.Changes()
		errs = append(errs, succeed(ctx, c, args, key))
		twice := c.Changes()
		if effect == tool.ReadOnly && twice != before {
			errs = append(errs, fmt.Errorf("the call %s of a ReadOnly tool made %d changes", args, twice-before))
		}
		if effect == tool.Idempotent && twice != once {
			errs = append(errs, fmt.Errorf("the second call %s with the key %q made %d changes", args, key, twice-once))
		}
	}
	return errors.Join(errs...)
}
