package builtin

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/tool"
)

type listDirArgs struct {
	Path  string `json:"path"`
	Depth int    `json:"depth"`
}

func (t *Tools) listDirTool() tool.Tool {
	return &function[listDirArgs]{
		spec: tool.Spec{
			Name: "list_dir",
			Description: "Lists a directory below the root directory, sorted: the type, the size of files in bytes, the path. " +
				"A remark in square brackets at the end says what was left out. Links are not followed, .git is not entered.",
			Schema: []byte(`{"type":"object","properties":{` +
				`"path":{"type":"string","description":"Path relative to the root directory. Default: the root directory."},` +
				`"depth":{"type":"integer","minimum":1,"maximum":64,"description":"How many levels to list. Default 1: no subdirectories."}},` +
				`"additionalProperties":false}`),
			Effect:    tool.ReadOnly,
			MaxOutput: maxListText + footer,
		},
		run: t.runListDir,
	}
}

func (t *Tools) runListDir(ctx context.Context, _ *tool.Call, a listDirArgs) (string, error) {
	const op = "list_dir"
	if a.Depth < 0 || a.Depth > maxDepth {
		return "", failure(rouse.CodeInvalid, op, "depth is between 1 and %d", maxDepth)
	}
	if a.Path == "" {
		a.Path = "."
	}
	rel, err := clean(op, a.Path)
	if err != nil {
		return "", err
	}
	type line struct{ rel, text string }
	var lines []line
	w := walk{tools: t, op: op, depth: orDefault(a.Depth, 1), budget: t.cfg.MaxListEntries}
	err = w.run(ctx, rel, func(rel string, fi fs.FileInfo) bool {
		lines = append(lines, line{rel, t.listLine(rel, fi)})
		return true
	})
	if err != nil {
		return "", err
	}
	slices.SortFunc(lines, func(a, b line) int { return byPath(a.rel, b.rel) })
	var b strings.Builder
	for i, l := range lines {
		if b.Len()+len(l.text) > maxListText {
			w.left += len(lines) - i
			break
		}
		b.WriteString(l.text)
	}
	if len(lines) == 0 && w.left == 0 && w.unreadable == 0 {
		return "[the directory is empty]\n", nil
	}
	if a.Depth <= 1 {
		w.git = 0 // nothing was to be entered
	} else if w.deep > 0 {
		fmt.Fprintf(&b, "[%d directories below depth %d not entered]\n", w.deep, a.Depth)
	}
	if notes := w.notes(); len(notes) > 0 {
		fmt.Fprintf(&b, "[left out: %s]\n", strings.Join(notes, ", "))
	}
	return b.String(), nil
}

func (t *Tools) listLine(rel string, fi fs.FileInfo) string {
	switch k := kind(fi.Mode()); k {
	case "file":
		return fmt.Sprintf("file %d %s\n", fi.Size(), show(rel))
	case "dir":
		return "dir " + show(rel+"/") + "\n"
	case "link":
		// An absolute target would show where the root is, and cannot be followed anyway.
		target, err := t.root.Readlink(rel)
		if err != nil || filepath.IsAbs(target) {
			return "link " + show(rel) + "\n"
		}
		return "link " + show(rel) + " -> " + show(target) + "\n"
	default:
		return k + " " + show(rel) + "\n"
	}
}
