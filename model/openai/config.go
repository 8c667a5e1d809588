package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/model"
)

const op = "model openai"

// The defaults of a Config.
const (
	DefaultBaseURL       = "https://api.openai.com/v1"
	DefaultMaxEventBytes = 16 << 20
)

// Reasoning says how reasoning of earlier answers is sent back.
type Reasoning string

// The ways. A part's signature always travels in reasoning_details, beside the
// text; text and signature go back byte for byte.
const (
	// ReasoningAuto is the default: chosen by the host. ReasoningNone for
	// api.openai.com, Azure and api.mistral.ai, ReasoningPlain for api.groq.com and
	// api.cerebras.ai, ReasoningDetails for openrouter.ai, and ReasoningContent for
	// everyone else, since servers that do not use the member ignore it.
	ReasoningAuto    Reasoning = ""
	ReasoningNone    Reasoning = "none"              // left out
	ReasoningContent Reasoning = "reasoning_content" // DeepSeek, vLLM, llama.cpp
	ReasoningPlain   Reasoning = "reasoning"         // Groq, Cerebras, Ollama
	ReasoningDetails Reasoning = "reasoning_details" // OpenRouter: everything in blocks
)

// Config describes an endpoint that speaks the chat completions protocol.
type Config struct {
	// BaseURL is what "/chat/completions" is appended to, in front of a query if
	// there is one. Default DefaultBaseURL.
	BaseURL string
	// APIKey is sent in AuthHeader; white space around it is dropped. Empty for
	// servers that want none. It never appears in an error.
	APIKey string
	// AuthHeader carries the key. "Authorization" sends it as a bearer token, any
	// other header sends it bare. Default "Authorization", for Azure "api-key".
	AuthHeader string
	// Model is used by requests that name none. No default.
	Model string
	// Transport sends the requests; it must honour their context. Redirects are not
	// followed. Default: a NewTransport of this Model's own.
	Transport http.RoundTripper
	// Headers are sent with every request. Values of headers whose names suggest
	// a secret are kept out of errors like the key.
	Headers http.Header
	// Organization and Project are OpenAI's headers of these names. Default: not sent.
	Organization, Project string
	// MaxEventBytes bounds one event of the stream, a whole answer that is not
	// streamed, and the arguments of one call. Default DefaultMaxEventBytes.
	MaxEventBytes int
	// OmitUsage leaves out stream_options, for servers that refuse it; most then
	// do not report usage. Default: usage is asked for.
	OmitUsage bool
	// MaxTokensField is the member for Params.MaxOutput. Default
	// "max_completion_tokens" for OpenAI and Azure, "max_tokens" for everyone else.
	MaxTokensField string
	// Reasoning says how reasoning of earlier answers is sent back. Default ReasoningAuto.
	Reasoning Reasoning
	// StrictOutput asks the provider to enforce Request.Output's schema strictly,
	// which OpenAI allows for a subset of JSON Schema only. Default: not asked.
	StrictOutput bool
	// Extra are further members of every request body, such as a router's
	// preferences. Members that this package writes itself are refused.
	Extra map[string]json.RawMessage
	// Window is the context window in tokens, for models that the table of
	// Capabilities does not know or knows otherwise. Default: the table's.
	Window int
	// Capabilities replaces the table by which a model's name tells what it can do.
	Capabilities func(model string) model.Capabilities
}

// host tells the well-known endpoints apart.
func azure(host string) bool {
	return strings.HasSuffix(host, ".openai.azure.com") || strings.HasSuffix(host, ".cognitiveservices.azure.com")
}

func (c Config) withDefaults(host string) Config {
	openAI := host == "api.openai.com" || azure(host)
	if c.AuthHeader == "" {
		c.AuthHeader = "Authorization"
		if azure(host) {
			c.AuthHeader = "api-key"
		}
	}
	if c.Transport == nil {
		c.Transport = NewTransport()
	}
	if c.MaxEventBytes == 0 {
		c.MaxEventBytes = DefaultMaxEventBytes
	}
	if c.MaxTokensField == "" {
		c.MaxTokensField = "max_tokens"
		if openAI {
			c.MaxTokensField = "max_completion_tokens"
		}
	}
	if c.Reasoning == ReasoningAuto {
		switch {
		case openAI, host == "api.mistral.ai":
			c.Reasoning = ReasoningNone
		case host == "api.groq.com", host == "api.cerebras.ai":
			c.Reasoning = ReasoningPlain
		case host == "openrouter.ai":
			c.Reasoning = ReasoningDetails
		default:
			c.Reasoning = ReasoningContent
		}
	}
	return c
}

// ownMembers are the members of a request body that Extra may not set.
func ownMembers() []string {
	return []string{
		"model", "stream", "stream_options", "tools", "tool_choice", "response_format", "messages", "temperature",
		"top_p", "max_tokens", "max_completion_tokens", "stop", "seed", "reasoning_effort", "n",
	}
}

func (c Config) validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !headerValue(c.APIKey) {
		bad("APIKey: holds a character that no header may hold")
	}
	for _, h := range []string{c.Organization, c.Project} {
		if !headerValue(h) {
			bad("Organization, Project: hold a character that no header may hold")
		}
	}
	for name, values := range c.Headers {
		if name == "" || strings.ContainsAny(name, " \t\r\n:") || !headerValue(strings.Join(values, "")) {
			bad("Headers: %q is not a header", name)
		}
	}
	if c.MaxEventBytes < 0 {
		bad("MaxEventBytes: is negative")
	}
	if c.Window < 0 {
		bad("Window: is negative")
	}
	switch c.Reasoning {
	case ReasoningAuto, ReasoningNone, ReasoningContent, ReasoningPlain, ReasoningDetails:
	default:
		bad("Reasoning: %q is not one of the ways", c.Reasoning)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Extra)) {
		if slices.Contains(ownMembers(), name) {
			bad("Extra: %q is set by the request", name)
		} else if !json.Valid(c.Extra[name]) {
			bad("Extra: the value of %q is not JSON", name)
		}
	}
	return errors.Join(errs...)
}

func headerValue(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

// endpoint returns the URL of the completions endpoint. Errors do not repeat the
// text, which may hold a password.
func endpoint(base string) (*url.URL, error) {
	if base == "" {
		base = DefaultBaseURL
	}
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("BaseURL: is not an absolute http or https URL")
	}
	u.Fragment = ""
	if !strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/chat/completions") {
		u = u.JoinPath("chat", "completions")
	}
	return u, nil
}

// header returns the headers of every request; nobody changes them afterwards.
func (c Config) header() http.Header {
	h := c.Headers.Clone()
	if h == nil {
		h = http.Header{}
	}
	h.Set("Content-Type", "application/json")
	h.Set("Accept", "text/event-stream")
	// net/http takes an empty entry as leave to send again when a kept connection
	// turns out to be closed, and does not send it
	if h.Get("Idempotency-Key") == "" {
		h["Idempotency-Key"] = nil
	}
	if c.Organization != "" {
		h.Set("OpenAI-Organization", c.Organization)
	}
	if c.Project != "" {
		h.Set("OpenAI-Project", c.Project)
	}
	switch {
	case c.APIKey == "":
	case strings.EqualFold(c.AuthHeader, "Authorization"):
		h.Set("Authorization", "Bearer "+c.APIKey)
	default:
		h.Set(c.AuthHeader, c.APIKey)
	}
	return h
}

func invalid(err error) error {
	return &rouse.Error{Code: rouse.CodeInvalid, Op: op, Message: err.Error()}
}

func finite(f *float64) bool { return f == nil || !math.IsNaN(*f) && !math.IsInf(*f, 0) }
