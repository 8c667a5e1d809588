package modeltest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/model"
	"github.com/rouse-run/rouse/model/modeltest"
)

// quick is a back-off that takes no time.
var quick = model.BackoffConfig{Base: 1, Cap: 1}

func TestScript(t *testing.T) { suite(t, modeltest.Everything()) }

func TestRetry(t *testing.T) {
	suite(t, modeltest.Everything(), model.Retry(model.RetryConfig{Backoff: quick}))
}

func TestTimeouts(t *testing.T) {
	suite(t, modeltest.Everything(), model.Timeouts(model.TimeoutConfig{}))
}

func TestLimit(t *testing.T) {
	suite(t, modeltest.Everything(), model.Limit(model.LimitConfig{InFlight: 2}))
}

func TestBreaker(t *testing.T) {
	suite(t, modeltest.Everything(), model.Breaker(model.BreakerConfig{Failures: 1000}))
}

func TestRecover(t *testing.T) {
	can := modeltest.Everything()
	can.Partial = false
	suite(t, can, model.Recover(model.RecoverConfig{Backoff: quick, StallDelay: 1}))
}

func TestAllWrappers(t *testing.T) {
	can := modeltest.Everything()
	can.Partial = false
	suite(t, can,
		model.Recover(model.RecoverConfig{Backoff: quick, StallDelay: 1}), model.Breaker(model.BreakerConfig{Failures: 1000}),
		model.Retry(model.RetryConfig{Backoff: quick}), model.Limit(model.LimitConfig{InFlight: 2}), model.Timeouts(model.TimeoutConfig{}))
}

func suite(t *testing.T, can modeltest.Can, ws ...model.Wrap) {
	modeltest.Run(t, modeltest.Config{Can: can, New: func(t testing.TB, s modeltest.Scenario) modeltest.Subject {
		script := modeltest.NewScript(s.Turn())
		t.Cleanup(func() {
			if n := script.Open(); n != 0 {
				t.Errorf("%d streams of the wrapped model were left open", n)
			}
		})
		m := model.Chain(script, ws...)
		if got, ok := model.As[*modeltest.Script](m); !ok || got != script {
			t.Error("the wrapped model cannot be found with As")
		}
		return modeltest.Subject{Model: m, Sent: script.Sent}
	}})
}

func ExampleScript() {
	script := modeltest.NewScript(
		modeltest.Fail(&rouse.Error{Code: rouse.CodeOverloaded, Message: "no room", RetryAfter: time.Millisecond}),
		modeltest.Say("Hello, ", "world"),
	)
	m := model.Chain(script, model.Retry(model.RetryConfig{Backoff: model.BackoffConfig{Base: time.Millisecond}}))
	a, err := model.Collect(m.Stream(context.Background(), &model.Request{Messages: []rouse.Message{rouse.UserText("Say hello.")}}))
	fmt.Println(a.Message.Text(), a.Stop, a.Cuts, err)
	fmt.Println(script.Sent(), "requests")
	// Output:
	// Hello, world end t7,5 <nil>
	// 2 requests
}
