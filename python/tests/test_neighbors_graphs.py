"""kneighbors_graph and radius_neighbors_graph of vicinal.neighbors beside scikit-learn's."""

import inspect

import numpy as np
import pytest
import vicinal

theirs = pytest.importorskip("sklearn.neighbors", reason="scikit-learn is not installed: not run")
from vicinal import neighbors as ours

METRICS = [("minkowski", 2), ("minkowski", 1), ("minkowski", 3), ("euclidean", 2), ("sqeuclidean", 2), ("manhattan", 2), ("chebyshev", 2),
           ("cosine", 2), ("canberra", 2)]  # fmt: skip
FUNCTIONS = [("kneighbors_graph", 7), ("radius_neighbors_graph", None)]


def alike(mine, other, mode):
    assert type(mine) is type(other) and mine.shape == other.shape and mine.dtype == other.dtype and mine.nnz == other.nnz
    np.testing.assert_array_equal(mine.indptr, other.indptr)
    mine, other = (matrix.copy() for matrix in (mine, other))
    for matrix in (mine, other):
        matrix.sort_indices()
    np.testing.assert_array_equal(mine.indices, other.indices)
    if mode == "connectivity":
        np.testing.assert_array_equal(mine.data, other.data)
    np.testing.assert_allclose(mine.data, other.data, rtol=1e-9, atol=1e-7)  # theirs of a row to itself is not always 0


@pytest.mark.parametrize("name, size", FUNCTIONS)
@pytest.mark.parametrize("metric, p", METRICS)
@pytest.mark.parametrize("columns", [3, 12])  # of few columns both ask a tree
def test_the_same_graphs(rng, name, size, metric, p, columns):
    x = rng.standard_normal((90, columns))
    radius = float(np.median(theirs.NearestNeighbors(n_neighbors=6, metric=metric, p=p).fit(x).kneighbors()[0]))
    for mode in ("connectivity", "distance"):
        for include_self in (False, True, "auto"):
            arguments = dict(mode=mode, metric=metric, p=p, include_self=include_self)
            graphs = [getattr(module, name)(x, size or radius, **arguments) for module in (ours, theirs)]
            assert graphs[0].nnz > 200
            alike(*graphs, mode)
    alike(*(getattr(module, name)(x.tolist(), size or radius, metric=metric, p=p) for module in (ours, theirs)), "connectivity")


@pytest.mark.parametrize("name, size", FUNCTIONS)
def test_estimators_signatures_and_errors(rng, name, size):
    x, mine, other = rng.standard_normal((50, 9)), getattr(ours, name), getattr(theirs, name)
    wanted = [(p.name, p.default, p.kind) for p in inspect.signature(other).parameters.values()]
    found = [(p.name, p.default, p.kind) for p in inspect.signature(mine).parameters.values()]
    assert found[: len(wanted)] == wanted and [entry[0] for entry in found[len(wanted) :]] == ["device", "memory", "progress"]
    with pytest.raises(TypeError):
        mine(x, size or 3.0, "distance")  # by keyword alone, as theirs
    for cls in (ours.NearestNeighbors, theirs.NearestNeighbors):
        fitted = cls(metric="manhattan").fit(x)
        alike(mine(fitted, size or 3.0, metric="manhattan", mode="distance"), other(fitted, size or 3.0, metric="manhattan", mode="distance"),
              "distance")  # fmt: skip
        with pytest.raises(ValueError, match="Got minkowski for metric, while the estimator has manhattan"):
            mine(fitted, size or 3.0)
    for bad in (dict(mode="distances"), dict(metric="nothing"), dict(include_self="yes"), dict(p=-1), dict(n_jobs="2"), dict(metric_params=3)):
        for function in (mine, other):
            with pytest.raises(ValueError):
                function(x, size or 3.0, **bad)
    for function in (mine, other):
        with pytest.raises(ValueError):
            function(x, -1)
        with pytest.raises(ValueError, match="NaN"):
            function(np.where(x > 2, np.nan, x) if (x > 2).any() else x * np.nan, size or 3.0)
    if name == "kneighbors_graph":
        for function in (mine, other):
            with pytest.raises(ValueError, match="n_neighbors"):
                function(x, 50)
    with pytest.raises(vicinal.MemoryBudget):
        mine(x, size or 3.0, memory=1)


def test_ties_go_to_the_smaller_index():
    x = np.repeat(np.eye(8), 3, axis=0)  # each row three times, and everything else at one distance
    graph = ours.kneighbors_graph(x, 3, mode="distance")
    assert graph[0].indices.tolist() == [1, 2, 3] and graph[23].indices.tolist() == [21, 22, 0]


def test_what_ran_where(rng):
    from collections import Counter

    from vicinal import accel

    def calls():
        counted = Counter()
        for call in accel.calls():  # one a place of the caller's
            counted[call.method, call.where] += call.calls
        return counted

    x = rng.standard_normal((60, 9))
    vicinal.patch_sklearn()
    try:
        before = calls()
        ours.kneighbors_graph(x, 4)
        ours.radius_neighbors_graph(x, 2.0)
        after = calls()
        for method in ("kneighbors", "radius_neighbors"):
            assert after[method, accel.VICINAL] == before[method, accel.VICINAL] + 1
    finally:
        vicinal.unpatch_sklearn()
