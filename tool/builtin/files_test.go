package builtin_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/tool/builtin"
)

func TestReadFile(t *testing.T) {
	t.Parallel()
	tools, root := newTools(t, func(c *builtin.Config) { c.MaxReadBytes = 20 })
	put(t, root, "d/three", "one\ntwo\nthree\n")
	put(t, root, "noeol", "one\ntwo")
	put(t, root, "empty", "")
	put(t, root, "long", strings.Repeat("line\n", 10))
	put(t, root, "wide", strings.Repeat("ä", 50)+"\nend\n")
	put(t, root, "latin", "caf\xe9\n")
	put(t, root, "exact", "0123456789\n01234567\n")
	for _, c := range []struct {
		args m
		want string
	}{
		{m{"path": "d/three"}, "one\ntwo\nthree\n"},
		{m{"path": "./d/../d//three"}, "one\ntwo\nthree\n"},
		{m{"path": "noeol"}, "one\ntwo"},
		{m{"path": "noeol", "offset": 2}, "two"},
		{m{"path": "empty"}, "[the file is empty]\n"},
		{m{"path": "exact"}, "0123456789\n01234567\n"},
		{m{"path": "d/three", "offset": 2, "limit": 1}, "two\n[lines 2 to 2; read on with offset 3]\n"},
		{m{"path": "d/three", "offset": 3, "limit": 1}, "three\n"},
		{m{"path": "long"}, strings.Repeat("line\n", 4) + "[lines 1 to 4; the rest is over the limit of 20 bytes; read on with offset 5]\n"},
		{m{"path": "long", "offset": 9}, "line\nline\n"},
		{m{"path": "wide"}, strings.Repeat("ä", 10) + "\n[line 1 has 101 bytes and is cut after 20]\n[lines 1 to 1; read on with offset 2]\n"},
		{m{"path": "wide", "offset": 2}, "end\n"},
		{m{"path": "latin"}, "caf\uFFFD\n[the text is not valid UTF-8; invalid bytes are shown as \uFFFD]\n"},
	} {
		if got := call(t, tools.ReadFile(), c.args); got != c.want {
			t.Errorf("%v: got %q, want %q", c.args, got, c.want)
		}
	}
}

func TestReadFileRefuses(t *testing.T) {
	t.Parallel()
	tools, root := newTools(t, nil)
	put(t, root, "bin", "a\x00b")
	put(t, root, "utf16", "\xff\xfea\x00")
	put(t, root, "late", strings.Repeat("text\n", 40000)+"\x00")
	put(t, root, "two", "1\n2\n")
	put(t, root, "dir/x", "")
	wantIn(t, refused(t, tools.ReadFile(), m{"path": "bin"}, rouse.CodeUnsupported).Message, "binary", "3 bytes")
	wantIn(t, refused(t, tools.ReadFile(), m{"path": "utf16"}, rouse.CodeUnsupported).Message, "UTF-16")
	refused(t, tools.ReadFile(), m{"path": "late"}, rouse.CodeUnsupported)
	wantIn(t, refused(t, tools.ReadFile(), m{"path": "two", "offset": 9}, rouse.CodeInvalid).Message, "2 lines")
	wantIn(t, refused(t, tools.ReadFile(), m{"path": "dir"}, rouse.CodeInvalid).Message, "list_dir")
	wantIn(t, refused(t, tools.ReadFile(), m{"path": "nope"}, rouse.CodeNotFound).Message, "nope")
	refused(t, tools.ReadFile(), m{"path": "two/x"}, rouse.CodeInvalid)
	refused(t, tools.ReadFile(), m{"path": "two", "offset": -1}, rouse.CodeInvalid)
	refused(t, tools.ReadFile(), m{"path": "two", "limit": -1}, rouse.CodeInvalid)
}

// Following the remarks gives the whole file, each line once.
func TestReadFileReadsOn(t *testing.T) {
	t.Parallel()
	tools, root := newTools(t, func(c *builtin.Config) { c.MaxReadBytes = 64 })
	rapid.Check(t, func(rt *rapid.T) {
		lines := rapid.SliceOfN(rapid.StringMatching(`[a-zä€]{0,15}`), 1, 40).Draw(rt, "lines")
		limit := rapid.IntRange(1, 8).Draw(rt, "limit")
		text := strings.Join(lines, "\n") + "\n"
		if err := os.WriteFile(filepath.Join(root, "f"), []byte(text), 0o600); err != nil {
			rt.Fatal(err)
		}
		var got strings.Builder
		for offset := 1; offset > 0; {
			out, err := callWith(context.Background(), t, tools.ReadFile(), m{"path": "f", "offset": offset, "limit": limit}, nil)
			if err != nil {
				rt.Fatal(err)
			}
			offset = 0
			if i := strings.LastIndex(out, "[lines "); i >= 0 {
				_, on, _ := strings.Cut(out[i:], "offset ")
				if _, err := fmt.Sscanf(on, "%d", &offset); err != nil {
					rt.Fatalf("%q: %v", out, err)
				}
				out = out[:i]
			}
			got.WriteString(out)
		}
		if got.String() != text {
			rt.Fatalf("got %q, want %q", got.String(), text)
		}
	})
}

