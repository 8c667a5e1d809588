package builtin

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/tool"
)

// Config says what the tools may touch and how much. The zero value of a limit
// means its default; a negative one is refused.
type Config struct {
	// Root is the directory that all files are below. Required; it is made
	// absolute and opened once: when the directory is moved later, the file tools
	// stay with it, and shell refuses to run.
	Root string

	// MaxReadBytes bounds the text that one read_file returns. Default 256 KiB.
	MaxReadBytes int
	// MaxListEntries bounds the entries that one list_dir returns. Default 1000.
	MaxListEntries int
	// MaxSearchMatches bounds the lines that one search returns. Default 200.
	MaxSearchMatches int
	// MaxSearchFiles bounds the files and directories that one search looks at.
	// Default 20000.
	MaxSearchFiles int
	// MaxFileBytes is the size above which search skips a file. Default 2 MiB.
	MaxFileBytes int64
	// MaxWriteBytes bounds the content of one write_file. Default 8 MiB.
	MaxWriteBytes int
	// MaxAppendBytes bounds the size of a file after appending to it. Default 64 MiB.
	MaxAppendBytes int64

	// ShellTimeout ends a command that did not ask for a time of its own.
	// Default 60 s.
	ShellTimeout time.Duration
	// MaxShellTimeout is the longest time that a command may ask for. Default
	// 10 min, or ShellTimeout when that is longer.
	MaxShellTimeout time.Duration
	// ShellGrace is the time between SIGTERM and SIGKILL. Default 2 s.
	ShellGrace time.Duration
	// MaxShellOutput bounds the output that is kept of one command: the first and
	// the last half of it. Default 1 MiB.
	MaxShellOutput int
	// Env is added to the environment of commands (PATH, HOME, LANG and TERM,
	// which it may replace). Nothing else is passed on. Default none.
	Env map[string]string

	// Fetch configures the fetch tool.
	Fetch FetchConfig
}

func orDefault[T int | int64 | time.Duration](v, d T) T {
	if v == 0 {
		return d
	}
	return v
}

// withDefaults returns a copy without zero limits.
func (c Config) withDefaults() Config {
	c.MaxReadBytes = orDefault(c.MaxReadBytes, 256<<10)
	c.MaxListEntries = orDefault(c.MaxListEntries, 1000)
	c.MaxSearchMatches = orDefault(c.MaxSearchMatches, 200)
	c.MaxSearchFiles = orDefault(c.MaxSearchFiles, 20000)
	c.MaxFileBytes = orDefault(c.MaxFileBytes, 2<<20)
	c.MaxWriteBytes = orDefault(c.MaxWriteBytes, 8<<20)
	c.MaxAppendBytes = orDefault(c.MaxAppendBytes, 64<<20)
	c.ShellTimeout = orDefault(c.ShellTimeout, time.Minute)
	c.MaxShellTimeout = orDefault(c.MaxShellTimeout, max(10*time.Minute, c.ShellTimeout))
	c.ShellGrace = orDefault(c.ShellGrace, 2*time.Second)
	c.MaxShellOutput = orDefault(c.MaxShellOutput, 1<<20)
	c.Fetch = c.Fetch.withDefaults()
	return c
}

// validate returns every problem of c at once.
func (c Config) validate() error {
	var errs []error
	if c.Root == "" {
		errs = append(errs, errors.New("no Root is given"))
	}
	for _, l := range []struct {
		name  string
		value int64
	}{
		{"MaxReadBytes", int64(c.MaxReadBytes)},
		{"MaxListEntries", int64(c.MaxListEntries)},
		{"MaxSearchMatches", int64(c.MaxSearchMatches)},
		{"MaxSearchFiles", int64(c.MaxSearchFiles)},
		{"MaxFileBytes", c.MaxFileBytes},
		{"MaxWriteBytes", int64(c.MaxWriteBytes)},
		{"MaxAppendBytes", c.MaxAppendBytes},
		{"ShellTimeout", int64(c.ShellTimeout)},
		{"MaxShellTimeout", int64(c.MaxShellTimeout)},
		{"ShellGrace", int64(c.ShellGrace)},
		{"MaxShellOutput", int64(c.MaxShellOutput)},
		{"Fetch.MaxBytes", c.Fetch.MaxBytes},
		{"Fetch.MaxRedirects", int64(c.Fetch.MaxRedirects)},
		{"Fetch.Timeout", int64(c.Fetch.Timeout)},
	} {
		if l.value < 0 {
			errs = append(errs, fmt.Errorf("%s is negative", l.name))
		}
	}
	if c.ShellTimeout > 0 && c.MaxShellTimeout > 0 && c.ShellTimeout > c.MaxShellTimeout {
		errs = append(errs, errors.New("ShellTimeout is longer than MaxShellTimeout"))
	}
	for name, value := range c.Env {
		switch {
		case name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0):
			errs = append(errs, fmt.Errorf("the variable %q of Env is not usable", name))
		case name == markerName:
			errs = append(errs, fmt.Errorf("the variable %s of Env is reserved", name))
		}
	}
	return errors.Join(errs...)
}

