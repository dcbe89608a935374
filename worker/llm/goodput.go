package llm

import (
	"fmt"

	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/worker/llm/account"
	"cpbench/worker/llm/group"
	"cpbench/worker/result"
)

// goodput judges the requests of a group by the limits of the spec; nil without limits or without requests.
func goodput(w plan.Workload, rep *group.Report) *account.Goodput {
	var limits account.Limits
	if limits.TTFT, limits.TPOT = w.Goodput.Limits(); limits == (account.Limits{}) || len(rep.Lines) == 0 {
		return nil
	}
	records := make([]account.Record, len(rep.Lines))
	for i, line := range rep.Lines {
		records[i] = line.Record
	}
	good := limits.Judge(rep.Group, records)
	return &good
}

// setGoodput writes the metrics of the goodput, or why there are none.
func setGoodput(r *result.Result, w plan.Workload, rep *group.Report) {
	good := goodput(w, rep)
	if good == nil {
		return
	}
	set(r, catalogue.GoodFraction, good.Fraction)
	set(r, catalogue.GoodRequestsPerSecond, good.PerSecond)
	if good.Met != nil {
		r.Set(catalogue.LimitsMet, map[bool]float64{true: 1}[*good.Met])
	}
	if good.Blind > 0 {
		r.Warn(catalogue.GoodputUnknown, fmt.Sprintf("the tokens of %d of %d answers are not counted, so that their TPOT is not known", good.Blind, len(rep.Lines)),
			"the server has to support stream_options.include_usage")
	}
}
