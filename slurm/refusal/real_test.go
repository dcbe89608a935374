package refusal_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"cpbench/plan"
	"cpbench/plan/folder"
	"cpbench/slurm"
	"cpbench/slurm/refusal"
	"cpbench/slurm/slurmtest"
)

// strict is a cluster that checks everything, and a user on it who is not root: root may do more.
func strict(t *testing.T) *slurm.Slurm {
	t.Helper()
	c := slurmtest.Start(t, slurmtest.Options{Accounting: true, Extra: []string{"AccountingStorageEnforce=associations,limits,qos", "EnforcePartLimits=ALL"}})
	for _, words := range []string{
		"add account proj", "add account other",
		"add qos small MaxSubmitJobsPerUser=3 MaxWall=00:30:00 Flags=DenyOnLimit",
		"add user nobody account=proj QOS=normal,small DefaultQOS=normal",
		"add user nobody account=other partition=short MaxSubmitJobs=2", "add user root account=proj QOS=normal,small", "add user root account=other partition=short MaxSubmitJobs=2",
	} {
		if out, err := c.Command("sacctmgr", append([]string{"-i"}, strings.Fields(words)...)...).CombinedOutput(); err != nil {
			t.Fatalf("sacctmgr %s: %v: %s", words, err, out)
		}
	}
	for _, words := range []string{
		"PartitionName=accounts Nodes=n1 AllowAccounts=other", "PartitionName=qos Nodes=n1 AllowQos=normal", "PartitionName=groups Nodes=n1 AllowGroups=daemon",
		"PartitionName=closed Nodes=n1 State=INACTIVE", "PartitionName=wide Nodes=n[1-2] MinNodes=2", "PartitionName=there Nodes=n1 AllocNodes=n2",
	} {
		if out, err := c.Command("scontrol", append([]string{"create"}, strings.Fields(words)...)...).CombinedOutput(); err != nil {
			t.Fatalf("scontrol create %s: %v: %s", words, err, out)
		}
	}
	bin := t.TempDir()
	for _, name := range []string{"sbatch", "scontrol", "sinfo", "sacctmgr"} {
		become := ""
		if name == "sbatch" {
			become = "runuser -u nobody -- "
		}
		script := fmt.Sprintf("#!/bin/sh\nexec %s%s/%s \"$@\"\n", become, c.Bin, name)
		slurmtest.Executable(t, filepath.Join(bin, name), script)
	}
	return &slurm.Slurm{Bin: bin, Dir: "/tmp", Env: c.Env()}
}

