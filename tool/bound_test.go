package tool_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/tool"
)

// keeper counts what it is given.
type keeper struct {
	blobs [][]byte
	err   error
	panic bool
}

func (k *keeper) PutBlob(ctx context.Context, data []byte) (string, error) {
	if k.panic {
		panic("disk on fire")
	}
	if k.err != nil || ctx.Err() != nil {
		return "", errors.Join(k.err, ctx.Err())
	}
	k.blobs = append(k.blobs, bytes.Clone(data))
	return fmt.Sprintf("sha256:%x", sha256.Sum256(data)), nil
}

// case 13: 20 MB of JSON with multi-byte text
func TestHugeOutput(t *testing.T) {
	t.Parallel()
	type row struct {
		ID   int    `json:"id"`
		Text string `json:"text"`
	}
	var rows []row
	for i := 0; i*200 < 20<<20; i++ {
		rows = append(rows, row{i, strings.Repeat("漢字🙂é", 16)})
	}
	whole, err := json.Marshal(rows)
	if err != nil {
		t.Fatal(err)
	}
	if len(whole) < 20<<20 {
		t.Fatalf("only %d bytes", len(whole))
	}
	f, err := tool.Func(tool.FuncConfig{Name: "dump", Effect: tool.ReadOnly}, func(context.Context, struct{}) ([]row, error) { return rows, nil })
	if err != nil {
		t.Fatal(err)
	}
	set := mustSet(t, f, named(tool.ReadResult, ""))
	k := &keeper{}
	call := tool.Invocation{Call: rouse.ToolCall{Name: "dump"}, Keeper: k}
	out := set.Invoke(t.Context(), call)
	ref := fmt.Sprintf("sha256:%x", sha256.Sum256(whole))
	text := out.Result.Output
	if out.Code != "" || out.Result.Error || out.Result.Whole != ref || !bytes.Equal(out.Whole, whole) || out.KeepErr != nil {
		t.Fatalf("code %q, whole %q, %v", out.Code, out.Result.Whole, out.KeepErr)
	}
	if len(k.blobs) != 1 || !bytes.Equal(k.blobs[0], whole) {
		t.Fatalf("kept %d times", len(k.blobs))
	}
	if len(text) > tool.DefaultMaxOutput || len(text) < tool.DefaultMaxOutput*3/4 || !utf8.ValidString(text) {
		t.Fatalf("%d bytes are shown", len(text))
	}
	var cut, of int
	i := strings.Index(text, "[... ")
	if _, err = fmt.Sscanf(text[i:], "[... %d of %d bytes left out here;", &cut, &of); err != nil || of != len(whole) {
		t.Fatalf("the marker says %d of %d: %v", cut, of, err)
	}
	for _, want := range []string{"the whole is kept as " + ref, "read it with the tool read_result"} {
		if !strings.Contains(text, want) {
			t.Errorf("the marker lacks %q", want)
		}
	}
	end := strings.Index(text, "...]\n\n") + len("...]\n\n")
	head, tail := text[:i-2], text[end:]
	if cut+len(head)+len(tail) != of || !bytes.HasPrefix(whole, []byte(head)) || !bytes.HasSuffix(whole, []byte(tail)) {
		t.Errorf("%d + %d + %d is not %d", len(head), cut, len(tail), of)
	}
	if !strings.HasSuffix(head, ",") || !strings.HasSuffix(tail, "]") {
		t.Errorf("cut within an element: ...%q", head[len(head)-20:])
	}

	call.Hidden = func(n string) bool { return n == tool.ReadResult }
	if out = set.Invoke(t.Context(), call); strings.Contains(out.Result.Output, tool.ReadResult) {
		t.Error("the marker names a hidden tool")
	}
}

func TestKeeperFailures(t *testing.T) {
	t.Parallel()
	long := &raw{spec: tool.Spec{MaxOutput: 1000}, call: func(context.Context, *tool.Call) (tool.Result, error) {
		return tool.Text(strings.Repeat("line\n", 1000)), nil
	}}
	full := errors.New("disk full")
	for name, k := range map[string]*keeper{"error": {err: full}, "panic": {panic: true}} {
		out := invoke(t, t.Context(), long, func(i *tool.Invocation) { i.Keeper = k })
		if out.KeepErr == nil || out.Code != "" || out.Result.Whole != "" || !strings.Contains(out.Result.Output, "the rest was not kept") {
			t.Errorf("%s: %+v", name, out)
		}
		if name == "error" && !errors.Is(out.KeepErr, full) {
			t.Errorf("%v", out.KeepErr)
		}
	}
	out := invoke(t, t.Context(), long, nil)
	if out.KeepErr != nil || !strings.Contains(out.Result.Output, "the rest was not kept") || len(out.Result.Output) > 1000 {
		t.Errorf("without a keeper: %+v", out)
	}
	// a finished call is kept although the run was canceled meanwhile
	ctx, cancel := context.WithCancel(t.Context())
	k := &keeper{}
	done := &raw{spec: long.spec, call: func(ctx context.Context, c *tool.Call) (tool.Result, error) { cancel(); return long.call(ctx, c) }}
	if out = invoke(t, ctx, done, func(i *tool.Invocation) { i.Keeper = k }); out.Result.Whole == "" || len(k.blobs) != 1 {
		t.Errorf("canceled: %+v", out)
	}
	// what fits is not stored
	short := &raw{spec: tool.Spec{MaxOutput: 5000}, call: long.call}
	if out = invoke(t, t.Context(), short, func(i *tool.Invocation) { i.Keeper = k }); out.Result.Whole != "" || len(k.blobs) != 1 {
		t.Errorf("short: %+v", out)
	}
}

