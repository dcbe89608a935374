package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"cpbench/plan"

	"github.com/hashicorp/go-multierror"
)

// The rules of the interface. What a command was asked for goes to stdout, and nothing else does. Everything that is
// said to a person goes to stderr behind "cpbench: ", in lower case and without a full stop: what happened, errors,
// and hints, which say what to do. Only main ends the process, with one of these codes.
const (
	exitDone        = 0
	exitError       = 1
	exitUsage       = 2 // the command line or the spec
	exitIncomplete  = 3 // some points have no good result
	exitInterrupted = 130
)

// voice says things to the person at the terminal.
type voice struct{ w io.Writer }

func (v voice) sayf(format string, args ...any) {
	fmt.Fprintf(v.w, "cpbench: "+format+"\n", args...) // nobody is left to tell of an error
}

func (v voice) warnf(format string, args ...any) { v.sayf("warning: "+format, args...) }

func (v voice) hintf(format string, args ...any) { v.sayf("hint: "+format, args...) }

// usageError is a mistake on the command line, with the way to do it right.
type usageError struct{ text, hint string }

func (e *usageError) Error() string { return e.text }

// hinted is an error with the way to mend it.
type hinted struct {
	error
	hint string
}

func (e *hinted) Unwrap() error { return e.error }

// errIncomplete says that the command did its work but some points have no good result.
var errIncomplete = errors.New("some points have no good result")

// errInterrupted says that the user stopped the command.
var errInterrupted = errors.New("interrupted")

// fail tells an error and returns the exit code that it means.
func (v voice) fail(err error) int {
	var (
		many   *multierror.Error
		usage  *usageError
		hint   *hinted
		inSpec *plan.Problem
	)
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errInterrupted), errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.Is(err, errIncomplete):
		return exitIncomplete
	case errors.As(err, &many):
		code := exitError
		for _, e := range many.Errors {
			code = max(code, v.fail(e))
		}
		return code
	case errors.As(err, &inSpec):
		v.sayf("error: %v", inSpec)
		v.hintLines(inSpec.Hint)
		return exitUsage
	case errors.As(err, &usage):
		v.sayf("error: %s", usage.text)
		v.hintLines(usage.hint)
		return exitUsage
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		v.sayf("error: %s", line)
	}
	if errors.As(err, &hint) {
		v.hintLines(hint.hint)
	}
	return exitError
}

func (v voice) hintLines(hint string) {
	if hint == "" {
		return
	}
	for line := range strings.SplitSeq(hint, "\n") {
		v.hintf("%s", line)
	}
}
