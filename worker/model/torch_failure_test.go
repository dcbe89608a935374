package model

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"cpbench/plan/catalogue"
	"cpbench/worker/model/protocol"
)

// faulty are hooks that fail on one rank as told. The ranks meet in a collective in every step.
const faulty = `
import os, signal, sys, time
import torch
import torch.distributed as dist
import cpbench_torch

FAULT = cpbench_torch.option("fault", "")
RANK = cpbench_torch.option("rank", 1)
AT = cpbench_torch.option("at", 1)
MINE = RANK == int(os.environ["RANK"])
steps = 0

def suffer(place):
    if not (MINE and FAULT.endswith("@" + place)):
        return
    print("\nsuffers at %.3f" % time.time(), flush=True)
    kind = FAULT.split("@")[0]
    if kind == "oom":
        return torch.ones(1 << 28)
    if kind == "python-oom":
        return bytearray(1 << 30)
    if kind == "error":
        raise ValueError("a mistake of the hooks")
    if kind == "hang":
        time.sleep(3600)
    if kind == "freeze":
        os.kill(os.getpid(), signal.SIGSTOP)
    if kind == "exit":
        sys.exit(0)
    if kind == "skip":
        raise cpbench_torch.Skip("1 is no size for this mesh")
    if kind == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if kind == "vanish":
        os._exit(5)
    if kind == "wrong":
        raise cpbench_torch.WrongOutput("differs by 3")
    if kind == "kernel":
        raise RuntimeError("CUDA error: an illegal memory access was encountered")
    return float("nan")

def build_model(mesh, device):
    suffer("build")
    return torch.ones(8, 8)

def padded(N, mesh):
    suffer("padded")
    return N

def build_batch(N, n_atoms, S, mesh, device):
    suffer("prepare")
    return torch.ones(8, 8)

def run_step(model, batch, train):
    global steps
    steps += 1
    x = model @ batch
    if steps == AT:
        found = suffer("step")
        if FAULT.startswith("nan") and MINE:
            x[3, 3] = found
    y = torch.ones(4)
    dist.all_reduce(y)
    return {"pair": x, "all": [y]}
`

func TestTorchFaults(t *testing.T) {
	tests := map[string]struct {
		ranks    int
		args     string
		with     string
		outcome  catalogue.Outcome
		reason   string
		evidence string
	}{
		// The other rank waits in a collective.
		"oom in a step":       {2, "fault=oom@step memory=64MiB", "", catalogue.OOMDevice, "rank 1 ran out of memory in step", "DefaultCPUAllocator"},
		"oom in a timed step": {2, "fault=oom@step at=22 memory=64MiB", "warmup: 20", catalogue.OOMDevice, "rank 1 ran out of memory in step", "DefaultCPUAllocator"},
		"error":               {2, "fault=error@step", "", catalogue.Error, "rank 1 failed", "ValueError: a mistake of the hooks"},
		"crashed":             {2, "fault=crash@step", "", catalogue.Error, "rank 1 was ended by signal 11", "in run_step"},
		"vanished":            {2, "fault=vanish@step", "", catalogue.Error, "rank 1 ended with exit code 5", ""},
		"not a number":        {2, "fault=nan@step", "", catalogue.WrongOutput, "the output of rank 1 is not finite", ""},

		"oom in build":            {1, "fault=oom@build memory=64MiB", "", catalogue.OOMDevice, "rank 0 ran out of memory in build", "DefaultCPUAllocator"},
		"oom in prepare":          {1, "fault=oom@prepare memory=64MiB", "", catalogue.OOMDevice, "rank 0 ran out of memory in prepare", "DefaultCPUAllocator"},
		"oom of Python":           {1, "fault=python-oom@step memory=64MiB", "", catalogue.OOMDevice, "rank 0 ran out of memory in step", "MemoryError"},
		"not a number when timed": {1, "fault=nan@step at=22", "warmup: 20", catalogue.WrongOutput, "the output of rank 0 is not finite", ""},
		"wrong output":            {1, "fault=wrong@step", "", catalogue.WrongOutput, "rank 0", "differs by 3"},
		"exit of the hooks":       {1, "fault=exit@prepare", "", catalogue.Error, "rank 0 failed", "the hooks called exit(0)"},
		"kernel":                  {1, "fault=kernel@step", "", catalogue.ErrorKernel, "rank 0", "an illegal memory access"},
		"skipped":                 {1, "fault=skip@padded", "", catalogue.Skipped, "rank 0", "1 is no size for this mesh"},
		"unread option":           {1, "chanels=8", "", catalogue.Error, "failed", "nobody asked for option chanels=8; known: at, device, fault, inference_mode, memory, rank, seed"},
		"unread dtype":            {1, "", "dtype: bf16", catalogue.Error, "failed", "the hooks never asked cpbench_torch.dtype()"},
	}
	onEach(t, func(t *testing.T, python string) {
		dir := hooks(t, faulty)
		for name, tt := range tests {
			t.Run(name, func(t *testing.T) {
				var with []string
				if tt.with != "" {
					with = []string{tt.with}
				}
				args := append(strings.Fields("my_hooks "+tt.args), "rank="+strconv.Itoa(tt.ranks-1))
				st, r, _ := only(t, torchSpec(t, dir, tt.ranks, torchCommand(python, args...), with...))
				ended := time.Now()
				if r.Outcome != tt.outcome || !strings.Contains(r.Reason, tt.reason) || !strings.Contains(r.Evidence, tt.evidence) {
					t.Errorf("%s: %q: %q", r.Outcome, r.Reason, r.Evidence)
				}
				for rank := range tt.ranks {
					at, ok := suffered(t, st.output(rank))
					if took := ended.Sub(at); ok && took > soon {
						t.Errorf("known %v after it happened, want less than %v", took, soon)
					}
				}
			})
		}
	})
}

