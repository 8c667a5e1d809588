package run

// The questions of a run are kept in one list, so that Answer can be called from
// any goroutine while frames are being driven.

func (r *runner) isOpen(f *frame, id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.asks {
		if a.f == f && a.ask.ID == id {
			return !a.closed
		}
	}
	return false
}

func (r *runner) wasAnswered(f *frame, id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.asks {
		if a.f == f && a.ask.ID == id {
			return a.taken
		}
	}
	return false
}

// setAsks makes asks the open questions of f: new ones are added, those that are
// not named are withdrawn.
func (r *runner) setAsks(f *frame, asks []Ask) {
	if len(asks) == 0 && len(f.asks) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.asks {
		if a.f == f {
			a.closed = true
		}
	}
	for _, q := range asks {
		r.reopen(f, q)
	}
	f.asks = asks
}

func (r *runner) reopen(f *frame, q Ask) {
	for _, a := range r.asks {
		if a.f == f && a.ask.ID == q.ID {
			a.closed = false
			return
		}
	}
	r.asks = append(r.asks, &openAsk{ask: q, f: f})
}

// takeDecisions moves the answers that came to f; false when there is none.
func (r *runner) takeDecisions(f *frame) bool {
	if r.replay != nil {
		r.replay.answers(r, f)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	found := false
	for _, a := range r.asks {
		if a.f == f && !a.closed && a.decision != nil {
			f.decisions = append(f.decisions, *a.decision)
			a.closed, a.taken, found = true, true, true
			f.taken = append(f.taken, a.ask.ID)
		}
	}
	if found {
		kept := f.asks[:0:0]
		for _, q := range f.asks {
			if !decided(f.decisions, q.ID) {
				kept = append(kept, q)
			}
		}
		f.asks = kept
	}
	return found
}

func decided(ds []Decision, id string) bool {
	for _, d := range ds {
		if d.Ask == id {
			return true
		}
	}
	return false
}

func (r *runner) hasDecisions(f *frame) bool {
	if r.replay != nil && r.replay.moves(f) {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.asks {
		if a.f == f && !a.closed && a.decision != nil {
			return true
		}
	}
	return false
}

func (r *runner) anyDecisions(fs []*frame) bool {
	for _, f := range fs {
		if f.state == frameAsking && r.hasDecisions(f) {
			return true
		}
		if f.state == frameCalling && r.anyDecisions(f.children) {
			return true
		}
	}
	return false
}
