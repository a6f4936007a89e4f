"""scikit-learn's estimators of neighbours, answered by vicinal::

    from vicinal.neighbors import KNeighborsClassifier

Each class is scikit-learn's own of the same name with its search replaced: parameters, fitted attributes, types,
errors and everything downstream of the neighbours are scikit-learn's. ``kneighbors_graph`` and ``radius_neighbors_graph`` are its
functions of those names over these classes. Served are dense rows under euclidean,
sqeuclidean, manhattan, chebyshev and cosine (by any of their names, and minkowski with p of 1, 2 and infinity), with
algorithm="brute", or "auto" but for few rows of few columns; the rest (sparse rows, other metrics, trees asked for by name, and up to five columns of
less than 1024 rows, or one or two columns where radii are searched too, where scikit-learn's trees are faster) is left to scikit-learn, whose code
runs as if vicinal were not there. ``vicinal.accel`` tells which calls went where.

Distances are float64, exact and certified; ties go to the smaller index. Where a pair (distances, indices) is
returned, it is a ``vicinal.Neighbors`` with ``.certificate`` and ``.stats``. Tensors of torch and arrays of cupy are taken
too, from wherever they are; as with scikit-learn, what comes out is NumPy's. The fitted rows are borrowed, as
scikit-learn's brute force and :class:`vicinal.Corpus` borrow them: fit a copy of what will be changed in place. Needs
scikit-learn 1.6 or newer.
"""

from __future__ import annotations

import functools
import inspect
from numbers import Integral
from typing import Any

import numpy as np

try:
    from joblib import effective_n_jobs
    from scipy.sparse import issparse
    from sklearn import neighbors as theirs
    from sklearn.utils.validation import _num_features, _num_samples, check_is_fitted, validate_data
except ImportError as error:
    raise ImportError("vicinal.neighbors needs scikit-learn 1.6 or newer (pip install scikit-learn)") from error

from . import accel
from ._corpus import Corpus
from ._graph import knn_graph
from ._namespaces import to_host

__all__ = [
    "NearestNeighbors", "KNeighborsTransformer", "RadiusNeighborsTransformer", "KNeighborsClassifier",
    "KNeighborsRegressor", "RadiusNeighborsClassifier", "RadiusNeighborsRegressor", "LocalOutlierFactor",
    "kneighbors_graph", "radius_neighbors_graph",
]  # fmt: skip

# scikit-learn's names of what is served, and ours.
_METRICS = {
    "euclidean": "euclidean", "l2": "euclidean", "sqeuclidean": "sqeuclidean", "manhattan": "l1", "cityblock": "l1",
    "l1": "l1", "chebyshev": "linf", "cosine": "cosine",
}  # fmt: skip
_POWERS = {1: "manhattan", 2: "euclidean", np.inf: "chebyshev"}
# Up to five columns scikit-learn takes a tree, and so do we from 1,024 rows on. By the time of one core, of 2,000 to 100,000 rows, ours takes 0.9 to 0.14 of
# its time for the 10 nearest; for radii of 20 rows 0.9 to 0.25 with three to five columns, but 1.2 to 3 times as long with one or two. Fewer rows than that have no tree.
_COLUMNS_OF_TREES, _ROWS_OF_TREES, _COLUMNS_OF_RADII = 5, 1024, 3
_EXECUTION = {"device": [str], "memory": [Integral, str, None], "progress": [callable, "boolean", None]}


