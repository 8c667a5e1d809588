package builtin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/rouse-run/rouse"
)

const (
	// maxDepth bounds how deep directories are entered.
	maxDepth = 64
	// maxListText bounds the text of a listing or of the matches of a search.
	maxListText = 64 << 10
)

// walk visits what is below a directory, level by level and sorted by name
// within each directory. It does not follow symbolic links below its start and
// does not enter directories named .git.
type walk struct {
	tools  *Tools
	op     string
	depth  int // levels to visit
	budget int // entries that may still be visited

	// What was not visited.
	left       int // entries over the budget
	notEntered int // directories over the budget
	deep       int // directories below depth
	unreadable int
	git        int
}

// run calls visit for each entry until it returns false. An error is about the
// start itself or the context; trouble below is counted in unreadable.
func (w *walk) run(ctx context.Context, start string, visit func(rel string, fi fs.FileInfo) bool) error {
	type dir struct {
		rel   string
		level int
	}
	queue := []dir{{start, 1}}
	for len(queue) > 0 {
		d := queue[0]
		queue = queue[1:]
		if w.budget == 0 {
			w.notEntered += 1 + len(queue)
			return nil
		}
		names, err := w.names(ctx, d.rel)
		switch {
		case ctx.Err() != nil:
			return stopped(ctx, w.op)
		case err != nil && d.level == 1:
			return err
		case err != nil:
			w.unreadable++
			continue
		}
		for _, name := range names {
			if err := stopped(ctx, w.op); err != nil {
				return err
			}
			rel := path.Join(d.rel, name)
			fi, err := w.tools.root.Lstat(rel)
			if errors.Is(err, fs.ErrNotExist) {
				continue // gone since it was listed
			}
			if err != nil {
				w.unreadable++
				continue
			}
			w.budget--
			if !visit(rel, fi) {
				return nil
			}
			switch {
			case !fi.IsDir():
			case name == ".git":
				w.git++
			case d.level >= w.depth:
				w.deep++
			default:
				queue = append(queue, dir{rel, d.level + 1})
			}
		}
	}
	return nil
}

// names returns the names in a directory that are first in order, as many as
// the budget has room for, and counts the others as left. It holds a small
// multiple of them in memory, however large the directory is.
func (w *walk) names(ctx context.Context, rel string) ([]string, error) {
	f, fi, err := w.tools.open(w.op, rel)
	if err != nil {
		return nil, err
	}
	defer release(f)
	if !fi.IsDir() {
		return nil, failure(rouse.CodeInvalid, w.op, "%s is a file, not a directory", show(rel))
	}
	var names []string
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		some, err := f.Readdirnames(1024)
		names = append(names, some...)
		if len(names) > 2*w.budget+4096 || err != nil {
			slices.Sort(names)
			if n := len(names) - w.budget; n > 0 {
				w.left += n
				names = names[:w.budget]
			}
		}
		if errors.Is(err, io.EOF) {
			return names, nil
		}
		if err != nil {
			return nil, w.tools.pathError(w.op, rel, err)
		}
	}
}

// notes says what was left out, as parts of a sentence.
func (w *walk) notes() []string {
	var out []string
	add := func(n int, one, many string) {
		if n == 1 {
			out = append(out, "1 "+one)
		} else if n > 1 {
			out = append(out, fmt.Sprintf("%d %s", n, many))
		}
	}
	add(w.left, "entry over the limit", "entries over the limit")
	add(w.notEntered, "directory not entered", "directories not entered")
	add(w.unreadable, "unreadable", "unreadable")
	add(w.git, ".git directory", ".git directories")
	return out
}

// byPath orders paths so that a directory is followed by what is in it.
func byPath(a, b string) int {
	return strings.Compare(strings.ReplaceAll(a, "/", "\x00"), strings.ReplaceAll(b, "/", "\x00"))
}
