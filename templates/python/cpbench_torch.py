"""A rank of a PyTorch model under cpbench: the Python side of docs/protocol.md, in one file.

    python3 -m cpbench_torch my_hooks [key=value ...]        # or a path: my_hooks.py

`cpbench worker` starts it, once for each rank; it cannot run alone. It needs Python 3.8 and
torch 1.13 or newer, nothing else. In a sweep:

    workload:
      command: [python3, -m, cpbench_torch, my_hooks, channels=64]
      files: [my_hooks.py]            # frozen into the run; that copy is the one that is imported

Your module keeps three functions:

    build_model(mesh, device)
        the model, once for each process
    build_batch(N, n_atoms, S, mesh, device)
        the input of one step, as THIS RANK'S SHARD, before every step. N, n_atoms and S are
        point.tokens, point.atoms and point.msa of the sweep, None where absent
    run_step(model, batch, train)
        one forward; with train: gradients zeroed, forward, backward, exchange of the gradients,
        optimizer step

Optional functions:

    padded(N, mesh)
        the N that really runs where the mesh needs even shards; may raise Skip(reason)
    sizes(batch)
        {"tokens": ..., "atoms": ..., "msa": ...} of a real input; what is left out is as requested
    check(output)
        returns False or raises WrongOutput(reason) if the output of run_step is wrong. Without it
        every number in the tensors of the output has to be finite. Runs after each step, outside
        of its time and of the memory peaks
    compiled
        True, or a function that returns it, if the model is compiled for the sizes that it meets:
        then a search starts new processes for each size. What torch.compile has returned from
        build_model is recognised without it

What this module offers to them:

    point              dict with all of workload.point: data, msa, names of your own. It is filled
                       before build_batch, not before build_model
    job                dict with mode ("inference" or "training"), dtype, topology of the sweep
    dtype()            the torch dtype of workload.dtype. Where a sweep gives one it has to be asked
                       for, or the row would claim what did not happen
    option(name, d)    the value of name=value on the command line, of the type of d, the default.
                       An option that nobody asks for is an error. Own options: device=cpu|cuda,
                       memory=20GiB (a limit for this rank), seed=1, inference_mode=yes
    record(name, v, unit)
                       a figure of your own. "seconds" add up within a step, and the mean over the
                       steps is told; of other units the last value counts
    phase(name)        a context manager: the time inside, on the device's own clock, is recorded as
                       name_seconds. "exchange" is for communication, for the table's readout
    declare(name, v)   while being imported only: a text that goes into every result, such as the
                       commit of the model or the compile mode
    alive()            a sign of life at once, beside those that this module gives by itself
    Skip, WrongOutput  exceptions: this size is illegal for the mesh; the output is wrong

The mesh is torch's DeviceMesh where torch has init_device_mesh (2.2), else a stand-in. Both have
shape, ndim, size(), size(d), get_coordinate(), get_local_rank(d) and get_group(d). 1-D: shape (P,).
2-D: shape (q, q) with q * q = P; rank r * q + c is at [r, c], get_group(0) holds the ranks of
column c and get_group(1) those of row r. A process group exists with one rank, too, so that the
baseline runs the same code.

What is measured, and how:

- Before each step the old batch and output are dropped, the batch is built, the ranks meet in a
  barrier over the mesh's own groups (one more group would cost device memory), and the device is
  synchronised. The monotonic clock is read then, and after another synchronisation behind the
  step. On CUDA device_seconds is the time between two events.
- Inference runs under torch.no_grad(), or torch.inference_mode() with inference_mode=yes. A model
  that is an nn.Module is put into train() or eval() mode. All ranks have the same seed when
  build_model is called.
- Memory on CUDA: max_memory_allocated, max_memory_reserved, and the used bytes of the whole device
  as sampled at the end of each step. Cold is since the process started, warm since the last
  reset_peak.
- Memory on a CPU: "allocated" is the growth of the resident set (VmHWM) since just before
  build_model, without the pages of libraries (RssFile). There is no better peak. Reserved and
  device are null, as is warm where the kernel does not let the mark be put back.
- memory=SIZE is a real limit, told as device.total_bytes. On CUDA it is the allocator's fraction.
  On a CPU it is RLIMIT_AS: the address space just before build_model, plus SIZE. malloc is then
  made to give every freed tensor back at once, which costs time.
- An exception ends the process at once (os._exit), after one line to the worker: `oom`, or `error`
  with a class where the text shows one. Nothing is caught and carried on, and no collective is
  entered again.
- A thread says `alive` every few seconds, and where the main thread stands: the innermost frame,
  and the innermost one of your module. It proves no more than that the process lives and the
  interpreter runs; that a step never ends is for the worker to find. An extension that holds the
  interpreter's lock for longer than workload.heartbeat looks like a rank that hangs.
- Settings such as TF32 are told before the model is built: set them while being imported.

Exit codes: 0 after stop, 1 error, 2 wrong arguments or environment, 3 the worker went away,
12 out of memory.
"""

import contextlib
import ctypes
import dataclasses
import faulthandler
import gc
import hashlib
import importlib
import importlib.util
import inspect
import json
import math
import os
import queue
import random
import re
import socket
import sys
import threading
import time
import traceback
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

import torch
import torch.distributed as dist

PROTOCOL = 1
DONE, FAILED, USAGE, LOST, OUT_OF_MEMORY = 0, 1, 2, 3, 12  # exit codes

ALIVE_EVERY = 5.0  # seconds between two signs of life, if the worker asks for no more
TEXT_LIMIT = 2000  # characters of an explanation; the worker keeps fewer
SHORT = 0.02  # share of a GPU's memory below which a doubtful failure is taken for one of memory
CHECK_CHUNK = 1 << 22  # numbers looked at together, so that the check needs hardly any memory

point: Dict[str, Any] = {}
job: Dict[str, str] = {}


class Skip(Exception):
    """This size is illegal for the mesh. Say what would be legal."""


class WrongOutput(Exception):
    """The output of a step is wrong."""


class Usage(Exception):
    """Wrong arguments or environment."""


# --- What the hooks may call --------------------------------------------------------------------

_given: Dict[str, str] = {}  # key=value of the command line
_asked: Dict[str, bool] = {}  # options and "dtype", once somebody asked
_declared: Dict[str, str] = {}
_pulse: Optional["Pulse"] = None  # from start on


