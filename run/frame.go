package run

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/rouse-run/rouse"
)

type frameState uint8

const (
	frameReady   frameState = iota // its next Do may run
	frameAsking                    // it waits for an answer
	frameCalling                   // its children run
	frameDone                      // it completed
	frameFailed                    // it ended with an error
)

func (s frameState) String() string {
	return [...]string{"ready", "asking", "calling", "done", "failed"}[s]
}

// frame is one step of a run in motion. Everything in it that outlives the
// process follows from the journal; fold rebuilds it.
//
// It belongs to the goroutine that drives it, but for what mu guards.
type frame struct {
	path   string
	key    string
	parent *frame
	budget Budget
	body   body
	at     Cursor
	visit  int
	state  frameState
	last   time.Time // of its last move: the time that new ids carry
	since  time.Time // when it was spawned

	asks      []Ask // open
	decisions []Decision
	taken     []string // questions whose answers the running Do has been given
	lastSeq   int64    // of its last move, when it was rebuilt from the journal
	children  []*frame
	join      Join
	inbox     []*frame       // the ended children of the last Call
	spawned   map[string]int // how often a key was used, to make paths unique
	output    json.RawMessage
	err       *rouse.Error

	used Meter // guarded by runner.mu: this frame and those below
	own  Meter // guarded by runner.mu: spent in the Do that runs now

	main     bool // it runs on the consumer's goroutine
	memo     any
	rnd      *rand.ChaCha8
	rndVisit int
	batches  []any
	scratch  []rouse.Event // what a step commits, reused

	mu       sync.Mutex
	reserved int            // calls of Spend in the running Do
	pending  []pendingEvent // what the running Do has produced
	receipts map[string]json.RawMessage
	intents  map[string]bool
	each     *eachState // non-nil while Each runs
}

type pendingEvent struct {
	ev    rouse.Event
	patch bool // belongs to the patch: discarded when Do fails
}

func (f *frame) record(ev rouse.Event, patch bool) {
	f.mu.Lock()
	f.pending = append(f.pending, pendingEvent{ev, patch})
	f.mu.Unlock()
}

// take removes what was produced so far; with failed, the patch's events are dropped.
func (f *frame) take(dst []rouse.Event, failed bool) []rouse.Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.pending {
		if !failed || !p.patch {
			dst = append(dst, p.ev)
		}
	}
	f.pending = f.pending[:0]
	return dst
}

// source is the frame's deterministic randomness: it depends on the run's seed,
// the path and the visit only, so a Do that is executed again draws the same.
func (f *frame) source(r *runner) rand.Source {
	if f.rnd == nil || f.rndVisit != f.visit {
		b := make([]byte, 0, 64+len(f.path))
		b = binary.BigEndian.AppendUint64(b, r.seed)
		b = binary.BigEndian.AppendUint64(b, uint64(f.visit)) //nolint:gosec // a count
		seed := sha256.Sum256(append(b, f.path...))
		if f.rnd == nil {
			f.rnd = rand.NewChaCha8(seed)
		} else {
			f.rnd.Seed(seed)
		}
		f.rndVisit = f.visit
	}
	return f.rnd
}

func (f *frame) newID(r *runner) string {
	src := f.source(r)
	var b [10]byte
	binary.BigEndian.PutUint64(b[:8], src.Uint64())
	binary.BigEndian.PutUint16(b[8:], uint16(src.Uint64())) //nolint:gosec // 16 random bits are wanted
	return rouse.UUIDv7(f.last, b)
}

// childPath makes the path of a new child. A key that an earlier Call used gets a
// number, so that paths are unique in a run.
func (f *frame) childPath(key string) string {
	if f.spawned == nil {
		f.spawned = map[string]int{}
	}
	f.spawned[key]++
	if n := f.spawned[key]; n > 1 {
		key += "~" + strconv.Itoa(n)
	}
	if f.path == "/" {
		return "/" + key
	}
	return f.path + "/" + key
}

// moved resets what belongs to one visit.
func (f *frame) moved(at time.Time) {
	f.visit++
	f.last = at
	f.receipts, f.intents, f.taken = nil, nil, nil
}

func (f *frame) ended() bool { return f.state == frameDone || f.state == frameFailed }

// walk calls fn for f and everything below, parents first.
func (f *frame) walk(fn func(*frame)) {
	fn(f)
	for _, c := range f.children {
		c.walk(fn)
	}
}
