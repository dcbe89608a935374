package evidence

import (
	"math"
	"strings"
	"testing"

	"cpbench/plan/catalogue"

	"github.com/google/go-cmp/cmp"
)

// The true texts, as programs write them.
const (
	torchNew = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.95 GiB. GPU 0 has a total capacity of 14.57 GiB of which 1.58 GiB is free. " +
		"Including non-PyTorch memory, this process has 12.99 GiB memory in use. Of the allocated memory 12.50 GiB is allocated by PyTorch, and 350.00 MiB is reserved by PyTorch but unallocated. " +
		"If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation."
	torchOld = "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 7.93 GiB total capacity; 7.20 GiB already allocated; 17.50 MiB free; 7.30 GiB reserved in total by PyTorch)"
)

// TestTable has one case for each row of the table and for each spelling of its text.
func TestTable(t *testing.T) {
	t.Parallel()
	tests := []struct {
		outcome catalogue.Outcome
		text    string
	}{
		{catalogue.OOMDevice, torchNew},
		{catalogue.OOMDevice, torchOld},
		{catalogue.OOMDevice, "[rank3]: torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacty of 79.15 GiB of which 1.00 GiB is free."},
		{catalogue.OOMDevice, "torch.OutOfMemoryError"},
		{catalogue.OOMDevice, "RuntimeError: CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported at some other API call"},
		{catalogue.OOMDevice, "torch.AcceleratorError: CUDA error: out of memory\nSearch for `cudaErrorMemoryAllocation' in the manual"},
		{catalogue.OOMDevice, "RuntimeError: CUDA driver error: out of memory"},
		{catalogue.OOMDevice, "RuntimeError: The following operation failed in the TorchScript interpreter.\nTraceback of TorchScript (most recent call last):\nRuntimeError: CUDA out of memory. Tried to allocate 4.00 GiB"},
		{catalogue.OOMDevice, "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 256.00 MiB."},
		{catalogue.OOMDevice, "torch.OutOfMemoryError: XPU out of memory. Tried to allocate 8.00 GiB."},
		{catalogue.OOMDevice, "RuntimeError: MPS backend out of memory (MPS allocated: 8.66 GB, other allocations: 560.00 KB, max allowed: 9.07 GB)."},
		{catalogue.OOMDevice, "RuntimeError: level_zero backend failed with error: 39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)"},
		{catalogue.OOMDevice, "thrust: cudaErrorMemoryAllocation: out of memory"},
		{catalogue.OOMDevice, "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 24696061952 bytes."},
		{catalogue.OOMDevice, "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8.00GiB."},
		{catalogue.OOMDevice, "W external/xla/bfc_allocator.cc:501] Out of memory while trying to allocate 8.00GiB"},
		{catalogue.OOMDevice, "RESOURCE_EXHAUSTED: Failed to allocate request for 4.50GiB (4831838208B) on device ordinal 0"},

		{catalogue.OOMComm, "node1:77:91 [0] include/alloc.h:112 NCCL WARN Cuda failure 'out of memory'"},
		{catalogue.OOMComm, "node1:77:91 [0] transport.cc:33 NCCL WARN Cuda failure 2 'out of memory'"},
		{catalogue.OOMComm, "NCCL WARN Failed to CUDA calloc 10485760 bytes"},
		{catalogue.OOMComm, "NCCL WARN Failed to CUDA calloc async 608 bytes"},
		{catalogue.OOMComm, "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3690, unhandled cuda error, NCCL version 2.21.5\nncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nCuda failure 'out of memory'"},

		{catalogue.OOMSuspect, "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"},
		{catalogue.OOMSuspect, `RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED at "../c10/cuda/CUDACachingAllocator.cpp":838, please report a bug to PyTorch.`},
		{catalogue.OOMSuspect, "RuntimeError: cuDNN error: CUDNN_STATUS_NOT_SUPPORTED. This error may appear if you passed in a non-contiguous input."},
		{catalogue.OOMSuspect, "RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED"},
		{catalogue.OOMSuspect, "RuntimeError: cuDNN error: CUDNN_STATUS_INTERNAL_ERROR"},
		{catalogue.OOMSuspect, "RuntimeError: GET was unable to find an engine to execute this computation"},
		{catalogue.OOMSuspect, `RuntimeError: !handles_.at(i) INTERNAL ASSERT FAILED at "c10/cuda/CUDACachingAllocator.cpp":423`},
		{catalogue.ErrorKernel, "RuntimeError: CUDA driver error: device not ready"},
		{catalogue.ErrorKernel, "RuntimeError: CUDA error: an illegal memory access was encountered"},

		{catalogue.OOMHost, "RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 68719476736 bytes. Error code 12 (Cannot allocate memory)"},
		{catalogue.OOMHost, "RuntimeError: DefaultCPUAllocator: not enough memory: you tried to allocate 9663676416 bytes."},
		{catalogue.OOMHost, "Traceback (most recent call last):\n  File \"x.py\", line 1, in <module>\nMemoryError"},
		{catalogue.OOMHost, "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 745. GiB for an array with shape (100000, 1000000) and data type float64"},
		{catalogue.OOMHost, "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc"},
		{catalogue.OOMHost, "OSError: [Errno 12] Cannot allocate memory"},
		{catalogue.OOMHost, "slurmstepd: error: Detected 1 oom_kill event in StepId=77.batch. Some of the step tasks have been OOM Killed."},
		{catalogue.OOMHost, "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=77.0 cgroup. Some of your processes may have been killed by the cgroup out-of-memory handler."},
		{catalogue.OOMHost, "srun: error: node1: task 0: Out Of Memory"},

		{catalogue.TooBig, "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 98304, Hardware limit: 65536. Reducing block sizes or `num_stages` may help."},
		{catalogue.TooBig, "RuntimeError: nonzero is not supported for tensors with more than INT_MAX elements"},
		{catalogue.TooBig, "RuntimeError: Invalid buffer size: 72.25 GB"},
		{catalogue.TooBig, "RuntimeError: CUDA error: invalid configuration argument"},

		{catalogue.Error, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate more than 1EB memory."},
		{catalogue.Timeout, "[rank0]:[E ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600032 milliseconds before timing out."},
		{catalogue.ErrorCollective, "RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running collective: CollectiveFingerPrint("},
	}
	hit := map[*row]bool{}
	for _, tt := range tests {
		for i := range texts {
			if len(texts[i].find(tt.text)) > 0 {
				hit[&texts[i]] = true
			}
		}
		for name, text := range map[string]string{
			"alone": tt.text, "upper case": strings.ToUpper(tt.text), "in a log": "step 1 took 3 s\r\n" + tt.text + "\nterminated\n",
		} {
			f, ok := Classify(text)
			if !ok || f.Outcome != tt.outcome {
				t.Errorf("%s: %q is %q, want %q", name, text, f.Outcome, tt.outcome)
			}
			if f.Fragment == "" || !strings.Contains(text, f.Fragment) || len(f.Fragment) > quoteBytes {
				t.Errorf("%s: fragment %q", name, f.Fragment)
			}
		}
	}
	for i := range texts {
		if !hit[&texts[i]] {
			t.Errorf("no case has the text %s", texts[i].pattern)
		}
		if texts[i].source == "" {
			t.Errorf("%s has no source", texts[i].pattern)
		}
	}
}

// What looks similar and explains nothing.
func TestNoMatch(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"",
		"ncclUnhandledCudaError: Call to CUDA function failed.",
		"RuntimeError: NCCL error: unhandled cuda error",
		"RuntimeError: CUDA error: device-side assert triggered",
		"OSError: /lib/libgomp.so.1: cannot allocate memory in static TLS block",
		"torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n  exitcode  : -9 (pid: 12)",
		"peak memory 77 GiB, out of 80 GiB memory",
		"slurmstepd: error: *** JOB 7 ON node1 CANCELLED AT 2026-01-01 DUE TO TIME LIMIT ***",
		"srun: error: node1: task 0: Killed",
		"grpc: RESOURCE_EXHAUSTED: quota",
		"FileNotFoundError: MemoryErrors.txt",
		// It recovered, and then something else went wrong.
		torchNew + "\nretrying with a smaller batch\nTraceback (most recent call last):\nValueError: shapes do not match",
		"[rank1]: " + torchNew + "\n[rank1]: RuntimeError: the second try went wrong",
	} {
		if f, ok := Classify(text); ok {
			t.Errorf("%q is taken for %s by %q", text, f.Outcome, f.Fragment)
		}
	}
}

