package mock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rouse-run/rouse"
)

// op is the Op of every error of a call.
const op = "model mock"

// problem is one thing that is wrong with a value; path begins with a dot or is empty.
type problem struct{ path, text string }

func (p problem) Error() string { return strings.TrimSpace(p.path + " " + p.text) }

// problems gathers what is wrong with a configuration.
type problems []error

func (ps *problems) addf(path, format string, args ...any) {
	*ps = append(*ps, problem{path, fmt.Sprintf(format, args...)})
}

// err returns all problems as one error, nil when there are none.
func (ps problems) err(op string) error {
	if len(ps) == 0 {
		return nil
	}
	texts := make([]string, len(ps))
	for i, p := range ps {
		texts[i] = p.Error()
	}
	return &rouse.Error{Code: rouse.CodeInvalid, Op: op, Message: strings.Join(texts, "; ")}
}

func asError(err error, target **rouse.Error) bool { return errors.As(err, target) }

// ended is the error of a call whose context has ended.
func ended(ctx context.Context) error {
	e := &rouse.Error{Code: rouse.CodeCanceled, Op: op, Message: "the call was cancelled", Err: context.Cause(ctx)}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		e.Code, e.Message = rouse.CodeTimeout, "the call took longer than its deadline"
	}
	return e
}

// sleep waits for d, or fails when ctx ends first.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ended(ctx)
	}
}

// maxQuoted bounds how much of a prompt an error shows, in runes.
const maxQuoted = 200

// quoted returns s in quotes, cut when it is long.
func quoted(s string) string {
	if r := []rune(s); len(r) > maxQuoted {
		s = string(r[:maxQuoted]) + "…"
	}
	return fmt.Sprintf("%q", s)
}
