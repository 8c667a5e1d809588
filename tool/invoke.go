package tool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/internal/safecall"
)

// ReadResult is the name of the tool that reads the rest of a kept result. When a
// set has it, a result that was cut says so to the model.
const ReadResult = "read_result"

// Keeper stores a complete result once. Every store of blobs is one.
type Keeper interface {
	// PutBlob stores data durably and returns a reference to it. It must not keep data.
	PutBlob(ctx context.Context, data []byte) (ref string, err error)
}

// Invocation is one call that a model wants, and what is needed to run it.
type Invocation struct {
	Call rouse.ToolCall
	// Key is the idempotency key that the tool is given.
	Key string
	// Progress receives the tool's reports while it runs: valid UTF-8 of at most
	// MaxProgress bytes each. It may be called from several goroutines. Nil
	// discards them.
	Progress func(text string)
	// Hidden reports the tools that this caller may not know of; they are answered
	// like tools that do not exist. Nil hides none.
	Hidden func(name string) bool
	// Keeper stores outputs that are too long to show. Nil keeps nothing.
	Keeper Keeper
	// Backoff is the wait before the given attempt (2 or more). Nil means Backoff.
	Backoff func(attempt int) time.Duration
}

// Outcome is what became of one Invocation.
type Outcome struct {
	// Result is for the model: always valid UTF-8 and bounded.
	Result rouse.ToolResult
	// Code is empty after success. Otherwise it says why the call failed:
	// CodeNotFound, CodeInvalid or CodeTooLarge when the tool was not run,
	// CodeTimeout, CodeCanceled, CodeInternal (a panic), CodeTooLarge (the output),
	// the code of the *rouse.Error that the tool returned, or CodeToolFailed for
	// any other error.
	Code rouse.Code
	// Err is for operators: the whole error, with the stack of a panic in its
	// chain. Nil after success.
	Err error
	// Attempts is how often the tool was called.
	Attempts int
	// Whole is the complete output as the tool returned it. Nil after a failure.
	// It may be large: it is meant to be dropped once the result is recorded.
	Whole []byte
	// KeepErr is the Keeper's failure. The call may have succeeded all the same.
	KeepErr error
}

// Backoff is the default wait before an attempt (2 or more): from 200 ms,
// doubled per attempt, at most 10 s, of which a random half is taken off.
func Backoff(attempt int) time.Duration {
	d := 200 * time.Millisecond << min(max(attempt-2, 0), 6)
	d = min(d, 10*time.Second)
	return d/2 + rand.N(d/2+1) //nolint:gosec // jitter needs no secrecy
}

// Invoke runs one call with all its checks and never fails itself: whatever
// happens becomes a result for the model.
//
// The arguments are checked as by Check. An attempt ends after the tool's
// Timeout: its context is canceled then, and whatever it returns later is a
// timeout. Invoke calls the tool on its own goroutine and waits for it to return,
// also when it ignores its context; nothing is left running behind.
//
// A failed attempt is followed by up to Retries more when the tool is ReadOnly or
// Idempotent and the attempt timed out or returned a *rouse.Error whose code is
// retryable (Code.Info). Any other error, and a panic, is final. Between attempts
// lies Backoff, or the error's RetryAfter when that is longer; a tool that asks
// for more than MaxRetryWait is not retried. Once ctx has ended nothing is retried.
//
// An output longer than the tool's MaxOutput is kept once by the Keeper and shown
// cut, see Bound.
func (s *Set) Invoke(ctx context.Context, c Invocation) Outcome {
	e, ok := s.byName[c.Call.Name]
	if !ok || c.Hidden != nil && c.Hidden(c.Call.Name) {
		return c.failed(0, s.unknown(c.Call.Name, c.Hidden), MaxErrorText)
	}
	limits := s.limits.withDefaults()
	args, refused := e.schema.check(c.Call.Name, c.Call.Args, limits)
	if refused != nil {
		return c.failed(0, refused, MaxErrorText)
	}
	call := Call{
		ID: c.Call.ID, Name: c.Call.Name, Args: args, Key: c.Key,
		Progress: discard, checked: checked{e.schema, args},
	}
	if e.spec.Retries > 0 { // the tool is free to change the bytes that it gets
		args = slices.Clone(args)
	}
	show := min(cmp.Or(e.spec.MaxOutput, DefaultMaxOutput), MaxErrorText)
	for {
		if err := ended(ctx); err != nil {
			return c.failed(call.Attempt, err, show)
		}
		call.Attempt++
		res, err := e.attempt(ctx, call, c.Progress)
		if err == nil && len(res.Output) > limits.Result {
			err = &rouse.Error{
				Code: rouse.CodeTooLarge, Op: "tool " + shorten(e.spec.Name),
				Message: fmt.Sprintf("the tool has run, but its output has %d bytes, more than the limit max_result (%d)", len(res.Output), limits.Result),
				Hint:    "Ask for less at once.",
			}
			return c.failed(call.Attempt, err, show)
		}
		if err == nil {
			return s.succeeded(ctx, e, c, call.Attempt, res.Output)
		}
		wait, again := e.retry(ctx, err, call.Attempt, c.Backoff)
		if !again {
			return c.failed(call.Attempt, err, show)
		}
		if !sleep(ctx, wait) {
			stopped := ended(ctx)
			stopped.Err = errors.Join(stopped.Err, err)
			return c.failed(call.Attempt, stopped, show)
		}
		call.Args = slices.Clone(args)
		call.checked.args = call.Args
	}
}

func discard(string) {}

