package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rouse-run/rouse"
)

// shapes are events as servers send them, usual and unusual ones.
var shapes = []string{
	`{"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}`,
	`{"id":"c1","choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":null}],"usage":null}`,
	`{"id":"c1","choices":[{"index":0,"delta":{"content":" wörld \"q\" \\ \n 漢字 \ud83d\ude42 \u00e9"},"finish_reason":null}],"usage":null}`,
	`{"id":"c1","choices":[{"index":0,"delta":{"content":"lone \ud800 pair"},"finish_reason":null}]}`,
	`{"choices":[{"index":0,"delta":{"content":null,"reasoning_content":"thinking"}}]}`,
	`{"choices":[{"index":0,"delta":{"content":"","reasoning":"thinking"}}]}`,
	`{"choices":[{"index":0,"delta":{"reasoning":"both","reasoning_content":"both","content":"x"}}]}`,
	`{"choices":[{"index":0,"delta":{"reasoning":"a","reasoning_details":[{"type":"reasoning.text","text":"a","signature":"s=="},{"type":"reasoning.encrypted","data":"d"}]}}]}`,
	`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}]}}]}`,
	`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"x\":"}}]}}]}`,
	`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":"0","function":{"arguments":"1}"}}]}}]}`,
	`{"choices":[{"index":0,"delta":{"tool_calls":[{"function":{"arguments":{"x": 1.50}}}]}}]}`,
	`{"choices":[{"index":0,"delta":{"tool_calls":[{"id":7,"function":{"name":"f","arguments":null}},{"index":1,"id":"b","function":{"name":"g","arguments":"{}"}}]}}]}`,
	`{"choices":[{"index":0,"delta":{"content":"t","tool_calls":[{"index":0,"id":"a","function":{"name":"f"}}]}}]}`,
	`{"choices":[{"index":0,"delta":{"function_call":{"name":"f","arguments":"{}"}},"finish_reason":"function_call"}]}`,
	`{"choices":[{"index":0,"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"yes"}]}}]}`,
	`{"choices":[{"index":0,"delta":{"refusal":"no"},"finish_reason":"stop"}]}`,
	`{"choices":[{"index":0,"delta":{},"finish_reason":"stop","stop_reason":"STOP"}]}`,
	`{"choices":[{"index":0,"delta":{},"finish_reason":"stop","stop_reason":128009}]}`,
	`{"choices":[{"index":1,"delta":{"content":"second"}},{"index":0,"delta":{"content":"first"}}]}`,
	`{"choices":[{"delta":{"content":"x"},"finish_reason":"","index":0}]}`,
	`{"choices":[{"index":0,"message":{"role":"assistant","content":"whole"},"finish_reason":"stop"}]}`,
	`{"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":34,"total_tokens":46,"prompt_tokens_details":{"cached_tokens":5},"completion_tokens_details":{"reasoning_tokens":6}}}`,
	`{"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":34,"total_tokens":52,"completion_tokens_details":{"reasoning_tokens":6}}}`,
	`{"usage":{"prompt_tokens":12.0,"completion_tokens":"34","cost":0.00125,"prompt_cache_hit_tokens":3}}`,
	`{"choices":[{"index":0,"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":1,"completion_tokens":2}}]}`,
	`{"x_groq":{"usage":{"prompt_tokens":1,"completion_tokens":2}},"choices":[]}`,
	`{"choices":[],"prompt_filter_results":[{"prompt_index":0,"content_filter_results":{"hate":{"filtered":false}}}]}`,
	`{"error":{"message":"bad","type":"server_error","code":null}}`,
	`{"error":null,"choices":[{"index":0,"delta":{"content":"x"}}]}`,
	`[{"error":{"code":503,"message":"overloaded","status":"UNAVAILABLE"}}]`,
	`{"object":"error","message":"boom","code":400}`,
	`{"type":"ping"}`,
	`{"choices":[{"index":0,"delta":{"content":"a","content":"b"}}]}`,
	`{"choices":[{"index":0,"delta":{"c\u006fntent":"b"}}]}`,
	`{"choices":[{"index":0,"delta":{"content":"` + "\xff" + `"}}]}`,
	`{"choices":[{"index":0,"delta":{"content":"x","extra":[1,-2.5e+10,true,false,null,"\u12ab\/",{"a":{}}]}}]} `,
	`{"choices":[{"index":0,"delta":{"content":"cut`,
	`{"choices":[{"index":0,"delta":{"content":"x"}}]}trailing`,
	`{"choices":[{"index":0,"delta":{"content":"x",}}]}`,
	`{"choices":[{"index":00,"delta":{"content":"x"}}]}`,
	`{"choices":[{"index":0,"delta":null}]}`, `{"choices":null}`, `null`, `7`, ``, `{}`, `[]`,
}

