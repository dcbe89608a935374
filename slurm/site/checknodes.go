package site

import (
	"fmt"
	"slices"
	"strings"
)

// nodes compares what a task asks of each node with what the partition's nodes have.
func (c *checker) nodes(p *Partition) {
	r, before := c.r, len(c.found)
	switch {
	case p.MaxNodes > 0 && r.Nodes > p.MaxNodes:
		c.add("resources.nodes", fmt.Sprintf("ask for at most %d", p.MaxNodes), "a task asks for %d nodes, and partition %s allows a job %d: %s", r.Nodes, p.Name, p.MaxNodes, c.fate())
	case r.Nodes < p.MinNodes:
		c.add("resources.nodes", fmt.Sprintf("ask for at least %d, or use another partition", p.MinNodes), "a task asks for %d nodes, and partition %s wants at least %d: %s", r.Nodes, p.Name, p.MinNodes, c.fate())
	case p.TotalNodes > 0 && r.Nodes > p.TotalNodes:
		c.add("resources.nodes", fmt.Sprintf("ask for at most %d", p.TotalNodes), "a task asks for %d nodes, and partition %s has %d: %s", r.Nodes, p.Name, p.TotalNodes, c.fate())
	}
	if len(p.Nodes) == 0 {
		return
	}
	c.gpus(p)
	c.features(p)
	cpus := int(p.best(func(n Nodes) int64 { return int64(n.CPUs) }))
	if p.MaxCPUs > 0 {
		cpus = min(cpus, p.MaxCPUs)
	}
	if r.CPUsPerTask > cpus {
		c.add("resources.cpus_per_task", fmt.Sprintf("ask for at most %d", cpus), "a task asks for %d CPUs on each node, and no node of partition %s gives more than %d", r.CPUsPerTask, p.Name, cpus)
	}
	mem, most := mebibytes(r.Mem), p.best(func(n Nodes) int64 { return n.MiB })
	if p.MaxMemPerNode > 0 {
		most = min(most, p.MaxMemPerNode)
	}
	if mem > most {
		c.add("resources.mem", fmt.Sprintf("ask for at most %dM, or 0 for all of the node", most), "a task asks for %dM of memory on each node, and no node of partition %s gives more than %dM", mem, p.Name, most)
	}
	if len(c.found) == before { // each alone exists: is there a node that has all of it?
		c.together(p)
	}
}

func (c *checker) gpus(p *Partition) {
	r, types := c.r, p.GPUTypes()
	if r.GPUsPerNode == 0 {
		return
	}
	most := p.best(func(n Nodes) int64 { return int64(n.gpus("")) })
	switch {
	case most == 0:
		c.add("resources.gpus_per_node", "partitions with GPUs: "+c.site.gpuPartitions(), "partition %s has no GPUs", p.Name)
		return
	case r.GPUType != "" && !slices.Contains(types, r.GPUType) && len(types) == 0:
		c.add("resources.gpu_type", "leave it out", "partition %s names no types of GPU, so %q cannot be asked for", p.Name, r.GPUType)
		return
	case r.GPUType != "" && !slices.Contains(types, r.GPUType):
		c.add("resources.gpu_type", "choose from "+namesText(r.GPUType, types), "partition %s has no GPU of type %q", p.Name, r.GPUType)
		r.GPUType = "" // are there nodes with so many at all?
	}
	most = p.best(func(n Nodes) int64 { return int64(n.gpus(r.GPUType)) })
	if int64(r.GPUsPerNode) > most {
		c.add("resources.gpus_per_node", fmt.Sprintf("ask for at most %d, on more nodes", most), "a task asks for %d GPUs on each node, and no node of partition %s has more than %d", r.GPUsPerNode, p.Name, most)
	}
}

// gpuPartitions names the partitions that have GPUs.
func (site *Site) gpuPartitions() string {
	var names []string
	for i := range site.Partitions {
		if p := &site.Partitions[i]; p.best(func(n Nodes) int64 { return int64(n.gpus("")) }) > 0 && !p.Hidden {
			names = append(names, p.Name)
		}
	}
	return namesText("", names)
}

func (c *checker) features(p *Partition) {
	have := p.Features()
	for _, f := range features(c.r.Constraint) {
		if mebibytes(f) > 0 || slices.Contains(have, f) { // a number is how many nodes are to have a feature
			continue
		}
		advice := "leave it out: no node of the partition has features"
		if len(have) > 0 {
			advice = "choose from " + namesText(f, have)
		}
		c.add("slurm.constraint", advice, "no node of partition %s has the feature %q", p.Name, f)
	}
}

// together counts the nodes that have everything that is asked of one.
func (c *checker) together(p *Partition) {
	r, fit := c.r, 0
	var down []string
	for _, n := range p.Nodes {
		if n.gpus(r.GPUType) < r.GPUsPerNode || n.CPUs < r.CPUsPerTask || n.MiB < mebibytes(r.Mem) {
			continue
		}
		fit += n.Count
		if state := strings.TrimRight(n.State, "*$~#!%@^-+"); slices.Contains([]string{"down", "drained", "draining", "fail", "inval"}, state) {
			down = append(down, fmt.Sprintf("%d %s", n.Count, state))
		}
	}
	if fit < r.Nodes {
		c.add("resources", "see sinfo -p "+p.Name+" -o '%D %c %m %G %f'", "only %d nodes of partition %s have all that a task asks of each of its %d", fit, p.Name, r.Nodes)
	} else if len(down) > 0 && fit-total(down) < r.Nodes {
		c.add("resources.nodes", "ask the site when they come back: sinfo -R says why they are away", "of the nodes that fit in partition %s too few are up: %s", p.Name, strings.Join(down, ", "))
	}
}

// total adds the numbers that texts begin with.
func total(texts []string) int {
	sum := 0
	for _, t := range texts {
		n, _, _ := strings.Cut(t, " ")
		sum += count(n)
	}
	return sum
}

// mebibytes reads a size as Slurm takes it: MiB without a unit. What is no size is 0.
func mebibytes(text string) int64 {
	if text == "" {
		return 0
	}
	digits := strings.TrimRight(text, "KMGTkmgtBb")
	n := number(digits)
	if n == nil {
		return 0
	}
	switch size := int64(*n); strings.ToUpper(strings.TrimRight(text[len(digits):], "Bb")) {
	case "K":
		return (size + 1023) / 1024
	case "G":
		return size << 10
	case "T":
		return size << 20
	default:
		return size
	}
}
