package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rouse-run/rouse/bench/internal/mockllm"
	"github.com/rouse-run/rouse/bench/internal/workload"
)

// ready returns a peer that is prepared for a workload against a server.
func ready(t *testing.T, e entry, w workload.Workload, url string) (peer, *workload.Tools) {
	t.Helper()
	tools := new(workload.Tools)
	p := e.New()
	t.Cleanup(p.Close)
	if err := p.Prepare(workload.Task{Workload: w, BaseURL: url + "/v1", Dir: t.TempDir(), Tools: tools}); err != nil {
		t.Fatal(err)
	}
	return p, tools
}

func TestPeersDoTheWorkloads(t *testing.T) {
	t.Parallel()
	for _, e := range allPeers() {
		for _, w := range workload.All() {
			t.Run(e.Name+" "+w.Name, func(t *testing.T) {
				t.Parallel()
				s, err := mockllm.Start(mockllm.Config{})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(s.Close)
				p, tools := ready(t, e, w, s.URL())
				const runs = 4
				errs := make([]error, runs)
				var wg sync.WaitGroup
				for id := range runs {
					wg.Go(func() {
						res, err := p.Run(t.Context(), id)
						errs[id] = errors.Join(err, w.Check(res))
					})
				}
				wg.Wait()
				if err := errors.Join(errs...); err != nil {
					t.Error(err)
				}
				if want := int64(runs * w.Model.Rounds * w.Model.Calls); tools.Calls() != want {
					t.Errorf("%d calls of the tools, want %d", tools.Calls(), want)
				}
			})
		}
	}
}

// conversation is what the tests read of a request.
type conversation struct {
	Tools    []any
	Messages []struct {
		Role       string
		Content    string
		ToolCallID string `json:"tool_call_id"`
		ToolCalls  []struct {
			ID       string
			Function struct{ Name, Arguments string }
		} `json:"tool_calls"`
	}
}

// TestPeersSayTheSame looks at the last request of a W2 run: every peer sends
// the whole conversation, with each call's result under its id.
func TestPeersSayTheSame(t *testing.T) {
	t.Parallel()
	w, err := workload.Named("W2")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range allPeers() {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			var last []byte
			s, err := mockllm.Start(mockllm.Config{Observe: func(b []byte) { last = bytes.Clone(b) }})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(s.Close)
			p, _ := ready(t, e, w, s.URL())
			if _, err := p.Run(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			var c conversation
			if err := json.Unmarshal(last, &c); err != nil {
				t.Fatalf("%v: %s", err, last)
			}
			checkConversation(t, c)
		})
	}
}

func checkConversation(t *testing.T, c conversation) {
	t.Helper()
	// system, user, and three rounds of an answer and four results
	if len(c.Tools) != 2 || len(c.Messages) != 17 || c.Messages[0].Content != workload.SystemPrompt || c.Messages[1].Content != workload.UserPrompt {
		t.Fatalf("%d tools, %d messages, %+v", len(c.Tools), len(c.Messages), c.Messages)
	}
	for round := range 3 {
		answer := c.Messages[2+5*round]
		if answer.Role != "assistant" || len(answer.ToolCalls) != 4 {
			t.Fatalf("round %d: %+v", round, answer)
		}
		for i, call := range answer.ToolCalls {
			result := c.Messages[3+5*round+i]
			if result.Role != "tool" || result.ToolCallID != call.ID || call.ID == "" {
				t.Errorf("round %d, call %d: %+v answers %+v", round, i, result, call)
			}
			want := `"city":"Paris-`
			if call.Function.Name == workload.AddName {
				want = `{"sum":`
			}
			if !strings.Contains(result.Content, want) || !json.Valid([]byte(call.Function.Arguments)) {
				t.Errorf("round %d: %s(%s) is %s", round, call.Function.Name, call.Function.Arguments, result.Content)
			}
		}
	}
}

func TestPeersFail(t *testing.T) {
	t.Parallel()
	call := func(name, args string) string {
		return `data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"` + name + `","arguments":"` + args + `"}}]}}]}` +
			"\n\ndata: [DONE]\n\n"
	}
	for name, answer := range map[string]func(w http.ResponseWriter){
		"status": func(w http.ResponseWriter) { http.Error(w, "no", http.StatusTeapot) },
		"cut off": func(w http.ResponseWriter) {
			_, _ = w.Write([]byte(`data: {"choices":[{"delta":{"content":"a"}}]}` + "\n\n"))
		},
		"malformed":     func(w http.ResponseWriter) { _, _ = w.Write([]byte("data: {\n\ndata: [DONE]\n\n")) },
		"unknown tool":  func(w http.ResponseWriter) { _, _ = w.Write([]byte(call("rm", "{}"))) },
		"bad arguments": func(w http.ResponseWriter) { _, _ = w.Write([]byte(call("add", "{"))) },
	} {
		for _, e := range []entry{allPeers()[0], allPeers()[1]} {
			t.Run(name+" "+e.Name, func(t *testing.T) {
				t.Parallel()
				s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w) }))
				t.Cleanup(s.Close)
				w, err := workload.Named("W1")
				if err != nil {
					t.Fatal(err)
				}
				p, _ := ready(t, e, w, s.URL)
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				if _, err := p.Run(ctx, 1); err == nil || ctx.Err() != nil {
					t.Errorf("got %v", err)
				}
			})
		}
	}
}
