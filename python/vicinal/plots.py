"""What a graph of neighbours looks like: how often rows are listed, how far neighbours are, which rows are hubs::

    figure = vicinal.plots.graph(vicinal.knn_graph(x, 15))     # a figure of matplotlib: three panels
    vicinal.plots.hubness(vicinal.knn_graph(x, 15))            # the numbers; needs NumPy alone

Results of ``knn`` and ``range_search`` are taken as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ._results import CsrNeighbors, Neighbors, on_host
from .errors import InvalidArgument

__all__ = ["Hubness", "graph", "hubness"]


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
