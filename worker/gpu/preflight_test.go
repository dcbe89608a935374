package gpu

import (
	"strings"
	"testing"

	"cpbench/plan/catalogue"

	"github.com/google/go-cmp/cmp"
)

// three GPUs in an order that is not that of their bus ids, one that belongs to another job, and two instances.
var node = []Device{
	{Index: 0, UUID: "GPU-c1", Name: "H200", PCI: "0000:90:00.0", MemoryTotal: ptr(100 << 30)},
	{Index: 1, UUID: "GPU-a1", Name: "H200", PCI: "0000:10:00.0", MemoryTotal: ptr(100 << 30)},
	{Index: 2, Missing: Missing{"uuid": "NO_PERMISSION"}},
	{Index: 3, UUID: "GPU-a2", Name: "H200", PCI: "0000:20:00.0", MIG: "enabled"},
	{Index: 0, UUID: "MIG-x1", Parent: "GPU-a2", Name: "H200 MIG 1g"},
	{Index: 1, UUID: "MIG-x2", Parent: "GPU-a2", Name: "H200 MIG 1g"},
}

func TestVisible(t *testing.T) {
	t.Parallel()
	other := append([]Device{{UUID: "GPU-z", Name: "A100", PCI: "0000:05:00.0"}}, node...)
	noBus := []Device{{UUID: "GPU-1"}, {UUID: "GPU-2"}}
	const unset = "\x00"
	for _, tt := range []struct {
		name, list, order string
		devices           []Device
		want, err         string
	}{
		{"not set", unset, "", node, "GPU-a1 GPU-c1", ""},
		{"not set, all divided", unset, "", node[3:], "MIG-x1", ""},
		{"numbers go by bus id", "0,2", "PCI_BUS_ID", node, "GPU-a1 GPU-c1", ""},
		{"their order is kept", "2, 0", "", node, "GPU-c1 GPU-a1", ""},
		{"a divided GPU", "1", "", node, "MIG-x1", ""},
		{"UUIDs", "GPU-c1,GPU-a1", "", node, "GPU-c1 GPU-a1", ""},
		{"cut short", "GPU-c", "", node, "GPU-c1", ""},
		{"an instance", "MIG-x2", "", node, "MIG-x2", ""},
		{"empty", "", "", node, "", ""},
		{"CUDA stops there", "0,-1,2", "", node, "GPU-a1", ""},
		{"Slurm gave none", "NoDevFiles", "", node, "", ""},
		{"ambiguous", "GPU-a", "", node, "", `CUDA_VISIBLE_DEVICES="GPU-a": "GPU-a" stands for 2 devices`},
		{"unknown", "GPU-q", "", node, "", `CUDA_VISIBLE_DEVICES="GPU-q": "GPU-q" stands for 0 devices`},
		{"beyond", "3", "", node, "", `CUDA_VISIBLE_DEVICES="3": there is no GPU 3 among 3`},
		{"twice", "0,GPU-a1", "", node, "", `CUDA_VISIBLE_DEVICES="0,GPU-a1": GPU-a1 is named twice`},
		{"a word", "all", "", node, "", `CUDA_VISIBLE_DEVICES="all": "all" is neither a number nor a UUID`},
		{"models differ", "0", "", other, "", `CUDA_VISIBLE_DEVICES="0": CUDA_DEVICE_ORDER is not PCI_BUS_ID and the GPUs are of different models`},
		{"models differ but by bus", "0", "PCI_BUS_ID", other, "GPU-z", ""},
		{"models differ but by UUID", "GPU-a1", "", other, "GPU-a1", ""},
		{"no bus ids", "0", "", noBus, "", `CUDA_VISIBLE_DEVICES="0": the order of the GPUs is unknown: one has no bus id`},
		{"no bus ids, not set", unset, "", noBus, "", `the order of the GPUs is unknown: one has no bus id`},
		{"nothing there", unset, "", nil, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := Visible(tt.devices, func(name string) (string, bool) {
				if name == "CUDA_DEVICE_ORDER" {
					return tt.order, tt.order != ""
				}
				return tt.list, name == "CUDA_VISIBLE_DEVICES" && tt.list != unset
			})
			var uuids []string
			for _, d := range got {
				uuids = append(uuids, d.UUID)
			}
			text := ""
			if err != nil {
				text = err.Error()
			}
			if d := cmp.Diff([]string{tt.want, tt.err}, []string{strings.Join(uuids, " "), text}); d != "" {
				t.Errorf("visible (-want +got):\n%s", d)
			}
		})
	}
}

