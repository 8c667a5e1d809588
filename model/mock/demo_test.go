package mock_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/model"
	"github.com/rouse-run/rouse/model/mock"
)

// specs are the tools that the demo knows.
func specs(names ...string) (out []model.ToolSpec) {
	props := map[string]string{
		"list_dir": `"path":{}`, "read_file": `"path":{}`, "search": `"pattern":{}`, "write_file": `"path":{},"content":{}`, "shell": `"command":{}`,
	}
	for _, n := range names {
		out = append(out, model.ToolSpec{Name: n, Schema: json.RawMessage(`{"type":"object","properties":{` + props[n] + `}}`)})
	}
	return out
}

// box executes calls over a real directory.
type box struct {
	root  string
	list  func([]os.DirEntry) string // how list_dir writes its result
	fails map[string]string          // what failing tools say
	mark  bool                       // failures are marked, which a wire cannot do
	calls []string                   // what was called
}

func newBox(t *testing.T, files map[string]string) *box {
	t.Helper()
	b := &box{root: t.TempDir(), list: listJSON, mark: true}
	for name, content := range files {
		path := filepath.Join(b.root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func (b *box) run(c rouse.ToolCall) rouse.ToolResult {
	b.calls = append(b.calls, c.Name+" "+c.Args)
	out, err := b.exec(c)
	if err != nil {
		out = "error: " + err.Error()
	}
	return rouse.ToolResult{CallID: c.ID, Name: c.Name, Output: out, Error: err != nil && b.mark}
}

func (b *box) exec(c rouse.ToolCall) (string, error) {
	if words, ok := b.fails[c.Name]; ok {
		return "", fmt.Errorf("%s", words)
	}
	var args map[string]string
	if err := json.Unmarshal([]byte(c.Args), &args); err != nil {
		return "", err
	}
	switch c.Name {
	case "list_dir":
		es, err := os.ReadDir(filepath.Join(b.root, args["path"]))
		return b.list(es), err
	case "read_file":
		text, err := os.ReadFile(filepath.Join(b.root, args["path"]))
		return string(text), err
	case "search":
		return "a.txt:1: " + args["pattern"] + "\n[matches: 1; files searched: 3]\n", nil
	case "write_file":
		return "written", os.WriteFile(filepath.Join(b.root, args["path"]), []byte(args["content"]), 0o600)
	default:
		return `{"stdout":"hello","exit_code":0}`, nil
	}
}

func size(e os.DirEntry) int64 {
	info, err := e.Info()
	if err != nil {
		return -1
	}
	return info.Size()
}

func listJSON(es []os.DirEntry) string {
	var items []map[string]any
	for _, e := range es {
		items = append(items, map[string]any{"name": e.Name(), "is_dir": e.IsDir(), "size": size(e)})
	}
	b, _ := json.Marshal(map[string]any{"path": ".", "entries": items}) // strings and numbers only
	return string(b)
}

// loop drives the demo as an agent does and returns its last answer.
func loop(t *testing.T, b *box, prompt string, tools ...string) string {
	t.Helper()
	g := newGPT(t, mock.Config{Rules: mock.Demo()})
	req := ask(prompt)
	req.Tools = specs(tools...)
	for range 5 {
		m, err := g.Generate(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Calls()) == 0 {
			return m.Text()
		}
		req.Messages = append(req.Messages, m)
		for _, c := range m.Calls() {
			if !slices.Contains(tools, c.Name) {
				t.Fatalf("%s was called and is not offered", c.Name)
			}
			req.Messages = append(req.Messages, rouse.ResultMessage(b.run(c)))
		}
	}
	t.Fatal("the demo does not end")
	return ""
}

func wantParts(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%q is missing in\n%s", p, text)
		}
	}
}

func files() map[string]string {
	return map[string]string{
		"a.txt": "alpha line\nmore", "README.md": "\n# The readme\n", "b.txt": "beta", "image.png": "\x89PNG", "sub/inner.txt": "x",
		"empty.txt": "", "large.txt": strings.Repeat("x", 70_000), ".hidden.txt": "x",
	}
}

func TestDemoReportsWhatItSaw(t *testing.T) {
	t.Parallel()
	b := newBox(t, files())
	text := loop(t, b, "what is here?", "list_dir", "read_file", "search", "write_file", "shell")
	if want := []string{`list_dir {"path":"."}`, `read_file {"path":"README.md"}`, `read_file {"path":"a.txt"}`}; !slices.Equal(b.calls, want) {
		t.Errorf("calls are %q, want %q", b.calls, want)
	}
	if !strings.HasPrefix(text, "I am a scripted demo model, not a language model") {
		t.Errorf("it does not say what it is: %s", text)
	}
	wantParts(t, text, "OPENAI_API_KEY", "OPENAI_BASE_URL", "Ollama", "8 entries", "README.md (14 bytes)", "sub/", "large.txt (70000 bytes)",
		"it begins: # The readme", "15 bytes; it begins: alpha line")
}

func TestDemoReadsListingsOfEveryForm(t *testing.T) {
	t.Parallel()
	each := func(format func(e os.DirEntry) string) func([]os.DirEntry) string {
		return func(es []os.DirEntry) string {
			var s strings.Builder
			for _, e := range es {
				s.WriteString(format(e) + "\n")
			}
			return s.String()
		}
	}
	slash := func(e os.DirEntry) string {
		if e.IsDir() {
			return e.Name() + "/"
		}
		return e.Name()
	}
	kind := func(e os.DirEntry) string {
		if e.IsDir() {
			return "dir"
		}
		return "file"
	}
	names := func(es []os.DirEntry) (out []string) {
		for _, e := range es {
			out = append(out, slash(e))
		}
		return out
	}
	for name, list := range map[string]func([]os.DirEntry) string{
		"object":     listJSON,
		"json names": func(es []os.DirEntry) string { b, _ := json.Marshal(names(es)); return string(b) },
		"json text":  func(es []os.DirEntry) string { b, _ := json.Marshal(strings.Join(names(es), "\n")); return string(b) },
		"json members": func(es []os.DirEntry) string {
			b, _ := json.Marshal(map[string]any{"result": map[string]any{"files": names(es)}})
			return string(b)
		},
		"plain lines": each(slash),
		"bullets":     each(func(e os.DirEntry) string { return "- ./" + slash(e) }),
		"tabs":        each(func(e os.DirEntry) string { return fmt.Sprintf("%s\t%d", slash(e), size(e)) }),
		"size first":  each(func(e os.DirEntry) string { return fmt.Sprintf("%8d  %s", size(e), slash(e)) }),
		"in brackets": each(func(e os.DirEntry) string { return fmt.Sprintf("%s (%d bytes)", slash(e), size(e)) }),
		"kind first":  each(func(e os.DirEntry) string { return fmt.Sprintf("%s %s %d", kind(e), e.Name(), size(e)) }),
		"kind last":   each(func(e os.DirEntry) string { return fmt.Sprintf("%s  %s", e.Name(), kind(e)) }),
		"with remarks": func(es []os.DirEntry) string {
			return each(func(e os.DirEntry) string {
				if e.IsDir() {
					return "dir " + strconv.Quote(slash(e))
				}
				return fmt.Sprintf("file %d %s", size(e), e.Name())
			})(es) + "[left out: 3 files, 1 unreadable]\n"
		},
		"ls -l": each(func(e os.DirEntry) string {
			return fmt.Sprintf("%s 1 root root %d Jan  1 00:00 %s", map[bool]string{true: "drwxr-xr-x", false: "-rw-r--r--"}[e.IsDir()], size(e), e.Name())
		}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := files()
			delete(f, "empty.txt") // not every form tells a size
			f["notes.md/x"] = "a directory that looks like a file"
			b := newBox(t, f)
			b.list = list
			text := loop(t, b, "look", "list_dir", "read_file")
			wantParts(t, text, "8 entries", "# The readme", "alpha line", "notes.md/")
			if len(b.calls) != 3 {
				t.Errorf("calls are %q", b.calls)
			}
		})
	}
}

