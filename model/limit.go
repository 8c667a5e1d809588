package model

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/rouse-run/rouse"
)

// DefaultInFlight is the default of LimitConfig.InFlight.
const DefaultInFlight = 64

// LimitConfig configures Limit. The zero value is usable.
type LimitConfig struct {
	// InFlight is how many streams of one wrapped model may be open at a time.
	// Zero or less means DefaultInFlight.
	InFlight int
	// MaxWait is how long a stream waits for its turn; beyond it the error is
	// CodeOverloaded. Zero means until ctx ends, negative not at all.
	MaxWait time.Duration
}

// Limit returns a wrapper that bounds how many streams are open at a time. The
// others wait, first come first served. A stream counts from its first pair
// until its range ends. Each wrapped model has a limit of its own.
func Limit(cfg LimitConfig) Wrap {
	if cfg.InFlight <= 0 {
		cfg.InFlight = DefaultInFlight
	}
	return func(m Model) Model {
		return &limit{m: m, slots: make(chan struct{}, cfg.InFlight), maxWait: cfg.MaxWait}
	}
}

type limit struct {
	m       Model
	slots   chan struct{}
	maxWait time.Duration
}

func (l *limit) Unwrap() Model { return l.m }

func (l *limit) Stream(ctx context.Context, req *Request) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		if err := l.acquire(ctx); err != nil {
			yield(Chunk{}, err)
			return
		}
		defer func() { <-l.slots }()
		l.m.Stream(ctx, req)(yield)
	}
}

func (l *limit) acquire(ctx context.Context) error {
	if ctx.Err() != nil {
		return endedError(ctx, "model.limit", "stopped before the request was sent", nil)
	}
	select {
	case l.slots <- struct{}{}:
		return nil
	default:
	}
	if l.maxWait < 0 {
		return l.full("at once")
	}
	var late <-chan time.Time
	if l.maxWait > 0 {
		timer := time.NewTimer(l.maxWait)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case l.slots <- struct{}{}:
		return nil
	case <-late:
		return l.full(fmt.Sprintf("within %v", l.maxWait))
	case <-ctx.Done():
		return endedError(ctx, "model.limit", "stopped while waiting for a free slot", nil)
	}
}

func (l *limit) full(when string) error {
	return &rouse.Error{
		Code: rouse.CodeOverloaded, Op: "model.limit",
		Message: fmt.Sprintf("%d requests to the model are in flight and none ended %s", cap(l.slots), when),
		Hint:    "try again later, or raise InFlight or MaxWait",
	}
}
