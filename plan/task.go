package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// work is a task before it has its place in an array.
type work struct {
	pairs   []Pair
	shape   Shape
	seconds int64
}

// pack puts the executions into tasks. Points that differ only in the packed axes, among them always the searched
// one, share a task; a task holds one repeat of each of its points. The search comes first, in repeat 1 only.
func pack(s *Spec, axes []Axis, points []expanded, ps *problems) []work {
	if s.Workload.Kind == "llm" {
		return packLLM(s, axes, points, ps)
	}
	groups := groupPoints(s, axes, points)
	shapes := make([]Shape, len(groups))
	for i, g := range groups {
		for j, pt := range g {
			var err error
			if shapes[i], err = widest(shapes[i], pt.shape, j == 0); err != nil {
				ps.at("pack", "leave the axis that decides it out of pack", "points that share a task ask for %v", err)
				return nil
			}
		}
	}
	var tasks []work
	for _, slot := range slots(s, len(groups)) {
		if w := oneTask(groups[slot.group], slot); len(w.pairs) > 0 {
			w.shape = shapes[slot.group]
			tasks = append(tasks, w)
		}
	}
	return tasks
}

// slot is a place in the order of the tasks: a group of points and a repeat from 1. rng, if there is one, shuffles
// the points within.
type slot struct {
	group, repeat int
	rng           *rand.Rand
}

// slots is the order of the tasks.
func slots(s *Spec, groups int) []slot {
	var out []slot
	if s.Order == "repeat-first" {
		for g := range groups {
			for r := range s.Repeats {
				out = append(out, slot{g, r + 1, nil})
			}
		}
		return out
	}
	for r := range s.Repeats {
		var rng *rand.Rand
		block := make([]slot, groups)
		if s.Order == "blocks" {
			rng = rand.New(rand.NewPCG(uint64(s.Seed), uint64(r)))
		}
		for g := range block {
			block[g] = slot{g, r + 1, rng}
		}
		if rng != nil {
			rng.Shuffle(groups, func(i, j int) { block[i], block[j] = block[j], block[i] })
		}
		out = append(out, block...)
	}
	return out
}

// oneTask holds one repeat of a group's points: the search first, and only in repeat 1.
func oneTask(points []expanded, at slot) work {
	points = slices.Clone(points)
	if at.rng != nil {
		at.rng.Shuffle(len(points), func(i, j int) { points[i], points[j] = points[j], points[i] })
	}
	slices.SortStableFunc(points, func(a, b expanded) int { return strings.Compare(b.Case, a.Case) })
	var w work
	for _, pt := range points {
		if pt.Case == "" || at.repeat == 1 {
			w.pairs = append(w.pairs, Pair{Point: pt.Point, Repeat: at.repeat, Hint: pt.hint})
			w.seconds = max(w.seconds, pt.seconds)
		}
	}
	return w
}

// groupPoints gathers the points that share a task, in the order of the points.
func groupPoints(s *Spec, axes []Axis, points []expanded) [][]expanded {
	packed := slices.Clone(s.Pack)
	if f := s.Workload.MaxFit; f != nil {
		packed = append(packed, f.Axis)
	}
	if len(packed) == 0 {
		groups := make([][]expanded, len(points))
		for i := range points {
			groups[i] = points[i : i+1]
		}
		return groups
	}
	index := map[string]int{}
	var groups [][]expanded
	for _, pt := range points {
		var key strings.Builder
		for i, a := range axes {
			if !slices.Contains(packed, a.Name) {
				key.WriteString(pt.Values[i])
			}
			key.WriteByte(0)
		}
		g, ok := index[key.String()]
		if !ok {
			g = len(groups)
			index[key.String()] = g
			groups = append(groups, nil)
		}
		groups[g] = append(groups[g], pt)
	}
	return groups
}

// widest is the smallest shape that holds both. Types and memory texts cannot be added up, so they must be equal.
func widest(a, b Shape, first bool) (Shape, error) {
	switch {
	case first:
		return b, nil
	case a.GPUType != b.GPUType && a.GPUsPerNode > 0 && b.GPUsPerNode > 0:
		return a, fmt.Errorf("GPU types %q and %q", a.GPUType, b.GPUType)
	case a.Mem != b.Mem:
		return a, fmt.Errorf("memory %q and %q", a.Mem, b.Mem)
	}
	a.Nodes = max(a.Nodes, b.Nodes)
	a.GPUsPerNode = max(a.GPUsPerNode, b.GPUsPerNode)
	a.CPUsPerTask = max(a.CPUsPerTask, b.CPUsPerTask)
	a.GPUType = max(a.GPUType, b.GPUType)
	return a, nil
}
