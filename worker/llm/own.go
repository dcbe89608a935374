package llm

import (
	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/worker/llm/host"
	"cpbench/worker/result"
	"cpbench/worker/telemetry"
)

// This file has what a server of the task's own runs on.

// enter writes down on what a server of the task's own runs, or would.
func (s *session) enter(r *result.Result, setting plan.Setting) {
	if s.host == nil {
		return
	}
	var process *host.Running
	if s.living != nil {
		process = s.living.process
	}
	s.host.Enter(r, setting.Resources.Nodes, process)
}

// energy writes what happened to the GPUs during a group, and the energy for each token that was delivered.
func energy(r *result.Result, gpus telemetry.Span) {
	gpus.Into(r)
	if _, read := r.Metrics[catalogue.EnergyJoules]; read {
		perToken(r)
	}
}

// perToken writes the energy for each token that was delivered; null where one of the two is not known.
func perToken(r *result.Result) {
	r.Metrics[catalogue.EnergyPerOutputToken] = nil
	joules, n := r.Metrics[catalogue.EnergyJoules], r.Metrics[catalogue.OutputTokens]
	if joules != nil && n != nil && *n > 0 {
		r.Set(catalogue.EnergyPerOutputToken, *joules / *n)
	}
}
