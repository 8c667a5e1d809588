package rouse_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/rouse-run/rouse"
)

// textGen draws what models and tools really send: any Unicode, control
// characters, what HTML and JavaScript escape, and bytes that are no UTF-8.
func textGen() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.String(),
		rapid.StringOf(rapid.SampledFrom([]rune("<>&\"\\/\b\f\n\r\t\x00\x1f\x7f\u2028\u2029é漢🙂\ufffd"))),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
	)
}

func callGen() *rapid.Generator[*rouse.ToolCall] {
	return rapid.Custom(func(t *rapid.T) *rouse.ToolCall {
		return &rouse.ToolCall{ID: textGen().Draw(t, "id"), Name: textGen().Draw(t, "name"), Args: textGen().Draw(t, "args")}
	})
}

func resultGen() *rapid.Generator[*rouse.ToolResult] {
	return rapid.Custom(func(t *rapid.T) *rouse.ToolResult {
		return &rouse.ToolResult{
			CallID: textGen().Draw(t, "call"), Name: textGen().Draw(t, "name"), Output: textGen().Draw(t, "output"),
			Error: rapid.Bool().Draw(t, "error"), Whole: textGen().Draw(t, "whole"),
		}
	})
}

func partGen() *rapid.Generator[rouse.Part] {
	types := []rouse.PartType{rouse.PartText, rouse.PartImage, rouse.PartFile, rouse.PartReasoning, rouse.PartToolCall, rouse.PartToolResult}
	return rapid.Custom(func(t *rapid.T) rouse.Part {
		p := rouse.Part{
			Type: rapid.SampledFrom(types).Draw(t, "type"), Text: textGen().Draw(t, "text"), Signature: textGen().Draw(t, "signature"),
			MediaType: textGen().Draw(t, "media"), Name: textGen().Draw(t, "name"), URL: textGen().Draw(t, "url"),
			Data: rapid.SliceOf(rapid.Byte()).Draw(t, "data"),
		}
		if rapid.Bool().Draw(t, "has a call") {
			p.Call = callGen().Draw(t, "call")
		}
		if rapid.Bool().Draw(t, "has a result") {
			p.Result = resultGen().Draw(t, "result")
		}
		return p
	})
}

func messageGen() *rapid.Generator[rouse.Message] {
	roles := []rouse.Role{rouse.RoleSystem, rouse.RoleUser, rouse.RoleAssistant, rouse.RoleTool}
	return rapid.Custom(func(t *rapid.T) rouse.Message {
		return rouse.Message{ID: textGen().Draw(t, "id"), Role: rapid.SampledFrom(roles).Draw(t, "role"), Parts: rapid.SliceOfN(partGen(), 0, 4).Draw(t, "parts")}
	})
}

func usageGen() *rapid.Generator[rouse.Usage] {
	return rapid.Custom(func(t *rapid.T) rouse.Usage {
		n := func(name string) int64 { return rapid.Int64().Draw(t, name) }
		return rouse.Usage{Input: n("input"), Output: n("output"), CacheRead: n("read"), CacheWrite: n("write"), Reasoning: n("reasoning"), MicroUSD: n("usd")}
	})
}

// sameAsOracle holds the hand-written encoding of v against encoding/json's: the
// same value comes back from both, the bytes are the same wherever the oracle
// has a spelling of valid text, they are appended and not rewritten, and a value
// that went through them once is written in the same bytes for ever after.
func sameAsOracle[T any](t *rapid.T, v T, appendJSON func(*T, []byte) []byte) {
	const before = "before "
	got := appendJSON(&v, []byte(before))
	if !bytes.HasPrefix(got, []byte(before)) {
		t.Fatalf("what was in the buffer is gone: %q", got)
	}
	got = got[len(before):]
	if again := appendJSON(&v, nil); !bytes.Equal(got, again) {
		t.Fatalf("a second encoding differs:\n%s\n%s", got, again)
	}
	var oracle bytes.Buffer
	enc := json.NewEncoder(&oracle)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	if want := unescaped(strings.TrimSuffix(oracle.String(), "\n")); string(got) != want {
		t.Fatalf("encoding/json would write\n%s\nnot\n%s", want, got)
	}
	var a, b T
	if err := json.Unmarshal(got, &a); err != nil {
		t.Fatalf("%v in %s", err, got)
	}
	if err := json.Unmarshal(oracle.Bytes(), &b); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(a, b) {
		t.Fatalf("read back as\n%+v\nnot\n%+v", a, b)
	}
	if again := appendJSON(&a, nil); !bytes.Equal(again, got) {
		t.Fatalf("read back and written again:\n%s\nnot\n%s", again, got)
	}
}

