package expr_test

import (
	"errors"
	"strings"
	"testing"

	"cpbench/plan/expr"

	"github.com/google/go-cmp/cmp"
)

var kinds = map[string]expr.Kind{"cp": expr.Int, "f": expr.Float, "s": expr.String, "b": expr.Bool}

func TestEval(t *testing.T) {
	t.Parallel()
	values := map[string]any{"cp": 4, "f": 1.5, "s": "a/b", "b": true}
	for _, tt := range []struct {
		src  string
		kind expr.Kind
		want any
	}{
		{"cp * 2", expr.Int, 8},
		{"cp / 8", expr.Float, 0.5},
		{"ceil(cp / 8)", expr.Float, 1.0},
		{"min(cp, 8)", expr.Int, 4},
		{"min(cp, f)", expr.Float, 1.5},
		{"max(1, f) == 1.5", expr.Bool, true},
		{"max(f, 2)", expr.Float, 2.0},
		{"sqrt(cp)", expr.Float, 2.0},
		{"cp in [1, 4]", expr.Bool, true},
		{"cp == 1 ? '30m' : '1h'", expr.String, "1h"},
		{"'inputs/' + s + '.npz'", expr.String, "inputs/a/b.npz"},
		{"b && f > 1", expr.Bool, true},
		{"int(ceil(f))", expr.Int, 2},
	} {
		p, err := expr.Compile(tt.src, kinds)
		if err != nil {
			t.Errorf("%s: %v", tt.src, err)
			continue
		}
		got, err := p.Eval(values)
		if err != nil || p.Kind != tt.kind {
			t.Errorf("%s: kind %s, error %v", tt.src, p.Kind, err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", tt.src, diff)
		}
	}
}

func TestCompileRefuses(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]string{
		"":                  "empty",
		"cpp + 1":           "unknown name cpp",
		"s == cp":           "mismatched types",
		"now()":             "unknown name now",
		"cp +":              "unexpected token",
		"cp == 1 ? 1 : 'a'": "not the same kind",
		"[1, 2]":            "not a number, text",
		"map([1], # * 2)":   "not a number, text",
	} {
		_, err := expr.Compile(src, kinds)
		var e *expr.Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", src, err, want)
		}
	}
}

func TestEvalIntWantsWholeNumbers(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]string{
		"cp / 8":        "whole number",
		"cp / (cp - 4)": "finite",
		"s":             "whole number",
	} {
		p, err := expr.Compile(src, kinds)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.EvalInt(map[string]any{"cp": 4, "f": 1.5, "s": "x", "b": true}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", src, err, want)
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	p, err := expr.Compile("cp * ceil(f) + cp", kinds)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"cp", "f"}, p.Names); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"", "1a", "a-b", "in", "ceil", "é"} {
		if expr.CheckName(bad) == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}
