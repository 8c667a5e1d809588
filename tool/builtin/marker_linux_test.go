package builtin

import (
	"os/exec"
	"testing"
)

// A process is known by its environment alone, as when it has closed all that
// it inherited, and by its lifeline alone.
func TestTraces(t *testing.T) {
	t.Parallel()
	start := func(cmd *exec.Cmd) int {
		t.Helper()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := cmd.Process.Kill(); err != nil {
				t.Error(err)
			}
			if err := cmd.Wait(); err == nil {
				t.Error("the process was not killed")
			}
		})
		return cmd.Process.Pid
	}
	marked := exec.Command("/bin/sleep", "1000")
	marked.Env = []string{"A=b", markerName + "=one"}
	held := exec.Command("/bin/sleep", "1000")
	held.Env = []string{"A=b"}
	line, err := addLifeline(held)
	if err != nil {
		t.Fatal(err)
	}
	other, err := addLifeline(exec.Command("/bin/true"))
	if err != nil {
		t.Fatal(err)
	}
	a, b := start(marked), start(held)
	for _, l := range []lifeline{line, other} {
		if err := l.close(); err != nil {
			t.Fatal(err)
		}
	}
	p := &process{marker: markerName + "=one"}
	q := &process{marker: markerName + "=two"}
	if !p.marked(a) || p.marked(b) || q.marked(a) || q.marked(b) {
		t.Error("the marker tells nothing")
	}
	if line.heldBy(a) || !line.heldBy(b) || other.heldBy(a) || other.heldBy(b) {
		t.Error("the lifeline tells nothing")
	}
}
