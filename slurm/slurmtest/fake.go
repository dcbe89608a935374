package slurmtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cpbench/slurm"
)

// stateEnv names the folder that holds the fake cluster.
const stateEnv = "CPBENCH_FAKE_SLURM"

// commands are the fakes: functions of the arguments that return the exit status.
var commands map[string]func(args []string) int

// In init, because the fake sbatch starts itself anew under its own name and would make the table refer to itself.
func init() {
	commands = map[string]func([]string) int{
		"sbatch": sbatch, "squeue": squeue, "scancel": scancel, "scontrol": scontrol, "sacct": sacct,
	}
}

// Commands returns the fakes for testscript.Main: sbatch, squeue, scancel, scontrol and sacct of a cluster, without
// accounting unless CPBENCH_FAKE_ACCOUNTING is set. The cluster lives in the folder that the environment's
// CPBENCH_FAKE_SLURM names and is made on first use;
// CPBENCH_FAKE_MAXARRAY is its MaxArraySize, 1001 unless set. sbatch really runs the array, at most 8 tasks at a time,
// and refuses what the real one refuses, in its words; an option or a column that a fake does not know is an error. Call
// StopFakes before the folder goes.
func Commands() map[string]func() {
	all := map[string]func(){}
	for name, command := range commands {
		all[name] = func() { exit(command(os.Args[1:])) }
	}
	return all
}

// exit ends a fake. Unlike os.Exit it does not wait the second that the race detector takes at the end of a process:
// a test calls the fakes dozens of times.
func exit(status int) { syscall.Exit(status) }

// Fake is a fake cluster made by Fakes.
type Fake struct {
	Bin   string // folder with the commands
	State string // value of CPBENCH_FAKE_SLURM
}

// Fakes makes a fake cluster that ends with t; see Commands. It serves the commands from the test binary itself, which
// must go through Main.
func Fakes(t testing.TB) *Fake {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	fake := &Fake{Bin: t.TempDir(), State: t.TempDir()}
	for name := range commands {
		if err := os.Symlink(self, filepath.Join(fake.Bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := StopFakes(fake.State); err != nil {
			t.Errorf("stop the fake cluster: %v", err)
		}
	})
	return fake
}

// Env returns this process's environment, cleaned of what a surrounding Slurm left, with the fakes first on PATH.
func (f *Fake) Env() []string {
	return append(slurm.Clean(os.Environ()), stateEnv+"="+f.State, "PATH="+f.Bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
}

// StopFakes cancels what still runs in the fake cluster of that folder and returns when all of it has ended.
func StopFakes(state string) error {
	files, err := filepath.Glob(filepath.Join(state, "jobs", "*", "pid"))
	if err != nil {
		return err
	}
	var errs []error
	for _, file := range files {
		errs = append(errs, signalKeeper(filepath.Dir(file), 10*time.Second))
	}
	return errors.Join(errs...)
}

// signalKeeper sends TERM to the process that keeps a job, and waits up to patience for its end. One that has ended is
// no error.
func signalKeeper(job string, patience time.Duration) error {
	text, err := os.ReadFile(filepath.Join(job, "pid"))
	if errors.Is(err, os.ErrNotExist) {
		return nil // it ended
	}
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(job, "pid"), err)
	}
	handle, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("process %d of %s: %w", pid, job, err)
	}
	defer unix.Close(handle)
	// The handle keeps the process apart from any that gets its number; the arguments show that it is the right one.
	arguments, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || !strings.Contains(string(arguments), keepOption+"\x00"+job+"\x00") {
		return nil // gone, and perhaps another has its number
	}
	if err := unix.PidfdSendSignal(handle, unix.SIGTERM, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signal process %d of %s: %w", pid, job, err)
	}
	return awaitEnd(handle, job, patience)
}

// awaitEnd waits until the process of a handle has ended.
func awaitEnd(handle int, job string, patience time.Duration) error {
	if patience == 0 {
		return nil
	}
	deadline := time.Now().Add(patience)
	for {
		watch := []unix.PollFd{{Fd: int32(handle), Events: unix.POLLIN}}
		n, err := unix.Poll(watch, int(time.Until(deadline).Milliseconds()))
		switch {
		case errors.Is(err, unix.EINTR) && time.Now().Before(deadline):
			continue
		case err != nil:
			return err
		case n == 0:
			return fmt.Errorf("%s still runs after %v", job, patience)
		}
		return nil
	}
}
