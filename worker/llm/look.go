package llm

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"

	"cpbench/plan"
	"cpbench/worker/llm/dialect"
	"cpbench/worker/llm/preflight"
)

// Looked is what a preflight has found at one server of a sweep.
type Looked struct {
	Target   string             `json:"target"`
	Server   *dialect.Server    `json:"server"` // null: it does not answer, or is started by the tasks
	Findings preflight.Findings `json:"findings"`
}

// Preflight looks at every server of a sweep that is there already. With try it generates a few tokens on each; without,
// nothing is generated and nothing is tokenized. An error is one of the sweep; what is wrong with a server is a finding.
func Preflight(ctx context.Context, p *plan.Plan, try bool) ([]Looked, error) {
	w := p.Spec.Workload
	var key dialect.Key
	var err error
	if w.APIKeyEnv != "" {
		if key, err = dialect.KeyFromEnv(w.APIKeyEnv); err != nil {
			return nil, err
		}
	}
	servers, err := surveys(p)
	if err != nil {
		return nil, err
	}
	var all []Looked
	for _, v := range servers {
		if f := v.serving.APIKeyFile; f != "" && w.APIKeyEnv == "" {
			if key, err = dialect.KeyFromFile(f); err != nil {
				return nil, err
			}
		}
		all = append(all, v.look(ctx, w, key, try))
	}
	return all, ctx.Err()
}

// surveys are the servers of a sweep, each once, in the order of its tasks.
func surveys(p *plan.Plan) ([]*survey, error) {
	var pairs []plan.Pair
	for i := range p.Arrays {
		for _, task := range p.Arrays[i].Tasks {
			pairs = append(pairs, task.Pairs...)
		}
	}
	seen := map[string]*survey{}
	var order []*survey
	for _, pair := range pairs {
		setting, err := p.At(pair.Point, 0)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.PointName(pair.Point), err)
		}
		sv := setting.Serving
		id := sv.Target.Key() + fmt.Sprintf("%q %q", sv.Model, sv.MetricsURLs)
		if seen[id] == nil {
			seen[id] = &survey{serving: sv}
			order = append(order, seen[id])
		}
		seen[id].add(sv.Group)
	}
	return order, nil
}

// survey is one server and what the sweep asks of it.
type survey struct {
	serving *plan.Serving
	largest int
	warm    bool
}

func (v *survey) add(g plan.Group) {
	v.largest, v.warm = max(v.largest, g.Ctx), v.warm || g.Cache == warm
	if g.Mixed != nil {
		v.largest = max(v.largest, g.Mixed.ShortCtx)
	}
}

// look looks at the server.
func (v *survey) look(ctx context.Context, w plan.Workload, key dialect.Key, try bool) Looked {
	sv := v.serving
	if len(sv.Target.Command) > 0 {
		return Looked{Target: filepath.Base(sv.Target.Command[0]), Findings: preflight.Findings{{
			Check: preflight.Models, Grade: preflight.OK, Text: "the tasks start this server, and look at it before their first group",
		}}}
	}
	out := Looked{Target: sv.Target.URL}
	found, err := dialect.Detect(ctx, dialect.Options{URL: sv.Target.URL, Model: sv.Model, Key: key})
	if err != nil {
		out.Findings = preflight.Findings{{
			Check: preflight.Models, Grade: preflight.Bad, Text: key.Redact(err.Error()), Advice: "check the address, the model's name, and whether the server runs",
		}}
		return out
	}
	if len(sv.MetricsURLs) > 0 {
		found.MetricsURLs = sv.MetricsURLs
	}
	var own *int
	if w.MaxModelLen > 0 {
		own = &w.MaxModelLen
	}
	metrics := Source(found, key)
	out.Server, out.Findings = found, preflight.Look(ctx, found, metrics, v.largest, w.MaxTokens, own)
	if try {
		out.Findings = append(out.Findings, preflight.Try(ctx, trial(w, found, metrics, v.warm))...)
	}
	for i := range out.Findings {
		out.Findings[i].Text = key.Redact(cmp.Or(out.Findings[i].Text, "nothing"))
	}
	return out
}
