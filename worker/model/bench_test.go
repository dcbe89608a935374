package model

import (
	"fmt"
	"strings"
	"testing"

	"cpbench/worker/model/ranks"
	"cpbench/worker/result"
)

// BenchmarkHarness is one step of ranks that compute nothing: what remains is the conversation. T10 of the method
// allows 5 % of a step of 10 ms, which is 500 µs.
func BenchmarkHarness(b *testing.B) {
	for _, world := range []int{1, 4} {
		b.Run(fmt.Sprintf("ranks=%d", world), func(b *testing.B) {
			steps(b, play(world, "honest", "0"), 1)
		})
	}
}

// BenchmarkHarnessOfPairformer is a step of the example model, as a real one. overhead-% is what passes outside of the
// timed steps, as a share of them: the input is built, the ranks meet, the output is checked, and, once for each request,
// the conversation.
func BenchmarkHarnessOfPairformer(b *testing.B) {
	python := pythons(b)[0]
	for _, tt := range []struct{ world, tokens, batch int }{{1, 32, 1}, {1, 32, 50}, {1, 192, 1}, {2, 192, 1}} {
		b.Run(fmt.Sprintf("ranks=%d/tokens=%d/batch=%d", tt.world, tt.tokens, tt.batch), func(b *testing.B) {
			command := torchCommand(python, "pairformer_hooks", "device=cpu", "channels=16")
			text := torchSpec(b, abs(b, "configs/pairformer"), tt.world, command, "dtype: fp32")
			seconds := steps(b, strings.Replace(text, "tokens: [16]", fmt.Sprintf("tokens: [%d]", tt.tokens), 1), tt.batch)
			n := float64(b.N * tt.batch)
			b.ReportMetric(seconds/n*1e3, "step-ms")
			b.ReportMetric((b.Elapsed().Seconds()-seconds)/n*1e3, "overhead-ms")
			b.ReportMetric((b.Elapsed().Seconds()/seconds-1)*100, "overhead-%")
		})
	}
}

// steps asks the ranks of a spec for so many steps at once, over and over, and returns the sum of their times.
func steps(b *testing.B, text string, batch int) (seconds float64) {
	b.Helper()
	st := newStage(b, text)
	open, err := Open(b.Context(), st.job)
	if err != nil {
		b.Fatal(err)
	}
	s := open.(*session)
	setting, err := st.run.Plan.At(st.task.Pairs[0].Point, 0)
	if err != nil {
		b.Fatal(err)
	}
	r := &result.Result{Metrics: map[string]*float64{}, Provenance: map[string]string{}}
	set := ranks.Launch(b.Context(), st.job, s.nodes, setting, "benchmark")
	end := s.prepare(b.Context(), set, r)
	if end.OK() {
		end = point(b.Context(), set, setting.Point, r)
	}
	if end.OK() {
		_, end = step(b.Context(), set, "warmup", 3, ranks.Patience{})
	}
	for b.Loop() {
		if end.OK() {
			var t times
			t, end = step(b.Context(), set, "timed", batch, ranks.Patience{})
			for _, v := range t.slowest() {
				seconds += v
			}
		}
	}
	set.Close(b.Context(), end, r)
	if !end.OK() {
		b.Fatalf("%+v", end)
	}
	return seconds
}
