package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"cpbench/collect"
	"cpbench/plan"
	"cpbench/plan/folder"
	"cpbench/slurm"
	"cpbench/templates"
	"cpbench/worker"
)

// runsDir is where runs are kept unless --runs says otherwise.
const runsDir = "cpbench-runs"

// source is a spec that was read, with the plan that was made of it.
type source struct {
	path string // absolute
	text []byte
	plan *plan.Plan
	sum  plan.Summary
	hint *hintRun // nil: no --hint
}

// request says how a spec is to be planned.
type request struct {
	path   string
	where  string
	extend string
	hint   string              // a run whose searches give hints
	limit  func() (int, error) // asks for the site's limit on tasks in one array, where the spec leaves it open
}

// load reads a spec and plans it in memory; nothing is written.
func load(req request) (*source, error) {
	text, err := os.ReadFile(req.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &usageError{fmt.Sprintf("%s: no such file", req.path), "cpbench init DIR writes a sweep to start from"}
	case err != nil:
		hint := "name a spec, a YAML file"
		if run, notOne := folder.Open(req.path); notOne == nil {
			hint += "; plan, run and submit go on with a run by --run " + shellWord(shortPath(run.Dir))
		}
		return nil, &usageError{err.Error(), hint}
	}
	spec, err := plan.Load(req.path, text)
	if err != nil {
		return nil, err
	}
	abs, err := filepath.Abs(req.path)
	if err != nil {
		return nil, err
	}
	src := &source{path: abs, text: text}
	opt := plan.Options{Source: abs, Version: version().Version, Where: req.where}
	if req.limit != nil && spec.Site.MaxArraySize == 0 {
		if opt.MaxArraySize, err = req.limit(); err != nil {
			return nil, err
		}
	}
	if opt.Files, err = folder.HashFiles(filepath.Dir(abs), spec.Workload.Files); err != nil {
		return nil, err
	}
	if image, file := spec.Container.ImageFile(filepath.Dir(abs)); file {
		if _, err := os.Stat(image); err != nil {
			return nil, spec.Mistake("container.image", image+" is not there", "build or copy it first; a relative path is one from the spec's folder")
		}
	}
	if src.hint, err = takeHints(req.hint, spec, &opt); err != nil {
		return nil, err
	}
	if req.extend != "" {
		if err := extend(req.extend, spec, opt, &opt); err != nil {
			return nil, err
		}
	}
	if src.plan, src.sum, err = plan.New(spec, opt); err != nil {
		var many interface{ WrappedErrors() []error }
		if errors.As(err, &many) {
			return nil, err
		}
		return nil, &usageError{err.Error(), ""}
	}
	src.sum.Warnings = append(src.sum.Warnings, absent(spec, filepath.Dir(abs))...)
	return src, nil
}

// extend leaves out what a run has that measures the same: points with an equal measurement key.
func extend(dir string, spec *plan.Spec, plain plan.Options, opt *plan.Options) error {
	old, err := folder.Open(dir)
	if err != nil {
		return err
	}
	whole, _, err := plan.New(spec, plain)
	if err != nil {
		return err
	}
	if whole.Key != old.Plan.Key {
		return &hinted{
			fmt.Errorf("run %s measures something else: workload, set-up, environment or files differ", old.Name()),
			"plan without --extend",
		}
	}
	have := map[string]map[int]bool{}
	for run := old; ; { // an extended run has what the run before it has
		if err := planned(run, whole.CaseKey, have); err != nil {
			return err
		}
		before := run.Plan.Select.Extends
		if before == "" {
			break
		}
		if run, err = folder.Open(filepath.Join(filepath.Dir(run.Dir), before)); err != nil {
			return fmt.Errorf("run %s extends %s: %w", old.Name(), before, err)
		}
	}
	opt.Extends = old.Name()
	opt.Have = func(point string, repeat int) bool { return have[point][repeat] }
	return nil
}

// planned adds the executions of a run. Searches count only if they are the same.
func planned(run *folder.Run, caseKey string, have map[string]map[int]bool) error {
	for i := range run.Plan.Arrays {
		tasks, err := run.Tasks(i)
		if err != nil {
			return err
		}
		for _, t := range tasks {
			for _, p := range t.Pairs {
				if p.Case != "" && caseKey != run.Plan.CaseKey {
					continue
				}
				if have[p.ID] == nil {
					have[p.ID] = map[int]bool{}
				}
				have[p.ID][p.Repeat] = true
			}
		}
	}
	return nil
}

// freeze writes the run folder with the first script of every array.
func freeze(src *source, runs string) (*folder.Run, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, err
	}
	run, err := folder.Create(runs, time.Now(), src.plan, src.text, binary, folder.LibFile{Name: "cpbench_torch.py", Text: templates.CpbenchTorch})
	if err != nil {
		return nil, err
	}
	for i := range run.Plan.Arrays {
		_, _, err := run.AddScript(i, func(attempt int) ([]byte, error) {
			return slurm.Script(slurm.Job{Run: run, Array: i, Attempt: attempt})
		})
		if err != nil {
			return nil, errors.Join(err, os.RemoveAll(run.Dir))
		}
	}
	return run, nil
}

