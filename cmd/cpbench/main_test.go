package main

import (
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"

	"cpbench/slurm/slurmtest"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// clustered runs the tests and then stops the cluster that they may have started.
type clustered struct{ m *testing.M }

func (c clustered) Run() int {
	if signal.Ignored(unix.SIGHUP) { // by nohup: the programs that the tests start would ignore it as well
		signal.Notify(make(chan os.Signal, 1), unix.SIGHUP)
	}
	return slurmtest.Main(c.m)
}

func TestMain(m *testing.M) {
	commands := maps.Clone(slurmtest.Commands())
	commands["cpbench"] = func() { os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
	commands["fakellm"] = fakeLLM
	testscript.Main(clustered{m}, commands)
}

// TestScript runs the scripts of testdata/script: true child processes of cpbench, with fakes of Slurm's commands.
func TestScript(t *testing.T) {
	t.Parallel()
	runScripts(t, "testdata/script", func(*testscript.Env) error { return nil })
}

func runScripts(t *testing.T, dir string, setup func(*testscript.Env) error) {
	configs, err := filepath.Abs("../../configs")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                dir,
		RequireUniqueNames: true,
		UpdateScripts:      *update,
		Setup: func(env *testscript.Env) error {
			state := filepath.Join(env.WorkDir, ".slurm")
			env.Setenv("CPBENCH_FAKE_SLURM", state)
			env.Setenv("CONFIGS", configs)
			env.Setenv("TZ", "UTC")
			env.Defer(func() {
				if err := slurmtest.StopFakes(state); err != nil {
					t.Error(err)
				}
			})
			return setup(env)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"glob":    globCommand,
			"await":   awaitCommand,
			"idle":    idleCommand,
			"replace": replaceCommand,
		},
	})
}

// globCommand sets a variable to the only path that matches a pattern: glob RUN cpbench-runs/*.
func globCommand(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: glob NAME PATTERN")
	}
	found, err := filepath.Glob(ts.MkAbs(args[1]))
	if err != nil {
		ts.Fatalf("%v", err)
	}
	if neg {
		if len(found) > 0 {
			ts.Fatalf("%s matches %q", args[1], found)
		}
		return
	}
	if len(found) != 1 {
		ts.Fatalf("%s matches %d paths: %q", args[1], len(found), found)
	}
	ts.Setenv(args[0], found[0])
}

// replaceCommand changes text in a file: replace OLD NEW FILE. The old text has to be there.
func replaceCommand(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: replace OLD NEW FILE")
	}
	path := ts.MkAbs(args[2])
	text := ts.ReadFile(args[2])
	if !strings.Contains(text, args[0]) {
		ts.Fatalf("%q is not in %s", args[0], args[2])
	}
	ts.Check(os.WriteFile(path, []byte(strings.ReplaceAll(text, args[0], args[1])), 0o644))
}
