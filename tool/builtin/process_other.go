//go:build !unix

package builtin

import (
	"context"
	"os"
	"time"

	"github.com/rouse-run/rouse"
)

const maxSweep = 5 * time.Second

// process does not exist on systems without process groups.
type process struct {
	out        *os.File
	ended      chan struct{}
	cause      error
	status     string
	background bool
	survivors  int
}

func startProcess(string, string, []string, string) (*process, error) {
	return nil, failure(rouse.CodeUnsupported, "shell", "there is no shell tool on this system")
}

func (p *process) supervise(context.Context, time.Duration) { close(p.ended) }

func endOfOutput(err error) error { return err }