// unescaped writes the escape U+FFFD, which is encoding/json's spelling of bytes
// that are not UTF-8, as the character itself. It is the one difference.
func unescaped(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] != '\\':
			b.WriteByte(s[i])
		case strings.HasPrefix(s[i:], `\ufffd`):
			b.WriteString("\ufffd")
			i += len(`\ufffd`) - 1
		default:
			b.WriteString(s[i : i+2])
			i++
		}
	}
	return b.String()
}

func TestAppendJSONIsWhatEncodingJSONWrites(t *testing.T) {
	t.Parallel()
	t.Run("message", rapid.MakeCheck(func(t *rapid.T) {
		sameAsOracle(t, messageGen().Draw(t, "message"), (*rouse.Message).AppendJSON)
	}))
	t.Run("tool result", rapid.MakeCheck(func(t *rapid.T) {
		sameAsOracle(t, *resultGen().Draw(t, "result"), (*rouse.ToolResult).AppendJSON)
	}))
	t.Run("usage", rapid.MakeCheck(func(t *rapid.T) {
		sameAsOracle(t, usageGen().Draw(t, "usage"), func(u *rouse.Usage, b []byte) []byte { return u.AppendJSON(b) })
	}))
	t.Run("parts", rapid.MakeCheck(func(t *rapid.T) {
		sameAsOracle(t, rapid.SliceOfN(partGen(), 1, 4).Draw(t, "parts"), func(p *[]rouse.Part, b []byte) []byte { return rouse.AppendParts(b, *p) })
	}))
}

// Every field of the nouns is in the encoding: a field that AppendJSON forgets
// would be lost from every journal.
func TestAppendJSONForgetsNoField(t *testing.T) {
	t.Parallel()
	part := rouse.Part{
		Type: "t", Text: "t", Signature: "s", MediaType: "m", Name: "n", Data: []byte("d"), URL: "u",
		Call:   &rouse.ToolCall{ID: "i", Name: "n", Args: "a"},
		Result: &rouse.ToolResult{CallID: "i", Name: "n", Output: "o", Error: true, Whole: "w"},
	}
	m := rouse.Message{ID: "i", Role: "r", Parts: []rouse.Part{part}}
	usage := rouse.Usage{Input: 1, Output: 2, CacheRead: 3, CacheWrite: 4, Reasoning: 5, MicroUSD: 6}
	allSet(t, reflect.ValueOf(m))
	allSet(t, reflect.ValueOf(usage))
	var back rouse.Message
	if err := json.Unmarshal(m.AppendJSON(nil), &back); err != nil || !reflect.DeepEqual(back, m) {
		t.Errorf("got %+v, %v", back, err)
	}
	var u rouse.Usage
	if err := json.Unmarshal(usage.AppendJSON(nil), &u); err != nil || u != usage {
		t.Errorf("got %+v, %v", u, err)
	}
}

// allSet fails when a field of v is zero: a new field must be added above.
func allSet(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.Pointer:
		allSet(t, v.Elem())
	case reflect.Slice:
		for i := range v.Len() {
			allSet(t, v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).IsZero() {
				t.Errorf("the test leaves %s.%s empty", v.Type(), v.Type().Field(i).Name)
				continue
			}
			allSet(t, v.Field(i))
		}
	}
}

// dataGen draws payloads as they may stand in a journal: spaces, escapes, numbers
// that no float holds, repeated names.
func dataGen() *rapid.Generator[json.RawMessage] {
	return rapid.Map(rapid.SampledFrom([]string{
		``, `{}`, `{ "a" : 1 }`, "{\n\t\"a\":1.10\r\n}", `{"n":9007199254740993,"m":1e400,"k":-0}`, `{"html":"<&>","sep":"` + "\u2028" + `","esc":"\u003c\/"}`,
		`{"a":1,"a":2}`, `{"seq":5,"data":{"data":null}}`, `{"s":"` + "漢🙂\ufffd" + `"}`,
	}), func(s string) json.RawMessage {
		if s == "" {
			return nil
		}
		return json.RawMessage(s)
	})
}

