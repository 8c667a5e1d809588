package builtin

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/tool"
)

// The modes of write_file.
const (
	modeCreate    = "create"
	modeOverwrite = "overwrite"
	modeAppend    = "append"
)

type writeFileArgs struct {
	Path    string  `json:"path"`
	Content *string `json:"content"`
	Mode    string  `json:"mode"`
}

func (t *Tools) writeFileTool() tool.Tool {
	return &function[writeFileArgs]{
		spec: tool.Spec{
			Name: "write_file",
			Description: "Writes a file below the root directory, completely or not at all; missing directories are created. " +
				"Mode create (the default) refuses a file that exists, overwrite replaces it, append adds to its end.",
			Schema: []byte(`{"type":"object","properties":{` +
				`"path":{"type":"string","description":"Path relative to the root directory."},` +
				`"content":{"type":"string","description":"The text to write."},` +
				`"mode":{"type":"string","enum":["create","overwrite","append"],"description":"Default create."}},` +
				`"required":["path","content"],"additionalProperties":false}`),
			Effect: tool.Unsafe,
		},
		run: t.runWriteFile,
	}
}

func (t *Tools) runWriteFile(ctx context.Context, _ *tool.Call, a writeFileArgs) (string, error) {
	const op = "write_file"
	switch a.Mode {
	case "":
		a.Mode = modeCreate
	case modeCreate, modeOverwrite, modeAppend:
	default:
		return "", failure(rouse.CodeInvalid, op, "mode is one of create, overwrite, append")
	}
	if a.Content == nil {
		return "", failure(rouse.CodeInvalid, op, "content is missing")
	}
	if len(*a.Content) > t.cfg.MaxWriteBytes {
		return "", failure(rouse.CodeTooLarge, op, "the content has %d bytes, the limit is %d; write it in parts with mode append",
			len(*a.Content), t.cfg.MaxWriteBytes)
	}
	rel, err := clean(op, a.Path)
	if err != nil {
		return "", err
	}
	if a.Mode == modeAppend {
		t.appends.Lock()
		defer t.appends.Unlock()
	}
	w := write{tools: t, rel: rel, mode: a.Mode, content: *a.Content}
	if err := w.check(); err != nil {
		return "", err
	}
	if err := w.commit(ctx); err != nil {
		return "", err
	}
	verb := "created"
	if w.old != nil {
		verb = map[string]string{modeOverwrite: "replaced", modeAppend: "appended to"}[a.Mode]
	}
	return fmt.Sprintf("%s %s, %d bytes written", verb, show(rel), len(w.content)), nil
}

// write is one write_file.
type write struct {
	tools              *Tools
	rel, mode, content string
	old                fs.FileInfo // what is there already, nil for nothing
}

// check refuses what must not be replaced.
func (w *write) check() error {
	const op = "write_file"
	name := show(w.rel)
	fi, err := w.tools.root.Lstat(w.rel)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return w.tools.pathError(op, w.rel, err)
	case fi.IsDir():
		return failure(rouse.CodeInvalid, op, "%s is a directory", name)
	case fi.Mode()&fs.ModeSymlink != 0:
		return failure(rouse.CodeDenied, op, "%s is a symbolic link; write to the file that it points to", name)
	case !fi.Mode().IsRegular():
		return special(op, w.rel, fi)
	case w.mode == modeCreate:
		return w.exists()
	case fi.Mode().Perm()&0o222 == 0:
		return failure(rouse.CodeDenied, op, "%s is write-protected", name)
	}
	w.old = fi
	return nil
}

func (w *write) exists() error {
	return &rouse.Error{Code: rouse.CodeConflict, Op: "write_file", Message: show(w.rel) + " exists already",
		Hint: "use mode overwrite to replace it or append to add to it"}
}

// commit writes a file beside the target and puts it in its place.
func (w *write) commit(ctx context.Context) (err error) {
	root, dir := w.tools.root, path.Dir(w.rel)
	fail := func(err error) error { return w.tools.pathError("write_file", w.rel, err) }
	made, err := w.makeDir(dir)
	if err != nil {
		return err
	}
	tmp := path.Join(dir, ".rouse-"+rand.Text()+".tmp")
	f, err := root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fail(err)
	}
	defer func() {
		if rerr := root.Remove(tmp); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
			err = errors.Join(err, fail(rerr))
		}
	}()
	if err := errors.Join(w.fill(f), f.Close()); err != nil {
		return err
	}
	if err := stopped(ctx, "write_file"); err != nil {
		return err
	}
	if w.mode == modeCreate {
		err = root.Link(tmp, w.rel) // unlike a rename, this never replaces anything
	} else {
		err = root.Rename(tmp, w.rel)
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return w.exists()
	case err != nil && w.mode == modeCreate:
		return &rouse.Error{Code: rouse.CodeStorage, Op: "write_file", Message: show(w.rel) + " could not be put in its place",
			Hint: "on a file system without hard links use mode overwrite", Err: bare(err)}
	case err != nil:
		return fail(err)
	}
	for ; ; dir = path.Dir(dir) {
		if err := w.sync(dir); err != nil {
			return err
		}
		if !made || dir == "." {
			return nil
		}
	}
}

// makeDir creates dir when it is missing and reports whether it did.
func (w *write) makeDir(dir string) (made bool, err error) {
	if _, err := w.tools.root.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return false, nil // creating the file tells more about any other error
	}
	if err := w.tools.root.MkdirAll(dir, 0o755); err != nil {
		return false, w.tools.pathError("write_file", dir, err)
	}
	return true, nil
}

// fill writes and flushes the new contents, with the old ones first for an append.
func (w *write) fill(f *os.File) error {
	const op = "write_file"
	t := w.tools
	if w.old != nil {
		if err := f.Chmod(w.old.Mode().Perm()); err != nil {
			return t.pathError(op, w.rel, err)
		}
	}
	if w.old != nil && w.mode == modeAppend {
		room := t.cfg.MaxAppendBytes - int64(len(w.content))
		old, fi, err := t.open(op, w.rel)
		if err != nil {
			return err
		}
		defer release(old)
		if fi.IsDir() {
			return failure(rouse.CodeInvalid, op, "%s is a directory", show(w.rel))
		}
		n, err := io.Copy(f, io.LimitReader(old, max(room, 0)+1))
		if err != nil {
			return t.pathError(op, w.rel, err)
		}
		if n > room {
			return failure(rouse.CodeTooLarge, op, "%s would have more than %d bytes; begin a new file", show(w.rel), t.cfg.MaxAppendBytes)
		}
	}
	if _, err := io.WriteString(f, w.content); err != nil {
		return t.pathError(op, w.rel, err)
	}
	if err := f.Sync(); err != nil {
		return t.pathError(op, w.rel, err)
	}
	return nil
}

// sync makes the names in a directory durable.
func (w *write) sync(dir string) error {
	f, _, err := w.tools.open("write_file", dir)
	if err != nil {
		return err
	}
	defer release(f)
	// Some file systems cannot flush a directory; they have nothing to flush.
	if err := f.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, errors.ErrUnsupported) {
		return w.tools.pathError("write_file", dir, err)
	}
	return nil
}
