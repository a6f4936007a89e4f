"""Matching of features: which rows of one image answer which rows of another, for one pair of images or for thousands."""

from __future__ import annotations

import operator
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _inputs, _namespaces, _native, _results
from ._inputs import Memory, Progress
from ._results import Stats
from .errors import InvalidArgument

_RATIO = float("0.8")  # an object of its own: a ratio that is given beside a preset is told from the default, though it be equal
_DEFAULTS: dict[str, Any] = dict(ratio=_RATIO, max_distance=None, mutual=True, distance="euclidean", strict=True, lone="accept")
_MUTUAL = {True: "tested", "nearest": "nearest", False: "one_way"}


@dataclass(frozen=True, eq=False, repr=False)
class Matches:
    """The matches of one pair of images, by ascending row of the first.

    ids: (M, 2) int64, a row of the first image and one of the second. distances: (M,) float32, float64 or uint32, as
    :func:`vicinal.knn` has them (angles in radians, float32). ratios: (M,) float64, best over second best; of mutual matches
    whose both directions were tested the larger of the two; 0 where there is no second, 1 where both are 0. Arrays of NumPy,
    or of torch or cupy where the first image's rows are. stats: of the call, also where there were more pairs.
    """

    ids: Any
    distances: Any
    ratios: Any
    stats: Stats

    def __len__(self) -> int:
        return int(self.ids.shape[0])

    def __repr__(self) -> str:
        return f"<vicinal.Matches: {len(self)}, {self.distances.dtype}>"


@dataclass(frozen=True, eq=False, repr=False)
class PairMatches:
    """The matches of pairs of images; ``result[p]`` is the :class:`Matches` of pair p, ``len(result)`` the number of pairs.

    pairs: (P, 2) int64, numbers of images. offsets: (P + 1,) int64; entries offsets[p] to offsets[p + 1] belong to pair p.
    ids: (M, 2), distances: (M,), ratios: (M,), stats: as in :class:`Matches`.
    """

    pairs: np.ndarray
    offsets: np.ndarray
    ids: Any
    distances: Any
    ratios: Any
    stats: Stats

    def __len__(self) -> int:
        return self.offsets.shape[0] - 1

    def __getitem__(self, pair: int) -> Matches:
        number = operator.index(pair)
        if not -len(self) <= number < len(self):
            raise IndexError(f"pair {number} of {len(self)}")
        number %= len(self)
        entries = slice(int(self.offsets[number]), int(self.offsets[number + 1]))
        return Matches(self.ids[entries], self.distances[entries], self.ratios[entries], self.stats)

    def __repr__(self) -> str:
        return f"<vicinal.PairMatches of {len(self)} pairs: {self.ids.shape[0]}, {self.distances.dtype}>"


def match(
    a: Any,
    b: Any,
    *,
    ratio: float | None = _RATIO,
    max_distance: float | None = None,
    mutual: bool | str = True,
    distance: str = "euclidean",
    strict: bool = True,
    lone: str = "accept",
    preset: str | None = None,
    guide: Any = None,
    device: str = "auto",
    threads: int = 0,
    memory: Memory = None,
    progress: Progress = None,
) -> Matches:
    """The rows of `b` that match rows of `a`: nearest, clearly nearer than the second nearest, and both ways; exactly.

    Parameters
    ----------
    a, b : (n, d) and (m, d) arrays
        As the corpus of :func:`vicinal.knn`; either may have no rows. Of packed bits (ORB, AKAZE) uint8 with ``distance="hamming"``.
    ratio : float or None, default 0.8
        A row is matched where best < ratio * second; from 1e-6 to 1e6. The product is not rounded, and of uint8 and int8 rows
        euclidean distances are compared by their squares, which are whole numbers. None: no such test.
    max_distance : float or None, default None
        A row is matched where best <= max_distance; >= 0.
    mutual : True, "nearest" or False, default True
        True: both directions pass all tests and name each other. "nearest": the rows are each other's nearest, the tests are on
        the rows of `a` alone. False: rows of `a` are matched, whatever else matches the same row of `b`.
    distance : str, default "euclidean"
        "euclidean", "sqeuclidean", "cosine", "correlation", "l1" ("manhattan"), "linf", "hamming" as in :func:`vicinal.knn`; or
        "angle" in radians: of uint8 rows acos(min(q.r / 512^2, 1)), by the larger product (COLMAP's), of others acos(1 - cosine).
    strict : bool, default True
        False: best <= ratio * second.
    lone : "accept" or "reject", default "accept"
        Whether a best without a second (one row on the other side) passes the ratio's test.
    preset : str or None
        The values of the keywords above as another tool has them: "colmap", "colmap-cpu", "hloc", "opencv", "kornia" or "vlfeat"
        (docs/matching.md). A ratio that is given, and any other keyword that is not at its default, holds all the same.
    guide : dict or None, default None
        Which rows may match, by where their keypoints are; ``keypoints``: the (n, 2) and (m, 2) arrays, float32 or float64, of x and y.
        ``homography``: (3, 3), from `a` to `b`: rows are candidates of each other where the distance of b's keypoint from the image of a's is at
        most ``max_error`` (default 4.0). ``fundamental``: (3, 3), y F x: where the root of Sampson's error is. ``apart``: the second best is
        sought among rows whose keypoints are farther than this from the best's (FGINN); default 0.0, anywhere. What the best and the
        second are, and which are lone, is said of candidates alone. Every candidate is ranked, on the CPU.
    device, threads, memory, progress :
        As in :func:`vicinal.knn`.

    Returns
    -------
    Matches
        ``.ids`` (M, 2) int64 by ascending row of `a`, ``.distances`` (M,), ``.ratios`` (M,) float64.

    Notes
    -----
    Best and second are the first two rows by (canonical value in float64, id): ``knn(b, a, k=2, distance_type="f64")``. The bits
    are the same on every device, instruction set and number of threads.

    Raises
    ------
    As :func:`vicinal.knn`; InvalidArgument for images of different columns.

    Examples
    --------
    >>> import numpy as np, vicinal
    >>> a = np.array([[0.0, 0.0], [9.0, 9.0], [5.0, 5.0]])
    >>> b = np.array([[9.0, 8.0], [0.0, 1.0], [5.5, 5.0], [5.0, 5.5]])
    >>> found = vicinal.match(a, b)
    >>> found.ids.tolist(), found.distances.tolist()
    ([[0, 1], [1, 0]], [1.0, 1.0])
    """
    given = dict(ratio=ratio, max_distance=max_distance, mutual=mutual, distance=distance, strict=strict, lone=lone)
    pairs = _matched([a, b], ["a", "b"], np.array([[0, 1]]), given, preset, guide, device, threads, memory, progress)
    return pairs[0]