// A line of 200 MB takes memory for the limit only.
func TestReadFileMemory(t *testing.T) { // not parallel: it measures
	tools, root := newTools(t, func(c *builtin.Config) { c.MaxReadBytes = 100 })
	f, err := os.Create(filepath.Join(root, "huge"))
	if err != nil {
		t.Fatal(err)
	}
	chunk := []byte(strings.Repeat("x", 1<<20))
	for range 200 {
		if _, err := f.Write(chunk); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	per := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			wantIn(t, call(t, tools.ReadFile(), m{"path": "huge"}), "line 1 has 209715200 bytes and is cut after 100")
		}
	}).AllocedBytesPerOp()
	if per > 1<<20 {
		t.Errorf("%d bytes allocated", per)
	}
}

func TestListDir(t *testing.T) {
	t.Parallel()
	tools, root := newTools(t, nil)
	put(t, root, "b.txt", "12345")
	put(t, root, "a/z", "1")
	put(t, root, "a/sub/deep", "12")
	put(t, root, "a-b", "")
	put(t, root, ".git/config", "x")
	put(t, root, "new\nline", "")
	link(t, "a/z", filepath.Join(root, "in"))
	link(t, root+"/b.txt", filepath.Join(root, "abs"))
	if err := os.Mkdir(filepath.Join(root, "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	want := "dir .git/\ndir a/\nfile 0 a-b\nlink abs\nfile 5 b.txt\ndir empty/\nlink in -> a/z\nfile 0 \"new\\nline\"\n"
	if got := call(t, tools.ListDir(), m{}); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	want = "dir a/sub/\nfile 2 a/sub/deep\nfile 1 a/z\n"
	if got := call(t, tools.ListDir(), m{"path": "a", "depth": 3}); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	got := call(t, tools.ListDir(), m{"path": ".", "depth": 2})
	wantIn(t, got, "dir .git/\ndir a/\ndir a/sub/\nfile 1 a/z\n", "[1 directories below depth 2 not entered]", "1 .git directory")
	if strings.Contains(got, "config") || strings.Contains(got, "deep\n") {
		t.Errorf("too much in %q", got)
	}
	if got := call(t, tools.ListDir(), m{"path": "empty"}); got != "[the directory is empty]\n" {
		t.Errorf("got %q", got)
	}
	wantIn(t, refused(t, tools.ListDir(), m{"path": "b.txt"}, rouse.CodeInvalid).Message, "not a directory")
	refused(t, tools.ListDir(), m{"path": "none"}, rouse.CodeNotFound)
	refused(t, tools.ListDir(), m{"depth": 65}, rouse.CodeInvalid)
	refused(t, tools.ListDir(), m{"depth": -1}, rouse.CodeInvalid)
}

func TestListDirIsBounded(t *testing.T) {
	t.Parallel()
	tools, root := newTools(t, func(c *builtin.Config) { c.MaxListEntries = 10 })
	for i := range 9000 {
		put(t, root, fmt.Sprintf("big/%04d", i), "")
	}
	put(t, root, "many/a/1", "")
	for i := range 9 {
		put(t, root, fmt.Sprintf("many/d%d/1", i), "")
	}
	got := call(t, tools.ListDir(), m{"path": "big"})
	wantIn(t, got, "file 0 big/0000\n", "file 0 big/0009\n", "[left out: 8990 entries over the limit]")
	if n := strings.Count(got, "\n"); n != 11 {
		t.Errorf("%d lines", n)
	}
	wantIn(t, call(t, tools.ListDir(), m{"path": "many", "depth": 5}), "[left out: 10 directories not entered]")
}

func TestListDirTextIsBounded(t *testing.T) {
	t.Parallel()
	tools, root := newTools(t, nil)
	for i := range 900 {
		put(t, root, fmt.Sprintf("%s%03d", strings.Repeat("n", 200), i), "")
	}
	got := call(t, tools.ListDir(), m{})
	wantIn(t, got, "entries over the limit")
	if len(got) > tools.ListDir().Spec().MaxOutput {
		t.Errorf("%d bytes", len(got))
	}
}

func TestSearch(t *testing.T) {
	t.Parallel()
	tools, root := newTools(t, func(c *builtin.Config) { c.MaxFileBytes = 4000 })
	put(t, root, "a.go", "package a\n// needle one\r\nx\n")
	put(t, root, "src/b.go", "needle")
	put(t, root, "src/deep/c.txt", "no\nneedle three\n")
	put(t, root, ".git/x", "needle")
	put(t, root, "src/.git/x", "needle")
	put(t, root, "bin", "needle\x00")
	put(t, root, "large", strings.Repeat("needle\n", 1000))
	put(t, root, "long", strings.Repeat("ä", 500)+"needle"+strings.Repeat("é", 500))
	link(t, "a.go", filepath.Join(root, "link"))
	got := call(t, tools.Search(), m{"pattern": "needle"})
	wantIn(t, got, "a.go:2: // needle one\n", "src/b.go:1: needle\n", "src/deep/c.txt:2: needle three\n", "long:1: ...", "needle",
		"[matches: 4; files searched: 4; skipped: 2 .git directories, 1 binary, 1 too large, 1 links]\n")
	if strings.Contains(got, "\uFFFD") || strings.Contains(got, ".git/x") {
		t.Errorf("bad output %q", got)
	}
	for _, c := range []struct {
		args m
		want int
	}{
		{m{"pattern": "needle", "glob": "*.go"}, 2},
		{m{"pattern": "needle", "glob": "src/*.go"}, 1},
		{m{"pattern": "needle", "glob": "**/*.go"}, 2},
		{m{"pattern": "needle", "glob": "src/**"}, 2},
		{m{"pattern": "needle", "glob": "**/deep/**/c.*"}, 1},
		{m{"pattern": "needle", "glob": "**/**/nope"}, 0},
		{m{"pattern": "(?i)NEEDLE t", "path": "src"}, 1},
		{m{"pattern": "needle", "path": "a.go"}, 1},
		{m{"pattern": "^$"}, 0},
	} {
		wantIn(t, call(t, tools.Search(), c.args), fmt.Sprintf("[matches: %d; ", c.want))
	}
	wantIn(t, call(t, tools.Search(), m{"pattern": "needle", "max": 2}), "[matches: 2;", "stopped at the limit")
	wantIn(t, call(t, tools.Search(), m{"pattern": "needle", "max": 4}), "[matches: 4;")
	wantIn(t, refused(t, tools.Search(), m{"pattern": "a(?=b)"}, rouse.CodeInvalid).Hint, "look-around")
	refused(t, tools.Search(), m{"pattern": ""}, rouse.CodeInvalid)
	refused(t, tools.Search(), m{"pattern": strings.Repeat("a", 5000)}, rouse.CodeInvalid)
	refused(t, tools.Search(), m{"pattern": "x", "glob": "["}, rouse.CodeInvalid)
	refused(t, tools.Search(), m{"pattern": "x", "glob": strings.Repeat("*", 600)}, rouse.CodeInvalid)
	refused(t, tools.Search(), m{"pattern": "x", "max": -1}, rouse.CodeInvalid)
	refused(t, tools.Search(), m{"pattern": "x", "path": "none"}, rouse.CodeNotFound)
}

func TestSearchIsBounded(t *testing.T) {
	t.Parallel()
	tools, root := newTools(t, func(c *builtin.Config) { c.MaxSearchFiles = 10 })
	for i := range 30 {
		put(t, root, fmt.Sprintf("f%02d", i), "x\n")
	}
	put(t, root, "many", strings.Repeat(strings.Repeat("x", 299)+"\n", 1000))
	wantIn(t, call(t, tools.Search(), m{"pattern": "x"}), "[matches: 10; files searched: 10; skipped: 21 entries over the limit]")
	wantIn(t, call(t, tools.Search(), m{"pattern": "x", "path": "many"}), "[matches: 200;", "stopped at the limit")
	more, root := newTools(t, func(c *builtin.Config) { c.MaxSearchMatches = 1000 })
	put(t, root, "many", strings.Repeat(strings.Repeat("x", 299)+"\n", 1000))
	if got := call(t, more.Search(), m{"pattern": "x"}); len(got) > more.Search().Spec().MaxOutput || !strings.Contains(got, "stopped") {
		t.Errorf("%d bytes", len(got))
	}
}

// The walks and scans end with their context.
func TestFileToolsStop(t *testing.T) {
	t.Parallel()
	tools, root := newTools(t, func(c *builtin.Config) { c.MaxFileBytes = 100 << 20 })
	put(t, root, "lines", strings.Repeat("some text\n", 1_000_000))
	for i := range 50 {
		put(t, root, fmt.Sprintf("d/%d/f", i), "x")
	}
	for name, fn := range map[string]func(context.Context) (string, error){
		"read": func(ctx context.Context) (string, error) {
			return callWith(ctx, t, tools.ReadFile(), m{"path": "lines", "offset": 900_000}, nil)
		},
		"list": func(ctx context.Context) (string, error) {
			return callWith(ctx, t, tools.ListDir(), m{"depth": 9}, nil)
		},
		"search": func(ctx context.Context) (string, error) {
			return callWith(ctx, t, tools.Search(), m{"pattern": "nope"}, nil)
		},
	} {
		// The context ends after some questions about it, in the middle of the work.
		for after := range 4 {
			out, err := fn(&endingContext{Context: t.Context(), left: after + 1})
			if e := coded(t, out, err, rouse.CodeCanceled); e == nil {
				t.Errorf("%s ran to its end", name)
			}
		}
	}
}

// endingContext ends when it was asked a number of times.
type endingContext struct {
	context.Context
	left int
}

func (c *endingContext) Err() error {
	if c.left--; c.left <= 0 {
		return context.Canceled
	}
	return nil
}
