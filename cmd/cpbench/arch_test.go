package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cpbench/plan"
)

// layers says which packages of ours each package may reach, directly or not. docs/design.md draws it.
var layers = map[string][]string{
	"plan/catalogue":        {},
	"plan/expr":             {},
	"plan":                  {"plan/catalogue", "plan/expr"},
	"plan/folder":           {"plan", "plan/catalogue", "plan/expr"},
	"templates":             {},
	"slurm":                 {"templates", "plan", "plan/folder", "plan/catalogue", "plan/expr"},
	"slurm/ledger":          {},
	"slurm/record":          {"slurm", "templates", "plan", "plan/folder", "plan/catalogue", "plan/expr"},
	"slurm/submit":          {"slurm", "slurm/ledger", "slurm/record", "templates", "plan", "plan/folder", "plan/catalogue", "plan/expr"},
	"slurm/local":           {"slurm", "templates", "plan", "plan/folder", "plan/catalogue", "plan/expr"},
	"worker/result":         {"plan/catalogue"},
	"worker/search":         {"worker/result", "plan", "plan/catalogue", "plan/expr"},
	"worker/evidence":       {"plan/catalogue"},
	"worker/tree":           {},
	"worker/provenance":     {"worker/result", "plan", "plan/catalogue", "plan/expr"},
	"worker":                {"worker/provenance", "worker/result", "plan", "plan/folder", "plan/catalogue", "plan/expr"},
	"worker/model":          {"worker/container", "worker/evidence", "worker/telemetry", "worker/node", "worker/gpu", "worker/gpu/source", "worker", "worker/provenance", "worker/result", "worker/search", "worker/tree", "worker/model/protocol", "worker/model/launch", "worker/model/ranks", "plan", "plan/folder", "plan/catalogue", "plan/expr"},
	"collect":               {"worker/result", "plan", "plan/folder", "plan/catalogue", "plan/expr", "templates"},
	"collect/trail":         {"collect", "worker/result", "plan", "plan/folder", "plan/catalogue", "plan/expr", "templates"},
	"collect/picture":       {"collect", "worker/result", "plan", "plan/folder", "plan/catalogue", "plan/expr", "templates"},
	"collect/page":          {"plan/catalogue"},
	"collect/contrast":      {},
	"collect/compare/guard": {"collect", "worker/result", "plan", "plan/folder", "plan/catalogue", "plan/expr", "templates"},
	"collect/compare/cell":  {"collect", "collect/contrast", "worker/result", "plan", "plan/folder", "plan/catalogue", "plan/expr", "templates"},
	"collect/compare/turns": {"collect/page", "plan/catalogue"},
	"collect/compare":       {"collect", "collect/compare/turns", "collect/compare/guard", "collect/compare/cell", "collect/contrast", "collect/page", "worker/result", "plan", "plan/folder", "plan/catalogue", "plan/expr", "templates"},
	"collect/compare/sheet": {"collect", "collect/compare", "collect/compare/turns", "collect/compare/guard", "collect/compare/cell", "collect/contrast", "collect/page", "worker/result", "plan", "plan/folder", "plan/catalogue", "plan/expr", "templates"},
	"collect/table":         {"collect", "collect/contrast", "collect/page", "worker/result", "plan", "plan/folder", "plan/catalogue", "plan/expr", "templates"},
	"worker/model/protocol": {},
	"worker/model/launch":   {"worker/container", "worker", "worker/provenance", "worker/result", "worker/model/protocol", "plan", "plan/folder", "plan/catalogue", "plan/expr"},
	"worker/model/ranks":    {"worker/node", "worker/gpu", "worker/gpu/source", "worker/container", "worker", "worker/provenance", "worker/evidence", "worker/result", "worker/tree", "worker/model/launch", "worker/model/protocol", "plan", "plan/folder", "plan/catalogue", "plan/expr"},
	"worker/gpu":            {"worker/result", "plan/catalogue"},
	"worker/gpu/source":     {"worker/gpu", "plan/catalogue"},
	"worker/node":           {"worker/gpu", "worker/gpu/source", "worker/evidence", "worker/tree", "worker", "worker/provenance", "worker/result", "plan", "plan/folder", "plan/catalogue", "plan/expr"},
	"worker/telemetry":      {"worker/node", "worker/gpu", "worker/gpu/source", "worker/evidence", "worker/tree", "worker", "worker/provenance", "worker/result", "plan", "plan/folder", "plan/catalogue", "plan/expr"},
	"worker/command":        {"worker/container", "worker/inside", "worker", "worker/provenance", "worker/result", "worker/search", "worker/tree", "worker/evidence", "worker/telemetry", "worker/node", "worker/gpu", "worker/gpu/source", "plan", "plan/folder", "plan/catalogue", "plan/expr"},
	"slurm/site":            {"slurm", "templates", "plan", "plan/folder", "plan/catalogue", "plan/expr"},
	"slurm/refusal":         {"slurm", "slurm/site", "templates", "plan", "plan/folder", "plan/catalogue", "plan/expr"},
	"worker/inside":         {"worker/tree"},
	"worker/container":      {"plan", "plan/folder", "plan/catalogue", "plan/expr"},
	"worker/llm/prompt":     {},
	"worker/llm/scrape":     {},
	"worker/llm/dialect":    {"worker/llm/prompt", "worker/llm/stream/chat", "worker/llm/stream/sse"},

	// Of tests.
	"plan/suite":             {},
	"plan/folder/foldertest": {"plan", "plan/folder", "plan/catalogue", "plan/expr"},

	// The load client of the serving benchmark.
	"worker/llm/llmtest":       {},
	"worker/llm/llmtest/visit": {"plan/suite", "worker/llm/llmtest", "worker/llm/dialect", "worker/llm/prompt", "worker/llm/stream", "worker/llm/stream/chat", "worker/llm/stream/sse"},
	"worker/llm/stream/sse":    {},
	"worker/llm/stream/chat":   {"worker/llm/stream/sse"},
	"worker/llm/stream":        {"worker/llm/stream/chat", "worker/llm/stream/sse"},
	"worker/llm/account":       {"worker/llm/stream", "worker/llm/stream/chat", "worker/llm/stream/sse"},
	"worker/llm/account/peer":  {"worker/llm/account", "worker/llm/stream", "worker/llm/stream/chat", "worker/llm/stream/sse"},
	"worker/llm/requestlog":    {"worker/llm/account", "worker/llm/stream", "worker/llm/stream/chat", "worker/llm/stream/sse", "worker/result", "plan/catalogue"},
	"worker/llm/rejudge":       {"worker/llm/requestlog", "worker/llm/account", "worker/llm/account/peer", "worker/llm/stream", "worker/llm/stream/chat", "worker/llm/stream/sse", "worker/result", "plan/catalogue"},
	"worker/llm/health":        {"worker/llm/health/pace", "worker/llm/account", "worker/llm/stream", "worker/llm/stream/chat", "worker/llm/stream/sse"},
	"worker/llm/health/pace":   {},

	"worker/llm/telemetry":         {"worker/tree", "worker/llm/telemetry/link", "worker/llm/telemetry/reading"},
	"worker/llm/telemetry/reading": {"worker/tree", "worker/llm/telemetry/link"},
	"worker/llm/telemetry/link":    {"worker/tree"},
	"worker/llm/telemetry/sshtest": {"plan/suite"}, // of tests

	"worker/llm/server":    {"worker/tree"},
	"worker/llm/group":     llmParts,
	"worker/llm/preflight": append([]string{"worker/llm/group"}, llmParts...),
	"worker/llm/conform":   append([]string{"worker/llm/group"}, llmParts...),
	"worker/llm/warmup":    append([]string{"worker/llm/group"}, llmParts...),
	"worker/llm/host":      append([]string{"worker/llm/server"}, taskParts...),
	"worker/llm": append(append([]string{
		"worker/llm/group", "worker/llm/host", "worker/llm/preflight", "worker/llm/requestlog", "worker/llm/server", "worker/llm/warmup",
		"worker/llm/telemetry", "worker/llm/telemetry/link", "worker/llm/telemetry/reading",
	}, llmParts...), taskParts...),
}

