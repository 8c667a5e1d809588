package tooltest

import (
	"context"
	"encoding/json"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/tool"
)

// Echo is a tool written by hand with the public interface only, as a pattern
// for others. It answers with its property text; with wait set it first waits
// until its context ends. The zero value is ready to use.
type Echo struct{}

// Spec describes a ReadOnly tool named echo.
func (Echo) Spec() tool.Spec {
	return tool.Spec{
		Name:        "echo",
		Description: "Repeats a text.",
		Effect:      tool.ReadOnly,
		Schema: json.RawMessage(`{"type":"object","properties":{` +
			`"text":{"type":"string","description":"what to repeat"},"wait":{"type":"boolean"}},` +
			`"required":["text"],"additionalProperties":false}`),
	}
}

// Call returns the text. When its context ends first, the error has the code CodeCanceled.
func (Echo) Call(ctx context.Context, c *tool.Call) (tool.Result, error) {
	var in struct {
		Text string `json:"text"`
		Wait bool   `json:"wait"`
	}
	if err := json.Unmarshal(c.Args, &in); err != nil {
		return tool.Result{}, &rouse.Error{Code: rouse.CodeInvalid, Op: "echo", Message: "the arguments cannot be read", Err: err}
	}
	if in.Wait {
		<-ctx.Done()
		return tool.Result{}, &rouse.Error{Code: rouse.CodeCanceled, Op: "echo", Message: "the wait was ended", Err: context.Cause(ctx)}
	}
	return tool.Text(in.Text), nil
}
