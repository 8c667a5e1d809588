package model_test

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/model"
)

func partial(t testing.TB, cs ...model.Chunk) model.Answer {
	t.Helper()
	var f model.Folder
	for _, c := range cs {
		if err := f.Add(c); err != nil {
			t.Fatal(err)
		}
	}
	return f.Partial()
}

func TestPlanRecovery(t *testing.T) {
	t.Parallel()
	half := args(0, `{"path":"a.txt","conte`)
	for name, tc := range map[string]struct {
		partial []model.Chunk
		kind    model.PlanKind
		keep    []model.Chunk
		dropped []string
		reset   bool
	}{
		"nothing":                       {nil, model.PlanRestart, nil, nil, false},
		"usage only":                    {[]model.Chunk{usage(1, 1)}, model.PlanRestart, nil, nil, false},
		"text":                          {[]model.Chunk{text("a"), text("b"), usage(1, 1)}, model.PlanContinue, []model.Chunk{text("a"), text("b")}, nil, false},
		"white space":                   {[]model.Chunk{text(" \n")}, model.PlanRestart, nil, nil, true},
		"reasoning":                     {[]model.Chunk{reasoning("a")}, model.PlanRestart, nil, nil, true},
		"signed reasoning":              {[]model.Chunk{reasoning("a"), signature("S")}, model.PlanRestart, nil, nil, true},
		"reasoning and text":            {[]model.Chunk{reasoning("a"), signature("S"), text("b")}, model.PlanContinue, []model.Chunk{reasoning("a"), signature("S"), text("b")}, nil, false},
		"reasoning after text":          {[]model.Chunk{text("a"), reasoning("b")}, model.PlanContinue, []model.Chunk{text("a")}, nil, true},
		"a call that is cut":            {[]model.Chunk{call(0, "a", "x"), half}, model.PlanRestart, nil, []string{"a"}, true},
		"a call without arguments":      {[]model.Chunk{call(0, "a", "x")}, model.PlanRestart, nil, []string{"a"}, true},
		"text and a call that is cut":   {[]model.Chunk{text("b"), call(0, "a", "x"), half}, model.PlanTruncate, []model.Chunk{text("b")}, []string{"a"}, true},
		"text on both sides":            {[]model.Chunk{text("b"), call(0, "a", "x"), half, text("c")}, model.PlanTruncate, []model.Chunk{text("b"), text("c")}, []string{"a"}, true},
		"reasoning before the lost":     {[]model.Chunk{text("b"), reasoning("r"), call(0, "a", "x"), half, text("c")}, model.PlanTruncate, []model.Chunk{text("b"), text("c")}, []string{"a"}, true},
		"a whole call":                  {[]model.Chunk{call(0, "a", "x"), args(0, "{}")}, model.PlanFinish, []model.Chunk{call(0, "a", "x"), args(0, "{}")}, nil, false},
		"a number is not a whole call":  {[]model.Chunk{call(0, "a", "x"), args(0, "12")}, model.PlanRestart, nil, []string{"a"}, true},
		"a whole call after reasoning":  {[]model.Chunk{reasoning("r"), signature("S"), call(0, "a", "x"), args(0, "{}"), reasoning("q")}, model.PlanFinish, []model.Chunk{reasoning("r"), signature("S"), call(0, "a", "x"), args(0, "{}")}, nil, true},
		"a whole call and one cut":      {[]model.Chunk{text("t"), call(0, "a", "x"), args(0, `{"n":`), args(0, "1}"), call(1, "b", "y"), args(1, `{"`)}, model.PlanFinish, []model.Chunk{text("t"), call(0, "a", "x"), args(0, `{"n":`), args(0, "1}")}, []string{"b"}, true},
		"calls are renumbered":          {[]model.Chunk{call(0, "a", "x"), half, call(1, "b", "y"), args(1, `{}`), call(2, "c", "z"), args(2, `{}`)}, model.PlanFinish, []model.Chunk{call(0, "b", "y"), args(0, "{}"), call(1, "c", "z"), args(1, "{}")}, []string{"a"}, true},
		"interleaved, one whole":        {[]model.Chunk{call(0, "a", "x"), call(1, "b", "y"), args(0, "{"), args(1, "{"), args(0, "}")}, model.PlanFinish, []model.Chunk{call(0, "a", "x"), args(0, "{"), args(0, "}")}, []string{"b"}, true},
		"two lost calls":                {[]model.Chunk{text("t"), call(0, "a", "x"), call(1, "b", "y"), args(1, "{")}, model.PlanTruncate, []model.Chunk{text("t")}, []string{"a", "b"}, true},
		"white space and a call cut":    {[]model.Chunk{text("\n\n"), call(0, "a", "x"), half}, model.PlanRestart, nil, []string{"a"}, true},
		"white space before whole call": {[]model.Chunk{text("\n\n"), call(0, "a", "x"), args(0, "{}")}, model.PlanFinish, []model.Chunk{text("\n\n"), call(0, "a", "x"), args(0, "{}")}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := model.PlanRecovery(partial(t, tc.partial...), failure(rouse.CodeStreamCut))
			want := partial(t, tc.keep...)
			if tc.kind == model.PlanFinish {
				want.Stop = model.StopTools
			}
			if p.Kind != tc.kind || p.Reset != tc.reset || !reflect.DeepEqual(p.Keep, want) || p.Err != nil {
				t.Errorf("got  %+v\nwant %s %+v", p, tc.kind, want)
			}
			var dropped []string
			for _, c := range p.Dropped {
				dropped = append(dropped, c.ID)
			}
			if !reflect.DeepEqual(dropped, tc.dropped) {
				t.Errorf("dropped %v", dropped)
			}
		})
	}
}

