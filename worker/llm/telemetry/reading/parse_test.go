package reading

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func f(v float64) *float64 { return &v }

// answered is what the script prints on a host with a GPU that shares the host's memory, after what its login shell has
// to say.
const answered = `Welcome to spark-1!

@@cpbench begin

@@cpbench page
4096

@@cpbench boot
0f5c

@@cpbench load
0.50 1.25 2.00 3/512 99

@@cpbench meminfo
MemTotal:       125577784 kB
HugePages_Total:       3

@@cpbench status 0

@@cpbench gpu
GPU-8f3a, 41.52, 43, 96, 0, [N/A], [N/A], 2405, NVIDIA GB10, rev. 2

@@cpbench status 0

@@cpbench process 4242 /opt/my venv/bin/python3.12
4242 (VLLM::(x) y) S 1 1 1 0 -1 4 10 11 12 13 14 15 16 17 20 0 64 0 987654 1 250 2
@@cpbench process 4242 /opt/my venv/bin/python3.12
4242 (VLLM::(x) y) S 1 1 1 0 -1 4 10 11 12 13 14 15 16 17 20 0 64 0 987654 1 250 2
@@cpbench process 77 /gone

@@cpbench nic eth 0
rx_bytes 100
tx_dropped 1
collisions 5

@@cpbench ethtool eth 0
NIC statistics:
     rx_bytes: 101
     rx_queue_0: bytes: 7
     tx_retries: 2
     rx_packets: 9

@@cpbench status 0

@@cpbench end
`

func TestParse(t *testing.T) {
	t.Parallel()
	a := parse(answered, Host{NICs: []string{"eth 0"}}, choice{all: true})
	want := &Reading{
		Boot: "0f5c", Load: []float64{0.5, 1.25, 2},
		Memory: map[string]uint64{"MemTotal": 125577784 << 10, "HugePages_Total": 3},
		GPUs: []GPU{{
			UUID: "GPU-8f3a", Name: "NVIDIA GB10, rev. 2", Power: f(41.52), Temperature: f(43), Utilization: f(0.96), MemoryUtilization: f(0), SMClock: f(2405e6),
		}},
		Processes: []Process{{PID: 4242, Start: 987654, Name: "VLLM::(x) y", Executable: "/opt/my venv/bin/python3.12", RSS: 250 << 12, MajorFaults: 12}},
		NICs: []NIC{{
			Name: "eth 0", Kernel: map[string]Counter{"rx_bytes": {Value: 100}, "tx_dropped": {Value: 1}},
			Driver: map[string]Counter{"rx_bytes": {Value: 101}, "rx_queue_0: bytes": {Value: 7}, "tx_retries": {Value: 2}},
		}},
	}
	if d := cmp.Diff(want, &a.Reading); d != "" || len(a.errors) > 0 {
		t.Errorf("%q (-want +got):\n%s", a.errors, d)
	}
}

