package local

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"cpbench/slurm"
)

// exitNoLaunch is what Slurm shows for a task that it could not launch, most often because the folder of its output is
// missing.
const exitNoLaunch = "0:53"

// run takes one task from pending to its end, unless it was cancelled before. It keeps its thread, because the kernel
// takes the end of the thread that started a child for the death of the parent (golang.org/issue/27505).
func (a *Array) run(index int) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	a.mu.Lock()
	t := a.tasks[index]
	if t.state.State != slurm.Pending {
		a.mu.Unlock()
		return
	}
	// Under the lock, so that Cancel finds a task either pending or with a process group.
	cmd, err := a.launch(index)
	if err != nil {
		t.state = slurm.TaskState{State: slurm.Failed, Exit: exitNoLaunch, Node: a.Node}
	} else {
		t.state = slurm.TaskState{State: slurm.Running, Node: a.Node}
		t.group = cmd.Process.Pid
	}
	state := t.state
	a.mu.Unlock()
	a.tell(index, state)
	if err != nil {
		return
	}
	state = a.await(t, cmd)
	a.tell(index, state)
}

// launch starts bash in a process group of its own. Its stdin is /dev/null.
func (a *Array) launch(index int) (*exec.Cmd, error) {
	out, err := a.output(index)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := exec.Command("bash", a.Script)
	cmd.Dir = a.Dir
	cmd.Env = a.environment(index)
	cmd.Stdout, cmd.Stderr = out, out
	// Should this process die without a word, its tasks are told to stop: a closed terminal must leave no orphans.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGTERM}
	if err := cmd.Start(); err != nil {
		_, _ = fmt.Fprintf(out, "launch of task %d: %v\n", index, err) // the output file is where a reader looks first
		return nil, err
	}
	return cmd, nil
}

// await returns the task's last state. Like Slurm it ends what the script left running in its process group.
func (a *Array) await(t *task, cmd *exec.Cmd) slurm.TaskState {
	// The shell stays a zombie until cmd.Wait: so long its number can be no one else's, and a signal to the group
	// hits the group.
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	signal(t.group, unix.SIGKILL)
	t.group = 0
	_ = cmd.Wait() // a failure is in ProcessState
	t.state.State, t.state.Exit = slurm.Failed, exitNoLaunch
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok {
		t.state.Exit = fmt.Sprintf("%d:%d", max(status.ExitStatus(), 0), max(int(status.Signal()), 0))
	}
	switch {
	case a.cancelled:
		t.state.State = slurm.Cancelled
	case t.state.Exit == "0:0":
		t.state.State = slurm.Completed
	}
	return t.state
}

// terminate asks the running tasks to end; the caller holds the lock. CONT lets a stopped one hear it.
func (a *Array) terminate() {
	for _, t := range a.tasks {
		signal(t.group, unix.SIGCONT)
		signal(t.group, unix.SIGTERM)
	}
}

// kill ends the running tasks; the caller holds the lock.
func (a *Array) kill() {
	for _, t := range a.tasks {
		signal(t.group, unix.SIGKILL)
	}
}

// signal sends to a process group that await has not yet given up. An error means that nobody is left in it.
func signal(group int, s unix.Signal) {
	if group > 0 {
		_ = unix.Kill(-group, s)
	}
}
