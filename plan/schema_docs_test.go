package plan

import (
	"bytes"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	pages "text/template"

	"cpbench/plan/expr"
)

const (
	specPage     = "../docs/spec.md"
	pageTemplate = "testdata/schema/spec.md.tmpl"
	commandFile  = "testdata/schema/command.yaml"
	llmFile      = "testdata/schema/llm.yaml"
)

// TestFullExample: the example of docs/spec.md names every key.
func TestFullExample(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(fullFile)
	if err != nil {
		t.Fatal(err)
	}
	command, err := os.ReadFile(commandFile)
	if err != nil {
		t.Fatal(err)
	}
	llm, err := os.ReadFile(llmFile)
	if err != nil {
		t.Fatal(err)
	}
	text = slices.Concat(text, command, llm)
	for _, s := range docSections {
		_, names := structFields(s.typ)
		for _, name := range names {
			if !regexp.MustCompile(`(^|[\s{,])` + name + `:`).Match(text) {
				t.Errorf("%s: %s has no example", s.title, name)
			}
		}
	}
}

// docSections are the tables of docs/spec.md.
var docSections = []struct {
	title string
	typ   reflect.Type
}{
	{"The sweep", reflect.TypeFor[Spec]()},
	{"Each of `exclude`", reflect.TypeFor[Exclude]()},
	{"`workload`", reflect.TypeFor[Workload]()},
	{"Each of `workload.metrics`", reflect.TypeFor[Figure]()},
	{"`workload.max_fit`", reflect.TypeFor[MaxFit]()},
	{"`workload` of `kind: llm`", reflect.TypeFor[LLM]()},
	{"`workload.server`", reflect.TypeFor[Server]()},
	{"`workload.mixed`", reflect.TypeFor[Mixed]()},
	{"`workload.data_files`", reflect.TypeFor[DataFiles]()},
	{"`workload.timeouts`", reflect.TypeFor[Timeouts]()},
	{"`workload.goodput`", reflect.TypeFor[Goodput]()},
	{"`workload.telemetry`", reflect.TypeFor[Telemetry]()},
	{"Each of `workload.telemetry.hosts`", reflect.TypeFor[Host]()},
	{"`resources`", reflect.TypeFor[Resources]()},
	{"`slurm`", reflect.TypeFor[Slurm]()},
	{"`site`", reflect.TypeFor[Site]()},
	{"`container`", reflect.TypeFor[Container]()},
	{"`retry`", reflect.TypeFor[Retry]()},
	{"Each of `columns`", reflect.TypeFor[Column]()},
}

// key is a row of docs/spec.md.
type key struct{ Name, Form, Default, Help string }

// TestDocsSpec holds docs/spec.md to the types.
func TestDocsSpec(t *testing.T) {
	full, err := os.ReadFile(fullFile)
	if err != nil {
		t.Fatal(err)
	}
	command, err := os.ReadFile(commandFile)
	if err != nil {
		t.Fatal(err)
	}
	llm, err := os.ReadFile(llmFile)
	if err != nil {
		t.Fatal(err)
	}
	type section struct {
		Title string
		Keys  []key
	}
	type function struct{ Form, Help string }
	type without struct{ Key, Why string }
	data := struct {
		Full      string
		Command   string
		LLM       string
		Sections  []section
		Functions []function
		Unbuilt   []without
	}{Full: string(full), Command: string(command), LLM: string(llm)}
	comments := specReflector(t).CommentMap
	for _, s := range docSections {
		sec := section{Title: s.title}
		for i := range s.typ.NumField() {
			f := s.typ.Field(i)
			if name := f.Tag.Get("yaml"); name != "" {
				r := rulesOf(f)
				help := strings.ReplaceAll(comments["cpbench/plan."+s.typ.Name()+"."+f.Name], "|", `\|`)
				sec.Keys = append(sec.Keys, key{name, form(f.Type, r, help), defaultText(f, r), help})
			}
		}
		data.Sections = append(data.Sections, sec)
	}
	for _, name := range expr.Functions() {
		help, ok := functionHelp[name]
		if !ok {
			t.Errorf("docs/spec.md says nothing about the function %s", name)
		}
		data.Functions = append(data.Functions, function{help[0], help[1]})
	}
	for _, k := range slices.Sorted(maps.Keys(unbuilt)) {
		data.Unbuilt = append(data.Unbuilt, without{k, unbuilt[k]})
	}
	var page bytes.Buffer
	if err := pages.Must(pages.ParseFiles(pageTemplate)).Execute(&page, data); err != nil {
		t.Fatal(err)
	}
	generated(t, specPage, page.Bytes())
}

