package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cpbench/plan/catalogue"
	"cpbench/slurm/slurmtest"
	"cpbench/worker/llm/llmtest"
	"cpbench/worker/result"

	"github.com/google/go-cmp/cmp"
)

// only is the only result.
func (s *serving) only() *result.Result {
	s.Helper()
	rs := s.results()
	if len(rs) != 1 {
		s.Fatalf("%d results: %v", len(rs), outcomes(rs))
	}
	for _, r := range rs {
		return r
	}
	return nil
}

// file reads the only file of a pattern below the run folders.
func (s *serving) file(pattern string) string {
	s.Helper()
	found, err := filepath.Glob(filepath.Join(s.dir, "cpbench-runs/*", pattern))
	if err != nil || len(found) != 1 {
		s.Fatalf("%s: %q, %v", pattern, found, err)
	}
	text, err := os.ReadFile(found[0])
	if err != nil {
		s.Fatal(err)
	}
	return string(text)
}

// noneLeft looks for processes with a text on their command line.
func noneLeft(t *testing.T, text string) {
	t.Helper()
	if left, _ := exec.CommandContext(t.Context(), "pgrep", "-f", "--", text).Output(); len(left) > 0 {
		t.Errorf("a server is left: %s", left)
	}
}

// boxed is a serving with the stand-in for apptainer on its PATH, and an image with these variables of its own.
func boxed(t *testing.T, image string) *serving {
	t.Helper()
	s := newServing(t, llmtest.Config{})
	fake, err := filepath.Abs("../../worker/container/testdata/apptainer")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(fake, filepath.Join(s.bin, "apptainer")); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"image.sif": image, "draft model.json": "{}"} {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

const boxedHead = "repeats: 1\nenv: {NCCL_ALGO: 'Ring,Tree x'}\ncontainer: {runtime: apptainer, image: image.sif}\nsetup: [export OF_SETUP=kept]"

// A server in a container sees the variables of sweep and server and not those of the image, its port is reached from
// outside, and its files are the frozen ones.
func TestServingContainer(t *testing.T) {
	t.Parallel()
	s := boxed(t, "NCCL_ALGO=of the image\nNCCL_PORT=of the image\nVLLM_X=of the image\nOWN=of the image\n")
	s.spec(boxedHead, "  files: ['draft model.json']\n  server:\n    command: [fakellm, -port, '{port}', -tell, 'NCCL_ALGO,NCCL_PORT,VLLM_X,OWN,OF_SETUP', -once, 'draft model.json']\n"+
		"    env: {NCCL_PORT: '{port}', VLLM_X: it's 5}\n  cache: cold\n  ctx: 300\n  concurrency: 2\n  max_tokens: 4\n")
	if out, errs, code := s.run("run", "sweep.yaml"); code != exitDone {
		t.Fatalf("exit %d\n%s%s\n%v", code, out, errs, outcomes(s.results()))
	}
	log := s.file("logs/*/server-1.log")
	for _, want := range []string{`NCCL_ALGO is "Ring,Tree x"`, `VLLM_X is "it's 5"`, `OWN is "of the image"`, `OF_SETUP is "kept"`, `/lib/draft model.json"`} {
		if !strings.Contains(log, want) {
			t.Errorf("not in the server's log: %s\n%s", want, log)
		}
	}
	_, port, _ := strings.Cut(log, `NCCL_PORT is "`)
	port, _, _ = strings.Cut(port, `"`)
	if !strings.Contains(log, `"-port" "`+port+`"`) {
		t.Errorf("NCCL_PORT is %q", port)
	}
	facts := s.file("logs/*/provenance.json")
	for _, want := range []string{`"container": "apptainer image.sif"`, `"setting NCCL_ALGO": "Ring,Tree x"`} {
		if !strings.Contains(strings.ReplaceAll(facts, `":"`, `": "`), want) {
			t.Errorf("not among the facts: %s\n%s", want, facts)
		}
	}
	if r := s.only(); hasWarning(r, catalogue.EnvDiffers) {
		t.Errorf("%v", r.Warnings)
	}
	noneLeft(t, s.dir+"/cpbench-runs")
}

func hasWarning(r *result.Result, code catalogue.Code) bool {
	return slices.ContainsFunc(r.Warnings, func(w result.Warning) bool { return w.Code == code })
}

func TestServingContainerThatDoesNotStart(t *testing.T) {
	t.Parallel()
	s := boxed(t, "PATH=/nowhere\n")
	s.spec(boxedHead, "  server: {command: [fakellm, -port, '{port}']}\n  cache: cold\n  ctx: [0, 300]\n  concurrency: 1\n  max_tokens: 4\n")
	s.run("run", "sweep.yaml")
	for key, r := range s.results() {
		if r.Outcome != catalogue.Error || !strings.HasPrefix(r.Reason, "the container could not be started") || !strings.Contains(r.Evidence, "env") {
			t.Errorf("%s: %s %s %s", key, r.Outcome, r.Reason, r.Evidence)
		}
	}
}

// TestServingPyxis has a server in a job step of a real Slurm, whose srun knows no pyxis: one in front of it takes the
// options of the container out. What the step has started is no descendant of the worker, and ends all the same.
func TestServingPyxis(t *testing.T) {
	t.Parallel()
	s := newSite(t, slurmtest.Shared(t))
	srun := "#!/bin/bash\nargs=()\nfor a in \"$@\"; do case $a in --container-*|--no-container-*) printf '%s\\n' \"$a\" >>\"${0%/*}/given\";; *) args+=(\"$a\");; esac; done\nexec " + s.cluster.Bin + "/srun \"${args[@]}\"\n"
	slurmtest.Executable(t, filepath.Join(s.bin, "srun"), srun)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(s.bin, "fakellm")); err != nil {
		t.Fatal(err)
	}
	s.spec("image.sqsh", "")
	s.spec("llm.yaml", "version: 1\nname: boxed\nrepeats: 1\nresources: {cpus_per_task: 2, time: 5m}\nenv: {NCCL_ALGO: 'Ring,Tree'}\ncontainer: {runtime: pyxis, image: image.sqsh}\n"+
		"workload:\n  kind: llm\n  label: A\n  data: synth\n  cache: cold\n  ctx: 300\n  concurrency: 2\n  max_tokens: 4\n  metrics_settle: 0s\n"+
		"  server: {command: [fakellm, -port, '{port}', -tell, 'NCCL_ALGO,SLURM_STEP_ID', -once, '"+s.bin+"/pyxis'], env: {VLLM_X: '1'}}\n")
	job := s.must("cpbench plan llm.yaml | sbatch --parsable")
	s.ended(job, 2*time.Minute)
	rows := s.raw()
	if row := rows[len(rows)-1]; row["outcome"] != "ok" {
		t.Errorf("%v\n%s", row, s.must("cat cpbench-runs/*/logs/*/*.log cpbench-runs/*/logs/*.out"))
	}
	if log := s.must("cat cpbench-runs/*/logs/*/server-1.log"); !strings.Contains(log, `NCCL_ALGO is "Ring,Tree"`) || !strings.Contains(log, `SLURM_STEP_ID is "1"`) { // step 0 was the look at the variables
		t.Errorf("the server's log: %s", log)
	}
	given := s.must("cat '" + s.bin + "/given'")
	_, names, _ := strings.Cut(given, "--container-env=")
	names, _, _ = strings.Cut(names, "\n")
	for _, want := range []string{"CPBENCH_TOKEN", "NCCL_ALGO", "PYTHONPATH", "VLLM_X"} {
		if !slices.Contains(strings.Split(names, ","), want) {
			t.Errorf("the image may set %s; --container-env=%s", want, names)
		}
	}
	noneLeft(t, s.bin+"/pyxis")
}

