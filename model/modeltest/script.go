// Package modeltest holds a scripted model for the tests of whatever talks to a
// model, and the contract suite that every model.Model passes.
package modeltest

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/model"
)

// Step is one thing that a scripted model does. First it waits for Delay, then
// it yields Err if that is set, else hangs if told to, else yields Chunk if that
// has a type.
type Step struct {
	Chunk model.Chunk
	// Err ends the stream. It is wrapped in nothing, so use a *rouse.Error.
	Err error
	// Hang says nothing more until ctx ends.
	Hang  bool
	Delay time.Duration
}

// Turn is what a scripted model does for one request. One that ends without an
// Err and without a ChunkStop stands for a connection that was closed: it yields
// an error of code CodeStreamCut.
type Turn []Step

// Chunks returns the turn that yields cs.
func Chunks(cs ...model.Chunk) Turn {
	t := make(Turn, len(cs))
	for i, c := range cs {
		t[i].Chunk = c
	}
	return t
}

// Say returns the turn that answers with these pieces of text.
func Say(pieces ...string) Turn {
	t := make(Turn, 0, len(pieces)+1)
	for _, p := range pieces {
		t = append(t, Step{Chunk: model.Chunk{Type: model.ChunkText, Text: p}})
	}
	return t.Then(Step{Chunk: model.Chunk{Type: model.ChunkStop, Stop: model.StopEnd}})
}

// Fail returns the turn that fails before the first chunk.
func Fail(err error) Turn { return Turn{{Err: err}} }

// Then returns t with more steps at its end.
func (t Turn) Then(steps ...Step) Turn { return append(slices.Clip(t), steps...) }

// Script is a model that plays turns: the first request gets the first one, and
// so on; every request after the last one gets the last one again. It is safe for
// concurrent use and keeps the whole contract of model.Model.
type Script struct {
	turns []Turn

	mu       sync.Mutex
	requests []model.Request
	open     int
}

// NewScript returns a Script of these turns. Without any, each request is
// answered with nothing but a stop.
func NewScript(turns ...Turn) *Script {
	if len(turns) == 0 {
		turns = []Turn{Say()}
	}
	return &Script{turns: turns}
}

// Requests returns what was sent so far, in order. The requests share their
// messages with the senders, but not the slices that hold them.
func (s *Script) Requests() []model.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Sent returns how many requests were sent so far.
func (s *Script) Sent() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.requests)
}

// Open returns how many streams are being ranged over.
func (s *Script) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

// Stream plays the next turn.
func (s *Script) Stream(ctx context.Context, req *model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		if ctx.Err() != nil {
			yield(model.Chunk{}, ended(ctx))
			return
		}
		turn := s.begin(req)
		defer s.end()
		for _, step := range turn {
			if err := step.wait(ctx); err != nil {
				yield(model.Chunk{}, err)
				return
			}
			if step.Chunk.Type == 0 {
				continue
			}
			if !yield(step.Chunk, nil) || step.Chunk.Type == model.ChunkStop {
				return
			}
		}
		yield(model.Chunk{}, &rouse.Error{Code: rouse.CodeStreamCut, Op: "modeltest.script", Message: "the answer broke off before its end"})
	}
}

func (s *Script) begin(req *model.Request) Turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := *req
	r.Memo = nil
	r.Messages, r.Tools = slices.Clone(req.Messages), slices.Clone(req.Tools)
	s.requests = append(s.requests, r)
	s.open++
	return s.turns[min(len(s.requests), len(s.turns))-1]
}

func (s *Script) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
}

// wait does what a step does before its chunk. An error ends the stream.
func (s *Step) wait(ctx context.Context) error {
	if s.Delay > 0 {
		timer := time.NewTimer(s.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	if s.Hang && s.Err == nil {
		<-ctx.Done()
	}
	if ctx.Err() != nil {
		return ended(ctx)
	}
	return s.Err
}

// ended is the error for a ctx that has ended.
func ended(ctx context.Context) error {
	cause := context.Cause(ctx)
	code := rouse.CodeCanceled
	if errors.Is(cause, context.DeadlineExceeded) {
		code = rouse.CodeTimeout
	}
	return &rouse.Error{Code: code, Op: "modeltest.script", Message: "the request was aborted", Err: cause}
}
