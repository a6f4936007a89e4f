"""pytorch3d.ops.knn_points: neighbours in batches of point clouds."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .. import _namespaces
from .. import knn as _knn
from .._results import on_host
from ..errors import InvalidArgument, RangeError


_SHORT = ("float16", "bfloat16")  # whose distances are float32 until the end


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
        dists (N, P1, K), squared for norm 2, of the type of p1 (of integers: a float type), idx (N, P1, K) int64, and
        knn (N, P1, K, D), of the type of p2, or None.
        As there, what is missing (padding of p1, and K above the points of the cloud) is 0 in all of them. No gradients.

    Raises
    ------
    As :func:`vicinal.knn`; InvalidArgument for shapes, and for lengths that are negative or beyond the clouds, RangeError for a distance beyond the type of p1.
    """
    if norm not in (1, 2):
        raise InvalidArgument(f"norm must be 1 or 2, got {norm}")
    a, b = (p if hasattr(p, "ndim") else np.asarray(p) for p in (p1, p2))
    if a.ndim != 3 or b.ndim != 3 or len(a) != len(b) or a.shape[2] != b.shape[2]:
        raise InvalidArgument(f"expected (N, P1, D) and (N, P2, D), got {tuple(a.shape)} and {tuple(b.shape)}")
    rows1, rows2 = _lengths("lengths1", lengths1, a), _lengths("lengths2", lengths2, b)
    metric = "sqeuclidean" if norm == 2 else "l1"
    kind = str(a.dtype).removeprefix("torch.")
    searched = np.dtype("float32") if kind in _SHORT else np.result_type(kind, np.float32)
    dists = np.zeros((len(a), a.shape[1], K), searched)
    idx = np.zeros(dists.shape, np.int64)
    for cloud, (count1, count2) in enumerate(zip(rows1.tolist(), rows2.tolist())):
        wide = min(K, count2)
        if wide > 0 and count1 > 0:
            found = _knn(b[cloud, :count2], a[cloud, :count1], wide, metric, distance_type=searched)
            dists[cloud, :count1, :wide], idx[cloud, :count1, :wide] = map(on_host, found)
    namespace = _namespaces.of(a)
    distances = namespace.like(dists)
    if kind in _SHORT:
        distances = _typed(distances, a.dtype)
        if bool((distances == float("inf")).any()):
            raise RangeError(f"a distance is beyond {kind}; give the points as float32")
    points = None
    if return_nn:
        points = namespace.like(_gathered(b, idx, rows1, rows2))
        if _is_torch_bfloat16(b):
            points = _typed(points, b.dtype)
    return KNN(distances, namespace.like(idx), points)


def _lengths(name: str, given: Any, clouds: Any) -> np.ndarray:
    """Points of each cloud."""
    lengths = np.full(len(clouds), clouds.shape[1]) if given is None else on_host(given)
    if lengths.shape != (len(clouds),):
        raise InvalidArgument(f"{name} has shape {lengths.shape}, there are {len(clouds)} clouds")
    if lengths.dtype.kind not in "iu":
        raise TypeError(f"{name}: expected integers, got dtype {lengths.dtype.name}")
    for cloud in np.flatnonzero((lengths < 0) | (lengths > clouds.shape[1]))[:1]:
        raise InvalidArgument(f"{name}: cloud {cloud} has {lengths[cloud]} points, of {clouds.shape[1]} that there are")
    return lengths


def _gathered(b: Any, idx: np.ndarray, rows1: np.ndarray, rows2: np.ndarray) -> np.ndarray:
    """The points that idx names, and 0 for what is missing: a row of zeros behind each cloud."""
    rows = on_host(b.float() if _is_torch_bfloat16(b) else b)  # float32 has all that NumPy lacks
    padded = np.concatenate([rows, np.zeros((len(rows), 1, rows.shape[2]), rows.dtype)], axis=1)
    clouds, places, ranks = np.ogrid[tuple(map(slice, idx.shape))]
    missing = (places >= rows1[clouds]) | (ranks >= rows2[clouds])
    return padded[clouds, np.where(missing, -1, idx)]


def _is_torch_bfloat16(x: Any) -> bool:
    return str(x.dtype) == "torch.bfloat16"


def _typed(values: Any, dtype: Any) -> Any:
    """Of a 16-bit type, in which a value may be infinite."""
    if hasattr(values, "to"):  # torch's
        return values.to(dtype)
    with np.errstate(over="ignore"):
        return values.astype(dtype)
