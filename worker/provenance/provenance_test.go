package provenance

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/worker/result"

	"github.com/google/go-cmp/cmp"
)

const sweep = `version: 1
name: sweep
matrix: {n: [1, 2]}
pack: [n]
order: as-written
workload: {kind: model, mode: inference, command: [./model, "it's n={n}", --token, s3cr3t], dtype: bf16, point: {tokens: n, batch: "4"}}
resources: {time: 5m}
`

// task plans a spec, after replacing texts in it, and returns its first task on a machine without anything.
func task(t *testing.T, replace ...string) Task {
	t.Helper()
	dir := filepath.Join(t.TempDir(), `it's "here"`)
	source := filepath.Join(dir, "sweep.yaml")
	s, err := plan.Load(source, []byte(strings.NewReplacer(replace...).Replace(sweep)))
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := plan.New(s, plan.Options{Source: source, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return Task{Plan: p, Task: p.Arrays[0].Tasks[0], Version: "v0", Root: dir, File: filepath.Join(dir, "logs", "provenance.json")}
}

// settle is a result of the first pair to which a session has added facts, and the whole of its provenance.
func settle(t *testing.T, task Task, told map[string]string) (*result.Result, map[string]string) {
	t.Helper()
	p := Gather(task)
	pair := task.Task.Pairs[0]
	r := &result.Result{Point: pair.ID, Repeat: pair.Repeat, Attempt: 1, Outcome: catalogue.OK, Provenance: p.New(pair)}
	for k, v := range told {
		r.Provenance[k] = v
	}
	if err := p.Settle(r); err != nil {
		t.Fatal(err)
	}
	f, err := result.ReadFacts(task.File)
	if err != nil {
		t.Fatal(err)
	}
	return r, f.Of(r)
}

// why is the reason for which a key is missing; empty: it is not.
func why(r *result.Result, key string) string {
	for _, m := range r.Missing {
		if slices.Contains(m.Keys, key) {
			return m.Reason
		}
	}
	return ""
}

func write(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// machine is a node on which every source is there.
var machine = map[string]string{
	"proc/cpuinfo":     "processor\t: 0\nmodel name\t: A Fine CPU\n",
	"proc/self/status": "Name:\tx\nCpus_allowed_list:\t0-1,4\nMems_allowed_list:\t0-1\n",
	"proc/self/cgroup": "0::/system.slice/job 7/step\n",
	"proc/loadavg":     "0.50 1.25 2.00 1/100 4242\n",
	"sys/fs/cgroup/x":  "",
	"sys/fs/cgroup/system.slice/job 7/step/memory.max":     "max\n",
	"sys/fs/cgroup/system.slice/job 7/memory.max":          "68719476736\n",
	"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance\n",
	"sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "performance\n",
	"sys/devices/system/cpu/cpu2/cpufreq/scaling_governor": "powersave\n",
	"sys/devices/system/cpu/cpu4/cpufreq/scaling_governor": "performance\n",
	"sys/bus/pci/devices/0000:1b:00.0/local_cpulist":       "0-31\n",
	"sys/bus/pci/devices/0000:1b:00.0/current_link_speed":  "32.0 GT/s PCIe\n",
	"sys/bus/pci/devices/0000:1b:00.0/current_link_width":  "16\n",
}

// Each source of the machine gives its fact, and its absence gives a reason instead and costs nothing else.
func TestHost(t *testing.T) {
	t.Parallel()
	tests := []struct{ key, want, source, reason string }{
		{"cpu", "A Fine CPU", "proc/cpuinfo", "/proc/cpuinfo names no model"},
		{"cpu_set", "0-1,4", "proc/self/status", "/proc/self/status does not tell it"},
		{"numa_nodes", "0-1", "proc/self/status", "/proc/self/status does not tell it"},
		{"governor", "performance", "sys/devices/system/cpu", "/sys does not tell of CPUs"},
		{"memory_limit_bytes", "68719476736", "proc/self/cgroup", "no control group tells it"},
		{"load", "0.50 1.25 2.00", "proc/loadavg", "/proc/loadavg does not tell it"},
	}
	for _, tt := range tests {
		t.Run(tt.key, func(t *testing.T) {
			t.Parallel()
			whole := task(t)
			write(t, whole.Root, machine)
			r, facts := settle(t, whole, nil)
			if facts[tt.key] != tt.want || why(r, tt.key) != "" {
				t.Errorf("%s = %q (missing: %q), want %q", tt.key, facts[tt.key], why(r, tt.key), tt.want)
			}
			lacking := task(t)
			write(t, lacking.Root, machine)
			if err := os.RemoveAll(filepath.Join(lacking.Root, tt.source)); err != nil {
				t.Fatal(err)
			}
			r, facts = settle(t, lacking, nil)
			if _, ok := facts[tt.key]; ok || why(r, tt.key) != tt.reason {
				t.Errorf("without %s: %s = %q, missing because %q, want %q", tt.source, tt.key, facts[tt.key], why(r, tt.key), tt.reason)
			}
			if facts["kernel"] == "" || facts["host"] == "" {
				t.Error("a source that was missing took others with it")
			}
		})
	}
}

// Where the firmware or a hypervisor sets the clocks there is no governor, which is a fact and not a gap.
func TestNoGovernor(t *testing.T) {
	t.Parallel()
	tk := task(t)
	write(t, tk.Root, machine)
	for cpu := range 5 {
		if err := os.RemoveAll(filepath.Join(tk.Root, fmt.Sprintf("sys/devices/system/cpu/cpu%d/cpufreq", cpu))); err != nil {
			t.Fatal(err)
		}
	}
	if r, facts := settle(t, tk, nil); facts["governor"] != "none, the kernel does not set the clocks" || why(r, "governor") != "" {
		t.Errorf("governor %q, missing because %q", facts["governor"], why(r, "governor"))
	}
}

func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"none", map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n"}, "none"},
		{"the root group", map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cgroup.controllers": "cpu memory\n"}, "none"},
		{"least of two", map[string]string{
			"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/memory.max": "1000\n", "sys/fs/cgroup/a/b/memory.max": "2000\n",
		}, "1000"},
		{"least of two, the inner", map[string]string{
			"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/memory.max": "2000\n", "sys/fs/cgroup/a/b/memory.max": "1000\n",
		}, "1000"},
		{"version 1", map[string]string{
			"proc/self/cgroup": "9:cpu:/x\n4:hugetlb,memory:/slurm/job_1\n", "sys/fs/cgroup/memory/slurm/job_1/memory.limit_in_bytes": "3000\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
		}, "3000"},
		{"nothing", nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := &Record{task: Task{Root: t.TempDir()}}
			write(t, p.task.Root, tt.files)
			if got := p.memoryLimit(); got != tt.want {
				t.Errorf("limit %q, want %q", got, tt.want)
			}
		})
	}
}

// On a CPU without Slurm nothing of GPUs and Slurm is missing: it does not apply.
func TestNotApplicable(t *testing.T) {
	t.Parallel()
	r, facts := settle(t, task(t), map[string]string{"torch": "2.9", "python": "3.11", "device": "cpu"})
	for _, f := range catalogue.Facts() {
		if f.Needed && (f.Group == catalogue.GPU || f.Group == catalogue.Scheduler || f.When == catalogue.OfTorchGPUs) {
			if facts[f.Name] != catalogue.NotApplicable || why(r, f.Name) != "" {
				t.Errorf("%s = %q, missing because %q", f.Name, facts[f.Name], why(r, f.Name))
			}
		}
		if f.Needed && f.When != catalogue.OfLLM && facts[f.Name] == "" && why(r, f.Name) == "" {
			t.Errorf("%s is needed, and neither known nor missing", f.Name)
		}
		if _, ok := r.Provenance[f.Name]; ok && !f.Brief {
			t.Errorf("%s stands in the result", f.Name)
		}
	}
	for key, want := range map[string]string{"gpu": catalogue.NotApplicable, "torch": "2.9", "position": "1 of 2", "batch": "4", "cpbench": "v0"} {
		if r.Provenance[key] != want {
			t.Errorf("%s = %q in the result, want %q", key, r.Provenance[key], want)
		}
	}
	if got := why(r, "setting weights"); got != undeclared {
		t.Errorf("weights: %q", got)
	}
	if got, want := facts["command_line"], `./model "it's n=1" --token (hidden)`; got != want {
		t.Errorf("command line %s, want %s", got, want)
	}
}

// What a GPU task lacks has the reason of its source.
func TestReasons(t *testing.T) {
	t.Parallel()
	gpus := []string{"{time: 5m}", "{time: 5m, gpus_per_node: \"1\"}"}
	tests := []struct {
		name    string
		replace []string
		told    map[string]string
		key     string
		want    string
	}{
		{"no look", gpus, nil, "driver", "the GPUs were not looked at"},
		{"no source", gpus, map[string]string{"telemetry": "none"}, "driver", "there is no source of GPU readings: put cpbench-nvml beside cpbench"},
		{"not told", gpus, map[string]string{"telemetry": "nvml"}, "vbios", "the GPUs' driver did not tell it"},
		{"the second source", gpus, map[string]string{"telemetry": "nvidia-smi"}, "cuda_driver", "nvidia-smi does not tell it: put cpbench-nvml beside cpbench"},
		{"clocks", gpus, map[string]string{"telemetry": "nvml"}, "clocks_locked", "no driver tells it: declare site.clocks_locked"},
		{"own program", nil, map[string]string{"device": "x"}, "torch", "the program did not tell it"},
		{"a command", []string{"kind: model, mode: inference", "kind: command"}, nil, "torch", "a command says nothing of itself: workload.declare"},
		{"another framework", nil, map[string]string{"device": "x", "version jax": "0.5"}, "torch", ""},
		{"the reference model", nil, map[string]string{"device": "x", "reference": "1"}, "setting seed", ""},
		{"dtype", []string{", dtype: bf16", ""}, nil, "dtype", "give workload.dtype"},
		{"no data", []string{`batch: "4"`, `data: "'x.npz'"`}, nil, "data_sha256", "the data could not be read"},
		{"inference", nil, map[string]string{"torch": "2"}, "setting offload", ""},
		{"training", []string{"inference", "training"}, map[string]string{"torch": "2"}, "setting offload", undeclared},
		{"shared", nil, nil, "node_shared", "ask for whole nodes with resources.exclusive, or declare site.node_shared"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, facts := settle(t, task(t, tt.replace...), tt.told)
			if got := why(r, tt.key); got != tt.want {
				t.Errorf("missing because %q, want %q", got, tt.want)
			}
			if tt.want == "" && facts[tt.key] != catalogue.NotApplicable {
				t.Errorf("%s = %q", tt.key, facts[tt.key])
			}
		})
	}
}

