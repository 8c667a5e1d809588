package safecall_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/internal/safecall"
)

// explode stands for user code; its name must be in a recorded stack.
func explode(v any) error { panic(v) }

func TestDoReturnsWhatFnReturns(t *testing.T) {
	t.Parallel()
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "value")
	for _, want := range []error{nil, io.EOF} {
		got := safecall.Do(ctx, "op", func(ctx context.Context) error {
			if ctx.Value(key{}) != "value" {
				t.Error("fn has another context")
			}
			return want
		})
		if got != want { //nolint:errorlint // the very same error, not one that wraps it
			t.Errorf("got %v, want %v", got, want)
		}
	}
}

func TestDoRecovers(t *testing.T) {
	t.Parallel()
	mine := &rouse.Error{Code: rouse.CodeBusy, Message: "no room"}
	for name, tc := range map[string]struct {
		value any
		text  string
		is    error // must be in the chain
	}{
		"an error":       {io.EOF, "tool x: user code panicked: panic: EOF", io.EOF},
		"a coded error":  {mine, "tool x: user code panicked: panic: no room", mine},
		"a string":       {"boom", "tool x: user code panicked: panic: boom", nil},
		"a number":       {42, "tool x: user code panicked: panic: 42", nil},
		"a nil":          {nil, "tool x: user code panicked: panic: " + new(runtime.PanicNilError).Error(), new(runtime.PanicNilError)},
		"a typed nil":    {(*int)(nil), "tool x: user code panicked: panic: <nil>", nil},
		"a runtime kind": {func() {}, "", nil}, // a function prints as an address
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := safecall.Do(t.Context(), "tool x", func(context.Context) error { return explode(tc.value) })
			var coded *rouse.Error
			if !errors.As(err, &coded) || coded.Code != rouse.CodeInternal || coded.Op != "tool x" {
				t.Fatalf("got %#v", err)
			}
			if tc.text != "" && err.Error() != tc.text {
				t.Errorf("the text is %q, not %q", err, tc.text)
			}
			var p *safecall.Panic
			if !errors.As(err, &p) {
				t.Fatal("the panic is not in the chain")
			}
			if !strings.Contains(string(p.Stack), "safecall_test.explode") {
				t.Errorf("the stack does not lead to the culprit:\n%s", p.Stack)
			}
			for _, leak := range []string{"safecall_test", "goroutine", ".go:"} {
				if strings.Contains(err.Error(), leak) {
					t.Errorf("the text holds the stack: %q", err)
				}
			}
			switch {
			case tc.is == nil:
				if p.Unwrap() != nil {
					t.Errorf("a cause that was no error: %v", p.Unwrap())
				}
			case tc.value == nil:
				if _, ok := errors.AsType[*runtime.PanicNilError](err); !ok {
					t.Errorf("got %v", err)
				}
			case !errors.Is(err, tc.is):
				t.Errorf("%v is not in the chain of %v", tc.is, err)
			}
		})
	}
}

// The outer code wins: a panic with a retryable error must not be retried.
func TestPanicHidesTheCodeOfItsValue(t *testing.T) {
	t.Parallel()
	err := safecall.Do(t.Context(), "op", func(context.Context) error { return explode(&rouse.Error{Code: rouse.CodeOverloaded}) })
	if got := rouse.CodeOf(err); got != rouse.CodeInternal || got.Info().Retryable {
		t.Errorf("got %s", got)
	}
}

func TestDoRecoversRuntimeErrors(t *testing.T) {
	t.Parallel()
	err := safecall.Do(t.Context(), "op", func(context.Context) error {
		var none []int
		return fmt.Errorf("unreachable: %d", none[len(none)])
	})
	if _, ok := errors.AsType[runtime.Error](err); !ok {
		t.Errorf("got %v", err)
	}
}
