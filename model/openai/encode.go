package openai

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/internal/jsonx"
	"github.com/rouse-run/rouse/model"
)

// appendHead appends everything of a body that stands before the conversation's
// first message: messages is the last member, and the system prompt its first
// element.
func (m *Model) appendHead(b []byte, h *head) []byte {
	o := jsonx.Open(b)
	o.String("model", h.model)
	o.Bool("stream", true)
	if !m.cfg.OmitUsage {
		o.Raw("stream_options", []byte(`{"include_usage":true}`))
	}
	appendParams(&o, &h.params, m.cfg.MaxTokensField)
	if h.tools.json != nil {
		o.Raw("tools", h.tools.json)
		appendToolChoice(&o, h.choice)
	}
	if h.output != nil {
		m.appendOutput(&o, h.output)
	}
	for _, e := range m.extra {
		o.Raw(e.name, e.value)
	}
	o.Key("messages")
	b = append(o.B, '[')
	if h.system != "" {
		b = append(b, `{"role":"system","content":`...)
		b = append(jsonx.AppendString(b, h.system), '}')
	}
	return b
}

func appendParams(o *jsonx.Object, p *model.Params, maxTokens string) {
	number := func(k string, f *float64) {
		if f != nil {
			o.Key(k)
			o.B = strconv.AppendFloat(o.B, *f, 'f', -1, 64)
		}
	}
	number("temperature", p.Temperature)
	number("top_p", p.TopP)
	o.Int(maxTokens, int64(p.MaxOutput))
	if len(p.Stop) > 0 {
		o.Key("stop")
		for i, s := range p.Stop {
			o.B = append(o.B, "[,"[min(i, 1)])
			o.B = jsonx.AppendString(o.B, s)
		}
		o.B = append(o.B, ']')
	}
	if p.Seed != nil {
		o.Key("seed")
		o.B = strconv.AppendInt(o.B, *p.Seed, 10)
	}
	o.String("reasoning_effort", p.Effort)
}

func appendToolChoice(o *jsonx.Object, choice string) {
	switch choice {
	case "", "auto", "none", "required":
		o.String("tool_choice", choice)
	default:
		o.Key("tool_choice")
		o.B = append(o.B, `{"type":"function","function":{"name":`...)
		o.B = append(jsonx.AppendString(o.B, model.WireName(choice)), "}}"...)
	}
}

func (m *Model) appendOutput(o *jsonx.Object, out *model.OutputSpec) {
	name := out.Name
	if name == "" {
		name = "output"
	}
	o.Key("response_format")
	o.B = append(o.B, `{"type":"json_schema","json_schema":`...)
	f := jsonx.Open(o.B)
	f.String("name", model.WireName(name))
	f.Bool("strict", m.cfg.StrictOutput)
	f.Raw("schema", out.Schema)
	o.B = append(f.Close(), '}')
}

// appendMessage appends a message of the conversation, with a comma before each
// object that it becomes: a tool message becomes one for every result.
func (m *Model) appendMessage(b []byte, msg *rouse.Message) []byte {
	switch msg.Role {
	case rouse.RoleTool:
		for i := range msg.Parts {
			if r := msg.Parts[i].Result; r != nil {
				b = append(b, `,{"role":"tool","tool_call_id":`...)
				b = jsonx.AppendString(b, r.CallID)
				b = append(b, `,"content":`...)
				b = append(jsonx.AppendString(b, r.Output), '}')
			}
		}
		return b
	case rouse.RoleAssistant:
		return m.appendAssistant(b, msg)
	}
	b = append(b, `,{"role":`...)
	b = jsonx.AppendString(b, string(msg.Role))
	b = append(b, `,"content":`...)
	return append(appendContent(b, msg), '}')
}

// appendContent appends text as a string, since not every server takes a list of
// parts, and anything else as such a list.
func appendContent(b []byte, msg *rouse.Message) []byte {
	plain := true
	for i := range msg.Parts {
		plain = plain && msg.Parts[i].Type != rouse.PartImage && msg.Parts[i].Type != rouse.PartFile
	}
	if plain {
		return jsonx.AppendString(b, msg.Text())
	}
	b = append(b, '[')
	for i := range msg.Parts {
		at := len(b)
		b = appendPart(b, &msg.Parts[i])
		if len(b) > at {
			b = append(b, ',')
		}
	}
	b[len(b)-1] = ']'
	return b
}

