package model_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/model"
	"github.com/rouse-run/rouse/model/modeltest"
)

var cutOff = modeltest.Step{Err: &rouse.Error{Code: rouse.CodeStreamCut, Op: "test", Message: "connection reset"}}

func rescued(script *modeltest.Script, cfg model.RecoverConfig) model.Model {
	cfg.Backoff.Rand = highest{}
	return model.Recover(cfg)(script)
}

// show ranges over a stream and writes it down in one line.
func show(ctx context.Context, m model.Model, req *model.Request) string {
	var b strings.Builder
	for c, err := range m.Stream(ctx, req) {
		switch {
		case err != nil:
			fmt.Fprintf(&b, "!%s ", rouse.CodeOf(err))
		case c.Type == model.ChunkText:
			fmt.Fprintf(&b, "%q ", c.Text)
		case c.Type == model.ChunkReasoning:
			fmt.Fprintf(&b, "r%q ", c.Text)
		case c.Type == model.ChunkSignature:
			fmt.Fprintf(&b, "s%q ", c.Text)
		case c.Type == model.ChunkCall:
			fmt.Fprintf(&b, "call%d:%s ", c.Index, c.ID)
		case c.Type == model.ChunkArgs:
			fmt.Fprintf(&b, "args%d:%s ", c.Index, c.Text)
		case c.Type == model.ChunkUsage:
			fmt.Fprintf(&b, "u%d+%d ", c.Usage.Input, c.Usage.Output)
		case c.Type == model.ChunkReset:
			b.WriteString("RESET ")
		case c.Type == model.ChunkStop:
			fmt.Fprintf(&b, "%s.", c.Stop)
		}
	}
	return strings.TrimSpace(b.String())
}

func TestRecover(t *testing.T) {
	t.Parallel()
	end, tools := stop(model.StopEnd), stop(model.StopTools)
	half := args(0, `{"path":"a.txt","conte`)
	turns := func(ts ...modeltest.Turn) []modeltest.Turn { return ts }
	said := modeltest.Chunks
	for name, tc := range map[string]struct {
		turns []modeltest.Turn
		want  string
		sent  int
	}{
		"nothing breaks": {
			turns(said(usage(1, 2), text("a"), call(0, "x", "f"), args(0, "{"), tools)), `"a" call0:x args0:{ u1+2 tool_use.`, 1,
		},
		"text goes on: prefix and continuation are one text": {
			turns(said(usage(5, 1), text("Hel")).Then(cutOff), said(text("lo"), usage(7, 2), end)), `"Hel" "lo" u12+3 end.`, 2,
		},
		"twice": {
			turns(said(text("a"), usage(1, 1)).Then(cutOff), said(text("b")).Then(cutOff), said(text("c"), usage(1, 1), end)), `"a" "b" "c" u2+2 end.`, 3,
		},
		"three times is too often": {
			turns(said(text("a"), usage(1, 1)).Then(cutOff), said(text("b")).Then(cutOff), said(text("c"), usage(2, 2)).Then(cutOff)), `"a" "b" "c" u3+3 !stream_cut`, 3,
		},
		"a continuation may call a tool": {
			turns(said(text("a")).Then(cutOff), said(text("b"), call(0, "x", "f"), args(0, "{}"), tools)), `"a" "b" call0:x args0:{} tool_use.`, 2,
		},
		"a call that is cut off is taken back": {
			turns(said(text("Look: "), call(0, "x", "write"), half).Then(cutOff), said(call(0, "y", "write"), args(0, "{}"), tools)),
			`"Look: " call0:x args0:{"path":"a.txt","conte RESET "Look: " call0:y args0:{} tool_use.`, 2,
		},
		"a whole call ends the turn": {
			turns(said(text("a"), call(0, "x", "f"), args(0, "{}"), usage(3, 3)).Then(cutOff)), `"a" call0:x args0:{} u3+3 tool_use.`, 1,
		},
		"a whole call ends the turn without the one that is cut": {
			turns(said(call(0, "x", "f"), half, call(1, "y", "f"), args(1, "{}")).Then(cutOff)),
			`call0:x args0:{"path":"a.txt","conte call1:y args1:{} RESET call0:y args0:{} tool_use.`, 1,
		},
		"nothing usable starts anew": {
			turns(said(reasoning("hm"), usage(1, 1)).Then(cutOff), said(reasoning("ah"), text("b"), usage(2, 2), end)), `r"hm" RESET r"ah" "b" u3+3 end.`, 2,
		},
		"a call alone that is cut starts anew": {
			turns(said(call(0, "x", "f"), half).Then(cutOff), said(call(0, "x", "f"), args(0, "{}"), tools)),
			`call0:x args0:{"path":"a.txt","conte RESET call0:x args0:{} tool_use.`, 2,
		},
		"a failure while going on is one of the retries": {
			turns(said(text("a")).Then(cutOff), modeltest.Fail(failure(rouse.CodeOverloaded)), said(text("b"), end)), `"a" "b" end.`, 3,
		},
		"a permanent failure while going on ends it": {
			turns(said(text("a"), usage(1, 1)).Then(cutOff), modeltest.Fail(failure(rouse.CodeProviderAuth))), `"a" u1+1 !provider_auth`, 2,
		},
		"a permanent failure in the middle is passed on": {
			turns(said(text("a")).Then(modeltest.Step{Err: failure(rouse.CodeProviderRefused)})), `"a" !provider_refused`, 1,
		},
		"a failure before the first chunk is passed on": {
			turns(modeltest.Fail(failure(rouse.CodeOverloaded)), said(end)), `!overloaded`, 1,
		},
		"a wish for a long wait is passed on": {
			turns(said(text("a")).Then(modeltest.Step{Err: &rouse.Error{Code: rouse.CodeRateLimited, RetryAfter: time.Hour}})), `"a" !rate_limited`, 1,
		},
		"the wrapped model starts anew itself": {
			turns(said(text("a"), usage(9, 9), reset("x"), text("b"), end)), `"a" RESET "b" end.`, 1,
		},
		"the wrapped model starts a continuation anew": {
			turns(said(text("a")).Then(cutOff), said(text("b"), reset("x"), text("c"), end)), `"a" "b" RESET "a" "c" end.`, 2,
		},
		"a model that breaks the rules is not asked again": {
			turns(said(text("a"), args(3, "{}"))), `"a" !provider_output`, 1,
		},
		"reasoning stays with the text that it led to": {
			turns(said(reasoning("r"), signature("S"), text("a")).Then(cutOff), said(reasoning("q"), signature("T"), text("b"), end)), `r"r" s"S" "a" r"q" s"T" "b" end.`, 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				script := modeltest.NewScript(tc.turns...)
				if got := show(t.Context(), rescued(script, model.RecoverConfig{}), hello); got != tc.want {
					t.Errorf("got  %s\nwant %s", got, tc.want)
				}
				if script.Sent() != tc.sent || script.Open() != 0 {
					t.Errorf("%d requests, %d open", script.Sent(), script.Open())
				}
			})
		})
	}
}

