// Package folder is the run folder on disk: the only store of a run. All its paths are made here. Use Create when
// planning and Open everywhere else.
package folder

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"cpbench/plan"
)

// Run is a run folder with its frozen plan.
type Run struct {
	Dir  string // absolute
	Plan *plan.Plan
}

// Name is the name of the run: that of its folder, <sweep>-<UTC stamp>.
func (r *Run) Name() string { return filepath.Base(r.Dir) }

// The paths in a run folder.
func (r *Run) path(parts ...string) string {
	return filepath.Join(append([]string{r.Dir}, parts...)...)
}

// PlanFile is the header of the frozen plan.
func (r *Run) PlanFile() string { return r.path(planFile) }

// Binary is the copy of cpbench that the run's workers are.
func (r *Run) Binary() string { return r.path("bin", "cpbench") }

// GPUHelper is the copy of the program that reads the GPUs' counters; it is there if it stood beside the cpbench that
// planned the run.
func (r *Run) GPUHelper() string { return r.path("bin", gpuHelper) }

// gpuHelper is the name of the GPU helper, beside cpbench wherever that is installed.
const gpuHelper = "cpbench-nvml"

// Lib holds the frozen files of the workload.
func (r *Run) Lib() string { return r.path("lib") }

// ResultsDir holds the results, sharded by the first two characters of the point's id.
func (r *Run) ResultsDir() string { return r.path("results") }

// LogsDir holds the scheduler's output files and one folder for each task that ran.
func (r *Run) LogsDir() string { return r.path("logs") }

// LogDir is the folder of one attempt at one task.
func (r *Run) LogDir(array, task, attempt, restart int) string {
	return r.path("logs", LogName(array, task, attempt, restart))
}

// Prompts holds what was found of the sizes of prompts, so that no task asks a server twice for the same count.
func (r *Run) Prompts() string { return r.path("prompts") }

// EventsFile is the worker's own log in a LogDir; its first line names job and node.
const EventsFile = "events.jsonl"

// FactsFile is the whole provenance of a task's results in a LogDir; the results hold its brief part.
const FactsFile = "provenance.json"

// Table is the path of a table or figure of the run, such as table.csv.
func (r *Run) Table(name string) string { return r.path(name) }

// Script is the batch script of an attempt at an array.
func (r *Run) Script(array, attempt int) string {
	if attempt == 1 {
		return r.path(fmt.Sprintf("array-%d.sbatch", array))
	}
	return r.path(fmt.Sprintf("array-%d.a%d.sbatch", array, attempt))
}

// CollectScript is the batch script of a job that collects, from 1.
func (r *Run) CollectScript(attempt int) string {
	if attempt == 1 {
		return r.path("collect.sbatch")
	}
	return r.path(fmt.Sprintf("collect.a%d.sbatch", attempt))
}

// JobsFile is the ledger of what was submitted; package slurm/ledger is its format.
func (r *Run) JobsFile() string { return r.path(jobsFile) }

const jobsFile = "jobs.jsonl"

// StatesFile holds the final states that the scheduler has told; package collect is its format.
func (r *Run) StatesFile() string { return r.path("states.json") }

func (r *Run) tasksFile(array int) string { return r.path(fmt.Sprintf("tasks-%d.jsonl", array)) }

const planFile = "plan.json"

// LogName is the name of the log folder of one attempt at one task.
func LogName(array, task, attempt, restart int) string {
	return fmt.Sprintf("%d-%d-a%d.%d", array, task, attempt, restart)
}

// ParseLogName reads what LogName made.
func ParseLogName(name string) (array, task, attempt, restart int, ok bool) {
	n, err := fmt.Sscanf(name, "%d-%d-a%d.%d", &array, &task, &attempt, &restart)
	return array, task, attempt, restart, err == nil && n == 4 && LogName(array, task, attempt, restart) == name
}

// Open reads the header of a run. It fails in words when dir is no run folder, when the plan has changed since it
// was frozen, or when it is of a newer format.
func Open(dir string) (*Run, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	r := &Run{Dir: abs}
	data, err := os.ReadFile(r.PlanFile())
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, fmt.Errorf("%s is not a run folder: it has no %s", dir, planFile)
	}
	if err != nil {
		return nil, err
	}
	p := &plan.Plan{}
	if err := json.Unmarshal(data, p); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w; plan the sweep again", r.PlanFile(), err)
	}
	switch {
	case p.Schema > plan.Schema:
		return nil, fmt.Errorf("%s has format %d, newer than this cpbench reads (%d)", r.PlanFile(), p.Schema, plan.Schema)
	case p.Spec == nil || p.Schema < 1:
		return nil, fmt.Errorf("%s is damaged: it holds no plan; plan the sweep again", r.PlanFile())
	case !p.Intact():
		return nil, fmt.Errorf("%s has changed since it was planned; plan the sweep again", r.PlanFile())
	}
	p.Bind(abs, r.Binary())
	r.Plan = p
	return r, nil
}