// What is not as it should be is an error, beside what could be read.
func TestParseErrors(t *testing.T) {
	t.Parallel()
	const gpu = "GPU-8f3a, 41.52, 43, 96, 0, [N/A], [N/A], 2405, NVIDIA GB10, rev. 2\n\n@@cpbench status 0"
	for name, c := range map[string]struct {
		old, text string
		asked     choice
		want      []string
	}{
		"garbage":              {answered, "\x00\x01 nothing of ours", choice{all: true}, []string{`the host gave no answer that can be read: "\x00\x01 nothing of ours"`}},
		"nothing":              {answered, "", choice{all: true}, []string{`the host gave no answer that can be read: ""`}},
		"cut off":              {"\n@@cpbench end\n", "", choice{all: true}, []string{"the answer was cut off after 815 bytes"}},
		"no meminfo":           {"MemTotal:       125577784 kB\nHugePages_Total:       3\n", "cat: /proc/meminfo: Permission denied\n", choice{all: true}, []string{"/proc/meminfo could not be read"}},
		"driver":               {gpu, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure.\nMore.\n@@cpbench status 9", choice{all: true}, []string{"nvidia-smi: status 9: NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure."}},
		"unknown field":        {gpu, "Field \"clocks.sm\" is not a valid field to query.\n@@cpbench status 2", choice{all: true}, []string{"nvidia-smi: status 2: Field \"clocks.sm\" is not a valid field to query."}},
		"no status":            {"\n@@cpbench status 0\n\n@@cpbench process 4242", "\n@@cpbench process 4242", choice{all: true}, []string{"nvidia-smi: it was cut off"}},
		"lost":                 {"41.52, 43", "[GPU is lost], 43", choice{all: true}, []string{`GPU GPU-8f3a: power.draw: "[GPU is lost]" is no quantity`}},
		"fewer columns":        {", 2405, NVIDIA GB10, rev. 2", "", choice{all: true}, []string{`nvidia-smi: 7 values instead of 9: "GPU-8f3a, 41.52, 43, 96, 0, [N/A], [N/A]"`}},
		"no uuid":              {"GPU-8f3a, ", "[N/A], ", choice{all: true}, []string{`nvidia-smi: no UUID in "[N/A], 41.52, 43, 96, 0, [N/A], [N/A], 2405, NVIDIA GB10, rev. 2"`}},
		"another GPU":          {"", "", choice{uuids: []string{"GPU-8f3a", "GPU-9"}}, []string{"nvidia-smi says nothing of GPU GPU-9"}},
		"no interface":         {"@@cpbench nic eth 0\n", "@@cpbench nonic eth1\n", choice{all: true}, []string{`there is no network interface "eth1"`}},
		"ethtool":              {"     rx_packets: 9\n\n@@cpbench status 0", "Cannot get stats strings information: Operation not permitted\n@@cpbench status 1", choice{all: true}, []string{"ethtool -S eth 0: status 1: NIC statistics:"}},
		"ethtool has no list":  {"NIC statistics:\n     rx_bytes: 101\n     rx_queue_0: bytes: 7\n     tx_retries: 2\n     rx_packets: 9\n\n@@cpbench status 0", "no stats available\n@@cpbench status 94", choice{all: true}, nil},
		"stat":                 {" 64 0 987654 1 250 2", "", choice{all: true}, []string{"process 4242: 17 fields after the name of \"4242 (VLLM::(x) y) S 1 1 1 0 -1 4 10 11 12 13 14 15 16 17 20\"", "process 4242: 17 fields after the name of \"4242 (VLLM::(x) y) S 1 1 1 0 -1 4 10 11 12 13 14 15 16 17 20\""}},
		"no size of the pages": {"@@cpbench page\n4096\n", "@@cpbench page\nsh: getconf: not found\n", choice{all: true}, []string{"process 4242: the host does not tell the size of its pages", "process 4242: the host does not tell the size of its pages"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := answered
			if c.old != "" {
				text = strings.ReplaceAll(answered, c.old, c.text)
				if text == answered {
					t.Fatal("nothing was replaced")
				}
			}
			a := parse(text, Host{NICs: []string{"eth 0"}}, c.asked)
			if d := cmp.Diff(c.want, a.errors); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// A host without nvidia-smi has no GPUs; one whose GPUs cannot be read has some, or not: nobody knows.
func TestParseGPUsUnknown(t *testing.T) {
	t.Parallel()
	none := parse("@@cpbench begin\n@@cpbench nogpu\n@@cpbench end\n", Host{}, choice{all: true})
	if none.GPUs == nil || len(none.GPUs) != 0 {
		t.Errorf("%v", none.GPUs)
	}
	bad := parse("@@cpbench begin\n@@cpbench gpu\noops\n@@cpbench status 1\n@@cpbench end\n", Host{}, choice{all: true})
	if bad.GPUs != nil {
		t.Errorf("%v", bad.GPUs)
	}
}

func TestMatch(t *testing.T) {
	t.Parallel()
	uuids := []string{"GPU-aa11", "GPU-aa22", "GPU-bb33"}
	for name, c := range map[string]struct{ prefixes, want, errs []string }{
		"one each":         {[]string{"GPU-bb", "GPU-aa1"}, []string{"GPU-bb33", "GPU-aa11"}, nil},
		"none":             {[]string{"GPU-bb", "GPU-cc"}, nil, []string{`no GPU has a UUID that begins with "GPU-cc"; there are GPU-aa11, GPU-aa22, GPU-bb33`}},
		"several":          {[]string{"GPU-aa"}, nil, []string{`2 GPUs have a UUID that begins with "GPU-aa": GPU-aa11, GPU-aa22`}},
		"the same by two":  {[]string{"GPU-b", "GPU-bb33"}, []string{"GPU-bb33"}, nil},
		"not in the midst": {[]string{"aa11"}, nil, []string{`no GPU has a UUID that begins with "aa11"; there are GPU-aa11, GPU-aa22, GPU-bb33`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, errs := match(c.prefixes, uuids)
			if d := cmp.Diff(c.want, got) + cmp.Diff(c.errs, errs); d != "" {
				t.Error(d)
			}
		})
	}
}

// A process that was started again under the same id has other start ticks.
func TestParseStatRestart(t *testing.T) {
	t.Parallel()
	const before, after = "9 (vllm) S 1 9 9 0 -1 4 1 0 5 0 1 1 0 0 20 0 1 0 1000 1 2 3", "9 (vllm) S 1 9 9 0 -1 4 1 0 0 0 1 1 0 0 20 0 1 0 2000 1 2 3"
	a, errA := parseStat(before, 4096)
	b, errB := parseStat(after, 4096)
	if errA != nil || errB != nil || a.PID != b.PID || a.Start != 1000 || b.Start != 2000 || a.MajorFaults != 5 || b.MajorFaults != 0 {
		t.Errorf("%+v %v, %+v %v", a, errA, b, errB)
	}
}

func TestCountersGrow(t *testing.T) {
	t.Parallel()
	nic := func(kernel, driver map[string]Counter) *Reading {
		return &Reading{Boot: "b1", NICs: []NIC{{Name: "e", Kernel: kernel, Driver: driver}}}
	}
	n := func(v uint64) map[string]Counter { return map[string]Counter{"rx_bytes": {Value: v}} }
	at := time.Unix(1000, 0)
	var h history
	first := nic(n(100), nil)
	h.compare(first, at)
	if c := first.NICs[0]; c.Interval != nil || c.Kernel["rx_bytes"].Delta != nil || c.Kernel["rx_bytes"].Reset {
		t.Errorf("the first one: %+v", c)
	}
	steps := []struct {
		name  string
		now   *Reading
		delta *uint64
		reset bool
		since float64
	}{
		{"more", nic(n(130), n(1<<63)), u(30), false, 2},
		{"the same", nic(n(130), n(1<<63+5)), u(0), false, 2},
		{"fell", nic(n(7), n(1<<63+5)), nil, true, 2},
		{"on from there", nic(n(9), nil), u(2), false, 2},
		{"the host began anew and climbed past it", &Reading{Boot: "b2", NICs: []NIC{{Name: "e", Kernel: n(1000)}}}, nil, true, 2},
		{"whose boot is not told", &Reading{NICs: []NIC{{Name: "e", Kernel: n(1001)}}}, u(1), false, 2},
	}
	for _, s := range steps {
		at = at.Add(2 * time.Second)
		h.compare(s.now, at)
		c := s.now.NICs[0]
		if d := cmp.Diff(s.delta, c.Kernel["rx_bytes"].Delta); d != "" || c.Kernel["rx_bytes"].Reset != s.reset || *c.Interval != s.since {
			t.Errorf("%s: %+v\n%s", s.name, c, d)
		}
	}
	if d := steps[1].now.NICs[0].Driver["rx_bytes"].Delta; d == nil || *d != 5 {
		t.Errorf("counters of 64 bits: %v", d)
	}
	if c := steps[0].now.NICs[0].Driver["rx_bytes"]; c.Delta != nil || c.Reset {
		t.Errorf("a counter that was not there before: %+v", c)
	}
	h.compare(&Reading{Boot: "b2"}, at.Add(time.Second)) // a sample without it
	late := &Reading{Boot: "b2", NICs: []NIC{{Name: "e", Kernel: n(1011)}}}
	h.compare(late, at.Add(5*time.Second))
	if c := late.NICs[0]; *c.Interval != 5 || *c.Kernel["rx_bytes"].Delta != 10 {
		t.Errorf("after a gap: %+v", c)
	}
}

func u(v uint64) *uint64 { return &v }
