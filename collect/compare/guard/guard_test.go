package guard

import (
	"testing"

	"cpbench/plan"
	"cpbench/plan/catalogue"
)

// TestCovered: a name stands for all below it and for what follows from it, and for nothing that only begins like it.
func TestCovered(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		key, name string
		want      bool
	}{
		{"workload.sampling.temperature", "workload.sampling", true},
		{"workload.sampling", "workload.sampling.temperature", false},
		{"workload.samplings", "workload.sampling", false},
		{"setting attention", "setting", true},
		{"settings", "setting", false},
		{"env.NCCL_ALGO", "env", true},
		{"env NCCL_ALGO", "env.NCCL_ALGO", true}, // what the sweep sets is what the program was given
		{"env NCCL_ALGO2", "env.NCCL_ALGO", false},
		{"workload.server.url", Label, true},
		{"server_version", Label, true},
		{"served_root", Label, false}, // another model is no variant of this one
		{"cudnn", "torch", true},
		{"gpu", "torch", false},
		{"driver", "gpu", false},
		{"cpbench_revision", "cpbench", true},
		{"", "gpu", false},
	} {
		if got := covered(tt.key, []string{"nothing", tt.name}); got != tt.want {
			t.Errorf("%q is covered by %q: %v", tt.key, tt.name, got)
		}
	}
}

func TestWeigh(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		key, rowCase string
		want         weight
	}{
		{"served_root", "", strict},
		{"of a newer version", "", strict},
		{"host", "", beside},
		{"slurm_job", "", free},
		{"slurm_bind", "", beside},
		{"workload.ctx", "", free},
		{"workload.timeouts.idle", "", free},
		{"workload.timeout", "", free},
		{"workload.goodput.ttft_ms", "", beside},
		{"workload.max_fit.to", "", free},
		{"workload.max_fit.to", plan.CaseMaxFit, strict},
		{"workload.mixed.delay", "", free},
		{"workload.mixed.delay", plan.CaseMixed, strict},
		{"env SLURM_JOB_ID", "", free},
		{"env NCCL_DEBUG", "", strict},
		{"env CUDA_VISIBLE_DEVICES", "", free},
		{"resources.gpu_type", "", strict},
		{"resources.time", "", free},
	} {
		if got := weigh(tt.key, tt.rowCase); got != tt.want {
			t.Errorf("%q weighs %d in case %q, want %d", tt.key, got, tt.rowCase, tt.want)
		}
	}
}

// TestListsAreOfTheCatalogue: a fact that was renamed would silently become strict.
func TestListsAreOfTheCatalogue(t *testing.T) {
	t.Parallel()
	for _, list := range [][]string{factsFree, factsBeside, ofShape, core} {
		for _, name := range list {
			if _, ok := catalogue.FactByName(name); !ok {
				t.Errorf("the catalogue has no fact %q", name)
			}
		}
	}
}

func TestShort(t *testing.T) {
	t.Parallel()
	long := ""
	for range 100 {
		long += "ä"
	}
	if got := Short([]string{long, "b", "c", "d", "e", "f"}); got != long[:160]+"…, b, c, d and 2 more" {
		t.Errorf("%q", got)
	}
}
