package model_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/model"
	"github.com/rouse-run/rouse/model/modeltest"
)

var hello = &model.Request{Messages: []rouse.Message{rouse.UserText("hello")}}

func failure(code rouse.Code) error {
	return &rouse.Error{Code: code, Op: "test", Message: "as written"}
}

func ask(ctx context.Context, m model.Model) (model.Answer, error) {
	return model.Collect(m.Stream(ctx, hello))
}

// highest is a source whose jitter is always the longest.
type highest struct{}

func (highest) Uint64() uint64 { return 1<<64 - 1 }

var _ rand.Source = highest{}

func TestRetryWhat(t *testing.T) {
	t.Parallel()
	for _, code := range rouse.Codes() {
		synctest.Test(t, func(t *testing.T) {
			script := modeltest.NewScript(modeltest.Fail(failure(code)), modeltest.Say("ok"))
			a, err := ask(t.Context(), model.Retry(model.RetryConfig{})(script))
			if code.Info().Retryable {
				if err != nil || a.Message.Text() != "ok" || script.Sent() != 2 {
					t.Errorf("%s: got %q, %v after %d requests", code, a.Message.Text(), err, script.Sent())
				}
			} else if !isCode(err, code) || script.Sent() != 1 {
				t.Errorf("%s: got %v after %d requests", code, err, script.Sent())
			}
		})
	}
}

func TestRetryBackoff(t *testing.T) {
	t.Parallel()
	asked := &rouse.Error{Code: rouse.CodeRateLimited, RetryAfter: 20 * time.Second}
	tooLong := &rouse.Error{Code: rouse.CodeRateLimited, RetryAfter: 31 * time.Second}
	for name, tc := range map[string]struct {
		cfg   model.RetryConfig
		fail  error
		took  time.Duration
		sent  int
		found error
	}{
		"three attempts by default":      {model.RetryConfig{}, failure(rouse.CodeProvider), 1500 * time.Millisecond, 3, nil},
		"one attempt":                    {model.RetryConfig{Attempts: 1}, failure(rouse.CodeProvider), 0, 1, nil},
		"the cap":                        {model.RetryConfig{Attempts: 7}, failure(rouse.CodeProvider), (500 + 1000 + 2000 + 4000 + 8000 + 8000) * time.Millisecond, 7, nil},
		"many attempts do not overflow":  {model.RetryConfig{Attempts: 80, Backoff: model.BackoffConfig{Base: time.Second, Cap: time.Second}}, failure(rouse.CodeProvider), 79 * time.Second, 80, nil},
		"the provider's wish":            {model.RetryConfig{}, asked, 40 * time.Second, 3, asked},
		"a wish that is too long":        {model.RetryConfig{}, tooLong, 0, 1, tooLong},
		"a longer wait allowed":          {model.RetryConfig{Backoff: model.BackoffConfig{MaxRetryAfter: -1}}, tooLong, 62 * time.Second, 3, tooLong},
		"a shorter wait allowed":         {model.RetryConfig{Backoff: model.BackoffConfig{MaxRetryAfter: time.Second}}, asked, 0, 1, asked},
		"an error that is not a code":    {model.RetryConfig{}, errors.New("boom"), 0, 1, nil},
		"a refusal is not sent again":    {model.RetryConfig{}, failure(rouse.CodeProviderRefused), 0, 1, nil},
		"a base of one's own":            {model.RetryConfig{Backoff: model.BackoffConfig{Base: time.Second}}, failure(rouse.CodeProvider), 3 * time.Second, 3, nil},
		"a wish shorter than the jitter": {model.RetryConfig{}, &rouse.Error{Code: rouse.CodeOverloaded, RetryAfter: time.Millisecond}, 1500 * time.Millisecond, 3, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				tc.cfg.Backoff.Rand = highest{}
				script := modeltest.NewScript(modeltest.Fail(tc.fail))
				begun := time.Now()
				_, err := ask(t.Context(), model.Retry(tc.cfg)(script))
				if err == nil || (tc.found != nil && err != tc.found) { //nolint:errorlint // the very error is wanted
					t.Errorf("got %v", err)
				}
				if took := time.Since(begun); took != tc.took || script.Sent() != tc.sent {
					t.Errorf("%d requests took %v", script.Sent(), took)
				}
			})
		})
	}
}

