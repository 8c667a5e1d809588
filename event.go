package rouse

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/rouse-run/rouse/internal/jsonx"
)

// Class says what an event is good for.
type Class string

// The three classes. Facts and draws are stored; together they are the journal
// of a thread. Deltas are streamed only: the fact that closes them (an answer, a
// finished call) holds their content and where they were cut.
const (
	ClassFact  Class = "fact"  // public: what happened
	ClassDraw  Class = "draw"  // internal: what came from outside, and where a run stands
	ClassDelta Class = "delta" // streamed: a piece of something that a fact will hold
)

// EventType names what happened. Packages may add their own types, with a dot in the name.
type EventType string

// The types that the runtime itself writes.
const (
	EventRunStarted  EventType = "run.started"  // fact: the first event of every run
	EventRunResumed  EventType = "run.resumed"  // fact: another owner took the run over
	EventRunForked   EventType = "run.forked"   // fact: what precedes was copied from another run
	EventRunWaiting  EventType = "run.waiting"  // fact: somebody must be asked; ends the stream
	EventRunFinished EventType = "run.finished" // fact: exactly once per run; ends the stream
	// EventRunInterrupted is a delta that ends a stream whose run did not come to
	// a stored end: the journal failed or the process lets the run go. The run
	// continues from its last commit when it is resumed.
	EventRunInterrupted EventType = "run.interrupted"

	EventStep       EventType = "step"        // draw: a frame moved
	EventStepFailed EventType = "step.failed" // fact: a frame ended with an error
	EventDrawFailed EventType = "draw.failed" // draw: something that was asked of the outside failed
	EventOnce       EventType = "once"        // draw: the result of something that is done once
	EventClock      EventType = "clock"       // draw: a time that a step asked for
	EventState      EventType = "state"       // draw: keyed state changed
	EventAsked      EventType = "asked"       // fact: a question to somebody
	EventAnswered   EventType = "answered"    // fact: its answer

	EventMessage      EventType = "message"       // fact: a message joined the conversation
	EventAnswer       EventType = "model.answer"  // fact: the model answered
	EventToolIntent   EventType = "tool.intent"   // fact: an unsafe call is about to run
	EventToolFinished EventType = "tool.finished" // fact: a call has its result

	EventText         EventType = "text"          // delta: a piece of the answer's text
	EventReasoning    EventType = "reasoning"     // delta: a piece of the model's reasoning
	EventCallStarted  EventType = "call.started"  // delta: the model began to write a call
	EventCallArgs     EventType = "call.args"     // delta: a piece of its arguments
	EventToolStarted  EventType = "tool.started"  // delta: a call begins to execute
	EventToolProgress EventType = "tool.progress" // delta: a running call reports
	EventStreamReset  EventType = "stream.reset"  // delta: forget the deltas since the last fact
)

// Event is one entry of a thread's journal, or a delta between two of them.
//
// An event is a value: receivers may keep it and must not change what Data
// points to.
type Event struct {
	// Seq is the position in the thread, from 1, without gaps. It is 0 for a
	// delta and for an event that is not committed yet.
	Seq    int64
	Thread string
	Run    string
	// Path names the frame within the run: "/" is the root, "/a/b" a child of a child.
	Path  string
	Class Class
	Type  EventType
	// Key names the effect within its frame's step that this event belongs to: an
	// intent, a receipt, a thing done once. Empty for every other event.
	Key string
	// At is UTC with millisecond precision; zero for a delta.
	At time.Time
	// Sum chains the stored events of a run: a checksum over this event and the
	// Sum of the one before. Zero for a delta.
	Sum uint64
	// Data is the payload of a fact or a draw: one JSON object whose shape follows from Type.
	Data json.RawMessage
	// Delta is the payload of a delta.
	Delta Delta
}

