package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"sync"

	"golang.org/x/term"
)

// errInterrupt is what readLine returns for Ctrl-C; io.EOF stands for Ctrl-D.
var errInterrupt = errors.New("interrupt")

// errGone is what readLine returns when the terminal has gone away.
var errGone = errors.New("the terminal is gone")

// maxHistory bounds the lines that can be called up again.
const maxHistory = 500

// terminal asks a person. It is there when the standard input and the standard
// error are both terminals, so that the standard output may go anywhere.
type terminal struct {
	in    *os.File // nil: nobody can be asked
	out   *os.File
	keys  *keyboard
	lines *history
	ed    *term.Terminal
	read  chan lineRead // of a read that nobody waits for any more

	mu    sync.Mutex
	saved *term.State // how the terminal was before a line is read
}

type lineRead struct {
	line string
	err  error
}

func newTerminal(p Process) *terminal {
	in, ok := p.Stdin.(*os.File)
	out, ok2 := p.Stderr.(*os.File)
	if !ok || !ok2 || !term.IsTerminal(fd(in)) || !term.IsTerminal(fd(out)) {
		return &terminal{}
	}
	t := &terminal{in: in, out: out, keys: &keyboard{from: in}, lines: &history{}}
	t.ed = term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{t.keys, out}, "")
	t.ed.History = t.lines
	return t
}

func fd(f *os.File) int { return int(f.Fd()) } //nolint:gosec // descriptors are small

// isTerminal reports whether w is one.
func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(fd(f))
}

// there reports whether somebody can be asked.
func (t *terminal) there() bool { return t.in != nil }

// readLine shows prompt and returns the line that is typed; keep puts it among
// those that can be called up again. It returns when ctx ends; then what is being
// typed belongs to the next call.
func (t *terminal) readLine(ctx context.Context, prompt string, keep bool) (string, error) {
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	state, err := term.MakeRaw(fd(t.in))
	if err != nil {
		return "", errors.Join(errGone, err)
	}
	t.mu.Lock()
	t.saved = state
	t.mu.Unlock()
	defer t.restore()
	t.lines.keep(keep)
	t.ed.SetPrompt(prompt)
	if t.read == nil {
		if w, h, err := term.GetSize(fd(t.out)); err == nil && w > 0 && h > 0 {
			_ = t.ed.SetSize(w, h) // it fails only when nothing can be written
		}
		t.read = make(chan lineRead, 1)
		go func(to chan<- lineRead) {
			line, err := t.ed.ReadLine()
			to <- lineRead{line, err}
		}(t.read)
	}
	select {
	case r := <-t.read:
		t.read = nil
		return t.result(r)
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

func (t *terminal) result(r lineRead) (string, error) {
	switch {
	case t.keys.interrupted():
		return "", errInterrupt
	case r.err == nil, errors.Is(r.err, term.ErrPasteIndicator):
		return r.line, nil
	case errors.Is(r.err, io.EOF) && !t.keys.gone():
		_, _ = io.WriteString(t.out, "\r\n") // only for the looks
		return "", io.EOF
	}
	return "", errors.Join(errGone, r.err)
}

// restore puts the terminal back to how it was before a line was read.
func (t *terminal) restore() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.saved != nil {
		_ = term.Restore(fd(t.in), t.saved) // when it fails there is no terminal any more
		t.saved = nil
	}
}

// keyboard turns Ctrl-C into the end of an empty line, and remembers that it did.
type keyboard struct {
	from io.Reader

	mu   sync.Mutex
	buf  []byte
	hit  bool
	lost bool
}

const ctrlC = 3

// clearLine is what a line editor understands as: forget the line, and Enter.
const clearLine = "\x0b\x15\r"

// Read implements io.Reader.
func (k *keyboard) Read(p []byte) (int, error) {
	if len(p) < len(clearLine) {
		return 0, io.ErrShortBuffer
	}
	k.mu.Lock()
	have := len(k.buf) > 0
	k.mu.Unlock()
	if !have {
		buf := make([]byte, 256)
		n, err := k.from.Read(buf)
		k.mu.Lock()
		k.buf = append(k.buf, buf[:n]...)
		k.lost = k.lost || err != nil
		k.mu.Unlock()
		if n == 0 {
			return 0, err
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.buf[0] == ctrlC {
		k.buf, k.hit = k.buf[1:], true
		return copy(p, clearLine), nil
	}
	end := len(k.buf)
	if i := bytes.IndexByte(k.buf, ctrlC); i > 0 {
		end = i
	}
	n := copy(p, k.buf[:end])
	k.buf = k.buf[n:]
	return n, nil
}

// interrupted reports whether Ctrl-C was hit since it was last asked.
func (k *keyboard) interrupted() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	hit := k.hit
	k.hit = false
	return hit
}

func (k *keyboard) gone() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lost
}

// history is the lines that can be called up again, the newest first.
type history struct {
	mu    sync.Mutex
	on    bool
	lines []string // the oldest first
}

func (h *history) keep(on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.on = on
}

// Add implements term.History.
func (h *history) Add(line string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := len(h.lines)
	if !h.on || line == "" || n > 0 && h.lines[n-1] == line {
		return
	}
	h.lines = append(h.lines, line)
	if len(h.lines) > maxHistory {
		h.lines = h.lines[1:]
	}
}

// Len implements term.History.
func (h *history) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.lines)
}

// At implements term.History; it is only asked for what Len allows.
func (h *history) At(i int) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lines[len(h.lines)-1-i]
}
