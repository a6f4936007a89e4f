"""OpenCV's BFMatcher::

    from vicinal.compat.opencv import BFMatcher
    matches = BFMatcher(cv2.NORM_HAMMING, crossCheck=True).match(descriptors_a, descriptors_b)

The same matches in the same order, as ``cv2.DMatch`` where cv2 is installed, else as objects with its four fields. Ties go to the smaller (imgIdx,
trainIdx), as there; distances are those of 64-bit arithmetic, rounded once to 32 bits, where OpenCV adds in 32 bits: of uint8 rows they are equal. Where
OpenCV stops with an assertion (crossCheck with k > 1, a mask, or several train images) there is an error with a text. Otherwise than in OpenCV 5.0, the k
nearest rows are right where a train image has fewer than k, and ``radiusMatch(compactResult=True)`` has no empty lists at its end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _inputs
from .._corpus import Corpus
from .._match import match as _match
from .._range import range_search as _range_search
from ..errors import InvalidArgument, Unsupported

try:
    from cv2 import DMatch
except ImportError:

    @dataclass
    class DMatch:  # type: ignore[no-redef]
        """A row of the query, one of a train image, that image's number, and their distance."""

        queryIdx: int = -1
        trainIdx: int = -1
        imgIdx: int = -1
        distance: float = float(np.finfo(np.float32).max)


__all__ = ["NORM_HAMMING", "NORM_HAMMING2", "NORM_L1", "NORM_L2", "NORM_L2SQR", "BFMatcher", "BFMatcher_create", "DMatch"]

NORM_L1, NORM_L2, NORM_L2SQR, NORM_HAMMING, NORM_HAMMING2 = 2, 4, 5, 6, 7
_METRICS = {NORM_L1: "l1", NORM_L2: "euclidean", NORM_L2SQR: "sqeuclidean", NORM_HAMMING: "hamming", NORM_HAMMING2: "hamming"}
_MASKED = 1 << 22  # distances that a masked search ranks at a time