// check renders the scripts of a plan without writing anything, so that a mistake in them shows.
func check(src *source) error {
	run := &folder.Run{Dir: filepath.Join(filepath.Dir(src.path), runsDir, src.plan.Name), Plan: src.plan}
	for i := range src.plan.Arrays {
		a := &src.plan.Arrays[i]
		a.Lengths = make([]int, len(a.Tasks))
		if _, err := slurm.Script(slurm.Job{Run: run, Array: i, Attempt: 1}); err != nil {
			return &usageError{src.path + ": " + err.Error(), ""}
		}
	}
	return nil
}

// points tells how many points a plan has, and case points by what they are.
func (src *source) points() string {
	text := countText(src.sum.Points, "point")
	if src.sum.Cases > 0 {
		word := "search"
		if src.plan.Spec.Workload.Kind == "llm" {
			word = "mixed case"
		}
		text += " and " + countText(src.sum.Cases, word)
	}
	return text
}

// describe tells what a plan holds.
func describe(v voice, src *source) {
	tasks := 0
	var cost plan.Cost
	for i := range src.plan.Arrays {
		c := src.plan.Arrays[i].Cost()
		tasks += c.Tasks
		cost.NodeSecs += c.NodeSecs
		cost.GPUSecs += c.GPUSecs
	}
	repeats := countText(src.plan.Spec.Repeats, "repeat")
	if n := src.plan.Spec.Workload.Starts; n > 1 {
		repeats += " in each of " + countText(n, "start")
	}
	v.sayf("%s: %s, %s: %s in %s and %s; at most %s", src.plan.Name, src.points(), repeats,
		countText(src.sum.Pairs, "execution"), countText(tasks, "task"), countText(len(src.plan.Arrays), "array"),
		slurm.CostText(cost.NodeSecs, cost.GPUSecs))
	if src.sum.Had > 0 {
		v.sayf("%s left out: run %s has them", countText(src.sum.Had, "execution"), src.plan.Select.Extends)
	}
	for i := range src.plan.Arrays {
		if len(src.plan.Arrays) <= 8 {
			v.sayf("array %d: %s, %s", i, countText(len(src.plan.Arrays[i].Tasks), "task"), slurm.ShapeText(src.plan.Arrays[i].Shape))
		}
	}
	if src.hint != nil {
		src.hint.say(v, src)
	}
	if src.sum.Merged {
		v.sayf("%d resource shapes share the largest one: %.0f %% of what is asked for is not needed", src.sum.Shapes, 100*src.sum.Waste)
	}
	for _, w := range src.sum.Warnings {
		v.warnf("%s", w)
	}
}

func countText(n int, word string) string {
	switch {
	case n == 1:
		return "1 " + word
	case strings.HasSuffix(word, "ch"):
		word += "e"
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// siteLimit asks the cluster for its limit on tasks in one array. Where nobody can be asked there is none, and the
// person is told.
func siteLimit(ctx context.Context, v voice) (int, error) {
	n, err := slurm.MaxArraySize(ctx)
	switch {
	case err != nil:
		why, _, _ := strings.Cut(err.Error(), "; ") // scontrol says the same in four ways
		v.sayf("no limit on the tasks of an array is known: %s", why)
		return 0, nil
	case n == 0:
		return 0, &hinted{errors.New("this cluster has job arrays switched off (MaxArraySize=0)"), "cpbench run runs the sweep on one machine"}
	}
	return n, nil
}

// pending lists the tasks of each array with a pair that needs an attempt: for lack of a good end, or, if again is
// not empty, because its outcome is to be run again. started counts those that began and have left no result.
func pending(run *folder.Run, again []string) (tasks [][]int, started []int, err error) {
	set, err := collect.Load([]*folder.Run{run})
	if err != nil {
		return nil, nil, err
	}
	tasks, started = make([][]int, len(run.Plan.Arrays)), make([]int, len(run.Plan.Arrays))
	silent := map[[2]int]bool{}
	for i := range set.Pairs {
		p := &set.Pairs[i]
		needs := p.Result == nil || !p.Result.Outcome.Done()
		if len(again) > 0 {
			needs = p.Result != nil && worker.Again(p.Result.Outcome, again)
		}
		if needs {
			tasks[p.Array] = append(tasks[p.Array], p.Task)
			if p.Result == nil && set.Begun(run, p.Array, p.Task) {
				silent[[2]int{p.Array, p.Task}] = true
			}
		}
	}
	for i := range tasks {
		slices.Sort(tasks[i])
		tasks[i] = slices.Compact(tasks[i])
	}
	for task := range silent {
		started[task[0]]++
	}
	return tasks, started, nil
}

// usable makes sure that another attempt at a run can start: Slurm fails a job whose log folder is missing, and every
// task needs the run's copy of cpbench.
func usable(run *folder.Run) error {
	if _, err := os.Stat(run.Binary()); err != nil {
		return &hinted{fmt.Errorf("run %s has lost its cpbench: %w", run.Name(), err), "plan the sweep again, with --extend " + shellWord(shortPath(run.Dir)) + " if it has results"}
	}
	return os.MkdirAll(run.LogsDir(), 0o755)
}
