package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/alecthomas/kong"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/store"
	"github.com/rouse-run/rouse/store/sqlite"
)

// app is one execution of the program.
type app struct {
	Process
	cli  grammar
	stop *stopper
	term *terminal
	json bool // errors are also told as a line of JSON on the standard output
	log  *slog.Logger
	// told is what has been said once already.
	told map[string]bool
}

func newApp(p Process) *app {
	a := &app{Process: p, term: newTerminal(p), told: map[string]bool{}, log: slog.New(slog.DiscardHandler)}
	a.stop = newStopper(a.note)
	return a
}

// execute parses the arguments and runs the command.
func (a *app) execute(ctx context.Context) error {
	k, err := kong.New(&a.cli,
		kong.Name("rouse"), kong.Description(description),
		kong.Writers(a.Stdout, a.Stderr), kong.NoDefaultHelp(),
		kong.Exit(func(int) {}), // nothing below ends the process
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
	)
	if err != nil {
		return fmt.Errorf("the command line's definition: %w", err)
	}
	args := a.Args
	if len(args) == 0 {
		args = []string{"--help"}
	}
	kctx, err := k.Parse(args)
	if errors.Is(err, errShown) {
		return nil
	}
	if err != nil {
		return parseError(k, err)
	}
	level := slog.LevelWarn
	if a.cli.Verbose {
		level = slog.LevelDebug
	}
	a.log = slog.New(slog.NewTextHandler(a.Stderr, &slog.HandlerOptions{Level: level}))
	kctx.BindTo(ctx, (*context.Context)(nil))
	return kctx.Run(a)
}

// note writes one line to the standard error, for people.
func (a *app) note(format string, args ...any) {
	_, _ = fmt.Fprintln(a.Stderr, clean(fmt.Sprintf(format, args...))) // there is nowhere to tell that this failed
}

// once is note for something that is said only once.
func (a *app) once(key, format string, args ...any) {
	if !a.told[key] {
		a.told[key] = true
		a.note(format, args...)
	}
}

// dataDir is where everything is kept.
func (a *app) dataDir() (string, error) {
	dir := a.cli.Data
	if dir == "" {
		dir = a.Getenv("ROUSE_DATA")
	}
	if dir == "" {
		if share := a.Getenv("XDG_DATA_HOME"); filepath.IsAbs(share) {
			dir = filepath.Join(share, "rouse")
		}
	}
	if dir == "" {
		home := a.Getenv("HOME")
		if home == "" {
			var err error
			if home, err = os.UserHomeDir(); err != nil {
				return "", &rouse.Error{Code: rouse.CodeUsage, Message: "there is no home directory to keep data in", Hint: "name a directory with --data DIR or ROUSE_DATA", Err: err}
			}
		}
		dir = filepath.Join(home, ".local", "share", "rouse")
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", &rouse.Error{Code: rouse.CodeStorage, Message: "the data directory has no absolute path", Err: err}
	}
	return abs, nil
}

// open opens the store. The caller closes it.
func (a *app) open(ctx context.Context) (*sqlite.Store, error) {
	dir, err := a.dataDir()
	if err != nil {
		return nil, err
	}
	return sqlite.Open(ctx, sqlite.Config{Dir: dir, Log: a.log, Fault: a.Fault})
}

// withStore opens the store, says which runs are interrupted or wait, and calls fn.
func (a *app) withStore(ctx context.Context, fn func(*sqlite.Store) error) error {
	return a.withQuietStore(ctx, func(st *sqlite.Store) error {
		if err := a.mentionOrphans(ctx, st); err != nil {
			return err
		}
		return fn(st)
	})
}

// withQuietStore is withStore for commands that deal with interrupted runs themselves.
func (a *app) withQuietStore(ctx context.Context, fn func(*sqlite.Store) error) (err error) {
	st, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = join(err, st.Close()) }()
	return fn(st)
}

// join is errors.Join that keeps the first error as it is when it is alone.
func join(err, more error) error {
	switch {
	case more == nil:
		return err
	case err == nil:
		return more
	}
	return errors.Join(err, more)
}

func (a *app) mentionOrphans(ctx context.Context, st *sqlite.Store) error {
	if a.cli.Quiet {
		return nil
	}
	runs, err := st.Orphans(ctx)
	if err != nil {
		return err
	}
	switch len(runs) {
	case 0:
	case 1:
		a.note("rouse: run %s was interrupted; continue it with: rouse resume %s", runs[0].ID, runs[0].ID)
	default:
		a.note("rouse: %d runs were interrupted; continue them with: rouse resume", len(runs))
	}
	waiting, _, err := st.ListRuns(ctx, store.RunFilter{Status: []rouse.Status{rouse.StatusWaiting}})
	if err != nil {
		return err
	}
	switch len(waiting) {
	case 0:
	case 1:
		a.note("rouse: run %s waits for an answer; give it with: rouse resume %s", waiting[0].ID, waiting[0].ID)
	default:
		a.note("rouse: %d runs wait for an answer; 'rouse runs' lists them", len(waiting))
	}
	return nil
}

// now is the time that ages are computed with.
func now() time.Time { return rouse.SystemClock{}.Now() }
