package rouse_test

import (
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/rouse-run/rouse"
)

func TestMessageText(t *testing.T) {
	t.Parallel()
	call := rouse.CallPart(rouse.ToolCall{ID: "1", Name: "read", Args: "{}"})
	for want, parts := range map[string][]rouse.Part{
		"":        nil,
		"a":       {rouse.Text("a")},
		"b":       {rouse.Reasoning("thought", "sig"), rouse.Text("b"), call},
		"abc":     {rouse.Text("a"), rouse.Reasoning("not this", ""), rouse.Text(""), rouse.Text("b"), call, rouse.Text("c")},
		"no glue": {rouse.Text("no"), rouse.Text(" "), rouse.Text("glue")},
	} {
		if got := (rouse.Message{Parts: parts}).Text(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestMessageCalls(t *testing.T) {
	t.Parallel()
	a, b := rouse.ToolCall{ID: "1", Name: "read", Args: "{"}, rouse.ToolCall{ID: "2", Name: "read"}
	m := rouse.Message{Parts: []rouse.Part{rouse.Text("x"), rouse.CallPart(a), rouse.Reasoning("y", ""), rouse.CallPart(b)}}
	got := m.Calls()
	if !slices.Equal(got, []rouse.ToolCall{a, b}) {
		t.Errorf("got %+v", got)
	}
	got[0].Args = "changed"
	if m.Parts[1].Call.Args != "{" {
		t.Error("the calls share memory with the message")
	}
	if got := (rouse.Message{Parts: []rouse.Part{rouse.Text("x"), {Type: rouse.PartText, Call: &a}}}).Calls(); got != nil {
		t.Errorf("a part that is not a call counts as one: %+v", got)
	}
}

// A call or a result that is handed over is a copy: the caller may go on with its own.
func TestPartsAreMadeOfCopies(t *testing.T) {
	t.Parallel()
	c, r := rouse.ToolCall{ID: "1"}, rouse.ToolResult{CallID: "1"}
	call, result := rouse.CallPart(c), rouse.ResultMessage(r)
	c.ID, r.CallID = "2", "2"
	if call.Call.ID != "1" || result.Parts[0].Result.CallID != "1" || result.Role != rouse.RoleTool {
		t.Errorf("got %+v, %+v", call, result)
	}
}

// No byte of a clone is a byte of the original.
func TestCloneSharesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := messageGen().Draw(t, "message")
		before := string(m.AppendJSON(nil))
		c := m.Clone()
		if !reflect.DeepEqual(c, m) {
			t.Fatalf("got\n%+v\nnot\n%+v", c, m)
		}
		for i := range c.Parts {
			p := &c.Parts[i]
			for k := range p.Data {
				p.Data[k] ^= 0xff
			}
			if p.Call != nil {
				*p.Call = rouse.ToolCall{ID: "changed"}
			}
			if p.Result != nil {
				*p.Result = rouse.ToolResult{CallID: "changed"}
			}
			p.Text, p.Type = "changed", "changed"
		}
		_ = append(c.Parts[:0], rouse.Text("changed"))
		if after := string(m.AppendJSON(nil)); after != before {
			t.Fatalf("a change of the clone changed\n%s\nto\n%s", before, after)
		}
	})
}

// Clone must be taught about every new field that is a pointer, a slice or a map.
func TestCloneKnowsEveryReference(t *testing.T) {
	t.Parallel()
	known := []string{"Data", "Call", "Result"}
	var walk func(reflect.Type)
	walk = func(typ reflect.Type) {
		for i := range typ.NumField() {
			switch f := typ.Field(i); f.Type.Kind() {
			case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface, reflect.Func, reflect.Chan:
				if !slices.Contains(known, f.Name) {
					t.Errorf("%s.%s refers to memory that Clone may not copy", typ, f.Name)
				}
			case reflect.Struct:
				walk(f.Type)
			}
		}
	}
	walk(reflect.TypeFor[rouse.Part]())
	walk(reflect.TypeFor[rouse.ToolCall]())
	walk(reflect.TypeFor[rouse.ToolResult]())
}

func TestUsage(t *testing.T) {
	t.Parallel()
	a := rouse.Usage{Input: 1, Output: 2, CacheRead: 3, CacheWrite: 4, Reasoning: 5, MicroUSD: 6}
	b := rouse.Usage{Input: 10, Output: 20, CacheRead: 30, CacheWrite: 40, Reasoning: 50, MicroUSD: 60}
	want := rouse.Usage{Input: 11, Output: 22, CacheRead: 33, CacheWrite: 44, Reasoning: 55, MicroUSD: 66}
	if got := a.Add(b); got != want || b.Add(a) != want {
		t.Errorf("got %+v", got)
	}
	if got := want.Total(); got != 33 {
		t.Errorf("the total is %d: parts of input and output count once", got)
	}
}
