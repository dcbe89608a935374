package slurm_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"cpbench/slurm"
)

var strayEnv = []string{
	"SBATCH_PARTITION=debug", "PATH=/bin", "SBATCH_ARRAY_INX=7", "SBATCH_QOS=", "SBATCH_DEBUG=1", "SBATCH_IGNORE_PBS=1",
	"SLURM_CONF=/etc/slurm conf", "SLURM_JWT=pass", "SLURM_ARRAY_TASK_ID=3", "SLURM_CONFUSED=1", "SQUEUE_USERS=me",
	"SCANCEL_STATE=PENDING", "SACCT_FORMAT=jobid", "MY_SBATCH_X=1", "NAME=a=b",
}

func TestOverrides(t *testing.T) {
	t.Parallel()
	want := []string{"SBATCH_ARRAY_INX=7", "SBATCH_PARTITION=debug", "SBATCH_QOS="}
	if diff := cmp.Diff(want, slurm.Overrides(strayEnv)); diff != "" {
		t.Errorf("Overrides (-want +got):\n%s", diff)
	}
	if got := slurm.Overrides([]string{"PATH=/bin"}); got != nil {
		t.Errorf("Overrides without any = %q", got)
	}
}

func TestClean(t *testing.T) {
	t.Parallel()
	before := append([]string(nil), strayEnv...)
	want := []string{"PATH=/bin", "SLURM_CONF=/etc/slurm conf", "SLURM_JWT=pass", "MY_SBATCH_X=1", "NAME=a=b"}
	if diff := cmp.Diff(want, slurm.Clean(strayEnv)); diff != "" {
		t.Errorf("Clean (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, strayEnv); diff != "" {
		t.Errorf("Clean changed its argument (-before +after):\n%s", diff)
	}
}
