package catalogue

import (
	"regexp"
	"slices"
	"strings"
)

// Group is a part of the conditions under which a number was measured.
type Group string

// The groups, in the order of the documentation.
const (
	Identity  Group = "identity"
	Protocol  Group = "protocol"
	Workload  Group = "workload"
	GPU       Group = "gpu"
	Software  Group = "software"
	Host      Group = "host"
	Scheduler Group = "scheduler"
)

// When says to which executions a fact applies.
type When string

// The conditions. A fact that is needed and does not apply has the value NotApplicable.
const (
	Always      When = "always"
	OfModels    When = "kind: model"
	OfLLM       When = "kind: llm"
	WithGPUs    When = "GPUs"
	OfTorch     When = "PyTorch"
	OfTorchGPUs When = "PyTorch on GPUs"
	InTraining  When = "training"
	WithData    When = "data from a file"
	InContainer When = "a container of the sweep"
	UnderSlurm  When = "Slurm"
)

// NotApplicable is the value of a needed fact that the execution cannot have, such as the driver of a run on a CPU.
const NotApplicable = "not applicable"

// AsDeclared ends the value of a fact that the sweep declares and nobody has seen.
const AsDeclared = ", as declared"

// Unit of a fact that is a text.
const text = ""

// Fact describes one key of the provenance.
type Fact struct {
	Name   string // for example driver; one that ends in a star, such as `env *`, stands for every key that begins so
	Group  Group
	When   When // it applies
	Needed bool // a table is publishable only if it is known
	Brief  bool // stands in every result; the others stand in the task's provenance.json
	Unit   string
	Help   string
}

// Facts lists every key of the provenance in the order of the documentation. A worker writes no other.
func Facts() []Fact { return slices.Clone(facts) }

const needed, brief = true, true

