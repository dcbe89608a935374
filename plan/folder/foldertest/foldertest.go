// Package foldertest plans sweeps into run folders for tests. Use New wherever a test needs a run; how a run folder is
// made is the business of plan/folder's own tests.
package foldertest

import (
	"cmp"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"cpbench/plan"
	"cpbench/plan/folder"
)

// Options say what is special about a run. The zero value is a run of its own temporary folder, whose name has a blank
// and quotes, with a cpbench that does nothing.
type Options struct {
	Runs    string    // folder of the run folders; it is made if it is not there
	Source  string    // path of the spec, which may decide on its workdir; empty: sweep.yaml
	Binary  string    // the run's cpbench
	Script  string    // text of a cpbench to be written, if there is no Binary
	Version string    // of cpbench; empty: test
	At      time.Time // when the sweep was planned; zero: now
}

// New plans the text of a spec and opens the run folder that it becomes.
func New(t testing.TB, text string, o Options) *folder.Run {
	t.Helper()
	source := cmp.Or(o.Source, "sweep.yaml")
	spec, err := plan.Load(source, []byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	p, _, err := plan.New(spec, plan.Options{Source: source, Version: cmp.Or(o.Version, "test")})
	if err != nil {
		t.Fatal(err)
	}
	if o.Runs == "" {
		o.Runs = filepath.Join(t.TempDir(), `it's a "run"`)
	}
	if err := os.MkdirAll(o.Runs, 0o700); err != nil {
		t.Fatal(err)
	}
	if o.Binary == "" {
		o.Binary = filepath.Join(t.TempDir(), "cpbench")
		if err := os.WriteFile(o.Binary, []byte(cmp.Or(o.Script, "#!/bin/sh\n")), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if o.At.IsZero() {
		o.At = time.Now()
	}
	// A child of another test that forks meanwhile would hold the run's cpbench open for writing until it becomes another
	// program, and the kernel does not start such a file ("text file busy", https://go.dev/issue/22315).
	syscall.ForkLock.RLock()
	run, err := folder.Create(o.Runs, o.At, p, []byte(text), o.Binary)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	if run, err = folder.Open(run.Dir); err != nil {
		t.Fatal(err)
	}
	return run
}
