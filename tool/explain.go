package tool

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/rouse-run/rouse/internal/jsonx"
)

// violations is the text that a model gets for arguments that do not match.
func violations(name string, list []string) string {
	var s strings.Builder
	fmt.Fprintf(&s, "the arguments for the tool %s do not match its schema:", quote(name))
	for i, p := range list {
		if i == maxViolationsShown {
			fmt.Fprintf(&s, "\n- and %d more", len(list)-i)
			break
		}
		s.WriteString("\n- " + p)
	}
	return s.String()
}

// problems lists the leaves of e, each with the place (a JSON Pointer, RFC 6901),
// what was expected and what was found in v; sorted and without repetition.
func problems(e *jsonschema.ValidationError, v any) []string {
	var out []string
	collect(e, v, &out)
	slices.Sort(out)
	return slices.Compact(out)
}

func collect(e *jsonschema.ValidationError, v any, out *[]string) {
	if want, ok := onlyTypes(e); ok {
		*out = append(*out, place(e)+expected(want, v, e.InstanceLocation))
		return
	}
	if name, ok := e.ErrorKind.(*kind.PropertyNames); ok {
		// the library's location of this kind is not reliable: it shares its memory
		why := problems(&jsonschema.ValidationError{ErrorKind: &kind.Group{}, Causes: e.Causes}, name.Property)
		*out = append(*out, "the property name "+quote(name.Property)+" is not allowed: "+strings.Join(why, "; "))
		return
	}
	if len(e.Causes) > 0 {
		for _, c := range e.Causes {
			collect(c, v, out)
		}
		return
	}
	*out = append(*out, place(e)+explain(e, v))
}

// onlyTypes merges alternatives that all fail on the type of the same value.
func onlyTypes(e *jsonschema.ValidationError) ([]string, bool) {
	switch e.ErrorKind.(type) {
	case *kind.AnyOf, *kind.OneOf:
	default:
		return nil, false
	}
	var want []string
	for _, c := range e.Causes {
		for len(c.Causes) == 1 {
			c = c.Causes[0]
		}
		t, ok := c.ErrorKind.(*kind.Type)
		if !ok || len(c.InstanceLocation) != len(e.InstanceLocation) {
			return nil, false
		}
		want = append(want, t.Want...)
	}
	return want, len(want) > 0
}

func place(e *jsonschema.ValidationError) string {
	if len(e.InstanceLocation) == 0 {
		return ""
	}
	var s strings.Builder
	for _, tok := range e.InstanceLocation {
		s.WriteByte('/')
		s.WriteString(strings.ReplaceAll(strings.ReplaceAll(tok, "~", "~0"), "/", "~1"))
	}
	text, _ := Bound([]byte(s.String()), 4*maxValueShown)
	return text + ": "
}

func expected(want []string, v any, at []string) string {
	return "expected " + strings.Join(want, " or ") + ", found " + found(v, at)
}

// explain says in the words of a caller what one failed keyword means.
func explain(e *jsonschema.ValidationError, v any) string {
	at := e.InstanceLocation
	switch k := e.ErrorKind.(type) {
	case *kind.Type:
		return expected(k.Want, v, at)
	case *kind.Required:
		if len(k.Missing) == 1 {
			return "the required property " + quote(k.Missing[0]) + " is missing"
		}
		return "the required properties " + quoteAll(k.Missing) + " are missing"
	case *kind.AdditionalProperties:
		slices.Sort(k.Properties)
		return "there is no property " + quoteAll(k.Properties)
	case *kind.FalseSchema:
		return "nothing is allowed here"
	case *kind.Enum:
		return "expected one of " + display(k.Want, 8*maxValueShown) + ", found " + found(v, at)
	case *kind.Const:
		return "expected " + display(k.Want, maxValueShown) + ", found " + found(v, at)
	case *kind.Minimum:
		return "expected at least " + exact(k.Want) + ", found " + found(v, at)
	case *kind.Maximum:
		return "expected at most " + exact(k.Want) + ", found " + found(v, at)
	case *kind.ExclusiveMinimum:
		return "expected more than " + exact(k.Want) + ", found " + found(v, at)
	case *kind.ExclusiveMaximum:
		return "expected less than " + exact(k.Want) + ", found " + found(v, at)
	case *kind.MultipleOf:
		return "expected a multiple of " + exact(k.Want) + ", found " + found(v, at)
	case *kind.MinLength:
		return fmt.Sprintf("expected at least %d characters, found %d", k.Want, k.Got)
	case *kind.MaxLength:
		return fmt.Sprintf("expected at most %d characters, found %d", k.Want, k.Got)
	case *kind.MinItems:
		return fmt.Sprintf("expected at least %d items, found %d", k.Want, k.Got)
	case *kind.MaxItems:
		return fmt.Sprintf("expected at most %d items, found %d", k.Want, k.Got)
	case *kind.MinProperties:
		return fmt.Sprintf("expected at least %d properties, found %d", k.Want, k.Got)
	case *kind.MaxProperties:
		return fmt.Sprintf("expected at most %d properties, found %d", k.Want, k.Got)
	case *kind.Pattern:
		return "expected a text that matches the pattern " + quote(k.Want) + ", found " + found(v, at)
	case *kind.Format:
		return "expected a text of the format " + quote(k.Want) + ", found " + found(v, at)
	default:
		text, _ := Bound([]byte(e.ErrorKind.LocalizedString(message.NewPrinter(language.English))), 8*maxValueShown)
		return text
	}
}

// found describes the value at the place: its type and, when it is short, itself.
func found(v any, at []string) string {
	for _, tok := range at {
		switch c := v.(type) {
		case map[string]any:
			v = c[tok]
		case []any:
			i, err := strconv.Atoi(tok)
			if err != nil || i < 0 || i >= len(c) {
				return "something else"
			}
			v = c[i]
		}
	}
	switch c := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean " + strconv.FormatBool(c)
	case json.Number:
		return "number " + display(c, maxValueShown)
	case string:
		return "string " + quote(c)
	case []any:
		return "array"
	default:
		return "object"
	}
}

// display is v as bounded JSON.
func display(v any, max int) string {
	b, err := marshal(v)
	if err != nil {
		return "another value"
	}
	text, _ := Bound(b, max)
	return text
}

// exact writes r without rounding.
func exact(r *big.Rat) string {
	prec, _ := r.FloatPrec() // exact: the number was written in decimal
	return shorten(r.FloatString(prec))
}

// quote is s, bounded, as a JSON string.
func quote(s string) string { return string(jsonx.AppendString(nil, shorten(s))) }

// shorten bounds a name or a value that is shown within a sentence.
func shorten(s string) string {
	text, _ := Bound([]byte(s), maxValueShown)
	return text
}

// quoteAll joins the quoted list, bounded.
func quoteAll(list []string) string {
	var s strings.Builder
	for i, v := range list {
		q := quote(v)
		if s.Len()+len(q) > maxNamesShown {
			fmt.Fprintf(&s, " and %d more", len(list)-i)
			break
		}
		if i > 0 {
			s.WriteString(", ")
		}
		s.WriteString(q)
	}
	return s.String()
}