func TestClocks(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, declared, seen, want, warning string
	}{
		{"declared and seen flat", "yes", "1980 to 1980 MHz", "yes, as declared", ""},
		{"declared and not seen", "yes", "", "yes, as declared", ""},
		{"declared and seen to vary", "yes", "1410 to 1980 MHz", "yes, as declared", "the GPU clocks varied, although site.clocks_locked says yes"},
		{"declared unlocked", "no", "1980 to 1980 MHz", "no, as declared", "the GPU clocks were not locked"},
		{"seen to vary", "", "1410 to 1980 MHz", "no, they varied", "the GPU clocks were not locked"},
		{"seen flat", "", "1975 to 1980 MHz", "", ""},
		{"unknown", "", "", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			replace := []string{"resources: {time: 5m}", "resources: {time: 5m, gpus_per_node: \"1\"}"}
			if tt.declared != "" {
				replace[1] += "\nsite: {clocks_locked: " + tt.declared + "}"
			}
			r, _ := settle(t, task(t, replace...), map[string]string{"telemetry": "nvml", "sm_clock_observed": tt.seen})
			if got := r.Provenance["clocks_locked"]; got != tt.want {
				t.Errorf("clocks_locked %q, want %q", got, tt.want)
			}
			var told string
			for _, w := range r.Warnings {
				if w.Code == catalogue.ClocksUnlocked {
					told = w.Text
				}
			}
			if told != tt.warning {
				t.Errorf("warning %q, want %q", told, tt.warning)
			}
		})
	}
}

