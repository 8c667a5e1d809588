package rouse

import (
	"errors"
	"net/http"
	"time"
)

// Code classifies an Error. The set is closed; Codes lists it.
type Code string

// The codes. Info tells what each means on every surface.
const (
	CodeInvalid          Code = "invalid"          // the caller sent something that cannot be used
	CodeUsage            Code = "usage"            // the command line was wrong
	CodeNotFound         Code = "not_found"        // there is no such thing, or it is somebody else's
	CodeConflict         Code = "conflict"         // somebody else changed it first
	CodeBusy             Code = "busy"             // the thread has an open run
	CodeFenced           Code = "fenced"           // another owner has taken the run over
	CodeUnauthorized     Code = "unauthorized"     // who calls is not known
	CodeDenied           Code = "denied"           // who calls, or what is called, is not allowed
	CodeUncertain        Code = "uncertain"        // an unsafe call may or may not have happened
	CodeBudget           Code = "budget"           // a limit that was set for the run is used up
	CodeTooLarge         Code = "too_large"        // more bytes than a named limit
	CodeCanceled         Code = "canceled"         // somebody asked to stop
	CodeTimeout          Code = "timeout"          // it took longer than a named limit
	CodeRateLimited      Code = "rate_limited"     // the provider asks to come back later
	CodeOverloaded       Code = "overloaded"       // the provider, or our own limit, has no room now
	CodeProvider         Code = "provider"         // the provider failed or could not be reached
	CodeProviderAuth     Code = "provider_auth"    // the provider refused our key
	CodeProviderRefused  Code = "provider_refused" // the provider refused the request itself
	CodeProviderOutput   Code = "provider_output"  // the provider answered something that cannot be read
	CodeStreamCut        Code = "stream_cut"       // the answer broke off
	CodeContextOverflow  Code = "context_overflow" // the request does not fit into the model's window
	CodeToolFailed       Code = "tool_failed"      // a tool reported an error
	CodeUnsupported      Code = "unsupported"      // it exists but cannot do this
	CodeNondeterministic Code = "nondeterministic" // a replay went another way than the journal
	CodeCorrupt          Code = "corrupt"          // stored data cannot be read
	CodeSchemaVersion    Code = "schema_version"   // stored data is of another version
	CodeStorage          Code = "storage"          // the store failed: disk full, no permission, I/O error
	CodeInternal         Code = "internal"         // a fault of ours, or a panic in user code
)

// Error is the one error type that crosses package borders.
//
// Message is for whoever asked: it never holds secrets or stack traces. Err is
// for the operator and may hold more. Hint says what to do about it.
type Error struct {
	Code    Code
	Op      string // what was being done, for example "model openai" or "store.commit"
	Message string
	Hint    string
	// RetryAfter is how long a provider asked to wait; zero when it did not say.
	RetryAfter time.Duration
	Err        error
}

// Error returns Op, Message and the cause, separated by colons.
func (e *Error) Error() string {
	s := e.Message
	if s == "" {
		s = string(e.Code)
	}
	if e.Op != "" {
		s = e.Op + ": " + s
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is an *Error with the same code and nothing else
// set, so that errors.Is(err, &rouse.Error{Code: rouse.CodeBusy}) matches on the code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code && t.Op == "" && t.Message == "" && t.Hint == "" && t.RetryAfter == 0 && t.Err == nil
}

// CodeOf returns the code of the first Error in err's chain, CodeInternal for
// any other error and "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return CodeInternal
}

// CodeInfo is what a code means on each surface.
type CodeInfo struct {
	HTTP int // status code
	// JSONRPC is the error number for the protocols that speak JSON-RPC 2.0 (MCP,
	// A2A, ACP); numbers from -32000 down are the implementation-defined range.
	JSONRPC int
	// Span is the status of a trace span: "ok", "error" or "unset".
	Span string
	// Retryable reports that the same request may succeed later, unchanged.
	Retryable bool
	// Exit is the exit status of a command that ends with this code.
	Exit int
}

// codeTable is data, not state: nothing writes it.
var codeTable = map[Code]CodeInfo{
	CodeInvalid:          {http.StatusUnprocessableEntity, -32602, "error", false, 1},
	CodeUsage:            {http.StatusBadRequest, -32600, "error", false, 2},
	CodeNotFound:         {http.StatusNotFound, -32001, "error", false, 1},
	CodeConflict:         {http.StatusConflict, -32002, "error", true, 1},
	CodeBusy:             {http.StatusConflict, -32003, "error", true, 1},
	CodeFenced:           {http.StatusConflict, -32004, "error", false, 1},
	CodeUnauthorized:     {http.StatusUnauthorized, -32005, "error", false, 1},
	CodeDenied:           {http.StatusForbidden, -32006, "error", false, 1},
	CodeUncertain:        {http.StatusConflict, -32007, "error", false, 1},
	CodeBudget:           {http.StatusTooManyRequests, -32008, "error", false, 1},
	CodeTooLarge:         {http.StatusRequestEntityTooLarge, -32009, "error", false, 1},
	CodeCanceled:         {499, -32010, "unset", false, 1},
	CodeTimeout:          {http.StatusGatewayTimeout, -32011, "error", true, 1},
	CodeRateLimited:      {http.StatusTooManyRequests, -32012, "error", true, 1},
	CodeOverloaded:       {http.StatusServiceUnavailable, -32013, "error", true, 1},
	CodeProvider:         {http.StatusBadGateway, -32014, "error", true, 1},
	CodeProviderAuth:     {http.StatusBadGateway, -32015, "error", false, 1},
	CodeProviderRefused:  {http.StatusBadGateway, -32016, "error", false, 1},
	CodeProviderOutput:   {http.StatusBadGateway, -32017, "error", false, 1},
	CodeStreamCut:        {http.StatusBadGateway, -32018, "error", true, 1},
	CodeContextOverflow:  {http.StatusUnprocessableEntity, -32019, "error", false, 1},
	CodeToolFailed:       {http.StatusBadGateway, -32020, "error", false, 1},
	CodeUnsupported:      {http.StatusNotImplemented, -32601, "error", false, 1},
	CodeNondeterministic: {http.StatusConflict, -32021, "error", false, 1},
	CodeCorrupt:          {http.StatusInternalServerError, -32022, "error", false, 1},
	CodeSchemaVersion:    {http.StatusInternalServerError, -32023, "error", false, 1},
	CodeStorage:          {http.StatusInternalServerError, -32024, "error", true, 1},
	CodeInternal:         {http.StatusInternalServerError, -32603, "error", false, 1},
}

// Info returns what c means; an unknown code is treated as CodeInternal.
func (c Code) Info() CodeInfo {
	if i, ok := codeTable[c]; ok {
		return i
	}
	return codeTable[CodeInternal]
}

// Codes returns every code, in no particular order.
func Codes() []Code {
	out := make([]Code, 0, len(codeTable))
	for c := range codeTable {
		out = append(out, c)
	}
	return out
}
