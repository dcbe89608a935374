package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// packLLM puts groups of requests into tasks.
//
// A server with a command: a task is one start block, in which every distinct server is started once, measured at all
// of its points and repeats, and stopped. So a comparison of servers within a task is one on the same node.
//
// A server with a URL: a task is what one server gets in one repeat, and the tasks of the array run one at a time. With
// a single server, or in another order than blocks, a task holds everything of its server: nothing would be gained by
// leaving it.
//
// Servers stand in a random order, and every second block has the reverse of the one before (A B, B A): what drifts
// steadily does not speak for one of them. The repeats of a warm point stand in a row, since each of them finds what
// the first one has left in the cache.
func packLLM(s *Spec, axes []Axis, points []expanded, ps *problems) []work {
	shape := Shape{}
	for i, pt := range points {
		var err error
		if shape, err = widest(shape, pt.shape, i == 0); err != nil {
			ps.at("resources", "leave the axis that decides it to another sweep", "points that share a task ask for %v", err)
			return nil
		}
	}
	var seconds int64
	var servers []string
	for _, pt := range points {
		seconds = max(seconds, pt.seconds)
		if !slices.Contains(servers, pt.server) {
			servers = append(servers, pt.server)
		}
	}
	var tasks []work
	b := &blocks{spec: s, warm: warmOf(axes)}
	for _, pairs := range b.tasks(points, servers) {
		if len(pairs) > 0 { // a later repeat of warm points alone has none
			tasks = append(tasks, work{pairs: pairs, shape: shape, seconds: seconds})
		}
	}
	return tasks
}

// tasks lists the pairs of each task.
func (b *blocks) tasks(points []expanded, servers []string) [][]Pair {
	var tasks [][]Pair
	switch {
	case len(b.spec.Workload.Server.Command) > 0:
		for start := range b.spec.Workload.Starts {
			var pairs []Pair
			for _, server := range b.order(servers, start) {
				pairs = append(pairs, b.all(ofServer(points, server), start+1)...)
			}
			tasks = append(tasks, pairs)
		}
	case b.spec.Order == "blocks" && len(servers) > 1:
		for repeat := range b.spec.Repeats {
			for _, server := range b.order(servers, repeat) {
				tasks = append(tasks, b.repeat(ofServer(points, server), 0, repeat+1))
			}
		}
	default:
		for _, server := range servers {
			tasks = append(tasks, b.all(ofServer(points, server), 0))
		}
	}
	return tasks
}

// blocks orders what one server is asked.
type blocks struct {
	spec *Spec
	warm func(Point) bool
}

// warmOf reports whether the repeats of a point need each other.
func warmOf(axes []Axis) func(Point) bool {
	i := slices.IndexFunc(axes, func(a Axis) bool { return a.Name == "cache" })
	return func(pt Point) bool { return i >= 0 && pt.Values[i] == "warm" }
}

func ofServer(points []expanded, server string) []expanded {
	return slices.DeleteFunc(slices.Clone(points), func(pt expanded) bool { return pt.server != server })
}

// shuffle puts a list into the random order of a block, unless the spec wants it as it is. The stream keeps the
// shuffles of one block apart.
func shuffle[T any](s *Spec, list []T, block, stream int) []T {
	list = slices.Clone(list)
	if s.Order == "blocks" {
		rng := rand.New(rand.NewPCG(uint64(s.Seed), uint64(stream)<<32+uint64(block)))
		rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
	return list
}

// order of the servers in a block, from 0.
func (b *blocks) order(servers []string, block int) []string {
	servers = shuffle(b.spec, servers, block/2, 1)
	if b.spec.Order == "blocks" && block%2 == 1 {
		slices.Reverse(servers)
	}
	return servers
}

// all lists all repeats of points in one start; 0: the server is not started.
func (b *blocks) all(points []expanded, start int) []Pair {
	var pairs []Pair
	if b.spec.Order != "repeat-first" {
		for repeat := range b.spec.Repeats {
			pairs = append(pairs, b.repeat(points, start, repeat+1)...)
		}
		return pairs
	}
	for _, pt := range points {
		for repeat := range b.spec.Repeats {
			pairs = append(pairs, pairOf(pt, start, repeat+1))
		}
	}
	return pairs
}

// repeat lists one repeat of points, and with the first one all those of the warm points.
func (b *blocks) repeat(points []expanded, start, repeat int) []Pair {
	var pairs []Pair
	for _, pt := range shuffle(b.spec, points, max(start-1, 0)*StartStride+repeat, 2) {
		switch {
		case !b.warm(pt.Point):
			pairs = append(pairs, pairOf(pt, start, repeat))
		case repeat == 1:
			for r := range b.spec.Repeats {
				pairs = append(pairs, pairOf(pt, start, r+1))
			}
		}
	}
	return pairs
}

func pairOf(pt expanded, start, repeat int) Pair {
	return Pair{Point: pt.Point, Repeat: max(start-1, 0)*StartStride + repeat, Start: start}
}

// idleGate is the least time that a group waits to see that the server is idle.
const idleGate = time.Second

// servingDoubt is a doubt about the time of a task of so many groups: waiting alone may take more than it has. What a
// server needs for the requests is not known here.
func (s *Spec) servingDoubt(groups int, seconds int64) string {
	least := time.Duration(groups) * (idleGate + time.Duration(s.Workload.MetricsSettle))
	if s.Workload.Kind != "llm" || int64(least.Seconds()) <= seconds {
		return ""
	}
	return fmt.Sprintf("a task has %d groups, and looking whether the server is idle (%v) and waiting for its counters (workload.metrics_settle) take %v of it "+
		"without any request: more than resources.time (%v); what is not reached runs with --only-missing", groups, idleGate, least, time.Duration(seconds)*time.Second)
}

// Together are the pairs of a list that have to be carried out once more because one of their warm group has to be: the
// repeats of a warm point in one start need each other. all are the pairs of the task, in its order.
func (p *Plan) Together(all, some []Pair) []Pair {
	if p.Spec.Workload.Kind != "llm" {
		return some
	}
	type group struct {
		point string
		start int
	}
	warm := warmOf(p.Axes)
	again := map[group]bool{}
	for _, pair := range some {
		if warm(pair.Point) {
			again[group{pair.ID, pair.Start}] = true
		}
	}
	if len(again) == 0 {
		return some
	}
	return slices.DeleteFunc(slices.Clone(all), func(pair Pair) bool {
		listed := slices.ContainsFunc(some, func(o Pair) bool { return o.ID == pair.ID && o.Repeat == pair.Repeat })
		return !listed && !again[group{pair.ID, pair.Start}]
	})
}
