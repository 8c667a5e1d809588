package builtin

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/tool"
)

const (
	// markerName is the variable that marks the processes of one call.
	markerName = "ROUSE_SHELL_CALL"
	// maxCommandBytes is below what systems take as one argument.
	maxCommandBytes = 100 << 10
	// maxProgress bounds one progress report.
	maxProgress = 4 << 10
	// maxErrorOutput bounds the output that an error shows.
	maxErrorOutput = 4 << 10
)

type shellArgs struct {
	Command string  `json:"command"`
	Timeout float64 `json:"timeout_seconds"`
}

func (t *Tools) shellTool() tool.Tool {
	return &function[shellArgs]{
		spec: tool.Spec{
			Name: "shell",
			Description: "Runs a command with /bin/sh in the root directory and returns its output (standard output and error together) and exit code. " +
				"There is no input and no terminal; processes left in the background are ended with the call.",
			Schema: fmt.Appendf(nil, `{"type":"object","properties":{`+
				`"command":{"type":"string","minLength":1,"description":"The command line."},`+
				`"timeout_seconds":{"type":"number","exclusiveMinimum":0,"maximum":%g,"description":"Time limit. Default %g."}},`+
				`"required":["command"],"additionalProperties":false}`, t.cfg.MaxShellTimeout.Seconds(), t.cfg.ShellTimeout.Seconds()),
			Effect:  tool.Unsafe,
			Timeout: t.cfg.MaxShellTimeout + t.cfg.ShellGrace + 2*maxSweep,
		},
		run: t.runShell,
	}
}

// errShellTimeout is the cause when a command has used up its time.
var errShellTimeout = errors.New("the time of the command is over")

func (t *Tools) runShell(ctx context.Context, c *tool.Call, a shellArgs) (string, error) {
	const op = "shell"
	limit := t.cfg.ShellTimeout
	switch {
	case strings.TrimSpace(a.Command) == "" || strings.ContainsRune(a.Command, 0):
		return "", failure(rouse.CodeInvalid, op, "the command is empty or holds a NUL byte")
	case len(a.Command) > maxCommandBytes:
		return "", failure(rouse.CodeTooLarge, op, "the command has %d bytes, the limit is %d; write a script with write_file and run that",
			len(a.Command), maxCommandBytes)
	case a.Timeout < 0 || a.Timeout > t.cfg.MaxShellTimeout.Seconds():
		return "", failure(rouse.CodeInvalid, op, "timeout_seconds is between 0 and %g", t.cfg.MaxShellTimeout.Seconds())
	case a.Timeout > 0:
		limit = time.Duration(a.Timeout * float64(time.Second))
	}
	if err := t.rootInPlace(op); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errShellTimeout)
	defer cancel()
	marker := markerName + "=" + rand.Text()
	p, err := startProcess(a.Command, t.cfg.Root, append(t.env(), marker), marker)
	if err != nil {
		return "", err
	}
	go p.supervise(ctx, t.cfg.ShellGrace)
	defer func() { // also when Progress panics
		cancel()
		<-p.ended
		_ = p.out.Close() // all that matters has been read
	}()
	out := headTail{most: t.cfg.MaxShellOutput}
	copyErr := copyOutput(p.out, &out, c.Progress)
	<-p.ended
	return shellResult(p, &out, limit, copyErr)
}

// rootInPlace checks that the path of the root still leads to the directory
// that was opened. A command needs the path.
func (t *Tools) rootInPlace(op string) error {
	opened, err := t.root.Stat(".")
	if err != nil {
		return t.pathError(op, ".", err)
	}
	if now, err := os.Stat(t.cfg.Root); err != nil || !os.SameFile(opened, now) {
		return failure(rouse.CodeConflict, op, "the root directory was moved or replaced")
	}
	return nil
}

