package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/agent"
	"github.com/rouse-run/rouse/model"
	"github.com/rouse-run/rouse/model/mock"
	"github.com/rouse-run/rouse/run"
	"github.com/rouse-run/rouse/tool"
	"github.com/rouse-run/rouse/tool/builtin"
)

func TestReasoningSurvivesAReload(t *testing.T) {
	// Case 8: mastra-ai/mastra #13635, #24052; vercel/ai #11602.
	t.Parallel()
	const thought, sig = "I  need\t<the> file\u2028\n 漢🙂 \"\\", "c2lnbmF0dXJl+/=="
	g, m := provider(t, mock.Config{ChunkRunes: 5, Rules: []mock.Rule{{Prompt: mock.Any, Sequence: []any{
		mock.Result{Reasoning: thought, Signature: sig, Text: "Let me.", Calls: []mock.Call{{ID: "c1", Name: "write", Args: writing}}}, "done", "again",
	}}}})
	dir := t.TempDir()
	var h hands
	cfg := agent.Config{Model: wrapped(m), Tools: h.tools(t, "write"), Gate: tool.GateFunc(tool.AskUnlessReadOnly)}

	first := open(t, dir)
	r, _ := drive(t, newAgent(t, cfg), first, "go")
	if r.Status() != rouse.StatusWaiting || len(h.calls()) > 0 {
		t.Fatalf("the run is %s, ran %q", r.Status(), h.calls())
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}

	// Another process: nothing is left but the file.
	s := open(t, dir)
	a := newAgent(t, cfg)
	again, err := a.Resume(t.Context(), rowOf(t, s, r.ID()), run.Options{Journal: s})
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Answer(t.Context(), run.Decision{Ask: again.Asks()[0].ID, Value: json.RawMessage(`{"allow":true}`)}); err != nil {
		t.Fatal(err)
	}
	goOn(t, a, s, again)
	if ans := completed(t, again); ans.Text != "done" || len(h.calls()) != 1 {
		t.Fatalf("got %+v, ran %q", ans, h.calls())
	}
	// And the next run of the thread still shows it.
	next, err := a.Start(t.Context(), run.Options{Journal: s, Thread: r.Thread()}, rouse.Text("more"))
	if err != nil {
		t.Fatal(err)
	}
	goOn(t, a, s, next)
	if ans := completed(t, next); ans.Text != "again" {
		t.Fatalf("got %+v", ans)
	}
	reqs := g.Requests() // as they came over the wire
	if len(reqs) != 3 {
		t.Fatalf("%d requests", len(reqs))
	}
	for i, req := range reqs[1:] {
		parts := req.Messages[1].Parts
		if len(parts) != 3 || parts[0].Type != rouse.PartReasoning || parts[0].Text != thought || parts[0].Signature != sig ||
			parts[1].Text != "Let me." || parts[2].Call == nil || parts[2].Call.Args != writing {
			t.Errorf("request %d has %+v", i+1, parts)
		}
	}
	wellFormed(t, reqs)
}

// huge is 20 MB of JSON with characters of one to four bytes, in long runs without
// a place where a cut would be easy.
func huge() []byte {
	var b bytes.Buffer
	b.WriteString("[")
	for i := 0; b.Len() < 20<<20; i++ {
		fmt.Fprintf(&b, `{"n":%d,"text":"%s%s"},`, i, strings.Repeat("a", i%9), strings.Repeat("é漢🙂", 6000))
	}
	b.WriteString(`{"end":true}]`)
	return b.Bytes()
}

var blobRef = regexp.MustCompile(`sha256:[0-9a-f]{64}`)

// once is a BlobGetter that asks the store for a blob one time only.
type once struct {
	builtin.BlobGetter
	have map[string][]byte
}

func (o once) Blob(ctx context.Context, ref string) ([]byte, error) {
	if b, ok := o.have[ref]; ok {
		return b, nil
	}
	b, err := o.BlobGetter.Blob(ctx, ref)
	if err == nil {
		o.have[ref] = b
	}
	return b, err
}

