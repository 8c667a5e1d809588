package agent_test

import (
	"context"
	"fmt"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/agent"
	"github.com/rouse-run/rouse/model/mock"
	"github.com/rouse-run/rouse/run"
	"github.com/rouse-run/rouse/tool"
)

// Give an agent a tool made of a Go function, and watch it work.
func ExampleAgent_Start() {
	ctx := context.Background()
	weather, err := tool.Func(tool.FuncConfig{Name: "weather", Description: "The weather in a city", Effect: tool.ReadOnly},
		func(_ context.Context, in struct {
			City string `json:"city"`
		}) (string, error) {
			return "rain in " + in.City, nil
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
	gpt, err := mock.New(mock.Config{Rules: []mock.Rule{{Prompt: "umbrella", Sequence: []any{
		mock.Calls(mock.Call{Name: "weather", Args: map[string]string{"city": "Oslo"}}), "Yes, take one.",
	}}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	a, err := agent.New(agent.Config{Model: gpt, Tools: tools, System: "Be brief."})
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := a.Start(ctx, run.Options{}, rouse.Text("Do I need an umbrella in Oslo?"))
	if err != nil {
		fmt.Println(err)
		return
	}
	for ev, err := range r.Events(ctx) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if ev.Type == rouse.EventToolStarted {
			fmt.Println("calls", ev.Delta.Name)
		}
	}
	answer, err := r.Wait(ctx)
	fmt.Println(answer.Text, answer.Rounds, err)
	// Output:
	// calls weather
	// Yes, take one. 2 <nil>
}
