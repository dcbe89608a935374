package site

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fits is a request that the captured cluster takes.
func fits() Request {
	return Request{Nodes: 2, GPUsPerNode: 8, GPUType: "h100", CPUsPerTask: 8, Mem: "15G", Time: 2 * time.Hour, Tasks: 1001, LastIndex: 1000}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		change func(*Request, *Site)
		want   []string // for each finding, its key and a part of its text and advice
	}{
		{"all fits", func(*Request, *Site) {}, nil},
		{"tasks of an array", func(_ *Request, s *Site) { s.Config.MaxArrayTasks = 500 }, []string{"site.max_array_size: the array has 1001 tasks, and the site takes 500 in one (max_array_tasks); write max_array_size: 500, or auto"}},
		{"no partition", func(r *Request, _ *Site) { r.Partition = "gpu-premt" }, []string{`slurm.partition: there is no partition "gpu-premt"; choose from gpu-preempt, gpu, short`}},
		{"a hidden partition", func(r *Request, s *Site) { s.Partitions[1].Hidden, r.Partition = true, s.Partitions[1].Name }, nil},
		{"no hidden partition is offered", func(r *Request, s *Site) { s.Partitions[1].Hidden, r.Partition = true, "gpx" }, []string{"choose from gpu, short"}},
		{"several partitions", func(r *Request, _ *Site) { r.Partition = "gpu-preempt,gpu" }, nil},
		{"one of several that is not there", func(r *Request, _ *Site) { r.Partition = "gpu,gpuu" }, []string{`slurm.partition: there is no partition "gpuu"; choose from gpu`}},
		{"one of several is too short, and another does", func(r *Request, s *Site) { r.Partition, s.Config.EnforcePartLimits = "short,gpu", "ANY" }, nil},
		{"one of several is too short, and all have to do", func(r *Request, s *Site) { r.Partition, s.Config.EnforcePartLimits = "short,gpu", "ALL" }, []string{"resources.time: a task asks for 02:00:00, and partition short allows 00:01:00"}},
		{"none of several does", func(r *Request, _ *Site) { r.Partition, r.Nodes = "gpu,gpu-preempt", 9 }, []string{"resources.nodes: a task asks for 9 nodes, and partition gpu has 2", "partition gpu-preempt has 2"}},
		{"account of one of several", func(r *Request, s *Site) {
			r.Partition, s.Associations = "gpu,gpu-preempt", []Association{{Account: "proj", Partition: "gpu"}}
		}, nil},
		{"no default", func(_ *Request, s *Site) { s.Partitions[0].Default = false }, []string{"slurm.partition: the site has no default partition; name one of"}},
		{"down", func(_ *Request, s *Site) { s.Partitions[0].State = "DOWN" }, []string{"slurm.partition: partition gpu is DOWN"}},
		{"time, refused", func(r *Request, _ *Site) { r.Time += time.Second }, []string{"resources.time: a task asks for 02:00:01, and partition gpu allows 02:00:00: sbatch refuses it; ask for at most 02:00:00"}},
		{
			"time, waits for ever",
			func(r *Request, s *Site) {
				r.Time, r.Partition, s.Config.EnforcePartLimits = 26*time.Hour, "short", "NO"
				s.Partitions[1].MaxTime = 0
			},
			[]string{"resources.time: a task asks for 1-02:00:00, and partition short allows 00:01:00: sbatch would take it, and it would wait for ever; ask for at most 00:01:00, or use partition gpu-preempt"},
		},
		{"nodes", func(r *Request, _ *Site) { r.Nodes = 3 }, []string{"resources.nodes: a task asks for 3 nodes, and partition gpu has 2"}},
		{"nodes of a job", func(_ *Request, s *Site) { s.Partitions[0].MaxNodes = 1 }, []string{"resources.nodes: a task asks for 2 nodes, and partition gpu allows a job 1"}},
		{"nodes too few", func(_ *Request, s *Site) { s.Partitions[0].MinNodes = 3 }, []string{"resources.nodes: a task asks for 2 nodes, and partition gpu wants at least 3"}},
		{"GPUs", func(r *Request, _ *Site) { r.GPUsPerNode = 9 }, []string{"resources.gpus_per_node: a task asks for 9 GPUs on each node, and no node of partition gpu has more than 8"}},
		{"GPU type", func(r *Request, _ *Site) { r.GPUType = "h200" }, []string{`resources.gpu_type: partition gpu has no GPU of type "h200"; choose from h100`}},
		{"no types", func(_ *Request, s *Site) { s.Partitions[0].Nodes[0].GRES[0].Type = "" }, []string{"resources.gpu_type: partition gpu names no types"}},
		{"no GPUs", func(_ *Request, s *Site) { s.Partitions[0].Nodes[0].GRES = nil }, []string{"resources.gpus_per_node: partition gpu has no GPUs; partitions with GPUs: gpu-preempt, short"}},
		{"CPUs", func(r *Request, _ *Site) { r.CPUsPerTask = 9 }, []string{"resources.cpus_per_task: a task asks for 9 CPUs"}},
		{"CPUs of the partition", func(_ *Request, s *Site) { s.Partitions[0].MaxCPUs = 4 }, []string{"gives more than 4; ask for at most 4"}},
		{"memory", func(r *Request, _ *Site) { r.Mem = "16G" }, []string{"resources.mem: a task asks for 16384M of memory on each node, and no node of partition gpu gives more than 16000M"}},
		{"all memory", func(r *Request, _ *Site) { r.Mem = "0" }, nil},
		{"feature", func(r *Request, s *Site) {
			r.Constraint, s.Partitions[0].Nodes[0].Features = "nvlnk&[rack1|rack2]*2", []string{"ib", "rack1", "rack2", "nvlink"}
		}, []string{`slurm.constraint: no node of partition gpu has the feature "nvlnk"; choose from nvlink`}},
		{"no features", func(r *Request, _ *Site) { r.Constraint = "ib" }, []string{"leave it out: no node"}},
		{
			"no node has both",
			func(r *Request, s *Site) {
				p := &s.Partitions[0]
				p.Nodes = append(p.Nodes, Nodes{Count: 5, CPUs: 64, MiB: 1000, State: "idle"})
				r.CPUsPerTask, r.Mem = 64, ""
			},
			[]string{"resources: only 0 nodes of partition gpu have all that a task asks of each of its 2"},
		},
		{"nodes away", func(_ *Request, s *Site) { s.Partitions[0].Nodes[0].State = "drained*" }, []string{"resources.nodes: of the nodes that fit in partition gpu too few are up: 2 drained"}},
		{"array", func(r *Request, _ *Site) { r.LastIndex = 1001 }, []string{"site.max_array_size: the array has indices up to 1001, and they end at 1000"}},
		{"arrays off", func(_ *Request, s *Site) { s.Config.MaxArraySize = ptr(0) }, []string{"matrix: job arrays are switched off"}},
		{"account", func(r *Request, _ *Site) { r.Account = "prj" }, []string{`slurm.account: user nobody may not charge account "prj" in partition "gpu"; choose from proj`}},
		{"account of another partition", func(r *Request, _ *Site) { r.Account = "edu" }, []string{`may not charge account "edu"`}},
		{"no account", func(_ *Request, s *Site) { s.Associations = []Association{} }, []string{"may charge no account"}},
		{"accounts that nobody checks", func(r *Request, s *Site) { r.Account, s.Config.Enforce = "prj", nil }, nil},
		{"accounts that nobody knows", func(r *Request, s *Site) { r.Account, s.Associations = "prj", nil }, nil},
		{"association's limit", func(r *Request, _ *Site) { r.Account, r.Partition, r.Time = "edu", "short", time.Minute }, []string{"pack: 1001 tasks are more jobs than account edu lets a user queue at once (2); plan with --limit 2"}},
		{"QOS", func(r *Request, _ *Site) { r.QOS = "bg" }, []string{`slurm.qos: QOS "bg" is not allowed for user nobody; choose from big`}},
		{"one of several QOS", func(r *Request, _ *Site) { r.QOS = "big,bg" }, []string{`slurm.qos: QOS "bg" is not allowed for user nobody; choose from big`}},
		{"several QOS", func(r *Request, _ *Site) { r.QOS = "big,small" }, nil},
		{"QOS' limits", func(r *Request, _ *Site) { r.QOS, r.Time = "small", time.Hour }, []string{"pack: 1001 tasks are more jobs than QOS small", "resources.time: a task asks for 01:00:00, and QOS small allows 00:30:00"}},
		{"QOS' GPUs", func(r *Request, _ *Site) { r.QOS = "big" }, []string{"resources.gpus_per_node: a task asks for 16 GPUs, and QOS big allows a job 8"}},
		{"QOS of the partition", func(_ *Request, s *Site) { s.Partitions[0].QOS = "big" }, []string{"QOS big allows a job 8"}},
		{"partition's accounts", func(r *Request, s *Site) { r.Account, s.Partitions[0].AllowAccounts = "proj", []string{"physics"} }, []string{`slurm.account: partition gpu does not take account "proj"; it takes physics`}},
		{"partition's QOS", func(r *Request, s *Site) { r.QOS, s.Partitions[0].AllowQOS = "normal", []string{"long"} }, []string{`slurm.qos: partition gpu does not take QOS "normal"`}},
		{"a site that says nothing", func(r *Request, s *Site) { *s, r.Partition = Site{}, "x" }, nil},
		{"every mistake at once", func(r *Request, _ *Site) { r.Nodes, r.GPUsPerNode, r.Time, r.LastIndex = 9, 9, 9*time.Hour, 9999 }, []string{"max_array_size", "resources.time", "resources.nodes", "gpus_per_node"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s, r := cluster(t), fits()
			test.change(&r, s)
			found := s.Check(r)
			var got []string
			for _, f := range found {
				got = append(got, f.Key+": "+f.Text+"; "+f.Advice)
			}
			if len(got) != len(test.want) {
				t.Fatalf("found %q, want %q", got, test.want)
			}
			for i, want := range test.want {
				if !strings.Contains(got[i], want) {
					t.Errorf("found %q, want %q", got[i], want)
				}
			}
		})
	}
}

func TestMebibytes(t *testing.T) {
	t.Parallel()
	got := map[string]int64{}
	for _, text := range []string{"", "0", "64", "64G", "2T", "1K", "1500k", "3GB", "x"} {
		got[text] = mebibytes(text)
	}
	if diff := cmp.Diff(map[string]int64{"": 0, "0": 0, "64": 64, "64G": 65536, "2T": 2097152, "1K": 1, "1500k": 2, "3GB": 3072, "x": 0}, got); diff != "" {
		t.Error(diff)
	}
}
