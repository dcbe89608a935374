package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"time"

	"cpbench/plan/folder"
	"cpbench/worker/llm"
	"cpbench/worker/llm/health"
	"cpbench/worker/llm/preflight"

	"github.com/urfave/cli/v2"
)

// llmOptions are the flags of llm.
type llmOptions struct {
	dryRun, asJSON bool
	start          bool
	concurrency    int
	out            string
	conform        conformOptions
}

func llmCommand(s *streams) *cli.Command {
	o := &llmOptions{}
	return &cli.Command{
		Name:  "llm",
		Usage: "look at the load client, or at the servers of a sweep, before anything is measured",
		UsageText: "cpbench llm selftest --concurrency 64     # what the client itself adds to the times\n" +
			"cpbench llm preflight sweep.yaml --dry-run # models, metrics and hosts only: nothing is generated\n" +
			"cpbench llm preflight http://host:8000 --dry-run --out looks.jsonl\n" +
			"cpbench llm preflight sweep.yaml           # as every task does before its first group: at most 24 tokens\n" +
			"cpbench llm preflight sweep.yaml --start   # the same of a server that the tasks start, for example under salloc\n" +
			"cpbench llm conform http://host:8000       # whether what this server sends can be measured rightly",
		Description: "`preflight` names what would spoil the numbers, each with its remedy: a priority that the server refuses, salts that it\n" +
			"ignores, usage that it does not tell, a tokenizer that disagrees with the answer, a limit that is too low. Only the one\n" +
			"operator of the server should run it without --dry-run, for which a spec with the server and the hosts of telemetry is\n" +
			"enough. It takes one sample of every host, and ends with 3 if it found something bad, such as a host that cannot be read.\n" +
			"`conform` sends a short battery of requests to a server and judges what comes back, each check with the public fault that\n" +
			"it comes from. It generates, says how much beforehand, and ends with 3 if a check failed.",
		Flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "dry-run", DisableDefaultText: true, Usage: "of preflight: generate nothing and tokenize nothing", Destination: &o.dryRun},
			&cli.BoolFlag{Name: "start", DisableDefaultText: true, Usage: "of preflight: start servers with a command here, as a task would, and end them after the look", Destination: &o.start},
			&cli.StringFlag{Name: "out", Usage: "of preflight: append what was seen to `FILE`, as one line of JSON", Destination: &o.out},
			&cli.IntFlag{Name: "concurrency", Value: 8, Usage: "of selftest: `STREAMS` at the same time", Destination: &o.concurrency},
			&cli.BoolFlag{Name: "json", DisableDefaultText: true, Usage: "JSON for programs", Destination: &o.asJSON},
		}, o.conform.flags()...),
		OnUsageError: usageFault,
		Action: func(c *cli.Context) error {
			switch verb := c.Args().First(); {
			case verb == "selftest" && c.NArg() == 1:
				return runSelftest(c.Context, s, o)
			case verb == "preflight" && c.NArg() == 2:
				return runPreflight(c.Context, s, c.Args().Get(1), o)
			case verb == "preflight":
				return &usageError{"preflight takes one SPEC", "cpbench llm preflight SPEC [--dry-run] [--start]"}
			case verb == "conform":
				return conformAction(c.Context, s, c.Args().Tail(), o)
			case verb == "":
				return &usageError{"llm needs a word", "choose from selftest, preflight, conform"}
			default:
				return &usageError{fmt.Sprintf("llm does not know %q", verb), "choose from selftest, preflight SPEC, conform URL"}
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
	src, err := o.load(path)
	if err != nil {
		return err
	}
	if kind := src.plan.Spec.Workload.Kind; kind != "llm" {
		return &usageError{fmt.Sprintf("%s is a sweep of `kind: %s`", path, kind), "preflight looks at the servers of a sweep of `kind: llm`; cpbench doctor looks at the site"}
	}
	wish, done, err := o.wish(src)
	if err != nil {
		return err
	}
	defer done()
	ctx, stop := signal.NotifyContext(ctx, stopSignals()...)
	defer stop()
	for _, w := range src.sum.Warnings {
		s.warnf("%s", w)
	}
	began := time.Now()
	looked, err := llm.Preflight(ctx, src.plan, wish)
	if err != nil {
		return err
	}
	if o.out != "" {
		if err := recordLook(o.out, path, o.dryRun, began, looked); err != nil {
			return err
		}
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

// load reads a spec. A dry run needs less of one.
func (o *llmOptions) load(path string) (*source, error) {
	switch {
	case o.dryRun:
		return loadLook(path)
	case isAddress(path):
		return nil, &usageError{"the address of a server is enough for a dry run alone", "add --dry-run, or name the spec whose requests are to be tried"}
	}
	return load(request{path: path})
}

// wish says how far the preflight goes. Servers that it starts have a run folder that is gone afterwards, so that files
// are frozen for them as for those of a task.
func (o *llmOptions) wish(src *source) (wish llm.Wish, done func(), err error) {
	wish = llm.Wish{Try: !o.dryRun}
	if !o.start {
		return wish, func() {}, nil
	}
	if len(src.plan.Spec.Workload.Server.Command) == 0 {
		return wish, nil, &usageError{src.path + ": --start has nothing to start", "the server of this sweep runs already: leave --start out"}
	}
	dir, err := os.MkdirTemp("", "cpbench-preflight-")
	if err != nil {
		return wish, nil, err
	}
	done = func() { _ = os.RemoveAll(dir) } // copies
	run, err := freeze(src, dir)
	if err == nil {
		wish.Start, err = folder.Open(run.Dir)
	}
	if err != nil {
		done()
	}
	return wish, done, err
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
