//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package sqlite_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/run"
	"github.com/rouse-run/rouse/store/sqlite"
)

// A run is written by commits and read back as events.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "rouse")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	s, err := sqlite.Open(ctx, sqlite.Config{Dir: dir})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()

	err = s.Commit(ctx, &run.Batch{
		Thread: "thread-1", Run: "run-1", Epoch: 1, Owner: s.Node(), Status: rouse.StatusRunning, Title: "Hello",
		Events: []rouse.Event{{
			Path: "/", Class: rouse.ClassFact, Type: rouse.EventRunStarted, At: rouse.Stamp(time.Now()), Data: []byte(`{}`),
		}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for e, err := range s.Read(ctx, run.Query{Thread: "thread-1"}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(e.Seq, e.Run, e.Type)
	}
	// Output: 1 run-1 run.started
}

// Another process takes over the runs of one that is gone.
func ExampleStore_Orphans() {
	dir, err := os.MkdirTemp("", "rouse")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	first, err := sqlite.Open(ctx, sqlite.Config{Dir: dir})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = first.Commit(ctx, &run.Batch{Thread: "thread-1", Run: "run-1", Epoch: 1, Owner: first.Node(), Status: rouse.StatusRunning})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := first.Close(); err != nil {
		fmt.Println(err)
		return
	}

	second, err := sqlite.Open(ctx, sqlite.Config{Dir: dir})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer second.Close()
	orphans, err := second.Orphans(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range orphans {
		err := second.Commit(ctx, &run.Batch{
			Thread: r.Thread, Run: r.ID, Revision: r.Revision, Epoch: r.Epoch + 1, Claim: true, Owner: second.Node(), Status: r.Status,
		})
		fmt.Println(r.ID, "claimed:", err == nil)
	}
	// Output: run-1 claimed: true
}
