package provenance

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"cpbench/plan/catalogue"
	"cpbench/worker/result"
)

// prefixes of the variables that may change what is measured.
var prefixes = []string{"CUDA_", "NCCL_", "TORCH_", "TORCHDYNAMO_", "TORCHINDUCTOR_", "PYTORCH_", "XLA_", "OMP_", "UCX_", "HSA_", "ROCR_"}

// slurmNames are the variables of Slurm's that say what was granted and how. The others say who and to whose account.
var slurmNames = []string{
	"SLURM_CLUSTER_NAME", "SLURM_CPUS_ON_NODE", "SLURM_CPUS_PER_GPU", "SLURM_CPUS_PER_TASK", "SLURM_CPU_BIND", "SLURM_CPU_BIND_TYPE",
	"SLURM_CPU_FREQ_REQ", "SLURM_DISTRIBUTION", "SLURM_GPUS", "SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE", "SLURM_GPUS_PER_TASK", "SLURM_GPU_BIND",
	"SLURM_GPU_FREQ", "SLURM_HINT", "SLURM_JOB_CPUS_PER_NODE", "SLURM_JOB_GPUS", "SLURM_JOB_NUM_NODES", "SLURM_JOB_NODELIST",
	"SLURM_MEM_BIND", "SLURM_MEM_PER_CPU", "SLURM_MEM_PER_GPU", "SLURM_MEM_PER_NODE", "SLURM_NTASKS", "SLURM_NTASKS_PER_NODE",
	"SLURM_OVERCOMMIT", "SLURM_STEP_GPUS", "SLURM_TASKS_PER_NODE", "SLURM_THREADS_PER_CORE", "SLURM_TOPOLOGY_ADDR",
}

// Telling reports whether a variable of the environment may stand in a result: it has one of the listed prefixes, or
// is one of the listed variables of Slurm.
func Telling(name string) bool {
	return slices.Contains(slurmNames, name) || slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// environment is what may be told of the environment of a point's programs: the worker's, then the sweep's.
func (p *Record) environment(own map[string]string) map[string]string {
	list := map[string]string{}
	for _, env := range []map[string]string{p.env, own} {
		for name, value := range env {
			if Telling(name) {
				list[name] = value
			}
		}
	}
	return list
}

// Hidden stands for a value that looks like a secret.
const Hidden = "(hidden)"

var (
	userinfo  = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[^/?#\s@]*@`)
	parameter = regexp.MustCompile(`([A-Za-z0-9_.-]+)("?\s*[=:]\s*"?(?i:bearer\s+|basic\s+)?)([^\s&;,"]+)`)
	// tokens are values that betray themselves: those of well-known hosts of code and models, and JSON Web Tokens.
	tokens = regexp.MustCompile(`\b(?:gh[pousr]_|github_pat_|glpat-|hf_|sk-|xox[abprs]-|AKIA)[A-Za-z0-9_-]{10,}|\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*`)
)

// Redact hides in the value of a name what looks like a secret: the whole value if the name speaks of one, else
// credentials in addresses, parameters that speak of one, and well-known forms of tokens.
func Redact(name, value string) string {
	if secret(name) {
		return Hidden
	}
	value = userinfo.ReplaceAllString(value, "${1}"+Hidden+"@")
	value = parameter.ReplaceAllStringFunc(value, func(pair string) string {
		m := parameter.FindStringSubmatch(pair)
		if !secret(m[1]) {
			return pair
		}
		return m[1] + m[2] + Hidden
	})
	return tokens.ReplaceAllString(value, Hidden)
}

// secret reports whether a name speaks of a secret. A variable of the environment, in capitals, does so already if a
// part of it does. Elsewhere only whole words do: tokens are also what a model computes on.
func secret(name string) bool {
	_, own, found := strings.Cut(name, " ")
	if !found {
		own = name
	}
	if own == strings.ToUpper(own) {
		return slices.ContainsFunc([]string{"KEY", "TOKEN", "SECRET", "PASSW", "PASSPHRASE", "CREDENTIAL", "AUTH", "COOKIE", "JWT"}, func(s string) bool {
			return strings.Contains(own, s)
		})
	}
	return slices.ContainsFunc(strings.FieldsFunc(own, func(r rune) bool { return r == '_' || r == '-' || r == '.' || r == ' ' }), func(word string) bool {
		word = strings.ToLower(word)
		return word == "auth" || word == "pass" || word == "pwd" || slices.ContainsFunc(
			[]string{"key", "token", "secret", "secrets", "password", "passwd", "passphrase", "credential", "credentials", "authorization", "cookie", "jwt"},
			func(end string) bool { return strings.HasSuffix(word, end) })
	})
}

// RedactArgument hides what looks like a secret in one argument of a command: also where the one before it, such as
// --token, says that one follows.
func RedactArgument(args []string, i int) string {
	if i > 0 && strings.HasPrefix(args[i-1], "-") && !strings.Contains(args[i-1], "=") && secret(strings.TrimLeft(args[i-1], "-")) {
		return Hidden
	}
	return Redact("", args[i])
}

// compareEnv doubts variables of the sweep of which a program says that it saw another value: an image may set its own.
// Of a variable that is not on the list only that much is told.
func (p *Record) compareEnv(told map[string]string, r *result.Result) {
	for _, name := range slices.Sorted(maps.Keys(p.swept[r.Point])) {
		set := p.swept[r.Point][name]
		saw, known := told["setting "+name]
		switch {
		case !known || saw == set:
		case Telling(name) && !secret(name):
			r.Warn(catalogue.EnvDiffers, fmt.Sprintf("the sweep sets %s=%s, but the program saw %s", name, Redact(name, set), Redact(name, saw)), "does the container's image set it?")
		default:
			r.Warn(catalogue.EnvDiffers, fmt.Sprintf("the program saw another %s than the sweep sets", name), "does the container's image set it?")
		}
		if known && !Telling(name) {
			delete(told, "setting "+name)
		}
	}
}
