// Command rouse runs agents in a terminal: it wires the kernel and the agent to a
// store in a directory, to model providers that it finds in the environment, and
// to tools that work below one directory.
//
//	rouse run "What is in this directory?"
//	rouse chat
//	rouse resume
//
// What a run did is kept; a run that was interrupted, also by kill -9, continues
// from its last commit. Exit status: 0 success, 1 failure, 2 wrong usage.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Process is what the program gets from the operating system.
type Process struct {
	Args   []string // without the program's name
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	// Getenv looks a variable up; "" when it is not set.
	Getenv func(name string) string
	// Signals are acted upon as they come: an interrupt cancels the run, a second
	// one soon after ends the program; terminate and hang-up let the run go, so
	// that it can be resumed. Anything else is ignored. Nil: none come.
	Signals <-chan os.Signal
	// Fault is passed on to the store; for tests, nil otherwise.
	Fault func(point string) error
}

func main() {
	signals := make(chan os.Signal, 8)
	// SIGPIPE is among them so that a reader of our output who goes away is an
	// error of the write, not the end of the process.
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	os.Exit(Main(context.Background(), Process{
		Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Getenv: os.Getenv, Signals: signals,
	}))
}

// Main runs the program and returns its exit status. It returns without waiting
// for a run that is being driven only when the user insists (two interrupts); the
// process is meant to end then.
func Main(ctx context.Context, p Process) int {
	a := newApp(p)
	over := make(chan struct{})
	defer close(over)
	go a.stop.watch(p.Signals, over)
	done := make(chan int, 1)
	go func() { done <- a.report(a.execute(ctx)) }()
	select {
	case code := <-done:
		return code
	case <-a.stop.quit:
		a.term.restore()
		return 1
	}
}
