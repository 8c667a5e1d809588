package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/internal/safecall"
)

// Config is what a Set is made of.
type Config struct {
	// Tools are offered in this order. Nil entries are refused.
	Tools []Tool
	// Limits bound every call. The zero value means the defaults.
	Limits Limits
}

// Set is an immutable set of tools with compiled schemas. The zero value is an
// empty set. It is safe for concurrent use.
//
// Names are compared byte by byte: two that differ in case are two tools.
type Set struct {
	limits Limits
	order  []*entry
	byName map[string]*entry
}

type entry struct {
	tool   Tool
	spec   Spec // as Spec returned it when the set was made, with the schema filled in
	schema *schema
}

// NewSet returns the set of ts with the default limits; see New.
func NewSet(ts ...Tool) (*Set, error) { return New(Config{Tools: ts}) }

// New makes a set. The error has the code CodeInvalid and joins every problem of
// every tool, each with the tool's name and the place: an empty or repeated name,
// a schema that does not compile or is not of type object, retries of an Unsafe
// tool, a negative limit, an unknown effect.
//
// Spec is called once per tool, here. Schemas are compiled here and never again,
// and nothing that they refer to is loaded from a file or a network.
func New(c Config) (*Set, error) {
	s := &Set{limits: c.Limits.withDefaults(), byName: make(map[string]*entry, len(c.Tools))}
	var errs []error
	for _, l := range []struct {
		name  string
		value int
	}{{"args", c.Limits.Args}, {"depth", c.Limits.Depth}, {"number", c.Limits.Number}, {"result", c.Limits.Result}} {
		if l.value < 0 {
			errs = append(errs, fmt.Errorf("/limits/%s: must not be negative", l.name))
		}
	}
	for i, t := range c.Tools {
		e, problems := newEntry(t)
		for _, p := range problems {
			errs = append(errs, fmt.Errorf("tool %d (%s): %w", i, quote(e.spec.Name), p))
		}
		if _, twice := s.byName[e.spec.Name]; twice && e.spec.Name != "" {
			errs = append(errs, fmt.Errorf("tool %d (%s): /name: another tool has the same name", i, quote(e.spec.Name)))
		}
		s.byName[e.spec.Name] = e
		s.order = append(s.order, e)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, &rouse.Error{Code: rouse.CodeInvalid, Op: "tool set", Message: "the set of tools cannot be made", Err: err}
	}
	return s, nil
}

func newEntry(t Tool) (*entry, []error) {
	e := &entry{tool: t}
	if t == nil {
		return e, []error{errors.New("the tool is nil")}
	}
	err := safecall.Do(context.Background(), "tool spec", func(context.Context) error {
		e.spec = t.Spec()
		return nil
	})
	if err != nil {
		return e, []error{err}
	}
	errs := specProblems(e.spec)
	if c, ok := t.(interface{ compiled() *schema }); ok {
		e.schema = c.compiled()
	} else {
		// the compiler reads what others wrote
		err = safecall.Do(context.Background(), "compile schema", func(context.Context) error {
			e.schema, err = compile(slices.Clone(e.spec.Schema))
			return err
		})
		if err != nil {
			return e, append(errs, fmt.Errorf("/schema: %w", err))
		}
	}
	e.spec.Schema = e.schema.raw
	return e, errs
}

// specProblems are those of everything but the schema.
func specProblems(s Spec) []error {
	var errs []error
	if s.Name == "" {
		errs = append(errs, errors.New("/name: must not be empty"))
	}
	if s.Name != valid([]byte(s.Name)) || s.Description != valid([]byte(s.Description)) {
		errs = append(errs, errors.New("/name and /description: must be valid UTF-8"))
	}
	switch s.Effect {
	case Unsafe, Idempotent, ReadOnly:
	default:
		errs = append(errs, fmt.Errorf("/effect: %s is none of \"\", \"idempotent\", \"read_only\"", quote(string(s.Effect))))
	}
	switch {
	case s.Retries < 0:
		errs = append(errs, errors.New("/retries: must not be negative"))
	case s.Retries > 0 && s.Effect == Unsafe:
		errs = append(errs, errors.New("/retries: an Unsafe tool is never called twice, so it cannot have retries"))
	}
	if s.MaxOutput < 0 {
		errs = append(errs, errors.New("/max_output: must not be negative"))
	}
	return errs
}

