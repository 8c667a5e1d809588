package floor

import "encoding/json"

type function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type toolCall struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type message struct {
	Role       string     `json:"role"`
	Content    string     `json:"content"`
	ToolCalls  []toolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

type request struct {
	Model         string          `json:"model"`
	Messages      []message       `json:"messages"`
	Tools         json.RawMessage `json:"tools,omitempty"`
	Stream        bool            `json:"stream"`
	StreamOptions *streamOptions  `json:"stream_options,omitempty"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type callDelta struct {
	Index    int      `json:"index"`
	ID       string   `json:"id"`
	Function function `json:"function"`
}

type chunk struct {
	ID      string `json:"id"`
	Choices []struct {
		Index int `json:"index"`
		Delta struct {
			Role      string      `json:"role"`
			Content   string      `json:"content"`
			ToolCalls []callDelta `json:"tool_calls"`
		} `json:"delta"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		PromptTokens     int `json:"prompt_tokens"`
		CompletionTokens int `json:"completion_tokens"`
		TotalTokens      int `json:"total_tokens"`
	} `json:"usage"`
}

// merge adds the pieces of tool calls that one event brought.
func (m *message) merge(deltas []callDelta) {
	for _, d := range deltas {
		for len(m.ToolCalls) <= d.Index {
			m.ToolCalls = append(m.ToolCalls, toolCall{Type: "function"})
		}
		c := &m.ToolCalls[d.Index]
		if d.ID != "" {
			c.ID = d.ID
		}
		c.Function.Name += d.Function.Name
		c.Function.Arguments += d.Function.Arguments
	}
}
