package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/model"
	"github.com/rouse-run/rouse/model/mock"
	"github.com/rouse-run/rouse/model/openai"
)

const (
	// demo is the scripted model that needs no provider.
	demo = "demo"
	// defaultOpenAI is asked for when OpenAI's own service is configured and
	// nothing names a model.
	defaultOpenAI = "gpt-5-mini"
	// probeTime bounds the question to a local server whether it is there;
	// listTime that to a provider which was configured.
	probeTime = 300 * time.Millisecond
	listTime  = 5 * time.Second
	// maxListing bounds a provider's list of models, in bytes.
	maxListing = 4 << 20
	// localFirstByte is how long a local server may take to load a model.
	localFirstByte = 10 * time.Minute
)

// provider is one place where models are.
type provider struct {
	name  string
	base  string // of the OpenAI-compatible wire
	key   string // never shown
	setup string // what to do when it is not there
	local bool   // it is looked for without being configured
	usual string // the model when nothing names one; empty: the first that it lists
	ready bool   // it is configured
}

// providers are those that this program knows, in the order of preference.
func (a *app) providers() []provider {
	base := strings.TrimRight(a.Getenv("OPENAI_BASE_URL"), "/")
	key := strings.TrimSpace(a.Getenv("OPENAI_API_KEY"))
	oa := provider{name: "openai", base: base, key: key, ready: key != "" || base != "", usual: a.Getenv("OPENAI_MODEL"), setup: "set OPENAI_API_KEY, or OPENAI_BASE_URL for a compatible server"}
	if base == "" {
		oa.base = openai.DefaultBaseURL
		oa.usual = cmp.Or(oa.usual, defaultOpenAI)
	}
	return []provider{
		oa,
		{name: "ollama", base: localURL(a.Getenv("OLLAMA_HOST"), "11434") + "/v1", local: true, ready: true, setup: "start Ollama, or set OLLAMA_HOST"},
		{name: "llamacpp", base: localURL(a.Getenv("LLAMACPP_HOST"), "8080") + "/v1", local: true, ready: true, setup: "start llama-server, or set LLAMACPP_HOST"},
	}
}

// localURL is the URL of a server that is named as Ollama's variable does it:
// host, host:port or URL. An address that means "every interface" is the loopback.
func localURL(host, port string) string {
	host = strings.TrimRight(strings.TrimSpace(host), "/")
	if scheme, _, ok := strings.Cut(host, "://"); ok && scheme != "" {
		return host
	}
	h, p, err := net.SplitHostPort(host)
	if err != nil {
		h, p = strings.Trim(host, "[]"), port
	}
	if addr, err := netip.ParseAddr(h); h == "" || err == nil && addr.IsUnspecified() {
		h = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(h, cmp.Or(p, port))
}

// onLoopback reports whether base leads to this machine without asking a resolver.
func onLoopback(base string) bool {
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	if u.Hostname() == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(u.Hostname())
	return err == nil && addr.IsLoopback()
}

func splitModel(id string) (provider, name string) {
	provider, name, _ = strings.Cut(id, "/")
	return provider, name
}

// resolveModel completes what somebody asked for to "provider/name" or "demo".
func (a *app) resolveModel(ctx context.Context, wanted string) (string, error) {
	if wanted == demo {
		return demo, nil
	}
	if wanted == "" {
		return a.firstModel(ctx)
	}
	prov, name := splitModel(wanted)
	p, err := a.provider(prov)
	if err != nil {
		return "", err
	}
	if name == "" {
		if name, err = a.usualModel(ctx, p, listTime); err != nil {
			return "", err
		}
	}
	return p.name + "/" + name, nil
}

// firstModel is the model of the first provider that is there.
func (a *app) firstModel(ctx context.Context) (string, error) {
	for _, p := range a.providers() {
		switch {
		case p.local && onLoopback(p.base):
			if name, err := a.usualModel(ctx, p, probeTime); err == nil {
				return p.name + "/" + name, nil
			}
		case !p.local && p.ready:
			name, err := a.usualModel(ctx, p, listTime)
			if err != nil {
				return "", err
			}
			return p.name + "/" + name, nil
		}
	}
	return demo, nil
}

// usualModel is the model of p when nothing names one.
func (a *app) usualModel(ctx context.Context, p provider, limit time.Duration) (string, error) {
	if p.usual != "" {
		return p.usual, nil
	}
	names, err := p.list(ctx, limit)
	if err != nil {
		return "", err
	}
	if len(names) == 0 {
		return "", &rouse.Error{Code: rouse.CodeNotFound, Message: p.name + " has no model", Hint: "load one, or name one with --model " + p.name + "/NAME"}
	}
	return names[0], nil
}

func (a *app) provider(name string) (provider, error) {
	known := []string{demo}
	for _, p := range a.providers() {
		if p.name == name {
			return p, nil
		}
		known = append(known, p.name+"/NAME")
	}
	return provider{}, usage("'rouse models' lists what was found", "there is no model %q; a model is one of: %s", name, strings.Join(known, ", "))
}

// openModel returns a client of the model that id names.
func (a *app) openModel(_ context.Context, id string) (model.Model, error) {
	if id == demo {
		a.once("demo", "rouse: no real model is at work: a scripted demo answers, and the tools are real. For a model, set OPENAI_API_KEY or start Ollama or llama-server.")
		return mock.New(mock.Config{Rules: mock.Demo(), Model: demo})
	}
	prov, name := splitModel(id)
	p, err := a.provider(prov)
	if err != nil {
		return nil, err
	}
	if !p.ready {
		return nil, &rouse.Error{Code: rouse.CodeProviderAuth, Message: "there is no key for " + p.name, Hint: p.setup}
	}
	m, err := openai.New(openai.Config{BaseURL: p.base, APIKey: p.key, Model: name})
	if err != nil {
		return nil, err
	}
	timeouts := model.TimeoutConfig{}
	if p.local {
		timeouts.FirstByte = localFirstByte
	}
	// One person at one terminal: a limit would have nothing to limit, and a
	// breaker would refuse somebody who wants to try again.
	return model.Chain(m, model.Recover(model.RecoverConfig{}), model.Retry(model.RetryConfig{}), model.Timeouts(timeouts)), nil
}

// list asks p which models it has.
func (p provider) list(ctx context.Context, limit time.Duration) (names []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	fail := func(code rouse.Code, msg string, err error) ([]string, error) {
		return nil, &rouse.Error{Code: code, Op: "models " + p.name, Message: p.name + " " + msg, Hint: p.setup, Err: err}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base+"/models", nil)
	if err != nil {
		return fail(rouse.CodeInvalid, "has an address that cannot be used", nil) // it may hold a password
	}
	if p.key != "" {
		req.Header.Set("Authorization", "Bearer "+p.key)
	}
	transport := openai.NewTransport()
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return fail(rouse.CodeProvider, "cannot be reached", bareURLError(err))
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	switch {
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		return fail(rouse.CodeProviderAuth, "refused the key", nil)
	case resp.StatusCode != http.StatusOK:
		return fail(rouse.CodeProvider, fmt.Sprintf("answered with status %d when it was asked for its models", resp.StatusCode), nil)
	}
	var listing struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxListing)).Decode(&listing); err != nil {
		return fail(rouse.CodeProviderOutput, "answered something that is no list of models", err)
	}
	for _, m := range listing.Data {
		if m.ID != "" {
			names = append(names, m.ID)
		}
	}
	return names, nil
}

// hostOf is where a provider is, without what may be secret in its address.
func hostOf(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		return "?"
	}
	return u.Host
}
