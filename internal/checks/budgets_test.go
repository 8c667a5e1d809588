package checks_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
)

// source is one parsed Go file.
type source struct {
	name string // relative to the module
	test bool
	file *ast.File
	fset *token.FileSet
}

func (s source) lines() int { return s.fset.File(s.file.FileStart).LineCount() }

func parseSource(t *testing.T, name, text string) source {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return source{name, strings.HasSuffix(name, "_test.go"), f, fset}
}

// sources returns the hand-written Go files of the module by package directory.
func sources(t *testing.T) map[string][]source {
	t.Helper()
	out := map[string][]source{}
	for _, name := range files(t, ".go") {
		s := parseSource(t, name, read(t, name))
		if !ast.IsGenerated(s.file) {
			dir := path.Dir(name)
			out[dir] = append(out[dir], s)
		}
	}
	return out
}

// measure is the largest thing of one metric in a package.
type measure struct {
	n     int
	which string
}

// sizes are the measures of one package.
type sizes struct {
	pkg   string
	code  int // lines
	test  int
	funcs []int
	max   map[metric]measure
}

func (s *sizes) see(m metric, n int, which string) {
	if n > s.max[m].n {
		s.max[m] = measure{n, which}
	}
}

func measurePackage(dir string, srcs []source) sizes {
	s := sizes{pkg: dir, max: map[metric]measure{}}
	types := 0
	for _, src := range srcs {
		n := src.lines()
		if src.test {
			s.test += n
			s.see(metricTestFile, n, src.name)
			continue
		}
		s.code += n
		s.see(metricFile, n, src.name)
		ast.Inspect(src.file, func(node ast.Node) bool {
			switch d := node.(type) {
			case *ast.FuncDecl:
				lines := src.fset.Position(d.End()).Line - src.fset.Position(d.Pos()).Line + 1
				s.funcs = append(s.funcs, lines)
				s.see(metricFunc, lines, d.Name.Name)
				return false
			case *ast.TypeSpec:
				if !d.Name.IsExported() {
					return false
				}
				types++
				if i, ok := d.Type.(*ast.InterfaceType); ok {
					s.see(metricInterface, methods(i), d.Name.Name)
				}
				return false
			}
			return true
		})
	}
	s.see(metricTypes, types, "")
	return s
}

// methods counts what an interface declares itself; embedded ones count where
// they are declared.
func methods(i *ast.InterfaceType) int {
	n := 0
	for _, f := range i.Methods.List {
		if _, ok := f.Type.(*ast.FuncType); ok {
			n += max(1, len(f.Names))
		}
	}
	return n
}

// p95 is the 95th percentile by nearest rank, 0 of nothing.
func p95(v []int) int {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return v[(len(v)*95+99)/100-1]
}

type raise struct {
	pkg    string
	metric metric
	cap    int
}

// over returns what exceeds its cap in a package, and which raises it needed.
func over(s sizes, raises map[raise]bool) []string {
	caps := map[metric]int{
		metricFile: capFile, metricTestFile: capTestFile, metricFunc: capFunc, metricInterface: capInterface, metricTypes: capTypes,
	}
	for r := range raises {
		if r.pkg == s.pkg && s.max[r.metric].n > caps[r.metric] {
			caps[r.metric] = r.cap
			raises[r] = true
		}
	}
	var wrong []string
	for _, m := range slices.Sorted(maps.Keys(caps)) {
		if got := s.max[m]; got.n > caps[m] {
			wrong = append(wrong, strings.TrimSpace(fmt.Sprintf("%s: %s of %d, the cap is %d %s", s.pkg, m, got.n, caps[m], got.which)))
		}
	}
	return wrong
}

func TestBudgets(t *testing.T) {
	t.Parallel()
	raises := map[raise]bool{}
	for _, r := range raised {
		if r.why == "" {
			t.Errorf("%s: the raised cap of %s has no reason", r.pkg, r.metric)
		}
		raises[raise{r.pkg, r.metric, r.cap}] = false
	}
	var all []sizes
	var funcs []int
	for dir, srcs := range sources(t) {
		s := measurePackage(dir, srcs)
		all = append(all, s)
		funcs = append(funcs, s.funcs...)
		for _, wrong := range over(s, raises) {
			t.Error(wrong)
		}
	}
	for r, used := range raises {
		if !used {
			t.Errorf("%s: the raised cap of %s is not needed any more; remove it", r.pkg, r.metric)
		}
	}
	if got := p95(funcs); got > capFuncP95 {
		t.Errorf("the 95th percentile of all functions has %d lines, the cap is %d", got, capFuncP95)
	}
	t.Log("\n" + table(all, funcs))
}

func table(all []sizes, funcs []int) string {
	slices.SortFunc(all, func(a, b sizes) int { return cmp.Compare(a.pkg, b.pkg) })
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(cells ...any) {
		for _, c := range cells {
			_, _ = fmt.Fprintf(w, "%v\t", c) // a strings.Builder does not fail
		}
		_, _ = fmt.Fprintln(w)
	}
	row("package", "code", "tests", "file", "test file", "funcs", "p95", "max", "interface", "types")
	var code, test int
	for _, s := range all {
		code, test = code+s.code, test+s.test
		row(s.pkg, s.code, s.test, s.max[metricFile].n, s.max[metricTestFile].n, len(s.funcs), p95(s.funcs),
			s.max[metricFunc].n, s.max[metricInterface].n, s.max[metricTypes].n)
	}
	row("all", code, test, "-", "-", len(funcs), p95(funcs), "-", "-", "-")
	row("cap", "-", "-", capFile, capTestFile, "-", capFuncP95, capFunc, capInterface, capTypes)
	_ = w.Flush()
	return b.String()
}

// TestBudgetsCatch measures sources that are too large in each way.
func TestBudgetsCatch(t *testing.T) {
	t.Parallel()
	var types strings.Builder
	for i := range capTypes + 1 {
		fmt.Fprintf(&types, "type T%d struct{}\n", i)
	}
	for name, c := range map[string]struct {
		file, text string
		want       metric
	}{
		"file":      {"a.go", strings.Repeat("\n", capFile), metricFile},
		"test file": {"a_test.go", strings.Repeat("\n", capTestFile), metricTestFile},
		"function":  {"a.go", "func f() {" + strings.Repeat("\n", capFunc) + "}\n", metricFunc},
		"interface": {"a.go", "type I interface { A(); B(); C(); D(); E() }\n", metricInterface},
		"types":     {"a.go", types.String(), metricTypes},
	} {
		s := measurePackage("x", []source{parseSource(t, c.file, "package x\n"+c.text)})
		got := over(s, nil)
		if len(got) != 1 || !strings.HasPrefix(got[0], "x: "+string(c.want)+" of ") {
			t.Errorf("%s: got %q", name, got)
		}
		if got := over(s, map[raise]bool{{"x", c.want, s.max[c.want].n}: false}); len(got) != 0 {
			t.Errorf("%s: a raised cap does not help: %q", name, got)
		}
	}
	small := "package x\nfunc f() {" + strings.Repeat("\n", capFunc-1) + "}\ntype I interface { A(); B(); C(); D(); error }\n"
	if got := over(measurePackage("x", []source{parseSource(t, "a.go", small)}), nil); got != nil {
		t.Errorf("exactly at the cap: %q", got)
	}
	if got := p95([]int{100, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 50}); got != 50 {
		t.Errorf("p95 of twenty: got %d, want the 19th", got)
	}
}
