package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
)

// Setting is a point with every expression evaluated: what the worker does and what the table prints.
type Setting struct {
	Params    []Param
	Values    map[string]any // axes and derived names, for further expressions
	Command   []string       // of `kind: llm` that of the server, with {port} left as it is
	Artifact  string         // of a command: pattern of the file that has to exist afterwards
	Env       map[string]string
	Ranks     int
	Topology  string
	Point     map[string]any // what the program is told: tokens, atoms, msa, data and the user's names
	Resources Shape          // as asked by this point, before exclusive nodes are filled up
	Seconds   int64          // time bound of a task with this point
	Serving   *Serving       // of `kind: llm`; nil otherwise
}

// id is the stable name of a point: a hash over its parameters, sorted by name, so that neither the order of the
// axes nor that of the values changes it. 64 bits keep 100,000 points apart with probability 1 - 3e-10.
func id(axes []Axis, order []int, values []string) string {
	buf := make([]byte, 0, 128)
	for _, i := range order {
		buf = strconv.AppendQuote(buf, axes[i].Name)
		buf = append(buf, '=')
		buf = strconv.AppendQuote(buf, values[i])
		buf = append(buf, '\n')
	}
	sum := sha256.Sum256(buf)
	return hex.EncodeToString(sum[:8])
}

// byName is the order of the axes in which an id is made.
func byName(axes []Axis) []int {
	order := make([]int, len(axes))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		if axes[a].Name < axes[b].Name {
			return -1
		}
		return 1
	})
	return order
}

// ID is the id that a point with these values has in this plan; a task line whose ids differ was not written by
// this plan.
func (p *Plan) ID(values []string) string { return id(p.Axes, byName(p.Axes), values) }

// evaluate gives the values of the axes and the derived names of a point. n is the value of the searched axis of a
// case point.
func (e *evaluator) evaluate(pt Point, searched string, n int64) (map[string]any, *evalError) {
	values := make(map[string]any, len(e.axes)+len(e.derive))
	for i, a := range e.axes {
		if pt.Case != "" && a.Name == searched {
			values[a.Name] = int(n)
		} else {
			values[a.Name] = a.value(pt.Values[i])
		}
	}
	for _, d := range e.derive {
		v, err := d.Eval(values)
		if err != nil {
			return nil, &evalError{"derive." + d.name, err}
		}
		values[d.name] = v
	}
	return values, nil
}

// evalError is a mistake that shows at a point: in which part of the spec, and what.
type evalError struct {
	path string
	err  error
}

func (e *evalError) Error() string { return e.path + ": " + e.err.Error() }

// setting evaluates everything else of a point.
func (e *evaluator) setting(s *Spec, values map[string]any) (Setting, *evalError) {
	st := Setting{Values: values, Topology: e.topology.fill(values), Point: make(map[string]any, len(e.point)), Seconds: e.seconds}
	if s.Workload.Kind == "llm" {
		bad := e.request(&st, s, values)
		return st, bad
	}
	if st.Topology != "" && !slices.Contains(topologies, st.Topology) {
		return st, &evalError{"workload.topology", fmt.Errorf("gives %q, but a mesh is 1d or 2d", st.Topology)}
	}
	ranks, err := e.ranks.EvalInt(values)
	if err == nil {
		err = checkRanks(ranks, st.Topology)
	}
	if err != nil {
		return st, &evalError{"workload.ranks", err}
	}
	st.Ranks = int(ranks)
	for _, x := range e.point {
		v, err := x.Eval(values)
		if err == nil && (x.name == "tokens" || x.name == "atoms" || x.name == "msa") {
			v, err = wholeSize(x.name, v)
		}
		if err != nil {
			return st, &evalError{"workload.point." + x.name, err}
		}
		st.Point[x.name] = v
	}
	bad := e.request(&st, s, values)
	return st, bad
}

// checkRanks says why a mesh cannot have so many ranks. A 2-D mesh is sqrt(P) x sqrt(P).
func checkRanks(ranks int64, topology string) error {
	root := int64(math.Round(math.Sqrt(float64(ranks))))
	switch {
	case ranks < 1 || ranks > 1<<20:
		return fmt.Errorf("gives %d, but at least 1 rank is needed", ranks)
	case topology == "2d" && root*root != ranks:
		return fmt.Errorf("gives %d, but `topology: 2d` needs a square number (1, 4, 9, 16, ...)", ranks)
	}
	return nil
}

