package builtin

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"github.com/rouse-run/rouse"
)

const maxPathBytes = 4096

// clean checks a path of the model and returns it in its shortest form, with
// slashes. It refuses what can be seen to lead outside; links are found by root.
func clean(op, p string) (string, error) {
	switch {
	case p == "":
		return "", failure(rouse.CodeInvalid, op, "the path is empty; use . for the root directory")
	case len(p) > maxPathBytes:
		return "", failure(rouse.CodeInvalid, op, "the path has %d bytes, the limit is %d", len(p), maxPathBytes)
	case strings.ContainsRune(p, 0):
		return "", failure(rouse.CodeInvalid, op, "the path holds a NUL byte")
	case filepath.IsAbs(filepath.FromSlash(p)) || p[0] == '/':
		return "", failure(rouse.CodeDenied, op, "the path is absolute; give one relative to the root directory")
	}
	c := path.Clean(filepath.ToSlash(p))
	if !filepath.IsLocal(filepath.FromSlash(c)) {
		return "", failure(rouse.CodeDenied, op, "%s leads out of the root directory", show(p))
	}
	return c, nil
}

// show returns a path as the model sees it: quoted when it holds anything that
// would break a line or a terminal, and cut when it is very long.
func show(p string) string {
	const most = 400
	if len(p) > most {
		p = string(wholeRunes([]byte(p[:most]))) + "..."
	}
	if !utf8.ValidString(p) || strings.ContainsFunc(p, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(p)
	}
	return p
}

// bare returns the cause within an error of the file system. The wrappers may
// hold the absolute path of the root, which nobody is shown.
func bare(err error) error {
	for {
		switch e := err.(type) { //nolint:errorlint // peels one layer at a time
		case *fs.PathError:
			err = e.Err
		case *os.LinkError:
			err = e.Err
		case *os.SyscallError:
			err = e.Err
		default:
			return err
		}
	}
}

// pathError turns an error of the file system into words about rel.
func (t *Tools) pathError(op, rel string, err error) error {
	err = bare(err)
	e := &rouse.Error{Code: rouse.CodeToolFailed, Op: op, Err: err}
	name := show(rel)
	switch {
	case t.escapes != nil && errors.Is(err, t.escapes):
		e.Code, e.Message = rouse.CodeDenied, name+" goes through a symbolic link that leads out of the root directory"
	case errors.Is(err, fs.ErrClosed):
		e.Code, e.Message = rouse.CodeUnsupported, "the file tools are closed"
	case errors.Is(err, fs.ErrNotExist):
		e.Code, e.Message = rouse.CodeNotFound, "there is no "+name
	case errors.Is(err, fs.ErrExist):
		e.Code, e.Message = rouse.CodeConflict, name+" exists already"
	case errors.Is(err, syscall.ENOTDIR):
		e.Code, e.Message = rouse.CodeInvalid, "a part of "+name+" is not a directory"
	case errors.Is(err, syscall.ELOOP):
		e.Code, e.Message = rouse.CodeInvalid, name+" goes through too many symbolic links"
	case errors.Is(err, syscall.ENAMETOOLONG):
		e.Code, e.Message = rouse.CodeInvalid, "a name in "+name+" is too long"
	case errors.Is(err, fs.ErrPermission):
		e.Code, e.Message = rouse.CodeDenied, "the system does not permit access to "+name
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EROFS), errors.Is(err, syscall.EIO):
		e.Code, e.Message = rouse.CodeStorage, "the disk refused "+name
	default:
		e.Message = name + " cannot be used"
	}
	return e
}

// kind names what a file is.
func kind(m fs.FileMode) string {
	switch {
	case m.IsRegular():
		return "file"
	case m.IsDir():
		return "dir"
	case m&fs.ModeSymlink != 0:
		return "link"
	case m&fs.ModeNamedPipe != 0:
		return "pipe"
	case m&fs.ModeSocket != 0:
		return "socket"
	case m&fs.ModeDevice != 0:
		return "device"
	}
	return "special"
}

// open opens a regular file or a directory for reading. It never blocks: other
// kinds are refused before they are opened, and one that is put in the file's
// place in between is opened without waiting and refused then.
func (t *Tools) open(op, rel string) (*os.File, fs.FileInfo, error) {
	fi, err := t.root.Stat(rel)
	if err != nil {
		return nil, nil, t.pathError(op, rel, err)
	}
	if !fi.Mode().IsRegular() && !fi.IsDir() {
		return nil, nil, special(op, rel, fi)
	}
	f, err := t.root.OpenFile(rel, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, t.pathError(op, rel, err)
	}
	fi, err = f.Stat()
	switch {
	case err != nil:
		err = t.pathError(op, rel, err)
	case !fi.Mode().IsRegular() && !fi.IsDir():
		err = special(op, rel, fi)
	default:
		return f, fi, nil
	}
	return nil, nil, errors.Join(err, f.Close())
}

func special(op, rel string, fi fs.FileInfo) error {
	return failure(rouse.CodeUnsupported, op, "%s is not a regular file but a %s", show(rel), kind(fi.Mode()))
}
