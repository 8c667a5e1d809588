package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/agent"
	"github.com/rouse-run/rouse/run"
	"github.com/rouse-run/rouse/store"
	"github.com/rouse-run/rouse/store/sqlite"
)

type replayCmd struct {
	RunID  string `arg:"" name:"run" help:"The run: an id, the beginning of one, or 'last'."`
	Verify bool   `help:"Drive the run again and compare everything with the journal, byte for byte."`
	JSON   bool   `name:"json" help:"Print events, or the report, as JSON."`
}

// Run executes the command.
func (c *replayCmd) Run(ctx context.Context, a *app) error {
	a.json = c.JSON
	return a.withStore(ctx, func(st *sqlite.Store) error {
		info, err := findRun(ctx, st, c.RunID)
		if err != nil {
			return err
		}
		if !c.Verify {
			var v view = newTextView(a)
			if c.JSON {
				v = &jsonView{out: a.Stdout}
			}
			return eachEvent(ctx, st, info, v.event)
		}
		rep, err := a.verify(ctx, st, info)
		if err != nil {
			return err
		}
		return c.report(a, rep)
	})
}

// report tells what a replay found.
func (c *replayCmd) report(a *app, rep run.Report) error {
	if c.JSON {
		if err := a.line(rep); err != nil {
			return err
		}
	}
	if d := rep.Divergence; d != nil {
		var e *rouse.Error
		if !errors.As(rep.Err(), &e) {
			return rep.Err()
		}
		where := fmt.Sprintf("event %d", d.Index)
		if d.Seq != 0 {
			where += fmt.Sprintf(" (seq %d)", d.Seq)
		}
		return &rouse.Error{Code: e.Code, Message: fmt.Sprintf("run %s differs from its journal at %s: %s", rep.Run, where, d.What), Hint: e.Hint}
	}
	if c.JSON {
		return nil
	}
	state := "complete"
	if !rep.Complete {
		state = "up to its last commit"
	}
	_, err := fmt.Fprintf(a.Stdout, "run %s: identical, %d events, %s\n", rep.Run, rep.Events, state)
	return err
}

// verify replays a run. The checksums of the journal are checked first, so that
// what the journal says about the agent is known to be true.
func (a *app) verify(ctx context.Context, st store.Store, info store.RunInfo) (run.Report, error) {
	row := rowOf(info)
	// No agent has this name: whatever is not told by the checksums is an error.
	probe, err := agent.New(agent.Config{Name: "checksums", Version: "none", Model: refuser{}})
	if err != nil {
		return run.Report{}, err
	}
	if rep, err := probe.Verify(ctx, row, run.Options{Journal: st}); err == nil && rep.Divergence != nil {
		return rep, nil
	}
	pin, err := pinOf(ctx, st, row)
	if err != nil {
		return run.Report{}, err
	}
	b, err := a.buildReplay(st, pin)
	if err != nil {
		return run.Report{}, err
	}
	rep, err := b.Verify(ctx, row, run.Options{Journal: st})
	return rep, join(err, b.close())
}