class _Prepared:
    """The corpus of a fitted estimator, prepared at the first search that brings queries.

    An object of its own, so that searching leaves the estimator's attributes alone; copies and pickles start empty.
    """

    __slots__ = ("corpus", "of")

    def __init__(self) -> None:
        self.corpus: Corpus | None = None
        self.of: tuple[Any, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return _Prepared, ()


def _rows(x: np.ndarray) -> np.ndarray:
    """What vicinal takes: all numbers of up to 64 bits, exactly."""
    return x if x.dtype.kind in "fiub" and x.dtype.itemsize <= 8 else x.astype(np.float64)


def _sizes(x: Any) -> tuple[int, int]:
    """Rows and columns; none of what is no table: scikit-learn will say so."""
    try:
        return _num_samples(x), _num_features(x)
    except (TypeError, ValueError):
        return 0, 0


class _Exact:
    """What all the estimators share: which metrics are served, the fitted rows, how to search them."""

    # Of objects that scikit-learn's class made: pickles opened after patch_sklearn.
    device: str = "auto"
    memory: Any = None
    progress: Any = None
    _prepared: _Prepared | None = None

    def _fit(self, X: Any, y: Any = None) -> Any:
        algorithm = self.algorithm
        if algorithm == "auto" and self._served_metric() is not None and self._is_faster(X):
            self.algorithm = "brute"  # no tree need be built
        try:
            super()._fit(to_host(X), to_host(y))
        finally:
            self.algorithm = algorithm
        served = self._fit_method == "brute" and not issparse(self._fit_X) and self._served_metric() is not None
        self._prepared = _Prepared() if served else None
        return self

    def _is_faster(self, X: Any) -> bool:
        """Than what scikit-learn would choose for these rows."""
        rows, columns = _sizes(X)
        fewest = _COLUMNS_OF_RADII if isinstance(self, _RadiusNeighbors) else 1
        return columns > _COLUMNS_OF_TREES or (columns >= fewest and rows >= _ROWS_OF_TREES)

    def _served_metric(self) -> str | None:
        """vicinal's name of the metric that the parameters ask for, or None."""
        parameters = dict(self.metric_params or {})
        metric = self.metric
        if metric == "minkowski":
            metric = _POWERS.get(parameters.pop("p", self.p))
        return _METRICS.get(metric) if isinstance(metric, str) and not parameters else None

    def _serves(self, X: Any) -> bool:
        check_is_fitted(self)
        return self._prepared is not None and not issparse(X)

    def _queries(self, X: Any) -> np.ndarray:
        return _rows(validate_data(self, to_host(X), accept_sparse="csr", reset=False, order="C"))

    def _execution(self) -> dict[str, Any]:
        # n_jobs=None is what scikit-learn's own brute force takes it for: all cores.
        threads = 0 if self.n_jobs is None else effective_n_jobs(self.n_jobs)
        return dict(device=self.device, memory=self.memory, threads=threads, progress=self.progress)

    def _search_options(self) -> dict[str, Any]:
        # The metric of fit, as scikit-learn keeps it: parameters may have been set since.
        return dict(metric=_METRICS[self.effective_metric_], degenerate="one", **self._execution())

    def _corpus(self) -> Corpus:
        prepared, of = self._prepared, (self.device, self.memory)
        if prepared.corpus is None or prepared.of != of:
            prepared.corpus = Corpus(_rows(self._fit_X), **self._search_options())
            prepared.of = of
        return prepared.corpus

    def _past_shortcut(self, X: Any) -> Any:
        """The estimator for predict_proba: itself, or with uniform weights said as None.

        scikit-learn has a shortcut for weights="uniform" that computes distances of its own; None means the same and
        comes to the search of this class.
        """
        if self.weights != "uniform" or not self._serves(X):
            return self
        uniform = object.__new__(type(self))
        uniform.__dict__.update(self.__dict__, weights=None)
        return uniform


class _KNeighbors(_Exact):
    def kneighbors(self, X: Any = None, n_neighbors: Any = None, return_distance: bool = True) -> Any:
        """The nearest fitted rows of each row of X, nearest first, ties by smaller index.

        Parameters
        ----------
        X : (n_queries, n_features) or None
            None: the fitted rows, each without itself.
        n_neighbors : int or None
            None: the constructor's.
        return_distance : bool, default True

        Returns
        -------
        distances : (n_queries, n_neighbors) float64
            Only with ``return_distance``; the pair is then a :class:`vicinal.Neighbors`.
        indices : (n_queries, n_neighbors) int64

        Raises
        ------
        What scikit-learn's raises; MemoryBudget if ``memory`` is too little.
        """
        if not self._serves(X):
            with accel.noted(self, "kneighbors", accel.SCIKIT_LEARN):
                return super().kneighbors(X, n_neighbors, return_distance)
        k = self.n_neighbors if n_neighbors is None else n_neighbors
        if not isinstance(k, Integral) or not 0 < k <= self.n_samples_fit_ - (X is None):
            return super().kneighbors(X, n_neighbors, return_distance)  # which raises
        with accel.noted(self, "kneighbors", accel.VICINAL):
            if X is None:
                found = knn_graph(_rows(self._fit_X), int(k), distance_type="f64", **self._search_options())
            else:
                queries, execution = self._queries(X), self._execution()
                del execution["device"]  # the corpus knows it
                found = self._corpus().knn(queries, int(k), distance_type="f64", **execution)
        return found if return_distance else found.ids


class _RadiusNeighbors(_Exact):
    def radius_neighbors(
        self, X: Any = None, radius: Any = None, return_distance: bool = True, sort_results: bool = False
    ) -> Any:
        """All fitted rows within `radius` of each row of X, the boundary included.

        Parameters
        ----------
        X : (n_queries, n_features) or None
            None: the fitted rows, each without itself.
        radius : float or None
            None: the constructor's.
        return_distance : bool, default True
        sort_results : bool, default False
            By distance, ties by smaller index; False: by index.

        Returns
        -------
        distances : (n_queries,) object array of float64 arrays
            Only with ``return_distance``.
        indices : (n_queries,) object array of int64 arrays
        """
        if not self._serves(X) or np.ndim(radius) > 0 or (sort_results and not return_distance):
            with accel.noted(self, "radius_neighbors", accel.SCIKIT_LEARN):
                return super().radius_neighbors(X, radius, return_distance, sort_results)
        with accel.noted(self, "radius_neighbors", accel.VICINAL):
            queries, execution = _rows(self._fit_X) if X is None else self._queries(X), self._execution()
            del execution["device"]  # the corpus knows it
            within = float(self.radius if radius is None else radius)
            found = self._corpus().range_search(queries, within, distance_type="f64", **execution)
        if not sort_results:
            found = found.by_id()
        distances, ids, ends = found.distances, found.ids, found.offsets[1:]
        if X is None:
            row_of = np.repeat(np.arange(len(found)), np.diff(found.offsets))
            others = ids != row_of
            distances, ids = distances[others], ids[others]
            ends = np.cumsum(np.bincount(row_of[others], minlength=len(found)))
        return (_split(distances, ends), _split(ids, ends)) if return_distance else _split(ids, ends)


def _split(values: np.ndarray, ends: np.ndarray) -> np.ndarray:
    lists = np.empty(len(ends), object)
    start = 0
    for row, end in enumerate(ends.tolist()):
        lists[row] = values[start:end]
        start = end
    return lists


_DOCSTRING = """scikit-learn's {0}, searched by vicinal.

    Parameters
    ----------
    device : str, default "auto"
    memory : int, str or None
    progress : callable, True for a bar of tqdm, or None
        As in :func:`vicinal.knn`.
    others :
        Those of ``sklearn.neighbors.{0}``, whose attributes and methods this class has.

    The rows that ``fit`` was given are borrowed where scikit-learn keeps them as they are: after a change in place
    answers are undefined. Fit ``X.copy()``, or fit again.
    """


def _accepting_execution(cls: type) -> type:
    """Gives the class scikit-learn's constructor with device, memory and progress after its own parameters.

    Spelled out in the signature, because scikit-learn reads parameters from there.
    """
    base = getattr(theirs, cls.__name__)

    @functools.wraps(base.__init__)
    def __init__(self, *args, device="auto", memory=None, progress=None, **parameters):
        base.__init__(self, *args, **parameters)
        self.device = device
        self.memory = memory
        self.progress = progress

    signature = inspect.signature(base.__init__)
    more = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
            for name, default in (("device", "auto"), ("memory", None), ("progress", None))]  # fmt: skip
    __init__.__signature__ = signature.replace(parameters=[*signature.parameters.values(), *more])
    cls.__init__ = __init__
    cls._parameter_constraints = {**base._parameter_constraints, **_EXECUTION}
    cls.__doc__ = _DOCSTRING.format(cls.__name__)
    return cls