_TRUTH = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}


def option(name: str, default: Any) -> Any:
    """Returns name=value of the command line as a value of default's type (a text if default is
    None)."""
    _asked[name] = True
    text = _given.get(name)
    if text is None:
        return default
    kind = type(default)
    try:
        if kind is bool:
            return _TRUTH[text.lower()]
        return kind(text) if kind in (int, float) else text
    except (KeyError, ValueError):
        want = "yes or no" if kind is bool else "a whole number" if kind is int else "a number"
        raise Usage("option %s=%s: want %s" % (name, text, want)) from None


_DTYPES = {
    "": torch.float32,
    "fp32": torch.float32,
    "float32": torch.float32,
    "float": torch.float32,
    "tf32": torch.float32,
    "bf16": torch.bfloat16,
    "bfloat16": torch.bfloat16,
    "fp16": torch.float16,
    "float16": torch.float16,
    "half": torch.float16,
    "fp64": torch.float64,
    "float64": torch.float64,
    "double": torch.float64,
}


def dtype() -> torch.dtype:
    """Returns the dtype of workload.dtype; float32 where the sweep names none."""
    _asked["dtype"] = True
    name = job.get("dtype", "")
    if name not in _DTYPES:
        raise Usage(
            "workload.dtype %r: cpbench_torch knows %s" % (name, ", ".join(n for n in _DTYPES if n))
        )
    return _DTYPES[name]


def record(name: str, value: float, unit: str = "") -> None:
    """Tells a figure of the program's own. Seconds add up within a step; of other units the last
    value counts."""
    _figures.add(name, float(value), unit)


@contextlib.contextmanager
def phase(name: str) -> Iterator[None]:
    """Measures the time inside, without synchronising: on CUDA between two events on the current
    stream."""
    begin = _figures.mark()
    try:
        yield
    finally:
        _figures.spans.append((name + "_seconds", begin, _figures.mark()))


def declare(name: str, value: Any) -> None:
    """Puts a fact about the program into every result. Call it when the hooks are imported."""
    _declared[str(name)] = str(value)


def alive() -> None:
    """Gives a sign of life now."""
    if _pulse is not None:
        _pulse.sign()


class Figures:
    """The figures of one request of steps."""

    def __init__(self, cuda: bool) -> None:
        self.cuda = cuda
        self.spans: List[Tuple[str, Any, Any]] = []  # of phase, not yet read
        self.last: Dict[str, Tuple[float, str]] = {}
        self.sums: Dict[str, float] = {}

    def mark(self) -> Any:
        if not self.cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def add(self, name: str, value: float, unit: str) -> None:
        if unit == "seconds":
            self.sums[name] = self.sums.get(name, 0.0) + value
        else:
            self.last[name] = (value, unit)

    def settle(self) -> None:
        """Reads the phases of a step. The device has been synchronised."""
        for name, begin, end in self.spans:
            self.add(name, begin.elapsed_time(end) / 1e3 if self.cuda else end - begin, "seconds")
        self.spans.clear()

    def take(self, steps: int) -> List[Dict[str, Any]]:
        """Returns what to tell after so many steps, and starts anew. JSON has no text for NaN."""
        told = [{"name": n, "value": v / steps, "unit": "seconds"} for n, v in self.sums.items()]
        told += [{"name": n, "value": v, "unit": u} for n, (v, u) in self.last.items()]
        self.sums.clear()
        self.last.clear()
        return [f for f in told if math.isfinite(f["value"])]


_figures = Figures(cuda=False)  # of the real device once it is known


# --- The line to the worker ---------------------------------------------------------------------


class Link:
    """The connection to the worker. A thread reads it, so that its end is seen during the longest
    step."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.inbox: "queue.Queue[Dict[str, Any]]" = queue.Queue()
        self.lock = threading.Lock()
        self.socket = socket.create_connection((host.strip("[]"), int(port)), timeout=60)
        self.socket.settimeout(None)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            with self.socket.makefile("r", encoding="utf-8", newline="\n") as lines:
                for line in lines:
                    message = json.loads(line)
                    self.inbox.put(message)
                    if message.get("type") == "stop":
                        return
            reason = "it closed the connection"
        except (OSError, ValueError) as err:
            reason = str(err)
        sys.stderr.write("cpbench_torch: the worker went away: %s\n" % reason)
        leave(LOST)

    def say(self, kind: str, **fields: Any) -> None:
        line = json.dumps(dict(type=kind, **fields), allow_nan=False).encode() + b"\n"
        with self.lock:
            self.socket.sendall(line)


class Pulse:
    """Gives signs of life beside the work."""

    def __init__(self, link: Link, module: Any, every: float) -> None:
        self.link = link
        self.main = threading.main_thread().ident
        self.file = getattr(module, "__file__", None)
        self.done: Optional[int] = None  # steps of the current request
        self.every = every
        threading.Thread(target=self._beat, daemon=True).start()

    def _beat(self) -> None:
        with contextlib.suppress(OSError):  # the reader, too, sees the worker go
            while True:
                with contextlib.suppress(MemoryError):  # of which the main thread tells
                    self.sign()
                time.sleep(self.every)

    def sign(self) -> None:
        self.link.say("alive", where=whereabouts(self.main, self.file), done=self.done)


def whereabouts(thread: Optional[int], file: Optional[str]) -> str:
    """Returns where a thread stands: its innermost frame, and behind it the innermost one of the
    user's file, or of this one where that is not on the stack."""
    frame = sys._current_frames().get(thread or 0)
    if frame is None:
        return ""
    places = []
    wanted = {f.f_code.co_filename for f, _ in traceback.walk_stack(frame)} & {file}
    for outer, line in traceback.walk_stack(frame):
        code = outer.f_code
        if not places or code.co_filename in (wanted or {__file__}):
            name = os.path.basename(code.co_filename)
            places.append("%s:%d %s" % (name, line, code.co_name))
        if code.co_filename in (wanted or {__file__}):
            break
    return ", ".join(places)


