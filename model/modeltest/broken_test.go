package modeltest

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/model"
)

// broken is a model with one fault.
type broken func(s *Script, ctx context.Context, req *model.Request, yield func(model.Chunk, error) bool)

type brokenModel struct {
	*Script
	fault broken
}

func (m brokenModel) Stream(ctx context.Context, req *model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) { m.fault(m.Script, ctx, req, yield) }
}

// filter passes chunks through fn.
func filter(fn func(model.Chunk) []model.Chunk) broken {
	return func(s *Script, ctx context.Context, req *model.Request, yield func(model.Chunk, error) bool) {
		for c, err := range s.Stream(ctx, req) {
			if err != nil {
				yield(c, err)
				return
			}
			for _, c := range fn(c) {
				if !yield(c, nil) {
					return
				}
			}
		}
	}
}

func onError(fn func(err error, yield func(model.Chunk, error) bool)) broken {
	return func(s *Script, ctx context.Context, req *model.Request, yield func(model.Chunk, error) bool) {
		for c, err := range s.Stream(ctx, req) {
			if err != nil {
				fn(err, yield)
				return
			}
			if !yield(c, nil) {
				return
			}
		}
	}
}

// TestTheSuiteFindsFaults holds each check against models that break its rule.
func TestTheSuiteFindsFaults(t *testing.T) {
	t.Parallel()
	drop := func(kind model.ChunkType) broken {
		return filter(func(c model.Chunk) []model.Chunk {
			if c.Type == kind {
				return nil
			}
			return []model.Chunk{c}
		})
	}
	double := func(kind model.ChunkType) broken {
		return filter(func(c model.Chunk) []model.Chunk {
			if c.Type == kind {
				return []model.Chunk{c, c}
			}
			return []model.Chunk{c}
		})
	}
	for name, tc := range map[string]struct {
		check, scenario string
		fault           broken
	}{
		"no stop":            {"answer", "text", drop(model.ChunkStop)},
		"two stops":          {"answer", "text", double(model.ChunkStop)},
		"two usages":         {"answer", "text", double(model.ChunkUsage)},
		"no usage":           {"answer", "text", drop(model.ChunkUsage)},
		"no reasoning":       {"answer", "reasoning", drop(model.ChunkReasoning)},
		"no signature":       {"answer", "signed reasoning before a call", drop(model.ChunkSignature)},
		"half the arguments": {"answer", "interleaved calls", drop(model.ChunkArgs)},
		"text twice":         {"answer", "text", double(model.ChunkText)},
		"usage after the stop": {"answer", "text", filter(func(c model.Chunk) []model.Chunk {
			if c.Type == model.ChunkStop {
				return []model.Chunk{c, {Type: model.ChunkUsage}}
			}
			return []model.Chunk{c}
		})},
		"another code": {"error", "error overloaded", onError(func(err error, yield func(model.Chunk, error) bool) {
			yield(model.Chunk{}, &rouse.Error{Code: rouse.CodeProvider, Err: err})
		})},
		"no RetryAfter": {"error", "asked to wait", onError(func(_ error, yield func(model.Chunk, error) bool) {
			yield(model.Chunk{}, &rouse.Error{Code: rouse.CodeRateLimited})
		})},
		"a plain error": {"error", "error provider", onError(func(_ error, yield func(model.Chunk, error) bool) {
			yield(model.Chunk{}, errors.New("boom"))
		})},
		"a chunk with the error": {"error", "cut in the text", onError(func(err error, yield func(model.Chunk, error) bool) {
			yield(say("x"), err)
		})},
		"a chunk after the error": {"error", "cut in the text", onError(func(err error, yield func(model.Chunk, error) bool) {
			_ = yield(model.Chunk{}, err) && yield(say("x"), nil)
		})},
		"a stop instead of a cut": {"error", "cut in a call", onError(func(_ error, yield func(model.Chunk, error) bool) {
			yield(finish(model.StopEnd), nil)
		})},
		"a limit within a call is taken for an answer": {"error", "out of tokens in a call", onError(func(_ error, yield func(model.Chunk, error) bool) {
			yield(finish(model.StopLength), nil)
		})},
		"a limit before the arguments is taken for a call": {"error", "out of tokens before the arguments", onError(func(_ error, yield func(model.Chunk, error) bool) {
			yield(finish(model.StopTools), nil)
		})},
		"the error is swallowed": {"error", "error provider", onError(func(error, func(model.Chunk, error) bool) {})},
		"the partial text is held back": {"error", "cut in the text", func(s *Script, ctx context.Context, req *model.Request, yield func(model.Chunk, error) bool) {
			if a, err := model.Collect(s.Stream(ctx, req)); err != nil {
				yield(model.Chunk{}, err)
			} else {
				model.Replay(a)(yield)
			}
		}},
		"an answer in spite of a cancellation": {"cancelled before", "text", func(s *Script, ctx context.Context, req *model.Request, yield func(model.Chunk, error) bool) {
			s.Stream(context.WithoutCancel(ctx), req)(yield)
		}},
		"another code for a cancellation": {"cancelled in silence", "silent in the text", onError(func(err error, yield func(model.Chunk, error) bool) {
			yield(model.Chunk{}, &rouse.Error{Code: rouse.CodeProvider, Err: err})
		})},
		"an error after a cancellation that is not its": {"cancel", "text", onError(func(err error, yield func(model.Chunk, error) bool) {
			yield(model.Chunk{}, &rouse.Error{Code: rouse.CodeStreamCut, Err: err})
		})},
		"an append to the messages": {"request", "text", func(s *Script, ctx context.Context, req *model.Request, yield func(model.Chunk, error) bool) {
			r := *req
			r.Messages = append(r.Messages, rouse.UserText("and then?"))
			s.Stream(ctx, &r)(yield)
		}},
		"a change of a message": {"request", "text", func(s *Script, ctx context.Context, req *model.Request, yield func(model.Chunk, error) bool) {
			req.Messages[1].Parts[1].Call.Args = "{}"
			s.Stream(ctx, req)(yield)
		}},
		"a second range sends nothing": {"lazy", "text", func() broken {
			var once sync.Once
			return func(s *Script, ctx context.Context, req *model.Request, yield func(model.Chunk, error) bool) {
				once.Do(func() { s.Stream(ctx, req)(yield) })
			}
		}()},
		"answers of two streams are mixed": {"concurrent", "long text", func() broken {
			var mu sync.Mutex
			open := 0
			return func(s *Script, ctx context.Context, req *model.Request, yield func(model.Chunk, error) bool) {
				mu.Lock()
				open++
				second := open > 1
				mu.Unlock()
				if second {
					_ = yield(say("x"), nil) && yield(finish(model.StopEnd), nil)
					return
				}
				s.Stream(ctx, req)(yield)
			}
		}()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := try(t, tc.check, tc.scenario, func(s *Script) model.Model { return s }); err != nil {
				t.Fatalf("the check fails without the fault: %v", err)
			}
			if err := try(t, tc.check, tc.scenario, func(s *Script) model.Model { return brokenModel{s, tc.fault} }); err == nil {
				t.Error("the fault was not found")
			}
		})
	}
}

