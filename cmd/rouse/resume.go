package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/store"
	"github.com/rouse-run/rouse/store/sqlite"
)

type resumeCmd struct {
	RunID string `arg:"" name:"run" optional:"" help:"The run; without it, all that were interrupted."`
	conduct
}

// Run executes the command.
func (c *resumeCmd) Run(ctx context.Context, a *app) error {
	a.json = c.JSON
	if err := c.check(); err != nil {
		return err
	}
	return a.withQuietStore(ctx, func(st *sqlite.Store) error {
		s := a.session(st, c.conduct)
		if c.RunID == "" {
			return s.resumeAll(ctx)
		}
		info, err := findRun(ctx, st, c.RunID)
		if err != nil {
			return err
		}
		if info.Status.Final() {
			a.note("rouse: run %s has ended: %s", info.ID, info.Status)
			return nil
		}
		if err := s.mayResume(ctx, info); err != nil {
			return err
		}
		return s.resume(ctx, info)
	})
}

// resumeAll continues every run whose process is gone, the oldest first. One that
// fails does not keep the others from going on.
func (s *session) resumeAll(ctx context.Context) error {
	orphans, err := s.st.Orphans(ctx)
	if err != nil {
		return err
	}
	if len(orphans) == 0 {
		s.a.note("rouse: there is no interrupted run")
		return nil
	}
	slices.SortFunc(orphans, func(x, y store.RunInfo) int { return x.Created.Compare(y.Created) })
	failed, code := 0, rouse.Code("")
	for _, o := range orphans {
		if s.a.stop.leaving() {
			return &rouse.Error{Code: rouse.CodeCanceled, Message: "not every run was continued", Hint: "continue them with: rouse resume"}
		}
		if err := s.resume(ctx, o); err != nil {
			if isClosedPipe(err) {
				return errQuiet
			}
			if len(orphans) == 1 {
				return err
			}
			s.a.report(err)
			failed, code = failed+1, rouse.CodeOf(err)
		}
	}
	if failed > 0 {
		return &rouse.Error{Code: code, Message: fmt.Sprintf("%d of %d runs did not complete", failed, len(orphans)), Hint: "the messages above say why"}
	}
	return nil
}
