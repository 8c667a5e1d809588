//go:build unix

package builtin_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/tool/builtin"
)

const secret = "SECRET-OUTSIDE"

// trap returns tools over a root beside a secret, with links to it.
func trap(t testing.TB) (tools *builtin.Tools, root, outside string) {
	t.Helper()
	base := t.TempDir()
	root, outside = filepath.Join(base, "root"), filepath.Join(base, "outside")
	put(t, outside, "secret.txt", secret)
	put(t, root, "in/file", "inside")
	put(t, root, "x", "inside")
	for name, target := range map[string]string{
		"file-abs": filepath.Join(outside, "secret.txt"),
		"file-rel": "../outside/secret.txt",
		"dir-abs":  outside,
		"dir-rel":  "../outside",
		"dangling": "../outside/new",
		"chain1":   "chain2",
		"chain2":   "in/up",
		"in/up":    "../../outside",
		"loop":     "loop",
		"self-abs": filepath.Join(root, "x"),
		"dotdot":   "..",
		"good":     "in/file",
		"gooddir":  "in",
	} {
		link(t, target, filepath.Join(root, name))
	}
	tools, err := builtin.New(builtin.Config{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tools.Close(); err != nil {
			t.Error(err)
		}
	})
	return tools, root, outside
}

// intact checks that nothing outside was touched and nothing of it was shown.
func intact(t testing.TB, root, outside, out string, err error) {
	t.Helper()
	if strings.Contains(out, secret) {
		t.Fatalf("the secret was shown: %q", out)
	}
	if err != nil {
		var e *rouse.Error
		if !errors.As(err, &e) || e.Message == "" {
			t.Errorf("no words for the model in %#v", err)
		}
		if text := err.Error(); strings.Contains(text, filepath.Dir(root)) {
			t.Errorf("the error shows the absolute root: %q", text)
		}
	}
	if got := names(t, outside); len(got) != 1 || content(t, outside, "secret.txt") != secret {
		t.Fatalf("outside was changed: %v", got)
	}
	if got := names(t, filepath.Dir(root)); len(got) != 2 {
		t.Fatalf("the parent was changed: %v", got)
	}
}

func TestEscapes(t *testing.T) {
	t.Parallel()
	tools, root, outside := trap(t)
	for path, code := range map[string]rouse.Code{
		"":                              rouse.CodeInvalid,
		"a\x00b":                        rouse.CodeInvalid,
		strings.Repeat("a/", 3000):      rouse.CodeInvalid,
		strings.Repeat("n", 300):        rouse.CodeInvalid,
		"loop":                          rouse.CodeInvalid,
		"/etc/passwd":                   rouse.CodeDenied,
		"/":                             rouse.CodeDenied,
		outside + "/secret.txt":         rouse.CodeDenied,
		root + "/x":                     rouse.CodeDenied,
		"..":                            rouse.CodeDenied,
		"../outside/secret.txt":         rouse.CodeDenied,
		"a/../../x":                     rouse.CodeDenied,
		"in/../../outside/secret.txt":   rouse.CodeDenied,
		"./../outside/secret.txt":       rouse.CodeDenied,
		"in/./.././../outside":          rouse.CodeDenied,
		"file-abs":                      rouse.CodeDenied,
		"file-rel":                      rouse.CodeDenied,
		"dir-abs/secret.txt":            rouse.CodeDenied,
		"dir-rel/secret.txt":            rouse.CodeDenied,
		"dir-rel/../outside/secret.txt": rouse.CodeNotFound, // shortened first, so there is no link in it
		"dangling":                      rouse.CodeDenied,
		"chain1/secret.txt":             rouse.CodeDenied,
		"in/up/secret.txt":              rouse.CodeDenied,
		"dotdot/outside/secret.txt":     rouse.CodeDenied,
		"self-abs":                      rouse.CodeDenied,
		"gooddir/up/secret.txt":         rouse.CodeDenied,
	} {
		if path != "" {
			for _, args := range []m{{"path": path}, {"path": path, "pattern": "."}} {
				tl := tools.ListDir()
				if args["pattern"] != nil {
					tl = tools.Search()
				}
				out, err := callWith(t.Context(), t, tl, args, nil)
				coded(t, out, err, code)
				intact(t, root, outside, out, err)
			}
		}
		out, err := callWith(t.Context(), t, tools.ReadFile(), m{"path": path}, nil)
		coded(t, out, err, code)
		intact(t, root, outside, out, err)
		for _, mode := range []string{"create", "overwrite", "append"} {
			out, err := callWith(t.Context(), t, tools.WriteFile(), m{"path": path, "content": "bad", "mode": mode}, nil)
			if err == nil && code != rouse.CodeNotFound {
				t.Errorf("write_file %q succeeded: %s", path, out)
			}
			intact(t, root, outside, out, err)
		}
	}
	for _, path := range []string{"dir-abs/new", "dir-rel/new/x", "chain1/new", "in/up/new", "dotdot/new"} {
		e := refused(t, tools.WriteFile(), m{"path": path, "content": "bad"}, rouse.CodeDenied)
		intact(t, root, outside, "", e)
	}
	for _, path := range []string{"good", "gooddir/file", "in/../x"} {
		if got := call(t, tools.ReadFile(), m{"path": path}); got != "inside" {
			t.Errorf("%s: got %q", path, got)
		}
	}
	out := call(t, tools.Search(), m{"pattern": "SECRET|inside"})
	intact(t, root, outside, out, nil)
	intact(t, root, outside, call(t, tools.ListDir(), m{"depth": 9}), nil)
	if strings.Contains(call(t, tools.ListDir(), m{"depth": 9}), root) {
		t.Error("the listing shows the absolute root")
	}
}

