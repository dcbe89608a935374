package search

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"cpbench/plan/catalogue"
)

const gib = 1 << 30

// memory is a simulated model: its peak is a + bN + cN², disturbed once for each cell of 256 tokens.
type memory struct {
	a, b, c, capacity, sigma float64
	key                      uint64
	silent                   bool // it does not tell its peaks
}

// drawMemory makes a model of 80 GiB whose undisturbed answer is any size from 512 to 32,768, all alike.
func drawMemory(r *rand.Rand, sigma float64) memory {
	edge := 512 + r.Float64()*(32768-512)
	m := memory{capacity: 80 * gib, sigma: sigma, key: r.Uint64()}
	m.a = m.capacity * 0.5 * r.Float64()
	quadratic := r.Float64()
	m.b = (m.capacity - m.a) * (1 - quadratic) / edge
	m.c = (m.capacity - m.a) * quadratic / edge / edge
	return m
}

// peak gives the memory of size n.
func (m memory) peak(n int64) float64 {
	z := rand.New(rand.NewPCG(m.key, uint64(n/256))).NormFloat64()
	x := float64(n)
	return (m.a + m.b*x + m.c*x*x) * (1 + m.sigma*z)
}

// try carries out one step on the simulated model.
func (m memory) try(s Step) Trial {
	t := Trial{N: s.N, Fresh: s.Fresh, Confirm: s.Confirm, Outcome: catalogue.OK, CapacityBytes: &m.capacity}
	if y := m.peak(s.N); y <= m.capacity {
		t.PeakBytes = &y
		if m.silent {
			t.PeakBytes = nil
		}
	} else {
		t.Outcome = catalogue.OOMDevice
	}
	return t
}

// cost is what many simulated searches took.
type cost struct {
	trials, failed []int
}

func mean(v []int) float64 {
	var sum int
	for _, x := range v {
		sum += x
	}
	return float64(sum) / float64(len(v))
}

func p95(v []int) float64 {
	return float64(slices.Sorted(slices.Values(v))[len(v)*95/100])
}

// simulate makes n searches, of models that tell their peaks or do not, and counts their trials. hint, if there is one, makes the hint of each search out of the
// answer that it gives without one.
func simulate(t testing.TB, cfg Config, sigma float64, n int, peaks bool, hint func(int64) int64) cost {
	t.Helper()
	var c cost
	r := rand.New(rand.NewPCG(20, 1))
	for range n {
		m := drawMemory(r, sigma)
		m.silent = !peaks
		a, trials := m.search(t, cfg)
		if hint != nil {
			hinted := cfg
			hinted.Hint = hint(*a.Fits)
			_, trials = m.search(t, hinted)
		}
		var failed int
		for _, tr := range trials {
			if !tr.Outcome.Fits() {
				failed++
			}
		}
		c.trials, c.failed = append(c.trials, len(trials)), append(c.failed, failed)
	}
	return c
}

// search carries out a search on the simulated model.
func (m memory) search(t testing.TB, cfg Config) (Answer, []Trial) {
	t.Helper()
	var trials []Trial
	for {
		s, err := Next(cfg, trials)
		if err != nil {
			t.Fatal(err)
		}
		if s.Answer != nil {
			return *s.Answer, trials
		}
		trials = append(trials, m.try(s))
	}
}

// hints are the hints of the benchmark: what a search is told when its answer is n.
var hints = []struct {
	name string
	of   func(n int64) int64
}{
	{"none", nil},
	{"right", func(n int64) int64 { return n }},
	{"10%-low", func(n int64) int64 { return n * 10 / 11 }},
	{"10%-high", func(n int64) int64 { return n * 11 / 10 }},
	{"2x-low", func(n int64) int64 { return n / 2 }},
	{"2x-high", func(n int64) int64 { return 2 * n }},
	{"above-to", func(int64) int64 { return 1 << 40 }},
	{"below-from", func(int64) int64 { return 1 }},
}

// BenchmarkHint counts the trials of simulated searches with a hint, before confirmation and verification, as
// BenchmarkSearch does.
func BenchmarkHint(b *testing.B) {
	const searches = 2000
	for _, sigma := range []float64{0, 0.005} {
		for _, h := range hints {
			b.Run(fmt.Sprintf("sigma=%g%%/hint=%s", sigma*100, h.name), func(b *testing.B) {
				cfg := Config{From: 512, To: 65536, Step: 64, Tolerance: 0.01}
				var c cost
				for b.Loop() {
					c = simulate(b, cfg, sigma, searches, true, h.of)
				}
				b.ReportMetric(mean(c.trials), "trials/search")
				b.ReportMetric(p95(c.trials), "p95-trials")
				b.ReportMetric(float64(slices.Max(c.trials)), "max-trials")
				b.ReportMetric(mean(c.failed), "failed/search")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// BenchmarkSearch counts the trials of simulated searches before confirmation: models of 80 GiB whose answers are
// spread evenly over 512 to 32,768, with a disturbance of the peak for each cell of 256 tokens.
func BenchmarkSearch(b *testing.B) {
	const searches = 2000
	kinds := []struct {
		name      string
		peaks     bool
		tolerance float64
	}{
		{"ramp-exact", false, 0}, {"guided-exact", true, 0}, {"guided-1%", true, 0.01}, {"guided-2%", true, 0.02},
	}
	for _, sigma := range []float64{0, 0.005, 0.01} {
		for _, k := range kinds {
			b.Run(fmt.Sprintf("sigma=%g%%/search=%s", sigma*100, k.name), func(b *testing.B) {
				cfg := Config{From: 512, To: 65536, Step: 64, Tolerance: k.tolerance}
				var c cost
				for b.Loop() {
					c = simulate(b, cfg, sigma, searches, k.peaks, nil)
				}
				b.ReportMetric(mean(c.trials), "trials/search")
				b.ReportMetric(p95(c.trials), "p95-trials")
				b.ReportMetric(mean(c.failed), "failed/search")
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/searches, "ns/search")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
