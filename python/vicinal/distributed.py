"""A search in parts, for any engine that runs functions elsewhere: a plan, and the tasks that it is made of::

    plan = distributed.plan(corpus_files, (len(queries), 64), k=20, workers=8, memory="4 GiB")
    lists = [distributed.local(part, block, first_id, k=20) for ...]     # pure: anywhere, in any order, as often as need be
    found = distributed.merge(lists, k=20)                                # in any tree: always the same bytes

A part is an array, a :class:`RowSlice` of a file, which is opened where the task runs, or a list of these, one below the other. The bits are
those of one search over the whole. ``vicinal.dask`` and ``vicinal.ray`` hand these functions to their engines; nothing here needs either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from . import _inputs, _native
from . import knn as _knn
from . import merge as _merge
from . import range_search as _range_search
from . import verify as _verify
from ._distributed_graph import symmetrized, transposed
from ._distributed_plan import Plan, described, pieces, plan, tree
from ._distributed_rows import Named, opened, rows
from ._results import Certificate, CsrNeighbors, Neighbors, Stats, Verdict, neighbors
from ._row_files import RowFile, RowSlice, describe
from .errors import CapacityExceeded, RangeError

__all__ = [
    "Plan", "RowFile", "RowSlice", "describe", "described", "pieces", "plan", "tree", "rows", "local", "local_range", "merge", "merge_ranges",
    "carry", "merge_carried", "transposed", "symmetrized", "gathered", "verify_block", "joined_verdict", "eligible_part",
]  # fmt: skip


_BEYOND = -2  # in place of an id (vicinal::beyond_type): rows follow whose distances are beyond the type


def local(
    part: Any,
    block: Any,
    first_id: int = 0,
    k: int = 10,
    metric: str = "euclidean",
    *,
    first_query: int = 0,
    exclude_self: bool = False,
    eligible: Any = None,
    labels: Any = None,
    **options: Any,
) -> Neighbors:
    """The k nearest rows of one part for one block of queries; fewer columns than k where the part has fewer rows.

    A list ends early where the next row's distance is beyond the type, which other parts' rows may be nearer than: an entry of id -2 says so to
    :func:`merge`.

    Parameters
    ----------
    part, block : rows as in this module's head
    first_id : int, default 0
        id of the part's first row.
    k, metric, options :
        As in :func:`vicinal.knn`; options are its device, threads, memory, distance_type, degenerate and label_rule.
    first_query : int, default 0
        Number of the block's first row, for messages and for ``exclude_self``.
    exclude_self : bool, default False
        Queries are rows of the corpus: query i leaves out id ``first_query`` + i.
    eligible, labels :
        As in :func:`vicinal.knn`, of this part and block: :func:`eligible_part` cuts them.

    Raises
    ------
    As :func:`vicinal.knn`. InvalidValue names the file, where there is one, and the row both there and in the whole.
    """
    with Named(part, first_id, block, first_query):
        corpus, queries = opened(part, "corpus"), opened(block, "query")
        count, offered = len(queries), len(corpus)
        own = exclude_self and first_id < first_query + count and first_query < first_id + offered
        width = max(1, min(k + own, offered))
        options |= dict(first_id=first_id, pad=width < k + own or eligible is not None or labels is not None, eligible=eligible, labels=labels)
        try:
            found = _knn(corpus, queries, width, metric, **options)
        except RangeError:  # of rows, perhaps, that are none of the whole's nearest
            found = _finite(corpus, queries, width, metric, **options)
    return _without_self(found, first_query, k) if own else found


def _finite(
    corpus: Any, queries: Any, k: int, metric: str, *, device: str = "auto", eligible: Any = None, labels: Any = None, label_rule: str = "same", **options: Any
) -> Neighbors:
    """The same lists, which end before rows at distances beyond the type; raises what is wrong with any distance else."""
    part, asked, copied = _inputs.sides(corpus, queries)
    chosen = _inputs.options(k=k, metric=metric, device=_inputs.device(device, part, asked), eligible=_inputs.eligible(eligible, labels, label_rule),
                             sort=part, stream=_inputs.stream(part, asked), **options)  # fmt: skip
    return neighbors(_native.knn_of_part(part, asked, chosen), copied, part.shape[0] + chosen.first_id)


def _without_self(found: Neighbors, first_query: int, k: int) -> Neighbors:
    """The lists without the queries themselves: of a list that has not its query, the last entry goes."""
    drop = found.ids == np.arange(first_query, first_query + len(found.ids))[:, None]
    drop[~drop.any(axis=1), -1] = True
    if drop.shape[1] <= k:  # the part is smaller: its width stays, which may be one, and the place of the query is empty
        distances, ids = found.distances.copy(), found.ids.copy()
        ids[drop & (ids == np.arange(first_query, first_query + len(ids))[:, None])] = -1
        return _of(found, distances, ids)
    shape = len(drop), drop.shape[1] - 1
    return _of(found, found.distances[~drop].reshape(shape), found.ids[~drop].reshape(shape))


def _of(found: Neighbors, distances: np.ndarray, ids: np.ndarray) -> Neighbors:
    return Neighbors(distances, ids, found.certificate, found.stats, None, found.columns)


def merge(
    lists: Sequence[Neighbors], k: int, metric: str = "euclidean", pad: bool = True, columns: int | None = None, *, partial: bool = False
) -> Neighbors:
    """One list a query from those of several parts, or of several merges: any tree gives the same bits.

    Parameters
    ----------
    lists : results of :func:`local` or of this function, of one block
    k, metric : as they were searched
    pad : bool, default True
        Fewer than k entries are filled up. At the root of a tree: what the user asked for.
    columns : int or None
        Ids are below it.
    partial : bool, default False
        The lists are not those of all parts: at the root of a tree, never.

    Returns
    -------
    Neighbors
        Its certificate counts pairs of a query and a part.

    Raises
    ------
    InvalidArgument
        Without ``pad``, where all lists together have fewer than k entries.
    RangeError
        Unless ``partial``: a distance of the k nearest is beyond its type.
    """
    beyond = np.logical_or.reduce([(np.asarray(one.ids) == _BEYOND).any(axis=1) for one in lists])
    merged = _merge(lists, k, metric, pad or bool(np.any(beyond)))
    if np.any(beyond):
        ends = (merged.ids >= 0).sum(axis=1)
        short = np.flatnonzero(beyond & (ends < k))
        if len(short) and not partial:
            advice = "use euclidean" if metric == "sqeuclidean" else "use distance_type=f64 or scale the rows"
            raise RangeError(f"query {short[0]}: {metric} of its {k} nearest exceeds {merged.distances.dtype.name}; {advice}")
        merged.ids[short, ends[short]] = _BEYOND
        if not pad and (ends < k).any():
            _merge(lists, k, metric, pad)  # refuses it
    return Neighbors(merged.distances, merged.ids, _joined_certificate(lists), _joined_stats(lists), merged.counts, columns)


def _joined_certificate(lists: Sequence[Any]) -> Certificate:
    each = [one.certificate for one in lists]
    return Certificate(
        sum(one.queries for one in each), sum(one.proven for one in each), sum(one.redone for one in each),
        tuple(dict.fromkeys(name for one in each for name in one.precisions)), max((one.largest_bound for one in each), default=0.0),
    )  # fmt: skip


def _joined_stats(lists: Sequence[Any]) -> Stats:
    """Counts and seconds of all parts together; the rest is that of the first."""
    each = [one.stats for one in lists]
    added = ("seconds", "prepare_seconds", "pairs", "candidates", "reranked", "underflowed", "copied_bytes", "planned_seconds")
    most = ("planned_bytes", "used_bytes", "passes")
    return replace(each[0], **{name: sum(getattr(one, name) for one in each) for name in added},
                   **{name: max(getattr(one, name) for one in each) for name in most})  # fmt: skip


def carry(found: Neighbors, values: np.ndarray, first_id: int) -> np.ndarray:
    """What belongs to the rows of a part (labels, ids of the user's), for each entry of its lists; of missing entries that of its first row.

    Parameters
    ----------
    found : result of :func:`local`
    values : (rows of the part, ...) array
    first_id : int
        id of the part's first row.

    Returns
    -------
    (Q, k, ...) array
    """
    values = np.asarray(values)
    if not len(values):
        return np.zeros((*found.ids.shape, *values.shape[1:]), values.dtype)
    return values[np.where(found.ids < 0, 0, found.ids - first_id)]


def merge_carried(lists: Sequence[Neighbors], carried: Sequence[np.ndarray], merged: Neighbors) -> np.ndarray:
    """What lists carry, for the entries that a merge of them kept; of missing entries any of it.

    Parameters
    ----------
    lists : results of :func:`local` or :func:`merge`, of one block
    carried : arrays of :func:`carry` or of this function, one of each list
    merged : what :func:`merge` made of the lists

    Returns
    -------
    (Q, k, ...) array

    Raises
    ------
    InvalidArgument
        Integers of both kinds of 64 bits are carried, and one is beyond int64.
    """
    ids, values = np.concatenate([one.ids for one in lists], axis=1), np.concatenate(_inputs.same_type(carried, "carried"), axis=1)
    order = np.argsort(ids, axis=1, kind="stable")
    known, inverse = np.unique(np.concatenate([ids.ravel(), merged.ids.ravel()]), return_inverse=True)
    row = np.arange(len(ids))[:, None] * len(known)
    have = np.take_along_axis(row + inverse[: ids.size].reshape(ids.shape), order, axis=1)
    places = np.searchsorted(have.ravel(), (row + inverse[ids.size :].reshape(merged.ids.shape)).ravel())
    columns = order.ravel()[np.minimum(places, max(order.size - 1, 0))].reshape(merged.ids.shape)
    return values[np.arange(len(ids))[:, None], columns]


def local_range(
    part: Any,
    block: Any,
    radius: float,
    first_id: int = 0,
    metric: str = "euclidean",
    *,
    first_query: int = 0,
    **options: Any,
) -> CsrNeighbors:
    """Every row of one part within `radius` of each query of one block; parameters are those of :func:`local` and :func:`vicinal.range_search`."""
    with Named(part, first_id, block, first_query):
        return _range_search(opened(part, "corpus"), opened(block, "query"), radius, metric, first_id=first_id, **options)


def merge_ranges(lists: Sequence[CsrNeighbors], metric: str = "euclidean", max_results: int | None = None, columns: int = 0) -> CsrNeighbors:
    """One result from those of parts, of one block: each query's rows by (distance, id).

    Parameters
    ----------
    lists : results of :func:`local_range` or of this function, of one block
    metric : str, default "euclidean"
        As they were searched.
    max_results : int or None, default None
        Most entries of the result. None: no limit.
    columns : int, default 0
        Ids are below it.

    Raises
    ------
    CapacityExceeded
        More than `max_results` entries.
    """
    total = sum(len(one.ids) for one in lists)
    if max_results is not None and total > max_results:
        limit = f"max_results is {max_results}; lower the radius, or pass max_results={total}"
        raise CapacityExceeded(f"the result of {len(lists[0])} queries has {total} matches, {limit}")
    row = np.concatenate([np.repeat(np.arange(len(one)), np.diff(one.offsets)) for one in lists])
    ids, distances = np.concatenate([one.ids for one in lists]), np.concatenate([one.distances for one in lists])
    order = np.lexsort((ids, -distances if metric == "inner_product" else distances, row))
    offsets = sum((one.offsets for one in lists[1:]), lists[0].offsets)
    return CsrNeighbors(offsets, distances[order], ids[order], _joined_certificate(lists), _joined_stats(lists), columns)


def gathered(part: Any, first_id: int, *wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ids of `wanted` that lie in the part, ascending and once, and their rows.

    Parameters
    ----------
    part : rows as in this module's head
    first_id : int
        id of the part's first row.
    wanted : arrays of ids

    Returns
    -------
    (ids, rows)
    """
    corpus = rows(part)
    ids = np.unique(np.concatenate([np.asarray(one).ravel() for one in wanted]))
    ids = ids[(ids >= first_id) & (ids < first_id + len(corpus))]
    return ids, np.ascontiguousarray(corpus[ids - first_id])


def verify_block(
    block: Any, truth: Neighbors, claim: tuple[Any, Any], pieces_of: Sequence[tuple[np.ndarray, np.ndarray]], metric: str = "euclidean", *,
    first_id: int = 0, eligible: Any = None, labels: Any = None, **options: Any,
) -> Verdict:  # fmt: skip
    """Checks a block of a claimed result against the truth, knowing of the corpus the rows alone that either of them names.

    The k nearest of these rows are those of the whole corpus, since they are among them; numbers of rows ascend with ids, so that ties go the
    same way.

    Parameters
    ----------
    block : the queries, rows as in this module's head
    truth : the block's true lists
    claim : (distances or None, ids)
    pieces_of : what :func:`gathered` found in each part, of the ids of truth and claim
    metric, options :
        As in :func:`vicinal.verify`.
    first_id : int, default 0
        id of the first row of the whole corpus.
    eligible, labels :
        As in :func:`vicinal.knn`, of the whole corpus and of this block.

    Raises
    ------
    As :func:`vicinal.verify`.
    """
    known = np.concatenate([ids for ids, _ in pieces_of])
    corpus = np.concatenate([part for _, part in pieces_of if len(part)] or [pieces_of[0][1]])
    distances, ids = claim[0], np.asarray(claim[1])
    if not len(known):  # nothing may answer, and the claim names no row that there is: as of one row that may not
        known, corpus, eligible, labels = np.array([first_id]), np.zeros_like(corpus, shape=(1, corpus.shape[1])), [], None
        ids = np.where(ids < 0, ids, ids + first_id + 1)
    places = np.searchsorted(known, ids)
    present = known[np.minimum(places, len(known) - 1)] == ids
    renamed = np.where(present, places, np.where(ids < 0, ids, len(known) + ids))
    mine = None if eligible is None else eligible_part(eligible, None, int(known[-1]) + 1, known, first_id)
    theirs = None if labels is None else (np.asarray(labels[0])[known - first_id], labels[1])
    result = renamed if distances is None else (np.asarray(distances), renamed)
    found = _verify(corpus, rows(block), result, metric, eligible=mine, labels=theirs, **options)
    original = np.where(found.truth.ids < 0, -1, known[np.maximum(found.truth.ids, 0)])
    return replace(found, truth=_of(truth, found.truth.distances, original))


def joined_verdict(verdicts: Sequence[Verdict], firsts: Sequence[int], truth: Any) -> Verdict:
    """The verdict on all blocks.

    Parameters
    ----------
    verdicts : results of :func:`verify_block`, one of each block
    firsts : number of each block's first row
    truth : what becomes the verdict's ``truth``
    """
    count = sum(one.rows for one in verdicts)
    faults = tuple(replace(fault, row=fault.row + first) for one, first in zip(verdicts, firsts) for fault in one.faults)
    added = {name: sum(getattr(one, name) for one in verdicts) for name in ("rows", "correct", "wrong", "tie_order", "distance", "near_ties")}
    recall = sum(one.recall * one.rows for one in verdicts) / count if count else 1.0
    largest = max((one.largest_relative_difference for one in verdicts), default=0.0)
    return Verdict(**added, recall=recall, largest_relative_difference=largest, faults=faults, truth=truth)


def eligible_part(eligible: Any, first: int | None, last: int, ids: np.ndarray | None = None, first_id: int = 0) -> Any:
    """Of an `eligible` of the whole corpus, what a part of rows `first` to `last` needs: its piece of a mask, or its ids.

    Parameters
    ----------
    eligible : as in :func:`vicinal.knn`, or None
    first, last : int
        Rows of the part, counted from 0; `last` is not in it.
    ids : array or None, default None
        With it, and None for `first`: the answer is a mask of just these ids.
    first_id : int, default 0
        id of row 0 of the whole corpus.

    Raises
    ------
    InvalidArgument, TypeError
        What :func:`vicinal.knn` refuses: a range with a step, masked arrays.
    """
    if eligible is None:
        return None
    if isinstance(eligible, (range, slice)):
        span = _inputs.eligible_span(eligible)
        if ids is None:
            return eligible
        return np.isin(ids, span["ids"]) if "ids" in span else (ids >= span["first"]) & (ids <= span.get("last", ids))
    array = _inputs.eligible_vector(eligible)
    if ids is not None:
        return array[ids - first_id] if array.dtype.kind == "b" else np.isin(ids, array)
    if array.dtype.kind == "b":
        return array[first:last]
    return array[(array >= (first or 0) + first_id) & (array < last + first_id)]
