package main

import (
	"context"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"cpbench/cmd/cpbench/states"
	"cpbench/collect"
	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/plan/folder"
	"cpbench/slurm"
	"cpbench/slurm/submit"
	"cpbench/worker"
	"cpbench/worker/result"
)

// picked is what is to be submitted of a run, and what is not.
type picked struct {
	wants   []submit.Want
	exclude []string // nodes
	why     string   // nothing is wanted
	busy    int      // tasks left out because they wait or run
	spent   int      // tasks left out because they were tried often enough
}

func (p *picked) tell(v voice) {
	if p.busy > 0 {
		v.sayf("%s in the queue already, or ended so recently that the results may not be visible yet", countText(p.busy, "task"))
	}
	if p.spent > 0 {
		v.sayf("%s failed after as many tries as retry.max allows: not tried again; --only-failed does so", countText(p.spent, "task"))
	}
	if len(p.exclude) > 0 {
		v.sayf("left out, as tasks failed there twice: %s", strings.Join(p.exclude, ", "))
	}
}

// pick chooses the tasks to submit: with a flag what it names, else all that has no good end, and what retry names. The
// job that collects chooses so among the tasks that had no room, and of all others what retry names. A task that waits
// or runs is never given again.
func (o *submitOptions) pick(session *submit.Session) (*picked, error) {
	run := session.Run
	set, err := collect.Load([]*folder.Run{run})
	if err != nil {
		return nil, err
	}
	set.Judge(states.From(run, session.Snapshot()).Of)
	retry := run.Plan.Spec.Retry
	leftOver, err := o.leftOver()
	if err != nil {
		return nil, err
	}
	tries := session.Tries()
	p := &picked{why: "every point has a good end"}
	wanted, busy, spent, redo := map[[2]int]bool{}, map[[2]int]bool{}, map[[2]int]bool{}, map[int][]string{}
	for i := range set.Pairs {
		pair := &set.Pairs[i]
		at := [2]int{pair.Array, pair.Task}
		wants := o.choose(pair.Outcome, retry, o.goOn == "" || leftOver[at])
		switch {
		case wants == nothing:
		case session.Busy(pair.Array, pair.Task), pair.Outcome == catalogue.Running, pair.Outcome == catalogue.Pending:
			busy[at] = true
		case wants == byRetry && tries[at] > retry.Max:
			spent[at] = true
		default:
			wanted[at] = true
			if !unfinished(pair.Outcome) && !slices.Contains(redo[pair.Array], string(pair.Outcome)) {
				redo[pair.Array] = append(redo[pair.Array], string(pair.Outcome))
			}
		}
	}
	p.busy, p.spent = len(busy), len(spent)
	switch {
	case p.busy > 0:
		p.why = "what is left waits, runs or has just ended"
	case p.spent > 0:
		p.why = "what is left was tried often enough"
	case o.onlyFailed != "":
		p.why = "no such point"
	}
	p.wants = wantsOf(run, wanted, redo)
	if len(p.wants) > 0 {
		p.exclude, err = badNodes(session, set)
	}
	return p, err
}

// reason is why a pair is to be submitted.
type reason int

const (
	nothing reason = iota // no reason
	byHand                // a person has asked for it
	byRetry               // the spec names its outcome
)

// choose tells why a pair with that outcome is to be submitted. asked: a person has asked for what the flags choose of
// its task, now or when there was no room.
func (o *submitOptions) choose(outcome catalogue.Outcome, retry plan.Retry, asked bool) reason {
	switch {
	case asked && o.onlyFailed != "":
		if worker.Again(outcome, []string{o.onlyFailed}) {
			return byHand
		}
		return nothing
	case asked && unfinished(outcome):
		return byHand
	case asked && o.onlyMissing, !worker.Again(outcome, retry.Outcomes()):
		return nothing
	}
	return byRetry
}

// leftOver are the tasks that had no room when the job that collects was submitted.
func (o *submitOptions) leftOver() (map[[2]int]bool, error) {
	if o.goOn == "" || o.goOn == noTasks {
		return nil, nil
	}
	return submit.ParseTasks(o.goOn)
}

// notQueued leaves out the tasks that wait or run. It reports false where Slurm cannot be asked, and then leaves out
// none.
func notQueued(ctx context.Context, v voice, run *folder.Run, array int, tasks []int) ([]int, bool) {
	if _, err := exec.LookPath("squeue"); err != nil {
		return tasks, false
	}
	session, err := submit.Peek(ctx, &slurm.Slurm{}, run)
	if err != nil {
		v.warnf("%v", err)
		return tasks, false
	}
	return slices.DeleteFunc(slices.Clone(tasks), func(task int) bool { return session.Busy(array, task) }), true
}

// unfinished reports whether a verdict leaves something to do.
func unfinished(o catalogue.Outcome) bool {
	switch o { //nolint:exhaustive // the others are ends
	case catalogue.Missing, catalogue.Lost, catalogue.Pending, catalogue.Running:
		return true
	}
	return !o.Done()
}

func wantsOf(run *folder.Run, wanted map[[2]int]bool, redo map[int][]string) []submit.Want {
	var wants []submit.Want
	for i := range run.Plan.Arrays {
		w := submit.Want{Array: i, Again: slices.Sorted(slices.Values(redo[i]))}
		for task := range run.Plan.Arrays[i].Lengths {
			if wanted[[2]int{i, task}] {
				w.Tasks = append(w.Tasks, task)
			}
		}
		if len(w.Tasks) > 0 {
			wants = append(wants, w)
		}
	}
	return wants
}

// badNodes lists the nodes on which at least two tries failed for the node's sake: by the results of the executions
// that still lack a good one, and by Slurm's own word.
func badNodes(session *submit.Session, set *collect.Set) ([]string, error) {
	run := session.Run
	failed := map[string]map[[3]int]bool{}
	count := func(array, task, attempt int, node string) {
		if failed[node] == nil {
			failed[node] = map[[3]int]bool{}
		}
		failed[node][[3]int{array, task, attempt}] = true
	}
	session.NodeFailures(count)
	for i := range set.Pairs {
		p := &set.Pairs[i]
		if p.Outcome != catalogue.Infra && p.Outcome != catalogue.DirtyGPU {
			continue
		}
		pattern := filepath.Join(run.ResultsDir(), p.Point.ID[:2], fmt.Sprintf("%s-r%d-a*%s", p.Point.ID, p.Repeat, result.Ext))
		files, err := filepath.Glob(escapeGlob(run.ResultsDir(), pattern))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			r, err := result.Read(file)
			if err != nil || r.Outcome != catalogue.Infra && r.Outcome != catalogue.DirtyGPU || strings.HasPrefix(r.Reason, worker.StartedAgain) {
				continue // a file that cannot be read is told by collect
			}
			if node := nodeOf(r); node != "" {
				count(r.Array, r.Task, r.Attempt, node)
			}
		}
	}
	maps.DeleteFunc(failed, func(_ string, tries map[[3]int]bool) bool { return len(tries) < 2 })
	return slices.Sorted(maps.Keys(failed)), nil
}

// nodeOf is the one node of a result under Slurm's name for it; empty if there were several.
func nodeOf(r *result.Result) string {
	nodes := r.Provenance["slurm_nodes"]
	if strings.ContainsAny(nodes, "[,") || nodes == catalogue.NotApplicable {
		return ""
	}
	return nodes
}

// escapeGlob takes the meaning off the pattern's folder.
func escapeGlob(dir, pattern string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(dir) + strings.TrimPrefix(pattern, dir)
}
