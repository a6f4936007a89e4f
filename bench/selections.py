"""Selections from float32 rows by every engine that is here: ours by name, and the peers. For bench/select.py and repro/."""

import ctypes
import subprocess
from pathlib import Path

import numpy as np

import vicinal

ROOT = Path(__file__).resolve().parent.parent


def rows_of(family, rows, n, seed=7):
    """The families of rows whose order or values a selection may stumble over."""
    rng = np.random.default_rng(seed)
    if family == "random":
        return rng.random((rows, n), dtype=np.float32)
    if family in ("ascending", "descending"):
        x = np.sort(rng.random((rows, n), dtype=np.float32), axis=1)
        return x if family == "ascending" else np.ascontiguousarray(x[:, ::-1])
    if family == "few-valued":
        return rng.integers(0, 4, (rows, n)).astype(np.float32)
    if family == "equal":
        return np.ones((rows, n), np.float32)
    if family == "one outlier":
        x = np.ones((rows, n), np.float32)
        x[:, n // 2] = -1
        return x
    x = rng.random((rows, n), dtype=np.float32)
    if family == "NaN-rich":
        x[rng.random((rows, n), dtype=np.float32) < 0.9] = np.nan
        return x
    assert family == "denormals", family
    return x * np.float32(1e-39)


def standard_library():
    library = ROOT / "build" / "lib" / "libstd_select.so"
    subprocess.run([ROOT / "scripts" / "build", "cpu", "std_select"], check=True)
    loaded = ctypes.CDLL(str(library))

    def engine(name):
        function = getattr(loaded, name)
        pointer = ctypes.c_void_p
        function.argtypes = [pointer, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int, pointer, pointer]

        def run(x, k, threads):
            values, ids = np.empty((len(x), k), np.float32), np.empty((len(x), k), np.int64)
            function(x.ctypes.data, x.shape[0], x.shape[1], k, threads, values.ctypes.data, ids.ctypes.data)
            return values
        return run

    return {"std::nth_element pairs": engine("nth_element_pairs"), "std::partial_sort pairs": engine("partial_sort_pairs"),
            "read only": engine("read_all")}


def ours(algorithm):
    return lambda x, k, threads: vicinal.select_k(x, k, algorithm=algorithm, threads=threads).values


def faiss_heap():
    import faiss

    def run(x, k, threads):
        faiss.omp_set_num_threads(threads)
        values, ids = np.empty((len(x), k), np.float32), np.empty((len(x), k), np.int64)
        heap = faiss.float_maxheap_array_t()
        heap.nh, heap.k = len(x), k
        heap.val, heap.ids = faiss.swig_ptr(values), faiss.swig_ptr(ids)
        heap.heapify()
        heap.addn(x.shape[1], faiss.swig_ptr(x))
        heap.reorder()
        return values

    return {"faiss heap " + faiss.__version__: run}


def numpy_argpartition():
    def run(x, k, threads):  # one thread: NumPy has no more
        ids = np.argpartition(x, k - 1, axis=1)[:, :k]
        values = np.take_along_axis(x, ids, axis=1)
        return np.take_along_axis(values, np.argsort(values, axis=1), axis=1)

    return {"numpy argpartition " + np.__version__: run}


def torch_topk():
    import torch

    def run(x, k, threads):
        torch.set_num_threads(threads)
        return torch.topk(torch.from_numpy(x), k, largest=False).values.numpy()

    return {"torch topk " + torch.__version__: run}


def peers():
    """name -> function(rows, k, threads) -> values. What is not installed is left out, and said so."""
    found = standard_library()
    for make, package in ((faiss_heap, "faiss-cpu"), (numpy_argpartition, "numpy"), (torch_topk, "torch")):
        try:
            found |= make()
        except ImportError:
            print(f"{package} is not installed: not run")
    return found
