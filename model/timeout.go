package model

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rouse-run/rouse"
)

// The defaults of TimeoutConfig.
const (
	DefaultFirstByte = 2 * time.Minute
	DefaultIdle      = time.Minute
	DefaultTotal     = 15 * time.Minute
)

// TimeoutConfig configures Timeouts. The zero value is usable; a negative field
// means no limit.
type TimeoutConfig struct {
	// FirstByte bounds the wait for the first chunk, which for a reasoning model
	// may include all of its thinking. Zero means DefaultFirstByte.
	FirstByte time.Duration
	// Idle bounds the silence between two chunks. The time that the consumer takes
	// for a chunk does not count. Zero means DefaultIdle.
	Idle time.Duration
	// Total bounds the whole stream, with the consumer's time. Zero means DefaultTotal.
	Total time.Duration
}

// Timeouts returns a wrapper that ends a stream which takes too long. It cancels
// the context of the wrapped model and waits until that has returned; the error
// is of code CodeTimeout and its message tells which limit it was.
//
// After a chunk with More set, silence may last up to twice Idle.
func Timeouts(cfg TimeoutConfig) Wrap {
	orDefault(&cfg.FirstByte, DefaultFirstByte)
	orDefault(&cfg.Idle, DefaultIdle)
	orDefault(&cfg.Total, DefaultTotal)
	t := timeouts{
		cfg:   cfg,
		first: timeoutError("the model did not begin to answer within %v", cfg.FirstByte),
		idle:  timeoutError("the model fell silent for %v in the middle of its answer", cfg.Idle),
		total: timeoutError("the answer took longer than %v in all", cfg.Total),
	}
	return func(m Model) Model {
		t := t
		t.m = m
		return &t
	}
}

func orDefault(d *time.Duration, def time.Duration) {
	if *d == 0 {
		*d = def
	}
}

func timeoutError(format string, d time.Duration) *rouse.Error {
	return &rouse.Error{Code: rouse.CodeTimeout, Op: "model.timeouts", Message: fmt.Sprintf(format, d)}
}

type timeouts struct {
	m                  Model
	cfg                TimeoutConfig
	first, idle, total *rouse.Error // causes of the cancellation, and what is yielded then
}

func (t *timeouts) Unwrap() Model { return t.m }

func (t *timeouts) Stream(parent context.Context, req *Request) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		ctx := parent // each range has limits of its own
		if t.cfg.Total > 0 {
			var stop context.CancelFunc
			ctx, stop = context.WithTimeoutCause(ctx, t.cfg.Total, t.total)
			defer stop()
		}
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		first := after(t.cfg.FirstByte, func() { cancel(t.first) })
		defer first.end()
		idle := silence{limit: t.cfg.Idle, cancel: func() { cancel(t.idle) }}
		defer idle.end()

		begun, stopped := false, false
		for c, err := range t.m.Stream(ctx, req) {
			if stopped {
				return // what follows the end of the answer is of no interest
			}
			if err != nil {
				yield(Chunk{}, t.reason(ctx, err))
				return
			}
			if begun {
				idle.pause()
			} else {
				begun = true
				first.end()
				idle.begin()
			}
			stopped = c.Type == ChunkStop
			if !yield(c, nil) {
				return
			}
			idle.resume(c.More)
		}
		if err := t.reason(ctx, nil); err != nil && !stopped {
			yield(Chunk{}, err)
		}
	}
}

// reason returns the limit that ended ctx, or err when none did.
func (t *timeouts) reason(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	for _, limit := range [...]*rouse.Error{t.first, t.idle, t.total} {
		if errors.Is(cause, limit) {
			return limit
		}
	}
	return err
}

// alarm is a timer that may not be there.
type alarm struct{ timer *time.Timer }

func after(d time.Duration, f func()) alarm {
	if d < 0 {
		return alarm{}
	}
	return alarm{time.AfterFunc(d, f)}
}

func (a alarm) end() {
	if a.timer != nil {
		a.timer.Stop()
	}
}

// silence calls cancel when the model has not been heard for limit. A chunk
// costs a look at the clock at most: the timer is not touched, it finds out by
// itself how much longer it has to wait.
type silence struct {
	limit  time.Duration
	cancel func()

	start time.Time
	since atomic.Int64 // when the silence began, in nanoseconds after start, or one of the two below

	mu    sync.Mutex // guards timer and done
	timer *time.Timer
	done  bool
}

const (
	paused  = -1 // the consumer has the word
	unknown = -2 // the silence began a while ago
)

func (s *silence) begin() {
	if s.limit < 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.start = time.Now()
	s.since.Store(paused)
	s.timer = time.AfterFunc(s.limit, s.check)
}

func (s *silence) pause() { s.since.Store(paused) }

func (s *silence) resume(more bool) {
	if more || s.limit < 0 {
		s.since.Store(unknown)
		return
	}
	s.since.Store(int64(time.Since(s.start)))
}

// check runs when the silence may have lasted long enough.
func (s *silence) check() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done {
		return
	}
	wait, now := s.limit, time.Since(s.start)
	switch since := s.since.Load(); since {
	case paused:
	case unknown:
		s.since.CompareAndSwap(unknown, int64(now))
	default:
		quiet := now - time.Duration(since)
		if quiet >= s.limit {
			s.cancel()
			return
		}
		wait -= quiet
	}
	s.timer.Reset(wait)
}

func (s *silence) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done = true
	if s.timer != nil {
		s.timer.Stop()
	}
}
