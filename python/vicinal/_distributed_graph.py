"""Symmetric graphs of a distributed search: edges of a block's lists go to the blocks in which they end, and join the lists there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ._results import CsrNeighbors, Neighbors
from .errors import InvalidArgument

Edges = tuple[np.ndarray, np.ndarray, np.ndarray]


def transposed(found: Neighbors, first: int, spans: Sequence[tuple[int, int]]) -> list[Edges]:
    """Edges of a block's lists turned around, by the block of rows in which each then begins: (row there, id, distance).

    Parameters
    ----------
    found : lists of a block of a graph
    first : int
        id of the block's first row.
    spans : pairs (first, last)
        ids of the rows of each block, ascending and without gaps; the last is not in it.

    Returns
    -------
    list of edges, one of each block
    """
    rows_of, entry = np.nonzero(found.ids >= 0)
    ids, distances = found.ids[rows_of, entry], found.distances[rows_of, entry]
    order = np.argsort(ids, kind="stable")
    ids, rows_of, distances = ids[order], rows_of[order], distances[order]
    cuts = np.searchsorted(ids, [span[0] for span in spans] + [spans[-1][1]])
    return [(ids[a:b] - span[0], rows_of[a:b] + first, distances[a:b]) for span, a, b in zip(spans, cuts[:-1], cuts[1:])]


def symmetrized(found: Neighbors, incoming: Sequence[Edges], how: str, columns: int) -> CsrNeighbors:
    """A block of rows of the union or mutual graph, from its own lists and the edges that :func:`transposed` found to end in it.

    Rows are sorted by id, as :func:`vicinal.knn_graph` sorts them.

    Parameters
    ----------
    found : lists of a block of a graph
    incoming : edges from each block to this one
    how : "union" or "mutual"
    columns : int
        Ids are below it.

    Raises
    ------
    InvalidArgument
        `how` is neither.
    """
    if how not in ("union", "mutual"):
        raise InvalidArgument(f"unknown symmetrize {how!r}; known are union, mutual")
    own = np.nonzero(found.ids >= 0)
    edges = [(own[0], found.ids[own], found.distances[own]), *incoming]
    row, ids, distances = (np.concatenate([edge[at] for edge in edges]) for at in range(3))
    order = np.lexsort((ids, row))
    row, ids, distances = row[order], ids[order], distances[order]
    again = np.zeros(len(ids), bool)
    again[1:] = (row[1:] == row[:-1]) & (ids[1:] == ids[:-1])
    chosen = again if how == "mutual" else ~again
    offsets = np.zeros(len(found.ids) + 1, np.int64)
    np.cumsum(np.bincount(row[chosen], minlength=len(found.ids)), out=offsets[1:])
    return CsrNeighbors(offsets, distances[chosen], ids[chosen], found.certificate, found.stats, columns)