class BFMatcher:
    """Descriptors matched with those of one image, or of several that :meth:`add` keeps.

    Parameters
    ----------
    normType : int, default NORM_L2
        NORM_L1, NORM_L2, NORM_L2SQR; NORM_HAMMING and NORM_HAMMING2 (of pairs of bits) of uint8 rows.
    crossCheck : bool, default False
        Only pairs of rows that are each other's nearest; with k = 1, no mask and one train image.
    """

    def __init__(self, normType: int = NORM_L2, crossCheck: bool = False) -> None:
        if normType not in _METRICS:
            raise Unsupported(f"normType {normType} is none of NORM_L1, NORM_L2, NORM_L2SQR, NORM_HAMMING, NORM_HAMMING2")
        self.normType, self.crossCheck = normType, bool(crossCheck)
        self.clear()

    @classmethod
    def create(cls, normType: int = NORM_L2, crossCheck: bool = False) -> BFMatcher:
        return cls(normType, crossCheck)

    def add(self, descriptors: Any) -> None:
        """Keeps one more train image, or a list of them."""
        images = [descriptors] if isinstance(descriptors, np.ndarray) and descriptors.ndim == 2 else list(descriptors)
        self._train += [_rows(image, "descriptors") for image in images]

    def clear(self) -> None:
        self._train: list[np.ndarray] = []

    def train(self) -> None:
        """Nothing is learned."""

    def empty(self) -> bool:
        return not self._train

    def getTrainDescriptors(self) -> tuple[np.ndarray, ...]:
        return tuple(self._train)

    def isMaskSupported(self) -> bool:
        return True

    def clone(self, emptyTrainData: bool = False) -> BFMatcher:
        other = type(self)(self.normType, self.crossCheck)
        other._train = [] if emptyTrainData else list(self._train)
        return other

    def match(self, queryDescriptors: Any, trainDescriptors: Any = None, mask: Any = None, *, masks: Any = None) -> tuple[Any, ...]:
        """The nearest row for each query that has any.

        mask : (queries, rows) array, nonzero where a match is allowed; masks: a list of them, an image each.
        """
        query, images, allowed = self._sides(queryDescriptors, trainDescriptors, mask, masks)
        return tuple(one for found in self._nearest(query, images, 1, allowed) for one in found)

    def knnMatch(
        self, queryDescriptors: Any, trainDescriptors: Any = None, k: Any = None, mask: Any = None, compactResult: bool = False,
        *, masks: Any = None,
    ) -> tuple[tuple[Any, ...], ...]:  # fmt: skip
        """The k nearest rows of each query, fewer where there are fewer; compactResult leaves out queries that a mask left none.

        Called with the query and k alone, by place or by name, it is of the images of :meth:`add`, as in OpenCV.
        """
        if k is None and trainDescriptors is not None and np.ndim(trainDescriptors) == 0:
            trainDescriptors, k = None, trainDescriptors
        if _inputs.integer("k", k) < 1:
            raise InvalidArgument(f"k must be >= 1, got {k}")
        query, images, allowed = self._sides(queryDescriptors, trainDescriptors, mask, masks)
        found = self._nearest(query, images, int(k), allowed)
        return tuple(one for one in found if one or not (compactResult and allowed is not None))

    def radiusMatch(
        self, queryDescriptors: Any, trainDescriptors: Any = None, maxDistance: Any = None, mask: Any = None,
        compactResult: bool = False, *, masks: Any = None,
    ) -> tuple[tuple[Any, ...], ...]:  # fmt: skip
        """Every row at most maxDistance away, nearest first; compactResult leaves out queries without any. crossCheck has no effect, as in OpenCV."""
        if maxDistance is None and trainDescriptors is not None and np.ndim(trainDescriptors) == 0:
            trainDescriptors, maxDistance = None, trainDescriptors
        radius = float(np.float32(_inputs.real("maxDistance", maxDistance)))
        if not radius > 0:
            raise InvalidArgument(f"maxDistance must be > 0, got {maxDistance}")
        query, images, allowed = self._sides(queryDescriptors, trainDescriptors, mask, masks)
        if not len(query) or not images:
            return ()
        rows, places = _joined(images)
        if not len(rows):
            return ((),) * len(query)
        twice = 2 if self.normType == NORM_HAMMING2 else 1
        found = _range_search(self._coded(rows), self._coded(query), radius * twice, _METRICS[self.normType])
        answer = []
        for i in range(len(query)):
            distances, ids = found[i]
            kept = [
                (int(row), distance / twice)
                for row, distance in zip(ids.tolist(), distances.tolist())
                if allowed is None or allowed[i, row]
            ]
            answer.append(self._said(i, kept, places))
        return tuple(one for one in answer if one or not compactResult)

    def _sides(self, query: Any, train: Any, mask: Any, masks: Any) -> tuple[np.ndarray, list[np.ndarray], np.ndarray | None]:
        asked = _rows(query, "queryDescriptors")
        images = self._train if train is None else [_rows(train, "trainDescriptors")]
        several = [mask] if mask is not None else None if masks is None or not len(masks) else list(masks)
        if several is None:
            return asked, images, None
        if len(several) != len(images):
            raise InvalidArgument(f"{len(several)} masks for {len(images)} train images")
        allowed = [np.asarray(one) != 0 for one in several]
        for one, image in zip(allowed, images):
            if one.shape != (len(asked), len(image)):
                raise InvalidArgument(f"a mask has shape {one.shape}, not (queries, rows) = ({len(asked)}, {len(image)})")
        return asked, images, np.concatenate(allowed, axis=1)

    def _nearest(self, query: np.ndarray, images: list[np.ndarray], k: int, allowed: np.ndarray | None) -> list[tuple[Any, ...]]:
        if self.crossCheck and (k > 1 or allowed is not None or len(images) > 1):
            raise Unsupported("crossCheck is for k = 1, one train image and no mask")
        if not images or not len(query):
            return []
        rows, places = _joined(images)
        if not len(rows):
            return [()] * len(query)
        twice = 2 if self.normType == NORM_HAMMING2 else 1
        base, asked = self._coded(rows), self._coded(query)
        metric = _METRICS[self.normType]
        if self.crossCheck:
            crossed = _match(asked, base, ratio=None, distance=metric)
            hits = {a: (b, distance / twice) for (a, b), distance in zip(crossed.ids.tolist(), crossed.distances.tolist())}
            return [self._said(i, [hits[i]] if i in hits else [], places) for i in range(len(asked))]
        corpus, answer = Corpus(base, metric), []
        step = len(asked) if allowed is None else max(1, _MASKED // len(base))
        for first in range(0, len(asked), step):
            part = slice(first, first + step)
            found = corpus.knn(asked[part], min(k, len(base)) if allowed is None else len(base))
            for i, (ids, distances) in enumerate(zip(found.ids.tolist(), found.distances.tolist()), first):
                near = zip(ids, distances) if allowed is None else ((row, d) for row, d in zip(ids, distances) if allowed[i, row])
                answer.append(self._said(i, [(row, distance / twice) for row, distance in near][:k], places))
        return answer

    def _coded(self, rows: np.ndarray) -> np.ndarray:
        """Of NORM_HAMMING2: four bits a pair of bits, one of them set, so that two pairs that differ do so in two bits."""
        if self.normType in (NORM_HAMMING, NORM_HAMMING2) and rows.dtype != np.uint8:
            raise InvalidArgument(f"NORM_HAMMING is of uint8 rows, got {rows.dtype.name}")
        if self.normType != NORM_HAMMING2:
            return rows
        pairs = (rows[..., None] >> np.array([0, 2, 4, 6], np.uint8)) & 3
        nibbles = np.uint8(1) << pairs
        return (nibbles[..., 0::2] | nibbles[..., 1::2] << 4).reshape(len(rows), -1)

    def _said(self, query: int, near: list[tuple[int, float]], places: np.ndarray) -> tuple[Any, ...]:
        """(row of all train images, distance) as DMatch."""
        said = []
        for row, distance in near:
            image = int(np.searchsorted(places, row, "right")) - 1
            said.append(DMatch(query, row - int(places[image]), image, float(np.float32(distance))))
        return tuple(said)


def BFMatcher_create(normType: int = NORM_L2, crossCheck: bool = False) -> BFMatcher:  # noqa: N802
    return BFMatcher(normType, crossCheck)


def _joined(images: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """All rows, and where each image begins; of images without rows the last of a place is found."""
    columns = {image.shape[1] for image in images if len(image)}
    kinds = {image.dtype for image in images if len(image)}
    if len(columns) > 1 or len(kinds) > 1:
        raise InvalidArgument(f"train images differ: columns {sorted(columns)}, types {sorted(map(str, kinds))}")
    full = [image for image in images if len(image)]
    starts = np.cumsum([0, *(len(image) for image in images[:-1])])
    return (np.concatenate(full) if full else images[0]), starts


def _rows(x: Any, name: str) -> np.ndarray:
    rows = np.asarray(x)
    if rows.ndim != 2:
        raise InvalidArgument(f"{name}: expected 2 dimensions (n, d), got {rows.ndim} with shape {rows.shape}")
    return rows
