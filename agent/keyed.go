package agent

import (
	"encoding/json"
	"fmt"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/run"
	"github.com/rouse-run/rouse/state"
)

// Keyed makes s the keyed state of a run: give it in run.Options.Keyed. Steps read
// it with Services.Keyed, a state.Snapshot, and change it by handing a state.Batch
// or a *state.Batch to Services.Mutate. A run that is resumed or replayed needs a
// store with the same keys and the values that it began with.
func Keyed(s *state.Store) run.Keyed { return keyed{s} }

type keyed struct{ store *state.Store }

func (k keyed) Snapshot() any { return k.store.Snapshot() }

func (k keyed) Load(delta json.RawMessage) error { return k.store.Load(delta) }

func (k keyed) Prepare(batches []any) (json.RawMessage, func(), error) {
	typed := make([]state.Batch, len(batches))
	for i, b := range batches {
		switch b := b.(type) {
		case state.Batch:
			typed[i] = b
		case *state.Batch:
			typed[i] = *b
		default:
			return nil, nil, &rouse.Error{Code: rouse.CodeInvalid, Op: "agent.keyed", Message: fmt.Sprintf("a %T is no batch of keyed state", b)}
		}
	}
	return k.store.Prepare(typed)
}
