package mock

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/model"
)

// wireRequest is the body of a chat completion request. Members that are not
// here say nothing to a scripted model.
type wireRequest struct {
	Model       string          `json:"model"`
	Messages    []wireMessage   `json:"messages"`
	Tools       []wireTool      `json:"tools"`
	ToolChoice  json.RawMessage `json:"tool_choice"`
	Format      *wireFormat     `json:"response_format"`
	Stream      bool            `json:"stream"`
	Options     *wireOptions    `json:"stream_options"`
	N           *int            `json:"n"`
	Temperature *float64        `json:"temperature"`
	TopP        *float64        `json:"top_p"`
	MaxTokens   int             `json:"max_tokens"`
	MaxOutput   int             `json:"max_completion_tokens"`
	Stop        json.RawMessage `json:"stop"`
	Seed        *int64          `json:"seed"`
	Effort      string          `json:"reasoning_effort"`
}

type wireOptions struct {
	Usage bool `json:"include_usage"`
}

type wireTool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	} `json:"function"`
}

type wireFormat struct {
	Type   string `json:"type"`
	Schema *struct {
		Name   string          `json:"name"`
		Schema json.RawMessage `json:"schema"`
	} `json:"json_schema"`
}

type wireMessage struct {
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	Reasoning string          `json:"reasoning_content"`
	Details   []wireDetail    `json:"reasoning_details"`
	Calls     []wireCall      `json:"tool_calls"`
	CallID    string          `json:"tool_call_id"`
}

type wirePart struct {
	Type    string `json:"type"`
	Text    string `json:"text"`
	Refusal string `json:"refusal"`
	Image   *struct {
		URL string `json:"url"`
	} `json:"image_url"`
	File *struct {
		Name string `json:"filename"`
		Data string `json:"file_data"`
	} `json:"file"`
}

// decodeRequest reads the body of a chat completion request. The error has the
// code CodeProviderRefused. What a provider checks of the whole conversation is
// left to checkRequest.
func decodeRequest(body []byte) (req model.Request, f form, err error) {
	var w wireRequest
	if err := json.Unmarshal(body, &w); err != nil {
		return req, 0, refused("the body is not a chat completion request: %v", err)
	}
	switch {
	case w.Model == "":
		return req, 0, refused("model is missing")
	case w.N != nil && *w.N != 1:
		return req, 0, refused("n must be 1")
	case w.Options != nil && !w.Stream:
		return req, 0, refused("stream_options needs stream")
	}
	if w.Stream {
		f |= streamed
	}
	if w.Options != nil && w.Options.Usage {
		f |= withUsage
	}
	req = model.Request{Model: w.Model, Params: model.Params{Temperature: w.Temperature, TopP: w.TopP,
		MaxOutput: max(w.MaxTokens, w.MaxOutput), Seed: w.Seed, Effort: w.Effort}}
	for _, step := range []func(*wireRequest, *model.Request) error{decodeMessages, decodeTools, decodeChoice, decodeFormat, decodeStop} {
		if err := step(&w, &req); err != nil {
			return req, f, err
		}
	}
	return req, f, nil
}

func decodeMessages(w *wireRequest, req *model.Request) error {
	names := map[string]string{} // of the calls, by id
	for i := range w.Messages {
		m, err := decodeMessage(&w.Messages[i], names)
		if err != nil {
			return refused("messages[%d]: %v", i, err)
		}
		if m.Role == rouse.RoleSystem && len(req.Messages) == 0 {
			if req.System != "" {
				req.System += "\n\n"
			}
			req.System += m.Text()
			continue
		}
		req.Messages = append(req.Messages, m)
	}
	return nil
}

func decodeMessage(w *wireMessage, names map[string]string) (m rouse.Message, err error) {
	parts, err := decodeContent(w.Content)
	if err != nil {
		return m, err
	}
	if w.Role != "assistant" && (len(w.Calls) > 0 || w.Reasoning != "" || len(w.Details) > 0) || w.Role != "tool" && w.CallID != "" {
		return m, errors.New("tool_calls and reasoning belong to the assistant, tool_call_id to a tool")
	}
	switch w.Role {
	case "system", "developer":
		return rouse.Message{Role: rouse.RoleSystem, Parts: parts}, nil
	case "user":
		if len(parts) == 0 {
			return m, errors.New("content is missing")
		}
		return rouse.Message{Role: rouse.RoleUser, Parts: parts}, nil
	case "tool":
		out := rouse.Message{Parts: parts}.Text()
		return rouse.ResultMessage(rouse.ToolResult{CallID: w.CallID, Name: names[w.CallID], Output: out}), nil
	case "assistant":
		m = rouse.Message{Role: rouse.RoleAssistant, Parts: append(decodeReasoning(w), parts...)}
		for i := range w.Calls {
			c := &w.Calls[i]
			if c.Type != "function" {
				return m, fmt.Errorf("tool_calls[%d].type is %q, not function", i, c.Type)
			}
			names[c.ID] = c.Function.Name
			m.Parts = append(m.Parts, rouse.CallPart(rouse.ToolCall{ID: c.ID, Name: c.Function.Name, Args: c.Function.Arguments}))
		}
		if len(m.Parts) == 0 && (len(w.Content) == 0 || string(w.Content) == "null") {
			return m, errors.New("an assistant message needs content or tool_calls")
		}
		return m, nil
	default:
		return m, fmt.Errorf("unknown role %q", w.Role)
	}
}

