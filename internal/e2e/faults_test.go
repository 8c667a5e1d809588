package e2e_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/agent"
	"github.com/rouse-run/rouse/model"
	"github.com/rouse-run/rouse/model/mock"
	"github.com/rouse-run/rouse/run"
)

// The answer that the faults befall: text, then an unsafe call.
const (
	saying  = "Let me write it."               // 4 pieces of 4 runes
	writing = `{"path":"a.txt","content":"x"}` // 1 + 8 pieces
	cutArgs = `{"path":"a.txt","conte`         // 1 + 6 pieces
)

func writes(f mock.Fault) mock.Result {
	return mock.Result{Text: saying, Calls: []mock.Call{{ID: "c1", Name: "write", Args: writing}}, Fault: f}
}

// faultCase is a fault, and what becomes of a run whose provider always has it,
// behind Recover, Retry and Timeouts.
type faultCase struct {
	name  string
	fault mock.Fault
	// code and words are of the run's error; without a code the run completes. What
	// has begun and breaks off is a cut, however it breaks; the words say how.
	code  rouse.Code
	words string
	// ran is how often the tool ran.
	ran int
	// told is in the result that the model is shown instead.
	told string
	// answer replaces the usual one.
	answer func(mock.Fault) mock.Result
}

func faultCases() []faultCase {
	two := func(f mock.Fault) mock.Result {
		return mock.Result{Fault: f, Calls: []mock.Call{{ID: "c1", Name: "write", Args: writing}, {ID: "c2", Name: "write", Args: writing}}}
	}
	inText, inArgs, behind := 2, 8, 13
	return []faultCase{
		{name: "refused", fault: mock.Fault{Status: 400}, code: rouse.CodeProviderRefused, words: "400"},
		{name: "key", fault: mock.Fault{Status: 401}, code: rouse.CodeProviderAuth, words: "401"},
		{name: "too long", fault: mock.Fault{Status: 400, ErrorCode: "context_length_exceeded"}, code: rouse.CodeContextOverflow},
		{name: "slow down", fault: mock.Fault{Status: 429, RetryAfter: time.Hour}, code: rouse.CodeRateLimited, words: "429"},
		{name: "server error", fault: mock.Fault{Status: 500}, code: rouse.CodeProvider, words: "500"},
		{name: "overloaded", fault: mock.Fault{Status: 503}, code: rouse.CodeOverloaded, words: "503"},
		{name: "no first byte", fault: mock.Fault{FirstByte: time.Hour}, code: rouse.CodeTimeout, words: "did not begin to answer"},
		{name: "silence between pieces", fault: mock.Fault{Piece: time.Hour}, code: rouse.CodeStreamCut, words: "fell silent"},

		{name: "reset at once", fault: mock.Fault{Break: mock.BreakReset}, code: rouse.CodeProvider, words: "could not be reached"},
		{name: "reset in the body", fault: mock.Fault{Break: mock.BreakReset, AfterBytes: 20}, code: rouse.CodeStreamCut},
		{name: "reset in the text", fault: mock.Fault{Break: mock.BreakReset, AfterChunks: inText}, code: rouse.CodeStreamCut, words: "the connection broke"},
		{name: "reset in the call", fault: mock.Fault{Break: mock.BreakReset, AfterChunks: inArgs}, code: rouse.CodeStreamCut, words: "the connection broke"},
		{name: "closed at once", fault: mock.Fault{Break: mock.BreakClose}, code: rouse.CodeProvider, words: "could not be reached"},
		{name: "closed in the body", fault: mock.Fault{Break: mock.BreakClose, AfterBytes: 20}, code: rouse.CodeStreamCut},
		{name: "closed in the text", fault: mock.Fault{Break: mock.BreakClose, AfterChunks: inText}, code: rouse.CodeStreamCut, words: "the connection broke"},
		{name: "closed in the call", fault: mock.Fault{Break: mock.BreakClose, AfterChunks: inArgs}, code: rouse.CodeStreamCut, words: "the connection broke"},
		{name: "closed behind the whole call", fault: mock.Fault{Break: mock.BreakClose, AfterChunks: behind}, ran: 1},
		{name: "ended at once", fault: mock.Fault{Break: mock.BreakEnd}, code: rouse.CodeStreamCut, words: "ended without a finish reason"},
		{name: "ended in the text", fault: mock.Fault{Break: mock.BreakEnd, AfterChunks: inText}, code: rouse.CodeStreamCut, words: "ended without a finish reason"},
		{name: "ended in the call", fault: mock.Fault{Break: mock.BreakEnd, AfterChunks: inArgs}, code: rouse.CodeStreamCut, words: "ended without a finish reason"},
		{name: "ended behind the whole call", fault: mock.Fault{Break: mock.BreakEnd, AfterChunks: behind}, ran: 1},
		{name: "hangs at once", fault: mock.Fault{Break: mock.BreakHang}, code: rouse.CodeTimeout, words: "did not begin to answer"},
		{name: "hangs in the text", fault: mock.Fault{Break: mock.BreakHang, AfterChunks: inText}, code: rouse.CodeStreamCut, words: "fell silent"},
		{name: "hangs in the call", fault: mock.Fault{Break: mock.BreakHang, AfterChunks: inArgs}, code: rouse.CodeStreamCut, words: "fell silent"},

		{name: "broken JSON first", fault: mock.Fault{MalformedJSON: true}, code: rouse.CodeProviderOutput},
		{name: "broken JSON in the text", fault: mock.Fault{MalformedJSON: true, AfterChunks: inText}, code: rouse.CodeProviderOutput},
		{name: "broken JSON in the call", fault: mock.Fault{MalformedJSON: true, AfterChunks: inArgs}, code: rouse.CodeProviderOutput},
		{name: "half the arguments", fault: mock.Fault{CutArgs: true}, code: rouse.CodeStreamCut, words: "cut off"},
		{name: "no JSON as arguments", fault: mock.Fault{BadArgs: true}, told: "write"},
		{name: "an unknown tool", fault: mock.Fault{UnknownTool: "erase"}, told: "erase"},
		{name: "one id twice", fault: mock.Fault{DuplicateID: true}, ran: 2, answer: two},
		{name: "no choices", fault: mock.Fault{EmptyChoices: true}, code: rouse.CodeStreamCut},
		{name: "a chunk without choices", fault: mock.Fault{EmptyChunk: true}, ran: 1},
		{name: "an odd reason", fault: mock.Fault{Finish: "banana"}, ran: 1},
		{name: "the limit, behind a whole call", fault: mock.Fault{Finish: "length"}, ran: 1},
		{name: "no reason", fault: mock.Fault{NoFinish: true}, ran: 1}, // the call is whole: Recover ends the turn there
		{name: "no usage", fault: mock.Fault{NoUsage: true}, ran: 1},
		{name: "absurd usage", fault: mock.Fault{Usage: &rouse.Usage{Input: 1 << 60, Output: -5}}, ran: 1},
	}
}