func TestRecoverRequests(t *testing.T) {
	t.Parallel()
	half := modeltest.Chunks(text("Look: "), call(0, "x", "write"), args(0, `{"p`)).Then(cutOff)
	part := modeltest.Chunks(reasoning("r"), signature("S"), text("Hel"), text("lo")).Then(cutOff)
	json := &model.OutputSpec{Name: "x", Schema: json.RawMessage("{}")}
	assistant := func(s string) rouse.Message {
		return rouse.Message{Role: rouse.RoleAssistant, Parts: []rouse.Part{rouse.Text(s)}}
	}
	for name, tc := range map[string]struct {
		cfg   model.RecoverConfig
		out   *model.OutputSpec
		first modeltest.Turn
		added []rouse.Message
	}{
		"continue":                   {model.RecoverConfig{}, nil, part, []rouse.Message{assistant("Hello"), rouse.UserText(model.DefaultContinuePrompt)}},
		"continue in own words":      {model.RecoverConfig{ContinuePrompt: "go on"}, nil, part, []rouse.Message{assistant("Hello"), rouse.UserText("go on")}},
		"continue by prefill":        {model.RecoverConfig{Prefill: true}, nil, part, []rouse.Message{assistant("Hello")}},
		"truncate":                   {model.RecoverConfig{}, nil, half, []rouse.Message{assistant("Look: "), rouse.UserText(model.DefaultTruncatePrompt)}},
		"truncate in own words":      {model.RecoverConfig{TruncatePrompt: "again"}, nil, half, []rouse.Message{assistant("Look: "), rouse.UserText("again")}},
		"no prefill that ends blank": {model.RecoverConfig{Prefill: true, TruncatePrompt: "again"}, nil, half, []rouse.Message{assistant("Look: "), rouse.UserText("again")}},
		"restart":                    {model.RecoverConfig{}, nil, modeltest.Chunks(reasoning("r")).Then(cutOff), nil},
		"JSON cannot be continued":   {model.RecoverConfig{}, json, part, nil},
		"JSON by prefill":            {model.RecoverConfig{Prefill: true}, json, part, []rouse.Message{assistant("Hello")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				messages := make([]rouse.Message, 1, 10)
				messages[0] = rouse.UserText("hello")
				req := &model.Request{System: "be brief", Messages: messages, Output: tc.out, Memo: &model.Memo{}}
				script := modeltest.NewScript(tc.first, modeltest.Say("!"))
				a, err := model.Collect(rescued(script, tc.cfg).Stream(t.Context(), req))
				if err != nil {
					t.Fatal(err)
				}
				if text := a.Message.Text(); (tc.added == nil) != (text == "!") {
					t.Errorf("the answer is %q", text)
				}
				sent := script.Requests()
				if want := append(slices.Clone(messages), tc.added...); len(sent) != 2 || !reflect.DeepEqual(sent[1].Messages, want) || sent[1].System != req.System {
					t.Errorf("got  %+v\nwant %+v", sent, want)
				}
				if extra := messages[:2][1]; !reflect.DeepEqual(extra, rouse.Message{}) {
					t.Errorf("the caller's slice was written to: %+v", extra)
				}
			})
		})
	}
}

