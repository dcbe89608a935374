package model

import (
	"errors"
	"hash/fnv"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"

	"cpbench/worker/model/protocol"
)

// shared is the environment that every rank has: that of the task's programs, and what leads to the worker and to the
// rendezvous of the ranks.
func (e *execution) shared(port int) []string {
	return append(e.s.job.Environ(e.setting),
		"MASTER_ADDR="+e.host(), "MASTER_PORT="+strconv.Itoa(port),
		protocol.EnvConnect+"="+e.connect(), protocol.EnvToken+"="+e.token,
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
