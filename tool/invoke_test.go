package tool_test

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/internal/safecall"
	"github.com/rouse-run/rouse/tool"
)

func invoke(t testing.TB, ctx context.Context, r *raw, edit func(*tool.Invocation)) tool.Outcome {
	t.Helper()
	if r.spec.Name == "" {
		r.spec.Name = "t"
	}
	inv := tool.Invocation{Call: rouse.ToolCall{ID: "c1", Name: r.spec.Name}, Key: "run/c1"}
	if edit != nil {
		edit(&inv)
	}
	out := mustSet(t, r).Invoke(ctx, inv)
	if out.Result.CallID != inv.Call.ID || out.Result.Name != inv.Call.Name || !utf8.ValidString(out.Result.Output) {
		t.Fatalf("%+v", out)
	}
	if (out.Code != "") != out.Result.Error || (out.Err != nil) != out.Result.Error {
		t.Fatalf("an outcome that contradicts itself: %+v", out)
	}
	return out
}

func failing(effect tool.Effect, retries int, errs ...error) (*raw, *[]tool.Call) {
	var calls []tool.Call
	return &raw{
		spec: tool.Spec{Effect: effect, Retries: retries},
		call: func(_ context.Context, c *tool.Call) (tool.Result, error) {
			calls = append(calls, *c)
			if n := len(calls) - 1; n < len(errs) && errs[n] != nil {
				return tool.Result{}, errs[n]
			}
			return tool.Text("done"), nil
		},
	}, &calls
}

func TestUnknownToolListsOnlyWhatMayBeSeen(t *testing.T) {
	t.Parallel()
	ts := []tool.Tool{named("see", ""), named("secret", ""), named("SEE", "")}
	set := mustSet(t, ts...)
	hide := func(n string) bool { return n == "secret" }
	for _, name := range []string{"nope", "secret", "See", ""} {
		out := set.Invoke(t.Context(), tool.Invocation{Call: rouse.ToolCall{Name: name}, Hidden: hide})
		if out.Code != rouse.CodeNotFound || out.Attempts != 0 || !strings.Contains(out.Result.Output, `The tools are: "see", "SEE".`) {
			t.Errorf("%q: %+v", name, out)
		}
		if name != "secret" && strings.Contains(out.Result.Output, "secret") {
			t.Errorf("a hidden tool is listed: %s", out.Result.Output)
		}
	}
	for i := range 2000 {
		ts = append(ts, named(fmt.Sprintf("tool_%d", i), ""))
	}
	out := mustSet(t, ts...).Invoke(t.Context(), tool.Invocation{Call: rouse.ToolCall{Name: strings.Repeat("漢", 5000)}})
	if len(out.Result.Output) > tool.MaxErrorText || !strings.Contains(out.Result.Output, " more") {
		t.Errorf("not bounded: %d bytes", len(out.Result.Output))
	}
}

func TestArgumentErrorsDoNotEnterTheTool(t *testing.T) {
	t.Parallel()
	r, calls := failing(tool.ReadOnly, 3)
	r.spec.Schema = []byte(`{"type":"object","properties":{"a":{"type":"integer"}}}`)
	for _, args := range []string{`{"a":`, `{"a":"x"}`, `[]`, strings.Repeat(" ", tool.DefaultMaxArgs+1)} {
		out := invoke(t, t.Context(), r, func(i *tool.Invocation) { i.Call.Args = args })
		if out.Attempts != 0 || !out.Result.Error || len(out.Result.Output) > tool.MaxErrorText {
			t.Errorf("%.20q: %+v", args, out)
		}
	}
	if len(*calls) != 0 {
		t.Errorf("entered %d times", len(*calls))
	}
}

