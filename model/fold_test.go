package model_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/model"
)

func text(s string) model.Chunk      { return model.Chunk{Type: model.ChunkText, Text: s} }
func reasoning(s string) model.Chunk { return model.Chunk{Type: model.ChunkReasoning, Text: s} }
func signature(s string) model.Chunk { return model.Chunk{Type: model.ChunkSignature, Text: s} }
func call(i int, id, name string) model.Chunk {
	return model.Chunk{Type: model.ChunkCall, Index: i, ID: id, Name: name}
}
func args(i int, s string) model.Chunk {
	return model.Chunk{Type: model.ChunkArgs, Index: i, Text: s}
}
func usage(in, out int64) model.Chunk {
	return model.Chunk{Type: model.ChunkUsage, Usage: rouse.Usage{Input: in, Output: out}}
}
func reset(why string) model.Chunk           { return model.Chunk{Type: model.ChunkReset, Text: why} }
func stop(why model.StopReason) model.Chunk  { return model.Chunk{Type: model.ChunkStop, Stop: why} }
func joined(c model.Chunk) model.Chunk       { c.More = true; return c }
func isCode(err error, code rouse.Code) bool { return errors.Is(err, &rouse.Error{Code: code}) }

func stream(cs ...model.Chunk) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		for _, c := range cs {
			if !yield(c, nil) {
				return
			}
		}
	}
}

func fold(t testing.TB, cs ...model.Chunk) model.Answer {
	t.Helper()
	a, err := model.Collect(stream(cs...))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func chunks(t testing.TB, a model.Answer) []model.Chunk {
	t.Helper()
	var out []model.Chunk
	for c, err := range model.Replay(a) {
		if err != nil {
			t.Fatalf("replay of %q: %v", a.Cuts, err)
		}
		out = append(out, c)
	}
	return out
}

func TestFold(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		in    []model.Chunk
		parts []rouse.Part
		cuts  string
	}{
		{"nothing said", nil, nil, ""},
		{
			"text in pieces is one part",
			[]model.Chunk{text("Hel"), text("lo"), text(""), text("!")},
			[]rouse.Part{rouse.Text("Hello!")}, "t3,2,1",
		},
		{
			"pieces joined by More are one piece",
			[]model.Chunk{joined(text("a")), joined(text("b")), text("c"), text("d"), joined(text("e")), reasoning("f")},
			[]rouse.Part{rouse.Text("abcde"), rouse.Reasoning("f", "")}, "t3,1,1r1",
		},
		{
			"an empty piece ends what More had joined",
			[]model.Chunk{joined(text("a")), text(""), text("b"), joined(text("")), text("c")},
			[]rouse.Part{rouse.Text("abc")}, "t1,1,1",
		},
		{
			"a signature ends its reasoning",
			[]model.Chunk{reasoning("x"), reasoning("y"), signature("S1"), reasoning("z"), signature("S2"), signature("S3")},
			[]rouse.Part{rouse.Reasoning("xy", "S1"), rouse.Reasoning("z", "S2"), rouse.Reasoning("", "S3")}, "r1,1sr1ss",
		},
		{
			"encrypted reasoning after text is a part of its own",
			[]model.Chunk{text("a"), signature("S"), text("b")},
			[]rouse.Part{rouse.Text("a"), rouse.Reasoning("", "S"), rouse.Text("b")}, "t1st1",
		},
		{
			"text before a call, interleaved arguments, text between",
			[]model.Chunk{
				text("Let me look"), call(0, "a", "read"), args(0, `{"p`), call(1, "b", "list"), args(1, `{`), args(0, `":1}`), text("so"),
				args(1, `}`), text(" far"), call(2, "c", "now"),
			},
			[]rouse.Part{
				rouse.Text("Let me look"), rouse.CallPart(rouse.ToolCall{ID: "a", Name: "read", Args: `{"p":1}`}),
				rouse.CallPart(rouse.ToolCall{ID: "b", Name: "list", Args: "{}"}), rouse.Text("so far"),
				rouse.CallPart(rouse.ToolCall{ID: "c", Name: "now"}),
			},
			"t11ca0:3ca1:1a0:4t2a1:1t4c",
		},
		{
			"a reset forgets text, calls and usage",
			[]model.Chunk{text("no"), call(0, "a", "x"), args(0, "{"), usage(9, 9), reset("again"), call(0, "a", "y"), args(0, "{}")},
			[]rouse.Part{rouse.CallPart(rouse.ToolCall{ID: "a", Name: "y", Args: "{}"})}, "ca0:2",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a := fold(t, slices.Concat(tc.in, []model.Chunk{usage(3, 4), stop(model.StopEnd)})...)
			want := model.Answer{
				Message: rouse.Message{Role: rouse.RoleAssistant, Parts: tc.parts}, Usage: rouse.Usage{Input: 3, Output: 4},
				Stop: model.StopEnd, Cuts: tc.cuts + "u",
			}
			if !reflect.DeepEqual(a, want) {
				t.Errorf("got  %+v\nwant %+v", a, want)
			}
			if again := fold(t, chunks(t, a)...); !reflect.DeepEqual(again, a) {
				t.Errorf("replayed and folded: %+v", again)
			}
		})
	}
}

