// Package expr is the only door to the expression language of the spec, expr-lang/expr. Use Compile once for each
// expression of a sweep and Eval for each point. The language is kept small: arithmetic, comparison, logic,
// ?:, in, and the functions that Functions lists. It can neither loop for ever nor see clock or environment.
package expr

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	lang "github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/vm"
)

// Kind is the type of a value in the language.
type Kind string

// The kinds.
const (
	Int    Kind = "int"
	Float  Kind = "float"
	Bool   Kind = "bool"
	String Kind = "string"
)

// Functions lists what an expression may call; docs/spec.md prints it.
func Functions() []string {
	return []string{"abs", "ceil", "float", "floor", "int", "len", "max", "min", "round", "sqrt", "string"}
}

// keywords of the language, which cannot be names of axes.
var keywords = []string{"and", "or", "not", "in", "matches", "contains", "startsWith", "endsWith", "let", "if", "else", "true", "false", "nil"}

// CheckName says why name cannot stand in an expression, or returns nil.
func CheckName(name string) error {
	for i, r := range name {
		letter := r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return fmt.Errorf("%q is not a name: use letters, digits and underscore, and begin with a letter", name)
		}
	}
	switch {
	case name == "":
		return errors.New("a name is missing")
	case slices.Contains(keywords, name):
		return fmt.Errorf("%q is a word of the expression language", name)
	case slices.Contains(Functions(), name):
		return fmt.Errorf("%q is a function of the expression language", name)
	}
	return nil
}

// Error is a mistake in an expression. Column counts characters of the source from 1; 0 means unknown.
type Error struct {
	Column int
	Text   string
}

func (e *Error) Error() string { return e.Text }

// Program is a compiled expression.
type Program struct {
	Source string
	Kind   Kind     // of its value
	Names  []string // used in it, sorted
	prog   *vm.Program
}

// Compile checks src against the kinds of the names that it may use.
func Compile(src string, names map[string]Kind) (*Program, error) {
	if strings.TrimSpace(src) == "" {
		return nil, &Error{0, "the expression is empty"}
	}
	env := make(map[string]any, len(names))
	for n, k := range names {
		env[n] = zero(k)
	}
	used := &nameFinder{}
	opts := append([]lang.Option{lang.Env(env), lang.Patch(used)}, functions...)
	prog, err := lang.Compile(src, opts...)
	if err != nil {
		return nil, convert(err)
	}
	kind, ok := kindOf(prog.Node().Type())
	if !ok {
		return nil, &Error{0, "the value is not a number, text or true/false, or not the same kind in every branch"}
	}
	p := &Program{Source: src, Kind: kind, prog: prog}
	for _, n := range used.names {
		if _, ok := names[n]; ok && !slices.Contains(p.Names, n) {
			p.Names = append(p.Names, n)
		}
	}
	slices.Sort(p.Names)
	return p, nil
}

// Eval computes the value for one point: an int, float64, bool or string. A number that is not finite is an error.
func (p *Program) Eval(values map[string]any) (any, error) {
	v, err := vm.Run(p.prog, values)
	if err != nil {
		return nil, convert(err)
	}
	if f, ok := v.(float64); ok && (math.IsInf(f, 0) || math.IsNaN(f)) {
		return nil, &Error{0, fmt.Sprintf("%q is not a finite number here (a division by zero?)", p.Source)}
	}
	return v, nil
}

// EvalInt is Eval for a place that needs a whole number.
func (p *Program) EvalInt(values map[string]any) (int64, error) {
	v, err := p.Eval(values)
	if err != nil {
		return 0, err
	}
	switch v := v.(type) {
	case int:
		return int64(v), nil
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int64(v), nil
		}
	}
	return 0, &Error{0, fmt.Sprintf("%q gives %v here, but a whole number is needed; round with ceil, floor or round", p.Source, v)}
}

// EvalBool is Eval for a condition.
func (p *Program) EvalBool(values map[string]any) (bool, error) {
	v, err := p.Eval(values)
	if err != nil {
		return false, err
	}
	b, ok := v.(bool)
	if !ok {
		return false, &Error{0, fmt.Sprintf("%q gives %v, but true or false is needed", p.Source, v)}
	}
	return b, nil
}

// convert brings an error of the library into ours; its Column counts from 0 while its text counts from 1.
func convert(err error) error {
	var fe *file.Error
	if errors.As(err, &fe) {
		return &Error{fe.Column + 1, fe.Message}
	}
	return &Error{0, err.Error()}
}

func zero(k Kind) any {
	switch k {
	case Int:
		return 0
	case Float:
		return 0.0
	case Bool:
		return false
	case String:
		return ""
	}
	panic("expr: unknown kind " + string(k))
}

func kindOf(t reflect.Type) (Kind, bool) {
	if t == nil {
		return "", false
	}
	switch t.Kind() { //nolint:exhaustive // every other kind has no place in the spec
	case reflect.Int:
		return Int, true
	case reflect.Float64:
		return Float, true
	case reflect.Bool:
		return Bool, true
	case reflect.String:
		return String, true
	}
	return "", false
}

// nameFinder collects the identifiers of an expression.
type nameFinder struct{ names []string }

// Visit is called by the library for each node.
func (f *nameFinder) Visit(node *ast.Node) {
	if id, ok := (*node).(*ast.IdentifierNode); ok {
		f.names = append(f.names, id.Value)
	}
}

// functions are the options that give the language its short list of functions. The library's own min and max
// claim the type of their first argument whatever the others are, so ours say what they return.
var functions = []lang.Option{
	lang.DisableAllBuiltins(),
	lang.EnableBuiltin("abs"), lang.EnableBuiltin("ceil"), lang.EnableBuiltin("floor"), lang.EnableBuiltin("round"),
	lang.EnableBuiltin("int"), lang.EnableBuiltin("float"), lang.EnableBuiltin("string"), lang.EnableBuiltin("len"),
	pick("min", func(a, b float64) bool { return a <= b }),
	pick("max", func(a, b float64) bool { return a >= b }),
	lang.Function("sqrt", func(p ...any) (any, error) { return math.Sqrt(number(p[0])), nil },
		new(func(int) float64), new(func(float64) float64)),
}

// pick is a function of two numbers that returns the one that is first by less; an int only when both are.
func pick(name string, first func(a, b float64) bool) lang.Option {
	return lang.Function(name, func(p ...any) (any, error) {
		chosen := p[1]
		if first(number(p[0]), number(p[1])) {
			chosen = p[0]
		}
		_, intA := p[0].(int)
		_, intB := p[1].(int)
		if intA && intB {
			return chosen, nil
		}
		return number(chosen), nil
	}, new(func(int, int) int), new(func(int, float64) float64), new(func(float64, int) float64), new(func(float64, float64) float64))
}

func number(v any) float64 {
	switch v := v.(type) {
	case int:
		return float64(v)
	case float64:
		return v
	}
	return math.NaN()
}
