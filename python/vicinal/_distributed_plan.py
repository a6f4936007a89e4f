"""The plan of a distributed search: blocks of queries times parts of the corpus, what each task takes, and the tree of merges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, log2
from typing import Any

import numpy as np

from . import _inputs, _native
from . import plan as plan_search
from ._inputs import Memory
from ._row_files import RowFile, describe
from .errors import InvalidArgument, MemoryBudget

ARITY = 8  # lists that one merge takes
_TASK_SECONDS = 60.0  # at most, where rows can be divided: what a lost worker costs
_MOST_TASKS = 100_000  # pairs of a part and a block that a scheduler is asked to keep
# What cutting a search costs beside its distances, in seconds on one core (two cores, 50 and 64 columns, November 2026): a list for each pair of a
# query and a part, an element of the corpus prepared once more for each block, a task.
_LIST_SECONDS, _PREPARE_SECONDS, _CALL_SECONDS = 18e-6, 4e-9, 0.02

_NEAR = 7  # a border of two sources within this part of a part's rows is where it is cut

Span = tuple[int, int]


@dataclass(frozen=True)
class Plan:
    """What a distributed search will do and need. ``str(plan)`` is the same for people.

    parts, blocks: rows (first, last) of the corpus and of the queries; there is a task for each pair of them, and for each block a tree of
    merges of `arity` lists, `levels` high. Bytes: part_bytes and block_bytes are rows that a task opens, search_bytes what the search
    itself will use, list_bytes a list of one block, task_bytes all of that, merge_bytes what a merge holds; budget_bytes is what a worker has
    for a task and search_budget_bytes what is left of it for the search, 0 where nothing is said. read_bytes: rows that all tasks open. moved_bytes: lists that merges take, at most. task_seconds and
    seconds are predictions by the rates of this machine, of the largest task and of all of them on `workers` at a time.
    """

    parts: tuple[Span, ...]
    blocks: tuple[Span, ...]
    k: int
    columns: int
    distance_type: str
    workers: int
    arity: int
    levels: int
    part_bytes: int
    block_bytes: int
    search_bytes: int
    list_bytes: int
    task_bytes: int
    merge_bytes: int
    budget_bytes: int
    search_budget_bytes: int
    read_bytes: int
    moved_bytes: int
    task_seconds: float
    seconds: float

    @property
    def tasks(self) -> int:
        """Pairs of a part and a block."""
        return len(self.parts) * len(self.blocks)

    def __str__(self) -> str:
        of = f" of {_size(self.budget_bytes)}" if self.budget_bytes else ""
        return "\n".join([
            f"{'tasks':16}{self.tasks}: {len(self.parts)} parts of the corpus x {len(self.blocks)} blocks of queries, {self.workers} at a time",
            f"{'a task':16}{_size(self.task_bytes)}{of}: rows {_size(self.part_bytes + self.block_bytes)}, search {_size(self.search_bytes)}, "
            f"its list {_size(self.list_bytes)}; {self.task_seconds:.2g} s",
            f"{'merges':16}{self.levels} levels of {self.arity} lists, {_size(self.merge_bytes)} each",
            f"{'rows opened':16}{_size(self.read_bytes)} by all tasks",
            f"{'lists moved':16}{_size(self.moved_bytes)} at most",
            f"{'predicted':16}{self.seconds:.2g} s (by the rates of this machine)",
        ])  # fmt: skip


def plan(
    corpus: Any,
    queries: Any,
    k: int = 10,
    metric: str = "euclidean",
    *,
    dtype: Any = "float32",
    workers: int = 1,
    threads: int = 1,
    memory: Memory = None,
    device: str = "cpu",
    distance_type: Any = None,
    arity: int = ARITY,
    chunk_rows: int = 0,
    block_rows: int | None = None,
) -> Plan:
    """Cuts a search into tasks that fit a worker, without doing it.

    Parameters
    ----------
    corpus, queries : (rows, columns), an array, a file, or a list of these
        A list's items are the sources of rows, one after another: files, or chunks. Of files the header is read. `dtype` is that of what is
        given as a shape.
    k, metric, device, distance_type :
        As in :func:`vicinal.knn`.
    workers : int, default 1
        Tasks that run at a time.
    threads : int, default 1
        Of each task.
    memory : int, str or None
        Bytes that a worker has for a task, its rows included. None: no limit is known.
    arity : int, default 8
        Lists that one merge takes.
    chunk_rows : int, default 0
        Rows of the largest chunk that must be in memory as a whole before a part is cut from it; 0 for files, which are read in pieces.
    block_rows : int or None
        Queries of a block at most. None: as memory and seconds allow.

    Raises
    ------
    InvalidArgument
        Sources of different columns; a number below 1.
    MemoryBudget
        No part and block fit `memory`: what would do is said.
    """
    offered, asking = _Side.of(corpus, "corpus", dtype), _Side.of(queries, "query", dtype)
    if offered.columns != asking.columns:
        raise InvalidArgument(f"corpus has {offered.columns} columns, queries have {asking.columns}")
    for name, value in (("k", k), ("workers", workers), ("arity - 1", arity - 1)):
        if _inputs.integer(name, value) < 1:
            raise InvalidArgument(f"{name} must be >= 1, got {value}")
    asked = _Ask(offered, asking, k, metric, workers, threads, _inputs.memory_bytes(memory), device, distance_type, arity)
    return asked.fitted(chunk_rows, block_rows)


@dataclass(frozen=True)
class _Side:
    """Rows of each source, and what an element is."""

    sizes: tuple[int, ...]
    columns: int
    dtype: np.dtype

    @property
    def rows(self) -> int:
        return sum(self.sizes)

    @property
    def row_bytes(self) -> int:
        return self.columns * self.dtype.itemsize

    @classmethod
    def of(cls, x: Any, name: str, dtype: Any) -> _Side:
        sources = x if isinstance(x, list) else [x]
        shapes, kinds = [], []
        for number, source in enumerate(sources):
            if isinstance(source, (str, bytes)) or hasattr(source, "__fspath__"):
                source = describe(source)
            shape = source if isinstance(source, tuple) else source.shape
            if len(shape) != 2:
                raise InvalidArgument(f"{name}: rows have 2 dimensions, source {number} has shape {tuple(shape)}")
            shapes.append(shape)
            kinds.append(np.dtype(dtype if isinstance(source, tuple) else source.dtype))
        widths = [columns for rows, columns in shapes if rows] or [columns for _, columns in shapes]
        for number, (rows, columns) in enumerate(shapes):
            if rows and columns != widths[0]:
                where = getattr(sources[number], "path", f"source {number}")
                raise InvalidArgument(f"{name}: {where} has {columns} columns, the first has {widths[0]}")
        sizes, kind = tuple(int(rows) for rows, _ in shapes), _inputs.common_type(*kinds) if kinds else np.dtype(dtype)
        return cls(sizes, int(widths[0]) if widths else 0, kind)


@dataclass(frozen=True)
class _Ask:
    corpus: _Side
    queries: _Side
    k: int
    metric: str
    workers: int
    threads: int
    budget: int
    device: str
    distance_type: Any
    arity: int

    def fitted(self, chunk_rows: int, block_rows: int | None) -> Plan:
        """The cut of least predicted time whose tasks fit a worker and are short."""
        tried = []
        rows, count = max(1, self.corpus.rows), max(1, self.queries.rows)
        alone = plan_search((rows, max(1, self.corpus.columns)), (count, max(1, self.corpus.columns)), **self._options(rows)).seconds
        for parts in _counts(rows):
            for blocks in _counts(count):
                tasks, part, block = parts * blocks, ceil(rows / parts), ceil(count / blocks)
                if tasks <= _MOST_TASKS and (block_rows is None or block <= block_rows):
                    tried.append((*self._cost(alone / tasks, part, block, tasks), parts, blocks))
        if not tried:
            raise InvalidArgument(f"block_rows={block_rows} cuts {count} queries into more than {_MOST_TASKS} tasks")
        most = max(parts for _, _, parts, _ in tried)
        least, need = self._task(ceil(rows / most), 1, chunk_rows)
        if least is None or (self.budget and need > self.budget):
            raise MemoryBudget(self._refusal(ceil(rows / most), need, chunk_rows))
        best: tuple[tuple[int, float], Plan] | None = None
        for long, seconds, parts, blocks in sorted(tried):
            if best is not None and best[0] <= (long, seconds):  # what memory leaves of a search can only be slower
                break
            if self.budget and self._held(ceil(rows / parts), ceil(count / blocks), chunk_rows) + least.minimum_bytes > self.budget:
                continue
            cuts = self._parts(parts)
            part = max(last - first for first, last in cuts)
            found, need = self._task(part, ceil(count / blocks), chunk_rows)
            if found is not None and (not self.budget or need <= self.budget):
                cost = self._cost(found.seconds, part, ceil(count / blocks), parts * blocks)
                if best is None or cost < best[0]:
                    best = cost, self._plan(cuts, ceil(count / blocks), found, self._held(part, ceil(count / blocks), chunk_rows))
        if best is not None:
            return best[1]
        raise MemoryBudget(self._refusal(ceil(rows / most), need, chunk_rows))

    def _cost(self, search: float, part: int, block: int, tasks: int) -> tuple[int, float]:
        """How often the longest task that is wanted doubles, and seconds of all of them, where the search of each takes `search`."""
        one = search + block * _LIST_SECONDS + part * self.corpus.columns * _PREPARE_SECONDS + _CALL_SECONDS
        return max(0, ceil(log2(one / _TASK_SECONDS))), one * ceil(tasks / self.workers)

    def _options(self, part: int) -> dict[str, Any]:
        return dict(k=min(self.k, max(1, part)), metric=self.metric, dtype=self._dtype(),
                    device=self.device, threads=self.threads, distance_type=self.distance_type)  # fmt: skip

    def _block_bytes(self, block: int) -> int:
        return block * (self.queries.row_bytes + self.k * self._entry_bytes * (self.arity + 1))

    @cached_property
    def _entry_bytes(self) -> int:
        return 8 + (8 if self._type() == "f64" else 4)

    def _dtype(self) -> np.dtype:
        return _inputs.common_type(self.corpus.dtype, self.queries.dtype)

    def _type(self) -> str:
        dtype = self._dtype()
        known = _inputs.INTEGERS.get(dtype.name, _inputs.element_type("dtype", dtype))
        shape = _native.Shape(max(1, self.corpus.rows), max(1, self.corpus.columns), known)
        options = _inputs.options(k=1, metric=self.metric, device="cpu", distance_type=self.distance_type, sort="vectors")
        return _native.plan(shape, shape, options)["distance_type"]

    def _task(self, part: int, block: int, chunk_rows: int) -> tuple[Any, int]:
        """The search's own plan, None where its memory is too little; and the bytes of the whole task, or the least that it needs."""
        held = self._held(part, block, chunk_rows)
        merging = self._block_bytes(block) - block * self.queries.row_bytes
        shapes = (max(1, part), max(1, self.corpus.columns)), (max(1, block), max(1, self.queries.columns))
        options = self._options(part)
        if not self.budget:
            found = plan_search(*shapes, **options)
            return found, max(held + found.peak_bytes, merging)
        if held >= self.budget:
            return None, held
        try:
            found = plan_search(*shapes, memory=self.budget - held, **options)
        except MemoryBudget:
            return None, max(held + plan_search(*shapes, **options).minimum_bytes, merging)
        return found, max(held + found.peak_bytes, merging)

    def _held(self, part: int, block: int, chunk_rows: int) -> int:
        """Rows and the list of a task."""
        chunk = 0 if part == chunk_rows else chunk_rows  # that a part is cut from, or joined of
        return (part + chunk) * self.corpus.row_bytes + block * self.queries.row_bytes + block * min(self.k, max(part, 1)) * self._entry_bytes

    def _refusal(self, part: int, need: int, chunk_rows: int) -> str:
        if chunk_rows * self.corpus.row_bytes >= self.budget:
            way = f"rechunk it to {max(1, self.budget // (4 * max(1, self.corpus.row_bytes)))} rows a chunk, or give a task {_size(4 * need)}"
            return (f"a worker has {_size(self.budget)} for a task, and a chunk of {chunk_rows} rows of the corpus is "
                    f"{_size(chunk_rows * self.corpus.row_bytes)}: {way}")  # fmt: skip
        return (f"a worker has {_size(self.budget)} for a task, and the smallest, a part of {part} rows for 1 query, needs {_size(need)} ({need} bytes): "
                "give workers more memory, or fewer threads that share it")  # fmt: skip

    def _parts(self, count: int) -> tuple[Span, ...]:
        """About equal parts, cut between sources where a border is near."""
        total = self.corpus.rows
        borders = np.cumsum((0, *self.corpus.sizes))
        cuts = [0]
        for at in range(1, count):
            wanted = total * at // count
            border = int(borders[np.abs(borders - wanted).argmin()])
            cuts.append(border if abs(border - wanted) * _NEAR * count <= total else wanted)
        cuts = sorted({*cuts, total})
        return tuple(zip(cuts[:-1], cuts[1:])) or ((0, 0),)

    def _plan(self, parts: tuple[Span, ...], block_limit: int, search: Any, held: int) -> Plan:
        count = self.queries.rows
        blocks = tuple((first, min(first + block_limit, count)) for first in range(0, count, block_limit)) or ((0, 0),)
        part, block = max(last - first for first, last in parts), blocks[0][1]
        entry = self._entry_bytes
        lists = block * min(self.k, max(1, part)) * entry
        levels, width = 0, len(parts)
        while width > 1:
            levels, width = levels + 1, ceil(width / self.arity)
        part_bytes, block_bytes = part * self.corpus.row_bytes, block * self.queries.row_bytes
        tasks = len(parts) * len(blocks)
        return Plan(
            parts=parts, blocks=blocks, k=self.k, columns=self.corpus.columns, distance_type=search.distance_type, workers=self.workers,
            arity=self.arity, levels=levels, part_bytes=part_bytes, block_bytes=block_bytes, search_bytes=search.peak_bytes, list_bytes=lists,
            task_bytes=part_bytes + block_bytes + search.peak_bytes + lists, merge_bytes=(min(self.arity, len(parts)) + 1) * block * self.k * entry,
            budget_bytes=self.budget, search_budget_bytes=max(0, self.budget - held),
            read_bytes=len(blocks) * self.corpus.rows * self.corpus.row_bytes + len(parts) * count * self.queries.row_bytes,
            moved_bytes=tasks * lists, task_seconds=search.seconds, seconds=search.seconds * ceil(tasks / self.workers),
        )  # fmt: skip