// attempt runs the tool once.
func (e *entry) attempt(ctx context.Context, call Call, progress func(string)) (Result, error) {
	timeout := cmp.Or(e.spec.Timeout, DefaultTimeout)
	run := ctx
	if timeout > 0 {
		var cancel context.CancelFunc
		run, cancel = context.WithTimeoutCause(ctx, timeout, errAttempt)
		defer cancel()
	}
	if progress != nil {
		var over atomic.Bool
		defer over.Store(true)
		call.Progress = func(text string) {
			if !over.Load() {
				text, _ = Bound([]byte(text), MaxProgress)
				progress(text)
			}
		}
	}
	var res Result
	err := safecall.Do(run, "tool "+shorten(e.spec.Name), func(ctx context.Context) (err error) {
		res, err = e.tool.Call(ctx, &call)
		return err
	})
	if run.Err() == nil || errors.As(err, new(*safecall.Panic)) {
		return res, err
	}
	if errors.Is(context.Cause(run), errAttempt) {
		if err == nil {
			err = errLate
		}
		return Result{}, &rouse.Error{
			Code: rouse.CodeTimeout, Op: "tool " + shorten(e.spec.Name), Err: err,
			Message: fmt.Sprintf("the tool %s took longer than its limit of %s", quote(e.spec.Name), timeout),
			Hint:    e.spec.Effect.afterStop(),
		}
	}
	if err == nil { // it finished although it was told to stop; what it did is done
		return res, nil
	}
	stopped := ended(ctx)
	stopped.Err = errors.Join(stopped.Err, err)
	stopped.Hint = e.spec.Effect.afterStop()
	return Result{}, stopped
}

// errAttempt is the cause of a context that ended by the time limit of an attempt.
var errAttempt = errors.New("the attempt's time limit has passed")

// errLate tells operators that a call which counts as timed out did succeed.
var errLate = errors.New("the call returned a result after its time limit")

// afterStop tells what is not known after a call that was stopped.
func (e Effect) afterStop() string {
	if e == ReadOnly {
		return ""
	}
	return "It may have taken effect or not: check before you repeat it."
}

// ended returns why ctx ended, nil while it has not.
func ended(ctx context.Context) *rouse.Error {
	if ctx.Err() == nil {
		return nil
	}
	cause := context.Cause(ctx)
	e := &rouse.Error{Code: rouse.CodeCanceled, Op: "tool", Message: "the call was canceled", Err: cause}
	var coded *rouse.Error
	switch {
	case errors.As(cause, &coded):
		e.Code = coded.Code
	case errors.Is(cause, context.DeadlineExceeded):
		e.Code, e.Message = rouse.CodeTimeout, "the call was canceled because the run's time is over"
	}
	return e
}

// retry decides whether another attempt follows the failed one, and after what wait.
func (e *entry) retry(ctx context.Context, err error, attempt int, backoff func(int) time.Duration) (time.Duration, bool) {
	repeatable := e.spec.Effect == ReadOnly || e.spec.Effect == Idempotent
	if !repeatable || attempt > e.spec.Retries || ctx.Err() != nil {
		return 0, false
	}
	var coded *rouse.Error
	if !errors.As(err, &coded) || !coded.Code.Info().Retryable || coded.RetryAfter > MaxRetryWait {
		return 0, false
	}
	if backoff == nil {
		backoff = Backoff
	}
	return min(max(backoff(attempt+1), coded.RetryAfter, 0), MaxRetryWait), true
}

// sleep waits and reports whether ctx is still alive.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// failed is the outcome of a call that failed with err.
func (c *Invocation) failed(attempts int, err error, show int) Outcome {
	code, text := rouse.CodeToolFailed, err.Error()
	var e *rouse.Error
	if errors.As(err, &e) {
		code = cmp.Or(e.Code, rouse.CodeToolFailed)
		text = cmp.Or(e.Message, "the tool failed ("+string(code)+")")
		if e.Hint != "" {
			text += "\n" + e.Hint
		}
	}
	text, _ = Bound([]byte(withoutStack(text)), show)
	return Outcome{
		Result: rouse.ToolResult{CallID: c.Call.ID, Name: c.Call.Name, Output: text, Error: true},
		Code:   code, Err: err, Attempts: attempts,
	}
}

// withoutStack cuts a text before the first goroutine trace that someone put into it.
func withoutStack(text string) string {
	for at := 0; ; {
		i := strings.Index(text[at:], "goroutine ")
		if i < 0 {
			return text
		}
		rest := strings.TrimLeft(text[at+i+len("goroutine "):], "0123456789")
		if strings.HasPrefix(rest, " [") {
			return cmp.Or(strings.TrimRight(text[:at+i], " \n\t:"), "the tool failed")
		}
		at += i + len("goroutine ")
	}
}

// succeeded bounds the output for the model and keeps the whole when it is cut.
func (s *Set) succeeded(ctx context.Context, e *entry, c Invocation, attempts int, output []byte) Outcome {
	out := Outcome{Result: rouse.ToolResult{CallID: c.Call.ID, Name: c.Call.Name}, Attempts: attempts, Whole: output}
	show := cmp.Or(e.spec.MaxOutput, DefaultMaxOutput)
	text, cut := Bound(output, show)
	if !cut || c.Keeper == nil {
		out.Result.Output = text
		return out
	}
	// the call is done: its output is kept even if ctx ends now
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), KeepTimeout)
	defer cancel()
	var ref string
	out.KeepErr = safecall.Do(ctx, "keep a result", func(ctx context.Context) (err error) {
		ref, err = c.Keeper.PutBlob(ctx, output)
		return err
	})
	if out.KeepErr != nil {
		out.Result.Output = text
		return out
	}
	how := "the whole is kept as " + ref
	if _, ok := s.byName[ReadResult]; ok && (c.Hidden == nil || !c.Hidden(ReadResult)) {
		how += ", read it with the tool " + ReadResult
	}
	out.Result.Output, _ = bound(output, show, how)
	out.Result.Whole = ref
	return out
}