// Which of several texts counts.
func TestLastExceptionFirst(t *testing.T) {
	t.Parallel()
	const watchdog = "[rank0]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5)"
	const illegal = "RuntimeError: CUDA error: an illegal memory access was encountered"
	tests := []struct {
		name, text string
		outcome    catalogue.Outcome
		fragment   string
		raised     bool
	}{
		{"the last", "RuntimeError: Invalid buffer size: 3 GB\n" + torchOld, catalogue.OOMDevice, torchOld, true},
		{"the last, the other way round", torchOld + "\nRuntimeError: Invalid buffer size: 3 GB", catalogue.TooBig, "RuntimeError: Invalid buffer size: 3 GB", true},
		{"a watchdog after it", torchOld + "\n" + watchdog, catalogue.OOMDevice, torchOld, true},
		{"a watchdog before it", watchdog + "\n" + torchOld, catalogue.OOMDevice, torchOld, true},
		{"a warning, nothing else", "| WARNING: ran out of memory: CUDA out of memory, skipping batch", catalogue.OOMDevice, "| WARNING: ran out of memory: CUDA out of memory, skipping batch", false},
		{"the launcher after it", torchOld + "\ntorch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n====", catalogue.OOMDevice, torchOld, true},
		{"a chain", torchOld + "\n\nDuring handling of the above exception, another exception occurred:\n\nTraceback:\nRuntimeError: prediction failed", catalogue.OOMDevice, torchOld, true},
		{"another rank", "[rank1]: " + torchOld + "\n[rank0]: RuntimeError: shapes differ", catalogue.OOMDevice, "[rank1]: " + torchOld, true},
		{"a peer that notices", torchOld + "\nRuntimeError: [1] Connection closed by peer", catalogue.OOMDevice, torchOld, true},
		{"the scheduler saw it", "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0.\nRuntimeError: DataLoader worker is gone", catalogue.OOMHost, "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0.", false},
		{"illegal access, memory short before", "WARNING: CUDA out of memory, trying again\n" + illegal, catalogue.OOMSuspect, illegal, true},
		{"illegal access, memory short afterwards", illegal + "\nRuntimeError: cuDNN error: CUDNN_STATUS_INTERNAL_ERROR", catalogue.ErrorKernel, illegal, true},
	}
	for _, tt := range tests {
		f, ok := Classify(tt.text)
		if !ok || f.Outcome != tt.outcome || f.Fragment != tt.fragment || f.Raised != tt.raised {
			t.Errorf("%s: %v, %+v", tt.name, ok, f)
		}
	}
}

