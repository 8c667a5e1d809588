package openai

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/model"
	"pgregory.net/rapid"
)

func testModel(t testing.TB, cfg Config) *Model {
	t.Helper()
	cfg.Model = "test-model"
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func round(i int, size int) []rouse.Message {
	id := fmt.Sprintf("call_%d", i)
	return []rouse.Message{
		{ID: fmt.Sprintf("a%d", i), Role: rouse.RoleAssistant, Parts: []rouse.Part{
			rouse.Text("let me look"), rouse.CallPart(rouse.ToolCall{ID: id, Name: "read.file", Args: `{"n":1}`})}},
		{ID: fmt.Sprintf("r%d", i), Role: rouse.RoleTool, Parts: []rouse.Part{
			rouse.ResultPart(rouse.ToolResult{CallID: id, Name: "read.file", Output: strings.Repeat("r", size)})}},
	}
}

// Whatever happens to a conversation between two requests, its memo gives the
// bytes that a request without one would have.
func TestMemoEqualsFreshEncoding(t *testing.T) {
	t.Parallel()
	m := testModel(t, Config{})
	rapid.Check(t, func(t *rapid.T) {
		e := new(memo)
		req := &model.Request{Messages: []rouse.Message{rouse.UserText("start")}}
		small, n := 0.5, 0
		var open []io.ReadCloser
		var want []string
		for range rapid.IntRange(1, 12).Draw(t, "rounds") {
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0, 1, 2, 3:
				req.Messages = append(req.Messages, round(n, n)...)
				n++
			case 4:
				req.Messages = req.Messages[:rapid.IntRange(0, len(req.Messages)).Draw(t, "cut")]
			case 5:
				if len(req.Messages) > 0 {
					req.Messages = append([]rouse.Message(nil), req.Messages...)
					n++
					req.Messages[rapid.IntRange(0, len(req.Messages)-1).Draw(t, "at")] = rouse.UserText(fmt.Sprint("other ", n))
				}
			case 6:
				req.System = rapid.SampledFrom([]string{"", "be brief", "be very, very thorough"}).Draw(t, "system")
			case 7:
				req.Tools = rapid.SampledFrom([][]model.ToolSpec{nil, {{Name: "read.file"}}, {{Name: "read.file"}, {Name: "b"}}}).Draw(t, "tools")
			case 8:
				req.Params.Temperature = rapid.SampledFrom([]*float64{nil, &small}).Draw(t, "temperature")
			case 9:
				req.Output = rapid.SampledFrom([]*model.OutputSpec{nil, {Name: "o", Schema: json.RawMessage(`{"type":"object"}`)}}).Draw(t, "output")
			}
			b, err := e.encode(m, req)
			if err != nil {
				t.Fatal(err)
			}
			plain, err := new(memo).encode(m, req)
			if err != nil {
				t.Fatal(err)
			}
			if string(b.b) != string(plain.b) || !json.Valid(b.b) {
				t.Fatalf("memo:  %s\nfresh: %s", b.b, plain.b)
			}
			// some bodies are still being sent while the next is made
			if rapid.Bool().Draw(t, "slow") {
				open, want = append(open, b.open()), append(want, string(b.b))
			}
		}
		for i, r := range open {
			got, err := io.ReadAll(r)
			if err != nil || string(got) != want[i] {
				t.Fatalf("body %d changed while it was being sent: %s %v", i, got, err)
			}
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if e.readers.Load() != 0 {
			t.Fatal("readers are left")
		}
	})
}

// A round writes what is new and leaves the bytes of earlier ones alone: marks
// scratched into them are still there many rounds later.
func TestRoundsWriteOnlyWhatIsNew(t *testing.T) {
	t.Parallel()
	m := testModel(t, Config{})
	e := new(memo)
	req := &model.Request{System: "s", Tools: []model.ToolSpec{{Name: "read.file", Description: "reads"}}, Messages: []rouse.Message{rouse.UserText("start")}}
	var marks []int
	for i := range 80 {
		b, err := e.encode(m, req)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range marks {
			if b.b[at] != '#' {
				t.Fatalf("round %d wrote byte %d again", i, at)
			}
		}
		at := len(b.b) - len("]}") - 5
		b.b[at] = '#'
		marks = append(marks, at)
		req.Messages = append(req.Messages, round(i, 1024)...)
	}
}

func TestAllocationsOfARoundDoNotGrow(t *testing.T) {
	m := testModel(t, Config{})
	perRound := func(history int) float64 {
		e := new(memo)
		req := &model.Request{System: "s", Tools: []model.ToolSpec{{Name: "read.file"}}, Messages: []rouse.Message{rouse.UserText("start")}}
		for i := range history {
			req.Messages = append(req.Messages, round(i, 1024)...)
		}
		if _, err := e.encode(m, req); err != nil {
			t.Fatal(err)
		}
		long := append(append([]rouse.Message(nil), req.Messages...), round(history, 1024)...)
		short := req.Messages
		if _, err := e.encode(m, &model.Request{System: "s", Tools: req.Tools, Messages: long}); err != nil {
			t.Fatal(err)
		}
		// to and fro: each second encoding appends one round
		return testing.AllocsPerRun(50, func() {
			for _, msgs := range [][]rouse.Message{short, long} {
				req.Messages = msgs
				if _, err := e.encode(m, req); err != nil {
					t.Error(err)
				}
			}
		})
	}
	few, many := perRound(5), perRound(80)
	if many > few || many > 12 {
		t.Fatalf("%v allocations after 5 rounds, %v after 80", few, many)
	}
}

func TestToolsAreEncodedOnce(t *testing.T) {
	t.Parallel()
	m := testModel(t, Config{})
	tools := []model.ToolSpec{{Name: "a", Schema: json.RawMessage(`{"type":"object"}`)}}
	one, err := m.tools.get(tools)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := m.tools.get(tools); err != nil || again != one {
		t.Fatal("encoded again", err)
	}
	// the same array with other contents is another list
	tools[0].Name = "b"
	if other, err := m.tools.get(tools); err != nil || other == one || !strings.Contains(string(other.json), `"b"`) {
		t.Fatal("a changed list was not noticed", err)
	}
	for i := range 100 {
		if _, err := m.tools.get([]model.ToolSpec{{Name: fmt.Sprint("t", i)}}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSchemas(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		``:                            `{"type":"object","properties":{}}`,
		`{}`:                          `{"type":"object","properties":{}}`,
		"{\n \"type\": \"object\" }":  `{"properties":{},"type":"object"}`,
		`{"properties":{"a":{}}}`:     `{"type":"object","properties":{"a":{}}}`,
		`{"$ref":"#/$defs/x"}`:        `{"$ref":"#/$defs/x"}`,
		`{"type":["object","null"]}`:  `{"properties":{},"type":["object","null"]}`,
		`{"type":"object","x":1.500}`: `{"properties":{},"type":"object","x":1.500}`,
	} {
		if got, err := wireSchema(json.RawMessage(in)); err != nil || string(got) != want || !json.Valid(got) {
			t.Errorf("%s: %s %v", in, got, err)
		}
	}
	m := testModel(t, Config{})
	for _, tools := range [][]model.ToolSpec{
		{{Name: "a", Schema: json.RawMessage(`{`)}}, {{Name: "a", Schema: json.RawMessage(`[]`)}}, {{Name: ""}}, {{Name: "a"}, {Name: "a"}},
	} {
		if _, err := m.tools.get(tools); rouse.CodeOf(err) != rouse.CodeInvalid || !strings.Contains(err.Error(), "tools[") {
			t.Errorf("%v: %v", tools, err)
		}
	}
}

// A transport may close a body while another of its goroutines reads it.
func TestBodyIsClosedWhileRead(t *testing.T) {
	t.Parallel()
	m := testModel(t, Config{})
	e := new(memo)
	req := &model.Request{Messages: []rouse.Message{rouse.UserText(strings.Repeat("x", 1<<16))}}
	for range 20 {
		b, err := e.encode(m, req)
		if err != nil {
			t.Fatal(err)
		}
		r := b.open()
		var wg sync.WaitGroup
		wg.Go(func() {
			p := make([]byte, 512)
			for {
				if _, err := r.Read(p); err != nil {
					return
				}
			}
		})
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		req.Messages = append(req.Messages, rouse.UserText("next")) // the same buffer is written again
		wg.Wait()
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestArgumentsOnTheWire(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		``: `{}`, " \n": `{}`, `null`: `{}`, `{"a": 1.10}`: `{"a": 1.10}`, `{"a":`: `{"invalid_arguments":"{\"a\":"}`, `[1]`: `{"invalid_arguments":"[1]"}`,
	} {
		if got := wireArgs(in); got != want || !json.Valid([]byte(got)) {
			t.Errorf("%q: %s", in, got)
		}
	}
}

func BenchmarkEncodeRound(b *testing.B) {
	m := testModel(b, Config{})
	for _, history := range []int{5, 80} {
		b.Run(fmt.Sprint(history), func(b *testing.B) {
			e := new(memo)
			msgs := []rouse.Message{rouse.UserText("start")}
			for i := range history {
				msgs = append(msgs, round(i, 1024)...)
			}
			req := &model.Request{System: "s", Messages: msgs}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				req.Messages = msgs[:len(msgs)-2*(i%2)]
				if _, err := e.encode(m, req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
