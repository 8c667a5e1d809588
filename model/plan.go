package model

import (
	"strings"

	"github.com/rouse-run/rouse"
)

// PlanKind says how an answer that broke off is saved.
type PlanKind string

// The five plans, in the order in which they are considered.
const (
	PlanFail     PlanKind = "fail"     // the cause is permanent: pass it on
	PlanFinish   PlanKind = "finish"   // a whole call has arrived: end the turn here, so that it can run
	PlanTruncate PlanKind = "truncate" // text and a call that is cut off: drop the call, continue the text
	PlanContinue PlanKind = "continue" // text only: continue it
	PlanRestart  PlanKind = "restart"  // nothing that can be used: ask again
)

// Plan is how to go on after an answer broke off.
type Plan struct {
	Kind PlanKind
	// Keep is what stays of the partial answer; its Usage is zero, and its Stop is
	// StopTools for PlanFinish and empty otherwise. Every call in it is complete.
	Keep Answer
	// Dropped are the calls that were cut off, in order; they must not run.
	Dropped []rouse.ToolCall
	// Reset reports that Keep lacks something of the partial answer, so whoever has
	// seen that must forget it and be shown Keep anew.
	Reset bool
	// Err is set for PlanFail.
	Err error
}

// PlanRecovery decides what to do with an answer that broke off because of
// cause. It is pure.
//
//	cause, partial answer            | plan     | kept
//	---------------------------------+----------+-----------------------------
//	not retryable, or a whole answer | fail     |
//	a complete call                  | finish   | text and the complete calls
//	text, and an incomplete call     | truncate | text
//	text                             | continue | text
//	else                             | restart  | nothing
//
// Whether a call is complete is what CallComplete says. Text of white space only
// is no text. Reasoning is kept when what follows it is kept; at the end it is
// dropped, since more of it could be missing.
//
// When the answer's Cuts cannot be read the plan is to fail, with CodeCorrupt.
func PlanRecovery(partial Answer, cause error) Plan {
	if partial.Stop != "" || !retryable(cause) {
		return Plan{Kind: PlanFail, Err: cause}
	}
	p := Plan{Kind: PlanRestart}
	parts := partial.Message.Parts
	kept := make([]bool, len(parts))
	whole := false
	for i, part := range parts {
		switch {
		case part.Type == rouse.PartText:
			kept[i] = true
		case part.Type == rouse.PartToolCall && part.Call != nil:
			if kept[i] = CallComplete(*part.Call); kept[i] {
				whole = true
			} else {
				p.Dropped = append(p.Dropped, *part.Call)
			}
		}
	}
	for i := len(parts) - 2; i >= 0; i-- {
		kept[i] = kept[i] || parts[i].Type == rouse.PartReasoning && kept[i+1]
	}
	switch {
	case whole:
		p.Kind = PlanFinish
	case strings.TrimSpace(partial.Message.Text()) == "":
		clear(kept)
	case len(p.Dropped) > 0:
		p.Kind = PlanTruncate
	default:
		p.Kind = PlanContinue
	}
	var err error
	if p.Keep, p.Reset, err = keepParts(partial, kept); err != nil {
		return Plan{Kind: PlanFail, Err: err}
	}
	if whole {
		p.Keep.Stop = StopTools
	}
	return p
}

// keepParts plays a again without the usage and without the parts that are not
// kept, and folds what is left. Dropped reports whether a part was left out.
func keepParts(a Answer, kept []bool) (keep Answer, dropped bool, err error) {
	var all, some Folder
	var callAt []int // part of each call
	newIndex := map[int]int{}
	for c, err := range Replay(a) {
		if err == nil {
			err = all.Add(c)
		}
		if err != nil {
			return Answer{}, false, err
		}
		at := len(all.parts) - 1
		switch c.Type {
		case ChunkUsage:
			continue
		case ChunkCall:
			if callAt = append(callAt, at); kept[at] {
				newIndex[c.Index] = len(newIndex)
			}
		case ChunkArgs:
			at = callAt[c.Index]
		}
		if !kept[at] {
			dropped = true
			continue
		}
		c.Index = newIndex[c.Index]
		if err := some.Add(c); err != nil {
			return Answer{}, false, err
		}
	}
	return some.Partial(), dropped, nil
}
