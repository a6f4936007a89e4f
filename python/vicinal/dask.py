"""Searches over Dask: the same bits as in one process, on as many workers as there are::

    from dask.distributed import Client
    import vicinal.dask as vd
    client = Client()
    found = vd.knn("corpus-*.npy", queries, k=20)       # starts at once, on the workers
    found.ids, found.distances                          # dask arrays, chunked by block of queries
    distances, ids = found.compute()                    # a vicinal.Neighbors

Rows come as dask arrays (chunked by rows), dask data frames, files that each worker opens for itself (paths that all workers see), Zarr, or
arrays of this process. Tasks are pure and small in what they hold: the plan (``found.plan``) keeps each within what the smallest worker has, or refuses
before the work. A lost worker costs its tasks alone. ``NearestNeighbors``, ``KNeighborsClassifier`` and ``KNeighborsRegressor`` have the
names and arguments of ``cuml.dask.neighbors``; ``KNeighborsTransformer`` is for scanpy. Needs dask, and is imported by name alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import getitem
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _distributed_plan, _inputs, distributed
from ._dask_results import CsrBlocks, NeighborBlocks
from ._dask_sides import Delayed, HighLevelGraph, Side, client_of, dask, side, tokenize, workers
from ._inputs import Memory
from ._results import Verdict
from .errors import InvalidArgument, MemoryBudget

if TYPE_CHECKING:
    from ._dask_estimators import KNeighborsClassifier, KNeighborsRegressor, KNeighborsTransformer, NearestNeighbors

__all__ = [
    "knn", "knn_graph", "range_search", "verify", "plan", "NeighborBlocks", "CsrBlocks", "NearestNeighbors", "KNeighborsClassifier", "KNeighborsRegressor",
    "KNeighborsTransformer",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in ("NearestNeighbors", "KNeighborsClassifier", "KNeighborsRegressor", "KNeighborsTransformer"):
        from . import _dask_estimators

        return getattr(_dask_estimators, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class Search:
    """One search as tasks of Dask: sides, plan, options, and how tasks are named and annotated."""

    def __init__(
        self, what: str, corpus: Any, queries: Any, k: int, metric: str, *, names: Any = None, client: Any = None, resources: dict[str, float] | None = None,
        retries: int = 2, memory: Memory = None, threads: int = 1, block_rows: int | None = None, first_id: int = 0, eligible: Any = None,
        labels: Any = None, label_rule: str = "same", **options: Any,
    ) -> None:  # fmt: skip
        self.what, self.k, self.metric, self.first_id = what, k, metric, first_id
        known = eligible is None or isinstance(eligible, (range, slice))
        self.eligible = eligible if known else _inputs.eligible_vector(eligible)
        self.corpus = side(corpus, "corpus", names)
        self.queries = self.corpus if queries is None else side(queries, "query", names)
        self.client, self.labels = client_of(client), _labels(labels, queries is None)
        self.annotations: dict[str, Any] = dict(retries=retries)
        self.resources: dict[str, Any] = dict(resources=resources) if resources else {}
        self._check_lengths()
        found = workers(self.client, resources)
        device = options.get("device", "auto")
        try:
            self.plan = _distributed_plan.plan(
                self.corpus.shapes, self.queries.shapes, k, metric, workers=found.tasks, threads=threads,
                dtype=_inputs.common_type(self.corpus.dtype, self.queries.dtype), memory=memory or found.memory or None,
                device="cpu" if device.startswith(("auto", "cuda")) else device,
                distance_type=options.get("distance_type"), chunk_rows=self.corpus.chunk_rows, block_rows=block_rows,
            )  # fmt: skip
        except MemoryBudget as error:
            raise MemoryBudget(f"{error} ({found.told})" if found.told and memory is None else str(error)) from None
        self.options = dict(options, threads=threads, distance_type=self.plan.distance_type, memory=self.plan.search_budget_bytes or None, label_rule=label_rule)
        self.token = tokenize(what, self.corpus.token, self.queries.token, k, metric, first_id, eligible, labels, self.options, self.plan)
        self.columns = self.corpus.rows + first_id

    def _check_lengths(self) -> None:
        """Masks and labels that are cut by parts must be of the whole, which no part would notice."""
        rows, asked = self.corpus.rows, self.queries.rows
        if self.eligible is not None and not isinstance(self.eligible, (range, slice)):
            mask = self.eligible
            if mask.dtype.kind == "b" and mask.shape != (rows,):
                raise InvalidArgument(f"eligible has shape {mask.shape}, the corpus has {rows} rows")
            if mask.dtype.kind in "iu" and mask.size and int(mask.min()) < 0:
                raise InvalidArgument(f"eligible: ids are >= 0, got {int(mask.min())}")
        for name, array, count in zip(("corpus", "query"), self.labels or (), (rows, asked)):
            if array.shape != (count,):
                raise InvalidArgument(f"{name} labels have shape {array.shape}, there are {count} rows")

    def task(self, name: str, function: Callable[..., Any], *arguments: Any, at: str, **options: Any) -> Any:
        """A named, annotated call on a worker; of the tasks the searches alone take resources."""
        with dask.annotate(**self.annotations, **(self.resources if name == "local" else {})):
            return dask.delayed(function, pure=True)(*arguments, **options, dask_key_name=f"{self.what}-{name}-{at}-{self.token}")

    def restricted(self, part: tuple[int, int], block: tuple[int, int]) -> dict[str, Any]:
        """Which rows of a part may answer queries of a block, as options of a task."""
        labels = None if self.labels is None else (self.labels[0][slice(*part)], self.labels[1][slice(*block)])
        return dict(eligible=distributed.eligible_part(self.eligible, *part, first_id=self.first_id), labels=labels)

    def lists(self, function: Callable[..., Any], *arguments: Any, payload: Sequence[Any] | None = None, **more: Any) -> list[list[Any]]:
        """By block, one task for each part."""
        parts, blocks = self.corpus.cut(self.plan.parts), self.queries.cut(self.plan.blocks)
        options = dict(self.options, **more)
        carried = [() for _ in parts] if payload is None else [(one,) for one in payload]
        return [
            [self.task("local", function, part, block, *arguments, *carried[p], at=f"b{b}-p{p}", first_id=span[0] + self.first_id, metric=self.metric,
                       first_query=rows[0] + (self.first_id if "exclude_self" in more else 0), **self.restricted(span, rows), **options)
             for p, (part, span) in enumerate(zip(parts, self.plan.parts))]
            for b, (block, rows) in enumerate(zip(blocks, self.plan.blocks))
        ]  # fmt: skip

    def merged(self, lists: list[Any], block: int, function: Callable[..., Any], *arguments: Any, **root: Any) -> Any:
        """The root of a tree of merges; `root` are options of the root alone."""
        for level, groups in enumerate(distributed.tree(len(lists), self.plan.arity)[:-1]):
            lists = [self.task("merge", function, [lists[at] for at in group], *arguments, partial=True, at=f"b{block}-l{level}-{number}")
                     for number, group in enumerate(groups)]  # fmt: skip
        return self.task("merge", function, lists, *arguments, at=f"b{block}-root", columns=self.columns, **root)

    def exchanged(self, scattered: list[Any]) -> list[Any]:
        """Of tasks that return a piece for each block, the list of pieces of each block: one layer of the graph, however many they are."""
        name = f"{self.what}-exchange-{self.token}"
        blocks = [f"{self.what}-incoming-b{b}-{self.token}" for b in range(len(scattered))]
        tasks: dict[str, tuple[Any, ...]] = {}
        for b, block in enumerate(blocks):
            pieces = {f"{self.what}-exchange-b{b}-from{a}-{self.token}": (getitem, one.key, b) for a, one in enumerate(scattered)}
            tasks |= {**pieces, block: (_listed, *pieces)}
        graph = HighLevelGraph.from_collections(name, tasks, dependencies=scattered)
        return [Delayed(block, graph, layer=name) for block in blocks]

    def started(self, tasks: list[Any], persist: bool) -> list[Any]:
        """Tasks that the cluster works on from now on and keeps the results of; as they are where there is no cluster."""
        if not persist or self.client is None:
            return tasks
        return list(self.client.persist(tasks))

    def neighbors(self, *, pad: bool = False, persist: bool = True, **more: Any) -> NeighborBlocks:
        if not pad and self.eligible is None and self.labels is None:
            most = self.corpus.rows - ("exclude_self" in more)
            if self.k > most:
                raise InvalidArgument(f"k={self.k} exceeds the {most} rows of the corpus that may answer (use pad)")
        lists = self.lists(distributed.local, k=self.k, **more)
        found = [self.merged(one, block, distributed.merge, self.k, self.metric, pad=pad) for block, one in enumerate(lists)]
        return NeighborBlocks(self.started(found, persist), self.plan, self.columns, self.token, self.what, self.annotations)


def _listed(*pieces: Any) -> list[Any]:
    return list(pieces)


def _labels(labels: Any, graph: bool) -> Any:
    if labels is None:
        return None
    return (_inputs.labels_vector(labels, "labels"),) * 2 if graph else _inputs.label_pair(labels)


def knn(corpus: Any, queries: Any, k: int = 10, metric: str = "euclidean", *, persist: bool = True, pad: bool = False, **options: Any) -> NeighborBlocks:
    """The k nearest rows of `corpus` for each row of `queries`: bits of :func:`vicinal.knn` over all rows.

    Parameters
    ----------
    corpus, queries : dask array, dask data frame, file or pattern or list of files, zarr array, or array
        Files are opened by the workers, by the same paths, each its own rows: .npy, .fbin, .u8bin, .i8bin, .f16bin, .fvecs, .bvecs, .parquet,
        .hdf5, .vicinal, and others that are converted first. Arrays of this process travel with the graph. A data frame's partitions and chunks of
        unknown size are counted first, in one pass. ids are places in the order of chunks and files.
    k, metric, distance_type, pad, degenerate, first_id, eligible, labels, label_rule :
        As in :func:`vicinal.knn`; eligible and labels are arrays of this process.
    names : str or list of str
        Columns of Parquet files that are the rows.
    persist : bool, default True
        With a client: the work starts now, and workers keep its lists until the result is forgotten. False: it starts when something is
        computed, anew each time, and results that are stored (``to_parquet``) never are in memory together.
    client : distributed.Client
        None: the current one, or Dask's scheduler of threads.
    resources : dict, such as {"GPU": 1}
        What each search task takes of its worker; InvalidArgument where no worker has it.
    retries : int, default 2
        Of a task that fails.
    device, threads : as in :func:`vicinal.knn`, of a task; 1 thread by default, as Dask counts
    memory : int, str or None
        Bytes of a task. None: 70 % of the smallest worker's limit, less its process, by tasks at a time.
    block_rows : int
        Queries of a block, and rows of a chunk of the result, at most. None: as memory allows.

    Returns
    -------
    NeighborBlocks
        ``.distances``, ``.ids`` dask arrays (Q, k) in chunks of a block; unpacks as these two. ``.plan``, ``.compute()``, ``.to_csr_blocks()``,
        ``.to_parquet()``, ``.to_zarr()``.

    Raises
    ------
    InvalidArgument, MemoryBudget
        Before the work. Errors of tasks come when results are computed; InvalidValue names the file and the row.
    """
    return Search("knn", corpus, queries, k, metric, **options).neighbors(pad=pad, persist=persist)


def knn_graph(
    x: Any, k: int = 15, metric: str = "euclidean", *, symmetrize: str | None = None, include_self: bool = False, persist: bool = True,
    pad: bool = False, **options: Any,
) -> NeighborBlocks | CsrBlocks:  # fmt: skip
    """The k nearest other rows of each row of `x`: bits of :func:`vicinal.knn_graph`.

    Parameters
    ----------
    x : as the corpus of :func:`knn`
    symmetrize, include_self : as in :func:`vicinal.knn_graph`; of the symmetric forms each block of rows is a task of its own.
    others : as in :func:`knn`; labels (n,)

    Returns
    -------
    NeighborBlocks
        Or with ``symmetrize`` a :class:`CsrBlocks`.
    """
    if symmetrize not in (None, "union", "mutual"):
        raise InvalidArgument(f"unknown symmetrize {symmetrize!r}; known are union, mutual")
    search = Search("graph", x, None, k, metric, **options)
    more = {} if include_self else dict(exclude_self=True)
    if symmetrize is None:
        return search.neighbors(pad=pad, persist=persist, **more)
    found = search.neighbors(pad=pad, persist=persist, **more).blocks
    spans = [(first + search.first_id, last + search.first_id) for first, last in search.plan.blocks]
    scattered = [search.task("transpose", distributed.transposed, one, span[0], spans, at=f"b{b}") for b, (one, span) in enumerate(zip(found, spans))]
    incoming = search.exchanged(scattered)
    blocks = [search.task("symmetrize", distributed.symmetrized, one, incoming[b], symmetrize, search.columns, at=f"b{b}") for b, one in enumerate(found)]
    return CsrBlocks(search.started(blocks, persist), search.plan, search.columns, search.token, search.what, search.annotations)


def range_search(
    corpus: Any, queries: Any, radius: float, metric: str = "euclidean", *, max_results: int | None = None, persist: bool = True, **options: Any,
) -> CsrBlocks:  # fmt: skip
    """Every row of `corpus` within `radius` of each row of `queries`: bits of :func:`vicinal.range_search`.

    Parameters
    ----------
    max_results : int or None
        Most entries of one block of queries, in a task and merged; CapacityExceeded beyond.
    others : as in :func:`knn` and :func:`vicinal.range_search`

    Returns
    -------
    CsrBlocks
    """
    search = Search("range", corpus, queries, 1, metric, **options)
    lists = search.lists(distributed.local_range, radius, max_results=max_results)
    blocks = [search.task("merge", distributed.merge_ranges, one, metric, max_results, search.columns, at=f"b{b}") for b, one in enumerate(lists)]
    return CsrBlocks(search.started(blocks, persist), search.plan, search.columns, search.token, search.what, search.annotations)


def verify(
    corpus: Any, queries: Any, result: Any, metric: str = "euclidean", *, relative_tolerance: float = 0.0, **options: Any,
) -> Verdict:  # fmt: skip
    """Checks a result, ours or any tool's, against the exact answer over the whole corpus.

    Parameters
    ----------
    result : NeighborBlocks of :func:`knn`, a pair (distances, ids), or ids; dask arrays or arrays
    relative_tolerance : as in :func:`vicinal.verify`
    others : as in :func:`knn`

    Returns
    -------
    Verdict
        Computed; its ``truth`` is a :class:`NeighborBlocks` of dask arrays.
    """
    distances, ids = result if isinstance(result, (tuple, NeighborBlocks)) else (None, result)
    search = Search("verify", corpus, queries, int(ids.shape[1]), metric, **options)
    if len(ids) != search.queries.rows:
        raise InvalidArgument(f"the result has {len(ids)} rows, there are {search.queries.rows} queries")
    truth = search.neighbors(pad=True)
    parts, blocks = search.corpus.cut(search.plan.parts), search.queries.cut(search.plan.blocks)
    claims = list(zip(_rows_of(distances, search.plan.blocks), _rows_of(ids, search.plan.blocks)))
    settings = {name: search.options[name] for name in ("degenerate", "device", "threads", "label_rule") if name in search.options}
    verdicts = []
    for b, (block, claim, span) in enumerate(zip(blocks, claims, search.plan.blocks)):
        wanted = search.task("ids", _ids_of, truth.blocks[b], at=f"b{b}")
        found = [search.task("gather", distributed.gathered, part, rows[0] + search.first_id, wanted, claim[1], at=f"b{b}-p{p}")
                 for p, (part, rows) in enumerate(zip(parts, search.plan.parts))]  # fmt: skip
        restricted = search.restricted((0, search.corpus.rows), span)
        verdicts.append(search.task("block", distributed.verify_block, block, truth.blocks[b], claim, found, metric, at=f"b{b}",
                                    first_id=search.first_id, relative_tolerance=relative_tolerance, **restricted, **settings))  # fmt: skip
    return distributed.joined_verdict(dask.compute(*verdicts), [first for first, _ in search.plan.blocks], truth)


def _ids_of(found: Any) -> np.ndarray:
    return found.ids


def _rows_of(array: Any, spans: Sequence[tuple[int, int]]) -> list[Any]:
    """Runs of rows of a claimed array, as tasks take them."""
    if array is None:
        return [None] * len(spans)
    if hasattr(array, "to_delayed"):
        cut = array[: spans[-1][1]].rechunk((tuple(last - first for first, last in spans), -1), method="tasks")
        return list(cut.to_delayed(optimize_graph=True).ravel())
    return [np.asarray(array)[first:last] for first, last in spans]


def plan(corpus: Any, queries: Any, k: int = 10, metric: str = "euclidean", **options: Any) -> _distributed_plan.Plan:
    """What :func:`knn` would do on this cluster, without doing it.

    Parameters
    ----------
    corpus, queries :
        As in :func:`knn`; queries None: for :func:`knn_graph` of the corpus.
    k, metric, options :
        As in :func:`knn`.

    Raises
    ------
    InvalidArgument, MemoryBudget
        As :func:`knn`, before the work.
    """
    return Search("plan", corpus, queries, k, metric, **options).plan


def carrying(search: Search, values: Side | Any) -> list[Any]:
    """By block (Neighbors, values of the neighbours): for estimators, whose labels go with the lists."""
    payload = values.cut(search.plan.parts) if isinstance(values, Side) else [values[first:last] for first, last in search.plan.parts]
    lists = search.lists(_local_carrying, payload=payload, k=search.k)
    return [search.merged(one, block, _merge_carrying, search.k, search.metric, pad=False) for block, one in enumerate(lists)]


def _local_carrying(part: Any, block: Any, values: Any, first_id: int, **options: Any) -> tuple[Any, np.ndarray]:
    found = distributed.local(part, block, first_id, **options)
    return found, distributed.carry(found, distributed.rows(values), first_id)


def _merge_carrying(lists: Sequence[tuple[Any, np.ndarray]], k: int, metric: str, **options: Any) -> tuple[Any, np.ndarray]:
    found = [one for one, _ in lists]
    merged = distributed.merge(found, k, metric, **options)
    return merged, distributed.merge_carried(found, [carried for _, carried in lists], merged)
