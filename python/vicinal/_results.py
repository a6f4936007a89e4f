"""What calls return: arrays with names, and frozen dataclasses of plain values (they pickle and print)."""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from . import _namespaces
from .errors import InvalidArgument


@dataclass(frozen=True)
class Certificate:
    """Why an answer is exact. Every query is certified when a call returns, so ``all()`` is always True.

    queries: number of queries. proven: certified at the first precision of the cascade. redone: certified
    at a finer one. precisions: names of those used, first to last. largest_bound: the largest proved
    difference between a filter distance and the true one, in units of the distance.
    """

    queries: int
    proven: int
    redone: int
    precisions: tuple[str, ...]
    largest_bound: float

    def all(self) -> bool:
        return self.proven + self.redone == self.queries


@dataclass(frozen=True)
class Stats:
    """How the work was done. Times are in seconds, sizes in bytes. Not covered by the promise of equal bits.

    pairs: corpus rows times queries. candidates: pairs that passed the filter. reranked: canonical fp64
    distances computed. underflowed: returned values that are 0 or subnormal though the canonical one is
    not. copied_bytes: input copied before it could be read. planned_bytes: the most anonymous memory that
    the plan allowed. used_bytes: the most of a CUDA device's memory that was held, 0 on the CPU.
    rotated: rows were rotated before they were rounded to bytes. projected: columns that rows were projected to before that (0: they kept theirs). planned_seconds: what the plan predicted. passes: times the corpus was read. notes: what a user may want to know.
    """

    device: str
    instruction_set: str
    threads: int
    seconds: float
    prepare_seconds: float
    pairs: int
    candidates: int
    reranked: int
    underflowed: int
    copied_bytes: int
    planned_bytes: int
    used_bytes: int
    rotated: bool
    projected: int
    planned_seconds: float
    passes: int
    notes: tuple[str, ...]


class Neighbors(tuple):
    """The answer of a search; unpacks as ``distances, ids = result``.

    distances: (Q, k) float32, float64 or uint32, nearest first. ids: (Q, k) int64; ties go to the smaller
    id; a missing entry is id -1 at the worst distance. Of NumPy, or of torch, cupy or the array API's library whose the
    queries are, where those are and that has the type. certificate, stats: see their classes.
    counts: (Q,) int64, the eligible results of each row, when the search was padded; else None.
    columns: ids are below it (``first_id`` plus the rows of the corpus); None after ``merge``.
    """

    counts: np.ndarray | None
    columns: int | None
    _report: tuple[Any, int]  # of the native library, and the bytes that were copied before it was called

    def __new__(cls, distances: np.ndarray, ids: np.ndarray, certificate: Certificate, stats: Stats,
                counts: np.ndarray | None = None, columns: int | None = None) -> Neighbors:  # fmt: skip
        self = super().__new__(cls, (distances, ids))
        self.certificate = certificate
        self.stats = stats
        self.counts = counts
        self.columns = columns
        return self

    @cached_property
    def certificate(self) -> Certificate:
        return Certificate(**self._report[0].certificate())

    @cached_property
    def stats(self) -> Stats:
        report, copied_bytes = self._report
        return stats_of(report.stats(), copied_bytes)

    @property
    def distances(self) -> np.ndarray:
        return self[0]

    @property
    def ids(self) -> np.ndarray:
        return self[1]

    def to_csr(self, n_columns: int | None = None) -> Any:
        """The lists as a scipy.sparse.csr_matrix of shape (Q, columns); (n, n) for a graph.

        Each row in list order, nearest first; distances as returned, zeros kept as entries, missing entries
        left out; int64 indices. The matrix has memory of its own. Needs SciPy (ImportError without it).
        ``n_columns`` is required where ``columns`` is None, and InvalidArgument below an id.
        """
        distances, ids = map(on_host, self)
        present = ids >= 0
        offsets = np.zeros(len(ids) + 1, np.int64)
        np.cumsum(present.sum(axis=1), out=offsets[1:])
        return _csr_matrix(offsets, distances[present], ids[present], self.columns, n_columns)

    def __getnewargs__(self) -> tuple[Any, ...]:
        return self[0], self[1], self.certificate, self.stats, self.counts, self.columns

    def __getstate__(self) -> dict[str, Any]:
        made = {"certificate": self.certificate, "stats": self.stats}
        return {name: value for name, value in (made | self.__dict__).items() if name != "_report"}

    def __repr__(self) -> str:
        rows, k = self.ids.shape
        certificate = self.certificate
        return (
            f"<vicinal.Neighbors of {rows} queries, k={k}, {self.distances.dtype}: "
            f"{certificate.proven} proven at the first precision, {certificate.redone} redone>"
        )


