package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/model"
)

// maxCalls bounds the tool calls of one answer.
const maxCalls = 512

// call is one tool call that is being put together.
type call struct {
	id      string // ours: unique in the answer
	theirs  string // the provider's, empty when it gave none
	index   int    // the provider's, -1 when it gave none
	name    string // on the wire
	args    []byte
	number  int // position in the answer, once begun
	started bool
}

// answer puts the pieces of one answer together: which delta belongs to which
// call, and whether what has arrived at the end is whole. A piece that could
// belong to two calls begins a call of its own or makes the answer fail; it is
// never guessed into another call's arguments.
type answer struct {
	calls  []call
	last   int // index of the call that was touched last
	begun  int // calls that have started
	real   map[string]string
	limit  int // bytes of arguments
	usage  rouse.Usage
	finish string
	said   bool // there was text, reasoning or a call
}

func (a *answer) reset(real map[string]string, limit int) {
	for i := range a.calls {
		a.calls[i] = call{args: a.calls[i].args[:0]}
	}
	*a = answer{calls: a.calls[:0], real: real, limit: limit}
}

// delta takes a piece of a call and returns the call that it belongs to.
func (a *answer) delta(p *piece, id, name, args string) (*call, error) {
	a.said = true
	i := a.find(p, id, name, args)
	if i < 0 {
		if len(a.calls) == maxCalls {
			return nil, &rouse.Error{Code: rouse.CodeProviderOutput, Op: op, Message: fmt.Sprintf("the answer has more than %d tool calls", maxCalls)}
		}
		i = len(a.calls)
		if i < cap(a.calls) {
			a.calls = a.calls[:i+1]
		} else {
			a.calls = append(a.calls, call{})
		}
		a.calls[i] = call{args: a.calls[i].args[:0], index: p.index}
	}
	a.last = i
	c := &a.calls[i]
	if c.theirs == "" && !c.started {
		c.theirs = strings.Clone(id) // ids and names outlive the batch: copies of their own
	}
	if c.name == "" {
		c.name = strings.Clone(name)
	}
	if c.index < 0 {
		c.index = p.index
	}
	if len(c.args)+len(args) > a.limit {
		return nil, &rouse.Error{Code: rouse.CodeTooLarge, Op: op, Message: fmt.Sprintf("the arguments of call %q are larger than MaxEventBytes", c.name)}
	}
	c.args = append(c.args, args...)
	return c, nil
}

// find returns the position of the call that a piece continues, -1 for a new one.
func (a *answer) find(p *piece, id, name, args string) int {
	i := a.candidate(p, id, name)
	if i < 0 {
		return -1
	}
	c := &a.calls[i]
	other := id != "" && c.theirs != "" && id != c.theirs
	switch {
	case name == "":
		// a call needs a name, so this continues one, though servers exist that
		// make a new id for every delta; two ids without any name are two calls
		if other && c.name == "" {
			return -1
		}
	case c.name == "":
		if other {
			return -1
		}
	case other, name != c.name, p.index < 0 && id == "":
		return -1
	case closed(c.args) && opens(args):
		return -1 // a second object after a whole one is a second call
	}
	return i
}

// candidate returns the position of the call at the piece's index: of several, of
// its id, or the latest; for a piece without index that of its id, or the last one.
func (a *answer) candidate(p *piece, id, name string) int {
	if p.whole || len(a.calls) == 0 {
		return -1
	}
	same := func(c *call) bool { return id != "" && c.theirs == id }
	if p.index >= 0 {
		if i := a.latest(func(c *call) bool { return c.index == p.index && same(c) }); i >= 0 {
			return i
		}
		if i := a.latest(func(c *call) bool { return c.index == p.index }); i >= 0 || name != "" {
			return i
		}
		if i := a.latest(same); i >= 0 {
			return i
		}
		return a.only(func(c *call) bool { return c.index < 0 })
	}
	if i := a.latest(same); i >= 0 || id != "" && name != "" {
		return i
	}
	return a.last
}

func (a *answer) latest(is func(*call) bool) int {
	for i := len(a.calls) - 1; i >= 0; i-- {
		if is(&a.calls[i]) {
			return i
		}
	}
	return -1
}

// only is latest when no other call is like it, else -1.
func (a *answer) only(is func(*call) bool) int {
	i := a.latest(is)
	for j := range max(i, 0) {
		if is(&a.calls[j]) {
			return -1
		}
	}
	return i
}

