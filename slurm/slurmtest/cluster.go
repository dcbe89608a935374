package slurmtest

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cpbench/slurm"
)

//go:embed cluster
var scripts embed.FS

// Options say what a cluster is like. Its nodes are n1, n2, ...; its partitions gpu (the default one), gpu-preempt and
// short (one minute at most). The zero value of a field means what its comment says.
type Options struct {
	Nodes        int           // 2
	CPUs         int           // of each node, 8; they exist for Slurm only
	GPUs         int           // of each node, 8 of type h100; files that stand for devices; below 0: none
	MaxArraySize int           // 1001: indices 0 to 1000
	Accounting   bool          // slurmdbd over a MariaDB, for sacct; makes the start take seconds
	KillWait     time.Duration // from TERM to KILL, 5 s
	MinJobAge    time.Duration // how long the controller remembers an ended job, 300 s
	NodeTimeout  time.Duration // how long a node may be silent before it is down, 10 s; the controller takes about three times that
	Enforce      string        // AccountingStorageEnforce; empty: nothing is enforced
	Extra        []string      // further lines of slurm.conf
}

// Cluster is a real Slurm cluster of a test's own, on loopback.
type Cluster struct {
	Bin   string // folder of Slurm's commands
	dir   string
	opts  Options
	guard *exec.Cmd
	leash io.Closer // closing it makes guard stop the cluster
}

// Start starts a cluster and returns when its nodes are idle: after about half a second, four with accounting. It is
// stopped and its files are removed when t ends, or when this process dies, however it dies. See Require for what
// happens where that is not possible.
func Start(t testing.TB, opts Options) *Cluster {
	t.Helper()
	Require(t)
	if opts.Accounting {
		require(t, "accounting", "slurmdbd", "mariadbd", "mariadb-install-db", "sacctmgr")
	}
	cluster, err := start(opts)
	if err != nil {
		t.Fatalf("start a cluster: %v", err)
	}
	t.Cleanup(func() {
		if err := cluster.stop(); err != nil {
			t.Errorf("stop the cluster: %v", err)
		}
	})
	return cluster
}

func start(opts Options) (*Cluster, error) {
	// In /tmp, because a socket's path may have no more than 107 bytes.
	dir, err := os.MkdirTemp("/tmp", "slurm")
	if err != nil {
		return nil, err
	}
	if err := unpack(filepath.Join(dir, "bin")); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	c := &Cluster{Bin: filepath.Dir(findProgram("sbatch")), dir: dir, opts: opts}
	// The guard's stdin ends when this process closes it or dies: a test binary that is killed leaves no daemons.
	c.guard = exec.Command("bash", "-c", `cat >/dev/null; exec "$0" "$1" --rm`, c.script("down.sh"), dir)
	c.guard.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	var complaint bytes.Buffer
	c.guard.Stderr = &complaint
	if c.leash, err = c.guard.StdinPipe(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := c.guard.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := c.up(); err != nil {
		err = fmt.Errorf("%w\n%s", err, c.logs())
		return nil, errors.Join(err, c.stop())
	}
	return c, nil
}

// unpack writes the scripts to a folder.
func unpack(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	files, err := fs.Glob(scripts, "cluster/*")
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := scripts.ReadFile(file)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(file)), text, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// up runs up.sh, one at a time on this machine: two that look for free ports at once could find the same.
func (c *Cluster) up() error {
	lock, err := os.OpenFile("/tmp/cpbench-slurmtest.lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	cmd := c.Command(c.script("up.sh"), c.dir)
	cmd.Env = append(cmd.Env, c.opts.knobs()...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("up.sh: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// knobs are the options as up.sh takes them; the other knobs are emptied so that none comes in from the environment.
func (o Options) knobs() []string {
	number := func(n, fallback int) string {
		if n == 0 {
			n = fallback
		}
		return strconv.Itoa(n)
	}
	gpus := number(o.GPUs, 8)
	if o.GPUs < 0 {
		gpus = "0"
	}
	accounting := "0"
	if o.Accounting {
		accounting = "1"
	}
	knobs := []string{
		"NODES=" + number(o.Nodes, 2), "CPUS=" + number(o.CPUs, 8), "GPUS=" + gpus,
		"MAXARRAY=" + number(o.MaxArraySize, 1001), "ACCT=" + accounting,
		"KILLWAIT=" + number(int(o.KillWait/time.Second), 5), "MINJOBAGE=" + number(int(o.MinJobAge/time.Second), 300),
		"SLURMDTIMEOUT=" + number(int(o.NodeTimeout/time.Second), 10), "MSGTIMEOUT=" + number(int(o.NodeTimeout/time.Second), 20),
		"ENFORCE=" + o.Enforce, "EXTRA=" + strings.Join(o.Extra, "\n"),
	}
	for _, name := range []string{"MEM", "MAXJOBS", "SCHED", "BASEPORT", "CREDEXPIRE", "NODENS", "PROCTRACK", "CLUSTER"} {
		knobs = append(knobs, name+"=")
	}
	return knobs
}

// stop ends the cluster's processes by their ids, removes its files and waits for both.
func (c *Cluster) stop() error {
	if err := c.leash.Close(); err != nil {
		return err
	}
	if err := c.guard.Wait(); err != nil {
		return fmt.Errorf("down.sh: %w: %s", err, c.guard.Stderr)
	}
	return nil
}

// Env returns this process's environment, cleaned of what a surrounding Slurm left and of fakes on PATH, and with what
// leads Slurm's commands to this cluster.
func (c *Cluster) Env() []string {
	env := slices.DeleteFunc(slurm.Clean(os.Environ()), func(entry string) bool {
		return strings.HasPrefix(entry, "SLURM_") || strings.HasPrefix(entry, "PATH=")
	})
	return append(env, "PATH="+startPath, "SLURM_CONF="+filepath.Join(c.dir, "etc", "slurm.conf"))
}

// Command returns a command, most often one of Slurm's real ones, that is to run with Env.
func (c *Cluster) Command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	if path := findProgram(name); path != "" {
		cmd.Path, cmd.Err = path, nil
	}
	cmd.Env = c.Env()
	return cmd
}

func (c *Cluster) script(name string) string { return filepath.Join(c.dir, "bin", name) }

// logs returns the end of each log, for an error.
func (c *Cluster) logs() string {
	const most = 1000
	var all strings.Builder
	files, _ := filepath.Glob(filepath.Join(c.dir, "log", "*")) // the pattern is well formed
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil || len(text) == 0 {
			continue
		}
		fmt.Fprintf(&all, "%s: %s\n", filepath.Base(file), text[max(0, len(text)-most):])
	}
	return all.String()
}