func render(b *batch) string {
	var out strings.Builder
	str := func(s span) string { return string(b.text[s.from:s.to]) }
	for _, p := range b.pieces {
		switch p.kind {
		case pieceUsage:
			fmt.Fprintf(&out, "usage %+v\n", b.usages[p.index])
		case pieceError:
			fmt.Fprintf(&out, "error %s\n", rouse.CodeOf(b.errs[p.index]))
		default:
			fmt.Fprintf(&out, "%d whole=%v index=%d text=%q id=%q name=%q\n", p.kind, p.whole, p.index, str(p.text), str(p.id), str(p.name))
		}
	}
	return out.String()
}

func decoded(decode func([]byte, *batch), data []byte) string {
	var b batch
	decode(data, &b)
	return render(&b)
}

func reference(data []byte) string {
	return decoded(func(d []byte, b *batch) { decodeAny(d, b, false) }, data)
}

// The decoder that allocates nothing agrees with encoding/json on every input,
// fresh and after any other event that it may have learned from.
func FuzzDecoder(f *testing.F) {
	for i, s := range shapes {
		f.Add([]byte(s), []byte(shapes[(i+1)%len(shapes)]))
		f.Add([]byte(s), []byte(s))
	}
	f.Fuzz(func(t *testing.T, one, two []byte) {
		var d decoder
		for _, data := range [][]byte{one, two, one, two, two} {
			if got, want := decoded(d.event, data), reference(data); got != want {
				t.Fatalf("event %q\nfast: %s\njson: %s", data, got, want)
			}
		}
	})
}

// A remembered event says the same with any other string in it.
func FuzzSimilar(f *testing.F) {
	for i := range shapes {
		f.Add(i, []byte(`"other"`))
		f.Add(i, []byte(`""`))
		f.Add(i, []byte(`"x","content":"y"`))
		f.Add(i, []byte(`"\ud83d\ude42"`))
	}
	f.Fuzz(func(t *testing.T, shape int, token []byte) {
		data := []byte(shapes[max(0, shape)%len(shapes)])
		var d decoder
		decoded(d.event, data)
		if !d.known {
			return
		}
		next := append(append(append([]byte(nil), d.prefix...), token...), d.suffix...)
		if got, want := decoded(d.event, next), reference(next); got != want {
			t.Fatalf("event %q\nfast: %s\njson: %s", next, got, want)
		}
	})
}

func TestUsualEventsTakeTheFastWay(t *testing.T) {
	t.Parallel()
	slow := 0
	for _, s := range shapes[:3] {
		var b batch
		f := fast{b: &b}
		f.p.b = []byte(s)
		if !f.chunk() {
			slow++
			t.Errorf("%s", s)
		}
	}
	var d decoder
	decoded(d.event, []byte(shapes[1]))
	var b batch
	if !d.similar([]byte(strings.Replace(shapes[1], "Hello", "there", 1)), &b) {
		t.Error("the second event of a kind was not recognised")
	}
}

func FuzzParserAcceptsOnlyJSON(f *testing.F) {
	for _, s := range shapes {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p := parser{b: data}
		if p.skip(); p.done() && !json.Valid(data) {
			t.Fatalf("accepted %q", data)
		}
	})
}

