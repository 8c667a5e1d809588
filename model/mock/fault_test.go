package mock_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/model"
	"github.com/rouse-run/rouse/model/mock"
)

const longText = "a text of several pieces"

func twoCalls(f mock.Fault) mock.Result {
	r := mock.Calls(mock.Call{ID: "c1", Name: "f", Args: `{"path":"a.txt"}`}, mock.Call{ID: "c2", Name: "g", Args: `{"n":1}`})
	r.Fault = f
	return r
}

// both runs a test over the transport without a socket and over TCP.
func both(t *testing.T, generator any, test func(t *testing.T, c client)) {
	t.Helper()
	t.Run("in process", func(t *testing.T) {
		t.Parallel()
		test(t, inProcess(one(t, generator)))
	})
	t.Run("tcp", func(t *testing.T) {
		t.Parallel()
		test(t, overTCP(t, one(t, generator)))
	})
}

func TestFaultStatus(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fault mock.Fault
		code  rouse.Code
		after time.Duration
	}{
		{mock.Fault{Status: 429, RetryAfter: 2500 * time.Millisecond}, rouse.CodeRateLimited, 3 * time.Second},
		{mock.Fault{Status: 429}, rouse.CodeRateLimited, 0},
		{mock.Fault{Status: 401}, rouse.CodeProviderAuth, 0},
		{mock.Fault{Status: 403}, rouse.CodeProviderAuth, 0},
		{mock.Fault{Status: 400}, rouse.CodeProviderRefused, 0},
		{mock.Fault{Status: 400, ErrorCode: "context_length_exceeded"}, rouse.CodeContextOverflow, 0},
		{mock.Fault{Status: 413}, rouse.CodeContextOverflow, 0},
		{mock.Fault{Status: 404}, rouse.CodeProviderRefused, 0},
		{mock.Fault{Status: 408}, rouse.CodeTimeout, 0},
		{mock.Fault{Status: 500}, rouse.CodeProvider, 0},
		{mock.Fault{Status: 503, RetryAfter: time.Second}, rouse.CodeOverloaded, time.Second},
		{mock.Fault{Status: 529}, rouse.CodeOverloaded, 0},
		{mock.Fault{Status: 504}, rouse.CodeTimeout, 0},
	} {
		t.Run(fmt.Sprint(c.fault.Status, c.fault.ErrorCode), func(t *testing.T) {
			t.Parallel()
			generator := mock.Result{Fault: c.fault}
			_, err := one(t, generator).Generate(t.Context(), ask("x"))
			wantCode(t, err, c.code)
			var e *rouse.Error
			if !errors.As(err, &e) || e.RetryAfter != c.after {
				t.Errorf("RetryAfter is %v", e.RetryAfter)
			}
			both(t, generator, func(t *testing.T, cl client) {
				t.Helper()
				_, err := cl.stream(t.Context(), wire("x", true, true))
				var se *statusError
				if !errors.As(err, &se) || se.status != c.fault.Status {
					t.Fatalf("got %v", err)
				}
				want := ""
				if c.after > 0 {
					want = fmt.Sprint(int(c.after.Seconds()))
				}
				if got := se.header.Get("Retry-After"); got != want {
					t.Errorf("Retry-After is %q, want %q", got, want)
				}
				var body struct {
					Error struct {
						Message, Type string
						Code          *string
					}
				}
				if err := json.Unmarshal(se.body, &body); err != nil || body.Error.Message == "" || body.Error.Type == "" {
					t.Errorf("no error object: %s", se.body)
				}
				if c.fault.ErrorCode != "" && (body.Error.Code == nil || *body.Error.Code != c.fault.ErrorCode) {
					t.Errorf("the code is lost: %s", se.body)
				}
			})
		})
	}
}

func TestFaultBreakBeforeTheResponse(t *testing.T) {
	t.Parallel()
	for how, cause := range map[mock.Break]error{mock.BreakReset: syscall.ECONNRESET, mock.BreakClose: io.EOF} {
		t.Run(string(how), func(t *testing.T) {
			t.Parallel()
			generator := mock.Result{Text: "never seen", Fault: mock.Fault{Break: how}}
			_, err := one(t, generator).Generate(t.Context(), ask("x"))
			wantCode(t, err, rouse.CodeProvider)
			if !errors.Is(err, cause) {
				t.Errorf("%v does not wrap %v", err, cause)
			}
			both(t, generator, func(t *testing.T, c client) {
				t.Helper()
				for _, stream := range []bool{true, false} {
					if b, err := c.body(t.Context(), wire("x", stream, false)); !errors.Is(err, cause) || len(b) > 0 {
						t.Errorf("stream %v: got %q, %v, want %v", stream, b, err, cause)
					}
				}
			})
		})
	}
}

