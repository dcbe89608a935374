package model

import (
	"errors"
	"hash/fnv"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"cpbench/worker/model/protocol"
)

// misleading are the variables of a batch step that make a program believe that srun has started it.
var misleading = []string{"SLURM_PROCID=", "SLURM_LOCALID=", "SLURM_NODEID=", "SLURM_NTASKS=", "SLURM_NPROCS=", "SLURM_TASK_PID=", "SLURM_GTIDS=", "SLURM_STEP"}

// launchers are the variables that tell a rank who it is. One of them in the spec's env would give every rank the
// same place, or lead it to another worker.
var launchers = []string{"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", protocol.EnvConnect, protocol.EnvToken}

// forbidden returns a variable of the spec's env that it may not set; empty if there is none.
func forbidden(env map[string]string) string {
	for _, name := range launchers {
		if _, ok := env[name]; ok {
			return name
		}
	}
	return ""
}

// environ is the environment of a rank: the worker's without the scheduler's task variables, then the spec's, then
// what the protocol and PyTorch's env:// rendezvous need. The frozen files stand first on PYTHONPATH.
func (e *execution) environ(i, port int) []string {
	var env []string
	for _, kv := range os.Environ() {
		if !slices.ContainsFunc(misleading, func(m string) bool { return strings.HasPrefix(kv, m) }) {
			env = append(env, kv)
		}
	}
	for name, value := range e.setting.Env {
		env = append(env, name+"="+value)
	}
	path := os.Getenv("PYTHONPATH")
	if own, ok := e.setting.Env["PYTHONPATH"]; ok {
		path = own
	}
	lib := e.s.job.Run.Lib()
	if path != "" {
		lib += string(os.PathListSeparator) + path
	}
	world := strconv.Itoa(e.setting.Ranks)
	return append(env, // of two values the last counts
		"PYTHONPATH="+lib,
		"RANK="+strconv.Itoa(i), "LOCAL_RANK="+strconv.Itoa(i), "WORLD_SIZE="+world, "LOCAL_WORLD_SIZE="+world,
		"MASTER_ADDR=127.0.0.1", "MASTER_PORT="+strconv.Itoa(port),
		protocol.EnvConnect+"="+e.listen.Addr().String(), protocol.EnvToken+"="+e.token,
	)
}

// freePort finds a port that nobody listens on. It starts at a place that depends on the task and stays below the
// kernel's own range for outgoing connections, so that two tasks of one node hardly ever meet.
func freePort(seed string) (int, error) {
	low := 32768
	if data, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		if f := strings.Fields(string(data)); len(f) == 2 {
			if n, err := strconv.Atoi(f[0]); err == nil && n > 12000 {
				low = n
			}
		}
	}
	const first = 10000
	h := fnv.New32a()
	h.Write([]byte(seed)) // never fails
	span := low - first
	start := int(h.Sum32() % uint32(span))
	for i := range span {
		port := first + (start+i)%span
		l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err == nil {
			return port, l.Close()
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return 0, err
		}
	}
	return 0, syscall.EADDRINUSE
}