// shellResult is what a call returns once its processes are gone.
func shellResult(p *process, out *headTail, limit time.Duration, copyErr error) (string, error) {
	const op = "shell"
	if p.survivors > 0 {
		return "", failure(rouse.CodeToolFailed, op, "%d processes of the command could not be ended", p.survivors)
	}
	if p.cause != nil {
		e := &rouse.Error{Code: rouse.CodeCanceled, Op: op, Message: "the call was canceled and the command ended", Err: p.cause}
		if errors.Is(p.cause, errShellTimeout) {
			e.Code, e.Message = rouse.CodeTimeout, fmt.Sprintf("the command did not finish within %s and was ended", limit)
			e.Hint = "give a longer timeout_seconds, or do less at once"
		} else if errors.Is(p.cause, context.DeadlineExceeded) {
			e.Code, e.Message = rouse.CodeTimeout, "the time for the call is over and the command was ended"
		}
		if last := out.last(maxErrorOutput); last != "" {
			e.Message += "; the end of its output:\n" + last
		}
		return "", e
	}
	text, _ := validText(out.bytes())
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if copyErr != nil {
		text += "[the output could not be read to its end]\n"
	}
	if p.background {
		text += "[processes left in the background were ended]\n"
	}
	return text + "[" + p.status + "]\n", nil
}

// env returns the whole environment of a command, sorted.
func (t *Tools) env() []string {
	vars := map[string]string{
		"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME": t.cfg.Root,
		"LANG": "C.UTF-8",
		"TERM": "dumb",
	}
	for name, value := range t.cfg.Env {
		vars[name] = value
	}
	out := make([]string, 0, len(vars)+1)
	for name, value := range vars {
		out = append(out, name+"="+value)
	}
	slices.Sort(out)
	return out
}

// copyOutput moves what a command writes to out until nobody can write any
// more, and reports complete lines to progress as they come: what arrives
// together is reported together, of much the end.
func copyOutput(r *os.File, out *headTail, progress func(string)) error {
	buf := make([]byte, 32<<10)
	var line []byte // the beginning of a line that is not complete
	report := func(lines []byte) {
		if len(lines) > maxProgress {
			lines = lines[len(lines)-maxProgress:]
			if _, rest, ok := strings.Cut(string(lines), "\n"); ok && rest != "" {
				lines = []byte(rest)
			}
		}
		text, _ := validText(lines)
		progress(text)
	}
	for {
		n, err := r.Read(buf)
		out.write(buf[:n])
		line = append(line, buf[:n]...)
		if end := lastNewline(line); end >= 0 {
			report(line[:end])
			line = append(line[:0], line[end+1:]...)
		} else if len(line) > 2*maxProgress {
			line = append(line[:0], line[len(line)-maxProgress:]...)
		}
		if err != nil {
			if len(line) > 0 {
				report(line)
			}
			return endOfOutput(err)
		}
	}
}

func lastNewline(b []byte) int {
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] == '\n' {
			return i
		}
	}
	return -1
}

// headTail keeps the first and the last half of what is written to it.
type headTail struct {
	most  int // bytes kept
	head  []byte
	tail  []byte // a ring once it is full
	next  int    // where the ring is written next
	total int64
}

func (h *headTail) write(p []byte) {
	h.total += int64(len(p))
	n := min(len(p), h.most-h.most/2-len(h.head))
	h.head = append(h.head, p[:n]...)
	p = p[n:]
	size := h.most / 2
	if len(p) > size {
		p = p[len(p)-size:]
	}
	n = min(len(p), size-len(h.tail))
	h.tail = append(h.tail, p[:n]...)
	for p = p[n:]; len(p) > 0; p = p[n:] {
		n = copy(h.tail[h.next:], p)
		h.next = (h.next + n) % size
	}
}

// ring returns the tail in order.
func (h *headTail) ring() []byte {
	return append(slices.Clone(h.tail[h.next:]), h.tail[:h.next]...)
}

// bytes returns what was kept, with a remark in place of what was not.
func (h *headTail) bytes() []byte {
	left := h.total - int64(len(h.head)+len(h.tail))
	if left == 0 {
		return append(slices.Clone(h.head), h.ring()...)
	}
	head, tail := wholeRunes(h.head), h.ring()
	for len(tail) > 0 && tail[0]&0xC0 == 0x80 {
		tail = tail[1:] // the rest of a rune
	}
	left = h.total - int64(len(head)+len(tail))
	out := fmt.Appendf(slices.Clone(head), "\n[%d bytes left out]\n", left)
	return append(out, tail...)
}

// last returns the end of the output as text.
func (h *headTail) last(most int) string {
	b := h.bytes()
	if len(b) > most {
		b = b[len(b)-most:]
	}
	text, _ := validText(b)
	return text
}
