package openai

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/rouse-run/rouse"
)

// fields is a JSON object whose members are not decoded yet.
type fields map[string]json.RawMessage

// object returns raw as fields, nil when it is not an object.
func object(raw json.RawMessage) fields {
	var f fields
	if json.Unmarshal(raw, &f) != nil {
		return nil
	}
	return f
}

// list returns the elements of raw, nil when it is not an array.
func list(raw json.RawMessage) []json.RawMessage {
	var l []json.RawMessage
	if json.Unmarshal(raw, &l) != nil {
		return nil
	}
	return l
}

// has reports whether the member is there and not null.
func (f fields) has(name string) bool {
	raw := f[name]
	return len(raw) > 0 && string(raw) != "null"
}

// str returns a member that is a string, or the text of a number or boolean.
func (f fields) str(name string) string {
	if !f.has(name) {
		return ""
	}
	raw := f[name]
	var s string
	switch {
	case json.Unmarshal(raw, &s) == nil:
		return s
	case raw[0] == '{' || raw[0] == '[':
		return ""
	default:
		return string(raw)
	}
}

// num returns a member that is a number, or a string that holds one, else def.
func (f fields) num(name string, def float64) float64 {
	if v, err := strconv.ParseFloat(strings.TrimSpace(f.str(name)), 64); err == nil && !math.IsNaN(v) && math.Abs(v) < 1e15 {
		return v
	}
	return def
}

func (f fields) tokens(name string) int64 { return int64(max(0, f.num(name, 0))) }

// decodeAny decodes an event, or with whole a complete answer, through
// encoding/json. It defines what an event means: the fast decoder agrees with it
// or leaves the event to it. Members are taken as providers write them: an index
// as a string, arguments as an object, content as a list of parts.
func decodeAny(data []byte, b *batch, whole bool) {
	data = bytes.TrimSpace(data)
	var top fields
	if len(data) > 0 && data[0] == '[' {
		if l := list(data); len(l) > 0 {
			data = l[0] // some gateways wrap an error into a list
		}
	}
	if err := json.Unmarshal(data, &top); err != nil || top == nil {
		b.addError(&rouse.Error{Code: rouse.CodeProviderOutput, Op: op, Message: "the provider sent an event that is not a JSON object", Err: err})
		return
	}
	if top.has("error") || !top.has("choices") && top.failed() {
		b.addError(answerError(data))
		return
	}
	var finish, usage = "", counts{}.usage()
	for _, raw := range list(top["choices"]) {
		c := object(raw)
		if c == nil || c.num("index", 0) != 0 {
			continue
		}
		delta, message := object(c["delta"]), object(c["message"])
		switch {
		case message != nil && (whole || delta == nil):
			message.content(b, true)
		case delta != nil:
			delta.content(b, whole)
		}
		if finish = c.str("finish_reason"); finish == "stop" && isString(c["stop_reason"]) && c.str("stop_reason") != "" {
			finish = "stop_sequence"
		}
		if c.has("usage") {
			usage = object(c["usage"]).usage()
		}
	}
	b.add(pieceFinish, b.keep(finish))
	switch {
	case top.has("usage"):
		usage = object(top["usage"]).usage()
	case top.has("x_groq"):
		if u := object(object(top["x_groq"])["usage"]); u != nil {
			usage = u.usage()
		}
	}
	b.addUsage(usage)
}

// failed reports whether an object that is no chunk is an error in one of the
// shapes without an error member.
func (f fields) failed() bool {
	return f.str("object") == "error" || f.str("type") == "error" || f.has("detail") || f.has("error_type") ||
		f.has("message") && (f.has("code") || f.has("status") || f.has("type"))
}

func isString(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '"' }

// content takes a delta, or with whole a complete message.
func (f fields) content(b *batch, whole bool) {
	reasoning, text := f.str("reasoning_content"), ""
	if reasoning == "" {
		reasoning = f.str("reasoning")
	}
	if l := list(f["content"]); l != nil {
		var thought string
		text, thought = joinParts(l)
		if reasoning == "" {
			reasoning = thought
		}
	} else {
		text = f.str("content")
	}
	f.reason(b, reasoning)
	b.add(pieceText, b.keep(text))
	b.add(pieceText, b.keep(f.str("refusal")))
	for _, raw := range list(f["tool_calls"]) {
		if c := object(raw); c != nil {
			c.call(b, whole)
		}
	}
	if fn := object(f["function_call"]); fn != nil {
		c := piece{kind: pieceCall, index: 0, whole: whole}
		c.name, c.text = b.keep(fn.str("name")), b.keep(fn.arguments())
		b.pieces = append(b.pieces, c)
	}
}

// joinParts joins the text parts and the thinking parts of a list.
func joinParts(l []json.RawMessage) (text, thought string) {
	for _, raw := range l {
		p := object(raw)
		switch {
		case p == nil:
		case p.str("type") == "thinking":
			if inner := list(p["thinking"]); inner != nil {
				t, _ := joinParts(inner)
				thought += t
			} else {
				thought += p.str("thinking")
			}
		default:
			text += p.str("text")
		}
	}
	return text, thought
}

// reason adds reasoning: the blocks of reasoning_details and thinking_blocks,
// each with its signature, and plain when they hold no text of their own. The
// signature of an encrypted block is the block itself, since it goes back as it
// came.
func (f fields) reason(b *batch, plain string) {
	blocks := append(list(f["reasoning_details"]), list(f["thinking_blocks"])...)
	text := func(d fields) string { return d.str("text") + d.str("summary") + d.str("thinking") }
	if !slices.ContainsFunc(blocks, func(raw json.RawMessage) bool { return text(object(raw)) != "" }) {
		b.add(pieceReasoning, b.keep(plain))
	}
	for _, raw := range blocks {
		d := object(raw)
		b.add(pieceReasoning, b.keep(text(d)))
		if d.has("data") {
			b.add(pieceSignature, b.keep(string(raw)))
		} else {
			b.add(pieceSignature, b.keep(d.str("signature")))
		}
	}
}

func (f fields) call(b *batch, whole bool) {
	fn := object(f["function"])
	c := piece{kind: pieceCall, whole: whole, index: int(f.num("index", -1))}
	if c.index < 0 {
		c.index = -1
	}
	c.id, c.name, c.text = b.keep(f.str("id")), b.keep(fn.str("name")), b.keep(fn.arguments())
	b.pieces = append(b.pieces, c)
}

// arguments returns the arguments of a call as text; some servers send the
// object itself.
func (f fields) arguments() string {
	raw := f["arguments"]
	if !f.has("arguments") {
		return ""
	}
	if isString(raw) {
		return f.str("arguments")
	}
	return string(raw)
}

func (f fields) usage() rouse.Usage {
	in, out := object(f["prompt_tokens_details"]), object(f["completion_tokens_details"])
	c := counts{
		prompt: f.tokens("prompt_tokens"), completion: f.tokens("completion_tokens"), total: f.tokens("total_tokens"),
		cached:    max(in.tokens("cached_tokens"), f.tokens("prompt_cache_hit_tokens"), f.tokens("cache_read_input_tokens")),
		written:   max(in.tokens("cache_write_tokens"), f.tokens("cache_creation_input_tokens")),
		reasoning: out.tokens("reasoning_tokens"),
		micro:     int64(math.Round(max(0, f.num("cost", 0)) * 1e6)),
	}
	return c.usage()
}