def leave(code: int) -> None:
    """Ends the process now: no destructor, no wait for a collective or for a device."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(code)


# --- Who this rank is, and what it computes on --------------------------------------------------


class Place(NamedTuple):
    rank: int
    world: int
    local: int
    by_srun: bool


def find_place(env: Dict[str, str]) -> Place:
    """Reads who this rank is from the launcher's variables. It refuses to guess: a rank that
    thinks it is alone would measure something else in silence."""
    if env.get("RANK"):
        names, by_srun = ("RANK", "WORLD_SIZE", "LOCAL_RANK"), False
    elif env.get("SLURM_PROCID") and env.get("SLURM_STEP_ID"):
        tasks = "SLURM_STEP_NUM_TASKS" if env.get("SLURM_STEP_NUM_TASKS") else "SLURM_NTASKS"
        names, by_srun = ("SLURM_PROCID", tasks, "SLURM_LOCALID"), True
    else:
        raise Usage(
            "RANK is not set, and this is no task of srun: cpbench worker starts this program"
        )
    values = []
    for name in names:
        if not re.fullmatch(r"\d+", env.get(name, "")):
            raise Usage("%s=%r: want a whole number" % (name, env.get(name, "")))
        values.append(int(env[name]))
    rank, world, local = values
    if rank >= world:
        raise Usage("%s=%d is not within %s=%d" % (names[0], rank, names[1], world))
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        if world > 1 and not env.get(name):
            raise Usage("%s is not set: %d ranks cannot meet" % (name, world))
    return Place(rank, world, local, by_srun)


def find_device(place: Place, env: Dict[str, str]) -> torch.device:
    """Returns the rank's device. A GPU that was given but is not seen is an error, no reason to
    take the CPU."""
    wish = option("device", "")
    if wish not in ("", "cpu", "cuda"):
        raise Usage("option device=%s: want cpu or cuda" % wish)
    if wish == "cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        hints = [
            n
            for n in ("CUDA_VISIBLE_DEVICES", "SLURM_STEP_GPUS", "SLURM_JOB_GPUS")
            if env.get(n, "") not in ("", "-1", "NoDevFiles")
        ]
        if wish or hints:
            why = "device=cuda" if wish else "%s=%s" % (hints[0], env[hints[0]])
            raise Usage(
                "%s, but this torch (%s) sees no GPU; device=cpu runs on the CPU"
                % (why, torch.__version__)
            )
        return torch.device("cpu")
    count = torch.cuda.device_count()
    index = (
        0 if place.by_srun and count == 1 else place.local
    )  # srun may have bound one GPU to each task
    if index >= count:
        raise Usage("local rank %d, but only %d GPUs are visible" % (index, count))
    torch.cuda.set_device(index)
    return torch.device("cuda", index)


def size_in_bytes(text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]iB)?", text)
    if not match or float(match.group(1)) <= 0:
        raise Usage("option memory=%s: want a size such as 512MiB or 20GiB" % text)
    power = {None: 0, "KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40}[match.group(2)]
    return int(float(match.group(1)) * (1 << power))


# --- Memory -------------------------------------------------------------------------------------

Peaks = List[Optional[int]]  # allocated, reserved, device


class Memory:
    """Peaks since the process started and since the last reset. The counters below them have one
    mark only, so that it is read (note) before it is put back (rewind)."""

    def __init__(self) -> None:
        self.cold: Peaks = [None, None, None]
        self.warm: Optional[Peaks] = [None, None, None]

    def read(self) -> Peaks:
        raise NotImplementedError

    def rewind(self) -> bool:
        raise NotImplementedError

    def note(self) -> None:
        now = self.read()
        self.cold = [_larger(a, b) for a, b in zip(self.cold, now)]
        if self.warm is not None:
            self.warm = [_larger(a, b) for a, b in zip(self.warm, now)]

    def reset(self) -> None:
        self.note()
        self.warm = [None, None, None] if self.rewind() else None

    def usable(self) -> Optional[int]:
        """What tensors may take, as the device is now; None where total says it."""
        return None

    def message(self) -> Dict[str, Any]:
        names = ("allocated_bytes", "reserved_bytes", "device_bytes")
        return {
            "cold": dict(zip(names, self.cold)),
            "warm": dict(zip(names, self.warm or [None] * 3)),
            "usable_bytes": self.usable(),
        }


def _larger(a: Optional[int], b: Optional[int]) -> Optional[int]:
    return b if a is None else a if b is None else max(a, b)


class CudaMemory(Memory):
    """The caching allocator's peaks, and the use of the whole device as sampled."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.device = device
        self.total = torch.cuda.get_device_properties(device).total_memory
        limit = option("memory", "")
        if limit:
            share = min(1.0, size_in_bytes(limit) / self.total)
            torch.cuda.set_per_process_memory_fraction(share, device)
            self.total = int(self.total * share)
        get = getattr(torch.cuda, "get_per_process_memory_fraction", None)
        if get is not None and not limit:
            self.total = int(self.total * get(device))

    def arm(self) -> None:
        """Nothing: the allocator counts from the start of the process."""

    def read(self) -> Peaks:
        free, total = torch.cuda.mem_get_info(self.device)
        return [
            torch.cuda.max_memory_allocated(self.device),
            torch.cuda.max_memory_reserved(self.device),
            total - free,
        ]

    def rewind(self) -> bool:
        torch.cuda.reset_peak_memory_stats(self.device)
        return True

    def usable(self) -> Optional[int]:
        """The limit, or less: contexts, communication and other programs have their part of the
        device."""
        free, _ = torch.cuda.mem_get_info(self.device)
        return min(self.total, free + torch.cuda.memory_reserved(self.device))

    def give_back(self) -> None:
        torch.cuda.empty_cache()

    def retries(self) -> int:
        """How often the allocator had to free its cache and try again: the times are then not
        comparable."""
        return int(torch.cuda.memory_stats(self.device).get("num_alloc_retries", 0))

    def short(self) -> bool:
        """Whether hardly any memory is left now. After an illegal access the device does not
        tell."""
        free, total = torch.cuda.mem_get_info(self.device)
        return free < SHORT * total

    def relax(self) -> None:
        """Nothing: telling a failure takes host memory."""


