package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/agent"
	"github.com/rouse-run/rouse/model"
	"github.com/rouse-run/rouse/model/mock"
	"github.com/rouse-run/rouse/run"
)

// A consumer that leaves at each event in turn, over TCP and with a database: the
// run has ended as canceled or had ended by itself, it replays, no call is left
// without a result on the next message, and nothing stays behind (TestMain).
func TestConsumerLeavesAtEveryEvent(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	for n := 1; ; n++ {
		g, m := provider(t, mock.Config{ChunkRunes: 6, Rules: []mock.Rule{
			{Prompt: "hi", Generator: "hello"},
			{Prompt: afterTool, Generator: "done"},
			{Prompt: mock.Any, Generator: mock.Result{Text: saying, Calls: []mock.Call{{ID: "c1", Name: "one"}, {ID: "c2", Name: "write", Args: writing}}}},
		}})
		var h hands
		a := newAgent(t, agent.Config{Model: wrapped(m), Tools: h.tools(t, "one", "write")})
		r, err := a.Start(t.Context(), run.Options{Journal: s}, rouse.Text("go"))
		if err != nil {
			t.Fatal(err)
		}
		var seen []rouse.Event
		for ev, err := range r.Events(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if seen = append(seen, ev); len(seen) == n {
				break
			}
		}
		// The last answer is committed with the end of the run, also one that had
		// arrived as a whole when the consumer left within it.
		inLast := len(of(seen, rouse.EventToolFinished)) == 2
		if st := r.Status(); st != rouse.StatusCanceled && !(inLast && st == rouse.StatusCompleted) {
			t.Fatalf("left at event %d, the run is %s", n, st)
		}
		if ran := h.calls(); len(of(seen, rouse.EventToolStarted)) == 0 && len(ran) > 0 {
			t.Errorf("left at event %d, and then %q ran", n, ran)
		}
		verify(t, a, s, r)
		if len(seen) < n {
			if n < 15 {
				t.Errorf("only %d events", len(seen))
			}
			return
		}
		// The thread goes on, whatever the last run had left open.
		next, err := a.Start(t.Context(), run.Options{Journal: s, Thread: r.Thread()}, rouse.Text("hi"))
		if err != nil {
			t.Fatalf("left at event %d: %v", n, err)
		}
		goOn(t, a, s, next)
		if ans := completed(t, next); ans.Text != "hello" {
			t.Fatalf("left at event %d: %+v", n, ans)
		}
		wellFormed(t, g.Requests())
		if ran := h.calls(); len(ran) > 2 {
			t.Errorf("left at event %d: ran %q", n, ran)
		}
	}
}

// One agent, one wire, one database, many runs at once: nothing of one run is in
// another, and nothing of the definition has changed.
func TestManyRunsOfOneAgent(t *testing.T) {
	t.Parallel()
	const crowd = 32
	_, m := provider(t, mock.Config{Rules: []mock.Rule{
		{Prompt: afterTool, Generator: func(req *model.Request) string { return "done " + req.Messages[0].Text() }},
		{Prompt: mock.Any, Generator: mock.Func(echoCalls)},
	}})
	var h hands
	s := open(t, t.TempDir())
	a := newAgent(t, agent.Config{Model: wrapped(m), Tools: h.tools(t, "one", "write")})
	runs := make([]*run.Run[agent.Answer], crowd)
	answers := make([]agent.Answer, crowd)
	errs := make([]error, crowd)
	var wg sync.WaitGroup
	for i := range crowd {
		wg.Go(func() {
			if runs[i], errs[i] = a.Start(t.Context(), run.Options{Journal: s}, rouse.Text(fmt.Sprintf("run<%d>", i))); errs[i] == nil {
				answers[i], errs[i] = runs[i].Wait(t.Context())
			}
		})
	}
	wg.Wait()
	for i, ans := range answers {
		mine := fmt.Sprintf("run<%d>", i)
		if errs[i] != nil || ans.Text != "done "+mine || ans.Rounds != 2 {
			t.Fatalf("run %d: %+v, %v", i, ans, errs[i])
		}
		verify(t, a, s, runs[i])
		for _, ev := range journal(t, s, runs[i].Thread()) {
			if ev.Run != runs[i].ID() {
				t.Fatalf("an event of %s in the thread of %s", ev.Run, runs[i].ID())
			}
			for _, c := range decodeCalls(t, ev) {
				if !strings.Contains(c.Args, mine) {
					t.Errorf("run %d called %+v", i, c)
				}
			}
		}
	}
	ran := h.calls()
	slices.Sort(ran)
	if len(ran) != 2*crowd || len(slices.Compact(ran)) != 2*crowd {
		t.Errorf("%d calls ran", len(ran))
	}
}

