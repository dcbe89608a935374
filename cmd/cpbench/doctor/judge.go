package doctor

import (
	"path/filepath"
	"strings"
	"time"

	"cpbench/plan/folder"
)

// judge turns a report into findings. The job was submitted at began, and its report seen here at seen.
func (d *Doctor) judge(run *folder.Run, p *report, began, seen time.Time) {
	d.add("shared folder", Good, "", "node %s saw %s, ran the cpbench in it and wrote to it", p.Host, filepath.Dir(run.Dir))
	for i := range d.found { // what was only feared of the place of the runs is known now
		if f := &d.found[i]; f.Check == "runs" && f.Grade == Warn {
			f.Grade, f.Text, f.Advice = Good, f.Text+"; node "+p.Host+" does see it", ""
		}
	}
	d.judgeClock(p, began, seen)
	if p.Setup != "" {
		line, rc, _ := strings.Cut(p.Setup, ":")
		d.add("setup", Bad, "try it on that node: srun --pty bash", "line %s of setup failed on %s with exit code %s: %s", line, p.Host, rc, output(run))
		return
	}
	if n := len(d.specSetup()); n > 0 {
		d.add("setup", Good, "", "%s went well on %s", count(n, "line"), p.Host)
	}
	d.judgeGPUs(p)
	if d.spec != nil {
		d.judgeProgram(p)
	}
}

// judgeClock compares a node's clock with this one: its report was made between began and seen.
func (d *Doctor) judgeClock(p *report, began, seen time.Time) {
	switch early, late := began.Sub(p.Time), p.Time.Sub(seen); {
	case max(early, late) > 2*time.Second:
		d.add("clock", Warn, "ask the site; times of nodes cannot be compared, while those within one node can", "the clock of %s differs from this one by at least %v", p.Host, max(early, late).Round(time.Second))
	default:
		d.add("clock", Good, "", "that of %s agrees with this one, as far as a job that took %v can tell", p.Host, seen.Sub(began).Round(time.Second))
	}
}

func (d *Doctor) specSetup() []string {
	if d.spec == nil {
		return nil
	}
	return d.spec.Plan.Spec.Setup
}

func (d *Doctor) judgeGPUs(p *report) {
	asked := d.spec != nil && d.spec.Plan.Arrays[0].Shape.GPUsPerNode > 0
	switch {
	case len(p.GPUs) > 0 && p.Source == "nvml":
		d.add("job's GPUs", Good, "", "on %s, by NVML: %s", p.Host, strings.Join(p.GPUs, ", "))
	case len(p.GPUs) > 0:
		d.add("job's GPUs", Warn, "put cpbench-nvml beside cpbench for energy, clocks and throttling", "on %s, by %s only: %s (%s)", p.Host, p.Source, strings.Join(p.GPUs, ", "), p.Doubt)
	case asked:
		d.add("job's GPUs", Warn, "measurements work, but without power, clocks and the look for other processes", "no readings on %s although a GPU was asked for: %s", p.Host, p.Doubt)
	default:
		d.add("job's GPUs", Good, "", "none on %s, and none was asked for", p.Host)
	}
}

func (d *Doctor) judgeProgram(p *report) {
	asked := d.spec.Plan.Arrays[0].Shape.GPUsPerNode > 0
	switch {
	case p.Box != "":
		d.add("container", Bad, "", "on %s: %s", p.Host, p.Box)
	case p.Server != "" && p.Distant != "":
		d.add("server", Bad, "let it listen on an address that compute nodes reach, not on loopback alone; firewalls may be in between", "%s cannot be reached from %s: %s", p.Server, p.Host, p.Distant)
	case p.Server != "":
		d.add("server", Good, "", "%s takes connections from %s", p.Server, p.Host)
	case p.Failure != "":
		d.add("program", Bad, "load what it needs in setup", "on %s %s cannot be run: %s", p.Host, p.Program, p.Failure)
	case p.Python == nil:
		d.add("program", Good, "", "%s is there on %s", p.Program, p.Host)
	case p.Python.Torch == "":
		d.add("program", Warn, "load it in setup, or name another Python in workload.command", "%s is Python %s (%s), without torch: %s", p.Program, p.Python.Version, p.Python.Path, p.Python.Why)
	case asked && p.Python.Devices == 0:
		d.add("program", Bad, "install a torch for CUDA, and look at the driver", "Python %s (%s) has torch %s, which sees no GPU (CUDA %q)", p.Python.Version, p.Python.Path, p.Python.Torch, p.Python.CUDA)
	default:
		d.add("program", Good, "", "Python %s (%s) with torch %s, CUDA %q, %s seen", p.Python.Version, p.Python.Path, p.Python.Torch, p.Python.CUDA, count(p.Python.Devices, "GPU"))
	}
}
