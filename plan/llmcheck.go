package plan

import (
	"slices"
)

// notLLM are the keys of the other kinds.
var notLLM = []string{
	"mode", "command", "launcher", "ranks", "topology", "point", "iterations", "timeout", "heartbeat", "slow_after",
	"metrics", "artifact", "oom_patterns", "max_fit",
}

// instead says what to write for a key of another kind.
var instead = map[string]string{
	"command":   "write `server: {command: [...]}`",
	"timeout":   "timeouts.total bounds a request, and resources.time the task",
	"point":     "write `ctx: [0, 8000]`",
	"max_fit":   "write the sizes as `ctx: [...]`",
	"metrics":   "write `metrics_urls: [...]`",
	"heartbeat": "timeouts.idle bounds the silence within an answer",
}

// checkLLM finds what is wrong with a workload of `kind: llm`.
func (s *Spec) checkLLM(ps *problems) {
	for _, name := range notLLM {
		if _, given := ps.pos["workload."+name]; given {
			ps.at("workload."+name, instead[name], "workload.%s belongs to another kind than `kind: llm`", name)
		}
	}
	w := &s.Workload
	w.MaxFit = nil // refused above: what is wrong within is no matter
	if _, given := ps.pos["workload.max_tokens"]; w.MaxTokens == 0 && !given && !ps.bad["workload.max_tokens"] {
		ps.at("workload", "write `max_tokens: 512`", "workload.max_tokens is missing")
	}
	if s.Container.Runtime != "none" && w.Server.URL != "" {
		ps.at("container", "write `server: {command: [...]}`, or remove it", "container has no effect on a server that runs already")
	}
	if len(s.Pack) > 0 {
		ps.at("pack", "remove it", "pack has no effect with `kind: llm`: a task holds all that one start of its servers measures")
	}
	for name, value := range s.Env {
		refuseSecret(ps, "env."+name, name, value)
	}
	s.checkServer(ps)
	s.checkRequests(ps)
	w.checkTelemetry(ps)
	w.Goodput.check(ps)
	s.checkWarm(ps)
	if w.Server.URL != "" && s.Slurm.Parallel != 1 {
		ps.at("slurm.parallel", "remove it", "slurm.parallel is %d, but tasks that share a server run one at a time", s.Slurm.Parallel)
	}
}

// setElsewhere are fields of a request that other keys of the spec decide.
var setElsewhere = map[string]string{
	"model": "workload.model", "messages": "workload.data", "max_tokens": "workload.max_tokens", "max_completion_tokens": "workload.max_tokens",
	"cache_salt": "workload.cache", "cache_prompt": "workload.cache", "chat_template_kwargs": "workload.template_kwargs",
	"reasoning_effort": "workload.reasoning_effort", "priority": "workload.priority", "stream": "", "stream_options": "workload.frame_usage", "n": "", "chat_template": "",
}

// checkRequests finds what is wrong with what is sent.
func (s *Spec) checkRequests(ps *problems) {
	w := &s.Workload
	for name, value := range w.Sampling {
		path := "workload.sampling." + name
		if key, ok := setElsewhere[name]; ok {
			hint := "remove it: cpbench needs it as it is"
			if key != "" {
				hint = "write " + key
			}
			ps.at(path, hint, "workload.sampling: %q is not for sampling to set", name)
		}
		refuseSecret(ps, path, name, value)
	}
	for name, value := range w.TemplateKwargs {
		refuseSecret(ps, "workload.template_kwargs."+name, name, value)
	}
	if w.APIKeyEnv != "" && w.APIKeyFile != "" {
		ps.at("workload.api_key_file", "remove one of them", "workload: api_key_env and api_key_file exclude one another")
	}
	if w.APIKeyEnv != "" && !envName.MatchString(w.APIKeyEnv) { // whoever puts the key itself here does not want to see it again
		ps.at("workload.api_key_env", "write the name of the variable, for example OPENAI_API_KEY, and not the key", "workload.api_key_env is no name of a variable")
	}
	if think := w.Thinking; think != nil && w.ReasoningEffort != "" && *think == (w.ReasoningEffort == "none") {
		ps.at("workload.reasoning_effort", "remove one of them", "workload.reasoning_effort: %q contradicts thinking: %v", w.ReasoningEffort, *think)
	}
	for i, u := range w.MetricsURLs {
		checkURL(ps, indexed("workload.metrics_urls", i), u)
	}
	for path, text := range map[string]string{
		"model": w.Model, "reasoning_effort": w.ReasoningEffort, "data_dir": w.DataDir, "api_key_file": w.APIKeyFile,
		"data_files.opinions": w.DataFiles.Opinions, "data_files.filings": w.DataFiles.Filings,
	} {
		checkText(ps, "workload."+path, text)
	}
}

// checkWarm refuses a warm cache that nothing would find warm.
func (s *Spec) checkWarm(ps *problems) {
	if s.Repeats >= 2 || ps.bad["repeats"] {
		return
	}
	for _, a := range s.allAxes() {
		if a.Name == "cache" && slices.Contains(a.Values, "warm") {
			ps.at("repeats", "write `repeats: 4`", "repeats is %d, but `cache: warm` needs at least 2: the first one fills the cache", s.Repeats)
		}
	}
}
