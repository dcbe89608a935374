package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"cpbench/plan"
	"cpbench/plan/folder"
	"cpbench/slurm"
	"cpbench/slurm/refusal"
	"cpbench/templates"
)

// probeSpec is what is planned for the job of doctor without a spec.
const probeSpec = "version: 1\nname: doctor\nmatrix: {n: [1]}\nworkload: {kind: command, command: [bash]}\n"

// lag is how long a file of another node may take to be seen here, on a file system that caches folders.
const lag = 2 * time.Minute

// lookFromJob submits a job that looks from a compute node, waits for its report and judges it.
func (d *doctor) lookFromJob(ctx context.Context, v voice, patience time.Duration) {
	run, err := d.probeRun()
	if err != nil {
		d.add("job", bad, "", "no run folder for the job: %v", err)
		return
	}
	defer os.RemoveAll(run.Dir) // what may be left is small, and named doctor
	script, err := slurm.ProbeScript(run)
	if err != nil {
		d.add("job", bad, "", "%v", err)
		return
	}
	began := time.Now()
	s := &slurm.Slurm{}
	id, err := s.Submit(ctx, script)
	if err != nil {
		advice := ""
		if e, ok := refusal.Explain(ctx, s, err, slurm.Job{Run: run, Attempt: 1}); ok {
			advice = strings.Join(e.Lines(), "; ")
		}
		d.add("job", bad, advice, "the job was refused: %v", err)
		return
	}
	v.sayf("job %s looks from a compute node; waiting for it for at most %v", id, patience)
	p, why := awaitProbe(ctx, s, run, id, patience)
	if p == nil {
		if err := s.Cancel(context.WithoutCancel(ctx), id); err != nil {
			why += "; " + err.Error()
		}
		d.add("job", bad, "see squeue -j "+id+" and sinfo; a node that does not see "+run.Dir+" cannot report", "job %s left no report: %s", id, why)
		return
	}
	d.judge(run, p, began, time.Now())
}

// probeRun makes the run folder of the job: that of the spec, or the least one.
func (d *doctor) probeRun() (*folder.Run, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text := []byte(probeSpec)
	var p *plan.Plan
	if d.src != nil {
		p, text = d.src.plan, d.src.text
	} else {
		dir, err := filepath.Abs(d.runs)
		if err != nil {
			return nil, err
		}
		spec, err := plan.Load("doctor.yaml", text)
		if err != nil {
			return nil, err
		}
		if p, _, err = plan.New(spec, plan.Options{Source: filepath.Join(dir, "doctor.yaml"), Version: version().Version}); err != nil {
			return nil, err
		}
	}
	p.Name = "doctor" // of the run folder and the job; nobody else uses the plan any more
	return folder.Create(d.runs, time.Now(), p, text, binary, folder.LibFile{Name: "cpbench_torch.py", Text: templates.CpbenchTorch})
}

// awaitProbe waits for the report of a job. Without one the text says what is known of the job.
func awaitProbe(ctx context.Context, s *slurm.Slurm, run *folder.Run, id string, patience time.Duration) (*probe, string) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	job := watched{id: id, state: "it is not known to the queue"}
	for n := 0; ; n++ {
		p, err := readProbe(run)
		if err == nil {
			return p, ""
		}
		if !errors.Is(err, os.ErrNotExist) {
			return nil, err.Error()
		}
		if n%10 == 0 { // each look is a request to the controller
			job.look(ctx, s)
		}
		if said := output(run); !job.ended.IsZero() && (said != "" || time.Since(job.ended) > lag) {
			return nil, strings.TrimSuffix(job.state+"; "+said, "; ")
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Sprintf("after %v %s", patience, job.state)
		case <-tick.C:
		}
	}
}

// watched is a job that is waited for.
type watched struct {
	id    string
	known bool      // the queue has known it
	state string    // in words
	ended time.Time // when that was first seen
}

// look asks the queue for the job's state. A job that it does not know any more has ended.
func (w *watched) look(ctx context.Context, s *slurm.Slurm) {
	tasks, err := s.Tasks(ctx, w.id)
	if err != nil {
		return // the next look may be answered
	}
	task, found := tasks[0]
	over := w.known && !found || found && task.State.Ended()
	if found {
		w.known, w.state = true, strings.TrimSpace(fmt.Sprintf("its state is %s %s", task.State, task.Node))
	}
	if over && w.ended.IsZero() {
		w.ended = time.Now()
	}
}

// readProbe lists the folder before it opens the file: a shared file system remembers that a name does not exist.
func readProbe(run *folder.Run) (*probe, error) {
	entries, err := os.ReadDir(run.Dir)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == probeFile }) {
		return nil, os.ErrNotExist
	}
	text, err := os.ReadFile(filepath.Join(run.Dir, probeFile))
	if err != nil {
		return nil, err
	}
	var p probe
	return &p, json.Unmarshal(text, &p)
}

