package sqlite

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/store"
)

const (
	defaultLimit = 50
	maxLimit     = 1000
)

// pageSize is how many rows a listing returns.
func pageSize(op string, limit int) (int, error) {
	switch {
	case limit == 0:
		return defaultLimit, nil
	case limit < 0 || limit > maxLimit:
		return 0, invalid(op, fmt.Sprintf("a limit is from 1 to %d", maxLimit))
	}
	return limit, nil
}

const runColumns = `r.n, r.id, t.id, r.agent, r.title, r.status, r.revision, r.epoch, r.owner, r.first_seq, r.last_seq, r.created, r.updated
	FROM runs r JOIN threads t ON t.n = r.thread `

// through has a query of runColumns find its runs through a partial index. SQLite
// would rather visit all runs, which are in the right order already.
func through(index string) string {
	return strings.Replace(runColumns, "FROM runs r ", "FROM runs r INDEXED BY "+index+" ", 1)
}

func scanRun(st *sqlite3.Stmt) store.RunInfo {
	return store.RunInfo{
		ID: st.ColumnText(1), Thread: st.ColumnText(2), Agent: st.ColumnText(3), Title: st.ColumnText(4),
		Status: rouse.Status(st.ColumnText(5)), Revision: st.ColumnInt64(6), Epoch: st.ColumnInt64(7), Owner: st.ColumnText(8),
		FirstSeq: st.ColumnInt64(9), LastSeq: st.ColumnInt64(10),
		Created: time.UnixMilli(st.ColumnInt64(11)).UTC(), Updated: time.UnixMilli(st.ColumnInt64(12)).UTC(),
	}
}

// Run implements store.Runs. The error is CodeInvalid for an empty id.
func (s *Store) Run(ctx context.Context, id string) (store.RunInfo, error) {
	if id == "" {
		return store.RunInfo{}, invalid(opRuns, "a run has an id")
	}
	var info store.RunInfo
	err := s.read(ctx, opRuns, func(r *reader) error {
		return r.query(`SELECT `+runColumns+`WHERE r.id = ?1`, func(st *sqlite3.Stmt) error {
			info = scanRun(st)
			return nil
		}, id)
	})
	if err == nil && info.ID == "" {
		err = notFound(opRuns, "run")
	}
	return info, err
}

// ListRuns implements store.Runs. The error is CodeInvalid for an unknown status,
// a limit out of range and a cursor that is not from an earlier page.
func (s *Store) ListRuns(ctx context.Context, f store.RunFilter) ([]store.RunInfo, string, error) {
	limit, err := pageSize(opRuns, f.Limit)
	if err != nil {
		return nil, "", err
	}
	columns, where, args := runColumns, "WHERE 1 ", []any{}
	if f.Cursor != "" {
		n, err := strconv.ParseInt(f.Cursor, 10, 64)
		if err != nil {
			return nil, "", invalid(opRuns, "the cursor is not from an earlier page")
		}
		where, args = where+"AND r.n < ? ", append(args, n)
	}
	if f.Thread != "" {
		where, args = where+"AND r.thread = (SELECT n FROM threads WHERE id = ?) ", append(args, f.Thread)
	}
	if len(f.Status) > 0 {
		for _, st := range f.Status {
			if !known(st) {
				return nil, "", invalid(opRuns, fmt.Sprintf("there is no status %q", st))
			}
			args = append(args, string(st))
		}
		where += "AND r.status IN (?" + strings.Repeat(", ?", len(f.Status)-1) + ") "
		if index, condition := indexOf(f.Status); index != "" && f.Thread == "" {
			columns, where = through(index), where+condition
		}
	}
	var runs []store.RunInfo
	var last int64
	more := false
	err = s.read(ctx, opRuns, func(r *reader) error {
		return r.query(`SELECT `+columns+where+`ORDER BY r.n DESC LIMIT ?`, func(st *sqlite3.Stmt) error {
			if more = len(runs) == limit; !more {
				runs, last = append(runs, scanRun(st)), st.ColumnInt64(0)
			}
			return nil
		}, append(args, int64(limit)+1)...)
	})
	if err != nil || !more {
		return runs, "", err
	}
	return runs, strconv.FormatInt(last, 10), nil
}

