package plan

import "slices"

// MaxWaste is the largest share of asked resources that `multi_shape: max` may waste: whole nodes for cp = 1, 4 and
// 16 on nodes of 8 GPUs waste a third.
const MaxWaste = 0.35

// Cost is the worst case of what a set of tasks asks for: every task runs to its limit.
type Cost struct {
	Tasks    int
	NodeSecs int64
	GPUSecs  int64
}

func (c *Cost) add(s Shape, seconds int64) {
	c.Tasks++
	c.NodeSecs += int64(s.Nodes) * seconds
	c.GPUSecs += int64(s.Nodes*s.GPUsPerNode) * seconds
}

// Cost of all tasks of the array.
func (a *Array) Cost() Cost {
	var c Cost
	for _, t := range a.Tasks {
		c.add(a.Shape, t.Seconds)
	}
	return c
}

// billed is what a scheduler counts for a shape: its GPUs, or its CPUs where it has none.
func (s Shape) billed(cpus bool) int64 {
	if cpus {
		return int64(s.Nodes * s.CPUsPerTask)
	}
	return int64(s.Nodes * s.GPUsPerNode)
}

// Grouping tells how tasks became arrays.
type Grouping struct {
	Shapes int     // distinct resource shapes
	Waste  float64 // share that one shape for all wastes, or would waste
	Merged bool    // all tasks were put into the largest shape
	Why    string  // why they were not, if there are several shapes
}

// group puts tasks into arrays: one for each shape, or one for all while that wastes little, each with at most
// limit tasks (0: no limit).
func group(s *Spec, tasks []work, limit int) ([]Array, Grouping) {
	if s.Resources.Exclusive {
		for i := range tasks {
			if tasks[i].shape.GPUsPerNode > 0 {
				tasks[i].shape.GPUsPerNode = s.Site.GPUsPerNode
			}
		}
	}
	var shapes []Shape
	for _, t := range tasks {
		if !slices.Contains(shapes, t.shape) {
			shapes = append(shapes, t.shape)
		}
	}
	g := Grouping{Shapes: len(shapes)}
	if len(shapes) > 1 {
		shapes = merge(s, tasks, shapes, &g)
	}
	var arrays []Array
	for _, shape := range shapes {
		arrays = append(arrays, chunk(tasks, shape, g.Merged, limit)...)
	}
	for i := range arrays {
		arrays[i].Index = i
		for j := range arrays[i].Tasks {
			t := &arrays[i].Tasks[j]
			t.Array, t.Index = i, j
			arrays[i].Seconds = max(arrays[i].Seconds, t.Seconds)
		}
	}
	return arrays, g
}

// merge decides whether all tasks go into the largest shape.
func merge(s *Spec, tasks []work, shapes []Shape, g *Grouping) []Shape {
	all := shapes[0]
	cpus := true
	for _, sh := range shapes {
		cpus = cpus && sh.GPUsPerNode == 0
		var err error
		if all, err = widest(all, sh, false); err != nil {
			g.Why = "the shapes differ in " + err.Error()
			return shapes
		}
	}
	var used, time int64
	for _, t := range tasks {
		used += t.shape.billed(cpus) * t.seconds
		time += t.seconds
	}
	g.Waste = 1 - float64(used)/float64(all.billed(cpus)*time)
	switch {
	case s.Slurm.MultiShape == "error":
		g.Why = "slurm.multi_shape is error"
	case g.Waste > MaxWaste:
		g.Why = "one shape for all would waste too much"
	default:
		g.Merged = true
		return []Shape{all}
	}
	return shapes
}

// chunk cuts the tasks of one shape into arrays of at most limit tasks.
func chunk(tasks []work, shape Shape, all bool, limit int) []Array {
	var arrays []Array
	for _, t := range tasks {
		if !all && t.shape != shape {
			continue
		}
		if n := len(arrays); n == 0 || limit > 0 && len(arrays[n-1].Tasks) == limit {
			arrays = append(arrays, Array{Shape: shape})
		}
		last := &arrays[len(arrays)-1]
		last.Tasks = append(last.Tasks, Task{Seconds: t.seconds, Pairs: t.pairs})
	}
	return arrays
}
