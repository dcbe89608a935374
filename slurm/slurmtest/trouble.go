package slurmtest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Node does to the node n1, n2, ... what verb says: crash is a power loss, start boots it again, killd ends its slurmd
// and leaves its jobs alone, resumed lets that slurmd come back. The controller notices in its own time.
func (c *Cluster) Node(verb, node string) error {
	out, err := c.Command(c.script("node.sh"), c.dir, verb, node).CombinedOutput()
	if err != nil {
		return fmt.Errorf("node.sh %s %s: %w: %s", verb, node, err, bytes.TrimSpace(out))
	}
	return nil
}

// KillController ends the cluster's slurmctld with KILL. What it had taken in since it last saved its state, some seconds
// ago at most, is lost. StartController brings it back.
func (c *Cluster) KillController() error {
	path := filepath.Join(c.dir, "run", "slurmctld.pid")
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return err
	}
	if !bytes.Contains(env, []byte("SLURM_CONF="+filepath.Join(c.dir, "etc", "slurm.conf")+"\x00")) {
		return fmt.Errorf("process %d of %s is not the controller of this cluster", pid, path)
	}
	return unix.Kill(pid, unix.SIGKILL)
}

// StartController starts the slurmctld again that KillController has ended, and every node that is down, and returns
// when all nodes answer.
func (c *Cluster) StartController() error { return c.up() }

// SQL runs a statement in the database of a cluster with Accounting, in which its tables are called cpbench_job_table and
// so on, and returns what it printed, without headings.
func (c *Cluster) SQL(statement string) (string, error) {
	out, err := c.Command("mariadb", "--no-defaults", "-uroot", "--socket="+filepath.Join(c.dir, "run", "mysql.sock"), "-N", "-e", statement, "slurm_acct").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", statement, err, bytes.TrimSpace(out))
	}
	return string(bytes.TrimSpace(out)), nil
}
