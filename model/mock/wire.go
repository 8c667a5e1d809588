package mock

import (
	"encoding/json"
	"strings"

	"github.com/rouse-run/rouse"
)

// The structures of the chat completions wire that are written and read alike.
type (
	wireCall struct {
		Index    *int         `json:"index,omitempty"`
		ID       string       `json:"id,omitempty"`
		Type     string       `json:"type,omitempty"`
		Function wireFunction `json:"function"`
	}
	wireFunction struct {
		Name      string `json:"name,omitempty"`
		Arguments string `json:"arguments"`
	}
	wireDetail struct {
		Type      string `json:"type"`
		Text      string `json:"text,omitempty"`
		Signature string `json:"signature,omitempty"`
		Data      string `json:"data,omitempty"`
		Index     int    `json:"index"`
	}
)

type wireDelta struct {
	Role      string       `json:"role,omitempty"`
	Content   *string      `json:"content,omitempty"`
	Reasoning string       `json:"reasoning_content,omitempty"`
	Details   []wireDetail `json:"reasoning_details,omitempty"`
	Calls     []wireCall   `json:"tool_calls,omitempty"`
}

type wireChoice struct {
	Index    int         `json:"index"`
	Delta    *wireDelta  `json:"delta,omitempty"`
	Message  *wireAnswer `json:"message,omitempty"`
	Logprobs *struct{}   `json:"logprobs"`
	Finish   *string     `json:"finish_reason"`
}

// wireAnswer is the message of an answer that is not streamed.
type wireAnswer struct {
	Role      string       `json:"role"`
	Content   *string      `json:"content"`
	Refusal   *string      `json:"refusal"`
	Reasoning string       `json:"reasoning_content,omitempty"`
	Details   []wireDetail `json:"reasoning_details,omitempty"`
	Calls     []wireCall   `json:"tool_calls,omitempty"`
}

type wireUsage struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	Total      int64 `json:"total_tokens"`
	PromptBy   struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionBy struct {
		Reasoning int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

type wireHead struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"`
	Created int64        `json:"created"`
	Model   string       `json:"model"`
	Choices []wireChoice `json:"choices"`
}

// encoder writes the answer to one request.
type encoder struct {
	id        string
	model     string
	created   int64
	nullUsage bool // a stream with usage has "usage": null in every other event
}

func (e *encoder) head(object string, choices []wireChoice) wireHead {
	return wireHead{ID: e.id, Object: object, Created: e.created, Model: e.model, Choices: choices}
}

// delta returns the event with one choice; an empty finish is null.
func (e *encoder) delta(d *wireDelta, finish string) []byte {
	c := wireChoice{Delta: d}
	if finish != "" {
		c.Finish = &finish
	}
	return e.event([]wireChoice{c}, nil)
}

// event returns a server-sent event with these choices and, if there is one, usage.
func (e *encoder) event(choices []wireChoice, usage *rouse.Usage) []byte {
	if choices == nil {
		choices = []wireChoice{}
	}
	h := e.head("chat.completion.chunk", choices)
	var v any = h
	if e.nullUsage {
		v = struct {
			wireHead
			Usage *wireUsage `json:"usage"`
		}{h, toWireUsage(usage)}
	}
	return append(append([]byte("data: "), encode(v)...), "\n\n"...)
}

// whole returns the answer as one document.
func (e *encoder) whole(parts []rouse.Part, ids []string, finish string, usage *rouse.Usage, f *Fault) []byte {
	choices := []wireChoice{}
	if !f.EmptyChoices {
		c := wireChoice{Message: wholeMessage(parts, ids)}
		if finish != "" {
			c.Finish = &finish
		}
		choices = append(choices, c)
	}
	return encode(struct {
		wireHead
		Usage *wireUsage `json:"usage,omitempty"`
	}{e.head("chat.completion", choices), toWireUsage(usage)})
}

func wholeMessage(parts []rouse.Part, ids []string) *wireAnswer {
	m := &wireAnswer{Role: "assistant"}
	var text, reasoning strings.Builder
	hasText := false
	for i := range parts {
		p := &parts[i]
		switch p.Type {
		case rouse.PartText:
			hasText = true
			text.WriteString(p.Text)
		case rouse.PartReasoning:
			reasoning.WriteString(p.Text)
			if p.Signature != "" {
				m.Details = append(m.Details, signatureDetails(p.Signature)...)
			}
		case rouse.PartToolCall:
			m.Calls = append(m.Calls, wireCall{ID: ids[len(m.Calls)], Type: "function",
				Function: wireFunction{Name: p.Call.Name, Arguments: p.Call.Args}})
		}
	}
	if s := text.String(); hasText || len(m.Calls) == 0 {
		m.Content = &s
	}
	m.Reasoning = reasoning.String()
	return m
}

func signatureDetails(sig string) []wireDetail {
	return []wireDetail{{Type: "reasoning.text", Signature: sig}}
}

func toWireUsage(u *rouse.Usage) *wireUsage {
	if u == nil {
		return nil
	}
	w := &wireUsage{Prompt: u.Input, Completion: u.Output, Total: u.Input + u.Output}
	w.PromptBy.Cached = u.CacheRead
	w.CompletionBy.Reasoning = u.Reasoning
	return w
}

// encode returns the JSON of one of the structures above.
func encode(v any) []byte {
	b, _ := json.Marshal(v) // strings, numbers and pointers to them: nothing that could fail
	return b
}

// payload returns the JSON of a server-sent event.
func payload(event []byte) []byte { return event[len("data: ") : len(event)-len("\n\n")] }

// wireError returns the error object of the wire.
func wireError(kind, code, message string) []byte {
	var c *string
	if code != "" {
		c = &code
	}
	type body struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	}
	return encode(struct {
		Error body `json:"error"`
	}{body{message, kind, nil, c}})
}