// Delta is a piece of a stream. Which fields are set follows from the event's type.
type Delta struct {
	Text  string `json:"text,omitempty"`  // text, reasoning, call.args, tool.progress, stream.reset (why), run.interrupted (why)
	Call  string `json:"call,omitempty"`  // id of the call, for call.* and tool.*
	Name  string `json:"name,omitempty"`  // name of the tool, for call.started and tool.*
	Index int    `json:"index,omitempty"` // position of the call in the answer
}

// Ends reports whether e is the last event of a stream of its run: it finished,
// it waits, or it was let go.
func (e *Event) Ends() bool {
	return e.Type == EventRunFinished || e.Type == EventRunWaiting || e.Type == EventRunInterrupted
}

// Decode unmarshals the payload into v. The error has the code CodeCorrupt.
func (e *Event) Decode(v any) error {
	if err := json.Unmarshal(e.Data, v); err != nil {
		return &Error{Code: CodeCorrupt, Op: "event " + string(e.Type), Message: "the event's payload cannot be read", Err: err}
	}
	return nil
}

type eventJSON struct {
	Seq    int64           `json:"seq,omitempty"`
	Thread string          `json:"thread,omitempty"`
	Run    string          `json:"run,omitempty"`
	Path   string          `json:"path,omitempty"`
	Class  Class           `json:"class"`
	Type   EventType       `json:"type"`
	Key    string          `json:"key,omitempty"`
	At     *time.Time      `json:"at,omitempty"`
	Sum    uint64          `json:"sum,omitempty,string"`
	Data   json.RawMessage `json:"data,omitempty"`
	Delta  *Delta          `json:"delta,omitempty"`
}

// AppendJSON appends e as one object: seq, thread, run, path, class, type, key,
// at (RFC 3339), sum (a decimal string), and data or delta. Data is copied byte
// for byte.
func (e *Event) AppendJSON(b []byte) []byte {
	o := jsonx.Open(b)
	o.Int("seq", e.Seq)
	o.String("thread", e.Thread)
	o.String("run", e.Run)
	o.String("path", e.Path)
	o.String("class", string(e.Class))
	o.String("type", string(e.Type))
	o.String("key", e.Key)
	if !e.At.IsZero() {
		o.Key("at")
		o.B = append(e.At.AppendFormat(append(o.B, '"'), time.RFC3339Nano), '"')
	}
	if e.Sum != 0 {
		o.Key("sum")
		o.B = append(strconv.AppendUint(append(o.B, '"'), e.Sum, 10), '"')
	}
	o.Raw("data", e.Data)
	if e.Delta != (Delta{}) {
		o.Key("delta")
		in := jsonx.Open(o.B)
		in.String("text", e.Delta.Text)
		in.String("call", e.Delta.Call)
		in.String("name", e.Delta.Name)
		in.Int("index", int64(e.Delta.Index))
		o.B = in.Close()
	}
	return o.Close()
}

// MarshalJSON encodes e as AppendJSON does. An encoder that escapes HTML
// characters, as json.Marshal does, changes how Data is written, not what it says.
func (e Event) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil), nil }

// UnmarshalJSON is the inverse of MarshalJSON.
func (e *Event) UnmarshalJSON(b []byte) error {
	var j eventJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	*e = Event{Seq: j.Seq, Thread: j.Thread, Run: j.Run, Path: j.Path, Class: j.Class, Type: j.Type, Key: j.Key, Sum: j.Sum, Data: j.Data}
	if j.At != nil {
		e.At = j.At.UTC()
	}
	if j.Delta != nil {
		e.Delta = *j.Delta
	}
	return nil
}

// Status is where a run stands.
type Status string

// The five states of a run. Running and waiting are open; the rest are final.
const (
	StatusRunning   Status = "running"
	StatusWaiting   Status = "waiting"
	StatusCompleted Status = "completed"
	StatusFailed    Status = "failed"
	StatusCanceled  Status = "canceled"
)

// Final reports whether a run in this state can never move again.
func (s Status) Final() bool {
	return s == StatusCompleted || s == StatusFailed || s == StatusCanceled
}
