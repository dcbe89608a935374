package plan

import "slices"

// compiledLLM are the texts of a workload of `kind: llm`.
type compiledLLM struct {
	url, model, ready template
	command, metrics  []template
	env               map[string]template
}

// compileLLM compiles what `kind: llm` has beside the rest.
func (e *evaluator) compileLLM(s *Spec, c *compiler) {
	w := &s.Workload
	const at = "workload.server"
	ported := append(slices.Clone(reservedNames), "port")
	e.llm.env = map[string]template{}
	e.llm.url = c.template(w.Server.URL, at+".url", nil)
	e.llm.model = c.template(w.Model, "workload.model", nil)
	open := ported // only a server that is started has a port of its own
	if len(w.Server.Command) == 0 {
		open = nil
	}
	for i, u := range w.MetricsURLs {
		e.llm.metrics = append(e.llm.metrics, c.template(u, indexed("workload.metrics_urls", i), open))
	}
	e.llm.ready = c.template(w.Server.Ready, at+".ready", ported)
	for i, arg := range w.Server.Command {
		e.llm.command = append(e.llm.command, c.template(arg, indexed(at+".command", i), ported))
	}
	for name, v := range w.Server.Env {
		e.llm.env[name] = c.template(v, at+".env."+name, ported)
	}
}

// templates are all texts with values of the point in them.
func (l *compiledLLM) templates() []template {
	all := append([]template{l.url, l.model, l.ready}, l.command...)
	all = append(all, l.metrics...)
	for _, t := range l.env {
		all = append(all, t)
	}
	return all
}

// targetKey tells apart the servers of a sweep before its run folder is known; empty for other kinds than llm.
func (e *evaluator) targetKey(values map[string]any) string {
	if e.llm.env == nil {
		return ""
	}
	t := Target{URL: e.llm.url.fill(values), Ready: e.llm.ready.fill(values), Env: map[string]string{}}
	for _, c := range e.llm.command {
		t.Command = append(t.Command, c.fill(values))
	}
	if len(e.llm.command) > 0 {
		for _, env := range []map[string]template{e.env, e.llm.env} {
			for name, v := range env {
				t.Env[name] = v.fill(values)
			}
		}
	}
	return t.Key()
}

// measured is what decides what a group measures: without the lists of the axes, what only adds points, and what leaves
// the requests as they are.
func (w LLM) measured() LLM {
	w.Label, w.Cache, w.Data, w.Ctx, w.Concurrency = nil, nil, nil, nil, nil
	w.Mixed, w.Starts, w.APIKeyEnv, w.APIKeyFile, w.KeepText = nil, 0, "", "", false
	w.Server.ReadyTimeout, w.Server.StopGrace = 0, 0
	w.Telemetry, w.ExtraMetrics = nil, nil
	return w
}
