package agent

import (
	"encoding/json"
	"strconv"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/internal/jsonx"
	"github.com/rouse-run/rouse/model"
)

// AnswerData is the payload of rouse.EventAnswer: the model's message, how it
// arrived, and what it cost. Request identifies what the model had been shown.
type AnswerData struct {
	Request string           `json:"request"`
	Model   string           `json:"model,omitempty"`
	Message rouse.Message    `json:"message"`
	Usage   rouse.Usage      `json:"usage,omitzero"`
	Stop    model.StopReason `json:"stop"`
	Cuts    string           `json:"cuts,omitempty"` // see model.Answer
}

func (d *AnswerData) encode() json.RawMessage {
	size := 320 + len(d.Cuts)
	for i := range d.Message.Parts {
		p := &d.Message.Parts[i]
		size += 64 + len(p.Text) + len(p.Text)/16 + len(p.Signature)
		if p.Call != nil {
			size += 64 + len(p.Call.ID) + len(p.Call.Name) + len(p.Call.Args)*5/4
		}
	}
	o := jsonx.Open(make([]byte, 0, size))
	o.String("request", d.Request)
	o.String("model", d.Model)
	o.Key("message")
	o.B = d.Message.AppendJSON(o.B)
	if d.Usage != (rouse.Usage{}) {
		o.Key("usage")
		o.B = d.Usage.AppendJSON(o.B)
	}
	o.String("stop", string(d.Stop))
	o.String("cuts", d.Cuts)
	return o.Close()
}

// ResultData is the payload of rouse.EventToolFinished: what the model is shown
// of a call, and how it went.
type ResultData struct {
	Index    int              `json:"index"` // of the call in its answer
	Result   rouse.ToolResult `json:"result"`
	Code     rouse.Code       `json:"code,omitempty"`     // empty after success
	Attempts int              `json:"attempts,omitempty"` // how often the tool was called
	By       string           `json:"by,omitempty"`       // who supplied or denied it, when no tool did
}

func (d *ResultData) encode() json.RawMessage {
	o := jsonx.Open(make([]byte, 0, 192+len(d.Result.Output)*5/4))
	o.Key("index")
	o.B = strconv.AppendInt(o.B, int64(d.Index), 10)
	o.Key("result")
	o.B = d.Result.AppendJSON(o.B)
	o.String("code", string(d.Code))
	o.Int("attempts", int64(d.Attempts))
	o.String("by", d.By)
	return o.Close()
}

// IntentData is the payload of rouse.EventToolIntent: an unsafe call that is
// about to run.
type IntentData struct {
	Index int            `json:"index"`
	Call  rouse.ToolCall `json:"call"`
	Key   string         `json:"key"` // the idempotency key that the tool is given
}

func (d *IntentData) encode() json.RawMessage {
	o := jsonx.Open(make([]byte, 0, 128+len(d.Call.Args)))
	o.Key("index")
	o.B = strconv.AppendInt(o.B, int64(d.Index), 10)
	o.Key("call")
	in := jsonx.Open(o.B)
	in.String("id", d.Call.ID)
	in.String("name", d.Call.Name)
	in.String("args", d.Call.Args)
	o.B = in.Close()
	o.String("key", d.Key)
	return o.Close()
}

// The kinds of question that an agent asks.
const (
	// AskPermission: may this call run? The payload is a PermissionAsk, the
	// decision's value a Permission.
	AskPermission = "permission"
	// AskUncertain: an unsafe call was begun and it is not known whether it took
	// effect. The payload is a PermissionAsk, the decision's value a Resolution.
	AskUncertain = "uncertain"
)

// PermissionAsk describes the call that a question is about.
type PermissionAsk struct {
	Call   rouse.ToolCall `json:"call"`
	Effect string         `json:"effect,omitempty"` // of the tool; empty: unsafe
	Reason string         `json:"reason,omitempty"`
}

// Permission answers an AskPermission. Anything that cannot be read denies.
type Permission struct {
	Allow  bool   `json:"allow"`
	Reason string `json:"reason,omitempty"` // told to the model when the call is denied
}

// Resolution answers an AskUncertain. Anything that cannot be read gives up.
type Resolution struct {
	Action string `json:"action"`           // "retry", "supply" or "give_up"
	Output string `json:"output,omitempty"` // the result, for "supply"
}

// The actions of a Resolution.
const (
	ResolveRetry  = "retry"
	ResolveSupply = "supply"
	ResolveGiveUp = "give_up"
)
