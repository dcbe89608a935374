// Package protocol is the conversation between the worker and the ranks of a model: one JSON object per line over
// TCP, at most MaxLine bytes each. docs/protocol.md describes it for people who write a rank in another language.
package protocol

// Version is the protocol's version; a rank says which one it speaks in its Hello.
const Version = 1

// MaxLine is the longest line in bytes, newline included.
const MaxLine = 1 << 20

// The environment through which a rank finds its worker. The launcher sets RANK, WORLD_SIZE, LOCAL_RANK,
// MASTER_ADDR and MASTER_PORT beside them, as PyTorch's env:// rendezvous expects.
const (
	EnvConnect = "CPBENCH_CONNECT" // host:port of the worker
	EnvToken   = "CPBENCH_TOKEN"   // secret of this execution, to be repeated in Hello
)

// Message is one line. Exactly the fields of its type are set; Type says which.
type Message interface{ Type() string }

// From a rank to the worker.
type (
	// Hello is a rank's first line.
	Hello struct {
		Protocol int               `json:"protocol"`
		Token    string            `json:"token"`
		Rank     int               `json:"rank"`
		World    int               `json:"world"`
		Host     string            `json:"host"`
		PID      int               `json:"pid"`
		Device   Device            `json:"device"`
		Versions map[string]string `json:"versions,omitempty"` // python, torch, cuda, nccl, ...
		Settings map[string]string `json:"settings,omitempty"` // allocator and NCCL settings as the process reads them
	}
	// Device is what a rank computes on.
	Device struct {
		Name       string `json:"name"`
		UUID       string `json:"uuid,omitempty"`
		TotalBytes *int64 `json:"total_bytes"` // null: unknown
	}
	// Ready answers Start: the model is built.
	Ready struct {
		// Compiled tells that the model is compiled for the sizes that it meets, so that what one size needs depends on
		// the sizes before it.
		Compiled bool `json:"compiled,omitempty"`
		// Settings are those that building the model has changed, or that only show in a built model.
		Settings map[string]string `json:"settings,omitempty"`
	}
	// Prepared answers Point: the input is built. The sizes are those that will really run.
	Prepared struct {
		Tokens       *int64  `json:"tokens"`
		PaddedTokens *int64  `json:"padded_tokens"`
		Atoms        *int64  `json:"atoms"`
		MSA          *int64  `json:"msa"`
		Seconds      float64 `json:"seconds"`
	}
	// Steps answers Step, after a Memory line: the time of each step in seconds.
	Steps struct {
		Seconds       []float64 `json:"seconds"`
		DeviceSeconds []float64 `json:"device_seconds,omitempty"`
		Finite        *bool     `json:"finite"` // null: not checked
	}
	// Memory tells the peaks since the process started (Cold) and since the last ResetPeak (Warm).
	Memory struct {
		Cold Peak `json:"cold"`
		Warm Peak `json:"warm"`
		// Usable is what tensors may take as the device is now, without what contexts and libraries hold beside them; null:
		// the total of Device.
		Usable *int64 `json:"usable_bytes,omitempty"`
	}
	// Peak is memory in bytes; null means not measured.
	Peak struct {
		Allocated *int64 `json:"allocated_bytes"`
		Reserved  *int64 `json:"reserved_bytes"`
		Device    *int64 `json:"device_bytes"`
	}
	// Metrics are figures of the program's own.
	Metrics struct {
		Metrics []Figure `json:"metrics"`
	}
	// Figure is one named number.
	Figure struct {
		Name  string  `json:"name"`
		Value float64 `json:"value"`
		Unit  string  `json:"unit,omitempty"`
	}
	// OOM says that this rank ran out of memory. The rank ends after it.
	OOM struct {
		Text  string `json:"text"`
		Where string `json:"where"` // build, prepare or step
	}
	// Error says that this rank failed. Class is an outcome of the catalogue, or empty. The rank ends after it.
	Error struct {
		Class string `json:"class,omitempty"`
		Text  string `json:"text"`
		// MemoryShort tells that hardly any memory of the device was left then, with which a suspicion that happens again is
		// an out-of-memory.
		MemoryShort bool `json:"memory_short,omitempty"`
	}
	// Alive is a sign of life. A rank that has sent one sends more, as often as Start asks.
	Alive struct {
		Where string `json:"where,omitempty"` // where its main thread stands, for people: file:line function
		Done  *int   `json:"done,omitempty"`  // steps of the current request that have ended; null: unknown
	}
)

// From the worker to every rank.
type (
	// Start begins the work: build the model.
	Start struct {
		Mode     string         `json:"mode"` // inference or training
		DType    string         `json:"dtype,omitempty"`
		Topology string         `json:"topology,omitempty"` // 1d, 2d or empty
		Config   map[string]any `json:"config,omitempty"`
		// AliveSeconds is how often at least a rank that gives signs of life has to; 0: nobody waits for them.
		AliveSeconds float64 `json:"alive_seconds,omitempty"`
	}
	// Point gives the evaluated sizes and data of the point to prepare: tokens, atoms, msa, data and the user's own.
	Point struct {
		Params map[string]any `json:"params"`
	}
	// Step asks for Count steps.
	Step struct {
		Phase string `json:"phase"` // warmup, timed or probe
		Count int    `json:"count"`
	}
	// ResetPeak starts a new Warm peak; it has no answer.
	ResetPeak struct{}
	// Stop ends the rank, which exits with 0.
	Stop struct{}
)
