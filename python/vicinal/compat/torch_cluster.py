"""torch_cluster's knn, knn_graph, radius and radius_graph: edges between points, within batches.

Edges are a (2, E) tensor (array for arrays), int64. As there: ``knn(x, y, k)`` has rows of y above, of x below; fewer than k where
a batch has fewer. Otherwise than there, any k, distances that are right for any offset, the nearest
``max_num_neighbors`` (there: any), and nothing is left out silently on the way.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _namespaces
from .. import knn as _knn
from .._graph import knn_graph as _knn_graph
from .._namespaces import to_host
from .._range import range_search
from .._results import on_host
from ..errors import InvalidArgument


def knn(
    x: Any,
    y: Any,
    k: int,
    batch_x: Any = None,
    batch_y: Any = None,
    cosine: bool = False,
    num_workers: int = 1,
    batch_size: int | None = None,
) -> Any:
    """For each row of `y` its k nearest rows of `x`, in the same batch: edges (row of y, row of x)."""
    corpus, queries = _rows(x), _rows(y)
    labels = _labels(batch_x, batch_y, len(corpus), len(queries))
    if len(corpus) == 0 or len(queries) == 0:
        return _edges(x, np.empty(0, np.int64), np.empty(0, np.int64))
    found = _knn(corpus, queries, k, "cosine" if cosine else "sqeuclidean", pad=True, labels=labels, degenerate="one")
    return _edges(x, *_pairs(found))


def knn_graph(
    x: Any, k: int, batch: Any = None, loop: bool = False, flow: str = "source_to_target", cosine: bool = False, num_workers: int = 1,
    batch_size: int | None = None,
) -> Any:  # fmt: skip
    """Each row's k nearest in its batch, itself among them with `loop`: edges (neighbour, row), or the other way by `flow`."""
    _check_flow(flow)
    rows = _rows(x)
    labels = None if batch is None else to_host(batch)
    found = _knn_graph(
        rows, k, "cosine" if cosine else "sqeuclidean", include_self=loop, pad=True, labels=labels, degenerate="one"
    )
    return _directed(x, *_pairs(found), flow)


def radius(
    x: Any, y: Any, r: float, batch_x: Any = None, batch_y: Any = None, max_num_neighbors: int = 32, num_workers: int = 1,
    batch_size: int | None = None, ignore_same_index: bool = False,
) -> Any:  # fmt: skip
    """For each row of `y` the rows of `x` within `r` in the same batch, the `max_num_neighbors` nearest of them."""
    of, ids = _within(_rows(x), _rows(y), r, batch_x, batch_y, max_num_neighbors, ignore_same_index)
    return _edges(x, of, ids)


def radius_graph(
    x: Any, r: float, batch: Any = None, loop: bool = False, max_num_neighbors: int = 32, flow: str = "source_to_target",
    num_workers: int = 1, batch_size: int | None = None,
) -> Any:  # fmt: skip
    """Each row's neighbours within `r` in its batch: edges (neighbour, row), or the other way by `flow`."""
    _check_flow(flow)
    rows = _rows(x)
    of, ids = _within(rows, rows, r, batch, batch, max_num_neighbors, not loop)
    return _directed(x, of, ids, flow)


def _within(corpus: Any, queries: Any, r: float, batch_x: Any, batch_y: Any, most: int, others_only: bool) -> Any:
    labels = _labels(batch_x, batch_y, len(corpus), len(queries))
    if len(corpus) == 0 or len(queries) == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    found = range_search(corpus, queries, r, labels=labels)
    of = np.repeat(np.arange(len(found)), np.diff(on_host(found.offsets)))
    ids = on_host(found.ids)
    if others_only:
        of, ids = of[ids != of], ids[ids != of]
    first = np.searchsorted(of, of)  # where each row's list begins
    kept = np.arange(len(of)) - first < most
    return of[kept], ids[kept]


def _rows(x: Any) -> Any:
    rows = x if hasattr(x, "ndim") else np.asarray(x)
    return rows[:, None] if rows.ndim == 1 else rows


def _pairs(found: Any) -> tuple[np.ndarray, np.ndarray]:
    ids = to_host(found.ids)
    rows, ranks = np.nonzero(ids >= 0)
    return rows, ids[rows, ranks]


def _labels(batch_x: Any, batch_y: Any, rows_x: int, rows_y: int) -> Any:
    if batch_x is None and batch_y is None:
        return None
    return tuple(
        np.zeros(count, np.int64) if batch is None else to_host(batch)
        for batch, count in ((batch_x, rows_x), (batch_y, rows_y))
    )


def _check_flow(flow: str) -> None:
    if flow not in ("source_to_target", "target_to_source"):
        raise InvalidArgument(f"flow must be source_to_target or target_to_source, got {flow!r}")


def _directed(x: Any, of: np.ndarray, ids: np.ndarray, flow: str) -> Any:
    return _edges(x, ids, of) if flow == "source_to_target" else _edges(x, of, ids)


def _edges(x: Any, above: np.ndarray, below: np.ndarray) -> Any:
    return _namespaces.of(x).like(np.stack([above, below]))
