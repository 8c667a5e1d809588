package checks_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite testdata")

// graph is the tables that an import graph is held against.
type graph struct {
	layers      [][]pkg
	plumbing    []pkg
	bans        []ban
	testModules []string
}

// anyLayer is the layer of plumbing, which lies beside the others.
const anyLayer = -1

// find returns the entry and the layer of a package.
func (g graph) find(p string) (pkg, int, bool) {
	best, layer, found := pkg{}, 0, false
	try := func(entries []pkg, l int) {
		for _, e := range entries {
			if match(e.path, p) && (!found || e.path == p || best.path != p && len(e.path) > len(best.path)) {
				best, layer, found = e, l, true
			}
		}
	}
	for l, entries := range g.layers {
		try(entries, l)
	}
	try(g.plumbing, anyLayer)
	return best, layer, found
}

func isTestPackage(p string) bool { return strings.HasSuffix(p, "test") }

// check returns what is wrong with a package's imports.
func (g graph) check(p listed) []string {
	entry, layer, ok := g.find(p.ImportPath)
	if !ok {
		return []string{p.ImportPath + ": not listed; add it to a layer in tables_test.go"}
	}
	var wrong []string
	for _, imp := range p.Imports {
		if why := g.checkImport(p.ImportPath, entry, layer, imp); why != "" {
			wrong = append(wrong, fmt.Sprintf("%s imports %s: %s", p.ImportPath, strings.TrimPrefix(imp, "./"), why))
		}
	}
	for _, imp := range slices.Concat(p.TestImports, p.XTestImports) {
		if !isStd(imp) && !isOwn(imp) && !inModules(g.testModules, imp) && !inModules(entry.modules, imp) {
			wrong = append(wrong, fmt.Sprintf("the tests of %s import %s: not one of testModules", p.ImportPath, imp))
		}
	}
	return wrong
}

func (g graph) checkImport(p string, entry pkg, layer int, imp string) string {
	own, target := isOwn(imp), strings.TrimPrefix(imp, "./")
	for _, b := range g.bans {
		if matchAny(b.from, p) && !matchAny(b.except, p) && (own || isStd(imp)) && matchAny(b.to, target) {
			return "banned, " + b.why
		}
	}
	switch {
	case isStd(imp):
		return ""
	case !own:
		if !inModules(entry.modules, imp) && !(isTestPackage(p) && inModules(g.testModules, imp)) {
			return "a module that is not listed for this package"
		}
		return ""
	case isTestPackage(target) && !isTestPackage(p):
		return "only tests import *test packages"
	}
	_, other, ok := g.find(target)
	switch {
	case !ok:
		return "not listed in tables_test.go"
	case other == anyLayer || strings.HasPrefix(target, p+"/"):
		return ""
	case layer == anyLayer:
		if other != 0 {
			return "plumbing imports the root and plumbing only"
		}
		return ""
	case other > layer:
		return fmt.Sprintf("layer %d is above layer %d", other, layer)
	case other == layer && !isTestPackage(p) && !strings.Contains(target, "/internal/") && !strings.HasPrefix(p, target+"/"):
		return fmt.Sprintf("both are of layer %d", layer)
	}
	return ""
}

func isOwn(imp string) bool { return strings.HasPrefix(imp, "./") }

// isStd reports whether imp is of the standard library: the first element of any
// other import path has a dot.
func isStd(imp string) bool {
	first, _, _ := strings.Cut(imp, "/")
	return !strings.Contains(first, ".")
}

func inModules(modules []string, imp string) bool {
	return slices.ContainsFunc(modules, func(m string) bool { return m == "*" || match(m+"/...", imp) })
}

func TestImportGraph(t *testing.T) {
	t.Parallel()
	g := graph{layers, plumbing, bans, testModules}
	for _, goos := range []string{"linux", "darwin", "windows"} {
		t.Run(goos, func(t *testing.T) {
			t.Parallel()
			for _, p := range listPackages(t, goos) {
				for _, wrong := range g.check(p) {
					t.Error(wrong)
				}
			}
		})
	}
}