class HostMemory(Memory):
    """The growth of the resident set. Linux keeps its high-water mark and lets it be put back."""

    def __init__(self) -> None:
        super().__init__()
        limit = option("memory", "")
        self.total = size_in_bytes(limit) if limit else None
        if limit and _status("VmSize") is None:
            raise Usage("option memory=%s: without a GPU it needs Linux" % limit)
        self.base = self.code = 0

    def arm(self) -> None:
        """Counts, and limits, from now on. What torch loads at the first training step is loaded
        before: new releases import hundreds of MiB of code then."""
        if job.get("mode") == "training":
            weight = torch.zeros(1, requires_grad=True)
            weight.sum().backward()
            torch.optim.SGD([weight], lr=0.1).step()
        gc.collect()
        self.give_back()
        if self.total is not None:
            import resource

            hard = resource.getrlimit(resource.RLIMIT_AS)[1]
            resource.setrlimit(resource.RLIMIT_AS, (_status("VmSize") + self.total, hard))
        self.rewind()
        self.base = _status("VmRSS") or 0
        self.code = _status("RssFile") or 0
        self.cold, self.warm = [None, None, None], [None, None, None]

    def read(self) -> Peaks:
        peak = _status("VmHWM")
        if peak is None:
            return [None, None, None]
        code = (_status("RssFile") or 0) - self.code  # pages of libraries mapped since
        return [max(0, peak - self.base - code), None, None]

    def rewind(self) -> bool:
        try:
            with open("/proc/self/clear_refs", "w") as f:
                f.write("5")
        except OSError:
            return False
        return True

    def give_back(self) -> None:
        _malloc("malloc_trim", 0)

    def retries(self) -> int:
        return 0

    def short(self) -> bool:
        return False

    def relax(self) -> None:
        """Lifts the limit, so that there is room to tell that it was met."""
        if self.total is not None:
            import resource

            hard = resource.getrlimit(resource.RLIMIT_AS)[1]
            resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def strict_malloc() -> None:
    """Makes malloc exact, for a limit on a CPU; to be called before there is a second thread. A
    freed tensor is given back at once. There is one arena only: the 64 MiB that every further one
    reserves would count, and would be used behind the limit when it is met."""
    _malloc("mallopt", -8, 1)  # M_ARENA_MAX
    _malloc("mallopt", -3, 1 << 17)  # M_MMAP_THRESHOLD: fixed, it grows otherwise


def _malloc(name: str, *args: int) -> None:
    """Calls a function of glibc's malloc, where there is one."""
    with contextlib.suppress(Exception):
        getattr(ctypes.CDLL(None), name)(*args)


