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

// shared is the environment that every rank has: the worker's, then the spec's, then what leads to the worker and to
// the rendezvous of the ranks. The frozen files stand first on PYTHONPATH.
func (e *execution) shared(port int) []string {
	env := os.Environ()
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
	return append(env, // of two values the last counts
		"PYTHONPATH="+lib, "MASTER_ADDR="+e.host(), "MASTER_PORT="+strconv.Itoa(port),
		protocol.EnvConnect+"="+e.connect(), protocol.EnvToken+"="+e.token,
	)
}

// plain takes out the variables of a batch step that make a program believe that srun has started it.
func plain(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		return slices.ContainsFunc(misleading, func(m string) bool { return strings.HasPrefix(kv, m) })
	})
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
