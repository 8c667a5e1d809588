package openai_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/model"
	"github.com/rouse-run/rouse/model/openai"
)

// A model that asks for a tool. The server of the example stands for any that
// speaks the protocol.
func Example() {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"choices":[{"index":0,"delta":{"content":"Let me look."}}]}

data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"weather","arguments":"{\"city\":\"Oslo\"}"}}]},"finish_reason":"tool_calls"}]}

data: [DONE]

`)
	}))
	defer srv.Close()

	m, err := openai.New(openai.Config{BaseURL: srv.URL + "/v1", APIKey: "secret", Model: "some-model"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.CloseIdleConnections()

	req := &model.Request{
		Messages: []rouse.Message{rouse.UserText("What is the weather in Oslo?")},
		Tools:    []model.ToolSpec{{Name: "weather", Description: "Tells the weather of a city."}},
		Memo:     new(model.Memo), // keep it for the conversation: messages are encoded once
	}
	for c, err := range m.Stream(context.Background(), req) {
		switch {
		case err != nil:
			fmt.Println(err)
		case c.Type == model.ChunkText:
			fmt.Println("text:", c.Text)
		case c.Type == model.ChunkCall:
			fmt.Println("call:", c.Name, c.ID)
		case c.Type == model.ChunkArgs:
			fmt.Println("args:", c.Text)
		case c.Type == model.ChunkStop:
			fmt.Println("stop:", c.Stop)
		}
	}
	// Output:
	// text: Let me look.
	// call: weather c1
	// args: {"city":"Oslo"}
	// stop: tool_use
}