// eager sends before it is ranged over.
type eager struct{ *Script }

func (m eager) Stream(ctx context.Context, req *model.Request) iter.Seq2[model.Chunk, error] {
	a, err := model.Collect(m.Script.Stream(ctx, req))
	return func(yield func(model.Chunk, error) bool) {
		if err != nil {
			yield(model.Chunk{}, err)
			return
		}
		model.Replay(a)(yield)
	}
}

func TestTheSuiteFindsAnEagerModel(t *testing.T) {
	t.Parallel()
	if err := try(t, "lazy", "text", func(s *Script) model.Model { return eager{s} }); err == nil || !strings.Contains(err.Error(), "Stream itself") {
		t.Errorf("got %v", err)
	}
}

// It must not be parallel: it counts goroutines.
func TestTheSuiteFindsLeaks(t *testing.T) {
	release := make(chan struct{})
	leaked := watchGoroutines()
	err := try(t, "break", "text", func(s *Script) model.Model {
		return brokenModel{s, func(s *Script, ctx context.Context, req *model.Request, yield func(model.Chunk, error) bool) {
			go func() { <-release }()
			s.Stream(ctx, req)(yield)
		}}
	})
	if err != nil {
		t.Fatal(err)
	}
	if leaked() == nil {
		t.Error("the leak was not found")
	}
	close(release)
	if err := leaked(); err != nil {
		t.Errorf("still there: %v", err)
	}
}

func TestWithinGivesUp(t *testing.T) {
	t.Parallel()
	if err := within(func() error { return errors.New("boom") }); err == nil {
		t.Error("the error is lost")
	}
}

func TestScenarios(t *testing.T) {
	t.Parallel()
	all := Scenarios(Everything())
	seen := map[string]bool{}
	for _, s := range all {
		if seen[s.Name] {
			t.Errorf("two scenarios are called %q", s.Name)
		}
		seen[s.Name] = true
	}
	for _, s := range Scenarios(Can{}) {
		if slices.ContainsFunc(s.Chunks, func(c model.Chunk) bool {
			return c.Type != model.ChunkText && c.Type != model.ChunkUsage && c.Type != model.ChunkStop
		}) {
			t.Errorf("%q needs more than text", s.Name)
		}
	}
}

// try runs one check of one scenario.
func try(t *testing.T, checkName, scenario string, wrap func(*Script) model.Model) error {
	t.Helper()
	scenarios, all := Scenarios(Everything()), checks()
	s := slices.IndexFunc(scenarios, func(s Scenario) bool { return s.Name == scenario })
	c := slices.IndexFunc(all, func(c check) bool { return c.name == checkName })
	if s < 0 || c < 0 || !all[c].applies(scenarios[s]) {
		t.Fatalf("there is no check %q of %q", checkName, scenario)
	}
	script := NewScript(scenarios[s].Turn())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return all[c].run(trial{Subject{wrap(script), script.Sent}, scenarios[s], Everything()}, ctx)
}