// Every fault has a case, so a new one cannot be forgotten.
func TestEveryFaultHasACase(t *testing.T) {
	t.Parallel()
	typ := reflect.TypeFor[mock.Fault]()
	for i := range typ.NumField() {
		if !slices.ContainsFunc(faultCases(), func(c faultCase) bool { return !reflect.ValueOf(c.fault).Field(i).IsZero() }) {
			t.Errorf("no case has the fault %s", typ.Field(i).Name)
		}
	}
	for _, b := range []mock.Break{mock.BreakReset, mock.BreakClose, mock.BreakEnd, mock.BreakHang} {
		if !slices.ContainsFunc(faultCases(), func(c faultCase) bool { return c.fault.Break == b && c.fault.AfterChunks > 0 }) {
			t.Errorf("no case has a %s within the answer", b)
		}
	}
}

// afterTool reports that the conversation ends with a tool's result.
func afterTool(req *model.Request) bool {
	return len(req.Messages) > 0 && req.Messages[len(req.Messages)-1].Role == rouse.RoleTool
}

// A provider that has a fault always, and one that has it once, over TCP and
// behind every wrapper: each run ends once, says why, replays identically, and no
// call runs that is not whole.
func TestFaultsEndToEnd(t *testing.T) {
	t.Parallel()
	for _, c := range faultCases() {
		if c.answer == nil {
			c.answer = writes
		}
		t.Run(c.name+"/always", func(t *testing.T) {
			t.Parallel()
			faulty(t, c, 0)
		})
		t.Run(c.name+"/once", func(t *testing.T) {
			t.Parallel()
			faulty(t, c, 1)
		})
	}
}

