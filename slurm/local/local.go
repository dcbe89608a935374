// Package local runs the script of an array under bash on this machine. Use it where there is no Slurm, and to try a
// sweep before it is submitted: the script is the same, byte for byte.
package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"cpbench/slurm"
)

// defaultGrace is Slurm's default KillWait.
const defaultGrace = 30 * time.Second

// Executor is the slurm.Executor of this machine. The zero value is ready, and its methods may be called at the same
// time. Its tasks are children of this process: whoever ends should Cancel and Wait first.
//
// A task ends with its script: what the script left running in its process group is killed, as Slurm would.
type Executor struct {
	// Parallel is how many tasks of an array may run at the same time; below 1 means one, because tasks share this
	// machine's GPUs. The N of the script's --array=...%N holds as well.
	Parallel int
	// Notify, unless nil, is told of each change of a task, in order and one call at a time, from other goroutines.
	// The last call comes before Wait returns.
	Notify func(index int, state slurm.TaskState)
	// Dir is the working folder of the tasks; empty means the current one.
	Dir string
	// Env is the environment of the tasks; nil means this process's. slurm.Clean is applied to it.
	Env []string
	// Grace is the time from TERM to KILL after Cancel; 0 means 30 s.
	Grace time.Duration

	mu     sync.Mutex
	arrays map[string]*Array
	last   int64 // the newest id
}

var _ slurm.Executor = (*Executor)(nil)

// Submit starts the array and returns at once; its tasks go on when ctx ends. It refuses what sbatch refuses and, which
// sbatch does not, a script that bash cannot parse. The id is a number that no other array of this machine's run has, so
// that the output files of two runs do not meet.
func (e *Executor) Submit(ctx context.Context, script []byte) (id string, err error) {
	if err := check(script); err != nil {
		return "", fmt.Errorf("submit: %w", err)
	}
	header, err := ParseHeader(script)
	if err != nil {
		return "", fmt.Errorf("submit: %w", err)
	}
	dir := e.Dir
	if dir == "" {
		if dir, err = os.Getwd(); err != nil {
			return "", fmt.Errorf("submit: %w", err)
		}
	}
	env := e.Env
	if env == nil {
		env = os.Environ()
	}
	node, _ := os.Hostname() // without a name the states have none
	spool, err := spoolScript(ctx, script)
	if err != nil {
		return "", fmt.Errorf("submit: %w", err)
	}
	array := &Array{
		ID: e.newID(), Header: header, Script: spool, Dir: dir, Env: slurm.Clean(env), Node: node,
		Parallel: e.Parallel, Grace: e.Grace, Notify: e.Notify,
	}
	if array.Grace == 0 {
		array.Grace = defaultGrace
	}
	array.onEnd = func() { _ = os.RemoveAll(filepath.Dir(spool)) } // a copy in the temporary folder, worth no error
	array.Start()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.arrays == nil {
		e.arrays = map[string]*Array{}
	}
	e.arrays[array.ID] = array
	return array.ID, nil
}

// newID returns the time in milliseconds, or the next number that is free.
func (e *Executor) newID() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last = max(e.last+1, time.Now().UnixMilli())
	return strconv.FormatInt(e.last, 10)
}

// Tasks reports every task of an array that this Executor was given; of another id it knows no task.
func (e *Executor) Tasks(_ context.Context, id string) (map[int]slurm.TaskState, error) {
	if array := e.array(id); array != nil {
		return array.Tasks(), nil
	}
	return map[int]slurm.TaskState{}, nil
}

// Cancel sends TERM to the process groups of the running tasks, and KILL after Grace; tasks that have not started never
// will. It does not wait for their end.
func (e *Executor) Cancel(_ context.Context, id string) error {
	if array := e.array(id); array != nil {
		array.Cancel()
	}
	return nil
}

// Wait blocks until all tasks of the array have ended, or ctx has.
func (e *Executor) Wait(ctx context.Context, id string) error {
	array := e.array(id)
	if array == nil {
		return fmt.Errorf("wait for array %s: no such array", id)
	}
	if err := array.Wait(ctx); err != nil {
		return fmt.Errorf("wait for array %s: %w", id, err)
	}
	return nil
}

func (e *Executor) array(id string) *Array {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.arrays[id]
}

// check refuses the scripts that sbatch refuses.
func check(script []byte) error {
	switch {
	case len(script) == 0:
		return errors.New("script is empty")
	case len(bytes.TrimSpace(script)) == 0:
		return errors.New("script contains only blanks")
	case !bytes.HasPrefix(script, []byte("#!")):
		return errors.New("script does not begin with #! and an interpreter")
	case bytes.Contains(script, []byte("\r\n")):
		return errors.New(`script contains DOS line breaks (\r\n)`)
	case bytes.IndexByte(script, 0) >= 0:
		return errors.New("script contains a NUL character")
	}
	return nil
}

// spoolScript puts a copy where no later edit of the original reaches it, under another name as Slurm does, and has
// bash parse the whole of it before anything runs.
func spoolScript(ctx context.Context, script []byte) (path string, err error) {
	dir, err := os.MkdirTemp("", "cpbench-spool-")
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(dir) // the first error counts
		}
	}()
	path = filepath.Join(dir, "slurm_script")
	if err := os.WriteFile(path, script, 0o700); err != nil {
		return "", err
	}
	said, err := exec.CommandContext(ctx, "bash", "-n", path).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("bash cannot parse the script: %w: %s", err, bytes.TrimSpace(said))
	}
	return path, nil
}
