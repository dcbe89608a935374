// Package catalogue holds the two closed lists that the spec, the worker, the results and the tables share:
// the outcomes of an execution and the metrics it may report. Use it wherever one of their names is needed;
// nothing else may spell them.
package catalogue

// Outcome is what the worker says about one attempt at a (point, repeat). The verdicts Pending to Missing are
// added by collect for pairs without a result.
type Outcome string

// The outcomes. Only OK means that a size fits; only OOMDevice, OOMComm and OOMHost mean that it does not.
const (
	OK              Outcome = "ok"
	OOMDevice       Outcome = "oom_device"
	OOMComm         Outcome = "oom_comm"
	OOMHost         Outcome = "oom_host"
	OOMSuspect      Outcome = "oom_suspect"
	TooBig          Outcome = "too_big"
	ErrorKernel     Outcome = "error_kernel"
	ErrorCollective Outcome = "error_collective"
	Slow            Outcome = "slow"
	Timeout         Outcome = "timeout"
	Hang            Outcome = "hang"
	WrongOutput     Outcome = "wrong_output"
	NoArtifact      Outcome = "no_artifact"
	Skipped         Outcome = "skipped"
	Invalid         Outcome = "invalid"
	Error           Outcome = "error"
	DirtyGPU        Outcome = "dirty_gpu"
	Infra           Outcome = "infra"
	Cancelled       Outcome = "cancelled"

	// The verdicts that only collect gives, to pairs without a result.
	Pending Outcome = "pending"
	Running Outcome = "running"
	Lost    Outcome = "lost"
	Missing Outcome = "missing"
)

// Meaning describes one outcome for people.
type Meaning struct {
	Outcome Outcome
	Help    string
}

// Outcomes lists every outcome that a result may carry, in the order of the documentation.
func Outcomes() []Meaning {
	return []Meaning{
		{OK, "every rank finished every step within its limits"},
		{OOMDevice, "the device ran out of memory: this size does not fit"},
		{OOMComm, "the communication library found no memory: this size does not fit"},
		{OOMHost, "the host ran out of memory: the program says so, or a counter of the kernel or the scheduler shows that it was killed for it; this size does not fit"},
		{OOMSuspect, "a text that only sometimes means memory; confirmed once in a fresh process"},
		{TooBig, "a shape or kernel limit that is not memory"},
		{ErrorKernel, "a device kernel failed while memory was free"},
		{ErrorCollective, "the ranks disagreed about a collective operation"},
		{Slow, "ran, but took longer than the wall budget; does not count as fitting"},
		{Timeout, "a time limit passed"},
		{Hang, "a rank gave no sign of life, or no step ended although all ranks were alive"},
		{WrongOutput, "the output was not finite or failed its check"},
		{NoArtifact, "ended with 0 but the declared file is not there"},
		{Skipped, "not run for a stated reason: illegal for the mesh, or above the bracket of the search"},
		{Invalid, "measured under conditions that make the number worthless"},
		{Error, "an unexplained failure"},
		{DirtyGPU, "the GPU was not empty at the start"},
		{Infra, "the machine or the scheduler failed, not the program"},
		{Cancelled, "stopped from outside before it finished"},
	}
}

// Known reports whether o is an outcome that a result may carry. Unknown ones are printed as text and never
// taken for OK.
func (o Outcome) Known() bool {
	for _, m := range Outcomes() {
		if m.Outcome == o {
			return true
		}
	}
	return false
}

// Fits reports whether o shows that a size fits.
func (o Outcome) Fits() bool { return o == OK }

// OutOfMemory reports whether o shows that a size does not fit.
func (o Outcome) OutOfMemory() bool { return o == OOMDevice || o == OOMComm || o == OOMHost }

// Done reports whether a pair whose newest outcome is o needs no further attempt.
func (o Outcome) Done() bool { return o != Cancelled && o != Infra && o != DirtyGPU }

// Failed reports whether o is a failure that another attempt may well not repeat. A size that does not fit, a limit
// of the program and a stated skip are answers, not failures.
func (o Outcome) Failed() bool {
	switch o {
	case OK, OOMDevice, OOMComm, OOMHost, TooBig, Slow, Skipped, Pending, Running, Lost, Missing:
		return false
	case OOMSuspect, ErrorKernel, ErrorCollective, Timeout, Hang, WrongOutput, NoArtifact, Invalid, Error, DirtyGPU, Infra, Cancelled:
		return true
	}
	return true
}
