package run

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/rouse-run/rouse"
)

// fold rebuilds a run from its events. It is the inverse of everything that the
// driver commits, and the only reader of the kernel's own events.
type fold struct {
	frames  map[string]*folded
	root    *folded
	seed    uint64
	budget  Budget
	meta    json.RawMessage
	asks    map[string]Ask
	order   []foldedAsk
	end     *rouse.Event
	status  rouse.Status
	waits   []interval
	sum     summer
	base    int64             // of run.started
	deltas  []json.RawMessage // of keyed state
	last    rouse.Event
	events  int
	forked  bool
	started bool
}

type foldedAsk struct {
	path string
	id   string
}

// folded is a frame whose step is not known yet.
type folded struct {
	frame
	step, version string
	state         json.RawMessage
	openIDs       []string
	answered      []Decision
}

func corrupt(ev *rouse.Event, format string, args ...any) error {
	return &rouse.Error{
		Code: rouse.CodeCorrupt, Op: "run.load",
		Message: fmt.Sprintf("event %d (%s) of run %s cannot be right: %s", ev.Seq, ev.Type, ev.Run, fmt.Sprintf(format, args...)),
		Hint:    "the journal was changed from outside or its storage is damaged",
	}
}

// add applies one event. Events must come in the order of Seq.
func (fo *fold) add(ev *rouse.Event) error {
	if ev.Class == rouse.ClassDelta {
		return corrupt(ev, "a delta is not stored")
	}
	if ev.Type == rouse.EventRunStarted {
		return fo.start(ev)
	}
	if !fo.started {
		return nil // of an earlier run of a thread that was forked
	}
	if fo.sum.add(ev) != ev.Sum {
		return corrupt(ev, "its checksum is %d, not %d", ev.Sum, fo.sum.last)
	}
	fo.last = *ev
	fo.events++
	if n := len(fo.waits); n > 0 && fo.waits[n-1].to.IsZero() {
		fo.waits[n-1].to = ev.At
	}
	fo.end = nil
	f := fo.frames[ev.Path]
	if f == nil {
		return corrupt(ev, "there is no frame %s", ev.Path)
	}
	fo.status = rouse.StatusRunning
	if ev.Key != "" {
		fo.keyed(f, ev)
		return nil
	}
	switch ev.Type {
	case rouse.EventStep:
		return fo.stepped(f, ev)
	case rouse.EventStepFailed:
		return fo.failed(f, ev)
	case rouse.EventAsked:
		var a Ask
		if err := ev.Decode(&a); err != nil {
			return err
		}
		fo.asks[a.ID] = a
		fo.order = append(fo.order, foldedAsk{ev.Path, a.ID})
	case rouse.EventAnswered:
		var d Decision
		if err := ev.Decode(&d); err != nil {
			return err
		}
		f.answered = append(f.answered, d)
	case rouse.EventState:
		var d stateData
		if err := ev.Decode(&d); err != nil {
			return err
		}
		fo.deltas = append(fo.deltas, d.Delta)
	case rouse.EventRunForked:
		return fo.fork(ev)
	case rouse.EventRunWaiting:
		fo.status, fo.end = rouse.StatusWaiting, ev
		fo.waits = append(fo.waits, interval{from: ev.At})
	case rouse.EventRunFinished:
		var d FinishedData
		if err := ev.Decode(&d); err != nil {
			return err
		}
		fo.status, fo.end = d.Status, ev
		fo.root.output = d.Output
	}
	return nil
}

func (fo *fold) start(ev *rouse.Event) error {
	var d startedData
	if err := ev.Decode(&d); err != nil {
		return err
	}
	root := &folded{step: d.Step, version: d.Version, state: d.State}
	root.frame = frame{path: "/", key: "root", budget: d.Budget, last: ev.At, since: ev.At}
	*fo = fold{
		root: root, frames: map[string]*folded{"/": root}, asks: map[string]Ask{},
		seed: d.Seed, budget: d.Budget, meta: d.Meta, status: rouse.StatusRunning,
		started: true, events: 1, last: *ev, base: ev.Seq,
	}
	if fo.sum.add(ev) != ev.Sum {
		return corrupt(ev, "its checksum is %d, not %d", ev.Sum, fo.sum.last)
	}
	return nil
}

func (fo *fold) fork(ev *rouse.Event) error {
	var d forkedData
	if err := ev.Decode(&d); err != nil {
		return err
	}
	if d.State != nil {
		fo.root.state = d.State
	}
	if d.Meta != nil {
		fo.meta = d.Meta
	}
	fo.forked = true
	return nil
}

func (fo *fold) keyed(f *folded, ev *rouse.Event) {
	if f.receipts == nil {
		f.receipts, f.intents = map[string]json.RawMessage{}, map[string]bool{}
	}
	switch ev.Type {
	case rouse.EventToolIntent:
		f.intents[ev.Key] = true
		delete(f.receipts, ev.Key)
	case rouse.EventDrawFailed:
	default:
		f.receipts[ev.Key] = ev.Data
	}
}

