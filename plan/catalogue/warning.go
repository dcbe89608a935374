package catalogue

// Code names a doubt about a number. Warnings are data: they stand in the result beside what they qualify.
type Code string

// The closed list of warning codes.
const (
	Unsteady       Code = "unsteady"        // step times had not settled at the end of the warm-up
	Drift          Code = "drift"           // the two halves of the timed steps differ by more than 2 %
	Autocorrelated Code = "autocorrelated"  // successive timed steps depend on one another
	NSmall         Code = "n_small"         // too few samples for an interval
	FewCPUs        Code = "few_cpus"        // fewer CPUs than the point asked for
	Unconfirmed    Code = "unconfirmed"     // the largest fit was not confirmed in a fresh process
	Unverified     Code = "unverified"      // a size below the largest fit failed for another reason than memory
	Unstable       Code = "unstable"        // the largest fit failed at least one of its confirmations
	NonMonotone    Code = "non_monotone"    // a smaller size did not fit although a larger one did
	ReferenceModel Code = "reference_model" // measured on the built-in reference model, not on a real one
	LateKill       Code = "late_kill"       // processes had to be killed after they ignored TERM
	Throttled      Code = "throttled"       // a GPU was slowed down for heat, for its supply or by its hardware
	PowerCapped    Code = "power_capped"    // a GPU ran at its power limit, which is normal under load
	DevicePeak     Code = "device_peak"     // the peak is what was in use on a GPU, not what the program has allocated
	ECCErrors      Code = "ecc_errors"      // a GPU corrected or met errors in its memory
	NoTelemetry    Code = "no_telemetry"    // readings of the GPUs are missing, wholly or in part
	Interrupted    Code = "interrupted"     // cut short by a signal or a time limit; the numbers are partial
	ArrayDiffers   Code = "array_differs"   // the array that ran is not the one that was planned
	RepeatsDiffer  Code = "repeats_differ"  // the repeats of one point ended differently
	FigureMissing  Code = "figure_missing"  // a figure of the program's own was not found in every run
	MemoryPressure Code = "memory_pressure" // ended well, but memory ran out on the way: the time may be that of a second try
	ClocksUnlocked Code = "clocks_unlocked" // the GPU clocks were not locked, or varied although they were declared locked
	SharedNode     Code = "shared_node"     // others may have computed on the node meanwhile
	EnvDiffers     Code = "env_differs"     // the program saw another value of a variable than the sweep sets
	CutShort       Code = "cut_short"       // the text was longer than the result may hold
)
