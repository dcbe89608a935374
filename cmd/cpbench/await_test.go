package main

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// awaitCommand waits until a file that matches a pattern holds a text: await PATTERN TEXT. It looks every few
// milliseconds, because nothing tells a script when another process has written; the test's own time limit bounds it.
func awaitCommand(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: await PATTERN TEXT")
	}
	deadline := time.Now().Add(2 * time.Minute)
	for tick := time.NewTicker(10 * time.Millisecond); time.Now().Before(deadline); <-tick.C {
		found, err := filepath.Glob(ts.MkAbs(args[0]))
		if err != nil {
			ts.Fatalf("%v", err)
		}
		for _, path := range found {
			if text, err := os.ReadFile(path); err == nil && strings.Contains(string(text), args[1]) {
				return
			}
		}
	}
	ts.Fatalf("%q never came into %s", args[1], args[0])
}

// idleCommand waits until squeue shows no job any more.
func idleCommand(ts *testscript.TestScript, _ bool, _ []string) {
	deadline := time.Now().Add(2 * time.Minute)
	for tick := time.NewTicker(20 * time.Millisecond); time.Now().Before(deadline); <-tick.C {
		ts.Check(ts.Exec("squeue", "-h", "-r", "-O", "State:20"))
		if ts.ReadFile("stdout") == "" {
			return
		}
	}
	ts.Fatalf("the queue has not emptied")
}
