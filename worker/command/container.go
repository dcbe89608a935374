package command

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"

	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/worker"
	"cpbench/worker/container"
	"cpbench/worker/result"
	"cpbench/worker/tree"
)

// program is argv before its start, in the container of the spec if there is one.
func (s *session) program(argv []string, setting plan.Setting, dir string) *exec.Cmd {
	cpus := s.job.Run.Plan.Arrays[s.job.Task.Array].Shape.CPUsPerTask
	argv, env := container.Of(s.job.Run).Alone(argv, worker.OutsideStep(s.job.Environ(setting)), dir, setting.Resources.GPUsPerNode > 0, cpus, s.job.Hosts)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = dir, env
	return cmd
}

// lookInside asks the container once for each repeat which values of the sweep's variables arrive in it: an image may
// set its own, and a sweep over them would then do nothing, unseen. The ending is that of a container that cannot be
// started; a program that does not know the variables could not tell.
func (s *session) lookInside(ctx context.Context, setting plan.Setting, r *result.Result) ending {
	if container.Of(s.job.Run).None() {
		return ending{}
	}
	ctx, cancel := s.timeout(ctx)
	defer cancel()
	cmd := s.program([]string{"env"}, setting, s.job.LogDir)
	var stdout, stderr bytes.Buffer // in memory only: it holds the secrets of the job
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	child, err := tree.Start(cmd)
	if err != nil {
		return startFailed(cmd, err)
	}
	gone := make(chan error, 1)
	go func() { gone <- child.Wait() }()
	select {
	case err = <-gone:
	case <-ctx.Done():
		_, killed := tree.Kill(context.Background(), tree.DefaultGrace)
		if killed == nil {
			<-gone //nolint:errcheck // how it ended does not matter any more
		}
		return stopped(ctx)
	}
	if err != nil {
		return ending{Outcome: catalogue.Error, Reason: "the container could not be started", Evidence: fmt.Sprintf("%v: %s", err, lastLines(stderr.String()))}
	}
	note(r, setting.Env, stdout.String())
	return ending{}
}

// note records what the variables of the sweep are in an environment that env has printed.
func note(r *result.Result, swept map[string]string, printed string) {
	seen := map[string]string{}
	for line := range strings.Lines(printed) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		seen[name] = value
	}
	for name := range swept {
		value, set := seen[name]
		if !set {
			value = "(not set)"
		}
		r.Provenance["setting "+name] = value
	}
}

// lastLines is the end of what a runtime has said.
func lastLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], "; ")
}