func TestRetries(t *testing.T) {
	t.Parallel()
	busy := &rouse.Error{Code: rouse.CodeOverloaded, Message: "no room"}
	slow := &rouse.Error{Code: rouse.CodeRateLimited, Message: "later", RetryAfter: 5 * time.Second}
	never := &rouse.Error{Code: rouse.CodeRateLimited, Message: "much later", RetryAfter: tool.MaxRetryWait + 1}
	final := &rouse.Error{Code: rouse.CodeInvalid, Message: "no such city"}
	for name, tc := range map[string]struct {
		effect   tool.Effect
		retries  int
		errs     []error
		attempts int
		code     rouse.Code
		waited   time.Duration
	}{
		"first try":               {tool.Unsafe, 0, nil, 1, "", 0},
		"unsafe is never retried": {tool.Unsafe, 0, []error{busy}, 1, rouse.CodeOverloaded, 0},
		"no retries asked":        {tool.ReadOnly, 0, []error{busy}, 1, rouse.CodeOverloaded, 0},
		"second try":              {tool.ReadOnly, 1, []error{busy}, 2, "", 2 * time.Second},
		"used up":                 {tool.Idempotent, 2, []error{busy, busy, busy}, 3, rouse.CodeOverloaded, 5 * time.Second},
		"wrapped":                 {tool.Idempotent, 1, []error{fmt.Errorf("upstream: %w", busy)}, 2, "", 2 * time.Second},
		"asks for longer":         {tool.ReadOnly, 1, []error{slow}, 2, "", 5 * time.Second},
		"asks for too long":       {tool.ReadOnly, 1, []error{never}, 1, rouse.CodeRateLimited, 0},
		"not retryable":           {tool.ReadOnly, 3, []error{final}, 1, rouse.CodeInvalid, 0},
		"plain error":             {tool.ReadOnly, 3, []error{errors.New("boom")}, 1, rouse.CodeToolFailed, 0},
		"then final":              {tool.ReadOnly, 3, []error{busy, final}, 2, rouse.CodeInvalid, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, calls := failing(tc.effect, tc.retries, tc.errs...)
				start := time.Now()
				out := invoke(t, t.Context(), r, func(i *tool.Invocation) {
					i.Backoff = func(attempt int) time.Duration { return time.Duration(attempt) * time.Second }
				})
				if out.Attempts != tc.attempts || len(*calls) != tc.attempts || out.Code != tc.code || time.Since(start) != tc.waited {
					t.Fatalf("%d attempts, %d calls, code %q, %s", out.Attempts, len(*calls), out.Code, time.Since(start))
				}
				for i, c := range *calls {
					if c.Attempt != i+1 || c.Key != "run/c1" || c.ID != "c1" || string(c.Args) != "{}" || c.Progress == nil {
						t.Errorf("attempt %d got %+v", i+1, c)
					}
				}
			})
		})
	}
}

func TestBackoffGrowsAndIsBounded(t *testing.T) {
	t.Parallel()
	for attempt, most := range map[int]time.Duration{-1: 200 * time.Millisecond, 2: 200 * time.Millisecond, 3: 400 * time.Millisecond, 7: 6400 * time.Millisecond, 8: 10 * time.Second, 1 << 40: 10 * time.Second} {
		for range 100 {
			if d := tool.Backoff(attempt); d < most/2 || d > most {
				t.Fatalf("attempt %d waits %s, want up to %s", attempt, d, most)
			}
		}
	}
}

func TestRetriesGetTheModelsArgumentsAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var got []string
		r := &raw{spec: tool.Spec{Name: "t", Effect: tool.ReadOnly, Retries: 2, Schema: []byte(`{"type":"object"}`)}}
		r.call = func(_ context.Context, c *tool.Call) (tool.Result, error) {
			got = append(got, string(c.Args))
			clear(c.Args) // a rude tool
			return tool.Result{}, &rouse.Error{Code: rouse.CodeTimeout, Message: "again"}
		}
		invoke(t, t.Context(), r, func(i *tool.Invocation) { i.Call.Args = `{"n":1.0}` })
		if strings.Join(got, " ") != `{"n":1.0} {"n":1.0} {"n":1.0}` {
			t.Fatalf("%q", got)
		}
	})
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	for name, ignores := range map[string]bool{"honours its context": false, "ignores its context and succeeds": true} {
		for _, effect := range []tool.Effect{tool.Unsafe, tool.Idempotent, tool.ReadOnly} {
			t.Run(name+" "+string(effect), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					r := &raw{spec: tool.Spec{Name: "pay", Effect: effect, Timeout: 3 * time.Second}}
					want, took := 1, 3*time.Second
					if effect != tool.Unsafe {
						r.spec.Retries, want = 1, 2
					}
					if ignores {
						took = 10 * time.Second
					}
					r.call = func(ctx context.Context, _ *tool.Call) (tool.Result, error) {
						if ignores {
							<-time.After(10 * time.Second)
							return tool.Text("late"), nil
						}
						<-ctx.Done()
						return tool.Result{}, ctx.Err()
					}
					start := time.Now()
					out := invoke(t, t.Context(), r, func(i *tool.Invocation) { i.Backoff = func(int) time.Duration { return 0 } })
					if out.Code != rouse.CodeTimeout || out.Attempts != want || time.Since(start) != time.Duration(want)*took {
						t.Fatalf("%+v after %s", out, time.Since(start))
					}
					if late := strings.Contains(out.Err.Error(), "returned a result after"); late != ignores {
						t.Error(out.Err)
					}
					if !strings.Contains(out.Result.Output, "longer than its limit of 3s") {
						t.Error(out.Result.Output)
					}
					if warns := strings.Contains(out.Result.Output, "may have taken effect"); warns == (effect == tool.ReadOnly) {
						t.Errorf("%q: %s", effect, out.Result.Output)
					}
				})
			})
		}
	}
}

