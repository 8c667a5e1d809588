package openai

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/rouse-run/rouse"
)

const (
	maxErrorBody  = 64 << 10 // bytes of a refusal that are read
	maxErrorText  = 600      // bytes of a provider's words that an error repeats
	maxRetryAfter = 24 * time.Hour
	minSecret     = 3 // shorter values are not kept out of errors: they are parts of words
)

// sendError is the error for a request that got no response.
func (m *Model) sendError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return contextError(ctx)
	}
	e := &rouse.Error{Code: rouse.CodeProvider, Op: op, Message: "the provider could not be reached", Hint: "check BaseURL and the network", Err: err}
	if isTimeout(err) {
		e.Code, e.Message = rouse.CodeTimeout, "the provider could not be reached in time"
	}
	return m.clean(e)
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

// readError is the error for a response that broke before it said anything.
func readError(err error) error {
	if isTimeout(err) {
		return &rouse.Error{Code: rouse.CodeTimeout, Op: op, Message: "the provider did not answer in time", Err: err}
	}
	return &rouse.Error{Code: rouse.CodeStreamCut, Op: op, Message: "the connection broke before the answer began", Err: err}
}

// complaint is what a provider says about a failure, in any of the usual shapes.
type complaint struct {
	message, kind string
	status        int // when the text holds one
}

// read takes the complaint from a JSON text; the zero value when there is none.
func (c *complaint) read(data []byte) {
	if l := list(data); len(l) > 0 {
		data = l[0]
	}
	top := object(data)
	f := top
	if inner := object(top["error"]); inner != nil {
		f = inner
	}
	c.message = f.str("message")
	for _, name := range []string{"error", "detail", "msg", "error_description"} {
		if c.message == "" {
			c.message = f.str(name)
		}
	}
	if c.message == "" && top.has("detail") {
		c.message = string(top["detail"]) // a validator's list of problems
	}
	// routers wrap the words of the provider behind them
	if raw := object(f["metadata"]).str("raw"); raw != "" {
		c.message += ": " + raw
	}
	c.kind = strings.ToLower(f.str("type") + " " + f.str("code") + " " + f.str("status") + " " + f.str("error_type") + " " + top.str("error_type"))
	for _, name := range []string{"code", "status", "status_code"} {
		if n, err := strconv.Atoi(f.str(name)); err == nil && n >= 400 && n <= 599 && c.status == 0 {
			c.status = n
		}
	}
}

// answerError is the error for an event that reports a failure. The caller of
// Stream sees it after clean.
func answerError(data []byte) error {
	var c complaint
	c.read(data)
	e := &rouse.Error{Op: op, Message: "the provider failed within the answer"}
	if c.message != "" {
		e.Message += ": " + c.message
	}
	e.Code, e.Hint = c.classify(c.status)
	return e
}

// statusError is the error for a response that is not a success.
func (m *Model) statusError(ctx context.Context, resp *http.Response) error {
	data, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // what could not be read is not needed
	if ctx.Err() != nil {
		return contextError(ctx)
	}
	var c complaint
	c.read(data)
	if c.message == "" && isText(data) {
		c.message = string(data)
	}
	e := &rouse.Error{
		Op:         op,
		Message:    fmt.Sprintf("the provider answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode)),
		RetryAfter: retryAfter(resp.Header, time.Now()),
	}
	if c.message != "" {
		e.Message += ": " + c.message
	}
	e.Code, e.Hint = c.classify(resp.StatusCode)
	if id := resp.Header.Get("X-Request-Id"); id != "" {
		e.Err = errors.New("request id " + shorten(id))
	}
	return m.clean(e)
}

// isText reports whether a body can be shown: not empty, not markup, not JSON
// that held no message.
func isText(data []byte) bool {
	s := strings.TrimSpace(string(data))
	return s != "" && !strings.ContainsAny(s[:1], "<{[")
}

// classify maps an HTTP status, 0 for none, and the provider's words to a code.
func (c *complaint) classify(status int) (rouse.Code, string) {
	if status == 0 {
		return c.classifyKind()
	}
	switch {
	case status == http.StatusTooManyRequests:
		if strings.Contains(c.kind, "insufficient_quota") {
			return rouse.CodeRateLimited, "the account has no quota left"
		}
		return rouse.CodeRateLimited, ""
	case status == http.StatusServiceUnavailable || status == 529:
		return rouse.CodeOverloaded, ""
	case status == http.StatusRequestTimeout || status == http.StatusGatewayTimeout:
		return rouse.CodeTimeout, ""
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return rouse.CodeProviderAuth, "check the API key and what it may use"
	case status == http.StatusPaymentRequired:
		return rouse.CodeProviderAuth, "the account has no credit left"
	case status == http.StatusNotFound:
		return rouse.CodeProviderRefused, "check BaseURL and the model's name"
	case status == http.StatusRequestEntityTooLarge || status < 500 && c.overflow():
		return rouse.CodeContextOverflow, ""
	case status >= 500:
		return rouse.CodeProvider, ""
	case status >= 300 && status < 400:
		return rouse.CodeProviderRefused, "BaseURL redirects; set it to where it leads"
	}
	return rouse.CodeProviderRefused, ""
}

func (c *complaint) classifyKind() (rouse.Code, string) {
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(c.kind, w) })
	}
	switch {
	case c.overflow():
		return rouse.CodeContextOverflow, ""
	case has("rate_limit", "resource_exhausted", "too_many_requests", "insufficient_quota"):
		return rouse.CodeRateLimited, ""
	case has("overloaded", "unavailable", "capacity"):
		return rouse.CodeOverloaded, ""
	case has("timeout", "deadline"):
		return rouse.CodeTimeout, ""
	case has("authentication", "permission", "invalid_api_key", "unauthorized"):
		return rouse.CodeProviderAuth, "check the API key and what it may use"
	case has("invalid_request", "invalid_argument", "badrequest", "bad_request", "not_found", "content_filter", "content_policy"):
		return rouse.CodeProviderRefused, ""
	}
	return rouse.CodeProvider, ""
}

