package model

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/rouse-run/rouse"
)

// The defaults of BreakerConfig.
const (
	DefaultBreakerFailures = 5
	DefaultBreakerOpen     = 30 * time.Second
	DefaultBreakerProbes   = 1
)

// BreakerConfig configures Breaker. The zero value is usable.
type BreakerConfig struct {
	// Failures is how many streams in a row must fail before the breaker opens.
	// Zero or less means DefaultBreakerFailures.
	Failures int
	// Open is how long it stays open. Zero or less means DefaultBreakerOpen.
	Open time.Duration
	// Probes is how many streams are let through at a time while it is half-open.
	// Zero or less means DefaultBreakerProbes.
	Probes int
}

// Breaker returns a wrapper that stops asking a model which keeps failing.
//
//	          Failures in a row            Open has passed
//	 +------+ ----------------> +----+ -------------------> +---------+
//	 |closed|                   |open|                      |half-open|
//	 +------+                   +----+ <------------------- +---------+
//	    ^                          a probe failed or was       |
//	    |                          abandoned                   |
//	    +------------------------------------------------------+
//	                          a probe succeeded
//
//	state     | a stream is    | it succeeded | it failed                | it was abandoned
//	----------+----------------+--------------+--------------------------+-----------------
//	closed    | let through    | count = 0    | count + 1; open if full  | nothing
//	open      | refused        |              |                          |
//	half-open | let through if | closed       | open                     | open
//	          | a probe is free|              |                          |
//
// A stream succeeded when it came to its ChunkStop, or when the provider
// answered with a refusal that is not worth repeating: CodeProviderAuth,
// CodeProviderRefused, CodeContextOverflow. It failed with any retryable code, at
// its beginning or in its middle. It was abandoned when the consumer broke off,
// ctx ended, or anything else happened that says nothing about the provider. How
// a stream ends that began before the last change of state does not matter.
//
// A refused stream gets an error of code CodeOverloaded at once, with RetryAfter
// set to the time that is left. Each wrapped model has a breaker of its own.
// Since a context that ended does not count, Timeouts belongs inside of Breaker.
func Breaker(cfg BreakerConfig) Wrap {
	if cfg.Failures <= 0 {
		cfg.Failures = DefaultBreakerFailures
	}
	if cfg.Open <= 0 {
		cfg.Open = DefaultBreakerOpen
	}
	if cfg.Probes <= 0 {
		cfg.Probes = DefaultBreakerProbes
	}
	return func(m Model) Model { return &breaker{m: m, cfg: cfg} }
}

type breakerState uint8

const (
	closed breakerState = iota
	open
	halfOpen
)

type outcome uint8

const (
	abandoned outcome = iota // the zero value: what a stream is that nobody has seen end
	succeeded
	failed
)

// breakerTable tells the next state. From closed, a failure leads to open only
// when it is the last of the allowed ones.
var breakerTable = [...][3]breakerState{ //nolint:gochecknoglobals // data, never written
	closed:   {abandoned: closed, succeeded: closed, failed: open},
	open:     {abandoned: open, succeeded: open, failed: open},
	halfOpen: {abandoned: open, succeeded: closed, failed: open},
}

type breaker struct {
	m   Model
	cfg BreakerConfig

	mu       sync.Mutex
	state    breakerState
	era      int // grows with every change of state
	failures int // in a row, while closed
	probes   int // under way, while half-open
	until    time.Time
}

func (b *breaker) Unwrap() Model { return b.m }

func (b *breaker) Stream(ctx context.Context, req *Request) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		era, err := b.admit()
		if err != nil {
			yield(Chunk{}, err)
			return
		}
		how := abandoned
		defer func() { b.settle(era, how) }() // also when the consumer panics
		for c, err := range b.m.Stream(ctx, req) {
			switch {
			case err != nil:
				how = judge(ctx, err)
			case c.Type == ChunkStop:
				how = succeeded
			}
			if !yield(c, err) {
				return
			}
		}
	}
}

func judge(ctx context.Context, err error) outcome {
	switch code := rouse.CodeOf(err); {
	case ctx.Err() != nil:
		return abandoned
	case code.Info().Retryable:
		return failed
	case code == rouse.CodeProviderAuth, code == rouse.CodeProviderRefused, code == rouse.CodeContextOverflow:
		return succeeded
	}
	return abandoned
}

// admit lets a stream through and returns the era that it belongs to.
func (b *breaker) admit() (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state == open {
		if left := time.Until(b.until); left > 0 {
			return 0, b.refuse(left)
		}
		b.enter(halfOpen)
	}
	if b.state == halfOpen {
		if b.probes >= b.cfg.Probes {
			return 0, b.refuse(time.Second)
		}
		b.probes++
	}
	return b.era, nil
}

func (b *breaker) refuse(left time.Duration) error {
	return &rouse.Error{
		Code: rouse.CodeOverloaded, Op: "model.breaker",
		Message:    fmt.Sprintf("the model has failed %d times in a row and is not asked for now", b.cfg.Failures),
		Hint:       "try again later, or use another model",
		RetryAfter: left,
	}
}

// settle notes how a stream of an era ended.
func (b *breaker) settle(era int, how outcome) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if era != b.era {
		return
	}
	if b.state == closed {
		switch how {
		case succeeded:
			b.failures = 0
		case failed:
			if b.failures++; b.failures < b.cfg.Failures {
				return
			}
		}
	}
	if next := breakerTable[b.state][how]; next != b.state {
		b.enter(next)
	}
}

func (b *breaker) enter(s breakerState) {
	b.state, b.failures, b.probes = s, 0, 0
	b.era++
	if s == open {
		b.until = time.Now().Add(b.cfg.Open)
	}
}
