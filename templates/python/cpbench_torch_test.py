"""Tests of cpbench_torch that need no worker: python3 cpbench_torch_test.py"""

import dataclasses
import os
import sys
import threading
import time
import types
import unittest
from typing import Any, Dict, List
from unittest import mock

import torch

import cpbench_torch as ct

GIB = 1 << 30

# A line of the failure table each: outcome, on a CPU?, exception.
FAILURES = [
    (
        "oom",
        False,
        RuntimeError(
            "CUDA out of memory. Tried to allocate 1.95 GiB. GPU 0 has a total "
            "capacity of 14.57 GiB of which 1.58 GiB is free."
        ),
    ),
    (
        "oom",
        False,
        RuntimeError(
            "CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 7.93 GiB "
            "total capacity; 7.20 GiB already allocated;"
        ),
    ),
    ("oom", False, RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be")),
    ("oom", False, RuntimeError("CUDA driver error: out of memory")),
    (
        "oom",
        False,
        RuntimeError(
            "The following operation failed in the TorchScript interpreter.\n"
            "RuntimeError: CUDA out of memory. Tried to allocate 2 MiB"
        ),
    ),
    ("oom", False, RuntimeError("HIP out of memory. Tried to allocate 2.00 GiB")),
    ("oom", False, torch.cuda.OutOfMemoryError("worded in another way")),
    (
        "oom",
        True,
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:66] . DefaultCPUAllocator: can't "
            "allocate memory: you tried to allocate 4294967296 bytes."
        ),
    ),
    ("oom", True, MemoryError()),
    ("oom", True, RuntimeError("std::bad_alloc")),
    ("", False, MemoryError()),  # beside a GPU the host's memory needs a witness
    ("", False, RuntimeError("DefaultCPUAllocator: can't allocate memory")),
    ("", False, RuntimeError("CUDA out of memory. Tried to allocate more than 1EB memory.")),
    (
        "oom_comm",
        False,
        RuntimeError(
            "NCCL error: ncclUnhandledCudaError: Call to CUDA function "
            "failed.\nLast error:\nCuda failure 'out of memory'"
        ),
    ),
    ("oom_comm", False, RuntimeError("Cuda failure 2 'out of memory'")),
    ("oom_comm", False, RuntimeError("Failed to CUDA calloc 6291456 bytes")),
    ("", False, RuntimeError("ncclUnhandledCudaError: Call to CUDA function failed.")),
    (
        "oom_suspect",
        False,
        RuntimeError(
            "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling " "`cublasCreate(handle)`"
        ),
    ),
    (
        "oom_suspect",
        False,
        RuntimeError(
            'NVML_SUCCESS == r INTERNAL ASSERT FAILED at "../c10/cuda/'
            'CUDACachingAllocator.cpp":830'
        ),
    ),
    ("oom_suspect", False, RuntimeError("cuDNN error: CUDNN_STATUS_NOT_SUPPORTED.")),
    ("oom_suspect", False, RuntimeError("unable to find an engine to execute this computation")),
    ("oom_suspect", False, RuntimeError("!handles_.at(i) INTERNAL ASSERT FAILED")),
    (
        "too_big",
        False,
        RuntimeError("out of resource: shared memory, Required: 98304, Hardware " "limit: 65536"),
    ),
    (
        "too_big",
        False,
        RuntimeError("nonzero is not supported for tensors with more than INT_MAX " "elements"),
    ),
    ("too_big", False, RuntimeError("CUDA error: invalid configuration argument")),
    ("error_kernel", False, RuntimeError("CUDA error: an illegal memory access was encountered")),
    ("error_collective", False, RuntimeError("Detected mismatch between collectives on ranks.")),
    ("skipped", False, ct.Skip("83626 is not divisible by 4")),
    ("wrong_output", False, ct.WrongOutput("differs")),
    ("", True, ValueError("anything else")),
]