func FuzzCutOff(f *testing.F) {
	for _, s := range []string{`{"path":"a.txt","conte`, `{"{"ids":[1`, `{"a":1}`, `{}`, ``, ` `, `{"a":tru`, `{"a":1}}`, `"x`, `{"a":"\u12`, "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if closed([]byte(s)) {
			if cutOff([]byte(s)) {
				t.Fatalf("%q is closed and cut off", s)
			}
			for i := 1; i < len(s) && i < 200; i++ {
				part := []byte(strings.TrimSpace(s[:i]))
				if closed(part) && !closed([]byte(s[:i+1])) || len(part) > 0 && !closed(part) && !cutOff(part) {
					t.Fatalf("%q of %q", part, s)
				}
			}
		}
	})
}

func TestCutOff(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]bool{
		`{"path":"a.txt","conte`: true, `{`: true, `{"a":1`: true, `[1,`: true, `{"a":tr`: true, `"x`: true,
		``: false, ` `: false, `{}`: false, `{"{"ids":[1`: false, `{"a":1}x`: false, `nope`: false, `{'a':1}`: false,
	} {
		if got := cutOff([]byte(args)); got != want {
			t.Errorf("%q: %v", args, got)
		}
	}
}

func TestErrorShapes(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]rouse.Code{
		`{"error":{"message":"x","type":"server_error"}}`:                                     rouse.CodeProvider,
		`{"error":"plain words"}`:                                                             rouse.CodeProvider,
		`{"error":{"code":429,"message":"slow down"}}`:                                        rouse.CodeRateLimited,
		`{"error":{"code":"502","message":"bad gateway"}}`:                                    rouse.CodeProvider,
		`{"error":{"type":"rate_limit_error","message":"slow"}}`:                              rouse.CodeRateLimited,
		`{"error":{"type":"overloaded_error","message":"busy"}}`:                              rouse.CodeOverloaded,
		`{"error":{"code":"context_length_exceeded","message":"too long"}}`:                   rouse.CodeContextOverflow,
		`{"error":{"code":400,"message":"the request exceeds the available context size"}}`:   rouse.CodeContextOverflow,
		`{"error":{"type":"invalid_request_error","message":"no"}}`:                           rouse.CodeProviderRefused,
		`{"error":{"type":"authentication_error","message":"no"}}`:                            rouse.CodeProviderAuth,
		`{"object":"error","message":"x","type":"BadRequestError","code":400}`:                rouse.CodeProviderRefused,
		`[{"error":{"code":503,"message":"overloaded","status":"UNAVAILABLE"}}]`:              rouse.CodeOverloaded,
		`{"error":{"message":"timed out","type":"timeout_error"}}`:                            rouse.CodeTimeout,
		`{"error":{"message":"Provider returned error","code":500,"metadata":{"raw":"why"}}}`: rouse.CodeProvider,
	} {
		var b batch
		decodeAny([]byte(data), &b, false)
		if len(b.errs) != 1 || rouse.CodeOf(b.errs[0]) != want {
			t.Errorf("%s: %v", data, b.errs)
			continue
		}
		var e *rouse.Error
		if errors.As(b.errs[0], &e); strings.HasSuffix(e.Message, "within the answer") {
			t.Errorf("%s: the words are lost: %v", data, e)
		}
	}
}

func BenchmarkDecodeText(b *testing.B) {
	data := []byte(shapes[1])
	var out batch
	run := func(b *testing.B, decode func()) {
		b.ReportAllocs()
		for b.Loop() {
			out.reset()
			decode()
		}
	}
	var d decoder
	b.Run("similar", func(b *testing.B) { run(b, func() { d.event(data, &out) }) })
	b.Run("fast", func(b *testing.B) { run(b, func() { d.known = false; d.event(data, &out) }) })
	b.Run("json", func(b *testing.B) { run(b, func() { decodeAny(data, &out, false) }) })
	call := []byte(shapes[8])
	b.Run("call", func(b *testing.B) { run(b, func() { d.event(call, &out) }) })
}
