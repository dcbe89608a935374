package table

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cpbench/collect/contrast"
	"cpbench/collect/page"
	"cpbench/plan"
	"cpbench/plan/catalogue"

	"golang.org/x/perf/benchmath"
)

// This file is the statistics of a table of `kind: llm`: the intervals of the means, and what is said of a warm cache.

// bounds is the 95 % interval of the mean of a metric, by Student's t over independent values; false with fewer than two.
// No metric of a server is below 0, and no share above 1, and so no bound is.
func (r *Row) bounds(metric string) (lo, hi float64, ok bool) {
	if lo, hi, ok = meanBounds(r.Serving.values[metric]); strings.HasSuffix(metric, "_fraction") {
		hi = min(hi, 1)
	}
	return max(lo, 0), hi, ok
}

// meanBounds is the 95 % interval of a mean, by Student's t over independent values; false with fewer than two.
func meanBounds(values []float64) (lo, hi float64, ok bool) {
	if len(values) < 2 {
		return 0, 0, false
	}
	sum := benchmath.AssumeNormal.Summary(benchmath.NewSample(slices.Clone(values), &benchmath.DefaultThresholds), contrast.Level)
	return sum.Lo, sum.Hi, true
}

// ends are the bounds as fields of a file, empty where there are none.
func (r *Row) ends(metric string) []string {
	lo, hi, ok := r.bounds(metric)
	if !ok {
		return []string{"", ""}
	}
	return []string{strconv.FormatFloat(lo, 'g', -1, 64), strconv.FormatFloat(hi, 'g', -1, 64)}
}

// between is the cell of the bounds of a metric.
func (r *Row) between(metric string) string {
	lo, hi, ok := r.bounds(metric)
	if !ok {
		return none
	}
	m, _ := catalogue.MetricByName(metric)
	return page.Significant(lo/m.Scale, 3) + "–" + page.Significant(hi/m.Scale, 3)
}

// writeIntervals writes the intervals of the means that a claim would rest on, in a table of their own: beside the means
// they would make a table that no page holds.
func (t *Table) writeIntervals(b *bytes.Buffer) {
	if !t.serves() {
		return
	}
	rows := slices.DeleteFunc(slices.Clone(t.Rows), func(r Row) bool { return r.Serving.Units < 2 })
	if len(rows) == 0 {
		return
	}
	list := t.who()
	list = append(list, column{title: "TTFT (ms)", right: true, cell: func(r *Row) string {
		if r.Case == plan.CaseMixed {
			return r.between(catalogue.LongTTFTSeconds)
		}
		return r.between(catalogue.TTFTSeconds)
	}})
	if t.hides() {
		list = append(list, column{title: "first visible (ms)", right: true, cell: func(r *Row) string {
			if r.Case == plan.CaseMixed {
				return none
			}
			return r.between(catalogue.FirstVisibleSeconds)
		}})
	}
	list = append(list,
		column{title: "decode (tok/s)", right: true, cell: func(r *Row) string { return r.between(catalogue.DecodeTokensPerSecond) }},
		column{title: "aggregate (tok/s)", right: true, cell: func(r *Row) string { return r.between(catalogue.AggregateTokensPerSecond) }},
		column{title: "n", right: true, cell: t.behind},
	)
	fmt.Fprintf(b, "\n## 95 %% intervals\n\nOf the means above, by Student's t over the %s. They say how well this mean is known, and not "+
		"whether two rows differ.\n\n", t.unit())
	writeTable(b, list, rows)
}

// unit names what the values behind a mean are.
func (t *Table) unit() string {
	if t.byStart() {
		return "starts"
	}
	return "repeats"
}

// hides reports whether text came that is no answer: only then does the first visible text differ from the first.
func (t *Table) hides() bool {
	return slices.ContainsFunc(t.Rows, func(r Row) bool {
		visible, ok := r.Metrics[catalogue.FirstVisibleSeconds]
		return ok && visible != r.Metrics[catalogue.TTFTSeconds]
	})
}

