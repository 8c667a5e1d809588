package main

import (
	"context"
	"strconv"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/agent"
	"github.com/rouse-run/rouse/run"
	"github.com/rouse-run/rouse/store"
	"github.com/rouse-run/rouse/store/sqlite"
)

// start names the place before anything that a run did.
const start = "start"

type forkCmd struct {
	RunID  string  `arg:"" name:"run" help:"The run: an id, the beginning of one, or 'last'."`
	At     string  `help:"The last event to keep: its seq, 'last' or 'start'." default:"last" placeholder:"STEP"`
	Model  string  `help:"Go on with this model." placeholder:"PROVIDER/NAME"`
	Prompt *string `help:"Begin with this message instead of the run's." placeholder:"TEXT"`
	conduct
}

// Run executes the command.
func (c *forkCmd) Run(ctx context.Context, a *app) error {
	a.json = c.JSON
	if err := c.check(); err != nil {
		return err
	}
	return a.withStore(ctx, func(st *sqlite.Store) (err error) {
		info, err := findRun(ctx, st, c.RunID)
		if err != nil {
			return err
		}
		pin, err := pinOf(ctx, st, rowOf(info))
		if err != nil {
			return err
		}
		if c.Model != "" {
			if pin.Model, err = a.resolveModel(ctx, c.Model); err != nil {
				return err
			}
		}
		at, edit, title, err := c.where(ctx, a, st, info)
		if err != nil {
			return err
		}
		s := a.session(st, c.conduct)
		b, err := a.build(ctx, st, pin)
		if err != nil {
			return err
		}
		defer func() { err = join(err, b.close()) }()
		at.Meta = b.meta
		r, err := run.Fork(ctx, b.Step(), rowOf(info), at, edit, s.options(b, title))
		if err != nil {
			return err
		}
		if !a.cli.Quiet {
			a.note("rouse: run %s is forked to run %s", info.ID, r.ID())
		}
		return s.drive(ctx, r, b)
	})
}

// where finds the place to fork at, what changes there, and the new run's title.
func (c *forkCmd) where(ctx context.Context, a *app, st store.Store, info store.RunInfo) (at run.ForkAt, edit func(*agent.State), title string, err error) {
	title = info.Title
	began, first, err := beginning(ctx, st, info)
	if err != nil {
		return at, nil, "", err
	}
	switch c.At {
	case last:
	case start:
		at.Seq = began
	default:
		if at.Seq, err = strconv.ParseInt(c.At, 10, 64); err != nil || at.Seq < first || at.Seq > info.LastSeq {
			return at, nil, "", usage("'rouse events "+info.ID+"' lists them", "--at %s: the events of this run are %d to %d, or 'start' or 'last'", c.At, first, info.LastSeq)
		}
	}
	if at.Seq != 0 && at.Seq < began {
		at.Seq = began // of what was copied from an earlier fork everything is kept
	}
	if c.Prompt != nil {
		prompt, err := a.prompt(c.Prompt)
		if err != nil {
			return at, nil, "", err
		}
		if c.At != last && at.Seq > began {
			a.note("rouse: another prompt leaves nothing of the run to keep, so the fork begins at its start and not at %s", c.At)
		}
		at.Seq, title = began, firstLine(prompt, maxTitle)
		return at, func(st *agent.State) { st.Input = []rouse.Part{rouse.Text(prompt)} }, title, nil
	}
	if at.Seq == began {
		// The message is drawn again, so it is given again.
		m, err := firstMessage(ctx, st, info)
		if err != nil {
			return at, nil, "", err
		}
		return at, func(st *agent.State) { st.Input = m.Parts }, title, nil
	}
	return at, nil, title, nil
}

// beginning returns the seq of the event that a run, or the part of it that was
// not copied from another, starts with, and that of its first event.
func beginning(ctx context.Context, st run.Journal, info store.RunInfo) (began, first int64, err error) {
	for ev, err := range st.Read(ctx, run.Query{Thread: info.Thread, Run: info.ID, Types: []rouse.EventType{rouse.EventRunStarted}}) {
		if err != nil {
			return 0, 0, err
		}
		began = ev.Seq
	}
	if began == 0 {
		return 0, 0, &rouse.Error{Code: rouse.CodeCorrupt, Message: "the journal of run " + info.ID + " does not begin", Hint: "see: rouse replay " + info.ID + " --verify"}
	}
	return began, info.FirstSeq, nil
}

// firstMessage is the message that a run began with.
func firstMessage(ctx context.Context, st run.Journal, info store.RunInfo) (m rouse.Message, err error) {
	began := false
	err = eachEvent(ctx, st, info, func(ev *rouse.Event) error {
		began = began || ev.Type == rouse.EventRunStarted
		if began && ev.Type == rouse.EventMessage && len(m.Parts) == 0 {
			return ev.Decode(&m)
		}
		return nil
	})
	if err == nil && len(m.Parts) == 0 {
		err = &rouse.Error{Code: rouse.CodeNotFound, Message: "run " + info.ID + " has no message"}
	}
	return m, err
}