func TestDefaultTimeoutAndNone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var has bool
		var left time.Duration
		r := &raw{call: func(ctx context.Context, _ *tool.Call) (tool.Result, error) {
			var d time.Time
			d, has = ctx.Deadline()
			left = time.Until(d)
			return tool.Result{}, nil
		}}
		if invoke(t, t.Context(), r, nil); !has || left != tool.DefaultTimeout {
			t.Errorf("default: %v %s", has, left)
		}
		r.spec.Timeout = -1
		if invoke(t, t.Context(), r, nil); has {
			t.Error("a negative limit still limits")
		}
	})
}

func TestCancelIsFinal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reason := errors.New("the user left")
		// before the call
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(reason)
		r, calls := failing(tool.ReadOnly, 5)
		out := invoke(t, ctx, r, nil)
		if out.Code != rouse.CodeCanceled || out.Attempts != 0 || len(*calls) != 0 || !errors.Is(out.Err, reason) {
			t.Fatalf("before: %+v", out)
		}
		// during the call
		ctx, cancel = context.WithCancelCause(t.Context())
		wait := &raw{spec: tool.Spec{Effect: tool.ReadOnly, Retries: 5}, call: func(ctx context.Context, _ *tool.Call) (tool.Result, error) {
			cancel(reason)
			<-ctx.Done()
			return tool.Result{}, ctx.Err()
		}}
		if out = invoke(t, ctx, wait, nil); out.Code != rouse.CodeCanceled || out.Attempts != 1 || !errors.Is(out.Err, reason) {
			t.Fatalf("during: %+v", out)
		}
		// while it waits for the next attempt
		ctx, cancel = context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(reason) })
		busy := &rouse.Error{Code: rouse.CodeOverloaded, Message: "no room"}
		r, _ = failing(tool.ReadOnly, 5, busy, busy, busy)
		out = invoke(t, ctx, r, func(i *tool.Invocation) { i.Backoff = func(int) time.Duration { return 10 * time.Second } })
		if out.Code != rouse.CodeCanceled || out.Attempts != 1 || !errors.Is(out.Err, busy) {
			t.Fatalf("between: %+v", out)
		}
		// a reason with a code keeps it; the run's own deadline is a timeout
		ctx, cancel = context.WithCancelCause(t.Context())
		cancel(&rouse.Error{Code: rouse.CodeBudget, Message: "no money left"})
		if out = invoke(t, ctx, r, nil); out.Code != rouse.CodeBudget {
			t.Fatalf("coded: %+v", out)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if out = invoke(t, ctx, &raw{spec: tool.Spec{Effect: tool.ReadOnly, Retries: 5}, call: wait2}, nil); out.Code != rouse.CodeTimeout || out.Attempts != 1 {
			t.Fatalf("deadline: %+v", out)
		}
		// work that was finished in spite of the cancel is not thrown away
		ctx, cancel = context.WithCancelCause(t.Context())
		done := &raw{call: func(context.Context, *tool.Call) (tool.Result, error) { cancel(reason); return tool.Text("paid"), nil }}
		if out = invoke(t, ctx, done, nil); out.Code != "" || out.Result.Output != "paid" {
			t.Fatalf("finished: %+v", out)
		}
	})
}

func wait2(ctx context.Context, _ *tool.Call) (tool.Result, error) {
	<-ctx.Done()
	return tool.Result{}, ctx.Err()
}

// case 12: a panic is a result without the stack, an error with it
func TestPanic(t *testing.T) {
	t.Parallel()
	for _, v := range []any{"boom", errors.New("boom"), (*raw)(nil), 7} {
		r := &raw{spec: tool.Spec{Effect: tool.ReadOnly, Retries: 3}, call: func(context.Context, *tool.Call) (tool.Result, error) { panic(v) }}
		out := invoke(t, t.Context(), r, nil)
		var p *safecall.Panic
		if out.Code != rouse.CodeInternal || out.Attempts != 1 || !errors.As(out.Err, &p) || !strings.Contains(string(p.Stack), "invoke_test.go") {
			t.Fatalf("%+v", out)
		}
		if noTrace(out.Result.Output) != nil || strings.Contains(out.Result.Output, "boom") {
			t.Error(out.Result.Output)
		}
	}
}

