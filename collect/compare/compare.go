// Package compare sets two variants side by side: every row of a sweep on both sides, the ratio of B to A with its 95 %
// interval and a verdict, and what could have been seen at all. It refuses rows that differ in anything but what is
// under test, and names it. Use New for a Report, which is JSON, and Report.WriteMarkdown for people.
//
// The unit of a claim is the start of a server where the runs start it, else the repeat. Streams of a group and
// iterations within a process only give the value of one unit.
package compare

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"cpbench/collect"
	"cpbench/collect/compare/cell"
	"cpbench/collect/compare/guard"
	"cpbench/collect/compare/turns"
	"cpbench/collect/contrast"
	"cpbench/plan/catalogue"
	"cpbench/plan/folder"
)

// Schema is the version of the JSON form of a Report.
const Schema = 1

// Options say what is compared, and how. The zero value compares the runs of side A with those of side B, with nothing
// but the label under test.
type Options struct {
	// By names an axis whose values are the sides; empty: the runs are. Base and Other are its values; if both are empty
	// they are the two that the runs have, in the order of the axis.
	By, Base, Other string
	// Keys are under test, besides the label: axes, parts of the spec such as `workload.env`, and facts of the provenance.
	// Rows may differ in them.
	Keys []string
	// Accept are keys in which rows may differ although they are not under test. The report says so.
	Accept []string
	// Metrics to compare; empty: the main ones of the workload.
	Metrics []string
	// Threshold is the smallest change that matters, such as 0.01.
	Threshold float64
	// States adds what the scheduler has told of tasks, as collect.Set.Judge has it; nil: the files alone decide.
	States func(run *folder.Run, array, task int, files collect.State) collect.State
}

// Report is a comparison, or what is known of one variant.
type Report struct {
	Schema int    `json:"schema"`
	Kind   string `json:"kind"` // of the workload
	// Axes name the values of the rows, in the plan's order, the label of the cache last if there is one.
	Axes []string `json:"axes"`
	A    *Side    `json:"a"` // the base
	B    *Side    `json:"b"` // null: there is one variant only, and nothing to compare
	// Under lists what is under test; Differs how the sides differ in that, Accepted in what was accepted, and Beside in
	// conditions that do not make rows unlike.
	Under    []string           `json:"under_test"`
	Differs  []guard.Difference `json:"differs"`
	Accepted []guard.Difference `json:"accepted"`
	Beside   []guard.Difference `json:"beside"`
	// Threshold is the smallest change that matters.
	Threshold float64      `json:"threshold"`
	Order     *turns.Order `json:"order"` // null: there is one variant only
	Metrics   []Sum        `json:"metrics"`
	Rows      []Row        `json:"rows"`
	// Single are rows that only one side has.
	Single []Single `json:"single"`
	// Tested is the number of differences that were tested; about ByChance of them would be called different if there were
	// none. Claimed are called different, and Survive of them stay below 0.05 after Holm's correction.
	Tested   int     `json:"tested"`
	ByChance float64 `json:"expected_by_chance"`
	Claimed  int     `json:"claimed"`
	Survive  int     `json:"survive_holm"`
	Notes    []Note  `json:"notes"`
	Problems int     `json:"files_not_used"`
}

// Sum is a metric over all rows.
type Sum struct {
	Metric string `json:"metric"`
	Title  string `json:"title"`
	Unit   string `json:"unit"`
	Better string `json:"better"` // lower, higher or empty
	// GeometricMean of the ratios of the Of rows that could be assessed; null: none could.
	GeometricMean *float64             `json:"geometric_mean_ratio"`
	Of            int                  `json:"rows_in_mean"`
	Verdicts      map[cell.Verdict]int `json:"verdicts"`
}

// Single is a row that one side lacks.
type Single struct {
	Side   string   `json:"side"`
	Values []string `json:"values"`
}

// Note is a doubt, with the code of the catalogue if it has one.
type Note struct {
	Code catalogue.Code `json:"code,omitempty"`
	Text string         `json:"text"`
}

// Mistake is an error in what was asked for, with the way to mend it.
type Mistake struct{ Text, Hint string }

// Error is the text of the mistake.
func (m *Mistake) Error() string { return m.Text }

func mistake(hint, format string, args ...any) error {
	return &Mistake{fmt.Sprintf(format, args...), hint}
}

