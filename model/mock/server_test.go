package mock_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rouse-run/rouse/model"
	"github.com/rouse-run/rouse/model/mock"
)

// TestStoppedHandlerDoesNotPretend ends the context of somebody else's server:
// the client of a slow or hanging answer sees a broken connection, not a short
// answer in good order.
func TestStoppedHandlerDoesNotPretend(t *testing.T) {
	t.Parallel()
	for _, f := range []mock.Fault{{Piece: time.Hour}, {Break: mock.BreakHang, AfterChunks: 1}} {
		ctx, stop := context.WithCancel(t.Context())
		s := httptest.NewUnstartedServer(one(t, mock.Result{Text: longText, Fault: f}).Handler())
		s.Config.BaseContext = func(net.Listener) context.Context { return ctx }
		s.Start()
		resp, err := client{http: s.Client(), base: s.URL}.post(t.Context(), wire("x", true, false))
		if err != nil {
			t.Fatal(err)
		}
		stop()
		if b, err := io.ReadAll(resp.Body); err == nil {
			t.Errorf("the stopped answer ended in good order: %q", b)
		}
		resp.Body.Close()
		s.Close()
	}
}

// TestCloseWaitsForAnswers checks that no code of the user runs after Close.
func TestCloseWaitsForAnswers(t *testing.T) {
	t.Parallel()
	began := make(chan struct{})
	var ended atomic.Bool
	s, err := one(t, mock.Func(func(ctx context.Context, _ *model.Request) (any, error) {
		close(began)
		<-ctx.Done()
		<-time.After(20 * time.Millisecond)
		ended.Store(true)
		return nil, ctx.Err()
	})).NewServer()
	if err != nil {
		t.Fatal(err)
	}
	c := client{http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, base: s.BaseURL()}
	failed := make(chan error)
	go func() {
		_, err := c.body(t.Context(), wire("x", true, false))
		failed <- err
	}()
	<-began
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if !ended.Load() {
		t.Error("Close returned while a generator was running")
	}
	if err := <-failed; err == nil {
		t.Error("the client got an answer")
	}
}
