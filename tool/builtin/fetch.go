package builtin

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/tool"
)

// FetchConfig configures the fetch tool. The zero value reaches the public
// Internet and nothing else.
type FetchConfig struct {
	// MaxBytes bounds a body, both as it is sent and after it has been
	// decompressed; the rest is not read. Default 2 MiB.
	MaxBytes int64
	// MaxRedirects is how many redirects are followed. Default 5.
	MaxRedirects int
	// Timeout bounds one fetch with all its redirects. Default 30 s.
	Timeout time.Duration
	// UserAgent is sent with each request. Default "rouse-fetch".
	UserAgent string
	// RootCAs verifies servers. Default: those of the system.
	RootCAs *x509.CertPool
	// Allow is asked about an address that is refused otherwise, and lets it
	// through by returning true. It must be safe for concurrent use. Default nil:
	// nothing is let through.
	Allow func(netip.Addr) bool
	// Resolver finds the addresses of a name. Default net.DefaultResolver.
	Resolver Resolver
	// Dial connects to a checked "address:port"; it is never given a name.
	// Default: a net.Dialer that gives each address a third of Timeout.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Resolver finds the addresses of a host name; *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

func (c FetchConfig) withDefaults() FetchConfig {
	c.MaxBytes = orDefault(c.MaxBytes, 2<<20)
	c.MaxRedirects = orDefault(c.MaxRedirects, 5)
	c.Timeout = orDefault(c.Timeout, 30*time.Second)
	if c.UserAgent == "" {
		c.UserAgent = "rouse-fetch"
	}
	if c.Resolver == nil {
		c.Resolver = net.DefaultResolver
	}
	if c.Dial == nil {
		c.Dial = (&net.Dialer{Timeout: c.Timeout / 3}).DialContext
	}
	return c
}

const (
	maxURLBytes    = 8 << 10
	maxHeaderBytes = 64 << 10
)

// fetcher is the fetch tool.
type fetcher struct {
	cfg    FetchConfig
	guard  *guard
	client *http.Client
}

func newFetcher(cfg FetchConfig) *fetcher {
	f := &fetcher{cfg: cfg, guard: newGuard()}
	f.client = &http.Client{
		Transport: &http.Transport{
			Proxy:                  nil, // never from the environment: a proxy would connect for us, unchecked
			DialContext:            f.dial,
			TLSClientConfig:        &tls.Config{RootCAs: cfg.RootCAs, MinVersion: tls.VersionTLS12},
			DisableKeepAlives:      true, // no connection outlives its call
			DisableCompression:     true, // decompressed here, with both sides bounded
			MaxResponseHeaderBytes: maxHeaderBytes,
		},
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if len(via) > cfg.MaxRedirects {
				return failure(rouse.CodeTooLarge, "fetch", "there are more than %d redirects", cfg.MaxRedirects)
			}
			return checkURL(req.URL)
		},
	}
	return f
}

type fetchArgs struct {
	URL string `json:"url"`
}

func (f *fetcher) tool() tool.Tool {
	return &function[fetchArgs]{
		spec: tool.Spec{
			Name: "fetch",
			Description: "Gets a public web page or document over http or https and returns its status, type and text. " +
				"Private addresses cannot be reached. Only text is shown.",
			Schema: []byte(`{"type":"object","properties":{` +
				`"url":{"type":"string","minLength":1,"description":"An http or https URL without credentials."}},` +
				`"required":["url"],"additionalProperties":false}`),
			Effect:  tool.ReadOnly,
			Timeout: f.cfg.Timeout + 5*time.Second,
		},
		run: f.run,
	}
}

func (f *fetcher) run(ctx context.Context, _ *tool.Call, a fetchArgs) (string, error) {
	const op = "fetch"
	if len(a.URL) > maxURLBytes {
		return "", failure(rouse.CodeInvalid, op, "the URL has %d bytes, the limit is %d", len(a.URL), maxURLBytes)
	}
	u, err := url.Parse(strings.TrimSpace(a.URL))
	if err != nil {
		return "", failure(rouse.CodeInvalid, op, "this is not a URL")
	}
	if err := checkURL(u); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, f.cfg.Timeout,
		&rouse.Error{Code: rouse.CodeTimeout, Op: op, Message: fmt.Sprintf("there was no complete answer within %s", f.cfg.Timeout)})
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return "", failure(rouse.CodeInvalid, op, "this is not a URL")
	}
	req.Header.Set("User-Agent", f.cfg.UserAgent)
	req.Header.Set("Accept", "text/*, application/json, application/xml;q=0.9, */*;q=0.1")
	req.Header.Set("Accept-Encoding", "gzip")
	resp, err := f.client.Do(req)
	if err != nil {
		return "", fetchError(ctx, err)
	}
	defer release(resp.Body)
	text, err := f.text(resp)
	if err != nil {
		return "", fetchError(ctx, err)
	}
	return text, nil
}

// checkURL refuses what the tool does not speak. It is asked about every hop.
func checkURL(u *url.URL) error {
	const op = "fetch"
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return failure(rouse.CodeDenied, op, "only http and https URLs can be fetched")
	case u.User != nil:
		return failure(rouse.CodeDenied, op, "a URL with credentials is not fetched")
	case u.Opaque != "" || u.Hostname() == "":
		return failure(rouse.CodeInvalid, op, "the URL has no host")
	}
	return nil
}