func eventGen() *rapid.Generator[rouse.Event] {
	text := rapid.OneOf(rapid.String(), rapid.StringOf(rapid.SampledFrom([]rune("<>&\"\\\n\x00\u2028é漢🙂"))))
	return rapid.Custom(func(t *rapid.T) rouse.Event {
		ev := rouse.Event{
			Seq: rapid.Int64().Draw(t, "seq"), Thread: text.Draw(t, "thread"), Run: text.Draw(t, "run"), Path: text.Draw(t, "path"),
			Class: rapid.SampledFrom([]rouse.Class{rouse.ClassFact, rouse.ClassDraw, rouse.ClassDelta}).Draw(t, "class"),
			Type:  rouse.EventType(rapid.StringMatching(`[a-z.]{1,20}`).Draw(t, "type")), Key: text.Draw(t, "key"),
			Sum: rapid.Uint64().Draw(t, "sum"), Data: dataGen().Draw(t, "data"),
			Delta: rouse.Delta{Text: text.Draw(t, "text"), Call: text.Draw(t, "call"), Name: text.Draw(t, "name"), Index: rapid.Int().Draw(t, "index")},
		}
		if rapid.Bool().Draw(t, "timed") {
			// RFC 3339 has years of four digits.
			ev.At = rouse.Stamp(time.UnixMilli(rapid.Int64Range(-62135596800000+1, 253402300799999).Draw(t, "at")))
		}
		return ev
	})
}

func TestEventComesBackAsItWas(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ev := eventGen().Draw(t, "event")
		raw := ev.AppendJSON([]byte("x"))[1:]
		if !bytes.Contains(raw, ev.Data) {
			t.Fatalf("the payload %s is not in %s", ev.Data, raw)
		}
		var back rouse.Event
		if err := back.UnmarshalJSON(raw); err != nil {
			t.Fatalf("%v in %s", err, raw)
		}
		if !reflect.DeepEqual(back, ev) { // the payload's bytes with it
			t.Fatalf("got\n%+v\nnot\n%+v", back, ev)
		}
		if own, err := ev.MarshalJSON(); err != nil || !bytes.Equal(own, raw) {
			t.Fatalf("MarshalJSON: %s, %v", own, err)
		}
		// Through an encoder that knows nothing of events, what it says is the same.
		viaEncoder, err := json.Marshal(ev)
		if err != nil {
			t.Fatal(err)
		}
		var second rouse.Event
		if err := json.Unmarshal(viaEncoder, &second); err != nil {
			t.Fatal(err)
		}
		if len(ev.Data) > 0 && !sameJSON(t, second.Data, ev.Data) {
			t.Fatalf("the payload says %s, not %s", second.Data, ev.Data)
		}
		second.Data, ev.Data = nil, nil
		if !reflect.DeepEqual(second, ev) {
			t.Fatalf("got\n%+v\nnot\n%+v", second, ev)
		}
	})
}

