package slurm

import (
	"bytes"
	"fmt"

	"cpbench/plan/folder"
	"cpbench/templates"
)

var probeScript = parseScript("probe.sbatch", templates.ProbeScript)

// ProbeScript writes the batch script of a job that looks at a compute node for cpbench doctor: one node with one of the
// GPUs that the run's first array asks for, the memory that a look at torch takes, five minutes, and the set-up lines and options of the queue of the spec.
func ProbeScript(run *folder.Run) ([]byte, error) {
	output, err := outputPattern(run.LogsDir(), "%j_probe.out")
	if err != nil {
		return nil, err
	}
	setup, err := setupLines(run.Plan.Spec.Setup)
	if err != nil {
		return nil, err
	}
	s, shape := run.Plan.Spec.Slurm, run.Plan.Arrays[0].Shape
	gres := ""
	if shape.GPUsPerNode > 0 {
		shape.GPUsPerNode = 1
		shapeDirectives(shape, func(name, value string) {
			if name == "gres" {
				gres = value
			}
		})
	}
	var directives []string
	for _, d := range [][2]string{
		{"job-name", run.Name()},
		{"comment", "cpbench:" + run.Name() + ":probe"},
		{"output", output},
		{"nodes", "1"},
		{"ntasks", "1"},
		{"cpus-per-task", "1"},
		{"mem", "4G"},
		{"gres", gres},
		{"time", "00:05:00"},
		{"partition", s.Partition},
		{"account", s.Account},
		{"qos", s.QOS},
		{"constraint", s.Constraint},
		{"reservation", s.Reservation},
		{"exclude", s.Exclude},
	} {
		if d[1] == "" {
			continue
		}
		value, err := directiveWord(d[1])
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", d[0], err)
		}
		directives = append(directives, "--"+d[0]+"="+value)
	}
	binary, err := ShellWord(run.Binary())
	if err != nil {
		return nil, fmt.Errorf("the path %q cannot stand in a script: %w", run.Binary(), err)
	}
	dir, err := ShellWord(run.Dir)
	if err != nil {
		return nil, fmt.Errorf("the path %q cannot stand in a script: %w", run.Dir, err)
	}
	var out bytes.Buffer
	err = probeScript.Execute(&out, map[string]any{
		"Directives": append(directives, "--no-requeue"), "Version": run.Plan.Version, "BinaryWord": binary, "RunWord": dir, "Setup": setup,
	})
	return out.Bytes(), err
}
