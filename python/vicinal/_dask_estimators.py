"""Estimators over Dask with the names and arguments of ``cuml.dask.neighbors``, and a transformer for scanpy."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import dask as search_dask
from ._dask_sides import da, dask, side
from ._inputs import refuse_masked
from .errors import InvalidArgument

_METRICS = {"l2": "euclidean", "minkowski": "", "manhattan": "l1", "cityblock": "l1", "taxicab": "l1", "chebyshev": "linf"}
_POWERS = {1: "l1", 2: "euclidean", np.inf: "linf"}
# Parameters of cuML that change how it works there, and nothing here.
_IGNORED = {"algorithm", "algo_params", "output_type", "handle", "n_jobs", "leaf_size", "weights", "metric_params"}
# Of :func:`vicinal.dask.knn`.
_OPTIONS = ("device", "threads", "memory", "resources", "retries", "persist", "distance_type", "degenerate", "names")


class NearestNeighbors:
    """Exact neighbours of rows on a Dask cluster, with the arguments of ``cuml.dask.neighbors.NearestNeighbors``.

    Parameters
    ----------
    client : distributed.Client or None
        None: the current one.
    streams_per_handle, verbose, algorithm, algo_params, output_type, handle, n_jobs, leaf_size :
        Taken, and of no effect.
    n_neighbors : int, default 5
    metric : str, default "euclidean"
        As in :func:`vicinal.knn`, and scikit-learn's names of those; "minkowski" with `p` of 1, 2 or infinity.
    batch_size : int, default 2,000,000
        Query rows of a block at most.
    device, threads, memory, resources, retries, persist, distance_type, degenerate, names :
        As in :func:`vicinal.dask.knn`.
    """

    def __init__(self, *, client: Any = None, streams_per_handle: int = 0, verbose: Any = False, n_neighbors: int = 5, metric: str = "euclidean",
                 p: float = 2, batch_size: int = 2_000_000, **options: Any) -> None:  # fmt: skip
        self.client, self.streams_per_handle, self.verbose = client, streams_per_handle, verbose
        self.n_neighbors, self.metric, self.p, self.batch_size = n_neighbors, metric, p, batch_size
        if options.get("metric_params"):
            raise InvalidArgument(f"metric_params has no parameter that is served: {options['metric_params']}")
        self._options = {name: value for name, value in options.items() if name not in _IGNORED}
        for name in self._options:
            if name not in _OPTIONS:
                raise TypeError(f"{type(self).__name__}() got an unexpected keyword argument {name!r}")

    def fit(self, X: Any, y: Any = None) -> NearestNeighbors:
        """Takes the rows as they are: dask array, dask data frame, files, or an array. Nothing is computed, but sizes that are not known."""
        self._fitted, self._given = side(X, "corpus", self._options.get("names")), X
        self.n_cols = self._fitted.columns
        self.n_samples_fit_ = self._fitted.rows
        return self

    def get_neighbors(self, n_neighbors: int | None) -> int:
        """`n_neighbors`, or the constructor's where it is None."""
        return self.n_neighbors if n_neighbors is None else n_neighbors

    def kneighbors(self, X: Any = None, n_neighbors: int | None = None, return_distance: bool = True) -> Any:
        """The nearest fitted rows of each row of X, nearest first, ties by smaller index.

        Parameters
        ----------
        X : as in :meth:`fit`, or None
            None: the fitted rows, each of which finds itself first among its duplicates.
        n_neighbors : int or None
        return_distance : bool, default True

        Returns
        -------
        distances, indices
            dask arrays (n_queries, n_neighbors); dask data frames where X is one. Only indices without ``return_distance``.
        """
        found = self._search(X, n_neighbors).neighbors(persist=self._options.get("persist", True))
        framed = hasattr(self._given if X is None else X, "to_dask_array")
        distances, indices = found.frames() if framed else (found.distances, found.ids)
        return (distances, indices) if return_distance else indices

    def _search(self, X: Any, n_neighbors: int | None) -> Any:
        if not hasattr(self, "_fitted"):
            raise ValueError("Model needs to be trained using fit() before calling kneighbors()")
        k = _checked_width(self.get_neighbors(n_neighbors), self._fitted.rows)
        metric = _METRICS.get(self.metric, self.metric) or _POWERS.get(self.p, "")
        if not metric:
            raise InvalidArgument(f"p={self.p} of metric minkowski is not served; 1, 2 and infinity are")
        options = {name: value for name, value in self._options.items() if name != "persist"}
        queries = self._fitted if X is None else X
        return search_dask.Search("knn", self._fitted, queries, k, metric, client=self.client, block_rows=self.batch_size, **options)


