package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"cpbench/templates"

	"github.com/urfave/cli/v2"
)

func initCommand(s *streams) *cli.Command {
	var kind string
	return &cli.Command{
		Name:      "init",
		Usage:     "write a commented sweep to start from",
		UsageText: "cpbench init my-sweep && cpbench run my-sweep/sweep.yaml\ncpbench init --kind llm my-server    # requests to an LLM server: put its address in",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "kind", Usage: "`KIND` of the workload: model or llm", Value: "model", Destination: &kind},
		},
		OnUsageError: usageFault,
		Action: func(c *cli.Context) error {
			dir, err := oneArgument(c, "DIR")
			if err != nil {
				return err
			}
			st, ok := starters[kind]
			if !ok {
				return &usageError{fmt.Sprintf("there is no starter sweep for kind %q", kind), "choose from --kind " + strings.Join(slices.Sorted(maps.Keys(starters)), ", --kind ")}
			}
			return writeStarter(s, dir, st)
		},
	}
}

// starter is a sweep to start from, and what to do first with it.
type starter struct {
	text  string
	hints []string // FILE stands for the sweep
}

var starters = map[string]starter{
	"model": {templates.StarterModel, []string{"try it here: cpbench run FILE", "on a cluster: cpbench plan FILE | sbatch"}},
	"llm": {templates.StarterLLM, []string{
		"put the address of your server in, then look at it: cpbench llm preflight FILE --dry-run", "measure it: cpbench run FILE",
	}},
}

// writeStarter writes a starter sweep and never over a file that is there.
func writeStarter(s *streams, dir string, st starter) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	path := filepath.Join(dir, "sweep.yaml")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return &hinted{fmt.Errorf("%s is there already", path), "name another folder"}
	}
	if err != nil {
		return err
	}
	if _, err := f.WriteString(st.text); err != nil {
		return errors.Join(err, f.Close(), os.Remove(path))
	}
	if err := f.Close(); err != nil {
		return err
	}
	s.sayf("wrote %s", path)
	for _, hint := range st.hints {
		s.hintf("%s", strings.ReplaceAll(hint, "FILE", shellWord(path)))
	}
	return nil
}
