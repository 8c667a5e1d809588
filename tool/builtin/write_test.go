package builtin_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/tool/builtin"
)

func names(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestWriteFile(t *testing.T) {
	t.Parallel()
	tools, root := newTools(t, nil)
	w := tools.WriteFile()
	wantIn(t, call(t, w, m{"path": "a/b/c.txt", "content": "one"}), "created a/b/c.txt, 3 bytes")
	wantIn(t, refused(t, w, m{"path": "a/b/c.txt", "content": "two"}, rouse.CodeConflict).Hint, "overwrite")
	if got := content(t, root, "a/b/c.txt"); got != "one" {
		t.Fatalf("a refused create left %q", got)
	}
	if err := os.Chmod(filepath.Join(root, "a/b/c.txt"), 0o750); err != nil {
		t.Fatal(err)
	}
	wantIn(t, call(t, w, m{"path": "a/b/c.txt", "content": "two", "mode": "overwrite"}), "replaced")
	wantIn(t, call(t, w, m{"path": "a/b/c.txt", "content": "+3", "mode": "append"}), "appended")
	if got := content(t, root, "a/b/c.txt"); got != "two+3" {
		t.Errorf("got %q", got)
	}
	fi, err := os.Stat(filepath.Join(root, "a/b/c.txt"))
	if err != nil || fi.Mode().Perm() != 0o750 {
		t.Errorf("the permissions have become %v (%v)", fi.Mode(), err)
	}
	call(t, w, m{"path": "new", "content": "", "mode": "append"})
	call(t, w, m{"path": "new2", "content": "x", "mode": "overwrite"})
	if got := names(t, filepath.Join(root, "a/b")); len(got) != 1 {
		t.Errorf("files are left: %v", got)
	}
	if got := names(t, root); len(got) != 3 {
		t.Errorf("files are left: %v", got)
	}
}

func TestWriteFileRefuses(t *testing.T) {
	t.Parallel()
	tools, root := newTools(t, func(c *builtin.Config) { c.MaxWriteBytes, c.MaxAppendBytes = 10, 15 })
	w := tools.WriteFile()
	put(t, root, "dir/f", "0123456789")
	put(t, root, "protected", "x")
	if err := os.Chmod(filepath.Join(root, "protected"), 0o444); err != nil {
		t.Fatal(err)
	}
	link(t, "dir/f", filepath.Join(root, "link"))
	link(t, "nowhere", filepath.Join(root, "dangling"))
	for _, mode := range []string{"create", "overwrite", "append"} {
		refused(t, w, m{"path": "dir", "content": "x", "mode": mode}, rouse.CodeInvalid)
		refused(t, w, m{"path": ".", "content": "x", "mode": mode}, rouse.CodeInvalid)
		refused(t, w, m{"path": "dir/f/x", "content": "x", "mode": mode}, rouse.CodeInvalid)
		refused(t, w, m{"path": "link", "content": "x", "mode": mode}, rouse.CodeDenied)
		refused(t, w, m{"path": "dangling", "content": "x", "mode": mode}, rouse.CodeDenied)
		refused(t, w, m{"path": "big", "content": "0123456789a", "mode": mode}, rouse.CodeTooLarge)
		refused(t, w, m{"path": strings.Repeat("n", 300), "content": "x", "mode": mode}, rouse.CodeInvalid)
	}
	refused(t, w, m{"path": "protected", "content": "x", "mode": "overwrite"}, rouse.CodeDenied)
	refused(t, w, m{"path": "x", "content": "x", "mode": "truncate"}, rouse.CodeInvalid)
	refused(t, w, m{"path": "x"}, rouse.CodeInvalid)
	refused(t, w, m{"path": "dir/f", "content": "123456", "mode": "append"}, rouse.CodeTooLarge)
	call(t, w, m{"path": "dir/f", "content": "12345", "mode": "append"})
	if got := content(t, root, "dir/f"); got != "012345678912345" {
		t.Errorf("got %q", got)
	}
	if got := names(t, root); len(got) != 4 {
		t.Errorf("files are left: %v", got)
	}
	if got := names(t, filepath.Join(root, "dir")); len(got) != 1 {
		t.Errorf("files are left: %v", got)
	}
}

// Of many creates at the same time one wins, and its text stays.
func TestWriteFileCreatesOnce(t *testing.T) {
	t.Parallel()
	tools, root := newTools(t, nil)
	for round := range 60 {
		name := fmt.Sprintf("f%d", round)
		won := make(chan string, 8)
		begin := make(chan struct{})
		var wg sync.WaitGroup
		for i := range cap(won) {
			wg.Go(func() {
				text := strconv.Itoa(i)
				<-begin
				out, err := callWith(t.Context(), t, tools.WriteFile(), m{"path": name, "content": text}, nil)
				if err == nil {
					won <- text
					return
				}
				if rouse.CodeOf(err) != rouse.CodeConflict {
					t.Errorf("got %q, %v", out, err)
				}
			})
		}
		close(begin)
		wg.Wait()
		if len(won) != 1 || content(t, root, name) != <-won {
			t.Fatalf("round %d: %d creates succeeded", round, len(won)+1)
		}
	}
}

// Whoever reads while others write sees a whole text, and appends do not lose
// each other.
func TestWriteFileIsAtomic(t *testing.T) {
	t.Parallel()
	tools, root := newTools(t, nil)
	w := tools.WriteFile()
	const size = 100_000
	put(t, root, "f", strings.Repeat("a", size))
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			text := strings.Repeat(string(rune('a'+i)), size)
			for range 20 {
				call(t, w, m{"path": "f", "content": text, "mode": "overwrite"})
				call(t, w, m{"path": "log", "content": "line\n", "mode": "append"})
				if got := content(t, root, "f"); len(got) != size || strings.Count(got, got[:1]) != size {
					t.Errorf("a torn text of %d bytes", len(got))
				}
			}
		})
	}
	wg.Wait()
	if got := content(t, root, "log"); got != strings.Repeat("line\n", 80) {
		t.Errorf("%d bytes of 400 are in the log", len(got))
	}
}

func TestWriteFileStops(t *testing.T) {
	t.Parallel()
	tools, root := newTools(t, nil)
	put(t, root, "f", "old")
	out, err := callWith(&endingContext{Context: t.Context(), left: 2}, t, tools.WriteFile(), m{"path": "f", "content": "new", "mode": "overwrite"}, nil)
	coded(t, out, err, rouse.CodeCanceled)
	if got := content(t, root, "f"); got != "old" || len(names(t, root)) != 1 {
		t.Errorf("a canceled write left %q in %v", got, names(t, root))
	}
}
