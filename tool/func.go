package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"reflect"
	"time"

	"github.com/rouse-run/rouse"
)

// FuncConfig describes a tool made from a Go function; the fields mean what they
// mean in Spec.
type FuncConfig struct {
	// Name is what the model calls the tool. Required.
	Name string
	// Description tells the model what the tool is for and when to use it.
	Description string
	// Effect says what a second execution would do. Default Unsafe.
	Effect Effect
	// Timeout bounds one attempt. Zero means DefaultTimeout, negative none.
	Timeout time.Duration
	// Retries is how many extra attempts may follow a failed one. Default none;
	// refused for an Unsafe tool.
	Retries int
	// MaxOutput bounds what the model is shown, in bytes. Zero means DefaultMaxOutput.
	MaxOutput int
}

// Func makes a tool from a function whose arguments are described by the Go type
// In, a struct or a map with string keys.
//
// The schema follows from In as encoding/json decodes it:
//   - a property per exported field, named by its json tag; fields of embedded
//     structs belong to the outer object; unknown properties are refused;
//   - omitempty or omitzero makes a property optional, all others are required
//     (those that come through an embedded pointer are optional);
//   - a pointer may be null; time.Time is an RFC 3339 date-time; []byte is base64;
//     a json.Number is a number; any, json.RawMessage and a type with its own
//     UnmarshalJSON may be anything; a type with UnmarshalText is a string;
//   - the tag jsonschema:"text" is the property's description;
//   - the tag enum:"a,b,c" lists what a string or an integer may be, or the
//     elements of a list of them;
//   - a type that contains itself is described once, under $defs.
//
// What cannot be expressed (a channel, a function, a complex number, a map with
// other keys, an interface with methods) is refused with the path of the field.
//
// Fn is called only with arguments that match the schema, even if the tool is
// called without a Set. Numbers are decoded from the model's own digits: into an
// integer they fit exactly or the call fails, within any they are json.Number; a
// float field holds the nearest float. A whole number that a model writes as 2.0
// or 2e3 is accepted for an integer.
//
// A string result is shown as it is, so are []byte, json.RawMessage and Result;
// everything else is encoded as JSON, without escaping HTML.
func Func[In, Out any](c FuncConfig, fn func(ctx context.Context, in In) (Out, error)) (Tool, error) {
	if fn == nil {
		return nil, invalid(c.Name, errors.New("the function is nil"))
	}
	return newFunc(c, true, func(ctx context.Context, _ *Call, in In) (Out, error) { return fn(ctx, in) })
}

// FuncCall is Func for a function that also needs the call: its idempotency key,
// its attempt, or a way to report progress.
func FuncCall[In, Out any](c FuncConfig, fn func(ctx context.Context, call *Call, in In) (Out, error)) (Tool, error) {
	if fn == nil {
		return nil, invalid(c.Name, errors.New("the function is nil"))
	}
	return newFunc(c, false, fn)
}

func newFunc[In, Out any](c FuncConfig, quiet bool, fn func(ctx context.Context, call *Call, in In) (Out, error)) (Tool, error) {
	raw, anything, err := infer(reflect.TypeFor[In]())
	if err != nil {
		return nil, invalid(c.Name, fmt.Errorf("the type of the arguments: %w", err))
	}
	out := reflect.TypeFor[Out]()
	if err := encodable(out, map[reflect.Type]bool{}, out.String()); err != nil {
		return nil, invalid(c.Name, fmt.Errorf("the type of the result: %w", err))
	}
	s, err := compile(raw)
	if err != nil {
		return nil, invalid(c.Name, err)
	}
	t := &funcTool[In, Out]{quiet: quiet, schema: s, anything: anything, fn: fn, spec: Spec{
		Name: c.Name, Description: c.Description, Schema: raw, Effect: c.Effect,
		Timeout: c.Timeout, Retries: c.Retries, MaxOutput: c.MaxOutput,
	}}
	if err := errors.Join(specProblems(t.spec)...); err != nil {
		return nil, invalid(c.Name, err)
	}
	return t, nil
}

func invalid(name string, err error) error {
	return &rouse.Error{Code: rouse.CodeInvalid, Op: "tool " + quote(name), Message: "the tool cannot be made", Err: err}
}

