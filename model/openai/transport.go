package openai

import (
	"net"
	"net/http"
	"time"
)

// NewTransport returns a transport for model providers: many idle connections
// per host, no compression (which would hold streamed text back), bounded time to
// connect, and no bound on the answer, which may take as long as its context
// allows. It may be shared by any number of models.
func NewTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           dialer.DialContext,
		ForceAttemptHTTP2:     true,
		MaxIdleConns:          1024,
		MaxIdleConnsPerHost:   512,
		IdleConnTimeout:       90 * time.Second,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
		DisableCompression:    true,
		ReadBufferSize:        8 << 10,
	}
}
