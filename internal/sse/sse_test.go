package sse_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/internal/sse"
)

// pieces yields the stream cut at the given positions.
type pieces struct {
	rest string
	size func() int
}

func (p *pieces) Read(b []byte) (int, error) {
	if p.rest == "" {
		return 0, io.EOF
	}
	n := copy(b, p.rest[:min(len(p.rest), max(1, p.size()))])
	p.rest = p.rest[n:]
	return n, nil
}

func collect(t testing.TB, src io.Reader, maxEvent int) []string {
	t.Helper()
	var pool sse.Pool
	var r sse.Reader
	r.Reset(src, &pool, maxEvent)
	defer r.Release()
	var out []string
	for {
		ev, err := r.Read()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatalf("after %q: %v", out, err)
		}
		out = append(out, ev.Name+"|"+string(ev.Data))
	}
}

// model is the standard's algorithm in its plainest form: whole text, whole lines.
func model(s string) []string {
	s = strings.TrimPrefix(s, "\ufeff")
	s = strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
	lines := strings.Split(s, "\n")
	var out []string
	var name string
	var data *string
	for _, line := range lines[:len(lines)-1] {
		if line == "" {
			if data != nil {
				out = append(out, name+"|"+strings.TrimSuffix(*data, "\n"))
			}
			name, data = "", nil
			continue
		}
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch key {
		case "data":
			if data == nil {
				data = new(string)
			}
			*data += value + "\n"
		case "event":
			name = value
		}
	}
	return out
}

var streams = map[string]string{
	"plain":             "data: one\n\ndata: two\n\n",
	"CRLF":              "data: one\r\n\r\ndata: two\r\n\r\n",
	"lone CR":           "data: one\r\rdata: two\r\r",
	"mixed ends":        "data: a\r\ndata: b\rdata: c\n\r\ndata: d\n\n",
	"no space":          "data:one\n\ndata:  two spaces\n\n",
	"several lines":     "data: a\ndata\ndata:b\n\n",
	"long second line":  "data:a\nevent:name\ndata:" + strings.Repeat("b", 100) + "\n\ndata:c\n\n",
	"comments":          ": ping\n\n:\ndata: a\n: in between\ndata: b\n\n",
	"mark":              "\ufeffdata: a\n\n",
	"mark twice":        "\ufeff\ufeffdata: a\n\ndata: b\n\n",
	"multi-byte":        "data: 漢字🙂é\u2028\u2029\n\nevent: ünd\ndata: x\n\n",
	"named":             "event: a\ndata: 1\n\nevent: b\nid: 7\ndata: 2\n\ndata: 3\n\n",
	"name without data": "event: a\n\ndata: 1\n\n",
	"empty data":        "data\n\ndata:\n\ndata: \n\n",
	"unknown fields":    "foo: bar\ndata: a\nDATA: no\n data: no\n\n",
	"cut":               "data: whole\n\ndata: cut",
	"cut after a line":  "data: whole\n\ndata: cut\n",
	"nothing":           "",
	"blank lines":       "\n\n\r\n\r\r\n",
}

// Case 7 (a2aproject/a2a-js #714, eventsource-parser #17): every legal shape
// gives the same events, however the bytes are split over reads.
func TestShapesAndSplits(t *testing.T) {
	t.Parallel()
	for name, s := range streams {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := fmt.Sprint(model(s))
			check := func(how string, src io.Reader) {
				t.Helper()
				if got := fmt.Sprint(collect(t, src, 0)); got != want {
					t.Errorf("%s: got %q want %q", how, got, want)
				}
			}
			check("whole", strings.NewReader(s))
			check("one byte", iotest.OneByteReader(strings.NewReader(s)))
			check("EOF with data", iotest.DataErrReader(strings.NewReader(s)))
			for i := range len(s) {
				check(fmt.Sprintf("cut at %d", i), io.MultiReader(strings.NewReader(s[:i]), strings.NewReader(s[i:])))
			}
		})
	}
}

func FuzzReader(f *testing.F) {
	for _, s := range streams {
		f.Add(s, uint16(3), uint8(1))
	}
	f.Fuzz(func(t *testing.T, s string, size uint16, repeat uint8) {
		s = strings.Repeat(s, 1+int(repeat))
		if len(s) > 1<<18 {
			return
		}
		want := model(s)
		got := collect(t, &pieces{s, func() int { return int(size) }}, 0)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("got %q want %q", got, want)
		}
	})
}

func TestDataStaysValidUntilFill(t *testing.T) {
	t.Parallel()
	var pool sse.Pool
	var r sse.Reader
	r.Reset(strings.NewReader("data: one\n\ndata: two\ndata: 2\n\ndata: three\n\n"), &pool, 0)
	defer r.Release()
	r.Unread(':') // a comment in front
	var held []sse.Event
	for {
		if ev, ok := r.Next(); ok {
			held = append(held, ev)
			continue
		}
		if len(held) > 0 {
			break
		}
		if err := r.Fill(); err != nil {
			t.Fatal(err)
		}
	}
	// "data: one" became the tail of the comment ":data: one"
	if len(held) != 2 || string(held[0].Data) != "two\n2" || string(held[1].Data) != "three" {
		t.Fatalf("got %q", held)
	}
}

