package builtin

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// awaitExit returns when the shell has ended, without reaping it: as long as it
// is a zombie, its id cannot become the id of another process or group.
func (p *process) awaitExit() {
	const idtypePID = 1
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, idtypePID, uintptr(p.cmd.Process.Pid), 0,
			syscall.WEXITED|syscall.WNOWAIT, 0, 0)
		switch errno {
		case syscall.EINTR:
		case 0:
			return
		default: // the system does not permit the look; reap at once instead
			p.reap()
			return
		}
	}
}

// reap removes the zombie and says how the shell ended.
func (p *process) reap() string {
	if err := p.cmd.Wait(); p.cmd.ProcessState == nil {
		return "the exit code is not known: " + bare(err).Error()
	}
	return describe(p.cmd.ProcessState)
}

// lifelineFD is the number of a descriptor that commands inherit and have no
// use for. It is above those that a shell script can name.
const lifelineFD = 20

// lifeline is one end of a pipe that nobody reads or writes. A process that has
// it as lifelineFD belongs to the call, also when its environment is gone.
type lifeline struct {
	file *os.File
	name string // as /proc shows it
}

// addLifeline gives cmd a lifeline. The caller closes it when cmd was started,
// so that no other process gets it.
func addLifeline(cmd *exec.Cmd) (lifeline, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return lifeline{}, err
	}
	release(r)
	l := lifeline{file: w}
	fi, err := w.Stat()
	if err != nil {
		return l, err
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		l.name = fmt.Sprintf("pipe:[%d]", st.Ino)
	}
	cmd.ExtraFiles = make([]*os.File, lifelineFD-2)
	cmd.ExtraFiles[lifelineFD-3] = w
	return l, nil
}

func (l lifeline) close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}

// heldBy reports whether a process has the lifeline. A process of ours that is
// about to become another program may hold it by chance; it is told by its
// program, which is still our own.
func (l lifeline) heldBy(pid int) bool {
	dir := "/proc/" + strconv.Itoa(pid)
	name, err := os.Readlink(dir + "/fd/" + strconv.Itoa(lifelineFD))
	if err != nil || name != l.name {
		return false
	}
	theirs, err := os.Readlink(dir + "/exe")
	own, oerr := os.Readlink("/proc/self/exe")
	return err == nil && oerr == nil && theirs != own
}

// proc is one process of the system.
type proc struct {
	pid, parent, group, session int
	state                       byte
	start                       int // when it was started, in ticks: with pid it is unique
}

// running returns the live processes of this call: those in the group or
// session, those that carry the marker or the lifeline, all that descend from one of them, and
// those that were found earlier: an orphan has lost the trace of its parents.
func (p *process) running() []proc {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil // without /proc there is only the group, which was killed
	}
	names, err := dir.Readdirnames(-1)
	if cerr := dir.Close(); err != nil || cerr != nil {
		return nil
	}
	leader := p.cmd.Process.Pid
	first, _ := readProc(leader) // nothing of ours is older
	var all []proc
	ours := map[int]bool{leader: true}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		q, ok := readProc(pid)
		if !ok {
			continue
		}
		all = append(all, q)
		if q.group == leader || q.session == leader || p.seen[pid] == q.start ||
			q.start >= first.start && (p.marked(pid) || p.lifeline.heldBy(pid)) {
			ours[pid] = true
		}
	}
	for grown := true; grown; {
		grown = false
		for _, q := range all {
			if !ours[q.pid] && ours[q.parent] {
				ours[q.pid], grown = true, true
			}
		}
	}
	var out []proc
	for _, q := range all {
		switch {
		case !ours[q.pid] || q.state == 'X':
		case q.state != 'Z':
			out = append(out, q)
			p.seen[q.pid] = q.start
		case q.pid != leader && q.parent == os.Getpid():
			// An orphan that was given to us, as happens to the first process of a
			// container: nobody else removes it.
			_, _ = syscall.Wait4(q.pid, nil, syscall.WNOHANG, nil)
		}
	}
	return out
}

// marked reports whether a process was started with the marker.
func (p *process) marked(pid int) bool {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false // gone, or of another user whom we could not kill either
	}
	for entry := range bytes.SplitSeq(env, []byte{0}) {
		if string(entry) == p.marker {
			return true
		}
	}
	return false
}

// readProc reads /proc/pid/stat, see proc(5).
func readProc(pid int) (proc, bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return proc{}, false
	}
	// The name is in parentheses and may hold anything; the last one ends it.
	f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(f) < 20 {
		return proc{}, false
	}
	num := func(b []byte) int {
		n, err := strconv.Atoi(string(b))
		if err != nil {
			return -1
		}
		return n
	}
	return proc{pid: pid, state: f[0][0], parent: num(f[1]), group: num(f[2]), session: num(f[3]), start: num(f[19])}, true
}

func (p *process) alive() int { return len(p.running()) }

// killAll kills each process that is left. A process is held by a handle and
// looked at again before it is killed, so that nobody who got its id is hit.
func (p *process) killAll() {
	found := p.running()
	p.signalGroup(syscall.SIGKILL)
	for _, q := range found {
		h, err := os.FindProcess(q.pid)
		if err != nil {
			continue
		}
		if now, ok := readProc(q.pid); ok && now.start == q.start {
			_ = h.Kill() // that it is gone already is fine; the next look tells
		}
		_ = h.Release()
	}
}