// withGPUs puts the stand-in for nvidia-smi with two GPUs on PATH. foreign is a process of somebody else on one.
func (s *serving) withGPUs(foreign bool) {
	s.Helper()
	text, err := os.ReadFile("../../worker/gpu/source/testdata/nvidia-smi")
	if err != nil {
		s.Fatal(err)
	}
	const other = `echo 'GPU-aaaa, 4242, 1024, /opt/a b/python3, x'`
	if !strings.Contains(string(text), other) {
		s.Fatal("the stand-in has no process")
	}
	if !foreign {
		text = []byte(strings.Replace(string(text), other, ":", 1))
	}
	slurmtest.Executable(s, filepath.Join(s.bin, "nvidia-smi"), string(text))
}

const onGPUs = "  server: {command: [fakellm, -port, '{port}']}\n  cache: cold\n  ctx: 300\n  concurrency: 1\n  max_tokens: 4\n"

// What is known of the GPUs under a server stands in every result, and what is not is null.
func TestServingGPUs(t *testing.T) {
	t.Parallel()
	s := newServing(t, llmtest.Config{})
	s.withGPUs(false)
	s.spec("repeats: 2\nresources: {gpus_per_node: 2}", onGPUs)
	if out, errs, code := s.run("run", "sweep.yaml"); code != exitDone {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	for key, r := range s.results() {
		if r.Outcome != catalogue.OK || r.Provenance["gpu"] != "Fake H200" || r.Provenance["telemetry"] != "nvidia-smi" {
			t.Errorf("%s: %s %s %v", key, r.Outcome, r.Reason, r.Provenance)
		}
		for _, name := range []string{catalogue.EnergyJoules, catalogue.EnergyPerOutputToken, catalogue.PeakDeviceBytes} {
			if v, ok := r.Metrics[name]; !ok || v != nil { // no counter of energy, and too short a group for a watch
				t.Errorf("%s: %s is not null", key, name)
			}
		}
		if v := r.Metrics[catalogue.TemperatureMax]; v == nil || *v != 40 || !hasWarning(r, catalogue.NoTelemetry) {
			t.Errorf("%s: temperature %v, %v", key, v, r.Warnings)
		}
	}
	if readings := s.file("logs/*/telemetry.jsonl"); strings.Count(readings, "GPU-aaaa") < 5 { // one look, and two edges of each group
		t.Errorf("readings: %s", readings)
	}
}

// On GPUs that somebody else uses no server is started.
func TestServingDirtyGPU(t *testing.T) {
	t.Parallel()
	s := newServing(t, llmtest.Config{})
	s.withGPUs(true)
	s.spec("repeats: 2\nresources: {gpus_per_node: 2}", onGPUs)
	s.run("run", "sweep.yaml")
	for key, r := range s.results() {
		if r.Outcome != catalogue.DirtyGPU || !strings.Contains(r.Evidence, "4242") || r.Provenance["gpu"] == "" {
			t.Errorf("%s: %s: %s %v", key, r.Outcome, r.Evidence, r.Provenance)
		}
	}
	// Nothing of ours was ever there, so that nothing is waited for.
	if looks := strings.Count(s.file("logs/*/telemetry.jsonl"), `"reading"`); looks != 2 {
		t.Errorf("%d looks for 2 groups", looks)
	}
	if logs, _ := filepath.Glob(filepath.Join(s.dir, "cpbench-runs/*/logs/*/server-*.log")); len(logs) > 0 {
		t.Errorf("started: %q", logs)
	}
}

// Rule 24 of the accounting: short requests before the first group, at its largest concurrency, with texts and salts
// that no group has, and without a trace in any number.
func TestServingWarmup(t *testing.T) {
	t.Parallel()
	s := newServing(t, llmtest.Config{CountCached: true})
	s.spec("repeats: 2", "  server: {url: URL}\n  cache: [cold, warm]\n  ctx: [0, 300]\n  concurrency: [1, 4]\n  max_tokens: 30\n  sampling: {min_tokens: 30}\n")
	if out, errs, code := s.run("run", "sweep.yaml"); code != exitDone {
		t.Fatalf("exit %d\n%s%s%v", code, out, errs, outcomes(s.results()))
	}
	lines := s.lines("warmup")
	if len(lines) != 1 {
		t.Fatalf("%d warm-ups of one server", len(lines))
	}
	salt, _ := lines[0]["cache_salt"].(string)
	bursts, _ := json.Marshal(lines[0]["bursts"])
	if strings.Count(string(bursts), `"failed":0`) != 2 || strings.Count(string(bursts), `"streams":4`) != 2 || salt == "" || lines[0]["max_tokens"] != 16.0 {
		t.Errorf("%v", lines[0])
	}
	measured := map[string]bool{}
	for _, line := range s.lines("request") {
		measured[fmt.Sprint(line["cache_salt"])] = true
	}
	firsts := map[string]int{} // blocks of the cache with which a prompt begins
	sent := 0
	for _, r := range s.server.Requests("/v1/chat/completions") {
		var body struct {
			Salt     string `json:"cache_salt"`
			Max      int    `json:"max_completion_tokens"`
			Min      *int   `json:"min_tokens"`
			Messages []struct{ Content string }
		}
		if err := json.Unmarshal([]byte(r.Body), &body); err != nil {
			t.Fatal(err)
		}
		first := body.Messages[0].Content[:llmtest.Block]
		if !strings.HasPrefix(body.Salt, salt) {
			firsts[first] += 100
			continue
		}
		sent++
		firsts[first]++
		if measured[body.Salt] || body.Max != 16 || body.Min != nil {
			t.Errorf("a request of the warm-up: salt %q, %d tokens, at least %v", body.Salt, body.Max, body.Min)
		}
	}
	shared := slices.Collect(maps.Values(firsts))
	if sent != 8 || slices.ContainsFunc(shared, func(n int) bool { return n > 1 && n%100 != 0 }) {
		t.Errorf("%d requests of the warm-up; beginnings of prompts by number of requests: %v", sent, firsts)
	}
	for key, r := range s.results() {
		if r.Group.Audit != "clean" || hasWarning(r, catalogue.Preflight) {
			t.Errorf("%s: %s %v", key, r.Group.Audit, r.Warnings)
		}
	}
}

// TestServingFrameUsage asks for the usage in every frame, and has the rate without the tokens of the first text.
func TestServingFrameUsage(t *testing.T) {
	t.Parallel()
	s := newServing(t, llmtest.Config{Continuous: true, PerFrame: 5 * time.Millisecond})
	s.spec("repeats: 1", "  server: {url: URL}\n  warmup: 0\n  frame_usage: true\n  cache: cold\n  ctx: 0\n  concurrency: 1\n  max_tokens: 20\n")
	if out, errs, code := s.run("run", "sweep.yaml"); code != exitDone {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	for _, r := range s.server.Requests("/v1/chat/completions") {
		if !strings.Contains(r.Body, `"continuous_usage_stats":true`) {
			t.Errorf("sent %s", r.Body)
		}
	}
	r := s.only()
	if unbiased, decode := r.Metrics[catalogue.DecodeUnbiasedTokensPerSecond], r.Metrics[catalogue.DecodeTokensPerSecond]; unbiased == nil || *unbiased >= *decode {
		t.Errorf("unbiased %v, decode %v", unbiased, decode)
	}
	if settings, _ := s.lines("group")[0]["settings"].(map[string]any); settings["frame_usage"] != true {
		t.Errorf("settings %v", settings)
	}
}

func TestServingWithoutWarmup(t *testing.T) {
	t.Parallel()
	s := newServing(t, llmtest.Config{CountCached: true})
	s.spec("repeats: 1", "  server: {url: URL}\n  warmup: 0\n  cache: cold\n  ctx: 0\n  concurrency: 2\n  max_tokens: 4\n")
	s.run("run", "sweep.yaml")
	if n := len(s.server.Requests("/v1/chat/completions")); n != 3+2 || len(s.lines("warmup")) != 0 || s.only().Outcome != catalogue.OK {
		t.Errorf("%d requests: three of the preflight and two of the group are needed; %v", n, outcomes(s.results()))
	}
}

// A warm-up that fails is a doubt in the results, and no failure.
func TestServingWarmupFails(t *testing.T) {
	t.Parallel()
	s := newServing(t, llmtest.Config{})
	s.spec("repeats: 1", "  server: {command: [fakellm, -port, '{port}', -refuse, '4']}\n  warmup: 1\n  cache: cold\n  ctx: 0\n  concurrency: 2\n  max_tokens: 4\n")
	s.run("run", "sweep.yaml") // three requests are the preflight's
	r := s.only()
	var texts []string
	for _, w := range r.Warnings {
		if w.Code == catalogue.Preflight {
			texts = append(texts, w.Text)
		}
	}
	if r.Outcome != catalogue.OK || len(texts) != 1 || texts[0] != "1 of 2 requests of the warm-up failed: http_status: it compiles" {
		t.Errorf("%s %s %s %q", r.Outcome, r.Reason, r.Evidence, texts)
	}
}

// A variant that cannot start costs its own groups.
func TestServingVariants(t *testing.T) {
	t.Parallel()
	s := newServing(t, llmtest.Config{})
	s.spec("repeats: 1\norder: as-written\nmatrix: {way: [-deaf, -deaf=false]}", "  server: {command: [fakellm, -port, '{port}', '{way}']}\n  starts: 2\n  cache: cold\n  ctx: [0, 300]\n  concurrency: 1\n  max_tokens: 4\n")
	if out, errs, code := s.run("run", "sweep.yaml"); code != exitIncomplete {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	rs := s.results()
	for key, r := range rs {
		deaf := strings.HasPrefix(key, "-deaf ")
		if deaf && (r.Outcome != catalogue.Error || !strings.Contains(r.Evidence, "no such device")) || !deaf && r.Outcome != catalogue.OK {
			t.Errorf("%s: %s %s %s", key, r.Outcome, r.Reason, r.Evidence)
		}
	}
	if len(rs) != 8 {
		t.Errorf("%v", outcomes(rs))
	}
}

// A sweep that is told to stop while its server starts leaves results that say so, and no server.
func TestServingStoppedInStart(t *testing.T) {
	t.Parallel()
	s := newServing(t, llmtest.Config{})
	once := filepath.Join(t.TempDir(), "never")
	s.spec("repeats: 1", "  server: {command: [fakellm, -port, '{port}', -mute, -once, "+once+"]}\n  cache: cold\n  ctx: 300\n  concurrency: 1\n  max_tokens: 4\n")
	cmd := exec.CommandContext(t.Context(), "cpbench", "run", "sweep.yaml")
	cmd.Path, cmd.Dir = filepath.Join(s.bin, "cpbench"), s.dir
	cmd.Env = append(os.Environ(), "PATH="+s.bin+":"+os.Getenv("PATH"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for tick := time.NewTicker(10 * time.Millisecond); ; <-tick.C { // until the server has begun
		files, _ := filepath.Glob(filepath.Join(s.dir, "cpbench-runs/*/logs/*/server-1.log"))
		if len(files) == 1 {
			if text, err := os.ReadFile(files[0]); err == nil && strings.Contains(string(text), "begins") {
				break
			}
		}
		if t.Context().Err() != nil {
			t.Fatal("no server has begun")
		}
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != exitInterrupted {
		t.Errorf("%v", err)
	}
	if r := s.only(); r.Outcome != catalogue.Cancelled {
		t.Errorf("%s %s %s", r.Outcome, r.Reason, r.Evidence)
	}
	noneLeft(t, once)
}

// TestServingNotReady waits for a server in vain: the end of its log is the evidence.
func TestServingNotReady(t *testing.T) {
	t.Parallel()
	s := newServing(t, llmtest.Config{})
	s.spec("repeats: 1", "  server: {command: [fakellm, -port, '{port}', -mute], ready_timeout: 2s}\n  cache: cold\n  ctx: 300\n  concurrency: 1\n  max_tokens: 4\n")
	s.run("run", "sweep.yaml")
	if r := s.only(); r.Outcome != catalogue.Error || r.Reason != "the server was not ready after 2s: it answers 503 Service Unavailable" || !strings.Contains(r.Evidence, "fake server begins") {
		t.Errorf("%s %s %s", r.Outcome, r.Reason, r.Evidence)
	}
}

// TestServingExtend plans more repeats of a run that is there. Those of a warm group find a cache that was filled for
// them, unmeasured, and are labelled as what they are.
func TestServingExtend(t *testing.T) {
	t.Parallel()
	s := newServing(t, llmtest.Config{CountCached: true})
	const workload = "  server: {url: URL}\n  warmup: 0\n  cache: [cold, warm]\n  ctx: 300\n  concurrency: 2\n  max_tokens: 4\n"
	s.spec("repeats: 2", workload)
	if out, errs, code := s.run("run", "sweep.yaml"); code != exitDone {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	first, err := filepath.Glob(filepath.Join(s.dir, "cpbench-runs/*"))
	if err != nil || len(first) != 1 {
		t.Fatal(first, err)
	}
	s.spec("repeats: 4", workload)
	if out, errs, code := s.run("plan", "sweep.yaml", "--extend", first[0]); code != exitDone || !strings.Contains(errs, "4 executions left out") {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	runs, err := filepath.Glob(filepath.Join(s.dir, "cpbench-runs/*"))
	if err != nil || len(runs) != 2 {
		t.Fatal(runs, err)
	}
	second := runs[1]
	if second == first[0] {
		second = runs[0]
	}
	s.server.Restart() // as it is another day
	if out, errs, code := s.run("run", "--run", second); code != exitDone {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	want := map[string]string{}
	for _, key := range []string{"cold 300 2 r1", "cold 300 2 r2", "cold 300 2 r3", "cold 300 2 r4", "warm 300 2 r1"} {
		want[key] = "cold"
	}
	for _, key := range []string{"warm 300 2 r2", "warm 300 2 r3", "warm 300 2 r4"} {
		want[key] = "warm_repeat"
	}
	got := map[string]string{}
	for key, r := range s.results() {
		if got[key] = r.Group.Cache; r.Outcome != catalogue.OK {
			t.Errorf("%s: %s %s %s", key, r.Outcome, r.Reason, r.Evidence)
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	salts := map[string]map[string]bool{}
	for _, line := range s.lines("request") {
		key := fmt.Sprintf("%v %v r%v", line["run"] == filepath.Base(second), line["cache_label"], line["repeat"])
		if salts[key] == nil {
			salts[key] = map[string]bool{}
		}
		salts[key][fmt.Sprint(line["cache_salt"])] = true
	}
	if r3, r4 := salts["true warm_repeat r3"], salts["true warm_repeat r4"]; len(r3) != 2 || !maps.Equal(r3, r4) {
		t.Errorf("the later repeats have salts %v and %v", r3, r4)
	}
	for salt := range salts["true warm_repeat r3"] {
		if salts["false warm_repeat r2"][salt] {
			t.Error("a salt of the first run")
		}
	}
	filled := 0
	for _, r := range s.server.Requests("/v1/chat/completions") {
		for salt := range salts["true warm_repeat r3"] {
			if strings.Contains(r.Body, salt) {
				filled++
			}
		}
	}
	if filled != 6 { // to fill, and in both repeats
		t.Errorf("%d requests with the salts of the later repeats, want 6", filled)
	}
}

// TestPreflightStart looks at servers that the sweep starts: with --start alone it does so, and ends them.
func TestPreflightStart(t *testing.T) {
	t.Parallel()
	s := newServing(t, llmtest.Config{})
	once := filepath.Join(t.TempDir(), "never")
	s.spec("repeats: 1\nsetup: [export X=1]\nmatrix: {way: [-deaf=false, -deaf]}", "  server: {command: [fakellm, -port, '{port}', '{way}', -once, "+once+"]}\n  cache: cold\n  ctx: 300\n  concurrency: 1\n  max_tokens: 4\n")
	out, errs, code := s.run("llm", "preflight", "sweep.yaml")
	if code != exitDone || strings.Count(out, "not known until then") != 2 || !strings.Contains(out, "--start starts it here") {
		t.Errorf("without --start: exit %d\n%s%s", code, out, errs)
	}
	out, errs, code = s.run("llm", "preflight", "--start", "sweep.yaml")
	for _, want := range []string{"warn  start: setup: its lines are not run", "ok    start: it was ready after ", "ok    parity: ", "bad   start: the server ended: exit status 7; the end of its log:", "no such device"} {
		if !strings.Contains(out, want) {
			t.Errorf("not said: %s", want)
		}
	}
	if code != exitIncomplete {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	if out, _, _ = s.run("llm", "preflight", "--start", "--dry-run", "sweep.yaml"); strings.Contains(out, "parity") || !strings.Contains(out, "vllm 0.99.0 serves tiny") {
		t.Errorf("a dry run:\n%s", out)
	}
	noneLeft(t, once)
	if _, err := os.Stat(filepath.Join(s.dir, "cpbench-runs")); err == nil {
		t.Error("a look has left a run")
	}
	s.spec("repeats: 1", "  server: {url: URL}\n  cache: cold\n  ctx: 300\n  concurrency: 1\n  max_tokens: 4\n")
	if _, errs, code = s.run("llm", "preflight", "--start", "sweep.yaml"); code != exitUsage || !strings.Contains(errs, "leave --start out") {
		t.Errorf("nothing to start: exit %d\n%s", code, errs)
	}
}
