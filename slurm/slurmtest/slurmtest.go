// Package slurmtest is what tests need around the executors of package slurm: TestExecutor, the contract that each of
// them must keep; Start and Shared, a real Slurm cluster of the test's own on this machine; and Commands and Fakes,
// stand-ins for Slurm's commands where none is installed. A test binary that uses Fakes or Shared runs its tests through
// Main.
package slurmtest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"cpbench/plan/suite"
)

// startPath is PATH as this process found it: testscript.Main puts the fakes of Commands before it.
var startPath = os.Getenv("PATH")

// findProgram returns the path of a program, or nothing. Slurm's daemons are where only root's PATH may lead.
func findProgram(name string) string {
	for _, dir := range append(filepath.SplitList(startPath), "/usr/sbin", "/sbin") {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil && filepath.IsAbs(path) {
			return path
		}
	}
	return ""
}

// Main runs the tests of a test binary, stops the cluster of Shared and returns the exit status; TestMain passes that to
// os.Exit. Started under the name of a Slurm command, the binary is that fake command instead, and Main does not return.
func Main(m *testing.M) int {
	if command, found := commands[filepath.Base(os.Args[0])]; found {
		exit(command(os.Args[1:]))
	}
	defer stopShared()
	return m.Run()
}

// Require skips t, with a line that says what is missing, unless a real cluster can be started here. Where the
// environment's CPBENCH_TEST_REQUIRE contains slurm it fails t instead, so that a test run which is meant to have Slurm
// cannot pass without. For Start with Accounting the word is accounting.
func Require(t testing.TB) {
	t.Helper()
	require(t, "slurm", "slurmctld", "slurmd", "sbatch", "munged", "unshare", "ss")
}

func require(t testing.TB, component string, programs ...string) {
	t.Helper()
	missing := missingPart(programs)
	if missing == "" {
		return
	}
	suite.Missing(t, component, "no real %s: %s; make test, as root on Debian, installs it", component, missing)
}

// missingPart says in words what keeps a cluster from starting, or nothing.
func missingPart(programs []string) string {
	if os.Geteuid() != 0 {
		return "not root"
	}
	for _, name := range programs {
		if findProgram(name) == "" {
			return name + " is not installed"
		}
	}
	// The daemons listen on what the host name resolves to, and it must not be the network.
	host, err := os.Hostname()
	if err != nil {
		return err.Error()
	}
	addresses, err := net.LookupIP(host)
	if err != nil || len(addresses) == 0 {
		return fmt.Sprintf("host name %s does not resolve", host)
	}
	for _, address := range addresses {
		if address.To4() != nil && !address.IsLoopback() {
			return fmt.Sprintf("host name %s does not resolve to loopback", host)
		}
	}
	return ""
}

// shared is the cluster of Shared.
var shared struct {
	once    sync.Once
	cluster *Cluster
	err     error
}

// Shared returns the one cluster, without accounting and with Options' defaults, that the tests of this binary share. It
// starts with the first call, which obeys Require, and Main stops it. Tests that break nodes or need other options Start
// their own.
func Shared(t testing.TB) *Cluster {
	t.Helper()
	Require(t)
	shared.once.Do(func() { shared.cluster, shared.err = start(Options{}) })
	if shared.err != nil {
		t.Fatalf("start the shared cluster: %v", shared.err)
	}
	return shared.cluster
}

func stopShared() {
	if shared.cluster == nil {
		return
	}
	if err := shared.cluster.stop(); err != nil {
		fmt.Fprintf(os.Stderr, "stop the shared cluster: %v\n", err)
	}
}
