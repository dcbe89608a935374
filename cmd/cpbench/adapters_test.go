package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"cpbench/plan/suite"
)

// TestTorchAdapters runs the example of docs/adapters.md as it stands there, but for a search that ends sooner.
func TestTorchAdapters(t *testing.T) {
	python, _, _ := strings.Cut(os.Getenv("CPBENCH_TEST_PYTHON"), string(os.PathListSeparator))
	if python == "" {
		python = "/usr/bin/python3"
	}
	if out, err := exec.CommandContext(t.Context(), python, "-c", "import torch.distributed").CombinedOutput(); err != nil {
		suite.Missing(t, "torch", "%s cannot import torch (%v: %s); make torch-test brings it", python, err, out)
	}
	page, err := os.ReadFile("../../docs/adapters.md")
	if err != nil {
		t.Fatal(err)
	}
	dir, bin := t.TempDir(), t.TempDir()
	for file, language := range map[string]string{"my_hooks.py": "python", "sweep.yaml": "yaml"} {
		m := regexp.MustCompile("(?s)```" + language + "\n(.*?)```").FindSubmatch(page)
		if m == nil {
			t.Fatalf("no %s in docs/adapters.md", language)
		}
		text := strings.Replace(string(m[1]), "to: 8192", "to: 512", 1)
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(bin, "cpbench")); err != nil { // see TestMain
		t.Fatal(err)
	}
	script := "#!/bin/sh\nexec '" + python + "' \"$@\"\n" // a link would lead a virtual environment's Python astray
	if err := os.WriteFile(filepath.Join(bin, "python3"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "cpbench", "run", "sweep.yaml")
	cmd.Path, cmd.Dir = filepath.Join(bin, "cpbench"), dir
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"max-fit >=512 (ceiling)  1d cp=1", "max-fit >=512 (ceiling)  1d cp=2"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}
