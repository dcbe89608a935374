package site

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// captured is the text that Slurm 22.05.8 printed.
func captured(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "22.05.8", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// cluster is the site of the captured texts.
func cluster(t *testing.T) *Site {
	t.Helper()
	s := &Site{
		Version: "slurm-wlm 22.05.8", User: "nobody", Config: parseConfig(captured(t, "config")),
		Partitions: parsePartitions(captured(t, "partitions")), Associations: parseAssociations(captured(t, "associations")), QOS: parseQOS(captured(t, "qos")),
	}
	for _, n := range parseNodes(captured(t, "nodes")) {
		p := s.Partition(n.Partition)
		p.Nodes = append(p.Nodes, n)
	}
	return s
}

func ptr(n int) *int { return &n }

func TestConfig(t *testing.T) {
	t.Parallel()
	want := &Config{
		Version: "22.05.8", Cluster: "cpbench", MaxArraySize: ptr(1001), MaxJobCount: ptr(20000), EnforcePartLimits: "ALL",
		JobRequeue: true, RequeueExit: []int{99}, InactiveLimit: 5 * time.Minute, KillWait: 5 * time.Second,
		MinJobAge: 5 * time.Minute, Accounting: true, Enforce: []string{"associations", "limits", "qos"}, MaxScriptSize: 4 << 20,
	}
	if diff := cmp.Diff(want, parseConfig(captured(t, "config"))); diff != "" {
		t.Error(diff)
	}
	c := parseConfig("SchedulerParameters = defer,max_script_size=100\nRequeueExitHold = 1-3,300,x\nMaxArraySize=0\nJobRequeue=0\nAccountingStorageType = (null)\n")
	if c.MaxScriptSize != 100 || *c.MaxArraySize != 0 || c.JobRequeue || c.Accounting || c.MaxJobCount != nil {
		t.Errorf("%+v", c)
	}
	if diff := cmp.Diff([]int{1, 2, 3}, c.RequeueExitHold); diff != "" {
		t.Error(diff)
	}
}

func TestPartitions(t *testing.T) {
	t.Parallel()
	s := cluster(t)
	nodes := func(p string) []Nodes {
		return []Nodes{{Partition: p, State: "idle", Count: 2, CPUs: 8, MiB: 16000, GRES: []GRES{{"gpu", "h100", 8}}}}
	}
	want := []Partition{
		{Name: "gpu", Default: true, State: "UP", MaxTime: 2 * time.Hour, DefaultTime: 10 * time.Minute, TotalNodes: 2, Nodes: nodes("gpu")},
		{Name: "gpu-preempt", State: "UP", MaxTime: 2 * time.Hour, DefaultTime: 10 * time.Minute, TotalNodes: 2, Nodes: nodes("gpu-preempt")},
		{Name: "short", State: "UP", MaxTime: time.Minute, DefaultTime: time.Minute, TotalNodes: 2, Nodes: nodes("short")},
	}
	if diff := cmp.Diff(want, s.Partitions); diff != "" {
		t.Error(diff)
	}
	if p := s.Partition(""); p == nil || p.Name != "gpu" {
		t.Errorf("the default partition is %+v", p)
	}
}

func TestGRES(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]GRES{
		"(null)":                             nil,
		"gpu:4":                              {{"gpu", "", 4}},
		"gpu:h100:8(S:0-1)":                  {{"gpu", "h100", 8}},
		"gpu:a100:4(S:0,2),gpu:v100:2,nvme":  {{"gpu", "a100", 4}, {"gpu", "v100", 2}, {"nvme", "", 1}},
		"gpu:nvidia_a100_1g.10gb:7,shard:7K": {{"gpu", "nvidia_a100_1g.10gb", 7}, {"shard", "", 7}},
	} {
		if diff := cmp.Diff(want, parseGRES(text)); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
}

func TestAccounts(t *testing.T) {
	t.Parallel()
	s := cluster(t)
	if diff := cmp.Diff([]Association{
		{Account: "edu", Partition: "short", QOS: []string{"normal"}, MaxSubmitJobs: ptr(2)},
		{Account: "proj", QOS: []string{"big", "normal", "small"}, DefaultQOS: "normal"},
	}, s.Associations); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]QOS{
		{Name: "normal"},
		{Name: "small", Flags: []string{"DenyOnLimit"}, MaxWall: 30 * time.Minute, MaxSubmitJobs: ptr(3)},
		{Name: "big", MaxTRES: "gres/gpu=8"},
	}, s.QOS); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"edu", "proj"}, s.Accounts("short")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"proj"}, s.Accounts("gpu")); diff != "" {
		t.Error(diff)
	}
}

func TestTimeLimit(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"02:00:00": 2 * time.Hour, "1-12:00:00": 36 * time.Hour, "05:30": 330 * time.Second, "UNLIMITED": 0, "NONE": 0, "": 0, "x:y": 0,
	} {
		if got := timeLimit(text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestKinds(t *testing.T) {
	t.Parallel()
	gpus := []GRES{{Name: "gpu", Type: "h100", Count: 8}}
	got := (&Partition{Nodes: []Nodes{
		{State: "idle", Count: 2, CPUs: 64, MiB: 1000, GRES: gpus, Features: []string{"a"}},
		{State: "mixed", Count: 3, CPUs: 64, MiB: 1000, GRES: gpus},
		{State: "idle", Count: 1, CPUs: 8, MiB: 500},
		{State: "drained", Count: 4, CPUs: 64, MiB: 1000, GRES: gpus},
	}}).Kinds()
	want := []string{"9 with 64 CPUs, 1000 MiB, 8 gpu:h100, 5 of them idle or partly so", "1 with 8 CPUs, 500 MiB, 1 of them idle or partly so"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
