package modeltest

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/model"
)

// Scenario is something that a provider does in answer to every request. A
// factory makes its provider (a local server, a script) do it.
type Scenario struct {
	Name string
	// Chunks are what the provider says. How it is cut into events is up to the
	// wire, but each chunk that is a piece of something is an event of its own.
	Chunks []model.Chunk
	// Err is what the provider does after Chunks, in the model's words; empty for a
	// whole answer, whose Chunks end with a stop. CodeStreamCut: the connection
	// closes; but when Chunks end with a stop, the provider ends in good order with
	// that reason, and the model must see that what it said is cut off. The other
	// codes come before any chunk: the provider answers with such an error.
	Err rouse.Code
	// RetryAfter is how long the provider asks to wait, with CodeRateLimited.
	RetryAfter time.Duration
	// Stall: after Chunks the provider keeps the connection open and says nothing
	// until the request is aborted.
	Stall bool

	needs Can
}

// Turn is the scenario for a Script.
func (s Scenario) Turn() Turn {
	t := Chunks(s.shown()...)
	switch {
	case s.Stall:
		return t.Then(Step{Hang: true})
	case s.Err != "" && s.Err != rouse.CodeStreamCut:
		return t.Then(Step{Err: &rouse.Error{Code: s.Err, Op: "modeltest.script", Message: "as the scenario asks for", RetryAfter: s.RetryAfter}})
	}
	return t
}

// shown returns the chunks that a model yields: all, but not the stop of an answer
// that is cut off.
func (s Scenario) shown() []model.Chunk {
	if n := len(s.Chunks); s.Err != "" && n > 0 && s.Chunks[n-1].Type == model.ChunkStop {
		return s.Chunks[:n-1]
	}
	return s.Chunks
}

// succeeds reports whether the scenario is a whole answer.
func (s Scenario) succeeds() bool { return s.Err == "" && !s.Stall }

// Can is what a wire is able to express. A scenario that needs more is not
// played; everything else is required.
type Can struct {
	Reasoning   bool // reasoning as text
	Signatures  bool // signatures of reasoning
	Calls       bool // tool calls, several in one answer
	Interleaved bool // pieces of the arguments of several calls, mixed
	CallIDs     bool // the provider names its calls; otherwise the ids are the model's own
	Usage       bool
	RetryAfter  bool // a provider can say how long to wait
	// Partial: what comes before an error is what the provider said. A wrapper that
	// mends broken answers shows more than that.
	Partial bool
}

// Everything returns the Can of a model that can express all that a Chunk can.
func Everything() Can {
	return Can{Reasoning: true, Signatures: true, Calls: true, Interleaved: true, CallIDs: true, Usage: true, RetryAfter: true, Partial: true}
}

// covers reports whether c has all that n asks for.
func (c Can) covers(n Can) bool {
	return (c.Reasoning || !n.Reasoning) && (c.Signatures || !n.Signatures) && (c.Calls || !n.Calls) &&
		(c.Interleaved || !n.Interleaved) && (c.RetryAfter || !n.RetryAfter)
}

// Scenarios returns those that a wire can express.
func Scenarios(can Can) []Scenario {
	var out []Scenario
	for _, s := range catalogue() {
		if can.covers(s.needs) {
			out = append(out, s)
		}
	}
	return out
}

func say(s string) model.Chunk   { return model.Chunk{Type: model.ChunkText, Text: s} }
func think(s string) model.Chunk { return model.Chunk{Type: model.ChunkReasoning, Text: s} }
func sign(s string) model.Chunk  { return model.Chunk{Type: model.ChunkSignature, Text: s} }
func begin(i int, id, name string) model.Chunk {
	return model.Chunk{Type: model.ChunkCall, Index: i, ID: id, Name: name}
}
func args(i int, s string) model.Chunk {
	return model.Chunk{Type: model.ChunkArgs, Index: i, Text: s}
}
func finish(why model.StopReason) model.Chunk { return model.Chunk{Type: model.ChunkStop, Stop: why} }

func catalogue() []Scenario { return append(answers(), faults()...) }

