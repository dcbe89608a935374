package compare_test

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"cpbench/collect/compare"
	"cpbench/collect/compare/cell"
)

// TestDocsOfJSON: the guide names every field of the JSON form, and every verdict.
func TestDocsOfJSON(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../docs/compare.md")
	if err != nil {
		t.Fatal(err)
	}
	_, form, ok := strings.Cut(string(data), "## The JSON form")
	if !ok {
		t.Fatal("the guide has no section on the JSON form")
	}
	names := fields(reflect.TypeFor[compare.Report](), map[string]bool{})
	if len(names) < 50 {
		t.Fatalf("found %d fields", len(names))
	}
	for name := range names {
		if !strings.Contains(form, "`"+name+"`") {
			t.Errorf("the guide does not tell of the field %q", name)
		}
	}
	for _, v := range cell.Verdicts() {
		if !strings.Contains(string(data), "`"+string(v)+"`") {
			t.Errorf("the guide does not tell of the verdict %q", v)
		}
	}
}

// fields adds the JSON names of a type's fields, and of those below it.
func fields(t reflect.Type, names map[string]bool) map[string]bool {
	if k := t.Kind(); k == reflect.Pointer || k == reflect.Slice {
		return fields(t.Elem(), names)
	}
	if t.Kind() != reflect.Struct || t == reflect.TypeFor[time.Time]() {
		return names
	}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		names[name] = true
		fields(t.Field(i).Type, names)
	}
	return names
}