class Classes(unittest.TestCase):
    def test_each_line_of_the_table(self) -> None:
        for want, on_cpu, error in FAILURES:
            with self.subTest(error=repr(error)):
                self.assertEqual(ct.classify(error, on_cpu), want)

    def test_an_illegal_access_under_pressure_is_suspect(self) -> None:
        error = RuntimeError("CUDA error: an illegal memory access was encountered")
        self.assertEqual(ct.classify(error, False, pressed=True), "oom_suspect")

    def test_no_traceback_outlives_the_attempt(self) -> None:
        kept: List[Any] = []

        class Big:
            def __del__(self) -> None:
                kept.append("gone")

        def work() -> None:
            big = Big()
            raise RuntimeError("CUDA out of memory %d" % id(big))

        rank = ct.Rank(mock.Mock(), ct.Place(0, 1, 0, False))
        failure = rank.attempt(work)
        self.assertEqual((failure.oom, kept), (True, ["gone"]))


class Places(unittest.TestCase):
    launcher = {
        "RANK": "3",
        "WORLD_SIZE": "4",
        "LOCAL_RANK": "1",
        "MASTER_ADDR": "a",
        "MASTER_PORT": "1",
    }
    srun = {
        "SLURM_PROCID": "5",
        "SLURM_STEP_ID": "0",
        "SLURM_NTASKS": "8",
        "SLURM_LOCALID": "1",
        "MASTER_ADDR": "a",
        "MASTER_PORT": "1",
    }

    def test_launchers(self) -> None:
        self.assertEqual(ct.find_place(self.launcher), ct.Place(3, 4, 1, False))
        self.assertEqual(ct.find_place(self.srun), ct.Place(5, 8, 1, True))
        both = dict(self.srun, **self.launcher)
        self.assertEqual(ct.find_place(both), ct.Place(3, 4, 1, False))
        step = dict(self.srun, SLURM_STEP_NUM_TASKS="6")
        self.assertEqual(ct.find_place(step).world, 6)

    def test_nothing_is_guessed(self) -> None:
        batch = {k: v for k, v in self.srun.items() if k != "SLURM_STEP_ID"}
        for env, want in [
            ({}, "RANK is not set"),
            (batch, "RANK is not set"),
            (dict(self.launcher, WORLD_SIZE=""), "WORLD_SIZE=''"),
            (dict(self.launcher, LOCAL_RANK="x"), "LOCAL_RANK='x'"),
            (dict(self.launcher, RANK="4"), "not within"),
            (dict(self.launcher, MASTER_PORT=""), "MASTER_PORT"),
        ]:
            with self.subTest(env=env), self.assertRaisesRegex(ct.Usage, want):
                ct.find_place(env)

    def test_a_gpu_that_is_not_seen_is_an_error(self) -> None:
        place = ct.Place(0, 1, 0, False)
        with mock.patch.object(torch.cuda, "is_available", return_value=False):
            with self.assertRaisesRegex(ct.Usage, "CUDA_VISIBLE_DEVICES=0,1"):
                ct.find_device(place, {"CUDA_VISIBLE_DEVICES": "0,1"})
            self.assertEqual(ct.find_device(place, {"CUDA_VISIBLE_DEVICES": ""}).type, "cpu")

    def test_each_local_rank_has_a_gpu(self) -> None:
        cuda = mock.patch.multiple(
            torch.cuda, is_available=lambda: True, set_device=mock.Mock(), device_count=lambda: 2
        )
        with cuda:
            device = ct.find_device(ct.Place(5, 8, 1, False), {})
            self.assertEqual(device, torch.device("cuda", 1))
            with self.assertRaisesRegex(ct.Usage, "local rank 2, but only 2 GPUs"):
                ct.find_device(ct.Place(2, 4, 2, False), {})
        with cuda, mock.patch.object(torch.cuda, "device_count", return_value=1):
            device = ct.find_device(ct.Place(5, 8, 3, True), {})  # srun has bound one to each task
            self.assertEqual(device, torch.device("cuda", 0))