@dataclass(frozen=True, eq=False, repr=False)
class CsrNeighbors:
    """Lists of differing lengths: what ``range_search`` and a symmetrised ``knn_graph`` return.

    ``result[i]`` is the pair (distances, ids) of row i, ``len(result)`` the number of rows. There is no
    unpacking into (distances, ids): there is no rectangle.
    offsets: (rows + 1,) int64; entries offsets[i] to offsets[i + 1] belong to row i. distances: float32,
    float64 or uint32. ids: int64. A range search lists each row by (distance, id), a symmetrised graph by id.
    certificate, stats: see their classes. columns: ids are below it.
    """

    offsets: np.ndarray
    distances: np.ndarray
    ids: np.ndarray
    certificate: Certificate
    stats: Stats
    columns: int

    def to_csr(self, n_columns: int | None = None) -> Any:
        """The lists as a scipy.sparse.csr_matrix of shape (rows, ``n_columns`` or ``columns``).

        Entries as they are: list order, distances as returned, zeros kept, int64 indices. The matrix has memory
        of its own. Needs SciPy (ImportError without it). InvalidArgument if ``n_columns`` is not above all ids.
        """
        offsets, distances, ids = (on_host(array).copy() for array in (self.offsets, self.distances, self.ids))
        return _csr_matrix(offsets, distances, ids, self.columns, n_columns)

    def by_id(self) -> CsrNeighbors:
        """The same lists, each by ascending id."""
        distances, ids = map(on_host, (self.distances, self.ids))
        order = np.lexsort((ids, np.repeat(np.arange(len(self)), np.diff(on_host(self.offsets)))))
        distances, ids = at(_namespaces.of(self.ids), distances[order], ids[order])
        return replace(self, distances=distances, ids=ids)

    def __len__(self) -> int:
        return self.offsets.shape[0] - 1

    def __getitem__(self, row: int) -> tuple[np.ndarray, np.ndarray]:
        number = operator.index(row)
        if not -len(self) <= number < len(self):
            raise IndexError(f"row {number} of {len(self)}")
        number %= len(self)
        entries = slice(int(self.offsets[number]), int(self.offsets[number + 1]))
        return self.distances[entries], self.ids[entries]

    def __iter__(self) -> Any:
        # `distances, ids = result` would be taken, and wrongly, whenever there are two rows.
        raise TypeError("rows have differing lengths: take result[i] for i in range(len(result)), or .distances, .ids")

    def __repr__(self) -> str:
        return f"<vicinal.CsrNeighbors of {len(self)} rows, {self.ids.shape[0]} entries, {self.distances.dtype}>"


def on_host(array: Any) -> np.ndarray:
    return np.asarray(_namespaces.to_host(array))


def _csr_matrix(offsets: np.ndarray, distances: np.ndarray, ids: np.ndarray, columns: int | None,
                asked: int | None) -> Any:  # fmt: skip
    """Takes the arrays over: SciPy sorts in place, and must not reorder a result."""
    try:
        from scipy.sparse import csr_matrix
    except ImportError as error:
        raise ImportError("to_csr makes a scipy.sparse.csr_matrix: install SciPy (pip install scipy)") from error
    if asked is not None:
        columns = operator.index(asked)
    if columns is None:
        raise InvalidArgument("n_columns is needed: a merged result does not know the rows of the corpus")
    if columns < 0 or (ids.size > 0 and columns <= ids.max()):
        raise InvalidArgument(f"n_columns={columns}, and the largest id is {ids.max(initial=-1)}")
    matrix = csr_matrix((len(offsets) - 1, columns), dtype=distances.dtype)
    # By attribute: the constructor would narrow the indices to int32.
    matrix.indptr, matrix.indices, matrix.data = offsets, ids, distances
    return matrix


