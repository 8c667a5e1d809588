package model

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/rouse-run/rouse"
)

// The defaults of RecoverConfig.
const (
	DefaultStreamRetries = 2
	DefaultStallDelay    = 200 * time.Millisecond
	// DefaultContinuePrompt asks for the rest of a text.
	DefaultContinuePrompt = "Your answer was interrupted by a technical fault. Continue it exactly where it stops, in the middle of a word if need be. " +
		"Do not repeat anything and do not mention the interruption."
	// DefaultTruncatePrompt is used when a tool call was lost.
	DefaultTruncatePrompt = "Your answer was interrupted by a technical fault while you were calling a tool, and the call was not made. " +
		"Go on exactly where your text stops: make the call if it is still needed. Do not repeat the text and do not mention the interruption."
)

// RecoverConfig configures Recover. The zero value is usable.
type RecoverConfig struct {
	// MaxRetries is how many more requests are sent for one answer. Zero means
	// DefaultStreamRetries, negative none.
	MaxRetries int
	// Backoff says how long to wait before each.
	Backoff BackoffConfig
	// StallDelay is the wait after a stream that fell silent (CodeTimeout), instead
	// of Backoff: time enough has passed. Zero means DefaultStallDelay.
	StallDelay time.Duration
	// ContinuePrompt and TruncatePrompt are the user messages that ask for the rest
	// of a text. Empty means DefaultContinuePrompt and DefaultTruncatePrompt.
	ContinuePrompt, TruncatePrompt string
	// Prefill reports that the model goes on with an assistant message which ends
	// the conversation. Then no prompt is sent, unless the text ends in white space.
	Prefill bool
}

// Recover returns a wrapper that saves answers which break off in their middle,
// as PlanRecovery says. The consumer sees one answer: what it was shown, and the rest.
//
//   - finish: the answer ends with StopTools and the complete calls.
//   - continue, truncate: the text so far and a prompt are added to the
//     conversation, and what the model says then is appended to the text.
//   - restart: the same request is sent again. With Request.Output this replaces
//     continue and truncate, since a model that must answer in JSON would begin a
//     new document; with Prefill it does not.
//
// A consumer learns that something it was shown does not hold any more by a
// ChunkReset, whose Text says why. What is kept of the answer follows at once, as
// chunks. So a call that was cut off never comes to be part of an answer, and
// calls may be renumbered.
//
// Usage is the sum over all requests, yielded just before the ChunkStop, or
// before the error. Errors that are not retryable are passed on, and so is one
// that came before the first chunk: that is Retry's business. When the retries
// are used up the error is CodeStreamCut and holds the last one. Nothing is sent
// again when ctx has ended.
//
// It belongs outside of Retry, Breaker, Limit and Timeouts.
func Recover(cfg RecoverConfig) Wrap {
	if cfg.MaxRetries == 0 {
		cfg.MaxRetries = DefaultStreamRetries
	}
	orDefault(&cfg.StallDelay, DefaultStallDelay)
	if cfg.ContinuePrompt == "" {
		cfg.ContinuePrompt = DefaultContinuePrompt
	}
	if cfg.TruncatePrompt == "" {
		cfg.TruncatePrompt = DefaultTruncatePrompt
	}
	b := newBackoff(cfg.Backoff)
	return func(m Model) Model { return &recoverer{m: m, cfg: cfg, backoff: b} }
}

type recoverer struct {
	m       Model
	cfg     RecoverConfig
	backoff *backoff
}

func (r *recoverer) Unwrap() Model { return r.m }

func (r *recoverer) Stream(ctx context.Context, req *Request) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		s := rescue{recoverer: r, yield: yield, base: Answer{Message: rouse.Message{Role: rouse.RoleAssistant}}}
		s.run(ctx, req)
	}
}

// rescue is one stream.
type rescue struct {
	*recoverer
	yield func(Chunk, error) bool

	shown Folder      // what the consumer has been shown since the last reset
	base  Answer      // what of it was kept from earlier attempts
	spent rouse.Usage // of the attempts that are over
	begun bool        // the consumer was shown something
}

// run streams until the answer is complete, one way or another.
func (s *rescue) run(ctx context.Context, req *Request) {
	next := req
	for n := 0; ; n++ {
		done, failure := s.attempt(ctx, next)
		if done {
			return
		}
		if !s.begun || ctx.Err() != nil {
			s.fail(failure)
			return
		}
		plan := s.plan(failure, req)
		if plan.Kind == PlanFinish {
			if s.adopt(plan, failure) {
				s.finish(StopTools)
			}
			return
		}
		delay, err := s.delay(plan, failure, n)
		if err != nil {
			s.fail(err)
			return
		}
		if !s.adopt(plan, failure) {
			return
		}
		if err := sleep(ctx, "model.recover", delay, failure); err != nil {
			s.fail(err)
			return
		}
		next = s.request(req, plan)
	}
}

