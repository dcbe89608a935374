package main

import (
	"context"
	"encoding/json"
	"fmt"

	"cpbench/worker/llm"
	"cpbench/worker/llm/health"
	"cpbench/worker/llm/preflight"

	"github.com/urfave/cli/v2"
)

// llmOptions are the flags of llm.
type llmOptions struct {
	dryRun, asJSON bool
	concurrency    int
}

func llmCommand(s *streams) *cli.Command {
	o := &llmOptions{}
	return &cli.Command{
		Name:  "llm",
		Usage: "look at the load client, or at the servers of a sweep, before anything is measured",
		UsageText: "cpbench llm selftest --concurrency 64     # what the client itself adds to the times\n" +
			"cpbench llm preflight sweep.yaml --dry-run # models and metrics only: nothing is generated\n" +
			"cpbench llm preflight sweep.yaml           # as every task does before its first group: at most 24 tokens",
		Description: "`preflight` names what would spoil the numbers, each with its remedy: a priority that the server refuses, salts that it\n" +
			"ignores, usage that it does not tell, a tokenizer that disagrees with the answer, a limit that is too low. Only the one\n" +
			"operator of the server should run it without --dry-run. It ends with 3 if it found something bad.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "dry-run", DisableDefaultText: true, Usage: "of preflight: generate nothing and tokenize nothing", Destination: &o.dryRun},
			&cli.IntFlag{Name: "concurrency", Value: 8, Usage: "of selftest: `STREAMS` at the same time", Destination: &o.concurrency},
			&cli.BoolFlag{Name: "json", DisableDefaultText: true, Usage: "JSON for programs", Destination: &o.asJSON},
		},
		OnUsageError: usageFault,
		Action: func(c *cli.Context) error {
			switch verb := c.Args().First(); {
			case verb == "selftest" && c.NArg() == 1:
				return runSelftest(c.Context, s, o)
			case verb == "preflight" && c.NArg() == 2:
				return runPreflight(c.Context, s, c.Args().Get(1), o)
			case verb == "preflight":
				return &usageError{"preflight takes one SPEC", "cpbench llm preflight SPEC [--dry-run]"}
			case verb == "":
				return &usageError{"llm needs a word", "choose from selftest, preflight"}
			default:
				return &usageError{fmt.Sprintf("llm does not know %q", verb), "choose from selftest, preflight SPEC"}
			}
		},
	}
}

// runSelftest measures what the client adds on this machine.
func runSelftest(ctx context.Context, s *streams, o *llmOptions) error {
	floor, err := health.Selftest(ctx, o.concurrency)
	if err != nil {
		return err
	}
	if o.asJSON {
		return writeJSON(s, floor)
	}
	if _, err := fmt.Fprintln(s.out, floor); err != nil {
		return err
	}
	for _, reason := range floor.Health.Reasons {
		s.warnf("%s", reason)
	}
	return nil
}

// runPreflight looks at the servers of a sweep.
func runPreflight(ctx context.Context, s *streams, path string, o *llmOptions) error {
	src, err := load(request{path: path})
	if err != nil {
		return err
	}
	if kind := src.plan.Spec.Workload.Kind; kind != "llm" {
		return &usageError{fmt.Sprintf("%s is a sweep of `kind: %s`", path, kind), "preflight looks at the servers of a sweep of `kind: llm`; cpbench doctor looks at the site"}
	}
	looked, err := llm.Preflight(ctx, src.plan, !o.dryRun)
	if err != nil {
		return err
	}
	if o.asJSON {
		err = writeJSON(s, looked)
	} else {
		err = tellLooked(s, looked)
	}
	if err != nil {
		return err
	}
	for _, l := range looked {
		if len(l.Findings.Worst(preflight.Bad)) > 0 {
			return errIncomplete
		}
	}
	return nil
}

// tellLooked prints the findings, server by server.
func tellLooked(s *streams, looked []llm.Looked) error {
	for _, l := range looked {
		if _, err := fmt.Fprintf(s.out, "%s\n", l.Target); err != nil {
			return err
		}
		for _, f := range l.Findings {
			advice := ""
			if f.Advice != "" {
				advice = "\n        -> " + f.Advice
			}
			if _, err := fmt.Fprintf(s.out, "  %-4s  %s: %s%s\n", f.Grade, f.Check, f.Text, advice); err != nil {
				return err
			}
		}
	}
	return nil
}

func writeJSON(s *streams, v any) error {
	enc := json.NewEncoder(s.out)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
