package run

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"

	"github.com/rouse-run/rouse"
)

// load reads the events of row's run, up to until (0: all), into a fold.
func load(ctx context.Context, j Journal, row Row, until int64) (*fold, error) {
	fo := &fold{}
	for ev, err := range j.Read(ctx, Query{Thread: row.Thread, Run: row.Run, Until: until}) {
		if err != nil {
			return nil, err
		}
		if err := fo.add(&ev); err != nil {
			return nil, err
		}
	}
	if !fo.started {
		return nil, &rouse.Error{Code: rouse.CodeNotFound, Op: "run.load", Message: "the journal has no run " + row.Run + " in thread " + row.Thread}
	}
	return fo, nil
}

// Resume continues a run from its last commit, in this process: row is what the
// journal's owner knows of it, step the definition it was started with, and opt
// supplies again what is not data. The first commit takes the run over: it raises
// the epoch, and whoever drove the run before can commit no more.
//
// A run that has ended can be resumed too; driving it only yields its last event.
func Resume[S, O any](ctx context.Context, step Step[S, O], row Row, opt Options) (*Run[O], error) {
	r, err := reload(ctx, Erase(step), row, opt, 0)
	if err != nil {
		return nil, err
	}
	if !r.row.Status.Final() {
		r.claim = true
		r.row.Epoch++
		r.prelude = []rouse.Event{newEvent(r.root, rouse.ClassFact, rouse.EventRunResumed, resumedData{r.row.Epoch, opt.Owner})}
		r.prelude[0].At = rouse.Stamp(r.opt.Clock.Now())
	}
	return &Run[O]{r}, nil
}

func reload(ctx context.Context, step AnyStep, row Row, opt Options, until int64) (*runner, error) {
	opt = opt.withDefaults()
	fo, err := load(ctx, opt.Journal, row, until)
	if err != nil {
		return nil, err
	}
	r := &runner{id: row.Run, thread: row.Thread, opt: opt, out: newOutlet(), writing: make(chan struct{}, 1), row: row, until: until}
	return r, fo.restore(r, step)
}

// restore makes r continue where fo ends.
func (fo *fold) restore(r *runner, step AnyStep) (err error) {
	if r.root, err = fo.bind(step, r.opt.AnyVersion); err != nil {
		return err
	}
	r.seed, r.sum, r.waits, r.end, r.base = fo.seed, fo.sum, fo.waits, fo.end, fo.base
	r.row.Status = fo.status
	r.asks = fo.openAsks()
	if len(fo.deltas) > 0 && r.opt.Keyed == nil {
		return &rouse.Error{Code: rouse.CodeInvalid, Op: "run.resume", Message: "the run has keyed state", Hint: "give it in Options.Keyed"}
	}
	for _, d := range fo.deltas {
		if err := r.opt.Keyed.Load(d); err != nil {
			return err
		}
	}
	return nil
}

// History yields the events of these types that this frame's conversation is
// made of, oldest first: its own in this run, up to its last move, and, for the
// root, those of earlier runs of the thread.
func (s Services) History(ctx context.Context, types ...rouse.EventType) iter.Seq2[rouse.Event, error] {
	return func(yield func(rouse.Event, error) bool) {
		if s.r.fresh {
			return
		}
		for ev, err := range s.r.opt.Journal.Read(ctx, Query{Thread: s.r.thread, Until: s.r.until, Types: types}) {
			if err == nil && (ev.Path != s.f.path || ev.Run != s.r.id && s.f.parent != nil || ev.Run == s.r.id && ev.Seq > max(s.f.lastSeq, s.r.base)) {
				continue
			}
			if !yield(ev, err) || err != nil {
				return
			}
		}
	}
}

// Checkpoint is a run as bytes: its row and its journal, with the conversation
// that precedes it. It holds no functions, providers or secrets.
type Checkpoint []byte

type checkpointHead struct {
	Version int `json:"rouse_checkpoint"`
	Row
}

// checkpointVersion is the version of the format: a line with the head, then one
// event a line.
const checkpointVersion = 1

// Checkpoint returns the run as of its last commit. A run that has committed
// nothing yet has the code CodeNotFound.
func (r *Run[O]) Checkpoint(ctx context.Context) (Checkpoint, error) {
	row := r.r.rowNow()
	if row.Revision == 0 {
		return nil, &rouse.Error{Code: rouse.CodeNotFound, Op: "run.checkpoint", Message: "the run has committed nothing yet"}
	}
	return Export(ctx, r.r.opt.Journal, row)
}