func TestScheduler(t *testing.T) {
	t.Parallel()
	tk := task(t, "{time: 5m}", "{time: 5m, gpus_per_node: \"2\", gpu_type: h200, exclusive: true}\nsite: {gpus_per_node: 2}\nslurm: {account: secretive, extra: [--gpu-freq=high]}")
	tk.Job, tk.Partition, tk.Nodes, tk.Restart = "17_4", "gpu", "n[1-2]", 2
	tk.Environ = []string{
		"SLURM_JOB_ACCOUNT=secretive", "SLURM_JOB_GPUS=2,3", "SLURM_GPUS_ON_NODE=2", "SLURM_JOB_START_TIME=1000", "SLURM_JOB_END_TIME=1360", "SLURM_JOB_USER=me",
	}
	r, facts := settle(t, tk, nil)
	want := map[string]string{
		"slurm_job": "17_4", "slurm_step": "batch", "slurm_partition": "gpu", "slurm_nodes": "n[1-2]", "slurm_restarts": "2",
		"slurm_gres": "asked for gpu:h200:2, granted 2 (ids 2,3)", "slurm_time_limit": "asked for 5m0s, granted 6m0s", "slurm_gpu_freq": "high",
		"slurm_bind": "not asked for", "slurm_dependency": "none", "node_shared": "no", "env SLURM_JOB_GPUS": "2,3",
	}
	for key, v := range want {
		if facts[key] != v {
			t.Errorf("%s = %q, want %q", key, facts[key], v)
		}
	}
	for key, v := range facts {
		if strings.Contains(v, "secretive") || key == "env SLURM_JOB_USER" {
			t.Errorf("%s tells %q", key, v)
		}
	}
	if r.Provenance["slurm_job"] != "17_4" {
		t.Error("no job in the result")
	}
}

