// Package cell is one metric of one row on two sides: the numbers of each, the difference with its interval, and the
// verdict. Use Metric.Compare for a Cell, and Cell.Judge for its verdict; Metric.Alone is a cell of one side.
package cell

import (
	"slices"

	"cpbench/collect"
	"cpbench/collect/contrast"
	"cpbench/plan"
	"cpbench/plan/catalogue"
)

// MaxFit is the name under which the answer of a search for the largest size is compared.
const MaxFit = "max_fit"

// Cell is a metric of a row.
type Cell struct {
	Metric string `json:"metric"`
	A      *Stat  `json:"a"` // null: not measured
	B      *Stat  `json:"b"`
	// Method says how the difference was made: Welch, `paired by start in one task`, range or bracket.
	Method string `json:"method,omitempty"`
	// Ratio says that Estimate, Lo and Hi are B/A, and else B-A in the metric's unit.
	Ratio    bool     `json:"ratio"`
	Estimate *float64 `json:"estimate"`
	Lo       *float64 `json:"lo"` // the 95 % interval of the difference
	Hi       *float64 `json:"hi"`
	P        *float64 `json:"p"`      // of the t-test; null: there are too few units, or they do not spread at all
	Holm     *float64 `json:"p_holm"` // corrected for all tests of the report
	Rank     *float64 `json:"p_rank"` // of the Mann-Whitney test
	Verdict  Verdict  `json:"verdict,omitempty"`
	Why      string   `json:"why,omitempty"` // of a verdict that the numbers alone do not explain
	// Visible is the smallest difference that as many units would show with 80 % probability, on the scale of Estimate;
	// of a ratio as a share such as 0.03. More is how many further units a side would show 2 %.
	Visible *float64 `json:"smallest_visible"`
	More    *int     `json:"more_for_2_percent"`
	// Pairs and Unpaired count the units of a paired method.
	Pairs    int `json:"pairs,omitempty"`
	Unpaired int `json:"unpaired,omitempty"`
}

// Stat is what the units of one side say about a metric.
type Stat struct {
	Mean float64  `json:"mean"`
	SD   *float64 `json:"sd"` // null: a single unit
	Min  float64  `json:"min"`
	Max  *float64 `json:"max"` // of a search the smallest size that did not fit; null: none was seen
	N    int      `json:"n"`
}

// The methods beside those of package contrast.
const (
	ByRange   = "range"   // largest and smallest values of both sides
	ByBracket = "bracket" // ends of the brackets of searches
)

// Metric is one that is compared.
type Metric struct {
	catalogue.Metric
	Kind Kind
}

// Kind says how a metric is compared.
type Kind int

// The kinds.
const (
	Sampled Kind = iota // a sample of means
	Largest             // memory, by its range: what a peak is the largest of has no mean
	Bracket             // the answer of a search
)

// Unit is one independent start or repeat: its good executions.
type Unit []*collect.Execution

// Pairs says how the units of two sides belong together.
type Pairs struct {
	Name string   // such as `paired by start in one task`; empty: they do not, or too few do
	Of   [][2]int // positions of the units that do
}

// MinPairs is the least number of pairs with an interval.
const MinPairs = 2

// apart are metrics that say nothing of the mixed case: a mean over requests of two sizes is that of none.
var apart = []string{catalogue.TTFTSeconds, catalogue.FirstVisibleSeconds}

// Applies reports whether a metric says something of rows of a case.
func (m Metric) Applies(rowCase string) bool {
	switch rowCase {
	case plan.CaseMaxFit:
		return m.Kind == Bracket
	case plan.CaseMixed:
		return !slices.Contains(apart, m.Name)
	}
	return m.Kind != Bracket
}

// of is the value of a metric in a unit: the mean over its executions, and of memory the largest. False: none has it.
func (m Metric) of(u Unit) (float64, bool) {
	sum, most, n := 0.0, 0.0, 0
	for _, x := range u {
		if v, ok := figure(x, m.Name); ok {
			if n++; n == 1 || v > most {
				most = v
			}
			sum += v
		}
	}
	switch {
	case n == 0:
		return 0, false
	case m.Kind == Largest:
		return most, true
	}
	return sum / float64(n), true
}

