// Loop measures what an agent loop costs: the runtime beside two loops written
// by hand, a plain one and a tuned one, against a model server that does the
// same for each of them.
//
//	go run ./bench/loop                          one full pass, about ten minutes
//	go run ./bench/loop -scale 0.1               a quick look
//	go run ./bench/loop -check                   the gate: exit code 1 when a Must is missed
//	go run ./bench/loop -workloads W3 -profile p CPU and allocation profiles of each peer
//
// Every measurement is a child process of its own. All peers are measured in
// each repetition, in an order that rotates; a ratio is taken inside a
// repetition, and its median over the repetitions is reported.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Exit codes.
const (
	exitOK     = 0
	exitMissed = 1
	exitError  = 2
)

func main() {
	if len(os.Args) == 2 {
		if child := childNamed(os.Args[1]); child != nil {
			os.Exit(serveChild(child, os.Stdin, os.Stdout, os.Stderr))
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := bench(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// bench is the program without the process around it; it returns the exit code.
func bench(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parseOptions(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return exitOK
	}
	if err != nil {
		printf(stderr, "loop: %v\n", err)
		return exitError
	}
	rep, err := measureAll(ctx, o, stderr)
	if err != nil {
		printf(stderr, "loop: %v\n", err)
		return exitError
	}
	if o.check {
		rep.Verdicts = judge(rep, o)
	}
	if err := rep.write(stdout, o.json); err != nil {
		printf(stderr, "loop: %v\n", err)
		return exitError
	}
	if missed(rep.Verdicts) {
		return exitMissed
	}
	return exitOK
}

// printf writes for the person who watches; that nobody reads it is no error.
func printf(w io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintf(w, format, args...)
}
