package slurmtest

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"cpbench/slurm"
	"cpbench/slurm/local"
)

const (
	keepOption = "--keep" // makes the fake sbatch the process that keeps a job until its end
	fakeNode   = "fake1"
	fakeTasks  = 8               // of an array, at the same time
	fakeKill   = 2 * time.Second // KillWait
)

// printf prints one line of a fake's answer.
func printf(format string, args ...any) { fmt.Fprintf(os.Stdout, format+"\n", args...) }

// errorf prints one line the way Slurm's commands do, and returns their exit status.
func errorf(format string, args ...any) int {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	return 1
}

// sbatch is the fake of that name. It knows --parsable, --array, --output, --job-name, --dependency=afterany:ID... and a
// script's path, and takes --kill-on-invalid-dep, --exclude and --begin for granted. It writes each call into the state folder's
// file calls. CPBENCH_FAKE_SBATCH=refuse:TEXT refuses the jobs whose name contains TEXT, and lose:TEXT takes them and
// answers as if the reply had been lost.
func sbatch(args []string) int {
	if len(args) == 2 && args[0] == keepOption {
		return keep(args[1])
	}
	flags := flag.NewFlagSet("sbatch", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	parsable := flags.Bool("parsable", false, "")
	var overrides []string
	for _, names := range [][]string{{"array", "a"}, {"output", "o"}, {"job-name", "J"}} {
		for _, name := range names {
			flags.Func(name, "", func(value string) error {
				overrides = append(overrides, "--"+names[0]+"="+value)
				return nil
			})
		}
	}
	dependency := flags.String("dependency", "", "")
	for _, name := range []string{"kill-on-invalid-dep", "exclude", "begin"} {
		flags.String(name, "", "")
	}
	if err := flags.Parse(args); err != nil || flags.NArg() > 1 {
		errorf("sbatch: unrecognized option '%s'", strings.Join(args, " "))
		errorf(`Try "sbatch --help" for more information`)
		return 255
	}
	// The command line beats the environment, which beats the script.
	for name, option := range map[string]string{"SBATCH_ARRAY_INX": "--array=", "SBATCH_JOB_NAME": "--job-name="} {
		if value, set := os.LookupEnv(name); set {
			overrides = slices.Insert(overrides, 0, option+value)
		}
	}
	script, status := readScript(flags.Arg(0))
	if status != 0 {
		return status
	}
	if err := logCall(args); err != nil {
		return errorf("sbatch: error: %v", err)
	}
	ids, after := strings.CutPrefix(*dependency, "afterany:")
	if after != (*dependency != "") {
		return errorf("sbatch: error: this is a fake, and does not know --dependency=%s", *dependency)
	}
	id, status := submit(script, overrides, ids)
	switch {
	case status != 0:
	case trouble("lose", script):
		return errorf("sbatch: error: Batch job submission failed: Socket timed out on send/recv operation")
	case *parsable:
		printf("%d", id)
	default:
		printf("Submitted batch job %d", id)
	}
	return status
}

// logCall adds a line to the file calls.
func logCall(args []string) error {
	state, err := stateDir()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(state, 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(state, "calls"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(file, "sbatch %s\n", strings.Join(args, " "))
	return errors.Join(err, file.Close())
}

// trouble reports whether CPBENCH_FAKE_SBATCH names that trouble for this job.
func trouble(kind string, script []byte) bool {
	text, found := strings.CutPrefix(os.Getenv("CPBENCH_FAKE_SBATCH"), kind+":")
	header, err := local.ParseHeader(script)
	return found && err == nil && strings.Contains(header.Name, text)
}

// readScript takes the script from a file or from stdin, and refuses what sbatch refuses.
func readScript(path string) (script []byte, status int) {
	var err error
	if path == "" {
		script, err = io.ReadAll(os.Stdin)
	} else {
		script, err = os.ReadFile(path)
	}
	switch {
	case err != nil:
		return nil, errorf("sbatch: error: Unable to open file %s", path)
	case len(script) == 0:
		return nil, errorf("sbatch: error: Batch script is empty!")
	case len(bytes.TrimSpace(script)) == 0:
		return nil, errorf("sbatch: error: Batch script contains only whitespace!")
	case !bytes.HasPrefix(script, []byte("#!")):
		return nil, errorf("sbatch: error: This does not look like a batch script.  The first\n" +
			"sbatch: error: line must start with #! followed by the path to an interpreter.\n" +
			"sbatch: error: For instance: #!/bin/sh")
	case bytes.Contains(script, []byte("\r\n")):
		return nil, errorf("sbatch: error: Batch script contains DOS line breaks (\\r\\n)\n" +
			"sbatch: error: instead of expected UNIX line breaks (\\n).")
	case bytes.IndexByte(script, 0) >= 0:
		return nil, errorf("sbatch: error: The Slurm controller does not allow scripts that\n" +
			"sbatch: error: contain a NULL character '\\0'.")
	}
	return script, 0
}

// submit puts the job into the state folder and starts its keeper. after are the ids of jobs that have to end first.
func submit(script []byte, overrides []string, after string) (id int, status int) {
	text := override(script, overrides)
	header, err := local.ParseHeader(text)
	badArray := slices.ContainsFunc(header.Indices, func(index int) bool { return index >= maxArraySize() })
	switch {
	case errors.Is(err, local.ErrArraySpec) || badArray:
		return 0, errorf("sbatch: error: Batch job submission failed: Invalid job array specification")
	case err != nil:
		return 0, errorf("sbatch: fatal: %v", err)
	case trouble("refuse", script):
		errorf("sbatch: error: QOSMaxSubmitJobPerUserLimit")
		return 0, errorf("sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)")
	}
	state, err := stateDir()
	if err != nil {
		return 0, errorf("sbatch: error: %v", err)
	}
	id, err = takeIDs(state, max(1, len(header.Indices)))
	if err != nil {
		return 0, errorf("sbatch: error: %v", err)
	}
	job := jobDir(state, strconv.Itoa(id))
	if err := errors.Join(
		os.MkdirAll(job, 0o755),
		os.WriteFile(filepath.Join(job, "slurm_script"), script, 0o700),
		os.WriteFile(filepath.Join(job, "header"), text, 0o600),
		os.WriteFile(filepath.Join(job, "after"), []byte(after), 0o600),
		startKeeper(job),
	); err != nil {
		return 0, errorf("sbatch: error: %v", err)
	}
	return id, 0
}

// override adds options behind the script's own directives, where the last one counts.
func override(script []byte, options []string) []byte {
	var head, added []byte
	for line := range bytes.Lines(script) {
		if trimmed := bytes.TrimSpace(line); len(trimmed) > 0 && trimmed[0] != '#' {
			break
		}
		head = append(head, line...)
	}
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	for _, option := range options {
		added = fmt.Appendf(added, "\n#SBATCH \"%s\"\n", quote.Replace(option))
	}
	return slices.Concat(head, added, script[len(head):])
}

// startKeeper starts the process that outlives sbatch, and returns when it has taken over.
func startKeeper(job string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	complaints, err := os.Create(filepath.Join(job, "keeper.err"))
	if err != nil {
		return err
	}
	defer complaints.Close()
	keeper := &exec.Cmd{Path: self, Args: []string{"sbatch", keepOption, job}, Stderr: complaints}
	keeper.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	ready, err := keeper.StdoutPipe()
	if err != nil {
		return err
	}
	if err := keeper.Start(); err != nil {
		return err
	}
	if answer, err := io.ReadAll(ready); err != nil || string(answer) != "ready" {
		return fmt.Errorf("the job's keeper did not start, see %s: %q %w", complaints.Name(), answer, err)
	}
	return nil
}

// keep runs a job to its end. TERM cancels it.
func keep(job string) int {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM)
	defer stop()
	text, err := os.ReadFile(filepath.Join(job, "header"))
	if err != nil {
		return errorf("%v", err)
	}
	header, err := local.ParseHeader(text)
	if err != nil {
		return errorf("%v", err)
	}
	dir, err := os.Getwd()
	if err != nil {
		return errorf("%v", err)
	}
	journal, err := os.OpenFile(filepath.Join(job, "journal"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return errorf("%v", err)
	}
	array := &local.Array{
		ID: filepath.Base(job), Header: header, Script: filepath.Join(job, "slurm_script"), Dir: dir,
		Env: jobEnv(dir), Node: fakeNode, Parallel: fakeTasks, Grace: fakeKill,
		JobID:  func(index int) string { return taskJobID(filepath.Base(job), header.Indices, index) },
		Notify: func(index int, state slurm.TaskState) { _, _ = journal.WriteString(journalLine(index, state)) },
	}
	var pending strings.Builder
	for _, index := range header.Indices {
		pending.WriteString(journalLine(index, slurm.TaskState{State: slurm.Pending}))
	}
	if header.Indices == nil {
		pending.WriteString(journalLine(0, slurm.TaskState{State: slurm.Pending}))
	}
	pidFile := filepath.Join(job, "pid")
	_, err = journal.WriteString(pending.String())
	if err := errors.Join(err, os.WriteFile(pidFile, []byte(strconv.Itoa(os.Getpid())), 0o600)); err != nil {
		return errorf("%v", err)
	}
	_, err = os.Stdout.WriteString("ready")
	if err := errors.Join(err, os.Stdout.Close()); err != nil {
		return errorf("%v", err)
	}
	if waitForOthers(ctx, job) {
		array.Start()
		context.AfterFunc(ctx, array.Cancel)
		err = array.Wait(context.Background())
	} else {
		_, err = journal.WriteString(strings.ReplaceAll(pending.String(), string(slurm.Pending), string(slurm.Cancelled)))
	}
	if err := errors.Join(err, journal.Close(), os.Remove(pidFile)); err != nil {
		return errorf("%v", err)
	}
	return 0
}

// waitForOthers waits until the jobs that this one comes after have ended. It reports false if this one is cancelled
// meanwhile.
func waitForOthers(ctx context.Context, job string) bool {
	after, err := os.ReadFile(filepath.Join(job, "after"))
	if err != nil || len(after) == 0 {
		return true
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for _, id := range strings.Split(string(after), ":") {
		pidFile := filepath.Join(filepath.Dir(job), id, "pid")
		for {
			if _, err := os.Stat(pidFile); err != nil {
				break // ended, or never there
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return false
			}
		}
	}
	return true
}

// jobEnv is the submitter's environment as a first run of a job gets it.
func jobEnv(dir string) []string {
	env := slices.DeleteFunc(os.Environ(), func(entry string) bool { return strings.HasPrefix(entry, "SLURM_RESTART_COUNT=") })
	return append(env, "SLURM_SUBMIT_DIR="+dir)
}
