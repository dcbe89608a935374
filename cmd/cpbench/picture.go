package main

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"cpbench/collect"
	"cpbench/plan"
	"cpbench/plan/catalogue"
)

// group is the executions of one verdict and, but for numbers and places, one reason.
type group struct {
	outcome   catalogue.Outcome
	wontStart bool
	reason    string // of the first one
	advice    string
	pairs     []*collect.Pair
}

// fold is how many executions of a group are named where there are more.
const fold = 4

// place is the node and the time in a reason; see collect.State.
var place = regexp.MustCompile(`(^| )on (\S+) at (\d{4}-\d\d-\d\dT[0-9:]+Z)`)

// figures are what differs between two tellings of the same reason.
var figures = regexp.MustCompile(`[0-9]+([.,][0-9]+)*`)

// willNotStart is how the reason of a task begins that waits for what does not come; see collect.Verdict.
const willNotStart = "will not start: "

func wontStart(p *collect.Pair) bool {
	return p.Outcome == catalogue.Pending && strings.HasPrefix(p.Reason, willNotStart)
}

// stirs reports whether an execution may still change by itself.
func stirs(p *collect.Pair) bool {
	return p.Outcome == catalogue.Running || p.Outcome == catalogue.Pending && !wontStart(p)
}

// advice is what to do about the reason for which an execution waits.
func (p *picture) advice(pair *collect.Pair) string {
	if pair.Outcome != catalogue.Pending {
		return ""
	}
	return p.asked.advice[strings.TrimPrefix(pair.Reason, willNotStart)]
}

// write prints the counts and then the executions by verdict.
func (p *picture) write(w io.Writer, o *statusOptions) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%s: %s\n", countText(len(p.set.Pairs), "execution"), p.counts())
	groups := p.groups()
	for _, g := range groups {
		if !o.shows(g) {
			continue
		}
		text.WriteString("\n" + g.head() + "\n")
		if g.advice != "" {
			text.WriteString("  to do: " + g.advice + "\n")
		}
		p.members(&text, g, o.all)
	}
	if p.asked.forgets() && slices.ContainsFunc(groups, func(g *group) bool { return g.outcome == catalogue.Lost }) {
		text.WriteString("\n" + noAccounting + "\n")
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// shows reports whether the options ask for a group.
func (o *statusOptions) shows(g *group) bool {
	switch {
	case o.all:
		return true
	case o.failed:
		return g.outcome.Failed() || g.outcome == catalogue.Lost || g.wontStart
	}
	return g.outcome != catalogue.OK && g.outcome != catalogue.Skipped
}

// counts names the verdicts, what is good first.
func (p *picture) counts() string {
	counts := p.set.Counts()
	var words []string
	for _, o := range verdicts(counts) {
		words = append(words, fmt.Sprintf("%d %s", counts[o], o))
	}
	return strings.Join(words, ", ")
}

// verdicts lists those that occur: ok, what is under way, and the rest in the order of the catalogue.
func verdicts(counts map[catalogue.Outcome]int) []catalogue.Outcome {
	order := []catalogue.Outcome{catalogue.OK, catalogue.Running, catalogue.Pending}
	for _, m := range catalogue.Outcomes() {
		if m.Outcome != catalogue.OK {
			order = append(order, m.Outcome)
		}
	}
	order = append(order, catalogue.Lost, catalogue.Missing)
	var others []catalogue.Outcome // words of a later version
	for o := range counts {
		if !slices.Contains(order, o) {
			others = append(others, o)
		}
	}
	slices.Sort(others)
	return slices.DeleteFunc(append(order, others...), func(o catalogue.Outcome) bool { return counts[o] == 0 })
}

// groups gathers the executions: what will not start first, then by verdict, the larger ones first.
func (p *picture) groups() []*group {
	type key struct {
		outcome catalogue.Outcome
		reason  string
	}
	known := map[key]*group{}
	var groups []*group
	for i := range p.set.Pairs {
		pair := &p.set.Pairs[i]
		reason := strings.TrimSpace(place.ReplaceAllString(pair.Reason, ""))
		k := key{pair.Outcome, figures.ReplaceAllString(reason, "0")}
		g := known[k]
		if g == nil {
			g = &group{outcome: pair.Outcome, wontStart: wontStart(pair), reason: reason, advice: p.advice(pair)}
			known[k] = g
			groups = append(groups, g)
		}
		g.pairs = append(g.pairs, pair)
	}
	order := verdicts(p.set.Counts())
	rank := func(g *group) int {
		if g.wontStart {
			return -1
		}
		return slices.Index(order, g.outcome)
	}
	slices.SortStableFunc(groups, func(a, b *group) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(len(b.pairs), len(a.pairs)))
	})
	return groups
}

// head is a group's first line.
func (g *group) head() string {
	text := fmt.Sprintf("%s (%d)", g.outcome, len(g.pairs))
	if g.reason != "" {
		text += ": " + g.reason
	}
	return text
}

// members names the executions of a group: all of them, or the first ones.
func (p *picture) members(text *strings.Builder, g *group, all bool) {
	shown := g.pairs
	if !all && len(shown) > fold+1 {
		shown = shown[:fold]
	}
	w := tabwriter.NewWriter(text, 0, 0, 3, ' ', 0)
	for _, pair := range shown {
		line := "  " + p.name(pair)
		if where := whereabouts(pair); where != "" {
			line += "\t" + where
		}
		fmt.Fprintln(w, line)
	}
	w.Flush()
	if more := len(g.pairs) - len(shown); more > 0 {
		fmt.Fprintf(text, "  and %d more\n", more)
	}
}

// name names an execution as logs takes it.
func (p *picture) name(pair *collect.Pair) string {
	name := pointName(p.run.Plan, pair.Point)
	if p.run.Plan.Spec.Repeats > 1 {
		name += fmt.Sprintf("  repeat %d", pair.Repeat)
	}
	return name
}

// pointName names a point by its axis values.
func pointName(p *plan.Plan, point plan.Point) string {
	parts := make([]string, len(p.Axes))
	for i, axis := range p.Axes {
		parts[i] = axis.Name + "=" + point.Values[i]
	}
	return strings.Join(parts, ",")
}

// whereabouts is the node and the time of an execution: of its task's start, or of its result.
func whereabouts(pair *collect.Pair) string {
	if m := place.FindStringSubmatch(pair.Reason); m != nil {
		return "on " + m[2] + " since " + m[3]
	}
	waits := pair.Outcome == catalogue.Pending || pair.Outcome == catalogue.Running // for another attempt than that of its result
	if pair.Result != nil && pair.Result.Host != "" && !waits {
		return "on " + pair.Result.Host + " at " + pair.Result.Ended.UTC().Format(time.RFC3339)
	}
	return ""
}
