// Package safecall is the one place that recovers panics: user code (tools,
// steps, hooks, model adapters, observers) is called through Do.
package safecall

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/rouse-run/rouse"
)

// Panic is the cause of an error that stands for a recovered panic. Its text
// does not hold the stack; whoever logs for operators prints Stack.
type Panic struct {
	Value any
	Stack []byte
}

func (p *Panic) Error() string { return fmt.Sprintf("panic: %v", p.Value) }

// Unwrap returns the panic's value when it was an error.
func (p *Panic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// Do calls fn and returns its error. A panic becomes a *rouse.Error of code
// CodeInternal whose cause is a *Panic; op says what was being done.
func Do(ctx context.Context, op string, fn func(ctx context.Context) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &rouse.Error{Code: rouse.CodeInternal, Op: op, Message: "user code panicked", Err: &Panic{v, debug.Stack()}}
		}
	}()
	return fn(ctx)
}
