package mock

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/model"
)

// Result is one answer in full. The zero value is an empty answer.
type Result struct {
	// Reasoning, Text and Calls are the answer's content, in this order. Signature
	// belongs to Reasoning; on the wire it is an entry of "reasoning_details".
	Reasoning string
	Signature string
	Text      string
	Calls     []Call
	// Parts is the content instead, where the order matters: parts of the types
	// text, reasoning and tool call. A call without an ID gets one.
	Parts []rouse.Part
	// Stop is why the answer ends. Default: StopEnd. As on every wire, calls turn
	// StopEnd into StopTools, and StopTools without calls is StopEnd. The wire
	// cannot tell StopSequence from StopEnd.
	Stop model.StopReason
	// Usage is what is reported. Default: one token per four characters. The wire
	// carries Input, Output, CacheRead and Reasoning.
	Usage *rouse.Usage
	// Fault is what goes wrong. Default: nothing.
	Fault Fault
}

// Call is a scripted tool call.
type Call struct {
	// ID is the provider's id of the call. Default: derived from seed and request.
	ID string
	// Name is the tool's name, offered or not: refusing is the caller's part.
	Name string
	// Args are the arguments: a string or a json.RawMessage exactly as written,
	// valid or not; nil for {}; any other value as its JSON.
	Args any
}

// Calls returns a result that asks for these calls in parallel.
func Calls(calls ...Call) Result { return Result{Calls: calls} }

// answer is a Result that was checked and needs nothing but ids.
type answer struct {
	parts []rouse.Part // never changed
	usage *rouse.Usage // never changed
	stop  model.StopReason
	fault Fault
	seed  [2]uint64
}

// compileValue makes an answer of anything that is not a function.
func compileValue(v any) (answer, []problem) {
	switch v := v.(type) {
	case nil:
		return answer{}, []problem{{text: "is nil; there is no answer by default"}}
	case string:
		return compileResult(&Result{Text: v})
	case Result:
		return compileResult(&v)
	case *Result:
		if v == nil {
			return answer{}, []problem{{text: "is a nil *Result"}}
		}
		return compileResult(v)
	case rouse.Message:
		if v.Role != rouse.RoleAssistant && v.Role != "" {
			return answer{}, []problem{{".Role", fmt.Sprintf("is %q; a model answers as %q", v.Role, rouse.RoleAssistant)}}
		}
		return compileResult(&Result{Parts: v.Parts})
	case Call:
		return compileResult(&Result{Calls: []Call{v}})
	case []Call:
		return compileResult(&Result{Calls: v})
	case error:
		return answer{}, []problem{{text: "is an error; return it from a Func, or use Result.Fault"}}
	}
	s, err := jsonText(v)
	if err != nil {
		return answer{}, []problem{{text: "has no JSON: " + err.Error()}}
	}
	return compileResult(&Result{Text: s})
}

func compileResult(r *Result) (answer, []problem) {
	var bad []problem
	a := answer{stop: r.Stop, fault: r.Fault}
	if r.Usage != nil {
		u := *r.Usage
		a.usage = &u
	}
	if r.Fault.Usage != nil {
		u := *r.Fault.Usage
		a.usage, a.fault.Usage = &u, nil
	}
	flat := r.Text != "" || r.Reasoning != "" || r.Signature != "" || len(r.Calls) > 0
	if flat && len(r.Parts) > 0 {
		bad = append(bad, problem{".Parts", "excludes Reasoning, Signature, Text and Calls"})
	}
	parts := slices.Clone(r.Parts)
	if flat {
		var callsBad []problem
		parts, callsBad = flatParts(r)
		bad = append(bad, callsBad...)
	}
	a.parts = rouse.Message{Parts: parts}.Clone().Parts
	bad = append(bad, checkParts(a.parts)...)
	calls := rouse.Message{Parts: a.parts}.Calls()
	bad = append(bad, r.Fault.check(calls)...)
	switch r.Stop {
	case "":
		a.stop = model.StopEnd
		if len(calls) > 0 {
			a.stop = model.StopTools
		}
	case model.StopEnd, model.StopTools, model.StopLength, model.StopFiltered, model.StopSequence:
	default:
		bad = append(bad, problem{".Stop", fmt.Sprintf("%q is not a stop reason; use Fault.Finish for a wrong one", r.Stop)})
	}
	return a, bad
}

func flatParts(r *Result) (parts []rouse.Part, bad []problem) {
	if r.Reasoning != "" || r.Signature != "" {
		parts = append(parts, rouse.Reasoning(r.Reasoning, r.Signature))
	}
	if r.Text != "" {
		parts = append(parts, rouse.Text(r.Text))
	}
	for i, c := range r.Calls {
		args, err := argsText(c.Args)
		if err != nil {
			bad = append(bad, problem{fmt.Sprintf(".Calls[%d].Args", i), "has no JSON: " + err.Error()})
		}
		parts = append(parts, rouse.CallPart(rouse.ToolCall{ID: c.ID, Name: c.Name, Args: args}))
	}
	return parts, bad
}

func argsText(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "{}", nil
	case string:
		return v, nil
	case json.RawMessage:
		return string(v), nil
	default:
		return jsonText(v)
	}
}

// jsonText returns the JSON of v with HTML characters as they are.
func jsonText(v any) (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "", err
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

func checkParts(parts []rouse.Part) (bad []problem) {
	ids := map[string]bool{}
	for i := range parts {
		p, path := &parts[i], fmt.Sprintf(".parts[%d]", i)
		texts := []string{p.Text, p.Signature}
		switch {
		case p.Type == rouse.PartText || p.Type == rouse.PartReasoning:
		case p.Type == rouse.PartToolCall && p.Call != nil:
			texts = append(texts, p.Call.ID, p.Call.Name, p.Call.Args)
			if p.Call.Name == "" {
				bad = append(bad, problem{path, "is a call without a tool's name"})
			}
			if p.Call.ID != "" && ids[p.Call.ID] {
				bad = append(bad, problem{path, "repeats a call id; use Fault.DuplicateID for that"})
			}
			ids[p.Call.ID] = true
		default:
			bad = append(bad, problem{path, fmt.Sprintf("has the type %q, which a model cannot answer with", p.Type)})
		}
		for _, s := range texts {
			if !utf8.ValidString(s) {
				bad = append(bad, problem{path, "is not valid UTF-8, which no wire can carry"})
				break
			}
		}
	}
	return bad
}
