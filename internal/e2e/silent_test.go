package e2e_test

import (
	"context"
	"testing"
	"time"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/agent"
	"github.com/rouse-run/rouse/model/mock"
	"github.com/rouse-run/rouse/run"
)

// Text that has arrived is shown, also when nothing more comes after it: deltas
// that wait for a soft move's commit must not wait for the next delta.
func TestTextIsShownBeforeASilence(t *testing.T) {
	t.Parallel()
	for range 20 {
		_, m := provider(t, mock.Config{ChunkRunes: 4, Rules: []mock.Rule{{Prompt: mock.Any, Generator: writes(mock.Fault{Break: mock.BreakHang, AfterChunks: 2})}}})
		s := open(t, t.TempDir())
		var h hands
		a := newAgent(t, agent.Config{Model: m, Tools: h.tools(t, "write")})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		r, err := a.Start(ctx, run.Options{Journal: s}, rouse.Text("go"))
		if err != nil {
			t.Fatal(err)
		}
		shown := false
		for ev := range r.Events(ctx) {
			if ev.Type == rouse.EventText && ctx.Err() == nil {
				shown = true
				r.Cancel(nil)
			}
		}
		cancel()
		if !shown {
			t.Fatal("the text came only when the run ended")
		}
	}
}
