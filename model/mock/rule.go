package mock

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/internal/safecall"
	"github.com/rouse-run/rouse/model"
)

// Func computes a result from a request. It may return anything that
// Rule.Generator accepts as a constant; nil without an error is an error. The
// request is a copy; all functions of one call share it. A panic is an error of
// the call. It must return soon after ctx ends.
type Func func(ctx context.Context, req *model.Request) (any, error)

// Rule says what is answered to which request.
type Rule struct {
	// Name appears in errors. Default: "rules[i]".
	Name string
	// Prompt says when the rule applies; it is required. It is one of
	//   - a string, contained in the text of the last user message; not empty,
	//   - a *regexp.Regexp that matches this text,
	//   - a func(*model.Request) bool, which must not change the request. Any
	//     matches every request.
	Prompt any
	// Generator is the result. It is one of
	//   - a string: the text of the answer,
	//   - a Result: full control of calls, reasoning, usage, stop reason and faults,
	//   - a rouse.Message: the answer as it is, in the order of its parts,
	//   - a Func, a func(*model.Request) any, or a func(*model.Request) string:
	//     called for each request,
	//   - any other value: its JSON is the text of the answer.
	Generator any
	// Sequence gives successive results, each as Generator does; it stands instead
	// of Generator. When it is used up the last one repeats, or with
	// Config.Strict the call fails with CodeNotFound.
	Sequence []any
	// Times is how often the rule applies; after that, later rules are tried.
	// Default: without end.
	Times int
}

// Any is a Prompt that matches every request.
func Any(*model.Request) bool { return true }

// rule is a Rule that was checked, with constants compiled.
type rule struct {
	name    string
	match   func(prompt string, req *model.Request) bool
	results []generator
	endless bool // results has one entry that is no sequence
	times   int
	used    int // guarded by GPT.mu
}

// generator is a constant answer, or fn.
type generator struct {
	fn       Func
	constant answer
}

func compileRule(i int, in *Rule, ps *problems) rule {
	path := fmt.Sprintf("Rules[%d]", i)
	r := rule{name: in.Name, times: in.Times}
	if r.name == "" {
		r.name = fmt.Sprintf("rules[%d]", i)
	}
	if in.Times < 0 {
		ps.addf(path+".Times", "must not be negative")
	}
	r.match = compilePrompt(path+".Prompt", in.Prompt, ps)
	switch {
	case in.Generator != nil && in.Sequence != nil:
		ps.addf(path, "Generator and Sequence exclude each other")
	case in.Sequence != nil && len(in.Sequence) == 0:
		ps.addf(path+".Sequence", "is empty")
	case in.Sequence != nil:
		for k, v := range in.Sequence {
			r.results = append(r.results, compileGenerator(fmt.Sprintf("%s.Sequence[%d]", path, k), v, ps))
		}
	default:
		r.endless = true
		r.results = []generator{compileGenerator(path+".Generator", in.Generator, ps)}
	}
	return r
}

func compilePrompt(path string, p any, ps *problems) func(string, *model.Request) bool {
	switch p := p.(type) {
	case nil:
		ps.addf(path, "is required")
	case string:
		if p == "" {
			ps.addf(path, "is empty and would match everything; use mock.Any if that is meant")
		}
		return func(prompt string, _ *model.Request) bool { return strings.Contains(prompt, p) }
	case *regexp.Regexp:
		if p == nil {
			ps.addf(path, "is a nil *regexp.Regexp")
			break
		}
		return func(prompt string, _ *model.Request) bool { return p.MatchString(prompt) }
	case func(*model.Request) bool:
		if p == nil {
			ps.addf(path, "is a nil function")
			break
		}
		return func(_ string, req *model.Request) bool { return p(req) }
	default:
		ps.addf(path, "is a %T; a string, a *regexp.Regexp or a func(*model.Request) bool is needed", p)
	}
	return nil
}

func compileGenerator(path string, v any, ps *problems) generator {
	fn, isFunc := asFunc(v)
	if isFunc {
		if fn == nil {
			ps.addf(path, "is a nil function")
		}
		return generator{fn: fn}
	}
	a, bad := compileValue(v)
	for _, b := range bad {
		ps.addf(path+b.path, "%s", b.text)
	}
	return generator{constant: a}
}

// asFunc returns v as a Func, nil when it is a nil function of a known type.
func asFunc(v any) (fn Func, ok bool) {
	switch f := v.(type) {
	case Func:
		return f, true
	case func(context.Context, *model.Request) (any, error):
		return f, true
	case func(*model.Request) any:
		if f == nil {
			return nil, true
		}
		return func(_ context.Context, req *model.Request) (any, error) { return f(req), nil }, true
	case func(*model.Request) string:
		if f == nil {
			return nil, true
		}
		return func(_ context.Context, req *model.Request) (any, error) { return f(req), nil }, true
	}
	return nil, false
}

// result returns what the rule answers when it is used for the n-th time, from 0.
func (r *rule) result(ctx context.Context, n int, strict bool, req *model.Request) (answer, error) {
	if strict && !r.endless && n >= len(r.results) {
		return answer{}, &rouse.Error{Code: rouse.CodeNotFound, Op: op + " " + r.name,
			Message: fmt.Sprintf("the sequence of %d results is used up, asked by the prompt %s", len(r.results), quoted(lastUserText(req))),
			Hint:    "add a result to the sequence, or leave mock.Config.Strict unset to repeat the last one"}
	}
	gen := r.results[min(n, len(r.results)-1)]
	if gen.fn == nil {
		return gen.constant, nil
	}
	var v any
	err := safecall.Do(ctx, op+" "+r.name+".Generator", func(ctx context.Context) (err error) {
		v, err = gen.fn(ctx, req)
		return err
	})
	if err != nil {
		return answer{}, r.failed(ctx, err)
	}
	if _, isFunc := asFunc(v); isFunc {
		return answer{}, &rouse.Error{Code: rouse.CodeInvalid, Op: op + " " + r.name, Message: "the generator returned a function"}
	}
	var a answer
	var ps problems
	err = safecall.Do(ctx, op+" "+r.name+" result", func(context.Context) error { // encodes the user's value
		var bad []problem
		a, bad = compileValue(v)
		for _, b := range bad {
			ps.addf(strings.TrimPrefix(b.path, "."), "%s", b.text)
		}
		return ps.err(op + " " + r.name + " result")
	})
	return a, err
}

// failed gives the error of a generator a code, unless it has one.
func (r *rule) failed(ctx context.Context, err error) error {
	var e *rouse.Error
	switch {
	case asError(err, &e):
		return err
	case ctx.Err() != nil:
		return ended(ctx)
	default:
		return &rouse.Error{Code: rouse.CodeInvalid, Op: op + " " + r.name, Message: "the generator failed", Err: err}
	}
}
