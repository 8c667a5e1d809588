package builtin_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/tool"
	"github.com/rouse-run/rouse/tool/builtin"
)

// hosts is a resolver over a table.
type hosts map[string][]string

func (h hosts) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	list, ok := h[host]
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	var out []netip.Addr
	for _, s := range list {
		out = append(out, netip.MustParseAddr(s))
	}
	return out, nil
}

// network plays the Internet: names resolve to public addresses, and every
// connection to a public address ends at one local server.
type network struct {
	mu     sync.Mutex
	dialed []string
	server *httptest.Server
}

func (n *network) dial(ctx context.Context, netw, address string) (net.Conn, error) {
	n.mu.Lock()
	n.dialed = append(n.dialed, address)
	n.mu.Unlock()
	if n.server == nil {
		return nil, errors.New("unreachable")
	}
	return (&net.Dialer{}).DialContext(ctx, netw, n.server.Listener.Addr().String())
}

func (n *network) addresses() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.dialed...)
}

// fetchTool returns the tool over a network that ends at handler.
func fetchTool(t testing.TB, handler http.HandlerFunc, change func(*builtin.FetchConfig)) (tool.Tool, *network) {
	t.Helper()
	n := &network{}
	if handler != nil {
		n.server = httptest.NewServer(handler)
		t.Cleanup(n.server.Close)
	}
	tools, _ := newTools(t, func(c *builtin.Config) {
		c.Fetch = builtin.FetchConfig{Dial: n.dial, Resolver: hosts{
			"example.com": {"93.184.216.34"}, "other.com": {"2606:4700::1"}, "inside.com": {"10.0.0.5"},
			"mixed.com": {"93.184.216.34", "127.0.0.1"}, "localhost": {"127.0.0.1", "::1"}, "empty.com": {},
			"metadata.google.internal": {"169.254.169.254"}, "2130706433": {"127.0.0.1"}, "0x7f.1": {"127.0.0.1"}, "127.1": {"127.0.0.1"},
		}}
		if change != nil {
			change(&c.Fetch)
		}
	})
	return tools.Fetch(), n
}

var refusedAddrs = []string{
	"127.0.0.1", "127.255.255.254", "0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.255",
	"192.168.0.1", "192.168.255.255", "169.254.169.254", "169.254.0.1", "100.64.0.1", "100.127.255.255", "100.100.100.200",
	"168.63.129.16", "192.0.0.1", "192.0.0.192", "192.0.2.1", "192.88.99.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1",
	"224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
	"::", "::1", "::2", "fe80::1", "febf::1", "fec0::1", "fc00::1", "fd00:ec2::254", "fdff::1", "ff02::1", "ff0e::1",
	"::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::ffff:100.64.0.1", "::ffff:0.0.0.0", "::ffff:0:127.0.0.1",
	"::127.0.0.1", "::10.0.0.1", "::8.8.8.8",
	"64:ff9b::127.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b::169.254.169.254", "64:ff9b:1::8.8.8.8", "64:ff9b::1:8.8.8.8",
	"2002:7f00:1::1", "2002:0a00:0001::", "2002:a9fe:a9fe::1", "2002:c0a8:0101::", "2002:6440:1::", "2002::1",
	"2001::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:2::1", "2001:10::1", "2001:20::1", "2001:db8::1", "3fff::1", "100::1", "4000::1",
}

var allowedAddrs = []string{
	"8.8.8.8", "1.1.1.1", "93.184.216.34", "100.63.255.255", "100.128.0.1", "172.15.0.1", "172.32.0.1", "169.253.0.1", "223.255.255.255",
	"9.255.255.255", "11.0.0.1", "126.255.255.255", "128.0.0.1", "192.167.0.1", "192.169.0.1", "168.63.129.17",
	"2606:4700::1", "2001:4860:4860::8888", "2a00::1", "64:ff9b::8.8.8.8", "2002:0808:0808::1", "::ffff:8.8.8.8",
}

