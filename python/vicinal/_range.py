"""Ranges: every row within a radius."""

from __future__ import annotations

from typing import Any

from . import _inputs, _namespaces, _results
from ._inputs import Memory, Progress
from ._results import CsrNeighbors, Plan


def range_search(
    corpus: Any,
    queries: Any,
    radius: float,
    metric: str = "euclidean",
    *,
    max_results: int | None = None,
    device: str = "auto",
    threads: int = 0,
    memory: Memory = None,
    distance_type: Any = None,
    degenerate: str = "error",
    first_id: int = 0,
    eligible: Any = None,
    labels: Any = None,
    label_rule: str = "same",
    ngram: int = 0,
    max_length: int = 65535,
    progress: Progress = None,
) -> CsrNeighbors:
    """Every row of `corpus` within `radius` of each row of `queries`, certified exact.

    Parameters
    ----------
    corpus : (n, d) array
    queries : (Q, d) array
        As in :func:`vicinal.knn`.
    radius : float
        Rows at a returned distance <= radius are found (for inner_product >= radius), compared as float64. A negative
        radius finds nothing (where distances are not), infinity everything; for inner_product -infinity does.
    max_results : int or None, default None
        Most entries of the whole result; beyond it CapacityExceeded states the exact need, and there is no partial
        answer. None: what free memory holds.
    metric, device, threads, memory, distance_type, degenerate, first_id, eligible, labels, label_rule, ngram, max_length, progress :
        As in :func:`vicinal.knn`.

    Returns
    -------
    CsrNeighbors
        ``result[i]`` is (distances, ids) of query i by (distance, id); all of them lie in ``.offsets`` (Q + 1,) int64,
        ``.distances`` and ``.ids`` int64. ``.certificate``, ``.stats``; ``.to_csr()`` is a scipy.sparse.csr_matrix.

    Raises
    ------
    As :func:`vicinal.knn`, and InvalidArgument if radius is NaN, CapacityExceeded (also MemoryError).

    Examples
    --------
    >>> import numpy as np, vicinal
    >>> corpus = np.array([[0.0], [1.0], [3.0], [7.0]])
    >>> near = vicinal.range_search(corpus, np.array([[1.0], [9.0]]), radius=2)
    >>> near.offsets.tolist(), near.ids.tolist(), near.distances.tolist()
    ([0, 3, 4], [1, 0, 2, 3], [0.0, 1.0, 2.0, 2.0])
    >>> distances, ids = near[0]
    >>> ids.tolist()
    [1, 0, 2]
    """
    corpus_rows, query_rows, copied = _inputs.sides(corpus, queries)
    options = _inputs.options(
        metric=metric, device=_inputs.device(device, corpus_rows, query_rows), threads=threads, memory=memory,
        distance_type=distance_type, degenerate=degenerate, first_id=first_id,
        eligible=_inputs.eligible(eligible, labels, label_rule), ngram=ngram, max_length=max_length, progress=progress,
        sort=corpus_rows, stream=_inputs.stream(corpus_rows, query_rows),
    )  # fmt: skip
    limit = _inputs.max_results(max_results)
    within = _inputs.real("radius", radius)
    native = _inputs.call("range_search", corpus_rows, query_rows, within, options, limit)
    return _results.csr_neighbors(native, copied, corpus_rows.shape[0] + options.first_id, _namespaces.of(queries))


def plan_range(
    corpus: Any,
    queries: Any,
    metric: str = "euclidean",
    *,
    radius: float | None = None,
    dtype: Any = "float32",
    device: str = "auto",
    threads: int = 0,
    memory: Memory = None,
    distance_type: Any = None,
    eligible: Any = None,
    labels: Any = None,
    label_rule: str = "same",
    ngram: int = 0,
    max_length: int = 65535,
) -> Plan:
    """What :func:`range_search` would do and need, without doing it; ``result_bytes`` is 0, known by searching only.

    Parameters
    ----------
    corpus, queries, dtype :
        As in :func:`vicinal.plan`.
    radius : optional
        With it rows of the corpus, where it is an array, are looked at, as in :func:`vicinal.plan`.
    metric, device, threads, memory, distance_type, eligible, labels, label_rule, ngram, max_length :
        As in :func:`range_search`.

    Raises
    ------
    What the search itself would raise before its work: InvalidArgument, Unsupported, DeviceError, MemoryBudget.
    """
    options = _inputs.options(
        metric=metric, device=device, threads=threads, memory=memory, distance_type=distance_type,
        eligible=_inputs.eligible(eligible, labels, label_rule), ngram=ngram, max_length=max_length,
        sort=_inputs.sort_of(corpus),
    )  # fmt: skip
    return Plan(**_inputs.plan("plan_range", options, dtype, dict(corpus=corpus, query=queries), radius=radius))
