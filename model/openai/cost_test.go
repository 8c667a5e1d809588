package openai_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/model"
	"github.com/rouse-run/rouse/model/openai"
)

func longAnswer(chunks int) string {
	one := event(`{"id":"chatcmpl-9","object":"chat.completion.chunk","created":1700000000,"model":"test-model","system_fingerprint":"fp_1","choices":[{"index":0,"delta":{"content":" token"},"logprobs":null,"finish_reason":null}],"usage":null}`)
	return strings.Repeat(one, chunks) + finish("stop") + event(usageEvent) + done
}

// Text costs an allocation for each read, not for each chunk.
func TestAllocationsOfAnAnswer(t *testing.T) {
	answer := longAnswer(2000)
	reads := len(answer)/(16<<10) + 2
	m := newModel(t, openai.Config{Transport: canned{body: func() io.Reader { return strings.NewReader(answer) }}})
	req := hello()
	chunks := 0
	allocs := testing.AllocsPerRun(5, func() {
		for _, err := range m.Stream(t.Context(), req) {
			if err != nil {
				t.Error(err)
			}
			chunks++
		}
	})
	if chunks < 5*2000 || allocs > float64(2*reads+40) {
		t.Fatalf("%v allocations for %d chunks in %d reads", allocs, chunks, reads)
	}
}

// Runs that wait for the next token hold little more than net/http does.
func TestMemoryInFlight(t *testing.T) {
	const runs, most = 100, 20 << 10
	s := newRawServer(t, func(c net.Conn, _ int) bool {
		body := delta(`{"content":"x"}`)
		_, _ = fmt.Fprintf(c, "%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", sseHead, len(body), body)
		_, _ = io.Copy(io.Discard, c)
		return false
	})
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var ms runtime.MemStats
		runtime.ReadMemStats(&ms)
		return int64(ms.HeapAlloc + ms.StackInuse) //nolint:gosec // far below the limit
	}
	// perRun returns the memory of the process, for each run, while all of them
	// wait. What is not theirs is the same for both kinds of run, so only the
	// difference means anything; taking off the memory before them would add the
	// noise of what had not been collected by then.
	perRun := func(start func(ctx context.Context, waiting func())) int64 {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var wg, waiting sync.WaitGroup
		for range runs {
			waiting.Add(1)
			wg.Go(func() { start(ctx, waiting.Done) })
		}
		waiting.Wait()
		held := heap()
		cancel()
		wg.Wait()
		return held / runs
	}
	transport := openai.NewTransport()
	m := newModel(t, openai.Config{BaseURL: s.url, Transport: idleSignal{transport}})
	plain := func(ctx context.Context, waiting func()) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, strings.NewReader(`{"messages":[]}`))
		if err != nil {
			t.Error(err)
			return
		}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = resp.Body.Read(make([]byte, 512))
		waiting()
		<-ctx.Done()
		_ = resp.Body.Close()
	}
	ours := func(ctx context.Context, waiting func()) {
		req := hello()
		req.Memo = new(model.Memo)
		for _, err := range m.Stream(context.WithValue(ctx, idleSignal{}, waiting), req) {
			if err != nil {
				wantCode(t, err, rouse.CodeCanceled)
			}
		}
	}
	perRun(plain) // the first runs fill pools that the later ones find full
	var more []int64
	for range 5 { // the median
		base := perRun(plain)
		more = append(more, perRun(ours)-base)
	}
	slices.Sort(more)
	t.Logf("bytes a run beyond plain net/http: %d", more)
	if more[len(more)/2] > most {
		t.Fatalf("%d bytes a run beyond plain net/http, at most %d are wanted", more, most)
	}
}

// idleSignal calls the function in a request's context when the reader asks for
// the byte behind the first event.
type idleSignal struct{ http.RoundTripper }

func (s idleSignal) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := s.RoundTripper.RoundTrip(r)
	if waiting, ok := r.Context().Value(idleSignal{}).(func()); ok && err == nil {
		resp.Body = &idleBody{ReadCloser: resp.Body, waiting: waiting}
	}
	return resp, err
}

func (s idleSignal) CloseIdleConnections() {
	if c, ok := s.RoundTripper.(*http.Transport); ok {
		c.CloseIdleConnections()
	}
}

type idleBody struct {
	io.ReadCloser
	waiting func()
	single  int // reads of one byte
}

func (b *idleBody) Read(p []byte) (int, error) {
	if len(p) == 1 {
		if b.single++; b.single == 2 {
			b.waiting()
		}
	}
	return b.ReadCloser.Read(p)
}

func BenchmarkAnswer(b *testing.B) {
	for _, chunks := range []int{16, 2000} {
		b.Run(fmt.Sprint(chunks), func(b *testing.B) {
			response := chunked(longAnswer(chunks))
			_, m := answering(b, response)
			req := hello()
			b.ReportAllocs()
			b.SetBytes(int64(len(response)))
			for b.Loop() {
				for _, err := range m.Stream(b.Context(), req) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// Any bytes at all give an answer that keeps the contract, and the same one
// however they are split over reads.
func FuzzAnswer(f *testing.F) {
	f.Add(longAnswer(2), uint8(7))
	f.Add(delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":"}}]}`)+delta(`{"tool_calls":[{"function":{"arguments":"1}"}}]}`)+finish("tool_calls"), uint8(1))
	f.Add(event(`{"error":{"message":"boom"}}`), uint8(3))
	f.Add(`{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]}`, uint8(3))
	f.Add("data: [DONE]", uint8(1))
	f.Add("\r\r\n<", uint8(1))
	f.Fuzz(func(t *testing.T, body string, size uint8) {
		var src io.Reader
		m := newModel(t, openai.Config{MaxEventBytes: 1 << 10, Transport: canned{body: func() io.Reader { return src }}})
		src = &inPieces{body, 1 << 10}
		one := collect(t, m, t.Context(), hello())
		src = &inPieces{body, 1 + int(size)}
		two := collect(t, m, t.Context(), hello())
		if rouse.CodeOf(one.err) == rouse.CodeTooLarge || rouse.CodeOf(two.err) == rouse.CodeTooLarge {
			return // what lies in the buffer when the limit is checked depends on the reads
		}
		if one.trace != two.trace || rouse.CodeOf(one.err) != rouse.CodeOf(two.err) {
			t.Fatalf("whole: %q %v\nsplit: %q %v", one.trace, one.err, two.trace, two.err)
		}
	})
}

type inPieces struct {
	rest string
	size int
}

func (p *inPieces) Read(b []byte) (int, error) {
	if p.rest == "" {
		return 0, io.EOF
	}
	n := copy(b, p.rest[:min(len(p.rest), p.size)])
	p.rest = p.rest[n:]
	return n, nil
}
