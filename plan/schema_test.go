package plan

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	generate "github.com/invopop/jsonschema"
	check "github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"
)

var updateDocs = flag.Bool("update", false, "write docs/spec.md and docs/sweep.schema.json")

const (
	schemaFile = "../docs/sweep.schema.json"
	fullFile   = "testdata/schema/full.yaml"
)

// The forms of the values that are no plain strings, numbers or lists. A text and an expression may be written as a
// number or as true and false, because YAML has a kind of its own for those.
const (
	textForm     = `{"type": ["string", "number", "boolean"]}`
	durationForm = `{"type": "string", "pattern": "^([0-9]+d|([0-9]+-)?[0-9]+:[0-9]+:[0-9]+|([0-9.]+(ns|us|µs|ms|s|m|h))+)$"}`
	percentForm  = `{"anyOf": [{"type": "string", "pattern": "^[0-9.]+ *%?$"}, {"type": "number", "minimum": 0, "exclusiveMaximum": 1}]}`
	autoForm     = `{"anyOf": [{"const": "auto"}, {"type": "integer", "minimum": 1}]}`
	nameForm     = `{"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}`
	valuesForm   = `{"type": "object", "propertyNames": ` + nameForm + `, "additionalProperties": ` + textForm + `}`
	axesForm     = `{"type": "object", "propertyNames": ` + nameForm +
		`, "additionalProperties": {"type": "array", "minItems": 1, "items": ` + textForm + `}}`
)

var schemaForms = map[reflect.Type]string{
	reflect.TypeFor[Duration](): durationForm, reflect.TypeFor[Percent](): percentForm, reflect.TypeFor[AutoInt](): autoForm,
	reflect.TypeFor[AxisMap](): axesForm, reflect.TypeFor[ParamMap](): valuesForm, reflect.TypeFor[ExprMap](): valuesForm,
	reflect.TypeFor[Values]():            `{"anyOf": [` + textForm + `, {"type": "array", "minItems": 1, "items": ` + textForm + `}]}`,
	reflect.TypeFor[Arguments]():         `{"type": "object"}`,
	reflect.TypeFor[Millis]():            `{"type": "number", "exclusiveMinimum": 0}`,
	reflect.TypeFor[map[string]string](): `{"type": "object", "additionalProperties": ` + textForm + `}`,
}

// specReflector reads the comments and tags of the spec's types.
func specReflector(t *testing.T) *generate.Reflector {
	t.Helper()
	r := &generate.Reflector{
		FieldNameTag: "yaml", RequiredFromJSONSchemaTags: true, Anonymous: true, ExpandedStruct: true,
		Mapper: func(typ reflect.Type) *generate.Schema {
			if form, ok := schemaForms[typ]; ok {
				return schemaOf(t, form)
			}
			return nil
		},
	}
	if err := r.AddGoComments("cpbench/plan", "./"); err != nil {
		t.Fatal(err)
	}
	for _, s := range docSections {
		for i := range s.typ.NumField() {
			if f := s.typ.Field(i); f.Tag.Get("yaml") != "" {
				key := "cpbench/plan." + s.typ.Name() + "." + f.Name
				if r.CommentMap[key] == "" {
					t.Errorf("%s has no comment: docs/spec.md needs one", key)
				}
				r.CommentMap[key] = inKeys(s.typ, r.CommentMap[key])
			}
		}
	}
	return r
}

func schemaOf(t *testing.T, text string) *generate.Schema {
	t.Helper()
	s := &generate.Schema{}
	var raw map[string]any
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		t.Fatal(err)
	}
	s.Extras = raw
	return s
}

// inKeys writes a comment in the words of the spec: its fields have the names of their keys.
func inKeys(typ reflect.Type, text string) string {
	for i := range typ.NumField() {
		f := typ.Field(i)
		if key := f.Tag.Get("yaml"); key != "" {
			text = regexp.MustCompile(`(^|[ ,])`+f.Name+`\b`).ReplaceAllString(text, "$1`"+key+"`")
		}
	}
	return strings.Join(strings.Fields(text), " ")
}

// makeSchema is docs/sweep.schema.json.
func makeSchema(t *testing.T) []byte {
	t.Helper()
	s := specReflector(t).Reflect(&Spec{})
	s.Title = "cpbench sweep"
	relax(t, s)
	for _, def := range s.Definitions {
		relax(t, def)
	}
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(text, '\n')
}

// relax lets texts be written as YAML's other plain values, and keys that are not required be left empty.
func relax(t *testing.T, s *generate.Schema) {
	t.Helper()
	if s.Properties == nil {
		return
	}
	for p := s.Properties.Oldest(); p != nil; p = p.Next() {
		v, optional := p.Value, !slices.Contains(s.Required, p.Key)
		if v.Type == "array" && v.Items != nil && v.Items.Type == "string" {
			v.Items = schemaOf(t, textForm)
		}
		if v.Type == "string" && len(v.Enum) == 0 {
			v.Type = ""
			v.Extras = map[string]any{"type": []any{"string", "number", "boolean"}}
		}
		if !optional {
			continue
		}
		if len(v.Enum) > 0 {
			v.Enum = append(v.Enum, nil)
		}
		switch kind := v.Extras["type"].(type) {
		case []any:
			v.Extras["type"] = append(kind, "null")
		case string:
			v.Extras["type"] = []any{kind, "null"}
		}
		if choices, ok := v.Extras["anyOf"].([]any); ok {
			v.Extras["anyOf"] = append(choices, map[string]any{"type": "null"})
		}
		if v.Type != "" {
			v.Extras, v.Type = map[string]any{"type": []any{v.Type, "null"}}, ""
		}
		if v.Ref != "" {
			v.AnyOf = []*generate.Schema{{Ref: v.Ref}, {Type: "null"}}
			v.Ref = ""
		}
	}
}