func TestTail(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"data: x":            "|x",
		"data: x\n":          "|x",
		"data: x\r":          "|x",
		"data: x\ndata: y":   "|x\ny",
		"event: n\ndata: x":  "n|x",
		"data: x\n\n":        "",
		": nothing":          "",
		"event: n":           "",
		"":                   "",
		"data: a\n\ndata: x": "|x",
	} {
		var pool sse.Pool
		var r sse.Reader
		r.Reset(iotest.OneByteReader(strings.NewReader(in)), &pool, 0)
		for {
			if _, err := r.Read(); err != nil {
				break
			}
		}
		ev, ok := r.Tail()
		if got := ev.Name + "|" + string(ev.Data); ok != (want != "") || ok && got != want {
			t.Errorf("%q: got %q %v, want %q", in, got, ok, want)
		}
		if ev, ok := r.Tail(); ok {
			t.Errorf("%q: a second tail %q", in, ev.Data)
		}
		r.Release()
	}
}

func TestFieldsOfTheStream(t *testing.T) {
	t.Parallel()
	var pool sse.Pool
	var r sse.Reader
	r.Reset(strings.NewReader("retry: 1500\nid: 4\ndata: x\n\nretry: 1x\nid: a\x00b\ndata: y\n\nid\ndata: z\n\n"), &pool, 0)
	defer r.Release()
	var ids []string
	for {
		if _, err := r.Read(); err != nil {
			break
		}
		ids = append(ids, r.LastID())
	}
	if got := fmt.Sprintf("%q %v", ids, r.Retry()); got != `["4" "4" ""] 1.5s` {
		t.Fatalf("got %s", got)
	}
}

func TestLimitOfAnEvent(t *testing.T) {
	t.Parallel()
	const limit = 64 << 10
	fits := "data: " + strings.Repeat("x", limit-100) + "\n\n"
	if got := collect(t, strings.NewReader(fits+fits), limit); len(got) != 2 || len(got[1]) != limit-99 {
		t.Fatalf("%d events", len(got))
	}
	for name, s := range map[string]string{
		"one line":   "data: " + strings.Repeat("x", 2*limit),
		"many lines": strings.Repeat("data: x\n", limit/4),
		"a comment":  ":" + strings.Repeat("x", 2*limit),
	} {
		var pool sse.Pool
		var r sse.Reader
		r.Reset(strings.NewReader(s), &pool, limit)
		_, err := r.Read()
		if rouse.CodeOf(err) != rouse.CodeTooLarge {
			t.Errorf("%s: got %v", name, err)
		}
		if again := r.Fill(); !errors.Is(again, err) {
			t.Errorf("%s: then %v", name, again)
		}
		r.Release()
	}
}

func TestErrorsOfTheSource(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	var pool sse.Pool
	var r sse.Reader
	r.Reset(io.MultiReader(strings.NewReader("data: x\n\ndata: y"), iotest.ErrReader(broken)), &pool, 0)
	if ev, err := r.Read(); err != nil || string(ev.Data) != "x" {
		t.Fatal(ev, err)
	}
	if _, err := r.Read(); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	r.Reset(&silent{}, &pool, 0)
	if _, err := r.Read(); !errors.Is(err, io.ErrNoProgress) {
		t.Fatal(err)
	}
}

type silent struct{}

func (silent) Read([]byte) (int, error) { return 0, nil }

// While nothing arrives the reader asks with a buffer of its own, of one byte.
func TestHoldsNoBufferWhileWaiting(t *testing.T) {
	t.Parallel()
	src := &probe{parts: []string{"d", "ata: x\n\n", ":", " ping\n", "d", "ata: y\n\n"}}
	if got := fmt.Sprint(collect(t, src, 0)); got != "[|x |y]" {
		t.Fatal(got)
	}
	want := "[1 16383 1 16383 1 16383 1]"
	if got := fmt.Sprint(src.sizes); got != want {
		t.Fatalf("reads of %s, want %s", got, want)
	}
}

type probe struct {
	parts []string
	sizes []int
}

func (p *probe) Read(b []byte) (int, error) {
	p.sizes = append(p.sizes, len(b))
	if len(p.parts) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.parts[0])
	p.parts = p.parts[1:]
	return n, nil
}

func TestNoAllocationPerEvent(t *testing.T) {
	s := strings.Repeat("event: delta\ndata: {\"x\":1}\n\n", 5000)
	var pool sse.Pool
	var r sse.Reader
	src := strings.NewReader(s)
	allocs := testing.AllocsPerRun(5, func() {
		src.Reset(s)
		r.Reset(src, &pool, 0)
		n := 0
		for {
			if _, err := r.Read(); err != nil {
				break
			}
			n++
		}
		r.Release()
		if n != 5000 {
			t.Errorf("%d events", n)
		}
	})
	if allocs > 3 {
		t.Fatalf("%v allocations for 5000 events", allocs)
	}
}

func BenchmarkReader(b *testing.B) {
	s := strings.Repeat("data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"tok\"}}]}\n\n", 2000)
	var pool sse.Pool
	var r sse.Reader
	src := strings.NewReader(s)
	b.ReportAllocs()
	b.SetBytes(int64(len(s)))
	for b.Loop() {
		src.Reset(s)
		r.Reset(src, &pool, 0)
		for {
			if _, err := r.Read(); err != nil {
				break
			}
		}
		r.Release()
	}
}

func ExampleReader() {
	var pool sse.Pool
	var r sse.Reader
	r.Reset(strings.NewReader("retry: 3000\n\nevent: greeting\ndata: hello\ndata: world\n\n"), &pool, 0)
	defer r.Release()
	for {
		ev, err := r.Read()
		if err != nil {
			break
		}
		fmt.Printf("%s %q\n", ev.Name, ev.Data)
	}
	fmt.Println(r.Retry() == 3*time.Second)
	// Output:
	// greeting "hello\nworld"
	// true
}
