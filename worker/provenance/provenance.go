// Package provenance gathers the conditions under which a task measures: who ran what, on which machine, with which
// software. Use Gather once for each task, New for each execution before it begins and Settle after it has ended. No
// source that is missing fails anything: what could not be had, and is needed to publish a number, is told in the
// result with its reason. Only keys of the catalogue are written, and nothing that looks like a secret.
package provenance

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/worker/result"
)

// Task is what is known of a task before anything is looked up.
type Task struct {
	Plan      *plan.Plan
	Task      plan.Task
	Version   string // of this cpbench
	Job       string // id of Slurm's job; empty: none
	Partition string
	Nodes     string // in the scheduler's own compact form
	Restart   int
	Environ   []string // of the worker, as NAME=value
	Root      string   // of the file system that tells about the machine; "/" unless it is a test's
	File      string   // for the whole provenance of the results
}

// Record is the provenance of a task's results, for one goroutine.
type Record struct {
	task   Task
	env    map[string]string
	facts  map[string]string            // of every result
	why    map[string]string            // why some are not there
	hashes map[string]hash              // of data, by path
	swept  map[string]map[string]string // variables that the sweep sets, by point
	file   *result.Facts
}

// Gather looks up what all results of the task have in common.
func Gather(task Task) *Record {
	p := &Record{
		task: task, env: map[string]string{}, facts: map[string]string{}, why: map[string]string{}, hashes: map[string]hash{},
		swept: map[string]map[string]string{}, file: result.NewFacts(),
	}
	for _, kv := range task.Environ {
		if name, value, ok := strings.Cut(kv, "="); ok {
			p.env[name] = value
		}
	}
	p.identity()
	p.protocol()
	p.container()
	p.host()
	p.scheduler()
	return p
}

// set keeps a fact, or why it could not be had. An empty value is none.
func (p *Record) set(key, value, otherwise string) {
	if value = strings.TrimSpace(value); value != "" {
		p.facts[key] = value
	} else {
		p.why[key] = otherwise
	}
}

// New is the provenance of an execution before it begins. The session that carries it out adds to it.
func (p *Record) New(pair plan.Pair) map[string]string {
	facts := maps.Clone(p.facts)
	at := slices.IndexFunc(p.task.Task.Pairs, func(o plan.Pair) bool { return o.ID == pair.ID && o.Repeat == pair.Repeat })
	facts["position"] = fmt.Sprintf("%d of %d", at+1, len(p.task.Task.Pairs))
	var n int64
	if fit := p.task.Plan.Spec.Workload.MaxFit; pair.Case != "" && fit != nil {
		n = fit.From // the command line and the rest are those of the first size
	}
	setting, err := p.task.Plan.At(pair.Point, n)
	if err != nil {
		return facts // the session will say why
	}
	facts["command_line"] = commandLine(setting.Command)
	if setting.Serving != nil && len(setting.Command) == 0 {
		facts["command_line"] = catalogue.NotApplicable // the server runs already
	}
	swept := setting.Env
	if setting.Serving != nil && len(setting.Serving.Target.Command) > 0 {
		swept = setting.Serving.Target.Fixed()
	}
	p.swept[pair.ID] = swept
	for name, value := range p.environment(swept) {
		facts["env "+name] = value
	}
	if batch, ok := setting.Point["batch"]; ok {
		facts["batch"] = fmt.Sprint(batch)
	}
	if p.task.Plan.Spec.Workload.Kind == "model" {
		p.data(facts, setting.Point["data"])
	}
	if pair.Case != "" && p.facts["fresh_process"] != "" {
		facts["fresh_process"] = "a new set of processes after every failure, and for each confirmation"
	}
	return facts
}

// Settle completes a result after its execution: what does not apply, what is missing and why, the state of the
// clocks, and the flags that follow. It hides secrets, writes the whole into the task's file and leaves the brief facts
// in r. The error is that of the file; r is complete nevertheless.
func (p *Record) Settle(r *result.Result) error {
	told := maps.Clone(r.Provenance)
	p.compareEnv(told, r)
	p.declare(told, r)
	facts := p.known(told)
	p.near(facts)
	p.clocks(facts, r)
	if facts["node_shared"] == "yes, as declared" {
		r.Warn(catalogue.SharedNode, "others may have computed on the node meanwhile, as site.node_shared says", "ask for whole nodes: resources.exclusive")
	}
	r.Missing = p.missing(facts, r)
	brief := map[string]string{}
	for key, value := range facts {
		if f, _ := catalogue.FactByName(key); f.Brief {
			brief[key] = value
		}
	}
	r.Provenance = brief
	if !p.file.Add(r, facts) {
		return nil
	}
	if err := result.WriteFacts(p.task.File, p.file); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(p.task.File), err)
	}
	return nil
}

// maxValue is the longest value of a fact in bytes.
const maxValue = 600

// known keeps keys of the catalogue, and hides what looks like a secret. A fact of a session that the catalogue does
// not know is one that the program has told.
func (p *Record) known(told map[string]string) map[string]string {
	facts := make(map[string]string, len(told))
	for key, value := range told {
		if _, ok := catalogue.FactByName(key); !ok {
			key = "setting " + key
		}
		if value = Redact(key, value); len(value) > maxValue {
			value = strings.ToValidUTF8(value[:maxValue], "") + "…"
		}
		if value != "" {
			facts[key] = value
		}
	}
	return facts
}
