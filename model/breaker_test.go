package model_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/internal/safecall"
	"github.com/rouse-run/rouse/model"
	"github.com/rouse-run/rouse/model/modeltest"
)

// A step of a breaker's life: what the stream is like, and what is expected.
type beat struct {
	after   time.Duration // waited before
	how     string        // "ok", "fail", "cut", "auth", "odd", "break", "cancel"
	refused bool          // by the breaker
}

func TestBreaker(t *testing.T) {
	t.Parallel()
	repeat := func(n int, b beat) (out []beat) {
		for range n {
			out = append(out, b)
		}
		return out
	}
	cat := func(parts ...[]beat) (out []beat) {
		for _, p := range parts {
			out = append(out, p...)
		}
		return out
	}
	ok, fail, cut := beat{how: "ok"}, beat{how: "fail"}, beat{how: "cut"}
	no := beat{how: "ok", refused: true}
	later := func(d time.Duration, b beat) []beat { b.after = d; return []beat{b} }
	open := repeat(5, fail)
	for name, life := range map[string][]beat{
		"five failures in a row open it":            cat(open, repeat(3, no)),
		"a cut in the middle is a failure":          cat(repeat(5, cut), repeat(1, no)),
		"four do not":                               cat(repeat(4, fail), repeat(1, ok), repeat(4, fail), repeat(1, ok)),
		"a success between starts anew":             cat(repeat(4, fail), repeat(1, ok), repeat(5, fail), repeat(1, no)),
		"a refusal of the provider is no failure":   cat(repeat(20, beat{how: "auth"}), repeat(1, ok)),
		"a refusal shows that the provider lives":   cat(repeat(4, fail), repeat(1, beat{how: "auth"}), repeat(4, fail), repeat(1, ok)),
		"other errors count neither way":            cat(repeat(4, fail), repeat(9, beat{how: "odd"}), repeat(1, fail), repeat(1, no)),
		"leaving counts neither way":                cat(repeat(4, fail), repeat(9, beat{how: "break"}), repeat(9, beat{how: "cancel"}), repeat(1, fail), repeat(1, no)),
		"it stays open for 30 s":                    cat(open, later(29*time.Second, no), later(time.Second, ok), repeat(3, ok)),
		"a probe that fails opens it again":         cat(open, later(30*time.Second, fail), repeat(1, no), later(29*time.Second, no), later(time.Second, ok), repeat(4, fail), repeat(1, ok)),
		"a probe that is left opens it again":       cat(open, later(30*time.Second, beat{how: "break"}), repeat(1, no), later(30*time.Second, ok), repeat(1, ok)),
		"a probe that is cancelled opens it again":  cat(open, later(30*time.Second, beat{how: "cancel"}), repeat(1, no)),
		"a probe with an odd error opens it again":  cat(open, later(30*time.Second, beat{how: "odd"}), repeat(1, no)),
		"a probe that is refused closes it":         cat(open, later(30*time.Second, beat{how: "auth"}), repeat(4, fail), repeat(1, ok)),
		"after closing it takes five again to open": cat(open, later(time.Hour, ok), repeat(5, fail), repeat(1, no)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var turn modeltest.Turn
				m := model.Breaker(model.BreakerConfig{})(changing{&turn})
				for i, b := range life {
					<-time.After(b.after)
					if refused := b.play(t, m, &turn); refused != b.refused {
						t.Fatalf("beat %d %+v: refused is %v", i, b, refused)
					}
				}
			})
		})
	}
}

// changing is a model that plays what *turn is when it is asked.
type changing struct{ turn *modeltest.Turn }

func (m changing) Stream(ctx context.Context, req *model.Request) iter.Seq2[model.Chunk, error] {
	return modeltest.NewScript(*m.turn).Stream(ctx, req)
}

