package slurm

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"cpbench/plan"
)

// directives are the #SBATCH values of a job, in the order in which they are written.
func (j Job) directives() ([]string, error) {
	p, a := j.Run.Plan, j.Run.Plan.Arrays[j.Array]
	output, err := outputPattern(j.Run.LogsDir(), "%A_%a.out")
	if err != nil {
		return nil, err
	}
	var out []string
	var bad error
	add := func(name, value string) {
		q, err := directiveWord(value)
		if err != nil && bad == nil {
			bad = fmt.Errorf("--%s: %w", name, err)
		}
		out = append(out, "--"+name+"="+q)
	}
	optional := func(name, value string) {
		if value != "" {
			add(name, value)
		}
	}
	array := IndexList(j.tasks())
	if p.Spec.Slurm.Parallel > 0 {
		array += "%" + strconv.Itoa(p.Spec.Slurm.Parallel)
	}
	add("job-name", j.Name())
	add("comment", fmt.Sprintf("cpbench:%s:%d", j.Run.Name(), j.Array))
	add("array", array)
	add("output", output)
	add("open-mode", "append")
	shapeDirectives(a.Shape, add)
	if a.Shape.Exclusive {
		out = append(out, "--exclusive")
	}
	add("time", timeLimit(a.Seconds))
	if d := time.Duration(p.Spec.Slurm.SignalBefore); d > 0 {
		add("signal", fmt.Sprintf("B:USR2@%d", int64(d.Seconds())))
	}
	if p.Spec.Slurm.Requeue || p.Spec.Retry.Requeues() {
		out = append(out, "--requeue")
	} else {
		out = append(out, "--no-requeue")
	}
	s := p.Spec.Slurm
	optional("partition", s.Partition)
	optional("account", s.Account)
	optional("qos", s.QOS)
	optional("constraint", s.Constraint)
	optional("reservation", s.Reservation)
	optional("exclude", s.Exclude)
	for _, opt := range s.Extra {
		name, value, has := strings.Cut(strings.TrimPrefix(opt, "--"), "=")
		if has {
			add(name, value)
		} else {
			out = append(out, "--"+name)
		}
	}
	return out, bad
}

// shapeDirectives asks for the nodes. --nodes always stands there: without it two tasks of one node may fall on two.
// GPUs have one form, --gres per node, because newer Slurms refuse two at once and --gpus-per-node exports a variable
// that changes what later steps ask for. Whole nodes give only the memory asked for, hence --mem=0 with --exclusive.
func shapeDirectives(s plan.Shape, add func(name, value string)) {
	add("nodes", strconv.Itoa(s.Nodes))
	add("ntasks-per-node", "1")
	add("cpus-per-task", strconv.Itoa(s.CPUsPerTask))
	if s.GPUsPerNode > 0 {
		gres := "gpu:"
		if s.GPUType != "" {
			gres += s.GPUType + ":"
		}
		add("gres", gres+strconv.Itoa(s.GPUsPerNode))
	}
	switch {
	case s.Mem != "":
		add("mem", s.Mem)
	case s.Exclusive:
		add("mem", "0")
	}
}

// directiveWord quotes a value for a #SBATCH line. sbatch has rules of its own there: quotes only group, and a
// backslash takes the next character as it is, also inside quotes of either kind.
func directiveWord(v string) (string, error) {
	for _, r := range v {
		if unicode.IsControl(r) {
			return "", fmt.Errorf("%q holds a control character", v)
		}
	}
	if v != "" && !strings.ContainsAny(v, " \t\"'\\#") {
		return v, nil
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(v) + `"`, nil
}

// outputPattern is the file for the output, under a name that may hold patterns. A percent sign in the path is doubled; a backslash cannot be
// written, as it switches the patterns off.
func outputPattern(dir, name string) (string, error) {
	if strings.Contains(dir, `\`) {
		return "", fmt.Errorf("the run folder %q has a backslash in its path, which Slurm's --output cannot hold; choose another place with --runs DIR", dir)
	}
	return strings.ReplaceAll(dir, "%", "%%") + "/" + name, nil
}

// timeLimit writes seconds as HH:MM:SS; Slurm rounds up to minutes.
func timeLimit(seconds int64) string {
	return fmt.Sprintf("%02d:%02d:%02d", seconds/3600, seconds/60%60, seconds%60)
}

// IndexList writes sorted array indices as Slurm does: 0-4,7.
func IndexList(indices []int) string {
	var b strings.Builder
	for i := 0; i < len(indices); {
		j := i
		for j+1 < len(indices) && indices[j+1] == indices[j]+1 {
			j++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(indices[i]))
		if j > i {
			b.WriteString("-" + strconv.Itoa(indices[j]))
		}
		i = j + 1
	}
	return b.String()
}
