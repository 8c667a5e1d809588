package openai_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/model"
	"github.com/rouse-run/rouse/model/modeltest"
	"github.com/rouse-run/rouse/model/openai"
)

// The contract of model.Model, over a raw TCP connection.
func TestContract(t *testing.T) { contract(t, modeltest.Everything()) }

// The same with every wrapper around the wire, in the order in which programs
// stack them.
func TestContractWrapped(t *testing.T) {
	can := modeltest.Everything()
	can.Partial = false // Recover mends what it can, so more is shown
	quick := model.BackoffConfig{Base: 1, Cap: 1}
	contract(t, can,
		model.Recover(model.RecoverConfig{Backoff: quick, StallDelay: 1}), model.Breaker(model.BreakerConfig{Failures: 1000}),
		model.Retry(model.RetryConfig{Backoff: quick}), model.Limit(model.LimitConfig{InFlight: 2}), model.Timeouts(model.TimeoutConfig{}))
}

func contract(t *testing.T, can modeltest.Can, ws ...model.Wrap) {
	modeltest.Run(t, modeltest.Config{
		Can: can,
		New: func(t testing.TB, s modeltest.Scenario) modeltest.Subject {
			srv := newRawServer(t, func(c net.Conn, _ int) bool { return play(c, s) })
			m := newModel(t, openai.Config{BaseURL: srv.url})
			return modeltest.Subject{Model: model.Chain(m, ws...), Sent: func() int {
				srv.mu.Lock()
				defer srv.mu.Unlock()
				return len(srv.bodies)
			}}
		},
	})
}

// play answers one request as the scenario says and reports whether the
// connection stays.
func play(c net.Conn, s modeltest.Scenario) bool {
	if s.Err != "" && s.Err != rouse.CodeStreamCut {
		return refuse(c, s)
	}
	if _, err := io.WriteString(c, sseHead+"Transfer-Encoding: chunked\r\n\r\n"); err != nil {
		return false
	}
	for _, chunk := range s.Chunks {
		e := eventOf(chunk)
		if _, err := fmt.Fprintf(c, "%x\r\n%s\r\n", len(e), e); err != nil {
			return false
		}
	}
	switch {
	case s.Stall:
		_, _ = io.Copy(io.Discard, c) // until the client hangs up
		return false
	case s.Err != "" && (len(s.Chunks) == 0 || s.Chunks[len(s.Chunks)-1].Type != model.ChunkStop):
		return false
	}
	_, err := fmt.Fprintf(c, "%x\r\n%s\r\n0\r\n\r\n", len(done), done)
	return err == nil
}

func refuse(c net.Conn, s modeltest.Scenario) bool {
	status := map[rouse.Code]int{
		rouse.CodeRateLimited: 429, rouse.CodeOverloaded: 503, rouse.CodeProvider: 500, rouse.CodeProviderAuth: 401,
		rouse.CodeProviderRefused: 400, rouse.CodeContextOverflow: 413,
	}[s.Err]
	wait := ""
	if s.RetryAfter > 0 {
		wait = fmt.Sprintf("Retry-After: %d\r\n", int(s.RetryAfter.Seconds()))
	}
	_, err := fmt.Fprintf(c, "HTTP/1.1 %d %s\r\n%sContent-Length: 0\r\n\r\n", status, http.StatusText(status), wait)
	return err == nil
}

// eventOf writes a chunk as the event that a server would send for it.
func eventOf(c model.Chunk) string {
	quote := func(s string) string {
		b, _ := json.Marshal(s) // a string always marshals
		return string(b)
	}
	switch c.Type {
	case model.ChunkText:
		return delta(`{"content":` + quote(c.Text) + `}`)
	case model.ChunkReasoning:
		return delta(`{"reasoning_content":` + quote(c.Text) + `}`)
	case model.ChunkSignature:
		return delta(`{"reasoning_details":[{"type":"reasoning.text","signature":` + quote(c.Text) + `}]}`)
	case model.ChunkCall:
		return delta(fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":%s,"function":{"name":%s,"arguments":""}}]}`, c.Index, quote(c.ID), quote(c.Name)))
	case model.ChunkArgs:
		return delta(fmt.Sprintf(`{"tool_calls":[{"index":%d,"function":{"arguments":%s}}]}`, c.Index, quote(c.Text)))
	case model.ChunkUsage:
		return event(fmt.Sprintf(`{"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d}}`, c.Usage.Input, c.Usage.Output))
	default:
		return finish(map[model.StopReason]string{model.StopEnd: "stop", model.StopTools: "tool_calls", model.StopLength: "length"}[c.Stop])
	}
}
