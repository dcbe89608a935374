package gpu

// The commands of a Request. A helper answers each request with one line that carries its id, in order, and sends
// lines with a sample and the id of the request that asked for samples between them. It ends when its standard input
// does. One object of JSON stands on a line, on standard input and output.
const (
	CmdIdentify  = "identify"  // answered by Devices
	CmdRead      = "read"      // answered by Reading of the kind Edge
	CmdProcesses = "processes" // answered by Processes
	CmdSample    = "sample"    // begin the background, HZ readings of the given kind a second
	CmdStop      = "stop"      // end it
)

// MaxHZ is the fastest background that a helper takes. Faster readings disturb what is measured.
const MaxHZ = 5

// Request is a line to the helper.
type Request struct {
	ID   int     `json:"id"`
	Cmd  string  `json:"cmd"`
	HZ   float64 `json:"hz,omitempty"`   // with CmdSample
	Kind Kind    `json:"kind,omitempty"` // with CmdSample; empty is Sample
}

// Answer is a line from the helper. Error says why the request could not be answered at all.
type Answer struct {
	ID        int       `json:"id"`
	Error     string    `json:"error,omitempty"`
	Devices   []Device  `json:"devices,omitempty"`
	Reading   *Reading  `json:"reading,omitempty"`
	Processes []Process `json:"processes,omitempty"`
	Sample    bool      `json:"sample,omitempty"` // Reading belongs to the background
}
