package mock

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

const demoPreface = "I am a scripted demo model, not a language model: I follow a fixed script and understand nothing. " +
	"To use a real model, set OPENAI_API_KEY, or set OPENAI_BASE_URL to any OpenAI-compatible server, " +
	"for example http://127.0.0.1:11434/v1 for a local Ollama.\n"

// report is the last answer of the demo: what the tools really returned.
func (t *turn) report() string {
	var b strings.Builder
	b.WriteString(demoPreface)
	if len(t.done) == 0 {
		b.WriteString("\nNo tool that I know was offered to me, so there is nothing to report.\n")
		return b.String()
	}
	b.WriteString("\nThis is what the tools returned:\n\n")
	for i := range t.done {
		t.reportOne(&b, &t.done[i])
	}
	return strings.ToValidUTF8(b.String(), "\ufffd")
}

func (t *turn) reportOne(b *strings.Builder, d *done) {
	fmt.Fprintf(b, "- %s%s", d.call.Name, subject(d.call.Args))
	out := d.result.Output
	switch {
	case d.failed():
		fmt.Fprintf(b, " did not succeed: %s\n", orNothing(firstLine(out)))
	case d.call.Name == toolList:
		reportListing(b, parseListing(out))
	case d.call.Name == toolRead:
		text := fileText(out)
		fmt.Fprintf(b, ": %s; it begins: %s\n", count(len(text), "byte", "bytes"), orNothing(firstLine(text)))
	case d.call.Name == toolSearch:
		lines := textLines(fileText(out))
		fmt.Fprintf(b, ": %s of result\n", count(len(lines), "line", "lines"))
		for _, l := range lines[:min(len(lines), demoHits)] {
			fmt.Fprintf(b, "    %s\n", clip(l))
		}
	default:
		fmt.Fprintf(b, ": %s\n", orNothing(firstLine(fileText(out))))
	}
}

func reportListing(b *strings.Builder, es []entry) {
	fmt.Fprintf(b, ": %s", count(len(es), "entry", "entries"))
	for i, e := range es[:min(len(es), demoNames)] {
		sep := ", "
		if i == 0 {
			sep = ": "
		}
		b.WriteString(sep + clip(e.String()))
	}
	if n := len(es) - demoNames; n > 0 {
		fmt.Fprintf(b, " and %d more", n)
	}
	b.WriteByte('\n')
}

// subject names what a call was about: its first argument by a fixed order.
func subject(args string) string {
	var m map[string]json.RawMessage
	if json.Unmarshal([]byte(args), &m) != nil {
		return ""
	}
	for _, k := range []string{"path", "pattern", "command", "file", "filename", "dir", "directory", "query", "cmd"} {
		var s string
		if json.Unmarshal(m[k], &s) == nil && s != "" {
			return " " + quoted(clip(s))
		}
	}
	return ""
}

// fileText returns the text in a result: the member of a JSON object that holds
// it, or the whole.
func fileText(out string) string {
	var m map[string]json.RawMessage
	if json.Unmarshal([]byte(out), &m) != nil {
		return out
	}
	for _, k := range []string{"content", "text", "stdout", "output", "matches", "result"} {
		var s string
		if json.Unmarshal(m[k], &s) == nil && (s != "" || k != "stdout") {
			return s
		}
	}
	return out
}

// numbered matches the line number that some tools put before a line.
var numbered = regexp.MustCompile(`^\s*\d+(?:\t|→|\| ?)`)

// firstLine returns the first line of s with something on it, cut to a size.
func firstLine(s string) string {
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(numbered.ReplaceAllString(line, "")); line != "" {
			return clip(line)
		}
	}
	return ""
}

// textLines returns the lines of s with something on them, without remarks.
func textLines(s string) (out []string) {
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" && !isRemark(line) {
			out = append(out, line)
		}
	}
	return out
}

// count returns n with the noun that goes with it.
func count(n int, one, many string) string {
	if n == 1 {
		many = one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func orNothing(s string) string {
	if s == "" {
		return "(nothing)"
	}
	return s
}

func clip(s string) string {
	if r := []rune(s); len(r) > demoLine {
		return string(r[:demoLine]) + "…"
	}
	return s
}
