package llm

import (
	"testing"

	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/worker/llm/account"
	"cpbench/worker/llm/group"
	"cpbench/worker/result"
)

// The metrics of the goodput are there with limits alone, and not where nobody has counted the tokens.
func TestGoodput(t *testing.T) {
	t.Parallel()
	seconds := func(v float64) *float64 { return &v }
	line := func(n account.Numbers) group.Line {
		n.Outcome = account.Success
		return group.Line{Record: account.Record{Numbers: n}}
	}
	good := line(account.Numbers{TTFT: seconds(.1), TPOT: seconds(.01)})
	slow := line(account.Numbers{TTFT: seconds(.1), TPOT: seconds(.5)})
	blind := line(account.Numbers{TTFT: seconds(.1), Nulls: map[string]account.Null{"tpot_s": account.NoUsage}})
	limits := plan.Goodput{TTFTMS: 450, TPOTMS: 40}
	for name, c := range map[string]struct {
		limits              plan.Goodput
		lines               []group.Line
		fraction, rate, met *float64
		warns               int
	}{
		"no limits":        {plan.Goodput{}, []group.Line{good, blind}, nil, nil, nil, 0},
		"nothing was sent": {limits, nil, nil, nil, nil, 0},
		"all good":         {limits, []group.Line{good, good}, seconds(1), seconds(.5), seconds(1), 0},
		"one is slow":      {limits, []group.Line{good, slow}, seconds(.5), seconds(.25), seconds(0), 0},
		"not counted":      {limits, []group.Line{good, blind}, nil, nil, nil, 1},
		"no limit on TPOT": {plan.Goodput{TTFTMS: 450}, []group.Line{good, blind}, seconds(1), seconds(.5), seconds(1), 0},
	} {
		var r result.Result
		var w plan.Workload
		w.Goodput = c.limits
		rep := &group.Report{Lines: c.lines, Group: account.Group{Wall: 4}}
		setGoodput(&r, w, rep)
		for metric, want := range map[string]*float64{catalogue.GoodFraction: c.fraction, catalogue.GoodRequestsPerSecond: c.rate, catalogue.LimitsMet: c.met} {
			got := r.Metrics[metric]
			if (got == nil) != (want == nil) || got != nil && *got != *want {
				t.Errorf("%s: %s is %v", name, metric, got)
			}
		}
		if len(r.Warnings) != c.warns || c.warns > 0 && r.Warnings[0].Code != catalogue.GoodputUnknown {
			t.Errorf("%s: %v", name, r.Warnings)
		}
	}
}