func noTrace(s string) error {
	for _, bad := range []string{"goroutine ", ".go:", "[running]"} {
		if strings.Contains(s, bad) {
			return errors.New("a stack trace: " + s)
		}
	}
	return nil
}

func TestErrorTexts(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		err  error
		want string
	}{
		{errors.New("no such file"), "no such file"},
		{&rouse.Error{Code: rouse.CodeDenied, Op: "op", Message: "not allowed", Hint: "ask first", Err: errors.New("key=secret")}, "not allowed\nask first"},
		{fmt.Errorf("wrapped: %w", &rouse.Error{Code: rouse.CodeDenied, Message: "not allowed", Err: errors.New("key=secret")}), "not allowed"},
		{&rouse.Error{Code: rouse.CodeStorage}, "the tool failed (storage)"},
		{&rouse.Error{Message: "no code"}, "no code"},
		{fmt.Errorf("it broke: %s", debug.Stack()), "it broke"},
		{errors.New(string(debug.Stack())), "the tool failed"},
		{errors.New("goroutine leak in goroutine 7"), "goroutine leak in goroutine 7"},
		{errors.New("bad \xff byte"), "bad \ufffd byte"},
	} {
		r, _ := failing(tool.Unsafe, 0, tc.err)
		if out := invoke(t, t.Context(), r, nil); out.Result.Output != tc.want || !errors.Is(out.Err, tc.err) {
			t.Errorf("got %q want %q", out.Result.Output, tc.want)
		}
	}
	r, _ := failing(tool.Unsafe, 0, errors.New(strings.Repeat("漢", 1<<20)))
	if out := invoke(t, t.Context(), r, nil); len(out.Result.Output) > tool.MaxErrorText {
		t.Errorf("%d bytes", len(out.Result.Output))
	}
	r.spec.MaxOutput = 100
	if out := invoke(t, t.Context(), r, nil); len(out.Result.Output) > 100 {
		t.Errorf("%d bytes", len(out.Result.Output))
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	var late func(string)
	var got []string
	f, err := tool.FuncCall(tool.FuncConfig{Name: "t"}, func(_ context.Context, c *tool.Call, _ struct{}) (string, error) {
		c.Progress("half \xff")
		c.Progress(strings.Repeat("x", 1<<20))
		late = c.Progress
		return c.Key, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	out := mustSet(t, f).Invoke(t.Context(), tool.Invocation{Call: rouse.ToolCall{Name: "t"}, Key: "k", Progress: func(s string) { got = append(got, s) }})
	late("too late")
	if out.Result.Output != "k" || len(got) != 2 || got[0] != "half \ufffd" || len(got[1]) > tool.MaxProgress {
		t.Fatalf("%+v %d", out, len(got))
	}
	out = mustSet(t, f).Invoke(t.Context(), tool.Invocation{Call: rouse.ToolCall{Name: "t"}})
	if out.Code != "" {
		t.Fatalf("without a listener: %+v", out)
	}
}

func TestSetIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	type in struct {
		N int `json:"n"`
	}
	var sum atomic.Int64
	f, err := tool.Func(tool.FuncConfig{Name: "add", Effect: tool.ReadOnly}, func(_ context.Context, v in) (int, error) { sum.Add(int64(v.N)); return v.N, nil })
	if err != nil {
		t.Fatal(err)
	}
	set := mustSet(t, f)
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			for range 20 {
				out := set.Invoke(t.Context(), tool.Invocation{Call: rouse.ToolCall{Name: "add", Args: fmt.Sprintf(`{"n":%d}`, i)}})
				if out.Result.Output != fmt.Sprint(i) {
					t.Errorf("%d: %+v", i, out)
				}
				if out := set.Invoke(t.Context(), tool.Invocation{Call: rouse.ToolCall{Name: "add", Args: `{"n":"x"}`}}); out.Code != rouse.CodeInvalid {
					t.Errorf("%+v", out)
				}
			}
		})
	}
	wg.Wait()
	if sum.Load() != 20*31*32/2 {
		t.Errorf("sum %d", sum.Load())
	}
}
