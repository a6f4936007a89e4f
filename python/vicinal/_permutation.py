"""The permutation index: any metric, by how objects see a few of their own."""

from __future__ import annotations

from typing import Any, SupportsIndex

import numpy as np

from . import _inputs, _native, _results
from ._index_results import IndexPlan, PermutationNeighbors, PermutationRange, Recall, Tuning
from ._inputs import Progress


class PermutationIndex:
    """An approximate index for any distance, with an exact mode; immutable, and safe to search from many threads at once.

    Every object is known by the order in which it sees a few chosen ones, the permutants. A search compares orders, which costs
    little whatever the distance does, and computes true distances for the share of objects whose orders are nearest.
    It pays where a distance is costly or objects are many; :meth:`tune` measures whether it does, and :func:`vicinal.knn` is the
    answer where it does not.

    A pickle holds the bytes that :meth:`save` would write; one of an index with a callable holds its sequence and the callable, as far as
    pickle can (a function of a module, not a lambda), and the index is built again, at the cost of the first time.

    Parameters
    ----------
    x : (n, d) array, or strings; with a callable any sequence
        As in :func:`vicinal.knn`. Rows are borrowed unless ``copy``; strings are kept.
    metric : str or callable, default "euclidean"
        As in :func:`vicinal.knn`; or "jensen_shannon", "kullback_leibler" (of an object from the query), "hellinger", "emd" (equal
        mass), all of histograms, and "dtw" of series, see ``window``; these are searched by an index alone.
        Or a callable (query, object) -> float, of items of two sequences. It is called from this thread, a pair a call: for the
        permutants and candidates of each query, and n times a query for each of 400 objects where ``recall`` is asked for, so
        give ``fraction`` where a call is slow. Exact searches then measure everything, and such an index cannot be saved.
    permutants : int, array of ids or None, default None
        How many (1 to 1024, and at most n), or which objects. None: 64, or all of fewer objects, which a note in ``stats`` of searches says.
    recall, fraction : float or None
        What searches aim at unless they say otherwise: an expected recall (at 95 % confidence, by objects that are left out in
        turn: the first search measures that), or a share of the objects. Neither: recall 0.95.
    seed : int, default 0
        Of the choice of permutants.
    choice : "random", "farthest_first" or "sss", default "random"
        How permutants are chosen. Which one is best depends on the data by ten points of recall: try them with :meth:`tune`.
    rank_distance : "footrule", "rho" or "kendall", default "footrule"
    form : "ranks", "prefix", "bits" or "components", default "ranks"
        What is kept of an order: a byte for each permutant (two above 256); the ``prefix`` nearest permutants (default a
        quarter of them), a byte each; a bit for each. Or, instead of an order, ``"components"``: a byte for each principal component of
        the distances to at most 256 permutants, compared by squared differences whatever ``rank_distance`` is. It finds the same with a
        sixth to a half of the candidates on the sets that were measured, on the CPU alone; try it with :meth:`tune`.
    window : int, default 0
        dtw: the largest difference of places that are paired; 0: no limit.
    bounds : bool, default True
        Keep a byte for each object and permutant, for exact searches of metrics with the triangle inequality.
    ngram, max_length, threads, memory, copy, progress :
        As in :func:`vicinal.knn` and :class:`vicinal.Corpus`. ``memory`` is of the build, what stays of it included; searches have their own.

    Raises
    ------
    As :func:`vicinal.knn`, for what concerns the corpus.

    Examples
    --------
    >>> import vicinal
    >>> words = ["anna", "anne", "hannah", "bob", "bobby", "rob"]
    >>> index = vicinal.PermutationIndex(words, "levenshtein", permutants=3)
    >>> distances, ids = index.knn(["ann", "robb"], k=2, exact=True)
    >>> ids.tolist(), distances.tolist()
    ([[0, 1], [5, 3]], [[1, 1], [1, 2]])
    """

    __slots__ = ("_native", "_objects", "_metric", "_chosen", "_facts", "_recall", "_fraction", "_threads", "_copied_bytes", "__weakref__")

    def __init__(
        self,
        x: Any,
        metric: str = "euclidean",
        permutants: Any = None,
        *,
        recall: float | None = None,
        fraction: float | None = None,
        seed: int = 0,
        choice: str = "random",
        rank_distance: str = "footrule",
        form: str = "ranks",
        prefix: int = 0,
        window: int = 0,
        bounds: bool = True,
        ngram: int = 0,
        max_length: int = 65535,
        threads: int = 0,
        memory: Any = None,
        copy: bool = False,
        progress: Progress = None,
    ) -> None:
        own = callable(metric)
        options = _inputs.options(
            metric="euclidean" if own else metric, threads=threads, memory=memory, ngram=ngram, max_length=max_length,
            progress=progress,
        )  # fmt: skip
        given: list[int] = []
        listed = np.ndim(permutants) == 1
        if listed:
            given = [_inputs.integer("permutants", id) for id in permutants]
            choice = "given" if choice == "random" else choice
        chosen = (
            len(given) if listed else None if permutants is None else _inputs.integer("permutants", permutants), _inputs.text("choice", choice), given,
            _inputs.integer("seed", seed) & 0xFFFFFFFFFFFFFFFF, _inputs.text("rank_distance", rank_distance),
            _inputs.text("form", form), _inputs.integer("prefix", prefix),
        )  # fmt: skip
        self._objects: Any = x if own else None
        self._metric: Any = metric if own else None
        self._chosen: Any = chosen if own else ()
        if own:
            self._copied_bytes = 0
            self._native = _native.PermutationIndex.own(len(x), self._distance(x), options, *chosen)
        else:
            objects, self._copied_bytes = _inputs.side(x, "corpus")
            self._native = _native.PermutationIndex(
                objects, options, *chosen, _inputs.integer("window", window), _inputs.flag("bounds", bounds),
                _inputs.flag("copy", copy),
            )  # fmt: skip
        self._facts = self._native.facts
        self._recall, self._fraction, self._threads = _real("recall", recall), _real("fraction", fraction), threads

    @classmethod
    def open(
        cls, path: Any, *, recall: float | None = None, fraction: float | None = None, verify: bool = True, copy: bool = False,
        threads: int = 0, progress: Progress = None,
    ) -> PermutationIndex:  # fmt: skip
        """An index that :meth:`save` wrote; it answers as the saved one did, to the bit.

        Parameters
        ----------
        path, verify, copy, progress :
            As in :meth:`Corpus.open`. Rows stay mapped unless ``copy``, so objects may be larger than memory; ranks and bounds are read.
            ``exact=True`` rests on bounds of the file, which ``verify`` holds against their checksums.
        recall, fraction, threads :
            Those of searches that say nothing else, as for a new index: a file does not keep them.

        Raises
        ------
        IoError, FormatError, VersionError
        """
        options = _inputs.options(threads=threads, progress=progress)
        self = cls.__new__(cls)
        self._native = _native.PermutationIndex.open(
            _inputs.path_bytes(path), options, _inputs.flag("verify", verify), _inputs.flag("copy", copy)
        )
        self._objects = self._metric = None
        return self._finished(recall, fraction, threads)

    def _finished(self, recall: float | None, fraction: float | None, threads: int) -> PermutationIndex:
        self._facts, self._copied_bytes, self._chosen = self._native.facts, 0, ()
        self._recall, self._fraction, self._threads = _real("recall", recall), _real("fraction", fraction), threads
        return self

    def save(self, path: Any) -> None:
        """Writes objects, ranks and bounds to `path`, which must end in ``.vicinal``; the name holds the old file or the new one.

        Raises
        ------
        IoError, Unsupported
        """
        self._native.save(_inputs.path_bytes(path))

    def __copy__(self) -> PermutationIndex:
        return self

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        settings = self._recall, self._fraction, self._threads
        own = getattr(self, "__dict__", None) or None
        if self._metric is not None:
            return _rebuilt, (type(self), self._objects, self._metric, self._chosen, *settings), own
        return _unpickled, (type(self), _inputs.pickled(self._native.saved(), protocol), *settings), own

    def _distance(self, queries: Any) -> Any:
        """The user's distance from an item of `queries` to some of the objects."""
        objects, metric = self._objects, self._metric
        return lambda query, numbers: [float(metric(queries[query], objects[number])) for number in numbers]

    def _aim(self, recall: Any, fraction: Any, exact: Any, tune_on: Any = "auto") -> tuple[float | None, float | None, bool, str]:
        exactly = _inputs.flag("exact", exact)
        on = _inputs.text("tune_on", tune_on)
        if recall is None and fraction is None and not exactly:
            return self._recall, self._fraction, False, on
        return _real("recall", recall), _real("fraction", fraction), exactly, on

    def knn(
        self,
        queries: Any,
        k: int = 10,
        *,
        recall: float | None = None,
        fraction: float | None = None,
        exact: bool = False,
        tune_on: str = "auto",
        distance_type: Any = None,
        device: str = "auto",
        threads: int | None = None,
        memory: Any = None,
        progress: Progress = None,
    ) -> PermutationNeighbors:
        """The k nearest objects among those looked at; with ``exact`` the bits of :func:`vicinal.knn`.

        Parameters
        ----------
        queries, k, distance_type, memory, progress :
            As in :func:`vicinal.knn`.
        threads : int or None, default None
            As in :func:`vicinal.knn`; None: what the index was made with. Fewer queries than twice the threads are shared by all of them.
        device :
            ``"cuda"``: ranks are compared there, and vectors measured there as far as they fit; they stay for the next search. At
            most 128 permutants, footrule; what else is asked for the CPU does, and a note in ``stats`` says so. ``"cuda:all"``, or several
            such as ``"cuda:0,cuda:1"``: each takes a share of the queries.
        recall, fraction, exact :
            One of them; else what the index was made with. ``recall``: as many objects as left-out ones needed for it.
            ``fraction``: of the objects, and k at least. ``exact``: ranks say what is looked at first, and bounds when to stop.
        tune_on : {"auto", "objects", "queries"}
            What tells how many objects a recall takes. ``"queries"`` measures everything for some of the queries themselves, in every call (a
            hundred of many for a recall of 0.95, 400 for 0.99), and then ``.recall`` is an interval for all of them. ``"objects"`` measures
            400 left-out objects once, which is cheaper for many calls, but says little of queries that are not like them (words of
            another language, other photographs): then a recall of 0.9 came out as 0.88, or 0.8, and a note in ``stats`` says so
            where such queries are plainly farther away. ``"auto"`` is ``"queries"`` where no more than a third of them is measured (200
            queries at 0.95, 804 at 0.99), else ``"objects"``, with a note.

        Raises
        ------
        As :func:`vicinal.knn`. InvalidArgument also where two of recall, fraction and exact are given, or one beyond 1; RangeError where a
        distance from a query to a permutant is infinite, as ``kullback_leibler`` can be.
        """
        options = self._options(k, distance_type, threads, progress, device, memory)
        aim = self._aim(recall, fraction, exact, tune_on)
        copied = 0
        if self._metric is not None:
            answer = self._native.knn_own(len(queries), self._distance(queries), options, *aim)
        else:
            seen, copied = self._queries(queries)
            answer = self._native.knn(seen, options, *aim)
        native, share, found = answer
        result = _results.neighbors(native, copied, len(self))
        answer = PermutationNeighbors(result.distances, result.ids, result.certificate, result.stats, result.counts, result.columns)
        answer.recall, answer.fraction = Recall(*found), share
        return answer

    def range(
        self,
        queries: Any,
        radius: float,
        *,
        recall: float | None = None,
        fraction: float | None = None,
        exact: bool = False,
        tune_on: str = "auto",
        max_results: int | None = None,
        distance_type: Any = None,
        device: str = "auto",
        threads: int | None = None,
        memory: Any = None,
        progress: Progress = None,
    ) -> PermutationRange:
        """Objects within `radius` among those looked at; with ``exact`` the bits of :func:`vicinal.range_search`.

        Parameters are those of :meth:`knn`, with ``threads`` None for the index's own, and `radius` and ``max_results`` of
        :func:`vicinal.range_search`.

        Raises
        ------
        As :meth:`knn`, InvalidArgument if radius is NaN, and CapacityExceeded (also MemoryError) for more than ``max_results`` matches.
        """
        options = self._options(10, distance_type, threads, progress, device, memory)
        limit = _inputs.max_results(max_results)
        within = _inputs.real("radius", radius)
        aim = self._aim(recall, fraction, exact, tune_on)
        copied = 0
        if self._metric is not None:
            answer = self._native.range_own(len(queries), self._distance(queries), within, options, *aim, limit)
        else:
            seen, copied = self._queries(queries)
            answer = self._native.range(seen, within, options, *aim, limit)
        native, share, found = answer
        result = _results.csr_neighbors(native, copied, len(self))
        return PermutationRange(**vars(result), recall=Recall(*found), fraction=share)

    def tune(
        self, k: int = 10, *, recall: float | None = None, fraction: float | None = None, threads: int | None = None,
        memory: Any = None, progress: Progress = None,
    ) -> Tuning:  # fmt: skip
        """The fraction that ``recall`` takes (or the recall of a ``fraction``), and the gain over the exact search, timed.

        Parameters
        ----------
        k, recall, fraction, threads, memory, progress :
            As in :meth:`knn`: of recall and fraction one at most; None is what the index was made with.

        Raises
        ------
        As :meth:`knn`, for all but queries.
        """
        options = self._options(k, None, threads, progress, memory=memory)
        aim = self._aim(recall, fraction, False)
        k_, target, share, found, index_seconds, exact_seconds = self._native.tune(options, *aim[:2])
        return Tuning(k_, target, share, Recall(*found), index_seconds, exact_seconds)

    def plan(
        self, queries: int, k: int = 10, *, recall: float | None = None, fraction: float | None = None, exact: bool = False,
        device: str = "auto", threads: int | None = None, memory: Any = None,
    ) -> IndexPlan:  # fmt: skip
        """What :meth:`knn` of so many queries holds at most, without doing it.

        Parameters
        ----------
        queries : int
            How many.
        k, recall, fraction, exact, device, memory :
            As in :meth:`knn`.
        threads : int or None, default None
            None: what the index was made with.

        Raises
        ------
        MemoryBudget
            The least that works is more than `memory`, as in :meth:`knn` itself.
        """
        options = self._options(k, None, threads, None, device, memory)
        return IndexPlan(*self._native.plan(_inputs.integer("queries", queries), options, *self._aim(recall, fraction, exact)[:3]))

    def _options(
        self, k: Any, distance_type: Any, threads: Any, progress: Any, device: str = "auto", memory: Any = None
    ) -> _native.Options:
        return _inputs.options(
            k=k, distance_type=distance_type, device=device, threads=self._threads if threads is None else threads,
            memory=memory, progress=progress,
        )  # fmt: skip

    def _queries(self, queries: Any) -> tuple[Any, int]:
        """As the library sees them, and the bytes that were copied for that."""
        nothing = isinstance(queries, (list, tuple)) and len(queries) == 0
        if nothing and self._facts["strings"]:
            return _inputs._strings.strings(queries, "query")
        return _inputs.side(queries, "query")

    @property
    def permutants(self) -> np.ndarray:
        """Their ids, in order."""
        return np.array(self._facts["permutants"], np.int64)

    @property
    def metric(self) -> str:
        return self._facts["metric"] if self._metric is None else getattr(self._metric, "__name__", "own")

    @property
    def rank_bytes(self) -> int:
        """Bytes of ranks an object."""
        return self._facts["rank_bytes"]

    @property
    def nbytes(self) -> int:
        """Bytes of memory held beyond borrowed rows."""
        return self._facts["nbytes"] + self._copied_bytes

    @property
    def build_seconds(self) -> float:
        """Wall time that making or opening it took."""
        return self._facts["build_seconds"]

    def __len__(self) -> int:
        return self._facts["size"]

    def __repr__(self) -> str:
        return f"<vicinal.PermutationIndex of {len(self)} objects, {self.metric}, {len(self.permutants)} permutants>"


def _real(name: str, value: Any) -> float | None:
    return None if value is None else _inputs.real(name, value)


def _unpickled(cls: type[PermutationIndex], saved: Any, recall: Any, fraction: Any, threads: int) -> PermutationIndex:
    """Of the bytes in a pickle, which the index borrows; every checksum is verified."""
    self = cls.__new__(cls)
    self._native = _native.PermutationIndex.opened(np.frombuffer(saved, np.uint8), _inputs.options(threads=threads))
    self._objects, self._metric = None, None
    return self._finished(recall, fraction, threads)


def _rebuilt(
    cls: type[PermutationIndex], objects: Any, metric: Any, chosen: tuple[Any, ...], recall: Any, fraction: Any, threads: int
) -> PermutationIndex:
    """With a callable: the same index by the same choices."""
    self = cls.__new__(cls)
    self._objects, self._metric = objects, metric
    self._native = _native.PermutationIndex.own(len(objects), self._distance(objects), _inputs.options(threads=threads), *chosen)
    self._finished(recall, fraction, threads)
    self._chosen = chosen
    return self
