package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/store"
)

const (
	// minPrefix is how many characters of an id stand for it.
	minPrefix = 6
	// maxCandidates is how many are named when several ids begin alike.
	maxCandidates = 8
	// page is how many rows are read at a time.
	page = 1000
	// last names the newest.
	last = "last"
)

// findRun returns the run that id names: an id, the beginning of one, or "last".
func findRun(ctx context.Context, st store.Runs, id string) (store.RunInfo, error) {
	return find(ctx, finder[store.RunInfo]{
		what: "run", hint: "'rouse runs' lists them",
		get: st.Run,
		list: func(ctx context.Context, limit int, cursor string) ([]store.RunInfo, string, error) {
			return st.ListRuns(ctx, store.RunFilter{Limit: limit, Cursor: cursor})
		},
		id: func(r store.RunInfo) string { return r.ID },
	}, id)
}

// findThread returns the thread that id names.
func findThread(ctx context.Context, st store.Threads, id string) (store.ThreadInfo, error) {
	return find(ctx, finder[store.ThreadInfo]{
		what: "thread", hint: "'rouse threads' lists them",
		get: st.Thread, list: st.ListThreads,
		id: func(t store.ThreadInfo) string { return t.ID },
	}, id)
}

type finder[T any] struct {
	what, hint string
	get        func(ctx context.Context, id string) (T, error)
	list       func(ctx context.Context, limit int, cursor string) ([]T, string, error)
	id         func(T) string
}

func find[T any](ctx context.Context, f finder[T], id string) (none T, err error) {
	missing := &rouse.Error{Code: rouse.CodeNotFound, Message: fmt.Sprintf("there is no %s %q", f.what, id), Hint: f.hint}
	if id == "" {
		return none, usage(f.hint, "the id of the %s is empty", f.what)
	}
	if id == last {
		newest, _, err := f.list(ctx, 1, "")
		if err != nil || len(newest) == 0 {
			return none, join(err, &rouse.Error{Code: rouse.CodeNotFound, Message: "there is no " + f.what + " yet", Hint: `begin with: rouse run "..."`})
		}
		return newest[0], nil
	}
	got, err := f.get(ctx, id)
	if err == nil || rouse.CodeOf(err) != rouse.CodeNotFound {
		return got, err
	}
	if len(id) < minPrefix {
		missing.Hint = fmt.Sprintf("the beginning of an id must have at least %d characters", minPrefix)
		return none, missing
	}
	found, err := f.begins(ctx, id)
	switch {
	case err != nil:
		return none, err
	case len(found) == 0:
		return none, missing
	case len(found) > 1:
		var ids []string
		for _, v := range found[:min(len(found), maxCandidates)] {
			ids = append(ids, f.id(v))
		}
		return none, &rouse.Error{
			Code: rouse.CodeConflict, Message: fmt.Sprintf("%d %ss begin with %q", len(found), f.what, id),
			Hint: "write more of one of these: " + strings.Join(ids, ", "),
		}
	}
	return found[0], nil
}

// begins returns everything whose id begins with prefix.
func (f finder[T]) begins(ctx context.Context, prefix string) (found []T, err error) {
	for cursor := ""; ; {
		rows, next, err := f.list(ctx, page, cursor)
		if err != nil {
			return nil, err
		}
		for _, v := range rows {
			if strings.HasPrefix(f.id(v), prefix) {
				found = append(found, v)
			}
		}
		if next == "" {
			return found, nil
		}
		cursor = next
	}
}
