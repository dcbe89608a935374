package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cpbench/cmd/cpbench/doctor"
	"cpbench/slurm/slurmtest"

	"github.com/google/go-cmp/cmp"
)

// leastSpec is a sweep that asks for next to nothing.
const leastSpec = "version: 1\nname: doctor\nmatrix: {n: [1]}\nworkload: {kind: command, command: [bash]}\n"

// findings runs doctor and returns what it found by its check, the worst of each.
func findings(t *testing.T, out []byte) map[string]doctor.Finding {
	t.Helper()
	var all []doctor.Finding
	if err := json.Unmarshal(out, &all); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	by := map[string]doctor.Finding{}
	for _, f := range all {
		if old, ok := by[f.Check]; !ok || old.Grade == doctor.Good {
			by[f.Check] = f
		}
	}
	return by
}

// TestDoctorWithoutSlurm is a laptop: doctor says that there is no Slurm, goes on, and finds nothing bad.
func TestDoctorWithoutSlurm(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	dir := t.TempDir()
	spec := filepath.Join(dir, "s.yaml")
	if err := os.WriteFile(spec, []byte(leastSpec), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, said bytes.Buffer
	s := &streams{out: &out, err: &said, voice: voice{&said}}
	if err := runDoctor(t.Context(), s, spec, &doctorOptions{runs: filepath.Join(dir, "runs"), asJSON: true}); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	got := findings(t, out.Bytes())
	if f := got["slurm"]; f.Grade != doctor.Warn || f.Text != "no Slurm: sbatch is not installed here, or not on PATH" {
		t.Errorf("slurm: %+v", f)
	}
	for check, want := range map[string]doctor.Grade{"runs": doctor.Good, "spec": doctor.Good, "gpus": doctor.Warn, "nvml": doctor.Warn} {
		if got[check].Grade != want {
			t.Errorf("%s: %+v, want %s", check, got[check], want)
		}
	}
	out.Reset()
	err := runDoctor(t.Context(), s, "", &doctorOptions{runs: "/proc/nowhere", inJob: true})
	if !errors.Is(err, errIncomplete) {
		t.Errorf("a place that cannot be written: %v", err)
	}
	for _, want := range []string{"bad   runs: no run can be written to /proc/nowhere", "      -> name another place", "bad   job: no job can be submitted from here"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
}

// caller is the address of a server that takes connections and never gets a request.
func caller(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return "http://" + l.Addr().String()
}

// doctorSite is a cluster whose settings doctor has something to say about.
func doctorSite(t *testing.T) *site {
	t.Helper()
	return newSite(t, slurmtest.Start(t, slurmtest.Options{Extra: []string{"RequeueExit=1,99", "InactiveLimit=300"}}))
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	s := doctorSite(t)
	s.spec("good.yaml", "version: 1\nname: good\nmatrix: {cp: [1]}\nresources: {gpus_per_node: 1, gpu_type: h100}\nsetup: ['export A=b']\n"+
		"workload: {kind: model, mode: inference, command: [/usr/bin/python3, x.py], ranks: cp}\n")
	out, errs, err := s.sh("SBATCH_TIMELIMIT=5 cpbench doctor good.yaml --job --json")
	got := findings(t, []byte(out))
	want := map[string]doctor.Grade{
		"slurm": doctor.Good, "accounting": doctor.Warn, "arrays": doctor.Good, "partition": doctor.Good, "requeue": doctor.Warn, "inactive": doctor.Warn, "environment": doctor.Warn,
		"runs": doctor.Good, "nvml": doctor.Warn, "gpus": doctor.Good, "spec": doctor.Good, "shared folder": doctor.Good, "clock": doctor.Good, "setup": doctor.Good,
		"job's GPUs": doctor.Warn, "program": got["program"].Grade, // whatever Python there is here
	}
	grades := map[string]doctor.Grade{}
	for check, f := range got {
		grades[check] = f.Grade
	}
	if diff := cmp.Diff(want, grades); diff != "" {
		t.Errorf("%s\n%s%s%v", diff, out, errs, err)
	}
	for check, text := range map[string]string{
		"requeue": "exit code [1] is put into the queue again", "inactive": "5m0s (InactiveLimit)", "environment": "SBATCH_TIMELIMIT=5 beats",
		"runs": "does see it", "shared folder": "node n", "setup": "1 line went well on n", "program": "Python 3",
	} {
		if !strings.Contains(got[check].Text, text) {
			t.Errorf("%s: %q, want %q", check, got[check].Text, text)
		}
	}
	if left := s.must("ls cpbench-runs"); left != "" {
		t.Errorf("doctor has left %s", left)
	}
}

// TestDoctorFinds has a job fail in each way that a user can mend.
func TestDoctorFinds(t *testing.T) {
	t.Parallel()
	s := newSite(t, slurmtest.Shared(t))
	for name, test := range map[string]struct{ keys, check, text string }{
		"setup":     {"setup: ['true', 'echo no such module >&2; false']", "setup", "line 2 of setup failed on n"},
		"program":   {"", "program", `"no-such-program": executable file not found`},
		"container": {"container: {runtime: apptainer, image: 'docker://x'}", "container", "apptainer is not installed"},
		"refused":   {"slurm: {partition: nope}", "job", "refused"},
		"spec":      {"resources: {gpus_per_node: 9}", "spec", "asks for 9 GPUs on each node"},
	} {
		s.spec(name+".yaml", "version: 1\nname: x\nmatrix: {n: [1]}\nworkload: {kind: command, command: [no-such-program]}\n"+test.keys+"\n")
		out, errs, err := s.sh("cpbench doctor " + name + ".yaml --job --json")
		if f := findings(t, []byte(out))[test.check]; cmdExit(err) != exitIncomplete || f.Grade != doctor.Bad || !strings.Contains(f.Text, test.text) {
			t.Errorf("%s: %v: %+v\n%s", name, err, f, errs)
		}
	}
	for name, test := range map[string]struct {
		server, check string
		grade         doctor.Grade
		text          string
	}{
		"program of a server":       {"{command: [no-such-server, '{port}']}", "program", doctor.Bad, `"no-such-server": executable file not found`},
		"server out of reach":       {"{url: 'http://127.0.0.1:1'}", "server", doctor.Bad, "http://127.0.0.1:1 cannot be reached from n"},
		"server that takes callers": {"{url: '" + caller(t) + "'}", "server", doctor.Good, "takes connections from n"},
	} {
		s.spec("llm.yaml", "version: 1\nname: x\nworkload: {kind: llm, label: A, cache: cold, data: synth, ctx: 0, concurrency: 1, max_tokens: 5, server: "+test.server+"}\n")
		out, errs, _ := s.sh("cpbench doctor llm.yaml --job --json")
		if f := findings(t, []byte(out))[test.check]; f.Grade != test.grade || !strings.Contains(f.Text, test.text) {
			t.Errorf("%s: %+v\n%s%s", name, f, out, errs)
		}
	}
	out, _, err := s.sh("sed -i 's/nope/short/' refused.yaml; scontrol update PartitionName=short State=DOWN; cpbench doctor refused.yaml --job --patience 2s --json; rc=$?; scontrol update PartitionName=short State=UP; squeue -h >&2; exit $rc")
	if f := findings(t, []byte(out))["job"]; cmdExit(err) != exitIncomplete || f.Grade != doctor.Bad || !strings.Contains(f.Text, "after 2s its state is PENDING") {
		t.Errorf("a job that waits: %+v", f)
	}
}
