package account

import (
	"math"
	"slices"
)

// PercentileMethod is how every percentile of this package is taken: the smallest value that at least so many per cent
// of the values do not exceed. It is always a value that was measured.
const PercentileMethod = "nearest-rank"

// LeastForP99 is the number of values from which on a 99th percentile is told. Below it the maximum is.
const LeastForP99 = 100

// Stat describes some values. With no values all numbers are null.
type Stat struct {
	N     int      `json:"n"`
	Nulls int      `json:"nulls"` // values that could not be had; they are in no number
	Mean  *float64 `json:"mean"`
	P50   *float64 `json:"p50"`
	P90   *float64 `json:"p90"`
	P95   *float64 `json:"p95"`
	P99   *float64 `json:"p99"` // null below LeastForP99 values
	Max   *float64 `json:"max"`
}

// NewStat describes values, which it does not change.
func NewStat(values []float64) Stat {
	s := Stat{N: len(values)}
	if s.N == 0 {
		return s
	}
	sorted := slices.Sorted(slices.Values(values))
	sum := 0.0
	for _, v := range sorted {
		sum += v
	}
	mean, most := sum/float64(s.N), sorted[s.N-1] // a pointer into the values would keep them all
	s.Mean, s.Max = &mean, &most
	s.P50, s.P90, s.P95 = percentile(sorted, 50), percentile(sorted, 90), percentile(sorted, 95)
	if s.N >= LeastForP99 {
		s.P99 = percentile(sorted, 99)
	}
	return s
}

// percentile takes one of sorted values by PercentileMethod.
func percentile(sorted []float64, p int) *float64 {
	rank := int(math.Ceil(float64(p) * float64(len(sorted)) / 100))
	v := sorted[max(rank, 1)-1]
	return &v
}

// statOf describes a number of many requests.
func statOf(values []*float64) Stat {
	var known []float64
	for _, v := range values {
		if v != nil {
			known = append(known, *v)
		}
	}
	s := NewStat(known)
	s.Nulls = len(values) - len(known)
	return s
}