// Export writes a run out of a journal, as Run.Checkpoint does.
func Export(ctx context.Context, j Journal, row Row) (Checkpoint, error) {
	buf, err := json.Marshal(checkpointHead{checkpointVersion, row})
	if err != nil {
		return nil, &rouse.Error{Code: rouse.CodeInvalid, Op: "run.export", Message: "the run's row cannot be written as JSON", Err: err}
	}
	buf = append(buf, '\n')
	last := int64(0)
	var events []rouse.Event
	for ev, err := range j.Read(ctx, Query{Thread: row.Thread}) {
		if err != nil {
			return nil, err
		}
		if ev.Run == row.Run {
			last = ev.Seq
		}
		events = append(events, ev)
	}
	for _, ev := range events {
		if ev.Seq > last {
			break
		}
		buf = append(ev.AppendJSON(buf), '\n')
	}
	return buf, nil
}

// Import puts a checkpoint into an empty thread of m and returns the row to
// resume it with.
func (m *Memory) Import(cp Checkpoint) (Row, error) {
	bad := func(msg string, err error) (Row, error) {
		return Row{}, &rouse.Error{Code: rouse.CodeCorrupt, Op: "run.import", Message: "the checkpoint cannot be read: " + msg, Err: err}
	}
	rd := bufio.NewReader(bytes.NewReader(cp))
	line, err := rd.ReadBytes('\n')
	if err != nil {
		return bad("it has no head", err)
	}
	var head checkpointHead
	if err := json.Unmarshal(line, &head); err != nil || head.Version == 0 {
		return bad("its head is not that of a checkpoint", err)
	}
	if head.Version != checkpointVersion {
		return Row{}, &rouse.Error{Code: rouse.CodeSchemaVersion, Op: "run.import", Message: "the checkpoint is of another version", Hint: "use the version of Rouse that wrote it"}
	}
	var events []rouse.Event
	for {
		line, err := rd.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			break
		}
		var ev rouse.Event
		if err := json.Unmarshal(line, &ev); err != nil {
			return bad("an event is damaged", err)
		}
		if ev.Seq != int64(len(events))+1 || ev.Thread != head.Thread {
			return bad("an event is missing", nil)
		}
		events = append(events, ev)
	}
	return head.Row, m.adopt(head.Row, events)
}

func (m *Memory) adopt(row Row, events []rouse.Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.runs == nil {
		m.threads, m.runs = map[string]*memThread{}, map[string]*memRun{}
	}
	if m.threads[row.Thread] != nil || m.runs[row.Run] != nil {
		return &rouse.Error{Code: rouse.CodeConflict, Op: "run.import", Message: "the thread exists already"}
	}
	t := &memThread{events: events, runs: []string{row.Run}}
	if !row.Status.Final() {
		t.open = row.Run
	}
	m.threads[row.Thread] = t
	m.runs[row.Run] = &memRun{thread: row.Thread, revision: row.Revision, epoch: row.Epoch, status: row.Status}
	return nil
}

// ForkAt says where a fork leaves the original.
type ForkAt struct {
	// Seq is the last event of the original to keep; what was committed together
	// with it is kept too. Zero means everything.
	Seq int64
	// Meta replaces what Options.Meta was at the start, when it is not nil.
	Meta json.RawMessage
}

// Fork begins a new run, in a new thread, that shares the past of row's run up to
// at and lives on its own from there. edit, which may be nil, changes the root's
// state first. The original is not touched.
func Fork[S, O any](ctx context.Context, step Step[S, O], row Row, at ForkAt, edit func(*S), opt Options) (*Run[O], error) {
	opt = opt.withDefaults()
	events, last, err := forkEvents(ctx, opt.Journal, row, at.Seq)
	if err != nil {
		return nil, err
	}
	thread, id := opt.Thread, opt.ID
	if thread == "" {
		thread = opt.IDs.NewID()
	}
	if id == "" {
		id = opt.IDs.NewID()
	}
	d := forkedData{Thread: row.Thread, Run: row.Run, Seq: last, Meta: at.Meta}
	if edit != nil {
		if d.State, err = editState(step, events, edit); err != nil {
			return nil, err
		}
	}
	fo := &fold{}
	for i := range events {
		events[i].Run, events[i].Thread = id, thread
		if err := fo.add(&events[i]); err != nil {
			return nil, err
		}
	}
	fork := newEvent(&fo.root.frame, rouse.ClassFact, rouse.EventRunForked, d)
	fork.At = rouse.Stamp(opt.Clock.Now())
	fork.Sum = fo.sum.add(&fork)
	fork.Run, fork.Thread = id, thread
	b := Batch{
		Thread: thread, Run: id, Epoch: 1, Owner: opt.Owner, Status: rouse.StatusRunning,
		Agent: opt.Agent, Title: opt.Title, Events: append(events, fork),
	}
	if err := opt.Journal.Commit(ctx, &b); err != nil {
		return nil, err
	}
	opt.Thread, opt.ID = thread, id
	r, err := reload(ctx, Erase(step), Row{Thread: thread, Run: id, Revision: 1, Epoch: 1, Status: rouse.StatusRunning}, opt, 0)
	if err != nil {
		return nil, err
	}
	return &Run[O]{r}, nil
}