func TestFoldRefuses(t *testing.T) {
	t.Parallel()
	for name, in := range map[string][]model.Chunk{
		"a chunk after the stop":       {stop(model.StopEnd), text("x")},
		"a reset after the stop":       {stop(model.StopEnd), reset("x")},
		"two stops":                    {stop(model.StopEnd), stop(model.StopEnd)},
		"a stop without reason":        {stop("")},
		"a second usage":               {usage(1, 1), usage(2, 2)},
		"arguments of an unknown call": {args(0, "{}")},
		"arguments of call -1":         {call(0, "a", "x"), args(-1, "{}")},
		"a call out of order":          {call(1, "a", "x")},
		"the index of another call":    {call(0, "a", "x"), call(0, "b", "x")},
		"a repeated id":                {call(0, "a", "x"), call(1, "a", "y")},
		"a call without id":            {call(0, "", "x")},
		"an unknown type":              {{Type: 99}},
		"the zero chunk":               {{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var f model.Folder
			for _, c := range in[:len(in)-1] {
				if err := f.Add(c); err != nil {
					t.Fatal(err)
				}
			}
			before := f.Partial()
			if err := f.Add(in[len(in)-1]); !isCode(err, rouse.CodeProviderOutput) {
				t.Errorf("got %v", err)
			}
			if after := f.Partial(); !reflect.DeepEqual(after, before) {
				t.Errorf("the refused chunk left a trace: %+v", after)
			}
		})
	}
}

