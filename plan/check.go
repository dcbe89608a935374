package plan

import (
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"cpbench/plan/catalogue"
	"cpbench/plan/expr"
)

// check finds every mistake in a decoded spec that does not depend on a single point. Without the names of all axes
// nothing is said about what uses names.
func (s *Spec) check(ps *problems, names bool) {
	checkRules(ps, reflect.ValueOf(s).Elem(), "")
	s.checkTexts(ps)
	s.checkKind(ps)
	s.checkSlurm(ps)
	s.checkRetry(ps)
	s.checkContainer(ps)
	if !names {
		return
	}
	s.checkAxes(ps)
	e := compile(s, axesOf(s), ps)
	s.checkMaxFit(ps, e)
	if s.Resources.Exclusive && s.Resources.GPUsPerNode != "0" && s.Site.GPUsPerNode == 0 {
		ps.at("resources.exclusive", "add `site: {gpus_per_node: 8}`", "whole nodes with GPUs need site.gpus_per_node")
	}
}

// checkRules applies what the struct tags say: required, enum, minimum, maximum.
func checkRules(ps *problems, v reflect.Value, path string) {
	for _, f := range reflect.VisibleFields(v.Type()) {
		if name := f.Tag.Get("yaml"); name != "" {
			checkField(ps, v.FieldByIndex(f.Index), rulesOf(f), join(path, name))
		}
	}
}

func checkField(ps *problems, f reflect.Value, r rules, at string) {
	if f.Kind() == reflect.Pointer && !f.IsNil() {
		f = f.Elem()
	}
	_, given := ps.pos[at]
	empty := f.IsZero() || f.Kind() == reflect.Slice && f.Len() == 0
	switch {
	case r.required && empty && ps.bad[at]: // told already
	case r.required && empty && given:
		ps.at(at, example[at], "%s is empty", at)
	case r.required && empty && f.Kind() != reflect.Struct:
		ps.at(at, example[at], "%s is missing", at)
	case f.Kind() == reflect.Struct:
		checkRules(ps, f, at)
	case f.Type() == reflect.TypeFor[[]Exclude](), f.Type() == reflect.TypeFor[[]Column](), f.Type() == reflect.TypeFor[[]Figure](), f.Type() == reflect.TypeFor[[]Host]():
		for j := range f.Len() {
			checkRules(ps, f.Index(j), indexed(at, j))
		}
	case f.CanInt() && given:
		checkNumber(ps, at, f.Int(), r)
	case f.Kind() == reflect.String && len(r.enum) > 0 && f.String() != "":
		checkEnum(ps, at, f.String(), r.enum)
	}
}

func checkNumber(ps *problems, at string, n int64, r rules) {
	if r.min != nil && n < *r.min || r.max != nil && n > *r.max {
		ps.at(at, "", "%s: %d is out of range: %s", at, n, r.bounds())
	}
	if len(r.enum) > 0 && !slices.Contains(r.enum, fmt.Sprint(n)) {
		ps.at(at, "write "+strings.Join(r.enum, " or "), "%s: %d is not known", at, n)
	}
}

func checkEnum(ps *problems, at, word string, enum []string) {
	if slices.Contains(enum, word) {
		return
	}
	ps.at(at, didYouMean(word, enum), "%s: unknown value %q", at, word)
}

func (r rules) bounds() string {
	switch {
	case r.min != nil && r.max != nil:
		return fmt.Sprintf("from %d to %d", *r.min, *r.max)
	case r.min != nil:
		return fmt.Sprintf("at least %d", *r.min)
	}
	return fmt.Sprintf("at most %d", *r.max)
}

// example shows how a missing key is written.
var example = map[string]string{
	"version":               "write `version: 1`",
	"name":                  "write `name: my-sweep`",
	"workload":              "write `workload: {kind: model, mode: inference, command: [...]}`",
	"workload.kind":         "write `kind: model`, `kind: command` or `kind: llm`",
	"workload.mode":         "write `mode: inference` or `mode: training`; they measure different things",
	"workload.command":      "write `command: [python3, my_model.py]`",
	"workload.max_fit.axis": "write `axis: tokens`",
}

var sweepName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// checkDeclare refuses facts that are not for the user to tell.
func (s *Spec) checkDeclare(ps *problems) {
	for name, value := range s.Workload.Declare {
		path := "workload.declare." + name
		if _, ok := catalogue.Declared(name); !ok {
			ps.at(path, "declare what the program does not tell: torch, model, weights, container, or the version of something by its name",
				"workload.declare: %q is a fact that cpbench finds out by itself, or no name", name)
		}
		if strings.TrimSpace(value) == "" || len(value) > 200 {
			ps.at(path, "", "%s: write it in 1 to 200 bytes", path)
		}
		checkText(ps, path, value)
	}
}

