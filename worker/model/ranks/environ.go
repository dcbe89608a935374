package ranks

import (
	"strconv"

	"cpbench/worker/model/protocol"
)

// shared is the environment that every rank has: that of the task's programs, and what leads to the worker and to the
// rendezvous of the ranks.
func (s *Set) shared(port int) []string {
	return append(s.job.Environ(s.Setting),
		"MASTER_ADDR="+s.host(), "MASTER_PORT="+strconv.Itoa(port),
		protocol.EnvConnect+"="+s.connect, s.mark(),
	)
}

// mark is the entry in the environment of every process of this set, on whichever node.
func (s *Set) mark() string { return protocol.EnvToken + "=" + s.token }