// functionHelp says how each function is called and what it gives.
var functionHelp = map[string][2]string{
	"abs":    {"abs(x)", "the number without its sign"},
	"ceil":   {"ceil(x)", "the next whole number upwards, as a float"},
	"float":  {"float(x)", "a number or a text as a float"},
	"floor":  {"floor(x)", "the next whole number downwards, as a float"},
	"int":    {"int(x)", "a number or a text as a whole number; a fraction is cut off"},
	"len":    {"len(text)", "the number of characters"},
	"max":    {"max(a, b)", "the larger of two numbers; whole if both are"},
	"min":    {"min(a, b)", "the smaller of two numbers; whole if both are"},
	"round":  {"round(x)", "the nearest whole number, as a float"},
	"sqrt":   {"sqrt(x)", "the square root"},
	"string": {"string(x)", "the value as text"},
}

// form says in words how the value of a key is written.
func form(typ reflect.Type, r rules, help string) string {
	if len(r.enum) > 0 {
		return "`" + strings.Join(r.enum, "`, `") + "`"
	}
	switch typ {
	case reflect.TypeFor[Duration]():
		return "duration"
	case reflect.TypeFor[Percent]():
		return "share"
	case reflect.TypeFor[AutoInt]():
		return "number or `auto`"
	case reflect.TypeFor[Millis]():
		return "number"
	case reflect.TypeFor[AxisMap]():
		return "name: list of values"
	case reflect.TypeFor[[]AxisMap]():
		return "list of (name: list of values)"
	case reflect.TypeFor[[]ParamMap]():
		return "list of (name: value)"
	case reflect.TypeFor[ExprMap]():
		return "name: expression"
	case reflect.TypeFor[Values]():
		return "value or list of values"
	case reflect.TypeFor[Arguments]():
		return "name: value"
	case reflect.TypeFor[*bool](), reflect.TypeFor[*int]():
		return form(typ.Elem(), r, help)
	case reflect.TypeFor[map[string]string]():
		return "name: text"
	case reflect.TypeFor[[]string]():
		return "list of texts"
	}
	switch typ.Kind() { //nolint:exhaustive // the kinds that the spec's fields have
	case reflect.Int, reflect.Int64:
		if r.min != nil || r.max != nil {
			return "number, " + r.bounds()
		}
		return "number"
	case reflect.Bool:
		return "`true`, `false`"
	case reflect.String:
		if strings.Contains(help, "expression") {
			return "expression"
		}
		return "text"
	case reflect.Slice:
		return "list of mappings"
	}
	return "mapping"
}

func defaultText(f reflect.StructField, r rules) string {
	typ := f.Type
	switch {
	case r.required, typ == reflect.TypeFor[Values](), f.Name == "MaxTokens", typ == reflect.TypeFor[Server]():
		return "**required**"
	case r.def != "":
		return "`" + r.def + "`"
	case typ.Kind() == reflect.Bool:
		return "`false`"
	case typ.Kind() == reflect.Int && (r.min == nil || *r.min <= 0):
		return "`0`"
	}
	return ""
}

// TestDocsWords: what docs/spec.md says about the expression language is what the language does.
func TestDocsWords(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(pageTemplate)
	if err != nil {
		t.Fatal(err)
	}
	words := regexp.MustCompile(`(?s)which cannot be names: ([^.]*)\.`).FindSubmatch(page)
	if words == nil {
		t.Fatal("no list of words")
	}
	for _, w := range strings.Split(string(words[1]), ",") {
		if w = strings.Trim(strings.TrimSpace(w), "`"); expr.CheckName(w) == nil {
			t.Errorf("%q can be the name of an axis", w)
		}
	}
	names := map[string]expr.Kind{"cp": expr.Int, "tokens": expr.Int, "dataset": expr.String}
	examples := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (int|float|bool|string) \\|").FindAllSubmatch(page, -1)
	if len(examples) < 6 {
		t.Fatalf("%d examples", len(examples))
	}
	for _, m := range examples {
		p, err := expr.Compile(strings.ReplaceAll(string(m[1]), `\|`, "|"), names)
		if err != nil {
			t.Errorf("%s: %v", m[1], err)
		} else if string(p.Kind) != string(m[2]) {
			t.Errorf("%s gives %s, not %s", m[1], p.Kind, m[2])
		}
	}
	for name, help := range functionHelp {
		call := strings.NewReplacer("text", "dataset", "(x)", "(1.5)", "a, b", "cp, tokens").Replace(help[0])
		if _, err := expr.Compile(call, names); err != nil {
			t.Errorf("%s: %s: %v", name, call, err)
		}
	}
}