func decodeReasoning(w *wireMessage) (parts []rouse.Part) {
	if w.Reasoning != "" {
		parts = append(parts, rouse.Reasoning(w.Reasoning, ""))
	}
	for _, d := range w.Details {
		sig := d.Signature + d.Data
		n := len(parts)
		switch {
		case n == 1 && parts[0].Signature == "" && (d.Text == "" || d.Text == parts[0].Text):
			parts[0].Signature = sig
		default:
			parts = append(parts, rouse.Reasoning(d.Text, sig))
		}
	}
	return parts
}

// decodeContent reads a string, an array of parts, or null.
func decodeContent(raw json.RawMessage) ([]rouse.Part, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var s string
	if json.Unmarshal(raw, &s) == nil {
		if s == "" {
			return nil, nil
		}
		return []rouse.Part{rouse.Text(s)}, nil
	}
	var ws []wirePart
	if err := json.Unmarshal(raw, &ws); err != nil {
		return nil, errors.New("content is neither a string nor an array of parts")
	}
	var parts []rouse.Part
	for i := range ws {
		p, err := decodePart(&ws[i])
		if err != nil {
			return nil, fmt.Errorf("content[%d]: %w", i, err)
		}
		parts = append(parts, p)
	}
	return parts, nil
}

func decodePart(w *wirePart) (rouse.Part, error) {
	switch {
	case w.Type == "text":
		return rouse.Text(w.Text), nil
	case w.Type == "refusal":
		return rouse.Text(w.Refusal), nil
	case w.Type == "image_url" && w.Image != nil && w.Image.URL != "":
		media, data, ok, err := dataURL(w.Image.URL)
		if err != nil {
			return rouse.Part{}, err
		}
		if ok {
			return rouse.ImageData(media, data), nil
		}
		return rouse.ImageURL(w.Image.URL), nil
	case w.Type == "file" && w.File != nil:
		media, data, ok, err := dataURL(w.File.Data)
		if err != nil || !ok {
			return rouse.Part{}, errors.New("file_data is not a data URL in base64")
		}
		return rouse.FileData(w.File.Name, media, data), nil
	default:
		return rouse.Part{}, fmt.Errorf("a part of type %q cannot be read", w.Type)
	}
}

// dataURL reads a data URL (RFC 2397) in base64; ok is false for any other URL.
func dataURL(s string) (media string, data []byte, ok bool, err error) {
	rest, ok := strings.CutPrefix(s, "data:")
	if !ok {
		return "", nil, false, nil
	}
	media, b64, ok := strings.Cut(rest, ";base64,")
	if !ok {
		return "", nil, false, errors.New("the data URL is not in base64")
	}
	data, err = base64.StdEncoding.DecodeString(b64)
	if err != nil {
		return "", nil, false, errors.New("the data URL is not in base64")
	}
	return media, data, true, nil
}

func decodeTools(w *wireRequest, req *model.Request) error {
	for i := range w.Tools {
		t := &w.Tools[i]
		if t.Type != "function" {
			return refused("tools[%d].type is %q, not function", i, t.Type)
		}
		if !wireName(t.Function.Name) {
			return refused("tools[%d]: the name %q is not 1 to 64 of a-z, A-Z, 0-9, _ and -", i, t.Function.Name)
		}
		schema := t.Function.Parameters
		if len(schema) == 0 || string(schema) == "null" {
			schema = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		req.Tools = append(req.Tools, model.ToolSpec{Name: t.Function.Name, Description: t.Function.Description, Schema: schema})
	}
	return nil
}

// wireName reports whether the wire allows this name of a tool.
func wireName(s string) bool {
	if s == "" || len(s) > 64 {
		return false
	}
	for _, c := range []byte(s) {
		if c != '_' && c != '-' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}

func decodeChoice(w *wireRequest, req *model.Request) error {
	raw := bytes.TrimSpace(w.ToolChoice)
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	var s string
	if json.Unmarshal(raw, &s) == nil {
		if s != "auto" && s != "none" && s != "required" {
			return refused("tool_choice is %q", s)
		}
		req.ToolChoice = s
		return nil
	}
	var one wireTool
	if err := json.Unmarshal(raw, &one); err != nil || one.Type != "function" || one.Function.Name == "" {
		return refused("tool_choice is neither a word nor a function")
	}
	req.ToolChoice = one.Function.Name
	return nil
}

func decodeFormat(w *wireRequest, req *model.Request) error {
	switch {
	case w.Format == nil || w.Format.Type == "text":
	case w.Format.Type == "json_object":
		req.Output = &model.OutputSpec{Name: "json_object", Schema: json.RawMessage(`{"type":"object"}`)}
	case w.Format.Type == "json_schema" && w.Format.Schema != nil:
		req.Output = &model.OutputSpec{Name: w.Format.Schema.Name, Schema: w.Format.Schema.Schema}
	default:
		return refused("response_format has the unknown type %q", w.Format.Type)
	}
	return nil
}

func decodeStop(w *wireRequest, req *model.Request) error {
	if len(w.Stop) == 0 || string(w.Stop) == "null" {
		return nil
	}
	var one string
	if json.Unmarshal(w.Stop, &one) == nil {
		req.Params.Stop = []string{one}
		return nil
	}
	if err := json.Unmarshal(w.Stop, &req.Params.Stop); err != nil {
		return refused("stop is neither a string nor an array of strings")
	}
	return nil
}
