package rouse

import "slices"

// Role says who speaks in a Message.
type Role string

// The four roles.
const (
	RoleSystem    Role = "system"
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// Message is one entry of a conversation. A tool message holds exactly one part,
// a tool result; only an assistant message holds reasoning and tool calls.
type Message struct {
	ID    string `json:"id,omitempty"`
	Role  Role   `json:"role"`
	Parts []Part `json:"parts,omitempty"`
}

// PartType tells which fields of a Part are in use.
type PartType string

// The kinds of part and the fields that belong to each.
const (
	PartText       PartType = "text"        // Text
	PartImage      PartType = "image"       // MediaType and one of Data, URL
	PartFile       PartType = "file"        // Name, MediaType and one of Data, URL
	PartReasoning  PartType = "reasoning"   // Text, Signature
	PartToolCall   PartType = "tool_call"   // Call
	PartToolResult PartType = "tool_result" // Result
)

// Part is one piece of a message's content: a tagged union, told apart by Type.
type Part struct {
	Type PartType `json:"type"`
	// Text is the text of a text or reasoning part. For reasoning it is kept byte
	// for byte, since providers refuse a turn whose reasoning was altered.
	Text string `json:"text,omitempty"`
	// Signature is a provider's opaque proof of a reasoning part, or the whole of
	// an encrypted one (then Text is empty). It goes back to the provider unchanged.
	Signature string `json:"signature,omitempty"`
	// MediaType is the IANA media type of an image or a file.
	MediaType string `json:"media_type,omitempty"`
	// Name is the file name of a file part.
	Name string `json:"name,omitempty"`
	// Data is the content of an image or a file, base64 in JSON.
	Data []byte `json:"data,omitempty"`
	// URL is where the content of an image or a file lies, instead of Data.
	URL string `json:"url,omitempty"`
	// Call is set for a tool call.
	Call *ToolCall `json:"call,omitempty"`
	// Result is set for a tool result.
	Result *ToolResult `json:"result,omitempty"`
}

// ToolCall is a model's wish to have a tool run.
type ToolCall struct {
	// ID is the provider's name for the call. It is unique within one assistant
	// message (decoders repair providers that repeat one), not within a thread.
	ID string `json:"id"`
	// Name is the real name of the tool, not the one that went over the wire.
	Name string `json:"name"`
	// Args is the argument text exactly as the model wrote it. It is meant to be a
	// JSON object and may be empty or malformed; whoever executes the call checks.
	Args string `json:"args"`
}

// ToolResult is what the model is shown of a finished call.
type ToolResult struct {
	CallID string `json:"call_id"`
	Name   string `json:"name"`
	// Output is valid UTF-8 and bounded in size.
	Output string `json:"output"`
	// Error reports that the call failed; Output then says why, for the model.
	Error bool `json:"error,omitempty"`
	// Whole names the stored blob of the complete output when Output was cut.
	Whole string `json:"whole,omitempty"`
}

// Text returns a text part.
func Text(s string) Part { return Part{Type: PartText, Text: s} }

// Reasoning returns a reasoning part with the provider's signature, which may be empty.
func Reasoning(text, signature string) Part {
	return Part{Type: PartReasoning, Text: text, Signature: signature}
}

// ImageURL returns an image part that refers to a URL.
func ImageURL(url string) Part { return Part{Type: PartImage, URL: url} }

// ImageData returns an image part that holds its bytes. It keeps data without copying.
func ImageData(mediaType string, data []byte) Part {
	return Part{Type: PartImage, MediaType: mediaType, Data: data}
}

// FileData returns a file part that holds its bytes. It keeps data without copying.
func FileData(name, mediaType string, data []byte) Part {
	return Part{Type: PartFile, Name: name, MediaType: mediaType, Data: data}
}

// CallPart returns a tool-call part.
func CallPart(c ToolCall) Part { return Part{Type: PartToolCall, Call: &c} }

// ResultPart returns a tool-result part.
func ResultPart(r ToolResult) Part { return Part{Type: PartToolResult, Result: &r} }

// UserText returns a user message of one text part, without an ID.
func UserText(s string) Message { return Message{Role: RoleUser, Parts: []Part{Text(s)}} }

// ResultMessage returns the tool message that carries r, without an ID.
func ResultMessage(r ToolResult) Message {
	return Message{Role: RoleTool, Parts: []Part{ResultPart(r)}}
}

// Text returns the text parts of m joined without a separator; reasoning is left out.
func (m Message) Text() string {
	n, last := 0, ""
	for i := range m.Parts {
		if m.Parts[i].Type == PartText {
			n, last = n+1, m.Parts[i].Text
		}
	}
	if n <= 1 {
		return last
	}
	var b []byte
	for i := range m.Parts {
		if m.Parts[i].Type == PartText {
			b = append(b, m.Parts[i].Text...)
		}
	}
	return string(b)
}

// Calls returns the tool calls of m in the model's order, nil when there are none.
func (m Message) Calls() []ToolCall {
	var out []ToolCall
	for i := range m.Parts {
		if c := m.Parts[i].Call; c != nil && m.Parts[i].Type == PartToolCall {
			out = append(out, *c)
		}
	}
	return out
}

// Clone returns a copy of m that shares no memory with it.
func (m Message) Clone() Message {
	m.Parts = slices.Clone(m.Parts)
	for i := range m.Parts {
		p := &m.Parts[i]
		p.Data = slices.Clone(p.Data)
		if p.Call != nil {
			c := *p.Call
			p.Call = &c
		}
		if p.Result != nil {
			r := *p.Result
			p.Result = &r
		}
	}
	return m
}

// Usage counts what a model call consumed. The zero value means "not reported".
// Input includes CacheRead and CacheWrite; Output includes Reasoning.
type Usage struct {
	Input      int64 `json:"input,omitempty"`       // tokens of the request
	Output     int64 `json:"output,omitempty"`      // tokens of the answer
	CacheRead  int64 `json:"cache_read,omitempty"`  // of Input: read from the provider's cache
	CacheWrite int64 `json:"cache_write,omitempty"` // of Input: written to the provider's cache
	Reasoning  int64 `json:"reasoning,omitempty"`   // of Output: spent on reasoning
	MicroUSD   int64 `json:"micro_usd,omitempty"`   // cost in millionths of a dollar, when prices are known
}

// Add returns the sum of u and v.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		Input: u.Input + v.Input, Output: u.Output + v.Output,
		CacheRead: u.CacheRead + v.CacheRead, CacheWrite: u.CacheWrite + v.CacheWrite,
		Reasoning: u.Reasoning + v.Reasoning, MicroUSD: u.MicroUSD + v.MicroUSD,
	}
}

// Total returns Input + Output, in tokens.
func (u Usage) Total() int64 { return u.Input + u.Output }
