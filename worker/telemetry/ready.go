package telemetry

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"cpbench/plan/catalogue"
	"cpbench/worker/gpu"
	"cpbench/worker/node"
	"cpbench/worker/result"
)

// settleLimit is how long the memory of processes that have ended may stay in use.
const settleLimit = 30 * time.Second

// Problem is why an execution must not start or go on: its outcome, in one line, and all that was found.
type Problem struct {
	Outcome  catalogue.Outcome
	Reason   string
	Evidence string
}

// Ready looks whether the GPUs of the first n nodes are empty, of one model, and enough for the ranks of each node,
// before any of these starts; nil is yes, or that nobody can tell. What an execution before this one left behind has
// some time to go. It returns soon after ctx ends, with what was found so far.
func (t *Telemetry) Ready(ctx context.Context, n, ranks int) *Problem {
	if t.gpus == 0 {
		return nil
	}
	t.meet(ctx, n)
	for i := range t.seen {
		t.seen[i].idle = nil
	}
	if !t.readable(n) {
		return nil
	}
	limit := settleLimit
	if !t.used {
		limit = 0 // what was never clean has nothing of ours that could go
	}
	found := t.settle(ctx, n, limit, gpu.Expectation{Ranks: ranks})
	t.used = t.used || found == nil
	return found
}

// settle looks at the GPUs of the first n nodes until they are not in use, for so long at most.
func (t *Telemetry) settle(ctx context.Context, n int, limit time.Duration, want gpu.Expectation) *Problem {
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for began := time.Now(); ; {
		found := t.look(ctx, n, want)
		if found == nil || found.Outcome != catalogue.DirtyGPU || time.Since(began) >= limit || ctx.Err() != nil {
			return found
		}
		select {
		case <-again.C:
		case <-ctx.Done():
		}
	}
}

// lingers is how long a process of ours that has ended may still stand in the list of those that compute.
const lingers = 2 * time.Second

// Spoilt looks once more after an execution has run out of device memory, when nothing of it is left: the problem is that
// somebody else computes on GPUs of the first n nodes by now, whose memory may be what lacked. It is nil for any other
// outcome.
func (t *Telemetry) Spoilt(ctx context.Context, n int, outcome catalogue.Outcome) *Problem {
	if outcome != catalogue.OOMDevice && outcome != catalogue.OOMComm || !t.readable(n) {
		return nil
	}
	p := t.settle(ctx, n, lingers, gpu.Expectation{Threshold: -1}) // memory of ours may take longer to go
	if p == nil || p.Outcome != catalogue.DirtyGPU {
		return nil
	}
	return &Problem{Outcome: p.Outcome, Reason: "it ran out of memory, but " + p.Reason, Evidence: p.Evidence}
}

// look compares the GPUs of the first n nodes with what is expected of them, once.
func (t *Telemetry) look(ctx context.Context, n int, want gpu.Expectation) *Problem {
	var found []gpu.Problem
	var all []gpu.Device
	for i, r := range t.nodes.Ask(ctx, n, node.Request{Do: node.Look}) {
		m := t.member(i)
		if m == nil || r.Err != nil || r.Reading == nil {
			continue // the doubt is told by whoever measures
		}
		m.idle = map[string]float64{}
		for _, g := range r.Reading.GPUs {
			if g.MemoryUsed != nil {
				m.idle[g.UUID] = *g.MemoryUsed
			}
		}
		own := gpu.Preflight(m.devices, *r.Reading, r.Processes, want)
		if n > 1 {
			for j := range own {
				own[j].Text = r.Node + ": " + own[j].Text
			}
		}
		found, all = append(found, own...), append(all, m.devices...)
	}
	if len(found) == 0 && n > 1 { // one node by itself may be fine
		found = gpu.Preflight(all, gpu.Reading{}, nil, gpu.Expectation{Threshold: -1})
	}
	return problem(found)
}

// Room is the memory that one GPU had free before the present execution, the least of the first n nodes; nil if a GPU
// did not tell, or none can be read.
func (t *Telemetry) Room(n int) *float64 {
	var least *float64
	for i := range n {
		m := t.member(i)
		if m == nil {
			return nil
		}
		for _, d := range m.devices {
			idle, ok := m.idle[d.UUID]
			if !ok || d.MemoryTotal == nil {
				return nil
			}
			if free := *d.MemoryTotal - idle; least == nil || free < *least {
				least = &free
			}
		}
	}
	return least
}

// member is the node with an index, nil if nothing can be read there.
func (t *Telemetry) member(i int) *member {
	if i >= len(t.seen) || len(t.seen[i].devices) == 0 {
		return nil
	}
	return &t.seen[i]
}

// Claimed compares what the ranks on the first n nodes say of their devices with the devices that are there; nil is that
// they agree, or that the devices of a node are not known.
func (t *Telemetry) Claimed(n int, claims []gpu.Claim) *Problem {
	claims = slices.DeleteFunc(slices.Clone(claims), func(c gpu.Claim) bool { return c.UUID == "" }) // no GPU, or one that is not told
	if t.gpus == 0 || len(claims) == 0 {
		return nil
	}
	var all []gpu.Device
	for i := range n {
		m := t.member(i)
		if m == nil {
			return nil
		}
		all = append(all, m.devices...)
	}
	return problem(gpu.Preflight(all, gpu.Reading{}, nil, gpu.Expectation{Threshold: -1, Claims: claims}))
}

func problem(found []gpu.Problem) *Problem {
	if len(found) == 0 {
		return nil
	}
	var texts []string
	for _, p := range found {
		texts = append(texts, p.Text)
	}
	return &Problem{Outcome: found[0].Outcome, Reason: found[0].Text, Evidence: strings.Join(texts, "\n")}
}

// lack warns of nodes without readings; the same nodes once.
func lack(r *result.Result, lacking []string) {
	if len(lacking) > 0 {
		r.Warn(catalogue.NoTelemetry, "without readings of the GPUs of "+strings.Join(lacking, "; ")+": figures of the whole job are not known", "")
	}
}

// lacking says which of the first n nodes have no readings, and why.
func (t *Telemetry) lacking(n int) []string {
	var list []string
	for i := range n {
		switch {
		case i >= len(t.seen):
			list = append(list, fmt.Sprintf("node %d: it was not asked", i+1))
		case t.seen[i].lacking != "":
			list = append(list, t.seen[i].name+": "+t.seen[i].lacking)
		}
	}
	return list
}