def match_pairs(
    images: Any,
    pairs: Any = "exhaustive",
    *,
    ratio: float | None = _RATIO,
    max_distance: float | None = None,
    mutual: bool | str = True,
    distance: str = "euclidean",
    strict: bool = True,
    lone: str = "accept",
    preset: str | None = None,
    guide: Any = None,
    resume: str | os.PathLike[str] | None = None,
    device: str = "auto",
    threads: int = 0,
    memory: Memory = None,
    progress: Progress = None,
) -> PairMatches:
    """The matches of many pairs of images; each image is prepared once. The bits are those of :func:`match` for each pair.

    Parameters
    ----------
    images : list of (n_i, d) arrays, or (rows, offsets)
        rows (N, d) of all images and offsets (I + 1,) integers: image i has the rows from offsets[i] to offsets[i + 1].
    pairs : "exhaustive", "sequential:N" or (P, 2) integers, default "exhaustive"
        Each image with every later one; with the next N; or these, by number, in this order.
    guide : dict or None, default None
        As in :func:`match`, with ``keypoints`` of every image, and ``homography`` or ``fundamental`` (P, 3, 3), one a pair.
    resume : path or None, default None
        Folder in which the matches of finished pairs, of some seconds each, are saved; the same call goes on from them after a kill or Ctrl-C, whatever
        the threads, the memory and the device are. It is made if it is not there, and stays: remove it when the result is safe. Images in the
        host's memory.
    ratio, max_distance, mutual, distance, strict, lone, preset, device, threads, memory, progress :
        As in :func:`match`.

    Returns
    -------
    PairMatches
        ``.pairs`` (P, 2), ``.offsets`` (P + 1,), ``.ids`` (M, 2), ``.distances`` (M,), ``.ratios`` (M,); ``result[p]`` is the
        Matches of pair p.

    Raises
    ------
    As :func:`match`, naming the image; InvalidArgument for offsets that descend or end beyond the rows, for a pair that names no image, for pairs whose distances are of two kinds
    (of uint8 images beside others for angle, of integers beside others for euclidean, with float64 beside others), and for a folder of another call. OSError: the folder of ``resume`` cannot be made or written.
    """
    listed = _images(images)
    given = dict(ratio=ratio, max_distance=max_distance, mutual=mutual, distance=distance, strict=strict, lone=lone)
    names = [f"image {number}" for number in range(len(listed))]
    return _matched(listed, names, pairs, given, preset, guide, device, threads, memory, progress, resume)


def _matched(images: Sequence[Any], names: list[str], pairs: Any, given: dict[str, Any], preset: Any, guide: Any, device: Any,
             threads: Any, memory: Any, progress: Any, resume: Any = None) -> PairMatches:  # fmt: skip
    wanted = _tests(given, preset)
    copied, rows = 0, []
    for image, name in zip(images, names):
        seen, more = _inputs.rows(image, name)
        rows.append(seen)
        copied += more
    listed = _pairs(pairs, len(rows))
    options = _inputs.options(
        device=_inputs.device(device, *rows), threads=threads, memory=memory, progress=progress, stream=_inputs.stream(*rows)
    )
    folder = b"" if resume is None else _inputs.path_bytes(resume)
    offsets, ids, distances, ratios, stats = _native.match_pairs(rows, listed, options, **wanted, guide=_guide(guide, len(listed)), directory=folder)
    namespace = _namespaces.of(images[0]) if len(images) else None
    ids, distances, ratios = _results.at(namespace, ids, distances, ratios)
    return PairMatches(listed, offsets, ids, distances, ratios, _results.stats_of(stats, copied))


