package mock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/model"
)

// Break says how a connection ends before its answer does.
type Break string

// The ways to end early. Where is said by Fault.AfterBytes and Fault.AfterChunks;
// without them it is before the first byte of the response.
const (
	BreakReset Break = "reset" // the connection is reset (RST)
	BreakClose Break = "close" // the connection is closed (FIN), the body left unfinished
	BreakEnd   Break = "end"   // the body ends in good order, as if nothing were missing
	BreakHang  Break = "hang"  // nothing more comes until the client gives up
)

// Fault is what goes wrong with one answer. Faults that do not exclude each
// other may be combined; a fault that cannot happen to the result it belongs to
// is an error, never ignored. The zero value is no fault.
type Fault struct {
	// Status is an HTTP status from 400 to 599 that is answered instead.
	Status int
	// RetryAfter is sent with Status as a Retry-After header, in whole seconds,
	// rounded up. Zero sends none.
	RetryAfter time.Duration
	// ErrorCode is the "code" of the error object sent with Status, for example
	// "context_length_exceeded".
	ErrorCode string

	// FirstByte is how long nothing comes, not even a status.
	FirstByte time.Duration
	// Piece is the pause before each piece of a streamed answer but the first. An
	// answer that is not streamed waits for the sum before its first byte.
	Piece time.Duration

	// Break ends the connection early.
	Break Break
	// AfterBytes is how many bytes of the body are sent before the break.
	AfterBytes int
	// AfterChunks is how many pieces (of text, reasoning, or a call) are sent
	// before the break or before MalformedJSON. An answer that is not streamed is
	// cut in its middle.
	AfterChunks int
	// MalformedJSON sends a piece whose JSON is broken.
	MalformedJSON bool

	// CutArgs sends only the first half of the first call's arguments. Like all
	// arguments that begin a JSON text and do not end it, this is CodeStreamCut at
	// the end in process.
	CutArgs bool
	// BadArgs sends arguments of the first call that are not JSON.
	BadArgs bool
	// UnknownTool is a name that replaces the first call's.
	UnknownTool string
	// DuplicateID gives the second call the id of the first. In process, where ids
	// are unique by contract, the second appears with a suffix, as decoders do it.
	DuplicateID bool
	// EmptyChoices sends no choice at all instead of the content; CodeStreamCut in
	// process.
	EmptyChoices bool
	// EmptyChunk sends a piece without choices before a streamed answer, as some
	// services do; a client must ignore it. It means nothing to an answer that is
	// not streamed.
	EmptyChunk bool
	// Finish is the finish reason on the wire, whatever the content is. In process
	// it is read as clients do: an unknown one means the end, and calls decide
	// between StopEnd and StopTools.
	Finish string
	// NoFinish leaves out the finish reason, and of a stream the final [DONE] as
	// well; CodeStreamCut in process.
	NoFinish bool
	// NoUsage leaves usage out though it was asked for.
	NoUsage bool
	// Usage is reported as it is, however absurd, in process too. A client of the
	// wire may drop it.
	Usage *rouse.Usage
}

// check returns what is wrong with f for an answer with these calls.
func (f *Fault) check(calls []rouse.ToolCall) (bad []problem) {
	say := func(cond bool, field, text string) {
		if cond {
			bad = append(bad, problem{".Fault." + field, text})
		}
	}
	content := f.CutArgs || f.BadArgs || f.UnknownTool != "" || f.DuplicateID || f.EmptyChoices ||
		f.EmptyChunk || f.Finish != "" || f.NoFinish || f.NoUsage || f.Usage != nil || f.MalformedJSON
	breaks := []Break{"", BreakReset, BreakClose, BreakEnd, BreakHang}
	say(f.Status != 0 && (f.Status < 400 || f.Status > 599), "Status", "must be from 400 to 599")
	say(f.Status != 0 && (content || f.Break != "" || f.Piece != 0), "Status", "excludes every fault of an answer")
	say(f.Status == 0 && (f.RetryAfter != 0 || f.ErrorCode != ""), "Status", "is needed by RetryAfter and ErrorCode")
	say(f.RetryAfter < 0, "RetryAfter", "must not be negative")
	say(f.FirstByte < 0, "FirstByte", "must not be negative")
	say(f.Piece < 0, "Piece", "must not be negative")
	say(!slices.Contains(breaks, f.Break), "Break", fmt.Sprintf("%q is none of reset, close, end, hang", f.Break))
	say(f.AfterBytes < 0, "AfterBytes", "must not be negative")
	say(f.AfterChunks < 0, "AfterChunks", "must not be negative")
	say(f.AfterBytes != 0 && f.AfterChunks != 0, "AfterBytes", "and AfterChunks exclude each other")
	say(f.AfterBytes != 0 && f.Break == "", "AfterBytes", "needs Break")
	say(f.AfterChunks != 0 && f.Break == "" && !f.MalformedJSON, "AfterChunks", "needs Break or MalformedJSON")
	say(f.MalformedJSON && f.Break != "", "MalformedJSON", "and Break exclude each other")
	say(f.EmptyChoices && (f.Finish != "" || f.NoFinish || f.MalformedJSON || f.AfterChunks != 0), "EmptyChoices", "leaves no content for another fault")
	say(f.Finish != "" && f.NoFinish, "Finish", "and NoFinish exclude each other")
	say(f.Usage != nil && f.NoUsage, "Usage", "and NoUsage exclude each other")
	say(f.CutArgs && f.BadArgs, "CutArgs", "and BadArgs exclude each other")
	say(f.DuplicateID && len(calls) < 2, "DuplicateID", "needs two calls")
	say((f.BadArgs || f.UnknownTool != "" || f.CutArgs) && len(calls) == 0, "CutArgs, BadArgs, UnknownTool", "need a call")
	say(f.CutArgs && len(calls) > 0 && utf8.RuneCountInString(calls[0].Args) < 2, "CutArgs", "needs arguments of two characters at least")
	say(!utf8.ValidString(f.UnknownTool+f.Finish+f.ErrorCode), "UnknownTool, Finish, ErrorCode", "must be valid UTF-8")
	return bad
}