func TestLongLines(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("ä", 5000) + "CUDA out of memory" + strings.Repeat("ö", 5000)
	f, ok := Classify(text)
	if !ok || !strings.HasPrefix(f.Fragment, "CUDA out of memoryö") || len(f.Fragment) > quoteBytes || !strings.HasSuffix(f.Fragment, "ö") {
		t.Errorf("%v, %q", ok, f.Fragment)
	}
}

func TestKilled(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"torch.distributed.elastic.multiprocessing.errors.ChildFailedError\n  exitcode  : -9 (pid: 4021)",
		"Signal 9 (SIGKILL) received by PID 4021", "RuntimeError: DataLoader worker (pid 12) is killed by signal: Killed.",
		"srun: error: node1: task 0: Killed", "./run.sh: line 3: 12345 Killed                  python x.py", "Killed",
	} {
		if fragment, ok := Killed("one\n" + text + "\ntwo"); !ok || !strings.Contains(text, fragment) || fragment == "" {
			t.Errorf("%q: %q, %v", text, fragment, ok)
		}
	}
	for _, text := range []string{"", "exitcode : -99", "exitcode : 1", "killed 3 birds with 1 stone", "the job was killed by hand", "SIGTERM"} {
		if fragment, ok := Killed(text); ok {
			t.Errorf("%q: %q", text, fragment)
		}
	}
}

const (
	mib = 1 << 20
	gib = 1 << 30
)