func TestDemoSearchesWhatIsQuoted(t *testing.T) {
	t.Parallel()
	b := newBox(t, files())
	text := loop(t, b, `find "alpha (x)" for me`, "list_dir", "read_file", "search")
	if !slices.Contains(b.calls, `search {"pattern":"alpha (x)"}`) || len(b.calls) != 4 {
		t.Errorf("calls are %q", b.calls)
	}
	wantParts(t, text, `search "alpha (x)": 1 line of result`, "a.txt:1: alpha (x)")
	g := newGPT(t, mock.Config{Rules: mock.Demo()})
	req := ask(`find "alpha (x)"`)
	req.Tools = []model.ToolSpec{{Name: "search", Description: "searches by regular expression", Schema: json.RawMessage(`{"properties":{"query":{}}}`)}}
	m, err := g.Generate(t.Context(), req)
	if err != nil || len(m.Calls()) != 1 || m.Calls()[0].Args != `{"query":"alpha \\(x\\)"}` {
		t.Errorf("got %+v, %v", m, err)
	}
}

func TestDemoAsksForOneChange(t *testing.T) {
	t.Parallel()
	all := []string{"list_dir", "read_file", "search", "write_file", "shell"}
	for _, c := range []struct {
		prompt string
		tools  []string
		last   string
	}{
		{"please Write something", all, "write_file "},
		{"create and run it", all, "write_file "},
		{"run the tests", all, `shell {"command":`},
		{"run the tests", []string{"list_dir", "shell"}, `shell {"command":`},
		{"write something", []string{"list_dir", "read_file", "shell"}, "read_file "},
		{"a runner and a writer", all, "read_file "},
	} {
		b := newBox(t, files())
		loop(t, b, c.prompt, c.tools...)
		if got := b.calls[len(b.calls)-1]; !strings.HasPrefix(got, c.last) || len(b.calls) > 4 {
			t.Errorf("%q: calls are %q", c.prompt, b.calls)
		}
	}
	b := newBox(t, files())
	text := loop(t, b, "write it", all...)
	if got, err := os.ReadFile(filepath.Join(b.root, "rouse-demo.txt")); err != nil || !strings.Contains(string(got), "scripted") {
		t.Errorf("%q, %v", got, err)
	}
	wantParts(t, text, `write_file "rouse-demo.txt": written`)
	wantParts(t, loop(t, newBox(t, nil), "run it", all...), "shell", ": hello")
}