// indexOf names the partial index that holds every run with one of the statuses,
// and its condition; both are "" when none does.
func indexOf(statuses []rouse.Status) (index, condition string) {
	failed := func(s rouse.Status) bool { return s == rouse.StatusFailed || s == rouse.StatusCanceled }
	switch {
	case !slices.ContainsFunc(statuses, rouse.Status.Final):
		return openIndex, isOpen
	case !slices.ContainsFunc(statuses, func(s rouse.Status) bool { return !failed(s) }):
		return failedIndex, isFailed
	}
	return "", ""
}

// The partial indexes and their conditions, as SQLite wants to find them in a query.
const (
	openIndex   = "runs_open"
	failedIndex = "runs_failed"

	isOpen   = "AND r.status IN ('running', 'waiting') "
	isFailed = "AND r.status IN ('failed', 'canceled') "
)

// Orphans implements store.Runs. A run's owner is alive as long as a store is open
// whose Node it is, here or in another process; no clock takes part. An owner
// that is not the Node of a store counts as gone.
func (s *Store) Orphans(ctx context.Context) ([]store.RunInfo, error) {
	var runs []store.RunInfo
	err := s.read(ctx, opRuns, func(r *reader) error {
		return r.query(`SELECT `+through(openIndex)+`WHERE r.status = 'running' `+isOpen+`ORDER BY r.n`, func(st *sqlite3.Stmt) error {
			runs = append(runs, scanRun(st))
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	alive := make(map[string]bool)
	orphans := runs[:0]
	for _, r := range runs {
		a, known := alive[r.Owner]
		if !known {
			if a, err = s.node.alive(r.Owner); err != nil {
				return nil, &rouse.Error{Code: rouse.CodeStorage, Op: opRuns, Message: "it cannot be told whether an owner is alive", Err: err}
			}
			alive[r.Owner] = a
		}
		if !a {
			orphans = append(orphans, r)
		}
	}
	return orphans, nil
}

// A thread stands where its latest run does; r is that one.
const threadColumns = `r.n, t.id, t.title, (SELECT count(*) FROM runs c WHERE c.thread = t.n),
	(SELECT coalesce(max(e.seq), 0) FROM events e WHERE e.thread = t.n), t.created, r.updated
	FROM runs r JOIN threads t ON t.n = r.thread WHERE r.n = (SELECT max(l.n) FROM runs l WHERE l.thread = t.n) `

func scanThread(st *sqlite3.Stmt) store.ThreadInfo {
	return store.ThreadInfo{
		ID: st.ColumnText(1), Title: st.ColumnText(2), Runs: st.ColumnInt(3), LastSeq: st.ColumnInt64(4),
		Created: time.UnixMilli(st.ColumnInt64(5)).UTC(), Updated: time.UnixMilli(st.ColumnInt64(6)).UTC(),
	}
}

// Thread implements store.Threads. The error is CodeInvalid for an empty id.
func (s *Store) Thread(ctx context.Context, id string) (store.ThreadInfo, error) {
	if id == "" {
		return store.ThreadInfo{}, invalid(opThread, "a thread has an id")
	}
	var info store.ThreadInfo
	err := s.read(ctx, opThread, func(r *reader) error {
		return r.query(`SELECT `+threadColumns+`AND t.id = ?1`, func(st *sqlite3.Stmt) error {
			info = scanThread(st)
			return nil
		}, id)
	})
	if err == nil && info.ID == "" {
		err = notFound(opThread, "thread")
	}
	return info, err
}

// ListThreads implements store.Threads. The error is CodeInvalid for a limit out of
// range, which is 1 to 1000 (0 means 50), and for a cursor that is not from an
// earlier page.
func (s *Store) ListThreads(ctx context.Context, limit int, cursor string) ([]store.ThreadInfo, string, error) {
	limit, err := pageSize(opThread, limit)
	if err != nil {
		return nil, "", err
	}
	before := int64(math.MaxInt64)
	if cursor != "" {
		if before, err = strconv.ParseInt(cursor, 10, 64); err != nil {
			return nil, "", invalid(opThread, "the cursor is not from an earlier page")
		}
	}
	var threads []store.ThreadInfo
	var last int64
	more := false
	err = s.read(ctx, opThread, func(r *reader) error {
		return r.query(`SELECT `+threadColumns+`AND r.n < ?1 ORDER BY r.n DESC LIMIT ?2`, func(st *sqlite3.Stmt) error {
			if more = len(threads) == limit; !more {
				threads, last = append(threads, scanThread(st)), st.ColumnInt64(0)
			}
			return nil
		}, before, int64(limit)+1)
	})
	if err != nil || !more {
		return threads, "", err
	}
	return threads, strconv.FormatInt(last, 10), nil
}
