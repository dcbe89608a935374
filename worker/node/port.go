package node

import (
	"errors"
	"hash/fnv"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// FreePort finds a port of this node that nobody listens on, at the address that Listen would bind: the first of the
// ranks, which runs here, binds it for their meeting. It starts at a place that depends on the seed and stays below the
// kernel's own range for outgoing connections, so that two tasks of one node hardly ever meet.
func FreePort(hosts []string, seed string) (int, error) {
	address, err := Address(hosts)
	if err != nil {
		return 0, err
	}
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
		l, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(port)))
		if err == nil {
			return port, l.Close()
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return 0, err
		}
	}
	return 0, syscall.EADDRINUSE
}
