package cell

import (
	"strings"

	"cpbench/collect/contrast"
	"cpbench/plan/catalogue"
)

// Verdict is what is concluded of one metric of one row.
type Verdict string

// The verdicts. All others but the first seven claim nothing of B.
const (
	Faster      Verdict = "faster" // of times and rates
	Slower      Verdict = "slower"
	Better      Verdict = "better" // of anything else with a direction
	Worse       Verdict = "worse"
	Higher      Verdict = "higher" // of what has no direction
	Lower       Verdict = "lower"
	Small       Verdict = "small"        // different, by less than what matters
	Equivalent  Verdict = "equivalent"   // the whole interval is within what matters
	Unclear     Verdict = "~"            // no difference was shown, nor that there is none
	TooFew      Verdict = "n too small"  // a side has fewer than two units
	NotAssessed Verdict = "not assessed" // a doubt about one side only: the sides had different conditions
	Refused     Verdict = "refused"      // the rows are unlike
	NoResult    Verdict = "no result"    // a side has no good one
)

// Verdicts lists the verdicts in the order in which they are counted for people.
func Verdicts() []Verdict {
	return []Verdict{Faster, Better, Higher, Slower, Worse, Lower, Small, Equivalent, Unclear, TooFew, NotAssessed, Refused, NoResult}
}

// Differs reports whether a difference is claimed.
func (v Verdict) Differs() bool {
	switch v {
	case Faster, Slower, Better, Worse, Higher, Lower, Small:
		return true
	case Equivalent, Unclear, TooFew, NotAssessed, Refused, NoResult:
	}
	return false
}

// Assessed reports whether the numbers were judged, so that their p-value, if there is one, counts among all.
func (v Verdict) Assessed() bool { return v.Differs() || v == Equivalent || v == Unclear }

// Judge gives a cell its verdict; the first that fits. refused says that the row is unlike, and flags are doubts about one
// side alone. threshold is the smallest change that matters, such as 0.01.
func (cell *Cell) Judge(m Metric, threshold float64, refused bool, flags []string) {
	switch {
	case refused:
		cell.Verdict = Refused
		cell.Estimate, cell.Lo, cell.Hi, cell.P, cell.Rank, cell.Visible, cell.More = nil, nil, nil, nil, nil, nil, nil
		return
	case cell.A == nil || cell.B == nil:
		cell.Verdict = NoResult
		return
	case len(flags) > 0:
		cell.Verdict, cell.Why = NotAssessed, flags[0]
		return
	}
	if m.Kind == Largest && (cell.A.N < 2 || cell.B.N < 2) {
		cell.Verdict = TooFew
		return
	}
	if m.Kind == Sampled {
		cell.judgeSample(m, threshold)
	} else {
		cell.judgeBounds(m, threshold)
	}
	if cell.Verdict.Differs() && cell.Ratio && *cell.Estimate > 1-threshold && *cell.Estimate < 1+threshold {
		cell.Verdict = Small
	}
}

// judgeBounds judges ranges and brackets: what overlaps is no claim.
func (cell *Cell) judgeBounds(m Metric, threshold float64) {
	apart := func(lo *float64, above bool) bool {
		return lo != nil && (above && *lo > 1 || !above && *lo < 1 || *lo == 1 && m.Kind == Bracket)
	}
	switch {
	case apart(cell.Lo, true):
		cell.Verdict = m.word(true)
	case apart(cell.Hi, false):
		cell.Verdict = m.word(false)
	case cell.within(threshold):
		cell.Verdict = Equivalent
	default:
		cell.Verdict = Unclear
	}
}

// within reports whether the whole interval is within what matters. Of differences, which have no threshold, only none
// at all is.
func (cell *Cell) within(threshold float64) bool {
	switch {
	case cell.Lo == nil || cell.Hi == nil:
		return false
	case cell.Ratio:
		return *cell.Lo >= 1-threshold && *cell.Hi <= 1+threshold
	}
	return *cell.Lo == 0 && *cell.Hi == 0
}

// judgeSample judges a sample by its interval. A rank test that disagrees makes a difference unclear.
func (cell *Cell) judgeSample(m Metric, threshold float64) {
	none := 0.0
	if cell.Ratio {
		none = 1
	}
	switch {
	case cell.Lo == nil:
		cell.Verdict = TooFew
	case *cell.Lo <= none && none <= *cell.Hi:
		cell.Verdict = Unclear
		if cell.within(threshold) {
			cell.Verdict = Equivalent
		}
	case cell.Rank != nil && *cell.Rank > 1-contrast.Level:
		cell.Verdict, cell.Why = Unclear, "the interval excludes no difference, but the Mann-Whitney test does not"
	default:
		cell.Verdict = m.word(*cell.Estimate > none)
		if cell.P == nil {
			cell.Why = "the units do not spread at all, so no test says what chance does"
		}
	}
}

// word is the verdict on a B that is higher, or lower.
func (m Metric) word(higher bool) Verdict {
	good := higher == (m.Better == catalogue.Higher)
	switch paced := m.Unit == "seconds" || strings.HasSuffix(m.Unit, " per second"); {
	case m.Better == catalogue.Either && higher:
		return Higher
	case m.Better == catalogue.Either:
		return Lower
	case paced && good:
		return Faster
	case paced:
		return Slower
	case good:
		return Better
	}
	return Worse
}
