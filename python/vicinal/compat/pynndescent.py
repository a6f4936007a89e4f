"""pynndescent's NNDescent with the exact graph in place of an approximate one::

    index = NNDescent(x, n_neighbors=15)
    umap.UMAP(n_neighbors=15, precomputed_knn=(*index.neighbor_graph, index))   # transform() works, too

Works without pynndescent; where that is installed, the class is one of its kind, which UMAP asks for.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._corpus import Corpus
from .._graph import knn_graph
from ..errors import Unsupported

try:
    # UMAP asks for an instance of it before it transforms new rows; nothing of it is used.
    from pynndescent import NNDescent as _Base
except ImportError:
    _Base = object

__all__ = ["NNDescent"]

_METRICS = {
    "euclidean": "euclidean", "l2": "euclidean", "sqeuclidean": "sqeuclidean", "manhattan": "l1", "taxicab": "l1", "l1": "l1",
    "cityblock": "l1", "chebyshev": "linf", "linf": "linf", "linfty": "linf", "linfinity": "linf", "cosine": "cosine",
    "correlation": "correlation",
}  # fmt: skip


class NNDescent(_Base):
    """The index of pynndescent, exact.

    Parameters
    ----------
    data : (n, d) array
    metric : str, default "euclidean"
        euclidean, sqeuclidean, manhattan, chebyshev, cosine, correlation, or another name of pynndescent for these.
    n_neighbors : int, default 30
        Of each row, itself counted.
    verbose, and all other parameters of pynndescent :
        Accepted; they say how to approximate, and have no effect.
    """

    _angular_trees = False
    _is_sparse = False
    compressed = False

    def __init__(
        self,
        data: Any,
        metric: str = "euclidean",
        metric_kwds: dict | None = None,
        n_neighbors: int = 30,
        **parameters: Any,
    ) -> None:
        if not isinstance(metric, str) or metric not in _METRICS:
            raise Unsupported(f"metric {metric!r} is not one of {', '.join(_METRICS)}")
        if metric_kwds:
            raise Unsupported(f"metric_kwds are not supported, got {sorted(metric_kwds)}")
        if hasattr(data, "toarray"):
            raise Unsupported("sparse data are not supported; data.toarray() is the same rows, dense")
        self.metric = metric
        self.n_neighbors = n_neighbors
        self.n_jobs = parameters.get("n_jobs")
        self._raw_data = np.ascontiguousarray(data, np.float32)
        self._graph: tuple[np.ndarray, np.ndarray] | None = None
        self._corpus: Corpus | None = None

    @property
    def neighbor_graph(self) -> tuple[np.ndarray, np.ndarray]:
        """indices (n, n_neighbors) int32 and distances (n, n_neighbors) float32; each row first in its own list."""
        if self._graph is None:
            n = len(self._raw_data)
            others = min(self.n_neighbors, n) - 1
            ids = np.full((n, self.n_neighbors), -1, np.int32)
            distances = np.full((n, self.n_neighbors), np.inf, np.float32)
            ids[:, 0], distances[:, 0] = np.arange(n), 0
            if others > 0:
                found = knn_graph(
                    self._raw_data, others, _METRICS[self.metric], degenerate="one", threads=self._threads()
                )
                distances[:, 1 : others + 1], ids[:, 1 : others + 1] = found
            self._graph = ids, distances
        return self._graph

    def prepare(self) -> None:
        """Prepares the rows for queries, as the first query would."""
        if self._corpus is None:
            self._corpus = Corpus(self._raw_data, _METRICS[self.metric], degenerate="one", threads=self._threads())

    def query(
        self, query_data: Any, k: int = 10, epsilon: float = 0.1, **parameters: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        """indices (Q, k) int32 and distances (Q, k) float32. epsilon and the rest have no effect."""
        self.prepare()
        assert self._corpus is not None
        distances, ids = self._corpus.knn(np.ascontiguousarray(query_data, np.float32), k, pad=k > len(self._raw_data))
        return ids.astype(np.int32), distances

    def _threads(self) -> int:
        return self.n_jobs if self.n_jobs is not None and self.n_jobs > 0 else 0

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_corpus": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