// An address is refused as a literal, behind a name, and after a redirect; no
// connection is tried.
func TestFetchAddresses(t *testing.T) {
	t.Parallel()
	for _, a := range refusedAddrs {
		literal := "http://" + net.JoinHostPort(a, "80") + "/"
		table := func(c *builtin.FetchConfig) {
			c.Resolver = hosts{"name.com": {a}, "second.com": {"8.8.8.8", a}, "first.com": {"8.8.8.8"}}
		}
		f, n := fetchTool(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, literal, http.StatusFound) }, table)
		for _, u := range []string{literal, "https://" + net.JoinHostPort(a, "443"), "http://name.com/", "http://second.com/"} {
			refused(t, f, m{"url": u}, rouse.CodeDenied)
		}
		if got := n.addresses(); len(got) > 0 {
			t.Errorf("%s: connected to %v", a, got)
		}
		refused(t, f, m{"url": "http://first.com/"}, rouse.CodeDenied)
		if got := n.addresses(); len(got) != 1 || got[0] != "8.8.8.8:80" {
			t.Errorf("%s: after a redirect connected to %v", a, got)
		}
	}
	for _, a := range allowedAddrs {
		f, n := fetchTool(t, nil, func(c *builtin.FetchConfig) { c.Resolver = hosts{"name.com": {a}} })
		refused(t, f, m{"url": "http://" + net.JoinHostPort(a, "81") + "/"}, rouse.CodeToolFailed)
		refused(t, f, m{"url": "http://name.com:81/"}, rouse.CodeToolFailed)
		want := net.JoinHostPort(netip.MustParseAddr(a).Unmap().String(), "81")
		if got := n.addresses(); len(got) != 2 || got[0] != want || got[1] != want {
			t.Errorf("%s: connected to %v", a, got)
		}
	}
}

// The name is resolved once, and the connection goes to what was checked.
func TestFetchRebinding(t *testing.T) {
	t.Parallel()
	r := &rebinding{}
	f, n := fetchTool(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }, func(c *builtin.FetchConfig) { c.Resolver = r })
	wantIn(t, call(t, f, m{"url": "http://rebind.com/"}), "ok")
	if got := n.addresses(); len(got) != 1 || got[0] != "8.8.8.8:80" || r.asked.Load() != 1 {
		t.Errorf("connected to %v after %d questions", got, r.asked.Load())
	}
	refused(t, f, m{"url": "http://rebind.com/"}, rouse.CodeDenied)
}

// rebinding answers with a public address the first time and a local one later.
type rebinding struct{ asked atomic.Int32 }

func (r *rebinding) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	if r.asked.Add(1) == 1 {
		return []netip.Addr{netip.MustParseAddr("8.8.8.8")}, nil
	}
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
}

func TestFetchAllow(t *testing.T) {
	t.Parallel()
	var asked []string
	f, n := fetchTool(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }, func(c *builtin.FetchConfig) {
		c.Allow = func(a netip.Addr) bool { asked = append(asked, a.String()); return a.String() == "10.0.0.5" }
	})
	call(t, f, m{"url": "http://example.com/"})
	call(t, f, m{"url": "http://inside.com/"})
	refused(t, f, m{"url": "http://localhost/"}, rouse.CodeDenied)
	if got := strings.Join(asked, " "); got != "10.0.0.5 127.0.0.1" {
		t.Errorf("asked about %s", got)
	}
	if got := strings.Join(n.addresses(), " "); got != "93.184.216.34:80 10.0.0.5:80" {
		t.Errorf("connected to %s", got)
	}
}

func TestFetchRefusesURLs(t *testing.T) {
	t.Parallel()
	f, n := fetchTool(t, nil, nil)
	for u, code := range map[string]rouse.Code{
		"file:///etc/passwd":              rouse.CodeDenied,
		"ftp://example.com/":              rouse.CodeDenied,
		"gopher://example.com/":           rouse.CodeDenied,
		"javascript:alert(1)":             rouse.CodeDenied,
		"data:text/plain,x":               rouse.CodeDenied,
		"//example.com/":                  rouse.CodeDenied,
		"example.com":                     rouse.CodeDenied,
		"":                                rouse.CodeDenied,
		"http://user:pw@example.com/":     rouse.CodeDenied,
		"http://token@example.com/":       rouse.CodeDenied,
		"http:example.com":                rouse.CodeInvalid,
		"http:///path":                    rouse.CodeInvalid,
		"http://:80/":                     rouse.CodeInvalid,
		"http://exa mple.com/":            rouse.CodeInvalid,
		"http://example.com/\r\nX: y":     rouse.CodeInvalid,
		"http://example.com:99999999999/": rouse.CodeToolFailed,
		"http://example.com/" + strings.Repeat("a", 9000): rouse.CodeInvalid,
		"http://localhost/":                rouse.CodeDenied,
		"http://mixed.com/":                rouse.CodeDenied,
		"http://inside.com/":               rouse.CodeDenied,
		"http://metadata.google.internal/": rouse.CodeDenied,
		"http://169.254.169.254/latest/":   rouse.CodeDenied,
		"http://[::1]/":                    rouse.CodeDenied,
		"http://[fe80::1%25eth0]/":         rouse.CodeDenied,
		"http://2130706433/":               rouse.CodeDenied,
		"http://0x7f.1/":                   rouse.CodeDenied,
		"http://127.1/":                    rouse.CodeDenied,
		"http://unknown.com/":              rouse.CodeToolFailed,
		"http://empty.com/":                rouse.CodeToolFailed,
	} {
		out, err := callWith(t.Context(), t, f, m{"url": u}, nil)
		if e := coded(t, out, err, code); strings.Contains(e.Error(), "pw") || strings.Contains(e.Error(), "token") {
			t.Errorf("%s: the error holds the credentials: %v", u, e)
		}
	}
	for _, a := range n.addresses() {
		if a != "93.184.216.34:99999999999" {
			t.Errorf("connected to %v", a)
		}
	}
}

