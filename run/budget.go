package run

import (
	"fmt"
	"math"
	"time"

	"github.com/rouse-run/rouse"
)

// Budget limits a frame and everything below it. A zero field is no limit. A
// child spends its parents' budgets too, so it can only ever have less.
type Budget struct {
	Steps        int64         `json:"steps,omitempty"`         // moves of the kernel
	Rounds       int64         `json:"rounds,omitempty"`        // of an agent's loop, or nodes of a workflow
	ModelCalls   int64         `json:"model_calls,omitempty"`   // requests to a model
	ToolCalls    int64         `json:"tool_calls,omitempty"`    // executions of a tool
	InputTokens  int64         `json:"input_tokens,omitempty"`  // as reported by the provider
	OutputTokens int64         `json:"output_tokens,omitempty"` // as reported by the provider
	MicroUSD     int64         `json:"micro_usd,omitempty"`     // millionths of a dollar
	Wall         time.Duration `json:"wall,omitempty"`          // nanoseconds, without the time spent waiting for an answer
}

// DefaultSteps is how many moves a run may make when its budget does not say.
const DefaultSteps = 100_000

// DefaultParallel is how many children of one Call, or calls of one Each, run at
// once when the caller does not say.
const DefaultParallel = 8

// Meter counts what was spent, in the units of Budget.
type Meter struct {
	Steps        int64 `json:"steps,omitempty"`
	Rounds       int64 `json:"rounds,omitempty"`
	ModelCalls   int64 `json:"model_calls,omitempty"`
	ToolCalls    int64 `json:"tool_calls,omitempty"`
	InputTokens  int64 `json:"input_tokens,omitempty"`
	OutputTokens int64 `json:"output_tokens,omitempty"`
	MicroUSD     int64 `json:"micro_usd,omitempty"`
}

// Add returns the sum of m and n. A sum that is too large for a number is the
// largest number, and nothing negative is ever added, so no budget is refunded.
func (m Meter) Add(n Meter) Meter {
	return Meter{
		Steps: plus(m.Steps, n.Steps), Rounds: plus(m.Rounds, n.Rounds),
		ModelCalls: plus(m.ModelCalls, n.ModelCalls), ToolCalls: plus(m.ToolCalls, n.ToolCalls),
		InputTokens: plus(m.InputTokens, n.InputTokens), OutputTokens: plus(m.OutputTokens, n.OutputTokens),
		MicroUSD: plus(m.MicroUSD, n.MicroUSD),
	}
}

func plus(a, b int64) int64 {
	if b = max(b, 0); a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Tokens returns the Meter of a model's usage.
func Tokens(u rouse.Usage) Meter {
	return Meter{InputTokens: u.Input, OutputTokens: u.Output, MicroUSD: u.MicroUSD}
}

// over names the first limit of b that used and more of it would break. Tokens
// and cost are known only after a call, so a new call is refused once they are
// used up.
func (b *Budget) over(used, more Meter) error {
	for _, l := range [...]struct {
		name              string
		limit, used, more int64
	}{
		{"steps", b.Steps, used.Steps, more.Steps},
		{"rounds", b.Rounds, used.Rounds, more.Rounds},
		{"model_calls", b.ModelCalls, used.ModelCalls, more.ModelCalls},
		{"tool_calls", b.ToolCalls, used.ToolCalls, more.ToolCalls},
		{"input_tokens", b.InputTokens, used.InputTokens, min(more.ModelCalls, 1)},
		{"output_tokens", b.OutputTokens, used.OutputTokens, min(more.ModelCalls, 1)},
		{"micro_usd", b.MicroUSD, used.MicroUSD, min(more.ModelCalls, 1)},
	} {
		if l.limit > 0 && l.more > 0 && l.more > l.limit-l.used {
			return budgetError(l.name, fmt.Sprint(l.limit))
		}
	}
	return nil
}

func budgetError(name, limit string) *rouse.Error {
	return &rouse.Error{
		Code: rouse.CodeBudget, Op: "run.budget",
		Message: "the limit of " + name + " is used up (" + limit + ")",
		Hint:    "raise budget." + name + " to go on",
	}
}
