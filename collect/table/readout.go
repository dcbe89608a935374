package table

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"cpbench/collect/page"
	"cpbench/plan"
	"cpbench/plan/catalogue"
)

// largest is the largest N at one CP size.
type largest struct {
	ranks    int
	topology string
	n        int64
	text     string // how it is to be printed: a bound says that it is one
	searched bool   // by a search, not only the largest size of the sweep
	exact    bool   // the search closed its bracket
	full     string // share of the memory of a rank that was used there; empty: unknown
}

// Readout says in one paragraph what the table shows: the largest N at each CP size against the baseline of one
// rank, and the ideal where there is a law; then which cost dominates, if the program tells.
func (t *Table) Readout() string {
	if t.serves() {
		return t.servingReadout()
	}
	groups := map[string][]largest{}
	var order []string
	for i := range t.Rows {
		l, ok := t.largestOf(&t.Rows[i])
		if !ok {
			continue
		}
		g := t.group(&t.Rows[i])
		list, seen := groups[g]
		if !seen {
			order = append(order, g)
		}
		// Rows of one CP size stand together, the search last: its answer replaces the sizes of the sweep.
		switch n := len(list); {
		case n == 0 || list[n-1].ranks != l.ranks || list[n-1].topology != l.topology:
			groups[g] = append(list, l)
		case l.searched || l.n > list[n-1].n:
			list[n-1] = l
		}
	}
	var parts []string
	for _, g := range order {
		parts = append(parts, sentence(g, groups[g]))
	}
	switch {
	case len(parts) > 0:
	case slices.ContainsFunc(t.Rows, func(r Row) bool { return r.Outcome == string(catalogue.OK) }):
		parts = append(parts, "No row that was measured has a number of tokens (`workload.point.tokens`), so there is no largest one to name.")
	default:
		parts = append(parts, "Nothing in this table fits or was measured yet.")
	}
	for _, key := range []string{"gpu", "device"} {
		if values, _ := t.Set.Facts(key); len(values) > 1 {
			parts = append(parts, "The results come from different devices ("+strings.Join(values, ", ")+"): compare only rows of one device.")
			break
		}
	}
	if cost := t.dominant(); cost != "" {
		parts = append(parts, cost)
	}
	return strings.Join(parts, " ")
}

// largestOf is the largest N that a row shows to fit.
func (t *Table) largestOf(r *Row) (largest, bool) {
	l := largest{ranks: r.Ranks, topology: r.Topology}
	switch {
	case r.Case == plan.CaseMaxFit && r.Search != nil && r.Search.Fits != nil:
		l.n, l.searched, l.exact = r.size(*r.Search.Fits), true, exact(r.Search)
		l.text = strings.TrimPrefix(searchText(r.Search, r.size), plan.CaseMaxFit+" ")
		l.full = fullness(r.Search, r.size)
	case r.Case == "" && r.Outcome == string(catalogue.OK) && r.Tokens != nil:
		l.n, l.text = *r.Tokens, fmt.Sprintf(">=%d (largest measured)", *r.Tokens)
	default:
		return l, false
	}
	return l, true
}

// sentence compares the largest N of the CP sizes of one group with each other.
func sentence(group string, list []largest) string {
	var b strings.Builder
	b.WriteString("The largest N")
	if group != "" {
		b.WriteString(" with " + group)
	}
	b.WriteString(" is")
	var base *largest
	for i := range list {
		if l := &list[i]; l.ranks == 1 && base == nil {
			base = l
		}
	}
	for i, l := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, " %s at %s", l.text, l.config())
		if base == nil || l.ranks == 1 || base.n == 0 || !l.searched && !base.searched {
			continue // the ratio of two sizes that merely stand in the sweep says nothing
		}
		ratio := float64(l.n) / float64(base.n)
		about := ""
		if !l.exact || !base.exact {
			about = "at the sizes seen "
		}
		fmt.Fprintf(&b, " (%s%s of the cp=1 baseline", about, page.Significant(ratio, 3)+"x")
		if l.topology == "2d" {
			// Memory of a pair tensor is N²/P on each rank of a 2-D mesh, so the ideal N grows with sqrt(P).
			ideal := math.Sqrt(float64(l.ranks))
			fmt.Fprintf(&b, ", %s %% of the ideal sqrt(%d) = %s", page.Significant(100*ratio/ideal, 3), l.ranks, page.Significant(ideal, 3))
		}
		b.WriteByte(')')
	}
	if base == nil {
		b.WriteString("; no cp=1 baseline was measured")
	}
	b.WriteByte('.')
	return b.String() + headroom(list)
}

// headroom tells how much of its memory a rank used at the answers of the searches, where that is known.
func headroom(list []largest) string {
	var full []string
	for _, l := range list {
		if l.full != "" {
			full = append(full, l.config()+" "+l.full)
		}
	}
	if len(full) == 0 {
		return ""
	}
	return " Memory of a rank in use at that size: " + strings.Join(full, ", ") + "."
}

func (l *largest) config() string { return (&Row{Ranks: l.ranks, Topology: l.topology}).config() }

// FigureExchange is the figure by which a program tells how long a step waits for communication, in seconds.
const FigureExchange = "exchange_seconds"

// dominant says whether compute or communication takes most of the time, over the results of more than one rank that
// tell it; empty where no such step was measured.
func (t *Table) dominant() string {
	var shares []float64
	timed := false
	for _, p := range t.Set.Pairs {
		if p.Result == nil || !p.Outcome.Fits() || p.Result.Sizes.Ranks < 2 {
			continue
		}
		step, ok := p.Result.Metric(catalogue.StepSeconds)
		timed = timed || ok
		for _, f := range p.Result.Extra {
			if ok && step > 0 && f.Name == FigureExchange {
				// The figure is a mean and the time a median, so for uneven steps the ratio may pass 1.
				shares = append(shares, min(f.Value/step, 1))
			}
		}
	}
	switch {
	case !timed:
		return ""
	case len(shares) == 0:
		return "Whether compute or communication dominates the time is not known: the program does not tell."
	}
	share := median(shares)
	word := "Compute dominates"
	switch {
	case share >= 0.6:
		word = "Communication dominates"
	case share > 0.4:
		word = "Compute and communication take about the same"
	}
	return fmt.Sprintf("%s: communication takes %s %% of a step in the median over the results that tell it.", word, page.Significant(100*share, 2))
}