// Tools are the tools of one root directory. They are safe for concurrent use.
type Tools struct {
	cfg  Config
	root *os.Root
	// escapes is the error that root gives for a path that leads outside of it.
	escapes error
	// appends makes the read and the write of an append one step.
	appends sync.Mutex

	readFile, listDir, search, fetch, writeFile, shell tool.Tool
}

// New opens cfg.Root and returns the tools. The caller closes them.
func New(cfg Config) (*Tools, error) {
	const op = "builtin.New"
	if err := cfg.validate(); err != nil {
		return nil, &rouse.Error{Code: rouse.CodeInvalid, Op: op, Message: "the configuration of the built-in tools cannot be used", Err: err}
	}
	cfg = cfg.withDefaults()
	abs, err := filepath.Abs(cfg.Root)
	if err != nil {
		return nil, &rouse.Error{Code: rouse.CodeInvalid, Op: op, Message: "the root directory has no absolute path", Err: err}
	}
	if fi, err := os.Stat(abs); err != nil || !fi.IsDir() {
		return nil, &rouse.Error{Code: rouse.CodeInvalid, Op: op, Message: "Root is not a directory that can be opened",
			Hint: "create the directory, or name another one", Err: err}
	}
	root, err := os.OpenRoot(abs)
	if err != nil {
		return nil, &rouse.Error{Code: rouse.CodeInvalid, Op: op, Message: "Root is not a directory that can be opened", Err: err}
	}
	cfg.Root = abs
	t := &Tools{cfg: cfg, root: root}
	if _, err := root.Lstat(".."); err != nil {
		t.escapes = bare(err)
	}
	client := newFetcher(cfg.Fetch)
	t.readFile = t.readFileTool()
	t.listDir = t.listDirTool()
	t.search = t.searchTool()
	t.fetch = client.tool()
	t.writeFile = t.writeFileTool()
	t.shell = t.shellTool()
	return t, nil
}

// All returns every tool, those that change nothing first.
func (t *Tools) All() []tool.Tool {
	return []tool.Tool{t.readFile, t.listDir, t.search, t.fetch, t.writeFile, t.shell}
}

// ReadFile returns the tool read_file.
func (t *Tools) ReadFile() tool.Tool { return t.readFile }

// ListDir returns the tool list_dir.
func (t *Tools) ListDir() tool.Tool { return t.listDir }

// Search returns the tool search.
func (t *Tools) Search() tool.Tool { return t.search }

// Fetch returns the tool fetch. It does not use the root.
func (t *Tools) Fetch() tool.Tool { return t.fetch }

// WriteFile returns the tool write_file.
func (t *Tools) WriteFile() tool.Tool { return t.writeFile }

// Shell returns the tool shell.
func (t *Tools) Shell() tool.Tool { return t.shell }

// Close releases the root. Calls that begin later fail, except those of fetch;
// calls that are running end by their own context. Closing twice is legal.
func (t *Tools) Close() error {
	if err := t.root.Close(); err != nil && !errors.Is(err, fs.ErrClosed) {
		return &rouse.Error{Code: rouse.CodeStorage, Op: "builtin.Close", Message: "the root directory could not be closed", Err: err}
	}
	return nil
}
