package agent

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/internal/safecall"
	"github.com/rouse-run/rouse/run"
	"github.com/rouse-run/rouse/tool"
)

// gate decides about the calls of an answer. Those that may run go first; when
// there are only questions left, the run waits at once.
func (s step) gate(ctx context.Context, sc *run.Scope[State], st State, calls []rouse.ToolCall) (run.Move, error) {
	st.Empty, st.Calls = 0, nil
	var asks []run.Ask
	for i, c := range calls {
		v := s.verdict(ctx, c)
		switch v.Action {
		case tool.Allow:
		case tool.Ask:
			a := permissionAsk(sc.NewID(), AskPermission, c, s.effect(c.Name), v.Reason)
			st.Calls = append(st.Calls, CallState{Index: i, Status: CallAsked, Ask: a.ID, Reason: v.Reason})
			asks = append(asks, a)
		default:
			st.Calls = append(st.Calls, CallState{Index: i, Status: CallDenied, Reason: v.Reason})
		}
	}
	patch := func(to *State) { *to = st }
	if len(asks) == len(calls) {
		return sc.Await(atExec, patch, asks...), nil
	}
	if s.harmless(calls) {
		// Calls that only read may run before the answer is durable: should it be
		// lost, the model is asked again and they are nothing to undo.
		return sc.Continue(atExec, patch).Soft(), nil
	}
	return sc.Continue(atExec, patch), nil
}

// verdict asks the gate. A call that cannot run anyway is let through, so that
// the model learns why; a gate that fails denies.
func (s step) verdict(ctx context.Context, c rouse.ToolCall) (v tool.Verdict) {
	spec, ok := s.a.cfg.Tools.Spec(c.Name)
	if !ok {
		return tool.Verdict{Action: tool.Allow}
	}
	if _, wrong := s.a.cfg.Tools.Check(c.Name, c.Args); wrong != nil {
		return tool.Verdict{Action: tool.Allow}
	}
	err := safecall.Do(ctx, "gate", func(ctx context.Context) (err error) {
		v, err = s.a.cfg.Gate.Check(ctx, c, spec)
		return err
	})
	if err != nil {
		return tool.Verdict{Action: tool.Deny, Reason: "the permission check failed"}
	}
	return v
}

func (s step) effect(name string) tool.Effect {
	spec, ok := s.a.cfg.Tools.Spec(name)
	if !ok {
		return tool.ReadOnly // it does not exist: nothing will happen
	}
	return spec.Effect
}

func permissionAsk(id, kind string, c rouse.ToolCall, e tool.Effect, reason string) run.Ask {
	// Strings only: encoding them cannot fail.
	payload, _ := json.Marshal(PermissionAsk{Call: c, Effect: string(e), Reason: reason})
	return run.Ask{ID: id, Kind: kind, Payload: payload}
}

