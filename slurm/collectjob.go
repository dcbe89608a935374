package slurm

import (
	"bytes"
	"fmt"
	"strings"
	"text/template"

	"cpbench/plan/folder"
	"cpbench/templates"
)

// CollectJob is the job that makes the table of a run when its arrays have ended.
type CollectJob struct {
	Run     *folder.Run
	Attempt int      // from 1
	GoOn    []string // options of the `cpbench submit` by which it goes on with the run; nil: it only collects
}

var collectScript = template.Must(template.New("collect.sbatch").Parse(templates.CollectScript))

// Name is the job's name, unique to the run and the attempt.
func (j CollectJob) Name() string {
	return fmt.Sprintf("%s.%s.collect.a%d", j.Run.Plan.Name, stamp(j.Run), j.Attempt)
}

// CollectScript writes the batch script of a job that collects: one CPU, little memory and a short time, on the
// partition and the account of the arrays, because others may be closed to the user. It may run again after a node
// failure.
func CollectScript(j CollectJob) ([]byte, error) {
	output, err := outputPattern(j.Run.LogsDir(), "%j_collect.out")
	if err != nil {
		return nil, err
	}
	s := j.Run.Plan.Spec.Slurm
	directives := []string{"--open-mode=append", "--nodes=1", "--ntasks=1", "--cpus-per-task=1", "--mem=1G", "--time=00:15:00", "--requeue"}
	for _, d := range []struct{ name, value string }{
		{"job-name", j.Name()},
		{"comment", "cpbench:" + j.Run.Name() + ":collect"},
		{"output", output},
		{"partition", s.Partition},
		{"account", s.Account},
		{"qos", s.QOS},
	} {
		if d.value == "" {
			continue
		}
		value, err := directiveWord(d.value)
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", d.name, err)
		}
		directives = append(directives, "--"+d.name+"="+value)
	}
	run, err := ShellWord(j.Run.Dir)
	if err != nil {
		return nil, fmt.Errorf("the path %q cannot stand in a script: %w", j.Run.Dir, err)
	}
	binary, err := ShellWord(j.Run.Binary())
	if err != nil {
		return nil, fmt.Errorf("the path %q cannot stand in a script: %w", j.Run.Binary(), err)
	}
	goOn, err := ShellLine(j.GoOn)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = collectScript.Execute(&out, map[string]any{
		"Directives": directives, "Version": j.Run.Plan.Version, "RunDir": comment(j.Run.Dir), "RunWord": run, "BinaryWord": binary, "GoOn": goOn,
	})
	return out.Bytes(), err
}

// stamp is the part of a run's name behind the sweep's, with its tag: two folders may have runs of one second.
func stamp(run *folder.Run) string {
	text := strings.TrimPrefix(run.Name(), run.Plan.Name+"-")
	if run.Plan.Tag != "" {
		text += "-" + run.Plan.Tag
	}
	return text
}
