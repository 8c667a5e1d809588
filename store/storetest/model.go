package storetest

import (
	"fmt"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/run"
	"pgregory.net/rapid"
)

// model is the contract of Commit over a few threads and runs, in memory.
type model struct {
	prefix string
	runs   map[string]*modelRun
	events map[string][]string // by thread, described
	made   int
}

type modelRun struct {
	thread          string
	status          rouse.Status
	revision, epoch int64
}

func newModel(prefix string) *model {
	return &model{prefix: prefix, runs: make(map[string]*modelRun), events: make(map[string][]string)}
}

// draw makes a batch that is right as often as it is wrong.
func (m *model) draw(rt *rapid.T) *run.Batch {
	thread := rapid.SampledFrom([]string{"t", "u"}).Draw(rt, "thread")
	id := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "run")
	b := &run.Batch{
		Thread: m.prefix + thread, Run: m.prefix + thread + id, Epoch: 1, Owner: "owner",
		Status: rapid.SampledFrom([]rouse.Status{
			rouse.StatusRunning, rouse.StatusRunning, rouse.StatusWaiting, rouse.StatusCompleted, rouse.StatusFailed, rouse.StatusCanceled,
		}).Draw(rt, "status"),
	}
	if r := m.runs[b.Run]; r != nil && rapid.IntRange(0, 9).Draw(rt, "again") > 0 {
		b.Revision, b.Epoch = r.revision, r.epoch
		if r.status.Final() {
			b.Status = r.status // what is final never moves again
		}
		b.Revision += rapid.SampledFrom([]int64{0, 0, 0, 0, 1}).Draw(rt, "revision off by")
		b.Claim = rapid.IntRange(0, 3).Draw(rt, "claim") == 0
		if b.Claim {
			b.Epoch++
		}
		b.Epoch += rapid.SampledFrom([]int64{0, 0, 0, 0, 1}).Draw(rt, "epoch off by")
	}
	for range rapid.IntRange(0, 3).Draw(rt, "events") {
		m.made++
		b.Events = append(b.Events, fact(rouse.EventMessage, fmt.Sprintf(`{"n":%d}`, m.made)))
	}
	return b
}

// allowed returns the codes that the contract allows for b; "" stands for success.
func (m *model) allowed(b *run.Batch) []rouse.Code {
	var codes []rouse.Code
	r := m.runs[b.Run]
	before := b.Epoch
	if b.Claim {
		before--
	}
	switch {
	case b.Revision == 0 && r != nil:
		codes = append(codes, rouse.CodeConflict)
	case b.Revision == 0:
	case r == nil:
		return []rouse.Code{rouse.CodeNotFound}
	default:
		if r.revision != b.Revision {
			codes = append(codes, rouse.CodeConflict)
		}
		if r.epoch != before {
			codes = append(codes, rouse.CodeFenced)
		}
	}
	if m.otherOpen(b) {
		if b.Status.Final() && len(codes) == 0 {
			codes = append(codes, "") // it does not open a second one; a journal may refuse it all the same
		}
		return append(codes, rouse.CodeBusy)
	}
	if len(codes) == 0 {
		return []rouse.Code{""}
	}
	return codes
}

func (m *model) otherOpen(b *run.Batch) bool {
	for id, r := range m.runs {
		if id != b.Run && r.thread == b.Thread && !r.status.Final() {
			return true
		}
	}
	return false
}

func (m *model) apply(b *run.Batch) {
	r := m.runs[b.Run]
	if r == nil {
		r = &modelRun{thread: b.Thread}
		m.runs[b.Run] = r
	}
	r.status, r.revision, r.epoch = b.Status, b.Revision+1, b.Epoch
	for _, e := range b.Events {
		e.Seq, e.Thread, e.Run = int64(len(m.events[b.Thread]))+1, b.Thread, b.Run
		m.events[b.Thread] = append(m.events[b.Thread], describe(e))
	}
}