func TestNear(t *testing.T) {
	t.Parallel()
	tk := task(t, "{time: 5m}", "{time: 5m, gpus_per_node: \"1\"}")
	write(t, tk.Root, machine)
	_, facts := settle(t, tk, map[string]string{"gpu": "H200", "gpu_pci": "00000000:1B:00.0 + ../../etc"})
	want := map[string]string{"gpu_cpu_affinity": "0-31", "gpu_links": "32.0 GT/s PCIe x16", "mps": "no"}
	for key, v := range want {
		if facts[key] != v {
			t.Errorf("%s = %q, want %q", key, facts[key], v)
		}
	}
}

// A program of an image may see another value than the sweep sets. Values of variables that are not on the list stay
// out of it.
func TestEnvDiffers(t *testing.T) {
	t.Parallel()
	tk := task(t, "resources:", "env: {NCCL_ALGO: Ring, NCCL_PROTO: LL, NCCL_KEY: a, MINE: private1, SAME: private2}\nresources:")
	r, facts := settle(t, tk, map[string]string{
		"setting NCCL_ALGO": "Tree", "setting NCCL_PROTO": "LL", "setting NCCL_KEY": "b", "setting MINE": "(not set)", "setting SAME": "private2",
	})
	var texts []string
	for _, w := range r.Warnings {
		texts = append(texts, string(w.Code)+": "+w.Text)
	}
	want := []string{
		"env_differs: the program saw another MINE than the sweep sets",
		"env_differs: the sweep sets NCCL_ALGO=Ring, but the program saw Tree",
		"env_differs: the program saw another NCCL_KEY than the sweep sets",
	}
	if diff := cmp.Diff(want, texts); diff != "" {
		t.Error(diff)
	}
	for key, want := range map[string]string{"env NCCL_ALGO": "Ring", "setting NCCL_ALGO": "Tree", "env NCCL_KEY": Hidden, "env MINE": "", "setting MINE": "", "setting SAME": ""} {
		if facts[key] != want {
			t.Errorf("%s = %q, want %q", key, facts[key], want)
		}
	}
}

// What nobody has seen is as the sweep declares it, and marked so. What the program tells goes before.
func TestDeclared(t *testing.T) {
	t.Parallel()
	const declare = `kind: command, declare: {torch: "2.5.1", boltz: "2.1.1", model: b, weights: api_key=s3cr3t}`
	command := []string{"kind: model, mode: inference", declare}
	r, facts := settle(t, task(t, command...), map[string]string{"setting model": "c"})
	for key, want := range map[string]string{
		"torch": "2.5.1, as declared", "version boltz": "2.1.1, as declared", "setting model": "c", "setting weights": "api_key=" + Hidden + ", as declared",
	} {
		if facts[key] != want {
			t.Errorf("%s = %q, want %q", key, facts[key], want)
		}
	}
	if len(r.Warnings) != 1 || r.Warnings[0].Code != catalogue.DeclaredAmiss || r.Warnings[0].Text != "the sweep declares model b, but it is c" {
		t.Errorf("%+v", r.Warnings)
	}
	if got := why(r, "setting seed"); got != "a command says nothing of itself: workload.declare" {
		t.Errorf("seed: %q", got)
	}
	command[1] = strings.Replace(declare, `"2.5.1"`, "none", 1)
	if r, _ := settle(t, task(t, command...), nil); why(r, "setting seed") != "" {
		t.Errorf("a program without PyTorch has to tell its settings: %+v", r.Missing)
	}
	if r, _ := settle(t, task(t, "kind: model, ", "kind: model, declare: {jax: '0.7'}, "), nil); why(r, "setting seed") == "" {
		t.Errorf("a declared version is not the word of a program without PyTorch: %+v", r.Missing)
	}
	server := `workload: {kind: llm, declare: {torch: "2.5.1"}, label: A, cache: cold, data: synth, ctx: 0, concurrency: 1, max_tokens: 5, server: {url: "http://127.0.0.1:1"}}`
	r, facts = settle(t, task(t, sweep, "version: 1\nname: s\n"+server), nil)
	if facts["torch"] != "2.5.1, as declared" || why(r, "setting seed") != "" || why(r, "server") == "" {
		t.Errorf("a server that runs on PyTorch has to tell what a model does: %q, %+v", facts["torch"], r.Missing)
	}
}

// Only keys of the catalogue are written, whatever a session tells.
func TestKeys(t *testing.T) {
	t.Parallel()
	tk := task(t)
	tk.Environ, tk.Job = []string{"NCCL_DEBUG=WARN", "HOME=/home/me"}, "1"
	_, facts := settle(t, tk, map[string]string{"of my own": "1", "loss": "2"})
	for key := range facts {
		if _, ok := catalogue.FactByName(key); !ok {
			t.Errorf("the catalogue does not know %q", key)
		}
	}
	if facts["setting loss"] != "2" || facts["env NCCL_DEBUG"] != "WARN" || facts["env HOME"] != "" {
		t.Errorf("%v", facts)
	}
}
