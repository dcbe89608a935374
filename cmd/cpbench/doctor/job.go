package doctor

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

// LookFromJob submits a job that looks from a compute node, waits for its report and judges it.
func (d *Doctor) LookFromJob(ctx context.Context, say func(format string, args ...any), patience time.Duration) {
	run, err := d.probeRun()
	if err != nil {
		d.add("job", Bad, "", "no run folder for the job: %v", err)
		return
	}
	defer os.RemoveAll(run.Dir) // what may be left is small, and named doctor
	script, err := slurm.ProbeScript(run)
	if err != nil {
		d.add("job", Bad, "", "%v", err)
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
		d.add("job", Bad, advice, "the job was refused: %v", err)
		return
	}
	say("job %s looks from a compute node; waiting for it for at most %v", id, patience)
	p, why := awaitProbe(ctx, s, run, id, patience)
	if p == nil {
		if err := s.Cancel(context.WithoutCancel(ctx), id); err != nil {
			why += "; " + err.Error()
		}
		d.add("job", Bad, "see squeue -j "+id+" and sinfo; a node that does not see "+run.Dir+" cannot report", "job %s left no report: %s", id, why)
		return
	}
	d.judge(run, p, began, time.Now())
}

// probeRun makes the run folder of the job: that of the spec, or the least one.
func (d *Doctor) probeRun() (*folder.Run, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text := []byte(probeSpec)
	var p *plan.Plan
	if d.spec != nil {
		p, text = d.spec.Plan, d.spec.Text
	} else {
		dir, err := filepath.Abs(d.runs)
		if err != nil {
			return nil, err
		}
		spec, err := plan.Load("doctor.yaml", text)
		if err != nil {
			return nil, err
		}
		if p, _, err = plan.New(spec, plan.Options{Source: filepath.Join(dir, "doctor.yaml"), Version: d.version}); err != nil {
			return nil, err
		}
	}
	p.Name = "doctor" // of the run folder and the job; nobody else uses the plan any more
	return folder.Create(d.runs, time.Now(), p, text, binary, folder.LibFile{Name: "cpbench_torch.py", Text: templates.CpbenchTorch})
}

// awaitProbe waits for the report of a job. Without one the text says what is known of the job.
func awaitProbe(ctx context.Context, s *slurm.Slurm, run *folder.Run, id string, patience time.Duration) (*report, string) {
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
func readProbe(run *folder.Run) (*report, error) {
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
	var p report
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
