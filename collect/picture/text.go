package picture

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

// Scope says which executions Write names; it counts all of them.
type Scope int

// The scopes.
const (
	Usual  Scope = iota // all but what is measured, and but what a stated reason has left out
	Failed              // what has failed, is lost or will not start
	All                 // every one, and none folded away
)

func (s Scope) shows(g *group) bool {
	switch s {
	case All:
		return true
	case Failed:
		return g.outcome.Failed() || g.outcome == catalogue.Lost || g.wontStart
	case Usual:
	}
	return g.outcome != catalogue.OK && g.outcome != catalogue.Skipped
}

// group is the executions of one verdict and, but for numbers and places, one reason.
type group struct {
	outcome   catalogue.Outcome
	wontStart bool
	reason    string // of the first one
	differ    bool   // other ones have other numbers in it
	advice    string
	pairs     []*collect.Pair
}

// fold is how many executions of a group are named where there are more.
const fold = 4

// figures are what differs between two tellings of the same reason.
var figures = regexp.MustCompile(`[0-9]+([.,][0-9]+)*`)

// Write prints the counts and then the executions by verdict.
func (p *Picture) Write(w io.Writer, scope Scope) error {
	var text strings.Builder
	word := "executions"
	if len(p.Set.Pairs) == 1 {
		word = "execution"
	}
	fmt.Fprintf(&text, "%d %s: %s\n", len(p.Set.Pairs), word, p.counts())
	lost := false
	for _, g := range p.groups() {
		lost = lost || g.outcome == catalogue.Lost
		if !scope.shows(g) {
			continue
		}
		text.WriteString("\n" + g.head() + "\n")
		if g.advice != "" {
			text.WriteString("  to do: " + g.advice + "\n")
		}
		p.members(&text, g, scope)
	}
	if lost && p.Lost != "" {
		text.WriteString("\n" + p.Lost + "\n")
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// counts names the verdicts, what is good first.
func (p *Picture) counts() string {
	counts := p.Set.Counts()
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
func (p *Picture) groups() []*group {
	type key struct {
		outcome catalogue.Outcome
		reason  string
	}
	known := map[key]*group{}
	var groups []*group
	for i := range p.Set.Pairs {
		pair := &p.Set.Pairs[i]
		reason := reasonOf(pair)
		k := key{pair.Outcome, figures.ReplaceAllString(reason, "0")}
		g := known[k]
		if g == nil {
			g = &group{outcome: pair.Outcome, wontStart: wontStart(pair), reason: reason, advice: advice(pair)}
			known[k] = g
			groups = append(groups, g)
		}
		g.differ = g.differ || reason != g.reason
		g.pairs = append(g.pairs, pair)
	}
	for _, g := range groups {
		p.sort(g.pairs)
		g.reason = reasonOf(g.pairs[0])
	}
	order := verdicts(p.Set.Counts())
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

// sort puts executions into the order of the axes; the plan's may be a random one.
func (p *Picture) sort(pairs []*collect.Pair) {
	place := make([]map[string]int, len(p.Run.Plan.Axes))
	for i, axis := range p.Run.Plan.Axes {
		place[i] = map[string]int{plan.CaseMaxFit: len(axis.Values), plan.CaseMixed: len(axis.Values)}
		for j, v := range axis.Values {
			place[i][v] = j
		}
	}
	slices.SortStableFunc(pairs, func(a, b *collect.Pair) int {
		for i := range place {
			if c := cmp.Compare(place[i][a.Point.Values[i]], place[i][b.Point.Values[i]]); c != 0 {
				return c
			}
		}
		return cmp.Compare(a.Repeat, b.Repeat)
	})
}

// head is a group's first line.
func (g *group) head() string {
	text := fmt.Sprintf("%s (%d)", g.outcome, len(g.pairs))
	if g.differ {
		text += ", numbers differ"
	}
	if g.reason != "" {
		text += ": " + g.reason
	}
	return text
}

// members names the executions of a group: all of them, or the first ones.
func (p *Picture) members(text *strings.Builder, g *group, scope Scope) {
	shown := g.pairs
	if scope != All && len(shown) > fold+1 {
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
func (p *Picture) name(pair *collect.Pair) string {
	name := p.Run.Plan.PointName(pair.Point)
	if p.Run.Plan.Spec.Repeats > 1 {
		name += fmt.Sprintf("  repeat %d", pair.Repeat)
	}
	return name
}

// reasonOf is the reason of an execution without its place.
func reasonOf(pair *collect.Pair) string {
	return strings.TrimSpace(strings.Replace(" "+pair.Reason, place(pair), "", 1))
}

// place is the node and the time of the task as they stand in the reason, behind a blank; empty if they do not.
func place(pair *collect.Pair) string {
	if pair.State == nil {
		return ""
	}
	where := pair.State.Where()
	if !strings.Contains(" "+pair.Reason, where) {
		return ""
	}
	return where
}

// whereabouts is the node and the time of an execution: of its task's start, or of its result.
func whereabouts(pair *collect.Pair) string {
	if place(pair) != "" {
		s := pair.State
		var words []string
		if s.Node != "" {
			words = append(words, "on "+s.Node)
		}
		switch at := s.Since.UTC().Format(time.RFC3339); {
		case s.Since.IsZero():
		case pair.Outcome == catalogue.Running:
			words = append(words, "since "+at)
		default:
			words = append(words, "started "+at)
		}
		return strings.Join(words, " ")
	}
	waits := pair.Outcome == catalogue.Pending || pair.Outcome == catalogue.Running // for another attempt than that of its result
	if pair.Result != nil && pair.Result.Host != "" && !waits {
		return "on " + pair.Result.Host + " ended " + pair.Result.Ended.UTC().Format(time.RFC3339)
	}
	return ""
}
