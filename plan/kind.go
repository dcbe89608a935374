package plan

import (
	"reflect"
	"regexp"
	"slices"
	"strings"

	"cpbench/plan/expr"

	"gopkg.in/yaml.v3"
)

// kinds are the kinds of workloads.
var kinds = []string{"model", "command", "llm"}

// unknownKind refuses a workload of a kind that does not exist, and leaves its other keys alone.
func (d *decoder) unknownKind(n *yaml.Node) bool {
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, val := n.Content[i], n.Content[i+1]
		if key.Value != "kind" || slices.Contains(kinds, val.Value) {
			continue
		}
		d.add(Pos{val.Line, val.Column}, "this version runs `kind: model`, `kind: command` and `kind: llm`", "workload.kind: unknown kind %q", val.Value)
		d.foreign = true
		return true
	}
	return false
}

// kindIn is the kind that a workload names; empty if it names none.
func kindIn(n *yaml.Node) string {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == "kind" {
			return n.Content[i+1].Value
		}
	}
	return ""
}

// checkKind finds what is wrong for the kind of the workload: what one kind needs and the other does not take.
func (s *Spec) checkKind(ps *problems) {
	w := &s.Workload
	switch w.Kind {
	case "model":
		s.checkModel(ps)
	case "command":
		s.checkCommand(ps)
	case "llm":
		s.checkLLM(ps)
		return
	}
	s.checkNotLLM(ps)
	const at = "workload.command"
	switch _, given := ps.pos[at]; {
	case len(w.Command) > 0 || ps.bad[at]: // what is bad is told already
	case given:
		ps.at(at, example[at], "%s is empty", at)
	default:
		ps.at(at, example[at], "%s is missing", at)
	}
}

// checkNotLLM refuses the keys of `kind: llm` in a workload of another kind.
func (s *Spec) checkNotLLM(ps *problems) {
	_, names := structFields(reflect.TypeFor[LLM]())
	for _, name := range names {
		if _, given := ps.pos["workload."+name]; given {
			ps.at("workload."+name, "write `kind: llm`, or remove it", "workload.%s belongs to `kind: llm`", name)
		}
	}
}

func (s *Spec) checkModel(ps *problems) {
	const at = "workload."
	w := &s.Workload
	if w.Mode == "" && !ps.bad[at+"mode"] {
		ps.at(at+"mode", example[at+"mode"], "workload.mode is missing")
	}
	if w.Warmup < 1 && !ps.bad[at+"warmup"] {
		ps.at(at+"warmup", "", "workload.warmup: a model needs at least 1 step of warm-up")
	}
	if w.Iterations < 5 && !ps.bad[at+"iterations"] {
		ps.at(at+"iterations", "", "workload.iterations: a model needs at least 5 timed steps, not %d", w.Iterations)
	}
	for path, given := range map[string]bool{"metrics": len(w.Metrics) > 0, "artifact": w.Artifact != "", "oom_patterns": len(w.OOMPatterns) > 0} {
		if given {
			ps.at(at+path, "a model tells its figures and its failures over the protocol", "%s%s belongs to `kind: command`", at, path)
		}
	}
}

func (s *Spec) checkCommand(ps *problems) {
	w := &s.Workload
	for i, f := range w.Metrics {
		path := indexed("workload.metrics", i)
		if err := expr.CheckName(f.Name); err != nil && f.Name != "" {
			ps.at(path+".name", "", "%v", err)
		}
		if (f.JSON == "") == (f.Regex == "") {
			ps.at(path, "write `json: FILE:PATH` or `regex: 'time: ([0-9.]+)'`", "%s: a figure needs either json or regex", path)
		}
		if f.JSON != "" && !strings.Contains(f.JSON, ":") {
			ps.at(path+".json", "write it as FILE:PATH, for example out/timings.json:total.seconds", "%s.json: %q names no file", path, f.JSON)
		}
		checkRegex(ps, path+".regex", f.Regex, true)
		checkText(ps, path+".unit", f.Unit)
	}
	for i, p := range w.OOMPatterns {
		checkRegex(ps, indexed("workload.oom_patterns", i), p, false)
	}
	checkText(ps, "workload.artifact", w.Artifact)
	if w.Heartbeat != 0 {
		ps.at("workload.heartbeat", "workload.timeout bounds a run", "workload.heartbeat belongs to `kind: model`: a command gives no signs of life")
	}
	if w.Launcher == "torchrun" || w.Launcher == "srun" {
		ps.at("workload.launcher", "leave it out, and put "+w.Launcher+" into the command",
			"workload.launcher: %s starts ranks that speak the protocol, which a command does not", w.Launcher)
	}
}

func checkRegex(ps *problems, path, text string, group bool) {
	if text == "" {
		return
	}
	re, err := regexp.Compile(text)
	switch {
	case err != nil:
		ps.at(path, "the form is that of Go: golang.org/s/re2syntax", "%s: %v", path, err)
	case group && re.NumSubexp() == 0:
		ps.at(path, "put the number into a group: 'time: ([0-9.]+)'", "%s: %q has no group for the number", path, text)
	}
}

// kindDefaults fills what the user left open and where the kinds differ.
func (s *Spec) kindDefaults() {
	if s.Workload.Kind == "llm" {
		w := &s.Workload
		w.Timeout, w.Heartbeat, w.Launcher = 0, 0, "none"
		if _, ok := s.pos["workload.iterations"]; !ok { // else it is refused, and not for being 0
			w.Iterations = 0
		}
		if _, ok := s.pos["workload.warmup"]; !ok {
			w.Warmup = 2
		}
		if _, ok := s.pos["slurm.parallel"]; !ok && w.Server.URL != "" {
			s.Slurm.Parallel = 1 // requests of two tasks would disturb each other
		}
	}
	if s.Workload.Kind != "command" {
		return
	}
	if _, ok := s.pos["workload.warmup"]; !ok {
		s.Workload.Warmup = 1
	}
	if _, ok := s.pos["workload.iterations"]; !ok {
		s.Workload.Iterations = 5
	}
	if _, ok := s.pos["workload.launcher"]; !ok {
		s.Workload.Launcher = "none"
	}
	if _, ok := s.pos["workload.heartbeat"]; !ok {
		s.Workload.Heartbeat = 0
	}
}