// A rank that hangs in its own code, or is stopped, while its peer waits for it in a collective: the evidence shows both.
func TestTorchHang(t *testing.T) {
	const heartbeat = 3 * time.Second
	onEach(t, func(t *testing.T, python string) {
		dir := hooks(t, faulty)
		for fault, want := range map[string]struct{ reason, place string }{
			"hang":   {"all ranks are alive, but no step has ended for 3s", `in my_hooks\.py:\d+ suffer, 1 step done$`},
			"freeze": {"rank 1 has given no sign of life for 3s", `silent for \d`},
		} {
			t.Run(fault, func(t *testing.T) {
				command := torchCommand(python, "my_hooks", "fault="+fault+"@step", "at=22")
				_, r, _ := only(t, torchSpec(t, dir, 2, command, "warmup: 20", "heartbeat: "+heartbeat.String()))
				if r.Outcome != catalogue.Hang || r.Reason != want.reason {
					t.Errorf("%s: %q", r.Outcome, r.Reason)
				}
				for _, line := range []string{
					`(?m)^no answer yet from rank 0, 1$`,
					`(?m)^rank 0: for .* in distributed_c10d\.py:\d+ all_reduce, my_hooks\.py:\d+ run_step, 1 step done$`,
					`(?m)^rank 1: for .* ` + want.place,
				} {
					if !regexp.MustCompile(line).MatchString(r.Evidence) {
						t.Errorf("evidence lacks %s", line)
					}
				}
			})
		}
	})
}

// suffered finds the time at which a rank failed in its log.
func suffered(t *testing.T, log string) (time.Time, bool) {
	t.Helper()
	all := regexp.MustCompile(`suffers at ([0-9.]+)`).FindAllStringSubmatch(log, -1)
	if len(all) == 0 {
		return time.Time{}, false
	}
	seconds, err := strconv.ParseFloat(all[len(all)-1][1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.UnixMilli(int64(seconds * 1000)), true
}

// A rank that cannot begin says why.
func TestTorchRefusals(t *testing.T) {
	const good = "def build_model(mesh, device): pass\ndef build_batch(N, n_atoms, S, mesh, device): pass\n"
	const step = "def run_step(model, batch, train): return None\n"
	tests := map[string]struct {
		hooks   string
		command func(python string) []string
		outcome catalogue.Outcome
		want    string // in reason or evidence
	}{
		"no such hook":      {good, nil, catalogue.Error, "has no function run_step(model, batch, train)"},
		"other arguments":   {good + "def run_step(model, batch): pass\n", nil, catalogue.Error, "run_step(model, batch): want run_step(model, batch, train)"},
		"broken module":     {good + step + "import no_such_module_of_mine\n", nil, catalogue.Error, "No module named 'no_such_module_of_mine'"},
		"no such module":    {good, func(p string) []string { return torchCommand(p, "other_hooks") }, catalogue.Error, "No module named 'other_hooks'"},
		"not an option":     {good + step, func(p string) []string { return torchCommand(p, "my_hooks", "channels") }, catalogue.Error, `'channels': want key=value`},
		"device":            {good + step, func(p string) []string { return torchCommand(p, "my_hooks", "device=cuda") }, catalogue.Error, "sees no GPU; device=cpu runs on the CPU"},
		"wrong world":       {good + step, inEnv("WORLD_SIZE=3"), catalogue.Error, "says that the world has 3 ranks, but 1 were planned"},
		"no rank":           {good + step, inEnv("-u", "RANK"), catalogue.Error, "RANK is not set"},
		"no address":        {good + step, inEnv("-u", protocol.EnvConnect), catalogue.Error, protocol.EnvConnect + " is not set"},
		"rank out of range": {good + step, inEnv("RANK=1"), catalogue.Error, "RANK=1 is not within WORLD_SIZE=1"},
	}
	onEach(t, func(t *testing.T, python string) {
		for name, tt := range tests {
			t.Run(name, func(t *testing.T) {
				command := torchCommand(python, "my_hooks")
				if tt.command != nil {
					command = tt.command(python)
				}
				_, r, _ := only(t, torchSpec(t, hooks(t, tt.hooks), 1, command))
				if r.Outcome != tt.outcome || !strings.Contains(r.Reason+"\n"+r.Evidence, tt.want) {
					t.Errorf("%s: %q: %q", r.Outcome, r.Reason, r.Evidence)
				}
			})
		}
	})
}

// The module that is imported is the one in the run, not the one in the working folder, which has changed since.
func TestTorchImportsTheFrozenHooks(t *testing.T) {
	onEach(t, func(t *testing.T, python string) {
		st := newStage(t, torchSpec(t, t.TempDir(), 1, torchCommand(python, "my_hooks")))
		program, err := os.ReadFile(abs(t, "templates/python/cpbench_torch.py"))
		if err != nil {
			t.Fatal(err)
		}
		for file, text := range map[string]string{
			filepath.Join(st.run.Lib(), "cpbench_torch.py"):        string(program),
			filepath.Join(st.run.Lib(), "my_hooks.py"):             faulty,
			filepath.Join(filepath.Dir(st.run.Dir), "my_hooks.py"): "raise ValueError('changed')\n",
		} {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if r, _, _ := st.perform(t.Context(), 0); r.Outcome != catalogue.OK {
			t.Errorf("%s: %s: %s", r.Outcome, r.Reason, r.Evidence)
		}
	})
}

// inEnv runs a rank in another environment than its launcher's.
func inEnv(args ...string) func(string) []string {
	return func(python string) []string {
		return append(append([]string{"env"}, args...), torchCommand(python, "my_hooks")...)
	}
}
