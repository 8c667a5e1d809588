package run

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/internal/jsonx"
)

// The payloads of the kernel's own events. Each appends itself without
// reflection, so writing one cannot fail; reading goes through encoding/json.

type payload interface {
	append(o *jsonx.Object)
	size() int // about how many bytes append writes
}

// newEvent returns an event of f's with this payload.
func newEvent(f *frame, c rouse.Class, t rouse.EventType, p payload) rouse.Event {
	return rouse.Event{Path: f.path, Class: c, Type: t, Data: encode(p)}
}

func encode(p payload) json.RawMessage {
	o := jsonx.Open(make([]byte, 0, p.size()))
	p.append(&o)
	return o.Close()
}

func object(o *jsonx.Object, key string, p payload) {
	o.Key(key)
	in := jsonx.Open(o.B)
	p.append(&in)
	o.B = in.Close()
}

type startedData struct {
	Step    string          `json:"step"`
	Version string          `json:"version"`
	State   json.RawMessage `json:"state"`
	Seed    uint64          `json:"seed,string"`
	Budget  Budget          `json:"budget"`
	Meta    json.RawMessage `json:"meta"`
}

func (d startedData) size() int { return 256 + len(d.State) + len(d.Meta) }

func (d startedData) append(o *jsonx.Object) {
	o.String("step", d.Step)
	o.String("version", d.Version)
	o.Raw("state", d.State)
	o.Key("seed")
	o.B = appendQuotedUint(o.B, d.Seed)
	if d.Budget != (Budget{}) {
		object(o, "budget", d.Budget)
	}
	o.Raw("meta", d.Meta)
}

func (Budget) size() int { return 64 }

func (b Budget) append(o *jsonx.Object) {
	o.Int("steps", b.Steps)
	o.Int("rounds", b.Rounds)
	o.Int("model_calls", b.ModelCalls)
	o.Int("tool_calls", b.ToolCalls)
	o.Int("input_tokens", b.InputTokens)
	o.Int("output_tokens", b.OutputTokens)
	o.Int("micro_usd", b.MicroUSD)
	o.Int("wall", int64(b.Wall))
}

func (Meter) size() int { return 64 }

func (m Meter) append(o *jsonx.Object) {
	o.Int("steps", m.Steps)
	o.Int("rounds", m.Rounds)
	o.Int("model_calls", m.ModelCalls)
	o.Int("tool_calls", m.ToolCalls)
	o.Int("input_tokens", m.InputTokens)
	o.Int("output_tokens", m.OutputTokens)
	o.Int("micro_usd", m.MicroUSD)
}

type stepData struct {
	Visit    int             `json:"visit"`
	Move     string          `json:"move"`
	At       Cursor          `json:"at"`
	State    json.RawMessage `json:"state"`   // absent when it did not change
	Decided  []string        `json:"decided"` // questions whose answers this step was given
	Asks     []string        `json:"asks"`    // questions that it waits for now
	Children []childData     `json:"children"`
	Join     *Join           `json:"join"`
	Spent    *Meter          `json:"spent"`  // in this step, without the step itself
	Output   json.RawMessage `json:"output"` // of a child that completed

	result any // what Output encodes
}

func (d *stepData) size() int { return 160 + len(d.State) + len(d.Output) }

func (d *stepData) append(o *jsonx.Object) {
	o.Int("visit", int64(d.Visit))
	o.String("move", d.Move)
	o.String("at", string(d.At))
	o.Raw("state", d.State)
	appendStrings(o, "decided", d.Decided)
	appendStrings(o, "asks", d.Asks)
	if len(d.Children) > 0 {
		o.Key("children")
		for i, c := range d.Children {
			o.B = append(o.B, "[,"[min(i, 1)])
			in := jsonx.Open(o.B)
			c.append(&in)
			o.B = in.Close()
		}
		o.B = append(o.B, ']')
	}
	if d.Join != nil {
		o.Key("join")
		in := jsonx.Open(o.B)
		in.Int("limit", int64(d.Join.Limit))
		in.Bool("fail_fast", d.Join.FailFast)
		o.B = in.Close()
	}
	spent(o, d.Spent)
	o.Raw("output", d.Output)
}

func spent(o *jsonx.Object, m *Meter) {
	if m != nil {
		object(o, "spent", m)
	}
}

func appendStrings(o *jsonx.Object, key string, ss []string) {
	if len(ss) == 0 {
		return
	}
	o.Key(key)
	for i, s := range ss {
		o.B = append(o.B, "[,"[min(i, 1)])
		o.B = jsonx.AppendString(o.B, s)
	}
	o.B = append(o.B, ']')
}

type childData struct {
	Key     string          `json:"key"`
	Path    string          `json:"path"`
	Step    string          `json:"step"`
	Version string          `json:"version"`
	State   json.RawMessage `json:"state"`
	Budget  Budget          `json:"budget"`
}

func (d childData) size() int { return 128 + len(d.State) }

func (d childData) append(o *jsonx.Object) {
	o.String("key", d.Key)
	o.String("path", d.Path)
	o.String("step", d.Step)
	o.String("version", d.Version)
	o.Raw("state", d.State)
	if d.Budget != (Budget{}) {
		object(o, "budget", d.Budget)
	}
}

