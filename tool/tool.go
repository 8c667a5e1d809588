// Package tool defines what an agent can do: the Tool interface, typed tools
// made from Go functions, immutable sets of tools with compiled schemas, and the
// execution of one call with its checks, time limit, retries and bounds.
package tool

import (
	"context"
	"encoding/json"
	"time"
)

// Tool is one thing that a model may ask for. It is safe for concurrent use.
type Tool interface {
	// Spec describes the tool; it returns the same value every time.
	Spec() Spec
	// Call runs it. Args have been checked against the schema. The error is shown
	// to the model; return a *rouse.Error to choose the words, any other error is
	// shown as its text. Call returns soon after ctx ends.
	Call(ctx context.Context, c *Call) (Result, error)
}

// Effect says what a second execution of the same call would do.
type Effect string

// The three effects. The zero value is Unsafe: whoever has not said that a call
// may be repeated gets the careful treatment.
const (
	Unsafe     Effect = ""           // it changes something, and doing it twice is different from once
	Idempotent Effect = "idempotent" // it changes something, but the same key is applied once only
	ReadOnly   Effect = "read_only"  // it changes nothing
)

// Spec describes a tool.
type Spec struct {
	// Name is what the model calls it: not empty, unique in a set. Any UTF-8 is
	// allowed; wires that are stricter get a safe name that maps back.
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Schema is the JSON Schema (draft 2020-12) of the arguments, of type object.
	// Empty means an object without properties.
	Schema json.RawMessage `json:"schema,omitempty"`
	Effect Effect          `json:"effect,omitempty"`
	// Timeout bounds one attempt. Zero means DefaultTimeout, negative none.
	Timeout time.Duration `json:"timeout,omitempty"`
	// Retries is how many extra attempts follow a failed one. Only for ReadOnly
	// and Idempotent tools; NewSet refuses it on an Unsafe one.
	Retries int `json:"retries,omitempty"`
	// MaxOutput bounds what the model is shown, in bytes. Zero means DefaultMaxOutput.
	MaxOutput int `json:"max_output,omitempty"`
}

// The defaults of a Spec.
const (
	DefaultTimeout   = 2 * time.Minute
	DefaultMaxOutput = 32 << 10
)

// Call is one execution.
type Call struct {
	// ID is the model's id of the call, Name the tool's name.
	ID   string
	Name string
	// Args is a JSON object that matches the schema, with the model's own numbers.
	Args json.RawMessage
	// Key is the idempotency key: the same for every attempt of this call, also
	// after a crash, and different for every other call of any run.
	Key string
	// Attempt counts from 1.
	Attempt int
	// Progress reports to whoever watches the run; it never blocks for long and
	// may be called from any goroutine until Call returns. Never nil.
	Progress func(text string)

	checked checked
}

// Result is what a tool returns.
type Result struct {
	// Output is what the model is shown: JSON or text, of any size. The runtime
	// bounds it and makes it valid UTF-8.
	Output []byte
}

// Text returns a Result that shows s.
func Text(s string) Result { return Result{Output: []byte(s)} }