class _Supervised(NearestNeighbors):
    """Neighbours whose labels go with the lists, so that they are never in one place."""

    def __init__(self, *, weights: str = "uniform", **options: Any) -> None:
        super().__init__(**options)
        if weights not in ("uniform", "distance"):
            raise InvalidArgument(f"unknown weights {weights!r}; known are uniform, distance")
        self.weights = weights

    def fit(self, X: Any, y: Any = None) -> Any:
        """Rows and what is known of each: (n,) or (n, outputs), a dask array, data frame or series, or an array."""
        super().fit(X)
        refuse_masked(y, "y")
        if hasattr(y, "to_dask_array"):
            y = y.to_dask_array(lengths=True)
        elif isinstance(y, da.Array):
            y = y.compute_chunk_sizes() if np.isnan(y.shape[0]) else y
        else:
            y = np.asarray(y)
        if y.ndim not in (1, 2) or y.shape[0] != self._fitted.rows:
            raise InvalidArgument(f"y has shape {tuple(y.shape)}, there are {self._fitted.rows} rows")
        self._y, self._outputs = y, () if y.ndim == 1 else (int(y.shape[1]),)
        return self

    def _lists(self, X: Any) -> tuple[Any, list[Any]]:
        """The search, and by block what its neighbours are labelled with."""
        search = self._search(X, None)
        y = self._y
        if isinstance(y, da.Array):
            spans = search.plan.parts
            cut = y.rechunk((tuple(last - first for first, last in spans), *([-1] * len(self._outputs))), method="tasks")
            values: Any = list(cut.to_delayed(optimize_graph=True).ravel())
        else:
            values = [y[first:last] for first, last in search.plan.parts]
        search.token = dask.base.tokenize(search.token, y.name if isinstance(y, da.Array) else y)
        return search, search_dask.carrying(search, values)

    def _answers(self, X: Any, name: str, function: Any, tail: tuple[int, ...], kind: Any, *more: Any) -> Any:
        search, lists = self._lists(X)
        tasks = [search.task(name, function, one, self.weights, *more, at=f"b{b}") for b, one in enumerate(lists)]
        blocks = search.started(tasks, self._options.get("persist", True))
        chunks = [da.from_delayed(one, (last - first, *tail), kind) for one, (first, last) in zip(blocks, search.plan.blocks)]
        return da.concatenate(chunks) if len(chunks) > 1 else chunks[0]


class KNeighborsClassifier(_Supervised):
    """The most frequent label among the neighbours, the smallest among equals; arguments of ``cuml.dask.neighbors.KNeighborsClassifier``.

    ``weights`` "uniform" or "distance"; others as in :class:`NearestNeighbors`.
    """

    def fit(self, X: Any, y: Any = None) -> KNeighborsClassifier:
        """As :meth:`NearestNeighbors.fit`; the labels that there are, ``uniq_labels`` (one array an output), are looked up now."""
        super().fit(X, y)
        columns = [self._y] if not self._outputs else [self._y[:, at] for at in range(self._outputs[0])]
        self.uniq_labels = [np.asarray(one) for one in dask.compute(*(da.unique(one) if isinstance(one, da.Array) else np.unique(one) for one in columns))]
        self.n_unique = [len(one) for one in self.uniq_labels]
        return self

    def predict(self, X: Any, convert_dtype: Any = True) -> Any:
        """Labels, a dask array (n_queries,) or (n_queries, outputs)."""
        return self._answers(X, "predict", _voted, self._outputs, np.result_type(*self.uniq_labels), self.uniq_labels)

    def predict_proba(self, X: Any, convert_dtype: Any = True) -> Any:
        """Shares of labels, a dask array (n_queries, labels) in the order of ``uniq_labels``, of several outputs a tuple of those."""
        shares = [self._answers(X, f"proba{at}", _shares_of, (count,), np.float64, self.uniq_labels, at) for at, count in enumerate(self.n_unique)]
        return shares[0] if len(shares) == 1 else tuple(shares)

    def score(self, X: Any, y: Any, convert_dtype: Any = True) -> float:
        """The share of labels that are right."""
        if hasattr(y, "to_dask_array"):
            y = y.to_dask_array(lengths=True)
        return float(dask.compute((self.predict(X) == y).mean())[0])