func TestFoldBounds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]model.Chunk{
		"text": text("0123456789"), "reasoning": reasoning("0123456789"), "signature": signature("0123456789"), "call": call(0, "id", "x"),
	} {
		f := model.Folder{MaxBytes: 9}
		if err := f.Add(c); !isCode(err, rouse.CodeTooLarge) {
			t.Errorf("%s: got %v", name, err)
		}
		if err := f.Add(text("012345678")); err != nil {
			t.Errorf("%s: what fits was refused: %v", name, err)
		}
		if err := f.Add(reset("")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := f.Add(text("012345678")); err != nil {
			t.Errorf("%s: a reset did not make room: %v", name, err)
		}
	}
	var f model.Folder
	mib := text(strings.Repeat("x", 1<<20))
	for range model.DefaultMaxAnswer >> 20 {
		if err := f.Add(mib); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Add(text("x")); !isCode(err, rouse.CodeTooLarge) {
		t.Errorf("the default does not hold: %v", err)
	}
	unbounded := model.Folder{MaxBytes: -1}
	if err := unbounded.Add(mib); err != nil {
		t.Error(err)
	}
}

func TestCollect(t *testing.T) {
	t.Parallel()
	a, err := model.Collect(stream(text("Hel"), call(0, "a", "x"), args(0, `{"path":"a.txt","conte`)))
	if !isCode(err, rouse.CodeStreamCut) {
		t.Errorf("got %v", err)
	}
	if a.Message.Text() != "Hel" || a.Stop != "" || model.CallComplete(a.Message.Calls()[0]) {
		t.Errorf("got %+v", a)
	}
	boom := &rouse.Error{Code: rouse.CodeProvider}
	a, err = model.Collect(func(yield func(model.Chunk, error) bool) {
		_ = yield(text("x"), nil) && yield(model.Chunk{}, boom)
	})
	if !errors.Is(err, boom) || a.Message.Text() != "x" {
		t.Errorf("got %+v, %v", a, err)
	}
	if _, err = model.Collect(stream(stop(model.StopEnd), text("late"))); !isCode(err, rouse.CodeProviderOutput) {
		t.Errorf("a chunk after the stop was not seen: %v", err)
	}
}

func TestCallComplete(t *testing.T) {
	t.Parallel()
	whole := ` {"a":{"b":[1,"}"]}} `
	if !model.CallComplete(rouse.ToolCall{Args: whole}) {
		t.Error("a whole object is complete")
	}
	for i := range strings.TrimRight(whole, " ") {
		if model.CallComplete(rouse.ToolCall{Args: whole[:i]}) {
			t.Errorf("%q is not complete", whole[:i])
		}
	}
	for _, s := range []string{"", " ", "1", "12", `"x"`, "null", "[]", "{}{}", `{"a":1}x`} {
		if model.CallComplete(rouse.ToolCall{Args: s}) {
			t.Errorf("%q is not complete", s)
		}
	}
}

// drawChunks draws a legal stream, without its stop.
func drawChunks(t *rapid.T) []model.Chunk {
	var out []model.Chunk
	calls, used := 0, false
	piece := rapid.StringN(0, 6, 12)
	for range rapid.IntRange(0, 40).Draw(t, "n") {
		c := model.Chunk{More: rapid.Bool().Draw(t, "more")}
		switch k := rapid.IntRange(0, 19).Draw(t, "kind"); {
		case k < 6:
			c.Type, c.Text = model.ChunkText, piece.Draw(t, "text")
		case k < 10:
			c.Type, c.Text = model.ChunkReasoning, piece.Draw(t, "reasoning")
		case k < 12:
			c.Type, c.Text = model.ChunkSignature, piece.Draw(t, "signature")
		case k < 14:
			c.Type, c.Index, c.ID, c.Name = model.ChunkCall, calls, fmt.Sprint("id", calls), piece.Draw(t, "name")
			calls++
		case k < 18 && calls > 0:
			c.Type, c.Index, c.Text = model.ChunkArgs, rapid.IntRange(0, calls-1).Draw(t, "call"), piece.Draw(t, "args")
		case k == 18 && !used:
			c, used = usage(rapid.Int64Range(0, 9).Draw(t, "in"), 1), true
		case k == 19:
			c = reset("why")
			calls, used = 0, false
		default:
			continue
		}
		out = append(out, c)
	}
	return out
}

// normal is the oracle: what must come back of a stream, written without lengths.
func normal(in []model.Chunk) []model.Chunk {
	var out []model.Chunk
	more := false
	for _, c := range in {
		sized := c.Type == model.ChunkText || c.Type == model.ChunkReasoning || c.Type == model.ChunkArgs
		switch {
		case c.Type == model.ChunkReset:
			out, more = nil, false
			continue
		case c.Type == model.ChunkSignature && c.Text == "":
			continue
		case sized && c.Text == "":
			if n := len(out); n > 0 && out[n-1].Type == c.Type && out[n-1].Index == c.Index {
				more = more && c.More
			}
			continue
		}
		if n := len(out); more && sized && out[n-1].Type == c.Type && out[n-1].Index == c.Index {
			out[n-1].Text += c.Text
		} else {
			out = append(out, model.Chunk{Type: c.Type, Index: c.Index, Text: c.Text, ID: c.ID, Name: c.Name, Usage: c.Usage, Stop: c.Stop})
		}
		more = sized && c.More
	}
	return out
}

func TestReplayIsTheInverseOfFold(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := append(drawChunks(t), stop(model.StopTools))
		var f model.Folder
		for i, c := range in {
			if err := f.Add(c); err != nil {
				t.Fatal(err)
			}
			// at any time: what was read so far is what Partial replays
			p := f.Partial()
			var got []model.Chunk
			for c, err := range model.Replay(p) {
				if err != nil {
					t.Fatalf("%q: %v", p.Cuts, err)
				}
				got = append(got, c)
			}
			if want := normal(in[:i+1]); !reflect.DeepEqual(got, want) {
				t.Fatalf("cuts %q\ngot  %+v\nwant %+v", p.Cuts, got, want)
			}
		}
		a, err := f.Answer()
		if err != nil {
			t.Fatal(err)
		}
		again, err := model.Collect(model.Replay(a))
		if err != nil || !reflect.DeepEqual(again, a) {
			t.Fatalf("got %+v, %v\nwant %+v", again, err, a)
		}
		data, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		var stored model.Answer
		if err := json.Unmarshal(data, &stored); err != nil {
			t.Fatal(err)
		}
		if again, err = model.Collect(model.Replay(stored)); err != nil || !reflect.DeepEqual(again, a) {
			t.Fatalf("after storing: got %+v, %v\nwant %+v", again, err, a)
		}
	})
}

