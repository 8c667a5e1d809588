package tooltest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/tool"
	"github.com/rouse-run/rouse/tool/tooltest"
)

func none() int64 { return 0 }

func TestEcho(t *testing.T) {
	t.Parallel()
	tooltest.Run(t, tooltest.Config{
		Tool: tooltest.Echo{}, Args: []string{`{"text":"hi"}`, `{"text":"漢字","wait":false}`},
		Blocking: `{"text":"","wait":true}`, Changes: none,
	})
}

// ledger is an Idempotent tool of an outside package.
type ledger struct {
	mu      sync.Mutex
	applied map[string]string
	changes int64
}

func (l *ledger) Spec() tool.Spec {
	return tool.Spec{
		Name: "transfer", Effect: tool.Idempotent, Retries: 2, Timeout: time.Second,
		Schema: json.RawMessage(`{"type":"object","properties":{"cents":{"type":"integer","minimum":1},"to":{"type":"string"}},"required":["cents","to"]}`),
	}
}

func (l *ledger) Call(ctx context.Context, c *tool.Call) (tool.Result, error) {
	if err := ctx.Err(); err != nil {
		return tool.Result{}, &rouse.Error{Code: rouse.CodeCanceled, Message: "nothing was transferred", Err: err}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, done := l.applied[c.Key]; !done {
		l.applied[c.Key] = string(c.Args)
		l.changes++
	}
	return tool.Text("transferred"), nil
}

func (l *ledger) count() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changes
}

func TestLedger(t *testing.T) {
	t.Parallel()
	l := &ledger{applied: map[string]string{}}
	tooltest.Run(t, tooltest.Config{Tool: l, Args: []string{`{"cents":5,"to":"ann"}`}, Changes: l.count})
}

func TestFuncTools(t *testing.T) {
	t.Parallel()
	type in struct {
		City string            `json:"city" jsonschema:"where"`
		Days *int              `json:"days,omitempty"`
		When time.Time         `json:"when,omitzero"`
		Tags map[string]string `json:"tags,omitempty"`
		Any  any               `json:"any,omitempty"`
		Kids []in2             `json:"kids,omitempty"`
	}
	typed, err := tool.Func(tool.FuncConfig{Name: "typed", Effect: tool.ReadOnly}, func(_ context.Context, v in) (in, error) { return v, nil })
	if err != nil {
		t.Fatal(err)
	}
	tooltest.Run(t, tooltest.Config{Tool: typed, Args: []string{`{"city":"Bern"}`, `{"city":"","days":null,"any":[1.50]}`}, Changes: none})
	unsafe, err := tool.FuncCall(tool.FuncConfig{Name: "unsafe"}, func(_ context.Context, c *tool.Call, _ struct{}) (string, error) {
		c.Progress("on it")
		return c.Key, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	tooltest.Run(t, tooltest.Config{Tool: unsafe, Args: []string{"", "{}"}})
}

type in2 struct {
	Kids []in2 `json:"kids,omitempty"`
	N    uint8 `json:"n"`
}

// A tool written by hand is held to the contract within its own package's test.
func ExampleRun() {
	_ = func(t *testing.T) {
		tooltest.Run(t, tooltest.Config{
			Tool:     tooltest.Echo{},
			Args:     []string{`{"text":"hi"}`},
			Blocking: `{"text":"","wait":true}`,
			Changes:  func() int64 { return 0 },
		})
	}
	fmt.Println(tooltest.Echo{}.Spec().Name)
	// Output: echo
}
