"""What searches over Dask return: blocks of rows that stay where they were made, as dask arrays, in files, or in one place when asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ._dask_sides import da, dask
from ._distributed_plan import Plan
from ._results import Certificate, CsrNeighbors, Neighbors, Stats
from .distributed import _joined_certificate, _joined_stats


class _Blocks:
    """Blocks of rows of a result, each a Delayed."""

    def __init__(self, blocks: Sequence[Any], plan: Plan, columns: int, token: str, what: str, annotations: dict[str, Any]) -> None:
        self.blocks, self.plan, self.columns = list(blocks), plan, columns
        self._token, self._what, self._annotations = token, what, annotations

    def __len__(self) -> int:
        return self.plan.blocks[-1][1]

    @property
    def _sizes(self) -> list[int]:
        return [last - first for first, last in self.plan.blocks]

    def _each(self, name: str, function: Callable[..., Any], *more: Any) -> list[Any]:
        """A task for each block: function(block, its number, its first row, *more)."""
        with dask.annotate(**self._annotations):
            call = dask.delayed(function, pure=True)
            return [call(block, number, first, *more, dask_key_name=f"{self._what}-{name}-b{number}-{self._token}")
                    for number, (block, (first, _)) in enumerate(zip(self.blocks, self.plan.blocks))]  # fmt: skip

    def _together(self) -> list[Any]:
        return list(dask.compute(*self.blocks))

    def to_csr_blocks(self) -> list[Any]:
        """For each block of rows a Delayed scipy.sparse.csr_matrix (its rows, ``columns``), entries as in :meth:`vicinal.Neighbors.to_csr`."""
        return self._each("csr", _csr_of, self.columns)

    def to_parquet(self, folder: Any) -> list[str]:
        """Writes part-00000.parquet, ... to a folder that the workers see, a file and a task a block, and returns the paths.

        A row a query: ``query`` int64, ``ids`` list of int64 and ``distances`` list of floats, missing entries left out. A file takes its name when it
        is complete. Needs pyarrow on the workers.

        Raises
        ------
        IoError, ImportError
        """
        path = os.path.abspath(os.fsdecode(folder))
        os.makedirs(path, exist_ok=True)
        return list(dask.compute(*self._each("parquet", _to_parquet, path)))


class NeighborBlocks(_Blocks):
    """Neighbors of k a query, on the workers; unpacks as ``distances, ids``.

    distances, ids: dask arrays (Q, k), a chunk a block of queries. blocks: Delayed :class:`vicinal.Neighbors`. plan: what was planned.
    columns: ids are below it.
    """

    def _array(self, name: str, function: Callable[..., Any], kind: Any) -> Any:
        chunks = [da.from_delayed(chunk, (size, self.plan.k), kind) for chunk, size in zip(self._each(name, function), self._sizes)]
        return da.concatenate(chunks) if len(chunks) > 1 else chunks[0]

    @property
    def distances(self) -> Any:
        return self._array("distances", _distances_of, {"f32": np.float32, "f64": np.float64, "u32": np.uint32}[self.plan.distance_type])

    @property
    def ids(self) -> Any:
        return self._array("ids", _ids_of, np.int64)

    def frames(self) -> tuple[Any, Any]:
        """``distances`` and ``ids`` as dask data frames, a partition a block, rows by the number of the query. Needs pandas."""
        import dask.dataframe as dd

        kind = self.distances.dtype
        return tuple(
            dd.from_delayed(self._each(f"{name}-frame", _frame_of, name), meta=_frame(np.empty((0, self.plan.k), dtype), 0), verify_meta=False,
                            divisions=[*(first for first, _ in self.plan.blocks), max(0, len(self) - 1)])
            for name, dtype in (("distances", kind), ("ids", np.dtype(np.int64)))
        )  # type: ignore[return-value]  # fmt: skip

    def __iter__(self) -> Iterator[Any]:
        return iter((self.distances, self.ids))

    def compute(self) -> Neighbors:
        """All lists in this process."""
        found = self._together()
        counts = None if found[0].counts is None else np.concatenate([one.counts for one in found])
        certificate, stats = _said(found)
        return Neighbors(np.concatenate([one.distances for one in found]), np.concatenate([one.ids for one in found]), certificate, stats, counts,
                     self.columns)  # fmt: skip

    def to_zarr(self, path: Any) -> None:
        """Writes the arrays ``ids`` and ``distances`` (Q, k) to a Zarr group in a folder that the workers see, a chunk a block. Needs zarr."""
        import zarr

        where = os.path.abspath(os.fsdecode(path))
        group = zarr.open_group(where, mode="w")
        shape, chunk = (len(self), self.plan.k), (max(1, self._sizes[0]), self.plan.k)
        for name, kind in (("ids", "int64"), ("distances", self.distances.dtype)):
            group.create_array(name, shape=shape, chunks=chunk, dtype=kind)
        dask.compute(*self._each("zarr", _to_zarr, where))

    def __repr__(self) -> str:
        return f"<vicinal.dask.NeighborBlocks of {len(self)} queries, k={self.plan.k}, in {len(self.blocks)} blocks>"


class CsrBlocks(_Blocks):
    """Neighbors of differing lengths, on the workers: of a range search, or of a symmetric graph.

    blocks: Delayed :class:`vicinal.CsrNeighbors`, for the rows that ``plan.blocks`` says. columns: ids are below it.
    """

    def compute(self) -> CsrNeighbors:
        """All lists in this process."""
        found = self._together()
        offsets = [np.zeros(1, np.int64)]
        for one in found:
            offsets.append(one.offsets[1:] + offsets[-1][-1])
        return CsrNeighbors(np.concatenate(offsets), np.concatenate([one.distances for one in found]), np.concatenate([one.ids for one in found]),
                            *_said(found), self.columns)  # fmt: skip

    def to_zarr(self, path: Any) -> None:
        """Writes a Zarr group ``block-00000`` a block, with its ``first`` row as an attribute and the arrays ``offsets``, ``ids``, ``distances``."""
        import zarr

        where = os.path.abspath(os.fsdecode(path))
        zarr.open_group(where, mode="w")
        dask.compute(*self._each("zarr", _csr_to_zarr, where))

    def __repr__(self) -> str:
        return f"<vicinal.dask.CsrBlocks of {len(self)} rows in {len(self.blocks)} blocks>"


def _said(found: Sequence[Any]) -> tuple[Certificate, Stats]:
    return _joined_certificate(found), _joined_stats(found)


def _distances_of(found: Neighbors, number: int, first: int) -> np.ndarray:
    return found.distances


def _ids_of(found: Neighbors, number: int, first: int) -> np.ndarray:
    return found.ids


def _frame(array: np.ndarray, first: int) -> Any:
    import pandas

    return pandas.DataFrame(array, index=pandas.RangeIndex(first, first + len(array)))


def _frame_of(found: Neighbors, number: int, first: int, name: str) -> Any:
    return _frame(getattr(found, name), first)


def _csr_of(found: Any, number: int, first: int, columns: int) -> Any:
    return found.to_csr(columns)


def _ragged(found: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(offsets, ids, distances) of lists of either sort, missing entries left out."""
    if isinstance(found, CsrNeighbors):
        return found.offsets, found.ids, found.distances
    present = found.ids >= 0
    offsets = np.zeros(len(found.ids) + 1, np.int64)
    np.cumsum(present.sum(axis=1), out=offsets[1:])
    return offsets, found.ids[present], found.distances[present]