var facts = []Fact{
	{"cpbench", Identity, Always, needed, brief, text, "version of the worker"},
	{"cpbench_revision", Identity, Always, needed, !brief, text, "revision from which it was built"},
	{"cpbench_modified", Identity, Always, needed, !brief, text, "whether its source had changes beyond that revision: yes or no"},
	{"command_line", Identity, Always, needed, !brief, text, "the program and its arguments, as they were run"},
	{"go", Identity, Always, !needed, !brief, text, "Go that built the worker"},

	{"mode", Workload, OfModels, needed, !brief, text, "inference or training"},
	{"dtype", Workload, Always, needed, !brief, text, "workload.dtype"},
	{"data", Workload, OfModels, needed, !brief, text, "synthesized, or the file"},
	{"data_sha256", Workload, WithData, needed, !brief, text, "of the data's file; above 256 MiB of its size, first and last MiB"},
	{"server", Workload, OfLLM, needed, brief, text, "kind of the server, such as vllm"},
	{"server_version", Workload, OfLLM, needed, brief, text, "as the server tells it"},
	{"served_model", Workload, OfLLM, needed, brief, text, "id of the model at the server"},
	{"served_root", Workload, OfLLM, needed, brief, text, "path or name from which the server has loaded the model"},
	{"served_limit_tokens", Workload, OfLLM, !needed, brief, "tokens", "largest context that the server tells"},
	{"server_started", Workload, OfLLM, !needed, brief, text, "when the server's processes began, as its metrics tell"},
	{"prompts", Workload, OfLLM, needed, brief, text, "name and version of what made the prompts"},
	{"prompts_corpus", Workload, OfLLM, !needed, !brief, text, "SHA-256 of the files that prompts come from"},
	{"batch", Workload, Always, !needed, brief, text, "the name `batch` of workload.point, if there is one"},
	{"reference", Workload, OfModels, !needed, brief, text, "the built-in reference model stands for a real one"},
	{"setting model", Workload, OfTorch, needed, brief, text, "name and revision of the model, as the hooks declare it"},
	{"setting weights", Workload, OfTorch, needed, !brief, text, "hash of the weights, or `random`, as the hooks declare it"},
	{"setting seed", Workload, OfTorch, needed, !brief, text, "of the random numbers of model and data"},
	{"setting autocast", Workload, OfTorch, !needed, !brief, text, "dtype of autocast, as the hooks declare it; else whether it is on outside of the steps"},
	{"setting compile", Workload, OfTorch, needed, !brief, text, "whether torch.compile is at work in the built model, or what the hooks declare"},
	{"setting attention", Workload, OfTorch, needed, !brief, text, "backends that torch's attention may choose from, or what the hooks declare"},
	{"setting deterministic", Workload, OfTorch, needed, !brief, text, "torch.use_deterministic_algorithms"},
	{"setting matmul_precision", Workload, OfTorch, needed, !brief, text, "of float32 products"},
	{"setting tf32_matmul", Workload, OfTorchGPUs, needed, !brief, text, "whether products may use TF32"},
	{"setting tf32_cudnn", Workload, OfTorchGPUs, needed, !brief, text, "whether cuDNN may use TF32"},
	{"setting cudnn_benchmark", Workload, OfTorchGPUs, needed, !brief, text, "whether cuDNN chooses its kernels by timing"},
	{"setting cudnn_deterministic", Workload, OfTorchGPUs, !needed, !brief, text, "whether cuDNN is held to deterministic kernels"},
	{"setting checkpointing", Workload, InTraining, needed, !brief, text, "activation checkpointing, as the hooks declare it"},
	{"setting offload", Workload, InTraining, needed, !brief, text, "offload to host memory, as the hooks declare it"},
	{"setting *", Workload, Always, !needed, !brief, text, "anything else that the program says is in effect"},

	{"warmup", Protocol, Always, needed, !brief, text, "rule of the warm-up; its count is `warmup_steps` of the result"},
	{"iterations", Protocol, Always, needed, !brief, text, "timed steps asked for"},
	{"order", Protocol, Always, needed, !brief, text, "of the executions, and the seed of its shuffle"},
	{"position", Protocol, Always, needed, brief, text, "of this execution in its task"},
	{"fresh_process", Protocol, Always, needed, !brief, text, "whether the execution had new processes"},
	{"clock", Protocol, Always, needed, !brief, text, "that timed the steps"},
	{"aggregation", Protocol, Always, needed, !brief, text, "of the times of the ranks"},
	{"sync", Protocol, Always, needed, !brief, text, "what happens at both ends of a timed step"},

	{"gpu", GPU, WithGPUs, needed, brief, text, "model"},
	{"device", GPU, OfModels, !needed, brief, text, "what the ranks say they compute on"},
	{"gpu_count", GPU, WithGPUs, needed, !brief, text, "GPUs of the first node that the task may use"},
	{"gpu_uuid", GPU, WithGPUs, needed, !brief, text, "of each GPU"},
	{"gpu_pci", GPU, WithGPUs, needed, !brief, text, "bus id of each GPU of the first node"},
	{"gpu_memory_bytes", GPU, WithGPUs, needed, !brief, "bytes", "memory of each GPU"},
	{"driver", GPU, WithGPUs, needed, brief, text, "version of the driver"},
	{"cuda_driver", GPU, WithGPUs, needed, !brief, text, "CUDA version that the driver offers"},
	{"vbios", GPU, WithGPUs, needed, !brief, text, "version of the firmware"},
	{"compute_mode", GPU, WithGPUs, needed, !brief, text, "default, exclusive_process, exclusive_thread or prohibited"},
	{"persistence", GPU, WithGPUs, needed, !brief, text, "persistence mode"},
	{"ecc", GPU, WithGPUs, needed, !brief, text, "error correction of the memory"},
	{"mig", GPU, WithGPUs, needed, !brief, text, "whether GPUs are divided"},
	{"mps", GPU, WithGPUs, needed, !brief, text, "whether a multi-process service is in use"},
	{"power_limit_watts", GPU, WithGPUs, needed, !brief, "watts", "limit in force"},
	{"power_limit_default_watts", GPU, WithGPUs, needed, !brief, "watts", "limit of the model"},
	{"sm_clock_max_hertz", GPU, WithGPUs, needed, !brief, "hertz", "highest SM clock"},
	{"memory_clock_max_hertz", GPU, WithGPUs, needed, !brief, "hertz", "highest memory clock"},
	{"clocks_locked", GPU, WithGPUs, needed, brief, text, "yes, as declared by site.clocks_locked; no, as declared or as seen; no driver tells it"},
	{"sm_clock_observed", GPU, WithGPUs, !needed, brief, text, "lowest and highest SM clock that was read during the timed steps"},
	{"gpu_cpu_affinity", GPU, WithGPUs, !needed, !brief, text, "CPUs that are near each GPU"},
	{"gpu_links", GPU, WithGPUs, !needed, !brief, text, "present PCIe link of each GPU"},
	{"telemetry", GPU, WithGPUs, needed, brief, text, "source of the readings"},

	{"python", Software, OfTorch, needed, !brief, text, "version"},
	{"torch", Software, OfTorch, needed, brief, text, "version"},
	{"cuda", Software, OfTorchGPUs, needed, brief, text, "CUDA version of PyTorch"},
	{"hip", Software, OfTorchGPUs, !needed, brief, text, "HIP version of PyTorch"},
	{"cudnn", Software, OfTorchGPUs, needed, !brief, text, "version"},
	{"nccl", Software, OfTorchGPUs, needed, brief, text, "version"},
	{"triton", Software, OfTorchGPUs, needed, !brief, text, "version, or `not installed`"},
	{"flash_attention", Software, OfTorchGPUs, needed, !brief, text, "version, or `not installed`"},
	{"version *", Software, Always, !needed, !brief, text, "of anything else that the program names"},
	{"setting allocator", Software, OfTorch, needed, !brief, text, "settings of the allocator in effect"},
	{"container", Software, Always, needed, !brief, text, "runtime and image in which the program ran, or none"},
	{"container_digest", Software, InContainer, needed, !brief, text, "of the image: that of its name, or sha256 of the file's size, first and last MiB"},
	{"env *", Software, Always, !needed, !brief, text, "variable that the program was given and that may change the numbers; what looks like a secret is hidden"},

	{"host", Host, Always, needed, brief, text, "name of the first node"},
	{"hosts", Host, Always, !needed, brief, text, "names of all nodes, if there are several"},
	{"kernel", Host, Always, needed, brief, text, "release"},
	{"cpu", Host, Always, needed, brief, text, "model"},
	{"cpus_allowed", Host, Always, needed, brief, text, "number of CPUs that the task may use"},
	{"cpu_set", Host, Always, needed, !brief, text, "those CPUs"},
	{"numa_nodes", Host, Always, needed, !brief, text, "NUMA nodes whose memory the task may use"},
	{"governor", Host, Always, needed, !brief, text, "of the clock of those CPUs"},
	{"memory_limit_bytes", Host, Always, needed, !brief, "bytes", "least memory limit of the control groups, or none"},
	{"load", Host, Always, needed, !brief, text, "load averages of the node at the start of the task"},
	{"node_shared", Host, Always, needed, brief, text, "no if the whole node was asked for, else as declared by site.node_shared"},

	{"slurm_job", Scheduler, UnderSlurm, needed, brief, text, "id of the job"},
	{"slurm_step", Scheduler, UnderSlurm, needed, !brief, text, "id of the step of the worker"},
	{"slurm_partition", Scheduler, UnderSlurm, needed, brief, text, "partition"},
	{"slurm_nodes", Scheduler, UnderSlurm, needed, brief, text, "nodes"},
	{"slurm_gres", Scheduler, UnderSlurm, needed, !brief, text, "GPUs on each node: asked for and granted"},
	{"slurm_time_limit", Scheduler, UnderSlurm, needed, !brief, text, "asked for and, if Slurm tells it, granted"},
	{"slurm_restarts", Scheduler, UnderSlurm, needed, !brief, text, "how often Slurm had started the job again"},
	{"slurm_gpu_freq", Scheduler, UnderSlurm, needed, !brief, text, "clocks asked for by --gpu-freq, or `not asked for`"},
	{"slurm_bind", Scheduler, UnderSlurm, needed, !brief, text, "binding to CPUs, or `not asked for`"},
	{"slurm_dependency", Scheduler, UnderSlurm, needed, !brief, text, "of the job, or `none`"},
}

// FactByName returns the catalogue's entry for a key: its own, else that of its family.
func FactByName(name string) (Fact, bool) {
	f, ok := factIndex[name]
	if !ok {
		if family, _, found := strings.Cut(name, " "); found {
			f, ok = factIndex[family+" *"]
		}
	}
	return f, ok
}

// Declared is the key of the fact that a spec may declare by a name: a setting, software, or what a server does not
// tell; a name that the catalogue does not have is that of a version. It is false for facts that cpbench finds out by
// itself, and for a name that is none.
func Declared(name string) (key string, ok bool) {
	if !declarable.MatchString(name) {
		return "", false
	}
	if _, ok := factIndex["setting "+name]; ok {
		return "setting " + name, true
	}
	if f, ok := factIndex[name]; ok {
		return name, f.Group == Software || f.When == OfLLM
	}
	return "version " + name, true
}

var declarable = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,63}$`)

var factIndex = func() map[string]Fact {
	index := map[string]Fact{}
	for _, f := range facts {
		index[f.Name] = f
	}
	return index
}()
