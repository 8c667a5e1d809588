package storetest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/run"
	"github.com/rouse-run/rouse/store"
)

// FaultConfig says how to end a store in the middle of a write.
type FaultConfig struct {
	// Points are the names of all points at which the store calls fault: for every
	// kind of durable write at least one before, within and after it.
	Points []string
	// Open opens the store that lives in dir. When fault returns an error the store
	// behaves as if its process had ended there: it writes nothing more, and the
	// call in progress and all later ones fail. The error of Open is returned, since
	// it may be such a call. Required.
	Open func(t *testing.T, dir string, fault func(point string) error) (store.Store, error)
}

var errEnd = errors.New("the process ends here")

// Faults plays a short life of a store, again and again, and ends it at every
// point and every time that the point is passed. Then it opens the store again:
// the call in progress was done wholly or not at all, every earlier one was
// done, and the rest of the life goes as if nothing had happened.
//
// A point that is never passed fails the test.
func Faults(t *testing.T, c FaultConfig) {
	t.Helper()
	want := c.reference(t)
	for _, point := range c.Points {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			for nth := int32(1); ; nth++ {
				if !c.endAt(t, point, nth, want) {
					if nth == 1 {
						t.Fatal("the point is never passed")
					}
					return
				}
			}
		})
	}
}

// blobText is what the life's blob holds.
const blobText = "a blob"

func blobRef() string {
	sum := sha256.Sum256([]byte(blobText))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// life is what a store goes through: every step is one durable write.
type life struct {
	pens  map[string]*pen
	steps []func(s store.Store) error
}

func newLife(t *testing.T) *life {
	l := &life{pens: make(map[string]*pen)}
	for _, p := range []*pen{newPen(t, nil, "t", "a"), newPen(t, nil, "t", "b"), newPen(t, nil, "u", "c")} {
		l.pens[p.b.Run] = p
	}
	commit := func(id string, status rouse.Status, n int) {
		l.steps = append(l.steps, func(s store.Store) error {
			l.pens[id].j = s
			return l.pens[id].try(t.Context(), status, facts(n)...)
		})
	}
	commit("a", rouse.StatusRunning, 2)
	commit("a", rouse.StatusRunning, 3)
	l.steps = append(l.steps, func(s store.Store) error {
		_, err := s.PutBlob(t.Context(), []byte(blobText))
		return err
	}, func(s store.Store) error {
		p := *l.pens["a"]
		p.j = s
		err := p.claim("owner-b").try(t.Context(), rouse.StatusRunning, facts(1)...)
		if err == nil {
			*l.pens["a"] = p
		}
		return err
	})
	commit("a", rouse.StatusWaiting, 0)
	commit("c", rouse.StatusRunning, 1)
	commit("a", rouse.StatusCompleted, 1)
	commit("b", rouse.StatusRunning, 2)
	return l
}

// catchUp makes the pens go on from what the store holds.
func (l *life) catchUp(t *testing.T, s store.Store) {
	t.Helper()
	for id, p := range l.pens {
		r, err := s.Run(t.Context(), id)
		if rouse.CodeOf(err) == rouse.CodeNotFound {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		p.b.Revision, p.b.Epoch = r.Revision, r.Epoch
	}
}

// reference lives the life without an end and returns what the store holds
// before the first and after every step.
func (c FaultConfig) reference(t *testing.T) []string {
	t.Helper()
	s, err := c.Open(t, t.TempDir(), func(string) error { return nil })
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	dumps := []string{dump(t, s, blobRef())}
	for i, step := range newLife(t).steps {
		if err := step(s); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		dumps = append(dumps, dump(t, s, blobRef()))
	}
	mustClose(t, s)
	return dumps
}

// endAt lives the life until the point is passed for the nth time and reports
// whether that happened.
func (c FaultConfig) endAt(t *testing.T, point string, nth int32, want []string) bool {
	t.Helper()
	dir := t.TempDir()
	var passed atomic.Int32
	fault := func(p string) error {
		if p == point && passed.Add(1) >= nth {
			return errEnd
		}
		return nil
	}
	ended := func() bool { return passed.Load() >= nth }
	l, at := newLife(t), 0
	s, err := c.Open(t, dir, fault)
	if err != nil && !ended() {
		t.Fatalf("Open: %v", err)
	}
	if err == nil {
		at, err = l.until(t, s, ended)
		_ = s.Close() // after the end its error tells nothing
	}
	if !ended() {
		return false
	}

	again, openErr := c.Open(t, dir, func(string) error { return nil })
	if openErr != nil {
		t.Fatalf("%s, time %d: the store does not open again: %v", point, nth, openErr)
	}
	got := dump(t, again, blobRef())
	switch {
	case at < len(l.steps) && got == want[at+1]:
		if rouse.CodeOf(err) != rouse.CodeUncertain {
			t.Errorf("%s, time %d: step %d was done and yet failed with %v, want the code uncertain", point, nth, at, err)
		}
		at++
	case got != want[at]:
		t.Fatalf("%s, time %d: step %d was done by half or lost what came before:\n%s\nwant:\n%s", point, nth, at, got, want[at])
	}
	l.catchUp(t, again)
	for ; at < len(l.steps); at++ {
		if err := l.steps[at](again); err != nil {
			t.Fatalf("%s, time %d: step %d of the second life: %v", point, nth, at, err)
		}
	}
	if got := dump(t, again, blobRef()); got != want[len(want)-1] {
		t.Fatalf("%s, time %d: in the end:\n%s\nwant:\n%s", point, nth, got, want[len(want)-1])
	}
	mustClose(t, again)
	return true
}

// until takes steps until one fails because the store has ended; it returns the
// number of steps that were done and that failure.
func (l *life) until(t *testing.T, s store.Store, ended func() bool) (int, error) {
	t.Helper()
	for at, step := range l.steps {
		err := step(s)
		if err == nil {
			continue
		}
		if !ended() {
			t.Fatalf("step %d: %v", at, err)
		}
		for i, later := range newLife(t).steps {
			if err := later(s); err == nil {
				t.Errorf("call %d after the end went well", i)
			}
		}
		for _, err := range s.Read(t.Context(), run.Query{Thread: "t"}) {
			if err == nil {
				t.Error("a read after the end went well")
			}
			break
		}
		return at, err
	}
	return len(l.steps), nil
}
