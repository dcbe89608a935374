package table

import (
	"fmt"
	"strconv"
	"strings"

	"cpbench/collect/page"
	"cpbench/plan"
	"cpbench/plan/catalogue"
)

// none stands in a cell without a value.
const none = page.None

// measured prints a metric of a row, or none.
func (r *Row) measured(metric string) string {
	if v, ok := r.Metrics[metric]; ok {
		return page.Scaled(metric, v)
	}
	return none
}

func size(n *int64) string {
	if n == nil {
		return none
	}
	return strconv.FormatInt(*n, 10)
}

// config is the cell of the contract's column `CP config`.
func (r *Row) config() string {
	switch {
	case r.Ranks == 0:
		return none
	case r.Topology == "":
		return fmt.Sprintf("cp=%d", r.Ranks)
	}
	return fmt.Sprintf("%s cp=%d", r.Topology, r.Ranks)
}

// tokens is the cell of the contract's column `N_tokens`.
func (r *Row) tokens() string {
	if r.Case == plan.CaseMaxFit {
		return searchText(r.Search, r.size)
	}
	return size(r.Tokens)
}

// memory is the cell of the contract's column `peak_mem`.
func (r *Row) memory() string {
	if r.Case == plan.CaseMaxFit {
		return searchMemory(r.Search, r.size)
	}
	return r.measured(catalogue.PeakAllocatedBytes)
}

// walltime is the cell of the contract's column `walltime`: the time, the outcome where there is none, and both
// where the repeats differ.
func (r *Row) walltime() string {
	ok := r.Outcome == string(catalogue.OK)
	switch {
	case r.Case != "" && ok:
		return none
	case r.Case != "" || r.Good == 0:
		return r.Outcome
	case !ok:
		return r.measured(catalogue.StepSeconds) + " (" + r.Outcome + ")"
	}
	return r.measured(catalogue.StepSeconds)
}

// interval is the cell of the interval in the unit of the walltime.
func (r *Row) interval() string {
	if r.Case != "" || r.Good == 0 {
		return none
	}
	iv := r.Interval
	text := fmt.Sprintf("%s–%s", page.Scaled(catalogue.StepSeconds, iv.Lo), page.Scaled(catalogue.StepSeconds, iv.Hi))
	switch {
	case iv.Kind == "":
		return needSamples
	case iv.Kind == KindWithin && r.Asked > 1:
		return fmt.Sprintf("%s %s r%d", text, KindWithin, iv.Repeat)
	case iv.Kind == KindWithin:
		return text + " " + KindWithin
	}
	return text
}

// spread is the cell of the spread over repeats.
func (r *Row) spread() string {
	switch {
	case r.Case != "" || r.Good == 0:
		return none
	case r.Good == 1:
		return "n/a (n=1)"
	case r.Spread == nil:
		return none
	}
	return page.Significant(100**r.Spread, 2) + " %"
}

// repeats is the cell of n: the good repeats, of those asked for if some are not.
func (r *Row) repeats() string {
	if r.Good == r.Asked {
		return strconv.Itoa(r.Good)
	}
	return fmt.Sprintf("%d of %d", r.Good, r.Asked)
}

// user prints a cell of the user's columns.
func user(v any) string {
	switch v := v.(type) {
	case nil:
		return none
	case float64:
		return page.Significant(v, 4)
	}
	return strings.TrimSpace(fmt.Sprint(v))
}
