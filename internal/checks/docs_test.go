package checks_test

import (
	"go/ast"
	"go/doc"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/rouse-run/rouse"
)

// undocumented returns what the documentation of a package lacks.
func undocumented(dir string, srcs []source) (comment, example bool) {
	var comments, examples, behaviour bool
	for _, s := range srcs {
		if s.test {
			for _, e := range doc.Examples(s.file) {
				examples = examples || e.Output != "" || e.EmptyOutput
			}
			continue
		}
		first, rest, _ := strings.Cut(s.file.Doc.Text(), " ")
		second, _, _ := strings.Cut(rest, " ")
		if s.file.Name.Name == "main" {
			name := path.Base(dir)
			comments = comments || first == "Command" && second == name || strings.EqualFold(first, name)
		} else {
			comments = comments || first == "Package" && second == s.file.Name.Name
		}
		behaviour = behaviour || s.file.Name.Name != "main" && slices.ContainsFunc(s.file.Decls, isExportedFunc)
	}
	return !comments, behaviour && !examples && !isInternal(dir) && !isTestPackage(dir)
}

func isInternal(dir string) bool { return slices.Contains(strings.Split(dir, "/"), "internal") }

func isExportedFunc(d ast.Decl) bool {
	f, ok := d.(*ast.FuncDecl)
	return ok && f.Name.IsExported()
}

func TestPackageDocs(t *testing.T) {
	t.Parallel()
	pardons := map[string]bool{}
	for _, p := range withoutExample {
		if p.why == "" {
			t.Errorf("withoutExample: %s has no reason", p.pkg)
		}
		pardons[p.pkg] = true
	}
	all := sources(t)
	for dir, srcs := range all {
		comment, example := undocumented(dir, srcs)
		if comment {
			t.Errorf("%s: no package comment that begins with its name", dir)
		}
		if example && !pardons[dir] {
			t.Errorf("%s: exported functions but no Example with an Output comment", dir)
		}
		if !example && pardons[dir] {
			t.Errorf("%s: has an example or needs none; remove it from withoutExample", dir)
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(pardons)) {
		if len(all[dir]) == 0 {
			t.Errorf("withoutExample: there is no package %s", dir)
		}
	}
}

func TestPackageDocsCatch(t *testing.T) {
	t.Parallel()
	const (
		bare   = "package x\nfunc F() {}\n"
		good   = "// Package x is good.\npackage x\nfunc F() {}\n"
		method = "// Package x is good.\npackage x\ntype t int\nfunc (t) M() {}\n"
		silent = "package x_test\nfunc ExampleF() {}\n"
		shown  = "package x_test\nimport \"fmt\"\nfunc ExampleF() {\n\tfmt.Println(1)\n\t// Output: 1\n}\n"
	)
	for name, c := range map[string]struct {
		dir              string
		code, test       string
		comment, example bool
	}{
		"nothing":              {"x", bare, "package x_test\n", true, true},
		"no example":           {"x", good, "package x_test\n", false, true},
		"example without test": {"x", good, silent, false, true},
		"method":               {"x", method, silent, false, true},
		"all":                  {"x", good, shown, false, false},
		"internal":             {"internal/x", good, silent, false, false},
		"internal below":       {"bench/internal/x", good, silent, false, false},
		"no behaviour":         {"x", "// Package x is data.\npackage x\ntype T int\n", silent, false, false},
		"command":              {"cmd/x", "// Command x runs.\npackage main\n", silent, false, false},
		"command by name":      {"cmd/x", "// X runs.\npackage main\n", silent, false, false},
		"nameless command":     {"cmd/x", "// This runs.\npackage main\n", silent, true, false},
		"wrong name":           {"x", "// Package y is good.\npackage x\n", silent, true, false},
	} {
		comment, example := undocumented(c.dir, []source{parseSource(t, "x.go", c.code), parseSource(t, "x_test.go", c.test)})
		if comment != c.comment || example != c.example {
			t.Errorf("%s: got %v %v, want %v %v", name, comment, example, c.comment, c.example)
		}
	}
}

var (
	link  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	shell = regexp.MustCompile("(?s)```sh\n(.*?)```")
	edge  = regexp.MustCompile(`(?m)^\s*(\S+) --> ([^\s:]+)`)
)

// brokenLinks returns the relative links of a Markdown text that lead nowhere.
func brokenLinks(root, name, text string) []string {
	var out []string
	for _, m := range link.FindAllStringSubmatch(text, -1) {
		target, _, _ := strings.Cut(m[1], "#")
		if target == "" || strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
			continue
		}
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(path.Dir(name)), filepath.FromSlash(target))); err != nil {
			out = append(out, m[1])
		}
	}
	return out
}

