package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/internal/jsonx"
	"github.com/rouse-run/rouse/model"
	"github.com/rouse-run/rouse/run"
)

// The cursors of the loop.
const (
	atStart run.Cursor = ""
	atInfer run.Cursor = "infer"
	atExec  run.Cursor = "exec"
	atDone  run.Cursor = "done"
)

// State is what a run of an agent carries from step to step. The conversation is
// not in it: that is the thread's journal.
type State struct {
	// Input is the message of an agent that another step calls.
	Input []rouse.Part `json:"input,omitempty"`
	Round int          `json:"round,omitempty"` // answers so far
	Empty int          `json:"empty,omitempty"` // answers without text and calls, in a row
	Wrong int          `json:"wrong,omitempty"` // structured answers that did not match
	// Calls are those of the last answer that need more than to be run.
	Calls []CallState `json:"calls,omitempty"`
	Usage rouse.Usage `json:"usage,omitzero"`
	// Answer is set by the last step, for Result.
	Answer *Answer `json:"-"`
}

// AppendJSON appends the state as encoding/json would write it.
func (s *State) AppendJSON(b []byte) []byte {
	o := jsonx.Open(b)
	if len(s.Input) > 0 {
		o.Key("input")
		o.B = rouse.AppendParts(o.B, s.Input)
	}
	o.Int("round", int64(s.Round))
	o.Int("empty", int64(s.Empty))
	o.Int("wrong", int64(s.Wrong))
	if len(s.Calls) > 0 {
		o.Key("calls")
		for i, c := range s.Calls {
			o.B = append(o.B, "[,"[min(i, 1)])
			in := jsonx.Open(o.B)
			in.Key("index")
			in.B = strconv.AppendInt(in.B, int64(c.Index), 10)
			in.String("status", string(c.Status))
			in.String("ask", c.Ask)
			in.String("reason", c.Reason)
			o.B = in.Close()
		}
		o.B = append(o.B, ']')
	}
	if s.Usage != (rouse.Usage{}) {
		o.Key("usage")
		o.B = s.Usage.AppendJSON(o.B)
	}
	return o.Close()
}

// CallState is where a call stands that a gate or a crash has held up.
type CallState struct {
	Index  int        `json:"index"` // in the answer
	Status CallStatus `json:"status"`
	Ask    string     `json:"ask,omitempty"`    // the open question
	Reason string     `json:"reason,omitempty"` // why it is denied or asked about
}

// CallStatus is the status of a CallState.
//
//	            ┌─▶ (run)
//	asked ──────┤
//	  ▲         └─▶ denied
//	gate ──▶ denied
//	crash ──▶ doubtful ──▶ (run) | supplied | denied
type CallStatus string

// The statuses.
const (
	CallDenied   CallStatus = "denied"   // it will not run
	CallAsked    CallStatus = "asked"    // somebody is asked whether it may run
	CallDoubtful CallStatus = "doubtful" // somebody is asked what became of it
)

// Clone implements what run needs to copy a state cheaply.
func (s State) Clone() State {
	s.Input = slices.Clone(s.Input)
	s.Calls = slices.Clone(s.Calls)
	return s
}

type step struct{ a *Agent }

func (s step) Info() run.Info { return s.a.info }

func (s step) Result(_ run.Cursor, st State) (Answer, error) {
	if st.Answer == nil {
		return Answer{}, &rouse.Error{Code: rouse.CodeInternal, Op: "agent", Message: "the run completed without an answer"}
	}
	return *st.Answer, nil
}

func (s step) Do(ctx context.Context, sc *run.Scope[State]) (run.Move, error) {
	conv, err := s.conversation(ctx, sc)
	if err != nil {
		return run.Move{}, err
	}
	switch sc.At() {
	case atStart:
		return s.start(ctx, sc, conv)
	case atInfer:
		return s.infer(ctx, sc, conv)
	case atExec:
		return s.exec(ctx, sc, conv)
	}
	return run.Move{}, &rouse.Error{Code: rouse.CodeCorrupt, Op: "agent", Message: fmt.Sprintf("there is no position %q", sc.At())}
}

// conversation returns what this frame has heard so far: from memory, or from
// the journal when the frame is new to this process.
func (s step) conversation(ctx context.Context, sc *run.Scope[State]) (*conversation, error) {
	memo := sc.Memo()
	if c, ok := (*memo).(*conversation); ok {
		return c, nil
	}
	c, err := recall(ctx, sc)
	if err != nil {
		return nil, err
	}
	*memo = c
	return c, nil
}