type funcTool[In, Out any] struct {
	quiet    bool
	spec     Spec
	schema   *schema
	anything bool
	fn       func(context.Context, *Call, In) (Out, error)
}

func (t *funcTool[In, Out]) Spec() Spec { return t.spec }

func (t *funcTool[In, Out]) Quiet() bool { return t.quiet }

// compiled lets a Set use the schema without compiling it again.
func (t *funcTool[In, Out]) compiled() *schema { return t.schema }

func (t *funcTool[In, Out]) Call(ctx context.Context, c *Call) (Result, error) {
	args := c.Args
	if !c.checked.holds(t.schema, args) {
		var e *rouse.Error
		if args, e = t.schema.check(t.spec.Name, string(args), Limits{}.withDefaults()); e != nil {
			return Result{}, e
		}
	}
	var in In
	if err := decode(args, &in, t.anything); err != nil {
		return Result{}, &rouse.Error{
			Code: rouse.CodeInvalid, Op: "tool " + shorten(t.spec.Name), Err: err,
			Message: fmt.Sprintf("the arguments for the tool %s cannot be used: %s", quote(t.spec.Name), decodeProblem(err)),
			Hint:    t.schema.hint(),
		}
	}
	out, err := t.fn(ctx, c, in)
	if err != nil {
		return Result{}, err
	}
	return encode(t.spec.Name, out)
}

// decode unmarshals args into v. When a whole number was written with a point or
// an exponent and an integer is wanted, it is written out and tried again.
func decode[In any](args []byte, v *In, anything bool) error {
	err := unmarshal(args, v, anything)
	var te *json.UnmarshalTypeError
	if err == nil || !errors.As(err, &te) {
		return err
	}
	plain, changed := plainIntegers(args)
	if !changed {
		return err
	}
	var again In
	if unmarshal(plain, &again, anything) != nil {
		return err
	}
	*v = again
	return nil
}

func unmarshal(args []byte, v any, anything bool) error {
	if !anything {
		return json.Unmarshal(args, v)
	}
	d := json.NewDecoder(bytes.NewReader(args))
	d.UseNumber()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON value")
	}
	return nil
}

// maxPlain is how long a whole number may be that plainIntegers writes out; no Go
// integer needs half of it.
const maxPlain = 40

// plainIntegers writes out every number in a valid JSON text that is whole but
// has a point or an exponent: the same value in other digits.
func plainIntegers(args []byte) (plain []byte, changed bool) {
	l := lexer{b: args, number: maxPlain}
	done := 0
	for l.i < len(args) {
		switch c := args[l.i]; {
		case c == '"':
			if _, _, ok := l.str(); !ok {
				return nil, false
			}
		case c == '-' || '0' <= c && c <= '9':
			start := l.i
			raw, whole, huge, ok := l.num()
			if !ok {
				return nil, false
			}
			if whole || huge {
				continue
			}
			if r, ok := new(big.Rat).SetString(string(raw)); ok && r.IsInt() {
				plain = append(append(plain, args[done:start]...), r.Num().String()...)
				done, changed = l.i, true
			}
		default:
			l.i++
		}
	}
	return append(plain, args[done:]...), changed
}

func decodeProblem(err error) string {
	var te *json.UnmarshalTypeError
	if errors.As(err, &te) {
		where := te.Field
		if where == "" {
			where = "a value"
		}
		return fmt.Sprintf("%s: a %s does not fit", shorten(where), shorten(te.Value))
	}
	text, _ := Bound([]byte(err.Error()), 4*maxValueShown)
	return text
}

// encode turns what a function returned into a Result.
func encode(name string, out any) (Result, error) {
	switch v := out.(type) {
	case Result:
		return v, nil
	case string:
		return Text(v), nil
	case []byte:
		return Result{Output: v}, nil
	case json.RawMessage:
		return Result{Output: v}, nil
	}
	b, err := marshal(out)
	if err != nil {
		return Result{}, &rouse.Error{
			Code: rouse.CodeToolFailed, Op: "tool " + shorten(name), Err: err,
			Message: "the tool has run, but its result cannot be written as JSON",
		}
	}
	return Result{Output: b}, nil
}

// marshal is json.Marshal without escaping HTML.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
