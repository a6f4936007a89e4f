"""pytorch3d.ops.knn_points: neighbours in batches of point clouds."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .. import _namespaces
from .. import knn as _knn
from .._namespaces import to_host
from ..errors import InvalidArgument


class KNN(NamedTuple):
    dists: Any
    idx: Any
    knn: Any


def knn_points(
    p1: Any, p2: Any, lengths1: Any = None, lengths2: Any = None, norm: int = 2, K: int = 1,
    version: int = -1, return_nn: bool = False, return_sorted: bool = True,
) -> KNN:  # fmt: skip
    """The K nearest points of cloud i of `p2` for every point of cloud i of `p1`.

    Parameters
    ----------
    p1 : (N, P1, D), p2 : (N, P2, D) tensors or arrays
    lengths1, lengths2 : (N,) integers or None
        Points of each cloud; what stands behind them is padding.
    norm : 2 or 1
    K : int
    version, return_sorted :
        Accepted; the answer is the same, and sorted.
    return_nn : bool, default False
        The points themselves too.

    Returns
    -------
    KNN
        dists (N, P1, K), squared for norm 2, of the points' type (of integers: a float type), idx (N, P1, K) int64, and knn (N, P1, K, D) or None.
        As there, what is missing (padding of p1, and K above the points of the cloud) is 0 in all of them. No gradients.
    """
    if norm not in (1, 2):
        raise InvalidArgument(f"norm must be 1 or 2, got {norm}")
    a, b = (p if hasattr(p, "ndim") else np.asarray(p) for p in (p1, p2))
    if a.ndim != 3 or b.ndim != 3 or len(a) != len(b) or a.shape[2] != b.shape[2]:
        raise InvalidArgument(f"expected (N, P1, D) and (N, P2, D), got {tuple(a.shape)} and {tuple(b.shape)}")
    rows1 = np.full(len(a), a.shape[1]) if lengths1 is None else to_host(lengths1)
    rows2 = np.full(len(a), b.shape[1]) if lengths2 is None else to_host(lengths2)
    kind = np.dtype(str(a.dtype).removeprefix("torch."))
    dists = np.zeros((len(a), a.shape[1], K), kind if kind.kind == "f" else np.result_type(kind, np.float32))
    idx = np.zeros(dists.shape, np.int64)
    for cloud, (count1, count2) in enumerate(zip(rows1.tolist(), rows2.tolist())):
        wide = min(K, count2)
        if wide > 0 and count1 > 0:
            found = _knn(b[cloud, :count2], a[cloud, :count1], wide, "sqeuclidean" if norm == 2 else "l1")
            dists[cloud, :count1, :wide], idx[cloud, :count1, :wide] = map(to_host, found)
    points = None
    if return_nn:
        points = to_host(b)[np.arange(len(a))[:, None, None], idx]
        missing = (np.arange(a.shape[1])[:, None] >= rows1[:, None, None]) | (np.arange(K) >= rows2[:, None, None])
        points[missing] = 0
    namespace = _namespaces.of(a)
    return KNN(*(None if values is None else namespace.like(values) for values in (dists, idx, points)))
