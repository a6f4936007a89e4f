"""Graphs: each row's nearest others."""

from __future__ import annotations

from typing import Any

from . import _inputs, _namespaces, _results
from ._inputs import Memory, Progress
from ._results import CsrNeighbors, Neighbors, Plan


def knn_graph(
    x: Any,
    k: int = 15,
    metric: str = "euclidean",
    *,
    symmetrize: str | None = None,
    include_self: bool = False,
    device: str = "auto",
    threads: int = 0,
    memory: Memory = None,
    distance_type: Any = None,
    pad: bool = False,
    degenerate: str = "error",
    eligible: Any = None,
    labels: Any = None,
    label_rule: str = "same",
    ngram: int = 0,
    max_length: int = 65535,
    progress: Progress = None,
) -> Neighbors | CsrNeighbors:
    """The k nearest other rows of each row of `x`, certified exact.

    Row i leaves out id i and nothing else: duplicates of it are neighbours at distance 0.

    Parameters
    ----------
    x : (n, d) array, or (n,) strings
        As the corpus of :func:`vicinal.knn`.
    k : int, default 15
        Neighbours a row besides itself, 1 <= k <= n - 1; above only with ``pad``.
    symmetrize : None, "union" or "mutual"
        None: a list of k a row. "union": an edge where either row lists the other. "mutual": where both do. A distance
        is the same from both sides, to the bit, so the matrix is symmetric.
    include_self : bool, default False
        Row i competes for its own list as any other, at distance 0, ties by id (k <= n then). This is what
        UMAP's ``precomputed_knn=(graph.ids, graph.distances)`` expects.
    labels : (n,) integers, default None
        With ``label_rule``: only rows of the same label may be listed, or only rows of another.
    metric, device, threads, memory, distance_type, pad, degenerate, eligible, label_rule, ngram, max_length, progress :
        As in :func:`vicinal.knn`. A row that is not eligible has a list all the same, and is in none.

    Returns
    -------
    Neighbors
        ``.distances`` (n, k), ``.ids`` (n, k) int64, ``.certificate``, ``.stats``, ``.counts`` (when padded);
        unpacks as (distances, ids); ``.to_csr()`` is an (n, n) scipy.sparse.csr_matrix.
    CsrNeighbors
        With ``symmetrize``: ``.offsets`` (n + 1,), ``.distances``, ``.ids``, each row by id; ``.to_csr()``.

    Raises
    ------
    As :func:`vicinal.knn`.

    Examples
    --------
    >>> import numpy as np, vicinal
    >>> x = np.array([[0.0], [1.0], [3.0], [7.0]])
    >>> distances, ids = vicinal.knn_graph(x, k=2)
    >>> ids.tolist()
    [[1, 2], [0, 2], [1, 0], [2, 1]]
    >>> mutual = vicinal.knn_graph(x, k=2, symmetrize="mutual")
    >>> mutual.offsets.tolist(), mutual.ids.tolist()
    ([0, 2, 4, 6, 6], [1, 2, 0, 2, 0, 1])
    """
    rows, copied = _inputs.side(x, "corpus")
    options = _inputs.options(
        k=k, metric=metric, device=_inputs.device(device, rows), threads=threads, memory=memory, distance_type=distance_type,
        pad=pad, degenerate=degenerate, eligible=_inputs.eligible(eligible, labels, label_rule, graph=True), ngram=ngram,
        max_length=max_length, progress=progress, sort=rows, stream=_inputs.stream(rows),
    )  # fmt: skip
    with_self = _inputs.flag("include_self", include_self)
    how = None if symmetrize is None else _inputs.text("symmetrize", symmetrize)
    result = _results.neighbors if how is None else _results.csr_neighbors
    return result(_inputs.call("knn_graph", rows, options, with_self, how), copied, rows.shape[0], _namespaces.of(x))


def plan_graph(
    x: Any,
    k: int = 15,
    metric: str = "euclidean",
    *,
    include_self: bool = False,
    dtype: Any = "float32",
    device: str = "auto",
    threads: int = 0,
    memory: Memory = None,
    distance_type: Any = None,
    pad: bool = False,
    eligible: Any = None,
    labels: Any = None,
    label_rule: str = "same",
    ngram: int = 0,
    max_length: int = 65535,
) -> Plan:
    """What :func:`knn_graph` would do and need, without doing it.

    Parameters
    ----------
    x : (rows, columns), an array, or strings
    dtype :
        As in :func:`vicinal.plan`.
    k, metric, include_self, device, threads, memory, distance_type, pad, eligible, labels, label_rule, ngram, max_length :
        As in :func:`knn_graph`.

    Raises
    ------
    What the search itself would raise before its work: InvalidArgument, Unsupported, DeviceError, MemoryBudget.
    """
    options = _inputs.options(
        k=k, metric=metric, device=_inputs.device(device, x), threads=threads, memory=memory, distance_type=distance_type,
        pad=pad, eligible=_inputs.eligible(eligible, labels, label_rule, graph=True), ngram=ngram, max_length=max_length,
        sort=_inputs.sort_of(x),
    )  # fmt: skip
    return Plan(**_inputs.plan("plan_graph", options, dtype, dict(corpus=x), _inputs.flag("include_self", include_self)))