func TestFaultBreakWithinTheAnswer(t *testing.T) {
	t.Parallel()
	whole, err := inProcess(one(t, longText)).stream(t.Context(), wire("x", true, true))
	if err != nil {
		t.Fatal(err)
	}
	for how, cause := range map[mock.Break]error{mock.BreakReset: syscall.ECONNRESET, mock.BreakClose: io.ErrUnexpectedEOF, mock.BreakEnd: nil} {
		for _, fault := range []mock.Fault{{Break: how, AfterBytes: 300}, {Break: how, AfterBytes: 1}, {Break: how, AfterChunks: 1}} {
			t.Run(fmt.Sprint(how, fault.AfterBytes, fault.AfterChunks), func(t *testing.T) {
				t.Parallel()
				generator := mock.Result{Text: longText, Fault: fault}
				var seen string
				var last error
				for c, err := range one(t, generator).Stream(t.Context(), ask("x")) {
					seen, last = seen+c.Text, err
				}
				wantCode(t, last, rouse.CodeStreamCut)
				if cause != nil && !errors.Is(last, cause) {
					t.Errorf("%v does not wrap %v", last, cause)
				}
				if want := longText[:mock.DefaultChunkRunes]; fault.AfterChunks == 1 && seen != want || fault.AfterBytes == 1 && seen != "" {
					t.Errorf("%q was shown", seen)
				}
				both(t, generator, func(t *testing.T, c client) {
					t.Helper()
					got, err := c.body(t.Context(), wire("x", true, true))
					if !errors.Is(err, cause) {
						t.Errorf("got %v, want %v", err, cause)
					}
					// a reset may overtake what was sent before it
					if how != mock.BreakReset && fault.AfterBytes > 0 && len(got) != fault.AfterBytes {
						t.Errorf("%d bytes arrived, want %d", len(got), fault.AfterBytes)
					}
					if !strings.HasPrefix(string(whole.raw), string(got)) {
						t.Errorf("%q is not how the answer begins", got)
					}
					if cause == nil {
						if _, err := parseStream(got); err == nil {
							t.Error("the cut answer looks complete")
						}
					}
				})
			})
		}
	}
}

func TestFaultBreakWithoutStreaming(t *testing.T) {
	t.Parallel()
	for how, cause := range map[mock.Break]error{mock.BreakReset: syscall.ECONNRESET, mock.BreakClose: io.ErrUnexpectedEOF, mock.BreakEnd: nil} {
		both(t, mock.Result{Text: longText, Fault: mock.Fault{Break: how, AfterChunks: 1}}, func(t *testing.T, c client) {
			t.Helper()
			b, err := c.body(t.Context(), wire("x", false, false))
			if !errors.Is(err, cause) || json.Valid(b) {
				t.Errorf("%s: got %q, %v", how, b, err)
			}
		})
	}
}

func TestFaultBeyondTheAnswerIsAnError(t *testing.T) {
	t.Parallel()
	for _, f := range []mock.Fault{
		{Break: mock.BreakReset, AfterBytes: 1 << 20}, {Break: mock.BreakClose, AfterChunks: 100},
		{MalformedJSON: true, AfterChunks: 100},
	} {
		_, err := one(t, mock.Result{Text: longText, Fault: f}).Generate(t.Context(), ask("x"))
		wantCode(t, err, rouse.CodeInvalid)
	}
}