func (fo *fold) stepped(f *folded, ev *rouse.Event) error {
	var d stepData
	if err := ev.Decode(&d); err != nil {
		return err
	}
	if d.Visit != f.visit || f.ended() {
		return corrupt(ev, "the frame is at visit %d, the event says %d", f.visit, d.Visit)
	}
	if d.State != nil {
		f.state = d.State
	}
	f.at = d.At
	fo.spend(f, d.Spent, 1)
	f.children, f.openIDs, f.lastSeq = nil, nil, ev.Seq
	f.take(d.Decided)
	if d.Move != moveAwait.String() {
		f.decisions = nil
	}
	f.frame.state = frameReady
	switch d.Move {
	case moveContinue.String():
	case moveAwait.String():
		f.frame.state, f.openIDs = frameAsking, d.Asks
	case moveComplete.String():
		f.frame.state, f.output = frameDone, d.Output
	case moveCall.String():
		f.frame.state = frameCalling
		if d.Join != nil {
			f.join = *d.Join
		}
		if err := fo.spawn(f, ev, d.Children); err != nil {
			return err
		}
	default:
		return corrupt(ev, "there is no move %q", d.Move)
	}
	f.moved(ev.At)
	return nil
}

// take makes the answers to these questions ones that the frame was given.
func (f *folded) take(ids []string) {
	rest := f.answered[:0:0]
	for _, d := range f.answered {
		if slices.Contains(ids, d.Ask) {
			f.decisions = append(f.decisions, d)
		} else {
			rest = append(rest, d)
		}
	}
	f.answered = rest
}

func (fo *fold) spawn(f *folded, ev *rouse.Event, children []childData) error {
	for _, c := range children {
		if got := f.childPath(c.Key); got != c.Path || fo.frames[c.Path] != nil {
			return corrupt(ev, "the child %s has the path %s", c.Key, c.Path)
		}
		k := &folded{step: c.Step, version: c.Version, state: c.State}
		k.frame = frame{path: c.Path, key: c.Key, parent: &f.frame, budget: c.Budget, last: ev.At, since: ev.At}
		fo.frames[c.Path] = k
		f.children = append(f.children, &k.frame)
	}
	return nil
}

func (fo *fold) failed(f *folded, ev *rouse.Event) error {
	var d failedData
	if err := ev.Decode(&d); err != nil {
		return err
	}
	if d.Visit != f.visit || f.ended() {
		return corrupt(ev, "the frame is at visit %d, the event says %d", f.visit, d.Visit)
	}
	steps := int64(1)
	if d.Before {
		steps = 0
	}
	fo.spend(f, d.Spent, steps)
	f.frame.state, f.err, f.openIDs = frameFailed, d.Error.Err(), nil
	return nil
}

func (fo *fold) spend(f *folded, m *Meter, steps int64) {
	sum := Meter{Steps: steps}
	if m != nil {
		sum = sum.Add(*m)
	}
	add(&f.frame, sum)
}

// bind gives every frame that can still move its step and returns the tree. root
// is the definition of the root; the others are found among declared children.
func (fo *fold) bind(root AnyStep, anyVersion bool) (*frame, error) {
	if err := fo.bindFrame(fo.root, root, anyVersion); err != nil {
		return nil, err
	}
	return &fo.root.frame, nil
}

func (fo *fold) bindFrame(f *folded, step AnyStep, anyVersion bool) (err error) {
	info := step.Info()
	fail := func(msg, hint string) error {
		return &rouse.Error{Code: rouse.CodeUnsupported, Op: "run.resume", Message: msg, Hint: hint}
	}
	if info.ID != f.step {
		return fail("the run was begun with step "+f.step+", not with "+info.ID, "resume it with the definition it was started with")
	}
	if info.Version != f.version && !anyVersion && !f.ended() {
		return fail(fmt.Sprintf("step %s has version %q, the run was begun with %q", info.ID, info.Version, f.version), "set Options.AnyVersion to let it continue all the same")
	}
	if f.body, err = step.load(f.state); err != nil {
		return err
	}
	for _, id := range f.openIDs {
		a, ok := fo.asks[id]
		if !ok {
			return corrupt(&fo.last, "frame %s waits for question %s, which was never put", f.path, id)
		}
		f.asks = append(f.asks, a)
	}
	if f.frame.state != frameCalling {
		return nil
	}
	for _, c := range f.children {
		k := fo.frames[c.path]
		def, ok := declared(info.Children, k.step)
		if !ok {
			return fail("the step "+k.step+" of frame "+k.path+" is not supplied", "declare it in Info.Children of "+info.ID)
		}
		if err := fo.bindFrame(k, def, anyVersion); err != nil {
			return err
		}
	}
	return nil
}

func declared(steps []AnyStep, id string) (AnyStep, bool) {
	for _, s := range steps {
		if s.Info().ID == id {
			return s, true
		}
	}
	return AnyStep{}, false
}

// openAsks returns the questions that frames wait for, oldest first, with the
// answers that have come but were not used.
func (fo *fold) openAsks() []*openAsk {
	var out []*openAsk
	for _, o := range fo.order {
		f := fo.frames[o.path]
		a := &openAsk{ask: fo.asks[o.id], f: &f.frame, closed: true}
		for _, id := range f.openIDs {
			if id == o.id {
				a.closed = false
			}
		}
		for _, d := range f.answered {
			if d.Ask == o.id {
				a.decision = &d
			}
		}
		a.taken = decided(f.decisions, o.id)
		out = append(out, a)
	}
	return out
}
