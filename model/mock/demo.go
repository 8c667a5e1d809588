package mock

import (
	"cmp"
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/model"
)

// Demo returns the rules of a scripted model that shows a runtime at work where
// no provider is configured. For any prompt it lists the directory, reads up to
// two small text files of it (and searches for what the prompt puts in quotes),
// and says what it found. When the prompt speaks of writing, creating or running
// something it first asks for one such call, so that an approval can be seen.
//
// It calls only tools that the request offers, under the names list_dir,
// read_file, search, write_file and shell, each in one round at most, and so
// ends after four calls of the model at the latest. It says of itself that it is
// a script and how to configure a real model.
func Demo() []Rule {
	return []Rule{{Name: "demo", Prompt: Any, Generator: Func(demo)}}
}

// The limits of the demo.
const (
	demoRounds   = 4        // answers per prompt, the last one included
	demoFiles    = 2        // files that are read
	demoFileSize = 64 << 10 // bytes of a file that is worth reading
	demoNames    = 10       // names that are shown
	demoHits     = 3        // hits of a search that are shown
	demoLine     = 100      // runes of a line that is shown
)

// The tools that the demo knows.
const (
	toolList   = "list_dir"
	toolRead   = "read_file"
	toolSearch = "search"
	toolWrite  = "write_file"
	toolShell  = "shell"
)

// turn is what has happened since the last prompt.
type turn struct {
	prompt string
	tools  map[string]*model.ToolSpec // offered
	rounds int                        // answers so far
	done   []done                     // calls so far, in order
}

// done is a call with its result.
type done struct {
	call   rouse.ToolCall
	result rouse.ToolResult
}

// failed reports whether the call failed. Wires have no mark for that, so that
// only the text can tell.
func (d *done) failed() bool {
	var o struct {
		Error json.RawMessage `json:"error"`
	}
	out := strings.TrimSpace(d.result.Output)
	isObject := json.Unmarshal([]byte(out), &o) == nil
	return d.result.Error || errorWord.MatchString(out) || isObject && !slices.Contains([]string{"", "null", "false", `""`}, string(o.Error))
}

func (t *turn) of(tool string) (out []done) {
	for _, d := range t.done {
		if d.call.Name == tool {
			out = append(out, d)
		}
	}
	return out
}

// may reports whether a tool is offered and was not called yet.
func (t *turn) may(tool string) bool { return t.tools[tool] != nil && len(t.of(tool)) == 0 }

func demo(_ context.Context, req *model.Request) (any, error) {
	t := readTurn(req)
	if t.rounds < demoRounds-1 && req.ToolChoice != "none" {
		for _, next := range []func() []Call{t.look, t.read, t.act} {
			if calls := next(); len(calls) > 0 {
				return Calls(calls...), nil
			}
		}
	}
	return t.report(), nil
}

func readTurn(req *model.Request) *turn {
	t := &turn{prompt: lastUserText(req), tools: map[string]*model.ToolSpec{}}
	for i := range req.Tools {
		t.tools[req.Tools[i].Name] = &req.Tools[i]
	}
	start := len(req.Messages)
	for start > 0 && req.Messages[start-1].Role != rouse.RoleUser {
		start--
	}
	open := map[string]rouse.ToolCall{}
	for _, m := range req.Messages[start:] {
		if m.Role == rouse.RoleAssistant {
			t.rounds++
		}
		for _, c := range m.Calls() {
			open[c.ID] = c
		}
		for _, p := range m.Parts {
			if p.Result == nil {
				continue
			}
			c := open[p.Result.CallID]
			if c.Name == "" {
				c.Name = p.Result.Name
			}
			t.done = append(t.done, done{c, *p.Result})
		}
	}
	return t
}

// look is the first round: what is there.
func (t *turn) look() []Call {
	if t.rounds > 0 || !t.may(toolList) {
		return nil
	}
	return []Call{t.call(toolList, arg{[]string{"path", "dir", "directory"}, "."})}
}

