"""What a graph of neighbours looks like: how often rows are listed, how far neighbours are, which rows are hubs::

    figure = vicinal.plots.graph(vicinal.knn_graph(x, 15))     # a figure of matplotlib: three panels
    vicinal.plots.hubness(vicinal.knn_graph(x, 15))            # the numbers; needs NumPy alone

Results of ``knn`` and ``range_search`` are taken as well. And which features of two pictures match::

    vicinal.plots.matches(picture_a, picture_b, keypoints_a, keypoints_b, vicinal.match(descriptors_a, descriptors_b))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ._results import CsrNeighbors, Neighbors, on_host
from .errors import InvalidArgument

__all__ = ["Hubness", "graph", "hubness", "matches"]


@dataclass(frozen=True)
class Hubness:
    """How unevenly rows are listed as neighbours.

    in_degree: (n,) int64, the lists that each row is in. skewness: of the in-degrees; above 1 or so a few rows, the
    hubs, are in very many lists. never: rows in no list. hubs: the rows in most lists, most first.
    """

    in_degree: np.ndarray
    skewness: float
    never: int
    hubs: np.ndarray


def hubness(found: Neighbors | CsrNeighbors, hubs: int = 10) -> Hubness:
    """Counts the lists that each row is in; missing entries are not counted.

    Parameters
    ----------
    found : Neighbors or CsrNeighbors
        Of any search that knows its corpus (not of ``merge``).
    hubs : int, default 10
        How many to name.
    """
    if found.columns is None:
        raise InvalidArgument("a merged result does not know the rows of the corpus")
    ids = on_host(found.ids).ravel()
    degree = np.bincount(ids[ids >= 0], minlength=found.columns)
    centred = degree - degree.mean()
    spread = np.sqrt((centred**2).mean())
    skewness = float((centred**3).mean() / spread**3) if spread > 0 else 0.0
    return Hubness(degree, skewness, int((degree == 0).sum()), np.argsort(-degree, kind="stable")[:hubs])


def graph(found: Neighbors | CsrNeighbors) -> Any:
    """A figure of three panels: in-degrees, distances to the first and the last neighbour, the share of entries by hubs.

    Needs matplotlib (ImportError without it). Nothing is shown; ``figure.savefig("graph.svg")`` writes it.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("vicinal.plots.graph draws with matplotlib (pip install matplotlib)") from error
    told = hubness(found)
    first, last = _ends(found)
    figure = Figure(figsize=(12, 3.5), layout="constrained")
    degrees, distances, shares = figure.subplots(1, 3)

    degrees.hist(told.in_degree, bins=np.arange(told.in_degree.max(initial=0) + 2) - 0.5)
    degrees.set(title=f"in-degree: skewness {told.skewness:.2f}, {told.never} rows in no list", xlabel="lists that a row is in",
                ylabel="rows", yscale="log")  # fmt: skip

    bins = np.histogram_bin_edges(np.concatenate([first, last]), 60)
    distances.hist(first, bins, alpha=0.6, label="nearest")
    distances.hist(last, bins, alpha=0.6, label="farthest listed")
    distances.set(title="distances", xlabel="distance", ylabel="rows")
    distances.legend()

    ordered = np.sort(told.in_degree)[::-1]
    shares.plot(np.arange(1, len(ordered) + 1) / len(ordered), np.cumsum(ordered) / max(ordered.sum(), 1))
    shares.plot([0, 1], [0, 1], linestyle=":", color="gray")
    shares.set(title="hubs", xlabel="share of rows, most listed first", ylabel="share of all entries")
    return figure


def _ends(found: Neighbors | CsrNeighbors) -> tuple[np.ndarray, np.ndarray]:
    """Distances to the nearest and the farthest entry of each list that has any."""
    if isinstance(found, CsrNeighbors):
        offsets, distances = map(on_host, (found.offsets, found.distances))
        full = np.flatnonzero(np.diff(offsets))
        starts = offsets[full]
        return (np.minimum.reduceat(distances, starts), np.maximum.reduceat(distances, starts)) if len(full) else (distances, distances)
    distances, ids = map(on_host, found)
    last = (ids >= 0).sum(axis=1) - 1
    full = np.flatnonzero(last >= 0)
    return distances[full, 0], distances[full, last[full]]


