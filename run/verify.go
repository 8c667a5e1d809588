package run

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rouse-run/rouse"
)

// Report is what a replay found.
type Report struct {
	Run    string `json:"run"`
	Events int    `json:"events"` // of the journal that were checked
	// Complete tells that the run had ended; otherwise it was replayed up to its last commit.
	Complete   bool        `json:"complete"`
	Divergence *Divergence `json:"divergence,omitempty"` // nil: identical, byte for byte
}

// Divergence is the first place where a replay and the journal differ.
type Divergence struct {
	Index    int             `json:"index"` // of the event within the run, from 0
	Seq      int64           `json:"seq,omitempty"`
	Path     string          `json:"path,omitempty"`
	What     string          `json:"what"`
	Recorded json.RawMessage `json:"recorded,omitempty"`
	Replayed json.RawMessage `json:"replayed,omitempty"`
}

// Error makes a Divergence an error of code CodeNondeterministic with Err.
func (d *Divergence) Error() string { return fmt.Sprintf("event %d: %s", d.Index, d.What) }

// Err returns the divergence as a *rouse.Error, nil for none.
func (rep Report) Err() error {
	if rep.Divergence == nil {
		return nil
	}
	return &rouse.Error{
		Code: rouse.CodeNondeterministic, Op: "run.verify", Err: rep.Divergence,
		Message: "the replay of run " + rep.Run + " differs from its journal",
		Hint:    "the definition has changed since, a step is not deterministic, or the journal was altered",
	}
}

// errReplayEnd ends the replay of a run whose journal ends before the run does.
var errReplayEnd = errors.New("run: the journal ends here")

// Verify drives row's run again with everything that came from outside taken from
// the journal: no model, tool or clock is used and nothing is written. It compares
// what the steps ask for, record and decide with the journal, byte for byte, and
// checks the checksums of the journal first. A divergence is in the report; the
// error is for a journal that cannot be read or a step that is not the run's.
//
// A run that was forked is verified from the fork on.
func Verify[S, O any](ctx context.Context, step Step[S, O], row Row, opt Options) (Report, error) {
	return verify(ctx, Erase(step), row, opt)
}

func verify(ctx context.Context, step AnyStep, row Row, opt Options) (Report, error) {
	opt = opt.withDefaults()
	opt.Observers, opt.Sink = nil, nil
	rep := Report{Run: row.Run}
	var events []rouse.Event
	from := 0 // the replay begins after this event
	var sum summer
	for ev, err := range opt.Journal.Read(ctx, Query{Thread: row.Thread, Run: row.Run}) {
		if err != nil {
			return rep, err
		}
		if ev.Type == rouse.EventRunStarted {
			events, sum = events[:0], summer{}
		}
		if ev.Type == rouse.EventRunStarted || ev.Type == rouse.EventRunForked {
			from = len(events)
		}
		if len(events) == 0 && ev.Type != rouse.EventRunStarted {
			continue // the conversation before a fork
		}
		if sum.add(&ev) != ev.Sum {
			rep.Divergence = &Divergence{Index: len(events), Seq: ev.Seq, Path: ev.Path, Recorded: ev.Data, What: fmt.Sprintf("the %s event was altered: its checksum does not match", ev.Type)}
			return rep, nil
		}
		events = append(events, ev)
	}
	if len(events) == 0 {
		return rep, &rouse.Error{Code: rouse.CodeNotFound, Op: "run.verify", Message: "the journal has no run " + row.Run}
	}
	rep.Events = len(events)
	r, err := reload(ctx, step, row, opt, events[from].Seq)
	if err != nil {
		return rep, err
	}
	r.replay = newReplayer(events, from)
	r.out.ctx = ctx
	err = r.driveRoot(ctx)
	rep.Complete = r.replay.complete
	rep.Divergence = r.replay.outcome()
	if rep.Divergence == nil && err != nil && !errors.Is(err, errReplayEnd) {
		return rep, err
	}
	return rep, nil
}

// replayer stands in for the outside: it hands out what was recorded and compares
// what the driver wants to commit.
type replayer struct {
	tapes    map[string]*tape
	waiting  *taped // the run.waiting that the journal ends with
	complete bool

	mu       sync.Mutex // effects are asked for from several goroutines
	diverged *Divergence
}

// tape is what one frame committed, in order.
type tape struct {
	events []*taped
	pos    int // everything before it was compared
}

type taped struct {
	rouse.Event
	index int
	drawn bool // handed out, or compared
}

