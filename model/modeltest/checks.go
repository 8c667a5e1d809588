package modeltest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"sync"
	"time"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/model"
)

// answer: the whole answer arrives, and in the right shape.
func (t trial) answer(ctx context.Context) error {
	a, got, err := t.stream(ctx, request())
	if err != nil {
		return err
	}
	if got != nil {
		return fmt.Errorf("the answer failed: %w", got)
	}
	return t.compare(a)
}

// failure: the error arrives, with the right code, after what was said before it.
func (t trial) failure(ctx context.Context) error {
	a, got, err := t.stream(ctx, request())
	if err != nil {
		return err
	}
	if got == nil {
		return fmt.Errorf("no error, but the answer %+v", a.Message)
	}
	var coded *rouse.Error
	if !errors.As(got, &coded) || coded.Code != t.scenario.Err {
		return fmt.Errorf("the error is not of code %q: %w", t.scenario.Err, got)
	}
	if coded.RetryAfter != t.scenario.RetryAfter {
		return fmt.Errorf("RetryAfter is %v, the provider said %v", coded.RetryAfter, t.scenario.RetryAfter)
	}
	if !t.can.Partial {
		return nil
	}
	return t.compare(a)
}

// compare holds an answer against the scenario.
func (t trial) compare(a model.Answer) error {
	var f model.Folder
	for _, c := range t.scenario.shown() {
		if err := f.Add(c); err != nil {
			return err
		}
	}
	want := f.Partial()
	if a.Stop != want.Stop {
		return fmt.Errorf("the answer stopped with %q, not %q", a.Stop, want.Stop)
	}
	if t.can.Usage && a.Usage != want.Usage {
		return fmt.Errorf("the usage is %+v, not %+v", a.Usage, want.Usage)
	}
	if g, w := t.comparable(a.Message), t.comparable(want.Message); !reflect.DeepEqual(g, w) {
		return fmt.Errorf("the answer is %s\nnot %s", encode(g), encode(w))
	}
	return nil
}

// comparable removes what a wire is free to choose.
func (t trial) comparable(m rouse.Message) rouse.Message {
	m = m.Clone()
	for i := range m.Parts {
		call := m.Parts[i].Call
		if call == nil {
			continue
		}
		if !t.can.CallIDs {
			call.ID = ""
		}
		var b bytes.Buffer
		switch {
		case call.Args == "":
			call.Args = "{}"
		case json.Compact(&b, []byte(call.Args)) == nil:
			call.Args = b.String()
		}
	}
	return m
}

func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// lazy: a sequence that nobody ranges over sends nothing, one that is ranged over
// twice sends twice.
func (t trial) lazy(ctx context.Context) error {
	seq := t.Model.Stream(ctx, request())
	if n := t.Sent(); n != 0 {
		return fmt.Errorf("%d requests were sent by Stream itself", n)
	}
	first := 0
	for i := range 2 {
		for _, err := range seq {
			if err != nil {
				break
			}
		}
		switch n := t.Sent(); {
		case i == 0 && n == 0:
			return errors.New("the first range sent nothing")
		case i == 0:
			first = n
		case n != 2*first:
			return fmt.Errorf("the first range sent %d requests, the second %d", first, n-first)
		}
	}
	return nil
}

// most bounds how many positions of a stream are tried.
const most = 24

// breakOff: the consumer leaves at each index; yield panics when it is called
// again, and the model goes on to work.
func (t trial) breakOff(ctx context.Context) error {
	for i, pairs := 0, 1; i < pairs && i < most; i++ {
		n := 0
		err := within(func() error {
			for _, err := range t.Model.Stream(ctx, request()) {
				if n++; n > i || err != nil {
					break
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("after a break at index %d: %w", i, err)
		}
		if n > i {
			pairs = n + 1 // there may be more
		}
	}
	if t.scenario.succeeds() {
		return t.answer(ctx)
	}
	return nil
}

// cancelMidway: ctx ends while the consumer has a chunk. What has arrived may
// still be shown, even to the end, but an error must be that of the cancellation.
func (t trial) cancelMidway(ctx context.Context) error {
	for i := range min(most, len(t.scenario.Chunks)) {
		err := within(func() error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			watched := t
			watched.Model = cancelAt{t.Model, i, cancel}
			_, got, err := watched.stream(ctx, request())
			if err == nil && got != nil && t.scenario.Err == "" {
				err = isCanceled(got)
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("cancelled at index %d: %w", i, err)
		}
	}
	return nil
}

// cancelBefore: ctx has ended already.
func (t trial) cancelBefore(ctx context.Context) error {
	return within(func() error {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		a, got, err := t.stream(ctx, request())
		if err != nil {
			return err
		}
		if len(a.Message.Parts) > 0 || got == nil {
			return fmt.Errorf("the answer %s came although ctx had ended", encode(a.Message))
		}
		return isCanceled(got)
	})
}

// cancelInSilence: ctx ends while the provider says nothing.
func (t trial) cancelInSilence(ctx context.Context) error {
	return within(func() error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		timer := time.AfterFunc(50*time.Millisecond, cancel)
		defer timer.Stop()
		_, got, err := t.stream(ctx, request())
		if err != nil {
			return err
		}
		if got == nil {
			return errors.New("the stream ended without an error")
		}
		return isCanceled(got)
	})
}

func isCanceled(err error) error {
	if code := rouse.CodeOf(err); code != rouse.CodeCanceled {
		return fmt.Errorf("ctx was cancelled, but the error is of code %q: %w", code, err)
	}
	return nil
}

// request: the request is the same afterwards, behind the ends of its slices too,
// and nobody reads it any more (which the race detector sees).
func (t trial) request(ctx context.Context) error {
	req := request()
	before := encode(whole(req))
	if _, _, err := t.stream(ctx, req); err != nil {
		return err
	}
	if after := encode(whole(req)); after != before {
		return fmt.Errorf("the request was %s\nand is %s", before, after)
	}
	req.System, req.Messages[0], req.Tools[0] = "", rouse.Message{}, model.ToolSpec{}
	return nil
}

// whole returns req with its slices at full capacity.
func whole(req *model.Request) model.Request {
	r := *req
	r.Messages, r.Tools = r.Messages[:cap(r.Messages)], nil
	r.Params.Stop = r.Params.Stop[:cap(r.Params.Stop)]
	for _, tool := range req.Tools[:cap(req.Tools)] {
		if len(tool.Schema) == 0 {
			tool.Schema = json.RawMessage("{}") // the unused ones, for encoding
		}
		r.Tools = append(r.Tools, tool)
	}
	return r
}

// crowd is how many streams are open at a time.
const crowd = 8

// concurrent: many streams at once, each with the whole answer.
func (t trial) concurrent(ctx context.Context) error {
	errs := make([]error, crowd)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = t.answer(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// cancelAt calls cancel when the chunk of an index is shown.
type cancelAt struct {
	model.Model
	index  int
	cancel context.CancelFunc
}

func (m cancelAt) Stream(ctx context.Context, req *model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		n := 0
		for c, err := range m.Model.Stream(ctx, req) {
			if n == m.index {
				m.cancel()
			}
			n++
			if !yield(c, err) {
				return
			}
		}
	}
}