func answers() []Scenario {
	spent := model.Chunk{Type: model.ChunkUsage, Usage: rouse.Usage{Input: 40, Output: 7}}
	long := make([]model.Chunk, 0, 302)
	for range 300 {
		long = append(long, say("word "))
	}
	return []Scenario{
		{Name: "text", Chunks: []model.Chunk{say("Hel"), say("lo,\n"), say("wörld 漢字 🙂 \"\\"), spent, finish(model.StopEnd)}},
		{Name: "long text", Chunks: append(long, spent, finish(model.StopEnd))},
		{Name: "nothing said", Chunks: []model.Chunk{spent, finish(model.StopEnd)}},
		{Name: "out of tokens", Chunks: []model.Chunk{say("Once upon"), spent, finish(model.StopLength)}},
		{
			Name: "reasoning", needs: Can{Reasoning: true},
			Chunks: []model.Chunk{think("Let me"), think(" think"), say("42"), spent, finish(model.StopEnd)},
		},
		{
			Name: "signed reasoning before a call", needs: Can{Reasoning: true, Signatures: true, Calls: true},
			Chunks: []model.Chunk{
				think("I need"), think(" the file"), sign("c2lnbmF0dXJl+/=="), begin(0, "call_1", "read"), args(0, `{"path":"a.txt"}`),
				spent, finish(model.StopTools),
			},
		},
		{
			Name: "text before a call in pieces", needs: Can{Calls: true},
			Chunks: []model.Chunk{
				say("Let me look."), begin(0, "call_1", "read"), args(0, `{"pa`), args(0, `th":"a`), args(0, `.txt"}`), spent, finish(model.StopTools),
			},
		},
		{
			Name: "parallel calls", needs: Can{Calls: true},
			Chunks: []model.Chunk{
				begin(0, "call_1", "read"), args(0, `{"path":`), args(0, `"a.txt"}`), begin(1, "call_2", "read"), args(1, `{"path":"b.txt"}`),
				begin(2, "call_3", "add"), args(2, `{"a":1.10,`), args(2, `"b":9007199254740993}`), spent, finish(model.StopTools),
			},
		},
		{
			Name: "interleaved calls", needs: Can{Calls: true, Interleaved: true},
			Chunks: []model.Chunk{
				begin(0, "call_1", "read"), begin(1, "call_2", "read"), args(0, `{"path":`), args(1, `{"path":`), args(0, `"a.txt"}`), args(1, `"b.txt"}`),
				spent, finish(model.StopTools),
			},
		},
		{
			Name: "a call without arguments", needs: Can{Calls: true},
			Chunks: []model.Chunk{begin(0, "call_1", "now"), spent, finish(model.StopTools)},
		},
	}
}

func faults() []Scenario {
	out := []Scenario{
		{Name: "cut before the first chunk", Err: rouse.CodeStreamCut},
		{Name: "cut in the text", Chunks: []model.Chunk{say("Hel"), say("lo")}, Err: rouse.CodeStreamCut},
		{
			Name: "cut in a call", needs: Can{Calls: true, Interleaved: true}, Err: rouse.CodeStreamCut, // a wire of whole calls cannot end in one
			Chunks: []model.Chunk{say("Let me look."), begin(0, "call_1", "write"), args(0, `{"path":"a.txt","conte`)},
		},
		{
			// A provider that ends in good order has still not written the call.
			Name: "out of tokens in a call", needs: Can{Calls: true, Interleaved: true}, Err: rouse.CodeStreamCut,
			Chunks: []model.Chunk{say("Let me write."), begin(0, "call_1", "write"), args(0, `{"path":"a.txt","conte`), finish(model.StopLength)},
		},
		{
			Name: "out of tokens before the arguments", needs: Can{Calls: true, Interleaved: true}, Err: rouse.CodeStreamCut,
			Chunks: []model.Chunk{begin(0, "call_1", "write"), finish(model.StopLength)},
		},
		{Name: "silent from the start", Stall: true},
		{Name: "silent in the text", Chunks: []model.Chunk{say("Hel"), say("lo")}, Stall: true},
		{Name: "asked to wait", needs: Can{RetryAfter: true}, Err: rouse.CodeRateLimited, RetryAfter: time.Hour},
	}
	for _, c := range []rouse.Code{
		rouse.CodeRateLimited, rouse.CodeOverloaded, rouse.CodeProvider, rouse.CodeProviderAuth, rouse.CodeProviderRefused, rouse.CodeContextOverflow,
	} {
		out = append(out, Scenario{Name: "error " + string(c), Err: c})
	}
	return out
}

// request is what the suite sends: every kind of message, with spare capacity
// behind each slice so that an append in place is seen.
func request() *model.Request {
	temperature := 0.5
	messages := make([]rouse.Message, 0, 16)
	messages = append(messages,
		rouse.UserText("What is in a.txt?"),
		rouse.Message{Role: rouse.RoleAssistant, Parts: []rouse.Part{
			rouse.Text("Let me look."), rouse.CallPart(rouse.ToolCall{ID: "call_0", Name: "read", Args: `{"path":"a.txt"}`}),
		}},
		rouse.ResultMessage(rouse.ToolResult{CallID: "call_0", Name: "read", Output: "not there", Error: true}),
		rouse.UserText("Try again."),
	)
	schema := json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}}}`)
	tools := make([]model.ToolSpec, 0, 8)
	for _, name := range strings.Fields("read write add now") {
		tools = append(tools, model.ToolSpec{Name: name, Description: "It does what it says.", Schema: schema})
	}
	return &model.Request{
		System: "You are brief.", Messages: messages, Tools: tools, ToolChoice: "auto",
		Params: model.Params{Temperature: &temperature, MaxOutput: 100, Stop: append(make([]string, 0, 4), "END")}, Memo: &model.Memo{},
	}
}