// TestDocsSchema holds docs/sweep.schema.json to the types.
func TestDocsSchema(t *testing.T) {
	generated(t, schemaFile, makeSchema(t))
}

// generated compares a reference with what the code says, or writes it.
func generated(t *testing.T, path string, want []byte) {
	t.Helper()
	if *updateDocs {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(have)); diff != "" {
		t.Errorf("%s is stale, run make docs (-code +file):\n%s", path, diff)
	}
}

func compiled(t *testing.T) *check.Schema {
	t.Helper()
	doc, err := check.UnmarshalJSON(bytes.NewReader(makeSchema(t)))
	if err != nil {
		t.Fatal(err)
	}
	c := check.NewCompiler()
	if err := c.AddResource("sweep.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("sweep.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func validate(t *testing.T, s *check.Schema, text []byte) error {
	t.Helper()
	var v any
	if err := yaml.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return s.Validate(v)
}

// TestSchemaAccepts: what cpbench takes, an editor must not mark.
func TestSchemaAccepts(t *testing.T) {
	t.Parallel()
	s := compiled(t)
	files, err := filepath.Glob("../configs/*.yaml")
	below, errBelow := filepath.Glob("../configs/*/*.yaml")
	if err != nil || errBelow != nil || len(files) == 0 || len(below) == 0 {
		t.Fatalf("no sample sweeps: %v, %v", err, errBelow)
	}
	files = append(files, below...)
	for _, file := range append(files, "../templates/starter-model.yaml", "../templates/starter-llm.yaml", fullFile, commandFile, llmFile) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(t, s, text); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		spec, err := Load(file, text)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if _, _, err := New(spec, Options{Source: "/x/" + file}); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// TestSchemaRefuses changes the full example in one place and expects the schema and Load to refuse it.
func TestSchemaRefuses(t *testing.T) {
	t.Parallel()
	s := compiled(t)
	full, err := os.ReadFile(fullFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, old, new string }{
		{"version", "version: 1 ", "version: 2 "},
		{"no name", "name: boltz2-cp ", "title: boltz2-cp "},
		{"bad name", "name: boltz2-cp ", "name: boltz 2 "},
		{"axis without a list", "cp: [1, 4]", "cp: 1"},
		{"axis without values", "cp: [1, 4]", "cp: []"},
		{"axis name", "matrix: {cp:", "matrix: {1cp:"},
		{"matrix is a list", "matrix: {cp: [1, 4], tokens: [1024, 2048, 4096]}", "matrix: [cp, tokens]"},
		{"zip is a mapping", "zip: [{dataset: [a, b], msa: [1024, 4096]}]", "zip: {dataset: [a, b], msa: [1024, 4096]}"},
		{"exclude is text", `exclude: [{where: "cp == 1 && tokens > 2048"}]`, `exclude: ["cp == 1"]`},
		{"derive is a list", "derive: {gpus: cp}", "derive: [gpus]"},
		{"repeats", "repeats: 1 ", "repeats: many "},
		{"no repeats", "repeats: 1 ", "repeats: 0 "},
		{"order", "order: blocks ", "order: random "},
		{"kind", "kind: model ", "kind: lmm "},
		{"mode", "mode: inference ", "mode: both "},
		{"command is a line", `command: [python3, my_rank.py, "--data={dataset}"]`, "command: python3 my_rank.py"},
		{"point is a list", "point: {tokens: tokens, atoms", "point: [tokens]\n  other: {atoms"},
		{"expression is a list", "ranks: cp", "ranks: [cp]"},
		{"warmup", "warmup: 3 ", "warmup: 30 "},
		{"timeout without unit", "timeout: 20m ", "timeout: 20 "},
		{"tolerance", "tolerance: 1%", "tolerance: 2"},
		{"max_fit without axis", "max_fit: {axis: tokens, from", "max_fit: {from"},
		{"exclusive", "exclusive: true", "exclusive: 1"},
		{"array size", "max_array_size: auto", "max_array_size: all"},
		{"unknown key", "seed: 1", "sead: 1"},
		{"no effect yet", "seed: 1", "seed: 1\nreference: []"},
		{"retries", "retry: {max: 1", "retry: {max: -1"},
		{"setup is a line", `setup: ["module purge", "module load cuda/12.8"]`, `setup: "module purge"`},
		{"env value is a list", "NCCL_DEBUG: WARN", "NCCL_DEBUG: [WARN]"},
		{"column without value", `columns: [{name: tokens/s, value: "tokens / step_seconds"}]`, "columns: [{name: tokens/s}]"},
	} {
		text := strings.Replace(string(full), c.old, c.new, 1)
		if text == string(full) {
			t.Errorf("%s: %q does not stand in the full example", c.name, c.old)
			continue
		}
		if err := validate(t, s, []byte(text)); err == nil {
			t.Errorf("%s: the schema accepts it", c.name)
		}
		if _, err := Load("x.yaml", []byte(text)); err == nil {
			t.Errorf("%s: Load accepts it", c.name)
		}
	}
}