// exec runs the calls of the last answer that may run and have no result yet, and
// waits for decisions about the others.
func (s step) exec(ctx context.Context, sc *run.Scope[State], conv *conversation) (run.Move, error) {
	st := sc.State()
	calls := conv.calls
	out := make([]outcome, len(calls))
	todo := make([]int, 0, len(calls))
	for i := range calls {
		if conv.results[i] != nil {
			continue
		}
		if d := s.decide(sc, &st, i, calls[i]); d != nil {
			out[i] = outcome{data: d, raw: d.encode()}
			sc.Record(rouse.EventToolFinished, out[i].raw)
		} else if !held(st.Calls, i) {
			todo = append(todo, i)
		}
	}
	if len(todo) > 0 {
		if err := sc.Spend(run.Meter{ToolCalls: int64(len(todo))}); err != nil {
			return run.Move{}, err
		}
	}
	one := func(ctx context.Context, k int) (err error) {
		out[todo[k]], err = s.run(ctx, sc.Services, todo[k], calls[todo[k]])
		return err
	}
	var err error
	if len(todo) == 1 && s.a.cfg.Tools.Quiet(calls[todo[0]].Name) && !sc.Held() {
		err = one(ctx, 0) // there will be nothing to hand over while it runs
	} else {
		err = sc.Each(ctx, len(todo), s.a.cfg.Parallel, one)
	}
	if err != nil {
		return run.Move{}, err
	}
	asks := slices.DeleteFunc(sc.OpenAsks(), func(a run.Ask) bool { return !asked(st.Calls, a.ID) })
	for i, c := range calls {
		switch {
		case out[i].data != nil:
			conv.result(i, out[i].data.Result, out[i].raw)
		case out[i].doubtful:
			a := permissionAsk(sc.NewID(), AskUncertain, c, s.effect(c.Name), "the call was begun, and it is not known whether it took effect")
			st.Calls = append(st.Calls, CallState{Index: i, Status: CallDoubtful, Ask: a.ID})
			asks = append(asks, a)
		case asksAnew(st.Calls, i, asks):
			asks = append(asks, permissionAsk(openID(st.Calls, i), AskPermission, c, s.effect(c.Name), reasonOf(st.Calls, i)))
		}
	}
	if len(asks) > 0 {
		return sc.Await(atExec, func(to *State) { *to = st }, asks...), nil
	}
	st.Calls = nil
	move := sc.Continue(atInfer, func(to *State) { *to = st })
	if s.harmless(calls) {
		return move.Soft(), nil // what has only been read can be read again
	}
	return move, nil
}

// harmless reports whether all calls only read, or will not run at all.
func (s step) harmless(calls []rouse.ToolCall) bool {
	return !slices.ContainsFunc(calls, func(c rouse.ToolCall) bool { return s.effect(c.Name) != tool.ReadOnly })
}

// decide applies what was decided about call i. The result is for a call that
// will not run; nil when it may run, or must wait still (see held).
func (s step) decide(sc *run.Scope[State], st *State, i int, c rouse.ToolCall) *ResultData {
	at := slices.IndexFunc(st.Calls, func(cs CallState) bool { return cs.Index == i })
	if at < 0 {
		return nil
	}
	cs := st.Calls[at]
	switch cs.Status {
	case CallDenied:
		st.Calls = slices.Delete(st.Calls, at, at+1)
		return refusal(i, c, "the permission rules", cs.Reason)
	case CallAsked, CallDoubtful:
	}
	d, ok := sc.Decision(cs.Ask)
	if !ok {
		return nil
	}
	st.Calls = slices.Delete(st.Calls, at, at+1)
	if cs.Status == CallAsked {
		var p Permission
		if err := json.Unmarshal(d.Value, &p); err != nil {
			p = Permission{Reason: "the decision could not be read"}
		}
		if p.Allow {
			return nil
		}
		return refusal(i, c, d.By, p.Reason)
	}
	var r Resolution
	if err := json.Unmarshal(d.Value, &r); err != nil {
		r = Resolution{Action: ResolveGiveUp}
	}
	switch r.Action {
	case ResolveRetry:
		return nil
	case ResolveSupply:
		out, _ := tool.Bound([]byte(r.Output), tool.DefaultMaxOutput)
		return &ResultData{Index: i, By: d.By, Result: rouse.ToolResult{CallID: c.ID, Name: c.Name, Output: out}}
	}
	return &ResultData{Index: i, By: d.By, Code: rouse.CodeUncertain, Result: rouse.ToolResult{
		CallID: c.ID, Name: c.Name, Error: true,
		Output: "The call was interrupted. It may have taken effect or not. Do not repeat it without being told to.",
	}}
}

func refusal(i int, c rouse.ToolCall, by, reason string) *ResultData {
	out := "The call was denied, it did not run."
	if reason != "" {
		out = "The call was denied, it did not run: " + reason
	}
	return &ResultData{Index: i, By: by, Code: rouse.CodeDenied, Result: rouse.ToolResult{CallID: c.ID, Name: c.Name, Error: true, Output: out}}
}

// held reports whether call i must wait for a decision.
func held(cs []CallState, i int) bool {
	return slices.ContainsFunc(cs, func(c CallState) bool { return c.Index == i })
}