// With returns a set that has ts too, after the tools of s. The errors are those of New.
func (s *Set) With(ts ...Tool) (*Set, error) {
	tools := make([]Tool, 0, len(s.order)+len(ts))
	for _, e := range s.order {
		tools = append(tools, e.tool)
	}
	return New(Config{Tools: append(tools, ts...), Limits: s.limits})
}

// Without returns a set that lacks the named tools; unknown names do not matter.
func (s *Set) Without(names ...string) *Set {
	out := &Set{limits: s.limits, byName: make(map[string]*entry, len(s.order))}
	for _, e := range s.order {
		if !slices.Contains(names, e.spec.Name) {
			out.order = append(out.order, e)
			out.byName[e.spec.Name] = e
		}
	}
	return out
}

// Names returns the names in the set's order.
func (s *Set) Names() []string {
	out := make([]string, len(s.order))
	for i, e := range s.order {
		out[i] = e.spec.Name
	}
	return out
}

// Quiet reports whether the tool of that name never reports progress, so that
// nobody needs to listen while it runs. A tool says so with a method Quiet() bool;
// one made by Func is quiet.
func (s *Set) Quiet(name string) bool {
	e, ok := s.byName[name]
	if !ok {
		return true // it will not run
	}
	q, ok := e.tool.(interface{ Quiet() bool })
	return ok && q.Quiet()
}

// Lookup returns the tool of that name.
func (s *Set) Lookup(name string) (Tool, bool) {
	e, ok := s.byName[name]
	if !ok {
		return nil, false
	}
	return e.tool, true
}

// Spec returns the specification of the tool of that name, its schema filled in.
// Schema must not be changed.
func (s *Set) Spec(name string) (Spec, bool) {
	e, ok := s.byName[name]
	if !ok {
		return Spec{}, false
	}
	return e.spec, true
}

// Specs returns the specifications in the set's order. Every Schema is set and
// must not be changed.
func (s *Set) Specs() []Spec {
	out := make([]Spec, len(s.order))
	for i, e := range s.order {
		out[i] = e.spec
	}
	return out
}

// Check validates the argument text of a call and returns it as the tool would
// get it, without running anything. What stands for "no arguments" (nothing,
// white space, null) becomes {}; everything else is returned byte for byte.
//
// The text must be one JSON object, in valid UTF-8, that matches the tool's
// schema. A name that occurs twice in one object is refused, since two readers
// may take different values for it.
//
// The error's message and hint are written for the model. Codes: CodeNotFound
// for an unknown tool, CodeTooLarge for a limit, otherwise CodeInvalid.
func (s *Set) Check(name, args string) (json.RawMessage, *rouse.Error) {
	e, ok := s.byName[name]
	if !ok {
		return nil, s.unknown(name, nil)
	}
	return e.schema.check(name, args, s.limits.withDefaults())
}

// unknown tells a model that there is no such tool, and which there are.
func (s *Set) unknown(name string, hidden func(string) bool) *rouse.Error {
	var names []string
	for _, e := range s.order {
		if hidden == nil || !hidden(e.spec.Name) {
			names = append(names, e.spec.Name)
		}
	}
	hint := "There are no tools to call."
	if len(names) > 0 {
		hint = "The tools are: " + quoteAll(names) + "."
	}
	return &rouse.Error{
		Code: rouse.CodeNotFound, Op: "tool " + shorten(name),
		Message: "there is no tool " + quote(name), Hint: hint,
	}
}
