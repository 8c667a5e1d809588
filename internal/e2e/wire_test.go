package e2e_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/agent"
	"github.com/rouse-run/rouse/model"
	"github.com/rouse-run/rouse/model/mock"
	"github.com/rouse-run/rouse/run"
)

func TestOneIndexForTwoCalls(t *testing.T) {
	// Case 3: cloudwego/eino #361, PR #962, PR #1057.
	t.Parallel()
	call := func(s string) string { return `{"choices":[{"index":0,"delta":{"tool_calls":[` + s + `]}}]}` }
	const first, second = `{"index":0,"id":"a","function":{"name":"one","arguments":""}}`, `{"index":0,"id":"b","function":{"name":"two","arguments":""}}`
	stop := `{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`
	for name, deltas := range map[string][]string{
		"index only":      {first, `{"index":0,"function":{"arguments":"{\"n\":"}}`, `{"index":0,"function":{"arguments":"1}"}}`, second, `{"index":0,"function":{"arguments":"{\"n\":"}}`, `{"index":0,"function":{"arguments":"2}"}}`},
		"no index":        {first, `{"function":{"arguments":"{\"n\":"}}`, `{"function":{"arguments":"1}"}}`, second, `{"function":{"arguments":"{\"n\":"}}`, `{"function":{"arguments":"2}"}}`},
		"a string":        {first, `{"index":"0","function":{"arguments":"{\"n\":1}"}}`, second, `{"index":"0","function":{"arguments":"{\"n\":2}"}}`},
		"ids in each":     {first, second, `{"index":0,"id":"b","function":{"arguments":"{\"n\":2}"}}`, `{"index":0,"id":"a","function":{"arguments":"{\"n\":1}"}}`},
		"whole, no index": {`{"id":"a","function":{"name":"one","arguments":"{\"n\":1}"}}`, `{"id":"b","function":{"name":"two","arguments":"{\"n\":2}"}}`},
		"one event":       {`{"index":0,"id":"a","function":{"name":"one","arguments":"{\"n\":1}"}},{"index":0,"id":"b","function":{"name":"two","arguments":"{\"n\":2}"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var data []string
			for _, d := range deltas {
				data = append(data, call(d))
			}
			var h hands
			a := newAgent(t, agent.Config{Model: wrapped(rawProvider(t, events(append(data, stop)...), say("done"))), Tools: h.tools(t, "one", "two")})
			r, evs := drive(t, a, run.NewMemory(), "go")
			completed(t, r)
			ran := h.calls()
			slices.Sort(ran)
			if !slices.Equal(ran, []string{`one {"n":1}`, `two {"n":2}`}) {
				t.Errorf("ran %q", ran)
			}
			msg := decode[agent.AnswerData](t, of(evs, rouse.EventAnswer)[0]).Message
			want := []rouse.ToolCall{{ID: "a", Name: "one", Args: `{"n":1}`}, {ID: "b", Name: "two", Args: `{"n":2}`}}
			if !slices.Equal(msg.Calls(), want) {
				t.Errorf("the calls are %+v", msg.Calls())
			}
		})
	}
}

func TestEmptyChoicesAndOneUsage(t *testing.T) {
	// Case 5: tmc/langchaingo PR #284.
	t.Parallel()
	m := rawProvider(t, events(
		`{"choices":[],"prompt_filter_results":[{"prompt_index":0,"content_filter_results":{"hate":{"filtered":false}}}]}`,
		`{"choices":[{"index":0,"delta":{"role":"assistant","content":"Hello"}}],"usage":{"prompt_tokens":11,"completion_tokens":1}}`, // running totals, as some servers send
		`{"choices":[{"index":0,"delta":{"content":"."},"finish_reason":"stop"}],"usage":{"prompt_tokens":11,"completion_tokens":2}}`,
		`{"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":4}}}`,
	))
	a := newAgent(t, agent.Config{Model: wrapped(m)})
	r, evs := drive(t, a, run.NewMemory(), "go")
	ans := completed(t, r)
	want := rouse.Usage{Input: 11, Output: 3, CacheRead: 4}
	if ans.Text != "Hello." || ans.Usage != want || ans.Rounds != 1 {
		t.Errorf("got %+v", ans)
	}
	if got := decode[agent.AnswerData](t, of(evs, rouse.EventAnswer)[0]).Usage; got != want {
		t.Errorf("the journal has %+v", got)
	}
	if got := r.Spent(); got.InputTokens != 11 || got.OutputTokens != 3 || got.ModelCalls != 1 {
		t.Errorf("spent %+v", got)
	}
}

func TestLegalButUnusualStream(t *testing.T) {
	// Case 7: a2aproject/a2a-js #714; assistant-ui PR #4819; hey-api #3054; eventsource-parser #17.
	t.Parallel()
	const text = "a\u2028b漢🙂"
	stream := "\ufeff: a comment\r\n\r\nretry: 10\r\nevent: message\r\n" +
		"data:{\"choices\":[{\"index\":0,\r\ndata: \"delta\":{\"content\":\"a\u2028b\"}}]}\r\n\r\n" + // two data lines, CRLF
		"id: 7\rdata:{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"漢🙂\"}}]}\r\r" + // lone CR
		":\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"one\",\"arguments\":\"{\\\"s\\\":\\\"漢\\\"}\"}}]}}]}\n\n" +
		"data:{\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\r\n\r\ndata:[DONE]\r\n\r\n"
	for name, size := range map[string]int{"byte by byte": 1, "in threes": 3, "at once": len(stream)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			odd := func(w http.ResponseWriter) {
				for chunk := range slices.Chunk([]byte(stream), size) {
					_, _ = w.Write(chunk) // a client that has gone is the test's business
					_ = http.NewResponseController(w).Flush()
				}
			}
			var h hands
			a := newAgent(t, agent.Config{Model: wrapped(rawProvider(t, odd, say("done"))), Tools: h.tools(t, "one")})
			r, evs := drive(t, a, run.NewMemory(), "go")
			completed(t, r)
			if ran := h.calls(); !slices.Equal(ran, []string{`one {"s":"漢"}`}) {
				t.Errorf("ran %q", ran)
			}
			if got := decode[agent.AnswerData](t, of(evs, rouse.EventAnswer)[0]).Message.Text(); got != text {
				t.Errorf("the text is %q", got)
			}
			var streamed strings.Builder
			for _, ev := range of(evs, rouse.EventText) {
				streamed.WriteString(ev.Delta.Text)
			}
			if streamed.String() != text+"done" {
				t.Errorf("streamed %q", &streamed)
			}
		})
	}
}

// wireName is what providers accept as the name of a tool.
var wireName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

func TestToolNamesThatProvidersRefuse(t *testing.T) {
	// Case 10: mastra #6302; github/copilot-cli #1879; xorbitsai/xagent PR #1342.
	t.Parallel()
	long := strings.Repeat("very_long_", 7)
	names := []string{"fs.read", "fs/read", "fs read", "fs_read", "FS_READ", "读文件", "write.文", long + "tool_alpha", long + "tool_beta_"}
	var offered [][]string
	everyTool := func(req *model.Request) any {
		var calls []mock.Call
		var wire []string
		for _, s := range req.Tools {
			wire = append(wire, s.Name)
			b, _ := json.Marshal(map[string]string{"wire": s.Name}) // strings only
			calls = append(calls, mock.Call{Name: s.Name, Args: string(b)})
		}
		offered = append(offered, wire)
		return calls
	}
	g, m := provider(t, mock.Config{Rules: []mock.Rule{{Prompt: mock.Any, Sequence: []any{everyTool, everyTool, "done"}}}})
	var h hands
	a := newAgent(t, agent.Config{Model: wrapped(m), Tools: h.tools(t, names...), Parallel: 1})
	r, evs := drive(t, a, run.NewMemory(), "go")
	completed(t, r)

	if len(offered) != 2 || !slices.Equal(offered[0], offered[1]) {
		t.Fatalf("the names change from round to round: %q", offered)
	}
	for i, w := range offered[0] {
		if !wireName.MatchString(w) || slices.Index(offered[0], w) != i {
			t.Errorf("%q goes over the wire as %q", names[i], w)
		}
	}
	// Each call reached the tool whose wire name it used.
	var want []string
	for range 2 {
		for i, n := range names {
			want = append(want, n+` {"wire":"`+offered[0][i]+`"}`)
		}
	}
	if ran := h.calls(); !slices.Equal(ran, want) {
		t.Errorf("ran\n%q\nwanted\n%q", ran, want)
	}
	// Whoever reads events sees the real names.
	shown := map[string][]string{}
	for _, ev := range evs {
		switch ev.Type {
		case rouse.EventCallStarted, rouse.EventToolStarted:
			shown[string(ev.Type)] = append(shown[string(ev.Type)], ev.Delta.Name)
		case rouse.EventAnswer:
			for _, c := range decode[agent.AnswerData](t, ev).Message.Calls() {
				shown["answer"] = append(shown["answer"], c.Name)
			}
		case rouse.EventToolFinished:
			shown["result"] = append(shown["result"], decode[agent.ResultData](t, ev).Result.Name)
		case rouse.EventToolIntent:
			if got := decode[agent.IntentData](t, ev).Call.Name; got != "write.文" {
				t.Errorf("an intent of %q", got)
			}
		}
	}
	for _, what := range []string{string(rouse.EventCallStarted), string(rouse.EventToolStarted), "answer", "result"} {
		if got := shown[what]; !slices.Equal(got, slices.Concat(names, names)) {
			t.Errorf("%s shows %q", what, got)
		}
	}
	// What goes back names the calls as they went out.
	for i, c := range g.Requests()[1].Messages[1].Calls() {
		if c.Name != offered[0][i] {
			t.Errorf("call %d goes back as %q", i, c.Name)
		}
	}
	wellFormed(t, g.Requests())
}