func wholeSize(name string, v any) (any, error) {
	switch v := v.(type) {
	case int:
		if v > 0 {
			return v, nil
		}
	case float64:
		if v == math.Trunc(v) && v > 0 && v < 1<<53 {
			return int(v), nil
		}
	}
	return nil, fmt.Errorf("%s is %v here, but a whole number above 0 is needed", name, v)
}

// Bind tells the plan where its run folder and its cpbench binary lie, for {run} and {cpbench} in commands.
func (p *Plan) Bind(run, binary string) { p.bound = map[string]any{"run": run, "cpbench": binary} }

// evaluator returns the compiled expressions of the plan.
func (p *Plan) evaluator() (*evaluator, error) {
	p.once.Do(func() {
		ps := &problems{file: "plan.json"}
		p.eval = compile(p.Spec, p.Axes, ps)
		p.evalErr = ps.err()
	})
	return p.eval, p.evalErr
}

// At evaluates a point. n is the value of the searched axis of a case point; for an ordinary point it is ignored.
func (p *Plan) At(pt Point, n int64) (Setting, error) {
	e, err := p.evaluator()
	if err != nil {
		return Setting{}, err
	}
	if len(pt.Values) != len(p.Axes) {
		return Setting{}, fmt.Errorf("point %s has %d values for %d axes", pt.ID, len(pt.Values), len(p.Axes))
	}
	searched, word := p.Spec.caseAxis()
	if word == CaseMixed {
		n = mixedStreams
	}
	values, bad := e.evaluate(pt, searched, n)
	if bad != nil {
		return Setting{}, bad
	}
	st, bad := e.setting(p.Spec, values)
	if bad != nil {
		return st, bad
	}
	st.Params = p.Params(pt)
	texts := map[string]any{}
	for k, v := range values {
		texts[k] = v
	}
	for i, a := range p.Axes { // a command gets the user's own text
		if pt.Case == "" || a.Name != searched {
			texts[a.Name] = pt.Values[i]
		}
	}
	for k, v := range p.bound {
		texts[k] = v
	}
	for _, t := range e.command {
		st.Command = append(st.Command, p.frozen(t.fill(texts)))
	}
	st.Artifact = e.artifact.fill(texts)
	for _, t := range e.llm.command { // for people, with the port as it stands in the spec
		st.Command = append(st.Command, p.frozen(t.fill(texts)))
	}
	if p.Spec.Workload.Kind == "llm" {
		st.Serving = e.serving(p, pt, maps.Clone(texts))
	}
	st.Env = make(map[string]string, len(e.env))
	for name, t := range e.env {
		st.Env[name] = t.fill(texts)
	}
	return st, nil
}

// frozen is an argument of the command: one that names a file of the workload becomes the run's own copy of it, so that
// what was hashed is what runs.
func (p *Plan) frozen(arg string) string {
	run, ok := p.bound["run"].(string)
	if !ok {
		return arg
	}
	for _, f := range p.Files {
		if path.Clean(arg) == path.Clean(f.Name) {
			return path.Join(run, "lib", path.Base(f.Name))
		}
	}
	return arg
}

// Params lists the axis values of a point in the user's text. The searched axis of a case point has its case word.
func (p *Plan) Params(pt Point) []Param {
	params := make([]Param, len(p.Axes))
	for i, a := range p.Axes {
		params[i] = Param{a.Name, pt.Values[i]}
	}
	return params
}

// Column evaluates the i-th user column for a setting and the metrics that were measured. A metric that is missing
// is an error: the cell stays empty.
func (p *Plan) Column(i int, st Setting, metrics map[string]float64) (any, error) {
	e, err := p.evaluator()
	if err != nil {
		return nil, err
	}
	values := make(map[string]any, len(st.Values)+len(metrics))
	for k, v := range st.Values {
		values[k] = v
	}
	for k, v := range metrics {
		values[k] = v
	}
	for _, name := range e.columns[i].Names {
		if _, ok := values[name]; !ok {
			return nil, fmt.Errorf("%s was not measured", name)
		}
	}
	return e.columns[i].Eval(values)
}
