package model

import (
	"context"
	"iter"
)

// DefaultAttempts is the default of RetryConfig.Attempts.
const DefaultAttempts = 3

// RetryConfig configures Retry. The zero value is usable.
type RetryConfig struct {
	// Attempts is how often a request is sent at most. Zero means DefaultAttempts, 1 never again.
	Attempts int
	// Backoff says how long to wait in between.
	Backoff BackoffConfig
}

// Retry returns a wrapper that sends a request again when it failed before the
// first chunk. Once a chunk was yielded nothing is ever sent again: what the
// consumer has seen would not be true any more (see Recover).
//
// Only errors whose code is retryable count. The last error is returned as it
// is; so is one whose RetryAfter is longer than allowed. When ctx ends during a
// wait, the error is CodeCanceled, CodeTimeout or the cause's own code, and
// holds the failure before it.
func Retry(cfg RetryConfig) Wrap {
	if cfg.Attempts <= 0 {
		cfg.Attempts = DefaultAttempts
	}
	b := newBackoff(cfg.Backoff)
	return func(m Model) Model { return &retry{m: m, attempts: cfg.Attempts, backoff: b} }
}

type retry struct {
	m        Model
	attempts int
	backoff  *backoff
}

func (r *retry) Unwrap() Model { return r.m }

func (r *retry) Stream(ctx context.Context, req *Request) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		for n := 1; ; n++ {
			failure := r.attempt(ctx, req, n, yield)
			if failure == nil {
				return
			}
			d, ok := r.backoff.delay(n, failure)
			if !ok {
				yield(Chunk{}, failure)
				return
			}
			if err := sleep(ctx, "model.retry", d, failure); err != nil {
				yield(Chunk{}, err)
				return
			}
		}
	}
}

// attempt streams once. It returns an error when nothing was yielded and another
// attempt is due; otherwise the stream is over.
func (r *retry) attempt(ctx context.Context, req *Request, n int, yield func(Chunk, error) bool) error {
	shown := false
	for c, err := range r.m.Stream(ctx, req) {
		if err != nil && !shown && n < r.attempts && ctx.Err() == nil && retryable(err) {
			return err
		}
		shown = true
		if !yield(c, err) {
			return nil
		}
	}
	return nil
}