func TestHugeResult(t *testing.T) {
	// Case 13: bytedance/deer-flow #4189; imzodev/openaidy #436; sinas PR #104.
	t.Parallel()
	whole := huge()
	dir := t.TempDir()
	s := open(t, dir)
	h := hands{does: map[string]func(context.Context, json.RawMessage) ([]byte, error){
		"dump": func(context.Context, json.RawMessage) ([]byte, error) { return whole, nil },
	}}
	set, err := h.tools(t, "dump").With(builtin.ReadResult(s))
	if err != nil {
		t.Fatal(err)
	}
	tail := len(whole) - 1000
	g, m := provider(t, mock.Config{ChunkRunes: 50, Rules: []mock.Rule{{Prompt: mock.Any, Sequence: []any{
		mock.Calls(mock.Call{ID: "c1", Name: "dump"}, mock.Call{ID: "c2", Name: "dump"}), // twice the same
		mock.Func(func(_ context.Context, req *model.Request) (any, error) {
			ref := blobRef.FindString(lastResult(req))
			return mock.Calls(
				mock.Call{ID: "c3", Name: "read_result", Args: map[string]any{"ref": ref}},
				mock.Call{ID: "c4", Name: "read_result", Args: map[string]any{"ref": ref, "offset": tail}},
			), nil
		}),
		"done",
	}}}})
	a := newAgent(t, agent.Config{Model: wrapped(m), Tools: set, Keeper: s})
	r, evs := drive(t, a, s, "go")
	if ans := completed(t, r); ans.Text != "done" {
		t.Fatalf("got %+v", ans)
	}

	reqs := g.Requests()
	got := results(t, evs)
	slices.SortFunc(got, func(a, b rouse.ToolResult) int { return strings.Compare(a.CallID, b.CallID) })
	if len(got) != 4 {
		t.Fatalf("%d results", len(got))
	}
	for i, res := range got[:2] {
		ref := blobRef.FindString(res.Output)
		if len(res.Output) > tool.DefaultMaxOutput || !utf8.ValidString(res.Output) || strings.Contains(res.Output, "\ufffd") {
			t.Errorf("result %d has %d bytes, valid: %v", i, len(res.Output), utf8.ValidString(res.Output))
		}
		for _, part := range []string{fmt.Sprint(len(whole)), "bytes left out", tool.ReadResult} {
			if !strings.Contains(res.Output, part) {
				t.Errorf("result %d does not say %q", i, part)
			}
		}
		if ref == "" || res.Whole != ref || res.Whole != got[0].Whole {
			t.Errorf("result %d: the text names %q, the result %q, the first one %q", i, ref, res.Whole, got[0].Whole)
		}
		if shown := reqs[1].Messages[2+i].Parts[0].Result.Output; shown != res.Output {
			t.Errorf("request 1 shows %d bytes of result %d, not %d", len(shown), i, len(res.Output))
		}
	}
	if !strings.HasPrefix(got[2].Output, string(whole[:10_000])) || !strings.Contains(got[3].Output, string(whole[tail+4:])) {
		t.Error("read_result gave other bytes")
	}

	// Everything but the blob is small, and the blob is there once.
	size := 0
	for _, ev := range journal(t, s, r.Thread()) {
		size += len(ev.Data)
	}
	if size > 200<<10 {
		t.Errorf("the journal has %d bytes", size)
	}
	stored, err := s.Blob(t.Context(), got[0].Whole)
	if err != nil || !bytes.Equal(stored, whole) {
		t.Errorf("the blob has %d bytes, %v", len(stored), err)
	}
	readWhole(t, once{s, map[string][]byte{}}, got[0].Whole, whole)
	if err := s.Close(); err != nil { // moves the log into the database
		t.Fatal(err)
	}
	if n := dirSize(t, dir); n < int64(len(whole)) || n > int64(len(whole))*5/4 {
		t.Errorf("the store has %d bytes for a blob of %d", n, len(whole))
	}
}

// readWhole puts the result together from the pieces that read_result gives.
func readWhole(t *testing.T, blobs builtin.BlobGetter, ref string, want []byte) {
	t.Helper()
	set, err := tool.NewSet(builtin.ReadResult(blobs))
	if err != nil {
		t.Fatal(err)
	}
	note := regexp.MustCompile(`\n\[bytes (\d+) to (\d+) of (\d+)(; read on with offset (\d+))?\]\n$`)
	var whole []byte
	for offset := "0"; offset != ""; {
		out := set.Invoke(t.Context(), tool.Invocation{Call: rouse.ToolCall{ID: "1", Name: tool.ReadResult, Args: `{"ref":"` + ref + `","offset":` + offset + `,"limit":65536}`}})
		at := note.FindStringSubmatchIndex(out.Result.Output)
		if out.Err != nil || at == nil || out.Result.Output[at[2]:at[3]] != fmt.Sprint(len(whole)) {
			t.Fatalf("at %s: %v, %q", offset, out.Err, out.Result.Output[max(0, len(out.Result.Output)-100):])
		}
		whole = append(whole, out.Result.Output[:at[0]]...)
		offset = ""
		if at[10] >= 0 {
			offset = out.Result.Output[at[10]:at[11]]
		}
	}
	if !bytes.Equal(whole, want) {
		t.Errorf("the pieces make %d bytes, not the %d that were stored", len(whole), len(want))
	}
}

func lastResult(req *model.Request) string {
	if p := req.Messages[len(req.Messages)-1].Parts; len(p) > 0 && p[0].Result != nil {
		return p[0].Result.Output
	}
	return ""
}

func dirSize(t *testing.T, dir string) (n int64) {
	t.Helper()
	err := filepath.Walk(dir, func(_ string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			n += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
