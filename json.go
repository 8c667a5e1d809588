package rouse

import (
	"encoding/base64"

	"github.com/rouse-run/rouse/internal/jsonx"
)

// AppendJSON appends m as encoding/json would write it, but without reflection
// and with HTML characters as they are. It is what journals hold.
func (m *Message) AppendJSON(b []byte) []byte {
	o := jsonx.Open(b)
	o.String("id", m.ID)
	o.String("role", string(m.Role))
	if len(m.Parts) > 0 {
		o.Key("parts")
		o.B = AppendParts(o.B, m.Parts)
	}
	return o.Close()
}

// AppendParts appends parts as a JSON array, in the form in which a message holds them.
func AppendParts(b []byte, parts []Part) []byte {
	b = append(b, '[')
	for i := range parts {
		if i > 0 {
			b = append(b, ',')
		}
		b = parts[i].appendJSON(b)
	}
	return append(b, ']')
}

func (p *Part) appendJSON(b []byte) []byte {
	o := jsonx.Open(b)
	o.String("type", string(p.Type))
	o.String("text", p.Text)
	o.String("signature", p.Signature)
	o.String("media_type", p.MediaType)
	o.String("name", p.Name)
	if len(p.Data) > 0 {
		o.Key("data")
		o.B = append(base64.StdEncoding.AppendEncode(append(o.B, '"'), p.Data), '"')
	}
	o.String("url", p.URL)
	if c := p.Call; c != nil {
		o.Key("call")
		in := jsonx.Open(o.B)
		in.Key("id")
		in.B = jsonx.AppendString(in.B, c.ID)
		in.Key("name")
		in.B = jsonx.AppendString(in.B, c.Name)
		in.Key("args")
		in.B = jsonx.AppendString(in.B, c.Args)
		o.B = in.Close()
	}
	if r := p.Result; r != nil {
		o.Key("result")
		o.B = r.AppendJSON(o.B)
	}
	return o.Close()
}

// AppendJSON appends r as encoding/json would write it, with HTML characters as they are.
func (r *ToolResult) AppendJSON(b []byte) []byte {
	o := jsonx.Open(b)
	o.Key("call_id")
	o.B = jsonx.AppendString(o.B, r.CallID)
	o.Key("name")
	o.B = jsonx.AppendString(o.B, r.Name)
	o.Key("output")
	o.B = jsonx.AppendString(o.B, r.Output)
	o.Bool("error", r.Error)
	o.String("whole", r.Whole)
	return o.Close()
}

// AppendJSON appends u as encoding/json would write it.
func (u Usage) AppendJSON(b []byte) []byte {
	o := jsonx.Open(b)
	o.Int("input", u.Input)
	o.Int("output", u.Output)
	o.Int("cache_read", u.CacheRead)
	o.Int("cache_write", u.CacheWrite)
	o.Int("reasoning", u.Reasoning)
	o.Int("micro_usd", u.MicroUSD)
	return o.Close()
}