func TestPreflight(t *testing.T) {
	t.Parallel()
	two := node[:2]
	idle := Reading{GPUs: []State{
		{UUID: "GPU-c1", MemoryUsed: ptr(400 << 20), MemoryFree: ptr(90 << 30), MemoryVersion: 2},
		{UUID: "GPU-a1", MemoryUsed: ptr(1 << 30), MemoryFree: ptr(20 << 30), MemoryVersion: 1},
		{UUID: "GPU-z", MemoryUsed: ptr(90 << 30)},
	}}
	someone := []Process{{PID: 7, UUID: "GPU-a1", Name: "python3"}}
	claim := func(rank int, uuid, name string, total float64) Claim {
		return Claim{Rank: rank, UUID: uuid, Name: name, TotalBytes: ptr(total)}
	}
	dirty := func(text string) Problem { return Problem{catalogue.DirtyGPU, text} }
	infra := func(text string) Problem { return Problem{catalogue.Infra, text} }
	for _, tt := range []struct {
		name      string
		devices   []Device
		now       Reading
		processes []Process
		want      Expectation
		problems  []Problem
	}{
		{"clean", two, idle, nil, Expectation{Ranks: 2, MinFree: 10 << 30}, nil},
		{"someone else", two, idle, someone, Expectation{}, []Problem{dirty("GPU-a1: process 7 (python3) computes on it")}},
		{"without a name", two, idle, []Process{{PID: 7, UUID: "GPU-a1"}}, Expectation{}, []Problem{dirty("GPU-a1: process 7 (name unknown) computes on it")}},
		{"one of ours", two, idle, someone, Expectation{Ours: func(pid int) bool { return pid == 7 }}, nil},
		{"on another job's GPU", two[:1], idle, someone, Expectation{}, nil},
		{"a service", two, idle, []Process{{PID: 7, UUID: "GPU-a1", Name: "nvidia-cuda-mps"}}, Expectation{}, nil},
		{"threshold", two, idle, nil, Expectation{Threshold: 500 << 20}, []Problem{dirty("GPU-a1: 1.00 GiB of memory in use, more than 0.49 GiB")}},
		{"own threshold", two, Reading{GPUs: []State{{UUID: "GPU-c1", MemoryUsed: ptr(1 << 30), MemoryVersion: 2}}}, nil, Expectation{}, []Problem{dirty("GPU-c1: 1.00 GiB of memory in use, more than 0.50 GiB")}},
		{"no threshold", two, Reading{GPUs: []State{{UUID: "GPU-c1", MemoryUsed: ptr(99 << 30), MemoryVersion: 2}}}, nil, Expectation{Threshold: -1}, nil},
		{"unknown memory", two, Reading{GPUs: []State{{UUID: "GPU-c1"}}}, nil, Expectation{MinFree: 1}, nil},
		{"too little free", two, idle, nil, Expectation{MinFree: 30 << 30}, []Problem{dirty("GPU-a1: 20.00 GiB of memory free, less than 30.00 GiB")}},
		{"too few", node[:3], idle, nil, Expectation{Ranks: 4}, []Problem{infra("2 GPUs for 4 ranks; GPU 2: NO_PERMISSION")}},
		{"no devices", nil, Reading{}, nil, Expectation{Ranks: 1}, []Problem{infra("0 GPUs for 1 ranks")}},
		{"models differ", []Device{{UUID: "1", Name: "H200"}, {UUID: "2", Name: "A100"}}, Reading{}, nil, Expectation{}, []Problem{infra("the GPUs are of different models: H200, A100")}},
		{"claims", two, idle, nil, Expectation{Claims: []Claim{claim(0, "GPU-a1", "H200", 100<<30), claim(1, "c1", "H200", 98<<30), {Rank: 2}}}, nil},
		{"the same GPU twice", two, idle, nil, Expectation{Claims: []Claim{claim(0, "GPU-A1", "H200", 100<<30), claim(1, "a1", "H200", 100<<30)}}, []Problem{infra("ranks 0 and 1 are on the same GPU a1")}},
		{"a strange GPU", two, idle, nil, Expectation{Claims: []Claim{claim(0, "GPU-q", "H200", 100<<30)}}, []Problem{infra("rank 0 is on GPU GPU-q, which is not one of the job's")}},
		{"another size", two, idle, nil, Expectation{Claims: []Claim{claim(0, "GPU-a1", "H200", 120<<30)}}, []Problem{infra("rank 0: its device has 120.00 GiB in all, but GPU GPU-a1 has 100.00 GiB")}},
		{"a limit", two, idle, nil, Expectation{Claims: []Claim{claim(0, "GPU-a1", "H200", 20<<30)}}, nil},
		{"ranks on different models", two, idle, nil, Expectation{Claims: []Claim{claim(0, "GPU-a1", "H200", 100<<30), claim(1, "GPU-c1", "A100", 100<<30)}}, []Problem{infra("the ranks are on GPUs of different models: H200, A100")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if d := cmp.Diff(tt.problems, Preflight(tt.devices, tt.now, tt.processes, tt.want)); d != "" {
				t.Errorf("problems (-want +got):\n%s", d)
			}
		})
	}
}