func TestReplayStopsAtEachIndex(t *testing.T) {
	t.Parallel()
	a := fold(t, text("a"), text("b"), reasoning("r"), signature("s"), call(0, "i", "n"), args(0, "{"), args(0, "}"), usage(1, 1), stop(model.StopTools))
	for i := range len(chunks(t, a)) {
		n := 0
		for range model.Replay(a) { // yield panics when it is called after it returned false
			if n++; n > i {
				break
			}
		}
	}
}

func TestReplayRefuses(t *testing.T) {
	t.Parallel()
	base := fold(t, text("ab"), reasoning("cd"), signature("S"), call(0, "i", "n"), args(0, "{}"), usage(1, 1), stop(model.StopEnd))
	if base.Cuts != "t2r2sca0:2u" {
		t.Fatal(base.Cuts)
	}
	for _, cuts := range []string{
		"", "t2", "x", "t", "t2,", "t,2", "t0,2r2sca0:2u", "t02r2sca0:2u", "t1t1r2sca0:2u", "t3r2sca0:2u", "t1r2sca0:2u", "t2r1sca0:2u", "t2r2ca0:2u",
		"t2r2sca0:1u", "t2r2sca0:3u", "t2r2sca1:2u", "t2r2sca0:1a0:1u", "t2r2sa0:2cu", "t2r2sca00:2u", "t2r2sca:2u", "t2r2sca0u", "t2r2sca-1:2u", "t2r2scca0:2u",
		"t2r2sca0:2", "t2r2sca0:2uu", "t2r2ssca0:2u", "t2sr2ca0:2u", "t2r1s1ca0:2u", "t99999999999999999999", "r2t2sca0:2u", "t2 r2sca0:2u", "t2r2sca0:2ut1",
	} {
		a := base
		a.Cuts = cuts
		var last error
		for c, err := range model.Replay(a) {
			if last != nil {
				t.Fatalf("%q: a pair after the error", cuts)
			}
			if last = err; err != nil && !reflect.DeepEqual(c, model.Chunk{}) {
				t.Fatalf("%q: the error comes with a chunk", cuts)
			}
		}
		if !isCode(last, rouse.CodeCorrupt) {
			t.Errorf("%q: got %v", cuts, last)
		}
	}
	for name, change := range map[string]func(*model.Answer){
		"another role": func(a *model.Answer) { a.Message.Role = rouse.RoleUser },
		"a split text part": func(a *model.Answer) {
			a.Message.Parts = []rouse.Part{rouse.Text("a"), rouse.Text("b")}
			a.Cuts = "t1,1u"
		},
		"a signed text part": func(a *model.Answer) {
			a.Message.Parts = []rouse.Part{{Type: rouse.PartText, Text: "a", Signature: "S"}}
			a.Cuts = "t1su"
		},
		"a call part without call": func(a *model.Answer) { a.Message.Parts = []rouse.Part{{Type: rouse.PartToolCall}}; a.Cuts = "cu" },
		"an image":                 func(a *model.Answer) { a.Message.Parts = []rouse.Part{rouse.ImageURL("x")}; a.Cuts = "u" },
		"an empty text part":       func(a *model.Answer) { a.Message.Parts = []rouse.Part{rouse.Text("")}; a.Cuts = "t1u" },
	} {
		a := base
		change(&a)
		if _, err := model.Collect(model.Replay(a)); !isCode(err, rouse.CodeCorrupt) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// FuzzReplay holds Replay against any cuts: it fails, or what it yields folds to
// the same answer.
func FuzzReplay(f *testing.F) {
	for _, s := range []string{"t2,3r2sca0:2ca1:1a0:3t4u", "", "t5,4", "r1sssc", "a0:1"} {
		f.Add(s, "hello, world", "think", "{}", "sig")
	}
	f.Fuzz(func(t *testing.T, cuts, said, thought, arguments, sig string) {
		for _, parts := range [][]rouse.Part{
			{rouse.Text(said)},
			{rouse.Reasoning(thought, sig), rouse.Text(said), rouse.CallPart(rouse.ToolCall{ID: "a", Args: arguments}), rouse.CallPart(rouse.ToolCall{ID: "b", Args: "{}"})},
			{rouse.Reasoning("", sig), rouse.Reasoning(thought, ""), rouse.Text(said), rouse.Reasoning("", sig)},
		} {
			a := model.Answer{Message: rouse.Message{Role: rouse.RoleAssistant, Parts: parts}, Stop: model.StopEnd, Cuts: cuts}
			got, err := model.Collect(model.Replay(a))
			if err != nil {
				if !isCode(err, rouse.CodeCorrupt) {
					t.Fatal(err)
				}
				continue
			}
			if !reflect.DeepEqual(got, a) {
				t.Fatalf("got  %+v\nwant %+v", got, a)
			}
		}
	})
}

// FuzzFold reads a stream from bytes and checks the law on it.
func FuzzFold(f *testing.F) {
	f.Add([]byte("\x01abc\x01d\x02e\x03f\x04\x05{}\x06\x01x\x07\x01y"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var f model.Folder
		calls := 0
		for _, piece := range strings.FieldsFunc(string(data), func(r rune) bool { return r == '\n' }) {
			c := model.Chunk{Type: model.ChunkType(piece[0] % 8), Text: piece[1:], More: piece[0]&8 != 0}
			if c.Type == model.ChunkArgs && calls > 0 {
				c.Index = int(piece[0]>>4) % calls
			}
			if c.Type == model.ChunkCall {
				c.Index, c.ID = calls, c.Text
				c.Text = ""
			}
			err := f.Add(c)
			switch {
			case c.Type == model.ChunkReset:
				calls = 0
			case c.Type == model.ChunkCall && err == nil:
				calls++
			}
		}
		if err := f.Add(stop(model.StopEnd)); err != nil {
			t.Fatal(err)
		}
		a, err := f.Answer()
		if err != nil {
			t.Fatal(err)
		}
		got, err := model.Collect(model.Replay(a))
		if err != nil || !reflect.DeepEqual(got, a) {
			t.Fatalf("got  %+v, %v\nwant %+v", got, err, a)
		}
	})
}

func BenchmarkFoldText(b *testing.B) {
	c := text("token ")
	var f model.Folder
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%2000 == 0 {
			_ = f.Add(reset(""))
		}
		if err := f.Add(c); err != nil {
			b.Fatal(err)
		}
	}
}

func TestFoldTextDoesNotAllocate(t *testing.T) {
	var f model.Folder
	c := text("token ")
	for range 4096 {
		_ = f.Add(c)
	}
	_ = f.Add(reset(""))
	if n := testing.AllocsPerRun(2000, func() { _ = f.Add(c) }); n != 0 {
		t.Errorf("%v allocations a chunk", n)
	}
}

func BenchmarkReplay(b *testing.B) {
	var f model.Folder
	for range 2000 {
		_ = f.Add(text("token "))
	}
	_ = f.Add(stop(model.StopEnd))
	a := f.Partial()
	for b.Loop() {
		for _, err := range model.Replay(a) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}
