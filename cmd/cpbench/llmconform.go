package main

import (
	"context"
	"errors"
	"fmt"
	"os/signal"

	"cpbench/worker/llm"
	"cpbench/worker/llm/conform"
	"cpbench/worker/llm/dialect"
	"cpbench/worker/llm/scrape"

	"github.com/urfave/cli/v2"
)

// conformOptions are the flags of llm conform.
type conformOptions struct {
	model, keyEnv string
	list          bool
}

func (o *conformOptions) flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "model", Usage: "of conform: `NAME` of the model, where the server has several", Destination: &o.model},
		&cli.StringFlag{Name: "api-key-env", Usage: "of conform: the `VARIABLE` that holds the API key", Destination: &o.keyEnv},
		&cli.BoolFlag{Name: "list", DisableDefaultText: true, Usage: "of conform: say what is looked at, and why, and send nothing", Destination: &o.list},
	}
}

// conformAction is `llm conform` with the arguments behind it.
func conformAction(ctx context.Context, s *streams, args []string, o *llmOptions) error {
	switch {
	case o.conform.list && len(args) == 0:
		return listChecks(s, o.asJSON)
	case o.conform.list || len(args) != 1:
		return &usageError{"conform takes the URL of one server", "cpbench llm conform http://HOST:PORT, or cpbench llm conform --list"}
	}
	return runConform(ctx, s, args[0], o)
}

// listChecks prints what is looked at.
func listChecks(s *streams, asJSON bool) error {
	if asJSON {
		return writeJSON(s, conform.Checks())
	}
	for _, c := range conform.Checks() {
		if _, err := fmt.Fprintf(s.out, "%s (%s)\n        %s\n", c.Name, c.Source, c.Why); err != nil {
			return err
		}
	}
	return nil
}

// runConform tests a server.
func runConform(ctx context.Context, s *streams, url string, o *llmOptions) error {
	var key dialect.Key
	if name := o.conform.keyEnv; name != "" {
		var err error
		if key, err = dialect.KeyFromEnv(name); err != nil {
			return err
		}
	}
	ctx, stop := signal.NotifyContext(ctx, stopSignals()...)
	defer stop()
	server, err := dialect.Detect(ctx, dialect.Options{URL: url, Model: o.conform.model, Key: key})
	if err != nil {
		return &hinted{errors.New(key.Redact(err.Error())), dialect.Advice(err)}
	}
	s.sayf("sends up to %d requests for up to %d tokens in all to %s: only its operator should, while nobody else uses it", conform.MaxRequests, conform.MaxTokens, server.URL)
	report, err := conform.Run(ctx, server, llm.Source(server, key))
	var busy *scrape.NotIdle
	switch {
	case ctx.Err() != nil:
		return errInterrupted
	case errors.As(err, &busy):
		return &hinted{err, "ask whoever uses it to hold, and try again"}
	case err != nil:
		return errors.New(key.Redact(err.Error()))
	case o.asJSON:
		err = writeJSON(s, report)
	default:
		err = tellConform(s, report)
	}
	if err == nil && report.Failed() {
		return errIncomplete
	}
	return err
}

// tellConform prints the findings; of what is no pass, why it matters.
func tellConform(s *streams, r *conform.Report) error {
	if _, err := fmt.Fprintf(s.out, "%s at %s, model %s, %d requests\n", r.Software(), r.Server.URL, r.Server.Model.ID, r.Requests); err != nil {
		return err
	}
	for _, f := range r.Findings {
		why := ""
		if f.Verdict == conform.Fail || f.Verdict == conform.Warn {
			why = fmt.Sprintf("\n               -> %s (%s)", f.Why, f.Source)
		}
		if _, err := fmt.Fprintf(s.out, "  %-11s  %s: %s%s\n", f.Verdict, f.Name, f.Seen, why); err != nil {
			return err
		}
	}
	return nil
}
