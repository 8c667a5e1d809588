package openai_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/model"
	"github.com/rouse-run/rouse/model/openai"
)

const usageEvent = `{"id":"c","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"prompt_tokens_details":{"cached_tokens":4}}}`

// Cases 4 and 7: an answer of every kind of delta reads the same in every legal
// shape of the stream and with every split of its bytes over reads.
func TestSplits(t *testing.T) {
	t.Parallel()
	plain := event(`{"choices":[],"prompt_filter_results":[]}`) + delta(`{"role":"assistant","content":""}`) +
		delta(`{"reasoning_content":"hm\u2028m"}`) + delta(`{"content":"Let me "}`) + delta(`{"content":"löök 漢字🙂"}`) +
		delta(`{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}]}`) +
		delta(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"x\":"}}]}`) +
		delta(`{"tool_calls":[{"index":0,"function":{"arguments":"\"é\"}"}}]}`) +
		finish("tool_calls") + event(usageEvent) + done
	shapes := map[string]string{
		"LF":             plain,
		"CRLF":           strings.ReplaceAll(plain, "\n", "\r\n"),
		"CR":             strings.ReplaceAll(plain, "\n", "\r"),
		"no space":       strings.ReplaceAll(plain, "data: ", "data:"),
		"several lines":  strings.ReplaceAll(plain, `"choices":`, "\ndata: \"choices\":"),
		"comments":       ": OPENROUTER PROCESSING\n\n" + strings.ReplaceAll(plain, "data: ", ": ping\ndata: "),
		"mark":           "\ufeff" + plain,
		"named":          strings.ReplaceAll(plain, "data: ", "event: message\nid: 3\ndata: "),
		"no last blank":  strings.TrimSuffix(plain, "\n\n"),
		"no done":        strings.TrimSuffix(plain, done),
		"no done, cut":   strings.TrimSuffix(strings.TrimSuffix(plain, done), "\n\n"),
		"blank in front": "\n\n \r\n" + plain,
	}
	const want = "\n2/0 hm\u2028m\n1/0 Let me löök 漢字🙂\n4/0 af\n5/0 {\"x\":\"é\"}\n6/0 \n8/0 tool_use"
	for name, s := range shapes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var body io.Reader
			m := newModel(t, openai.Config{Transport: canned{body: func() io.Reader { return body }}})
			check := func(how string, r io.Reader) {
				t.Helper()
				body = r
				g := collect(t, m, t.Context(), hello())
				if g.trace != want || g.err != nil || g.usage != (rouse.Usage{Input: 10, Output: 5, CacheRead: 4}) {
					t.Fatalf("%s: %s %+v %v", how, g.trace, g.usage, g.err)
				}
			}
			check("whole", strings.NewReader(s))
			check("bytes", iotest.OneByteReader(strings.NewReader(s)))
			check("EOF with data", iotest.DataErrReader(strings.NewReader(s)))
			for i := range len(s) {
				check(fmt.Sprintf("cut at %d", i), io.MultiReader(strings.NewReader(s[:i]), strings.NewReader(s[i:])))
			}
		})
	}
}

// The same over a real connection, one TCP write per byte.
func TestBytesOverTCP(t *testing.T) {
	t.Parallel()
	body := delta(`{"content":"é漢"}`) + finish("stop") + event(usageEvent) + done
	s := newRawServer(t, func(c net.Conn, _ int) bool {
		for _, b := range []byte(chunked(body)) {
			if _, err := c.Write([]byte{b}); err != nil {
				return false
			}
		}
		return true
	})
	m := newModel(t, openai.Config{BaseURL: s.url})
	for range 3 {
		if g := collect(t, m, t.Context(), hello()); g.text != "é漢" || g.stop != model.StopEnd || g.usage.Input != 10 {
			t.Fatalf("%+v", g)
		}
	}
	if n := s.connections(); n != 1 {
		t.Errorf("%d connections for three answers", n)
	}
}

func calls(list ...string) []rouse.ToolCall {
	var out []rouse.ToolCall
	for _, s := range list {
		f := strings.SplitN(s, " ", 3)
		out = append(out, rouse.ToolCall{ID: f[0], Name: f[1], Args: f[2]})
	}
	return out
}

// Cases 3, 5 and more: the ways in which servers stream calls.
func TestToolCallShapes(t *testing.T) {
	t.Parallel()
	call := func(list string) string { return delta(`{"tool_calls":[` + list + `]}`) }
	for name, c := range map[string]struct {
		stream string
		finish string
		want   []rouse.ToolCall
	}{
		"one index for two calls (eino #361)": {
			stream: call(`{"index":0,"id":"a","function":{"name":"f","arguments":""}}`) + call(`{"index":0,"id":"b","function":{"name":"g","arguments":""}}`) +
				call(`{"index":0,"function":{"arguments":"{\"k\""}}`) + call(`{"function":{"arguments":":"}}`) + call(`{"index":"0","function":{"arguments":"1}"}}`),
			want: calls(`a f `, `b g {"k":1}`),
		},
		"interleaved": {
			stream: call(`{"index":0,"id":"a","function":{"name":"f"}},{"index":1,"id":"b","function":{"name":"f"}}`) +
				call(`{"index":1,"function":{"arguments":"{\"n\":"}}`) + call(`{"index":0,"function":{"arguments":"{\"n\":"}}`) +
				call(`{"index":0,"function":{"arguments":"0}"}},{"index":1,"function":{"arguments":"1}"}}`),
			want: calls(`a f {"n":0}`, `b f {"n":1}`),
		},
		"whole calls, no ids, no index (Ollama of old)": {
			stream: call(`{"function":{"name":"f","arguments":"{\"n\":1}"}},{"function":{"name":"f","arguments":"{\"n\":1}"}}`),
			finish: "stop",
			want:   calls(`call_0 f {"n":1}`, `call_1 f {"n":1}`),
		},
		"whole calls at one index": {
			stream: call(`{"index":0,"function":{"name":"f","arguments":"{\"n\":1}"}}`) + call(`{"index":0,"function":{"name":"f","arguments":"{\"n\":2}"}}`),
			want:   calls(`call_0 f {"n":1}`, `call_1 f {"n":2}`),
		},
		"one id for two calls": {
			stream: call(`{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}},{"index":1,"id":"a","function":{"name":"f","arguments":"{}"}}`) +
				call(`{"index":2,"id":"a_2","function":{"name":"f","arguments":"{}"}}`),
			want: calls(`a f {}`, `a_2 f {}`, `a_2_2 f {}`),
		},
		"id and name in every delta": {
			stream: call(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"n\""}}`) + call(`{"index":0,"id":"a","function":{"name":"f","arguments":":1}"}}`),
			want:   calls(`a f {"n":1}`),
		},
		"a new id in every delta (vLLM of old)": {
			stream: call(`{"index":0,"id":"r1","function":{"name":"f"}}`) + call(`{"index":0,"id":"r2","function":{"arguments":"{\"n\""}}`) + call(`{"index":0,"id":"r3","function":{"name":null,"arguments":":1}"}}`),
			want:   calls(`r1 f {"n":1}`),
		},
		"empty id and name in later deltas": {
			stream: call(`{"index":0,"id":"a","function":{"name":"f","arguments":""}}`) + call(`{"index":0,"id":"","function":{"name":"","arguments":"{}"}}`),
			want:   calls(`a f {}`),
		},
		"ids without index": {
			stream: call(`{"id":"a","function":{"name":"f"}}`) + call(`{"id":"b","function":{"name":"g"}}`) + call(`{"id":"a","function":{"arguments":"{\"n\":0}"}}`) + call(`{"id":"b","function":{"arguments":"{}"}}`),
			want:   calls(`a f {"n":0}`, `b g {}`),
		},
		"index only in later deltas": {
			stream: call(`{"id":"a","function":{"name":"f"}}`) + call(`{"index":0,"function":{"arguments":"{}"}}`),
			want:   calls(`a f {}`),
		},
		"name after the arguments began": {
			stream: call(`{"index":0,"id":"a"}`) + call(`{"index":0,"function":{"arguments":"{\"n\""}}`) + call(`{"index":0,"function":{"name":"f","arguments":":1}"}}`),
			want:   calls(`a f {"n":1}`),
		},
		"index from 1, and gaps": {
			stream: call(`{"index":1,"id":"a","function":{"name":"f","arguments":"{}"}}`) + call(`{"index":7,"id":"b","function":{"name":"g","arguments":"{}"}}`),
			want:   calls(`a f {}`, `b g {}`),
		},
		"arguments as an object": {
			stream: call(`{"index":0,"id":"a","function":{"name":"f","arguments":{"n": 1.10}}}`),
			want:   calls(`a f {"n": 1.10}`),
		},
		"no arguments at all (pydantic-ai #1512)": {
			stream: call(`{"index":0,"id":"a","function":{"name":"f"}}`) + call(`{"index":1,"id":"b","function":{"name":"g","arguments":" "}}`) + call(`{"index":2,"id":"c","function":{"name":"h","arguments":null}}`),
			want:   calls(`a f `, `b g  `, `c h `),
		},
		"malformed, not cut (openai-agents-js #723)": {
			stream: call(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"{\"ids\":[1"}},{"index":1,"id":"b","function":{"name":"g","arguments":"{}"}}`),
			want:   calls(`a f {"{"ids":[1`, `b g {}`),
		},
		"numbers as ids": {
			stream: call(`{"index":0,"id":17,"function":{"name":"f","arguments":"{}"}}`),
			want:   calls(`17 f {}`),
		},
		"legacy function_call": {
			stream: delta(`{"function_call":{"name":"f","arguments":"{\"n\""}}`) + delta(`{"function_call":{"arguments":":1}"}}`),
			finish: "function_call",
			want:   calls(`call_0 f {"n":1}`),
		},
		"the reason says stop (eino #892)": {
			stream: call(`{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}`), finish: "stop", want: calls(`a f {}`),
		},
		"limit reached behind a whole call": {
			stream: call(`{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}`), finish: "length", want: calls(`a f {}`),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reason := c.finish
			if reason == "" {
				reason = "tool_calls"
			}
			_, m := answering(t, chunked(c.stream+finish(reason)+done))
			g := collect(t, m, t.Context(), hello())
			stop := model.StopTools
			if reason == "length" {
				stop = model.StopLength
			}
			if g.err != nil || fmt.Sprint(g.calls) != fmt.Sprint(c.want) || g.stop != stop {
				t.Errorf("got %q %s %v, want %q", g.calls, g.stop, g.err, c.want)
			}
		})
	}
}

