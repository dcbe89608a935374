package slurm

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// configLimit bounds the wait for scontrol: plan asks it on a login node and must not hang with a dead controller.
const configLimit = 5 * time.Second

// MaxArraySize asks the controller for the largest number of tasks in an array that starts at 0: its MaxArraySize, below
// which the indices end, or max_array_tasks of its SchedulerParameters where that is smaller. 0 means that the site has arrays switched off. The error says what is missing where scontrol is not installed,
// does not answer within 5 seconds, or names no limit; the caller may then go on without one.
func MaxArraySize(ctx context.Context) (int, error) {
	out, err := command{limit: configLimit, name: "scontrol", args: []string{"show", "config"}}.run(ctx)
	if err != nil {
		return 0, fmt.Errorf("ask for MaxArraySize: %w", err)
	}
	size, tasks := -1, -1
	for line := range strings.Lines(string(out)) {
		name, value, _ := strings.Cut(line, "=")
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(name) {
		case "MaxArraySize":
			if size, err = strconv.Atoi(value); err != nil || size < 0 {
				return 0, fmt.Errorf("ask for MaxArraySize: scontrol show config: %q is no array size", value)
			}
		case "SchedulerParameters":
			tasks = MaxArrayTasks(value)
		}
	}
	switch {
	case size < 0:
		return 0, fmt.Errorf("ask for MaxArraySize: scontrol show config names no MaxArraySize")
	case tasks > 0 && tasks < size:
		return tasks, nil
	}
	return size, nil
}

// MaxArrayTasks finds max_array_tasks in the words of SchedulerParameters; 0 if it is not there.
func MaxArrayTasks(parameters string) int {
	for word := range strings.SplitSeq(parameters, ",") {
		if text, ok := strings.CutPrefix(word, "max_array_tasks="); ok {
			n, _ := strconv.Atoi(text) // Slurm ignores what is no number
			return n
		}
	}
	return 0
}

// Hostnames writes out a node list that stands in Slurm's compact form, such as n[1-2,7], by Slurm's own scontrol.
func Hostnames(ctx context.Context, nodes string) ([]string, error) {
	out, err := command{limit: configLimit, name: "scontrol", args: []string{"show", "hostnames", nodes}}.run(ctx)
	if err != nil {
		return nil, fmt.Errorf("names of the nodes %s: %w", nodes, err)
	}
	return strings.Fields(string(out)), nil
}

// TestOnly has sbatch check a script without submitting it, which takes one job id, and returns its estimate of the
// start, such as "Job 7 to start at 2026-11-30T12:38:46 using 1 processors on nodes n1 in partition gpu". It finds
// unknown names and impossible nodes; a time limit above that of the partition is found only where the site enforces
// it, otherwise the job would wait for ever. A refusal is an error that carries sbatch's words.
func (s *Slurm) TestOnly(ctx context.Context, script []byte) (string, error) {
	c := command{bin: s.Bin, dir: s.Dir, env: s.Env, limit: submitLimit, stdin: script, name: "sbatch", args: []string{"--test-only"}, both: true}
	out, err := c.run(ctx)
	if err != nil {
		return "", fmt.Errorf("test the script: %w", err)
	}
	return strings.TrimPrefix(tail(out), "sbatch: "), nil
}

// Words returns what a Slurm command that failed has said on its stderr, its lines joined by "; ", and nothing if err
// does not come from such a command.
func Words(err error) string {
	var failure *commandError
	if errors.As(err, &failure) {
		return failure.stderr
	}
	return ""
}
