package sqlite

import (
	"runtime"
	"testing"

	"github.com/rouse-run/rouse"
)

// pushed queues a request that does not get the turn.
func pushed(t *testing.T, q *queue, alone bool) *request {
	t.Helper()
	r := newRequest()
	r.alone = alone
	if turn, err := q.push(r); turn || err != nil {
		t.Fatalf("the turn is %t, %v, though somebody has it", turn, err)
	}
	return r
}

// begun gives the turn to a new request.
func begun(t *testing.T, q *queue) *request {
	t.Helper()
	r := newRequest()
	if turn, err := q.push(r); !turn || err != nil {
		t.Fatalf("the turn is %t, %v, though nobody has it", turn, err)
	}
	return r
}

// hasTurn reports what r was told, if anything.
func hasTurn(r *request) (turn, told bool) {
	select {
	case turn = <-r.turn:
		return turn, true
	default:
		return false, false
	}
}

func TestQueueTurns(t *testing.T) {
	t.Parallel()
	q := newQueue()
	first := begun(t, q)
	a, gone, b, alone, c := pushed(t, q, false), pushed(t, q, false), pushed(t, q, false), pushed(t, q, true), pushed(t, q, false)
	if !gone.state.CompareAndSwap(waiting, abandoned) {
		t.Fatal("a request that waits cannot be taken back")
	}
	group := q.take([]*request{first}, 2)
	if len(group) != 2 || group[1] != a {
		t.Fatalf("%d requests in a group of two", len(group))
	}
	if a.state.CompareAndSwap(waiting, abandoned) {
		t.Error("a request that was taken can be taken back")
	}
	q.pass()
	if turn, told := hasTurn(b); !turn || !told {
		t.Fatal("the first that waits and was not taken back does not have the turn")
	}
	if b.state.CompareAndSwap(waiting, abandoned) {
		t.Error("the turn can be refused")
	}
	if group = q.take([]*request{b}, 9); len(group) != 1 {
		t.Fatalf("%d requests in a group, though the next wants to be alone", len(group))
	}
	q.pass()
	if turn, told := hasTurn(alone); !turn || !told {
		t.Fatal("the one that wants to be alone does not have the turn")
	}
	q.pass()
	if turn, told := hasTurn(c); !turn || !told {
		t.Fatal("the last does not have the turn")
	}
	q.pass()
	begun(t, q)
}

// TestQueueClose closes a queue while somebody has the turn and others wait.
func TestQueueClose(t *testing.T) {
	t.Parallel()
	q := newQueue()
	begun(t, q)
	r := pushed(t, q, false)
	closed := make(chan struct{})
	go func() {
		q.close()
		q.close()
		close(closed)
	}()
	for q.err() == nil {
		runtime.Gosched()
	}
	if _, err := q.push(newRequest()); rouse.CodeOf(err) != rouse.CodeStorage {
		t.Errorf("a closed queue accepts: %v", err)
	}
	q.pass()
	if turn, _ := hasTurn(r); !turn {
		t.Fatal("what waited before the end does not get the turn")
	}
	select {
	case <-closed:
		t.Fatal("the queue is closed while somebody has the turn")
	default:
	}
	q.pass()
	<-closed
}
