package model_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/internal/safecall"
	"github.com/rouse-run/rouse/model"
	"github.com/rouse-run/rouse/model/modeltest"
)

func slow(d time.Duration, c model.Chunk) modeltest.Step { return modeltest.Step{Chunk: c, Delay: d} }

var hang = modeltest.Step{Hang: true}

func TestTimeouts(t *testing.T) {
	t.Parallel()
	end := stop(model.StopEnd)
	for name, tc := range map[string]struct {
		cfg     model.TimeoutConfig
		turn    modeltest.Turn
		took    time.Duration
		said    string
		message string // "" for success
	}{
		"all in time": {
			model.TimeoutConfig{}, modeltest.Turn{slow(119*time.Second, text("a")), slow(59*time.Second, text("b")), slow(59*time.Second, end)},
			237 * time.Second, "ab", "",
		},
		"no first byte":   {model.TimeoutConfig{}, modeltest.Turn{hang}, 2 * time.Minute, "", "did not begin to answer within 2m0s"},
		"silence":         {model.TimeoutConfig{}, modeltest.Turn{slow(30*time.Second, text("a")), slow(30*time.Second, text("b")), hang}, 2 * time.Minute, "ab", "fell silent for 1m0s"},
		"silence after 1": {model.TimeoutConfig{}, modeltest.Turn{slow(time.Second, text("a")), hang}, 61 * time.Second, "a", "fell silent for 1m0s"},
		"silence in spite of More": {
			model.TimeoutConfig{}, modeltest.Turn{slow(0, joined(text("a"))), hang}, 2 * time.Minute, "a", "fell silent for 1m0s",
		},
		"in all": {
			model.TimeoutConfig{Total: 100 * time.Second}, modeltest.Turn{slow(50*time.Second, text("a")), slow(40*time.Second, text("b")), slow(40*time.Second, end)},
			100 * time.Second, "ab", "longer than 1m40s in all",
		},
		"in all by default": {model.TimeoutConfig{FirstByte: -1, Idle: -1}, modeltest.Turn{hang}, 15 * time.Minute, "", "longer than 15m0s in all"},
		"no limits": {
			model.TimeoutConfig{FirstByte: -1, Idle: -1, Total: -1}, modeltest.Turn{slow(time.Hour, text("a")), slow(time.Hour, end)}, 2 * time.Hour, "a", "",
		},
		"hanging after the stop is not an error": {model.TimeoutConfig{}, modeltest.Turn{{Chunk: text("a")}, {Chunk: end}, hang}, 0, "a", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				script := modeltest.NewScript(tc.turn)
				begun := time.Now()
				a, err := ask(t.Context(), model.Timeouts(tc.cfg)(script))
				if took := time.Since(begun); took != tc.took {
					t.Errorf("took %v, not %v", took, tc.took)
				}
				if a.Message.Text() != tc.said {
					t.Errorf("got %q", a.Message.Text())
				}
				switch {
				case tc.message == "" && err != nil:
					t.Errorf("got %v", err)
				case tc.message != "" && (!isCode(err, rouse.CodeTimeout) || !strings.Contains(err.Error(), tc.message)):
					t.Errorf("got %v", err)
				}
				if script.Open() != 0 {
					t.Error("the wrapped stream is still open")
				}
				// synctest fails the test when a goroutine or timer outlives it in a wait
			})
		})
	}
}

// The time that the consumer takes is not the model's silence.
func TestTimeoutsDoNotBlameTheModelForTheConsumer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := model.Timeouts(model.TimeoutConfig{Idle: time.Second})(modeltest.NewScript(modeltest.Turn{
			{Chunk: text("a")}, slow(900*time.Millisecond, text("b")), slow(900*time.Millisecond, text("c")), slow(900*time.Millisecond, stop(model.StopEnd)),
		}))
		n := 0
		for _, err := range m.Stream(t.Context(), hello) {
			if err != nil {
				t.Fatal(err)
			}
			<-time.After(10*time.Second + 300*time.Millisecond)
			n++
		}
		if n != 4 {
			t.Errorf("%d chunks", n)
		}
	})
}