// Task reads one task: its one line, at the offset that the header gives.
func (r *Run) Task(array, index int) (plan.Task, error) {
	var t plan.Task
	if array < 0 || array >= len(r.Plan.Arrays) {
		return t, fmt.Errorf("array %d is not in the plan, which has %d", array, len(r.Plan.Arrays))
	}
	lengths := r.Plan.Arrays[array].Lengths
	if index < 0 || index >= len(lengths) {
		return t, fmt.Errorf("task %d is not in array %d of the plan, which has %d tasks", index, array, len(lengths))
	}
	f, err := os.Open(r.tasksFile(array))
	if err != nil {
		return t, err
	}
	defer f.Close() // read only
	var offset int64
	for _, n := range lengths[:index] {
		offset += int64(n)
	}
	line := make([]byte, lengths[index])
	if _, err := f.ReadAt(line, offset); err != nil {
		return t, fmt.Errorf("%s is cut off at task %d: %w; plan the sweep again", f.Name(), index, err)
	}
	return t, r.decode(line, array, index, &t)
}

// decode reads a line of a tasks file and checks that it belongs to this plan.
func (r *Run) decode(line []byte, array, index int, t *plan.Task) error {
	changed := fmt.Errorf("%s line %d is not what was planned; plan the sweep again", r.tasksFile(array), index+1)
	if err := json.Unmarshal(line, t); err != nil || t.Array != array || t.Index != index {
		return changed
	}
	for _, p := range t.Pairs {
		if len(p.Values) != len(r.Plan.Axes) || p.ID != r.Plan.ID(p.Values) {
			return changed
		}
	}
	return nil
}

// Tasks reads all tasks of an array.
func (r *Run) Tasks(array int) ([]plan.Task, error) {
	f, err := os.Open(r.tasksFile(array))
	if err != nil {
		return nil, err
	}
	defer f.Close() // read only
	tasks := make([]plan.Task, len(r.Plan.Arrays[array].Lengths))
	in := bufio.NewReaderSize(f, 1<<20)
	for i, n := range r.Plan.Arrays[array].Lengths {
		line := make([]byte, n)
		if _, err := io.ReadFull(in, line); err != nil {
			return nil, fmt.Errorf("%s is cut off at task %d: %w; plan the sweep again", f.Name(), i, err)
		}
		if err := r.decode(line, array, i, &tasks[i]); err != nil {
			return nil, err
		}
	}
	return tasks, nil
}

// encode writes the tasks of an array as lines and returns their lengths.
func encode(tasks []plan.Task) ([]byte, []int, error) {
	var buf bytes.Buffer
	lengths := make([]int, len(tasks))
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	for i := range tasks {
		before := buf.Len()
		if err := enc.Encode(&tasks[i]); err != nil {
			return nil, nil, err
		}
		lengths[i] = buf.Len() - before
	}
	return buf.Bytes(), lengths, nil
}

// Attempts counts the attempts at an array so far: those that have a script.
func (r *Run) Attempts(array int) int {
	for n := 1; ; n++ {
		if _, err := os.Stat(r.Script(array, n)); err != nil {
			return n - 1
		}
	}
}

// AddScript writes the script of the next attempt at an array. render makes its text for the attempt's number.
// Two callers at once get two numbers.
func (r *Run) AddScript(array int, render func(attempt int) ([]byte, error)) ([]byte, int, error) {
	for {
		attempt := r.Attempts(array) + 1
		text, err := render(attempt)
		if err != nil {
			return nil, 0, err
		}
		tmp, err := writeTemp(r.Dir, text)
		if err != nil {
			return nil, 0, err
		}
		err = os.Link(tmp, r.Script(array, attempt)) // unlike a rename, fails where the name is taken
		if rmErr := os.Remove(tmp); rmErr != nil {
			return nil, 0, rmErr
		}
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		return text, attempt, err
	}
}

// WriteScript writes a script that nobody reads yet, so that it is there whole or not at all.
func WriteScript(path string, text []byte) error { return writeFile(path, text) }

// writeTemp writes a synced file under a name of its own.
func writeTemp(dir string, text []byte) (string, error) {
	f, err := os.CreateTemp(dir, ".script-*")
	if err != nil {
		return "", err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	if err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}