func TestRecoverWaits(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		cause error
		took  time.Duration
	}{
		"after a cut, exponentially": {cutOff.Err, 1500 * time.Millisecond},
		"after silence, shortly":     {failure(rouse.CodeTimeout), 400 * time.Millisecond},
		"as the provider wishes":     {&rouse.Error{Code: rouse.CodeRateLimited, RetryAfter: 5 * time.Second}, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				_, err := ask(t.Context(), rescued(modeltest.NewScript(modeltest.Chunks(text("a")).Then(modeltest.Step{Err: tc.cause})), model.RecoverConfig{}))
				if !isCode(err, rouse.CodeStreamCut) || !errors.Is(err, tc.cause) || time.Since(begun) != tc.took {
					t.Errorf("got %v after %v", err, time.Since(begun))
				}
			})
		})
	}
}

func TestRecoverCancelled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("the user closed the page")
		for _, turn := range []modeltest.Turn{
			modeltest.Chunks(text("a")).Then(hang),                        // while the model is silent
			modeltest.Chunks(text("a"), usage(2, 2)).Then(cutOff),         // while waiting
			modeltest.Chunks(call(0, "x", "f"), args(0, "{}")).Then(hang), // with a whole call: it must not run
		} {
			script := modeltest.NewScript(turn)
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(100*time.Millisecond, func() { cancel(why) })
			begun := time.Now()
			a, err := ask(ctx, rescued(script, model.RecoverConfig{}))
			if !isCode(err, rouse.CodeCanceled) || !errors.Is(err, why) || a.Stop != "" || time.Since(begun) != 100*time.Millisecond || script.Sent() != 1 {
				t.Errorf("got %+v, %v after %v and %d requests", a, err, time.Since(begun), script.Sent())
			}
		}
	})
}

// Three ways to cut a call, and silence: the consumer can tell which it was, and
// in none is there a call that could run.
func TestFourWaysToLoseACall(t *testing.T) {
	t.Parallel()
	lost := []model.Chunk{call(0, "x", "write"), args(0, `{"path":"a.txt","conte`)}
	for name, tc := range map[string]struct {
		last modeltest.Step
		stop model.StopReason
		code rouse.Code
		text string
	}{
		"clean end without a reason": {modeltest.Step{}, "", rouse.CodeStreamCut, "broke off"},
		"out of tokens":              {modeltest.Step{Chunk: stop(model.StopLength)}, model.StopLength, "", ""},
		"wants its tools":            {modeltest.Step{Chunk: stop(model.StopTools)}, model.StopTools, "", ""},
		"silent for ever":            {hang, "", rouse.CodeTimeout, "fell silent"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				script := modeltest.NewScript(modeltest.Chunks(lost...).Then(tc.last))
				m := model.Chain(script, model.Recover(model.RecoverConfig{}), model.Retry(model.RetryConfig{}), model.Timeouts(model.TimeoutConfig{}))
				a, err := ask(t.Context(), m)
				if a.Stop != tc.stop {
					t.Errorf("stopped with %q, not %q", a.Stop, tc.stop)
				}
				for _, c := range a.Message.Calls() {
					if model.CallComplete(c) {
						t.Errorf("call %+v could run", c)
					}
				}
				switch {
				case tc.code == "" && err != nil:
					t.Errorf("got %v", err)
				case tc.code != "" && (!isCode(err, tc.code) || !strings.Contains(err.Error(), tc.text)):
					t.Errorf("got %v", err)
				}
			})
		})
	}
}

