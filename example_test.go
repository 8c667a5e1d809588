package rouse_test

import (
	"context"
	"fmt"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/agent"
	"github.com/rouse-run/rouse/model/mock"
	"github.com/rouse-run/rouse/run"
	"github.com/rouse-run/rouse/tool"
)

// An agent in process: a model, a tool that is a Go function, and the events of a
// run. The model is a scripted one, so that the example needs no provider.
func Example() {
	gpt, err := mock.New(mock.Config{Rules: []mock.Rule{
		{Prompt: "weather", Sequence: []any{
			mock.Calls(mock.Call{Name: "weather", Args: map[string]string{"city": "Oslo"}}),
			"It is sunny in Oslo.",
		}},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	weather, err := tool.Func(tool.FuncConfig{Name: "weather", Description: "The weather in a city.", Effect: tool.ReadOnly},
		func(_ context.Context, in struct {
			City string `json:"city"`
		}) (string, error) {
			return "sunny in " + in.City, nil
		})
	if err != nil {
		fmt.Println(err)
		return
	}
	tools, err := tool.NewSet(weather)
	if err != nil {
		fmt.Println(err)
		return
	}
	a, err := agent.New(agent.Config{Model: gpt, Tools: tools, System: "You are brief."})
	if err != nil {
		fmt.Println(err)
		return
	}

	ctx := context.Background()
	r, err := a.Start(ctx, run.Options{}, rouse.Text("How is the weather in Oslo?"))
	if err != nil {
		fmt.Println(err)
		return
	}
	for ev, err := range r.Events(ctx) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if ev.Class == rouse.ClassFact {
			fmt.Println(ev.Type)
		}
	}
	answer, err := r.Wait(ctx)
	fmt.Println(answer.Text, err)
	// Output:
	// run.started
	// message
	// model.answer
	// tool.finished
	// model.answer
	// run.finished
	// It is sunny in Oslo. <nil>
}

// One error type crosses every border of a package: match on its code.
func ExampleError() {
	err := fmt.Errorf("saving the draft: %w", &rouse.Error{
		Code: rouse.CodeBusy, Op: "run.start", Message: "the thread has an open run", Hint: "wait for it to end",
	})
	fmt.Println(err)
	fmt.Println(rouse.CodeOf(err), rouse.CodeOf(err).Info().HTTP, rouse.CodeOf(err).Info().Retryable)
	// Output:
	// saving the draft: run.start: the thread has an open run
	// busy 409 true
}

// A message is made of parts; an assistant's may call tools.
func ExampleMessage() {
	m := rouse.Message{Role: rouse.RoleAssistant, Parts: []rouse.Part{
		rouse.Reasoning("the file will tell", ""),
		rouse.Text("Let me look."),
		rouse.CallPart(rouse.ToolCall{ID: "call_1", Name: "read", Args: `{"path":"a.txt"}`}),
	}}
	fmt.Println(m.Text())
	for _, c := range m.Calls() {
		fmt.Println(c.Name, c.Args)
	}
	fmt.Printf("%s\n", m.AppendJSON(nil))
	// Output:
	// Let me look.
	// read {"path":"a.txt"}
	// {"role":"assistant","parts":[{"type":"reasoning","text":"the file will tell"},{"type":"text","text":"Let me look."},{"type":"tool_call","call":{"id":"call_1","name":"read","args":"{\"path\":\"a.txt\"}"}}]}
}
