package workload

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/rouse-run/rouse/bench/internal/mockllm"
)

func TestAll(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"W1": "k1-n1-t16-d0-f1-h0", "W2": "k3-n4-t64-d0-f1-h0", "W3": "k20-n1-t16-d0-f1-h0", "W3x": "k100-n1-t16-d0-f1-h0",
		"W4": "k0-n0-t2000-d0-f1-h0", "W4b": "k0-n0-t2000-d0-f0-h0", "W5": "k1-n1-t16-d200-f1-h0",
	}
	if len(All()) != len(want) {
		t.Errorf("%d workloads, want %d", len(All()), len(want))
	}
	for name, model := range want {
		w, err := Named(name)
		if err != nil || w.Model.String() != model {
			t.Errorf("%s is %v, %v, want %s", name, w.Model, err, model)
		}
		if parsed, err := mockllm.ParseModel(w.Held().Model.String()); err != nil || !parsed.Hold {
			t.Errorf("%s held: %+v, %v", name, parsed, err)
		}
	}
	if _, err := Named("W9"); err == nil {
		t.Error("W9 exists")
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	w := Workload{Model: mockllm.Model{Rounds: 2, Calls: 3, Chunks: 2}}
	good := Result{TextBytes: len(" the answer"), ToolCalls: 6}
	if err := w.Check(good); err != nil {
		t.Error(err)
	}
	for _, bad := range []Result{{}, {TextBytes: good.TextBytes, ToolCalls: 5}, {TextBytes: good.TextBytes + 1, ToolCalls: 6}} {
		if w.Check(bad) == nil {
			t.Errorf("%+v passes", bad)
		}
	}
	if w.Answers() != 3 {
		t.Errorf("%d answers, want 3", w.Answers())
	}
}

func TestToolsJSON(t *testing.T) {
	t.Parallel()
	var tools []struct {
		Function struct {
			Name       string
			Parameters struct{ Required []string }
		}
	}
	if err := json.Unmarshal([]byte(ToolsJSON), &tools); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range tools {
		got = append(got, f.Function.Name+" "+strings.Join(f.Function.Parameters.Required, " "))
	}
	if strings.Join(got, "; ") != "get_weather city days; add a b" {
		t.Errorf("tools %q", got)
	}
}

func TestTools(t *testing.T) {
	t.Parallel()
	var tools Tools
	if out := tools.Weather(WeatherIn{City: "Paris", Days: 2}); out.City != "Paris" || out.Days != 2 {
		t.Errorf("weather %+v", out)
	}
	if out := tools.Add(AddIn{A: 40, B: 2}); out.Sum != 42 {
		t.Errorf("sum %d", out.Sum)
	}
	if tools.Calls() != 2 {
		t.Errorf("%d calls counted", tools.Calls())
	}
}