func TestFaultHangEndsWithTheCaller(t *testing.T) {
	t.Parallel()
	for _, after := range []int{0, 1} {
		generator := mock.Result{Text: longText, Fault: mock.Fault{Break: mock.BreakHang, AfterChunks: after}}
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			_, err := one(t, generator).Generate(ctx, ask("x"))
			wantCode(t, err, rouse.CodeTimeout)
			ctx, cancel = context.WithCancel(t.Context())
			time.AfterFunc(time.Minute, cancel)
			_, err = one(t, generator).Generate(ctx, ask("x"))
			wantCode(t, err, rouse.CodeCanceled)
			ctx, cancel = context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			begin := time.Now()
			if _, err = inProcess(one(t, generator)).body(ctx, wire("x", true, false)); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != time.Hour {
				t.Errorf("got %v after %v", err, time.Since(begin))
			}
		})
		t.Run("tcp", func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(20*time.Millisecond, cancel)
			if _, err := overTCP(t, one(t, generator)).body(ctx, wire("x", true, false)); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestCloseEndsAHangingAnswer(t *testing.T) {
	t.Parallel()
	g := one(t, mock.Result{Text: longText, Fault: mock.Fault{Break: mock.BreakHang, AfterChunks: 1}})
	s, err := g.NewServer()
	if err != nil {
		t.Fatal(err)
	}
	c := client{http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, base: s.BaseURL()}
	resp, err := c.post(t.Context(), wire("x", true, false))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if b, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("the cut answer ended in good order: %q", b)
	}
}

func TestBodyCloseEndsAWaitingRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, f := range []mock.Fault{{Piece: time.Hour}, {Break: mock.BreakHang, AfterChunks: 1}} {
			resp, err := inProcess(one(t, mock.Result{Text: longText, Fault: f})).post(t.Context(), wire("x", true, false))
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan error)
			go func() {
				_, err := io.ReadAll(resp.Body)
				done <- err
			}()
			synctest.Wait()
			if err := resp.Body.Close(); err != nil {
				t.Error(err)
			}
			if err := <-done; err == nil {
				t.Error("the read went on")
			}
		}
	})
}

// arrivals returns when each chunk of an answer came.
func arrivals(t *testing.T, g *mock.GPT) (out []time.Duration) {
	t.Helper()
	begin := time.Now()
	for _, err := range g.Stream(t.Context(), ask("x")) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, time.Since(begin))
	}
	return out
}

func TestSlowAnswersKeepTheirPlan(t *testing.T) {
	t.Parallel()
	cfg := mock.Config{ChunkRunes: 10, Rules: []mock.Rule{{Prompt: mock.Any, Generator: mock.Result{
		Text: longText, Fault: mock.Fault{FirstByte: 5 * time.Second, Piece: time.Second}}}}}
	synctest.Test(t, func(t *testing.T) {
		want := []time.Duration{5 * time.Second, 6 * time.Second, 7 * time.Second, 7 * time.Second, 7 * time.Second}
		if got := arrivals(t, newGPT(t, cfg)); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		for _, stream := range []bool{true, false} {
			begin := time.Now()
			resp, err := inProcess(newGPT(t, cfg)).post(t.Context(), wire("x", stream, false))
			if err != nil {
				t.Fatal(err)
			}
			if d := time.Since(begin); d != 5*time.Second {
				t.Errorf("the status came after %v", d)
			}
			if _, err := io.ReadAll(resp.Body); err != nil || time.Since(begin) != 7*time.Second {
				t.Errorf("the end came after %v, %v", time.Since(begin), err)
			}
			resp.Body.Close()
		}
		vary := cfg
		vary.Vary, vary.Seed = true, 7
		first, second := arrivals(t, newGPT(t, vary)), arrivals(t, newGPT(t, vary))
		if !slices.Equal(first, second) {
			t.Errorf("the same seed gave %v and %v", first, second)
		}
		vary.Seed = 8
		if other := arrivals(t, newGPT(t, vary)); slices.Equal(first, other) {
			t.Errorf("another seed gave the same plan %v", other)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5500*time.Millisecond)
		defer cancel()
		_, err := newGPT(t, cfg).Generate(ctx, ask("x"))
		wantCode(t, err, rouse.CodeTimeout)
	})
}

func TestFaultMalformedJSON(t *testing.T) {
	t.Parallel()
	for _, after := range []int{0, 1} {
		generator := mock.Result{Text: longText, Fault: mock.Fault{MalformedJSON: true, AfterChunks: after}}
		var seen string
		var last error
		for c, err := range one(t, generator).Stream(t.Context(), ask("x")) {
			seen, last = seen+c.Text, err
		}
		wantCode(t, last, rouse.CodeProviderOutput)
		if seen != longText[:after*mock.DefaultChunkRunes] {
			t.Errorf("%q was shown before piece %d", seen, after)
		}
		both(t, generator, func(t *testing.T, c client) {
			t.Helper()
			for _, stream := range []bool{true, false} {
				b, err := c.body(t.Context(), wire("x", stream, false))
				if err != nil {
					t.Fatal(err)
				}
				bad := 0
				for event := range strings.SplitSeq(strings.TrimSpace(string(b)), "\n\n") {
					if data := strings.TrimPrefix(event, "data: "); data != "[DONE]" && !json.Valid([]byte(data)) {
						bad++
					}
				}
				if bad != 1 {
					t.Errorf("stream %v: %d documents are malformed: %s", stream, bad, b)
				}
			}
		})
	}
}