func recall(ctx context.Context, sc *run.Scope[State]) (*conversation, error) {
	c := newConversation()
	for ev, err := range sc.History(ctx, rouse.EventMessage, rouse.EventAnswer, rouse.EventToolFinished) {
		if err != nil {
			return nil, err
		}
		if err := c.add(&ev); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// add applies a stored event.
func (c *conversation) add(ev *rouse.Event) error {
	switch ev.Type {
	case rouse.EventMessage:
		var m rouse.Message
		if err := ev.Decode(&m); err != nil {
			return err
		}
		c.message(m, ev.Data)
	case rouse.EventAnswer:
		var d AnswerData
		if err := ev.Decode(&d); err != nil {
			return err
		}
		c.answer(d.Message, ev.Data)
	case rouse.EventToolFinished:
		var d ResultData
		if err := ev.Decode(&d); err != nil {
			return err
		}
		c.result(d.Index, d.Result, ev.Data)
	}
	return nil
}

// start records the message that the run begins with.
func (s step) start(ctx context.Context, sc *run.Scope[State], conv *conversation) (run.Move, error) {
	given := sc.State().Input
	m := rouse.Message{ID: sc.NewID(), Role: rouse.RoleUser, Parts: given}
	raw, err := sc.Draw(ctx, run.Draw{
		Type: rouse.EventMessage,
		Live: func(context.Context) (raw json.RawMessage, err error) {
			if len(given) == 0 {
				m.Parts, err = run.Dep(sc.Services, input())
			}
			return m.AppendJSON(nil), err
		},
		Replay: func(_ context.Context, recorded json.RawMessage) (json.RawMessage, error) {
			if err := json.Unmarshal(recorded, &m); err != nil {
				return nil, err
			}
			return m.AppendJSON(nil), nil
		},
	})
	if err != nil {
		return run.Move{}, err
	}
	conv.message(m, raw)
	// Nobody has been told yet that the run exists, so asking the model need not
	// wait for the disk.
	if len(given) == 0 {
		return sc.Continue(atInfer, nil).Soft(), nil
	}
	return sc.Continue(atInfer, func(st *State) { st.Input = nil }).Soft(), nil
}

// infer asks the model and decides what its answer means.
func (s step) infer(ctx context.Context, sc *run.Scope[State], conv *conversation) (run.Move, error) {
	st := sc.State()
	if st.Round >= s.a.cfg.MaxRounds {
		return run.Move{}, limitError("max_rounds", s.a.cfg.MaxRounds, "the model wanted to go on")
	}
	if err := sc.Spend(run.Meter{Rounds: 1, ModelCalls: 1}); err != nil {
		return run.Move{}, err
	}
	d, err := s.ask(ctx, sc, conv)
	if err != nil {
		return run.Move{}, err
	}
	sc.Charge(run.Tokens(d.Usage))
	st.Round++
	st.Usage = st.Usage.Add(d.Usage)
	calls := d.Message.Calls()
	switch {
	case len(calls) > 0 && st.Round >= s.a.cfg.MaxRounds:
		return run.Move{}, limitError("max_rounds", s.a.cfg.MaxRounds, "the model wanted to call "+calls[0].Name)
	case len(calls) > 0:
		return s.gate(ctx, sc, st, calls)
	case !says(d.Message):
		return s.empty(sc, st, d)
	}
	return s.finish(ctx, sc, st, conv, d)
}

// empty handles an answer that says nothing.
func (s step) empty(sc *run.Scope[State], st State, d *AnswerData) (run.Move, error) {
	if d.Stop == model.StopFiltered {
		return run.Move{}, &rouse.Error{Code: rouse.CodeProviderRefused, Op: "agent", Message: "the provider held the answer back"}
	}
	if st.Empty >= s.a.cfg.MaxEmpty {
		return run.Move{}, &rouse.Error{
			Code: rouse.CodeProviderOutput, Op: "agent",
			Message: fmt.Sprintf("the model gave %d answers in a row without text or tool calls (max_empty)", st.Empty+1),
		}
	}
	st.Empty++
	return sc.Continue(atInfer, func(to *State) { *to = st }), nil
}

func limitError(name string, limit int, what string) error {
	return &rouse.Error{
		Code: rouse.CodeBudget, Op: "agent",
		Message: fmt.Sprintf("the limit %s (%d) is reached: %s", name, limit, what),
		Hint:    "raise " + name + ", or say more in one message",
	}
}

// finish completes the run with the model's last answer, or sends it back when
// it is not what was asked for.
func (s step) finish(ctx context.Context, sc *run.Scope[State], st State, conv *conversation, d *AnswerData) (run.Move, error) {
	ans := &Answer{Text: d.Message.Text(), Stop: d.Stop, Rounds: st.Round, Usage: st.Usage}
	if s.a.output != nil {
		out, wrong := s.a.structured(ans.Text)
		if wrong != nil {
			return s.sendBack(ctx, sc, st, conv, wrong)
		}
		ans.Output = out
	}
	return sc.Complete(atDone, func(to *State) { *to = st; to.Answer = ans }), nil
}
