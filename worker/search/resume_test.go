package search

import (
	"slices"
	"testing"

	"cpbench/plan/catalogue"
	"cpbench/worker/result"
)

func TestKnown(t *testing.T) {
	t.Parallel()
	attempt := func(o catalogue.Outcome, gpu string) *result.Result {
		return &result.Result{Outcome: o, Attempt: 2, Evidence: "CUDA out of memory", Provenance: map[string]string{"gpu": gpu}, MaxFit: &result.MaxFit{
			Capacity: new(80e9), Trials: []result.Trial{
				{N: 512, Outcome: ok, Peak: new(1e9), Seconds: 3, Fresh: true},
				{N: 640, Outcome: catalogue.Hang},
				{N: 1024, Outcome: oom},
				{N: 768, Outcome: catalogue.TooBig},
				{N: 896, Outcome: catalogue.Cancelled},
			},
		}}
	}
	without := attempt(catalogue.Cancelled, "")
	without.MaxFit = nil
	for _, tt := range []struct {
		name string
		last *result.Result
		gpu  string
		want []int64 // negative: did not fit
	}{
		{"no attempt", nil, "A", nil},
		{"an attempt that never searched", without, "A", nil},
		{"interrupted", attempt(catalogue.Cancelled, "A"), "A", []int64{512, -1024, -768}},
		{"its time ran out", attempt(catalogue.Timeout, "A"), "A", []int64{512, -1024, -768}},
		{"it has an answer", attempt(catalogue.OK, "A"), "A", nil},
		{"on another GPU", attempt(catalogue.Cancelled, "A"), "B", nil},
		{"on a GPU that is not known", attempt(catalogue.Cancelled, ""), "B", []int64{512, -1024, -768}},
		{"this GPU is not known", attempt(catalogue.Cancelled, "A"), "", []int64{512, -1024, -768}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var rep Report
			known := rep.Known(tt.last, tt.gpu, func(n int64) result.Sizes { return result.Sizes{Tokens: &n} })
			if got := sizes(known); !slices.Equal(got, tt.want) || len(rep.Trials) != len(known) {
				t.Fatalf("known %v, noted %d; want %v", got, len(rep.Trials), tt.want)
			}
			if len(known) == 0 {
				return
			}
			if first := known[0]; *first.PeakBytes != 1e9 || *first.CapacityBytes != 80e9 || first.Seconds != 3 || !first.Fresh || *rep.Sizes[512].Tokens != 512 {
				t.Errorf("first %+v, sizes %+v", first, rep.Sizes)
			}
			if rep.OOM.Outcome != oom || rep.OOM.Reason != "in attempt 2" || rep.OOM.Evidence == "" {
				t.Errorf("out-of-memory %+v", rep.OOM)
			}
		})
	}
}