func asked(cs []CallState, ask string) bool {
	return slices.ContainsFunc(cs, func(c CallState) bool { return c.Ask == ask })
}

// asksAnew reports whether call i was found to need a question that has not been
// put yet: the calls that could run went first.
func asksAnew(cs []CallState, i int, open []run.Ask) bool {
	id := openID(cs, i)
	return id != "" && !slices.ContainsFunc(open, func(a run.Ask) bool { return a.ID == id })
}

func openID(cs []CallState, i int) string {
	for _, c := range cs {
		if c.Index == i && c.Status == CallAsked {
			return c.Ask
		}
	}
	return ""
}

func reasonOf(cs []CallState, i int) string {
	for _, c := range cs {
		if c.Index == i {
			return c.Reason
		}
	}
	return ""
}

// outcome is what became of a call in this step.
type outcome struct {
	data     *ResultData // nil: it has no result
	raw      json.RawMessage
	doubtful bool // it was begun before a crash
}

// run executes one call. An error is not the tool's: that is a result like any other.
func (s step) run(ctx context.Context, sv run.Services, i int, c rouse.ToolCall) (out outcome, err error) {
	visit := strconv.Itoa(sv.Visit())
	index := strconv.Itoa(i)
	key := sv.RunID() + sv.Path() + "#" + visit + "." + index
	e := run.Effect{Key: "call" + index, Type: rouse.EventToolFinished, Last: true}
	if s.effect(c.Name) == tool.Unsafe {
		e.Intent = (&IntentData{Index: i, Call: c, Key: key}).encode()
	}
	e.Live = func(ctx context.Context) (json.RawMessage, error) {
		sv.Emit(rouse.EventToolStarted, rouse.Delta{Index: i, Call: c.ID, Name: c.Name})
		got := s.invoke(ctx, sv, i, c, key)
		if got.Code == rouse.CodeCanceled && ctx.Err() != nil {
			return nil, context.Cause(ctx) // the run ends; what was cut off has no result
		}
		s.report(ctx, sv, c.Name, &got)
		out.data = &ResultData{Index: i, Result: got.Result, Code: got.Code, Attempts: got.Attempts}
		return out.data.encode(), nil
	}
	out.raw, err = sv.Effect(ctx, e)
	switch {
	case rouse.CodeOf(err) == rouse.CodeUncertain:
		return outcome{doubtful: true}, nil
	case err != nil:
		return outcome{}, err
	case out.data == nil: // it had been done before
		out.data = &ResultData{}
		if err := json.Unmarshal(out.raw, out.data); err != nil {
			return outcome{}, &rouse.Error{Code: rouse.CodeCorrupt, Op: "agent", Message: "a recorded result cannot be read", Err: err}
		}
	}
	return out, nil
}

func (s step) invoke(ctx context.Context, sv run.Services, i int, c rouse.ToolCall, key string) tool.Outcome {
	return s.a.cfg.Tools.Invoke(ctx, tool.Invocation{
		Call: c, Key: key, Keeper: s.a.cfg.Keeper,
		Progress: func(text string) {
			sv.Emit(rouse.EventToolProgress, rouse.Delta{Index: i, Call: c.ID, Name: c.Name, Text: text})
		},
	})
}

// report tells the operator what neither the model nor the caller is told.
func (s step) report(ctx context.Context, sv run.Services, name string, got *tool.Outcome) {
	var p *safecall.Panic
	if errors.As(got.Err, &p) {
		s.a.cfg.Log.ErrorContext(ctx, "a tool panicked", "tool", name, "run", sv.RunID(), "error", got.Err, "stack", string(p.Stack))
	}
	if got.KeepErr != nil {
		s.a.cfg.Log.WarnContext(ctx, "a result could not be kept whole", "tool", name, "run", sv.RunID(), "error", got.KeepErr)
	}
}

// userMessage is the part of an error that is meant for whoever asked.
func userMessage(err error) string {
	var e *rouse.Error
	if errors.As(err, &e) {
		if e.Hint != "" {
			return e.Message + " " + e.Hint
		}
		return e.Message
	}
	return err.Error()
}
