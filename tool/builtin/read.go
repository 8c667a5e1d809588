package builtin

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/tool"
)

// footer is room for the remarks after a text.
const footer = 4 << 10

type readFileArgs struct {
	Path   string `json:"path"`
	Offset int64  `json:"offset"`
	Limit  int64  `json:"limit"`
}

func (t *Tools) readFileTool() tool.Tool {
	return &function[readFileArgs]{
		spec: tool.Spec{
			Name: "read_file",
			Description: "Reads a text file below the root directory, line by line. " +
				"A remark in square brackets at the end says when there is more, and how to read on.",
			Schema: []byte(`{"type":"object","properties":{` +
				`"path":{"type":"string","description":"Path relative to the root directory."},` +
				`"offset":{"type":"integer","minimum":1,"description":"First line to read, counted from 1. Default 1."},` +
				`"limit":{"type":"integer","minimum":1,"description":"How many lines to read. Default: as many as fit."}},` +
				`"required":["path"],"additionalProperties":false}`),
			Effect: tool.ReadOnly,
			// Replacing invalid bytes can double a text.
			MaxOutput: 2*t.cfg.MaxReadBytes + footer,
		},
		run: t.runReadFile,
	}
}

func (t *Tools) runReadFile(ctx context.Context, c *tool.Call, a readFileArgs) (string, error) {
	const op = "read_file"
	if a.Offset < 0 || a.Limit < 0 {
		return "", failure(rouse.CodeInvalid, op, "offset and limit count from 1")
	}
	rel, err := clean(op, a.Path)
	if err != nil {
		return "", err
	}
	f, fi, err := t.open(op, rel)
	if err != nil {
		return "", err
	}
	defer release(f)
	if fi.IsDir() {
		return "", failure(rouse.CodeInvalid, op, "%s is a directory; list_dir shows what is in it", show(rel))
	}
	s := lineReader{first: orDefault(a.Offset, 1), limit: orDefault(a.Limit, math.MaxInt64), most: t.cfg.MaxReadBytes}
	switch err := s.read(ctx, f); {
	case errors.Is(err, errBinary):
		return "", failure(rouse.CodeUnsupported, op, "%s is a binary file of %d bytes%s", show(rel), fi.Size(), s.encoding)
	case ctx.Err() != nil:
		return "", stopped(ctx, op)
	case err != nil:
		return "", t.pathError(op, rel, err)
	}
	if s.line < s.first && s.first > 1 {
		return "", failure(rouse.CodeInvalid, op, "%s has %d lines only", show(rel), s.line)
	}
	return s.text(), nil
}

// errBinary says that a file is not text.
var errBinary = errors.New("binary")

// lineReader takes some lines out of a file, in memory that does not depend on
// the size of the file or of its lines.
type lineReader struct {
	first, limit int64 // the lines wanted
	most         int   // bytes kept

	out      []byte
	line     int64  // the last line that was seen
	cut      int64  // the line that alone was too long, or 0
	size     int64  // its size
	more     bool   // there are lines after those in out
	full     bool   // because of most, not of limit
	encoding string // a remark for errBinary
}

func (s *lineReader) read(ctx context.Context, f *os.File) error {
	r := bufio.NewReaderSize(f, 64<<10)
	head, err := r.Peek(2)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if string(head) == "\xff\xfe" || string(head) == "\xfe\xff" {
		s.encoding = " (UTF-16 text)"
		return errBinary
	}
	start, whole := 0, true // where the current line begins in out; whether the last piece ended a line
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		piece, err := r.ReadSlice('\n')
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
		if bytes.IndexByte(piece, 0) >= 0 {
			return errBinary
		}
		if len(piece) == 0 {
			return nil
		}
		if whole {
			if s.more = s.cut > 0 || s.line >= s.first && s.line-s.first+1 >= s.limit; s.more {
				return nil
			}
			s.line++
			start = len(s.out)
		}
		whole = err == nil
		if s.line >= s.first && !s.keep(piece, start) {
			return nil
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
	}
}

// keep adds a piece of the current line, which begins at start in out. It
// reports false when the line does not fit and others are there already.
func (s *lineReader) keep(piece []byte, start int) bool {
	if s.cut == 0 && len(s.out)+len(piece) <= s.most {
		s.out = append(s.out, piece...)
		return true
	}
	if start > 0 {
		s.out, s.line = s.out[:start], s.line-1
		s.more, s.full = true, true
		return false
	}
	if s.cut == 0 {
		s.cut, s.size = s.line, int64(len(s.out))
		s.out = wholeRunes(append(s.out, piece[:s.most-len(s.out)]...))
	}
	s.size += int64(len(piece))
	return true
}

// text returns the lines and the remarks about them.
func (s *lineReader) text() string {
	text, replaced := validText(s.out)
	var notes []byte
	if s.line == 0 {
		notes = append(notes, "[the file is empty]\n"...)
	}
	if replaced {
		notes = append(notes, "[the text is not valid UTF-8; invalid bytes are shown as \uFFFD]\n"...)
	}
	if s.cut > 0 {
		notes = fmt.Appendf(notes, "[line %d has %d bytes and is cut after %d]\n", s.cut, s.size, len(s.out))
	}
	if s.more {
		notes = fmt.Appendf(notes, "[lines %d to %d; ", s.first, s.line)
		if s.full {
			notes = fmt.Appendf(notes, "the rest is over the limit of %d bytes; ", s.most)
		}
		notes = fmt.Appendf(notes, "read on with offset %d]\n", s.line+1)
	}
	if len(notes) > 0 && text != "" && text[len(text)-1] != '\n' {
		text += "\n"
	}
	return text + string(notes)
}
