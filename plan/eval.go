package plan

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"cpbench/plan/catalogue"
	"cpbench/plan/expr"
)

// evaluator holds the compiled expressions of a spec.
type evaluator struct {
	axes     []Axis
	derive   []named
	exclude  []*expr.Program
	point    []named
	ranks    *expr.Program
	nodes    *expr.Program
	gpus     *expr.Program
	cpus     *expr.Program
	time     *expr.Program // nil: seconds holds the literal
	seconds  int64
	command  []template
	env      map[string]template
	gpuType  template
	artifact template
	topology template
	mem      template
	hint     *expr.Program // nil: none
	llm      compiledLLM
	columns  []*expr.Program
}

type named struct {
	name string
	*expr.Program
}

// compile turns the texts of the spec into an evaluator and tells every mistake in them.
func compile(s *Spec, axes []Axis, ps *problems) *evaluator {
	c := &compiler{ps, map[string]expr.Kind{}}
	for _, a := range axes {
		c.kinds[a.Name] = a.Kind
	}
	e := &evaluator{axes: axes, env: map[string]template{}}
	for _, d := range s.Derive {
		c.kinds[d.Name] = expr.Int // if the expression is wrong, that is told once, not again wherever the name is used
		if p := c.without(d.Name).expr(d.Expr, "derive."+d.Name); p != nil {
			c.kinds[d.Name] = p.Kind
			e.derive = append(e.derive, named{d.Name, p})
		}
	}
	for i, x := range s.Exclude {
		path := indexed("exclude", i) + ".where"
		p := c.expr(x.Where, path)
		if p != nil && p.Kind != expr.Bool {
			ps.at(path, "compare with ==, <, > or in", "%q gives a %s, but true or false is needed", x.Where, p.Kind)
		}
		e.exclude = append(e.exclude, p)
	}
	e.compileWorkload(s, c)
	if s.Workload.Kind == "llm" {
		e.compileLLM(s, c)
	}
	e.compileResources(s, c)
	if f := s.Workload.MaxFit; f != nil && f.Hint != "" {
		e.hint = c.expr(f.Hint, hintPath)
	}
	for _, m := range catalogue.Metrics() {
		c.kinds[m.Name] = expr.Float
	}
	for i, col := range s.Columns {
		e.columns = append(e.columns, c.expr(col.Value, indexed("columns", i)+".value"))
	}
	return e
}

func (e *evaluator) compileWorkload(s *Spec, c *compiler) {
	for _, x := range s.Workload.Point {
		if err := expr.CheckName(x.Name); err != nil {
			c.at("workload.point."+x.Name, "", "%v", err)
		}
		if p := c.expr(x.Expr, "workload.point."+x.Name); p != nil {
			e.point = append(e.point, named{x.Name, p})
		}
	}
	e.ranks = c.expr(s.Workload.Ranks, "workload.ranks")
	for i, arg := range s.Workload.Command {
		e.command = append(e.command, c.template(arg, indexed("workload.command", i), reservedNames))
	}
	e.topology = c.template(s.Workload.Topology, "workload.topology", nil)
	if len(e.topology) == 1 && e.topology[0] != "" && !slices.Contains(topologies, e.topology[0]) {
		c.at("workload.topology", didYouMean(e.topology[0], topologies), "workload.topology: unknown value %q", e.topology[0])
	}
	e.artifact = c.template(s.Workload.Artifact, "workload.artifact", reservedNames)
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		e.env[name] = c.template(s.Env[name], "env."+name, reservedNames)
	}
}

func (e *evaluator) compileResources(s *Spec, c *compiler) {
	e.nodes = c.expr(s.Resources.Nodes, "resources.nodes")
	e.gpus = c.expr(s.Resources.GPUsPerNode, "resources.gpus_per_node")
	e.cpus = c.expr(s.Resources.CPUsPerTask, "resources.cpus_per_task")
	e.gpuType = c.template(s.Resources.GPUType, "resources.gpu_type", nil)
	e.mem = c.template(s.Resources.Mem, "resources.mem", nil)
	text := s.Resources.Time
	switch d, err := ParseDuration(text); {
	case err == nil:
		e.seconds = int64(d.Seconds())
	case strings.ContainsAny(text, "+*?(") || c.kinds[text] != "":
		e.time = c.expr(text, "resources.time")
	default:
		c.at("resources.time", "or write an expression that gives seconds or such a text", "%v", err)
	}
}

// topologies are the meshes of ranks.
var topologies = []string{"1d", "2d"}

// compiler compiles texts over one set of names and tells mistakes at their places.
type compiler struct {
	*problems
	kinds map[string]expr.Kind
}

func (c *compiler) expr(src, path string) *expr.Program {
	p, err := expr.Compile(src, c.kinds)
	if err == nil {
		return p
	}
	hint := ""
	if word, ok := strings.CutPrefix(err.Error(), "unknown name "); ok {
		hint = didYouMean(word, append(slices.Sorted(maps.Keys(c.kinds)), expr.Functions()...))
	}
	c.at(path, hint, "%s: %s in %q", path, err, src)
	return nil
}

// without is a compiler that does not know one of the names.
func (c *compiler) without(name string) *compiler {
	kinds := maps.Clone(c.kinds)
	delete(kinds, name)
	return &compiler{c.problems, kinds}
}

// template is a text with values of the point in it: pieces and names alternate, beginning with a piece.
type template []string

// template parses one level of {name}; {{ and }} are braces.
func (c *compiler) template(text, path string, reserved []string) template {
	t := template{""}
	for i := 0; i < len(text); i++ {
		ch := text[i]
		if (ch == '{' || ch == '}') && i+1 < len(text) && text[i+1] == ch {
			t[len(t)-1] += string(ch)
			i++
			continue
		}
		if ch == '}' {
			c.at(path, "write }} for a brace", "%s: a } without its { in %q", path, text)
			return nil
		}
		if ch != '{' {
			t[len(t)-1] += string(ch)
			continue
		}
		end := strings.IndexByte(text[i:], '}')
		if end < 0 {
			c.at(path, "write {{ for a brace", "%s: a { without its } in %q", path, text)
			return nil
		}
		name := text[i+1 : i+end]
		if c.kinds[name] == "" && !slices.Contains(reserved, name) {
			c.at(path, didYouMean(name, append(slices.Sorted(maps.Keys(c.kinds)), reserved...)), "%s: unknown name {%s}", path, name)
		}
		t = append(t, name, "")
		i += end
	}
	return t
}

// fill puts the values into the template. Names that the values lack stay as {name}, for the worker to fill.
func (t template) fill(values map[string]any) string {
	var b strings.Builder
	for i, piece := range t {
		if i%2 == 0 {
			b.WriteString(piece)
		} else if v, ok := values[piece]; ok {
			b.WriteString(format(v))
		} else {
			b.WriteString("{" + piece + "}")
		}
	}
	return b.String()
}

// names lists the names used in the template.
func (t template) names() []string {
	var names []string
	for i := 1; i < len(t); i += 2 {
		names = append(names, t[i])
	}
	return names
}

// format prints a value of the language in its shortest exact form.
func format(v any) string {
	switch v := v.(type) {
	case int:
		return strconv.Itoa(v)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return fmt.Sprint(v)
}

func indexed(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }
