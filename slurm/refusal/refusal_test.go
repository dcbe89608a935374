package refusal

import (
	"context"
	"errors"
	"strings"
	"testing"

	"cpbench/slurm"
	"cpbench/slurm/site"
)

// TestExplain is for refusals that the cluster of TestRefusals does not give: the texts are those of slurm_errno.c.
func TestExplain(t *testing.T) {
	t.Parallel()
	limit, jobs := 1001, 10000
	known := &site.Site{
		Config: &site.Config{MaxArraySize: &limit, MaxJobCount: &jobs, EnforcePartLimits: "NO", MaxScriptSize: 4 << 20}, User: "ann",
		Partitions: []site.Partition{{Name: "gpu", Default: true, State: "UP", AllowGroups: []string{"physics"}, TotalNodes: 2, Nodes: []site.Nodes{{State: "idle", Count: 2, CPUs: 8, MiB: 16000, GRES: []site.GRES{{Name: "gpu", Type: "h100", Count: 8}}}}}},
	}
	fits := site.Request{Nodes: 1, CPUsPerTask: 1, Tasks: 10, LastIndex: 9}
	for _, test := range []struct {
		said string
		want []string
	}{
		{"sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying", []string{"all users together", "MaxJobCount is 10000", "--limit"}},
		{"sbatch: error: Batch job submission failed: Access/permission denied", []string{"submit from a login node"}},
		{"sbatch: error: Job submission is not allowed from this host", []string{"submit from a login node"}},
		{"sbatch: error: Batch job submission failed: Pathname of a file, directory or other parameter too long", []string{"those of cpbench never are", "4194304 bytes"}},
		{"sbatch: error: Batch job submission failed: Invalid job array specification", []string{"MaxArraySize is 1001, and this array has 10 tasks, the last with index 9", "max_array_tasks"}},
		{"sbatch: error: Batch job submission failed: User's group not permitted to use this partition", []string{"partition gpu is for physics"}},
		{"sbatch: error: Batch job submission failed: Required partition not available (inactive or drain)", []string{"takes no jobs now", "partitions there are: gpu"}},
		{"sbatch: error: Batch job submission failed: Requested node configuration is not available", []string{"nodes of partition gpu: 2 with 8 CPUs, 16000 MiB, 8 gpu:h100"}},
		{"sbatch: error: Invalid generic resource (gres) specification", []string{"generic resources there are: gpu:h100"}},
		{"sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)", []string{"scontrol ping"}},
		{"sbatch: error: Batch script is empty!", []string{"was given nothing"}},
		{"sbatch: error: Batch script contains DOS line breaks (\\r\\n)", []string{"not a script as cpbench wrote it"}},
		{"sbatch: unrecognized option '--oom-kill-step=1'", []string{"slurm.extra"}},
		{"sbatch: error: QOSMaxGRESPerJob; sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)", []string{"more than the account or the QOS allows", "sacctmgr show qos"}},
		{"sbatch: error: the moon is full", nil},
		{"", nil},
	} {
		e, ok := explain(test.said, func() *site.Site { return known }, fits)
		if ok != (test.want != nil) {
			t.Errorf("%q is known: %v", test.said, ok)
			continue
		}
		for _, want := range test.want {
			if got := strings.Join(e.Lines(), "\n"); !strings.Contains(got, want) {
				t.Errorf("%q is explained as\n%s\nwithout %q", test.said, got, want)
			}
		}
	}
}

// TestTable holds for each row: its first text finds it, and it ends in something to do, also where the site is silent.
func TestTable(t *testing.T) {
	t.Parallel()
	for _, r := range table {
		for _, text := range r.texts {
			e, ok := explain(text, func() *site.Site { return &site.Site{} }, site.Request{})
			if !ok || e.Meaning != r.meaning {
				t.Errorf("%q is explained as %q, not %q", text, e.Meaning, r.meaning)
			}
			if r.general != nil && len(e.Advice) == 0 {
				t.Errorf("%q: nothing to do", text)
			}
		}
	}
}

// TestForeign leaves errors alone that do not come from Slurm.
func TestForeign(t *testing.T) {
	t.Parallel()
	if e, ok := Explain(context.Background(), &slurm.Slurm{}, errors.New("Invalid qos specification"), slurm.Job{}); ok {
		t.Errorf("explained as %v", e)
	}
}
