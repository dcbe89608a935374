package table

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"cpbench/plan/catalogue"
)

// Field is one line of the conditions under which the table was measured.
type Field struct{ Name, Value string }

const unknown = "unknown"

// Meta lists the conditions: what the contract asks for first. What no result tells is `unknown`, never a default.
func (t *Table) Meta() []Field {
	if t.serves() {
		return t.servingMeta()
	}
	w := t.Plan.Spec.Workload
	list := []Field{
		{"Date", t.dates()},
		{"GPU model", t.gpu()},
		{"CP configs", t.configs()},
		{"torch", t.fact("torch", unknown)},
		{"CUDA", t.fact("cuda", unknown)},
		{"GPU clocks locked", t.fact("clocks_locked", unknown)},
		{"Node shared", t.fact("node_shared", unknown)},
		{"Workload", cmpOr(w.Mode, "a command, run as it is")},
		{"dtype", cmpOr(w.DType, "not given")},
		{"Steps", fmt.Sprintf("at least %d for warm-up, %d timed; %s, order %s", w.Warmup, w.Iterations, repeats(t.Plan.Spec.Repeats), t.Plan.Spec.Order)},
		{"Hosts", t.fact("host", unknown)},
	}
	list = append(list, t.known([]Field{
		{"Driver", "driver"},
		{"Batch", "batch"},
		{"Nodes", "hosts"},
		{"SM clock seen", "sm_clock_observed"},
		{"Model", "setting model"},
		{"NCCL", "nccl"},
	})...)
	list = append(list, t.machine()...)
	return append(list, t.origin()...)
}

// known looks the facts up whose names stand as the values of the fields, and leaves out those that nobody knows or that
// do not apply.
func (t *Table) known(keys []Field) []Field {
	var list []Field
	for _, f := range keys {
		if v := t.fact(f.Value, ""); v != "" && v != catalogue.NotApplicable {
			list = append(list, Field{f.Name, v})
		}
	}
	return list
}

// machine says on what the programs ran.
func (t *Table) machine() []Field {
	return t.known([]Field{
		{"CPU", "cpu"},
		{"CPUs allowed", "cpus_allowed"},
		{"Kernel", "kernel"},
		{"Slurm partition", "slurm_partition"},
		{"Slurm job", "slurm_job"},
	})
}

// origin says where the numbers come from, and whether they may be published.
func (t *Table) origin() []Field {
	var runs []string
	for _, r := range t.Set.Runs {
		unused := ""
		if n := t.Set.Unused(r); n > 0 {
			unused = fmt.Sprintf("; %d of its results not used", n)
		}
		runs = append(runs, fmt.Sprintf("%s (plan %s%s)", r.Name(), r.Plan.Digest, unused))
	}
	return []Field{
		{"Publishable", t.publishable()},
		{"cpbench", cmpOr(t.fact("cpbench", ""), t.Plan.Version)},
		{"Runs", strings.Join(runs, ", ")},
	}
}

// gpu names the models of the GPUs; where there are none, what the ranks computed on.
func (t *Table) gpu() string {
	device := t.fact("device", unknown)
	if v := t.fact("gpu", device); v != catalogue.NotApplicable {
		return v
	}
	if device == unknown {
		return "none"
	}
	return "none: " + device
}

// statistic names, in Markdown, how the numbers of a row were made.
func (t *Table) statistic() string {
	if t.serves() {
		return t.servingStatistic()
	}
	if t.Plan.Spec.Workload.Kind == "command" {
		return "*walltime*: one run of the program, or its own figure step_seconds; the median over the runs, then the median over repeats."
	}
	return statistic
}

const statistic = "*walltime*: slowest rank of each timed step, then the median over the steps, then the median over repeats. " +
	"*peak_mem*: largest allocated memory of any rank, from the start of the process on, then the largest over repeats."

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// fact lists the values of a fact over the results in use. Where some results lack it, that is said.
func (t *Table) fact(key, absent string) string {
	values, lack := t.Set.Facts(key)
	if len(values) == 0 {
		return absent
	}
	const most = 8
	text := strings.Join(values[:min(len(values), most)], ", ")
	if n := len(values) - most; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	if lack > 0 {
		text += fmt.Sprintf(" (unknown for %s)", results(lack))
	}
	return text
}

// dates is the time from the first start to the last end.
func (t *Table) dates() string {
	var first, last time.Time
	for _, p := range t.Set.Pairs {
		if p.Result == nil {
			continue
		}
		if first.IsZero() || p.Result.Started.Before(first) {
			first = p.Result.Started
		}
		if p.Result.Ended.After(last) {
			last = p.Result.Ended
		}
	}
	const form = "2006-01-02 15:04 UTC"
	if first.IsZero() {
		return "nothing measured yet"
	}
	if a, b := first.UTC().Format(form), last.UTC().Format(form); a != b {
		return a + " to " + b
	}
	return first.UTC().Format(form)
}

func (t *Table) configs() string {
	var list []string
	for i := range t.Rows {
		if c := t.Rows[i].config(); c != none && !slices.Contains(list, c) {
			list = append(list, c)
		}
	}
	return cmpOr(strings.Join(list, ", "), unknown)
}

func repeats(n int) string {
	if n == 1 {
		return "1 repeat"
	}
	return fmt.Sprintf("%d repeats", n)
}

func results(n int) string {
	if n == 1 {
		return "1 result"
	}
	return fmt.Sprintf("%d results", n)
}