func TestRetryJitterIsFullAndSeeded(t *testing.T) {
	t.Parallel()
	waits := func(seed uint64) (out []time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			m := model.Retry(model.RetryConfig{Attempts: 2, Backoff: model.BackoffConfig{Rand: rand.NewPCG(seed, 0)}})(modeltest.NewScript(modeltest.Fail(failure(rouse.CodeProvider))))
			for range 50 {
				begun := time.Now()
				_, _ = ask(t.Context(), m)
				out = append(out, time.Since(begun))
			}
		})
		return out
	}
	one, again, other := waits(1), waits(1), waits(2)
	low, high, differ := false, false, false
	for i, w := range one {
		if w != again[i] {
			t.Fatalf("wait %d is %v and then %v", i, w, again[i])
		}
		differ = differ || w != other[i]
		low, high = low || w < 100*time.Millisecond, high || w > 400*time.Millisecond
		if w > 500*time.Millisecond {
			t.Errorf("wait %d is %v", i, w)
		}
	}
	if !low || !high || !differ {
		t.Errorf("the jitter is not full: %v", one)
	}
}

// What has been shown is never asked for again.
func TestRetryNeverAfterTheFirstChunk(t *testing.T) {
	t.Parallel()
	for _, first := range []model.Chunk{text("x"), reasoning("x"), signature("x"), call(0, "a", "x"), usage(1, 1), reset("x")} {
		script := modeltest.NewScript(modeltest.Turn{{Chunk: first}, {Err: failure(rouse.CodeProvider)}}, modeltest.Say("again"))
		_, err := ask(t.Context(), model.Retry(model.RetryConfig{})(script))
		if !isCode(err, rouse.CodeProvider) || script.Sent() != 1 {
			t.Errorf("after %+v: got %v after %d requests", first, err, script.Sent())
		}
	}
}

func TestRetryWaitsForNobodyWhoLeft(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		cause error
		code  rouse.Code
		text  string
	}{
		"cancelled":    {context.Canceled, rouse.CodeCanceled, "context canceled"},
		"with a cause": {errors.New("the user closed the page"), rouse.CodeCanceled, "the user closed the page"},
		"with a code":  {&rouse.Error{Code: rouse.CodeBudget, Message: "the wall time is used up"}, rouse.CodeBudget, "the wall time is used up"},
		"by deadline":  {context.DeadlineExceeded, rouse.CodeTimeout, "deadline"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { cancel(tc.cause) })
				begun := time.Now()
				m := model.Retry(model.RetryConfig{Backoff: model.BackoffConfig{Base: time.Minute, Cap: time.Minute, Rand: highest{}}})(
					modeltest.NewScript(modeltest.Fail(failure(rouse.CodeOverloaded))))
				_, err := ask(ctx, m)
				if !isCode(err, tc.code) || !errors.Is(err, tc.cause) || !isCode(err, rouse.CodeOverloaded) || !strings.Contains(err.Error(), tc.text) {
					t.Errorf("got %v", err)
				}
				if rouse.CodeOf(err) != tc.code || time.Since(begun) != time.Second {
					t.Errorf("got %q after %v", rouse.CodeOf(err), time.Since(begun))
				}
			})
		})
	}
}

// One source serves many streams at a time; the race detector watches.
func TestRetryConcurrently(t *testing.T) {
	t.Parallel()
	m := model.Retry(model.RetryConfig{Backoff: model.BackoffConfig{Base: 1, Cap: 1, Rand: rand.NewPCG(1, 2)}})(
		modeltest.NewScript(modeltest.Fail(failure(rouse.CodeProvider))))
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if _, err := ask(t.Context(), m); !isCode(err, rouse.CodeProvider) {
				t.Errorf("got %v", err)
			}
		})
	}
	wg.Wait()
}