def _to_parquet(found: Any, number: int, first: int, folder: str) -> str:
    import pyarrow
    from pyarrow import parquet

    offsets, ids, distances = _ragged(found)
    lists = pyarrow.LargeListArray
    table = pyarrow.table({
        "query": np.arange(first, first + len(offsets) - 1, dtype=np.int64),
        "ids": lists.from_arrays(offsets, ids), "distances": lists.from_arrays(offsets, distances),
    })  # fmt: skip
    target = os.path.join(folder, f"part-{number:05}.parquet")
    beside = f"{target}.{os.getpid()}"  # a task that is tried again may run beside itself
    try:
        parquet.write_table(table, beside)
        os.replace(beside, target)
    finally:
        if os.path.exists(beside):
            os.remove(beside)
    return target


def _to_zarr(found: Neighbors, number: int, first: int, path: str) -> int:
    import zarr

    group: Any = zarr.open_group(path, mode="r+")
    for name, array in (("ids", found.ids), ("distances", found.distances)):
        group[name][first : first + len(array)] = array
    return len(found.ids)


def _csr_to_zarr(found: CsrNeighbors, number: int, first: int, path: str) -> int:
    import zarr

    group: Any = zarr.open_group(f"{path}/block-{number:05}", mode="w")
    group.attrs["first"] = first
    for name in ("offsets", "ids", "distances"):
        array = getattr(found, name)
        group.create_array(name, data=array.view(np.dtype(array.dtype.name)))  # C has two integers of 64 bits, and zarr knows one
    return len(found)
