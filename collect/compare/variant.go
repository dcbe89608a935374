package compare

import (
	"fmt"
	"slices"
	"time"

	"cpbench/plan/catalogue"
)

// Side is one variant.
type Side struct {
	Name string   `json:"name"`
	What []string `json:"what"` // the values that make it, such as label=A
	Runs []string `json:"runs"`
	// Executions were planned, Judged have ended, Good are in the means.
	Executions int                 `json:"executions"`
	Judged     int                 `json:"judged"`
	Good       int                 `json:"good"`
	Began      time.Time           `json:"began,omitzero"`
	Ended      time.Time           `json:"ended,omitzero"`
	Facts      map[string][]string `json:"facts"` // the distinct values of what the results tell of their conditions
}

func newSide(name string) *Side {
	return &Side{Name: name, Runs: []string{}, What: []string{}, Facts: map[string][]string{}}
}

// count takes an execution into the numbers of its side.
func (c *comparison) count(e *entry) {
	s := c.sides[e.side]
	if name := fmt.Sprintf("%s (plan %s)", e.run.Name(), e.run.Plan.Digest[:12]); !slices.Contains(s.Runs, name) {
		s.Runs = append(s.Runs, name)
	}
	s.Executions++
	if x := e.Result; x != nil {
		s.Judged++
		if s.Began.IsZero() || x.Started.Before(s.Began) {
			s.Began = x.Started
		}
		if x.Ended.After(s.Ended) {
			s.Ended = x.Ended
		}
	}
	if !e.good() {
		return
	}
	s.Good++
	for key, v := range e.run.set.Provenance(e.Pair, nil) {
		if list := s.Facts[key]; v != catalogue.NotApplicable && !slices.Contains(list, v) && slices.Contains(HeadFacts, key) {
			s.Facts[key] = append(list, v)
		}
	}
}

// HeadFacts are the facts of a Side, in the order of the head of a report.
var HeadFacts = []string{
	"server", "server_version", "served_model", "served_root", "served_limit_tokens", "prompts", "setting model", "reference", "gpu", "device", "driver",
	"clocks_locked", "torch", "cuda", "nccl", "host", "cpu", "kernel", "slurm_partition", "cpbench",
}