func TestFetchRedirects(t *testing.T) {
	t.Parallel()
	f, n := fetchTool(t, func(w http.ResponseWriter, r *http.Request) {
		var left int
		switch r.URL.Path {
		case "/creds":
			w.Header().Set("Location", "http://user:hunter2@other.com/")
		case "/file":
			w.Header().Set("Location", "file:///etc/passwd")
		case "/local":
			w.Header().Set("Location", "http://127.0.0.1:22/?key=hunter2")
		case "/loop":
			w.Header().Set("Location", "/loop")
		default:
			if _, err := fmt.Sscanf(r.URL.Path, "/%d", &left); err != nil || left == 0 {
				fmt.Fprint(w, "arrived")
				return
			}
			w.Header().Set("Location", fmt.Sprintf("http://other.com/%d", left-1))
		}
		w.WriteHeader(http.StatusFound)
	}, nil)
	wantIn(t, call(t, f, m{"url": "http://example.com/5"}), "HTTP 200 OK\n", "URL: http://other.com/0\n", "arrived")
	wantIn(t, refused(t, f, m{"url": "http://example.com/6"}, rouse.CodeTooLarge).Message, "5 redirects")
	refused(t, f, m{"url": "http://example.com/loop"}, rouse.CodeTooLarge)
	for _, p := range []string{"creds", "file", "local"} {
		if e := refused(t, f, m{"url": "http://example.com/" + p}, rouse.CodeDenied); strings.Contains(e.Error(), "hunter2") {
			t.Errorf("the error holds a secret: %v", e)
		}
	}
	for _, a := range n.addresses() {
		if a != "93.184.216.34:80" && a != "[2606:4700::1]:80" {
			t.Errorf("connected to %s", a)
		}
	}
}

func TestFetchIgnoresProxies(t *testing.T) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		t.Setenv(name, "http://127.0.0.1:9/") // so this test is not parallel
	}
	f, n := fetchTool(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "direct") }, nil)
	wantIn(t, call(t, f, m{"url": "http://example.com/"}), "direct")
	if got := n.addresses(); len(got) != 1 || got[0] != "93.184.216.34:80" {
		t.Errorf("connected to %v", got)
	}
}

func TestFetchText(t *testing.T) {
	t.Parallel()
	f, _ := fetchTool(t, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		w.Header().Set("Content-Type", q.Get("type"))
		if q.Get("enc") != "" {
			w.Header().Set("Content-Encoding", q.Get("enc"))
		}
		if q.Get("status") != "" {
			w.WriteHeader(http.StatusNotFound)
		}
		if r.Header.Get("Cookie")+r.Header.Get("Authorization")+r.Header.Get("Referer") != "" {
			t.Error("a request carries secrets")
		}
		fmt.Fprint(w, q.Get("body"))
	}, nil)
	get := func(query string) string { return "http://example.com/?" + query }
	for query, want := range map[string]string{
		"type=text/html%3Bcharset=utf-8&body=hi":    "HTTP 200 OK\nContent-Type: text/html\n\nhi",
		"type=application/json&body={}":             "HTTP 200 OK\nContent-Type: application/json\n\n{}",
		"type=application/problem%2Bjson&body=p":    "HTTP 200 OK\nContent-Type: application/problem+json\n\np",
		"type=text/plain&status=1&body=none":        "HTTP 404 Not Found\nContent-Type: text/plain\n\nnone",
		"type=image/png":                            "HTTP 200 OK\nContent-Type: image/png\n\n",
		"type=text/plain%3Bcharset=latin1&body=%e9": "HTTP 200 OK\nContent-Type: text/plain\n\n\uFFFD\n[the text is not valid UTF-8; invalid bytes are shown as \uFFFD; the server says charset \"latin1\"]\n",
	} {
		if got := call(t, f, m{"url": get(query)}); got != want {
			t.Errorf("%s: got %q, want %q", query, got, want)
		}
	}
	wantIn(t, refused(t, f, m{"url": get("type=image/png&body=x")}, rouse.CodeUnsupported).Message, "image/png")
	refused(t, f, m{"url": get("type=text/plain&body=a%00b")}, rouse.CodeUnsupported)
	refused(t, f, m{"url": get("type=%3B%3B&body=ab")}, rouse.CodeUnsupported)
	refused(t, f, m{"url": get("type=text/plain&enc=br&body=x")}, rouse.CodeUnsupported)
	refused(t, f, m{"url": get("type=text/plain&enc=gzip&body=nogzip")}, rouse.CodeToolFailed)
}

