package table

import (
	"fmt"
	"strings"
	"testing"

	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/plan/folder"
	"cpbench/worker/result"

	"github.com/google/go-cmp/cmp"
)

const small = `version: 1
name: t
matrix: {cp: [1], tokens: [64]}
repeats: %d
workload:
  kind: model
  mode: inference
  command: ["true"]
  ranks: cp
  point: {tokens: tokens}
`

func TestRepeats(t *testing.T) {
	t.Parallel()
	const ok, oom, infra = catalogue.OK, catalogue.OOMDevice, catalogue.Infra
	tests := []struct {
		name                          string
		outcomes                      []catalogue.Outcome // "" leaves none
		iterations                    int
		walltime, interval, spread, n string
		outcome                       string
	}{
		{"one, ten iterations", []catalogue.Outcome{ok}, 10, "1012", "1010–1014 within", "n/a (n=1)", "1", "ok"},
		{"one, six iterations", []catalogue.Outcome{ok}, 6, "1012", "1010–1014 within", "n/a (n=1)", "1", "ok"},
		{"one, five iterations", []catalogue.Outcome{ok}, 5, "1012", "need >= 6 samples", "n/a (n=1)", "1", "ok"},
		{"five, five iterations", []catalogue.Outcome{ok, ok, ok, ok, ok}, 5, "1032", "need >= 6 samples", "1.5 %", "5", "ok"},
		{"five, ten iterations", []catalogue.Outcome{ok, ok, ok, ok, ok}, 10, "1032", "1030–1034 within r3", "1.5 %", "5", "ok"},
		{"six", []catalogue.Outcome{ok, ok, ok, ok, ok, ok}, 5, "1037", "1012–1062", "1.8 %", "6", "ok"},
		{"differ", []catalogue.Outcome{ok, oom, ok}, 5, "1022 (fits 2/3)", "need >= 6 samples", "1.4 %", "2 of 3", "fits 2/3"},
		{"one to come", []catalogue.Outcome{ok, "", ok}, 5, "1022", "need >= 6 samples", "1.4 %", "2 of 3", "ok"},
		{"none fits", []catalogue.Outcome{oom, oom}, 5, "oom_device", "—", "—", "0 of 2", "oom_device"},
		{"none fits, differ", []catalogue.Outcome{oom, infra, oom}, 5, "oom_device, infra", "—", "—", "0 of 3", "oom_device, infra"},
		{"nothing", []catalogue.Outcome{""}, 5, "missing", "—", "—", "0 of 1", "missing"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			run := newRun(t, fmt.Sprintf(small, len(tt.outcomes)))
			measure(t, run, func(pair plan.Pair, _ plan.Setting, r *result.Result) bool {
				r.Outcome = tt.outcomes[pair.Repeat-1]
				if r.Outcome == ok {
					timed(r, 1+0.01*float64(pair.Repeat), tt.iterations, 1<<20)
				} else {
					r.Reason = "says the worker"
				}
				return r.Outcome != ""
			})
			r := build(t, run).Rows[0]
			got := []string{r.walltime(), r.interval(), r.spread(), r.repeats(), r.Outcome}
			if diff := cmp.Diff([]string{tt.walltime, tt.interval, tt.spread, tt.n, tt.outcome}, got); diff != "" {
				t.Errorf("walltime, interval, spread, n, outcome (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnknownOutcome(t *testing.T) {
	t.Parallel()
	p := fold(nil, 0, 0)
	if p != "" {
		t.Errorf("nothing folds to %q", p)
	}
}

func TestSearchCells(t *testing.T) {
	t.Parallel()
	fits, oom, peak := ptr[int64](352), ptr[int64](368), ptr(7.6*(1<<20))
	tests := []struct {
		name           string
		m              *result.MaxFit
		tokens, memory string
	}{
		{"no search", nil, "max-fit", "—"},
		{"closed", &result.MaxFit{Fits: fits, OOM: oom, Ended: "closed", PeakBytes: peak}, "max-fit 352", "0.00742 (OOM@N+16)"},
		{"closed, peak unknown", &result.MaxFit{Fits: fits, OOM: oom, Ended: "closed"}, "max-fit 352", "— (OOM@N+16)"},
		{"ceiling", &result.MaxFit{Fits: ptr[int64](32768), Ended: "ceiling", PeakBytes: peak}, "max-fit >=32768 (ceiling)", "0.00742"},
		{"floor", &result.MaxFit{OOM: ptr[int64](512), Ended: "floor"}, "max-fit <512", "—"},
		{"time limit", &result.MaxFit{Fits: ptr[int64](16384), Ended: "time_limit", PeakBytes: peak}, "max-fit >=16384 (time limit)", "0.00742"},
		{"kernel limit", &result.MaxFit{Fits: fits, Limit: oom, OOM: oom, Ended: "limit_other", PeakBytes: peak}, "max-fit <=352 by kernel limit", "0.00742"},
		{"kernel limit at once", &result.MaxFit{Limit: ptr[int64](512), Ended: "limit_other"}, "max-fit <512 by kernel limit", "—"},
		{"unstable", &result.MaxFit{Fits: fits, OOM: oom, Ended: "unstable", Confirmed: 1, Confirms: 3, PeakBytes: peak}, "max-fit 352 unstable 1/3", "0.00742 (OOM@N+16)"},
		{"not monotone", &result.MaxFit{Fits: fits, OOM: oom, Above: ptr[int64](400), Ended: "non_monotone", PeakBytes: peak}, "max-fit 352 non-monotone (400 fits too)", "0.00742 (OOM@N+16)"},
		{"aborted", &result.MaxFit{Fits: fits, Ended: "aborted"}, "max-fit >=352 (aborted)", "—"},
		{"aborted at once", &result.MaxFit{Ended: "aborted"}, "max-fit none (aborted)", "—"},
		{"word of a later version", &result.MaxFit{Fits: fits, OOM: oom, Ended: "bored"}, "max-fit >=352 (bored)", "— (OOM@N+16)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			same := func(n int64) int64 { return n }
			if got := searchText(tt.m, same); got != tt.tokens {
				t.Errorf("N_tokens = %q, want %q", got, tt.tokens)
			}
			if got := searchMemory(tt.m, same); got != tt.memory {
				t.Errorf("peak_mem = %q, want %q", got, tt.memory)
			}
		})
	}
}

func TestSearchInTokens(t *testing.T) {
	t.Parallel()
	yaml := strings.NewReplacer("tokens: [64]", "n: [4, 8]", "tokens: tokens", "tokens: n * 16", "command:", "max_fit: {axis: n, from: 1, to: 64, step: 1}\n  command:").Replace(fmt.Sprintf(small, 1))
	run := newRun(t, yaml)
	measure(t, run, func(pair plan.Pair, _ plan.Setting, r *result.Result) bool {
		r.MaxFit = &result.MaxFit{Axis: "n", Fits: ptr[int64](22), OOM: ptr[int64](23), Ended: "closed", PeakBytes: ptr(2.5 * (1 << 30))}
		return pair.Case != ""
	})
	table := build(t, run)
	last := table.Rows[len(table.Rows)-1]
	if last.tokens() != "max-fit 352" || last.memory() != "2.50 (OOM@N+16)" || last.walltime() != none {
		t.Errorf("cells %q, %q, %q", last.tokens(), last.memory(), last.walltime())
	}
	if diff := cmp.Diff([]int{1}, table.Axes); diff != "" {
		t.Errorf("axis n is computed with, so it has a column of its own:\n%s", diff)
	}
}

func TestOrder(t *testing.T) {
	t.Parallel()
	const yaml = `version: 1
name: t
matrix: {tokens: [512, 64, 128], data: [z, a], cp: [16, 4, 1]}
order: blocks
workload:
  kind: model
  mode: inference
  command: ["true"]
  ranks: g
  point: {tokens: tokens}
  max_fit: {axis: tokens}
derive: {g: cp}
`
	table := build(t, newRun(t, yaml))
	var got []string
	for _, r := range table.Rows {
		got = append(got, fmt.Sprintf("%d %s %s", r.Ranks, r.Values[1], r.Values[0]))
	}
	var want []string
	for _, cp := range []int{1, 4, 16} {
		for _, data := range []string{"z", "a"} { // the order of the spec
			for _, n := range []string{"64", "128", "512", plan.CaseMaxFit} {
				want = append(want, fmt.Sprintf("%d %s %s", cp, data, n))
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]int{1}, table.Axes); diff != "" {
		t.Errorf("axes with a column of their own (-want +got):\n%s", diff)
	}
}

func TestMergedTable(t *testing.T) {
	t.Parallel()
	yaml := fmt.Sprintf(small, 1)
	a, b := newRun(t, yaml), newRun(t, strings.Replace(yaml, "[64]", "[32, 128]", 1))
	for _, run := range []*folder.Run{a, b} {
		measure(t, run, func(_ plan.Pair, _ plan.Setting, r *result.Result) bool {
			timed(r, 1, 6, 1<<30)
			return true
		})
	}
	var got []string
	table := build(t, a, b)
	for _, r := range table.Rows {
		got = append(got, r.tokens()+" "+r.memory()+" "+r.Outcome)
	}
	if diff := cmp.Diff([]string{"32 1.00 ok", "64 1.00 ok", "128 1.00 ok"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestReadout(t *testing.T) {
	t.Parallel()
	got := fillFull(t).Readout()
	for _, want := range []string{
		"The largest N with data=a|b is 352 at 2d cp=1, 688 at 2d cp=4 (1.95x of the cp=1 baseline, 97.7 % of the ideal sqrt(4) = 2.00).",
		"data=*plain* is >=688 (ceiling) at 2d cp=4; no cp=1 baseline was measured.",
		"is not known",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("readout lacks %q:\n%s", want, got)
		}
	}
}

// A program that is not asked for a number of tokens is measured all the same.
func TestReadoutWithoutTokens(t *testing.T) {
	t.Parallel()
	tab := fillFull(t)
	for i := range tab.Rows {
		tab.Rows[i].Tokens, tab.Rows[i].Search = nil, nil
	}
	if got := tab.Readout(); !strings.Contains(got, "has a number of tokens") || strings.Contains(got, "measured yet") {
		t.Errorf("readout: %s", got)
	}
}
