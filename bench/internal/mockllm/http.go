package mockllm

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// Limits of a request. A line longer than the read buffer is refused as well.
const (
	readBuffer = 64 << 10
	maxBody    = 64 << 20
	maxHeaders = 100
)

var (
	errHeaders = errors.New("mockllm: malformed or too many headers")
	errBody    = errors.New("mockllm: body is malformed or too large")
)

// request is one HTTP request; its body is valid until the next one is read.
type request struct {
	method string
	path   string
	body   []byte

	length   int // -1: chunked
	expected bool
}

// readRequest reads the next request of a connection into r, reusing its body.
func readRequest(br *bufio.Reader, w io.Writer, r *request) error {
	if err := r.readHead(br); err != nil {
		return err
	}
	if r.expected {
		if _, err := io.WriteString(w, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
			return err
		}
	}
	return r.readBody(br)
}

func (r *request) readHead(br *bufio.Reader) error {
	line, err := readLine(br)
	if err != nil {
		return err
	}
	f := bytes.Fields(line)
	if len(f) != 3 {
		return errHeaders
	}
	r.method, r.path, r.length, r.expected = string(f[0]), string(f[1]), 0, false
	for range maxHeaders {
		line, err := readLine(br)
		if err != nil {
			return err
		}
		if len(line) == 0 {
			return nil
		}
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok {
			return errHeaders
		}
		switch value = bytes.TrimSpace(value); {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if r.length, err = strconv.Atoi(string(value)); err != nil || r.length < 0 || r.length > maxBody {
				return errBody
			}
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			r.length = -1
		case bytes.EqualFold(name, []byte("Expect")):
			r.expected = true
		}
	}
	return errHeaders
}

func (r *request) readBody(br *bufio.Reader) error {
	r.body = r.body[:0]
	if r.length >= 0 {
		return r.fill(br, r.length)
	}
	for {
		line, err := readLine(br)
		if err != nil {
			return err
		}
		n, err := strconv.ParseUint(string(line), 16, 31)
		if err != nil {
			return errBody
		}
		if err := r.fill(br, int(n)); err != nil {
			return err
		}
		if line, err = readLine(br); err != nil || len(line) != 0 {
			return errBody
		}
		if n == 0 {
			return nil
		}
	}
}

// fill appends the next n bytes to the body.
func (r *request) fill(br *bufio.Reader, n int) error {
	have := len(r.body)
	if have+n > maxBody {
		return errBody
	}
	if cap(r.body) < have+n {
		r.body = append(make([]byte, 0, 2*(have+n)), r.body...)
	}
	r.body = r.body[:have+n]
	_, err := io.ReadFull(br, r.body[have:])
	return err
}

func readLine(br *bufio.Reader) ([]byte, error) {
	line, err := br.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	return bytes.TrimRight(line, "\r\n"), nil
}

// reply writes a short response that is not a stream.
func reply(w io.Writer, status string, body string) error {
	_, err := fmt.Fprintf(w, "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", status, len(body), body)
	return err
}

// field returns the first "key":"value" of a JSON text. A quotation mark within
// a JSON string is escaped, so text cannot be taken for a key.
func field(body []byte, key string) string {
	_, rest, ok := bytes.Cut(body, []byte(`"`+key+`"`))
	if !ok {
		return ""
	}
	rest = bytes.TrimLeft(rest, ": \n")
	if len(rest) == 0 || rest[0] != '"' {
		return ""
	}
	value, _, _ := bytes.Cut(rest[1:], []byte(`"`))
	return string(value)
}

// has reports whether a JSON text holds the pair, with or without a space.
func has(body []byte, key, value string) bool {
	return count(body, key, value) > 0
}

func count(body []byte, key, value string) int {
	return bytes.Count(body, []byte(`"`+key+`":`+value)) + bytes.Count(body, []byte(`"`+key+`": `+value))
}
