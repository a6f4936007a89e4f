"""kornia.feature's matching of descriptors, exact::

    from vicinal.compat.kornia import match_smnn
    ratios, ids = match_smnn(descriptors_a, descriptors_b, 0.95)

Tensors in, tensors out, on the device of the first; arrays of NumPy give arrays. Distances are those of 64-bit
arithmetic, float64 where a side is, else rounded to float32, and ratios are divided in that type as kornia does;
kornia's own distances come from products of 32 bits where there are more than 25 rows. Ties go to the smaller row.
``dm``, a matrix of distances, is taken in place of the rows' own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _inputs
from .._corpus import Corpus
from .._namespaces import library
from .._results import on_host
from .._select import select_k
from ..errors import InvalidArgument

__all__ = ["match_fginn", "match_mnn", "match_nn", "match_smnn", "match_snn"]

_FGINN_CANDIDATES = 10


def match_nn(desc1: Any, desc2: Any, dm: Any = None) -> tuple[Any, Any]:
    """The nearest row of `desc2` (B2, D) for each of `desc1` (B1, D): distances (B1, 1) and pairs of rows (B1, 2) int64."""
    distances, ids = _nearest(desc1, desc2, dm, 1)
    return _answer(desc1, distances[:, 0], np.arange(len(ids)), ids[:, 0])


def match_mnn(desc1: Any, desc2: Any, dm: Any = None) -> tuple[Any, Any]:
    """Rows that are each other's nearest: distances (B3, 1) and pairs of rows (B3, 2), by ascending row of `desc1`.

    kornia lists them by ascending row of the shorter side.
    """
    distances, ids = _nearest(desc1, desc2, dm, 1)
    _, back = _nearest(desc2, desc1, _turned(dm), 1)
    rows = np.flatnonzero(back[ids[:, 0], 0] == np.arange(len(ids))) if len(back) else np.empty(0, np.int64)
    return _answer(desc1, distances[rows, 0], rows, ids[rows, 0])


def match_snn(desc1: Any, desc2: Any, th: float = 0.8, dm: Any = None) -> tuple[Any, Any]:
    """The nearest rows whose distance is at most `th` of that to the second nearest: ratios (B3, 1) and pairs of rows (B3, 2)."""
    ratios, rows, columns = _by_ratio(desc1, desc2, th, dm)
    return _answer(desc1, ratios, rows, columns)


def match_smnn(desc1: Any, desc2: Any, th: float = 0.95, dm: Any = None) -> tuple[Any, Any]:
    """What :func:`match_snn` finds both ways: the larger of both ratios (B3, 1) and pairs of rows (B3, 2)."""
    ratios, rows, columns = _by_ratio(desc1, desc2, th, dm)
    if len(desc1) < 2:
        rows = rows[:0]
    back_ratios, back_rows, back_columns = _by_ratio(desc2, desc1, th, _turned(dm))
    row_of = np.full(len(desc2), -1)
    ratio_of = np.zeros(len(desc2), back_ratios.dtype)
    row_of[back_rows], ratio_of[back_rows] = back_columns, back_ratios
    both = np.flatnonzero(row_of[columns[: len(rows)]] == rows)
    return _answer(desc1, np.maximum(ratios[both], ratio_of[columns[both]]), rows[both], columns[both])


def match_fginn(
    desc1: Any, desc2: Any, lafs1: Any, lafs2: Any, th: float = 0.8, spatial_th: float = 10.0, mutual: bool = False, dm: Any = None
) -> tuple[Any, Any]:
    """:func:`match_snn` with the first of the 10 nearest as second that lies `spatial_th` or more from the nearest.

    lafs2 : (1, B2, 2, 3)
        Local affine frames; the last column is the place. lafs1 is not read.
    mutual : bool, default False
        Only pairs of which the row of `desc1` is also nearest to that of `desc2`.

    Where none of the 10 lies so far the ratio is 0, as in kornia from 0.9 on (before, places were compared with those of row 0).
    """
    if len(desc2) < 2:
        return _answer(desc1, np.empty(0, np.float32), np.empty(0, np.int64), np.empty(0, np.int64))
    distances, ids = _nearest(desc1, desc2, dm, min(_FGINN_CANDIDATES, len(desc2)))
    places = on_host(lafs2).reshape(-1, 2, 3)[:, :, 2]
    if len(places) != len(desc2):
        raise InvalidArgument(f"lafs2 has {len(places)} frames, desc2 has {len(desc2)} rows")
    apart = np.linalg.norm(places[ids] - places[ids[:, :1]], axis=2)
    second = np.where(apart[:, 1:] < spatial_th, np.inf, distances[:, 1:]).min(axis=1).astype(distances.dtype)
    ratios = _quotients(distances[:, 0], second)
    rows = np.flatnonzero(ratios <= ratios.dtype.type(_inputs.real("th", th)))
    if _inputs.flag("mutual", mutual):
        _, back = _nearest(desc2, desc1, _turned(dm), 1)
        rows = rows[back[ids[rows, 0], 0] == rows]
    return _answer(desc1, ratios[rows], rows, ids[rows, 0])


def _nearest(a: Any, b: Any, dm: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Distances (len(a), k) and ids, on the host; of an empty side without rows."""
    if dm is not None and tuple(dm.shape) != (len(a), len(b)):
        raise InvalidArgument(f"dm has shape {tuple(dm.shape)}, not ({len(a)}, {len(b)})")
    if not len(a) or not len(b):
        return np.empty((0, k), np.float32), np.empty((0, k), np.int64)
    distances, ids = Corpus(b, "euclidean").knn(a, k) if dm is None else select_k(dm, k)
    return on_host(distances), on_host(ids)


def _by_ratio(a: Any, b: Any, th: float, dm: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    limit = _inputs.real("th", th)
    if len(b) < 2 or not len(a):
        return np.empty(0, np.float32), np.empty(0, np.int64), np.empty(0, np.int64)
    distances, ids = _nearest(a, b, dm, 2)
    ratios = _quotients(distances[:, 0], distances[:, 1])
    rows = np.flatnonzero(ratios <= ratios.dtype.type(limit))
    return ratios[rows], rows, ids[rows, 0]


def _quotients(best: np.ndarray, second: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore", divide="ignore"):
        return best / second  # 0 / 0 passes no test


def _turned(dm: Any) -> Any:
    return None if dm is None else dm.T


def _answer(like: Any, values: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> tuple[Any, Any]:
    values, ids = values.reshape(-1, 1), np.stack([rows, columns], axis=1).astype(np.int64).reshape(-1, 2)
    if library(like) != "torch":
        return values, ids
    import torch

    return torch.from_numpy(np.ascontiguousarray(values)).to(like.device), torch.from_numpy(ids).to(like.device)
