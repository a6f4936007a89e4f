"""cuVS's brute force and select_k, by their Python names and shapes::

    from vicinal.compat.cuvs import brute_force
    index = brute_force.build(dataset, metric="sqeuclidean")
    distances, neighbors = brute_force.search(index, queries, k)

Vectors are searched where they are, in memory of the host or of a CUDA device; results are what and where the queries are, distances float32,
ids int64, and complete when the calls return. ``resources`` has no effect.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _namespaces
from .._corpus import Corpus
from .._results import on_host
from .._select import select_k as _select_k
from ..errors import Unsupported
from ._places import filled

__all__ = ["brute_force", "select_k"]

_METRICS = {
    "sqeuclidean": "sqeuclidean", "euclidean": "euclidean", "l2": "euclidean", "l1": "l1", "cityblock": "l1", "chebyshev": "linf",
    "inner_product": "inner_product", "cosine": "cosine", "correlation": "correlation", "bitwise_hamming": "hamming",
}  # fmt: skip


class brute_force:
    """The module cuvs.neighbors.brute_force."""

    class Index:
        """Rows prepared for searches."""

        trained = True

        def __init__(self, dataset: Any, metric: str) -> None:
            if metric not in _METRICS:
                raise Unsupported(f"metric {metric!r} is not one of {', '.join(_METRICS)}")
            self.metric = metric
            self.corpus = Corpus(dataset, _METRICS[metric])

    @staticmethod
    def build(
        dataset: Any, metric: str = "sqeuclidean", metric_arg: float = 2.0, resources: Any = None
    ) -> brute_force.Index:
        return brute_force.Index(dataset, metric)

    @staticmethod
    def search(
        index: brute_force.Index,
        queries: Any,
        k: int,
        neighbors: Any = None,
        distances: Any = None,
        resources: Any = None,
        prefilter: Any = None,
    ) -> tuple[Any, Any]:
        """distances (Q, k) float32, neighbors (Q, k) int64; arrays that are given are filled and returned.

        prefilter: a mask of bools, one a row, True where it may answer; TypeError for anything else.
        """
        if prefilter is not None and (kind := on_host(prefilter).dtype).kind != "b":
            raise TypeError(f"prefilter must be a mask of bools, one a row, got dtype {kind}")
        whole = index.metric == "bitwise_hamming"
        values, ids = index.corpus.knn(queries, k, distance_type=None if whole else "f32", eligible=prefilter)
        if whole:
            values = _namespaces.of(queries).like(_namespaces.to_host(values).astype(np.float32))
        return filled(("distances", values, distances), ("neighbors", ids, neighbors))


def select_k(
    dataset: Any, k: int, distances: Any = None, indices: Any = None, select_min: bool = True, resources: Any = None
) -> tuple[Any, Any]:
    """The k smallest values of each row, or largest: (distances, indices int64), on the device of the dataset.

    Arrays that are given are filled and returned.
    """
    found = _select_k(dataset, k, largest=not select_min)
    return filled(("distances", found.values, distances), ("indices", found.ids, indices))
