package main

import (
	"bytes"
	"encoding/csv"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestGPU runs the shipped pairformer with its search on real GPUs: `make gpu-test` on a machine that has some. It is
// meant to end within four minutes.
func TestGPU(t *testing.T) {
	if os.Getenv("CPBENCH_TEST_GPU") != "1" {
		t.Skip("needs a GPU and a PyTorch that sees it: make gpu-test")
	}
	// One GPU of which the rank may use 8 GiB, so that the search ends soon whatever the card holds. The timed steps at the
	// larger size take some seconds: below two the energy counter says nothing.
	dir := t.TempDir()
	for _, name := range []string{"pairformer_hooks.py", "pairformer.py", "sweep-gpu.yaml"} {
		text, err := os.ReadFile("../../configs/pairformer/" + name)
		if err != nil {
			t.Fatal(err)
		}
		small := strings.NewReplacer("cp: [1, 4]", "cp: [1]", "tokens: [512, 1024, 2048]", "tokens: [512, 1024]",
			"blocks=2", "blocks=1, memory=8GiB", "iterations: 10", "iterations: 100", "to: 65536", "to: 8192", "time: 2h", "time: 5m")
		if err := os.WriteFile(filepath.Join(dir, name), []byte(small.Replace(string(text))), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "../../bin/cpbench", "run", filepath.Join(dir, "sweep-gpu.yaml"), "--runs", filepath.Join(dir, "runs"))
	cmd.Stderr = os.Stderr
	table, err := cmd.Output()
	t.Logf("%s", table)
	if err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(dir, "runs", "*", "raw.csv"))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	text, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	energy, closed := false, false
	for _, line := range lines[1:] {
		for i, name := range lines[0] {
			if name == "energy_joules" && line[i] != "" {
				joules, err := strconv.ParseFloat(line[i], 64)
				energy = energy || err == nil && joules > 0
			}
			closed = closed || name == "search_ended" && line[i] == "closed"
		}
	}
	if !energy || !closed {
		t.Errorf("energy above 0: %v; a search that closed its bracket: %v\n%s", energy, closed, text)
	}
	page, err := os.ReadFile(filepath.Join(filepath.Dir(found[0]), "table.md"))
	if err != nil || !strings.Contains(string(page), "GPU model: ") || strings.Contains(string(page), "GPU model: unknown") {
		t.Errorf("no GPU model in the page: %v\n%s", err, page)
	}
}
