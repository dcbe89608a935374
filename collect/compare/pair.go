package compare

import (
	"fmt"

	"cpbench/collect/compare/cell"
	"cpbench/collect/compare/guard"
)

// pairing finds what the units of two sides share, unit by unit: a task, in which both ran in one allocation; a turn of
// servers that are there, which the plan has put side by side; or prompts that no other unit of its side had. What is
// the same for all units, such as prompts that never change, pairs nothing, and neither does an allocation that one of
// the two ran in again later. Pairs that share nothing would cost degrees of freedom and gain nothing, and a few pairs
// would leave most of the units out: then the samples are two of their own.
func pairing(a, b []unit) cell.Pairs {
	for _, way := range []struct {
		name string
		key  func(*unit) string
	}{
		{"in one task", allocation},
		{"of one turn", turn},
		{"with the same prompts", prompts},
	} {
		p := match(a, b, way.key)
		if n := len(p.Of); n >= cell.MinPairs && 2*n > max(len(a), len(b)) {
			p.Name = fmt.Sprintf("paired by %s %s", guard.UnitOf(a[0].entries[0].Result), way.name)
			return p
		}
	}
	return cell.Pairs{}
}

// allocation is the attempt at a task that held all of a unit; empty if it took several.
func allocation(u *unit) string {
	if u.attempt == "" {
		return ""
	}
	return fmt.Sprintf("%p %v %s %d", u.run, u.task, u.attempt, u.number)
}

// turn is the repeat of a run whose servers are taken in turns, in one attempt; empty of any other.
func turn(u *unit) string {
	spec := u.run.Plan.Spec
	warm := u.entries[0].CacheLabel() == "warm_repeat" // those stand in a row, and in no turn
	if spec.Workload.Kind != "llm" || spec.Workload.Server.URL == "" || spec.Order != "blocks" || warm || u.attempt == "" {
		return ""
	}
	return fmt.Sprintf("%p %s %d", u.run, u.attempt, u.number)
}

// prompts is the hash of what a unit of one group has sent; empty of any other unit.
func prompts(u *unit) string {
	if len(u.entries) != 1 || u.entries[0].Result.Group == nil {
		return ""
	}
	return u.entries[0].Result.Group.Prompts
}

// match puts units with the same key together. A key that a side has twice, and an empty one, pairs nothing.
func match(a, b []unit, key func(*unit) string) cell.Pairs {
	in := func(list []unit) map[string]int {
		at := map[string]int{}
		for i := range list {
			k := key(&list[i])
			if _, twice := at[k]; twice {
				at[k] = -1
				continue
			}
			at[k] = i
		}
		delete(at, "")
		return at
	}
	x, y := in(a), in(b)
	var p cell.Pairs
	for i := range a {
		k := key(&a[i])
		if j, ok := y[k]; ok && k != "" && j >= 0 && x[k] >= 0 {
			p.Of = append(p.Of, [2]int{i, j})
		}
	}
	return p
}