// attempt streams one request. Done means that the stream is over: it came to its
// end, or the consumer broke off. Otherwise there is a failure.
func (s *rescue) attempt(ctx context.Context, req *Request) (done bool, failure error) {
	defer s.spend()
	for c, err := range s.m.Stream(ctx, req) {
		if done {
			return true, nil // what follows the end of the answer is of no interest
		}
		if err == nil {
			err = s.shown.Add(c)
		}
		if err != nil {
			return false, err
		}
		ok := true
		switch c.Type {
		case ChunkUsage: // held back until the sum is known
		case ChunkReset:
			ok = s.reset(c.Text)
		case ChunkStop:
			s.spend()
			done, ok = true, s.finish(c.Stop)
		default:
			s.begun = true
			ok = s.yield(c, nil)
		}
		if !ok {
			return true, nil
		}
	}
	if !done {
		return false, errCut()
	}
	return true, nil
}

// spend adds the usage of the attempt to the sum, once.
func (s *rescue) spend() {
	s.spent, s.shown.usage = s.spent.Add(s.shown.usage), rouse.Usage{}
}

// plan applies PlanRecovery to what was shown.
func (s *rescue) plan(failure error, req *Request) Plan {
	p := PlanRecovery(s.shown.Partial(), failure)
	continues := p.Kind == PlanContinue || p.Kind == PlanTruncate
	if continues && req.Output != nil && !s.prefills(p) {
		empty := Answer{Message: rouse.Message{Role: rouse.RoleAssistant}}
		return Plan{Kind: PlanRestart, Keep: empty, Dropped: p.Dropped, Reset: true}
	}
	return p
}

// givenUp is the error after n retries. Its message says how the answer broke off
// the last time: causes do not reach whoever asked.
func givenUp(n int, failure error) error {
	e := &rouse.Error{
		Code: rouse.CodeStreamCut, Op: "model.recover", Message: fmt.Sprintf("the answer broke off and could not be continued (%d retries)", n),
		RetryAfter: retryAfter(failure), Err: failure,
	}
	var last *rouse.Error
	if errors.As(failure, &last) && last.Message != "" {
		e.Message += ": " + last.Message
		e.Hint = last.Hint
	}
	return e
}

// delay returns how long to wait before retry n, from 0, or why there is none.
func (s *rescue) delay(p Plan, failure error, n int) (time.Duration, error) {
	if p.Kind == PlanFail {
		return 0, p.Err
	}
	if n >= s.cfg.MaxRetries {
		return 0, givenUp(n, failure)
	}
	d, ok := s.backoff.delay(n+1, failure)
	if !ok {
		return 0, failure
	}
	if rouse.CodeOf(failure) == rouse.CodeTimeout {
		d = max(s.cfg.StallDelay, retryAfter(failure))
	}
	return d, nil
}

// adopt makes what the plan keeps the base of the next attempt.
func (s *rescue) adopt(p Plan, failure error) bool {
	s.base = p.Keep
	s.base.Stop = ""
	if !p.Reset {
		return s.replay(func(Chunk, error) bool { return true })
	}
	why := "the answer broke off"
	if len(p.Dropped) > 0 {
		why = fmt.Sprintf("the answer broke off in a call of %q", p.Dropped[0].Name)
	}
	return s.reset(why + " (" + string(rouse.CodeOf(failure)) + ")")
}

// reset tells the consumer to forget everything but the base.
func (s *rescue) reset(why string) bool {
	return s.yield(Chunk{Type: ChunkReset, Text: why}, nil) && s.replay(s.yield)
}

// replay makes shown the base, and yields that.
func (s *rescue) replay(yield func(Chunk, error) bool) bool {
	s.shown.reset()
	for c, err := range Replay(s.base) {
		if err == nil {
			err = s.shown.Add(c)
		}
		if !yield(c, err) || err != nil {
			return false
		}
	}
	return true
}

// finish yields the sum of the usage and the end.
func (s *rescue) finish(why StopReason) bool {
	return s.yieldSpent() && s.yield(Chunk{Type: ChunkStop, Stop: why}, nil)
}

func (s *rescue) fail(err error) {
	if s.yieldSpent() {
		s.yield(Chunk{}, err)
	}
}

func (s *rescue) yieldSpent() bool {
	return s.spent == (rouse.Usage{}) || s.yield(Chunk{Type: ChunkUsage, Usage: s.spent}, nil)
}

// request is what is sent for the rest of the answer.
func (s *rescue) request(req *Request, p Plan) *Request {
	if p.Kind == PlanRestart {
		return req
	}
	next := *req
	next.Memo = nil // it belongs to the conversation, which will not have these messages
	said := rouse.Message{Role: rouse.RoleAssistant, Parts: []rouse.Part{rouse.Text(p.Keep.Message.Text())}}
	next.Messages = append(slices.Clip(req.Messages), said)
	switch {
	case s.prefills(p):
	case p.Kind == PlanTruncate:
		next.Messages = append(next.Messages, rouse.UserText(s.cfg.TruncatePrompt))
	default:
		next.Messages = append(next.Messages, rouse.UserText(s.cfg.ContinuePrompt))
	}
	return &next
}

// prefills reports whether the model goes on with the text itself.
func (s *rescue) prefills(p Plan) bool {
	text := p.Keep.Message.Text()
	return s.cfg.Prefill && strings.TrimRight(text, " \t\r\n") == text
}
