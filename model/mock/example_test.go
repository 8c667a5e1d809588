package mock_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/model"
	"github.com/rouse-run/rouse/model/mock"
)

// Say what is answered to which prompt.
func ExampleNew() {
	gpt, err := mock.New(mock.Config{Rules: []mock.Rule{
		{Prompt: "service status", Generator: map[string]bool{"online": true}},
		{Prompt: regexp.MustCompile(`^translate `), Generator: func(r *model.Request) string {
			return strings.ToUpper(strings.TrimPrefix(r.Messages[0].Text(), "translate "))
		}},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, prompt := range []string{"What is the service status?", "translate hello", "sing"} {
		m, err := gpt.Generate(context.Background(), &model.Request{Messages: []rouse.Message{rouse.UserText(prompt)}})
		if err != nil {
			fmt.Println(rouse.CodeOf(err), err)
			continue
		}
		fmt.Println(m.Text())
	}
	// Output:
	// {"online":true}
	// HELLO
	// not_found model mock: no rule of the scripted model matches the prompt "sing"
}

// Script the rounds of an agent: first a call, then the answer.
func ExampleCalls() {
	gpt, err := mock.New(mock.Config{Strict: true, Rules: []mock.Rule{{Prompt: "weather", Sequence: []any{
		mock.Calls(mock.Call{ID: "c1", Name: "weather", Args: map[string]string{"city": "Oslo"}}),
		"It rains in Oslo.",
	}}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	req := &model.Request{Messages: []rouse.Message{rouse.UserText("How is the weather?")}}
	asked, err := gpt.Generate(context.Background(), req)
	if err != nil {
		fmt.Println(err)
		return
	}
	call := asked.Calls()[0]
	fmt.Println(call.Name, call.Args)
	req.Messages = append(req.Messages, asked, rouse.ResultMessage(rouse.ToolResult{CallID: call.ID, Output: "rain"}))
	said, err := gpt.Generate(context.Background(), req)
	fmt.Println(said.Text(), err)
	// Output:
	// weather {"city":"Oslo"}
	// It rains in Oslo. <nil>
}

// Let the first attempt fail and the second one succeed.
func ExampleFault() {
	gpt, err := mock.New(mock.Config{Rules: []mock.Rule{{Prompt: mock.Any, Sequence: []any{
		mock.Result{Fault: mock.Fault{Status: http.StatusTooManyRequests, RetryAfter: 3e9}},
		mock.Result{Text: "never whole", Fault: mock.Fault{Break: mock.BreakReset, AfterChunks: 1}},
		"at last",
	}}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		m, err := gpt.Generate(context.Background(), &model.Request{Messages: []rouse.Message{rouse.UserText("hello")}})
		fmt.Printf("%q %s\n", m.Text(), rouse.CodeOf(err))
	}
	// Output:
	// "" rate_limited
	// "" stream_cut
	// "at last"
}

// Give an ordinary client of the wire a transport without a socket.
func ExampleGPT_RoundTripper() {
	gpt, err := mock.New(mock.Config{Rules: []mock.Rule{{Prompt: "hello", Generator: "hello yourself"}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: gpt.RoundTripper()}
	resp, err := client.Post("https://api.example.com/v1/chat/completions", "application/json",
		strings.NewReader(`{"model":"demo","messages":[{"role":"user","content":"hello"}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	var answer struct {
		Choices []struct {
			Message struct{ Content string }
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(answer.Choices[0].Message.Content)
	// Output: hello yourself
}

// Start a server for a program that only takes a base URL.
func ExampleGPT_NewServer() {
	gpt, err := mock.New(mock.Config{Rules: mock.Demo()})
	if err != nil {
		fmt.Println(err)
		return
	}
	server, err := gpt.NewServer()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(server.BaseURL() + "/models")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	fmt.Println(string(body), err)
	// Output: {"object":"list","data":[{"id":"mock","object":"model","created":1735689600,"owned_by":"rouse"}]} <nil>
}

// Run the demo by hand: it says of itself that it is a script.
func ExampleDemo() {
	gpt, err := mock.New(mock.Config{Rules: mock.Demo()})
	if err != nil {
		fmt.Println(err)
		return
	}
	req := &model.Request{Messages: []rouse.Message{rouse.UserText("what is here?")},
		Tools: []model.ToolSpec{{Name: "list_dir", Schema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}}}`)}}}
	m, err := gpt.Generate(context.Background(), req)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(m.Calls()[0].Name, m.Calls()[0].Args)
	// Output: list_dir {"path":"."}
}
