package tuned

import (
	"bytes"
	"io"
)

// run is the state of one run; it is pooled with all its buffers.
type run struct {
	body   []byte // the request so far, without the closing "]}"
	buf    []byte // what has been read of the stream
	answer answer
	outs   [][]byte
	errs   []error
}

// appendAnswer adds the model's answer to the request.
func (r *run) appendAnswer() {
	b := append(r.body, `,{"role":"assistant","content":`...)
	b = appendString(b, r.answer.text)
	for i := range r.answer.calls {
		c := &r.answer.calls[i]
		if i == 0 {
			b = append(b, `,"tool_calls":[`...)
		} else {
			b = append(b, ',')
		}
		b = append(b, `{"id":`...)
		b = appendString(b, c.id)
		b = append(b, `,"type":"function","function":{"name":`...)
		b = appendString(b, c.name)
		b = append(b, `,"arguments":`...)
		b = appendString(b, c.args)
		b = append(b, "}}"...)
	}
	if len(r.answer.calls) > 0 {
		b = append(b, ']')
	}
	r.body = append(b, '}')
}

// appendResults adds the results of the answer's calls, in the order of the calls.
func (r *run) appendResults() {
	b := r.body
	for i := range r.answer.calls {
		b = append(b, `,{"role":"tool","tool_call_id":`...)
		b = appendString(b, r.answer.calls[i].id)
		b = append(b, `,"content":`...)
		b = appendString(b, r.outs[i])
		b = append(b, '}')
	}
	r.body = b
}

// read decodes a stream to its end, so that the connection is used again.
func (r *run) read(body io.Reader) error {
	start, end, done := 0, 0, false
	for {
		if end == len(r.buf) {
			if start == 0 {
				r.buf = append(r.buf, make([]byte, len(r.buf))...)
			}
			end = copy(r.buf, r.buf[start:end])
			start = 0
		}
		n, err := body.Read(r.buf[end:])
		end += n
		for !done {
			k := bytes.IndexByte(r.buf[start:end], '\n')
			if k < 0 {
				break
			}
			line := r.buf[start : start+k]
			start += k + 1
			var bad error
			if done, bad = r.answer.line(line); bad != nil {
				return bad
			}
		}
		if start == end || done {
			start, end = 0, 0
		}
		switch {
		case err == io.EOF && done:
			return nil
		case err == io.EOF:
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		}
	}
}

// appendString appends s as a JSON string.
func appendString(dst, s []byte) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	start := 0
	for i, c := range s {
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		start = i + 1
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}
