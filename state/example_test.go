package state_test

import (
	"errors"
	"fmt"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/state"
)

// Two tools that ran at the same time both count what they spent. Neither write
// is lost.
func Example() {
	spent := state.Sum(state.Options{Name: "budget.spent"})
	visited := state.Union[string](state.Options{Name: "browser.visited", Scope: state.ScopeThread})
	store, err := state.New(state.Config{Keys: []state.Key{spent, visited}})
	if err != nil {
		fmt.Println(err)
		return
	}

	snapshot := store.Snapshot()
	first, second := snapshot.Batch(), snapshot.Batch()
	spent.Add(first, 250)
	visited.Add(first, "go.dev")
	spent.Add(second, 50)
	visited.Add(second, "example.org")
	if err := store.Commit(*first, *second); err != nil {
		fmt.Println(err)
		return
	}

	total, err := spent.Get(store.Snapshot())
	fmt.Println(total, err)
	fmt.Printf("%s\n", store.Snapshot().Export(state.ScopeThread))
	// Output:
	// 300 <nil>
	// {"browser.visited":{"version":1,"value":["example.org","go.dev"]}}
}

// Two writers of an exclusive key who did not see each other: the second one is
// told, and nothing is overwritten.
func ExampleConflict() {
	active := state.NewExclusive[string](state.Options{Name: "agent.active"})
	store, err := state.New(state.Config{Keys: []state.Key{active}})
	if err != nil {
		fmt.Println(err)
		return
	}
	snapshot := store.Snapshot()
	first, second := snapshot.Batch(), snapshot.Batch()
	active.Set(first, "researcher")
	active.Set(second, "writer")

	err = store.Commit(*first, *second)
	var conflict *state.Conflict
	if errors.As(err, &conflict) {
		fmt.Println(rouse.CodeOf(err), conflict.Key, conflict.First, conflict.Batch)
	}
	fmt.Println(active.Has(store.Snapshot()))
	// Output:
	// conflict agent.active 0 1
	// false
}

// A change is made durable before anybody sees it, and loaded after a crash.
func ExampleStore_Prepare() {
	goal := state.NewExclusive[string](state.Options{Name: "plan.goal"})
	config := state.Config{Keys: []state.Key{goal}}
	store, err := state.New(config)
	if err != nil {
		fmt.Println(err)
		return
	}
	batch := store.Snapshot().Batch()
	goal.Set(batch, "water the plants")
	delta, publish, err := store.Prepare([]state.Batch{*batch})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", delta) // to the journal
	publish()

	resumed, err := state.New(config)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := resumed.Load(delta); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(goal.Get(resumed.Snapshot()))
	// Output:
	// {"base":0,"revision":1,"run":{"plan.goal":{"version":1,"value":"water the plants"}}}
	// water the plants <nil>
}