// job plans a sweep of those keys; they replace what would be accepted.
func job(t *testing.T, keys string) slurm.Job {
	t.Helper()
	text := "version: 1\nname: refused\nmatrix: {n: [1, 2]}\nworkload: {kind: command, command: [/bin/true], ranks: 3}\n" + keys
	spec, err := plan.Load("refused.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := plan.New(spec, plan.Options{Source: "/tmp/refused.yaml", MaxArraySize: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	a := &p.Arrays[0]
	a.Lengths = make([]int, len(a.Tasks))
	return slurm.Job{Run: &folder.Run{Dir: "/tmp/refused-20261130T000000Z", Plan: p}, Attempt: 1}
}

// TestRefusals has a real sbatch refuse scripts as cpbench writes them.
func TestSlurmRefusals(t *testing.T) {
	t.Parallel()
	s := strict(t)
	for _, test := range []struct {
		name, keys string
		said       string   // a part of sbatch's words
		want       []string // parts of the explanation
	}{
		{"partition", "slurm: {partition: gpuu, account: proj}", "invalid partition specified: gpuu", []string{"no partition of that name", `slurm.partition: there is no partition "gpuu"; choose from gpu, `, "sinfo -s"}},
		{"account", "slurm: {account: porj}", "Invalid account or account/partition", []string{"slurm.account is missing, wrong", `may not charge account "porj" in partition "gpu"; choose from proj`, "sacctmgr show assoc"}},
		{"account of another partition", "slurm: {account: other}", "Invalid account or account/partition", []string{`may not charge account "other" in partition "gpu"`}},
		{"qos", "slurm: {account: proj, qos: smal}", "Invalid qos specification", []string{`slurm.qos: QOS "smal" is not allowed for user root; choose from small, normal`}},
		{"tasks of a QOS", "slurm: {account: proj, qos: small}\nrepeats: 2\n", "QOSMaxSubmitJobPerUserLimit", []string{"more tasks than you may have in the queue", "pack: 4 tasks are more jobs than QOS small lets a user queue at once (3); plan with --limit 3", "squeue -r"}},
		{"tasks of an account", "slurm: {account: other, partition: short}\nrepeats: 2\nresources: {time: 60s}\n", "AssocMaxSubmitJobLimit", []string{"more tasks than you may have", "4 tasks are more jobs than account other lets a user queue at once (2)"}},
		{"time of a QOS", "slurm: {account: proj, qos: small}\nresources: {time: 1h}\n", "QOSMaxWallDurationPerJobLimit", []string{"resources.time: a task asks for 01:00:00, and QOS small allows 00:30:00"}},
		{"time", "slurm: {account: proj, partition: gpu}\nresources: {time: 3h}\n", "Requested time limit is invalid", []string{"partition gpu allows 02:00:00: sbatch refuses it; ask for at most 02:00:00"}},
		{"GPUs", "slurm: {account: proj}\nresources: {gpus_per_node: 9}\n", "Requested node configuration is not available", []string{"asks for 9 GPUs on each node, and no node of partition gpu has more than 8"}},
		{"GPU type", "slurm: {account: proj}\nresources: {gpus_per_node: 1, gpu_type: h200}\n", "Requested node configuration is not available", []string{`no GPU of type "h200"; choose from h100`}},
		{"memory", "slurm: {account: proj}\nresources: {mem: 999G}\n", "Memory specification can not be satisfied", []string{"asks for 1022976M of memory on each node", "16000M"}},
		{"CPUs", "slurm: {account: proj}\nresources: {cpus_per_task: 99}\n", "", []string{"asks for 99 CPUs on each node", "more than 8"}},
		{"nodes", "slurm: {account: proj}\nresources: {nodes: 3}\n", "Node count specification invalid", []string{"asks for 3 nodes, and partition gpu has 2"}},
		{"constraint", "slurm: {account: proj, constraint: nvlink}", "Invalid feature specification", []string{`no node of partition gpu has the feature "nvlink"`}},
		{"array", "slurm: {account: proj}\nrepeats: 600\n", "Invalid job array specification", []string{"indices up to 1199, and they end at 1000 here (MaxArraySize=1001)", "max_array_size: 1001"}},
		{"reservation", "slurm: {account: proj, reservation: spring}", "Requested reservation is invalid", []string{"scontrol show reservation"}},
		{"node name", "slurm: {account: proj, exclude: n99}", "Invalid node name specified", []string{"sinfo -N"}},
		{"licence", "slurm: {account: proj, extra: ['--licenses=matlab:1']}", "Invalid license specification", []string{"scontrol show licenses"}},
		{"dependency", "slurm: {account: proj, extra: ['--dependency=afterok:abc']}", "Job dependency problem", []string{"a dependency on a job that is not there"}},
		{"accounts of a partition", "slurm: {account: proj, partition: accounts}", "Invalid account or account/partition", []string{`partition accounts does not take account "proj"; it takes other`}},
		{"QOS of a partition", "slurm: {account: proj, partition: qos, qos: small}", "Invalid qos specification", []string{`partition qos does not take QOS "small"; it takes normal`}},
		{"groups of a partition", "slurm: {account: proj, partition: groups}", "group not permitted", []string{"partition groups is for daemon"}},
		{"inactive partition", "slurm: {account: proj, partition: closed}", "Required partition not available", []string{"partition closed is INACTIVE"}},
		{"too few nodes", "slurm: {account: proj, partition: wide}", "Node count specification invalid", []string{"asks for 1 nodes, and partition wide wants at least 2"}},
		{"submitted from elsewhere", "slurm: {account: proj, partition: there}", "Access/permission denied", []string{"takes no jobs from this machine", "AllocNodes"}},
		{"an option's value", "slurm: {account: proj, extra: ['--begin=abc']}", "Invalid --begin specification", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			j := job(t, test.keys)
			script, err := slurm.Script(j)
			if err != nil {
				t.Fatal(err)
			}
			id, err := s.Submit(t.Context(), script)
			if err == nil {
				t.Fatalf("accepted as job %s", id)
			}
			if said := slurm.Words(err); !strings.Contains(said, test.said) {
				t.Errorf("sbatch said %q, not %q", said, test.said)
			}
			e, known := refusal.Explain(t.Context(), s, err, j)
			if known != (test.want != nil) {
				t.Fatalf("%q is known: %v", slurm.Words(err), known)
			}
			got := strings.Join(e.Lines(), "\n")
			t.Log(got)
			for _, want := range test.want {
				if !strings.Contains(got, want) {
					t.Errorf("explained as\n%s\nwithout %q", got, want)
				}
			}
		})
	}
}
