package builtin

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/tool"
)

const (
	defaultPiece = 16 << 10
	maxPiece     = 64 << 10
	maxRefBytes  = 1024
)

// BlobGetter reads stored bytes by their reference. The answer for a reference
// that does not exist, or that the run may not read, has the code not_found. The
// caller does not change the bytes.
type BlobGetter interface {
	Blob(ctx context.Context, ref string) ([]byte, error)
}

type readResultArgs struct {
	Ref    string `json:"ref"`
	Offset int    `json:"offset"`
	Limit  int    `json:"limit"`
}

// ReadResult returns the tool read_result, which gives a model pieces of a
// result that was too large to be shown.
func ReadResult(getter BlobGetter) tool.Tool {
	return &function[readResultArgs]{
		spec: tool.Spec{
			Name: "read_result",
			Description: "Reads a piece of a stored tool result that was too large to be shown whole. " +
				"A remark in square brackets at the end says which piece it is, and how to read on.",
			Schema: fmt.Appendf(nil, `{"type":"object","properties":{`+
				`"ref":{"type":"string","minLength":1,"description":"The reference given with the shortened result."},`+
				`"offset":{"type":"integer","minimum":0,"description":"First byte to read. Default 0."},`+
				`"limit":{"type":"integer","minimum":1,"maximum":%d,"description":"How many bytes to read. Default %d."}},`+
				`"required":["ref"],"additionalProperties":false}`, maxPiece, defaultPiece),
			Effect: tool.ReadOnly,
			// Replacing invalid bytes can double a text.
			MaxOutput: 2*maxPiece + footer,
		},
		run: func(ctx context.Context, _ *tool.Call, a readResultArgs) (string, error) {
			return readResult(ctx, getter, a)
		},
	}
}

func readResult(ctx context.Context, getter BlobGetter, a readResultArgs) (string, error) {
	const op = "read_result"
	switch {
	case a.Ref == "" || len(a.Ref) > maxRefBytes:
		return "", failure(rouse.CodeInvalid, op, "ref has between 1 and %d bytes", maxRefBytes)
	case a.Offset < 0 || a.Limit < 0 || a.Limit > maxPiece:
		return "", failure(rouse.CodeInvalid, op, "offset counts from 0, limit is between 1 and %d", maxPiece)
	}
	data, err := getter.Blob(ctx, a.Ref)
	switch {
	case errors.Is(err, &rouse.Error{Code: rouse.CodeNotFound}):
		return "", &rouse.Error{Code: rouse.CodeNotFound, Op: op, Message: "there is no stored result " + show(a.Ref), Err: err}
	case err != nil:
		return "", &rouse.Error{Code: rouse.CodeOf(err), Op: op, Message: "the stored result could not be read", Err: err}
	case a.Offset > len(data) || a.Offset == len(data) && a.Offset > 0:
		return "", failure(rouse.CodeInvalid, op, "the result has %d bytes only", len(data))
	}
	start := runeBorder(data, a.Offset)
	end := runeBorder(data, min(len(data), start+orDefault(a.Limit, defaultPiece)))
	if end <= start { // less than one rune was asked for
		_, n := utf8.DecodeRune(data[start:])
		end = start + n
	}
	text, replaced := validText(data[start:end])
	note := fmt.Sprintf("\n[bytes %d to %d of %d", start, end, len(data))
	if replaced {
		note += "; invalid UTF-8 is shown as \uFFFD"
	}
	if end < len(data) {
		note += fmt.Sprintf("; read on with offset %d", end)
	}
	return text + note + "]\n", nil
}

// runeBorder moves i back to the beginning of a rune, if it is inside one.
func runeBorder(b []byte, i int) int {
	for k := i; k >= 0 && k > i-utf8.UTFMax && k < len(b); k-- {
		if utf8.RuneStart(b[k]) {
			if _, n := utf8.DecodeRune(b[k:]); k+n > i {
				return k
			}
			return i
		}
	}
	return i
}
