package provenance

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cpbench/plan/catalogue"
	"cpbench/worker/result"
)

// missing writes NotApplicable for what is needed and does not apply, and returns what is needed and lacks, by reason.
func (p *Record) missing(facts map[string]string, r *result.Result) []result.Missing {
	applies := p.applies(facts)
	by := map[string][]string{}
	for _, f := range catalogue.Facts() {
		if !f.Needed || facts[f.Name] != "" || f.When == catalogue.OfLLM && !applies(f.When) {
			continue // where there is no server, nothing is said about one
		}
		if !applies(f.When) {
			facts[f.Name] = catalogue.NotApplicable
			continue
		}
		reason := p.reason(f, facts, r)
		by[reason] = append(by[reason], f.Name)
	}
	list := []result.Missing{} // an empty list is written
	for _, reason := range slices.Sorted(maps.Keys(by)) {
		slices.Sort(by[reason])
		list = append(list, result.Missing{Keys: by[reason], Reason: reason})
	}
	return list
}

// applies tells which conditions hold. Whether a program uses PyTorch is its own word: one that has told nothing may.
func (p *Record) applies(facts map[string]string) func(catalogue.When) bool {
	spec := p.task.Plan.Spec.Workload
	gpus := p.task.Plan.Arrays[p.task.Task.Array].Shape.GPUsPerNode > 0 || facts["gpu"] != ""
	other := facts["reference"] != "" || slices.ContainsFunc(slices.Collect(maps.Keys(facts)), func(key string) bool {
		return strings.HasPrefix(key, "version ") && !strings.HasSuffix(facts[key], catalogue.AsDeclared)
	})
	torch := spec.Kind != "llm" && facts["torch"] != noTorch && (facts["torch"] != "" || spec.Kind == "command" || !other)
	return func(w catalogue.When) bool {
		switch w {
		case catalogue.Always:
			return true
		case catalogue.OfModels:
			return spec.Kind == "model"
		case catalogue.OfLLM:
			return spec.Kind == "llm"
		case catalogue.WithGPUs:
			return gpus
		case catalogue.OfTorch:
			return torch
		case catalogue.OfTorchGPUs:
			return torch && gpus
		case catalogue.InTraining:
			return torch && spec.Mode == "training"
		case catalogue.WithData:
			return strings.HasPrefix(facts["data"], fromFile)
		case catalogue.InContainer:
			return p.task.Plan.Spec.Container.Runtime != "none"
		case catalogue.UnderSlurm:
			return p.task.Job != ""
		}
		return true
	}
}

// noTorch is the declared version of PyTorch of a program that does not use it.
const noTorch = "none" + catalogue.AsDeclared

// declare adds what the sweep declares and the program has not told. Where both speak the program's word stands, and
// another one in the sweep is a doubt.
func (p *Record) declare(told map[string]string, r *result.Result) {
	spec := p.task.Plan.Spec.Workload
	for _, name := range slices.Sorted(maps.Keys(spec.Declare)) {
		key, _ := catalogue.Declared(name)
		own := strings.TrimPrefix(key, "setting ")
		saw := cmp.Or(told[key], told[own])
		switch value := spec.Declare[name]; {
		case saw == "":
			told[key] = value + catalogue.AsDeclared
		case saw != value:
			r.Warn(catalogue.DeclaredAmiss, fmt.Sprintf("the sweep declares %s %s, but it is %s", name, Redact(key, value), Redact(key, saw)), "mend workload.declare")
		}
	}
}

// declared are the facts that nobody but the hooks can tell.
var declared = []string{"setting model", "setting weights", "setting checkpointing", "setting offload"}

const undeclared = `the hooks do not declare it: call cpbench_torch.declare("NAME", ...) while they are imported`

// reason says why a fact that is needed is not there.
func (p *Record) reason(f catalogue.Fact, facts map[string]string, r *result.Result) string {
	if why := p.why[f.Name]; why != "" {
		return why
	}
	switch f.Group {
	case catalogue.GPU:
		switch facts["telemetry"] {
		case "none":
			return "there is no source of GPU readings: put cpbench-nvml beside cpbench"
		case "":
			return "the GPUs were not looked at"
		case "nvidia-smi":
			return "nvidia-smi does not tell it: put cpbench-nvml beside cpbench"
		}
		return "the GPUs' driver did not tell it"
	case catalogue.Software, catalogue.Workload:
		switch {
		case p.task.Plan.Spec.Workload.Kind == "command":
			return "a command says nothing of itself: workload.declare"
		case p.task.Plan.Spec.Workload.Kind == "llm":
			return "the server did not tell it"
		case facts["device"] == "" && !r.Outcome.Fits():
			return "the program ended before it could tell"
		case slices.Contains(declared, f.Name):
			return undeclared
		}
		return "the program did not tell it"
	case catalogue.Identity, catalogue.Protocol, catalogue.Host, catalogue.Scheduler:
	}
	return "not known"
}

// flat is how much the SM clock may vary, as a share, and still be called locked. It is a choice.
const flat = 0.02

// clocks says whether the GPU clocks were locked. There is no getter: it is declared, or seen to be untrue. The key
// sm_clock_observed holds "LOWEST to HIGHEST MHz".
func (p *Record) clocks(facts map[string]string, r *result.Result) {
	varied := varies(facts["sm_clock_observed"])
	switch declared := p.task.Plan.Spec.Site.ClocksLocked; {
	case !p.applies(facts)(catalogue.WithGPUs):
		return
	case declared == "yes" && varied:
		facts["clocks_locked"] = "yes, as declared"
		r.Warn(catalogue.ClocksUnlocked, "the GPU clocks varied, although site.clocks_locked says yes", "the clocks seen are sm_clock_observed in raw.csv")
	case declared == "yes":
		facts["clocks_locked"] = "yes, as declared"
	case declared == "no":
		facts["clocks_locked"] = "no, as declared"
	case varied:
		facts["clocks_locked"] = "no, they varied"
	default:
		p.why["clocks_locked"] = "no driver tells it: declare site.clocks_locked"
	}
	if strings.HasPrefix(facts["clocks_locked"], "no") {
		r.Warn(catalogue.ClocksUnlocked, "the GPU clocks were not locked", "")
	}
}
