// Package workload holds what every peer of a measurement shares: the
// workloads, the prompts, the typed tools and the result that each run is
// checked against.
package workload

import (
	"fmt"
	"net/http"
	"time"

	"github.com/rouse-run/rouse/bench/internal/mockllm"
)

// Workload is one shape of run.
type Workload struct {
	Name  string        `json:"name"`
	Model mockllm.Model `json:"model"`
	// InFlight, unless 0, is how many runs are in flight at once; the other
	// workloads run at each concurrency that is asked for.
	InFlight int `json:"in_flight,omitempty"`
}

// All returns the workloads in the order in which they are reported.
func All() []Workload {
	model := func(rounds, calls, chunks int) mockllm.Model {
		return mockllm.Model{Rounds: rounds, Calls: calls, Chunks: chunks, PerWrite: 1}
	}
	burst := model(0, 0, 2000)
	burst.PerWrite = 0
	slow := model(1, 1, 16)
	slow.Delay = 200 * time.Millisecond
	return []Workload{
		{Name: "W1", Model: model(1, 1, 16)},    // one tool call, a short answer
		{Name: "W2", Model: model(3, 4, 64)},    // parallel calls
		{Name: "W3", Model: model(20, 1, 16)},   // a long loop
		{Name: "W3x", Model: model(100, 1, 16)}, // a loop five times as long: what a round costs must not grow
		{Name: "W4", Model: model(0, 0, 2000)},  // a long stream, one event a packet
		{Name: "W4b", Model: burst},             // the same stream in one write: decoding alone
		{Name: "W5", Model: slow, InFlight: 1000},
	}
}

// Named returns the workload of that name.
func Named(name string) (Workload, error) {
	for _, w := range All() {
		if w.Name == name {
			return w, nil
		}
	}
	return Workload{}, fmt.Errorf("no workload %q", name)
}

// Answers returns how many answers of the model a run takes.
func (w Workload) Answers() int { return w.Model.Rounds + 1 }

// Held returns the workload with every final text held back, for a look at all
// runs while they are in flight.
func (w Workload) Held() Workload {
	w.Model.Hold = true
	return w
}

// Check reports what is wrong with the result of a run of w.
func (w Workload) Check(r Result) error {
	if want := len(w.Model.Text()); r.TextBytes != want {
		return fmt.Errorf("final text of %d bytes, want %d", r.TextBytes, want)
	}
	if want := w.Model.Rounds * w.Model.Calls; r.ToolCalls != want {
		return fmt.Errorf("%d tool calls, want %d", r.ToolCalls, want)
	}
	return nil
}

// Task is what a peer does over and over.
type Task struct {
	Workload
	// BaseURL is the model server's, with /v1 at its end.
	BaseURL string
	// Dir is an empty directory for files of the peer; its owner removes it.
	Dir string
	// Tools are what the model calls.
	Tools *Tools
}

// Result is what a peer observed of one run.
type Result struct {
	// TextBytes is the length of all text deltas that the consumer was given.
	TextBytes int
	// ToolCalls is how many calls were executed.
	ToolCalls int
}

// Transport returns a transport that keeps a connection for every run in
// flight; the default one keeps two. Every peer uses these settings.
func Transport() *http.Transport {
	return &http.Transport{MaxIdleConnsPerHost: 4096, DisableCompression: true}
}