func newReplayer(events []rouse.Event, from int) *replayer {
	p := &replayer{tapes: map[string]*tape{}}
	for i := from + 1; i < len(events); i++ {
		ev := &taped{Event: events[i], index: i}
		switch ev.Type {
		case rouse.EventRunResumed:
			continue // of another process; its checksum was checked
		case rouse.EventRunWaiting:
			if i == len(events)-1 {
				p.waiting = ev
			}
			continue
		case rouse.EventRunFinished:
			p.complete = true
		}
		t := p.tapes[ev.Path]
		if t == nil {
			t = &tape{}
			p.tapes[ev.Path] = t
		}
		t.events = append(t.events, ev)
	}
	return p
}

// outcome says what the replay found once it has been driven.
func (p *replayer) outcome() *Divergence {
	if p.diverged != nil {
		return p.diverged
	}
	var left *taped
	for _, t := range p.tapes {
		for _, ev := range t.events {
			open := !p.complete && (ev.Key != "" || ev.Type == rouse.EventAnswered)
			if !ev.drawn && !open && (left == nil || ev.index < left.index) {
				left = ev
			}
		}
	}
	if left == nil && p.waiting != nil && !p.waiting.drawn {
		left = p.waiting
	}
	if left == nil {
		return nil
	}
	return diverge(left, "the replay ended without this "+string(left.Type)+" event", nil)
}

func diverge(ev *taped, what string, got json.RawMessage) *Divergence {
	return &Divergence{Index: ev.index, Seq: ev.Seq, Path: ev.Path, What: what, Recorded: ev.Data, Replayed: got}
}

func (p *replayer) fail(d *Divergence) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.diverged == nil {
		p.diverged = d
	}
	return &rouse.Error{Code: rouse.CodeNondeterministic, Op: "run.verify", Message: p.diverged.What, Err: p.diverged}
}

func (p *replayer) found() *Divergence {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.diverged
}

// ahead returns what f has not handed out or compared yet, up to and with the
// end of its current step; ok is false when the journal ends within that step.
func (p *replayer) ahead(f *frame) (evs []*taped, ok bool) {
	t := p.tapes[f.path]
	if t == nil {
		return nil, false
	}
	for i := t.pos; i < len(t.events); i++ {
		ev := t.events[i]
		if ev.Type == rouse.EventStep || ev.Type == rouse.EventStepFailed {
			return t.events[t.pos : i+1], true
		}
	}
	return t.events[t.pos:], false
}

// exhausted tells that f's next Do was never committed.
func (p *replayer) exhausted(f *frame) bool {
	_, ok := p.ahead(f)
	return !ok
}

// endedOutside returns how f ended, when that was for a reason from outside.
func (p *replayer) endedOutside(f *frame) (*failedData, bool) {
	evs, ok := p.ahead(f)
	if !ok {
		return nil, false
	}
	last := evs[len(evs)-1]
	d := failedData{Spent: &Meter{}}
	if last.Type != rouse.EventStepFailed || last.Decode(&d) != nil || !d.Before && !d.Cut {
		return nil, false
	}
	return &d, true
}

// skip passes over what a step that was ended from outside had got to.
func (p *replayer) skip(f *frame) {
	evs, _ := p.ahead(f)
	for _, ev := range evs[:len(evs)-1] {
		ev.drawn = true
	}
	p.tapes[f.path].pos += len(evs) - 1
}

// refused returns the error with which f's n-th Spend of this step was refused.
func (p *replayer) refused(f *frame, n int) error {
	evs, _ := p.ahead(f)
	for _, ev := range evs {
		var df drawFailedData
		if ev.Type != rouse.EventDrawFailed || ev.Key != "" || ev.drawn || ev.Decode(&df) != nil || df.Type != spendType || df.N != n {
			continue
		}
		ev.drawn = true
		return df.Error.Err()
	}
	return nil
}

// decidedNext returns the questions whose answers f's next step was given.
func (p *replayer) decidedNext(f *frame) []string {
	evs, ok := p.ahead(f)
	if !ok {
		return nil
	}
	var d stepData
	if evs[len(evs)-1].Decode(&d) != nil {
		return nil
	}
	return d.Decided
}

// moves reports whether f, which waits, was answered or ended after that.
func (p *replayer) moves(f *frame) bool {
	_, ended := p.endedOutside(f)
	return f.state == frameAsking && (ended || len(p.decidedNext(f)) > 0)
}

// answers gives the run the answers that f's next step was given.
func (p *replayer) answers(r *runner, f *frame) {
	ids := p.decidedNext(f)
	t := p.tapes[f.path]
	if t == nil {
		return
	}
	for _, ev := range t.events {
		var d Decision
		if ev.Type != rouse.EventAnswered || ev.drawn || ev.Decode(&d) != nil || !slices.Contains(ids, d.Ask) {
			continue
		}
		ev.drawn = true
		r.mu.Lock()
		for _, a := range r.asks {
			if a.f == f && a.ask.ID == d.Ask {
				a.decision = &d
			}
		}
		r.mu.Unlock()
	}
}

