// Package plan turns a sweep spec into a frozen plan: spec, axes, points, tasks, arrays. It is pure: it reads no
// clock, no environment and no disk. Use Load to read a spec, New to make its plan, and Plan.At to evaluate a
// point.
package plan

import (
	"strings"
	"sync"

	"cpbench/plan/expr"
)

// Schema is the version of the plan format.
const Schema = 1

// CaseMaxFit is the word that stands for the axis value of a search for the largest size that fits.
const CaseMaxFit = "max-fit"

// Plan is the frozen plan: the header that is written to plan.json, and the tasks that are written to one file of
// lines for each array.
type Plan struct {
	Schema  int     `json:"schema"`
	Name    string  `json:"name"`
	Digest  string  `json:"digest"`   // covers everything that decides what is measured and where
	Key     string  `json:"key"`      // measurement key of ordinary points
	CaseKey string  `json:"case_key"` // measurement key of case points
	Version string  `json:"version"`  // of the cpbench that made the plan
	Source  string  `json:"source"`   // absolute path of the spec
	Dir     string  `json:"dir"`      // the spec's folder
	Spec    *Spec   `json:"spec"`
	Axes    []Axis  `json:"axes"`
	Files   []File  `json:"files"` // frozen files of the workload
	Select  Select  `json:"select"`
	Arrays  []Array `json:"arrays"`
	Tag     string  `json:"tag,omitempty"` // tells the jobs of runs apart that were made in the same second
	Sum     string  `json:"sum"`           // of all the rest of the header but the tag, as it stands in its file

	once    sync.Once
	eval    *evaluator // compiled expressions; made at first use
	evalErr error
	bound   map[string]any // run and cpbench, once the run folder is known
}

// PointName names a point by its axis values, as in cp=4,tokens=2048.
func (p *Plan) PointName(pt Point) string {
	parts := make([]string, len(p.Axes))
	for i, axis := range p.Axes {
		parts[i] = axis.Name + "=" + pt.Values[i]
	}
	return strings.Join(parts, ",")
}

// Axis is a named, ordered list of values of one kind.
type Axis struct {
	Name   string    `json:"name"`
	Kind   expr.Kind `json:"kind"`
	Values []string  `json:"values"` // the user's text
}

// File is a frozen file.
type File struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
}

// Select says which points of the sweep the plan holds.
type Select struct {
	Where   string `json:"where,omitempty"`
	Limit   int    `json:"limit,omitempty"`
	Extends string `json:"extends,omitempty"` // name of the run whose points were left out
}

// Param is one axis value in the user's text.
type Param struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Point is one combination of axis values.
type Point struct {
	ID     string   `json:"id"`     // hash of the parameters
	Values []string `json:"values"` // one for each axis, in the plan's order
	Case   string   `json:"case,omitempty"`
}

// Pair is one execution: a point and a repeat, from 1; of `kind: llm` one group of requests.
type Pair struct {
	Point
	Repeat int   `json:"repeat"`          // unique over all starts, see StartStride
	Start  int   `json:"start,omitempty"` // of a server that is started by the run, from 1; 0: there is none
	Hint   int64 `json:"hint,omitempty"`  // of a search: the size to look at first; 0: none
}

// Task is what one array element runs, in order, inside one allocation.
type Task struct {
	Array   int    `json:"array"`
	Index   int    `json:"task"`
	Seconds int64  `json:"seconds"` // bound on the whole task
	Pairs   []Pair `json:"pairs"`
}

// Shape is an equal resource request: everything that a script can say only once.
type Shape struct {
	Nodes       int    `json:"nodes"`
	GPUsPerNode int    `json:"gpus_per_node"`
	GPUType     string `json:"gpu_type,omitempty"`
	CPUsPerTask int    `json:"cpus_per_task"`
	Mem         string `json:"mem,omitempty"`
	Exclusive   bool   `json:"exclusive,omitempty"`
}

// Array is a set of tasks of one shape: exactly one sbatch script, indices from 0.
type Array struct {
	Index   int    `json:"array"`
	Shape   Shape  `json:"shape"`
	Seconds int64  `json:"seconds"`           // time limit asked for: that of the longest task
	Lengths []int  `json:"lengths,omitempty"` // bytes of each task's line in its file, newline included
	Tasks   []Task `json:"-"`
}