@dataclass(frozen=True)
class Plan:
    """What a search will do and need. ``str(plan)`` is the same for people, one line a fact.

    Sizes in bytes: budget_bytes is what had to be kept, peak_bytes what will be used at most (results not
    counted), minimum_bytes the smallest budget that would do. corpus_chunk, query_batch, query_block are
    in rows; seconds is a prediction. match_bytes: what a range search holds until the places of its matches are
    known. symmetric: in a graph, each tile of distances serves both of its sides. rotated: rows are rotated before they are rounded to bytes. projected: the most columns that
    rows are projected to before that (0: they keep theirs). sampled_rows: rows
    of the corpus that were looked at for the cascade, rotated and seconds (0: they go by the shapes alone), and left_rows, how many rows the filter then
    leaves to be ranked for a query. details: how the device goes about it besides, a sentence each.
    """

    device: str
    instruction_set: str
    cascade: tuple[str, ...]
    threads: int
    distance_type: str
    budget_bytes: int
    peak_bytes: int
    minimum_bytes: int
    result_bytes: int
    corpus_chunk: int
    query_batch: int
    query_block: int
    row_splits: int
    passes: int
    candidate_slots: int
    match_bytes: int
    symmetric: bool
    rotated: bool
    projected: int
    resident: bool
    seconds: float
    sampled_rows: int
    left_rows: int
    details: tuple[str, ...]
    notes: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Device:
    """A place to search: name ("cpu", "cuda:0"), and the reason when it is not usable."""

    name: str
    description: str
    usable: bool
    reason: str
    free_bytes: int


@dataclass(frozen=True)
class Info:
    """This build on this machine. semantics_version changes with any change of values or order.

    instruction_sets: usable here, best first. built_instruction_sets: compiled in. filters: precisions of the
    cascade, first to last. threads: what ``threads=0`` means here.
    """

    version: str
    semantics_version: int
    compiler: str
    instruction_sets: tuple[str, ...]
    built_instruction_sets: tuple[str, ...]
    filters: tuple[str, ...]
    backends: tuple[str, ...]
    devices: tuple[Device, ...]
    threads: int


@dataclass(frozen=True)
class Fault:
    """A row of a claimed result that is not the contract's: kind "wrong", "tie_order" or "distance".

    rank: the first that shows it. given, expected: of kind "distance" the claimed distance and the contract's of that id, else the
    contract's distance of the claimed id (NaN: no row that may answer, or listed before) and the true one at that rank.
    """

    row: int
    kind: str
    rank: int
    given: float
    expected: float


@dataclass(frozen=True)
class Verdict:
    """What ``verify`` found. Counts are rows; faults lists each faulty row, ascending.

    wrong: another set of neighbours. tie_order: the right distances, another choice among equals.
    distance: the right ids, a distance that is not the contract's. near_ties: of the correct, those with other ids than the true
    ones, at distances within the tolerance. recall: share of claimed ids that are
    among the true k. largest_relative_difference: of claimed distances where ids are right.
    truth: the right answer.
    """

    rows: int
    correct: int
    wrong: int
    tie_order: int
    distance: int
    near_ties: int
    recall: float
    largest_relative_difference: float
    faults: tuple[Fault, ...]
    truth: Neighbors

    def ok(self) -> bool:
        return self.correct == self.rows


def neighbors(native: tuple[Any, ...], copied_bytes: int = 0, columns: int | None = None, namespace: Any = None) -> Neighbors:
    distances, ids, report, counts = native
    result = tuple.__new__(Neighbors, at(namespace, distances, ids))
    result._report = report, copied_bytes
    result.counts = None if counts is None else at(namespace, counts)[0]
    result.columns = columns
    return result


def csr_neighbors(native: tuple[Any, ...], copied_bytes: int, columns: int, namespace: Any = None) -> CsrNeighbors:
    offsets, distances, ids, certificate, stats = native
    offsets, distances, ids = at(namespace, offsets, distances, ids)
    return CsrNeighbors(offsets, distances, ids, Certificate(**certificate), stats_of(stats, copied_bytes), columns)


def at(namespace: Any, *arrays: Any) -> tuple[Any, ...]:
    """Arrays of the host where results belong; None: where they are."""
    if namespace is None or type(namespace) is _namespaces.Numpy:
        return arrays
    return tuple(None if array is None else namespace.like(array) for array in arrays)


def stats_of(native: dict, copied_bytes: int) -> Stats:
    stats = Stats(**native)
    return replace(stats, copied_bytes=stats.copied_bytes + copied_bytes) if copied_bytes else stats


def info(native: dict) -> Info:
    return Info(**{**native, "devices": tuple(Device(**device) for device in native["devices"])})


def verdict(native: dict) -> Verdict:
    faults = tuple(Fault(*fault) for fault in native["faults"])
    return Verdict(**{**native, "faults": faults, "truth": neighbors(native["truth"])})
