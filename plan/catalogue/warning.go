package catalogue

// Code names a doubt about a number. Warnings are data: they stand in the result beside what they qualify.
type Code string

// The closed list of warning codes.
const (
	Unsteady       Code = "unsteady"        // step times had not settled at the end of the warm-up
	Drift          Code = "drift"           // the timed steps become slower or faster: by more than 2 %, or by less but not by chance
	Autocorrelated Code = "autocorrelated"  // successive timed steps depend on one another
	NSmall         Code = "n_small"         // too few samples for an interval
	FewCPUs        Code = "few_cpus"        // fewer CPUs than the point asked for
	Unconfirmed    Code = "unconfirmed"     // the largest fit was not confirmed in a fresh process
	Unverified     Code = "unverified"      // a size below the largest fit failed for another reason than memory
	Unstable       Code = "unstable"        // the largest fit failed at least one of its confirmations
	NonMonotone    Code = "non_monotone"    // a smaller size did not fit although a larger one did
	HostMemory     Code = "host_memory"     // the largest fit is limited by the memory of the host, not of the device
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
	DeclaredAmiss  Code = "declared_amiss"  // a fact that the sweep declares is not what the program tells
	NotInterleaved Code = "not_interleaved" // all executions of one side of a comparison, or most, came before those of the other
	Trend          Code = "trend"           // a metric only rises, or only falls, from one repeat or start to the next
	CutShort       Code = "cut_short"       // the text was longer than the result may hold

	ClientSuspect    Code = "client_suspect"    // the load client may have added to the times itself
	ClientBound      Code = "client_bound"      // the load client was too busy: the times are its own
	CacheUnverified  Code = "cache_unverified"  // neither answers nor counters tell what came from the cache
	Unaudited        Code = "unaudited"         // the server counts nothing by which foreign traffic would show
	IdleUnverified   Code = "idle_unverified"   // the server has no gauges that show that it was idle
	Retokenized      Code = "retokenized"       // a count is that of the text, which need not equal the tokens generated
	PromptMismatch   Code = "prompt_mismatch"   // tokenizer and answer count a prompt differently
	Preempted        Code = "preempted"         // the server interrupted requests for others
	Speculation      Code = "speculation"       // counters of speculative decoding contradict one another, or are lifetime averages
	ScheduleDegraded Code = "schedule_degraded" // requests started later than intended
	PromptsRepeat    Code = "prompts_repeat"    // streams of a group sent the same prompt
	ConnectedLate    Code = "connected_late"    // connections were opened behind the barrier: that time is part of TTFT
	NotLonger        Code = "not_longer"        // the long request of the mixed case is no longer than the short ones
	ProxySet         Code = "proxy_set"         // variables name a proxy, which is not used
	ServerRestarted  Code = "server_restarted"  // repeats of a row were measured on several processes of a server
	Preflight        Code = "preflight"         // the look at the server before its first group left a doubt
	TelemetryErrors  Code = "telemetry_errors"  // samples of the hosts around the group failed, wholly or in part
	EnergyCoarse     Code = "energy_coarse"     // the energy rests on few readings of power
	NullTTFT         Code = "null_ttft"         // successful streams without a first text are in no mean
	Coalesced        Code = "coalesced"         // text came in too few reads, or in too short a time, for a rate: decode and TPOT may be far off
	GoodputUnknown   Code = "goodput_unknown"   // tokens that nobody has counted leave open whether requests kept the limits

	NoDone        Code = "no_done"                    // a stream ended without [DONE]
	Unterminated  Code = "unterminated_tail"          // the last frame of a stream had no blank line behind it
	Undrained     Code = "undrained"                  // a server did not end the body after [DONE]
	UncleanEnd    Code = "unclean_end"                // an exchange broke off after [DONE]
	ReasonedAbove Code = "reasoning_above_completion" // a server counts more reasoning tokens than tokens in all
	ShortOfTarget Code = "short_of_target"            // fewer tokens came than a fixed-length test wants
	Retried       Code = "retried"                    // the transport went through more than one connection by itself
	NoAnswer      Code = "no_answer"                  // a server generated nothing
	UsageFell     Code = "usage_fell"                 // a running count of tokens fell
)
