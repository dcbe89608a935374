package evidence

import (
	"regexp"

	"cpbench/plan/catalogue"
)

// row is one text and what it means.
type row struct {
	outcome     catalogue.Outcome
	pattern     *regexp.Regexp
	source      string         // where the text was seen
	not         *regexp.Regexp // in the rest of the line: then it is something else
	note        string
	consequence bool // usually follows another rank's failure
	pressure    bool // means memory only after a sign that memory was short
	outside     bool // written by the scheduler, not by the program
}

func text(outcome catalogue.Outcome, pattern, source string) row {
	return row{outcome: outcome, pattern: regexp.MustCompile(`(?i)` + pattern), source: source}
}

func (r row) unless(pattern string) row {
	r.not = regexp.MustCompile(`(?i)` + pattern)
	return r
}

func (r row) afterAnother() row { r.consequence = true; return r }
func (r row) ofPressure() row   { r.pressure = true; return r }
func (r row) fromOutside() row  { r.outside = true; return r }
func (r row) noted(note string) row {
	r.note = note
	return r
}

// find returns the places where the row matches.
func (r *row) find(text string) [][]int {
	all := r.pattern.FindAllStringIndex(text, -1)
	if r.not == nil {
		return all
	}
	var kept [][]int
	for _, at := range all {
		if !r.not.MatchString(lineOf(text, at[1])) {
			kept = append(kept, at)
		}
	}
	return kept
}

// texts is the table. The sources are threads of the named repositories in which the text stands.
var texts = []row{
	text(catalogue.OOMDevice, `CUDA out of memory`, "pytorch#121702, fairseq#869, returnn#1466, pytorch#148642"),
	text(catalogue.OOMDevice, `torch\.(?:cuda\.)?OutOfMemoryError`, "pytorch#121702"),
	text(catalogue.OOMDevice, `CUDA error: out of memory`, "nnUNet#593, ComfyUI#12835"),
	text(catalogue.OOMDevice, `CUDA driver error: out of memory`, "deepmd-kit#3857"),
	text(catalogue.OOMDevice, `HIP out of memory`, "ROCm"),
	text(catalogue.OOMDevice, `XPU out of memory`, "Intel"),
	text(catalogue.OOMDevice, `MPS backend out of memory`, "Apple"),
	text(catalogue.OOMDevice, `UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY`, "Intel"),
	text(catalogue.OOMDevice, `cudaErrorMemoryAllocation`, "CUDA runtime, code 2"),
	text(catalogue.OOMDevice, `RESOURCE_EXHAUSTED: Out of memory`, "JAX, XLA"),
	text(catalogue.OOMDevice, `Out of memory while trying to allocate [\d.]+ ?(?:bytes|[KMGT]i?B)`, "JAX, XLA"),
	text(catalogue.OOMDevice, `Failed to allocate request for [\d.]+ ?[KMGT]?i?B`, "JAX, XLA"),

	text(catalogue.OOMComm, `Cuda failure (?:\d+ )?'out of memory'`, "nccl#1235, nccl#2363, ms-swift#9602"),
	text(catalogue.OOMComm, `Failed to CUDA (?:host )?calloc(?: async)? \d+ bytes`, "pytorch#152302"),

	text(catalogue.OOMSuspect, `CUBLAS_STATUS_ALLOC_FAILED`, "cublasCreate without room, or an assert on the device"),
	text(catalogue.OOMSuspect, `NVML_SUCCESS == r INTERNAL ASSERT FAILED`, "pytorch#112377, pytorch#197312, sd3.5#18"),
	text(catalogue.OOMSuspect, `CUDNN_STATUS_NOT_SUPPORTED`, "pytorch#81620"),
	text(catalogue.OOMSuspect, `CUDNN_STATUS_ALLOC_FAILED`, "pytorch#81620"),
	text(catalogue.OOMSuspect, `CUDNN_STATUS_INTERNAL_ERROR`, "pytorch#81620"),
	text(catalogue.OOMSuspect, `unable to find an engine`, "pytorch#81620"),
	text(catalogue.OOMSuspect, `!handles_\.at\(i\) INTERNAL ASSERT FAILED`, "torch-max-mem#45"),
	text(catalogue.ErrorKernel, `CUDA driver error: device not ready`, "pytorch#188008").ofPressure(),
	text(catalogue.ErrorKernel, `an illegal memory access`, "boltz#452, cuEquivariance#136").ofPressure(),

	text(catalogue.OOMHost, `DefaultCPUAllocator: can't allocate memory`, "PyTorch"),
	text(catalogue.OOMHost, `DefaultCPUAllocator: not enough memory`, "PyTorch"),
	text(catalogue.OOMHost, `\b(?:_Array)?MemoryError\b`, "Python, NumPy"),
	text(catalogue.OOMHost, `std::bad_alloc`, "C++"),
	// The dynamic linker says the same when it has no room for thread-local variables.
	text(catalogue.OOMHost, `Cannot allocate memory`, "ENOMEM").unless(`^ in static TLS block`),
	text(catalogue.OOMHost, `slurmstepd: error: Detected \d+ oom[_-]kill event`, "Slurm, both spellings").fromOutside(),
	text(catalogue.OOMHost, `srun: error: \S+: tasks? [\d,-]+: Out Of Memory`, "Slurm").fromOutside(),

	text(catalogue.TooBig, `out of resource: shared memory`, "cuEquivariance#244"),
	text(catalogue.TooBig, `nonzero is not supported for tensors with more than INT_MAX elements`, "int32 index"),
	text(catalogue.TooBig, `Invalid buffer size`, "MPS"),
	text(catalogue.TooBig, `CUDA error: invalid configuration argument`, "pytorch-lightning#20614"),

	text(catalogue.Error, `Tried to allocate more than 1EB memory`, "nccl#1284").noted(garbage),
	text(catalogue.Timeout, `Watchdog caught collective operation timeout: WorkNCCL\(`, "usually another rank's failure").afterAnother(),
	text(catalogue.ErrorCollective, `Detected mismatch between collectives on ranks`, "OpenDDE#23"),
}