func faulty(t *testing.T, c faultCase, times int) {
	g, m := provider(t, mock.Config{ChunkRunes: 4, Rules: []mock.Rule{
		{Prompt: afterTool, Generator: "done"},
		{Prompt: mock.Any, Generator: c.answer(c.fault), Times: times},
		{Prompt: mock.Any, Generator: c.answer(mock.Fault{})},
	}})
	first, idle := noSilence, noSilence
	switch c.words {
	case "did not begin to answer":
		first = patience
	case "fell silent":
		idle = patience
	}
	var h hands
	a := newAgent(t, agent.Config{Model: impatient(m, first, idle), Tools: h.tools(t, "write")})
	j := run.NewMemory()
	r, evs := drive(t, a, j, "go")

	retryable := c.code.Info().Retryable && c.fault.RetryAfter == 0
	if c.code != "" && (times == 0 || !retryable) {
		err := failed(t, r)
		if err.Code != c.code || !strings.Contains(err.Message, c.words) {
			t.Errorf("the run failed with %s, %q; wanted %s, %q", err.Code, err.Message, c.code, c.words)
		}
		if ran := h.calls(); len(ran) > 0 {
			t.Errorf("a call that is not whole ran: %q", ran)
		}
		if want := 1; !retryable && len(g.Requests()) != want {
			t.Errorf("%d requests for a failure that is final", len(g.Requests()))
		}
		return
	}
	if ans := completed(t, r); ans.Text != "done" {
		t.Errorf("the answer is %q", ans.Text)
	}
	want := c.ran
	if c.code != "" {
		want = 1 // the fault has passed
	}
	ran := h.calls()
	if len(ran) != want || slices.ContainsFunc(ran, func(s string) bool { return s != "write "+writing }) {
		t.Errorf("ran %q, wanted %d whole calls", ran, want)
	}
	got := results(t, evs)
	if c.told != "" && (len(got) == 0 || !got[0].Error || !strings.Contains(got[0].Output, c.told)) {
		t.Errorf("the model was told %+v", got)
	}
	if len(got) == 2 && got[0].CallID == got[1].CallID {
		t.Errorf("two calls share the id %s", got[0].CallID)
	}
	wellFormed(t, g.Requests())
}

// wellFormed checks that each call of a request has exactly one result, in order.
func wellFormed(t *testing.T, reqs []model.Request) {
	t.Helper()
	for n, req := range reqs {
		var open []string
		for _, m := range req.Messages {
			if m.Role == rouse.RoleTool {
				id := m.Parts[0].Result.CallID
				if len(open) == 0 || open[0] != id {
					t.Fatalf("request %d: a result of %s, open are %q", n, id, open)
				}
				open = open[1:]
				continue
			}
			if len(open) > 0 {
				t.Fatalf("request %d: %q have no result", n, open)
			}
			for _, c := range m.Calls() {
				open = append(open, c.ID)
			}
		}
		if len(open) > 0 {
			t.Fatalf("request %d: %q have no result", n, open)
		}
	}
}

func TestCutInACallSaysHow(t *testing.T) {
	// Case 6: pydantic/pydantic-ai #6610, #3118; vllm #53269; charmbracelet/fantasy PR #191.
	t.Parallel()
	pieces := 1 + (len(cutArgs)+3)/4
	for name, c := range map[string]struct {
		fault mock.Fault
		code  rouse.Code
		words []string
	}{
		"a clean end":     {mock.Fault{Break: mock.BreakEnd, AfterChunks: pieces}, rouse.CodeStreamCut, []string{"ended without a finish reason", "write"}},
		"length":          {mock.Fault{Finish: "length"}, rouse.CodeStreamCut, []string{"limit of output tokens", "write"}},
		"tool_calls":      {mock.Fault{Finish: "tool_calls"}, rouse.CodeStreamCut, []string{`"tool_calls"`, "cut off", "write"}},
		"silence forever": {mock.Fault{Break: mock.BreakHang, AfterChunks: pieces}, rouse.CodeStreamCut, []string{"fell silent"}},
	} {
		for _, text := range []string{"", saying} {
			t.Run(name+"/"+text, func(t *testing.T) {
				t.Parallel()
				f := c.fault
				if f.AfterChunks > 0 {
					f.AfterChunks += len(text) / 4
				}
				_, m := provider(t, mock.Config{ChunkRunes: 4, Rules: []mock.Rule{
					{Prompt: mock.Any, Generator: mock.Result{Text: text, Calls: []mock.Call{{ID: "c1", Name: "write", Args: cutArgs}}, Fault: f}},
				}})
				idle := noSilence
				if f.Break == mock.BreakHang {
					idle = patience
				}
				var h hands
				a := newAgent(t, agent.Config{Model: impatient(m, noSilence, idle), Tools: h.tools(t, "write")})
				r, evs := drive(t, a, run.NewMemory(), "go")
				err := failed(t, r)
				if err.Code != c.code {
					t.Errorf("the code is %s", err.Code)
				}
				for _, w := range c.words {
					if !strings.Contains(err.Message, w) {
						t.Errorf("%q does not say %q", err.Message, w)
					}
				}
				if len(h.calls()) > 0 || len(of(evs, rouse.EventToolIntent))+len(of(evs, rouse.EventToolStarted)) > 0 {
					t.Errorf("the call ran: %q", h.calls())
				}
			})
		}
	}
}
