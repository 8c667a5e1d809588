// Package sse reads streams of server-sent events as the WHATWG HTML standard
// defines them (section "Server-sent events"): any mix of CRLF, LF and CR, a
// leading byte order mark, comments, and events of several data lines.
//
// The reader works on batches: Fill reads once and Next hands out the events
// that are complete then, as views of the read buffer. While it waits for a
// silent peer it holds no buffer.
package sse

import (
	"bytes"
	"io"
	"sync"
	"time"

	"github.com/rouse-run/rouse"
)

const (
	pageSize = 16 << 10
	// DefaultMaxEvent bounds one event, in bytes as they arrive.
	DefaultMaxEvent = 16 << 20
	// maxEmptyReads is how often in a row a source may return no bytes and no error.
	maxEmptyReads = 100
)

// Pool lends read buffers to Readers. The zero value is ready to use, and a
// Pool is safe for concurrent use.
type Pool struct{ pages sync.Pool }

func (p *Pool) get() *[pageSize]byte {
	if page, ok := p.pages.Get().(*[pageSize]byte); ok {
		return page
	}
	return new([pageSize]byte)
}

// Event is one dispatched event.
type Event struct {
	// Name is the event's type; empty stands for "message".
	Name string
	// Data is the data lines joined by "\n". It is a view of the read buffer,
	// valid until the next Fill, and may be empty.
	Data []byte
}

// Reader reads the events of one stream. Call Reset before anything else. It is
// not safe for concurrent use.
type Reader struct {
	src  io.Reader
	pool *Pool
	max  int

	page *[pageSize]byte // borrowed from pool, nil when buf is not a page
	buf  []byte
	r, w int // buf[r:w] has arrived and is not parsed yet
	scan int // buf[r:scan] holds no end of line

	data, dataEnd int // buf[data:dataEnd] is the data of the event that is being read
	hasData       bool
	name          string // of that event
	lastName      string // the latest name that was allocated, reused when it comes again
	id            string
	retry         time.Duration

	begun  bool // the byte order mark, if any, is behind
	skipLF bool // the last line ended with CR; an LF that follows belongs to it
	err    error
	one    [1]byte
}

// Reset makes r read src with buffers of pool. An event of more than
// maxEvent bytes is an error of code CodeTooLarge; zero means DefaultMaxEvent.
// What r held before is released.
func (r *Reader) Reset(src io.Reader, pool *Pool, maxEvent int) {
	r.Release()
	if maxEvent <= 0 {
		maxEvent = DefaultMaxEvent
	}
	*r = Reader{src: src, pool: pool, max: maxEvent}
}

// Unread puts b in front of what src will yield. It may be called once, between
// Reset and the first Fill.
func (r *Reader) Unread(b byte) { r.adopt(b) }

// LastID returns the last event id that the stream has set.
func (r *Reader) LastID() string { return r.id }

// Retry returns the reconnection time that the stream has set, or zero.
func (r *Reader) Retry() time.Duration { return r.retry }

// Release gives the buffer back. Events that were handed out become invalid, and
// r must be Reset before it is used again.
func (r *Reader) Release() {
	if r.page != nil {
		r.pool.pages.Put(r.page)
	}
	r.page, r.buf, r.src = nil, nil, nil
	r.r, r.w, r.scan = 0, 0, 0
	r.hasData = false
}

// Read returns the next event, reading as often as it takes. At the end of the
// stream it returns io.EOF; an event that is incomplete then is dropped, as the
// standard demands.
func (r *Reader) Read() (Event, error) {
	for {
		if ev, ok := r.Next(); ok {
			return ev, nil
		}
		if err := r.Fill(); err != nil {
			return Event{}, err
		}
	}
}

// Next returns the next event that is complete without reading, or false. Its
// Data and that of the events before it stay valid until Fill.
func (r *Reader) Next() (Event, bool) {
	for {
		from, to, ok := r.line()
		if !ok {
			return Event{}, false
		}
		if from < to {
			r.field(from, to)
			continue
		}
		if ev, ok := r.dispatch(); ok {
			return ev, true
		}
	}
}

// Tail returns the event that was incomplete when the stream ended. The standard
// drops it; callers whose data proves its own completeness may accept it from
// peers that forget the last blank line. Call it once, after Fill returned io.EOF.
func (r *Reader) Tail() (Event, bool) {
	if from, to, ok := r.line(); ok && from < to {
		r.field(from, to)
	}
	if r.r < r.w {
		r.field(r.r, r.w)
		r.r = r.w
	}
	return r.dispatch()
}

// Fill blocks for one read of the source. It returns the source's error, io.EOF
// at the end, or an error of code CodeTooLarge; errors are final.
func (r *Reader) Fill() error {
	if r.err != nil {
		return r.err
	}
	keep := r.r
	if r.hasData {
		keep = r.data
	}
	if keep == r.w {
		return r.wait()
	}
	if r.w-keep >= r.max {
		r.err = &rouse.Error{Code: rouse.CodeTooLarge, Op: "sse", Message: "an event of the stream is larger than the limit"}
		return r.err
	}
	r.room(keep)
	n, err := r.read(r.buf[r.w:])
	r.w += n
	r.err = err
	if n > 0 {
		return nil
	}
	return err
}

