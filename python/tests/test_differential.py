"""Beside other libraries. Where they disagree with us, exact arithmetic says who is right; a disagreement is
theirs, or a tie at the precision of the returned value, and never ours."""

import decimal

import numpy as np
import oracle
import pytest
import vicinal


def normal(rng, rows, columns, offset=0.0):
    return (rng.standard_normal((rows, columns)) + offset).astype(np.float32)


def adjudicate(corpus, queries, metric, ours, theirs, rounding, rows=12):
    """Of the first rows that differ: each id that only we return is no farther than each that only they do,
    but for the rounding of a returned value."""
    sign = -1 if metric in oracle.DESCENDING else 1
    differ = [row for row in range(len(queries)) if set(ours[row]) != set(theirs[row])]
    for row in differ[:rows]:
        mine, other = set(ours[row]) - set(theirs[row]), set(theirs[row]) - set(ours[row])
        distance = {i: sign * oracle.exact(metric, queries[row], corpus[i]) for i in mine | other}
        farthest, nearest = max(distance[i] for i in mine), min(distance[i] for i in other)
        slack = decimal.Decimal(rounding) * max(abs(nearest), 1 if metric in ("cosine", "correlation") else 0)
        assert farthest <= nearest + slack, (row, mine, other)
    return len(differ)


@pytest.mark.parametrize("metric", ["sqeuclidean", "inner_product"])
@pytest.mark.parametrize("offset", [0, 1000])
def test_faiss(rng, offset, metric, record_property):
    faiss = pytest.importorskip("faiss", reason="faiss-cpu is not installed")
    corpus, queries = normal(rng, 3000, 128, offset), normal(rng, 1000, 128, offset)
    assert queries.size >= 128_000  # below, faiss takes differences itself and never shows its product path
    index = faiss.IndexFlatL2(128) if metric == "sqeuclidean" else faiss.IndexFlatIP(128)
    index.add(corpus)
    _, theirs = index.search(queries, 10)
    ours = vicinal.knn(corpus, queries, 10, metric).ids
    differ = adjudicate(corpus, queries, metric, ours, theirs, 2.0**-23)
    record_property("rows_that_differ", differ)
    if offset == 0:
        assert differ <= 5  # near ties at most


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("metric", ["euclidean", "cosine", "l1"])
@pytest.mark.parametrize("offset", [0, 1000])
def test_scikit_learn(rng, dtype, metric, offset, record_property):
    neighbors = pytest.importorskip("sklearn.neighbors", reason="scikit-learn is not installed")
    corpus, queries = (normal(rng, rows, 32, offset).astype(dtype) for rows in (1500, 200))
    model = neighbors.NearestNeighbors(n_neighbors=10, algorithm="brute", metric=metric).fit(corpus)
    theirs = model.kneighbors(queries, return_distance=False)
    ours = vicinal.knn(corpus, queries, 10, metric).ids
    rounding = 2.0**-23 if dtype == "float32" else 2.0**-48
    record_property("rows_that_differ", adjudicate(corpus, queries, metric, ours, theirs, rounding))


@pytest.mark.parametrize("metric, name", [
    ("euclidean", "euclidean"), ("sqeuclidean", "sqeuclidean"), ("l1", "cityblock"), ("linf", "chebyshev"),
    ("cosine", "cosine"), ("correlation", "correlation"),
])  # fmt: skip
def test_scipy(rng, metric, name, record_property):
    spatial = pytest.importorskip("scipy.spatial.distance", reason="SciPy is not installed")
    corpus, queries = rng.standard_normal((2000, 48)), rng.standard_normal((100, 48))
    table = spatial.cdist(queries, corpus, name)
    theirs = np.argsort(table, axis=1, kind="stable")[:, :10]
    result = vicinal.knn(corpus, queries, 10, metric)
    record_property("rows_that_differ", adjudicate(corpus, queries, metric, result.ids, theirs, 2.0**-48))
    assert np.allclose(result.distances, np.take_along_axis(table, result.ids, 1), rtol=1e-12, atol=1e-14)


def test_scipy_hamming(rng):
    spatial = pytest.importorskip("scipy.spatial.distance", reason="SciPy is not installed")
    corpus, queries = rng.integers(0, 256, (500, 6), np.uint8), rng.integers(0, 256, (20, 6), np.uint8)
    share = spatial.cdist(np.unpackbits(queries, axis=1), np.unpackbits(corpus, axis=1), "hamming")
    counts = np.rint(share * 48).astype(np.uint32)
    ids = np.argsort(counts, axis=1, kind="stable")[:, :15]
    result = vicinal.knn(corpus, queries, 15, "hamming")
    assert np.array_equal(result.ids, ids) and np.array_equal(result.distances, np.take_along_axis(counts, ids, 1))
