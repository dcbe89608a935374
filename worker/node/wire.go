package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"cpbench/worker/gpu"
)

// The environment through which an agent finds its worker. It carries no mark of an execution, which the agent would
// end.
const (
	EnvConnect = "CPBENCH_NODE_CONNECT" // host:port of the worker
	EnvToken   = "CPBENCH_NODE_TOKEN"   // secret of this session, to be repeated in the hello
)

// maxLine is the longest line in bytes, as in the protocol of the ranks.
const maxLine = 1 << 20

// hello is the first line of an agent.
type hello struct {
	Token string `json:"token"`
	Node  string `json:"node"` // its name, as the scheduler calls it
	PID   int    `json:"pid"`
}

// Verb is what a node is asked to do.
type Verb string

// The verbs, with what the answer to each has.
const (
	Identify Verb = "identify" // Identity; the first time it looks for a source of readings
	Look     Verb = "look"     // Reading, Processes
	Before   Verb = "before"   // nothing: a full reading is kept for After
	Watch    Verb = "watch"    // nothing: looks in the background at Request.Pace until After
	After    Verb = "after"    // Usage since Before
	Begin    Verb = "begin"    // nothing: an execution begins, whose processes carry Request.Mark
	Kills    Verb = "kills"    // Witness since Begin
	Clean    Verb = "clean"    // Cleaned: what carries Request.Mark is ended
)

// limit is how long the answer may take.
func (v Verb) limit() time.Duration {
	if v == Identify {
		return 75 * time.Second // two sources, of which each may have to wake its GPUs
	}
	return 20 * time.Second
}

// Request is one line to a node.
type Request struct {
	ID   int      `json:"id"`
	Do   Verb     `json:"do"`
	Pace gpu.Pace `json:"pace,omitempty"` // with Watch
	Mark string   `json:"mark,omitempty"` // with Begin and Clean: NAME=VALUE in the environment of every process
}

// Answer is one line of a node; the verb says which fields are set. Error says why it could not do what it was asked.
type Answer struct {
	ID        int           `json:"id"`
	Error     string        `json:"error,omitempty"`
	Identity  *Identity     `json:"identity,omitempty"`
	Reading   *gpu.Reading  `json:"reading,omitempty"`
	Processes []gpu.Process `json:"processes,omitempty"`
	Usage     *gpu.Usage    `json:"usage,omitempty"`
	Witness   *Witness      `json:"witness,omitempty"`
	Cleaned   *Cleaned      `json:"cleaned,omitempty"`
}

// Identity is what a node knows of its GPUs.
type Identity struct {
	Source  gpu.Source   `json:"source"`
	Doubt   string       `json:"doubt,omitempty"` // why readings are missing, or poorer than they could be
	Devices []gpu.Device `json:"devices,omitempty"`
}

// Witness is what the kernel has counted.
type Witness struct {
	Kills   int64  `json:"kills"`           // processes that it has ended for lack of memory
	Counted bool   `json:"counted"`         // false: nobody counts, which is not the same as none
	Where   string `json:"where,omitempty"` // the file of the counter
}

// Cleaned is what a clean-up did.
type Cleaned struct {
	Told   int    `json:"told"`   // processes that were sent TERM
	Killed int    `json:"killed"` // ... KILL as well
	Error  string `json:"error,omitempty"`
}

func decodeAnswer(line []byte) (Answer, error) {
	var a Answer
	if err := json.Unmarshal(line, &a); err != nil {
		return a, fmt.Errorf("line of the agent: %w", err)
	}
	if a.ID <= 0 {
		return a, errors.New("line of the agent: no id")
	}
	return a, nil
}
