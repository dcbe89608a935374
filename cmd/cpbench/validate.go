package main

import (
	"fmt"

	"github.com/urfave/cli/v2"
)

func validateCommand(s *streams) *cli.Command {
	return &cli.Command{
		Name:         "validate",
		Usage:        "check a spec and tell every mistake at once; nothing is written",
		UsageText:    "cpbench validate sweep.yaml",
		OnUsageError: usageFault,
		Action: func(c *cli.Context) error {
			path, err := oneArgument(c, "SPEC")
			if err != nil {
				return err
			}
			src, err := load(request{path: path})
			if err != nil {
				return err
			}
			if err := check(src); err != nil {
				return err
			}
			for _, w := range src.sum.Warnings {
				s.warnf("%s", w)
			}
			tasks := 0
			for i := range src.plan.Arrays {
				tasks += len(src.plan.Arrays[i].Tasks)
			}
			_, err = fmt.Fprintf(s.out, "%s: ok: %s, %s, %s\n", path, countText(src.sum.Points+src.sum.Cases, "point"),
				countText(tasks, "task"), countText(src.sum.Shapes, "resource shape"))
			return err
		},
	}
}
