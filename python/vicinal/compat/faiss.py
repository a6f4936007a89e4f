"""faiss's exact search: flat indexes and ``knn``.

As in faiss, L2 distances are squared and float32, missing neighbours are id -1 at the largest float32 (the lowest for
inner products), float64 is rounded to float32 first, a query with NaN or infinity finds nothing (also by METRIC_Linf,
for which faiss leaves out columns of NaN), and ``range_search`` is strict. Otherwise than in faiss, the neighbours
are right whatever the offset of the data, k has no limit, uint8, int8 and float16 rows are searched as they are, and
what cannot be answered is an exception with a text.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _inputs
from .._corpus import Corpus
from .._range import range_search as _range_search
from ..errors import InvalidArgument, RangeError, Unsupported
from ._places import filled

__all__ = [
    "METRIC_INNER_PRODUCT", "METRIC_L1", "METRIC_L2", "METRIC_Linf", "IndexFlat", "IndexFlatIP", "IndexFlatL2", "knn",
    "knn_gpu",
]  # fmt: skip

METRIC_INNER_PRODUCT, METRIC_L2, METRIC_L1, METRIC_Linf = 0, 1, 2, 3
_METRICS = {METRIC_INNER_PRODUCT: "inner_product", METRIC_L2: "sqeuclidean", METRIC_L1: "l1", METRIC_Linf: "linf"}
_FARTHEST = np.finfo(np.float32).max


def knn(xq: Any, xb: Any, k: int, metric: int = METRIC_L2, metric_arg: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """The k nearest rows of `xb` for each row of `xq`.

    Returns
    -------
    D : (nq, k) float32
    I : (nq, k) int64
    """
    index = IndexFlat(_rows(xb, "xb").shape[1], metric)
    index.add(xb)
    return index._nearest(xq, k)


def knn_gpu(
    res: Any, xq: Any, xb: Any, k: int, D: Any = None, I: Any = None, metric: int = METRIC_L2,
    device: int = -1, use_cuvs: bool = False, vectorsMemoryLimit: int = 0, queriesMemoryLimit: int = 0,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """:func:`knn` under the signature of faiss's; runs where ``device="auto"`` of :func:`vicinal.knn` sends it.

    res, device, use_cuvs and the limits are accepted and have no effect. D (nq, k) float32 and I (nq, k) int64 or
    int32, when given, are filled and returned; InvalidArgument for others, RangeError where int32 does not number the
    rows of `xb`.
    """
    narrow = getattr(I, "dtype", None) == np.int32
    if narrow and len(xb) > 1 << 31:
        raise RangeError(f"I is int32, which does not number {len(xb)} rows; int64 does")
    distances, ids = knn(xq, xb, k, metric)
    return filled(("D", distances, D), ("I", ids.astype(np.int32) if narrow else ids, I))


class IndexFlat:
    """Rows kept as they are, searched exactly; METRIC_L2, METRIC_INNER_PRODUCT, METRIC_L1 or METRIC_Linf."""

    is_trained = True

    def __init__(self, d: int, metric: int = METRIC_L2) -> None:
        if metric not in _METRICS:
            raise Unsupported(f"metric {metric} is none of METRIC_INNER_PRODUCT, METRIC_L2, METRIC_L1, METRIC_Linf")
        self.d = _inputs.integer("d", d)
        self.metric_type = metric
        self.reset()

    def reset(self) -> None:
        self._blocks: list[np.ndarray] = []
        self._prepared: Corpus | None = None
        self.ntotal = 0

    def train(self, x: Any) -> None:
        """Nothing is learned."""

    def add(self, x: Any) -> None:
        """Appends a copy of the rows of `x`."""
        rows = self._checked(x, "x").copy()
        self._blocks.append(rows)
        self._prepared = None
        self.ntotal += len(rows)

    def search(
        self, x: Any, k: int, *, params: Any = None, D: Any = None, I: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The k nearest rows of each row of `x`: D (nq, k) float32, I (nq, k) int64, in the arrays that are given."""
        if params is not None:
            raise Unsupported("search parameters are not supported; vicinal.knn takes eligible rows")
        if _inputs.integer("k", k) < 1:
            raise InvalidArgument(f"k must be >= 1, got {k}")
        distances, ids = self._nearest(x, k)
        return filled(("D", distances, D), ("I", ids, I))

    def range_search(self, x: Any, thresh: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Every row nearer than `thresh` (squared for L2; for inner products, every larger one), by ascending id.

        Returns
        -------
        lims : (nq + 1,) uint64
            Entries lims[i] to lims[i + 1] belong to query i.
        D : float32
        I : int64
        """
        queries, sound = self._queries(x)
        limit = np.float32(thresh)
        lims = np.zeros(len(queries) + 1, np.uint64)
        if self.ntotal == 0 or not sound.any():
            return lims, np.empty(0, np.float32), np.empty(0, np.int64)
        # strictly within: the next float32 before the limit, inclusively
        toward = np.float32(np.inf if self.metric_type == METRIC_INNER_PRODUCT else -np.inf)
        found = _range_search(self._rows(), queries[sound], float(np.nextafter(limit, toward)), self._metric()).by_id()
        counts = np.zeros(len(queries), np.int64)
        counts[sound] = np.diff(found.offsets)
        lims[1:] = np.cumsum(counts)
        return lims, found.distances, found.ids

    def reconstruct(self, key: int) -> np.ndarray:
        return self._rows()[_inputs.integer("key", key)].astype(np.float32)

    def reconstruct_n(self, n0: int = 0, ni: int = -1) -> np.ndarray:
        return self._rows()[n0 : None if ni < 0 else n0 + ni].astype(np.float32)

    def _metric(self) -> str:
        return _METRICS[self.metric_type]

    def _rows(self) -> np.ndarray:
        if len(self._blocks) != 1:
            self._blocks = [np.concatenate(self._blocks) if self._blocks else np.empty((0, self.d), np.float32)]
        return self._blocks[0]

    def _checked(self, x: Any, name: str) -> np.ndarray:
        rows = _rows(x, name)
        if rows.shape[1] != self.d:
            raise InvalidArgument(f"{name} has d={rows.shape[1]}, the index has d={self.d}")
        return rows

    def _queries(self, x: Any) -> tuple[np.ndarray, np.ndarray]:
        rows = self._checked(x, "queries")
        return rows, np.isfinite(rows).all(axis=1)

    def _nearest(self, x: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
        queries, sound = self._queries(x)
        worst = -_FARTHEST if self.metric_type == METRIC_INNER_PRODUCT else _FARTHEST
        distances = np.full((len(queries), k), worst, np.float32)
        ids = np.full((len(queries), k), -1, np.int64)
        if self.ntotal == 0 or k == 0 or not sound.any():
            return distances, ids
        if self._prepared is None:
            self._prepared = Corpus(self._rows(), self._metric())
        found = self._prepared.knn(queries if sound.all() else queries[sound], min(k, self.ntotal))
        if sound.all() and k <= self.ntotal:
            return found.distances, found.ids
        distances[sound, : self.ntotal], ids[sound, : self.ntotal] = found
        return distances, ids


class IndexFlatL2(IndexFlat):
    """Squared Euclidean distances."""

    def __init__(self, d: int) -> None:
        super().__init__(d, METRIC_L2)


class IndexFlatIP(IndexFlat):
    """Inner products, the largest first."""

    def __init__(self, d: int) -> None:
        super().__init__(d, METRIC_INNER_PRODUCT)


def _rows(x: Any, name: str) -> np.ndarray:
    rows = np.asarray(x)
    if rows.ndim != 2:
        raise InvalidArgument(f"{name}: expected 2 dimensions (n, d), got {rows.ndim} with shape {rows.shape}")
    return rows if rows.dtype.name in ("float32", "float16", "uint8", "int8") else rows.astype(np.float32)