// endless writes until nobody listens any more, and then closes done.
func endless(t testing.TB, w io.Writer, chunk []byte, done chan<- struct{}) {
	defer close(done)
	for range 10 << 10 { // 10 GB, if anybody reads them
		if _, err := w.Write(bytes.Repeat(chunk, 1<<20/len(chunk))); err != nil {
			return
		}
	}
	t.Error("the whole body was read")
}

func TestFetchEndlessBody(t *testing.T) {
	t.Parallel()
	done := make(chan struct{})
	f, _ := fetchTool(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		endless(t, w, []byte("ä"), done)
	}, func(c *builtin.FetchConfig) { c.MaxBytes = 100_001 })
	out := call(t, f, m{"url": "http://example.com/"})
	if len(out) > 100_200 || strings.Contains(out, "\uFFFD") {
		t.Errorf("%d bytes", len(out))
	}
	wantIn(t, out, "[cut after 100000 bytes]")
	<-done // the server has seen that the connection is closed
}

// A body that unpacks to very much is cut, one that unpacks to nothing for ever
// is cut too, and what is just as long as permitted is whole.
func TestFetchCompressed(t *testing.T) {
	t.Parallel()
	const limit = 50_000
	pack := func(n int) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		if _, err := z.Write(bytes.Repeat([]byte("x"), n)); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	bomb, exact, empty := pack(50_000_000), pack(limit), pack(0)
	done := make(chan struct{})
	f, _ := fetchTool(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Encoding", "gzip")
		switch r.URL.Path {
		case "/bomb":
			_, _ = w.Write(bomb)
		case "/exact":
			_, _ = w.Write(exact)
		case "/empty":
			endless(t, w, empty, done)
		}
	}, func(c *builtin.FetchConfig) { c.MaxBytes = limit })
	out := call(t, f, m{"url": "http://example.com/bomb"})
	wantIn(t, out, "[cut after 50000 bytes]")
	if len(out) > limit+200 {
		t.Errorf("%d bytes", len(out))
	}
	out = call(t, f, m{"url": "http://example.com/exact"})
	if strings.Count(out, "x") != limit+1 || strings.Contains(out, "cut") { // one in Content-Type: text/plain
		t.Errorf("%d bytes", len(out))
	}
	wantIn(t, call(t, f, m{"url": "http://example.com/empty"}), "[cut after 0 bytes]")
	<-done
	wantIn(t, call(t, f, m{"url": "http://example.com/nothing"}), "HTTP 200 OK")
}

func TestFetchEndlessHeaders(t *testing.T) {
	t.Parallel()
	f, _ := fetchTool(t, func(w http.ResponseWriter, _ *http.Request) {
		for i := range 1000 {
			w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("x", 1000))
		}
	}, nil)
	refused(t, f, m{"url": "http://example.com/"}, rouse.CodeToolFailed)
}

func TestFetchTimeout(t *testing.T) {
	t.Parallel()
	for _, headers := range []bool{true, false} {
		gone := make(chan struct{})
		f, _ := fetchTool(t, func(w http.ResponseWriter, r *http.Request) {
			defer close(gone)
			if headers {
				fmt.Fprint(w, "begin")
				_ = http.NewResponseController(w).Flush()
			}
			<-r.Context().Done()
		}, func(c *builtin.FetchConfig) { c.Timeout = 200 * time.Millisecond })
		wantIn(t, refused(t, f, m{"url": "http://example.com/"}, rouse.CodeTimeout).Message, "200ms")
		<-gone
	}
}

func TestFetchCanceled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	gone := make(chan struct{})
	f, _ := fetchTool(t, func(_ http.ResponseWriter, r *http.Request) {
		defer close(gone)
		cancel()
		<-r.Context().Done()
	}, nil)
	out, err := callWith(ctx, t, f, m{"url": "http://example.com/"}, nil)
	coded(t, out, err, rouse.CodeCanceled)
	<-gone
}

func TestFetchTLS(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "safe") }))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0) // the failed handshakes are meant
	server.StartTLS()
	t.Cleanup(server.Close)
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	for name, c := range map[string]struct {
		pool *x509.CertPool
		url  string
		ok   bool
	}{
		"trusted":   {pool, "https://example.com/", true}, // the certificate is for example.com
		"wrong":     {pool, "https://other.com/", false},
		"untrusted": {x509.NewCertPool(), "https://example.com/", false},
	} {
		f, n := fetchTool(t, nil, func(cfg *builtin.FetchConfig) { cfg.RootCAs = c.pool })
		n.server = server
		out, err := callWith(t.Context(), t, f, m{"url": c.url}, nil)
		if c.ok != (err == nil) || c.ok != strings.Contains(out, "safe") {
			t.Errorf("%s: got %q, %v", name, out, err)
		}
	}
}