// Case 6 (pydantic-ai #6610, vllm #53269): an answer that breaks off never ends
// with a stop, and the error says how it broke.
func TestCuts(t *testing.T) {
	t.Parallel()
	begun := delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"write","arguments":"{\"path\":\"a.txt\",\"conte"}}]}`)
	whole := delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"write","arguments":"{}"}}]}`)
	for name, c := range map[string]struct {
		response string
		words    []string
	}{
		"end of the connection":    {untilClose(begun), []string{"ended without a finish reason", "write"}},
		"end of the chunks":        {chunked(begun), []string{"ended without a finish reason", "write"}},
		"end behind a whole call":  {chunked(whole), []string{"ended without a finish reason"}},
		"end behind text":          {chunked(delta(`{"content":"Hel"}`)), []string{"ended without a finish reason"}},
		"end within an event":      {chunked(delta(`{"content":"Hel"}`) + `data: {"choices":[{"index":0,"delta":{"content":"lo`), []string{"ended without a finish reason"}},
		"end at once":              {chunked(""), []string{"ended without a finish reason"}},
		"only done":                {chunked(done), []string{"ended without a finish reason"}},
		"only blank lines":         {chunked("\n\n"), []string{"ended without a finish reason"}},
		"limit":                    {chunked(begun + finish("length") + done), []string{"limit of output tokens", `"length"`, "write"}},
		"limit before arguments":   {chunked(delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"write","arguments":""}}]}`) + finish("length") + done), []string{"limit of output tokens"}},
		"false tool_calls":         {chunked(begun + finish("tool_calls") + done), []string{`"tool_calls"`, "cut off", "write"}},
		"false stop":               {chunked(begun + finish("stop") + done), []string{`"stop"`, "cut off", "write"}},
		"filter":                   {chunked(begun + finish("content_filter") + done), []string{"content_filter", "write"}},
		"done without reason":      {chunked(begun + done), []string{"write"}},
		"broken in the chunk":      {sseHead + "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n" + "fff\r\n" + begun, []string{"connection broke", "write"}},
		"broken before the chunk":  {sseHead + "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n", []string{"connection broke"}},
		"a call cut, then another": {chunked(begun + delta(`{"tool_calls":[{"index":1,"id":"b","function":{"name":"g","arguments":"{}"}}]}`) + finish("tool_calls") + done), []string{"cut off", "write"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, m := answering(t, c.response)
			wantCode(t, collect(t, m, t.Context(), hello()).err, rouse.CodeStreamCut, c.words...)
		})
	}
}

func TestEnds(t *testing.T) {
	t.Parallel()
	text := delta(`{"content":"x"}`)
	call := delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}`)
	for name, c := range map[string]struct {
		body string
		want model.StopReason
	}{
		"stop":                         {text + finish("stop") + done, model.StopEnd},
		"length":                       {text + finish("length") + done, model.StopLength},
		"filtered":                     {text + finish("content_filter") + done, model.StopFiltered},
		"tool_calls without calls":     {text + finish("tool_calls") + done, model.StopEnd},
		"unknown reason":               {text + finish("eos_token") + done, model.StopEnd},
		"unknown reason with calls":    {call + finish("eos_token") + done, model.StopTools},
		"stop sequence":                {text + event(`{"choices":[{"index":0,"delta":{},"finish_reason":"stop","stop_reason":"END"}]}`) + done, model.StopSequence},
		"reason with the last text":    {event(`{"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]}`) + done, model.StopEnd},
		"done without reason":          {text + done, model.StopEnd},
		"done without reason, calls":   {call + done, model.StopTools},
		"reason without done":          {text + finish("stop"), model.StopEnd},
		"empty and null reasons":       {event(`{"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":""}]}`) + event(`{"choices":[{"index":0,"delta":{},"finish_reason":"null"}]}`) + finish("stop") + done, model.StopEnd},
		"chunks behind done are noise": {text + finish("stop") + done + event("{broken") + text, model.StopEnd},
		"empty answer":                 {finish("stop") + done, model.StopEnd},
		"empty events":                 {"data:\n\n" + text + "data: \n\n" + event(`{"type":"ping"}`) + finish("stop") + done, model.StopEnd},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, m := answering(t, chunked(c.body))
			if g := collect(t, m, t.Context(), hello()); g.err != nil || g.stop != c.want {
				t.Errorf("%s %v", g.stop, g.err)
			}
		})
	}
}