@_accepting_execution
class NearestNeighbors(_KNeighbors, _RadiusNeighbors, theirs.NearestNeighbors):
    pass


@_accepting_execution
class KNeighborsTransformer(_KNeighbors, theirs.KNeighborsTransformer):
    pass


@_accepting_execution
class RadiusNeighborsTransformer(_RadiusNeighbors, theirs.RadiusNeighborsTransformer):
    pass


@_accepting_execution
class KNeighborsClassifier(_KNeighbors, theirs.KNeighborsClassifier):
    def predict_proba(self, X: Any) -> Any:
        return super(KNeighborsClassifier, self._past_shortcut(X)).predict_proba(X)


@_accepting_execution
class KNeighborsRegressor(_KNeighbors, theirs.KNeighborsRegressor):
    pass


@_accepting_execution
class RadiusNeighborsClassifier(_RadiusNeighbors, theirs.RadiusNeighborsClassifier):
    def predict_proba(self, X: Any) -> Any:
        return super(RadiusNeighborsClassifier, self._past_shortcut(X)).predict_proba(X)


@_accepting_execution
class RadiusNeighborsRegressor(_RadiusNeighbors, theirs.RadiusNeighborsRegressor):
    pass


@_accepting_execution
class LocalOutlierFactor(_KNeighbors, theirs.LocalOutlierFactor):
    pass


