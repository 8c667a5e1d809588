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

// view shows events as they come. Its error is that of the output.
type view interface {
	event(ev *rouse.Event) error
}

// conduct is how questions are answered without being asked, and what is shown.
type conduct struct {
	Yes     bool   `help:"Let every tool run without asking."`
	Resolve string `help:"What to do about a call that may or may not have happened: retry, supply (with --result), or give_up." enum:"retry,supply,give_up,ask" default:"ask" placeholder:"ACTION"`
	Result  string `help:"The result of such a call, for --resolve supply." placeholder:"TEXT"`
	JSON    bool   `name:"json" help:"Print every event as one line of JSON."`
}

// check refuses flags that do not fit together.
func (c conduct) check() error {
	if (c.Resolve == agent.ResolveSupply) != (c.Result != "") {
		return usage("give both, or neither", "--resolve supply and --result belong together")
	}
	return nil
}

// session drives runs of this process, one after the other.
type session struct {
	a      *app
	st     *sqlite.Store
	how    conduct
	view   view
	always map[string]bool // tools that may run until the program ends
}

func (a *app) session(st *sqlite.Store, how conduct) *session {
	s := &session{a: a, st: st, how: how, always: map[string]bool{}}
	a.json = how.JSON
	if how.JSON {
		s.view = &jsonView{out: a.Stdout}
	} else {
		s.view = newTextView(a)
	}
	if how.Yes {
		a.once("yes", "rouse: --yes: every tool runs without being asked about")
	}
	return s
}

// options are those that every run of b is driven with.
func (s *session) options(b *built, title string) run.Options {
	return run.Options{
		Journal: s.st, Owner: s.st.Node(), Agent: b.pin.Agent.Name, Title: title,
		Meta: b.meta, Budget: b.budget,
	}
}

// drive takes r to its end, answering its questions on the way. The error tells
// why it did not complete.
func (s *session) drive(ctx context.Context, r *run.Run[agent.Answer], b *built) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer s.a.stop.drives(cancel)()
	for {
		end, err := s.stream(ctx, cancel, r)
		if err != nil {
			return s.interrupted(r, err)
		}
		if end.Type == rouse.EventRunFinished {
			return s.finished(r, &end)
		}
		some, err := s.answer(ctx, r, b)
		switch {
		case err == nil && !some:
			return s.waits(r)
		case err == nil, ctx.Err() != nil:
		case isLeave(err):
			cancel(run.ErrDetach)
		default:
			return s.interrupted(r, err)
		}
	}
}

// stream drives r once and shows what happens. When it cannot be shown any more,
// the run is let go.
func (s *session) stream(ctx context.Context, cancel context.CancelCauseFunc, r *run.Run[agent.Answer]) (end rouse.Event, err error) {
	var lost error
	for ev, e := range r.Events(ctx) {
		end, err = ev, e
		if lost == nil {
			if lost = s.view.event(&ev); lost != nil {
				cancel(run.ErrDetach)
			}
		}
	}
	if lost != nil {
		if isClosedPipe(lost) {
			return end, errQuiet
		}
		return end, &rouse.Error{
			Code: rouse.CodeStorage, Message: "the output could not be written, so run " + r.ID() + " was let go",
			Hint: "continue it with: rouse resume " + r.ID(), Err: lost,
		}
	}
	return end, err
}

// interrupted is the error of a run that was let go.
func (s *session) interrupted(r *run.Run[agent.Answer], err error) error {
	hint := "continue it with: rouse resume " + r.ID()
	if errors.Is(err, errQuiet) {
		return err
	}
	if errors.Is(err, run.ErrDetach) {
		return &rouse.Error{Code: rouse.CodeCanceled, Message: "run " + r.ID() + " was let go where it stands", Hint: hint}
	}
	e := describe(err)
	if e.Hint != "" {
		hint = e.Hint + "; then " + hint
	}
	e.Hint = hint
	return e
}

// finished is the error of a run that ended, nil when it completed.
func (s *session) finished(r *run.Run[agent.Answer], end *rouse.Event) error {
	var d run.FinishedData
	if err := end.Decode(&d); err != nil {
		return err
	}
	if !s.a.cli.Quiet {
		s.a.note("rouse: run %s %s: %s; thread %s", r.ID(), d.Status, spentText(d.Spent), r.Thread())
	}
	if d.Error != nil {
		return d.Error.Err()
	}
	return nil
}

// waits is the error of a run whose questions nobody here can answer.
func (s *session) waits(r *run.Run[agent.Answer]) error {
	e := &rouse.Error{
		Code: rouse.CodeUncertain, Message: "run " + r.ID() + " waits for an answer",
		Hint: "answer on a terminal with: rouse resume " + r.ID(),
	}
	for _, q := range r.Asks() {
		if q.Kind == agent.AskUncertain {
			e.Message = fmt.Sprintf("run %s waits: %s was begun, and it is not known whether it took effect", r.ID(), askedCall(q).Call.Name)
			e.Hint = "look, and answer on a terminal with: rouse resume " + r.ID() + ", or with its flag --resolve"
		}
	}
	return e
}

// rowOf is what resuming needs of a stored run.
func rowOf(i store.RunInfo) run.Row {
	return run.Row{Thread: i.Thread, Run: i.ID, Revision: i.Revision, Epoch: i.Epoch, Status: i.Status}
}

// resume takes a stored run over and drives it to its end.
func (s *session) resume(ctx context.Context, info store.RunInfo) (err error) {
	row := rowOf(info)
	pin, err := pinOf(ctx, s.st, row)
	if err != nil {
		return err
	}
	b, err := s.a.build(ctx, s.st, pin)
	if err != nil {
		return err
	}
	defer func() { err = join(err, b.close()) }()
	r, err := b.Resume(ctx, row, s.options(b, info.Title))
	if err != nil {
		return err
	}
	return s.drive(ctx, r, b)
}

// spentText is a meter for people.
func spentText(m run.Meter) string {
	s := fmt.Sprintf("%s, %s, %d tokens in, %d out", count(m.ModelCalls, "model call"), count(m.ToolCalls, "tool call"), m.InputTokens, m.OutputTokens)
	if m.MicroUSD > 0 {
		s += fmt.Sprintf(", $%.4f", float64(m.MicroUSD)/1e6)
	}
	return s
}

func count(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
