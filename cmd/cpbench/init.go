package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"cpbench/templates"

	"github.com/urfave/cli/v2"
)

func initCommand(s *streams) *cli.Command {
	var kind string
	return &cli.Command{
		Name:      "init",
		Usage:     "write a commented sweep to start from",
		UsageText: "cpbench init my-sweep && cpbench run my-sweep/sweep.yaml",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "kind", Usage: "`KIND` of the workload: model", Value: "model", Destination: &kind},
		},
		OnUsageError: usageFault,
		Action: func(c *cli.Context) error {
			dir, err := oneArgument(c, "DIR")
			if err != nil {
				return err
			}
			if kind != "model" {
				return &usageError{fmt.Sprintf("there is no starter sweep for kind %q", kind), "this version has --kind model"}
			}
			return writeStarter(s, dir)
		},
	}
}

// writeStarter writes the starter sweep and never over a file that is there.
func writeStarter(s *streams, dir string) error {
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
	if _, err := f.WriteString(templates.StarterModel); err != nil {
		return errors.Join(err, f.Close(), os.Remove(path))
	}
	if err := f.Close(); err != nil {
		return err
	}
	s.sayf("wrote %s", path)
	s.hintf("try it here: cpbench run %s", shellWord(path))
	s.hintf("on a cluster: cpbench plan %s | sbatch", shellWord(path))
	return nil
}