// play streams as b says and reports whether the breaker refused.
func (b beat) play(t *testing.T, m model.Model, turn *modeltest.Turn) bool {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	want := rouse.Code("")
	switch b.how {
	case "ok":
		*turn = modeltest.Say("a", "b")
	case "fail":
		*turn, want = modeltest.Fail(failure(rouse.CodeProvider)), rouse.CodeProvider
	case "cut":
		*turn, want = modeltest.Chunks(text("a")), rouse.CodeStreamCut
	case "auth":
		*turn, want = modeltest.Fail(failure(rouse.CodeProviderAuth)), rouse.CodeProviderAuth
	case "odd":
		*turn, want = modeltest.Fail(failure(rouse.CodeInternal)), rouse.CodeInternal
	case "break":
		*turn = modeltest.Say("a", "b")
		for _, err := range m.Stream(ctx, hello) {
			return err != nil
		}
	case "cancel":
		*turn, want = modeltest.Turn{{Chunk: text("a")}, hang}, rouse.CodeCanceled
		time.AfterFunc(time.Millisecond, cancel)
	}
	_, err := ask(ctx, m)
	var e *rouse.Error
	if errors.As(err, &e) && e.Op == "model.breaker" {
		if e.Code != rouse.CodeOverloaded || e.RetryAfter <= 0 || e.RetryAfter > 30*time.Second {
			t.Errorf("refused with %+v", e)
		}
		return true
	}
	if rouse.CodeOf(err) != want {
		t.Errorf("%s: got %v", b.how, err)
	}
	return false
}

func TestBreakerAdmitsOneProbe(t *testing.T) {
	t.Parallel()
	for _, probes := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			turn := modeltest.Fail(failure(rouse.CodeTimeout))
			m := model.Breaker(model.BreakerConfig{Failures: 2, Open: time.Minute, Probes: probes})(changing{&turn})
			for range 2 {
				_, _ = ask(t.Context(), m)
			}
			<-time.After(time.Minute)
			turn = modeltest.Turn{slow(time.Second, stop(model.StopEnd))}
			results := make(chan error, 10)
			for range 10 {
				go func() { _, err := ask(t.Context(), m); results <- err }()
			}
			refused := 0
			for range 10 {
				if isCode(<-results, rouse.CodeOverloaded) {
					refused++
				}
			}
			if refused != 10-probes {
				t.Errorf("%d probes allowed, %d of 10 refused", probes, refused)
			}
			if _, err := ask(t.Context(), m); err != nil {
				t.Errorf("it did not close: %v", err)
			}
		})
	}
}

// A stream that began before the breaker opened says nothing about what is now.
func TestBreakerIgnoresTheLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turn := modeltest.Turn{slow(time.Second, stop(model.StopEnd))}
		m := model.Breaker(model.BreakerConfig{})(changing{&turn})
		done := make(chan error)
		go func() { _, err := ask(t.Context(), m); done <- err }()
		synctest.Wait()
		turn = modeltest.Fail(failure(rouse.CodeProvider))
		for range 5 {
			_, _ = ask(t.Context(), m)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if _, err := ask(t.Context(), m); !isCode(err, rouse.CodeOverloaded) {
			t.Errorf("a success from before closed it: %v", err)
		}
	})
}

func TestBreakerSurvivesAPanic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turn := modeltest.Fail(failure(rouse.CodeProvider))
		m := model.Breaker(model.BreakerConfig{Failures: 1})(changing{&turn})
		_, _ = ask(t.Context(), m)
		<-time.After(30 * time.Second)
		turn = modeltest.Say("x")
		if err := safecall.Do(t.Context(), "test", func(ctx context.Context) error {
			for _, err := range m.Stream(ctx, hello) {
				panic(err)
			}
			return nil
		}); !isCode(err, rouse.CodeInternal) {
			t.Errorf("got %v", err)
		}
		<-time.After(30 * time.Second)
		if _, err := ask(t.Context(), m); err != nil {
			t.Errorf("the probe was never given back: %v", err)
		}
	})
}
