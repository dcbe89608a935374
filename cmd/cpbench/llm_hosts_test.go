package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cpbench/plan/catalogue"
	"cpbench/worker/llm/llmtest"
	"cpbench/worker/llm/telemetry"
	"cpbench/worker/llm/telemetry/sshtest"
)

// unifiedSMI is an nvidia-smi of a machine whose only GPU shares its memory, and takes 40 W.
const unifiedSMI = `#!/bin/sh
[ "$1" = -i ] && shift 2
case $1 in
--query-gpu=uuid) echo GPU-8f3a77c1 ;;
--query-gpu=*) echo 'GPU-8f3a77c1, 40.00, 43, 96, 0, [N/A], [N/A], 2405, NVIDIA GB10' ;;
esac
`

// samples are the lines of hosts.jsonl, by host or address.
func (s *serving) samples() map[string][]telemetry.Sample {
	s.Helper()
	by := map[string][]telemetry.Sample{}
	for line := range strings.Lines(s.file("logs/*/hosts.jsonl")) {
		var v telemetry.Sample
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			s.Fatal(err)
		}
		by[v.Host+v.URL] = append(by[v.Host+v.URL], v)
	}
	return by
}

// TestServingHosts reads this machine and, over a real ssh, itself once more while groups are measured.
func TestServingHosts(t *testing.T) {
	t.Parallel()
	far := sshtest.Start(t)
	s := newServing(t, llmtest.Config{CountCached: true, PerFrame: 20 * time.Millisecond})
	sshtest.Stand(t, s.bin, "exec '"+far.Bin+"/ssh' \"$@\"\n")
	sshtest.Program(t, filepath.Join(s.bin, "nvidia-smi"), unifiedSMI)
	sshtest.Program(t, filepath.Join(far.Remote, "nvidia-smi"), strings.ReplaceAll(unifiedSMI, "GPU-8f3a77c1", "GPU-0002"))
	s.spec("repeats: 2", `  server: {url: URL}
  cache: cold
  ctx: [300]
  concurrency: 2
  max_tokens: 40
  telemetry:
    interval: 200ms
    timeout: 1m
    hosts:
      - {name: here, gpu_uuid_prefixes: [GPU-8f], process_names: [cpbench, "it's not there"]}
      - {name: far, ssh: `+sshtest.Alias+`, nics: [lo], process_names: [sshd]}
  extra_metrics: [URL/metrics]
`)
	out, errs, code := s.run("run", "sweep.yaml")
	if code != exitDone {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	joules := map[string]float64{}
	for key, r := range s.results() {
		for _, w := range r.Warnings {
			if w.Code == catalogue.TelemetryErrors || w.Code == catalogue.NoTelemetry {
				t.Errorf("%s: %+v", key, w)
			}
		}
		energy, each, seconds := r.Metrics[catalogue.EnergyJoules], r.Metrics[catalogue.EnergyPerOutputToken], r.Metrics[catalogue.GroupSeconds]
		if energy == nil || each == nil || math.Abs(*energy-2*40**seconds) > 1e-6 || math.Abs(*each-*energy/80) > 1e-9 {
			t.Errorf("%s: %v J in %v s, %v each", key, energy, seconds, each)
			continue
		}
		joules[fmt.Sprint(r.Repeat)] = *energy
	}
	for _, g := range s.lines("group") {
		win := g["telemetry"].(map[string]any)
		if n := len(win["targets"].([]any)); n != 3 || win["errors"] != 0.0 || win["energy"].(map[string]any)["joules"] != joules[fmt.Sprint(g["repeat"])] {
			t.Errorf("%v", win)
		}
	}
	if n := far.Logins(t); n != 1 {
		t.Errorf("%d connections to the host", n)
	}
	s.checkSamples()
	if left, err := exec.CommandContext(t.Context(), "pgrep", "-f", far.Bin).Output(); err == nil {
		t.Errorf("a connection is left: %s", left)
	}
}

// The connection to a host outlives the servers that a task starts and ends, with everything that they have started.
func TestServingHostsOutlive(t *testing.T) {
	t.Parallel()
	far := sshtest.Start(t)
	s := newServing(t, llmtest.Config{})
	sshtest.Stand(t, s.bin, "exec '"+far.Bin+"/ssh' \"$@\"\n")
	text := "version: 1\nname: serving\nmatrix: {label: [A, B, C]}\nworkload:\n  kind: llm\n  metrics_settle: 0s\n  data: synth\n" +
		"  server: {command: [fakellm, -port, '{port}', -once, '" + t.TempDir() + "/{label}']}\n  cache: cold\n  ctx: [300]\n  concurrency: 1\n  max_tokens: 4\n" +
		"  telemetry: {interval: 100ms, timeout: 1m, hosts: [{name: far, ssh: " + sshtest.Alias + ", process_names: [fakellm]}]}\n"
	if err := os.WriteFile(filepath.Join(s.dir, "sweep.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, errs, code := s.run("run", "sweep.yaml"); code != exitDone {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	servers := map[string]bool{}
	for _, v := range s.samples()["far"] {
		if len(v.Errors) > 0 {
			t.Errorf("%+v", v)
		}
		for _, p := range v.Processes {
			servers[fmt.Sprint(p.PID, p.Start)] = true
		}
	}
	if n := far.Logins(t); n != 1 || len(servers) < 3 { // those of other tests have the same name
		t.Errorf("%d connections, %d servers were seen", n, len(servers))
	}
}

// checkSamples looks at what was read.
func (s *serving) checkSamples() {
	s.Helper()
	by := s.samples()
	for _, name := range []string{"here", "far", s.url + "/metrics"} {
		list := by[name]
		if len(list) < 3 {
			s.Errorf("%d samples of %s", len(list), name)
			continue
		}
		for i, v := range list {
			if len(v.Errors) > 0 || v.Duration <= 0 || v.Terminal != (i == len(list)-1) || i > 0 && v.Offset <= list[i-1].Offset {
				s.Errorf("%s: sample %d: %+v", name, i, v)
			}
		}
		switch last := list[len(list)-1]; name {
		case "here":
			if len(last.GPUs) != 1 || last.GPUs[0].MemoryUsed != nil || *last.GPUs[0].Power != 40 || last.Memory["MemTotal"] == 0 || len(last.Processes) == 0 {
				s.Errorf("%+v", last.Reading)
			}
		case "far":
			if len(last.GPUs) != 1 || last.GPUs[0].UUID != "GPU-0002" || len(last.NICs) != 1 || last.NICs[0].Kernel["rx_bytes"].Delta == nil || len(last.Processes) == 0 || list[0].NICs[0].Kernel["rx_bytes"].Delta != nil {
				s.Errorf("%+v", last.Reading)
			}
		default:
			if last.Text == nil || !strings.Contains(*last.Text, "vllm:prompt_tokens_total") {
				s.Errorf("%+v", last)
			}
		}
	}
}

// TestServingHostsTrouble has an ssh that is none. The groups are measured all the same, and each says that its readings
// are not whole.
func TestServingHostsTrouble(t *testing.T) {
	t.Parallel()
	const connects = "for a in \"$@\"; do case $a in ControlPath=*) s=${a#*=} ;; -M) m=1 ;; esac; done\nif [ -n \"$m\" ]; then : >\"$s\"; exec sleep 300; fi\n"
	for name, c := range map[string]struct{ ssh, want string }{
		"refuses": {"echo 'Permission denied (publickey).' >&2; exit 255\n", "far: no connection: Permission denied (publickey)."},
		"garbage": {connects + "echo 'Last login: never'\n", `far: the host gave no answer that can be read: "Last login: never\n"`},
		"hangs":   {connects + "exec sleep 300\n", "far: no answer within 1s"},
		"gone":    {connects + "if mkdir \"$0.once\" 2>/dev/null; then shift $(($# - 6)); exec \"$@\"; fi\necho 'client_loop: send disconnect: Broken pipe' >&2; exit 255\n", "far: the connection is lost: client_loop: send disconnect: Broken pipe"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServing(t, llmtest.Config{CountCached: true, PerFrame: 20 * time.Millisecond})
			sshtest.Stand(t, s.bin, c.ssh)
			sshtest.Program(t, filepath.Join(s.bin, "nvidia-smi"), unifiedSMI)
			s.spec("repeats: 1", "  server: {url: URL}\n  cache: cold\n  ctx: [300]\n  concurrency: 1\n  max_tokens: 60\n"+
				"  telemetry: {interval: 100ms, timeout: 1s, hosts: [{name: here}, {name: far, ssh: you@far}]}\n")
			out, errs, code := s.run("run", "sweep.yaml")
			r := s.only()
			if code != exitDone || r.Outcome != catalogue.OK {
				t.Fatalf("exit %d\n%s%s%+v", code, out, errs, r)
			}
			codes := map[catalogue.Code]string{}
			for _, w := range r.Warnings {
				codes[w.Code] = w.Text
			}
			if got := codes[catalogue.TelemetryErrors]; !strings.HasSuffix(got, "; the first one: "+c.want) {
				t.Errorf("the result says %q, want %q", got, c.want)
			}
			energy, known := r.Metrics[catalogue.EnergyJoules]
			if each, ok := r.Metrics[catalogue.EnergyPerOutputToken]; energy != nil || !known || each != nil || !ok || !strings.HasPrefix(codes[catalogue.NoTelemetry], "the energy of the group is not known: far: ") {
				t.Errorf("energy %v, %q", energy, codes[catalogue.NoTelemetry])
			}
			if !strings.Contains(out, "telemetry_errors") || !strings.Contains(s.file("logs/*/events.jsonl"), `"msg":"telemetry","target":"far"`) {
				t.Errorf("the errors were not told:\n%s", out)
			}
			by := s.samples()
			for i, v := range by["far"] {
				first := name == "gone" && i == 0
				if (len(v.Errors) == 0) != first || (v.Reading == nil) == first {
					t.Errorf("%+v", v)
				}
			}
			if n := len(by["here"]); n < 5 {
				t.Errorf("%d samples of this machine: the other host held them up", n)
			}
		})
	}
}

// TestPreflightDryRun looks at a server and at hosts with as little as there can be, and sends nothing that a model
// would have to work on.
func TestPreflightDryRun(t *testing.T) {
	t.Parallel()
	s := newServing(t, llmtest.Config{})
	sshtest.Program(t, filepath.Join(s.bin, "nvidia-smi"), unifiedSMI)
	sshtest.Stand(t, s.bin, "echo 'Permission denied (publickey).' >&2; exit 255\n")
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(strings.ReplaceAll(text, "URL", s.url)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("good.yaml", "workload: {kind: llm, server: {url: URL}, telemetry: {timeout: 1m, hosts: [{name: here}]}, extra_metrics: [URL/metrics]}\n")
	write("bad.yaml", "workload: {kind: llm, server: {url: URL}, telemetry: {timeout: 1m, hosts: [{name: here, gpu_uuid_prefixes: [GPU-9]}, {name: far, ssh: far}]}}\n")
	write("wrong.yaml", "workload: {kind: llm, server: {url: URL}, telemetry: {hosts: [{name: far, ssh: -oProxyCommand=x}]}}\n")
	for _, c := range []struct {
		spec string
		code int
		want []string
	}{
		{s.url, exitDone, []string{"models: vllm 0.99.0 serves tiny", "limit: prompt and output together have at most 4096 tokens"}},
		{"good.yaml", exitDone, []string{"host here (this machine)\n  ok    telemetry: GPUs 1, processes 0, interfaces 0, memory ", s.url + "/metrics\n  ok    telemetry: "}},
		{"bad.yaml", exitIncomplete, []string{
			"  bad   telemetry: no GPU has a UUID that begins with \"GPU-9\"; there are GPU-8f3a77c1\n", "  ok    telemetry: GPUs 0, ",
			"host far (ssh far)\n  bad   telemetry: no connection: Permission denied (publickey).",
		}},
	} {
		out, errs, code := s.run("llm", "preflight", c.spec, "--dry-run", "--out", "looks.jsonl")
		if code != c.code {
			t.Errorf("%s: exit %d\n%s%s", c.spec, code, out, errs)
		}
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s: no %q in\n%s", c.spec, want, out)
			}
		}
	}
	if _, errs, code := s.run("llm", "preflight", "wrong.yaml", "--dry-run"); code != exitUsage || !strings.Contains(errs, `wrong.yaml:1:`) || !strings.Contains(errs, "is no destination of ssh") {
		t.Errorf("exit %d: %s", code, errs)
	}
	if _, errs, code := s.run("llm", "preflight", "good.yaml"); code != exitUsage || !strings.Contains(errs, "workload.label is missing") {
		t.Errorf("a preflight that generates takes half a spec: exit %d: %s", code, errs)
	}
	if _, errs, code := s.run("llm", "preflight", s.url); code != exitUsage || !strings.Contains(errs, "add --dry-run, or name the spec") {
		t.Errorf("a preflight that generates takes an address: exit %d: %s", code, errs)
	}
	for _, path := range []string{"/v1/chat/completions", "/v1/completions", "/tokenize"} {
		if n := len(s.server.Requests(path)); n != 0 {
			t.Errorf("%d requests to %s", n, path)
		}
	}
	text, err := os.ReadFile(filepath.Join(s.dir, "looks.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var records []lookRecord
	for line := range strings.Lines(string(text)) {
		var r lookRecord
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	if len(records) != 3 || !records[2].DryRun || records[2].Spec != "bad.yaml" || !records[2].At.After(records[1].At) || len(records[2].Looked) != 3 {
		t.Fatalf("%d records: %+v", len(records), records)
	}
	if far := records[2].Looked[2]; far.Sample == nil || far.Sample.Reading != nil || len(far.Sample.Errors) != 1 {
		t.Errorf("%+v", far)
	}
	if here := records[1].Looked[1]; here.Sample == nil || here.Sample.Memory["MemTotal"] == 0 || records[1].Looked[0].Server == nil {
		t.Errorf("%+v", here)
	}
}
