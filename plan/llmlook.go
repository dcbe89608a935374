package plan

import "slices"

// LoadLook is Load for a look at the servers and the hosts of a sweep of `kind: llm`: what only a measurement needs,
// such as a label or the sizes of prompts, may be missing. Whatever is there is checked as by Load. Nothing is to be
// measured by such a spec.
func LoadLook(file string, data []byte) (*Spec, error) { return load(file, data, (*Spec).completeLook) }

// completeLook fills in what a look does not use.
func (s *Spec) completeLook() {
	w := &s.Workload
	if w.Kind != "llm" {
		return
	}
	given := func(path string) bool { _, ok := s.pos[path]; return ok }
	if s.Version == 0 && !given("version") {
		s.Version = 1
	}
	if s.Name == "" && !given("name") {
		s.Name = "look"
	}
	if w.MaxTokens == 0 && !given("workload.max_tokens") {
		w.MaxTokens = 1
	}
	for name, field := range map[string]*Values{"label": &w.Label, "cache": &w.Cache, "data": &w.Data, "ctx": &w.Ctx, "concurrency": &w.Concurrency} {
		is := func(a AxisValues) bool { return a.Name == name }
		if !slices.ContainsFunc(s.allAxes(), is) && !given("workload."+name) {
			*field = lookAxes[name]
		}
	}
}

// lookAxes are values that ask for nothing.
var lookAxes = map[string]Values{"label": {"look"}, "cache": {"cold"}, "data": {"synth"}, "ctx": {"0"}, "concurrency": {"1"}}
