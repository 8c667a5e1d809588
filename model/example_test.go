package model_test

import (
	"context"
	"fmt"
	"time"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/model"
	"github.com/rouse-run/rouse/model/modeltest"
)

// The order of the wrappers matters. From the outside in: an answer that breaks
// off is continued by a new request; a model that keeps failing is not asked; a
// request that fails at once is sent again; the wait for that holds no slot; the
// time limits are those of one request.
func ExampleChain() {
	wire := modeltest.NewScript(
		modeltest.Fail(&rouse.Error{Code: rouse.CodeOverloaded, Message: "no room"}),
		modeltest.Chunks(model.Chunk{Type: model.ChunkText, Text: "Hello, wo"}), // and then the connection breaks
		modeltest.Say("rld"),
	)
	brief := model.BackoffConfig{Base: time.Millisecond}
	m := model.Chain(wire,
		model.Recover(model.RecoverConfig{Backoff: brief}),
		model.Breaker(model.BreakerConfig{}),
		model.Retry(model.RetryConfig{Backoff: brief}),
		model.Limit(model.LimitConfig{InFlight: 8}),
		model.Timeouts(model.TimeoutConfig{Idle: 30 * time.Second}),
	)
	for c, err := range m.Stream(context.Background(), &model.Request{Messages: []rouse.Message{rouse.UserText("Say hello.")}}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Print(c.Text)
	}
	fmt.Println()
	// Output: Hello, world
}

func ExampleFolder() {
	var f model.Folder
	for _, c := range []model.Chunk{
		{Type: model.ChunkText, Text: "Let me "},
		{Type: model.ChunkText, Text: "look."},
		{Type: model.ChunkCall, Index: 0, ID: "call_1", Name: "read"},
		{Type: model.ChunkArgs, Index: 0, Text: `{"path":`},
		{Type: model.ChunkArgs, Index: 0, Text: `"a.txt"}`},
		{Type: model.ChunkStop, Stop: model.StopTools},
	} {
		if err := f.Add(c); err != nil {
			fmt.Println(err)
			return
		}
	}
	a, err := f.Answer()
	fmt.Println(a.Message.Text(), a.Message.Calls()[0].Args, a.Stop, err)
	fmt.Println(a.Cuts)
	// Output:
	// Let me look. {"path":"a.txt"} tool_use <nil>
	// t7,5ca0:8,8
}

func ExampleReplay() {
	stored := model.Answer{
		Message: rouse.Message{Role: rouse.RoleAssistant, Parts: []rouse.Part{rouse.Text("Hello, world")}},
		Stop:    model.StopEnd,
		Cuts:    "t7,5",
	}
	for c, err := range model.Replay(stored) {
		fmt.Printf("%q %s %v\n", c.Text, c.Stop, err)
	}
	// Output:
	// "Hello, "  <nil>
	// "world"  <nil>
	// "" end <nil>
}

func ExamplePlanRecovery() {
	var f model.Folder
	for _, c := range []model.Chunk{
		{Type: model.ChunkText, Text: "Let me look."},
		{Type: model.ChunkCall, Index: 0, ID: "call_1", Name: "read"},
		{Type: model.ChunkArgs, Index: 0, Text: `{"pa`},
	} {
		if err := f.Add(c); err != nil {
			fmt.Println(err)
			return
		}
	}
	p := model.PlanRecovery(f.Partial(), &rouse.Error{Code: rouse.CodeStreamCut})
	fmt.Println(p.Kind, p.Keep.Message.Text(), len(p.Dropped))
	// Output: truncate Let me look. 1
}