// Text before a call reaches the consumer before the call is there.
func TestTextIsNotHeldBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := model.Chain(modeltest.NewScript(modeltest.Turn{
			{Chunk: text("Let me look")}, slow(time.Second, call(0, "x", "f")), slow(time.Second, args(0, "{}")), slow(time.Second, stop(model.StopTools)),
		}), model.Recover(model.RecoverConfig{}), model.Breaker(model.BreakerConfig{}), model.Retry(model.RetryConfig{}),
			model.Limit(model.LimitConfig{}), model.Timeouts(model.TimeoutConfig{}))
		begun := time.Now()
		var at []time.Duration
		for _, err := range m.Stream(t.Context(), hello) {
			if err != nil {
				t.Fatal(err)
			}
			at = append(at, time.Since(begun))
		}
		if want := []time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second}; !reflect.DeepEqual(at, want) {
			t.Errorf("chunks came at %v", at)
		}
	})
}

// What the consumer was shown when it left is what a Folder has at that moment.
func TestLeftInTheMiddle(t *testing.T) {
	t.Parallel()
	m := rescued(modeltest.NewScript(modeltest.Say("one ", "two ", "three ", "four ")), model.RecoverConfig{})
	for i := range 5 {
		var f model.Folder
		seen := ""
		for c, err := range m.Stream(t.Context(), hello) {
			if err != nil {
				t.Fatal(err)
			}
			if err := f.Add(c); err != nil {
				t.Fatal(err)
			}
			if seen += c.Text; len(f.Partial().Cuts) > 0 && strings.Count(seen, " ") > i {
				break
			}
		}
		if got := f.Partial().Message.Text(); got != seen {
			t.Errorf("shown %q, kept %q", seen, got)
		}
	}
}

// Cut anywhere, any number of times: the consumer's fold is legal throughout, no
// incomplete call survives to the end, and the text is all that was said since
// the last restart.
func TestRecoverAnything(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var turns []modeltest.Turn
		tokens := int64(0)
		for i := range rapid.IntRange(1, 4).Draw(t, "turns") {
			cs := drawChunks(t)
			for j := range cs {
				cs[j].ID = strings.Replace(cs[j].ID, "id", fmt.Sprintf("turn%d-", i), 1)
				if cs[j].Type == model.ChunkArgs {
					cs[j].Text = rapid.SampledFrom([]string{"{", "}", "{}", `"a":1`}).Draw(t, "json")
				}
			}
			turn := modeltest.Chunks(cs...)
			if rapid.Bool().Draw(t, "cut") {
				turn = turn.Then(cutOff)
			} else {
				turn = turn.Then(modeltest.Step{Chunk: stop(model.StopEnd)})
			}
			turns = append(turns, turn)
		}
		script := modeltest.NewScript(turns...)
		m := model.Recover(model.RecoverConfig{Backoff: model.BackoffConfig{Base: 1, Cap: 1}, StallDelay: 1})(script)
		a, err := ask(context.Background(), m)
		sent := script.Sent()
		if sent > 1+model.DefaultStreamRetries || script.Open() != 0 {
			t.Fatalf("%d requests, %d open", sent, script.Open())
		}
		for i := range sent {
			tokens += used(turns[min(i, len(turns)-1)])
		}
		if a.Usage.Output != tokens {
			t.Fatalf("usage %d, spent %d", a.Usage.Output, tokens)
		}
		last := turns[min(sent, len(turns))-1]
		ended := last[len(last)-1].Err == nil
		switch {
		case err != nil && !isCode(err, rouse.CodeStreamCut):
			t.Fatal(err)
		case err == nil && !ended: // the turn was finished for its whole calls
			for _, c := range a.Message.Calls() {
				if !model.CallComplete(c) {
					t.Fatalf("%+v is in the answer", c)
				}
			}
			if a.Stop != model.StopTools || len(a.Message.Calls()) == 0 {
				t.Fatalf("ended with %q and %d calls", a.Stop, len(a.Message.Calls()))
			}
		case ended != (err == nil):
			t.Fatalf("the last turn ended: %v, but %v", ended, err)
		}
		if err == nil && ended { // calls of earlier turns are gone, since they were cut
			for _, c := range a.Message.Calls() {
				if !strings.HasPrefix(c.ID, fmt.Sprintf("turn%d-", min(sent, len(turns))-1)) {
					t.Fatalf("call %q survived a cut", c.ID)
				}
			}
		}
		again, replayErr := model.Collect(model.Replay(a))
		if err == nil && (replayErr != nil || !reflect.DeepEqual(again, a)) {
			t.Fatalf("got %+v, %v", again, replayErr)
		}
	})
}

// used is what a turn says that it consumed.
func used(turn modeltest.Turn) (n int64) {
	for _, s := range turn {
		switch s.Chunk.Type {
		case model.ChunkUsage:
			n = s.Chunk.Usage.Output
		case model.ChunkReset:
			n = 0
		}
	}
	return n
}