// checkTexts refuses what would not survive the way into a script, an environment or a file name.
func (s *Spec) checkTexts(ps *problems) {
	if s.Name != "" && !sweepName.MatchString(s.Name) {
		ps.at("name", "use letters, digits, dot, dash and underscore, at most 64", "name: %q cannot name folders and jobs", s.Name)
	}
	for i, line := range s.Setup {
		checkText(ps, indexed("setup", i), line)
	}
	for name, value := range s.Env {
		if !envName.MatchString(name) || strings.HasPrefix(name, "CPBENCH_") || strings.HasPrefix(name, "SLURM_") || slices.Contains(rankNames, name) {
			ps.at("env."+name, "use letters, digits and underscore; CPBENCH_, SLURM_ and what tells a rank who it is are taken", "env: %q cannot be set", name)
		}
		checkText(ps, "env."+name, value)
	}
	s.checkDeclare(ps)
	for i, arg := range s.Workload.Command {
		if strings.ContainsRune(arg, 0) {
			ps.at(indexed("workload.command", i), "", "an argument cannot hold a NUL character")
		}
	}
	names := map[string]bool{}
	for i, f := range s.Workload.Files {
		path := indexed("workload.files", i)
		base := filepath.Base(filepath.FromSlash(f))
		switch {
		case f == "" || base == "." || base == ".." || base == "/":
			ps.at(path, "", "%q is not a file name", f)
		case names[base]:
			ps.at(path, "rename one of them", "two files are named %q", base)
		}
		names[base] = true
		checkText(ps, path, f)
	}
	checkText(ps, "workload.workdir", s.Workload.Workdir)
	checkText(ps, "workload.dtype", s.Workload.DType)
	checkText(ps, "resources.gpu_type", s.Resources.GPUType)
	checkText(ps, "resources.mem", s.Resources.Mem)
	for i, c := range s.Columns {
		checkText(ps, indexed("columns", i)+".name", c.Name)
	}
}

// rankNames are the variables by which a launcher tells a rank who it is.
var rankNames = []string{"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// checkText refuses control characters and broken UTF-8.
func checkText(ps *problems, path, text string) {
	if !utf8.ValidString(text) {
		ps.at(path, "", "%s: the text is not UTF-8", path)
		return
	}
	if i := strings.IndexFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\t' }); i >= 0 {
		ps.at(path, "write it on one line, without control characters", "%s: a control character (%q) stands in %q", path, text[i:i+1], text)
	}
}

// checkMaxFit finds what is wrong with the search.
func (s *Spec) checkMaxFit(ps *problems, e *evaluator) {
	f := s.Workload.MaxFit
	if f == nil || f.Axis == "" {
		return
	}
	const at = "workload.max_fit"
	for _, a := range e.axes {
		if a.Name == f.Axis && a.Kind != expr.Int {
			ps.at(at+".axis", "", "the axis of a search needs whole numbers, but %q holds a %s", a.Name, a.Kind)
		}
	}
	for i, group := range s.Zip {
		for _, a := range group {
			if a.Name == f.Axis {
				ps.at(at+".axis", "put the axis into the matrix and derive the other value from it", "the axis of a search cannot stand in zip[%d]", i)
			}
		}
	}
	if f.From > f.To {
		ps.at(at+".from", "", "from: %d is larger than to: %d", f.From, f.To)
	}
	if f.Step > f.To {
		ps.at(at+".step", "", "step: %d is larger than to: %d", f.Step, f.To)
	}
	e.checkHint(ps, f.Axis)
	uses := e.users(f.Axis)
	if !uses["workload.point"] && !uses["workload.command"] {
		ps.at(at+".axis", "write for example `point: {tokens: "+f.Axis+"}`", "nothing that the program is told depends on %q", f.Axis)
	}
	for _, path := range []string{"workload.topology", "resources.nodes", "resources.gpus_per_node", "resources.cpus_per_task", "resources.time", "resources.gpu_type", "resources.mem", "workload.ranks"} {
		if uses[path] {
			ps.at(path, "the resources of a task are fixed before its search", "%s: uses %q, the axis of the search", path, f.Axis)
		}
	}
}

// users tells which parts of the spec depend on a name, also through derived names.
func (e *evaluator) users(name string) map[string]bool {
	tainted := e.dependents(name)
	hit := func(p *expr.Program) bool {
		return p != nil && slices.ContainsFunc(p.Names, func(n string) bool { return tainted[n] })
	}
	uses := map[string]bool{}
	for path, p := range map[string]*expr.Program{
		"workload.ranks": e.ranks, "resources.nodes": e.nodes, "resources.gpus_per_node": e.gpus,
		"resources.cpus_per_task": e.cpus, "resources.time": e.time,
	} {
		uses[path] = hit(p)
	}
	for _, p := range e.point {
		uses["workload.point"] = uses["workload.point"] || hit(p.Program)
	}
	texts := map[string][]template{"workload.command": e.command, "resources.gpu_type": {e.gpuType}, "resources.mem": {e.mem}, "workload.topology": {e.topology}}
	for path, list := range texts {
		for _, t := range list {
			uses[path] = uses[path] || slices.ContainsFunc(t.names(), func(n string) bool { return tainted[n] })
		}
	}
	return uses
}

// dependents are a name and the derived names that depend on it.
func (e *evaluator) dependents(name string) map[string]bool {
	found := map[string]bool{name: true}
	for _, d := range e.derive {
		if slices.ContainsFunc(d.Names, func(n string) bool { return found[n] }) {
			found[d.name] = true
		}
	}
	return found
}