func TestFaultsOfCalls(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault     mock.Fault
		call      rouse.ToolCall // the first one
		ids, wire string         // of the second one
	}{
		"none":         {mock.Fault{}, rouse.ToolCall{ID: "c1", Name: "f", Args: `{"path":"a.txt"}`}, "c2", "c2"},
		"cut":          {mock.Fault{CutArgs: true}, rouse.ToolCall{ID: "c1", Name: "f", Args: `{"path":`}, "c2", "c2"},
		"invalid":      {mock.Fault{BadArgs: true}, rouse.ToolCall{ID: "c1", Name: "f", Args: `not JSON: {"path":"a.txt"}`}, "c2", "c2"},
		"unknown tool": {mock.Fault{UnknownTool: "nobody"}, rouse.ToolCall{ID: "c1", Name: "nobody", Args: `{"path":"a.txt"}`}, "c2", "c2"},
		"same id":      {mock.Fault{DuplicateID: true}, rouse.ToolCall{ID: "c1", Name: "f", Args: `{"path":"a.txt"}`}, "c1_2", "c1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			generator := twoCalls(c.fault)
			check := func(t *testing.T, m rouse.Message, second string) {
				t.Helper()
				if got := m.Calls(); len(got) != 2 || got[0] != c.call || got[1].ID != second {
					t.Errorf("got %+v", got)
				}
			}
			g := one(t, generator)
			for range 2 { // the constant is not changed by its fault
				m, err := g.Generate(t.Context(), ask("x"))
				if c.fault.CutArgs {
					wantCode(t, err, rouse.CodeStreamCut)
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				check(t, m, c.ids)
			}
			both(t, generator, func(t *testing.T, cl client) {
				t.Helper()
				s, err := cl.stream(t.Context(), wire("x", true, false))
				if err != nil || s.finish != "tool_calls" {
					t.Fatalf("%q, %v", s.finish, err)
				}
				check(t, s.message, c.wire)
				w, err := cl.whole(t.Context(), wire("x", false, false))
				if err != nil || w.finish != "tool_calls" {
					t.Fatalf("%q, %v", w.finish, err)
				}
				check(t, w.message, c.wire)
			})
		})
	}
}

