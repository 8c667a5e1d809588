package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/agent"
	"github.com/rouse-run/rouse/run"
)

// jsonView writes every event as one line.
type jsonView struct {
	out io.Writer
	buf []byte
}

func (v *jsonView) event(ev *rouse.Event) error {
	v.buf = append(ev.AppendJSON(v.buf[:0]), '\n')
	_, err := v.out.Write(v.buf)
	return err
}

// maxLine bounds one line about a tool, in bytes.
const maxLine = 160

// textView writes the text of answers to the standard output and everything else
// to the standard error.
type textView struct {
	a     *app
	tty   bool // the standard output is a terminal
	open  bool // the last line of text has no end yet
	calls map[string]string
	seen  bool // text of the answer that is being written was shown
}

func newTextView(a *app) *textView {
	return &textView{a: a, tty: isTerminal(a.Stdout), calls: map[string]string{}}
}

func (v *textView) event(ev *rouse.Event) error {
	switch ev.Type {
	case rouse.EventText:
		v.seen = true
		return v.text(ev.Delta.Text)
	case rouse.EventReasoning:
		if v.a.cli.Verbose {
			return v.aside("  ~ %s", ev.Delta.Text)
		}
	case rouse.EventStreamReset:
		return v.reset(ev.Delta.Text)
	case rouse.EventAnswer:
		return v.answer(ev)
	case rouse.EventToolStarted:
		return v.aside("- %s %s", ev.Delta.Name, cut(v.calls[ev.Delta.Call], maxLine))
	case rouse.EventToolProgress:
		for l := range strings.Lines(ev.Delta.Text) {
			if err := v.aside("  | %s", cut(strings.TrimRight(l, "\r\n"), maxLine)); err != nil {
				return err
			}
		}
	case rouse.EventToolFinished:
		return v.finished(ev)
	case rouse.EventRunResumed:
		return v.aside("rouse: run %s continues", ev.Run)
	}
	return nil
}

// text writes a piece of an answer.
func (v *textView) text(s string) error {
	if s == "" {
		return nil
	}
	if v.tty {
		s = clean(s)
	}
	v.open = !strings.HasSuffix(s, "\n")
	_, err := io.WriteString(v.a.Stdout, s)
	return err
}

// aside writes a line to the standard error. On a terminal it does not begin in
// the middle of a line of text.
func (v *textView) aside(format string, args ...any) error {
	if v.a.cli.Quiet {
		return nil
	}
	if v.tty {
		if err := v.endLine(); err != nil {
			return err
		}
	}
	v.a.note(format, args...)
	return nil
}

func (v *textView) endLine() error {
	if !v.open {
		return nil
	}
	v.open = false
	_, err := io.WriteString(v.a.Stdout, "\n")
	return err
}

// reset says that the text since the last answer does not count.
func (v *textView) reset(why string) error {
	if !v.seen {
		return nil
	}
	v.seen = false
	if err := v.endLine(); err != nil {
		return err
	}
	v.a.note("rouse: the answer begins anew, what was shown of it does not count: %s", why)
	return nil
}

func (v *textView) answer(ev *rouse.Event) error {
	var d agent.AnswerData
	if err := ev.Decode(&d); err != nil {
		return err
	}
	for _, c := range d.Message.Calls() {
		v.calls[c.ID] = compact(c.Args)
	}
	if !v.seen { // it was not streamed
		if err := v.text(d.Message.Text()); err != nil {
			return err
		}
	}
	v.seen = false
	return v.endLine()
}

func (v *textView) finished(ev *rouse.Event) error {
	var d agent.ResultData
	if err := ev.Decode(&d); err != nil {
		return err
	}
	return v.aside("  %s", resultText(d))
}

// resultText is one line about what became of a call.
func resultText(d agent.ResultData) string {
	if d.Code != "" || d.Result.Error {
		return fmt.Sprintf("%s: %s [%s]", d.Result.Name, firstLine(d.Result.Output, maxLine), firstOf(string(d.Code), "error"))
	}
	return fmt.Sprintf("%s: ok, %d bytes", d.Result.Name, len(d.Result.Output))
}

// compact is JSON on one line; anything else stays as it is, on one line too.
func compact(args string) string {
	var buf bytes.Buffer
	if json.Compact(&buf, []byte(args)) == nil {
		return buf.String()
	}
	return strings.Join(strings.Fields(args), " ")
}

// summary is what an event says, on one line.
func summary(ev *rouse.Event) string {
	switch ev.Type {
	case rouse.EventMessage:
		return decoded(ev, func(m rouse.Message) string { return string(m.Role) + ": " + m.Text() })
	case rouse.EventAnswer:
		return decoded(ev, func(d agent.AnswerData) string {
			s := d.Message.Text()
			for _, c := range d.Message.Calls() {
				s += " " + c.Name + " " + compact(c.Args)
			}
			return s
		})
	case rouse.EventToolIntent:
		return decoded(ev, func(d agent.IntentData) string { return d.Call.Name + " " + compact(d.Call.Args) })
	case rouse.EventToolFinished:
		return decoded(ev, resultText)
	case rouse.EventAsked:
		return decoded(ev, func(q run.Ask) string { return q.Kind + ": " + askedCall(q).Call.Name })
	case rouse.EventAnswered:
		return decoded(ev, func(d run.Decision) string { return d.By + ": " + compact(string(d.Value)) })
	case rouse.EventRunFinished:
		return decoded(ev, func(d run.FinishedData) string {
			if d.Error != nil {
				return fmt.Sprintf("%s: %s [%s]", d.Status, d.Error.Message, d.Error.Code)
			}
			return string(d.Status)
		})
	}
	return compact(string(ev.Data))
}

func decoded[T any](ev *rouse.Event, text func(T) string) string {
	var v T
	if json.Unmarshal(ev.Data, &v) != nil {
		return "(cannot be read)"
	}
	return text(v)
}
