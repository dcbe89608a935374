package provenance

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"cpbench/plan"
)

// identity tells which cpbench measures.
func (p *Record) identity() {
	p.set("cpbench", p.task.Version, "this build has no version")
	p.set("go", runtime.Version(), "")
	revision, modified := described(p.task.Version)
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				revision = s.Value
			case "vcs.modified":
				modified = yesNo(s.Value == "true")
			}
		}
	}
	const why = "this cpbench was not built from a repository: build it there with make"
	p.set("cpbench_revision", revision, why)
	p.set("cpbench_modified", modified, why)
}

// described takes revision and state of the source from a version that git describe has made: a tag, or a hash behind
// a tag, or a hash alone.
func described(version string) (revision, modified string) {
	if version == "" || strings.HasPrefix(version, "devel") || strings.HasPrefix(version, "v0.0.0-") {
		return "", ""
	}
	clean, dirty := strings.CutSuffix(version, "-dirty")
	if i := strings.LastIndex(clean, "-g"); i >= 0 {
		clean = clean[i+2:]
	}
	return clean, yesNo(dirty)
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

// commandLine writes arguments so that a reader sees where each ends.
func commandLine(args []string) string {
	words := make([]string, len(args))
	for i, a := range args {
		if words[i] = RedactArgument(args, i); strings.ContainsAny(a, " \t\"'\\") || a == "" {
			words[i] = strconv.Quote(words[i])
		}
	}
	return strings.Join(words, " ")
}

// protocol tells how the executions of the kinds that are known here are timed.
func (p *Record) protocol() {
	spec := p.task.Plan.Spec
	w := spec.Workload
	p.set("mode", w.Mode, "the workload has no mode")
	p.set("dtype", w.DType, "give workload.dtype")
	p.set("order", fmt.Sprintf("%s, seed %d", spec.Order, spec.Seed), "")
	p.set("iterations", strconv.Itoa(w.Iterations), "")
	switch w.Kind {
	case "model":
		p.set("warmup", fmt.Sprintf("at least %d steps, then until 5 are steady, at most 20", w.Warmup), "")
		p.set("fresh_process", "yes", "")
		p.set("clock", "monotonic clock of the host, in each rank", "")
		p.set("aggregation", "slowest rank of each iteration, then the median over the iterations", "")
		p.set("sync", "barrier and device synchronisation before, device synchronisation after", "")
	case "command":
		p.set("warmup", fmt.Sprintf("%d runs", w.Warmup), "")
		p.set("fresh_process", "yes, for each iteration", "")
		p.set("clock", "monotonic clock of the host, in the worker, or the program's own", "")
		p.set("aggregation", "median over the runs", "")
		p.set("sync", "start and end of the program", "")
	case "llm":
		p.set("iterations", "one group of requests for each repeat", "")
		p.set("warmup", fmt.Sprintf("%d bursts of short requests to each server before its first group; the first repeat of a warm group fills the cache", w.Warmup), "")
		p.set("fresh_process", "no, the groups of one start share a server", "")
		p.set("clock", "monotonic clock of the host of the load client", "")
		p.set("aggregation", "mean over the streams of a group", "")
		p.set("sync", "a barrier in front of the requests of a group", "")
	default:
		for _, key := range []string{"warmup", "fresh_process", "clock", "aggregation", "sync"} {
			p.why[key] = fmt.Sprintf("the workload %q does not tell it", w.Kind)
		}
	}
}

// fromFile begins the fact about data that are read and not synthesized.
const fromFile = "file "

// maxData is the largest file of data that is hashed whole: reading more would keep the GPUs waiting.
const maxData = 256 << 20

type hash struct{ sum, why string }

// data tells what the model computes on.
func (p *Record) data(facts map[string]string, given any) {
	path, ok := given.(string)
	if !ok || path == "" {
		facts["data"] = "synthesized"
		return
	}
	facts["data"] = fromFile + path
	if !filepath.IsAbs(path) {
		dir := p.task.Plan.Spec.Workload.Workdir
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(p.task.Plan.Dir, dir)
		}
		path = filepath.Join(dir, path)
	}
	h, ok := p.hashes[path]
	if !ok {
		h = hashFile(path)
		p.hashes[path] = h
	}
	delete(p.why, "data_sha256") // another file's
	if h.sum != "" {
		facts["data_sha256"] = h.sum
	} else {
		p.why["data_sha256"] = h.why
	}
}

func hashFile(path string) hash {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return hash{why: "the data could not be read"}
	case !info.Mode().IsRegular():
		return hash{why: "the data are not one file"}
	case info.Size() > maxData:
		return hash{sum: sample(path), why: "the data could not be read"}
	}
	f, err := os.Open(path)
	if err != nil {
		return hash{why: "the data could not be read"}
	}
	defer f.Close() // read only
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return hash{why: "the data could not be read"}
	}
	return hash{sum: hex.EncodeToString(h.Sum(nil))}
}

// scheduler tells what Slurm has given. The account stays out of it: whom a run is charged to is nobody's business.
func (p *Record) scheduler() {
	if p.task.Job == "" {
		return
	}
	array := p.task.Plan.Arrays[p.task.Task.Array]
	p.set("slurm_job", p.task.Job, "")
	step := p.env["SLURM_STEP_ID"]
	if step == "" {
		step = "batch"
	}
	p.set("slurm_step", step, "")
	p.set("slurm_partition", p.task.Partition, "Slurm did not tell it")
	p.set("slurm_nodes", p.task.Nodes, "Slurm did not tell it")
	p.set("slurm_restarts", strconv.Itoa(p.task.Restart), "")
	p.set("slurm_gres", "asked for "+gres(array.Shape)+", granted "+granted(p.env), "")
	limit := "asked for " + (time.Duration(array.Seconds) * time.Second).String()
	start, errStart := strconv.ParseInt(p.env["SLURM_JOB_START_TIME"], 10, 64)
	end, errEnd := strconv.ParseInt(p.env["SLURM_JOB_END_TIME"], 10, 64)
	if errStart == nil && errEnd == nil && end > start {
		limit += ", granted " + (time.Duration(end-start) * time.Second).String()
	}
	p.set("slurm_time_limit", limit, "")
	freq := p.env["SLURM_GPU_FREQ"]
	for _, option := range p.task.Plan.Spec.Slurm.Extra {
		if value, ok := strings.CutPrefix(option, "--gpu-freq="); ok {
			freq = value
		}
	}
	p.set("slurm_gpu_freq", orElse(freq, "not asked for"), "")
	p.set("slurm_bind", orElse(p.env["SLURM_CPU_BIND"], "not asked for"), "")
	p.set("slurm_dependency", orElse(p.env["SLURM_JOB_DEPENDENCY"], "none"), "")
}

func orElse(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func gres(s plan.Shape) string {
	switch {
	case s.GPUsPerNode == 0:
		return "none"
	case s.GPUType != "":
		return fmt.Sprintf("gpu:%s:%d", s.GPUType, s.GPUsPerNode)
	}
	return fmt.Sprintf("gpu:%d", s.GPUsPerNode)
}

// granted is what Slurm says of the GPUs of this node: their number, and the site's own ids of them.
func granted(env map[string]string) string {
	ids := orElse(env["SLURM_JOB_GPUS"], env["SLURM_STEP_GPUS"])
	switch n := env["SLURM_GPUS_ON_NODE"]; {
	case n != "" && ids != "":
		return n + " (ids " + ids + ")"
	case n != "":
		return n
	case ids != "":
		return "ids " + ids
	}
	return "none"
}