func TestPlanRecoveryByCause(t *testing.T) {
	t.Parallel()
	said := partial(t, text("a"))
	for _, code := range rouse.Codes() {
		cause := failure(code)
		p := model.PlanRecovery(said, cause)
		if code.Info().Retryable != (p.Kind == model.PlanContinue) || (p.Kind == model.PlanFail) != (p.Err == cause) { //nolint:errorlint // the very error is wanted
			t.Errorf("%s: got %+v", code, p)
		}
	}
	if p := model.PlanRecovery(partial(t, text("a"), stop(model.StopEnd)), failure(rouse.CodeStreamCut)); p.Kind != model.PlanFail {
		t.Errorf("a whole answer: got %+v", p)
	}
	broken := said
	broken.Cuts = "t7"
	if p := model.PlanRecovery(broken, failure(rouse.CodeStreamCut)); p.Kind != model.PlanFail || !isCode(p.Err, rouse.CodeCorrupt) {
		t.Errorf("corrupt cuts: got %+v", p)
	}
}

// Whatever has arrived: an incomplete call is never kept, a complete one always,
// and what is kept is a legal answer that was shown.
func TestPlanRecoveryKeepsOnlyWhatIsWhole(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var f model.Folder
		for _, c := range drawChunks(t) {
			if c.Type == model.ChunkArgs {
				c.Text = rapid.SampledFrom([]string{"{", "}", "{}", `"a":1`, ""}).Draw(t, "json")
			}
			if err := f.Add(c); err != nil {
				t.Fatal(err)
			}
		}
		was := f.Partial()
		p := model.PlanRecovery(was, failure(rouse.CodeStreamCut))
		if p.Kind == model.PlanFail {
			t.Fatal(p.Err)
		}
		var whole []rouse.ToolCall
		for _, c := range was.Message.Calls() {
			if model.CallComplete(c) {
				whole = append(whole, c)
			}
		}
		if got := p.Keep.Message.Calls(); !reflect.DeepEqual(got, whole) || len(got)+len(p.Dropped) != len(was.Message.Calls()) {
			t.Fatalf("kept %+v of %+v", got, was.Message.Calls())
		}
		if (p.Kind == model.PlanFinish) != (len(whole) > 0) || (p.Keep.Stop == model.StopTools) != (len(whole) > 0) {
			t.Fatalf("%s with %d whole calls", p.Kind, len(whole))
		}
		if text := p.Keep.Message.Text(); p.Kind != model.PlanRestart && text != was.Message.Text() {
			t.Fatalf("the text was %q and is %q", was.Message.Text(), text)
		}
		if !p.Reset {
			keep, all := p.Keep.Message, was.Message
			if !reflect.DeepEqual(keep, all) {
				t.Fatalf("no reset, but %+v became %+v", all, keep)
			}
		}
		var again model.Folder
		for c, err := range model.Replay(p.Keep) {
			if err == nil {
				err = again.Add(c)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if !reflect.DeepEqual(again.Partial(), p.Keep) {
			t.Fatalf("what is kept is not what a stream of it folds to: %+v", p.Keep)
		}
	})
}
