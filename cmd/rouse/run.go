package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/store"
	"github.com/rouse-run/rouse/store/sqlite"
)

// maxPrompt bounds a prompt, in bytes.
const maxPrompt = 8 << 20

// maxTitle bounds the title of a run, in bytes.
const maxTitle = 80

type runCmd struct {
	Prompt *string `arg:"" optional:"" help:"What the agent is to do; '-' reads it from the standard input."`
	Thread string  `help:"Continue this conversation: an id, the beginning of one, or 'last'." placeholder:"ID"`
	definition
	conduct
}

// Run executes the command.
func (c *runCmd) Run(ctx context.Context, a *app) error {
	a.json = c.JSON
	if err := c.check(); err != nil {
		return err
	}
	prompt, err := a.prompt(c.Prompt)
	if err != nil {
		return err
	}
	pin, err := a.pin(ctx, c.definition)
	if err != nil {
		return err
	}
	return a.withStore(ctx, func(st *sqlite.Store) error {
		s := a.session(st, c.conduct)
		thread := ""
		if c.Thread != "" {
			if thread, err = s.readyThread(ctx, c.Thread); err != nil {
				return err
			}
		}
		return s.start(ctx, pin, thread, prompt)
	})
}

// start begins a run and drives it to its end.
func (s *session) start(ctx context.Context, pin pinned, thread, prompt string) (err error) {
	b, err := s.a.build(ctx, s.st, pin)
	if err != nil {
		return err
	}
	defer func() { err = join(err, b.close()) }()
	opt := s.options(b, firstLine(prompt, maxTitle))
	opt.Thread = thread
	r, err := b.Start(ctx, opt, rouse.Text(prompt))
	if err != nil {
		return err
	}
	return s.drive(ctx, r, b)
}

// prompt returns what the agent is to do.
func (a *app) prompt(arg *string) (string, error) {
	const hint = `give it as an argument, as in: rouse run "What is in this directory?"`
	var text string
	switch {
	case arg != nil && *arg != "-":
		text = *arg
	case arg == nil && isTerminal(a.Stdin):
		return "", usage(hint, "there is no prompt")
	default:
		b, err := io.ReadAll(io.LimitReader(a.Stdin, maxPrompt+1))
		if err != nil {
			return "", &rouse.Error{Code: rouse.CodeStorage, Message: "the standard input cannot be read", Err: err}
		}
		text = string(b)
	}
	if len(text) > maxPrompt {
		return "", &rouse.Error{Code: rouse.CodeTooLarge, Message: fmt.Sprintf("the prompt is larger than %d bytes", maxPrompt), Hint: "put it into a file and let the agent read that"}
	}
	text = strings.ToValidUTF8(text, "\ufffd")
	if strings.TrimSpace(text) == "" {
		return "", usage(hint, "the prompt is empty")
	}
	return text, nil
}

// readyThread finds a conversation that a new run may join. A run of it that was
// interrupted is continued first.
func (s *session) readyThread(ctx context.Context, id string) (string, error) {
	t, err := findThread(ctx, s.st, id)
	if err != nil {
		return "", err
	}
	open, _, err := s.st.ListRuns(ctx, store.RunFilter{Thread: t.ID, Status: []rouse.Status{rouse.StatusRunning, rouse.StatusWaiting}})
	if err != nil || len(open) == 0 {
		return t.ID, err
	}
	r := open[0]
	if r.Status == rouse.StatusWaiting {
		return "", &rouse.Error{Code: rouse.CodeBusy, Message: "run " + r.ID + " of this thread waits for an answer", Hint: "answer it with: rouse resume " + r.ID}
	}
	if err := s.mayResume(ctx, r); err != nil {
		return "", err
	}
	s.a.note("rouse: the interrupted run of this thread comes first")
	if err := s.resume(ctx, r); err != nil {
		now, e := s.st.Run(ctx, r.ID)
		if e != nil || !now.Status.Final() || s.a.stop.leaving() || now.Status == rouse.StatusCanceled {
			return "", err
		}
		s.a.note("rouse: it failed: %s", describe(err).Message)
	}
	return t.ID, nil
}

// mayResume refuses a run that another process is driving.
func (s *session) mayResume(ctx context.Context, r store.RunInfo) error {
	if r.Status != rouse.StatusRunning {
		return nil
	}
	orphans, err := s.st.Orphans(ctx)
	if err != nil {
		return err
	}
	for _, o := range orphans {
		if o.ID == r.ID {
			return nil
		}
	}
	return &rouse.Error{Code: rouse.CodeBusy, Message: "another process is driving run " + r.ID, Hint: "wait for it, or end that process first"}
}