// servingStatistic names how the numbers of `kind: llm` were made.
func (t *Table) servingStatistic() string {
	unit := "repeats"
	if t.byStart() {
		unit = "starts of the server, each of which is the mean over its repeats"
	}
	text := "Every value is the mean over " + unit + ", ± the sample standard deviation between them; a repeat is itself the mean over its streams, which are no repeats. " +
		"A single value (`n=1`) is no evidence of repeatability. *prompt* is the whole of it, template included, by the server's count. *TTFT* ends at the first text of any kind"
	if t.hides() {
		text += ", *first visible* at the first text of the answer"
	}
	text += ". *decode* goes from the first to the last text of a stream and *aggregate* over the whole group, prefill included: they measure different intervals. " +
		"*cached* is the share of the prompt that came from the prefix cache, and *accepted / round* counts drafts without the bonus token. " +
		"*success* counts the streams of all repeats, and *length* those of them whose budget of tokens ran out; a repeat with a stream that was no success is in no mean."
	if slices.ContainsFunc(t.Rows, func(r Row) bool { return t.cache(&r) == fills }) {
		text += " *" + fills + "* is the first repeat of a warm group, which fills its cache."
	}
	if slices.ContainsFunc(t.Rows, func(r Row) bool { return r.Case == plan.CaseMixed }) {
		text += " *mixed*: two short requests and a long one that comes to them; TTFT is that of the long one, and the gaps are those of the short ones before, during and after its prefill."
	}
	return text
}

// servingReadout says in words how the groups ended, and what the cache brings.
func (t *Table) servingReadout() string {
	asked, good, streams, succeeded := 0, 0, 0, 0
	for i := range t.Rows {
		r := &t.Rows[i]
		asked, good = asked+r.Asked, good+r.Good
		streams, succeeded = streams+r.Serving.Streams, succeeded+r.Serving.Succeeded
	}
	if good == 0 {
		return "Nothing in this table was measured yet."
	}
	text := fmt.Sprintf("%d of %d groups are good, with %d of %d streams.", good, asked, succeeded, streams)
	if said := t.warmth(); said != "" {
		text += " " + said
	}
	return text
}

// warmth says what the cache does to TTFT, where the repeats can tell; empty without a warm row to compare.
func (t *Table) warmth() string {
	var shown []string
	unclear := 0
	for i := range t.Rows {
		w := &t.Rows[i]
		base := t.coldOf(w)
		if base == nil {
			continue
		}
		from, to := base.Serving.values[catalogue.TTFTSeconds], w.Serving.values[catalogue.TTFTSeconds]
		c := contrast.Unpaired(from, to)
		if c.Lo == nil || *c.Lo <= c.None() && c.None() <= *c.Hi {
			unclear++
			continue
		}
		a, b := page.Scaled(catalogue.TTFTSeconds, base.Metrics[catalogue.TTFTSeconds]), page.Scaled(catalogue.TTFTSeconds, w.Metrics[catalogue.TTFTSeconds])
		said := fmt.Sprintf("%s to %s ms (%s, %s, ctx %s, streams %s", a, b, t.axis(w, "label"), t.axis(w, "data"), t.axis(w, "ctx"), t.axis(w, "concurrency"))
		if c.Ratio {
			said += fmt.Sprintf("; %sx, 95 %% interval %s–%s", page.Significant(c.Estimate, 3), page.Significant(*c.Lo, 3), page.Significant(*c.Hi, 3))
		}
		shown = append(shown, said+")")
	}
	const most = 4
	var said []string
	if n := len(shown); n > 0 {
		said = append(said, "A warm cache takes TTFT from "+strings.Join(shown[max(n-most, 0):], ", from ")+".") // the largest sizes stand last
	}
	if unclear > 0 {
		said = append(said, fmt.Sprintf("Cold and warm are no further apart than the repeats at %d of %d points, or have too few of them.", unclear, unclear+len(shown)))
	}
	return strings.Join(said, " ")
}

// coldOf is the row with which a warm one compares: that of the cold point with the same other values, or else that of
// the repeats that fill its own cache. Nil where a side has no TTFT.
func (t *Table) coldOf(w *Row) *Row {
	if w.Serving.Cache != warmRepeat || w.Case != "" || w.Serving.Count[catalogue.TTFTSeconds] == 0 {
		return nil
	}
	var best *Row
	for i := range t.Rows {
		c := &t.Rows[i]
		if c.Serving.Cache != cold || c.Case != "" || c.Serving.Count[catalogue.TTFTSeconds] == 0 || !t.sameButCache(c, w) {
			continue
		}
		if best == nil || t.axis(c, "cache") == cold {
			best = c
		}
	}
	return best
}

// sameButCache reports whether two rows have the same values on every axis but that of the cache.
func (t *Table) sameButCache(a, b *Row) bool {
	for i, axis := range t.Plan.Axes {
		if axis.Name != "cache" && a.Values[i] != b.Values[i] {
			return false
		}
	}
	return true
}
