package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// marked is a fenced block of README.md that is run here: the comment before it says so.
var marked = regexp.MustCompile("(?s)<!-- test -->\n+```sh\n(.*?)```")

// TestReadme types the commands of README.md, one line after the other, with fakes of Slurm's commands. Looking at the
// queue stands for waiting until it is empty.
func TestReadme(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(page), "\n"); lines >= 150 {
		t.Errorf("README.md has %d lines", lines)
	}
	blocks := marked.FindAllSubmatch(page, -1)
	if len(blocks) < 3 {
		t.Fatalf("README.md has %d blocks to run", len(blocks))
	}
	var script strings.Builder
	for _, b := range blocks {
		for line := range strings.Lines(string(b[1])) {
			line = strings.TrimSpace(line)
			fmt.Fprintf(&script, "# %s\n", line)
			if strings.HasPrefix(line, "squeue") {
				script.WriteString("idle\n")
				continue
			}
			fmt.Fprintf(&script, "exec bash -euo pipefail -c '%s'\n", strings.ReplaceAll(makeFunction+line, "'", "''"))
		}
	}
	script.WriteString(`
# What the text says about it.
grep '^\| max-fit 352 ' cp_benchmark.md
grep 'The largest N is 352 at 2d cp=1, 720 at 2d cp=4' cp_benchmark.md
exists cp_benchmark.raw.csv my-sweep/sweep.yaml
`)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "readme.txtar"), []byte(script.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	runScripts(t, dir, func(env *testscript.Env) error { return checkout(root, env.WorkDir) })
}

// makeFunction stands for make in a checkout that has its binary: it runs the target's own lines, without what the
// target depends on.
const makeFunction = `make() { eval "$(awk -v t="$1:" '/^[^\t]/ {on = $1 == t} on && /^\t/' Makefile)"; }; `

// checkout gives a folder what README.md's commands find in a checkout after make build.
func checkout(root, dir string) error {
	for _, name := range []string{"Makefile", "configs"} {
		if err := os.Symlink(filepath.Join(root, name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "bin", "cpbench"), []byte("#!/bin/sh\nexec cpbench \"$@\"\n"), 0o755)
}
