package local

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"cpbench/slurm"
)

// Array is one array on its way through this machine: what Executor makes of a script. Set the exported fields, call
// Start once, then the other methods at will. Use it directly only to stand in for a scheduler that takes scripts which
// Executor would refuse.
type Array struct {
	ID       string
	Header   Header
	Script   string                                 // path of the script; bash runs it, whatever its first line says
	Dir      string                                 // working folder of the tasks, and what a relative --output starts from
	Env      []string                               // environment of the tasks, to which SLURM_ARRAY_JOB_ID and _TASK_ID come
	JobID    func(index int) string                 // a task's own id, for SLURM_JOB_ID and %j; nil means none, and A_a for %j
	Node     string                                 // name of this machine in the states
	Parallel int                                    // tasks at the same time, at least 1; the script's own throttle holds as well
	Grace    time.Duration                          // from TERM to KILL when cancelled
	Notify   func(index int, state slurm.TaskState) // told of each change, one call at a time; may be nil

	onEnd     func() // called before Wait returns
	mu        sync.Mutex
	tasks     map[int]*task
	cancelled bool
	finished  bool // nothing can change any more
	telling   sync.WaitGroup
	done      chan struct{}
	notifying sync.Mutex
}

// task is the memory of one index.
type task struct {
	state slurm.TaskState
	group int // process group while it may be signalled, else 0
}

// Start lets the tasks run and returns at once.
func (a *Array) Start() {
	indices := a.Header.Indices
	if indices == nil {
		indices = []int{0} // a plain job
	}
	a.tasks = make(map[int]*task, len(indices))
	for _, index := range indices {
		a.tasks[index] = &task{state: slurm.TaskState{State: slurm.Pending}}
	}
	a.done = make(chan struct{})
	limit := max(a.Parallel, 1)
	if a.Header.Throttle > 0 {
		limit = min(limit, a.Header.Throttle)
	}
	go func() {
		var running errgroup.Group
		running.SetLimit(limit)
		for _, index := range indices {
			running.Go(func() error {
				a.run(index)
				return nil // a failed task is a state, not an error
			})
		}
		_ = running.Wait()
		a.mu.Lock()
		a.finished = true
		a.mu.Unlock()
		a.telling.Wait()
		if a.onEnd != nil {
			a.onEnd()
		}
		close(a.done)
	}()
}

// Tasks returns the state of every task.
func (a *Array) Tasks() map[int]slurm.TaskState {
	a.mu.Lock()
	defer a.mu.Unlock()
	states := make(map[int]slurm.TaskState, len(a.tasks))
	for index, t := range a.tasks {
		states[index] = t.state
	}
	return states
}

// Wait returns nil once all tasks have ended, what was left of their process groups has been sent KILL, and Notify has
// been told; or the error of ctx.
func (a *Array) Wait(ctx context.Context) error {
	select {
	case <-a.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Cancel marks the tasks that have not started as cancelled, sends TERM to the process groups of the others, and KILL
// to what is left of them after Grace. It does not wait for their end. A second call does nothing.
func (a *Array) Cancel() {
	a.mu.Lock()
	if a.cancelled || a.finished {
		a.mu.Unlock()
		return
	}
	a.cancelled = true
	a.telling.Add(1)
	defer a.telling.Done()
	var never []int
	for index, t := range a.tasks {
		if t.state.State == slurm.Pending {
			t.state = slurm.TaskState{State: slurm.Cancelled, Exit: "0:0"}
			never = append(never, index)
		}
	}
	a.terminate()
	a.mu.Unlock()
	time.AfterFunc(a.Grace, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.kill()
	})
	for _, index := range never {
		a.tell(index, slurm.TaskState{State: slurm.Cancelled, Exit: "0:0"})
	}
}

// tell calls Notify. The calls for one index come in order: only Cancel speaks for a task that never starts, and only
// run for one that does.
func (a *Array) tell(index int, state slurm.TaskState) {
	if a.Notify == nil {
		return
	}
	a.notifying.Lock()
	defer a.notifying.Unlock()
	a.Notify(index, state)
}

// output opens the file of --output.
func (a *Array) output(index int) (*os.File, error) {
	path := a.Header.outputPath(a.ID, a.jobID(index), index)
	if !filepath.IsAbs(path) {
		path = filepath.Join(a.Dir, path)
	}
	mode := os.O_TRUNC
	if a.Header.AppendMode {
		mode = os.O_APPEND
	}
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|mode, 0o666)
}

// jobID returns the task's own id.
func (a *Array) jobID(index int) string {
	switch {
	case a.JobID != nil:
		return a.JobID(index)
	case a.Header.Indices == nil:
		return a.ID
	}
	return a.ID + "_" + strconv.Itoa(index)
}

// environment returns a task's variables. Of Slurm's there are no more than a script may require.
func (a *Array) environment(index int) []string {
	env := a.Env[:len(a.Env):len(a.Env)]
	if a.Header.Indices != nil {
		env = append(env, "SLURM_ARRAY_JOB_ID="+a.ID, "SLURM_ARRAY_TASK_ID="+strconv.Itoa(index))
	}
	if a.JobID != nil {
		env = append(env, "SLURM_JOB_ID="+a.JobID(index))
	}
	return env
}