func TestTimeoutsPassOnWhatIsNotTheirs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("the user closed the page")
		time.AfterFunc(time.Second, func() { cancel(why) })
		_, err := ask(ctx, model.Timeouts(model.TimeoutConfig{})(modeltest.NewScript(modeltest.Turn{hang})))
		if !isCode(err, rouse.CodeCanceled) || !errors.Is(err, why) {
			t.Errorf("got %v", err)
		}
		_, err = ask(t.Context(), model.Timeouts(model.TimeoutConfig{})(modeltest.NewScript(modeltest.Fail(failure(rouse.CodeProviderAuth)))))
		if !isCode(err, rouse.CodeProviderAuth) {
			t.Errorf("got %v", err)
		}
	})
}

// A break leaves no timer that fires later: the bubble would not become idle.
func TestTimeoutsLeaveNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		script := modeltest.NewScript(modeltest.Say("a", "b", "c"))
		m := model.Timeouts(model.TimeoutConfig{})(script)
		for i := range 5 {
			n := 0
			for range m.Stream(t.Context(), hello) {
				if n++; n > i {
					break
				}
			}
			if script.Open() != 0 {
				t.Errorf("open after a break at %d", i)
			}
		}
		<-time.After(time.Hour)
		synctest.Wait()
	})
}

func TestLimit(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		wait time.Duration // MaxWait
		free time.Duration // when the first stream ends
		took time.Duration
		err  string
	}{
		"a slot gets free":                 {0, time.Hour, time.Hour, ""},
		"in time":                          {2 * time.Second, time.Second, time.Second, ""},
		"too late":                         {2 * time.Second, time.Minute, 2 * time.Second, "none ended within 2s"},
		"whoever does not wait is refused": {-1, time.Minute, 0, "none ended at once"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				script := modeltest.NewScript(modeltest.Turn{slow(tc.free, stop(model.StopEnd))}, modeltest.Say("second"))
				m := model.Limit(model.LimitConfig{InFlight: 1, MaxWait: tc.wait})(script)
				go func() { _, _ = ask(t.Context(), m) }()
				synctest.Wait()
				begun := time.Now()
				a, err := ask(t.Context(), m)
				if took := time.Since(begun); took != tc.took {
					t.Errorf("took %v", took)
				}
				switch {
				case tc.err == "" && (err != nil || a.Message.Text() != "second"):
					t.Errorf("got %q, %v", a.Message.Text(), err)
				case tc.err != "" && (!isCode(err, rouse.CodeOverloaded) || !strings.Contains(err.Error(), tc.err)):
					t.Errorf("got %v", err)
				}
				<-time.After(tc.free)
				synctest.Wait()
				if _, err := ask(t.Context(), m); err != nil {
					t.Errorf("the slot was lost: %v", err)
				}
			})
		})
	}
}

func TestLimitHoldsAndReleases(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		script := modeltest.NewScript(modeltest.Turn{slow(time.Second, text("a")), slow(time.Second, stop(model.StopEnd))})
		m := model.Limit(model.LimitConfig{InFlight: 3})(script)
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("enough")
		var most atomic.Int64
		failed, done := 0, make(chan error, 20)
		for i := range 20 {
			go func() {
				var err error
				for _, e := range m.Stream(ctx, hello) {
					if n := int64(script.Open()); n > most.Load() {
						most.Store(n) // it only grows while the streams are being opened
					}
					if err = e; i%2 == 0 {
						break // half of them leave after the first chunk
					}
				}
				done <- err
			}()
		}
		time.AfterFunc(5500*time.Millisecond, func() { cancel(why) })
		for range 20 {
			if err := <-done; err != nil {
				failed++
				if !isCode(err, rouse.CodeCanceled) || !errors.Is(err, why) {
					t.Errorf("got %v", err)
				}
			}
		}
		if most.Load() != 3 || failed == 0 || script.Open() != 0 {
			t.Errorf("%d at a time, %d failed, %d open", most.Load(), failed, script.Open())
		}
		for range 3 { // the slots are all free
			if _, err := ask(t.Context(), model.Chain(m)); err != nil {
				t.Error(err)
			}
		}
	})
}

// A panic of the consumer gives the slot back.
func TestLimitSurvivesAPanic(t *testing.T) {
	t.Parallel()
	m := model.Limit(model.LimitConfig{InFlight: 1, MaxWait: -1})(modeltest.NewScript(modeltest.Say("x")))
	if err := safecall.Do(t.Context(), "test", func(ctx context.Context) error {
		for _, err := range m.Stream(ctx, hello) {
			panic(err)
		}
		return nil
	}); !isCode(err, rouse.CodeInternal) {
		t.Errorf("got %v", err)
	}
	if _, err := ask(t.Context(), m); err != nil {
		t.Errorf("the slot was lost: %v", err)
	}
}
