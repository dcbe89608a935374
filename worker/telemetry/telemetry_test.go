package telemetry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cpbench/plan/catalogue"
	"cpbench/worker/gpu"
	"cpbench/worker/node"
	"cpbench/worker/result"
)

// The test binary is also the agents.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "agent" {
		if err := node.Serve(context.Background(), node.Options{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// here starts the agents on this machine, each under the name of its node.
func here(hosts, agent []string) ([]string, error) {
	line := `for host in "$@"; do SLURMD_NODENAME=$host "$AGENT" agent & done; wait`
	return append([]string{"env", "AGENT=" + agent[0], "bash", "-c", line, "agents"}, hosts...), nil
}

// open opens the telemetry of a task with n nodes of two GPUs. A stand-in for nvidia-smi tells of them, with changes of
// its text in pairs; in it $SLURMD_NODENAME is the name of the node, and nothing on the first.
func open(t *testing.T, n int, changes ...string) (*Telemetry, *node.Fleet) {
	t.Helper()
	return openBy(t, here, n, changes...)
}

func openBy(t *testing.T, launch func(hosts, agent []string) ([]string, error), n int, changes ...string) (*Telemetry, *node.Fleet) {
	t.Helper()
	text, err := os.ReadFile("../gpu/source/testdata/nvidia-smi")
	if err != nil {
		t.Fatal(err)
	}
	changed := string(text)
	changes = append(changes, "echo 'GPU-aaaa, 4242", `[ "$SLURMD_NODENAME" = "$DIRTY" ] && echo 'GPU-aaaa`+"'$SLURMD_NODENAME'"+`, 4242`,
		"printf GPU-aaaa", "printf GPU-aaaa$SLURMD_NODENAME", "printf GPU-bbbb", "printf GPU-bbbb$SLURMD_NODENAME")
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(changed, changes[i]) {
			t.Fatalf("%q is not in the stand-in", changes[i])
		}
		changed = strings.ReplaceAll(changed, changes[i], changes[i+1])
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte(changed+"\ntrue\n"), 0o700); err != nil { //nolint:gosec // to be run
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	if os.Getenv("DIRTY") == "" {
		t.Setenv("DIRTY", "nobody")
	}
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cfg := node.Config{Hosts: []string{"localhost"}, Launch: launch, Agent: []string{binary}, Output: filepath.Join(dir, "nodes.log"), Log: slog.New(slog.NewJSONHandler(&log, nil))}
	for i := range n - 1 {
		cfg.Hosts = append(cfg.Hosts, fmt.Sprintf("n%d", i+2))
	}
	nodes := node.Open(cfg)
	t.Cleanup(nodes.Close)
	return Open(t.Context(), nodes, 2, cfg.Log), nodes
}

func blank() *result.Result {
	return &result.Result{Metrics: map[string]*float64{}, Provenance: map[string]string{}}
}

// about are the warnings of a result that speak of something.
func about(r *result.Result, word string) []string {
	var texts []string
	for _, w := range r.Warnings {
		if strings.Contains(w.Text, word) {
			texts = append(texts, w.Text)
		}
	}
	return texts
}

func TestTwoNodes(t *testing.T) {
	tele, _ := open(t, 2)
	if p := tele.Ready(t.Context(), 2, 2); p != nil {
		t.Fatal(p)
	}
	r := blank()
	tele.Enter(r, 2)
	for key, want := range map[string]string{
		"hosts": "localhost n2", "gpu": "Fake H200", "gpu_count": "2", "telemetry": "nvidia-smi", "gpu_pci": "00000000:1a:00.0 + 00000000:3b:00.0",
		"gpu_uuid": "GPU-aaaa + GPU-bbbb + GPU-aaaan2 + GPU-bbbbn2", "sm_clock_max_hertz": "1980000000", "power_limit_watts": "700",
	} {
		if r.Provenance[key] != want {
			t.Errorf("%s is %q, want %q", key, r.Provenance[key], want)
		}
	}
	if texts := about(r, "(localhost, n2)"); len(r.Warnings) != 1 || len(texts) != 1 {
		t.Errorf("a doubt of two nodes, told once: %v", r.Warnings)
	}
	done := false
	span := tele.During(t.Context(), Work{Nodes: 2, Pace: gpu.Timed, Expected: 1}, func() { done = true })
	span.Into(r)
	if v := r.Metrics[catalogue.TemperatureMax]; !done || v == nil || *v != 40 {
		t.Errorf("temperature %v", v)
	}
	if v, ok := r.Metrics[catalogue.PowerMedianWatts]; !ok || v != nil || len(about(r, "not watched")) != 1 {
		t.Errorf("power that nobody has watched: %v %v", v, r.Warnings)
	}
}

func TestNotReady(t *testing.T) {
	tests := map[string]struct {
		ranks   int
		changes []string
		dirty   string
		outcome catalogue.Outcome
		want    string
	}{
		"somebody else on the second": {2, nil, "n2", catalogue.DirtyGPU, "n2: GPU-aaaan2: process 4242"},
		"too few":                     {3, nil, "", catalogue.Infra, "localhost: 2 GPUs for 3 ranks"},
		"another model on the second": {2, []string{"printf 'Fake H200'", `printf "Fake H200$SLURMD_NODENAME"`}, "", catalogue.Infra, "different models: Fake H200, Fake H200n2"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.dirty != "" {
				t.Setenv("DIRTY", tt.dirty)
			}
			tele, _ := open(t, 2, tt.changes...)
			p := tele.Ready(t.Context(), 2, tt.ranks)
			if p == nil || p.Outcome != tt.outcome || !strings.Contains(p.Reason, tt.want) {
				t.Errorf("%+v", p)
			}
			if tt.dirty != "" && tele.Ready(t.Context(), 1, tt.ranks) != nil {
				t.Error("the second node is looked at although one is used")
			}
		})
	}
}

func TestClaimed(t *testing.T) {
	tele, _ := open(t, 2)
	tele.Ready(t.Context(), 2, 2)
	claims := func(uuids ...string) (list []gpu.Claim) {
		for i, uuid := range uuids {
			list = append(list, gpu.Claim{Rank: i, UUID: uuid})
		}
		return list
	}
	for name, tt := range map[string]struct {
		claims []gpu.Claim
		want   string
	}{
		"each its own":    {claims("GPU-aaaa", "bbbb", "GPU-aaaan2", "GPU-bbbbn2"), ""},
		"not told":        {claims("", "", "", ""), ""},
		"two on one":      {claims("GPU-aaaa", "GPU-aaaan2", "GPU-aaaan2"), "same GPU"},
		"somebody else's": {claims("GPU-aaaa", "GPU-cccc"), "not one of the job's"},
	} {
		p := tele.Claimed(2, tt.claims)
		if tt.want == "" && p != nil || tt.want != "" && (p == nil || !strings.Contains(p.Reason, tt.want)) {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

// Agents that are not there cost figures, and nothing else.
func TestNodeWithoutAgent(t *testing.T) {
	tele, nodes := open(t, 2)
	if p := tele.Ready(t.Context(), 2, 2); p != nil {
		t.Fatal(p)
	}
	work := Work{Nodes: 2, Pace: gpu.Timed, Expected: 1}
	span := tele.During(t.Context(), work, func() { nodes.Close() }) // as if both had died
	r := blank()
	span.Into(r)
	for _, name := range []string{catalogue.EnergyJoules, catalogue.TemperatureMax, catalogue.PeakDeviceBytes} {
		if v, ok := r.Metrics[name]; !ok || v != nil {
			t.Errorf("%s is not null", name)
		}
	}
	if texts := about(r, "n2: no reading after"); len(texts) != 1 || len(r.Warnings) != 1 {
		t.Errorf("told of it: %v", r.Warnings)
	}
	if both := Sum([]Span{{}, span}); !slices.Equal(both.lacking, span.lacking) || both.Peak() != nil {
		t.Errorf("the sum with it: %+v", both)
	}
}

// A node whose agent never came is told of once, by whoever is first.
func TestNodeThatNeverCame(t *testing.T) {
	tele, _ := openBy(t, func([]string, []string) ([]string, error) { return nil, errors.New("no Slurm") }, 3)
	if p := tele.Ready(t.Context(), 3, 2); p != nil {
		t.Fatal(p)
	}
	r := blank()
	tele.Enter(r, 3)
	if texts := about(r, "n2: "); len(texts) != 1 || !strings.Contains(texts[0], "n3: ") {
		t.Errorf("before: %v", r.Warnings)
	}
	tele.During(t.Context(), Work{Nodes: 3, Pace: gpu.Timed, Expected: 1}, func() {}).Into(r)
	if texts := about(r, "n2: "); len(texts) != 1 {
		t.Errorf("after: %v", texts)
	}
}

func TestWithoutGPUs(t *testing.T) {
	nodes := node.Open(node.Config{})
	t.Cleanup(nodes.Close)
	tele := Open(t.Context(), nodes, 0, nil)
	r := blank()
	tele.Enter(r, 1)
	tele.During(t.Context(), Work{Nodes: 1, Pace: gpu.Untimed}, func() {}).Into(r)
	if p := tele.Ready(t.Context(), 1, 9); p != nil || len(r.Provenance) > 0 || len(r.Metrics) > 0 || len(r.Warnings) > 0 {
		t.Errorf("%+v %+v", p, r)
	}
}

func number(v float64) *float64 { return &v }

func TestPeak(t *testing.T) {
	t.Parallel()
	usage := func(peaks ...*float64) (u gpu.Usage) {
		for i, p := range peaks {
			u.GPUs = append(u.GPUs, gpu.DeviceUsage{UUID: fmt.Sprint(i), MemoryPeak: p})
		}
		return u
	}
	idle := map[string]float64{"0": 10, "1": 30}
	for name, tt := range map[string]struct {
		span Span
		want *float64
	}{
		"fullest of two nodes": {Span{usage: []gpu.Usage{usage(number(50), number(60)), usage(number(75))}, idle: []map[string]float64{idle, idle}}, number(65)},
		"less than before":     {Span{usage: []gpu.Usage{usage(number(5))}, idle: []map[string]float64{idle}}, number(0)},
		"one not read":         {Span{usage: []gpu.Usage{usage(number(50), nil)}, idle: []map[string]float64{idle}}, nil},
		"not read before":      {Span{usage: []gpu.Usage{usage(number(50))}, idle: []map[string]float64{nil}}, nil},
		"a node lacks":         {Span{usage: []gpu.Usage{usage(number(50))}, idle: []map[string]float64{idle}, lacking: []string{"n2: gone"}}, nil},
		"nothing":              {Span{}, nil},
	} {
		got := tt.span.Peak()
		if (got == nil) != (tt.want == nil) || got != nil && *got != *tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
