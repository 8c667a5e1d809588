package measure

import (
	"math"
	"slices"
)

// Spread is the median of a figure over the repetitions, and its range. The
// zero value stands for a figure that was not measured.
type Spread struct {
	N      int     `json:"n"`
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// Measured reports whether there is a figure.
func (s Spread) Measured() bool { return s.N > 0 }

// NewSpread summarizes values; without values, or with one that is not a
// number, nothing was measured.
func NewSpread(values []float64) Spread {
	if len(values) == 0 || slices.ContainsFunc(values, notNumber) {
		return Spread{}
	}
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	return Spread{N: n, Median: (v[(n-1)/2] + v[n/2]) / 2, Min: v[0], Max: v[n-1]}
}

// Ratios divides a by b repetition by repetition. Both must have been measured
// in the same repetitions; otherwise nothing was measured.
func Ratios(a, b []float64) Spread {
	return pairwise(a, b, func(x, y float64) float64 { return x / y })
}

// Differences subtracts b from a repetition by repetition, like Ratios.
func Differences(a, b []float64) Spread {
	return pairwise(a, b, func(x, y float64) float64 { return x - y })
}

func pairwise(a, b []float64, f func(x, y float64) float64) Spread {
	if len(a) != len(b) {
		return Spread{}
	}
	v := make([]float64, len(a))
	for i := range a {
		v[i] = f(a[i], b[i])
	}
	return NewSpread(v)
}

func notNumber(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }
