package table

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"cpbench/collect/page"
	"cpbench/plan"
	"cpbench/plan/catalogue"
)

// servingColumns lists the columns of a table of `kind: llm`.
func (t *Table) servingColumns() []column {
	value := func(metric string) func(*Row) string { return func(r *Row) string { return r.mean(metric) } }
	list := t.who()
	list = append(list,
		column{title: "prompt (tok)", right: true, cell: (*Row).prompt},
		column{title: "TTFT (ms)", right: true, cell: (*Row).ttft},
	)
	if t.hides() {
		list = append(list, column{title: "first visible (ms)", right: true, optional: true, cell: (*Row).visible})
	}
	list = append(list,
		column{title: "decode (tok/s)", right: true, cell: value(catalogue.DecodeTokensPerSecond)},
		column{title: "aggregate (tok/s)", right: true, cell: value(catalogue.AggregateTokensPerSecond)},
		column{title: "cached (%)", right: true, optional: true, cell: (*Row).cached},
		column{title: "accepted / round", right: true, optional: true, cell: value(catalogue.AcceptedPerRound)},
	)
	if t.Plan.Spec.Workload.Goodput != (plan.Goodput{}) {
		list = append(list,
			column{title: "goodput (%)", right: true, cell: value(catalogue.GoodFraction)},
			column{title: "goodput (req/s)", right: true, cell: value(catalogue.GoodRequestsPerSecond)},
		)
	}
	if slices.ContainsFunc(t.Rows, func(r Row) bool { _, ok := r.Metrics[catalogue.EnergyPerOutputToken]; return ok }) {
		list = append(list, column{title: "energy / token (J)", right: true, cell: value(catalogue.EnergyPerOutputToken)})
	}
	if slices.ContainsFunc(t.Rows, func(r Row) bool { return r.Case == plan.CaseMixed }) {
		list = append(list,
			column{title: "gap before (ms)", right: true, optional: true, cell: value(catalogue.ShortGapBeforeP50Seconds)},
			column{title: "gap during (ms)", right: true, optional: true, cell: value(catalogue.ShortGapDuringP50Seconds)},
			column{title: "gap after (ms)", right: true, optional: true, cell: value(catalogue.ShortGapAfterP50Seconds)},
		)
	}
	for i, title := range t.Columns {
		list = append(list, column{title: title, cell: func(r *Row) string { return user(r.User[i]) }})
	}
	return append(list,
		column{title: "success", right: true, cell: (*Row).success},
		column{title: "length", right: true, cell: (*Row).length},
		column{title: "outcome", cell: func(r *Row) string { return r.Outcome }},
		column{title: "n", right: true, cell: t.behind},
		column{title: "notes", cell: (*Row).footnotes},
	)
}

// fills is what stands for the label of the cache in a row of repeats that fill it.
const fills = "cold (fills)"

// cache tells the first repeats of warm points, which fill the cache, apart from those of cold points.
func (t *Table) cache(r *Row) string {
	if r.Serving.Cache == cold && t.axis(r, "cache") == "warm" {
		return fills
	}
	return r.Serving.Cache
}

// mean is the cell of a metric: the mean and the standard deviation behind it, or that there is a single value, and how
// many values lack.
func (r *Row) mean(metric string) string {
	v, ok := r.Metrics[metric]
	if !ok {
		return none
	}
	text := page.Scaled(metric, v) + " (n=1)"
	if sd, ok := r.Serving.SD[metric]; ok {
		m, _ := catalogue.MetricByName(metric)
		text = page.PlusMinus(v/m.Scale, sd/m.Scale)
	}
	if have := r.Serving.Count[metric]; have > 1 && have < r.Serving.Units {
		text += fmt.Sprintf(" (%d of %d)", have, r.Serving.Units)
	}
	return text
}

// ttft of the mixed case is that of its long request: a mean over requests of two sizes would be that of none.
func (r *Row) ttft() string {
	if r.Case != plan.CaseMixed {
		return r.mean(catalogue.TTFTSeconds)
	}
	if text := r.mean(catalogue.LongTTFTSeconds); text != none {
		return "long " + text
	}
	return none
}

func (r *Row) visible() string {
	if r.Case == plan.CaseMixed {
		return none
	}
	return r.mean(catalogue.FirstVisibleSeconds)
}

