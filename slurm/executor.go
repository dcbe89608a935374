// Package slurm writes the batch script of an array and talks to the scheduler. It never meets the worker: their
// contract is the run folder and the environment.
package slurm

import (
	"context"
	"strings"
)

// Executor takes the script of an array and runs it, one process per array index, each with SLURM_ARRAY_TASK_ID
// set: on Slurm, or on this machine (slurm/local). Both obey the script's own --array, --output and --open-mode
// directives. slurmtest.TestExecutor is the contract in code.
type Executor interface {
	// Submit hands the script over and returns the id under which the array is known from now on. It fails
	// without having started anything, but for ErrNoAnswer, which leaves that open: no half of an array ever runs.
	Submit(ctx context.Context, script []byte) (id string, err error)
	// Tasks reports every task of the array by its index, and a job that is no array as index 0. A task that is not
	// yet known, or no longer, is left out.
	Tasks(ctx context.Context, id string) (map[int]TaskState, error)
	// Cancel ends the whole array: TERM first, KILL later. Cancelling twice, or an array that has ended, is no error.
	Cancel(ctx context.Context, id string) error
}

// TaskState is what the executor knows about one task.
type TaskState struct {
	State State
	Exit  string // exit code and signal as Slurm writes them, for example 0:15; empty while unknown
	Node  string
}

// State is the phase of a task, in Slurm's own words. Unknown words are kept as they are.
type State string

// The states that every executor tells apart.
const (
	Pending   State = "PENDING"
	Running   State = "RUNNING"
	Completed State = "COMPLETED"
	Failed    State = "FAILED"
	Cancelled State = "CANCELLED"
	TimedOut  State = "TIMEOUT"
)

// Ended reports whether a task in state s will not run again by itself. A word that is not known here may be a state
// that is left again, as SPECIAL_EXIT and LAUNCH_FAILED are when the task is released, and an end is kept for good.
func (s State) Ended() bool {
	word, _, _ := strings.Cut(string(s), " ") // accounting says who cancelled: "CANCELLED by 1000"
	switch State(word) {
	case Pending, Running:
		return false
	case Completed, Failed, Cancelled, TimedOut, "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "DEADLINE", "BOOT_FAIL", "REVOKED":
		return true
	}
	return false
}
