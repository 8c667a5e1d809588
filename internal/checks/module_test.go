package checks_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// listed is what `go list -json` says about a package, paths relative to the module.
type listed struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// module is the import path and the directory of the module.
var module = sync.OnceValues(func() (m struct{ Path, Dir string }, err error) {
	out, err := exec.Command("go", "list", "-m", "-json").Output()
	if err != nil {
		return m, err
	}
	return m, json.Unmarshal(out, &m)
})

func rootDir(t *testing.T) string {
	t.Helper()
	m, err := module()
	if err != nil {
		t.Fatal(err)
	}
	return m.Dir
}

// goCommand runs the go command in the module's root for the given operating system.
func goCommand(t *testing.T, goos string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = rootDir(t)
	if goos != "" {
		cmd.Env = append(os.Environ(), "GOOS="+goos)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return out
}

// listPackages returns the packages of the module as they are built for goos.
func listPackages(t *testing.T, goos string) []listed {
	t.Helper()
	m, err := module()
	if err != nil {
		t.Fatal(err)
	}
	out := goCommand(t, goos, "list", "-e", "-deps=false", "-json=ImportPath,Imports,TestImports,XTestImports", "./...")
	var all []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		p.ImportPath, _ = relative(m.Path, p.ImportPath)
		for _, list := range []*[]string{&p.Imports, &p.TestImports, &p.XTestImports} {
			for i, imp := range *list {
				if rel, ok := relative(m.Path, imp); ok {
					(*list)[i] = "./" + rel
				}
			}
		}
		all = append(all, p)
	}
	if len(all) == 0 {
		t.Fatal("go list found no package")
	}
	return all
}

// relative returns the path of imp within the module, "." for the root.
func relative(module, imp string) (string, bool) {
	if imp == module {
		return ".", true
	}
	return strings.CutPrefix(imp, module+"/")
}

// match reports whether a pattern of the tables names p.
func match(pattern, p string) bool {
	switch {
	case pattern == "*", pattern == p:
		return true
	case strings.HasPrefix(pattern, "**/"): // at any depth
		ok, _ := path.Match(pattern[3:], path.Base(p))
		return ok
	case strings.HasSuffix(pattern, "/..."):
		dir := strings.TrimSuffix(pattern, "/...")
		return p == dir || strings.HasPrefix(p, dir+"/")
	default:
		ok, _ := path.Match(pattern, p)
		return ok
	}
}

func matchAny(patterns []string, p string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return match(pattern, p) })
}

// files returns the module's files with one of the extensions, slash-separated
// and relative to the root, without what tools ignore: testdata, node_modules,
// hidden directories and nested modules.
func files(t *testing.T, ext ...string) []string {
	t.Helper()
	dir := rootDir(t)
	var out []string
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			base := d.Name()
			if name != dir && (strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") || base == "testdata" || base == "node_modules" || isModule(name)) {
				return filepath.SkipDir
			}
			return nil
		}
		if slices.Contains(ext, filepath.Ext(name)) {
			rel, err := filepath.Rel(dir, name)
			if err != nil {
				return err
			}
			out = append(out, filepath.ToSlash(rel))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) == 0 {
		t.Fatalf("no %v files below %s", ext, dir)
	}
	return out
}

func isModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(rootDir(t), filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
