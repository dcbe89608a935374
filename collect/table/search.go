package table

import (
	"fmt"
	"strings"

	"cpbench/collect/page"
	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/worker/result"
)

// The words with which a search says how it ended (worker/search).
const (
	endedClosed      = "closed"
	endedCeiling     = "ceiling"
	endedFloor       = "floor"
	endedTime        = "time_limit"
	endedLimitOther  = "limit_other"
	endedUnstable    = "unstable"
	endedAborted     = "aborted"
	endedNonMonotone = "non_monotone"
)

// searchText says how large the largest size that fits is, by how the search ended: a bound is never printed as the
// answer. size turns a value of the searched axis into tokens.
func searchText(m *result.MaxFit, size func(int64) int64) string {
	if m == nil {
		return plan.CaseMaxFit
	}
	if m.Fits == nil {
		switch {
		case m.Limit != nil && m.Ended == endedLimitOther:
			return fmt.Sprintf("%s <%d by kernel limit", plan.CaseMaxFit, size(*m.Limit))
		case m.OOM != nil:
			return fmt.Sprintf("%s <%d", plan.CaseMaxFit, size(*m.OOM))
		}
		return plan.CaseMaxFit + " none (" + strings.ReplaceAll(m.Ended, "_", " ") + ")"
	}
	n := size(*m.Fits)
	switch m.Ended {
	case endedClosed:
		return fmt.Sprintf("%s %d", plan.CaseMaxFit, n)
	case endedCeiling:
		return fmt.Sprintf("%s >=%d (ceiling)", plan.CaseMaxFit, n)
	case endedTime:
		return fmt.Sprintf("%s >=%d (time limit)", plan.CaseMaxFit, n)
	case endedLimitOther:
		return fmt.Sprintf("%s <=%d by kernel limit", plan.CaseMaxFit, n)
	case endedUnstable:
		return fmt.Sprintf("%s %d unstable %d/%d", plan.CaseMaxFit, n, m.Confirmed, m.Confirms)
	case endedNonMonotone:
		if m.Above != nil {
			return fmt.Sprintf("%s %d non-monotone (%d fits too)", plan.CaseMaxFit, n, size(*m.Above))
		}
		return fmt.Sprintf("%s %d non-monotone", plan.CaseMaxFit, n)
	}
	// aborted, and words of a later version
	return fmt.Sprintf("%s >=%d (%s)", plan.CaseMaxFit, n, m.Ended)
}

// searchMemory is the peak at the largest size that fits, with the distance to the smallest that does not.
func searchMemory(m *result.MaxFit, size func(int64) int64) string {
	if m == nil || m.Fits == nil {
		return none
	}
	text := none
	if m.PeakBytes != nil {
		text = page.Scaled(catalogue.PeakAllocatedBytes, *m.PeakBytes)
	}
	// A kernel limit is no matter of memory, and below the answer there is no distance.
	if m.OOM != nil && m.Ended != endedLimitOther && *m.OOM > *m.Fits {
		text += fmt.Sprintf(" (OOM@N+%d)", size(*m.OOM)-size(*m.Fits))
	}
	return text
}

// fullness says how full the memory of a rank was at the largest size that fits, and which smaller one leaves a reserve,
// if that does not: one that only just fits may fail in a longer run. Empty where peak or capacity is not known.
func fullness(m *result.MaxFit, size func(int64) int64) string {
	if m == nil || m.Fits == nil || m.PeakBytes == nil || m.Capacity == nil || *m.Capacity <= 0 {
		return ""
	}
	text := page.Significant(100**m.PeakBytes / *m.Capacity, 3) + " %"
	if m.Reserve != nil && *m.Reserve < *m.Fits {
		text += fmt.Sprintf(" (by the fit %d leaves 5 %% free)", size(*m.Reserve))
	}
	return text
}

// bound reports whether the search ended with a bound, for a reason that no cell tells.
func bound(m *result.MaxFit) bool {
	return m.Ended == endedTime || m.Ended == endedLimitOther || m.Ended == endedAborted
}

// exact reports whether the search found a largest size, not only a bound.
func exact(m *result.MaxFit) bool {
	return m != nil && m.Fits != nil && (m.Ended == endedClosed || m.Ended == endedUnstable)
}
