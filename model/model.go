// Package model is the seam to language models: one interface that streams an
// answer, the request it takes, and wrappers that add retry, time limits, an
// in-flight limit and a circuit breaker to any implementation.
//
// One package per wire lies below this one (model/openai, ...), the scripted
// model is model/mock, and model/modeltest is the contract suite that every
// implementation passes.
package model

import (
	"context"
	"encoding/json"
	"iter"

	"github.com/rouse-run/rouse"
)

// Model is a language model, or a wrapper around one.
//
// Stream sends req and yields the answer piece by piece.
//   - Nothing is sent before the sequence is ranged over; each range sends anew.
//   - A successful answer ends with exactly one ChunkStop, which is the last chunk.
//     Usage is yielded at most once, before it.
//   - An error is the last pair, its Chunk is zero, and it is a *rouse.Error. An
//     answer that breaks off is an error of code CodeStreamCut, never a ChunkStop;
//     so is one that runs out of output tokens within the arguments of a call.
//   - When the consumer breaks off or ctx ends, the request is aborted and
//     everything it held is released before Stream's function returns.
//   - Neither req nor what it points to is changed or kept.
//
// A Model is safe for concurrent use.
type Model interface {
	Stream(ctx context.Context, req *Request) iter.Seq2[Chunk, error]
}

// Request is everything that a model is shown.
type Request struct {
	// Model is the provider's name of the model; empty means the implementation's default.
	Model string `json:"model,omitempty"`
	// System is the system prompt; empty for none.
	System string `json:"system,omitempty"`
	// Messages is the conversation, oldest first: user, assistant and tool
	// messages, each tool call followed by its result before the next user or
	// assistant message.
	Messages []rouse.Message `json:"messages"`
	// Tools are offered to the model in this order.
	Tools []ToolSpec `json:"tools,omitempty"`
	// ToolChoice is "", "auto", "none", "required" or the name of one tool.
	ToolChoice string `json:"tool_choice,omitempty"`
	// Output asks for an answer that matches a JSON Schema, when the model can do that natively.
	Output *OutputSpec `json:"output,omitempty"`
	Params Params      `json:"params,omitzero"`
	// Memo is scratch space that belongs to one conversation: an implementation
	// keeps what it has encoded there, so that a loop of K rounds encodes each
	// message once. Nil is allowed. Not safe for concurrent use.
	Memo *Memo `json:"-"`
}

// ToolSpec is what a model is told about a tool.
type ToolSpec struct {
	Name        string          `json:"name"` // the real name; wires that are stricter map it and map it back
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema"` // JSON Schema 2020-12 of the arguments, an object
}

// OutputSpec describes a structured answer.
type OutputSpec struct {
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"schema"`
}

// Params are settings of one call; a zero field means the provider's default.
type Params struct {
	Temperature *float64 `json:"temperature,omitempty"`
	TopP        *float64 `json:"top_p,omitempty"`
	MaxOutput   int      `json:"max_output,omitempty"` // tokens
	Stop        []string `json:"stop,omitempty"`
	Seed        *int64   `json:"seed,omitempty"`
	Effort      string   `json:"effort,omitempty"` // reasoning effort in the provider's words
}

// ChunkType tells which fields of a Chunk are set.
type ChunkType uint8

// The kinds of chunk and the fields that belong to each.
const (
	ChunkText      ChunkType = iota + 1 // Text: a piece of the answer
	ChunkReasoning                      // Text: a piece of reasoning
	ChunkSignature                      // Text: the signature of the reasoning before it, whole
	ChunkCall                           // Index, ID, Name: a tool call begins
	ChunkArgs                           // Index, Text: a piece of its arguments
	ChunkUsage                          // Usage
	ChunkReset                          // Text (why): forget all chunks so far, the answer starts anew
	ChunkStop                           // Stop: the answer is complete
)

// Chunk is one piece of an answer. Its strings may be kept.
type Chunk struct {
	Type  ChunkType
	Index int // of the call within the answer, from 0, in the order in which calls began
	Text  string
	ID    string // never empty for ChunkCall, unique in the answer
	Name  string // the real name of the tool
	Usage rouse.Usage
	Stop  StopReason
	// More reports that the next chunk has already arrived and will follow without
	// waiting, so a consumer that forwards text may gather it.
	More bool
	// Raw is the provider's own event that this chunk was read from, when the
	// implementation has one. It is valid until the next chunk is asked for.
	Raw []byte
}

// StopReason says why an answer ended.
type StopReason string

// The reasons that every wire's own ones are mapped to.
const (
	StopEnd      StopReason = "end"      // the model had said everything
	StopTools    StopReason = "tool_use" // the model waits for results of its calls
	StopLength   StopReason = "length"   // the limit of output tokens was reached
	StopFiltered StopReason = "filtered" // the provider held the answer back
	StopSequence StopReason = "sequence" // a stop sequence was met
)

// Capabilities is what a model can do. The zero value means "unknown".
type Capabilities struct {
	Window    int  // tokens of request and answer together; 0: unknown
	MaxOutput int  // tokens of an answer; 0: unknown
	Images    bool // accepts image parts
	Files     bool // accepts file parts
	Output    bool // honours Request.Output
}

// Capable is implemented by models that know what they can do.
type Capable interface {
	Capabilities(model string) Capabilities
}

// Unwrapper is implemented by wrappers, so that optional interfaces of the
// wrapped model can be found with As.
type Unwrapper interface{ Unwrap() Model }

// As finds the first model in m's chain of wrappers that implements T.
func As[T any](m Model) (T, bool) {
	for m != nil {
		if t, ok := m.(T); ok {
			return t, true
		}
		u, ok := m.(Unwrapper)
		if !ok {
			break
		}
		m = u.Unwrap()
	}
	var zero T
	return zero, false
}

// Wrap is a decorator of a Model.
type Wrap func(Model) Model

// Chain wraps m; the first wrapper is the outermost.
func Chain(m Model, ws ...Wrap) Model {
	for i := len(ws) - 1; i >= 0; i-- {
		m = ws[i](m)
	}
	return m
}

// Memo is one slot per implementation for what it has encoded of a
// conversation. The zero value is ready to use.
type Memo struct {
	key any
	val any
}

// Load returns what the owner with this key stored, or nil. A key is a pointer
// that belongs to one model instance.
func (m *Memo) Load(key any) any {
	if m == nil || m.key != key {
		return nil
	}
	return m.val
}

// Store replaces what the memo holds.
func (m *Memo) Store(key, val any) {
	if m != nil {
		m.key, m.val = key, val
	}
}
