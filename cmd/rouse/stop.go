package main

import (
	"os"
	"sync"
	"time"

	"github.com/rouse-run/rouse/run"
)

// insist is how soon a second interrupt must come to end the program at once.
const insist = 2 * time.Second

// bounce is how soon a second interrupt is still the first one: a key that is hit
// while a tool's process is being started may be delivered twice.
const bounce = 20 * time.Millisecond

// stopper turns signals into what happens to the run that is being driven.
//
//	             interrupt              interrupt within 2 s
//	running ─────────────────▶ canceling ─────────────────▶ quit
//	   │ terminate, hang-up
//	   └─────────────────────▶ leaving: the run is let go
type stopper struct {
	quit chan struct{} // closed: end the program at once
	say  func(format string, args ...any)

	mu     sync.Mutex
	cancel func(cause error) // of the run that is being driven; nil: none is
	idle   func(cause error) // what cancel is between two runs
	last   time.Time         // of the last interrupt
	busy   bool              // a run is being driven
	left   bool              // somebody asked to leave
	over   bool              // quit is closed
}

func newStopper(say func(format string, args ...any)) *stopper {
	return &stopper{quit: make(chan struct{}), say: say}
}

// watch acts on signals until over is closed.
func (s *stopper) watch(signals <-chan os.Signal, over <-chan struct{}) {
	for {
		select {
		case sig := <-signals:
			switch {
			case sig == os.Interrupt:
				s.interrupt()
			case leaves(sig):
				s.leave()
			}
		case <-over:
			return
		}
	}
}

// interrupt is what Ctrl-C does.
func (s *stopper) interrupt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	since := time.Since(s.last)
	if since < bounce {
		return
	}
	again := since < insist
	s.last = time.Now()
	if s.cancel == nil || again {
		s.end()
		return
	}
	if s.busy {
		s.say("rouse: canceling the run; interrupt again to end at once, and resume it later")
	}
	s.cancel(run.ErrCanceled)
}

// leave lets the run go, so that it can be resumed.
func (s *stopper) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = true
	if s.cancel == nil {
		s.end()
		return
	}
	s.cancel(run.ErrDetach)
}

func (s *stopper) end() {
	if !s.over {
		s.over = true
		close(s.quit)
	}
}

// drives says how to stop what happens from now on; the function that it returns
// says that it is over. An interrupt in between concerns nothing else.
func (s *stopper) drives(cancel func(cause error)) (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel, s.last, s.busy = cancel, time.Time{}, true
	if s.left {
		cancel(run.ErrDetach)
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.cancel, s.busy = s.idle, false
	}
}

// rests says what signals do between two runs. Without it they end the program.
func (s *stopper) rests(cancel func(cause error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle, s.cancel = cancel, cancel
}

// leaving reports whether somebody asked to leave.
func (s *stopper) leaving() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.left
}