// llmParts are the parts of the serving benchmark that know no task.
var llmParts = []string{
	"worker/llm/account", "worker/llm/dialect", "worker/llm/health", "worker/llm/health/pace", "worker/llm/prompt", "worker/llm/scrape",
	"worker/llm/stream", "worker/llm/stream/chat", "worker/llm/stream/sse",
}

// taskParts are what a workload needs that starts programs in containers, on GPUs.
var taskParts = []string{
	"worker", "worker/container", "worker/inside", "worker/tree", "worker/telemetry", "worker/node", "worker/gpu", "worker/gpu/source", "worker/evidence",
	"worker/provenance", "worker/result", "plan", "plan/folder", "plan/catalogue", "plan/expr",
}

// doors says which of our packages may import a module; tests may go further.
var doors = map[string][]string{
	"github.com/urfave/cli/v2":              {"cmd/cpbench"},
	"github.com/schollz/progressbar/v3":     {"cmd/cpbench"},
	"gopkg.in/yaml.v3":                      {"plan"},
	"github.com/expr-lang/expr":             {"plan/expr"},
	"github.com/agext/levenshtein":          {"plan"},
	"github.com/gocarina/gocsv":             {"collect/table"},
	"golang.org/x/perf/benchmath":           {"collect/table", "collect/contrast"},
	"github.com/tidwall/gjson":              {"worker/command"},
	"github.com/prometheus/common/expfmt":   {"worker/llm/scrape"},
	"github.com/prometheus/common/model":    {"worker/llm/scrape"},
	"github.com/prometheus/client_model/go": {"worker/llm/scrape"},
	"github.com/gofrs/flock":                {"collect", "slurm/ledger", "worker/llm/requestlog"},
	"mvdan.cc/sh/v3/syntax":                 {"slurm", "worker/llm/telemetry/reading"},
	"github.com/NVIDIA/go-nvml/pkg/nvml":    {"cmd/cpbench-nvml"},
	"github.com/hashicorp/go-multierror":    {"plan", "cmd/cpbench"},
}