// wait reads the first byte of what comes next without holding a buffer.
func (r *Reader) wait() error {
	if r.page != nil {
		r.pool.pages.Put(r.page)
	}
	r.page, r.buf = nil, nil
	r.r, r.w, r.scan = 0, 0, 0
	n, err := r.read(r.one[:])
	r.err = err
	if n == 0 {
		return err
	}
	r.adopt(r.one[0])
	return nil
}

func (r *Reader) adopt(b byte) {
	r.page = r.pool.get()
	r.buf = r.page[:]
	r.buf[0] = b
	r.r, r.w, r.scan = 0, 1, 0
}

func (r *Reader) read(b []byte) (int, error) {
	for range maxEmptyReads {
		if n, err := r.src.Read(b); n > 0 || err != nil {
			return n, err
		}
	}
	return 0, io.ErrNoProgress
}

// room makes space behind w; what lies before keep may be overwritten.
func (r *Reader) room(keep int) {
	if len(r.buf)-r.w >= pageSize/4 {
		return
	}
	if held := r.w - keep; held <= len(r.buf)/2 {
		copy(r.buf, r.buf[keep:r.w])
	} else {
		bigger := make([]byte, 2*len(r.buf))
		copy(bigger, r.buf[keep:r.w])
		if r.page != nil {
			r.pool.pages.Put(r.page)
			r.page = nil
		}
		r.buf = bigger
	}
	r.r, r.w, r.scan = r.r-keep, r.w-keep, r.scan-keep
	r.data, r.dataEnd = r.data-keep, r.dataEnd-keep
}

// line returns where in buf the next line lies, without its end, or false when
// it is not complete.
func (r *Reader) line() (from, to int, ok bool) {
	if !r.begun && !r.begin() {
		return 0, 0, false
	}
	if r.skipLF && r.r < r.w {
		r.skipLF = false
		if r.buf[r.r] == '\n' {
			r.r++
		}
	}
	unseen := max(r.scan, r.r)
	i := lineEnd(r.buf[unseen:r.w])
	if i < 0 {
		r.scan = r.w
		return 0, 0, false
	}
	from, to = r.r, unseen+i
	r.skipLF = r.buf[to] == '\r'
	r.r = to + 1
	r.scan = r.r
	return from, to, true
}

func (r *Reader) begin() bool {
	const bom = "\xef\xbb\xbf"
	head := r.buf[r.r:min(r.w, r.r+len(bom))]
	if len(head) < len(bom) && string(head) == bom[:len(head)] {
		return false
	}
	if string(head) == bom {
		r.r += len(bom)
	}
	r.begun = true
	return true
}

func lineEnd(b []byte) int {
	lf := bytes.IndexByte(b, '\n')
	if lf >= 0 {
		b = b[:lf]
	}
	if cr := bytes.IndexByte(b, '\r'); cr >= 0 {
		return cr
	}
	return lf
}

// field takes the line buf[from:to], which is not blank.
func (r *Reader) field(from, to int) {
	line := r.buf[from:to]
	name, at := line, to
	if i := bytes.IndexByte(line, ':'); i >= 0 {
		name, at = line[:i], from+i+1
		if at < to && r.buf[at] == ' ' {
			at++
		}
	}
	value := r.buf[at:to]
	switch string(name) {
	case "data":
		r.addData(at, to)
	case "event":
		if string(value) != r.lastName {
			r.lastName = string(value)
		}
		r.name = r.lastName
	case "id":
		if bytes.IndexByte(value, 0) < 0 && string(value) != r.id {
			r.id = string(value)
		}
	case "retry":
		if ms, ok := digits(value); ok {
			r.retry = time.Duration(ms) * time.Millisecond
		}
	}
}

// addData moves buf[from:to] behind the data that came before: the names and
// ends of lines in between leave more room than the separator needs.
func (r *Reader) addData(from, to int) {
	if !r.hasData {
		r.hasData, r.data, r.dataEnd = true, from, to
		return
	}
	r.buf[r.dataEnd] = '\n'
	r.dataEnd += 1 + copy(r.buf[r.dataEnd+1:], r.buf[from:to])
}

func (r *Reader) dispatch() (Event, bool) {
	ev, ok := Event{Name: r.name}, r.hasData
	if ok {
		ev.Data = r.buf[r.data:r.dataEnd:r.dataEnd]
	}
	r.hasData, r.name = false, ""
	return ev, ok
}

func digits(b []byte) (n int64, ok bool) {
	const most = 1 << 40 // milliseconds; larger is nonsense
	for _, c := range b {
		if c < '0' || c > '9' || n > most {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, len(b) > 0
}