func TestMemory(t *testing.T) {
	t.Parallel()
	size := func(v float64) *int64 { n := int64(v); return &n }
	most := int64(math.MaxInt64)
	tests := []struct {
		name, text string
		outcome    catalogue.Outcome
		note       string
		memory     *Memory
	}{
		{
			"new wording", torchNew, catalogue.OOMDevice, "",
			&Memory{Tried: size(1.95 * gib), Total: size(14.57 * gib), Free: size(1.58 * gib), Allocated: size(12.5 * gib), Reserved: size(12.5*gib + 350*mib)},
		},
		{
			"old wording", torchOld, catalogue.OOMDevice, "",
			&Memory{Tried: size(20 * mib), Total: size(7.93 * gib), Free: size(17.5 * mib), Allocated: size(7.2 * gib), Reserved: size(7.3 * gib)},
		},
		{"bytes of XLA", "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 24696061952 bytes.", catalogue.OOMDevice, "", &Memory{Tried: size(24696061952)}},
		{"no blank", "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8.00GiB.", catalogue.OOMDevice, "", &Memory{Tried: size(8 * gib)}},
		{"a request of XLA", "Failed to allocate request for 4.50GiB (4831838208B) on device", catalogue.OOMDevice, "", &Memory{Tried: size(4.5 * gib)}},
		{"no numbers", "CUDA error: out of memory\n", catalogue.OOMDevice, "", nil},
		{"garbage", "CUDA out of memory. Tried to allocate 2097152.00 GiB. GPU 0", catalogue.Error, garbage, &Memory{Tried: size(1 << 51)}},
		{"garbage beyond numbers", "CUDA out of memory. Tried to allocate " + strings.Repeat("9", 300) + " GiB", catalogue.Error, garbage, &Memory{Tried: &most}},
		{"more than 1EB", "CUDA out of memory. Tried to allocate more than 1EB memory.", catalogue.Error, garbage, nil},
		{
			"free", "CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 10.00 GiB of which 2.00 GiB is free.", catalogue.OOMSuspect, notAboveFree,
			&Memory{Tried: size(gib), Total: size(10 * gib), Free: size(2 * gib)},
		},
		{
			"fragmented", "CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 10.00 GiB of which 2.00 GiB is free. Of the allocated memory 5.00 GiB is allocated by PyTorch, with 1.00 GiB allocated in private pools (e.g., CUDA Graphs), and 3.00 GiB is reserved by PyTorch but unallocated.",
			catalogue.OOMDevice, fragmentation, &Memory{Tried: size(gib), Total: size(10 * gib), Free: size(2 * gib), Allocated: size(5 * gib), Reserved: size(8 * gib)},
		},
		{
			"limit of the allocator", "CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 10.00 GiB of which 7.00 GiB is free. Process 7 has 3.00 GiB memory in use. 3.00 GiB allowed; Of the allocated memory 2.25 GiB is allocated by PyTorch, and 256.00 MiB is reserved by PyTorch but unallocated.",
			catalogue.OOMDevice, "", &Memory{Tried: size(gib), Total: size(10 * gib), Free: size(7 * gib), Allowed: size(3 * gib), Allocated: size(2.25 * gib), Reserved: size(2.5 * gib)},
		},
		{
			"limit of the allocator, old wording", "CUDA out of memory. Tried to allocate 1.00 GiB (GPU 0; 10.00 GiB total capacity; 2.25 GiB already allocated; 7.00 GiB free; 3.00 GiB allowed; 2.50 GiB reserved in total by PyTorch)",
			catalogue.OOMDevice, "", &Memory{Tried: size(gib), Total: size(10 * gib), Free: size(7 * gib), Allowed: size(3 * gib), Allocated: size(2.25 * gib), Reserved: size(2.5 * gib)},
		},
		{
			"limit of the allocator, by rounded numbers", "CUDA out of memory. Tried to allocate 2.00 MiB. GPU 0 has a total capacity of 10.00 GiB of which 7.00 GiB is free. 3.00 GiB allowed; Of the allocated memory 2.99 GiB is allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated.",
			catalogue.OOMDevice, "", &Memory{Tried: size(2 * mib), Total: size(10 * gib), Free: size(7 * gib), Allowed: size(3 * gib), Allocated: size(2.99 * gib), Reserved: size(2.99 * gib)},
		},
		{
			"below the limit of the allocator", "CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 10.00 GiB of which 7.00 GiB is free. 5.00 GiB allowed; Of the allocated memory 2.25 GiB is allocated by PyTorch, and 256.00 MiB is reserved by PyTorch but unallocated.",
			catalogue.OOMSuspect, notAboveFree, &Memory{Tried: size(gib), Total: size(10 * gib), Free: size(7 * gib), Allowed: size(5 * gib), Allocated: size(2.25 * gib), Reserved: size(2.5 * gib)},
		},
		{
			"single tensor", "CUDA out of memory. Tried to allocate 100.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 70.00 GiB is free.", catalogue.OOMDevice, singleTensor,
			&Memory{Tried: size(100 * gib), Total: size(79.15 * gib), Free: size(70 * gib)},
		},
		{"host", "RuntimeError: DefaultCPUAllocator: not enough memory: you tried to allocate 9663676416 bytes.", catalogue.OOMHost, "", &Memory{Tried: size(9663676416)}},
		{"garbage on the host", "DefaultCPUAllocator: can't allocate memory: you tried to allocate 9223372036854775807 bytes.", catalogue.Error, garbage, &Memory{Tried: &most}},
	}
	for _, tt := range tests {
		f, ok := Classify(tt.text)
		if !ok || f.Outcome != tt.outcome || f.Note != tt.note {
			t.Errorf("%s: %v, %+v", tt.name, ok, f)
		}
		if diff := cmp.Diff(tt.memory, f.Memory); diff != "" {
			t.Errorf("%s: memory (-want +got):\n%s", tt.name, diff)
		}
	}
}