func TestFaultEmptyChoicesAndNoFinish(t *testing.T) {
	t.Parallel()
	for _, fault := range []mock.Fault{{EmptyChoices: true}, {NoFinish: true}} {
		generator := mock.Result{Text: longText, Fault: fault}
		_, err := one(t, generator).Generate(t.Context(), ask("x"))
		wantCode(t, err, rouse.CodeStreamCut)
		both(t, generator, func(t *testing.T, c client) {
			t.Helper()
			a, err := c.stream(t.Context(), wire("x", true, true))
			if !errors.Is(err, errCut) || strings.Contains(string(a.raw), "[DONE]") == fault.NoFinish || a.usage == nil {
				t.Errorf("got %v from %s", err, a.raw)
			}
			if fault.EmptyChoices != (a.message.Text() == "") {
				t.Errorf("text is %q", a.message.Text())
			}
			if _, err := c.whole(t.Context(), wire("x", false, false)); err == nil || !strings.Contains(err.Error(), "no finished choice") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestFaultEmptyChunkIsHarmless(t *testing.T) {
	t.Parallel()
	both(t, mock.Result{Text: longText, Fault: mock.Fault{EmptyChunk: true}}, func(t *testing.T, c client) {
		t.Helper()
		a, err := c.stream(t.Context(), wire("x", true, false))
		first, _, _ := strings.Cut(string(a.raw), "\n")
		if err != nil || a.message.Text() != longText || !strings.Contains(first, `"choices":[]`) {
			t.Errorf("%v: %s", err, a.raw)
		}
	})
}

func TestFaultFinish(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		result mock.Result
		finish string
		want   model.StopReason
	}{
		{twoCalls(mock.Fault{Finish: "stop"}), "stop", model.StopTools},
		{twoCalls(mock.Fault{Finish: "banana"}), "banana", model.StopTools},
		{mock.Result{Text: "x", Fault: mock.Fault{Finish: "banana"}}, "banana", model.StopEnd},
		{mock.Result{Text: "x", Fault: mock.Fault{Finish: "tool_calls"}}, "tool_calls", model.StopEnd},
		{mock.Result{Text: "x", Fault: mock.Fault{Finish: "length"}}, "length", model.StopLength},
		{mock.Result{Text: "x", Fault: mock.Fault{Finish: "content_filter"}}, "content_filter", model.StopFiltered},
		{mock.Result{Text: "x"}, "stop", model.StopEnd},
		{mock.Result{Text: "x", Stop: model.StopLength}, "length", model.StopLength},
		{mock.Result{Text: "x", Stop: model.StopFiltered}, "content_filter", model.StopFiltered},
		{mock.Result{Text: "x", Stop: model.StopSequence}, "stop", model.StopSequence},
		{twoCalls(mock.Fault{}), "tool_calls", model.StopTools},
	} {
		var got model.StopReason
		for ch, err := range one(t, c.result).Stream(t.Context(), ask("x")) {
			if err != nil {
				t.Fatal(err)
			}
			got = ch.Stop
		}
		if got != c.want {
			t.Errorf("%q: got %q, want %q", c.finish, got, c.want)
		}
		for _, stream := range []bool{true, false} {
			cl := inProcess(one(t, c.result))
			read := cl.whole
			if stream {
				read = cl.stream
			}
			if a, err := read(t.Context(), wire("x", stream, false)); err != nil || a.finish != c.finish {
				t.Errorf("stream %v: got %q, %v, want %q", stream, a.finish, err, c.finish)
			}
		}
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	absurd := rouse.Usage{Input: -5, Output: 1 << 60, CacheRead: 9, Reasoning: 3}
	for name, c := range map[string]struct {
		result mock.Result
		want   *rouse.Usage
	}{
		"estimate": {mock.Result{Reasoning: "12345", Text: "123456789"}, &rouse.Usage{Input: 2, Output: 5, Reasoning: 2}},
		"given":    {mock.Result{Usage: &rouse.Usage{Input: 7, Output: 8, CacheRead: 2}}, &rouse.Usage{Input: 7, Output: 8, CacheRead: 2}},
		"absurd":   {mock.Result{Fault: mock.Fault{Usage: &absurd}}, &absurd},
		"zero":     {mock.Result{Usage: &rouse.Usage{}}, &rouse.Usage{}},
		"missing":  {mock.Result{Fault: mock.Fault{NoUsage: true}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got *rouse.Usage
			for ch, err := range one(t, c.result).Stream(t.Context(), ask("prompt")) {
				if err != nil {
					t.Fatal(err)
				}
				if ch.Type == model.ChunkUsage {
					got = &ch.Usage
				}
			}
			silent := c.want == nil || *c.want == (rouse.Usage{}) // a zero usage means that none was reported
			if (got == nil) != silent || got != nil && *got != *c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			cl := inProcess(one(t, c.result))
			asked, err := cl.stream(t.Context(), wire("prompt", true, true))
			if err != nil {
				t.Fatal(err)
			}
			whole, err := cl.whole(t.Context(), wire("prompt", false, false))
			if err != nil {
				t.Fatal(err)
			}
			for _, u := range []*usage{asked.usage, whole.usage} {
				if (u == nil) != (c.want == nil) {
					t.Fatalf("wire: got %+v", u)
				}
				if u != nil && (rouse.Usage{Input: u.Prompt, Output: u.Completion, CacheRead: u.PromptBy.Cached, Reasoning: u.CompletionBy.Reasoning} != *c.want || u.Total != c.want.Total()) {
					t.Errorf("wire: got %+v, want %+v", u, c.want)
				}
			}
			unasked, err := cl.stream(t.Context(), wire("prompt", true, false))
			if err != nil || unasked.usage != nil || strings.Contains(string(unasked.raw), "usage") {
				t.Errorf("usage came unasked: %s, %v", unasked.raw, err)
			}
		})
	}
}

func TestFaultsThatCannotBe(t *testing.T) {
	t.Parallel()
	for field, r := range map[string]mock.Result{
		"Status must":        {Fault: mock.Fault{Status: 99}},
		"Status excludes":    {Fault: mock.Fault{Status: 500, Break: mock.BreakHang}},
		"Status is needed":   {Fault: mock.Fault{RetryAfter: 1}},
		"RetryAfter must":    {Fault: mock.Fault{Status: 429, RetryAfter: -1}},
		"FirstByte":          {Fault: mock.Fault{FirstByte: -1}},
		"Piece":              {Fault: mock.Fault{Piece: -1}},
		"Break \"later\"":    {Fault: mock.Fault{Break: "later"}},
		"AfterBytes must":    {Fault: mock.Fault{Break: mock.BreakEnd, AfterBytes: -1}},
		"AfterChunks must":   {Fault: mock.Fault{Break: mock.BreakEnd, AfterChunks: -1}},
		"AfterBytes and":     {Fault: mock.Fault{Break: mock.BreakEnd, AfterBytes: 1, AfterChunks: 1}},
		"AfterBytes needs":   {Fault: mock.Fault{AfterBytes: 1}},
		"AfterChunks needs":  {Fault: mock.Fault{AfterChunks: 1}},
		"MalformedJSON":      {Fault: mock.Fault{MalformedJSON: true, Break: mock.BreakEnd}},
		"EmptyChoices":       {Fault: mock.Fault{EmptyChoices: true, NoFinish: true}},
		"Finish and":         {Fault: mock.Fault{Finish: "x", NoFinish: true}},
		"Usage and":          {Fault: mock.Fault{Usage: &rouse.Usage{}, NoUsage: true}},
		"CutArgs and":        twoCalls(mock.Fault{CutArgs: true, BadArgs: true}),
		"DuplicateID needs":  mock.Calls(mock.Call{Name: "f"}),
		"UnknownTool need":   {Text: "x", Fault: mock.Fault{UnknownTool: "x"}},
		"CutArgs needs":      {Calls: []mock.Call{{Name: "f", Args: "{"}}, Fault: mock.Fault{CutArgs: true}},
		"ErrorCode must be":  {Fault: mock.Fault{Status: 500, ErrorCode: "\xff"}},
		"excludes Reasoning": {Text: "x", Parts: []rouse.Part{rouse.Text("x")}},
	} {
		if strings.HasPrefix(field, "DuplicateID") {
			r.Fault.DuplicateID = true
		}
		_, err := mock.New(mock.Config{Rules: []mock.Rule{{Prompt: mock.Any, Generator: r}}})
		wantCode(t, err, rouse.CodeInvalid)
		if !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestCancelledCallers(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g := one(t, "x")
	_, err := g.Generate(ctx, ask("x"))
	wantCode(t, err, rouse.CodeCanceled)
	if _, err := inProcess(g).body(ctx, wire("x", true, false)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if len(g.Requests()) != 0 {
		t.Error("a request of a caller that is gone was recorded")
	}
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(90*time.Second, func() { cancel(cause) })
		slow := one(t, mock.Result{Text: longText, Fault: mock.Fault{FirstByte: time.Minute, Piece: time.Minute}})
		if b, err := inProcess(slow).body(ctx, wire("x", true, false)); err == nil || len(b) == 0 {
			t.Errorf("got %q, %v", b, err)
		}
		if _, err := slow.Generate(ctx, ask("x")); !errors.Is(err, cause) {
			t.Errorf("the cause is lost: %v", err)
		}
		waits := one(t, mock.Func(func(ctx context.Context, _ *model.Request) (any, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}))
		short, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		_, err := waits.Generate(short, ask("x"))
		wantCode(t, err, rouse.CodeTimeout)
	})
}

// TestClientGoesAwayFromASlowAnswer closes the connection in the middle; Close of
// the server then returns though the answer would have taken hours.
func TestClientGoesAwayFromASlowAnswer(t *testing.T) {
	t.Parallel()
	for _, f := range []mock.Fault{{Piece: time.Hour}, {Piece: time.Hour, Break: mock.BreakReset, AfterChunks: 2}, {FirstByte: time.Hour}} {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(20*time.Millisecond, cancel)
		if _, err := overTCP(t, one(t, mock.Result{Text: longText, Fault: f})).body(ctx, wire("x", true, false)); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	}
}
