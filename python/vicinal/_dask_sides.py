"""What a search over Dask takes as rows, and what its cluster has: sides of a search as tasks, and memory of workers before the work."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._distributed_plan import pieces
from ._inputs import array_of, common_type, refuse_masked
from ._row_files import RowFile, RowSlice, describe
from .errors import InvalidArgument, MemoryBudget

try:
    import dask
    import dask.array as da
    from dask.base import tokenize
    from dask.delayed import Delayed
    from dask.highlevelgraph import HighLevelGraph
except ImportError as error:
    raise ImportError("vicinal.dask needs dask (pip install dask[array,distributed])") from error

__all__ = ["Delayed", "HighLevelGraph", "Side", "Workers", "client_of", "da", "dask", "side", "tokenize", "workers"]

# Bytes that a worker's process grows by when it imports this module and NumPy, and what the system's allocator keeps.
_PROCESS_BYTES = 48 << 20
# The share of a worker's limit that tasks may fill; Dask writes to disk above it (distributed.worker.memory.spill).
_SHARE = 0.7


class Side:
    """Rows of one side: their sizes by source, and the argument of a task for any run of them."""

    def __init__(self, sizes: Sequence[int], columns: int, dtype: Any, token: str) -> None:
        self.sizes, self.columns, self.dtype, self.token = tuple(map(int, sizes)), int(columns), np.dtype(dtype), token

    @property
    def rows(self) -> int:
        return sum(self.sizes)

    @property
    def shapes(self) -> list[tuple[int, int]]:
        return [(size, self.columns) for size in self.sizes] or [(0, self.columns)]

    @property
    def chunk_rows(self) -> int:
        """Rows of the largest chunk that a worker holds before a run is cut from it; 0: none is held."""
        return 0

    def cut(self, spans: Sequence[tuple[int, int]]) -> list[Any]:
        """For each run of rows what a task takes."""
        raise NotImplementedError


class _Files(Side):
    def __init__(self, files: Sequence[RowFile]) -> None:
        stats = [os.stat(file.path) for file in files]
        token = tokenize([(file, stat.st_size, stat.st_mtime_ns) for file, stat in zip(files, stats)])
        filled = [file for file in files if file.rows] or list(files)
        for file in filled:
            if file.columns != filled[0].columns:
                raise InvalidArgument(f"{file.path} has {file.columns} columns, {filled[0].path} has {filled[0].columns}")
        dtype = common_type(*(file.dtype for file in files))
        super().__init__([file.rows for file in files], filled[0].columns, dtype, token)
        self._files = files

    def cut(self, spans: Sequence[tuple[int, int]]) -> list[Any]:
        return [[RowSlice(self._files[source], low, high) for source, low, high in pieces(self.sizes, *span)] or
                [RowSlice(self._files[0], 0, 0)] for span in spans]  # fmt: skip


class _Chunks(Side):
    """Chunks of a dask array."""

    def __init__(self, x: Any, name: str) -> None:
        if x.ndim != 2:
            raise InvalidArgument(f"{name}: rows have 2 dimensions, the dask array has {x.ndim}")
        if any(np.isnan(size) for size in x.chunks[0]):
            x = x.compute_chunk_sizes()
        if len(x.chunks[1]) > 1:
            x = x.rechunk({1: -1}, method="tasks")  # the other method exchanges rows among all workers at once, which none may leave meanwhile
        super().__init__(x.chunks[0], x.shape[1], x.dtype, x.name)
        self._x = x

    @property
    def chunk_rows(self) -> int:
        return max(self.sizes, default=0)

    def cut(self, spans: Sequence[tuple[int, int]]) -> list[Any]:
        whole = self._x[spans[0][0] : spans[-1][1]]
        sizes = tuple(last - first for first, last in spans)
        if whole.chunks[0] != sizes and whole.shape[0]:
            whole = whole.rechunk((sizes, -1), method="tasks")
        return list(whole.to_delayed(optimize_graph=True).ravel())


class _Array(Side):
    """An array of this process, which travels with the graph."""

    def __init__(self, x: np.ndarray) -> None:
        super().__init__([len(x)], x.shape[1], x.dtype, tokenize(x))
        self._x = x

    def cut(self, spans: Sequence[tuple[int, int]]) -> list[Any]:
        return [dask.delayed(self._x[first:last], name=f"rows-{first}-{self.token}-{last}", traverse=False) for first, last in spans]


def side(x: Any, name: str, names: Any = None) -> Side:
    """A dask array or data frame, files (a path, a pattern, a list of paths), a Zarr array, or an array of this process."""
    if isinstance(x, Side):
        return x
    if isinstance(x, da.Array):
        return _Chunks(x, name)
    if hasattr(x, "to_dask_array"):  # dask.dataframe: lengths of partitions are counted, in one pass over it
        return _Chunks(x.to_dask_array(lengths=True), name)
    if type(x).__module__.startswith("zarr."):
        return _Chunks(da.from_zarr(x), name)
    paths = [x] if isinstance(x, (str, bytes)) or hasattr(x, "__fspath__") else x
    if isinstance(paths, (list, tuple)) and paths and all(isinstance(one, (str, bytes, RowFile)) or hasattr(one, "__fspath__") for one in paths):
        return _of_paths(paths, name, names)
    refuse_masked(x, name)
    if isinstance(x, np.ndarray):
        array = np.asarray(x)
    else:
        array = _in_memory(x, name)
    if array.ndim != 2:
        raise InvalidArgument(f"{name}: rows have 2 dimensions, got {array.ndim} with shape {array.shape}")
    return _Array(array)


def _of_paths(paths: Sequence[Any], name: str, names: Any) -> Side:
    if len(paths) == 1 and not isinstance(paths[0], RowFile):
        path = os.fsdecode(paths[0])
        if path.rstrip("/").endswith(".zarr"):
            return _Chunks(da.from_zarr(path), name)
        if any(letter in path for letter in "*?[") and not os.path.exists(path):
            paths = sorted(glob.glob(path))
            if not paths:
                raise InvalidArgument(f"{name}: no file is called {path}")
    return _Files([one if isinstance(one, RowFile) else describe(os.path.abspath(os.fsdecode(one)), names) for one in paths])


def _in_memory(x: Any, name: str) -> np.ndarray:
    from . import _frames, _tables

    table = _frames.array(x, name) or _tables.array(x, name)
    array = table[0] if table is not None else array_of(x, name)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name}: expected rows of numbers, got {type(x).__name__} of dtype {array.dtype.name}")
    return array


@dataclass(frozen=True)
class Workers:
    """Of a cluster, what a plan needs: tasks at a time, and bytes that the smallest worker has for one; 0: not known."""

    tasks: int
    memory: int
    told: str = ""


def client_of(client: Any) -> Any:
    """The client that was given, or the process's current one; None where there is none and Dask's own scheduler runs."""
    if client is not None or "distributed" not in sys.modules:
        return client
    try:
        return sys.modules["distributed"].get_client()
    except ValueError:
        return None


def workers(client: Any, resources: dict[str, float] | None) -> Workers:
    """What the workers have, or of Dask's own schedulers the cores.

    Raises
    ------
    InvalidArgument
        No worker has the resources; Dask would wait for one for ever.
    MemoryBudget
        A worker's process fills its limit already.
    """
    if client is None:
        return Workers(os.cpu_count() or 1, 0)
    known = client.scheduler_info(n_workers=-1)["workers"]
    if not known:
        raise InvalidArgument("the cluster has no workers; client.wait_for_workers(1) waits for the first")
    tasks, least, told = 0, 0, ""
    for address, worker in known.items():
        at_once = int(worker["nthreads"])
        for resource, amount in (resources or {}).items():
            at_once = min(at_once, int(worker.get("resources", {}).get(resource, 0) / amount)) if amount else at_once
        tasks += at_once
        limit = int(worker["memory_limit"] or 0)
        if not limit or not at_once:
            continue
        used = int(worker.get("metrics", {}).get("memory", 0)) + _PROCESS_BYTES
        left = (int(limit * _SHARE) - used) // at_once
        if left <= 0:
            raise MemoryBudget(f"worker {address} has {limit} bytes (memory_limit), of which its process takes {used} and Dask spills above {_SHARE:.0%}: "
                               f"nothing is left for {at_once} tasks; give it at least {int((used + at_once * (64 << 20)) / _SHARE)}")  # fmt: skip
        if not told or left < least:
            least, told = left, f"worker {address}: {limit} bytes, {used} taken, {at_once} tasks at a time"
    if not tasks:
        asked = ", ".join(f"{name}={amount:g}" for name, amount in (resources or {}).items())
        raise InvalidArgument(f"no worker has the resources {asked}; workers say so when they start: dask worker --resources '{asked}'")
    return Workers(tasks, least, told)