class Options(unittest.TestCase):
    def test_kinds(self) -> None:
        given = {"n": "3", "x": "0.5", "flag": "yes", "word": "a b"}
        with mock.patch.dict(ct._given, given, clear=True), mock.patch.dict(ct._asked):
            got = [
                ct.option("n", 1),
                ct.option("x", 1.0),
                ct.option("flag", False),
                ct.option("word", ""),
                ct.option("none", 7),
            ]
            self.assertEqual(got, [3, 0.5, True, "a b", 7])
            with self.assertRaisesRegex(ct.Usage, "x=0.5: want a whole number"):
                ct.option("x", 1)

    def test_sizes(self) -> None:
        self.assertEqual(ct.size_in_bytes("1.5GiB"), 3 * GIB // 2)
        self.assertEqual(ct.size_in_bytes("65536"), 65536)
        for text in ("", "0", "1GB", "-1GiB"):
            with self.assertRaises(ct.Usage):
                ct.size_in_bytes(text)


class Meshes(unittest.TestCase):
    def test_shapes(self) -> None:
        self.assertEqual(ct.mesh_shape("1d", 3), (3,))
        self.assertEqual(ct.mesh_shape("", 3), (3,))
        self.assertEqual(ct.mesh_shape("2d", 9), (3, 3))
        with self.assertRaisesRegex(ct.Skip, "square"):
            ct.mesh_shape("2d", 8)

    def test_stand_in(self) -> None:
        mesh = ct.Mesh("cpu", (2, 3), 4, lambda ranks: ranks)
        self.assertEqual((mesh.shape, mesh.ndim, mesh.size(), mesh.size(1)), ((2, 3), 2, 6, 3))
        self.assertEqual((mesh.get_coordinate(), mesh.get_local_rank(1)), ([1, 1], 1))
        self.assertEqual((mesh.get_group(0), mesh.get_group(1)), ([1, 4], [3, 4, 5]))


class FakeCuda:
    """The counters of an allocator."""

    def __init__(self) -> None:
        self.now = self.peak = 0

    def use(self, n: int) -> None:
        self.now += n
        self.peak = max(self.peak, self.now)

    def patch(self) -> Any:
        def reset(device: Any = None) -> None:
            self.peak = self.now

        return mock.patch.multiple(
            torch.cuda,
            create=True,
            get_per_process_memory_fraction=lambda d=None: 1.0,  # not in every torch
            get_device_properties=lambda d: types.SimpleNamespace(total_memory=8 * GIB),
            mem_get_info=lambda d=None: (8 * GIB - self.now - 100, 8 * GIB),
            memory_reserved=lambda d=None: self.now + 10,
            max_memory_allocated=lambda d=None: self.peak,
            max_memory_reserved=lambda d=None: self.peak + 10,
            reset_peak_memory_stats=reset,
            set_per_process_memory_fraction=mock.Mock(),
        )


class Memories(unittest.TestCase):
    def test_cuda_keeps_cold_and_warm_apart(self) -> None:
        fake = FakeCuda()
        with fake.patch(), mock.patch.dict(ct._given, clear=True):
            memory = ct.CudaMemory(torch.device("cuda", 0))
            fake.use(500)
            fake.use(-400)
            memory.note()
            fake.use(900)  # by the check of the output
            fake.use(-900)
            memory.rewind()
            memory.reset()
            fake.use(50)
            memory.note()
            self.assertEqual(
                memory.message(),
                {
                    "cold": {"allocated_bytes": 500, "reserved_bytes": 510, "device_bytes": 250},
                    "warm": {"allocated_bytes": 150, "reserved_bytes": 160, "device_bytes": 250},
                    "usable_bytes": 8 * GIB - 90,
                },
            )

    def test_a_limit_is_the_capacity(self) -> None:
        with FakeCuda().patch(), mock.patch.dict(ct._given, {"memory": "2GiB"}, clear=True):
            memory = ct.CudaMemory(torch.device("cuda", 0))
            self.assertEqual(memory.total, 2 * GIB)
            (share, _), _ = torch.cuda.set_per_process_memory_fraction.call_args
            self.assertEqual(share, 0.25)
            self.assertEqual(memory.usable(), 2 * GIB)

    def test_memory_is_short_when_hardly_any_is_left(self) -> None:
        fake = FakeCuda()
        with fake.patch(), mock.patch.dict(ct._given, clear=True):
            rank = ct.Rank(mock.Mock(), ct.Place(0, 1, 0, False))
            rank.memory = ct.CudaMemory(torch.device("cuda", 0))
            rank.memory.retries = lambda: 0

            def work() -> None:
                raise RuntimeError("CUBLAS_STATUS_ALLOC_FAILED")

            for used, want in [(7 * GIB, False), (GIB - 1000, True)]:
                fake.use(used)
                failure = rank.attempt(work)
                self.assertEqual((failure.kind, failure.short), ("oom_suspect", want))
                with mock.patch.object(ct, "leave"):
                    rank.report(failure)
                self.assertEqual("memory_short" in rank.link.say.call_args.kwargs, want)
            rank.memory = None
            self.assertFalse(rank.attempt(work).short)

    def test_host_sees_what_a_step_needs(self) -> None:
        with mock.patch.dict(ct._given, clear=True):
            memory = ct.HostMemory()
        memory.arm()
        size = 64 << 20
        x = torch.ones(size // 4)
        memory.note()
        del x
        memory.reset()
        memory.note()
        told = memory.message()
        self.assertAlmostEqual(told["cold"]["allocated_bytes"] / size, 1, delta=0.1)
        if memory.warm is not None:
            self.assertLess(told["warm"]["allocated_bytes"], size / 10)
        self.assertIsNone(told["cold"]["reserved_bytes"])
        self.assertIsNone(told["usable_bytes"])


@dataclasses.dataclass
class Output:
    pair: torch.Tensor
    extra: Dict[str, Any]


class Outputs(unittest.TestCase):
    def test_finite(self) -> None:
        good, bad = torch.zeros(3), torch.tensor([0.0, float("inf")])
        for want, output in [
            (None, None),
            (None, torch.arange(3)),
            (None, torch.zeros(0)),
            (True, good),
            (True, (good, "x")),
            (False, [good, {"a": bad}]),
            (False, Output(good, {"n": (bad,)})),
            (False, torch.tensor([1.0, float("nan")], dtype=torch.bfloat16)),
        ]:
            with self.subTest(output=str(output)):
                self.assertIs(ct.finite(output), want)

    def test_every_slice_is_looked_at(self) -> None:
        with mock.patch.object(ct, "CHECK_CHUNK", 10):
            for place in range(63):
                x = torch.zeros(7, 3, 3)
                self.assertTrue(ct.finite(x))
                x.view(-1)[place] = float("nan")
                self.assertFalse(ct.finite(x))


class FiguresOfAStep(unittest.TestCase):
    def test_means_and_last_values(self) -> None:
        f = ct.Figures(cuda=False)
        for seconds, loss in ((1.0, 5.0), (3.0, 4.0)):
            f.add("a_seconds", seconds, "seconds")
            f.add("a_seconds", 1.0, "seconds")
            f.add("loss", loss, "")
        f.add("bad", float("nan"), "")
        self.assertEqual(
            f.take(2),
            [
                {"name": "a_seconds", "value": 3.0, "unit": "seconds"},
                {"name": "loss", "value": 4.0, "unit": ""},
            ],
        )
        self.assertEqual(f.take(1), [])

    def test_phase(self) -> None:
        with mock.patch.object(ct, "_figures", ct.Figures(cuda=False)):
            with ct.phase("exchange"):
                time.sleep(0.01)
            ct._figures.settle()
            (figure,) = ct._figures.take(1)
        self.assertEqual(figure["name"], "exchange_seconds")
        self.assertGreater(figure["value"], 0.009)


class Pulses(unittest.TestCase):
    def test_whereabouts(self) -> None:
        """The innermost frame, and behind it the innermost one of the user's file."""
        reached, go_on = threading.Event(), threading.Event()

        def run_step() -> None:
            reached.set()
            go_on.wait()

        thread = threading.Thread(target=run_step)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(go_on.set)
        reached.wait()
        inner = r"threading\.py:\d+ wait"
        for file, want in {
            __file__: inner + r", cpbench_torch_test\.py:\d+ run_step$",
            "/no/such/hooks.py": inner + "$",
            None: inner + "$",
        }.items():
            self.assertRegex(ct.whereabouts(thread.ident, file), want)
        self.assertEqual(ct.whereabouts(None, __file__), "")

    def test_signs(self) -> None:
        told: List[Dict[str, Any]] = []
        counted, enough = threading.Event(), threading.Event()

        class Line:
            def say(self, kind: str, **fields: Any) -> None:
                counted.wait()
                told.append(dict(fields, type=kind))
                if len(told) == 1:
                    raise MemoryError
                if len(told) > 2:
                    enough.set()
                    raise OSError("the worker went away")

        pulse = ct.Pulse(Line(), sys.modules[__name__], 0.001)  # type: ignore[arg-type]
        pulse.done = 3
        counted.set()
        enough.wait()
        self.assertEqual([m["type"] for m in told], ["alive"] * 3)
        self.assertEqual(told[-1]["done"], 3)
        self.assertIn("cpbench_torch_test.py", told[-1]["where"])

    def test_a_compiled_model_is_told(self) -> None:
        rank = ct.Rank.__new__(ct.Rank)
        rank.model = None
        for module, want in [
            (types.SimpleNamespace(), False),
            (types.SimpleNamespace(compiled=True), True),
            (types.SimpleNamespace(compiled=lambda: True), True),
            (types.SimpleNamespace(compiled=lambda: False), False),
        ]:
            rank.hooks = module
            self.assertEqual(rank.compiled(), want)


class Settings(unittest.TestCase):
    def test_no_secret_is_told(self) -> None:
        secret = {"NCCL_API_TOKEN": "s3cret", "AWS_SECRET": "s3cret", "NCCL_DEBUG": "WARN"}
        with mock.patch.dict(os.environ, secret):
            told = ct.settings(torch.device("cpu"))
        self.assertEqual(told["NCCL_DEBUG"], "WARN")
        self.assertNotIn("s3cret", " ".join(told.values()))
        self.assertEqual((told["allocator"], told["matmul_precision"]), ("malloc", "highest"))

    def test_what_a_built_model_shows(self) -> None:
        cpu = torch.device("cpu")
        before = ct.settings(cpu)
        before["deterministic"], before["threads"] = "another", "another"
        net = torch.nn.Sequential(torch.nn.Linear(1, 1))
        with mock.patch.dict(ct._declared, {"threads": "as declared"}, clear=True):
            told = ct.built_settings((net, None), before, cpu)
        self.assertEqual(told, {"deterministic": "False", "compile": "no"})

        class OptimizedModule(torch.nn.Module):  # as torch.compile names its own
            pass

        compiled = torch.nn.Sequential(OptimizedModule())
        self.assertEqual([ct.compile_mode(m) for m in (compiled, [compiled], object())], ["yes", "yes", "unknown"])
        with mock.patch.dict(os.environ, {"TORCH_COMPILE_DISABLE": "1"}):
            self.assertEqual(ct.compile_mode(compiled), "disabled by TORCH_COMPILE_DISABLE")

    def test_versions(self) -> None:
        self.assertEqual(ct.installed("no-such-package", "nor-this"), "not installed")
        self.assertRegex(ct.installed("numpy"), r"^\d")
        self.assertIn("seed", ct.settings(torch.device("cpu")))


if __name__ == "__main__":
    sys.exit(unittest.main())
