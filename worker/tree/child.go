package tree

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// children are the direct children whose exit status belongs to a Child. The state is the package's own, because
// the tree of a process exists once whatever a program calls it: a second set would reap the first one's children.
var children = registry{owned: map[int]owned{}}

// registry knows the direct children by process id. The lock is held from before a child exists until it is
// entered, so that no zombie is ever seen whose owner is not known yet.
type registry struct {
	mu    sync.Mutex
	owned map[int]owned
}

// owned is a direct child that was started here.
type owned struct {
	cmd    *exec.Cmd
	spared bool // Kill leaves it alone, with all its descendants
}

// Child is a direct child of this process. Its exit status is safe from Kill.
type Child struct {
	cmd  *exec.Cmd
	gone chan struct{} // closed when the child has been waited for
}

// Start starts cmd as a direct child in a process group of its own, unless cmd asks for a session. The kernel
// kills the child should this process die first. Wait has to be called, as with os/exec.
func Start(cmd *exec.Cmd) (*Child, error) { return start(cmd, false) }

// StartSpared is Start for a program that outlives an execution, such as an instrument that takes readings: Kill
// leaves it and its descendants alone.
func StartSpared(cmd *exec.Cmd) (*Child, error) { return start(cmd, true) }

func start(cmd *exec.Cmd, spared bool) (*Child, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = !cmd.SysProcAttr.Setsid // a session leader leads its group already
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	c := &Child{cmd: cmd, gone: make(chan struct{})}
	started := make(chan error)
	// Pdeathsig acts when the thread that started the child ends, not the process (golang.org/issue/27505): the
	// child gets a thread that lives as long as it does.
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := children.enter(cmd, spared)
		started <- err
		if err == nil {
			<-c.gone
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return c, nil
}

// PID is the process id of the child.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Wait waits for the child as exec.Cmd.Wait does, and returns the same errors. Call it once.
func (c *Child) Wait() error {
	err := c.cmd.Wait()
	children.leave(c.cmd)
	close(c.gone)
	return err
}

// enter starts cmd and records its process id.
func (r *registry) enter(cmd *exec.Cmd, spared bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	r.owned[cmd.Process.Pid] = owned{cmd, spared}
	return nil
}

// leave forgets a child that has been waited for. By now its id may belong to another child.
func (r *registry) leave(cmd *exec.Cmd) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.owned[cmd.Process.Pid].cmd == cmd {
		delete(r.owned, cmd.Process.Pid)
	}
}

// spares reports whether Kill leaves the child alone.
func (r *registry) spares(pid int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.owned[pid].spared
}

// reap takes the exit status of a dead child that was not started here. It reports whether it did.
func (r *registry) reap(pid int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.owned[pid]; ok {
		return false
	}
	var status unix.WaitStatus
	got, err := unix.Wait4(pid, &status, unix.WNOHANG, nil)
	return err == nil && got == pid
}
