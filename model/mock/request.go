package mock

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash"
	"slices"
	"unicode/utf8"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/model"
)

// cloneRequest returns a copy that shares no memory with r, without its Memo.
func cloneRequest(r *model.Request) model.Request {
	c := *r
	c.Memo = nil
	c.Messages = slices.Clone(r.Messages)
	for i := range c.Messages {
		c.Messages[i] = c.Messages[i].Clone()
	}
	c.Tools = slices.Clone(r.Tools)
	for i := range c.Tools {
		c.Tools[i].Schema = slices.Clone(c.Tools[i].Schema)
	}
	if r.Output != nil {
		c.Output = &model.OutputSpec{Name: r.Output.Name, Schema: slices.Clone(r.Output.Schema)}
	}
	c.Params.Temperature = clonePtr(r.Params.Temperature)
	c.Params.TopP = clonePtr(r.Params.TopP)
	c.Params.Seed = clonePtr(r.Params.Seed)
	c.Params.Stop = slices.Clone(r.Params.Stop)
	return c
}

func clonePtr[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

// lastUserText returns the text of the last user message, empty when there is none.
func lastUserText(r *model.Request) string {
	for i := len(r.Messages) - 1; i >= 0; i-- {
		if r.Messages[i].Role == rouse.RoleUser {
			return r.Messages[i].Text()
		}
	}
	return ""
}

// checkRequest refuses what a provider refuses: it has the code CodeProviderRefused.
func checkRequest(r *model.Request) error {
	if len(r.Messages) == 0 {
		return refused("messages is empty")
	}
	open := map[string]bool{} // calls without a result
	for i := range r.Messages {
		m := &r.Messages[i]
		if m.Role != rouse.RoleTool && len(open) > 0 {
			return refused("messages[%d]: a call before it has no result", i)
		}
		if err := checkMessage(m, open); err != nil {
			return refused("messages[%d]: %s", i, err.text)
		}
	}
	if len(open) > 0 {
		return refused("the last message has calls without results")
	}
	return checkTools(r)
}

// checkMessage checks one message and keeps open up to date.
func checkMessage(m *rouse.Message, open map[string]bool) *problem {
	switch m.Role {
	case rouse.RoleUser, rouse.RoleAssistant, rouse.RoleSystem:
	case rouse.RoleTool:
		if len(m.Parts) != 1 || m.Parts[0].Result == nil {
			return &problem{text: "a tool message holds exactly one result"}
		}
	default:
		return &problem{text: fmt.Sprintf("unknown role %q", m.Role)}
	}
	for k := range m.Parts {
		p := &m.Parts[k]
		switch {
		case p.Type == rouse.PartToolCall && p.Call != nil && m.Role == rouse.RoleAssistant:
			if p.Call.ID == "" || p.Call.Name == "" || open[p.Call.ID] {
				return &problem{text: "a call needs a name and an id of its own"}
			}
			open[p.Call.ID] = true
		case p.Type == rouse.PartToolResult && p.Result != nil && m.Role == rouse.RoleTool:
			if !open[p.Result.CallID] {
				return &problem{text: fmt.Sprintf("no call %q waits for this result", p.Result.CallID)}
			}
			delete(open, p.Result.CallID)
		case p.Type == rouse.PartReasoning && m.Role == rouse.RoleAssistant:
		case p.Type == rouse.PartText && m.Role != rouse.RoleTool:
		case (p.Type == rouse.PartImage || p.Type == rouse.PartFile) && m.Role == rouse.RoleUser:
		default:
			return &problem{text: fmt.Sprintf("a part of type %q does not belong into a message of role %q", p.Type, m.Role)}
		}
	}
	return nil
}

func checkTools(r *model.Request) error {
	names := map[string]bool{}
	for i := range r.Tools {
		t := &r.Tools[i]
		if t.Name == "" || names[t.Name] {
			return refused("tools[%d]: the name %q is empty or repeated", i, t.Name)
		}
		names[t.Name] = true
		if len(t.Schema) > 0 && !isObject(t.Schema) {
			return refused("tools[%d]: the schema of %q is not a JSON object", i, t.Name)
		}
	}
	switch r.ToolChoice {
	case "", "auto", "none":
	case "required":
		if len(r.Tools) == 0 {
			return refused("tool_choice is %q without tools", r.ToolChoice)
		}
	default:
		if !names[r.ToolChoice] {
			return refused("tool_choice names %q, which is not among the tools", r.ToolChoice)
		}
	}
	if r.Output != nil && (r.Output.Name == "" || !isObject(r.Output.Schema)) {
		return refused("the output's schema has no name or is not a JSON object")
	}
	return nil
}

// isObject reports whether b is one JSON object.
func isObject(b []byte) bool {
	b = bytes.TrimSpace(b)
	return len(b) > 0 && b[0] == '{' && json.Valid(b)
}

func refused(format string, args ...any) error {
	return &rouse.Error{Code: rouse.CodeProviderRefused, Op: op, Message: "the request is refused: " + fmt.Sprintf(format, args...)}
}

// digester hashes strings so that neighbours cannot run into each other.
type digester struct{ h hash.Hash }

func (d digester) add(ss ...string) {
	for _, s := range ss {
		d.num(uint64(len(s)))
		d.h.Write([]byte(s))
	}
}

func (d digester) num(n uint64) { d.h.Write(binary.LittleEndian.AppendUint64(nil, n)) }

// requestDigest identifies what a request says to a rule. It covers only what
// every wire carries, so that the same request has the same digest on each.
func requestDigest(seed uint64, rule int, r *model.Request) (out [sha256.Size]byte) {
	d := digester{sha256.New()}
	d.num(seed)
	d.num(uint64(rule)) //nolint:gosec // an index
	d.add(r.System)
	for i := range r.Messages {
		d.add(string(r.Messages[i].Role), r.Messages[i].Text())
		for k := range r.Messages[i].Parts {
			p := &r.Messages[i].Parts[k]
			switch {
			case p.Call != nil:
				d.add(p.Call.ID, p.Call.Name, p.Call.Args)
			case p.Result != nil:
				d.add(p.Result.CallID, p.Result.Output)
			}
		}
	}
	return [sha256.Size]byte(d.h.Sum(nil))
}

// answerSeed returns the seed of the answer to the n-th request with this digest.
func answerSeed(digest [sha256.Size]byte, n uint64) [2]uint64 {
	d := digester{sha256.New()}
	d.h.Write(digest[:])
	d.num(n)
	sum := d.h.Sum(nil)
	return [2]uint64{binary.LittleEndian.Uint64(sum), binary.LittleEndian.Uint64(sum[8:])}
}

// estimate counts one token per four characters, rounded up.
func estimate(r *model.Request, parts []rouse.Part) rouse.Usage {
	in := utf8.RuneCountInString(r.System)
	for i := range r.Messages {
		n, _ := countRunes(r.Messages[i].Parts)
		in += n
	}
	out, reasoning := countRunes(parts)
	return rouse.Usage{Input: tokens(in), Output: tokens(out) + tokens(reasoning), Reasoning: tokens(reasoning)}
}

func tokens(runes int) int64 { return int64(runes+3) / 4 }

// countRunes counts text, calls and results on one hand, reasoning on the other.
func countRunes(parts []rouse.Part) (content, reasoning int) {
	for i := range parts {
		p := &parts[i]
		switch {
		case p.Type == rouse.PartReasoning:
			reasoning += utf8.RuneCountInString(p.Text)
		case p.Call != nil:
			content += utf8.RuneCountInString(p.Call.Name) + utf8.RuneCountInString(p.Call.Args)
		case p.Result != nil:
			content += utf8.RuneCountInString(p.Result.Output)
		default:
			content += utf8.RuneCountInString(p.Text)
		}
	}
	return content, reasoning
}