func TestDemoSaysWhenAToolFails(t *testing.T) {
	t.Parallel()
	for _, mark := range []bool{true, false} {
		b := newBox(t, files())
		b.mark = mark
		b.fails = map[string]string{"list_dir": "no permission", "write_file": "denied by the user"}
		text := loop(t, b, "write it", "list_dir", "read_file", "write_file")
		wantParts(t, text, `list_dir "." did not succeed: error: no permission`, `write_file "rouse-demo.txt" did not succeed: error: denied by the user`)
		if len(b.calls) != 2 {
			t.Errorf("calls are %q", b.calls)
		}
	}
}

func TestDemoWithoutToolsAndLaterTurns(t *testing.T) {
	t.Parallel()
	wantParts(t, loop(t, newBox(t, nil), "hello"), "scripted demo model", "No tool that I know was offered")
	wantParts(t, loop(t, newBox(t, nil), "hello", "list_dir"), "0 entries")
	g := newGPT(t, mock.Config{Rules: mock.Demo()})
	req := ask("look")
	req.Tools, req.ToolChoice = specs("list_dir"), "none"
	if m, err := g.Generate(t.Context(), req); err != nil || len(m.Calls()) != 0 {
		t.Errorf("called against tool_choice none: %+v, %v", m, err)
	}
	// a second prompt of the same conversation begins anew
	req.ToolChoice = ""
	req.Messages = append(req.Messages, rouse.Message{Role: rouse.RoleAssistant, Parts: []rouse.Part{rouse.Text("before")}}, rouse.UserText("look again"))
	if m, err := g.Generate(t.Context(), req); err != nil || len(m.Calls()) != 1 {
		t.Errorf("got %+v, %v", m, err)
	}
}

func TestDemoBoundsWhatItShows(t *testing.T) {
	t.Parallel()
	f := map[string]string{"a.md": strings.Repeat("é", 500), "image.bin": strings.Repeat("x", 3000)}
	for i := range 20 {
		f[fmt.Sprintf("z%02d.bin", i)] = ""
	}
	b := newBox(t, f)
	b.list = func(es []os.DirEntry) string {
		var s strings.Builder
		for _, e := range es {
			fmt.Fprintf(&s, "%s  %.1f KB\n", e.Name(), float64(size(e))/1024)
		}
		return s.String() + "big.txt  2 MB\nhuge.txt  1G\n"
	}
	text := loop(t, b, "look", "list_dir", "read_file")
	wantParts(t, text, "24 entries", "image.bin (2969 bytes)", "and 14 more", "1000 bytes; it begins: "+strings.Repeat("é", 100)+"…")
	if strings.Contains(text, strings.Repeat("é", 101)) || len(b.calls) != 2 {
		t.Errorf("calls are %q, text is %s", b.calls, text)
	}
}

// TestDemoIsBounded shows it a turn of which it recognises nothing.
func TestDemoIsBounded(t *testing.T) {
	t.Parallel()
	req := ask(`write "x"`)
	req.Tools = specs("list_dir", "read_file", "search", "write_file")
	for range 3 {
		req.Messages = append(req.Messages, rouse.Message{Role: rouse.RoleAssistant, Parts: []rouse.Part{rouse.Text("somebody else's words")}})
	}
	m, err := newGPT(t, mock.Config{Rules: mock.Demo()}).Generate(t.Context(), req)
	if err != nil || len(m.Calls()) != 0 {
		t.Errorf("got %+v, %v", m, err)
	}
}

// FuzzDemo lets tools return anything: the demo ends, and calls what is offered.
func FuzzDemo(f *testing.F) {
	for _, s := range []string{"", "README.md", `["a.txt"]`, `{"entries":[{"name":"a.txt","size":"1e99"}]}`, "total 4\n9 x\n", `{"error":"x"}`, "((\t", `[[]]`, `"\"\""`} {
		f.Add(`write "x"`, s)
	}
	f.Fuzz(func(t *testing.T, prompt, output string) {
		b := &box{root: t.TempDir(), list: func([]os.DirEntry) string { return output }}
		loop(t, b, strings.ToValidUTF8(prompt, "?"), "list_dir", "search", "shell")
	})
}
