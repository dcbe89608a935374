package compare

import (
	"fmt"
	"slices"

	"cpbench/collect/compare/guard"
)

// Refusal is a set of rows that were refused for the same differences.
type Refusal struct {
	Rows   []string
	Differ []guard.Difference
}

// Refusals gathers the rows that were refused, by what differs. Every row has prompts of its own, so those that differ in
// them stand together, with the hashes of all.
func (r *Report) Refusals() []Refusal {
	at := map[string]int{}
	var list []Refusal
	for i := range r.Rows {
		row := &r.Rows[i]
		if len(row.Refused) == 0 {
			continue
		}
		key := ""
		for _, d := range row.Refused {
			if key += "\x00" + d.Key; d.Key != guard.Prompts {
				key += fmt.Sprint(d.A, d.B)
			}
		}
		j, ok := at[key]
		if !ok {
			j = len(list)
			at[key] = j
			list = append(list, Refusal{})
		}
		list[j].Rows = append(list[j].Rows, r.Name(row.Values))
		list[j].Differ = merged(list[j].Differ, row.Refused)
	}
	return list
}

// merged adds differences to those in the same keys; the first ones may be none.
func merged(all, more []guard.Difference) []guard.Difference {
	if all == nil {
		return slices.Clone(more)
	}
	for i, d := range more {
		all[i] = all[i].With(d)
	}
	return all
}

// Apart says in which axes no value of one side is one of the other, where no row has both: each is what is under test,
// or keeps the rows apart.
func (r *Report) Apart() []string {
	var list []string
	for at, name := range r.Axes {
		var v [2][]string
		for _, s := range r.Single {
			side := 0
			if s.Side == r.B.Name {
				side = 1
			}
			if !slices.Contains(v[side], s.Values[at]) {
				v[side] = append(v[side], s.Values[at])
			}
		}
		switch {
		case name == cacheLabel, slices.ContainsFunc(v[0], func(x string) bool { return slices.Contains(v[1], x) }):
		case name == "cache":
			list = append(list, "cold and warm runs are no variants: those of one variant make a report with --a COLD --a WARM")
		default:
			list = append(list, fmt.Sprintf("%s is %s on one side and %s on the other: --key %s if that is under test", name, guard.Short(v[0]), guard.Short(v[1]), name))
		}
	}
	return list
}
