// Package collect gathers the results of one or more runs and says of every planned execution what became of it:
// use Load for the files, Set.Judge to add what the scheduler knows. What is missing stays in the set, with its
// reason. collect/table makes a table of it.
package collect

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/plan/folder"
	"cpbench/worker/result"

	"golang.org/x/sync/errgroup"
)

// Set is every planned execution of some runs, with what became of it.
type Set struct {
	Runs     []*folder.Run
	Pairs    []Pair    // in the order of the plans
	Problems []Problem // files that were not taken, and why; the others are kept

	index   map[pairKey]int                  // by point and repeat
	beaten  map[*folder.Run]map[pairKey]bool // executions of a run whose result lost to that of another run
	spoiled map[pairKey]string               // files that cannot be used, and why
	pool    pool
	logs    map[*folder.Run]map[[2]int][2]int // newest attempt and restart of every task that has a log folder
	seen    map[taskKey]State                 // what the files tell of the tasks that were looked at
}

// Pair is one planned execution: a point and a repeat.
type Pair struct {
	Run         *folder.Run // that gave the result, else the first that planned it
	Point       plan.Point
	Repeat      int
	Array, Task int
	Result      *Execution        // the newest ok attempt, else the newest; nil: none
	Outcome     catalogue.Outcome // the verdict
	Reason      string            // of a verdict that is not ok, or a doubt about one that is
	State       *State            // of its task; nil: nothing is known, or nobody asked
}

// Problem is a file that is not taken for a result of these runs.
type Problem struct {
	Path   string
	Reason string
}

// Execution is what a table needs of a result. Everything else stays in its file: a set of 100,000 has to fit in
// memory.
type Execution struct {
	Outcome          catalogue.Outcome
	Reason           string
	Attempt, Restart int
	Extra            []result.Figure
	Steps            *result.Summary
	Search           *result.MaxFit // trials left out
	Group            *result.Group  // of the llm workload
	Start            int            // of the server, from 1; 0: the run has started none
	Sizes            result.Sizes
	Warnings         []result.Warning
	Host             string
	Started, Ended   time.Time

	killed bool     // a trial of its search ran out of the host's memory
	names  []string // of the metrics that were measured, sorted
	values []float64
	facts  []int32 // of the pool
	lacks  []int32 // ... needed and missing, with the reason as the value
}

type pairKey struct {
	point  string
	repeat int
}

// Load reads every result of the runs and judges every planned execution from the files alone. Several runs are one
// set only if they measure the same; otherwise the error names what differs. A file that cannot be read, was cut
// off or does not belong to its run becomes a Problem.
func Load(runs []*folder.Run) (*Set, error) {
	s := &Set{Runs: runs, index: map[pairKey]int{}, beaten: map[*folder.Run]map[pairKey]bool{}}
	if err := sameMeasure(runs); err != nil {
		return nil, err
	}
	for _, run := range runs {
		if err := s.planned(run); err != nil {
			return nil, fmt.Errorf("run %s: %w", run.Name(), err)
		}
	}
	for _, run := range runs {
		if err := s.read(run); err != nil {
			return nil, fmt.Errorf("run %s: %w", run.Name(), err)
		}
	}
	sortProblems(s.Problems)
	s.Judge(func(_ *folder.Run, _, _ int, files State) State { return files })
	return s, nil
}

// planned lists the executions that a run's plan holds.
func (s *Set) planned(run *folder.Run) error {
	for _, a := range run.Plan.Arrays {
		tasks, err := run.Tasks(a.Index)
		if err != nil {
			return err
		}
		for _, t := range tasks {
			for _, p := range t.Pairs {
				key := pairKey{p.ID, p.Repeat}
				if _, ok := s.index[key]; ok {
					continue // planned by an earlier run as well
				}
				s.index[key] = len(s.Pairs)
				s.Pairs = append(s.Pairs, Pair{Run: run, Point: p.Point, Repeat: p.Repeat, Array: t.Array, Task: t.Index})
			}
		}
	}
	return nil
}

// read walks the results of a run. On a shared file system every file costs a round trip, hence more readers than
// cores.
func (s *Set) read(run *folder.Run) error {
	root := run.ResultsDir()
	shards, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // nothing has run yet
	}
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(min(32, 4*runtime.GOMAXPROCS(0)))
	for _, shard := range shards {
		if hidden(shard.Name()) {
			continue
		}
		if !shard.IsDir() {
			mu.Lock() // shards that come first are being read
			s.Problems = append(s.Problems, Problem{filepath.Join(root, shard.Name()), "not a result file: it lies outside the shards"})
			mu.Unlock()
			continue
		}
		g.Go(func() error { return s.readShard(run, filepath.Join(root, shard.Name()), &mu) })
	}
	return g.Wait()
}