def pieces(sizes: Sequence[int], first: int, last: int) -> list[tuple[int, int, int]]:
    """(source, first, last) of rows `first` to `last` of sources of these sizes, in their own numbers."""
    found, start = [], 0
    for source, size in enumerate(sizes):
        low, high = max(first - start, 0), min(last - start, size)
        if low < high:
            found.append((source, low, high))
        start += size
    return found


def tree(leaves: int, arity: int = ARITY) -> list[list[list[int]]]:
    """Levels of a tree of merges: each a list of groups of neighbours of the level below, by number."""
    levels = []
    while leaves > 1:
        groups = [list(range(first, min(first + arity, leaves))) for first in range(0, leaves, arity)]
        levels.append(groups)
        leaves = len(groups)
    return levels


def described(paths: Iterable[Any], names: Any = None) -> list[RowFile]:
    """Facts of files of rows, which must be of one width; in the given order."""
    files = [describe(path, names) for path in paths]
    if not files:
        raise InvalidArgument("no files of rows were given")
    return files


def _size(count: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def _counts(rows: int) -> list[int]:
    """Numbers of pieces that are tried: 1, 2, 3, 4, 6, 8, 12, ... up to a piece a row."""
    found = {1, rows}
    for power in range(40):
        found |= {2**power, 3 * 2**power}
    return sorted(count for count in found if count <= rows)
