package slurm

import (
	"bytes"
	"fmt"
	"strings"
	"text/template"

	"cpbench/plan"
	"cpbench/plan/folder"
	"cpbench/templates"

	"mvdan.cc/sh/v3/syntax"
)

// Job is one submission of an array: which tasks, and which attempt at them.
type Job struct {
	Run     *folder.Run
	Array   int
	Attempt int
	Tasks   []int    // sorted indices; nil means all
	Again   []string // outcomes to run again although they are done
}

var jobScript = parseScript("job.sbatch", templates.JobScript)

// parseScript parses the template of a script that has set-up lines.
func parseScript(name, text string) *template.Template {
	return template.Must(template.Must(template.New(name).Parse(text)).Parse(templates.Setup))
}

// Name is the job's name, unique to the run, the array and the attempt, so that a lost answer of sbatch can be
// looked up.
func (j Job) Name() string {
	return fmt.Sprintf("%s.%s.%d.a%d", j.Run.Plan.Name, stamp(j.Run), j.Array, j.Attempt)
}

func (j Job) tasks() []int {
	if j.Tasks != nil {
		return j.Tasks
	}
	all := make([]int, len(j.Run.Plan.Arrays[j.Array].Lengths))
	for i := range all {
		all[i] = i
	}
	return all
}

// Script writes the batch script of a job: directives, the site's set-up lines, and one function that becomes the
// worker, called on the last line, so that a script that was cut off does nothing.
func Script(j Job) ([]byte, error) {
	p, a := j.Run.Plan, j.Run.Plan.Arrays[j.Array]
	directives, err := j.directives()
	if err != nil {
		return nil, err
	}
	setup, err := setupLines(p.Spec.Setup)
	if err != nil {
		return nil, err
	}
	words := make(map[string]string, 3)
	for name, text := range map[string]string{"run": j.Run.Dir, "binary": j.Run.Binary(), "plan": j.Run.PlanFile()} {
		if words[name], err = ShellWord(text); err != nil {
			return nil, fmt.Errorf("the path %q cannot stand in a script: %w", text, err)
		}
	}
	again := ""
	if len(j.Again) > 0 {
		again = " --again " + strings.Join(j.Again, ",")
	}
	var out bytes.Buffer
	err = jobScript.Execute(&out, map[string]any{
		"Directives": directives, "Version": p.Version, "Source": comment(p.Source), "RunDir": comment(j.Run.Dir),
		"Digest": p.Digest, "Array": j.Array, "Attempt": j.Attempt, "Tasks": len(j.tasks()), "AllTasks": len(a.Lengths),
		"Shape": ShapeText(a.Shape), "Cost": costText(j, a), "RunWord": comment(words["run"]),
		"BinaryWord": words["binary"], "PlanWord": words["plan"], "Again": again, "Setup": setup,
	})
	return out.Bytes(), err
}

// setupLine is one line of the site's set-up, numbered from 1.
type setupLine struct {
	Line int
	Text string
}

// setupLines checks that each line is a complete command: an open quote or if would swallow the rest of the script.
func setupLines(lines []string) ([]setupLine, error) {
	var out []setupLine
	for i, text := range lines {
		file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text+"\n"), "")
		if err != nil {
			return nil, fmt.Errorf("setup[%d]: %q is not a complete shell command: %w", i, text, err)
		}
		if strings.HasSuffix(text, `\`) {
			return nil, fmt.Errorf("setup[%d]: %q goes on after its line; put it into a file and source that", i, text)
		}
		if len(file.Stmts) > 0 { // an empty line or a comment has no exit code
			out = append(out, setupLine{i + 1, text})
		}
	}
	return out, nil
}

// comment makes text safe behind a # of the script.
func comment(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, text)
}

// ShapeText describes a shape for people.
func ShapeText(s plan.Shape) string {
	text := plural(s.Nodes, "node")
	if s.GPUsPerNode > 0 {
		kind := "GPU"
		if s.GPUType != "" {
			kind = s.GPUType
		}
		text += fmt.Sprintf(" x %d %s", s.GPUsPerNode, kind)
	}
	text += ", " + plural(s.CPUsPerTask, "CPU")
	if s.Mem != "" {
		text += ", memory " + s.Mem
	}
	if s.Exclusive {
		text += ", exclusive"
	}
	return text
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// costText is the worst case of a job: each task runs for the array's limit.
func costText(j Job, a plan.Array) string {
	return CostText(int64(len(j.tasks()))*a.Seconds*int64(a.Shape.Nodes), int64(len(j.tasks()))*a.Seconds*int64(a.Shape.Nodes*a.Shape.GPUsPerNode))
}

// CostText prints node and GPU seconds as hours; GPU-hours where there are GPUs.
func CostText(nodeSecs, gpuSecs int64) string {
	if gpuSecs > 0 {
		return fmt.Sprintf("%.4g GPU-hours", float64(gpuSecs)/3600)
	}
	return fmt.Sprintf("%.4g node-hours", float64(nodeSecs)/3600)
}

// ShellWord quotes text as one word of a line that a person types, or of a script.
func ShellWord(text string) (string, error) { return syntax.Quote(text, syntax.LangBash) }