// sameJSON compares what two texts say, with numbers as they are written.
func sameJSON(t *rapid.T, a, b []byte) bool {
	read := func(b []byte) (v any) {
		d := json.NewDecoder(bytes.NewReader(b))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	return reflect.DeepEqual(read(a), read(b))
}

// An event's time is UTC whoever reads it, and an event that is replaced by
// unmarshalling keeps nothing of what it was.
func TestEventUnmarshalReplaces(t *testing.T) {
	t.Parallel()
	ev := rouse.Event{Seq: 9, Key: "old", Sum: 1, Data: json.RawMessage(`{}`), Delta: rouse.Delta{Text: "old"}, At: time.Unix(1, 0)}
	if err := json.Unmarshal([]byte(`{"class":"fact","type":"message","at":"2026-01-02T03:04:05.678+02:00"}`), &ev); err != nil {
		t.Fatal(err)
	}
	want := rouse.Event{Class: rouse.ClassFact, Type: rouse.EventMessage, At: time.Date(2026, 1, 2, 1, 4, 5, 678e6, time.UTC)}
	if !reflect.DeepEqual(ev, want) {
		t.Errorf("got %+v", ev)
	}
	for _, bad := range []string{``, `[]`, `{"seq":"1"}`, `{"sum":1}`, `{"at":"yesterday"}`, `{"class":"fact"`} {
		before := ev
		if err := ev.UnmarshalJSON([]byte(bad)); err == nil {
			t.Errorf("%q was read", bad)
		} else if !reflect.DeepEqual(ev, before) {
			t.Errorf("%q changed the event although it could not be read", bad)
		}
	}
}

func TestEventDecode(t *testing.T) {
	t.Parallel()
	ev := rouse.Event{Type: rouse.EventMessage, Data: json.RawMessage(`{"role":"user"}`)}
	var m rouse.Message
	if err := ev.Decode(&m); err != nil || m.Role != rouse.RoleUser {
		t.Errorf("got %+v, %v", m, err)
	}
	ev.Data = json.RawMessage(`{"role":`)
	if err := ev.Decode(&m); rouse.CodeOf(err) != rouse.CodeCorrupt || !strings.Contains(err.Error(), "message") {
		t.Errorf("got %v", err)
	}
}

func TestEndsAndFinal(t *testing.T) {
	t.Parallel()
	ends := map[rouse.EventType]bool{rouse.EventRunFinished: true, rouse.EventRunWaiting: true, rouse.EventRunInterrupted: true}
	for _, typ := range constants(t, "event.go", "EventType") {
		ev := rouse.Event{Type: rouse.EventType(typ)}
		if ev.Ends() != ends[ev.Type] {
			t.Errorf("%s ends a stream: %v", typ, ev.Ends())
		}
	}
	final := map[rouse.Status]bool{rouse.StatusCompleted: true, rouse.StatusFailed: true, rouse.StatusCanceled: true}
	all := constants(t, "event.go", "Status")
	if len(all) != 5 {
		t.Errorf("the statuses are %q", all)
	}
	for _, s := range all {
		if s := rouse.Status(s); s.Final() != final[s] {
			t.Errorf("%s is final: %v", s, s.Final())
		}
	}
}

// FuzzEvent: whatever is read as an event is written so that the same comes back.
func FuzzEvent(f *testing.F) {
	f.Add([]byte(`{"seq":1,"class":"fact","type":"message","at":"2026-01-02T03:04:05.678Z","sum":"12","data":{ "a" : 1.10 }}`))
	f.Add([]byte(`{"class":"delta","type":"text","delta":{"text":"\u2028\ud800","index":-1}}`))
	f.Add([]byte(`{"data":null,"delta":null,"at":null}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var ev rouse.Event
		if ev.UnmarshalJSON(b) != nil {
			return
		}
		raw := ev.AppendJSON(nil)
		if !json.Valid(raw) || utf8.Valid(b) && !utf8.Valid(raw) {
			t.Fatalf("%q is written as %q", b, raw)
		}
		var back rouse.Event
		if err := back.UnmarshalJSON(raw); err != nil {
			t.Fatalf("%v in %s", err, raw)
		}
		if !back.At.Equal(ev.At) {
			t.Fatalf("at %v, not %v", back.At, ev.At)
		}
		if back.At, ev.At = (time.Time{}), (time.Time{}); !reflect.DeepEqual(back, ev) {
			t.Fatalf("got\n%+v\nnot\n%+v", back, ev)
		}
	})
}

// FuzzMessage holds the two encoders against each other over whatever decodes.
func FuzzMessage(f *testing.F) {
	f.Add([]byte(`{"role":"user","parts":[{"type":"text","text":"<\u2028>"}]}`))
	f.Add([]byte(`{"id":"1","role":"assistant","parts":[{"type":"tool_call","call":{"id":"c","name":"n","args":"{\"a\":"}},{"type":"image","data":"AAEC"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var m rouse.Message
		if json.Unmarshal(b, &m) != nil {
			return
		}
		raw := m.AppendJSON(nil)
		oracle, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		var a, want rouse.Message
		if err := json.Unmarshal(raw, &a); err != nil {
			t.Fatalf("%v in %s", err, raw)
		}
		if err := json.Unmarshal(oracle, &want); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(a, want) {
			t.Fatalf("got\n%+v\nnot\n%+v", a, want)
		}
	})
}
