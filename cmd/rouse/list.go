package main

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/run"
	"github.com/rouse-run/rouse/store"
	"github.com/rouse-run/rouse/store/sqlite"
)

// listing is the flags of a list.
type listing struct {
	Limit int  `help:"How many to show at most." default:"50" placeholder:"N"`
	JSON  bool `name:"json" help:"Print one JSON object a line."`
}

func (l listing) check() error {
	if l.Limit < 1 {
		return usage("", "--limit %d is less than 1", l.Limit)
	}
	return nil
}

// each calls fn for the first l.Limit things that list yields.
func each[T any](ctx context.Context, l listing, list func(ctx context.Context, limit int, cursor string) ([]T, string, error), fn func(T) error) error {
	for left, cursor := l.Limit, ""; left > 0; {
		rows, next, err := list(ctx, min(left, page), cursor)
		if err != nil {
			return err
		}
		for _, v := range rows {
			if err := fn(v); err != nil {
				return err
			}
		}
		left -= len(rows)
		if next == "" {
			return nil
		}
		cursor = next
	}
	return nil
}

// table writes aligned columns.
func (a *app) table(head string, fill func(row func(cells ...any) error) error) error {
	w := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	if _, err := fmt.Fprintln(w, head); err != nil {
		return err
	}
	err := fill(func(cells ...any) error {
		for i, c := range cells {
			sep := "\t"
			if i == len(cells)-1 {
				sep = "\n"
			}
			if _, err := fmt.Fprint(w, firstLine(clean(fmt.Sprint(c)), maxLine), sep); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return w.Flush()
}

// age is how long ago t was, for people.
func age(t time.Time) string {
	d := now().Sub(t)
	switch {
	case d < time.Second:
		return "now"
	case d < time.Minute:
		return fmt.Sprintf("%ds ago", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm ago", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh ago", d/time.Hour)
	}
	return fmt.Sprintf("%dd ago", d/(24*time.Hour))
}

type threadsCmd struct{ listing }

// Run executes the command.
func (c *threadsCmd) Run(ctx context.Context, a *app) error {
	a.json = c.JSON
	if err := c.check(); err != nil {
		return err
	}
	return a.withStore(ctx, func(st *sqlite.Store) error {
		if c.JSON {
			return each(ctx, c.listing, st.ListThreads, func(t store.ThreadInfo) error { return a.line(t) })
		}
		return a.table("THREAD\tUSED\tRUNS\tTITLE", func(row func(...any) error) error {
			return each(ctx, c.listing, st.ListThreads, func(t store.ThreadInfo) error {
				return row(t.ID, age(t.Updated), t.Runs, t.Title)
			})
		})
	})
}

type runsCmd struct {
	Thread string `help:"Only runs of this thread." placeholder:"ID"`
	listing
}

// Run executes the command.
func (c *runsCmd) Run(ctx context.Context, a *app) error {
	a.json = c.JSON
	if err := c.check(); err != nil {
		return err
	}
	return a.withStore(ctx, func(st *sqlite.Store) error {
		var f store.RunFilter
		if c.Thread != "" {
			t, err := findThread(ctx, st, c.Thread)
			if err != nil {
				return err
			}
			f.Thread = t.ID
		}
		list := func(ctx context.Context, limit int, cursor string) ([]store.RunInfo, string, error) {
			f.Limit, f.Cursor = limit, cursor
			return st.ListRuns(ctx, f)
		}
		if c.JSON {
			return each(ctx, c.listing, list, func(r store.RunInfo) error { return a.line(r) })
		}
		return a.table("RUN\tSTATUS\tBEGAN\tAGENT\tTITLE", func(row func(...any) error) error {
			return each(ctx, c.listing, list, func(r store.RunInfo) error {
				return row(r.ID, r.Status, age(r.Created), r.Agent, r.Title)
			})
		})
	})
}

type eventsCmd struct {
	RunID string `arg:"" name:"run" help:"The run: an id, the beginning of one, or 'last'."`
	JSON  bool   `name:"json" help:"Print one JSON object a line."`
}

// Run executes the command.
func (c *eventsCmd) Run(ctx context.Context, a *app) error {
	a.json = c.JSON
	return a.withStore(ctx, func(st *sqlite.Store) error {
		info, err := findRun(ctx, st, c.RunID)
		if err != nil {
			return err
		}
		if c.JSON {
			v := &jsonView{out: a.Stdout}
			return eachEvent(ctx, st, info, v.event)
		}
		return a.table("SEQ\tTIME\tPATH\tTYPE\tWHAT", func(row func(...any) error) error {
			return eachEvent(ctx, st, info, func(ev *rouse.Event) error {
				return row(ev.Seq, ev.At.Local().Format("15:04:05.000"), ev.Path, ev.Type, summary(ev))
			})
		})
	})
}

func eachEvent(ctx context.Context, j run.Journal, info store.RunInfo, fn func(*rouse.Event) error) error {
	for ev, err := range j.Read(ctx, run.Query{Thread: info.Thread, Run: info.ID}) {
		if err != nil {
			return err
		}
		if err := fn(&ev); err != nil {
			return err
		}
	}
	return nil
}
