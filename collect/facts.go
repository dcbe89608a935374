package collect

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"cpbench/plan/catalogue"
	"cpbench/worker/result"
)

// Facts lists the distinct values of a fact over the results in use, sorted, the number of results that lack it
// beside.
func (s *Set) Facts(key string) (values []string, lack int) {
	seen := map[string]bool{}
	for _, p := range s.Pairs {
		if p.Result == nil || p.Result.Outcome == catalogue.Skipped {
			continue // nothing ran that could have told
		}
		found := false
		for _, id := range p.Result.facts {
			if f := s.pool.facts[id]; f.key == key {
				found, seen[f.value] = true, true
			}
		}
		if !found {
			lack++
		}
	}
	return slices.Sorted(maps.Keys(seen)), lack
}

// Lack is a fact that is needed to publish a number, and that some results do not have.
type Lack struct {
	Fact   catalogue.Fact
	Reason string // the worker's
	N      int    // results that lack it for this reason
}

// Lacking lists what the results in use lack that claim something: a time, or that a size does not fit. It is in the
// order of the catalogue.
func (s *Set) Lacking() []Lack {
	count := map[fact]int{}
	for _, p := range s.Pairs {
		if x := p.Result; x != nil && (x.Outcome.Fits() || x.Outcome.OutOfMemory()) {
			for _, f := range s.lacks(x) {
				count[f]++
			}
		}
	}
	order := map[string]int{}
	for i, f := range catalogue.Facts() {
		order[f.Name] = i
	}
	var list []Lack
	for f, n := range count {
		entry, ok := catalogue.FactByName(f.key)
		if !ok {
			entry = catalogue.Fact{Name: f.key} // of a newer cpbench
		}
		list = append(list, Lack{entry, f.value, n})
	}
	slices.SortFunc(list, func(a, b Lack) int {
		return cmp.Or(cmp.Compare(order[a.Fact.Name], order[b.Fact.Name]), cmp.Compare(a.Fact.Name, b.Fact.Name), cmp.Compare(a.Reason, b.Reason))
	})
	return list
}

// lacks lists what one result lacks, with the reasons: what its worker says, and the facts that should stand in the
// result and do not, as in one that an older worker wrote or that had to be cut.
func (s *Set) lacks(x *Execution) []fact {
	told := map[string]bool{}
	var list []fact
	for _, id := range x.lacks {
		f := s.pool.facts[id]
		told[f.key] = true
		list = append(list, f)
	}
	for _, id := range x.facts {
		told[s.pool.facts[id].key] = true
	}
	for _, f := range brief {
		if !told[f.Name] && (f.When != catalogue.OfLLM || x.Group != nil) {
			list = append(list, fact{f.Name, "its result does not tell it"})
		}
	}
	return list
}

// brief are the facts of which every result says something; those of a server only results of the llm workload.
var brief = func() []catalogue.Fact {
	var facts []catalogue.Fact
	for _, f := range catalogue.Facts() {
		if f.Brief && f.Needed {
			facts = append(facts, f)
		}
	}
	return facts
}()

// lacking keeps what a result lacks; one list for all results that lack the same.
func (p *pool) lacking(missing []result.Missing) []int32 {
	if len(missing) == 0 {
		return nil
	}
	key := fmt.Sprint(missing)
	if list, ok := p.lacks[key]; ok {
		return list
	}
	var list []int32
	for _, m := range missing {
		for _, name := range m.Keys {
			list = append(list, p.fact(name, m.Reason))
		}
	}
	if p.lacks == nil {
		p.lacks = map[string][]int32{}
	}
	p.lacks[key] = list
	return list
}