def kneighbors_graph(
    X: Any, n_neighbors: int, *, mode: str = "connectivity", metric: Any = "minkowski", p: float | None = 2,
    metric_params: dict[str, Any] | None = None, include_self: bool | str = False, n_jobs: int | None = None,
    device: str = "auto", memory: Any = None, progress: Any = None,
) -> Any:  # fmt: skip
    """scikit-learn's kneighbors_graph, searched by vicinal.

    Parameters
    ----------
    X : (n_samples, n_features) array, or a fitted estimator with ``kneighbors``
    n_neighbors : int
        Neighbours a row; of other rows unless ``include_self``.
    mode : "connectivity" or "distance", default "connectivity"
        Ones, or float64 distances.
    metric, p, metric_params, n_jobs :
        As in :class:`NearestNeighbors`.
    include_self : bool or "auto", default False
        A row is its own first neighbour; "auto": in mode "connectivity".
    device, memory, progress :
        As in :func:`vicinal.knn`; not used where X is an estimator, which has its own.

    Returns
    -------
    (n_samples, n_samples) sparse matrix in CSR form, as scikit-learn makes it.

    Raises
    ------
    What scikit-learn's raises; MemoryBudget if ``memory`` is too little.
    """
    if not hasattr(X, "kneighbors"):
        X = NearestNeighbors(n_neighbors=n_neighbors, metric=metric, p=p, metric_params=metric_params, n_jobs=n_jobs, device=device,
                             memory=memory, progress=progress).fit(X)  # fmt: skip
    return theirs.kneighbors_graph(X, n_neighbors, mode=mode, metric=metric, p=p, metric_params=metric_params, include_self=include_self,
                                   n_jobs=n_jobs)  # fmt: skip


def radius_neighbors_graph(
    X: Any, radius: float, *, mode: str = "connectivity", metric: Any = "minkowski", p: float | None = 2,
    metric_params: dict[str, Any] | None = None, include_self: bool | str = False, n_jobs: int | None = None,
    device: str = "auto", memory: Any = None, progress: Any = None,
) -> Any:  # fmt: skip
    """scikit-learn's radius_neighbors_graph, searched by vicinal.

    Parameters
    ----------
    X : (n_samples, n_features) array, or a fitted estimator with ``radius_neighbors``
    radius : float
        Of neighbourhoods, the boundary included.
    others :
        As in :func:`kneighbors_graph`.

    Returns
    -------
    (n_samples, n_samples) sparse matrix in CSR form, as scikit-learn makes it.

    Raises
    ------
    What scikit-learn's raises; MemoryBudget if ``memory`` is too little.
    """
    if not hasattr(X, "radius_neighbors"):
        X = NearestNeighbors(radius=radius, metric=metric, p=p, metric_params=metric_params, n_jobs=n_jobs, device=device, memory=memory,
                             progress=progress).fit(X)  # fmt: skip
    return theirs.radius_neighbors_graph(X, radius, mode=mode, metric=metric, p=p, metric_params=metric_params, include_self=include_self,
                                         n_jobs=n_jobs)  # fmt: skip