func (a Ask) size() int { return 128 + len(a.Payload) }

func (a Ask) append(o *jsonx.Object) {
	o.String("id", a.ID)
	o.String("kind", a.Kind)
	o.Raw("payload", a.Payload)
	if !a.Expires.IsZero() {
		o.String("expires", a.Expires.UTC().Format(time.RFC3339Nano))
	}
}

func (d Decision) size() int { return 96 + len(d.Value) }

func (d Decision) append(o *jsonx.Object) {
	o.String("ask", d.Ask)
	o.String("by", d.By)
	o.Raw("value", d.Value)
}

// ErrorData is an error as it is stored: without the operator's cause.
type ErrorData struct {
	Code    rouse.Code `json:"code"`
	Message string     `json:"message"`
	Hint    string     `json:"hint,omitempty"`
}

func (d ErrorData) size() int { return 64 + len(d.Message) + len(d.Hint) }

func (d ErrorData) append(o *jsonx.Object) {
	o.String("code", string(d.Code))
	o.String("message", d.Message)
	o.String("hint", d.Hint)
}

func errorData(e *rouse.Error) ErrorData { return ErrorData{e.Code, e.Message, e.Hint} }

// Err returns the error that d describes.
func (d ErrorData) Err() *rouse.Error {
	return &rouse.Error{Code: d.Code, Message: d.Message, Hint: d.Hint}
}

type failedData struct {
	Visit int       `json:"visit"`
	Error ErrorData `json:"error"`
	// Before tells that the kernel ended the frame before its Do began, Cut that
	// its Do ended because the run was canceled or its time was up: what it had
	// got to is known from the draws before this event and cannot be replayed.
	Before  bool     `json:"before"`
	Cut     bool     `json:"cut"`
	Decided []string `json:"decided"`
	Spent   *Meter   `json:"spent"`
}

func (d failedData) size() int { return 128 + d.Error.size() }

func (d failedData) append(o *jsonx.Object) {
	o.Int("visit", int64(d.Visit))
	o.Bool("before", d.Before)
	o.Bool("cut", d.Cut)
	appendStrings(o, "decided", d.Decided)
	object(o, "error", d.Error)
	spent(o, d.Spent)
}

// FinishedData is the payload of rouse.EventRunFinished.
type FinishedData struct {
	Status rouse.Status    `json:"status"`
	Output json.RawMessage `json:"output,omitempty"` // of a completed run
	Error  *ErrorData      `json:"error,omitempty"`  // of any other
	Spent  Meter           `json:"spent"`
}

func (d FinishedData) size() int { return 192 + len(d.Output) }

func (d FinishedData) append(o *jsonx.Object) {
	o.String("status", string(d.Status))
	o.Raw("output", d.Output)
	if d.Error != nil {
		object(o, "error", *d.Error)
	}
	object(o, "spent", d.Spent)
}

// WaitingData is the payload of rouse.EventRunWaiting.
type WaitingData struct {
	Asks []string `json:"asks"` // ids of the open questions
}

func (d WaitingData) size() int { return 16 + 48*len(d.Asks) }

func (d WaitingData) append(o *jsonx.Object) { appendStrings(o, "asks", d.Asks) }

type resumedData struct {
	Epoch int64  `json:"epoch"`
	Owner string `json:"owner"`
}

func (resumedData) size() int { return 64 }

func (d resumedData) append(o *jsonx.Object) {
	o.Int("epoch", d.Epoch)
	o.String("owner", d.Owner)
}

type forkedData struct {
	Thread string          `json:"thread"` // where the copied events come from
	Run    string          `json:"run"`
	Seq    int64           `json:"seq"`   // of the last copied event, in that thread
	State  json.RawMessage `json:"state"` // the root's state, when the fork edited it
	Meta   json.RawMessage `json:"meta"`  // replaces that of the original, when present
}

func (d forkedData) size() int { return 160 + len(d.State) + len(d.Meta) }

func (d forkedData) append(o *jsonx.Object) {
	o.String("thread", d.Thread)
	o.String("run", d.Run)
	o.Int("seq", d.Seq)
	o.Raw("state", d.State)
	o.Raw("meta", d.Meta)
}

type stateData struct {
	Delta json.RawMessage `json:"delta"`
}

func (d stateData) size() int { return 16 + len(d.Delta) }

func (d stateData) append(o *jsonx.Object) { o.Raw("delta", d.Delta) }

type clockData struct {
	Now time.Time `json:"now"`
}

func (clockData) size() int { return 64 }

func (d clockData) append(o *jsonx.Object) { o.String("now", d.Now.UTC().Format(time.RFC3339Nano)) }

type drawFailedData struct {
	Type  rouse.EventType `json:"type"`
	N     int             `json:"n"` // which of several in the step, from 1; 0 when the type tells
	Error ErrorData       `json:"error"`
}

func (d drawFailedData) size() int { return 64 + d.Error.size() }

func (d drawFailedData) append(o *jsonx.Object) {
	o.String("type", string(d.Type))
	o.Int("n", int64(d.N))
	object(o, "error", d.Error)
}

func appendQuotedUint(b []byte, v uint64) []byte {
	return append(strconv.AppendUint(append(b, '"'), v, 10), '"')
}
