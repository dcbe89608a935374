package slurm

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// How long Slurm's commands may take. sbatch waits about 20 s for a dead controller, and retries by itself for minutes
// where the site's queue is full.
const (
	submitLimit = 2 * time.Minute
	queryLimit  = time.Minute
)

// ErrNoAnswer marks a failed Submit after which the array may have been accepted all the same: sbatch was ended before
// it could say so. Look for the script's job name before trying again, or there may be two of them.
var ErrNoAnswer = errors.New("sbatch gave no answer, the array may have been accepted")

// Slurm is the Executor that uses the site's sbatch, squeue and scancel; it needs no accounting. The zero value is
// ready, and its methods may be called at the same time.
//
// Tasks sees what the controller remembers: a task that ended longer ago than the site's MinJobAge (300 s by default)
// is left out, and so is an array that the controller never knew.
type Slurm struct {
	Bin string   // folder of Slurm's commands; empty means PATH
	Dir string   // folder to submit from, which becomes the tasks' working folder; empty means the current one
	Env []string // environment of Slurm's commands and so of the tasks; nil means this process's; Clean is applied to it
}

var _ Executor = (*Slurm)(nil)

// Submit gives the script to sbatch on stdin. A refusal carries sbatch's own words; see also ErrNoAnswer.
func (s *Slurm) Submit(ctx context.Context, script []byte) (string, error) {
	return answer(s.call(ctx, submitLimit, script, "sbatch", "--parsable"))
}

// answer reads what a call of sbatch came to.
func answer(out []byte, err error) (string, error) {
	if err != nil {
		var failure *commandError
		// The controller may act on a request whose reply came too late for sbatch.
		if errors.As(err, &failure) && failure.noAnswer || says(err, "Socket timed out") {
			return "", fmt.Errorf("submit: %w: %w", ErrNoAnswer, err)
		}
		return "", fmt.Errorf("submit: %w", err)
	}
	id := jobID(out)
	if id == "" {
		return "", fmt.Errorf("submit: %w: no job id in its output %q", ErrNoAnswer, tail(out))
	}
	return id, nil
}

// idLine is what sbatch --parsable prints: the id, and the cluster's name where there are several.
var idLine = regexp.MustCompile(`^([0-9]+)(;[^;\s]+)?$`)

// jobID returns the id in sbatch's output, or nothing. Sites print banners of their own before it.
func jobID(out []byte) string {
	id := ""
	for line := range strings.Lines(string(out)) {
		if match := idLine.FindStringSubmatch(strings.TrimSpace(line)); match != nil {
			id = match[1]
		}
	}
	return id
}

// taskFields are the columns that Tasks reads: accounting-free, one row a task. exit_code is the raw wait status, true
// where the text of other commands is cut to seven bits.
const taskFields = "ArrayTaskID:|,State:|,exit_code:|,NodeList:|"

// Tasks asks squeue once for the whole array.
func (s *Slurm) Tasks(ctx context.Context, id string) (map[int]TaskState, error) {
	out, err := s.call(ctx, queryLimit, nil, "squeue", "--states=all", "--array", "--noheader", "--jobs="+id, "--Format="+taskFields)
	if decimal(id) && says(err, "Invalid job id specified") {
		return map[int]TaskState{}, nil // the controller has forgotten it, or never knew it
	}
	if err != nil {
		return nil, fmt.Errorf("tasks of array %s: %w", id, err)
	}
	tasks, err := parseTasks(string(out))
	if err != nil {
		return nil, fmt.Errorf("tasks of array %s: squeue: %w", id, err)
	}
	return tasks, nil
}

// parseTasks reads squeue's rows of taskFields. A job that is no array counts as index 0.
func parseTasks(out string) (map[int]TaskState, error) {
	tasks := map[int]TaskState{}
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		fields := strings.Split(line, "|")
		if len(fields) != 5 || fields[1] == "" {
			return nil, fmt.Errorf("row %q does not have the four columns asked for", line)
		}
		index := 0
		if fields[0] != "N/A" {
			var err error
			if index, err = strconv.Atoi(fields[0]); err != nil {
				return nil, fmt.Errorf("row %q: %q is no task index", line, fields[0])
			}
		}
		state := TaskState{State: State(fields[1]), Node: fields[3]}
		if state.State.Ended() {
			state.Exit = ExitText(fields[2])
		}
		tasks[index] = state
	}
	return tasks, nil
}

// ExitText turns the raw wait status that squeue prints into Slurm's code:signal; anything else is kept as it is.
func ExitText(status string) string {
	n, err := strconv.Atoi(status)
	if err != nil {
		return status
	}
	if signal := n & 0x7f; signal != 0 {
		// The upper byte means nothing then: of a task whose output cannot be opened the status is 4021.
		return fmt.Sprintf("0:%d", signal)
	}
	return fmt.Sprintf("%d:0", n>>8&0xff)
}

// Cancel asks scancel to end the array: TERM, and KILL after the site's KillWait.
func (s *Slurm) Cancel(ctx context.Context, id string) error { return s.CancelJobs(ctx, id) }

// says reports whether err is a Slurm command that failed with text on its stderr: Slurm has no finer exit codes.
func says(err error, text string) bool {
	var failure *commandError
	return errors.As(err, &failure) && strings.Contains(failure.stderr, text)
}

func (s *Slurm) call(ctx context.Context, limit time.Duration, stdin []byte, name string, args ...string) ([]byte, error) {
	return command{bin: s.Bin, dir: s.Dir, env: s.Env, limit: limit, stdin: stdin, name: name, args: args}.run(ctx)
}

func decimal(id string) bool {
	_, err := strconv.ParseUint(id, 10, 64)
	return err == nil
}
