package site

import (
	"slices"
	"strings"
	"time"

	"cpbench/plan"
	"cpbench/plan/folder"
	"cpbench/slurm"
)

// Request is what one submission asks the site for, after the spec.
type Request struct {
	Partition   string // empty: the site's default
	Account     string // empty: the user's default
	QOS         string
	Constraint  string
	Reservation string
	Nodes       int
	GPUsPerNode int
	GPUType     string // empty: any
	CPUsPerTask int    // on each node
	Mem         string // per node, as in the spec; empty: the site's default, 0: all of the node
	Time        time.Duration
	Tasks       int // that are submitted; each counts as a job
	LastIndex   int // the largest index of the array
}

// RequestOf is the request that the script of a job makes.
func RequestOf(j slurm.Job) Request {
	a, s := j.Run.Plan.Arrays[j.Array], j.Run.Plan.Spec.Slurm
	r := Request{
		Partition: s.Partition, Account: s.Account, QOS: s.QOS, Constraint: s.Constraint, Reservation: s.Reservation,
		Nodes: a.Shape.Nodes, GPUsPerNode: a.Shape.GPUsPerNode, GPUType: a.Shape.GPUType, CPUsPerTask: a.Shape.CPUsPerTask,
		Mem: a.Shape.Mem, Time: time.Duration(a.Seconds) * time.Second,
		Tasks: len(a.Lengths), LastIndex: len(a.Lengths) - 1,
	}
	if j.Tasks != nil {
		r.Tasks, r.LastIndex = len(j.Tasks), 0
		if len(j.Tasks) > 0 {
			r.LastIndex = slices.Max(j.Tasks)
		}
	}
	return r
}

// features are the single names of a constraint, whose operators combine them: a100&nvlink, [r1|r2], ib*4.
func features(constraint string) []string {
	return strings.FieldsFunc(constraint, func(r rune) bool { return strings.ContainsRune("&|[](),*", r) })
}

// CheckPlan lists what the arrays of a plan ask for and the site does not allow, each once although arrays share most of
// it.
func (s *Site) CheckPlan(p *plan.Plan) []Finding {
	var found []Finding
	for i := range p.Arrays {
		for _, f := range s.Check(RequestOf(slurm.Job{Run: &folder.Run{Plan: p}, Array: i, Attempt: 1})) {
			if !slices.Contains(found, f) {
				found = append(found, f)
			}
		}
	}
	return found
}
