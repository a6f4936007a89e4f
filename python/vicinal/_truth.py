"""Ground truth: of a base of any size, in several arrays, of several prefixes at once, and brought up to date."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from . import _inputs, _lists, _namespaces, _native, _results
from ._inputs import Memory, Progress
from ._results import Neighbors
from .errors import InvalidArgument


def ground_truth(
    base: Any,
    queries: Any,
    k: int = 100,
    metric: str = "euclidean",
    *,
    tiers: Iterable[int] | None = None,
    resume: str | os.PathLike[str] | None = None,
    verified_queries: int = 8,
    device: str = "auto",
    threads: int = 0,
    memory: Memory = None,
    distance_type: Any = None,
    pad: bool = False,
    degenerate: str = "error",
    first_id: int = 0,
    eligible: Any = None,
    labels: Any = None,
    label_rule: str = "same",
    progress: Progress = None,
) -> Neighbors | tuple[Neighbors, ...]:
    """The k nearest rows of a base of any size for each query: the bits of :func:`knn` over all rows in one array.

    Parameters
    ----------
    base : (n, d) array, or a list or tuple of arrays (n_i, d)
        Arrays of one element type, as :func:`knn` takes them, in the host's memory, numbered through in the order given; numpy.memmap of
        files that are larger than memory.
    queries : (Q, d) array
    k : int, default 100
    tiers : iterable of int or None
        Rows of prefixes of the base, ascending: the truth of each of them, found in one pass. Rows beyond the last are not read.
    resume : path or None
        Folder in which finished pieces, of some seconds each, are saved; the same call goes on from them after a kill, whatever the
        threads, the memory and the device are. It is made if it is not there, and stays: remove it when the result is safe.
    verified_queries : int, default 8
        Queries, evenly spread, whose lists are compared at the end with those of ranking every row. 0: none.
    metric, device, threads, memory, distance_type, pad, degenerate, first_id, eligible, labels, label_rule, progress :
        As in :func:`knn`.

    Returns
    -------
    Neighbors, or with ``tiers`` a tuple of them
        ``.distances`` (Q, k), ``.ids`` (Q, k) int64. ``.certificate`` and ``.stats`` are those of all tiers together.

    Raises
    ------
    TypeError, InvalidArgument
        Also for arrays of different types or widths, tiers that do not ascend or exceed the base, and a folder of another search.
    IoError
        Also OSError. The folder of ``resume`` cannot be made or written.
    Internal
        A list of the sample differs.
    Error
        What else :func:`knn` raises.

    Example
    -------
    >>> import numpy as np, vicinal
    >>> base = np.arange(12.0).reshape(6, 2)
    >>> half, whole = vicinal.ground_truth([base[:4], base[4:]], base[5:], k=2, tiers=[3, 6])
    >>> half.ids.tolist(), whole.ids.tolist()
    ([[2, 1]], [[5, 4]])
    """
    parts, copied = _parts(base, "base")
    asked, more = _inputs.rows(queries, "query")
    sizes = [] if tiers is None else [_inputs.integer("tiers", rows) for rows in tiers]
    if tiers is not None and not sizes:
        raise InvalidArgument("tiers is empty; None is the whole base")
    options = _inputs.options(
        k=k, metric=metric, device=device, threads=threads, memory=memory, distance_type=distance_type, pad=pad, degenerate=degenerate,
        first_id=first_id, eligible=_inputs.eligible(eligible, labels, label_rule), progress=progress, sort="vectors",
    )  # fmt: skip
    native = _native.ground_truth(parts, asked, options, sizes, _folder(resume), _inputs.integer("verified_queries", verified_queries))
    columns = sizes or [sum(part.shape[0] for part in parts)]
    found = tuple(_results.neighbors(one, copied + more, options.first_id + rows) for one, rows in zip(native, columns))
    return found[0] if tiers is None else found


def update_ground_truth(
    lists: Any,
    base: Any,
    queries: Any,
    k: int | None = None,
    metric: str = "euclidean",
    *,
    inserted: Any = None,
    deleted: Any = None,
    resume: str | os.PathLike[str] | None = None,
    verified_queries: int = 8,
    device: str = "auto",
    threads: int = 0,
    memory: Memory = None,
    distance_type: Any = None,
    pad: bool = False,
    degenerate: str = "error",
    first_id: int = 0,
    progress: Progress = None,
) -> Neighbors:
    """The truth of a base after rows came and went, from the lists of before.

    Lists that keep k entries take in what is found among the inserted rows; where deletions leave fewer, all that remain are searched
    again. So lists that are longer than k by some entries live through deletions. Exact where the lists were.

    Parameters
    ----------
    lists : Neighbors, or a pair (distances, ids)
        (Q, K), K at least k: the truth of ``base`` without what had been deleted then.
    base : (n, d) array, or a list or tuple of arrays
        All rows that the lists are of, deleted ones too: an id is a row's number.
    queries : (Q, d) array
    k : int or None
        None: the width of the lists.
    inserted : (m, d) array, a list or tuple of them, or None
        New rows; their ids follow those of the base.
    deleted : array of ids, or (n + m,) bool array; default None
        Rows that may not answer, of the base or the inserted ones, and again all that were deleted before.
    metric, device, threads, memory, distance_type, pad, degenerate, first_id, progress :
        As in :func:`knn`. resume, verified_queries : as in :func:`ground_truth`.

    Returns
    -------
    Neighbors
        ``certificate`` is of the queries that were searched again, and ``stats.notes`` says how many; lists of the others are as exact as they were.

    Raises
    ------
    TypeError, InvalidArgument
        Also for ids that are not there, and for lists shorter than k or of another distance type.
    Error
        What else :func:`ground_truth` raises; Internal also where the old lists were wrong for a query of the sample.
    """
    distances, ids = _lists.result_pair(lists, "lists")
    old, copied = _parts(base, "base")
    new, more = ([], 0) if inserted is None else _parts(inserted, "inserted")
    asked, of_queries = _inputs.rows(queries, "query")
    options = _inputs.options(
        k=ids.shape[1] if k is None else k, metric=metric, device=device, threads=threads, memory=memory, distance_type=distance_type,
        pad=pad, degenerate=degenerate, first_id=first_id, progress=progress, sort="vectors",
    )  # fmt: skip
    rows = sum(part.shape[0] for part in (*old, *new))
    gone = _deleted(deleted, rows, options.first_id)
    native = _native.update_ground_truth(
        (distances, ids), old, asked, new, gone, options, _folder(resume), _inputs.integer("verified_queries", verified_queries)
    )
    return _results.neighbors(native[0], copied + more + of_queries, options.first_id + rows)


def _parts(given: Any, name: str) -> tuple[list[_native.Rows], int]:
    """The arrays of a list of arrays, or the one array that is given; and the bytes of what was converted."""
    several = isinstance(given, (list, tuple)) and all(len(getattr(part, "shape", ())) == 2 for part in given)
    seen = [_inputs.rows(part, name) for part in (given if several else [given])]
    return [rows for rows, _ in seen], sum(copied for _, copied in seen)


def _deleted(given: Any, rows: int, first_id: int) -> np.ndarray:
    if given is None:
        return np.empty(0, np.int64)
    array = np.asarray(_namespaces.to_host(given))
    if array.dtype.kind == "b" and array.shape != (rows,):
        raise InvalidArgument(f"deleted: the mask has shape {array.shape}, there are {rows} rows")
    return _inputs.ids_vector(np.flatnonzero(array) + first_id if array.dtype.kind == "b" else given, "deleted")


def _folder(path: Any) -> bytes:
    return b"" if path is None else _inputs.path_bytes(path)