def matches(
    picture_a: Any, picture_b: Any, keypoints_a: Any, keypoints_b: Any, matches: Any, *, wrong: Any = None, below: bool = False
) -> Any:
    """A figure of two pictures side by side, with a line from each feature to the one that it is matched with.

    Needs matplotlib (ImportError without it). Nothing is shown; ``figure.savefig("matches.png", dpi=150)`` writes it.

    Parameters
    ----------
    picture_a, picture_b : (height, width) or (height, width, 3 or 4) arrays
        As matplotlib's ``imshow`` takes them; grey ones are drawn in grey. Sizes may differ.
    keypoints_a, keypoints_b : (n, 2) and (m, 2) arrays
        Places of features in pixels, x to the right and y down; further columns (scale, orientation) are not read.
    matches : Matches, or (M, 2) integers
        Rows of both.
    wrong : (M,) bool array, or None
        Matches to draw in another colour, below the others.
    below : bool, default False
        The second picture below the first.
    """
    try:
        from matplotlib.collections import LineCollection
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("vicinal.plots.matches draws with matplotlib (pip install matplotlib)") from error
    pictures = [_picture(picture, name) for picture, name in ((picture_a, "picture_a"), (picture_b, "picture_b"))]
    places = [_places(points, name) for points, name in ((keypoints_a, "keypoints_a"), (keypoints_b, "keypoints_b"))]
    ids = _pairs(matches, len(places[0]), len(places[1]))
    marked = np.zeros(len(ids), bool) if wrong is None else np.asarray(wrong, bool)
    if marked.shape != (len(ids),):
        raise InvalidArgument(f"wrong has shape {marked.shape}, and there are {len(ids)} matches")

    (height, width), (height_b, width_b) = pictures[0].shape[:2], pictures[1].shape[:2]
    beside = np.array([0, height] if below else [width, 0])
    size = np.array([max(width, width_b), height + height_b] if below else [width + width_b, max(height, height_b)])
    figure = Figure(figsize=tuple(size * (12 / size.max())), layout="constrained")
    axes = figure.subplots()
    for picture, (x, y) in zip(pictures, ([0, 0], beside.tolist())):
        grey: dict[str, Any] = {"cmap": "gray", "vmin": 0, "vmax": 255 if picture.dtype == np.uint8 else None} if picture.ndim == 2 else {}
        axes.imshow(picture, extent=(x - 0.5, x + picture.shape[1] - 0.5, y + picture.shape[0] - 0.5, y - 0.5), **grey)
    starts, ends = places[0][ids[:, 0]], places[1][ids[:, 1]] + beside
    for chosen, colour in ((marked, "#d1495b"), (~marked, "#00a6a6")):
        lines = np.stack([starts[chosen], ends[chosen]], axis=1)
        axes.add_collection(LineCollection(list(lines), colors=colour, linewidths=0.6, alpha=0.7))
        dots = lines.reshape(-1, 2)
        axes.scatter(dots[:, 0], dots[:, 1], s=4, color=colour, linewidths=0)
    axes.set(xlim=(-0.5, size[0] - 0.5), ylim=(size[1] - 0.5, -0.5), title=_title(len(ids), int(marked.sum()), wrong is not None))
    axes.set_axis_off()
    return figure


def _picture(picture: Any, name: str) -> np.ndarray:
    array = on_host(picture) if hasattr(picture, "shape") else np.asarray(picture)
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (3, 4)):
        raise InvalidArgument(f"{name} must be (height, width) or (height, width, 3 or 4), got shape {array.shape}")
    return array


def _places(points: Any, name: str) -> np.ndarray:
    array = np.asarray(on_host(points) if hasattr(points, "shape") else points, np.float64)
    if array.ndim != 2 or array.shape[1] < 2:
        raise InvalidArgument(f"{name} must be (n, 2), got shape {array.shape}")
    return array[:, :2]


def _pairs(matches: Any, rows_a: int, rows_b: int) -> np.ndarray:
    found = getattr(matches, "ids", matches)
    ids = np.asarray(on_host(found) if hasattr(found, "shape") else found)
    if ids.size == 0:
        return np.empty((0, 2), np.int64)
    if ids.ndim != 2 or ids.shape[1] != 2 or ids.dtype.kind not in "iu":
        raise InvalidArgument(f"matches must be Matches or (M, 2) integers, got {ids.dtype.name} of shape {ids.shape}")
    if ids.min() < 0 or ids[:, 0].max() >= rows_a or ids[:, 1].max() >= rows_b:
        raise InvalidArgument(f"matches name rows up to {ids[:, 0].max()} and {ids[:, 1].max()}; there are {rows_a} and {rows_b} keypoints")
    return ids


def _title(count: int, wrong: int, judged: bool) -> str:
    text = f"{count:,} match" + ("" if count == 1 else "es")
    return f"{text}, {wrong:,} of them wrong" if judged else text
