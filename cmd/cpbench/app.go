package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"cpbench/plan/catalogue"

	"github.com/urfave/cli/v2"
)

// streams are what a command reads and writes.
type streams struct {
	in       io.Reader
	out, err io.Writer
	voice
}

// Main runs one command and returns its exit code.
func Main(args []string, in io.Reader, out, errs io.Writer) int {
	s := &streams{in: in, out: out, err: errs, voice: voice{errs}}
	if len(args) > 0 && args[0] == "reference" {
		return referenceRank(context.Background(), args[1:], errs) // its flags are its own
	}
	if len(args) > 0 && args[0] == "--version" {
		args = []string{"version"}
	}
	app := newApp(s)
	args, err := arrange(app, args)
	if err != nil {
		return s.fail(err)
	}
	return s.fail(app.RunContext(context.Background(), append([]string{"cpbench"}, args...)))
}

// newApp wires all commands.
func newApp(s *streams) *cli.App {
	return &cli.App{
		Name:      "cpbench",
		Usage:     "benchmark sweeps on Slurm: plan, run, collect",
		UsageText: "cpbench plan sweep.yaml | sbatch      # on a login node\ncpbench collect                       # when the jobs have finished\ncpbench submit sweep.yaml             # all arrays at once, and a job that makes the table\ncpbench run sweep.yaml                # the same sweep on this machine, without Slurm",
		Version:   version().Version,
		// -v is no version: a person who types it wants more words.
		HideVersion:          true,
		Writer:               s.out,
		ErrWriter:            s.err,
		EnableBashCompletion: true,
		// The library would exit by itself with codes of its own.
		ExitErrHandler: func(*cli.Context, error) {},
		OnUsageError:   usageFault,
		Commands: []*cli.Command{
			initCommand(s), doctorCommand(s), validateCommand(s), planCommand(s), runCommand(s), submitCommand(s), cancelCommand(s), statusCommand(s), logsCommand(s), collectCommand(s), compareCommand(s), rejudgeCommand(s),
			llmCommand(s), versionCommand(s), completionCommand(s), workerCommand(s), nodeCommand(), probeCommand(),
		},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return unknownCommand(c.App, c.Args().First())
			}
			return cli.ShowAppHelp(c)
		},
		CommandNotFound:           nil,
		DisableSliceFlagSeparator: true,
	}
}

func usageFault(c *cli.Context, err error, _ bool) error {
	name := "cpbench"
	if c.Command != nil && c.Command.Name != "" && c.Command.Name != "cpbench" {
		name += " " + c.Command.Name
	}
	return &usageError{err.Error(), fmt.Sprintf("see %s --help", name)}
}

func unknownCommand(app *cli.App, word string) error {
	var names []string
	for _, c := range app.Commands {
		if !c.Hidden && c.Name != "help" {
			names = append(names, c.Name)
		}
	}
	hint := "choose from " + strings.Join(names, ", ")
	if _, err := os.Stat(word); err == nil || strings.HasSuffix(word, ".yaml") {
		hint = fmt.Sprintf("cpbench plan %s | sbatch, or cpbench run %s", word, word)
	}
	return &usageError{fmt.Sprintf("unknown command %q", word), hint}
}

// onlyFailed is the flag that may stand without a value.
const onlyFailed = "--only-failed"

// arrange puts the flags of a command before its arguments, so that they may stand on either side: the library takes
// a flag behind an argument for another argument, in silence.
func arrange(app *cli.App, args []string) ([]string, error) {
	if len(args) == 0 {
		return args, nil
	}
	cmd := app.Command(args[0])
	if cmd == nil {
		return args, nil
	}
	flags, rest := []string{args[0]}, []string{}
	for i := 1; i < len(args); i++ {
		arg := args[i]
		switch {
		case arg == "--":
			rest = append(rest, args[i+1:]...)
			i = len(args)
		case len(arg) < 2 || arg[0] != '-':
			rest = append(rest, arg)
		case arg == onlyFailed:
			value := "failed"
			if i+1 < len(args) && catalogue.Outcome(args[i+1]).Known() {
				i++
				value = args[i]
			}
			flags = append(flags, arg+"="+value)
		default:
			flags = append(flags, arg)
			if takesValue(cmd, arg) {
				if i+1 == len(args) {
					return nil, &usageError{fmt.Sprintf("%s needs a value", arg), fmt.Sprintf("see cpbench %s --help", cmd.Name)}
				}
				i++
				flags = append(flags, args[i])
			}
		}
	}
	if len(rest) > 0 {
		flags = append(flags, "--")
	}
	return append(flags, rest...), nil
}

// takesValue reports whether arg is a flag of cmd whose value is the next word.
func takesValue(cmd *cli.Command, arg string) bool {
	name := strings.TrimLeft(arg, "-")
	for _, f := range cmd.Flags {
		if slices.Contains(f.Names(), name) {
			d, ok := f.(cli.DocGenerationFlag)
			return ok && d.TakesValue()
		}
	}
	return false
}

// oneArgument returns the only argument of a command.
func oneArgument(c *cli.Context, what string) (string, error) {
	switch c.NArg() {
	case 1:
		return c.Args().First(), nil
	case 0:
		return "", &usageError{what + " is missing", fmt.Sprintf("cpbench %s %s", c.Command.Name, what)}
	}
	return "", &usageError{fmt.Sprintf("one %s at a time, not %d", what, c.NArg()), fmt.Sprintf("see cpbench %s --help", c.Command.Name)}
}
