package builtin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/tool"
)

// function is a tool made of a Spec and a function over its decoded arguments.
type function[A any] struct {
	spec tool.Spec
	run  func(ctx context.Context, c *tool.Call, args A) (string, error)
}

func (f *function[A]) Spec() tool.Spec { return f.spec }

func (f *function[A]) Call(ctx context.Context, c *tool.Call) (tool.Result, error) {
	if err := stopped(ctx, f.spec.Name); err != nil {
		return tool.Result{}, err
	}
	var args A
	if err := decode(c.Args, &args); err != nil {
		return tool.Result{}, &rouse.Error{Code: rouse.CodeInvalid, Op: f.spec.Name,
			Message: "the arguments do not match the schema: " + err.Error(), Err: err}
	}
	text, err := f.run(ctx, c, args)
	if err != nil {
		return tool.Result{}, err
	}
	return tool.Text(text), nil
}

// decode reads exactly one JSON object without unknown fields.
func decode(raw []byte, into any) error {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] != '{' {
		return errors.New("an object is needed")
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is something after the object")
	}
	return nil
}

// failure makes the error of a call; the words are for the model.
func failure(code rouse.Code, op, format string, args ...any) *rouse.Error {
	return &rouse.Error{Code: code, Op: op, Message: fmt.Sprintf(format, args...)}
}

// stopped returns the error for a ctx that has ended, and nil otherwise.
func stopped(ctx context.Context, op string) error {
	if ctx.Err() == nil {
		return nil
	}
	cause := context.Cause(ctx)
	if errors.Is(cause, context.DeadlineExceeded) {
		return &rouse.Error{Code: rouse.CodeTimeout, Op: op, Message: "the time for the call is over", Err: cause}
	}
	return &rouse.Error{Code: rouse.CodeCanceled, Op: op, Message: "the call was canceled", Err: cause}
}

// wholeRunes returns b without an incomplete rune at its end.
func wholeRunes(b []byte) []byte {
	for i := 1; i <= utf8.UTFMax && i <= len(b); i++ {
		if c := b[len(b)-i]; utf8.RuneStart(c) {
			if !utf8.FullRune(b[len(b)-i:]) {
				return b[:len(b)-i]
			}
			break
		}
	}
	return b
}

// validText returns b as valid UTF-8 and whether something had to be replaced.
func validText(b []byte) (string, bool) {
	if utf8.Valid(b) {
		return string(b), false
	}
	return string(bytes.ToValidUTF8(b, []byte("\uFFFD"))), true
}

// release closes what was only read from; there is nothing to lose when that fails.
func release(c io.Closer) { _ = c.Close() }
