package tool_test

import (
	"context"
	"fmt"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/tool"
)

// A Go function with typed arguments becomes a tool; the schema follows from the type.
func ExampleFunc() {
	type args struct {
		City string `json:"city" jsonschema:"the city's name"`
		Unit string `json:"unit,omitempty" enum:"celsius,fahrenheit"`
	}
	weather, err := tool.Func(tool.FuncConfig{
		Name:        "weather",
		Description: "Tells the weather of a city.",
		Effect:      tool.ReadOnly,
		Retries:     2,
	}, func(_ context.Context, in args) (string, error) {
		return "sunny in " + in.City, nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(weather.Spec().Schema))
	// Output:
	// {"type":"object","properties":{"city":{"type":"string","description":"the city's name"},"unit":{"type":"string","enum":["celsius","fahrenheit"]}},"required":["city"],"additionalProperties":false}
}

// An error in the model's arguments is told to the model; the function is not entered.
func ExampleSet_Invoke() {
	type args struct {
		City string `json:"city"`
	}
	weather, err := tool.Func(tool.FuncConfig{Name: "weather"}, func(_ context.Context, in args) (string, error) {
		return "sunny in " + in.City, nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	set, err := tool.NewSet(weather)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, text := range []string{`{"city":"Bern"}`, `{"city":5}`, ``} {
		out := set.Invoke(context.Background(), tool.Invocation{
			Call: rouse.ToolCall{ID: "call_1", Name: "weather", Args: text},
		})
		fmt.Printf("%t %q %d: %s\n", out.Result.Error, out.Code, out.Attempts, out.Result.Output)
	}
	// Output:
	// false "" 1: sunny in Bern
	// true "invalid" 0: the arguments for the tool "weather" do not match its schema:
	// - /city: expected string, found number 5
	// The tool was not run. Send the arguments as one JSON object that matches this schema: {"type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false}
	// true "invalid" 0: the arguments for the tool "weather" do not match its schema:
	// - the required property "city" is missing
	// The tool was not run. Send the arguments as one JSON object that matches this schema: {"type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false}
}

// A result that is too long keeps its head and its tail.
func ExampleBound() {
	text, cut := tool.Bound([]byte("first\nsecond\nthird\nfourth\nfifth\nsixth\nseventh\neighth\nninth\ntenth\n"), 60)
	fmt.Printf("%t\n%s", cut, text)
	// Output:
	// true
	// first
	// second
	// third
	// fou[...36 of 65 bytes left out...]
	// tenth
}