// A connection that breaks behind the finish reason took nothing of the answer.
func TestBrokenBehindTheReason(t *testing.T) {
	t.Parallel()
	body := delta(`{"content":"x"}`) + finish("stop")
	_, m := answering(t, sseHead+"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"+fmt.Sprintf("%x\r\n%s\r\n", len(body), body))
	if g := collect(t, m, t.Context(), hello()); g.err != nil || g.text != "x" {
		t.Errorf("%+v", g)
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	with := func(usage string) string {
		return event(`{"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}],"usage":` + usage + `}`)
	}
	for name, c := range map[string]struct {
		body string
		want rouse.Usage
	}{
		"last of all":      {with("null") + finish("stop") + event(usageEvent), rouse.Usage{Input: 10, Output: 5, CacheRead: 4}},
		"in every event":   {with(`{"prompt_tokens":9,"completion_tokens":1}`) + with(`{"prompt_tokens":9,"completion_tokens":2}`) + finish("stop"), rouse.Usage{Input: 9, Output: 2}},
		"none":             {with("null") + finish("stop"), rouse.Usage{}},
		"DeepSeek":         {finish("stop") + event(`{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2,"prompt_cache_hit_tokens":8,"prompt_cache_miss_tokens":1}}`), rouse.Usage{Input: 9, Output: 2, CacheRead: 8}},
		"OpenRouter":       {finish("stop") + event(`{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2,"cost":0.000125}}`), rouse.Usage{Input: 9, Output: 2, MicroUSD: 125}},
		"reasoning within": {finish("stop") + event(`{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":7,"total_tokens":16,"completion_tokens_details":{"reasoning_tokens":5}}}`), rouse.Usage{Input: 9, Output: 7, Reasoning: 5}},
		"reasoning beside": {finish("stop") + event(`{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":16,"completion_tokens_details":{"reasoning_tokens":5}}}`), rouse.Usage{Input: 9, Output: 7, Reasoning: 5}},
		"in the choice":    {event(`{"choices":[{"index":0,"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":9,"completion_tokens":2}}]}`), rouse.Usage{Input: 9, Output: 2}},
		"Groq":             {finish("stop") + event(`{"choices":[],"x_groq":{"usage":{"prompt_tokens":9,"completion_tokens":2}}}`), rouse.Usage{Input: 9, Output: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, m := answering(t, chunked(c.body+done))
			if g := collect(t, m, t.Context(), hello()); g.err != nil || g.usage != c.want {
				t.Errorf("%+v %v", g.usage, g.err)
			}
		})
	}
}

func TestReasoningShapes(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"reasoning_content": delta(`{"reasoning_content":"a"}`) + delta(`{"reasoning_content":"b","content":""}`),
		"reasoning":         delta(`{"reasoning":"a"}`) + delta(`{"reasoning":"b","content":null}`),
		"both":              delta(`{"reasoning":"a","reasoning_content":"a"}`) + delta(`{"reasoning":"b","reasoning_content":"b"}`),
		"details":           delta(`{"reasoning_details":[{"type":"reasoning.text","text":"a"}]}`) + delta(`{"reasoning":"b","reasoning_details":[{"type":"reasoning.text","text":"b"}]}`),
		"parts":             delta(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"ab"}]}]}`),
	} {
		_, m := answering(t, chunked(body+delta(`{"content":"x"}`)+finish("stop")+done))
		if g := collect(t, m, t.Context(), hello()); g.reasoning != "ab" || g.text != "x" || g.err != nil {
			t.Errorf("%s: %+v", name, g)
		}
	}
	signed := delta(`{"reasoning":"a","reasoning_details":[{"type":"reasoning.text","text":"a"}]}`) +
		delta(`{"reasoning_details":[{"type":"reasoning.text","signature":"s=="}]}`) +
		delta(`{"reasoning_details":[{"type":"reasoning.encrypted","data":"d","id":"r1"}]}`)
	_, m := answering(t, chunked(signed+finish("stop")+done))
	g := collect(t, m, t.Context(), hello())
	if g.reasoning != "a" || fmt.Sprint(g.signatures) != `[s== {"type":"reasoning.encrypted","data":"d","id":"r1"}]` {
		t.Errorf("%+v", g)
	}
}

// Several signed blocks keep their order.
func TestReasoningBlocks(t *testing.T) {
	t.Parallel()
	block := `{"type":"reasoning.text","text":"%d","signature":"s%d"}`
	_, m := answering(t, chunked(delta(`{"reasoning":"12","reasoning_details":[`+fmt.Sprintf(block, 1, 1)+`,`+fmt.Sprintf(block, 2, 2)+`]}`)+finish("stop")+done))
	if g := collect(t, m, t.Context(), hello()); g.trace != "\n2/0 1\n3/0 s1\n2/0 2\n3/0 s2\n8/0 end" {
		t.Errorf("%q", g.trace)
	}
}

// Some proxies answer a request for a stream with a document.
func TestDocument(t *testing.T) {
	t.Parallel()
	doc := `{"id":"c","object":"chat.completion","choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","content":"hi","reasoning_content":"hm",` +
		`"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]}}],` +
		`"usage":{"prompt_tokens":3,"completion_tokens":2}}`
	head := "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "
	for name, body := range map[string]string{"plain": doc, "after keep-alive lines": "\n\n   \n" + doc} {
		_, m := answering(t, fmt.Sprintf("%s%d\r\n\r\n%s", head, len(body), body))
		g := collect(t, m, t.Context(), hello())
		if g.trace != "\n2/0 hm\n1/0 hi\n4/0 af\n5/0 {}\n4/1 a_2f\n5/1 {}\n6/0 \n8/0 tool_use" || g.err != nil {
			t.Errorf("%s: %s %v", name, g.trace, g.err)
		}
	}
	_, m := answering(t, chunked(event(doc)+done))
	if g := collect(t, m, t.Context(), hello()); g.text != "hi" || len(g.calls) != 2 {
		t.Errorf("as one event: %+v", g)
	}
	for body, code := range map[string]rouse.Code{
		`{"error":{"message":"no","type":"invalid_request_error"}}`: rouse.CodeProviderRefused,
		`{"choices":[{"index":0,"message":{"content":"cut`:          rouse.CodeProviderOutput,
		`<html><body>Sign in</body></html>`:                         rouse.CodeProviderOutput,
		`{"choices":[]}`:                                            rouse.CodeStreamCut,
	} {
		_, m := answering(t, fmt.Sprintf("%s%d\r\n\r\n%s", head, len(body), body))
		wantCode(t, collect(t, m, t.Context(), hello()).err, code)
	}
}