// New compares the runs of side b with those of side a, or, with Options.By, two values of an axis within all of them.
// Without a side b, and without an axis, it is a report of one variant. An error that is a Mistake is one of the
// caller's: sides that cannot be told, or the same execution twice.
func New(a, b []*folder.Run, o Options) (*Report, error) {
	c, err := gather(a, b, o)
	if err != nil {
		return nil, err
	}
	r := &Report{
		Schema: Schema, Kind: c.kind, A: c.sides[0], B: c.sides[1], Threshold: o.Threshold, Axes: append([]string{}, c.axes...),
		Under: append([]string{}, c.under()...), Rows: []Row{}, Single: []Single{}, Notes: []Note{},
	}
	rows := c.rows()
	metrics, err := c.metrics(rows)
	if err != nil {
		return nil, err
	}
	c.report = r
	if slices.ContainsFunc(metrics, func(m cell.Metric) bool { return slices.Contains(ofGoodput, m.Name) }) {
		c.guard.HoldGoodput()
	}
	for _, g := range rows {
		if c.sides[1] != nil && (len(g.entries[0]) == 0 || len(g.entries[1]) == 0) {
			side := c.sides[0]
			if len(g.entries[0]) == 0 {
				side = c.sides[1]
			}
			r.Single = append(r.Single, Single{side.Name, g.values})
			continue
		}
		r.Rows = append(r.Rows, c.row(g, metrics))
	}
	r.Differs, r.Accepted, r.Beside = c.guard.Told()
	for _, text := range c.guard.Doubts() {
		r.Notes = append(r.Notes, Note{Text: text})
	}
	r.adjust()
	r.summarize(metrics)
	if r.B != nil {
		r.Order = c.order(rows)
		if r.Order.Doubtful() {
			r.Notes = append(r.Notes, Note{catalogue.NotInterleaved, r.Order.Text})
		}
	}
	for _, run := range c.runs {
		r.Problems += len(run.set.Problems)
	}
	return r, nil
}

// Comparable reports whether at least one row has a good execution on both sides, and none was refused. A report of one
// variant is.
func (r *Report) Comparable() bool {
	if r.B == nil {
		return true
	}
	return slices.ContainsFunc(r.Rows, func(row Row) bool { return row.A.Good > 0 && row.B.Good > 0 }) &&
		!slices.ContainsFunc(r.Rows, func(row Row) bool { return len(row.Refused) > 0 })
}

// adjust corrects the p-values for their number.
func (r *Report) adjust() {
	var p []float64
	var cells []*cell.Cell
	for i := range r.Rows {
		for j := range r.Rows[i].Cells {
			if x := &r.Rows[i].Cells[j]; x.P != nil && x.Verdict.Assessed() {
				p, cells = append(p, *x.P), append(cells, x)
				if x.Verdict.Differs() {
					r.Claimed++
				}
			}
		}
	}
	for i, adjusted := range contrast.Holm(p) {
		cells[i].Holm = &adjusted
		if adjusted < 1-contrast.Level && cells[i].Verdict.Differs() {
			r.Survive++
		}
	}
	r.Tested, r.ByChance = len(p), (1-contrast.Level)*float64(len(p))
}

// Name writes the values of a row.
func (r *Report) Name(values []string) string {
	var parts []string
	for i, v := range values {
		if v != "" {
			parts = append(parts, r.Axes[i]+"="+v)
		}
	}
	return cmp.Or(strings.Join(parts, " "), "the only row")
}

// summarize sums every metric up over the rows.
func (r *Report) summarize(metrics []cell.Metric) {
	r.Metrics = []Sum{}
	for _, m := range metrics {
		sum := Sum{Metric: m.Name, Title: m.Title, Unit: m.Unit, Better: string(m.Better), Verdicts: map[cell.Verdict]int{}}
		var ratios []float64
		found := false
		for i := range r.Rows {
			at := slices.IndexFunc(r.Rows[i].Cells, func(c cell.Cell) bool { return c.Metric == m.Name })
			if at < 0 {
				continue
			}
			found = true
			x := &r.Rows[i].Cells[at]
			if r.B == nil {
				continue
			}
			sum.Verdicts[x.Verdict]++
			if x.Ratio && x.Estimate != nil && x.Verdict.Assessed() && *x.Estimate > 0 {
				ratios = append(ratios, *x.Estimate)
			}
		}
		if n := len(ratios); n > 0 {
			mean := contrast.GeometricMean(ratios)
			sum.GeometricMean, sum.Of = &mean, n
		}
		if found {
			r.Metrics = append(r.Metrics, sum)
		}
	}
}