class KNeighborsRegressor(_Supervised):
    """The mean of the neighbours' values; arguments of ``cuml.dask.neighbors.KNeighborsRegressor``. ``weights`` "uniform" or "distance"."""

    def predict(self, X: Any, convert_dtype: Any = True) -> Any:
        """Means, a dask array float64 (n_queries,) or (n_queries, outputs)."""
        return self._answers(X, "predict", _mean, self._outputs, np.float64)

    def score(self, X: Any, y: Any) -> float:
        """The coefficient of determination, of several outputs their mean."""
        if hasattr(y, "to_dask_array"):
            y = y.to_dask_array(lengths=True)
        predicted, true = (np.asarray(one, np.float64) for one in dask.compute(self.predict(X), y))
        left, all_of_it = ((true - predicted) ** 2).sum(axis=0), ((true - true.mean(axis=0)) ** 2).sum(axis=0)
        return float(np.mean(1 - left / all_of_it))


class KNeighborsTransformer(NearestNeighbors):
    """A graph of n_neighbors + 1 a row, itself first, from rows in this process, searched over Dask: ``scanpy.pp.neighbors(adata, transformer=...)``.

    Parameters are those of :class:`NearestNeighbors`, and mode "distance" (the default) or "connectivity" of scikit-learn's transformer.
    """

    _OWN = ("n_neighbors", "metric", "p", "batch_size", "mode", "client")

    def __init__(self, *, mode: str = "distance", **options: Any) -> None:
        super().__init__(**options)
        if mode not in ("distance", "connectivity"):
            raise InvalidArgument(f'Unsupported mode, must be one of "connectivity", or "distance" but got "{mode}" instead')
        self.mode = mode

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._OWN} | self._options

    def set_params(self, **parameters: Any) -> KNeighborsTransformer:
        """InvalidArgument for a name that the constructor does not take."""
        known = [*self._OWN, *_OPTIONS]
        for name in parameters:
            if name not in known:
                raise InvalidArgument(f"Invalid parameter {name!r} for estimator {type(self).__name__}; "
                                      f"valid are {', '.join(known)}")  # fmt: skip
        for name, value in parameters.items():
            if name in self._OWN:
                setattr(self, name, value)
            else:
                self._options[name] = value
        return self

    def transform(self, X: Any) -> Any:
        """A scipy.sparse.csr_matrix (n_queries, n_fitted), float64, nearest first."""
        extra = self.mode == "distance"
        graph = self._search(X, self.n_neighbors + extra).neighbors(persist=False).compute().to_csr(self._fitted.rows)
        graph.data = graph.data.astype(np.float64) if extra else np.ones_like(graph.data, np.float64)
        return graph

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        self.fit(X)
        return self.transform(X)


def _checked_width(k: Any, most: int) -> int:
    """n_neighbors as scikit-learn checks it."""
    if not isinstance(k, (int, np.integer)) or isinstance(k, bool):
        raise TypeError(f"n_neighbors does not take {type(k)} value, enter integer value")
    if not 0 < k <= most:
        raise InvalidArgument(f"Expected 0 < n_neighbors <= n_samples_fit, but n_neighbors = {k}, n_samples_fit = {most}")
    return int(k)


def _weights(found: Any, how: str) -> np.ndarray:
    """Of each neighbour, (Q, k); where one is at distance 0, it and its like alone count."""
    if how == "uniform":
        return np.ones(found.ids.shape)
    distances = found.distances.astype(np.float64)
    with np.errstate(divide="ignore"):
        weights = 1.0 / distances
    at_zero = np.isinf(weights)
    exact = at_zero.any(axis=1)
    weights[exact] = at_zero[exact]
    return weights


def _shares_of(one: tuple[Any, np.ndarray], how: str, labels: list[np.ndarray], at: int) -> np.ndarray:
    found, carried = one
    values = carried if carried.ndim == 2 else carried[:, :, at]
    weights = _weights(found, how)
    shares = np.zeros((len(values), len(labels[at])))
    np.add.at(shares, (np.arange(len(values))[:, None], np.searchsorted(labels[at], values)), weights)
    return shares / shares.sum(axis=1, keepdims=True)


def _voted(one: tuple[Any, np.ndarray], how: str, labels: list[np.ndarray]) -> np.ndarray:
    chosen = [known[_shares_of(one, how, labels, at).argmax(axis=1)] for at, known in enumerate(labels)]
    return chosen[0] if one[1].ndim == 2 else np.stack(chosen, axis=1)


def _mean(one: tuple[Any, np.ndarray], how: str) -> np.ndarray:
    found, carried = one
    if how == "uniform":
        return np.asarray(carried.mean(axis=1), np.float64)
    weights = _weights(found, how)
    weighted = carried * (weights if carried.ndim == 2 else weights[:, :, None])
    total = weights.sum(axis=1)
    return weighted.sum(axis=1) / (total if carried.ndim == 2 else total[:, None])
