"""What calls of a permutation index return."""

from __future__ import annotations

from dataclasses import dataclass

from ._results import CsrNeighbors, Neighbors


@dataclass(frozen=True)
class Recall:
    """What share of a true answer is found: the mean over ``sample`` objects that were left out in turn, and an interval that
    holds it at 95 % confidence for queries like them; ``of_queries``: over so many of the queries, for all of the call. 1, 1, 1
    where it is certain; NaN where ``fraction`` was given."""

    value: float
    low: float
    high: float
    sample: int
    of_queries: bool = False


class PermutationNeighbors(Neighbors):
    """The answer of :meth:`PermutationIndex.knn`; a :class:`Neighbors` with ``recall`` and ``fraction``, the share of objects
    whose true distances were asked for (0 of exact searches). ``stats.reranked`` counts the true distances computed."""

    recall: Recall
    fraction: float


@dataclass(frozen=True, eq=False, repr=False)
class PermutationRange(CsrNeighbors):
    """The answer of :meth:`PermutationIndex.range`; a :class:`CsrNeighbors` with ``recall`` and ``fraction``."""

    recall: Recall
    fraction: float


@dataclass(frozen=True)
class Tuning:
    """What an index does for queries like its own objects, measured here and now: ``gain`` is how many times as fast as the exact
    search it is. Where that is below one, take the exact search."""

    k: int
    target: float
    fraction: float
    recall: Recall
    index_seconds: float
    exact_seconds: float

    @property
    def gain(self) -> float:
        return self.exact_seconds / self.index_seconds


@dataclass(frozen=True)
class IndexPlan:
    """What a search of an index holds at most, in bytes; ``str(plan)`` is the same for people. Results and memory of devices are not
    counted. together: all threads share one query at a time, else each takes ``query_batch``."""

    threads: int
    query_batch: int
    together: bool
    peak_bytes: int
    minimum_bytes: int
    budget_bytes: int
    kept_bytes: int
    words: str

    def __str__(self) -> str:
        return self.words
