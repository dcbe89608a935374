package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"cpbench/plan/folder"
	"cpbench/worker/container"
	"cpbench/worker/gpu"
	readings "cpbench/worker/gpu/source"

	"github.com/google/renameio/v2"
)

// report is what a job of cpbench doctor saw on a compute node.
type report struct {
	Host    string    `json:"host"`
	Time    time.Time `json:"time"`            // of the node's clock
	Setup   string    `json:"setup,omitempty"` // LINE:RC of the set-up line that failed; nothing else was looked at then
	GPUs    []string  `json:"gpus"`
	Source  string    `json:"gpu_source"`
	Doubt   string    `json:"gpu_doubt,omitempty"`
	Box     string    `json:"container,omitempty"`       // why the container cannot start
	Program string    `json:"program"`                   // the first word of the command, as it is found
	Python  *python   `json:"python,omitempty"`          // nil: the program is none
	Failure string    `json:"program_failure,omitempty"` // why the program, or its Python, cannot run
	Server  string    `json:"server,omitempty"`          // address of the server to which the first point goes; then there is no program
	Distant string    `json:"server_failure,omitempty"`  // why no connection to it opens
}

// python is what an interpreter says of itself.
type python struct {
	Version string `json:"version"`
	Path    string `json:"path"`
	Torch   string `json:"torch"` // empty: not there
	Why     string `json:"why"`   // ... and why
	CUDA    string `json:"cuda"`
	Devices int    `json:"devices"` // that torch sees
}

// pythonLook prints what Python knows, as JSON on its last line.
const pythonLook = `
import json, platform, sys
seen = {"version": platform.python_version(), "path": sys.executable, "torch": "", "why": "", "cuda": "", "devices": 0}
try:
    import torch
    seen.update(torch=torch.__version__, cuda=torch.version.cuda or "", devices=torch.cuda.device_count())
except Exception as e:
    seen["why"] = "%s: %s" % (type(e).__name__, e)
print(json.dumps(seen))
`

// probeFile is the report in the run folder.
const probeFile = "probe.json"

// Probe looks at this node and leaves its report in the run's folder; the job of LookFromJob calls it. setupFailed is LINE:RC
// of the set-up line that failed, of a job that has come no further; else it is empty.
func Probe(ctx context.Context, run *folder.Run, setupFailed string) error {
	text, err := json.Marshal(look(ctx, run, setupFailed))
	if err != nil {
		return err
	}
	return renameio.WriteFile(filepath.Join(run.Dir, probeFile), text, 0o644)
}

// look looks at this node.
func look(ctx context.Context, run *folder.Run, setup string) report {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	p := report{Host: host, Time: time.Now(), Setup: setup}
	if setup != "" {
		return p
	}
	p.GPUs, p.Source, p.Doubt = gpusHere(ctx, filepath.Dir(run.Binary()))
	box := container.Of(run)
	if err := box.Check(); err != nil {
		p.Box = err.Error()
		return p
	}
	p.program(ctx, run, box)
	return p
}

// gpusHere names the GPUs of this node. The helper is looked for in dir.
func gpusHere(ctx context.Context, dir string) (names []string, from, doubt string) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	helper := filepath.Join(dir, "cpbench-nvml")
	if _, err := os.Stat(helper); err != nil {
		helper = ""
	}
	sampler, found, doubt := readings.Open(ctx, readings.Options{Helper: helper})
	defer sampler.Close()
	if found == gpu.None {
		return nil, string(found), doubt
	}
	devices, err := sampler.Identify(ctx)
	if err != nil {
		return nil, string(found), err.Error()
	}
	for _, d := range devices {
		names = append(names, d.Name)
	}
	return names, string(found), doubt
}

// reach opens a connection to a server and sends nothing over it: who else uses the server is not disturbed.
func (p *report) reach(ctx context.Context, address string) {
	p.Server = address
	u, err := url.Parse(address)
	if err != nil {
		p.Distant = err.Error()
		return
	}
	port := u.Port()
	if port == "" {
		port = u.Scheme // a name that the resolver knows
	}
	conn, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		p.Distant = err.Error()
		return
	}
	_ = conn.Close() // nothing was written
}

// program looks for the program or the server of the first point, and asks it what it is if it is a Python.
func (p *report) program(ctx context.Context, run *folder.Run, box container.Box) {
	task, err := run.Task(0, 0)
	if err != nil {
		p.Failure = err.Error()
		return
	}
	setting, err := run.Plan.At(task.Pairs[0].Point, 1)
	if err != nil {
		p.Failure = err.Error()
		return
	}
	command := setting.Command
	if s := setting.Serving; s != nil {
		if s.Target.URL != "" {
			p.reach(ctx, s.Target.URL)
			return
		}
		command = s.Target.Command
	}
	p.Program = command[0]
	env := os.Environ()
	for name, value := range setting.Env {
		env = append(env, name+"="+value)
	}
	word := []string{p.Program, "-c", pythonLook}
	isPython := strings.HasPrefix(filepath.Base(p.Program), "python")
	if !isPython {
		if box.None() {
			if p.Program, err = exec.LookPath(p.Program); err != nil {
				p.Failure = err.Error()
			}
			return
		}
		word = []string{"env"} // shows at least that the container starts
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	argv, env := box.Alone(word, env, run.Dir, setting.Resources.GPUsPerNode > 0, 1, nil)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var stderr bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stderr, cmd.WaitDelay = run.Dir, env, &stderr, time.Second
	out, err := cmd.Output()
	if err != nil {
		said := strings.TrimSpace(stderr.String())
		p.Failure = fmt.Sprintf("%s: %v: %s", argv[0], err, said[max(0, len(said)-400):])
		return
	}
	if isPython {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		p.Python = &python{}
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), p.Python); err != nil {
			p.Failure = "it printed no report: " + err.Error()
		}
	}
}
