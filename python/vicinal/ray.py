"""Searches over Ray: the same bits as in one process, from data sets to data sets, with ids of the users' own::

    import ray, vicinal.ray
    corpus, queries = ray.data.read_parquet("corpus"), ray.data.read_parquet("queries")
    found = vicinal.ray.knn(corpus, queries, k=20, column="vector", id_column="id", query_id_column="id")
    found.write_parquet("neighbours")                   # id, ids, distances

Or, where the corpus fits each actor, queries that stream past actors that hold it::

    queries.map_batches(vicinal.ray.Knn, batch_format="numpy", compute=ray.data.ActorPoolStrategy(size=3),
                        fn_constructor_kwargs=dict(corpus="corpus.npy", k=20, column="vector"))

Tasks are pure: one that is lost with its worker or actor is run again, and the answer stays the same. Needs ray; imported by name alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

try:
    import pyarrow
    import ray
except ImportError as error:
    raise ImportError("vicinal.ray needs ray and pyarrow (pip install ray[data])") from error

from . import _distributed_plan, _frames, _inputs, _tables, distributed
from ._corpus import Corpus
from ._inputs import Memory
from ._row_files import describe
from .errors import InvalidArgument, InvalidValue

__all__ = ["Knn", "knn", "plan"]


class Knn:
    """For ``Dataset.map_batches``: adds the k nearest rows of a corpus to each batch; the corpus is prepared once an actor.

    Parameters
    ----------
    corpus : array, ObjectRef of one, a file, or a list of these
        Rows one below the other. Files are opened by the actor: :func:`vicinal.distributed.describe` says which.
    k, metric, device, threads, memory, distance_type, degenerate :
        As in :func:`vicinal.knn`; 1 thread by default, as Ray counts CPUs.
    column : str, default "vector"
        Of the batch: the queries, lists or arrays of one length.
    names : str or list of str
        Columns of Parquet files that are the rows.
    ids : array or ObjectRef of one, optional
        Ids of the user's own, (n,). None: places in the corpus. Ties go to the smaller place.
    ids_to, distances_to : str, default "ids", "distances"
        Columns that are added, (rows, k).

    Raises
    ------
    As :func:`vicinal.knn`, when the actor starts for the corpus, and by batch for queries.
    """

    def __init__(self, corpus: Any, k: int = 10, metric: str = "euclidean", *, column: str = "vector", names: Any = None, ids: Any = None,
                 ids_to: str = "ids", distances_to: str = "distances", threads: int = 1, distance_type: Any = None, **options: Any) -> None:  # fmt: skip
        parts = [_opened(one, names) for one in (corpus if isinstance(corpus, list) else [corpus])]
        self._corpus = Corpus(_inputs.joined(parts, "corpus"), metric, threads=threads, **options)
        self._k, self._column, self._to, self._distance_type = k, column, (ids_to, distances_to), distance_type
        self._ids = None if ids is None else np.asarray(ray.get(ids) if isinstance(ids, ray.ObjectRef) else ids)
        if self._ids is not None and len(self._ids) != len(self._corpus):
            raise InvalidArgument(f"there are {len(self._ids)} ids for {len(self._corpus)} rows")

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        found = self._corpus.knn(_stacked(batch[self._column], self._column), self._k, distance_type=self._distance_type)
        ids = found.ids if self._ids is None else self._ids[found.ids]
        return {**batch, self._to[0]: ids, self._to[1]: found.distances}


def _opened(x: Any, names: Any) -> Any:
    if isinstance(x, ray.ObjectRef):
        x = ray.get(x)
    if isinstance(x, (str, bytes)) or hasattr(x, "__fspath__"):
        x = describe(x, names).read()
    return x


def _stacked(column: Any, name: str) -> np.ndarray:
    """The queries of a batch of NumPy: an array already, or one of arrays."""
    array = np.asarray(column)
    if array.dtype == object:
        widths = {np.shape(item) for item in array}
        if len(widths) > 1:
            raise InvalidArgument(f"column {name!r} has items of shapes {sorted(widths)[:3]}; rows are of one length")
        array = _inputs.array_of(list(array), name) if len(array) else np.empty((0, 0), np.float32)
    return array


def knn(
    ds_corpus: Any, ds_queries: Any, k: int = 10, metric: str = "euclidean", *, column: str = "vector", query_column: str | None = None,
    id_column: str | None = None, query_id_column: str | None = None, num_cpus: float = 1, num_gpus: float = 0, max_retries: int = 3,
    memory: Memory = None, threads: int = 1, block_rows: int | None = None, pad: bool = False, **options: Any,
) -> Any:  # fmt: skip
    """The k nearest rows of one data set for each row of another: bits of :func:`vicinal.knn` over all rows.

    Parameters
    ----------
    ds_corpus, ds_queries : ray.data.Dataset
        Both are materialized, in their order: places, and with them the order of equal distances, are those of the rows there.
    column, query_column : str, default "vector"
        Rows: a column of lists or arrays of one length, of numbers. query_column None: `column`.
    id_column : str or None
        Ids of the user's own, of integers or strings and none of them missing, that are returned. None: places.
    query_id_column : str or None
        Goes along to the result. None: the place, as ``query``.
    num_cpus, num_gpus, max_retries : of each search task, as Ray takes them
    memory : int, str or None
        Bytes of a task. None: the cluster's memory by its CPUs.
    block_rows : int
        Queries of a block, and rows of a block of the result, at most.
    k, metric, device, threads, distance_type, degenerate, pad : as in :func:`vicinal.knn`

    Returns
    -------
    ray.data.Dataset
        A row a query in the order of `ds_queries`: its id, ``ids`` and ``distances``, lists nearest first.

    Raises
    ------
    InvalidArgument, InvalidValue, MemoryBudget
        Before the work: InvalidValue for an id that is missing.
    Error
        What else :func:`vicinal.knn` raises, from a task, through Ray; InvalidValue says which row of the data set, and its id.
    """
    corpus = _Rows(ds_corpus, column, id_column, "corpus")
    queries = _Rows(ds_queries, query_column or column, query_id_column, "query")
    told = _plan(corpus, queries, k, metric, num_cpus, num_gpus, memory, threads, block_rows, options)
    if not pad and k > corpus.rows:
        raise InvalidArgument(f"k={k} exceeds the {corpus.rows} rows of the corpus (use pad)")
    searching = dict(options, k=k, metric=metric, threads=threads, distance_type=told.distance_type, memory=told.search_budget_bytes or None)
    resources = dict(num_cpus=num_cpus, num_gpus=num_gpus, max_retries=max_retries)
    local, merge = ray.remote(**resources)(_local), ray.remote(num_cpus=num_cpus, max_retries=max_retries)(_merge)
    done = []
    for b, block in enumerate(told.blocks):
        asking, where = queries.cut(block)
        lists = []
        for p, part in enumerate(told.parts):
            offered, there = corpus.cut(part)
            call = local.options(name=f"knn-local-b{b}-p{p}")
            lists.append(call.remote(corpus.named(there), queries.named(where), part[0], block[0], len(offered), searching, *offered, *asking))
        for level, groups in enumerate(distributed.tree(len(lists), told.arity)[:-1]):
            lists = [merge.options(name=f"knn-merge-b{b}-l{level}-{number}").remote(k, metric, True, None, *(lists[at] for at in group))
                     for number, group in enumerate(groups)]  # fmt: skip
        last = dict(named=queries.named(where), first=block[0], queries=len(asking))
        done.append(merge.options(name=f"knn-merge-b{b}-root").remote(k, metric, pad, last, *asking, *lists))
    return ray.data.from_arrow_refs(done)


def plan(ds_corpus: Any, ds_queries: Any, k: int = 10, metric: str = "euclidean", *, column: str = "vector", query_column: str | None = None,
         num_cpus: float = 1, num_gpus: float = 0, memory: Memory = None, threads: int = 1, block_rows: int | None = None,
         **options: Any) -> _distributed_plan.Plan:  # fmt: skip
    """What :func:`knn` would do on this cluster, without searching; both data sets are materialized.

    Parameters
    ----------
    ds_corpus, ds_queries, k, metric, column, query_column, num_cpus, num_gpus, memory, threads, block_rows, options :
        As in :func:`knn`.

    Raises
    ------
    InvalidArgument, InvalidValue, MemoryBudget
        A task asks for more than the cluster has; a value is missing; the least that works is more than a task may take.
    """
    sides = _Rows(ds_corpus, column, None, "corpus"), _Rows(ds_queries, query_column or column, None, "query")
    return _plan(*sides, k, metric, num_cpus, num_gpus, memory, threads, block_rows, options)


def _plan(corpus: _Rows, queries: _Rows, k: int, metric: str, num_cpus: float, num_gpus: float, memory: Memory, threads: int, block_rows: int | None,
          options: dict[str, Any]) -> _distributed_plan.Plan:  # fmt: skip
    has = ray.cluster_resources()
    cpus = has.get("CPU", 1.0)
    if num_gpus and has.get("GPU", 0) < num_gpus:
        raise InvalidArgument(f"a task asks for num_gpus={num_gpus}, the cluster has {has.get('GPU', 0):g}")
    if num_cpus > cpus:
        raise InvalidArgument(f"a task asks for num_cpus={num_cpus}, the cluster has {cpus:g}")
    at_once = max(1, int(min(cpus / num_cpus if num_cpus else cpus, has["GPU"] / num_gpus if num_gpus else np.inf)))
    budget = memory or (int(has["memory"] / at_once) if has.get("memory") else None)
    both = (corpus, queries), (queries, corpus)
    offered, asking = (one.shapes if one.rows else [(0, other.columns)] for one, other in both)
    return _distributed_plan.plan(
        offered, asking, k, metric, dtype=_inputs.common_type(corpus.dtype, queries.dtype), workers=at_once,
        threads=threads, memory=budget, distance_type=options.get("distance_type"), block_rows=block_rows,
    )  # fmt: skip


class _Rows:
    """A materialized data set: references to its blocks, and what is in them."""

    def __init__(self, data: Any, column: str, id_column: str | None, side: str) -> None:
        data.context.execution_options.preserve_order = True
        self._refs, self._column, self._id_column = data.to_arrow_refs(), column, id_column
        facts = ray.get([ray.remote(num_cpus=0.1)(_facts).remote(one, column, id_column, side) for one in self._refs])
        filled = [fact for fact in facts if fact[0]]
        self.sizes = [fact[0] for fact in facts]
        if side == "corpus" and (missing := sum(fact[3] for fact in facts)):  # those of queries go along as they are
            row = next(sum(self.sizes[:at]) + fact[4] for at, fact in enumerate(facts) if fact[3])
            where = f"{side}: column {id_column!r}, row {row}"
            raise InvalidValue(f"{where} is missing ({missing} in all); drop or fill it")
        self.rows = sum(self.sizes)
        self.columns = filled[0][1] if filled else 0
        self.dtype = _inputs.common_type(*(fact[2] for fact in filled)) if filled else np.dtype(np.float32)
        self.shapes = [(fact[0], fact[1] if fact[0] else self.columns) for fact in facts]

    def cut(self, span: tuple[int, int]) -> tuple[list[Any], list[tuple[int, int]]]:
        """References to the blocks that hold rows `span`, and which rows of each."""
        found = distributed.pieces(self.sizes, *span) or [(0, 0, 0)]
        return [self._refs[source] for source, _, _ in found], [(low, high) for _, low, high in found]

    def named(self, spans: list[tuple[int, int]]) -> tuple[str, str | None, list[tuple[int, int]]]:
        """What a task needs to find the rows in the tables."""
        return self._column, self._id_column, spans


def _facts(table: Any, column: str, id_column: str | None, side: str) -> tuple[int, int, str, int, int]:
    """Rows, columns and element type; how many ids are missing, and the first of them."""
    for name in (column, id_column):
        if name is not None and table.num_rows and name not in table.column_names:
            raise InvalidArgument(f"{side}: the data set has no column {name!r}; it has {', '.join(table.column_names)}")
    if not table.num_rows:
        return 0, 0, "<f4", 0, 0
    rows = _vectors(table.slice(0, 1), column)
    missing = [] if id_column is None else _frames.missing_rows(table.column(id_column)).tolist()
    return table.num_rows, rows.shape[1], rows.dtype.str, len(missing), missing[0] if missing else 0


def _vectors(table: Any, column: str) -> np.ndarray:
    chosen = table.select([column])
    if isinstance(table.schema.field(column).type, pyarrow.ExtensionType):  # arrays, as Ray keeps them
        items = table.column(column).combine_chunks()
        items = items.chunk(0) if isinstance(items, pyarrow.ChunkedArray) else items
        return _stacked(items.to_numpy(zero_copy_only=False), column)
    found = _frames.array(chosen, column) or _tables.array(chosen, column)
    return chosen.column(0).to_numpy().reshape(-1, 1) if found is None else found[0]


def _cut(tables: Sequence[Any], spans: list[tuple[int, int]]) -> list[Any]:
    return [table.slice(low, high - low) for table, (low, high) in zip(tables, spans)]


def _rows(tables: list[Any], column: str) -> np.ndarray | None:
    """None: there are none."""
    opened = [_vectors(table, column) for table in tables if table.num_rows]
    return _inputs.joined(opened, column) if opened else None


def _local(corpus: Any, queries: Any, first_id: int, first_query: int, offered: int, options: dict[str, Any], *tables: Any) -> Any:
    """(Neighbors, ids of the user's or None) of one part and one block; `tables` are first those of the corpus, `offered` of them."""
    column, id_column, spans = corpus
    part, block = _cut(tables[:offered], spans), _cut(tables[offered:], queries[2])
    sides = _rows(part, column), _rows(block, queries[0])
    columns = next((one.shape[1] for one in sides if one is not None), 0)
    rows, asked = (np.empty((0, columns), np.float32) if one is None else one for one in sides)
    try:
        found = distributed.local(rows, asked, first_id, first_query=first_query, **options)
    except InvalidValue as error:
        raise InvalidValue(_with_id(str(error), {"corpus": (part, id_column, first_id), "query": (block, queries[1], first_query)})) from None
    if id_column is None:
        return found, None
    own = np.concatenate(_inputs.same_type([table.column(id_column).to_numpy() for table in part], f"{id_column}: id"))
    return found, distributed.carry(found, own, first_id)


def _with_id(message: str, sides: dict[str, Any]) -> str:
    """A message about a row, with the user's id of it where there is one."""
    told = re.match(r"(corpus|query) row (\d+)", message)
    if told is None or sides[told[1]][1] is None:
        return message
    tables, id_column, first = sides[told[1]]
    row = pyarrow.concat_tables([table.select([id_column]) for table in tables]).slice(int(told[2]) - first, 1)
    return f"{told[0]} ({id_column} {row[id_column][0].as_py()}){message[told.end():]}"


def _merge(k: int, metric: str, pad: bool, last: dict[str, Any] | None, *given: Any) -> Any:
    """(Neighbors, ids of the user's or None) of lists; at the root of the tree (`last`) the table of the result, for which `given` begins with the queries."""
    asking = given[: last["queries"]] if last else ()
    lists = given[len(asking) :]
    found = distributed.merge([one for one, _ in lists], k, metric, pad, partial=last is None)
    own = None if lists[0][1] is None else distributed.merge_carried([one for one, _ in lists], [ids for _, ids in lists], found)
    if last is None:
        return found, own
    _, id_column, spans = last["named"]
    if id_column is None:
        name, names = "query", pyarrow.array(np.arange(last["first"], last["first"] + len(found.ids)))
    else:
        name, names = id_column, pyarrow.chunked_array([table.column(id_column).combine_chunks() for table in _cut(asking, spans)])
    present = found.ids >= 0
    offsets = np.concatenate([[0], np.cumsum(present.sum(axis=1))])
    ids = (found.ids if own is None else own)[present]
    return pyarrow.table({name: names, "ids": pyarrow.LargeListArray.from_arrays(offsets, pyarrow.array(ids)),
                          "distances": pyarrow.LargeListArray.from_arrays(offsets, found.distances[present])})  # fmt: skip
