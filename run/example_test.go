package run_test

import (
	"context"
	"fmt"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/run"
)

// basket is the state of a run: plain JSON.
type basket struct {
	Items []string `json:"items"`
	Total int      `json:"total"`
}

// checkout is a step: it adds up, charges once, and is done.
type checkout struct{ charge func(cents int) error }

func (checkout) Info() run.Info { return run.Info{ID: "checkout"} }

func (c checkout) Do(ctx context.Context, sc *run.Scope[basket]) (run.Move, error) {
	switch sc.At() {
	case "":
		return sc.Continue("charge", func(b *basket) { b.Total = 100 * len(b.Items) }), nil
	default:
		// Whatever is done once is not done again when the process dies after it.
		err := sc.Once(ctx, "charge", nil, func(context.Context) (any, error) { return nil, c.charge(sc.State().Total) })
		return sc.Complete("done", nil), err
	}
}

func (checkout) Result(_ run.Cursor, b basket) (int, error) { return b.Total, nil }

// Write a step, start a run of it, watch it, and take its output.
func ExampleStart() {
	ctx := context.Background()
	step := checkout{charge: func(cents int) error { fmt.Println("charged", cents); return nil }}
	r, err := run.Start(ctx, step, basket{Items: []string{"tea", "cake"}}, run.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for ev, err := range r.Events(ctx) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if ev.Class == rouse.ClassFact {
			fmt.Println(ev.Type)
		}
	}
	total, err := r.Wait(ctx)
	fmt.Println(total, err)
	// Output:
	// run.started
	// charged 200
	// run.finished
	// 200 <nil>
}