func TestHardLimitOfResults(t *testing.T) {
	t.Parallel()
	big := &raw{spec: tool.Spec{Name: "t", Effect: tool.ReadOnly, Retries: 3}, call: func(context.Context, *tool.Call) (tool.Result, error) {
		return tool.Result{Output: make([]byte, 101)}, nil
	}}
	set, err := tool.New(tool.Config{Tools: []tool.Tool{big}, Limits: tool.Limits{Result: 100}})
	if err != nil {
		t.Fatal(err)
	}
	k := &keeper{}
	out := set.Invoke(t.Context(), tool.Invocation{Call: rouse.ToolCall{Name: "t"}, Keeper: k})
	if out.Code != rouse.CodeTooLarge || !out.Result.Error || !strings.Contains(out.Result.Output, "max_result (100)") || out.Attempts != 1 || len(k.blobs) != 0 || out.Whole != nil {
		t.Fatalf("%+v", out)
	}
}

func TestBound(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789", 50)
	for _, tc := range []struct {
		in   string
		max  int
		want string
		cut  bool
	}{
		{"", 0, "", false},
		{"", -1, "", false},
		{"abc", 3, "abc", false},
		{"a\xffc", 5, "a\ufffdc", false},
		{"abc", 0, "", true},
		{"abc", -5, "", true},
		{"漢字", 5, "漢", true},
		{"\xff\xff", 5, "\ufffd", true},
		{long, 50, "0123456789012[...483 of 500 bytes left out...]6789", true},
	} {
		got, cut := tool.Bound([]byte(tc.in), tc.max)
		if got != tc.want || cut != tc.cut || len(got) > max(tc.max, 0) {
			t.Errorf("Bound(%q, %d) = %q, %v", tc.in, tc.max, got, cut)
		}
	}
	got, _ := tool.Bound([]byte(long), 200)
	if !strings.Contains(got, "bytes left out here; the rest was not kept") {
		t.Error(got)
	}
	lines, _ := tool.Bound([]byte(strings.Repeat("a whole line\n", 100)), 400)
	for l := range strings.SplitSeq(lines, "\n") {
		if l != "" && l != "a whole line" && !strings.HasPrefix(l, "[...") {
			t.Errorf("a broken line %q", l)
		}
	}
}

// checkBound holds Bound to its contract.
func checkBound(t interface{ Fatalf(string, ...any) }, in []byte, max int) {
	before := bytes.Clone(in)
	got, cut := tool.Bound(in, max)
	if !bytes.Equal(in, before) {
		t.Fatalf("the input was changed")
	}
	if !utf8.ValidString(got) {
		t.Fatalf("not UTF-8: %q", got)
	}
	if len(got) > max && got != "" {
		t.Fatalf("%d bytes, at most %d allowed", len(got), max)
	}
	whole := string([]rune(string(in))) // replaces every invalid byte
	if len(whole) <= max {
		if cut || got != whole {
			t.Fatalf("what fits was changed: %q became %q", in, got)
		}
		return
	}
	if cut != (len(in) > 0) {
		t.Fatalf("cut is %v", cut)
	}
	if i := strings.Index(got, "[..."); i >= 0 && !strings.Contains(whole, "[...") {
		var n, of int
		rest := strings.TrimLeft(got[i:], "[. ")
		if _, err := fmt.Sscanf(rest, "%d of %d bytes left out", &n, &of); err != nil || of != len(in) || n <= 0 || n > of {
			t.Fatalf("the marker says %q: %v", rest, err)
		}
		head := strings.TrimSuffix(got[:i], "\n\n")
		tail := got[strings.Index(got, "...]")+len("...]"):]
		if !strings.HasPrefix(whole, head) || !strings.HasSuffix(whole, strings.TrimPrefix(tail, "\n\n")) {
			t.Fatalf("head %q or tail %q is not of the input", head, tail)
		}
	}
}

func FuzzBound(f *testing.F) {
	f.Add([]byte("plain"), 3)
	f.Add([]byte(strings.Repeat("漢字🙂é\n", 100)), 200)
	f.Add([]byte("\xff\xe6\xbc\xf0\x9f\x99"), 7)
	f.Add(bytes.Repeat([]byte("\xe6\xbc,"), 100), 120)
	f.Add(bytes.Repeat([]byte{0xff}, 100), 150)
	f.Fuzz(func(t *testing.T, in []byte, max int) { checkBound(t, in, max%(1<<16)) })
}

func TestBoundProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.OneOf(rapid.StringOfN(rapid.Rune(), 0, 20, -1), rapid.SampledFrom([]string{"\n", ",", " ", "\xff", "\xf0\x9f", "🙂", `"a":1`}))
		in := strings.Repeat(strings.Join(rapid.SliceOfN(piece, 0, 30).Draw(t, "pieces"), ""), rapid.IntRange(1, 20).Draw(t, "times"))
		checkBound(t, []byte(in), rapid.IntRange(-2, 600).Draw(t, "max"))
	})
}