// forkEvents returns the events that a fork copies: of earlier runs only the
// conversation, of row's run every commit that began at or before seq. What ended
// the original is left out, so that the fork is alive.
func forkEvents(ctx context.Context, j Journal, row Row, seq int64) (events []rouse.Event, last int64, err error) {
	var tail []rouse.Event // of the run, since the end of its last copied commit
	for ev, err := range j.Read(ctx, Query{Thread: row.Thread}) {
		if err != nil {
			return nil, 0, err
		}
		if ev.Run != row.Run {
			if last == 0 && ev.Path == "/" && conversational(ev.Type) {
				events = append(events, ev)
			}
			continue
		}
		if ev.Type == rouse.EventRunFinished || endsRoot(&ev) {
			break
		}
		tail = append(tail, ev)
		switch ev.Type {
		case rouse.EventStep, rouse.EventStepFailed, rouse.EventRunStarted, rouse.EventRunForked:
			if seq != 0 && last != 0 && tail[0].Seq > seq {
				return events, last, nil
			}
			events, last, tail = append(events, tail...), ev.Seq, nil
		}
	}
	if last == 0 {
		return nil, 0, &rouse.Error{Code: rouse.CodeNotFound, Op: "run.fork", Message: "the run has nothing to fork from"}
	}
	return events, last, nil
}

func endsRoot(ev *rouse.Event) bool {
	if ev.Path != "/" || ev.Type != rouse.EventStep && ev.Type != rouse.EventStepFailed {
		return false
	}
	var d stepData
	return ev.Type == rouse.EventStepFailed || ev.Decode(&d) == nil && d.Move == moveComplete.String()
}

// conversational reports whether events of type t make up a thread's messages.
func conversational(t rouse.EventType) bool {
	return t == rouse.EventMessage || t == rouse.EventAnswer || t == rouse.EventToolFinished
}

// editState returns the root's state at the end of events, changed by edit.
func editState[S, O any](step Step[S, O], events []rouse.Event, edit func(*S)) (json.RawMessage, error) {
	fo := &fold{}
	for i := range events {
		if err := fo.add(&events[i]); err != nil {
			return nil, err
		}
	}
	b, err := Erase(step).load(fo.root.state)
	if err != nil {
		return nil, err
	}
	_, raw, err := b.apply(edit, true)
	return raw, err
}

// Meta returns what Options.Meta was when row's run was started or forked.
func Meta(ctx context.Context, j Journal, row Row) (json.RawMessage, error) {
	fo, err := load(ctx, j, row, 0)
	if err != nil {
		return nil, err
	}
	return fo.meta, nil
}

// FrameState is one frame of a run at some moment.
type FrameState struct {
	Path   string          `json:"path"`
	Step   string          `json:"step"`
	At     Cursor          `json:"at,omitempty"`
	Visit  int             `json:"visit"`
	Status string          `json:"status"` // ready, asking, calling, done, failed
	State  json.RawMessage `json:"state"`
	Asks   []string        `json:"asks,omitempty"`
	Error  *ErrorData      `json:"error,omitempty"`
	Spent  Meter           `json:"spent"`
}

// StateAt returns the frames of row's run as they were after the event seq (0:
// the last), the root first, without knowing any step.
func StateAt(ctx context.Context, j Journal, row Row, seq int64) ([]FrameState, error) {
	fo, err := load(ctx, j, row, seq)
	if err != nil {
		return nil, err
	}
	var out []FrameState
	fo.root.walk(func(f *frame) {
		k := fo.frames[f.path]
		s := FrameState{Path: f.path, Step: k.step, At: f.at, Visit: f.visit, Status: f.state.String(), State: k.state, Asks: k.openIDs, Spent: f.used}
		if f.err != nil {
			d := errorData(f.err)
			s.Error = &d
		}
		out = append(out, s)
	})
	return out, nil
}