type goPackage struct {
	ImportPath string
	Imports    []string
	Deps       []string
	Module     *struct{ Main bool }
}

func listPackages(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=ImportPath,Imports,Deps,Module", "./...")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var pkgs []goPackage
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var p goPackage
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		if p.Module != nil && p.Module.Main {
			pkgs = append(pkgs, p)
		}
	}
	return pkgs
}

func TestLayers(t *testing.T) {
	t.Parallel()
	pkgs := listPackages(t)
	if len(pkgs) < 15 {
		t.Fatalf("only %d packages were listed", len(pkgs))
	}
	for _, p := range pkgs {
		name := strings.TrimPrefix(p.ImportPath, "cpbench/")
		allowed, ok := layers[name]
		if !ok {
			// cmd wires everything; test suites and the sub-packages of the reference model serve one package each.
			if !strings.HasPrefix(name, "cmd/") && name != "slurm/slurmtest" && !strings.HasPrefix(name, "worker/model/reference") {
				t.Errorf("package %s has no place in the layers", name)
			}
			continue
		}
		for _, dep := range p.Deps {
			if ours, ok := strings.CutPrefix(dep, "cpbench/"); ok && !slices.Contains(allowed, ours) {
				t.Errorf("%s must not reach %s", name, ours)
			}
		}
		if name == "plan" && (slices.Contains(p.Imports, "os") || slices.Contains(p.Imports, "io/fs")) {
			t.Error("plan is pure and must not touch the disk")
		}
	}
}

func TestDoors(t *testing.T) {
	t.Parallel()
	for _, p := range listPackages(t) {
		name := strings.TrimPrefix(p.ImportPath, "cpbench/")
		for module, allowed := range doors {
			if slices.Contains(p.Imports, module) && !slices.Contains(allowed, name) {
				t.Errorf("%s imports %s, whose door is %v", name, module, allowed)
			}
		}
	}
}

// TestTopLevel is the layout that users were promised.
func TestTopLevel(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir("../..")
	if err != nil {
		t.Fatal(err)
	}
	allowed := []string{"cmd", "plan", "slurm", "worker", "collect", "templates", "configs", "docs", "go.mod", "go.sum", "Makefile", "README.md", "bin", "cpbench-runs"}
	for _, e := range entries {
		if !slices.Contains(allowed, e.Name()) && !strings.HasPrefix(e.Name(), ".") {
			t.Errorf("%s has no place at the top level", e.Name())
		}
	}
}

// TestConfigs plans every sweep that is shipped.
func TestConfigs(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../configs/*.yaml")
	below, errBelow := filepath.Glob("../../configs/*/*.yaml")
	if err != nil || errBelow != nil || len(files) == 0 || len(below) == 0 {
		t.Fatal("no configs", err, errBelow)
	}
	files = append(files, below...)
	for _, file := range append(files, "../../templates/starter-model.yaml") {
		src, err := load(request{path: file})
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if err := check(src); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if src.plan.Schema != plan.Schema {
			t.Errorf("%s: schema %d", file, src.plan.Schema)
		}
	}
}