// read is the second round: files worth reading, and what the prompt quotes.
func (t *turn) read() (calls []Call) {
	if t.may(toolRead) {
		for _, name := range worthReading(t.entries()) {
			calls = append(calls, t.call(toolRead, arg{[]string{"path", "file", "filename"}, name}))
		}
	}
	if q := firstGroup(quotedText, t.prompt); q != "" && t.may(toolSearch) {
		calls = append(calls, t.call(toolSearch, arg{[]string{"pattern", "query", "text"}, t.pattern(q)}))
	}
	return calls
}

// act is the third round, when the prompt asks for a change.
func (t *turn) act() []Call {
	if len(t.of(toolWrite))+len(t.of(toolShell)) > 0 {
		return nil
	}
	switch {
	case writeWord.MatchString(t.prompt) && t.tools[toolWrite] != nil:
		return []Call{t.call(toolWrite, arg{[]string{"path", "file", "filename"}, "rouse-demo.txt"},
			arg{[]string{"content", "text", "data"}, "Written by the scripted demo model.\n"})}
	case runWord.MatchString(t.prompt) && t.tools[toolShell] != nil:
		return []Call{t.call(toolShell, arg{[]string{"command", "cmd", "script"}, "echo hello from the scripted demo model"})}
	}
	return nil
}

var (
	quotedText = regexp.MustCompile(`["“]([^"“”\n]{1,100})["”]`)
	writeWord  = regexp.MustCompile(`(?i)\b(write|create)\b`)
	runWord    = regexp.MustCompile(`(?i)\brun\b`)
	errorWord  = regexp.MustCompile(`(?i)^(error|failed|denied|refused)\b`)
	regexpWord = regexp.MustCompile(`(?i)\bregexp?\b|regular expression|\bRE2\b`)
)

func firstGroup(re *regexp.Regexp, s string) string {
	if m := re.FindStringSubmatch(s); m != nil {
		return strings.TrimSpace(m[1])
	}
	return ""
}

// pattern quotes s when the search tool says that it takes regular expressions.
func (t *turn) pattern(s string) string {
	spec := t.tools[toolSearch]
	if regexpWord.MatchString(spec.Description) || regexpWord.Match(spec.Schema) {
		return regexp.QuoteMeta(s)
	}
	return s
}

// arg is an argument under the first of its names that the tool's schema has.
type arg struct {
	names []string
	value string
}

// call asks for a tool. Names that the schema does not have fall back to the usual one.
func (t *turn) call(tool string, args ...arg) Call {
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(t.tools[tool].Schema, &schema) != nil {
		schema.Properties = nil // the usual names will do
	}
	out := map[string]string{}
	for _, a := range args {
		i := slices.IndexFunc(a.names, func(n string) bool { return schema.Properties[n] != nil })
		out[a.names[max(i, 0)]] = a.value
	}
	return Call{Name: tool, Args: out}
}

// entries returns what list_dir found, nil when it failed or was not called.
func (t *turn) entries() []entry {
	for _, d := range t.of(toolList) {
		if !d.failed() {
			return parseListing(d.result.Output)
		}
	}
	return nil
}

// textName matches names, in lower case, of files that hold text.
var textName = regexp.MustCompile(`^(readme|license$|makefile$)|\.(md|txt|rst|go|mod|json|ya?ml|toml|ini|cfg|csv|py|js|ts|html|css|sh|rs|java|c|h|sql)$`)

// worthReading returns the names of up to demoFiles small text files, READMEs first.
func worthReading(es []entry) (names []string) {
	es = slices.DeleteFunc(slices.Clone(es), func(e entry) bool {
		name := strings.ToLower(e.name)
		return e.dir || !textName.MatchString(name) || e.size > demoFileSize || e.size == 0 || strings.HasPrefix(name, ".")
	})
	slices.SortStableFunc(es, func(a, b entry) int { return cmp.Compare(readRank(a.name), readRank(b.name)) })
	for _, e := range es[:min(len(es), demoFiles)] {
		names = append(names, e.name)
	}
	return names
}

func readRank(name string) int {
	if strings.HasPrefix(strings.ToLower(name), "readme") {
		return 0
	}
	return 1
}
