package command

import (
	"context"
	"maps"
	"os/exec"

	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/worker"
	"cpbench/worker/container"
	"cpbench/worker/inside"
	"cpbench/worker/result"
)

// program is argv before its start, in the container of the spec if there is one.
func (s *session) program(argv []string, setting plan.Setting, dir string) *exec.Cmd {
	cpus := s.job.Run.Plan.Arrays[s.job.Task.Array].Shape.CPUsPerTask
	argv, env := container.Of(s.job.Run).Alone(argv, worker.OutsideStep(s.job.Environ(setting)), dir, setting.Resources.GPUsPerNode > 0, cpus, s.job.Hosts)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = dir, env
	return cmd
}

// lookInside asks the container once for each repeat which values of the sweep's variables arrive in it. The ending is
// that of a container that cannot be started; a program that does not know the variables could not tell.
func (s *session) lookInside(ctx context.Context, setting plan.Setting, r *result.Result) ending {
	if container.Of(s.job.Run).None() {
		return ending{}
	}
	ctx, cancel := s.timeout(ctx)
	defer cancel()
	cmd := s.program([]string{"env"}, setting, s.job.LogDir)
	seen, err := inside.Look(ctx, cmd, setting.Env)
	if err == nil {
		maps.Copy(r.Provenance, seen)
		return ending{}
	}
	if ctx.Err() != nil {
		return stopped(ctx)
	}
	if end := startFailed(cmd, err); end.Outcome == catalogue.Infra {
		return end
	}
	return ending{Outcome: catalogue.Error, Reason: "the container could not be started", Evidence: err.Error()}
}