// overflow reports whether the provider says that the request is too long for
// the model's window.
func (c *complaint) overflow() bool {
	text := strings.ToLower(c.kind + " " + c.message)
	return slices.ContainsFunc([]string{
		"context_length_exceeded", "context length", "context window", "context size", "context_window", "exceed_context",
		"prompt is too long", "prompt too long", "input is too long", "input length", "too many input tokens",
		"maximum number of input tokens", "reduce the length of the messages", "max_model_len",
	}, func(phrase string) bool { return strings.Contains(text, phrase) })
}

// retryAfter reads how long a provider asks to wait: milliseconds, seconds, or
// an HTTP date, which is compared with the response's own date when it has one.
func retryAfter(h http.Header, now time.Time) time.Duration {
	wait := func(v string, unit time.Duration) (time.Duration, bool) {
		n, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
		if err != nil || n != n {
			return 0, false
		}
		return time.Duration(min(max(n, 0), float64(maxRetryAfter/unit)) * float64(unit)), true
	}
	if d, ok := wait(h.Get("Retry-After-Ms"), time.Millisecond); ok {
		return d
	}
	v := h.Get("Retry-After")
	if d, ok := wait(v, time.Second); ok {
		return d
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return min(max(at.Sub(now), 0), maxRetryAfter)
}

// secretsOf lists what must not appear in an error: the key and the values of
// headers and of the URL that carry secrets, as they are and as they are written
// in URLs and in basic authentication. Longer ones stand first.
func secretsOf(key string, h http.Header, u *url.URL) []string {
	all := []string{key}
	for name, values := range h {
		n := strings.ToLower(name)
		if slices.ContainsFunc([]string{"auth", "key", "token", "secret", "cookie", "password"}, func(w string) bool { return strings.Contains(n, w) }) {
			for _, v := range values {
				all = append(all, v)
				if _, bare, ok := strings.Cut(v, " "); ok {
					all = append(all, strings.TrimSpace(bare))
				}
			}
		}
	}
	for name, values := range u.Query() {
		if n := strings.ToLower(name); strings.Contains(n, "key") || strings.Contains(n, "token") {
			all = append(all, values...)
		}
	}
	if p, ok := u.User.Password(); ok {
		all = append(all, p)
	}
	for _, s := range slices.Clone(all) {
		all = append(all, url.QueryEscape(s), url.PathEscape(s), base64.StdEncoding.EncodeToString([]byte(s)), strings.Trim(strconv.Quote(s), `"`))
	}
	all = slices.DeleteFunc(all, func(s string) bool { return len(s) < minSecret })
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	return slices.Compact(all)
}

// keyShape matches what looks like somebody's key, whole or half hidden.
var keyShape = regexp.MustCompile(`\b(sk|pk|gsk|xai|key)-[A-Za-z0-9_*.-]{12,}`)

const redacted = "[redacted]"

// scrub removes secrets from a text.
func (m *Model) scrub(s string) string {
	for _, secret := range m.secrets {
		s = strings.ReplaceAll(s, secret, redacted)
	}
	return keyShape.ReplaceAllString(s, redacted)
}

// clean makes an error fit to leave the package: without secrets, of bounded
// length, on one line. A cause whose text holds a secret is replaced by its
// scrubbed text, which cuts the chain there.
func (m *Model) clean(err error) error {
	var e *rouse.Error
	if !errors.As(err, &e) {
		e = &rouse.Error{Code: rouse.CodeProvider, Op: op, Message: "the answer could not be read", Err: err}
	}
	c := *e
	c.Message = shorten(m.scrub(c.Message))
	if c.Err != nil {
		if text := c.Err.Error(); m.scrub(text) != text || len(text) > maxErrorText {
			c.Err = errors.New(shorten(m.scrub(text)))
		}
	}
	return &c
}

// shorten returns s as one line of valid UTF-8 of at most about maxErrorText bytes.
func shorten(s string) string {
	cut := len(s) > maxErrorText
	if cut {
		s = s[:maxErrorText]
	}
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	s = strings.Join(strings.Fields(s), " ")
	if cut {
		s += "..."
	}
	return s
}