// echoCalls asks for two calls that carry the prompt.
func echoCalls(_ context.Context, req *model.Request) (any, error) {
	args := map[string]string{"of": req.Messages[0].Text()}
	return mock.Calls(mock.Call{Name: "one", Args: args}, mock.Call{Name: "write", Args: args}), nil
}

func decodeCalls(t *testing.T, ev rouse.Event) []rouse.ToolCall {
	t.Helper()
	if ev.Type != rouse.EventAnswer {
		return nil
	}
	return decode[agent.AnswerData](t, ev).Message.Calls()
}

// lastEvent is a sink that keeps the last event.
type lastEvent struct{ rouse.Event }

func (l *lastEvent) Deliver(_ context.Context, ev rouse.Event) error {
	l.Event = ev
	return nil
}

// Somebody cancels, or lets the run go, while the provider says nothing any more
// and would not for an hour.
func TestStopWhileTheProviderIsSilent(t *testing.T) {
	t.Parallel()
	for _, after := range []int{0, 2, 8} { // before the answer, in its text, in its call
		for _, cause := range []error{run.ErrCanceled, run.ErrDetach} {
			t.Run(fmt.Sprintf("%d/%v", after, cause), func(t *testing.T) {
				t.Parallel()
				asked := make(chan struct{}, 1) // the provider has the request
				silent := func(*model.Request) bool {
					select {
					case asked <- struct{}{}:
					default:
					}
					return true
				}
				_, m := provider(t, mock.Config{ChunkRunes: 4, Rules: []mock.Rule{
					{Prompt: afterTool, Generator: "done"},
					{Prompt: silent, Generator: writes(mock.Fault{Break: mock.BreakHang, AfterChunks: after}), Times: 1},
					{Prompt: mock.Any, Generator: writes(mock.Fault{})},
				}})
				s := open(t, t.TempDir())
				var h hands
				// Without the wrappers, whose time limit would end the silence too.
				a := newAgent(t, agent.Config{Model: m, Tools: h.tools(t, "write")})
				var told lastEvent
				r, err := a.Start(t.Context(), run.Options{Journal: s, Sink: &told}, rouse.Text("go"))
				if err != nil {
					t.Fatal(err)
				}
				var wg sync.WaitGroup
				wg.Go(func() {
					<-asked
					r.Cancel(cause)
				})
				var end rouse.Event
				for ev := range r.Events(t.Context()) {
					end = ev
				}
				wg.Wait()
				if told.Type != end.Type {
					t.Errorf("the stream ends with %s, and for the sink with %s", end.Type, told.Type)
				}
				if len(h.calls()) > 0 {
					t.Errorf("ran %q", h.calls())
				}
				verify(t, a, s, r)
				if errors.Is(cause, run.ErrCanceled) {
					if end.Type != rouse.EventRunFinished || r.Status() != rouse.StatusCanceled {
						t.Errorf("the run ends with %s as %s", end.Type, r.Status())
					}
					return
				}
				if end.Type != rouse.EventRunInterrupted || r.Status() != rouse.StatusRunning {
					t.Fatalf("the run ends with %s as %s", end.Type, r.Status())
				}
				again, err := a.Resume(t.Context(), rowOf(t, s, r.ID()), run.Options{Journal: s})
				if err != nil {
					t.Fatal(err)
				}
				goOn(t, a, s, again)
				if ans := completed(t, again); ans.Text != "done" || len(h.calls()) != 1 {
					t.Errorf("got %+v, ran %q", ans, h.calls())
				}
			})
		}
	}
}