// A link that is swapped with a directory all the time is never followed out.
func TestSwappedLink(t *testing.T) {
	t.Parallel()
	tools, root, outside := trap(t)
	links, dirs := 0, 0
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		swap := filepath.Join(root, "swap")
		for ctx.Err() == nil {
			// Either a harmless directory or a link outwards is called swap. Each
			// step may lose against the tools, which write there too.
			if os.RemoveAll(swap) == nil && os.Symlink(outside, swap) == nil {
				links++
			}
			if os.Remove(swap) == nil && os.Mkdir(swap, 0o755) == nil && os.WriteFile(filepath.Join(swap, "secret.txt"), []byte("inside"), 0o600) == nil {
				dirs++
			}
		}
	})
	for range 500 {
		out, err := callWith(t.Context(), t, tools.ReadFile(), m{"path": "swap/secret.txt"}, nil)
		intact(t, root, outside, out, err)
		out, err = callWith(t.Context(), t, tools.Search(), m{"pattern": "SECRET", "path": "swap"}, nil)
		intact(t, root, outside, out, err)
		out, err = callWith(t.Context(), t, tools.WriteFile(), m{"path": "swap/secret.txt", "content": "inside", "mode": "overwrite"}, nil)
		intact(t, root, outside, out, err)
	}
	stop()
	wg.Wait()
	if links == 0 || dirs == 0 {
		t.Errorf("%d links and %d directories prove nothing", links, dirs)
	}
}

// Pipes, sockets and devices are refused without waiting for anybody.
func TestSpecialFiles(t *testing.T) {
	t.Parallel()
	tools, root := newTools(t, nil)
	if err := syscall.Mkfifo(filepath.Join(root, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("unix", filepath.Join(root, "sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	link(t, "pipe", filepath.Join(root, "link"))
	for _, path := range []string{"pipe", "sock", "link"} {
		wantIn(t, refused(t, tools.ReadFile(), m{"path": path}, rouse.CodeUnsupported).Message, "not a regular file")
		refused(t, tools.Search(), m{"path": path, "pattern": "x"}, rouse.CodeUnsupported)
		refused(t, tools.ListDir(), m{"path": path}, rouse.CodeUnsupported)
	}
	for _, path := range []string{"pipe", "sock"} {
		for _, mode := range []string{"create", "overwrite", "append"} {
			refused(t, tools.WriteFile(), m{"path": path, "content": "x", "mode": mode}, rouse.CodeUnsupported)
		}
	}
	wantIn(t, call(t, tools.ListDir(), m{}), "pipe pipe\n", "socket sock\n")
	wantIn(t, call(t, tools.Search(), m{"pattern": "x"}), "[matches: 0; files searched: 0")
}

func FuzzPaths(f *testing.F) {
	for _, p := range []string{"x", "in/file", "../outside/secret.txt", "a/../../outside/secret.txt", "dir-rel/secret.txt",
		"chain1/secret.txt", "dotdot/outside/secret.txt", "in/up/../outside/secret.txt", "//x", "\x00", ".", "./", "loop/x", "dangling"} {
		f.Add(p)
	}
	tools, root, outside := trap(f)
	f.Fuzz(func(t *testing.T, path string) {
		for _, c := range []struct {
			args m
			run  func(m) (string, error)
		}{
			{m{"path": path}, func(a m) (string, error) { return callWith(t.Context(), t, tools.ReadFile(), a, nil) }},
			{m{"path": path, "depth": 3}, func(a m) (string, error) { return callWith(t.Context(), t, tools.ListDir(), a, nil) }},
			{m{"path": path, "pattern": "."}, func(a m) (string, error) { return callWith(t.Context(), t, tools.Search(), a, nil) }},
			{m{"path": path, "content": "w", "mode": "overwrite"}, func(a m) (string, error) { return callWith(t.Context(), t, tools.WriteFile(), a, nil) }},
		} {
			out, err := c.run(c.args)
			intact(t, root, outside, out, err)
		}
	})
}
