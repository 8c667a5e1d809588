// Package floor is an agent loop as a careful programmer would write it in an
// afternoon with net/http and encoding/json: the whole request is marshalled
// each round, lines are scanned, each event is unmarshalled into a struct, and
// each parallel tool call has a goroutine. It is what the runtime is measured
// against, so it stays plain: do not tune it.
package floor

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/rouse-run/rouse/bench/internal/workload"
)

// Peer runs a task. It is used by any number of runs at once, between Prepare and Close.
type Peer struct {
	task     workload.Task
	tools    json.RawMessage
	client   *http.Client
	mu       sync.Mutex
	sessions map[int][]message
}

// New returns a Peer.
func New() *Peer {
	return &Peer{client: &http.Client{Transport: workload.Transport()}, sessions: map[int][]message{}}
}

// Prepare sets the task.
func (p *Peer) Prepare(t workload.Task) error {
	p.task = t
	if t.Model.Rounds > 0 {
		p.tools = json.RawMessage(workload.ToolsJSON)
	}
	return nil
}

// Close releases the connections.
func (p *Peer) Close() { p.client.CloseIdleConnections() }

// Run does one run; id is unique to it.
func (p *Peer) Run(ctx context.Context, id int) (workload.Result, error) {
	var res workload.Result
	history := []message{{Role: "system", Content: workload.SystemPrompt}, {Role: "user", Content: workload.UserPrompt}}
	defer p.forget(id)
	for {
		p.keep(id, history)
		m, err := p.ask(ctx, history, &res)
		if err != nil {
			return res, err
		}
		history = append(history, m)
		if len(m.ToolCalls) == 0 {
			p.keep(id, history)
			return res, nil
		}
		results, err := p.execute(m.ToolCalls)
		if err != nil {
			return res, err
		}
		res.ToolCalls += len(results)
		history = append(history, results...)
	}
}

func (p *Peer) keep(id int, history []message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sessions[id] = history
}

func (p *Peer) forget(id int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.sessions, id)
}

func (p *Peer) execute(calls []toolCall) ([]message, error) {
	results := make([]message, len(calls))
	errs := make([]error, len(calls))
	var wg sync.WaitGroup
	for i, c := range calls {
		wg.Go(func() {
			var text string
			text, errs[i] = p.callTool(c.Function.Name, c.Function.Arguments)
			results[i] = message{Role: "tool", Content: text, ToolCallID: c.ID}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return results, nil
}

func (p *Peer) callTool(name, args string) (string, error) {
	var out any
	switch name {
	case workload.WeatherName:
		var in workload.WeatherIn
		if err := json.Unmarshal([]byte(args), &in); err != nil {
			return "", err
		}
		out = p.task.Tools.Weather(in)
	case workload.AddName:
		var in workload.AddIn
		if err := json.Unmarshal([]byte(args), &in); err != nil {
			return "", err
		}
		out = p.task.Tools.Add(in)
	default:
		return "", fmt.Errorf("no tool %q", name)
	}
	b, err := json.Marshal(out)
	return string(b), err
}

// ask sends the history and returns the model's answer.
func (p *Peer) ask(ctx context.Context, history []message, res *workload.Result) (message, error) {
	body, err := json.Marshal(request{
		Model: p.task.Model.String(), Messages: history, Tools: p.tools,
		Stream: true, StreamOptions: &streamOptions{IncludeUsage: true},
	})
	if err != nil {
		return message{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.task.BaseURL+"/chat/completions", bytes.NewReader(body))
	if err != nil {
		return message{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Authorization", "Bearer sk-bench")
	resp, err := p.client.Do(req)
	if err != nil {
		return message{}, err
	}
	defer func() { _ = resp.Body.Close() }() // it has been read
	if resp.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)) // the status is the error; its text is an extra
		return message{}, fmt.Errorf("status %d: %s", resp.StatusCode, b)
	}
	return read(resp.Body, res)
}

// read gathers an answer from its stream.
func read(body io.Reader, res *workload.Result) (message, error) {
	m := message{Role: "assistant"}
	sc := bufio.NewScanner(body)
	sc.Buffer(make([]byte, 0, 16<<10), 1<<20)
	var text bytes.Buffer
	done := false
	for !done && sc.Scan() {
		data, ok := bytes.CutPrefix(sc.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		if done = string(data) == "[DONE]"; done {
			break
		}
		var c chunk
		if err := json.Unmarshal(data, &c); err != nil {
			return m, err
		}
		for _, ch := range c.Choices {
			text.WriteString(ch.Delta.Content)
			res.TextBytes += len(ch.Delta.Content)
			m.merge(ch.Delta.ToolCalls)
		}
	}
	if err := sc.Err(); err != nil {
		return m, err
	}
	if !done {
		return m, io.ErrUnexpectedEOF
	}
	m.Content = text.String()
	_, err := io.Copy(io.Discard, body) // read to the end, so that the connection is used again
	return m, err
}