func appendPart(b []byte, p *rouse.Part) []byte {
	switch p.Type {
	case rouse.PartText:
		b = append(b, `{"type":"text","text":`...)
		b = jsonx.AppendString(b, p.Text)
		return append(b, '}')
	case rouse.PartImage:
		b = append(b, `{"type":"image_url","image_url":{"url":`...)
		return append(appendData(b, p, "image/png"), "}}"...)
	case rouse.PartFile:
		b = append(b, `{"type":"file","file":{`...)
		if p.Name != "" {
			b = append(b, `"filename":`...)
			b = append(jsonx.AppendString(b, p.Name), ',')
		}
		b = append(b, `"file_data":`...)
		return append(appendData(b, p, "application/octet-stream"), "}}"...)
	}
	return b
}

// appendData appends a part's URL, or its content as a data URL (RFC 2397).
func appendData(b []byte, p *rouse.Part, fallback string) []byte {
	if len(p.Data) == 0 && p.URL != "" {
		return jsonx.AppendString(b, p.URL)
	}
	media := p.MediaType
	if media == "" {
		media = fallback
	}
	b = jsonx.AppendString(b, "data:"+media+";base64,")
	b = base64.StdEncoding.AppendEncode(b[:len(b)-1], p.Data)
	return append(b, '"')
}

// appendAssistant appends an answer. Its content is a string even when it is
// empty: servers exist that refuse null, and templates that print it.
func (m *Model) appendAssistant(b []byte, msg *rouse.Message) []byte {
	b = append(b, `,{"role":"assistant"`...)
	if m.cfg.Reasoning != ReasoningNone {
		b = m.appendReasoning(b, msg)
	}
	b = append(b, `,"content":`...)
	b = jsonx.AppendString(b, msg.Text())
	n := 0
	for i := range msg.Parts {
		c := msg.Parts[i].Call
		if c == nil || msg.Parts[i].Type != rouse.PartToolCall {
			continue
		}
		if n++; n == 1 {
			b = append(b, `,"tool_calls":[`...)
		} else {
			b = append(b, ',')
		}
		b = append(b, `{"id":`...)
		b = jsonx.AppendString(b, c.ID)
		b = append(b, `,"type":"function","function":{"name":`...)
		b = jsonx.AppendString(b, model.WireName(c.Name))
		b = append(b, `,"arguments":`...)
		b = append(jsonx.AppendString(b, wireArgs(c.Args)), "}}"...)
	}
	if n > 0 {
		b = append(b, ']')
	}
	return append(b, '}')
}

// wireArgs returns the argument text that servers accept in a conversation.
// Several parse it and refuse the whole request over one bad call of the past, so
// text that is no JSON object goes as {"invalid_arguments": text}.
func wireArgs(args string) string {
	args = strings.TrimSpace(args)
	switch {
	case args == "" || args == "null":
		return "{}"
	case args[0] == '{' && json.Valid([]byte(args)):
		return args
	}
	o := jsonx.Open(nil)
	o.String("invalid_arguments", args)
	return string(o.Close())
}

// appendReasoning appends the members that carry a message's reasoning.
func (m *Model) appendReasoning(b []byte, msg *rouse.Message) []byte {
	var text strings.Builder
	blocks := m.cfg.Reasoning == ReasoningDetails
	for i := range msg.Parts {
		if p := &msg.Parts[i]; p.Type == rouse.PartReasoning {
			text.WriteString(p.Text)
			blocks = blocks || p.Signature != ""
		}
	}
	if text.Len() > 0 && m.cfg.Reasoning != ReasoningDetails {
		b = append(append(append(b, `,"`...), m.cfg.Reasoning...), `":`...)
		b = jsonx.AppendString(b, text.String())
	}
	if !blocks {
		return b
	}
	at, n := len(b), 0
	b = append(b, `,"reasoning_details":[`...)
	for i := range msg.Parts {
		p := &msg.Parts[i]
		if p.Type != rouse.PartReasoning || p.Text == "" && p.Signature == "" {
			continue
		}
		if n++; n > 1 {
			b = append(b, ',')
		}
		b = appendBlock(b, p)
	}
	if n == 0 {
		return b[:at]
	}
	return append(b, ']')
}

// appendBlock appends one element of reasoning_details. A signature that is a
// block itself, as decoded from an encrypted one, goes back as it came.
func appendBlock(b []byte, p *rouse.Part) []byte {
	sealed := strings.HasPrefix(p.Signature, "{") && json.Valid([]byte(p.Signature))
	if sealed && p.Text == "" {
		return append(b, p.Signature...)
	}
	if p.Text == "" {
		o := jsonx.Open(b)
		o.String("type", "reasoning.encrypted")
		o.String("data", p.Signature)
		return o.Close()
	}
	o := jsonx.Open(b)
	o.String("type", "reasoning.text")
	o.String("text", p.Text)
	if !sealed {
		o.String("signature", p.Signature)
		return o.Close()
	}
	return append(append(o.Close(), ','), p.Signature...)
}