// figure is a metric of the catalogue, or one of the program's own.
func figure(x *collect.Execution, name string) (float64, bool) {
	if v, ok := x.Metric(name); ok {
		return v, true
	}
	for _, f := range x.Extra {
		if f.Name == name {
			return f.Value, true
		}
	}
	return 0, false
}

// Measured are the units of a side that have a metric, by position, with their values.
func (m Metric) Measured(units []Unit) (at map[int]float64, values []float64) {
	at = map[int]float64{}
	for i := range units {
		if v, ok := m.of(units[i]); ok {
			at[i] = v
			values = append(values, v)
		}
	}
	return at, values
}

// stat sums values up; nil if there are none.
func stat(values []float64) *Stat {
	if len(values) == 0 {
		return nil
	}
	mean, sd := contrast.MeanSD(values)
	most := slices.Max(values)
	s := &Stat{Mean: mean, Min: slices.Min(values), Max: &most, N: len(values)}
	if len(values) > 1 {
		s.SD = &sd
	}
	return s
}

// Alone is the cell of a row that has one side only. False: the metric says nothing of it.
func (m Metric) Alone(rowCase string, units []Unit) (Cell, bool) {
	if !m.Applies(rowCase) {
		return Cell{}, false
	}
	cell := Cell{Metric: m.Name}
	if m.Kind == Bracket {
		if b, ok := bracketOf(units); ok {
			cell.A = b.stat()
		}
	} else {
		_, values := m.Measured(units)
		cell.A = stat(values)
	}
	return cell, cell.A != nil
}

// Compare makes the cell of a row, without its verdict. False: the metric says nothing of this row, or no side has it.
func (m Metric) Compare(rowCase string, own [2][]Unit, how Pairs) (Cell, bool) {
	if !m.Applies(rowCase) {
		return Cell{}, false
	}
	cell := Cell{Metric: m.Name}
	if m.Kind == Bracket {
		return cell, cell.brackets(own)
	}
	atA, a := m.Measured(own[0])
	atB, b := m.Measured(own[1])
	cell.A, cell.B = stat(a), stat(b)
	switch {
	case len(a) == 0 && len(b) == 0:
		return cell, false
	case len(a) == 0 || len(b) == 0:
		return cell, true
	case m.Kind == Largest:
		cell.ranges()
		return cell, true
	}
	var x, y []float64
	for _, pair := range how.Of {
		vx, okX := atA[pair[0]]
		vy, okY := atB[pair[1]]
		if okX && okY {
			x, y = append(x, vx), append(y, vy)
		}
	}
	if len(x) >= MinPairs {
		cell.fill(contrast.Pairs(x, y), how.Name)
		cell.Pairs, cell.Unpaired = len(x), len(a)+len(b)-2*len(x)
	} else {
		cell.fill(contrast.Unpaired(a, b), string(contrast.Welch))
	}
	return cell, true
}

// effect is the change for which More is told.
const effect = 0.02

func (cell *Cell) fill(c contrast.Contrast, method string) {
	cell.Method, cell.Ratio, cell.Estimate = method, c.Ratio, &c.Estimate
	cell.Lo, cell.Hi, cell.P, cell.Rank = c.Lo, c.Hi, c.P, c.Rank
	if v, ok := c.Visible(); ok {
		cell.Visible = &v
	}
	if n, ok := c.More(effect); ok {
		cell.More = &n
	}
}

// ranges compares the largest of both sides; the interval is that of the ratio of any two values.
func (cell *Cell) ranges() {
	cell.Method = ByRange
	if cell.A.Min <= 0 || cell.B.Min <= 0 {
		return
	}
	ratio, lo, hi := *cell.B.Max / *cell.A.Max, cell.B.Min / *cell.A.Max, *cell.B.Max/cell.A.Min
	cell.Ratio, cell.Estimate, cell.Lo, cell.Hi = true, &ratio, &lo, &hi
}