func (s *Set) readShard(run *folder.Run, dir string, mu *sync.Mutex) error {
	files, err := os.ReadDir(dir)
	if err != nil { // perhaps another user's: the other shards still count
		mu.Lock()
		s.Problems = append(s.Problems, Problem{dir, "cannot be read: " + err.Error()})
		mu.Unlock()
		return nil
	}
	for _, f := range files {
		name := f.Name()
		if hidden(name) || strings.HasSuffix(name, result.SamplesExt) {
			continue
		}
		path := filepath.Join(dir, name)
		r, err := readResult(run, path)
		mu.Lock()
		if err == nil {
			err = s.take(run, r)
		}
		if err != nil {
			reason := strings.TrimPrefix(err.Error(), path+": ")
			s.Problems = append(s.Problems, Problem{path, reason})
			s.spoil(name, reason)
		}
		mu.Unlock()
	}
	return nil
}

// spoil remembers that there is a file for an execution which cannot be used. The caller holds the lock.
func (s *Set) spoil(name, reason string) {
	point, repeat, _, _, ok := result.ParseName(name)
	if _, planned := s.index[pairKey{point, repeat}]; !ok || !planned {
		return
	}
	if s.spoiled == nil {
		s.spoiled = map[pairKey]string{}
	}
	s.spoiled[pairKey{point, repeat}] = reason
}

// hidden reports whether the name is that of a temporary or silly-renamed file.
func hidden(name string) bool { return strings.HasPrefix(name, ".") }

// readResult reads a result and checks that it belongs to the run.
func readResult(run *folder.Run, path string) (*result.Result, error) {
	if _, _, _, _, ok := result.ParseName(filepath.Base(path)); !ok || !strings.HasSuffix(path, result.Ext) {
		return nil, fmt.Errorf("%w: its name is not that of one", result.ErrForeign)
	}
	r, err := result.Read(path)
	if err != nil {
		return nil, err
	}
	key := run.Plan.Key
	if r.Case != "" {
		key = run.Plan.CaseKey
	}
	switch {
	case r.Plan != run.Plan.Digest:
		return nil, fmt.Errorf("belongs to another plan: digest %s, that of this run is %s", r.Plan, run.Plan.Digest)
	case r.Key != key:
		return nil, fmt.Errorf("measured something else: key %s, that of this run is %s", r.Key, key)
	}
	return r, nil
}

// take keeps r if it is better than what is there for its execution. The caller holds the lock.
func (s *Set) take(run *folder.Run, r *result.Result) error {
	i, ok := s.index[pairKey{r.Point, r.Repeat}]
	if !ok {
		return fmt.Errorf("repeat %d of point %s is not in the plan", r.Repeat, r.Point)
	}
	p := &s.Pairs[i]
	if old := p.Result; old != nil {
		wins := better(r, old, p.Run == run)
		if p.Run != run {
			loser := run
			if wins {
				loser = p.Run
			}
			if s.beaten[loser] == nil {
				s.beaten[loser] = map[pairKey]bool{}
			}
			s.beaten[loser][pairKey{r.Point, r.Repeat}] = true
		}
		if !wins {
			return nil
		}
	}
	p.Run, p.Array, p.Task = run, r.Array, r.Task
	p.Result = s.pool.compact(r)
	return nil
}

// better reports whether r outranks old: the newest ok attempt, else the newest. Attempts of different runs are
// told apart by their time.
func better(r *result.Result, old *Execution, sameRun bool) bool {
	if r.Outcome.Fits() != old.Outcome.Fits() {
		return r.Outcome.Fits()
	}
	if sameRun {
		return r.Newer(&result.Result{Attempt: old.Attempt, Restart: old.Restart})
	}
	return r.Started.After(old.Started)
}

// Unused is the number of a run's executions whose results are not in the set, because another run has the same points and
// repeats: of runs that overlap one result takes the place of the other, and nothing is pooled.
func (s *Set) Unused(run *folder.Run) int {
	n := 0
	for key := range s.beaten[run] {
		if s.Pairs[s.index[key]].Run != run { // else a newer attempt of the run has won after all
			n++
		}
	}
	return n
}

// Counts tells how many executions have each verdict.
func (s *Set) Counts() map[catalogue.Outcome]int {
	n := map[catalogue.Outcome]int{}
	for _, p := range s.Pairs {
		n[p.Outcome]++
	}
	return n
}