func opens(args string) bool {
	for i := range len(args) {
		switch args[i] {
		case ' ', '\t', '\n', '\r':
		default:
			return args[i] == '{'
		}
	}
	return false
}

// closed reports whether args is one whole JSON object.
func closed(args []byte) bool {
	args = bytes.TrimSpace(args)
	return len(args) > 1 && args[0] == '{' && args[len(args)-1] == '}' && json.Valid(args)
}

// cutOff reports whether args is the beginning of a JSON text but not all of it.
func cutOff(args []byte) bool {
	var v json.RawMessage
	return errors.Is(json.NewDecoder(bytes.NewReader(args)).Decode(&v), io.ErrUnexpectedEOF)
}

// start gives a call its place in the answer and an id that no other call has.
func (a *answer) start(c *call) model.Chunk {
	c.number, c.started = a.begun, true
	a.begun++
	c.id = c.theirs
	if c.id == "" {
		c.id = "call_" + strconv.Itoa(c.number)
	}
	for base, n := c.id, 2; a.taken(c); n++ {
		c.id = base + "_" + strconv.Itoa(n)
	}
	name := c.name
	if r, ok := a.real[name]; ok {
		name = r
	}
	return model.Chunk{Type: model.ChunkCall, Index: c.number, ID: c.id, Name: name}
}

func (a *answer) taken(c *call) bool {
	for i := range a.calls {
		if o := &a.calls[i]; o != c && o.started && o.id == c.id {
			return true
		}
	}
	return false
}

// end checks that the answer is whole and returns why it ended. marked tells that
// the provider said that the stream is over, which a cut connection does not.
func (a *answer) end(marked bool) (model.StopReason, error) {
	stop, err := stopReason(a.finish)
	if err != nil {
		return "", err
	}
	if a.finish == "" && (!marked || !a.said) {
		return "", a.cut("the stream ended without a finish reason")
	}
	for i := range a.calls {
		c := &a.calls[i]
		switch {
		case c.name == "":
			return "", &rouse.Error{Code: rouse.CodeProviderOutput, Op: op, Message: "the answer has a tool call without a name"}
		case stop == model.StopLength && !closed(c.args):
			return "", cutError(fmt.Sprintf("the limit of output tokens was reached (finish reason %q) within the arguments of call %q", a.finish, c.name),
				"raise the limit of output tokens")
		case (stop == model.StopFiltered || a.finish == "") && !closed(c.args):
			return "", cutError(fmt.Sprintf("the answer ended (finish reason %q) within the arguments of call %q", a.finish, c.name), "")
		case cutOff(c.args):
			return "", cutError(fmt.Sprintf("the provider reported finish reason %q, but the arguments of call %q are cut off", a.finish, c.name), "")
		}
	}
	switch {
	case len(a.calls) > 0 && (stop == model.StopEnd || stop == model.StopSequence):
		return model.StopTools, nil
	case len(a.calls) == 0 && stop == model.StopTools:
		return model.StopEnd, nil
	}
	return stop, nil
}

// cut is the error for an answer that broke off; it says in which call, if any.
func (a *answer) cut(how string) error {
	if n := len(a.calls); n > 0 && !closed(a.calls[n-1].args) {
		how += fmt.Sprintf(", within the arguments of call %q", a.calls[n-1].name)
	}
	return cutError(how, "")
}

func cutError(message, hint string) error {
	return &rouse.Error{Code: rouse.CodeStreamCut, Op: op, Message: message, Hint: hint}
}

// stopReason maps a finish reason; one that nobody knows counts as the end.
func stopReason(finish string) (model.StopReason, error) {
	switch finish {
	case "length", "max_tokens", "model_length", "max_output_tokens", "MAX_TOKENS":
		return model.StopLength, nil
	case "tool_calls", "tool_call", "tool_use", "function_call":
		return model.StopTools, nil
	case "content_filter", "content_filtered", "safety", "SAFETY", "sensitive", "refusal":
		return model.StopFiltered, nil
	case "stop_sequence":
		return model.StopSequence, nil
	case "insufficient_system_resource":
		return "", &rouse.Error{Code: rouse.CodeOverloaded, Op: op, Message: "the provider ran out of resources within the answer"}
	case "error", "abort", "aborted", "network_error":
		return "", &rouse.Error{Code: rouse.CodeProvider, Op: op, Message: fmt.Sprintf("the provider gave up within the answer (finish reason %q)", finish)}
	}
	return model.StopEnd, nil
}