// What a rank says of itself is corrected by its numbers alone; and only an allocator is believed when it says the same
// twice.
func TestJudgeAndRepeated(t *testing.T) {
	t.Parallel()
	const free = "CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 10.00 GiB of which 2.00 GiB is free."
	for name, tt := range map[string]struct {
		text        string
		first, then catalogue.Outcome
	}{
		"words":    {"out of memory: my own allocator says so", catalogue.OOMDevice, catalogue.OOMDevice},
		"numbers":  {torchNew, catalogue.OOMDevice, catalogue.OOMDevice},
		"garbage":  {"CUDA out of memory. Tried to allocate 2097152.00 GiB. GPU 0", catalogue.Error, catalogue.Error},
		"free":     {free, catalogue.OOMSuspect, catalogue.OOMDevice},
		"the host": {"DefaultCPUAllocator: can't allocate memory: you tried to allocate 1073741824 bytes. Error code 12", catalogue.OOMDevice, catalogue.OOMDevice},
	} {
		first := Judge(tt.text)
		if then := Repeated(first.Outcome, first.Fragment); first.Outcome != tt.first || then != tt.then {
			t.Errorf("%s: %s, then %s", name, first.Outcome, then)
		}
	}
	if got := Repeated(catalogue.OOMSuspect, "CUBLAS_STATUS_ALLOC_FAILED"); got != catalogue.OOMSuspect {
		t.Errorf("a text without numbers: %s", got)
	}
}

// FuzzClassify: nothing panics, and what is quoted stands in the text and holds what decided.
func FuzzClassify(f *testing.F) {
	f.Add(torchNew)
	f.Add(torchOld)
	f.Add("[rank1]: MemoryError\n[rank0]: ValueError")
	f.Add("\xffCUDA out of memory\xc3\x28 Tried to allocate 1.2.3 GiB")
	f.Add("out of memory while trying to allocate 9e9 bytes; 1 free; . total capacity of . GiB")
	f.Fuzz(func(t *testing.T, text string) {
		found, ok := Classify(text)
		if !ok {
			if found != (Finding{}) {
				t.Errorf("nothing was found, but %+v", found)
			}
			return
		}
		if !strings.Contains(text, found.Fragment) || found.Fragment == "" || !found.Outcome.Known() || found.Outcome.Fits() {
			t.Errorf("%+v", found)
		}
		if m := found.Memory; m != nil {
			for _, v := range []*int64{m.Tried, m.Total, m.Free, m.Allowed, m.Allocated, m.Reserved} {
				if v != nil && *v < 0 {
					t.Errorf("a negative amount: %+v", m)
				}
			}
		}
		if fragment, ok := Killed(text); ok && !strings.Contains(text, fragment) {
			t.Errorf("killed: %q", fragment)
		}
	})
}
