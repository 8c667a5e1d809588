package model_test

import (
	"context"
	"iter"
	"testing"

	"github.com/rouse-run/rouse/model"
)

// tokens is a model that says n tokens and costs nothing itself.
type tokens int

func (n tokens) Stream(context.Context, *model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		c := text("token ")
		for range n {
			if !yield(c, nil) {
				return
			}
		}
		yield(stop(model.StopEnd), nil)
	}
}

// BenchmarkWrappers measures what a wrapper adds to one chunk.
func BenchmarkWrappers(b *testing.B) {
	all := []model.Wrap{
		model.Recover(model.RecoverConfig{}), model.Breaker(model.BreakerConfig{}), model.Retry(model.RetryConfig{}),
		model.Limit(model.LimitConfig{}), model.Timeouts(model.TimeoutConfig{}),
	}
	for name, ws := range map[string][]model.Wrap{
		"none": nil, "recover": all[:1], "breaker": all[1:2], "retry": all[2:3], "limit": all[3:4], "timeouts": all[4:], "all": all,
	} {
		b.Run(name, func(b *testing.B) {
			const n = 2000
			m := model.Chain(tokens(n), ws...)
			b.ReportAllocs()
			for b.Loop() {
				for _, err := range m.Stream(b.Context(), hello) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/chunk")
		})
	}
}