func TestDocLinks(t *testing.T) {
	t.Parallel()
	for _, name := range files(t, ".md") {
		for _, broken := range brokenLinks(rootDir(t), name, read(t, name)) {
			t.Errorf("%s: the link to %s leads nowhere", name, broken)
		}
	}
	if got := brokenLinks(rootDir(t), "docs/x.md", "[a](../README.md#x) [b](nowhere.md) [c](https://go.dev) [d](#top)"); !slices.Equal(got, []string{"nowhere.md"}) {
		t.Errorf("the check itself: got %q", got)
	}
}

// TestTwoCommands holds the README to its promise, and everybody to the same one command.
func TestTwoCommands(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][]string{
		"README.md":       {`go run ./cmd/rouse run "What is in this directory?"`, "make test"},
		"CONTRIBUTING.md": {"make test"},
	} {
		var got []string
		for _, m := range shell.FindAllStringSubmatch(read(t, name), -1) {
			got = append(got, strings.Split(strings.TrimSpace(m[1]), "\n")...)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: the commands are %q, want %q", name, got, want)
		}
	}
	if lines := strings.Fields(read(t, ".ci/run")); !slices.Equal(lines[len(lines)-3:], []string{"exec", "make", "test"}) {
		t.Errorf(".ci/run ends with %q, want the command of the README", lines[len(lines)-3:])
	}
}

// TestRunStates compares the diagram of a run with the code.
func TestRunStates(t *testing.T) {
	t.Parallel()
	_, section, ok := strings.Cut(read(t, "docs/state-machines.md"), "\n## Run\n")
	if !ok {
		t.Fatal("docs/state-machines.md: no section on the run")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	drawn := map[rouse.Status][]string{}
	for _, m := range edge.FindAllStringSubmatch(section, -1) {
		if m[1] != "[*]" {
			drawn[rouse.Status(m[1])] = append(drawn[rouse.Status(m[1])], m[2])
		}
	}
	states := []rouse.Status{rouse.StatusRunning, rouse.StatusWaiting, rouse.StatusCompleted, rouse.StatusFailed, rouse.StatusCanceled}
	for _, s := range states {
		next, ok := drawn[s]
		if !ok {
			t.Errorf("%s is not drawn", s)
		}
		if ends := slices.Equal(next, []string{"[*]"}); ends != s.Final() {
			t.Errorf("%s is followed by %q, but Final is %v", s, next, s.Final())
		}
	}
	for s := range drawn {
		if !slices.Contains(states, s) {
			t.Errorf("%s is drawn but is no state of a run", s)
		}
	}
}

// TestLeakCheck holds that every package with tests looks for goroutines that its
// tests leave behind.
func TestLeakCheck(t *testing.T) {
	t.Parallel()
	for _, p := range listPackages(t, runtime.GOOS) {
		imports := slices.Concat(p.TestImports, p.XTestImports)
		if slices.Contains(imports, "testing") && !slices.Contains(imports, "go.uber.org/goleak") {
			t.Errorf("%s: no TestMain with goleak", p.ImportPath)
		}
	}
}
