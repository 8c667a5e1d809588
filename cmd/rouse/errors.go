package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"github.com/rouse-run/rouse"
)

// errShown ends the program with status 0: what was asked for has been printed.
var errShown = errors.New("shown")

// errQuiet ends the program with status 1 and without a word: whoever would read
// it is gone, or has been told.
var errQuiet = errors.New("quiet")

// maxCause bounds what is shown of an error's cause, in bytes.
const maxCause = 400

func usage(hint, format string, args ...any) error {
	return &rouse.Error{Code: rouse.CodeUsage, Message: fmt.Sprintf(format, args...), Hint: hint}
}

// parseError is what a command line that could not be parsed is told as.
func parseError(k *kong.Kong, err error) error {
	node := k.Model.Node
	var pe *kong.ParseError
	if errors.As(err, &pe) && pe.Context != nil {
		if s := pe.Context.Selected(); s != nil {
			node = s
		}
	}
	var e *rouse.Error
	if errors.As(err, &e) {
		return e
	}
	path := node.FullPath()
	return usage("usage: "+synopsis(node)+"; see: "+path+" --help", "%s", err)
}

func synopsis(n *kong.Node) string {
	if n.Type == kong.ApplicationNode {
		return n.Name + " COMMAND [flags]"
	}
	return n.Summary()
}

// report tells err to the user and returns the exit status.
func (a *app) report(err error) int {
	if err == nil {
		return 0
	}
	if errors.Is(err, errQuiet) || isClosedPipe(err) {
		return 1
	}
	e := describe(err)
	if a.json {
		a.reportJSON(e)
	}
	a.note("rouse: %s [%s]", e.Message, e.Code)
	if e.Err != nil {
		if c := firstLine(e.Err.Error(), maxCause); c != "" && c != e.Message {
			a.note("cause: %s", c)
		}
	}
	if e.Hint != "" {
		a.note("hint: %s", e.Hint)
	}
	return e.Code.Info().Exit
}

// describe returns the error of ours in err's chain, or makes one.
func describe(err error) *rouse.Error {
	var e *rouse.Error
	if !errors.As(err, &e) {
		return &rouse.Error{Code: rouse.CodeInternal, Message: firstLine(err.Error(), maxCause)}
	}
	out := *e
	if out.Message == "" {
		out.Message = string(out.Code)
	}
	return &out
}

// errorLine is how an error looks among the lines of --json.
type errorLine struct {
	Type  string `json:"type"` // "error"
	Error struct {
		Code    rouse.Code `json:"code"`
		Message string     `json:"message"`
		Hint    string     `json:"hint,omitempty"`
	} `json:"error"`
}

func (a *app) reportJSON(e *rouse.Error) {
	l := errorLine{Type: "error"}
	l.Error.Code, l.Error.Message, l.Error.Hint = e.Code, e.Message, e.Hint
	_ = a.line(l) // the error itself goes to the standard error as well
}

// line writes v as one line of JSON to the standard output.
func (a *app) line(v any) error {
	enc := json.NewEncoder(a.Stdout)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// firstLine returns the first line of s that says something, cut to max bytes.
func firstLine(s string, max int) string {
	for l := range strings.Lines(s) {
		if l = strings.TrimSpace(l); l != "" {
			return cut(l, max)
		}
	}
	return ""
}

// cut returns s, or as much of it as fits into max bytes with an ellipsis.
func cut(s string, max int) string {
	if len(s) <= max {
		return s
	}
	s = s[:max]
	for len(s) > 0 && !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s + "..."
}

// clean replaces what could steer a terminal, or hide something from its reader,
// by U+FFFD: control characters but for line feed and tab, and the invisible ones
// that change the direction of text.
func clean(s string) string {
	if !strings.ContainsFunc(s, steers) {
		return s
	}
	return strings.Map(func(r rune) rune {
		if steers(r) {
			return utf8.RuneError
		}
		return r
	}, s)
}

func steers(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r < 0x20, r >= 0x7f && r < 0xa0:
		return true
	}
	return r >= 0x200b && r <= 0x200f || r >= 0x2028 && r <= 0x202e || r >= 0x2060 && r <= 0x206f || r == 0xfeff
}
