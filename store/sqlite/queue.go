package sqlite

import (
	"crypto/sha256"
	"sync"
	"sync/atomic"

	"github.com/rouse-run/rouse/run"
)

// The states of a request. A caller whose context ends may take back what is
// still waiting; what a writer has taken comes to an end that is known.
const (
	waiting int32 = iota
	taken
	abandoned
)

// request is one write that its caller waits for: a batch or a blob. Without
// either, the caller waits for the turn itself and shares it with nobody.
type request struct {
	batch *run.Batch
	blob  []byte
	hash  [sha256.Size]byte
	alone bool

	// first is the Seq of the first event, set within the transaction.
	first int64
	// err is the outcome.
	err   error
	state atomic.Int32
	// turn ends the waiting: with false the outcome is in err, with true the
	// caller is the one who writes now.
	turn chan bool
}

func newRequest() *request { return &request{turn: make(chan bool, 1)} }

// queue decides who writes. A caller who finds nobody writing does it himself, for
// all who wait; then he passes the turn on to one who has come meanwhile. So a
// lone caller wakes nobody, and many callers share a transaction. The queue's
// length is bounded by the number of callers, since each waits for its request.
type queue struct {
	mu      sync.Mutex
	pending []*request
	busy    bool          // somebody has the turn
	gone    error         // why nothing is accepted any more
	dead    bool          // a fault has ended the store
	idle    chan struct{} // closed when nothing is accepted and nobody has the turn
}

func newQueue() *queue { return &queue{idle: make(chan struct{})} }

// push queues r, unless nobody has the turn: then r has it.
func (q *queue) push(r *request) (turn bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.gone != nil {
		return false, q.gone
	}
	if q.busy {
		q.pending = append(q.pending, r)
		return false, nil
	}
	q.busy = true
	r.state.Store(taken)
	return true, nil
}

// take moves what waits to group until it has limit requests, or one comes that
// wants to be alone. Only the one who has the turn calls it.
func (q *queue) take(group []*request, limit int) []*request {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for ; n < len(q.pending) && len(group) < limit && !q.pending[n].alone; n++ {
		if r := q.pending[n]; r.state.CompareAndSwap(waiting, taken) {
			group = append(group, r)
		}
	}
	q.drop(n)
	return group
}

// drop removes the first n that wait.
func (q *queue) drop(n int) {
	rest := copy(q.pending, q.pending[n:])
	clear(q.pending[rest:])
	q.pending = q.pending[:rest]
}

// pass gives the turn to the next who waits, or to nobody.
func (q *queue) pass() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, r := range q.pending {
		if r.state.CompareAndSwap(waiting, taken) {
			q.drop(i + 1)
			r.turn <- true // it has room for one
			return
		}
	}
	q.drop(len(q.pending))
	q.busy = false
	q.rest()
}

// rest tells Close, once, that nobody writes any more. The caller holds q.mu.
func (q *queue) rest() {
	if q.gone == nil || q.busy {
		return
	}
	select {
	case <-q.idle:
	default:
		close(q.idle)
	}
}

// close refuses what comes from now on and waits for what came before.
func (q *queue) close() {
	q.mu.Lock()
	if q.gone == nil {
		q.gone = errClosed()
	}
	q.rest()
	q.mu.Unlock()
	<-q.idle
}

// die refuses what comes after a fault.
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
