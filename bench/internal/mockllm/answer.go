package mockllm

import (
	"fmt"
	"strconv"
	"strings"
)

// answerKey is everything that the bytes of an answer depend on.
type answerKey struct {
	model string
	tools string // comma separated
	round int
	usage bool
}

// answer is a prepared response: what to write, one write after the other.
type answer struct {
	model  Model
	final  bool // the final text, not a request for tool calls
	writes [][]byte
}

const head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n" +
	"Cache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n"

// newAnswer prepares the answer for a key whose model has been parsed into m.
func newAnswer(k answerKey, m Model) *answer {
	s := stream{prefix: fmt.Sprintf(`data: {"id":"chatcmpl-Bench%024d","object":"chat.completion.chunk","created":1764500000,`+
		`"model":"%s","service_tier":"default","system_fingerprint":"fp_bench",`, k.round, k.model)}
	a := &answer{model: m}
	if k.round < m.Rounds && k.tools != "" {
		s.calls(strings.Split(k.tools, ","), k.round, m.Calls)
	} else {
		a.final = true
		s.text(m)
	}
	if k.usage {
		s.events = append(s.events, s.prefix+
			`"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120}}`+"\n\n")
	}
	s.events = append(s.events, "data: [DONE]\n\n")
	a.writes = frames(s.events, m.PerWrite)
	return a
}

// stream collects the events of one answer.
type stream struct {
	prefix string
	events []string
}

func (s *stream) delta(delta, finish string) {
	if finish == "" {
		finish = "null"
	}
	s.events = append(s.events, s.prefix+`"choices":[{"index":0,"delta":`+delta+`,"logprobs":null,"finish_reason":`+finish+"}]}\n\n")
}

func (s *stream) text(m Model) {
	s.delta(`{"role":"assistant","content":"","refusal":null}`, "")
	for i := range m.Chunks {
		s.delta(`{"content":`+strconv.Quote(word(i))+`}`, "")
	}
	s.delta(`{}`, `"stop"`)
}

// calls asks for n calls; arguments arrive in four pieces each, as providers send them.
func (s *stream) calls(tools []string, round, n int) {
	s.delta(`{"role":"assistant","content":null}`, "")
	for i := range n {
		name := tools[i%len(tools)]
		s.delta(fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":"call_r%03d_i%03d_bench0123456789","type":"function",`+
			`"function":{"name":"%s","arguments":""}}]}`, i, round, i, name), "")
		args := arguments(name, round, i)
		size := (len(args) + 3) / 4
		for len(args) > 0 {
			piece := args[:min(size, len(args))]
			args = args[len(piece):]
			s.delta(fmt.Sprintf(`{"tool_calls":[{"index":%d,"function":{"arguments":%s}}]}`, i, strconv.Quote(piece)), "")
		}
	}
	s.delta(`{}`, `"tool_calls"`)
}

func arguments(tool string, round, i int) string {
	if tool == "add" {
		return fmt.Sprintf(`{"a":%d,"b":%d}`, round*7+1, i+35)
	}
	return fmt.Sprintf(`{"city":"Paris-%d-%d","days":%d}`, round, i, i+1)
}

// frames groups events into writes of one HTTP chunk each; the first write
// carries the response head, the last one the end of the body.
func frames(events []string, perWrite int) [][]byte {
	if perWrite <= 0 {
		perWrite = len(events)
	}
	var out [][]byte
	for len(events) > 0 {
		n := min(perWrite, len(events))
		body := strings.Join(events[:n], "")
		events = events[n:]
		w := fmt.Sprintf("%x\r\n%s\r\n", len(body), body)
		if out == nil {
			w = head + w
		}
		if len(events) == 0 {
			w += "0\r\n\r\n"
		}
		out = append(out, []byte(w))
	}
	return out
}