// output is the end of what the job has printed.
func output(run *folder.Run) string {
	found, err := os.ReadDir(run.LogsDir())
	if err != nil {
		return ""
	}
	text := ""
	for _, e := range found {
		if said, err := os.ReadFile(filepath.Join(run.LogsDir(), e.Name())); err == nil {
			text += strings.ReplaceAll(strings.TrimSpace(string(said)), "\n", "; ")
		}
	}
	return text[max(0, len(text)-400):]
}

// judge turns a report into findings. The job was submitted at began, and its report seen here at seen.
func (d *doctor) judge(run *folder.Run, p *probe, began, seen time.Time) {
	d.add("shared folder", good, "", "node %s saw %s, ran the cpbench in it and wrote to it", p.Host, filepath.Dir(run.Dir))
	for i := range d.found { // what was only feared of the place of the runs is known now
		if f := &d.found[i]; f.Check == "runs" && f.Grade == warn {
			f.Grade, f.Text, f.Advice = good, f.Text+"; node "+p.Host+" does see it", ""
		}
	}
	d.judgeClock(p, began, seen)
	if p.Setup != "" {
		line, rc, _ := strings.Cut(p.Setup, ":")
		d.add("setup", bad, "try it on that node: srun --pty bash", "line %s of setup failed on %s with exit code %s: %s", line, p.Host, rc, output(run))
		return
	}
	if n := len(d.specSetup()); n > 0 {
		d.add("setup", good, "", "%s went well on %s", countText(n, "line"), p.Host)
	}
	d.judgeGPUs(p)
	if d.src != nil {
		d.judgeProgram(p)
	}
}

// judgeClock compares a node's clock with this one: its report was made between began and seen.
func (d *doctor) judgeClock(p *probe, began, seen time.Time) {
	switch early, late := began.Sub(p.Time), p.Time.Sub(seen); {
	case max(early, late) > 2*time.Second:
		d.add("clock", warn, "ask the site; times of nodes cannot be compared, while those within one node can", "the clock of %s differs from this one by at least %v", p.Host, max(early, late).Round(time.Second))
	default:
		d.add("clock", good, "", "that of %s agrees with this one, as far as a job that took %v can tell", p.Host, seen.Sub(began).Round(time.Second))
	}
}

func (d *doctor) specSetup() []string {
	if d.src == nil {
		return nil
	}
	return d.src.plan.Spec.Setup
}

func (d *doctor) judgeGPUs(p *probe) {
	asked := d.src != nil && d.src.plan.Arrays[0].Shape.GPUsPerNode > 0
	switch {
	case len(p.GPUs) > 0 && p.Source == "nvml":
		d.add("job's GPUs", good, "", "on %s, by NVML: %s", p.Host, strings.Join(p.GPUs, ", "))
	case len(p.GPUs) > 0:
		d.add("job's GPUs", warn, "put cpbench-nvml beside cpbench for energy, clocks and throttling", "on %s, by %s only: %s (%s)", p.Host, p.Source, strings.Join(p.GPUs, ", "), p.Doubt)
	case asked:
		d.add("job's GPUs", warn, "measurements work, but without power, clocks and the look for other processes", "no readings on %s although a GPU was asked for: %s", p.Host, p.Doubt)
	default:
		d.add("job's GPUs", good, "", "none on %s, and none was asked for", p.Host)
	}
}

func (d *doctor) judgeProgram(p *probe) {
	asked := d.src.plan.Arrays[0].Shape.GPUsPerNode > 0
	switch {
	case p.Box != "":
		d.add("container", bad, "", "on %s: %s", p.Host, p.Box)
	case p.Failure != "":
		d.add("program", bad, "load what it needs in setup", "on %s %s cannot be run: %s", p.Host, p.Program, p.Failure)
	case p.Python == nil:
		d.add("program", good, "", "%s is there on %s", p.Program, p.Host)
	case p.Python.Torch == "":
		d.add("program", warn, "load it in setup, or name another Python in workload.command", "%s is Python %s (%s), without torch: %s", p.Program, p.Python.Version, p.Python.Path, p.Python.Why)
	case asked && p.Python.Devices == 0:
		d.add("program", bad, "install a torch for CUDA, and look at the driver", "Python %s (%s) has torch %s, which sees no GPU (CUDA %q)", p.Python.Version, p.Python.Path, p.Python.Torch, p.Python.CUDA)
	default:
		d.add("program", good, "", "Python %s (%s) with torch %s, CUDA %q, %s seen", p.Python.Version, p.Python.Path, p.Python.Torch, p.Python.CUDA, countText(p.Python.Devices, "GPU"))
	}
}