// TestImportGraphCatches feeds the check imports that it must refuse, and some
// that it must not.
func TestImportGraphCatches(t *testing.T) {
	t.Parallel()
	g := graph{layers, plumbing, bans, testModules}
	for _, c := range []struct {
		pkg, imp string
		want     string // part of the complaint; empty when it is fine
	}{
		{".", "net/http", ""},
		{".", "./internal/safecall", "standard library only"},
		{".", "./run", "above"},
		{"run", "./internal/jsonx", ""},
		{"run", "./state", "both are of layer"},
		{"run", "github.com/x/y", "not listed for this package"},
		{"internal/jsonx", ".", ""},
		{"internal/jsonx", "./run", "plumbing imports"},
		{"model/openai", "./model", ""},
		{"model/openai", "./model/anthropic", "both are of layer"},
		{"tool", "github.com/santhosh-tekuri/jsonschema/v6/kind", ""},
		{"tool", "github.com/santhosh-tekuri/jsonschema/v66", "not listed for this package"},
		{"agent", "./workflow", "both are of layer"},
		{"workflow", "./agent", "both are of layer"},
		{"agent", "./store", "without a database"},
		{"agent", "./model/openai", "chosen by the program"},
		{"agent", "./model/mock", ""},
		{"agent", "./agent/window", ""},
		{"agent/window", "./agent", "above"},
		{"plugin/mcp", "./plugin/skills", "both are of layer"},
		{"protocol/agui", "./protocol/a2a", "both are of layer"},
		{"protocol/agui", "./engine", "pure function"},
		{"engine", "./store/sqlite", "chosen by the program"},
		{"engine", "testing", "user's binary"},
		{"engine", "testing/synctest", "user's binary"},
		{"store/storetest", "testing", ""},
		{"store/storetest", "./store", ""},
		{"store/sqlite", "./store/storetest", "only tests import"},
		{"cmd/rouse", "./store/storetest", "only tests import"},
		{"cmd/rouse", "./store/sqlite", ""},
		{"cmd/rouse", "github.com/x/y", ""},
		{"store", "log", "state in the package"},
		{"store", "math/rand", "shared random source"},
		{"store", "math/rand/v2", ""},
		{"bench/loop", "./bench/internal/floor", ""},
		{"cmd/rouse", "./cmd/other", "both are of layer"},
		{"model/modeltest", "go.uber.org/goleak", ""},
		{"model/openai", "go.uber.org/goleak", "not listed for this package"},
		{"surprise", ".", "not listed"},
		{"store", "./surprise", "not listed"},
	} {
		imp := c.imp
		if imp == "." {
			imp = "./."
		}
		got := strings.Join(g.check(listed{ImportPath: c.pkg, Imports: []string{imp}}), "\n")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s imports %s: got %q, want %q", c.pkg, c.imp, got, c.want)
		}
	}
	if got := g.check(listed{ImportPath: "run", XTestImports: []string{"github.com/stretchr/testify", "pgregory.net/rapid", "./store"}}); len(got) != 1 {
		t.Errorf("imports of tests: got %q, want one complaint", got)
	}
}

// TestBinaryModules compares the modules that end up in the binary with the
// committed list, so that a new one shows in the review.
func TestBinaryModules(t *testing.T) {
	t.Parallel()
	const name = "testdata/modules.txt"
	got := map[string]bool{}
	if _, err := os.Stat(filepath.Join(rootDir(t), "cmd", "rouse")); err == nil {
		out := goCommand(t, "linux", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}", "./cmd/rouse")
		for _, m := range strings.Fields(string(out)) {
			got[m] = true
		}
	}
	text := strings.Join(slices.Sorted(maps.Keys(got)), "\n")
	if *update {
		if err := os.WriteFile(name, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if strings.TrimSpace(string(want)) != text {
		t.Errorf("the modules of the binary are not those of %s; review the difference and run this test with -update.\ngot:\n%s\nwant:\n%s", name, text, want)
	}
}
