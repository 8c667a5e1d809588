package tuned

import (
	"encoding/json"
	"testing"
	"unicode/utf8"
)

func TestLine(t *testing.T) {
	t.Parallel()
	var a answer
	for _, line := range []string{
		`data: {"id":"x","choices":[{"index":0,"delta":{"role":"assistant","content":null},"finish_reason":null}]}` + "\r",
		`data:{"choices":[],"usage":{"a":[1,2,{"b":"}\"]"}]}}`,
		`: a comment`,
		``,
		`data: {"choices":[{"delta":{"content":"a\"b\\c\nd"}}]}`,
		`data: {"choices":[{"delta":{"content":"\u00e9\ud83d\ude00"}}]}`,
		`data: {"choices":[{"delta":{"tool_calls":[{"index":1,"id":"i1","function":{"name":"add","arguments":""}}]}}]}`,
		`data: {"choices":[{"delta":{"tool_calls":[{"index":1,"function":{"arguments":"{\"a\""}},{"index":0,"id":"i0"}]}}]}`,
		`data: {"choices":[{"delta":{"tool_calls":[{"index":1,"function":{"arguments":":1}"}}]}}]}`,
	} {
		if done, err := a.line([]byte(line)); done || err != nil {
			t.Fatalf("%s: %v, %v", line, done, err)
		}
	}
	if done, err := a.line([]byte("data: [DONE]")); !done || err != nil {
		t.Errorf("end mark: %v, %v", done, err)
	}
	if want := "a\"b\\c\ndé😀"; string(a.text) != want {
		t.Errorf("text %q, want %q", a.text, want)
	}
	if len(a.calls) != 2 || string(a.calls[0].id) != "i0" || string(a.calls[1].id) != "i1" ||
		string(a.calls[1].name) != "add" || string(a.calls[1].args) != `{"a":1}` {
		t.Errorf("calls %q", a.calls)
	}
	a.reset()
	if len(a.text) != 0 || len(a.calls) != 0 || len(a.at(1).args) != 0 {
		t.Error("reset left something")
	}
}

func TestBadLines(t *testing.T) {
	t.Parallel()
	for _, data := range []string{
		`{`, `{"choices"`, `{"choices":[`, `{"choices":[{"delta":{"content":"a`, `{"choices":[{"delta":{"content":"\x"}}]}`, `}`, ``,
		`{"choices":[{"delta":{"tool_calls":[{"index":-1}]}}]}`, `{"choices":[{"delta":{"tool_calls":[{"index":99999}]}}]}`,
	} {
		var a answer
		if _, err := a.line([]byte("data: " + data)); err == nil {
			t.Errorf("%s: no error", data)
		}
	}
}

// FuzzLine holds the decoder against encoding/json: what that encodes is read
// back, and what nobody encoded does no harm.
func FuzzLine(f *testing.F) {
	f.Add(" the \u00e9 \"x\" <\n", `{"a":1,"b":"\\"}`, `{"choices":[{"delta":{"content":"\ud800"}}]}`)
	f.Fuzz(func(t *testing.T, text, args, raw string) {
		type object = map[string]any
		type array = []any
		function := object{"arguments": args, "other": array{object{"x": text}, nil, -1.5e3}}
		data, err := json.Marshal(object{"usage": nil, "text": text, "choices": array{object{"delta": object{
			"content": text, "tool_calls": array{object{"function": function}},
		}}}})
		if err != nil {
			t.Fatal(err)
		}
		var a answer
		if _, err := a.line(append([]byte("data: "), data...)); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		if got := string(a.text); utf8.ValidString(text) && got != text {
			t.Errorf("text %q, want %q", got, text)
		}
		if got := string(a.calls[0].args); utf8.ValidString(args) && got != args {
			t.Errorf("arguments %q, want %q", got, args)
		}
		a.reset()
		if _, err := a.line([]byte("data: " + raw)); err == nil && len(a.text) > 3*len(raw) {
			t.Errorf("text of %d bytes from %d", len(a.text), len(raw))
		}
	})
}

func TestAppendString(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "plain", "a\"b\\c", "line\nbreak\ttab\r\x00\x1f", "é😀"} {
		var got string
		if err := json.Unmarshal(appendString(nil, []byte(s)), &got); err != nil || got != s {
			t.Errorf("%q becomes %q, %v", s, got, err)
		}
	}
}

func TestDecodeDoesNotAllocate(t *testing.T) {
	var a answer
	line := []byte(`data: {"id":"x","choices":[{"index":0,"delta":{"content":" the"},"logprobs":null,"finish_reason":null}]}`)
	a.text = make([]byte, 0, 1<<10)
	n := testing.AllocsPerRun(100, func() {
		a.reset()
		if _, err := a.line(line); err != nil {
			t.Fatal(err)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations a line", n)
	}
}
