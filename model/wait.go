package model

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/rouse-run/rouse"
)

// The defaults that Retry and Recover share.
const (
	DefaultBackoffBase   = 500 * time.Millisecond
	DefaultBackoffCap    = 8 * time.Second
	DefaultMaxRetryAfter = 30 * time.Second
)

// BackoffConfig says how long to wait before the next attempt: a random time
// between zero and Base·2ⁿ (full jitter), at most Cap, and never shorter than
// what the provider asked for.
type BackoffConfig struct {
	// Base is the bound of the first wait. Zero means DefaultBackoffBase.
	Base time.Duration
	// Cap is the bound of every wait. Zero means DefaultBackoffCap.
	Cap time.Duration
	// MaxRetryAfter is the longest wait that a provider may ask for. When it asks
	// for more, the error is returned at once. Zero means DefaultMaxRetryAfter,
	// negative no bound.
	MaxRetryAfter time.Duration
	// Rand is the source of the jitter; it is used under a lock. Nil means rouse.SystemRand.
	Rand rand.Source
}

type backoff struct {
	cfg BackoffConfig
	mu  sync.Mutex
	rnd *rand.Rand
}

func newBackoff(cfg BackoffConfig) *backoff {
	if cfg.Base <= 0 {
		cfg.Base = DefaultBackoffBase
	}
	if cfg.Cap <= 0 {
		cfg.Cap = DefaultBackoffCap
	}
	if cfg.MaxRetryAfter == 0 {
		cfg.MaxRetryAfter = DefaultMaxRetryAfter
	}
	if cfg.Rand == nil {
		cfg.Rand = rouse.SystemRand{}
	}
	return &backoff{cfg: cfg, rnd: rand.New(cfg.Rand)} //nolint:gosec // the source is the caller's choice, jitter needs no secrecy
}

// delay returns how long to wait after the n-th failure, from 1; ok is false
// when the provider asks for more than is allowed.
func (b *backoff) delay(n int, failure error) (d time.Duration, ok bool) {
	bound := b.cfg.Cap
	if shift := n - 1; shift < 30 && b.cfg.Base < bound>>shift {
		bound = b.cfg.Base << shift
	}
	b.mu.Lock()
	d = time.Duration(b.rnd.Int64N(int64(bound) + 1))
	b.mu.Unlock()
	asked := retryAfter(failure)
	if b.cfg.MaxRetryAfter > 0 && asked > b.cfg.MaxRetryAfter {
		return 0, false
	}
	return max(d, asked), true
}

func retryAfter(err error) time.Duration {
	var e *rouse.Error
	if errors.As(err, &e) {
		return e.RetryAfter
	}
	return 0
}

// sleep waits for d. When ctx ends first, the error says why, and after which failure.
func sleep(ctx context.Context, op string, d time.Duration, failure error) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return endedError(ctx, op, "stopped while waiting to try again", failure)
	}
}

// endedError is the error for a ctx that has ended: CodeTimeout after a deadline,
// CodeCanceled otherwise, or the code of the cause when that has one.
func endedError(ctx context.Context, op, message string, failure error) error {
	cause := context.Cause(ctx)
	code := rouse.CodeCanceled
	var coded *rouse.Error
	switch {
	case errors.As(cause, &coded):
		code, message = coded.Code, message+": "+coded.Message
	case errors.Is(cause, context.DeadlineExceeded):
		code = rouse.CodeTimeout
	}
	if failure != nil {
		cause = fmt.Errorf("%w (after: %w)", cause, failure)
	}
	return &rouse.Error{Code: code, Op: op, Message: message, Err: cause}
}

// retryable reports whether the same request may succeed later.
func retryable(err error) bool { return rouse.CodeOf(err).Info().Retryable }