// cached is the share of the prompts that came from the cache, by the answers or else by the server's counters.
func (r *Row) cached() string {
	if text := r.mean(catalogue.CachedFraction); text != none {
		return text
	}
	return r.mean(catalogue.CacheHitFraction)
}

// prompt is the size of the prompts, template included, by the answers or else by the server's own count beforehand. In
// the mixed case there are two sizes.
func (r *Row) prompt() string {
	for _, metric := range []string{catalogue.PromptUsedTokens, catalogue.PromptMeasuredTokens} {
		if v, ok := r.Metrics[metric]; ok && r.Case != plan.CaseMixed {
			return fmt.Sprintf("%.0f", v)
		}
	}
	return none
}

// length counts the successes whose budget of tokens ran out.
func (r *Row) length() string {
	if r.Serving.Succeeded == 0 {
		return none
	}
	return fmt.Sprint(r.Serving.Length)
}

func (r *Row) success() string {
	if r.Serving.Streams == 0 {
		return none
	}
	return fmt.Sprintf("%d/%d", r.Serving.Succeeded, r.Serving.Streams)
}

// behind is the cell of n: the values behind the means.
func (t *Table) behind(r *Row) string {
	if t.byStart() {
		return fmt.Sprintf("%d starts, %s repeats", r.Serving.Units, r.repeats())
	}
	return r.repeats()
}

// servingMeta lists the conditions of a table of `kind: llm`.
func (t *Table) servingMeta() []Field {
	w := &t.Plan.Spec.Workload
	address := w.Server.URL
	if len(w.Server.Command) > 0 {
		address = fmt.Sprintf("%s, started %s", strings.Join(w.Server.Command, " "), times(w.Starts))
	}
	list := []Field{
		{"Date", t.dates()},
		{"Server", strings.TrimSpace(t.fact("server", unknown) + " " + t.fact("server_version", ""))},
		{"Address", address},
		{"Model", t.fact("served_model", cmpOr(w.Model, unknown))},
		{"Model root", t.fact("served_root", unknown)},
		{"Prompts", t.fact("prompts", unknown)},
		{"Output", fmt.Sprintf("at most %d tokens", w.MaxTokens)},
		{"Sampling", arguments(w.Sampling, "the server's defaults")},
		{"Thinking", thinking(w)},
		{"Repeats", fmt.Sprintf("%s, order %s, seed %d", repeats(t.Plan.Spec.Repeats), t.Plan.Spec.Order, t.Plan.Spec.Seed)},
		{"Client", t.fact("host", unknown)},
	}
	if text := t.uniquePrompts(); text != "" {
		list = append(list, Field{"Unique prompts", text})
	}
	if w.Priority != nil {
		list = append(list, Field{"Priority", fmt.Sprint(*w.Priority)})
	}
	if w.Goodput != (plan.Goodput{}) {
		list = append(list, Field{"Goodput", w.Goodput.String()})
	}
	list = append(list, t.known([]Field{
		{"Context limit (tok)", "served_limit_tokens"},
		{"GPU model", "gpu"},
		{"Driver", "driver"},
	})...)
	list = append(list, t.machine()...)
	return append(list, t.origin()...)
}

// uniquePrompts tells how many of the prompts that were sent were different from the others of their group; empty if a
// group does not tell.
func (t *Table) uniquePrompts() string {
	unique, streams := 0, 0
	for i := range t.Rows {
		for _, p := range t.Rows[i].pairs {
			if p.Result == nil || p.Result.Group == nil {
				continue
			}
			g := p.Result.Group
			if g.Unique == 0 {
				return ""
			}
			unique, streams = unique+g.Unique, streams+g.Streams
		}
	}
	if streams == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d within their groups", unique, streams)
}

func thinking(w *plan.Workload) string {
	text := "as the chat template has it"
	if w.Thinking != nil {
		text = fmt.Sprint(*w.Thinking)
	}
	if w.ReasoningEffort != "" {
		text += ", effort " + w.ReasoningEffort
	}
	if len(w.TemplateKwargs) > 0 {
		text += ", template arguments " + arguments(w.TemplateKwargs, "")
	}
	return text
}

func arguments(a plan.Arguments, absent string) string {
	if len(a) == 0 {
		return absent
	}
	text, err := json.Marshal(a)
	if err != nil {
		return absent
	}
	return string(text)
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
