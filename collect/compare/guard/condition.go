package guard

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"cpbench/collect"
	"cpbench/plan"
	"cpbench/plan/catalogue"
)

// Keys of conditions that no plan and no provenance has under a name of its own.
const (
	keyUnit        = "unit of a claim"
	keySpeculation = "speculation_depth"
)

// weight says what a condition means for a comparison.
type weight int

const (
	strict weight = iota // rows that differ in it are refused
	beside               // a difference is told
	free                 // it differs from one execution to the next, or decides nothing
)

// partsFree are parts of the spec that decide no value, or by which rows are told apart. A name stands for all below it.
var partsFree = []string{
	"workload.label", "workload.cache", "workload.data", "workload.ctx", "workload.concurrency", "workload.starts", "workload.data_dir",
	"workload.workdir", "workload.heartbeat", "workload.timeout", "workload.timeouts", "workload.metrics_settle", "workload.keep_text",
	"workload.declare", // its facts are told
	"workload.telemetry", "workload.extra_metrics", "workload.api_key_env", "workload.api_key_file", "workload.point.data", "resources.time", "resources.mem", "resources.exclusive",
}

// factsFree are facts that differ between executions of the same, or that another condition tells better.
var factsFree = []string{
	"position", "load", "slurm_job", "slurm_step", "slurm_restarts", "slurm_time_limit", "slurm_dependency", "slurm_gres",
	"command_line", "sm_clock_observed", "gpu_uuid", "gpu_pci", "cpu_set", "numa_nodes", "gpu_cpu_affinity", "data", "served_model", "server_started",
	"dtype", "mode", "warmup", "iterations", // the plan tells them
	"env SLURM_", "env CUDA_VISIBLE_DEVICES", "env ROCR_VISIBLE_DEVICES", "env HIP_VISIBLE_DEVICES",
}

// factsBeside are facts that may well have an effect, and in which runs of the same often differ.
var factsBeside = []string{"host", "hosts", "slurm_nodes", "slurm_partition", "slurm_bind", "order", "telemetry", "gpu_links", "memory_limit_bytes"}

// goodput is the part of the spec that decides a few metrics only.
const goodput = "workload.goodput"

// ofSearch and ofMixed are parts that only these cases use.
const (
	ofSearch = "workload.max_fit"
	ofMixed  = "workload.mixed"
)

// weigh is the weight of a key in a row of a case.
func weigh(key, rowCase string) weight {
	switch {
	case within(key, ofSearch):
		return weightIf(rowCase == plan.CaseMaxFit)
	case within(key, ofMixed):
		return weightIf(rowCase == plan.CaseMixed)
	case slices.ContainsFunc(partsFree, func(part string) bool { return within(key, part) }),
		slices.ContainsFunc(factsFree, func(f string) bool { return key == f || strings.HasPrefix(f, "env ") && strings.HasPrefix(key, f) }):
		return free
	case slices.Contains(factsBeside, key), within(key, goodput):
		return beside
	}
	return strict
}

func weightIf(matters bool) weight {
	if matters {
		return strict
	}
	return free
}

// within reports whether a key is the part that a name stands for, or lies below it: `workload.env` holds
// `workload.env.X`, and `setting` holds `setting attention`.
func within(key, name string) bool {
	rest, ok := strings.CutPrefix(key, name)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == ' ')
}

// behind are conditions that follow from another: whoever declares or accepts that one means these as well. What stands
// behind a label is the server.
var behind = map[string][]string{
	Label:            {"server", "server_version", "workload.server", "workload.model", "workload.metrics_urls"},
	"server_version": {"server"},
	"cpbench":        {"cpbench_revision", "cpbench_modified", "go"},
	"torch":          {"version", "cuda", "hip", "cudnn", "nccl", "triton", "python"},
	"gpu":            {"device", "gpu_memory_bytes", "power_limit_watts", "power_limit_default_watts", "sm_clock_max_hertz", "memory_clock_max_hertz", "vbios", "resources.gpu_type"},
	"container":      {"container_digest"},
	"dtype":          {"workload.dtype"},
	"mode":           {"workload.mode"},
}

// ofShape are facts that follow from the resources of a point, which may depend on any axis.
var ofShape = []string{"gpu_count", "cpus_allowed"}

// shaped reports whether a key follows from an axis under test. That of a label names a server, and asks for nothing.
func (g *Guard) shaped(key string) bool {
	return slices.Contains(ofShape, key) && slices.ContainsFunc(g.axes, func(name string) bool { return name != Label })
}

// covered reports whether a key is one of the declared ones, or follows from one.
func covered(key string, declared []string) bool {
	return slices.ContainsFunc(declared, func(name string) bool {
		if within(key, name) {
			return true
		}
		if rest, ok := strings.CutPrefix(key, "env "); ok && within("env."+rest, name) {
			return true // a variable that the sweep sets is one that the program was given
		}
		return slices.ContainsFunc(behind[name], func(part string) bool { return within(key, part) })
	})
}

// core are the facts without which nobody can say that servers are alike: not known on both sides is a doubt.
var core = []string{"served_root", "served_limit_tokens"}

// conditions are those of one execution that its plan does not tell.
func (g *Guard) conditions(m Member) map[string]string {
	facts := m.Set.Provenance(m.Pair, g.taskFacts(m))
	for key := range facts {
		if _, ok := catalogue.FactByName(key); !ok || facts[key] == "" {
			delete(facts, key) // of a newer cpbench
			continue
		}
		facts[key] = strings.TrimSuffix(facts[key], catalogue.AsDeclared) // what one program tells another's sweep may declare
	}
	if how, _, ok := strings.Cut(facts["slurm_bind"], ":"); ok {
		facts["slurm_bind"] = how // the mask is that of the CPUs which a task happened to get
	}
	x := m.Pair.Result
	if facts[keyUnit] = UnitOf(x); x.Group != nil {
		for _, key := range core {
			if facts[key] == "" {
				facts[key] = notKnown
			}
		}
		if n := depth(x); n > 0 {
			facts[keySpeculation] = strconv.Itoa(n)
		}
	}
	return facts
}

// notKnown stands for the value of a condition that an execution does not tell.
const notKnown = "not known"

// The units of a claim: a start of a server, which is the mean over its repeats, or a repeat by itself.
const (
	ByStart  = "start"
	ByRepeat = "repeat"
)

// UnitOf is the unit to which an execution belongs.
func UnitOf(x *collect.Execution) string {
	if x.Start > 0 {
		return ByStart
	}
	return ByRepeat
}

// depth is the number of tokens that the server drafts in a round at most; 0: it was not seen to draft any.
func depth(x *collect.Execution) int {
	if n := len(x.Group.PerPosition); n > 0 {
		return n
	}
	rounds, ok := x.Metric(catalogue.SpeculationRounds)
	proposed, known := x.Metric(catalogue.ProposedTokens)
	if !ok || !known || rounds == 0 {
		return 0
	}
	return int(math.Ceil(proposed / rounds)) // some rounds propose fewer
}
