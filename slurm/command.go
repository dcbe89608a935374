package slurm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// errTail bounds what an error quotes from a command's stderr, in bytes.
const errTail = 2048

// command is one call of a Slurm command.
type command struct {
	bin   string   // folder of the command; empty means PATH
	dir   string   // working folder; empty means this process's
	env   []string // nil means this process's
	set   []string // variables for this call alone, on top of the cleaned env
	limit time.Duration
	stdin []byte
	name  string
	args  []string
	both  bool // the answer is on stderr as well: it follows what stands on stdout
}

// commandError is a call that did not succeed.
type commandError struct {
	line     string // the call as it would be typed
	stderr   string // the tail of what it said
	noAnswer bool   // it was ended from outside, so its effect is not known
	err      error
}

func (e *commandError) Error() string {
	if e.stderr == "" {
		return fmt.Sprintf("%s: %v", e.line, e.err)
	}
	return fmt.Sprintf("%s: %v: %s", e.line, e.err, e.stderr)
}

func (e *commandError) Unwrap() error { return e.err }

// run returns the command's stdout, or a *commandError. Slurm's own variables are taken out of the environment.
func (c command) run(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.limit, fmt.Errorf("no answer within %v", c.limit))
	defer cancel()
	path := c.name
	if c.bin != "" {
		path = filepath.Join(c.bin, c.name)
	}
	cmd := exec.CommandContext(ctx, path, c.args...)
	cmd.Dir = c.dir
	cmd.Env = c.env
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.Env = append(Clean(cmd.Env), c.set...)
	cmd.Stdin = bytes.NewReader(c.stdin)
	// A grandchild that holds the pipes must not keep us after the limit.
	cmd.WaitDelay = time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err == nil && c.both {
		return append(stdout.Bytes(), stderr.Bytes()...), nil
	}
	if err == nil {
		return stdout.Bytes(), nil
	}
	failure := &commandError{line: strings.Join(append([]string{c.name}, c.args...), " "), stderr: tail(stderr.Bytes()), err: err}
	var exit *exec.ExitError
	if cmd.Process != nil && (!errors.As(err, &exit) || !exit.Exited()) {
		failure.noAnswer = true
	}
	if ctx.Err() != nil {
		failure.err = context.Cause(ctx)
	}
	return nil, failure
}

// tail returns the end of a command's stderr as one line: Slurm spreads its errors over several.
func tail(stderr []byte) string {
	text := strings.Join(strings.FieldsFunc(strings.TrimSpace(string(stderr)), func(r rune) bool { return r == '\n' }), "; ")
	if len(text) > errTail {
		text = "..." + strings.ToValidUTF8(text[len(text)-errTail:], "")
	}
	return text
}
