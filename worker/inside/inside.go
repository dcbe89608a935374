// Package inside asks the container of a sweep which values of the sweep's variables arrive in it: an image may set its
// own, and a sweep over them would then do nothing, unseen. Use Look before a program that does not tell its own
// settings.
package inside

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"

	"cpbench/worker/tree"
)

// Look runs the command `env`, as the container wraps it, and returns what the swept variables are in there, as facts of
// a result under "setting NAME". The error is that of a container that cannot be started, or the cause of ctx; nothing
// of the command is left in either case. It ends all descendants of this process that are not spared if ctx ends.
func Look(ctx context.Context, cmd *exec.Cmd, swept map[string]string) (map[string]string, error) {
	var stdout, stderr bytes.Buffer // in memory only: it holds the secrets of the job
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	child, err := tree.Start(cmd)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cmd.Args[0], err)
	}
	gone := make(chan error, 1)
	go func() { gone <- child.Wait() }()
	select {
	case err = <-gone:
	case <-ctx.Done():
		if _, killed := tree.Kill(context.Background(), tree.DefaultGrace); killed == nil {
			<-gone //nolint:errcheck // how it ended does not matter any more
		}
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, lastLines(stderr.String()))
	}
	return settings(swept, stdout.String()), nil
}

// settings are the swept variables in an environment that env has printed.
func settings(swept map[string]string, printed string) map[string]string {
	seen := map[string]string{}
	for line := range strings.Lines(printed) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		seen[name] = value
	}
	facts := map[string]string{}
	for name := range swept {
		value, set := seen[name]
		if !set {
			value = "(not set)"
		}
		facts["setting "+name] = value
	}
	return facts
}

// lastLines is the end of what a runtime has said.
func lastLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], "; ")
}
