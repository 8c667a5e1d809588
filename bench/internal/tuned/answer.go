package tuned

import (
	"bytes"
	"errors"
)

var errChunk = errors.New("malformed chunk of an answer")

// maxCalls bounds the calls of one answer.
const maxCalls = 1024

type call struct{ id, name, args []byte }

// answer gathers one answer of the model; its buffers are used again.
type answer struct {
	text  []byte
	calls []call
}

func (a *answer) reset() {
	a.text = a.text[:0]
	for i := range a.calls {
		c := &a.calls[i]
		c.id, c.name, c.args = c.id[:0], c.name[:0], c.args[:0]
	}
	a.calls = a.calls[:0]
}

// at returns the i-th call, which begins when it is first asked for.
func (a *answer) at(i int) *call {
	for len(a.calls) <= i {
		if len(a.calls) < cap(a.calls) {
			a.calls = a.calls[:len(a.calls)+1]
		} else {
			a.calls = append(a.calls, call{})
		}
	}
	return &a.calls[i]
}

// line takes one line of the stream and reports whether it is the end mark.
func (a *answer) line(line []byte) (done bool, err error) {
	data, ok := bytes.CutPrefix(line, []byte("data:"))
	if !ok {
		return false, nil
	}
	data = bytes.TrimSpace(data)
	if string(data) == "[DONE]" {
		return true, nil
	}
	d := decoder{b: data}
	a.chunk(&d)
	if d.bad {
		return false, errChunk
	}
	return false, nil
}

func (a *answer) chunk(d *decoder) {
	for more := d.enter('{', '}'); more; more = d.more('}') {
		if string(d.key()) != "choices" {
			d.skip()
			continue
		}
		for more := d.enter('[', ']'); more; more = d.more(']') {
			a.choice(d)
		}
	}
}

func (a *answer) choice(d *decoder) {
	for more := d.enter('{', '}'); more; more = d.more('}') {
		if string(d.key()) != "delta" {
			d.skip()
			continue
		}
		for more := d.enter('{', '}'); more; more = d.more('}') {
			switch string(d.key()) {
			case "content":
				a.text = d.text(a.text)
			case "tool_calls":
				for more := d.enter('[', ']'); more; more = d.more(']') {
					a.call(d)
				}
			default:
				d.skip()
			}
		}
	}
}

// call reads a piece of a tool call; its index comes first.
func (a *answer) call(d *decoder) {
	index := 0
	for more := d.enter('{', '}'); more; more = d.more('}') {
		switch string(d.key()) {
		case "index":
			index = d.int(maxCalls)
		case "id":
			c := a.at(index)
			c.id = d.text(c.id)
		case "function":
			c := a.at(index)
			for more := d.enter('{', '}'); more; more = d.more('}') {
				switch string(d.key()) {
				case "name":
					c.name = d.text(c.name)
				case "arguments":
					c.args = d.text(c.args)
				default:
					d.skip()
				}
			}
		default:
			d.skip()
		}
	}
}