func (p *replayer) draw(ctx context.Context, f *frame, d Draw) (json.RawMessage, error) {
	evs, _ := p.ahead(f)
	for _, ev := range evs {
		if ev.drawn || ev.Key != "" {
			continue
		}
		if ev.Type == rouse.EventDrawFailed {
			var df drawFailedData
			if err := ev.Decode(&df); err != nil {
				return nil, err
			}
			if df.Type == d.Type {
				ev.drawn = true
				return nil, df.Error.Err()
			}
		}
		if ev.Type != d.Type {
			continue
		}
		ev.drawn = true
		if d.Replay == nil {
			return ev.Data, nil
		}
		raw, err := call(ctx, "run.replay", func(ctx context.Context) (json.RawMessage, error) { return d.Replay(ctx, ev.Data) })
		if err != nil {
			return nil, p.fail(diverge(ev, err.Error(), nil))
		}
		return raw, nil
	}
	return nil, p.fail(diverge(evs[len(evs)-1], "the replay asks for a "+string(d.Type)+", which the journal does not have here", nil))
}

func (p *replayer) effect(f *frame, e Effect) (json.RawMessage, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	evs, _ := p.ahead(f)
	var intent *taped
	for _, ev := range evs {
		if ev.Key != e.Key {
			continue
		}
		ev.drawn = true
		switch ev.Type {
		case rouse.EventToolIntent:
			intent = ev
			if !bytes.Equal(ev.Data, e.Intent) {
				return nil, p.fail(diverge(ev, "the replay intends another call", e.Intent))
			}
		case rouse.EventDrawFailed:
			var df drawFailedData
			if err := ev.Decode(&df); err != nil {
				return nil, err
			}
			return nil, df.Error.Err()
		case e.Type:
			return ev.Data, nil
		default:
			return nil, p.fail(diverge(ev, "the replay expects a "+string(e.Type)+" for "+e.Key, nil))
		}
	}
	if intent != nil {
		return nil, uncertain(e.Key)
	}
	return nil, p.fail(diverge(evs[len(evs)-1], "the replay does "+e.Key+", which the journal does not have here", nil))
}

func (p *replayer) clock(f *frame) (time.Time, error) {
	raw, err := p.draw(context.Background(), f, Draw{Type: rouse.EventClock})
	if err != nil {
		return time.Time{}, err
	}
	var d clockData
	if err := json.Unmarshal(raw, &d); err != nil {
		return time.Time{}, &rouse.Error{Code: rouse.CodeCorrupt, Op: "run.verify", Message: "a recorded time cannot be read", Err: err}
	}
	return d.Now, nil
}

// commit compares what the driver wants to write with what was written.
func (p *replayer) commit(r *runner, events []rouse.Event, status rouse.Status) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if d := p.found(); d != nil {
		return p.fail(d)
	}
	if status == rouse.StatusWaiting {
		return p.suspended(&events[0])
	}
	for i := range events {
		if err := p.compare(&events[i]); err != nil {
			return err
		}
	}
	r.noteEnds(events)
	return nil
}

func (p *replayer) suspended(ev *rouse.Event) error {
	if p.waiting == nil {
		return errReplayEnd
	}
	if !bytes.Equal(p.waiting.Data, ev.Data) {
		return p.fail(diverge(p.waiting, "the replay waits for other answers", ev.Data))
	}
	p.waiting.drawn = true
	return errReplayEnd
}

// compare takes the next event of the tape that ev must be. Effects are compared
// where they are asked for; at the end of a step none may be left over.
func (p *replayer) compare(ev *rouse.Event) error {
	if ev.Key != "" {
		return nil
	}
	t := p.tapes[ev.Path]
	if t == nil {
		return p.fail(&Divergence{Path: ev.Path, What: "the journal has no frame " + ev.Path, Replayed: ev.Data})
	}
	for t.pos < len(t.events) {
		want := t.events[t.pos]
		t.pos++
		if want.Type == rouse.EventAnswered {
			continue // handed out by answers, maybe to a later step
		}
		if want.Key != "" {
			if !want.drawn {
				return p.fail(diverge(want, "the replay did not do "+want.Key, nil))
			}
			want.drawn = true
			continue
		}
		want.drawn = true
		if want.Type != ev.Type || want.Class != ev.Class || !bytes.Equal(want.Data, ev.Data) {
			return p.fail(diverge(want, fmt.Sprintf("the journal has this %s event, the replay makes another %s", want.Type, ev.Type), ev.Data))
		}
		ev.Seq, ev.At, ev.Sum = want.Seq, want.At, want.Sum
		return nil
	}
	return errReplayEnd
}