// dial connects to a host by an address that has been checked. All addresses
// of a name must be good: one that points inwards too is not to be trusted.
func (f *fetcher) dial(ctx context.Context, network, hostport string) (net.Conn, error) {
	const op = "fetch"
	host, port, err := net.SplitHostPort(hostport)
	if err != nil {
		return nil, &rouse.Error{Code: rouse.CodeInvalid, Op: op, Message: "the host cannot be read", Err: err}
	}
	var addrs []netip.Addr
	if a, err := netip.ParseAddr(host); err == nil {
		addrs = []netip.Addr{a}
	} else if addrs, err = f.cfg.Resolver.LookupNetIP(ctx, "ip", host); err != nil || len(addrs) == 0 {
		return nil, &rouse.Error{Code: rouse.CodeToolFailed, Op: op, Message: "the host " + show(host) + " cannot be found", Err: err}
	}
	for i, a := range addrs {
		a = a.Unmap()
		addrs[i] = a
		if !f.guard.public(a) && (f.cfg.Allow == nil || !f.cfg.Allow(a)) {
			return nil, failure(rouse.CodeDenied, op, "%s is not on the public Internet; private, local and special addresses are refused", show(host))
		}
	}
	var errs []error
	for _, a := range addrs {
		conn, err := f.cfg.Dial(ctx, network, net.JoinHostPort(a.String(), port))
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, &rouse.Error{Code: rouse.CodeToolFailed, Op: op, Message: "no connection to " + show(host), Err: errors.Join(errs...)}
}

// fetchError chooses the words for a failed request. The error of the client
// is cut out: it holds the URL of the last hop, which may be a secret.
func fetchError(ctx context.Context, err error) error {
	var own *rouse.Error
	if ctx.Err() != nil {
		if errors.As(context.Cause(ctx), &own) {
			return own
		}
		return stopped(ctx, "fetch")
	}
	if errors.As(err, &own) {
		return own
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return &rouse.Error{Code: rouse.CodeToolFailed, Op: "fetch", Message: "the server gave no usable answer", Err: err}
}

// text renders a response.
func (f *fetcher) text(resp *http.Response) (string, error) {
	head := fmt.Sprintf("HTTP %s\n", show(resp.Status))
	if resp.Request.Response != nil {
		head += "URL: " + resp.Request.URL.String() + "\n"
	}
	body, cut, err := f.body(resp)
	if err != nil {
		return "", err
	}
	ct := resp.Header.Get("Content-Type")
	if ct == "" {
		ct = http.DetectContentType(body)
	}
	media, params, err := mime.ParseMediaType(ct)
	if err != nil {
		media = "application/octet-stream"
	}
	if len(body) > 0 && (!textual(media) || bytes.IndexByte(body, 0) >= 0) {
		return "", failure(rouse.CodeUnsupported, "fetch", "HTTP %s: the content is %s, which is not text", show(resp.Status), show(media))
	}
	head += "Content-Type: " + show(media) + "\n\n"
	if cut {
		body = wholeRunes(body)
	}
	text, replaced := validText(body)
	if replaced {
		text += fmt.Sprintf("\n[the text is not valid UTF-8; invalid bytes are shown as \uFFFD; the server says charset %q]\n", params["charset"])
	}
	if cut {
		text += fmt.Sprintf("\n[cut after %d bytes]\n", len(body))
	}
	return head + text, nil
}

// body reads at most MaxBytes and reports whether there was more.
func (f *fetcher) body(resp *http.Response) (data []byte, cut bool, err error) {
	// One byte more than allowed tells whether there is more; a compressed body
	// gets some room for its frame, which does not count as content.
	wire := &io.LimitedReader{R: resp.Body, N: f.cfg.MaxBytes + 1}
	var r io.Reader = wire
	switch enc := strings.ToLower(strings.TrimSpace(resp.Header.Get("Content-Encoding"))); enc {
	case "", "identity":
	case "gzip", "x-gzip":
		wire.N += 1 << 10
		z, err := gzip.NewReader(wire)
		if errors.Is(err, io.EOF) {
			return nil, false, nil
		}
		if err != nil {
			return nil, false, err
		}
		r = z
	default:
		return nil, false, failure(rouse.CodeUnsupported, "fetch", "the content is compressed with %s", show(enc))
	}
	data, err = io.ReadAll(io.LimitReader(r, f.cfg.MaxBytes+1))
	if int64(len(data)) > f.cfg.MaxBytes {
		return data[:f.cfg.MaxBytes], true, nil
	}
	if err != nil && wire.N == 0 {
		return data, true, nil // the compressed form is over the limit
	}
	return data, false, err
}

// textual reports whether a media type is shown as text.
func textual(media string) bool {
	if strings.HasPrefix(media, "text/") || strings.HasSuffix(media, "+json") || strings.HasSuffix(media, "+xml") || strings.HasSuffix(media, "+yaml") {
		return true
	}
	switch media {
	case "application/json", "application/ld+json", "application/x-ndjson", "application/jsonl", "application/xml",
		"application/javascript", "application/x-javascript", "application/ecmascript", "application/yaml", "application/x-yaml",
		"application/toml", "application/sql", "application/graphql", "application/x-sh", "application/x-www-form-urlencoded":
		return true
	}
	return false
}
