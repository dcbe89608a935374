package collect

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"cpbench/plan"
	"cpbench/plan/folder"
	"cpbench/worker/result"
)

// Conditions are the parts of a plan that decide what is measured, by their path in the spec such as
// `workload.sampling.temperature`, as JSON; a list is one value. Those of Resources stand with them, the lists of the
// axes in matrix and zip do not.
func Conditions(p *plan.Plan) map[string]string {
	flat := measured(p)
	flatten("resources", plain(p.Spec.Resources), flat)
	return flat
}

// measured are the conditions on which a measurement key rests.
func measured(p *plan.Plan) map[string]string {
	flat := map[string]string{}
	for name, part := range map[string]any{
		"workload": p.Spec.Workload, "setup": p.Spec.Setup, "container": p.Spec.Container, "env": p.Spec.Env, "derive": p.Spec.Derive,
		"workload.files (content)": p.Files,
	} {
		flatten(name, plain(part), flat)
	}
	return flat
}

// flatten puts the leaves of v, below path, into flat.
func flatten(path string, v any, flat map[string]string) {
	if v == nil {
		return
	}
	m, ok := v.(map[string]any)
	if !ok {
		flat[path] = conceal(path, short(v))
		return
	}
	for name, part := range m {
		flatten(path+"."+name, part, flat)
	}
}

// plain turns a value into maps and lists, named as in the spec.
func plain(v any) any {
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	var p any
	if err := json.Unmarshal(data, &p); err != nil {
		return string(data)
	}
	return p
}

func short(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// Provenance is what is known of the conditions of a pair's result, by the keys of the catalogue; task is what the
// files of its task say beyond the result itself, nil if there is none. Nothing is known without a result.
func (s *Set) Provenance(p *Pair, task *result.Facts) map[string]string {
	facts := map[string]string{}
	if p.Result == nil {
		return facts
	}
	if task != nil {
		facts = task.Of(&result.Result{Point: p.Point.ID, Repeat: p.Repeat, Attempt: p.Result.Attempt, Restart: p.Result.Restart})
	}
	for _, id := range p.Result.facts {
		facts[s.pool.facts[id].key] = s.pool.facts[id].value
	}
	return facts
}

// TaskFacts reads the provenance of the results that an attempt at a task has left; nil if there is none.
func TaskFacts(run *folder.Run, array, task, attempt, restart int) (*result.Facts, error) {
	f, err := result.ReadFacts(filepath.Join(run.LogDir(array, task, attempt, restart), folder.FactsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return f, err
}

// CacheLabel is what the cache did in a group of requests, by its result; without one, what the plan expects. The first
// repeat of a warm group fills the cache, and finds it cold. It is empty of other workloads.
func (p *Pair) CacheLabel() string {
	if p.Run.Plan.Spec.Workload.Kind != "llm" {
		return ""
	}
	if p.Result != nil && p.Result.Group != nil && p.Result.Group.Cache != "" {
		return p.Result.Group.Cache
	}
	i := slices.IndexFunc(p.Run.Plan.Axes, func(a plan.Axis) bool { return a.Name == "cache" })
	if i >= 0 && p.Point.Values[i] == "warm" && (plan.Pair{Repeat: p.Repeat}).Nth() > 1 {
		return "warm_repeat"
	}
	return "cold"
}

// names lists the keys of some conditions, sorted.
func names(all ...map[string]string) []string {
	set := map[string]string{}
	for _, m := range all {
		maps.Copy(set, m)
	}
	return slices.Sorted(maps.Keys(set))
}
