"""openTSNE's neighbours, exact: ``TSNE(neighbors=KNNIndex(x, k=90)).fit(x)``."""

from __future__ import annotations

from typing import Any

import numpy as np
from openTSNE.nearest_neighbors import KNNIndex as _Base

from .._corpus import Corpus
from .._graph import knn_graph

__all__ = ["KNNIndex"]

_METRICS = {
    "euclidean": "euclidean", "l2": "euclidean", "manhattan": "l1", "cityblock": "l1", "l1": "l1", "chebyshev": "linf",
    "infinity": "linf", "cosine": "cosine", "correlation": "correlation",
}  # fmt: skip


class KNNIndex(_Base):
    """openTSNE's index of neighbours. Parameters are those of ``openTSNE.nearest_neighbors.KNNIndex``.

    data : (n, d) array. k : int, neighbours of each row without itself (3 times the perplexity is usual).
    metric : str, default "euclidean". n_jobs : int, default -1, all cores. random_state, verbose : no effect.
    """

    VALID_METRICS = list(_METRICS)

    def __init__(
        self, data: Any, k: int, metric: str = "euclidean", metric_params: Any = None, n_jobs: int = -1, **others: Any
    ) -> None:
        super().__init__(data, k, metric=metric, metric_params=metric_params, n_jobs=n_jobs, **others)
        self._corpus: Corpus | None = None

    def build(self) -> tuple[np.ndarray, np.ndarray]:
        """indices (n, k) int64 and distances (n, k) float64, without the row itself."""
        found = knn_graph(self.data, self.k, distance_type="f64", **self._options())
        return found.ids, found.distances

    def query(self, query: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
        """indices (Q, k) and distances (Q, k) of rows that need not be the index's."""
        if self._corpus is None:
            self._corpus = Corpus(self.data, **self._options())
        found = self._corpus.knn(query, k, distance_type="f64")
        return found.ids, found.distances

    def check_metric(self, metric: Any) -> Any:
        if callable(metric):
            raise ValueError(f"a callable metric is not supported; one of {', '.join(_METRICS)}")
        return super().check_metric(metric)

    def _options(self) -> dict[str, Any]:
        return dict(metric=_METRICS[self.metric], degenerate="one", threads=max(self.n_jobs, 0))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_corpus": None}
