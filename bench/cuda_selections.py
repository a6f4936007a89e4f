"""Selections from float32 rows in the memory of a CUDA device, by ours, CUB's and torch's, in one process. For bench/select_cuda.py
and repro/; needs torch, and the library of bench/select_engines.cu (VICINAL_BENCH_ENGINES names it)."""

import ctypes
import os
import statistics
from dataclasses import dataclass
from pathlib import Path

import torch

FAMILIES = ("random", "equal", "ascending", "descending", "few-valued", "one outlier", "NaN-rich", "denormals")
ROOT = Path(__file__).resolve().parent.parent


@dataclass
class Times:
    """Milliseconds between device events."""

    median: float
    mean: float
    deviation: float
    count: int


def load():
    path = os.environ.get("VICINAL_BENCH_ENGINES") or str(ROOT / "build-dist" / "lib" / "libbench_select_engines.so")
    library = ctypes.CDLL(path)
    library.bench_time.restype = ctypes.c_char_p
    library.bench_algorithms.restype = ctypes.c_char_p
    return library


class Selections:
    def __init__(self, most_values):
        self.library = load()
        self.memory = torch.empty(most_values, dtype=torch.float32, device="cuda")
        self.names = ["vicinal " + name for name in self.library.bench_algorithms().decode().split(",")]

    def fill(self, rows, cols, family="random", seed=0):
        self.rows, self.cols = rows, cols
        self.library.bench_fill(ctypes.c_void_p(self.memory.data_ptr()), ctypes.c_int64(rows), ctypes.c_int64(cols), FAMILIES.index(family), ctypes.c_uint64(seed))
        self.matrix = self.memory[: rows * cols].view(rows, cols)

    def time(self, engine, k, ids=True, seconds=0.05, most=50):
        """Times, or the reason why the engine cannot."""
        if engine.startswith("torch"):
            return self.by_torch(engine, k, seconds, most)
        out = (ctypes.c_double * 4)()
        why = self.library.bench_time(engine.encode(), ctypes.c_void_p(self.memory.data_ptr()), ctypes.c_int64(self.rows), ctypes.c_int64(self.cols),
                                      ctypes.c_int64(k), int(ids), ctypes.c_double(seconds), most, out)  # fmt: skip
        return why.decode() if why else Times(out[0], out[1], out[2], int(out[3]))

    def by_torch(self, engine, k, seconds, most):
        call = {"torch topk": lambda: torch.topk(self.matrix, k, largest=False), "torch sort": lambda: torch.sort(self.matrix, stable=True)}[engine]
        try:
            return times_of(call, seconds, most)
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
            return "out of memory"


def times_of(call, seconds, most):
    """The same loop as times_of in bench/select_timing.cuh."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    call()
    torch.cuda.synchronize()
    times = []
    while len(times) < 3 or (sum(times) < seconds * 1e3 and len(times) < most):
        begin.record()
        call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
        if sum(times) > 4 * seconds * 1e3:
            break
    return Times(statistics.median(times), statistics.mean(times), statistics.stdev(times) if len(times) > 1 else 0.0, len(times))