// apply returns the parts with the faults of calls done to a copy. Call ids are
// set; the duplicate id is left to the wire.
func (f *Fault) apply(parts []rouse.Part) []rouse.Part {
	if !f.CutArgs && !f.BadArgs && f.UnknownTool == "" {
		return parts
	}
	parts = rouse.Message{Parts: parts}.Clone().Parts
	i := slices.IndexFunc(parts, func(p rouse.Part) bool { return p.Type == rouse.PartToolCall })
	c := parts[i].Call
	switch {
	case f.CutArgs:
		r := []rune(c.Args)
		c.Args = string(r[:len(r)/2])
	case f.BadArgs:
		c.Args = "not JSON: " + c.Args
	}
	if f.UnknownTool != "" {
		c.Name = f.UnknownTool
	}
	return parts
}

// retryAfter returns the whole seconds that a client is told.
func (f *Fault) retryAfter() time.Duration {
	return (f.RetryAfter + time.Second - 1).Truncate(time.Second)
}

// statusError is what a client makes of the status of f.
func statusError(f *Fault) error {
	code := rouse.CodeProvider
	switch {
	case f.ErrorCode == "context_length_exceeded" || f.Status == http.StatusRequestEntityTooLarge:
		code = rouse.CodeContextOverflow
	case f.Status == http.StatusUnauthorized || f.Status == http.StatusForbidden:
		code = rouse.CodeProviderAuth
	case f.Status == http.StatusTooManyRequests:
		code = rouse.CodeRateLimited
	case f.Status == http.StatusServiceUnavailable || f.Status == 529:
		code = rouse.CodeOverloaded
	case f.Status == http.StatusRequestTimeout || f.Status == http.StatusGatewayTimeout:
		code = rouse.CodeTimeout
	case f.Status < 500:
		code = rouse.CodeProviderRefused
	}
	return &rouse.Error{Code: code, Op: op, Message: fmt.Sprintf("the provider answered status %d", f.Status), RetryAfter: f.retryAfter()}
}

// netError is what a transport reports when the connection breaks in this way;
// nil for BreakEnd and for no break.
func (b Break) netError(started bool) error {
	switch {
	case b == BreakReset:
		return &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	case b == BreakClose && started:
		return io.ErrUnexpectedEOF
	case b == BreakClose:
		return io.EOF
	default:
		return nil
	}
}

// directError is what a client makes of the break; nil when there is none.
// started tells that a part of the response had arrived. A hang ends with ctx.
func (b Break) directError(ctx context.Context, started bool) error {
	switch {
	case b == "":
		return nil
	case b == BreakHang:
		<-ctx.Done()
		return ended(ctx)
	case started || b == BreakEnd:
		return &rouse.Error{Code: rouse.CodeStreamCut, Op: op, Message: "the answer broke off", Err: b.netError(true)}
	default:
		return &rouse.Error{Code: rouse.CodeProvider, Op: op, Message: "the provider could not be reached", Err: b.netError(false)}
	}
}

// wireStop is the finish reason of the wire for r.
func wireStop(r model.StopReason) string {
	switch r {
	case model.StopTools:
		return "tool_calls"
	case model.StopLength:
		return "length"
	case model.StopFiltered:
		return "content_filter"
	default:
		return "stop"
	}
}

// modelStop is what a client makes of a finish reason. One that nobody knows
// counts as the end.
func modelStop(finish string) model.StopReason {
	switch finish {
	case "tool_calls", "function_call":
		return model.StopTools
	case "length":
		return model.StopLength
	case "content_filter":
		return model.StopFiltered
	default:
		return model.StopEnd
	}
}

// cutOff reports whether args begins a JSON text and does not end it.
func cutOff(args string) bool {
	var v json.RawMessage
	return errors.Is(json.NewDecoder(strings.NewReader(args)).Decode(&v), io.ErrUnexpectedEOF)
}
