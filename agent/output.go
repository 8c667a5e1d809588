package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/model"
	"github.com/rouse-run/rouse/run"
	"github.com/rouse-run/rouse/tool"
)

// OutputFor returns the Output whose schema is that of the Go type T, a struct;
// see tool.Func for what its tags mean.
func OutputFor[T any](name string) (*Output, error) {
	t, err := tool.Func(tool.FuncConfig{Name: name}, func(context.Context, T) (string, error) { return "", nil })
	if err != nil {
		return nil, err
	}
	return &Output{Name: name, Schema: t.Spec().Schema}, nil
}

// setOutput prepares for structured answers: the schema is compiled as that of a
// tool's arguments, since an answer is checked in the same way.
func (a *Agent) setOutput(o Output) error {
	o.Name = cmp.Or(o.Name, "answer")
	o.Retries = cmp.Or(o.Retries, DefaultOutputRetries)
	a.cfg.Output = &o
	set, err := tool.NewSet(outputTool{tool.Spec{Name: o.Name, Schema: o.Schema}})
	if err != nil {
		return &rouse.Error{Code: rouse.CodeInvalid, Op: "agent " + a.cfg.Name, Message: "output.schema cannot be used", Err: err}
	}
	a.output = set
	if c, ok := model.As[model.Capable](a.cfg.Model); ok {
		a.native = c.Capabilities(a.cfg.ModelName).Output
	}
	if !a.native {
		ask := "Answer with one JSON object and nothing else. It must match this JSON Schema:\n" + string(o.Schema)
		a.system = strings.TrimLeft(a.system+"\n\n"+ask, "\n")
	}
	return nil
}

// outputTool lends its spec to an answer's schema. It is never called.
type outputTool struct{ spec tool.Spec }

func (t outputTool) Spec() tool.Spec { return t.spec }

func (t outputTool) Call(context.Context, *tool.Call) (tool.Result, error) {
	return tool.Result{}, &rouse.Error{Code: rouse.CodeUnsupported, Op: "agent.output", Message: "an answer is not a tool"}
}

// structured reads the answer out of a model's text.
func (a *Agent) structured(text string) (json.RawMessage, error) {
	text = strings.TrimSpace(text)
	if in, ok := strings.CutPrefix(text, "```"); ok {
		in = strings.TrimPrefix(in, "json")
		text = strings.TrimSpace(strings.TrimSuffix(in, "```"))
	}
	if text == "" {
		return nil, &rouse.Error{Code: rouse.CodeProviderOutput, Op: "agent.output", Message: "the answer is empty"}
	}
	out, wrong := a.output.Check(a.cfg.Output.Name, text)
	if wrong != nil {
		return nil, wrong
	}
	return out, nil
}

// sendBack tells the model what is wrong with its structured answer.
func (s step) sendBack(ctx context.Context, sc *run.Scope[State], st State, conv *conversation, wrong error) (run.Move, error) {
	if st.Wrong >= s.a.cfg.Output.Retries {
		return run.Move{}, &rouse.Error{
			Code: rouse.CodeProviderOutput, Op: "agent.output", Err: wrong,
			Message: fmt.Sprintf("the model's answer does not match the schema of %s after %d tries (output.retries)", s.a.cfg.Output.Name, st.Wrong+1),
		}
	}
	st.Wrong++
	m := rouse.Message{ID: sc.NewID(), Role: rouse.RoleUser, Parts: []rouse.Part{rouse.Text("Your answer could not be used: " + userMessage(wrong) + "\nAnswer again, with one JSON object that matches the schema and nothing else.")}}
	data := m.AppendJSON(nil)
	sc.Record(rouse.EventMessage, data)
	conv.message(m, data)
	return sc.Continue(atInfer, func(to *State) { *to = st }), nil
}
