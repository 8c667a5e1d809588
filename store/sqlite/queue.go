package sqlite

import (
	"crypto/sha256"
	"sync"
	"sync/atomic"

	"github.com/rouse-run/rouse/run"
)

// The states of a request. A caller whose context ends may take back what is
// still waiting; what the writer has taken comes to an end that is known.
const (
	waiting int32 = iota
	taken
	abandoned
)

// request is one write that somebody waits for: a batch or a blob.
type request struct {
	batch *run.Batch
	blob  []byte
	hash  [sha256.Size]byte

	// first is the Seq of the first event, set by the writer within the transaction.
	first int64
	// err is the outcome; the writer sets it before it signals done.
	err   error
	state atomic.Int32
	done  chan struct{}
}

// queue holds what waits for the writer. Its length is bounded by the number of
// callers, since each of them waits for its request.
type queue struct {
	wake chan struct{}

	mu      sync.Mutex
	pending []*request
	tail    bool  // the writer shall finish a checkpoint
	gone    error // why nothing is accepted any more
	dead    bool  // a fault has ended the store
}

func newQueue() *queue { return &queue{wake: make(chan struct{}, 1)} }

func (q *queue) push(r *request) error {
	q.mu.Lock()
	if q.gone != nil {
		q.mu.Unlock()
		return q.gone
	}
	q.pending = append(q.pending, r)
	q.mu.Unlock()
	q.signal()
	return nil
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take waits for requests and moves at most limit of them to group. With no
// request, tail asks for the end of a checkpoint; without that either, the queue
// is closed and empty.
func (q *queue) take(group []*request, limit int) (_ []*request, tail bool) {
	for {
		q.mu.Lock()
		n := min(len(q.pending), limit)
		for _, r := range q.pending[:n] {
			if r.state.CompareAndSwap(waiting, taken) {
				group = append(group, r)
			}
		}
		rest := copy(q.pending, q.pending[n:])
		clear(q.pending[rest:])
		q.pending = q.pending[:rest]
		tail, q.tail = q.tail, false
		gone := q.gone != nil && rest == 0
		q.mu.Unlock()
		if len(group) > 0 || tail || gone {
			return group, tail
		}
		if rest == 0 {
			<-q.wake
		}
	}
}

// finishCheckpoint asks the writer to move the rest of the log between two transactions.
func (q *queue) finishCheckpoint() {
	q.mu.Lock()
	q.tail = true
	q.mu.Unlock()
	q.signal()
}

// close refuses what comes from now on.
func (q *queue) close() {
	q.mu.Lock()
	if q.gone == nil {
		q.gone = errClosed()
	}
	q.mu.Unlock()
	q.signal()
}

// die is close after a fault.
func (q *queue) die(err error) {
	q.mu.Lock()
	q.gone, q.dead = err, true
	q.mu.Unlock()
}

func (q *queue) died() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dead
}

// err returns why the store serves no more calls, or nil.
func (q *queue) err() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.gone
}