func TestErrorsWithinTheStream(t *testing.T) {
	t.Parallel()
	text := delta(`{"content":"x"}`)
	for name, c := range map[string]struct {
		body string
		code rouse.Code
	}{
		"error object":       {text + event(`{"error":{"message":"boom","type":"server_error"}}`) + done, rouse.CodeProvider},
		"with a choice":      {text + event(`{"error":{"code":429,"message":"boom"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}`), rouse.CodeRateLimited},
		"named event":        {text + "event: error\ndata: {\"message\":\"boom\"}\n\n", rouse.CodeProvider},
		"not JSON":           {text + event(`boom`), rouse.CodeProviderOutput},
		"reason error":       {text + finish("error") + done, rouse.CodeProvider},
		"no resources":       {text + finish("insufficient_system_resource") + done, rouse.CodeOverloaded},
		"a call, no name":    {event(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"arguments":"{}"}}]}}]}`) + finish("tool_calls") + done, rouse.CodeProviderOutput},
		"too many calls":     {strings.Repeat(delta(`{"tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}`), 600), rouse.CodeProviderOutput},
		"behind the finish":  {text + finish("stop") + event(`{"error":{"message":"boom"}}`), rouse.CodeProvider},
		"at the very start":  {event(`{"error":{"message":"boom"}}`), rouse.CodeProvider},
		"in the last line":   {text + strings.TrimSpace(event(`{"error":{"message":"boom"}}`)), rouse.CodeProvider},
		"mixed with a batch": {text + text + event(`{"error":{"message":"boom"}}`) + text + finish("stop"), rouse.CodeProvider},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, m := answering(t, chunked(c.body))
			g := collect(t, m, t.Context(), hello())
			wantCode(t, g.err, c.code)
			if strings.Contains(c.body, "boom\"") {
				wantCode(t, g.err, c.code, "boom")
			}
		})
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("x", 8<<10)
	for name, body := range map[string]string{
		"event":     delta(`{"content":"` + big + `"}`),
		"document":  `{"choices":[{"message":{"content":"` + big + `"}}]}`,
		"arguments": delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}]}`) + strings.Repeat(delta(`{"tool_calls":[{"index":0,"function":{"arguments":"`+big[:1<<10]+`"}}]}`), 6),
		"comment":   ":" + big,
	} {
		m := newModel(t, openai.Config{MaxEventBytes: 4 << 10, Transport: canned{body: func() io.Reader { return iotest.HalfReader(strings.NewReader(body)) }}})
		if err := collect(t, m, t.Context(), hello()).err; rouse.CodeOf(err) != rouse.CodeTooLarge {
			t.Errorf("%s: %v", name, err)
		}
	}
	m := newModel(t, openai.Config{Transport: canned{body: func() io.Reader {
		return strings.NewReader(delta(`{"content":"`+strings.Repeat("y", 1<<20)+`"}`) + finish("stop"))
	}}})
	if g := collect(t, m, t.Context(), hello()); len(g.text) != 1<<20 {
		t.Errorf("%d bytes: %v", len(g.text), g.err)
	}
}

func TestUnusualStatus(t *testing.T) {
	t.Parallel()
	m := newModel(t, openai.Config{Transport: canned{status: http.StatusCreated, body: func() io.Reader {
		return strings.NewReader(delta(`{"content":"x"}`) + finish("stop"))
	}}})
	if g := collect(t, m, t.Context(), hello()); g.text != "x" {
		t.Errorf("%+v", g)
	}
}
