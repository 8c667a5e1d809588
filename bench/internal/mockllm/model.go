// Package mockllm is a deterministic chat-completions server for measurements.
//
// What it answers follows from the model name of a request (see Model), so one
// server plays every workload. It speaks just enough HTTP/1.1 on a plain
// listener and answers from bytes prepared beforehand: it must not be what a
// measurement measures.
package mockllm

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Model says how the server answers. Its String is the name a client asks for.
type Model struct {
	// Rounds is how many answers ask for tool calls before the final text.
	Rounds int `json:"rounds"`
	// Calls is how many parallel tool calls each of those answers asks for.
	Calls int `json:"calls"`
	// Chunks is how many pieces the final text arrives in.
	Chunks int `json:"chunks"`
	// Delay passes before the first byte of every answer.
	Delay time.Duration `json:"delay"`
	// PerWrite is how many events share one write; 0 sends an answer in one write.
	PerWrite int `json:"per_write"`
	// Hold keeps every final text back until the server is told to release it.
	Hold bool `json:"hold"`
}

// The largest values of a Model's fields. A name beyond them is refused.
const (
	maxRounds = 1000
	maxCalls  = 64
	maxChunks = 100_000
	maxDelay  = time.Minute
)

// String returns the model's name: k<rounds>-n<calls>-t<chunks>-d<ms>-f<per write>-h<0|1>.
func (m Model) String() string {
	hold := 0
	if m.Hold {
		hold = 1
	}
	return fmt.Sprintf("k%d-n%d-t%d-d%d-f%d-h%d", m.Rounds, m.Calls, m.Chunks, m.Delay.Milliseconds(), m.PerWrite, hold)
}

// ParseModel reads a name written by String. Parts may be left out or come in
// any order; what is left out has the values of k1-n1-t16-d0-f1-h0.
func ParseModel(name string) (Model, error) {
	m := Model{Rounds: 1, Calls: 1, Chunks: 16, PerWrite: 1}
	for part := range strings.SplitSeq(name, "-") {
		if part == "" {
			return Model{}, fmt.Errorf("mockllm: model %q has an empty part", name)
		}
		v, err := strconv.Atoi(part[1:])
		if err != nil || v < 0 {
			return Model{}, fmt.Errorf("mockllm: model %q: %q is not a letter and a number", name, part)
		}
		limit := 0
		switch part[0] {
		case 'k':
			m.Rounds, limit = v, maxRounds
		case 'n':
			m.Calls, limit = v, maxCalls
		case 't':
			m.Chunks, limit = v, maxChunks
		case 'd':
			m.Delay, limit = time.Duration(v)*time.Millisecond, int(maxDelay.Milliseconds())
		case 'f':
			m.PerWrite, limit = v, maxChunks
		case 'h':
			m.Hold, limit = v == 1, 1
		default:
			return Model{}, fmt.Errorf("mockllm: model %q: unknown part %q", name, part)
		}
		if v > limit {
			return Model{}, fmt.Errorf("mockllm: model %q: %q is above %d", name, part, limit)
		}
	}
	return m, nil
}

// word returns the i-th piece of a final text.
func word(i int) string {
	words := [...]string{
		" the", " answer", " is", " forty", "-two", ",", " and", " weather",
		" looks", " mild", " today", " with", " light", " wind", " over", ".",
	}
	return words[i%len(words)]
}

// Text returns the final text of the model, all chunks joined.
func (m Model) Text() string {
	var b strings.Builder
	for i := range m.Chunks {
		b.WriteString(word(i))
	}
	return b.String()
}