def _status(name: str) -> Optional[int]:
    """Returns a size of this process in bytes as Linux tells it, None elsewhere."""
    try:
        with open("/proc/self/status") as f:
            for line in f:
                if line.startswith(name + ":"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


# --- Facts for the results ----------------------------------------------------------------------

# No variable is told but these: an environment holds secrets.
_TOLD = (
    "TORCH_NCCL_ASYNC_ERROR_HANDLING",
    "TORCH_NCCL_BLOCKING_WAIT",
    "TORCH_NCCL_AVOID_RECORD_STREAMS",
    "NCCL_ASYNC_ERROR_HANDLING",
    "NCCL_BLOCKING_WAIT",
    "NCCL_ALGO",
    "NCCL_PROTO",
    "NCCL_DEBUG",
    "NCCL_BUFFSIZE",
    "NCCL_P2P_DISABLE",
    "NCCL_P2P_LEVEL",
    "NCCL_SHM_DISABLE",
    "NCCL_IB_DISABLE",
    "NCCL_IB_HCA",
    "NCCL_NET",
    "NCCL_NET_GDR_LEVEL",
    "NCCL_SOCKET_IFNAME",
    "NCCL_CROSS_NIC",
    "NCCL_NVLS_ENABLE",
    "NCCL_CUMEM_ENABLE",
    "NCCL_MIN_NCHANNELS",
    "NCCL_MAX_NCHANNELS",
    "NCCL_LAUNCH_MODE",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_DEVICE_ORDER",
    "CUDA_MODULE_LOADING",
    "TORCH_COMPILE_DISABLE",
    "TORCHDYNAMO_DISABLE",
    "OMP_NUM_THREADS",
)


def versions(device: torch.device) -> Dict[str, str]:
    found = {"python": sys.version.split()[0], "torch": str(torch.__version__)}
    if torch.version.cuda:
        found["cuda"] = torch.version.cuda
    if getattr(torch.version, "hip", None):
        found["hip"] = torch.version.hip
    if device.type == "cuda":
        with contextlib.suppress(Exception):
            found["cudnn"] = str(torch.backends.cudnn.version())
        with contextlib.suppress(Exception):
            found["nccl"] = ".".join(str(n) for n in torch.cuda.nccl.version())
        found["triton"] = installed("triton", "pytorch-triton")
        found["flash_attention"] = installed("flash-attn", "flash-attn-3")
    return found


def installed(*packages: str) -> str:
    """Returns the version of the first of these packages that is there."""
    from importlib import metadata

    for name in packages:
        with contextlib.suppress(Exception):
            return metadata.version(name)
    return "not installed"


def allocator(device: torch.device) -> str:
    """Returns the allocator's settings as the process reads them: a variable may be ignored
    (pytorch#183387)."""
    if device.type != "cuda":
        return "malloc"
    with contextlib.suppress(Exception):
        effective = torch.cuda.memory._snapshot()["allocator_settings"]
        return json.dumps(effective, sort_keys=True, default=str)
    asked = [
        "%s=%s" % (n, os.environ[n])
        for n in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
        if n in os.environ
    ]
    return "asked for " + " ".join(asked) if asked else "default"


def settings(device: torch.device) -> Dict[str, str]:
    """Returns what may change the numbers, each as text. A reader that this torch does not have
    is left out."""
    readers: Dict[str, Callable[[], Any]] = {
        "allocator": lambda: allocator(device),
        "deterministic": torch.are_deterministic_algorithms_enabled,
        "matmul_precision": torch.get_float32_matmul_precision,
        "threads": torch.get_num_threads,
        "seed": lambda: _given.get("seed", "1"),
        "autocast": lambda: "on" if torch.is_autocast_enabled() else "off outside of the steps",
        "attention": attention,
        "memory_source": lambda: "allocator" if device.type == "cuda" else "resident set",
    }
    if device.type == "cuda":
        readers.update(
            {
                "tf32_matmul": lambda: torch.backends.cuda.matmul.allow_tf32,
                "tf32_cudnn": lambda: torch.backends.cudnn.allow_tf32,
                "cudnn_benchmark": lambda: torch.backends.cudnn.benchmark,
                "cudnn_deterministic": lambda: torch.backends.cudnn.deterministic,
            }
        )
    found = {n: os.environ[n] for n in _TOLD if os.environ.get(n)}
    for name, read in readers.items():
        with contextlib.suppress(Exception):
            found[name] = str(read())
    return found


def attention() -> str:
    """Returns the backends that scaled_dot_product_attention may choose from."""
    backends = {"flash": "flash", "memory-efficient": "mem_efficient", "math": "math", "cudnn": "cudnn"}
    found = []
    for name, reader in backends.items():
        allowed = getattr(torch.backends.cuda, reader + "_sdp_enabled", None)
        if allowed is not None and allowed():
            found.append(name)
    return "sdpa may use " + ", ".join(found) if found else "none of sdpa"


def compile_mode(model: Any) -> str:
    """Says whether torch.compile is at work in a built model: on it, on a part of it, or nowhere
    that can be seen."""
    if os.environ.get("TORCH_COMPILE_DISABLE", "0") == "1":
        return "disabled by TORCH_COMPILE_DISABLE"
    modules: List[Any] = []
    for value in model if isinstance(model, (tuple, list)) else [model]:
        if isinstance(value, torch.nn.Module):
            modules.extend(value.modules())
    for module in modules:
        if type(module).__name__ == "OptimizedModule":
            return "yes"
        if getattr(module, "_compiled_call_impl", None) is not None:
            return "yes"
    return "no" if modules else "unknown"


def built_settings(model: Any, before: Dict[str, str], device: torch.device) -> Dict[str, str]:
    """Returns the settings that building the model has changed, or that only show in a built
    model. What the hooks have declared stands."""
    found = {n: v for n, v in settings(device).items() if before.get(n) != v}
    mode = compile_mode(model)
    if mode != "unknown":
        found["compile"] = mode
    return {n: v for n, v in found.items() if n not in _declared}


def describe_device(device: torch.device, total: Optional[int]) -> Dict[str, Any]:
    if device.type != "cuda":
        return {"name": "cpu", "total_bytes": total}
    properties = torch.cuda.get_device_properties(device)
    told = {"name": properties.name, "total_bytes": total}
    uuid = str(getattr(properties, "uuid", ""))
    if uuid:
        told["uuid"] = uuid if uuid.startswith(("GPU-", "MIG-")) else "GPU-" + uuid
    return told


# --- The mesh -----------------------------------------------------------------------------------


class Mesh:
    """Stands for torch's DeviceMesh where torch has none, with the same methods as far as hooks
    may rely on them."""

    def __init__(
        self,
        device_type: str,
        shape: Sequence[int],
        rank: int,
        new_group: Callable[[List[int]], Any],
    ) -> None:
        self.device_type = device_type
        self.shape = tuple(shape)
        self.ndim = len(self.shape)
        self._coordinate = _unravel(rank, self.shape)
        self._groups: List[Any] = []
        for dim in range(self.ndim):
            for ranks in lines_of(
                self.shape, dim
            ):  # every rank has to take part in making every group
                group = new_group(ranks)
                if rank in ranks:
                    self._groups.append(group)

    def size(self, mesh_dim: Optional[int] = None) -> int:
        return _product(self.shape) if mesh_dim is None else self.shape[mesh_dim]

    def get_coordinate(self) -> List[int]:
        return list(self._coordinate)

    def get_local_rank(self, mesh_dim: int = 0) -> int:
        return self._coordinate[mesh_dim]

    def get_group(self, mesh_dim: int = 0) -> Any:
        return self._groups[mesh_dim]


def _product(shape: Sequence[int]) -> int:
    total = 1
    for n in shape:
        total *= n
    return total


def _unravel(rank: int, shape: Sequence[int]) -> Tuple[int, ...]:
    place = []
    for n in reversed(shape):
        place.append(rank % n)
        rank //= n
    return tuple(reversed(place))


def lines_of(shape: Sequence[int], dim: int) -> List[List[int]]:
    """Returns the ranks of each line of a mesh along dim."""
    lines: Dict[Tuple[int, ...], List[int]] = {}
    for rank in range(_product(shape)):
        at = _unravel(rank, shape)
        lines.setdefault(at[:dim] + at[dim + 1 :], []).append(rank)
    return list(lines.values())


def mesh_shape(topology: str, world: int) -> Tuple[int, ...]:
    if topology in ("", "1d"):
        return (world,)
    if topology != "2d":
        raise Usage("topology %r: want 1d or 2d" % topology)
    side = math.isqrt(world)
    if side * side != world:
        raise Skip("a 2d mesh needs a square number of ranks, not %d: use 1, 4, 9 or 16" % world)
    return (side, side)


def build_mesh(device: torch.device, topology: str, rank: int, world: int) -> Any:
    """Makes the mesh over all ranks; the process group exists."""
    shape = mesh_shape(topology, world)
    try:
        from torch.distributed.device_mesh import init_device_mesh
    except ImportError:
        return Mesh(device.type, shape, rank, dist.new_group)
    names = ("cp",) if len(shape) == 1 else ("cp_row", "cp_col")
    return init_device_mesh(device.type, shape, mesh_dim_names=names)


def guard_nccl() -> None:
    """Lets a failed collective end its process. The name of the switch changed in torch 2.2."""
    modern = tuple(int(n) for n in re.findall(r"\d+", str(torch.__version__))[:2]) >= (2, 2)
    os.environ.setdefault(("TORCH_" if modern else "") + "NCCL_ASYNC_ERROR_HANDLING", "1")


def join_ranks(place: Place, device: torch.device) -> None:
    """Makes the process group of all ranks."""
    backend = "nccl" if device.type == "cuda" else "gloo"
    if place.world == 1:  # nobody to meet, so no port
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    else:
        dist.init_process_group(
            backend, init_method="env://", rank=place.rank, world_size=place.world
        )


# --- Failures -----------------------------------------------------------------------------------


class Failure(NamedTuple):
    """What is told about an exception; it holds no traceback, which would keep tensors alive."""

    oom: bool
    kind: str  # an outcome of the catalogue, or empty
    text: str
    short: bool = False  # hardly any memory of the device was left


# Fragments of messages, in lower case. The first that matches decides. "oom" means that the
# device has no memory.
_FRAGMENTS = (
    ("", "tried to allocate more than 1eb memory"),  # a size that was garbage
    ("oom_comm", "cuda failure 'out of memory'"),
    ("oom_comm", "cuda failure 2 'out of memory'"),
    ("oom_comm", "failed to cuda calloc"),
    ("oom", "cuda out of memory"),
    ("oom", "cuda error: out of memory"),
    ("oom", "cuda driver error: out of memory"),
    ("oom", "hip out of memory"),
    ("oom", "xpu out of memory"),
    ("oom", "mps backend out of memory"),
    ("oom", "ur_result_error_out_of_device_memory"),
    ("oom", "cudaerrormemoryallocation"),
    ("oom_suspect", "cublas_status_alloc_failed"),
    ("oom_suspect", "nvml_success == r internal assert failed"),
    ("oom_suspect", "cudnn_status_not_supported"),
    ("oom_suspect", "cudnn_status_alloc_failed"),
    ("oom_suspect", "cudnn_status_internal_error"),
    ("oom_suspect", "unable to find an engine"),
    ("oom_suspect", "!handles_.at(i) internal assert failed"),
    ("oom_suspect", "cuda driver error: device not ready"),
    ("too_big", "out of resource: shared memory"),
    ("too_big", "not supported for tensors with more than int_max elements"),
    ("too_big", "invalid buffer size"),
    ("too_big", "cuda error: invalid configuration argument"),
    ("error_kernel", "an illegal memory access"),
    ("error_kernel", "cuda error: misaligned address"),
    ("error_kernel", "cuda error: an illegal instruction"),
    ("error_kernel", "cuda error: unspecified launch failure"),
    ("error_collective", "detected mismatch between collectives on ranks"),
)

# The same on the host. They are an out-of-memory of the device only where the device is the CPU;
# beside a GPU they need a witness, which a rank is not.
_HOST_FRAGMENTS = (
    "defaultcpuallocator: can't allocate memory",
    "defaultcpuallocator: not enough memory",
    "std::bad_alloc",
    "cannot allocate memory",
)


def classify(error: BaseException, on_cpu: bool, pressed: bool = False) -> str:
    """Returns "oom", an outcome of the catalogue, or empty. pressed tells that the allocator had
    to free its cache: then an illegal access may well be a consequence of it."""
    if isinstance(error, Skip):
        return "skipped"
    if isinstance(error, WrongOutput):
        return "wrong_output"
    text = str(error).lower()
    for kind, fragment in _FRAGMENTS:
        if fragment in text:
            return "oom_suspect" if kind == "error_kernel" and pressed else kind
    if isinstance(error, _OOM_TYPES):
        return "oom"
    if on_cpu and (isinstance(error, MemoryError) or any(f in text for f in _HOST_FRAGMENTS)):
        return "oom"
    return ""


_OOM_TYPES = tuple(
    {
        t
        for t in (
            getattr(torch.cuda, "OutOfMemoryError", None),
            getattr(torch, "OutOfMemoryError", None),
        )
        if t is not None
    }
)


def failure_of(error: BaseException, on_cpu: bool, pressed: bool) -> Failure:
    kind = classify(error, on_cpu, pressed)
    plain = kind in ("oom", "skipped", "wrong_output") or isinstance(error, Usage)
    if isinstance(error, SystemExit):
        text = "the hooks called exit(%s)" % error.code
    elif plain and str(error):
        text = str(error)
    else:
        lines = traceback.format_exception(type(error), error, error.__traceback__)
        text = "".join(lines).strip()[-TEXT_LIMIT:]
    return Failure(kind == "oom", "" if kind == "oom" else kind, text[:TEXT_LIMIT])


# --- The output ---------------------------------------------------------------------------------


def tensors_in(value: Any, depth: int = 8) -> Iterator[torch.Tensor]:
    """Yields the tensors in nested lists, tuples, dicts and dataclasses."""
    if isinstance(value, torch.Tensor):
        yield value.to_local() if hasattr(value, "to_local") else value
    elif depth > 0 and isinstance(value, (list, tuple, set)):
        for v in value:
            yield from tensors_in(v, depth - 1)
    elif depth > 0 and isinstance(value, dict):
        for v in value.values():
            yield from tensors_in(v, depth - 1)
    elif depth > 0 and dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from tensors_in(vars(value), depth - 1)


def finite(output: Any) -> Optional[bool]:
    """Reports whether all numbers of the output are finite; None if it holds none."""
    seen: Optional[bool] = None
    for tensor in tensors_in(output):
        if not (tensor.is_floating_point() or tensor.is_complex()) or tensor.numel() == 0:
            continue
        seen = True
        if not _finite_tensor(tensor.detach()):
            return False
    return seen


def _finite_tensor(tensor: torch.Tensor) -> bool:
    """Looks at slices: isfinite of the whole would need a mask as large as the tensor."""
    if tensor.numel() > CHECK_CHUNK and max(tensor.shape) > 1:
        axis = max(range(tensor.dim()), key=lambda d: tensor.shape[d])
        rows = max(1, CHECK_CHUNK * tensor.shape[axis] // tensor.numel())
        if rows < tensor.shape[axis]:
            return all(_finite_tensor(part) for part in tensor.split(rows, dim=axis))
    return bool(torch.isfinite(tensor).all())


# --- The hooks ----------------------------------------------------------------------------------

HOOKS = {
    "build_model": "build_model(mesh, device)",
    "build_batch": "build_batch(N, n_atoms, S, mesh, device)",
    "run_step": "run_step(model, batch, train)",
}


def load_hooks(name: str) -> Any:
    """Imports the user's module. The frozen copy beside this file comes first: `python3 -m` would
    otherwise prefer the one in the working folder, which may have changed since."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [here] + [p for p in sys.path if p not in ("", here, os.getcwd())] + [os.getcwd()]
    if name.endswith(".py"):
        path = os.path.join(here, os.path.basename(name))
        if not os.path.exists(path):
            path = os.path.abspath(name)
        spec = importlib.util.spec_from_file_location(os.path.basename(name)[:-3], path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    else:
        module = importlib.import_module(name)
    check_hooks(module, name)
    file = getattr(module, "__file__", None)
    if file:
        with open(file, "rb") as f:
            declare(
                "hooks",
                "%s %s" % (os.path.basename(file), hashlib.sha256(f.read()).hexdigest()[:12]),
            )
    return module


def check_hooks(module: Any, name: str) -> None:
    where = getattr(module, "__file__", name)
    for hook, form in HOOKS.items():
        function = getattr(module, hook, None)
        if not callable(function):
            raise Usage("%s has no function %s" % (where, form))
        count = form.count(",") + 1
        try:
            inspect.signature(function).bind(*range(count))
        except TypeError:
            raise Usage(
                "%s: %s%s: want %s" % (where, hook, inspect.signature(function), form)
            ) from None
        except ValueError:  # a builtin that tells no signature
            pass


# --- The rank -----------------------------------------------------------------------------------


class Rank:
    """The state of the process between two messages of the worker."""

    def __init__(self, link: Link, place: Place) -> None:
        self.link = link
        self.place = place
        self.where = "build"
        self.device = torch.device("cpu")
        self.memory: Any = None
        self.hooks: Any = None
        self.mesh: Any = None
        self.model: Any = None
        self.batch: Any = None
        self.fresh = False  # the batch has not been used yet
        self.asked: Tuple[Any, Any, Any] = (None, None, None)  # N, atoms, S
        self.proven = False  # the first step has shown which options are read

    # The conversation.

    def serve(self, hooks: str) -> int:
        failure = self.attempt(lambda: self.look(hooks))
        self.hello()
        while failure is None:
            message = self.link.inbox.get()
            if message.get("type") == "stop":
                return self.end()
            failure = self.attempt(lambda: self.answer(message))
        return self.report(failure)

    def attempt(self, work: Callable[[], None]) -> Optional[Failure]:
        """Runs work and returns what went wrong, of which nothing but the words outlives it."""
        try:
            work()
            return None
        except BaseException as error:  # SystemExit of a hook, too, must be told
            if self.memory is not None:
                self.memory.relax()
            short = self.sees(lambda: self.memory.short())
            pressed = self.sees(lambda: self.memory.retries() > 0)
            return failure_of(error, self.device.type == "cpu", pressed)._replace(short=short)

    def sees(self, sign: Callable[[], bool]) -> bool:
        """Looks for a sign where memory, or the device, may be past telling."""
        with contextlib.suppress(Exception):
            return sign()
        return False

    def report(self, failure: Failure) -> int:
        """Tells the worker, and leaves without entering a collective again."""
        sys.stderr.write(
            "cpbench_torch: rank %d: %s: %s\n"
            % (
                self.place.rank,
                "out of memory" if failure.oom else failure.kind or "error",
                failure.text,
            )
        )
        with contextlib.suppress(OSError):
            if failure.oom:
                self.link.say("oom", text=failure.text, where=self.where)
            else:
                told: Dict[str, Any] = {"class": failure.kind, "text": failure.text}
                if failure.short:
                    told["memory_short"] = True
                self.link.say("error", **told)
        leave(OUT_OF_MEMORY if failure.oom else FAILED)
        return FAILED

    def end(self) -> int:
        self.drop()
        self.model = None
        if dist.is_initialized():
            dist.destroy_process_group()
        return DONE

    def hello(self) -> None:
        told: Dict[str, Any] = {"name": "unknown", "total_bytes": None}
        if self.memory is not None:
            told = describe_device(self.device, self.memory.total)
        self.link.say(
            "hello",
            protocol=PROTOCOL,
            token=os.environ["CPBENCH_TOKEN"],
            rank=self.place.rank,
            world=self.place.world,
            host=socket.gethostname(),
            pid=os.getpid(),
            device=told,
            versions=versions(self.device),
            settings=dict(settings(self.device), **_declared),
        )

    def answer(self, message: Dict[str, Any]) -> None:
        kind = message.get("type")
        if kind == "start":
            self.start(message)
        elif kind == "point":
            self.prepare(message["params"])
        elif kind == "step":
            self.step(int(message["count"]))
        elif kind == "reset_peak":
            self.memory.reset()
        # a newer worker may say more

    # The work.

    def look(self, hooks: str) -> None:
        """Finds device and hooks, before the worker hears of them."""
        global _figures
        self.device = find_device(self.place, dict(os.environ))
        _figures = Figures(self.device.type == "cuda")
        if self.device.type == "cuda":
            guard_nccl()
        self.memory = CudaMemory(self.device) if self.device.type == "cuda" else HostMemory()
        self.hooks = load_hooks(hooks)

    def start(self, message: Dict[str, Any]) -> None:
        global _pulse
        self.where = "build"
        mode = message.get("mode", "")
        if mode not in ("inference", "training"):
            raise Usage("mode %r: want inference or training" % mode)
        job.update(mode=mode, dtype=message.get("dtype", ""), topology=message.get("topology", ""))
        every = min(ALIVE_EVERY, message.get("alive_seconds") or ALIVE_EVERY)
        _pulse = Pulse(self.link, self.hooks, every)
        before = settings(self.device)
        join_ranks(self.place, self.device)
        self.mesh = build_mesh(self.device, job["topology"], self.place.rank, self.place.world)
        self.memory.arm()
        seed = option("seed", 1)
        random.seed(seed)
        torch.manual_seed(seed)  # the same on all ranks, so that all build the same weights
        self.model = self.hooks.build_model(self.mesh, self.device)
        if isinstance(self.model, torch.nn.Module):
            self.model.train(mode == "training")
        self.synchronize()
        told: Dict[str, Any] = {"settings": built_settings(self.model, before, self.device)}
        if self.compiled():
            told["compiled"] = True
            if "compile" not in _declared:
                told["settings"]["compile"] = "yes"
        self.link.say("ready", **told)

    def compiled(self) -> bool:
        told = getattr(self.hooks, "compiled", False)
        return bool(told() if callable(told) else told) or compile_mode(self.model) == "yes"

    def prepare(self, params: Dict[str, Any]) -> None:
        self.where = "prepare"
        point.clear()
        point.update(params)
        self.asked = (whole(params, "tokens"), whole(params, "atoms"), whole(params, "msa"))
        self.drop()
        gc.collect()
        self.memory.give_back()
        tokens = self.asked[0]
        padded = self.padded(tokens) if tokens is not None else None
        self.meet()
        began = time.perf_counter()
        self.build()
        self.synchronize()
        seconds = time.perf_counter() - began
        told = dict(zip(("tokens", "atoms", "msa"), self.asked))
        if hasattr(self.hooks, "sizes"):
            told.update(
                {n: int(v) for n, v in self.hooks.sizes(self.batch).items() if v is not None}
            )
        if padded is None and told["tokens"] is not None:
            padded = self.padded(told["tokens"])
        self.link.say("prepared", padded_tokens=padded, seconds=seconds, **told)

    def padded(self, tokens: int) -> int:
        return (
            int(self.hooks.padded(tokens, self.mesh)) if hasattr(self.hooks, "padded") else tokens
        )

    def step(self, count: int) -> None:
        self.where = "step"
        if self.mesh is None or not point:
            raise Usage("step was sent before start and point")
        times: List[float] = []
        device_times: List[float] = []
        sound: Optional[bool] = None
        _figures.take(1)  # what build_model and build_batch recorded is of no step
        for _ in range(count):
            if not self.fresh:
                self.drop()
                self.build()
            self.count(len(times))
            seconds, device_seconds, output = self.one()
            times.append(seconds)
            device_times += device_seconds
            self.memory.note()
            good = self.judge(output)
            sound = good if sound is None else sound and good is not False
            del output
            self.memory.rewind()  # what the check needed is not the model's
        self.prove()
        self.count(None)  # before the answer: a later sign would speak of the next request
        self.tell(times, device_times, sound)

    def count(self, done: Optional[int]) -> None:
        if _pulse is not None:
            _pulse.done = done

    def tell(self, times: List[float], device_times: List[float], sound: Optional[bool]) -> None:
        told = _figures.take(len(times))
        if self.memory.retries() > 0:
            told.append({"name": "alloc_retries", "value": self.memory.retries()})
        if self.device.type == "cuda" and _status("VmHWM") is not None:
            told.append({"name": "host_peak_rss_bytes", "value": _status("VmHWM"), "unit": "bytes"})
        self.link.say("memory", **self.memory.message())
        if told:
            self.link.say("metrics", metrics=told)
        extra = {"device_seconds": device_times} if device_times else {}
        self.link.say("steps", seconds=times, finite=sound, **extra)

    def one(self) -> Tuple[float, List[float], Any]:
        """Runs and times one step."""
        train = job["mode"] == "training"
        cuda = self.device.type == "cuda"
        self.fresh = False
        _figures.spans.clear()
        with self.gradients():
            self.meet()
            begin = _figures.mark() if cuda else None
            began = time.perf_counter()
            output = self.hooks.run_step(self.model, self.batch, train)
            end = _figures.mark() if cuda else None
            self.synchronize()
            seconds = time.perf_counter() - began
        _figures.settle()
        return seconds, [begin.elapsed_time(end) / 1e3] if cuda else [], output

    def gradients(self) -> Any:
        if job["mode"] == "training":
            return torch.enable_grad()
        return torch.inference_mode() if option("inference_mode", False) else torch.no_grad()

    def build(self) -> None:
        with self.gradients():
            self.batch = self.hooks.build_batch(*self.asked, self.mesh, self.device)
        self.fresh = True

    def drop(self) -> None:
        """Lets go of the batch, or two would be alive at the peak."""
        self.batch = None
        self.fresh = False

    def judge(self, output: Any) -> Optional[bool]:
        if not hasattr(self.hooks, "check"):
            with torch.no_grad():
                return finite(output)
        try:
            with torch.no_grad():
                verdict = self.hooks.check(output)
        except AssertionError as error:
            raise WrongOutput("check(output): %s" % error) from None
        if verdict is not None and not verdict:
            raise WrongOutput("check(output) says that it is wrong")
        return True

    def meet(self) -> None:
        """Lets all ranks meet and synchronises the device: along every dimension of the mesh,
        after which nobody can be ahead of anybody. A device barrier alone would be
        asynchronous."""
        self.synchronize()
        if self.place.world > 1:
            devices = [self.device.index] if self.device.type == "cuda" else None
            for dim in range(self.mesh.ndim):
                dist.barrier(group=self.mesh.get_group(dim), device_ids=devices)
        self.synchronize()

    def synchronize(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def prove(self) -> None:
        """Refuses options, and a dtype, that nobody has asked for: the row would claim what did
        not happen."""
        if self.proven:
            return
        self.proven = True
        unread = sorted(
            "%s=%s" % (n, _given[n]) for n in _given if n not in _asked and n != "inference_mode"
        )
        if unread:
            known = ", ".join(sorted(n for n in _asked if n != "dtype"))
            raise Usage("nobody asked for option %s; known: %s" % (", ".join(unread), known))
        if job["dtype"] and "dtype" not in _asked:
            raise Usage(
                "workload.dtype is %s, but the hooks never asked cpbench_torch.dtype()"
                % job["dtype"]
            )


def whole(params: Dict[str, Any], name: str) -> Optional[int]:
    """Returns a size of the point, None where it is absent."""
    value: Union[int, float, None] = params.get(name)
    if value is None:
        return None
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float))
        or value != int(value)
        or value < 1
    ):
        raise Usage("point.%s is %r: want a whole number of at least 1" % (name, value))
    return int(value)


def main(args: Sequence[str]) -> int:
    if not args or args[0] in ("-h", "--help"):
        print(__doc__)
        return DONE if args else USAGE
    try:
        for arg in args[1:]:
            name, equals, value = arg.partition("=")
            if not equals or not name:
                raise Usage("argument %r: want key=value" % arg)
            _given[name] = value
        place = find_place(dict(os.environ))
        for name in ("CPBENCH_CONNECT", "CPBENCH_TOKEN"):
            if not os.environ.get(name):
                raise Usage("%s is not set: cpbench worker starts this program" % name)
        faulthandler.enable(all_threads=False)  # a crash in an extension says in which line it was
        on_cpu = _given.get("device") == "cpu" or not torch.cuda.is_available()
        if on_cpu and "memory" in _given:
            strict_malloc()
        link = Link(os.environ["CPBENCH_CONNECT"])
    except (Usage, OSError) as error:
        sys.stderr.write("cpbench_torch: error: %s\n" % error)
        return USAGE
    return Rank(link, place).serve(args[0])


if __name__ == "__main__":
    sys.modules["cpbench_torch"] = sys.modules["__main__"]  # so that the hooks import this copy
    sys.exit(main(sys.argv[1:]))
