"""Which features may match, by where they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _inputs, _namespaces
from .errors import InvalidArgument


class Guide:
    """Where the features of two pictures are, and what is known of the two: for ``vicinal.match(..., guide=)``.

    Parameters
    ----------
    a, b : (n, 2) and (m, 2) arrays
        Places of the features of both pictures in pixels, x first; further columns (scale, orientation) are not read.
    homography : (3, 3) array or None, default None
        From pixels of `a` to those of `b`: rows match where it takes one to `max_error` pixels from the other.
    fundamental : (3, 3) array or None, default None
        b^T F a = 0: rows match where the root of their Sampson error is at most `max_error` pixels. Not beside a homography.
    max_error : float, default 4.0
        Pixels, > 0; inclusive, as COLMAP's guided matching on the CPU. Its own default is 4.
    apart : float, default 0.0
        Pixels. A second best counts for the ratio where its place is this far or farther from the best's, so that a feature that was found twice is no
        rival of itself: the first geometrically inconsistent nearest neighbour (FGINN; Mishkin, Matas and Perdoch 2015, who take 10).

    Without homography and fundamental every row may match, and `apart` alone is heeded.

    Raises
    ------
    InvalidArgument
        A shape; both matrices; places that are no numbers (when it is used).
    """

    def __init__(
        self, a: Any, b: Any, *, homography: Any = None, fundamental: Any = None, max_error: float = 4.0, apart: float = 0.0
    ) -> None:
        if homography is not None and fundamental is not None:
            raise InvalidArgument("a guide has a homography or a fundamental matrix, not both")
        self._a, self._b = _places(a, "a"), _places(b, "b")
        self._by = "homography" if homography is not None else "fundamental" if fundamental is not None else "places"
        self._matrix = _matrix(homography if homography is not None else fundamental, self._by)
        self._max_error, self._apart = _inputs.real("max_error", max_error), _inputs.real("apart", apart)

    def __repr__(self) -> str:
        return f"<vicinal.Guide by {self._by}: {len(self._a)} and {len(self._b)} features>"


def said(guides: Any) -> list[tuple[Any, ...]]:
    """What the library takes: a list of a guide a pair, empty where there is none."""
    if guides is None:
        return []
    if isinstance(guides, Guide) or not hasattr(guides, "__iter__"):
        raise TypeError(f"guide must be a list of Guide, one a pair, got {type(guides).__name__}")
    listed = list(guides)
    for guide in listed:
        if not isinstance(guide, Guide):
            raise TypeError(f"guide must be a vicinal.Guide, got {type(guide).__name__}")
    return [(one._a, one._b, one._by, one._matrix, one._max_error, one._apart) for one in listed]


def _places(places: Any, name: str) -> np.ndarray:
    array = np.asarray(_namespaces.to_host(places) if hasattr(places, "shape") else places)
    if array.size == 0:
        return np.empty((0, 2))
    if array.ndim != 2 or array.shape[1] < 2:
        raise InvalidArgument(f"{name}: places must be (n, 2), got shape {array.shape}")
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name}: places must be numbers, got dtype {array.dtype.name}")
    return np.ascontiguousarray(array[:, :2], np.float64)


def _matrix(matrix: Any, name: str) -> np.ndarray:
    if matrix is None:
        return np.zeros((3, 3))
    array = np.asarray(_namespaces.to_host(matrix) if hasattr(matrix, "shape") else matrix)
    if array.shape != (3, 3):
        raise InvalidArgument(f"{name} must be (3, 3), got shape {array.shape}")
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name} must be numbers, got dtype {array.dtype.name}")
    return np.ascontiguousarray(array, np.float64)