def _tests(given: dict[str, Any], preset: Any) -> dict[str, Any]:
    """What the library is asked, checked for types: of a preset, and of keywords that are not at their defaults."""
    if preset is not None:
        from ._match_presets import PRESETS

        name = _inputs.text("preset", preset)
        if name not in PRESETS:
            _native.check_match_preset(name)  # raises, in the library's words
        given = {**_DEFAULTS, **PRESETS[name], **{key: value for key, value in given.items() if _is_given(key, value)}}
    mutual = given["mutual"]
    if isinstance(mutual, np.bool_):
        mutual = bool(mutual)
    if not isinstance(mutual, (bool, str)):
        raise TypeError(f"mutual must be True, False or 'nearest', got {type(mutual).__name__}")
    return dict(
        distance=_inputs.text("distance", given["distance"]),
        ratio=None if given["ratio"] is None else _inputs.real("ratio", given["ratio"]),
        max_distance=None if given["max_distance"] is None else _inputs.real("max_distance", given["max_distance"]),
        mutual=_MUTUAL[mutual] if mutual in _MUTUAL else mutual,
        strict=_inputs.flag("strict", given["strict"]),
        lone=_inputs.text("lone", given["lone"]),
    )


def _guide(guide: Any, pairs: int) -> tuple[Any, ...] | None:
    """Model, its matrices (P, 9), keypoints of images, max_error and apart."""
    if guide is None:
        return None
    if not isinstance(guide, dict):
        raise TypeError(f"guide must be a dict, got {type(guide).__name__}")
    known = ("homography", "fundamental", "keypoints", "max_error", "apart")
    for name in guide:
        if name not in known:
            raise InvalidArgument(f"guide: unknown entry {name!r}; entries: {', '.join(known)}")
    models = [name for name in known[:2] if guide.get(name) is not None]
    if len(models) > 1:
        raise InvalidArgument("guide: homography and fundamental are two models; give one")
    matrices = np.empty((0, 9))
    if models:
        given = np.asarray(_namespaces.to_host(guide[models[0]]))
        if given.dtype.kind not in "fiu":
            raise TypeError(f"guide: {models[0]} must be numbers, got dtype {given.dtype.name}")
        if given.shape not in ((pairs, 3, 3), (3, 3) if pairs == 1 else None):
            raise InvalidArgument(f"guide: {models[0]} must have the shape ({pairs}, 3, 3), got {given.shape}")
        matrices = np.ascontiguousarray(given.reshape(-1, 9), np.float64)
    keypoints = [_inputs.rows(x, f"keypoints {number}")[0] for number, x in enumerate(guide.get("keypoints", ()))]
    limits = (_inputs.real(name, guide.get(name, default)) for name, default in (("max_error", 4.0), ("apart", 0.0)))
    return (models[0] if models else "", matrices, keypoints, *limits)


def _is_given(key: str, value: Any) -> bool:
    return value is not _RATIO if key == "ratio" else value != _DEFAULTS[key]


def _images(images: Any) -> list[Any]:
    """A list of images, or rows cut by offsets."""
    if isinstance(images, tuple) and len(images) == 2 and getattr(images[1], "ndim", None) == 1:
        rows, offsets = images[0], np.asarray(_namespaces.to_host(images[1]))
        if offsets.dtype.kind not in "iu":
            raise TypeError(f"offsets must be integers, got dtype {offsets.dtype.name}")
        if not hasattr(rows, "shape"):
            rows = np.asarray(rows)
        ends = offsets.astype(np.int64)
        if ends.size < 1 or ends[0] < 0 or ends[-1] > rows.shape[0] or np.any(np.diff(ends) < 0):
            raise InvalidArgument(f"offsets must ascend from 0 on and end within the {rows.shape[0]} rows")
        return [rows[first:last] for first, last in zip(ends[:-1], ends[1:])]
    if isinstance(images, (str, bytes, dict)) or not hasattr(images, "__iter__"):
        raise TypeError(f"images must be a list of arrays or (rows, offsets), got {type(images).__name__}")
    return list(images)


def _pairs(pairs: Any, images: int) -> np.ndarray:
    if isinstance(pairs, str):
        return np.asarray(_native.image_pairs(_inputs.text("pairs", pairs), images))
    array = np.asarray(_namespaces.to_host(pairs))
    if array.size == 0:
        return np.empty((0, 2), np.int64)
    if array.dtype.kind not in "iu":
        raise TypeError(f"pairs must be integers, got dtype {array.dtype.name}")
    if array.ndim != 2 or array.shape[1] != 2:
        raise InvalidArgument(f"pairs must have the shape (P, 2), got {array.shape}")
    return np.ascontiguousarray(array, np.int64)
