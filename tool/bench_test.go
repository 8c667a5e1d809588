package tool_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/tool"
)

type weatherIn struct {
	City string `json:"city" jsonschema:"the city's name"`
	Unit string `json:"unit,omitempty" enum:"c,f"`
	Days int    `json:"days,omitempty"`
}

type weatherOut struct {
	City  string  `json:"city"`
	Temp  float64 `json:"temp"`
	Unit  string  `json:"unit"`
	Sunny bool    `json:"sunny"`
}

const weatherArgs = `{"city":"Zürich","unit":"c","days":3}`

func weatherSet(b *testing.B) *tool.Set {
	f, err := tool.Func(tool.FuncConfig{Name: "weather", Effect: tool.ReadOnly}, func(_ context.Context, in weatherIn) (weatherOut, error) {
		return weatherOut{in.City, 21.5, in.Unit, true}, nil
	})
	if err != nil {
		b.Fatal(err)
	}
	return mustSet(b, f)
}

func BenchmarkCheck(b *testing.B) {
	set := weatherSet(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := set.Check("weather", weatherArgs); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkInvoke(b *testing.B) {
	set, ctx := weatherSet(b), b.Context()
	inv := tool.Invocation{Call: rouse.ToolCall{ID: "1", Name: "weather", Args: weatherArgs}}
	b.ReportAllocs()
	for b.Loop() {
		if out := set.Invoke(ctx, inv); out.Code != "" {
			b.Fatal(out.Err)
		}
	}
}

// BenchmarkCheckByLibrary is a schema that the fast path leaves alone.
func BenchmarkCheckByLibrary(b *testing.B) {
	set := mustSet(b, named("weather", `{"type":"object","properties":{"city":{"type":"string","minLength":1},"unit":{"type":"string","enum":["c","f"]},"days":{"type":"integer"}},"required":["city"]}`))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := set.Check("weather", weatherArgs); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkBound20MB(b *testing.B) {
	whole := []byte(strings.Repeat(`{"text":"漢字"},`, (20<<20)/18))
	b.SetBytes(int64(len(whole)))
	b.ReportAllocs()
	for b.Loop() {
		if text, cut := tool.Bound(whole, tool.DefaultMaxOutput); !cut || bytes.Equal(whole, []byte(text)) {
			b.Fatal("not cut")
		}
	}
}
