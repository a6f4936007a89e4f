"""Graphs, ranges and eligible rows beside NumPy, SciPy and scikit-learn.

Most data are small whole numbers: every sum is exact, so NumPy's distances have the contract's bits whatever the
order in which it adds, and ties abound.
"""

import numpy as np
import oracle
import pytest
import vicinal

pytestmark = pytest.mark.skipif(not hasattr(vicinal, "knn_graph"), reason="vicinal.knn_graph does not exist yet")

METRICS = ("sqeuclidean", "euclidean", "inner_product", "l1", "linf", "hamming")


def lattice(rng, rows, columns, metric):
    if metric == "hamming":
        return rng.integers(0, 4, (rows, columns)).astype(np.uint8)
    return rng.integers(-3, 4, (rows, columns)).astype(np.float32)


def table(corpus, queries, metric):
    """All distances as the contract returns them, of data on which no sum is rounded."""
    if metric == "hamming":
        differ = np.unpackbits(queries[:, None, :] ^ corpus[None, :, :], axis=2)
        return differ.sum(2, dtype=np.uint32)
    q, c = queries.astype(np.float64)[:, None, :], corpus.astype(np.float64)[None, :, :]
    if metric == "inner_product":
        return (q * c).sum(2).astype(np.float32)
    if metric == "l1":
        return abs(q - c).sum(2).astype(np.float32)
    if metric == "linf":
        return abs(q - c).max(2).astype(np.float32)
    squares = ((q - c) ** 2).sum(2)
    return (np.sqrt(squares) if metric == "euclidean" else squares).astype(np.float32)


def order(row, metric, allowed):
    """Ids of the allowed rows by (distance, id)."""
    ids = np.flatnonzero(allowed)
    keys = -row[ids].astype(np.float64) if metric == "inner_product" else row[ids].astype(np.float64)
    return ids[np.argsort(keys, kind="stable")]


def expected(distances, metric, k, allowed):
    """(distances, ids) of the k nearest; allowed: (Q, n) of bool."""
    ids = np.array([order(row, metric, mask)[:k] for row, mask in zip(distances, allowed)], np.int64)
    return np.take_along_axis(distances, ids, 1), ids


def within(distances, metric, radius, allowed):
    """(offsets, distances, ids) of a range search."""
    reach = distances >= radius if metric == "inner_product" else distances <= radius
    rows = [order(row, metric, mask) for row, mask in zip(distances, reach & allowed)]
    offsets = np.cumsum([0] + [len(row) for row in rows])
    return offsets, np.concatenate([d[i] for d, i in zip(distances, rows)]), np.concatenate(rows)


def everything(queries, corpus):
    return np.ones((len(queries), len(corpus)), bool)


def same_list(got, want):
    return oracle.same_bits(got.distances, want[0]) and np.array_equal(got.ids, want[1])


def same_range(got, want):
    return (np.array_equal(got.offsets, want[0]) and oracle.same_bits(got.distances, want[1])
            and np.array_equal(got.ids, want[2]))  # fmt: skip


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("n, k", [(2, 1), (33, 32), (257, 15), (600, 7)])
def test_graph(rng, metric, n, k):
    x = lattice(rng, n, 6, metric)
    distances = table(x, x, metric)
    graph = vicinal.knn_graph(x, k, metric)
    assert graph.ids.dtype == np.int64 and graph.ids.shape == graph.distances.shape == (n, k)
    assert same_list(graph, expected(distances, metric, k, ~np.eye(n, dtype=bool)))
    with_self = vicinal.knn_graph(x, k, metric, include_self=True)
    assert same_list(with_self, expected(distances, metric, k, everything(x, x)))
    assert graph.certificate.all()


def test_graph_of_the_oracle(rng):
    x = (rng.standard_normal((25, 33)) + 3).astype(np.float32)
    for metric in ("euclidean", "cosine", "correlation"):
        distances, ids = oracle.knn(x, x, 25, metric)
        graph = vicinal.knn_graph(x, 24, metric)
        for row in range(25):
            others = ids[row] != row
            assert np.array_equal(graph.ids[row], ids[row][others])
            assert oracle.same_bits(graph.distances[row], distances[row][others])


def test_graph_defaults_and_limits(rng):
    x = rng.standard_normal((40, 5))
    assert vicinal.knn_graph(x).ids.shape == (40, 15)
    assert vicinal.knn_graph(x).distances.dtype == np.float64
    with pytest.raises(vicinal.InvalidArgument):
        vicinal.knn_graph(x, 40)
    padded = vicinal.knn_graph(x, 41, pad=True)
    assert (padded.counts == 39).all() and (padded.ids[:, 39:] == -1).all() and np.isinf(padded.distances[:, 39:]).all()
    for wrong in (True, 2.5, "3"):
        with pytest.raises(TypeError):
            vicinal.knn_graph(x, wrong)
    with pytest.raises(vicinal.InvalidArgument):
        vicinal.knn_graph(x, 5, symmetrize="both")
    x[3, 1] = np.nan
    with pytest.raises(vicinal.InvalidValue, match="row 3, column 1 is NaN"):
        vicinal.knn_graph(x, 5)


def dense(matrix, fill=-1.0):
    """A sparse matrix with its explicit zeros told from what is missing."""
    out = np.full(matrix.shape, fill)
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    out[rows, matrix.indices] = matrix.data
    return out


@pytest.mark.parametrize("metric", ["euclidean", "l1", "hamming"])
def test_graph_as_a_sparse_matrix(rng, metric):
    sparse = pytest.importorskip("scipy.sparse", reason="SciPy is not installed")
    x = lattice(rng, 90, 4, metric)
    graph = vicinal.knn_graph(x, 6, metric)
    plain = graph.to_csr()
    assert sparse.issparse(plain) and plain.format == "csr" and plain.shape == (90, 90)
    assert plain.nnz == 90 * 6  # zeros among copies are edges
    lists = np.full((90, 90), -1.0)
    np.put_along_axis(lists, graph.ids, graph.distances.astype(np.float64), 1)
    assert np.array_equal(dense(plain), lists)
    union, mutual = (vicinal.knn_graph(x, 6, metric, symmetrize=how).to_csr() for how in ("union", "mutual"))
    either, both = np.maximum(lists, lists.T), np.where((lists >= 0) & (lists.T >= 0), lists, -1)
    assert np.array_equal(dense(union), either) and np.array_equal(dense(mutual), both)
    for matrix in (union, mutual):
        assert matrix.has_sorted_indices
        assert np.array_equal(dense(matrix), dense(matrix).T)


def test_graph_beside_scikit_learn(rng):
    neighbors = pytest.importorskip("sklearn.neighbors", reason="scikit-learn is not installed")
    x = rng.standard_normal((700, 12))
    theirs = neighbors.NearestNeighbors(n_neighbors=10, algorithm="brute").fit(x)
    distances, ids = theirs.kneighbors()
    ours = vicinal.knn_graph(x, 10)
    assert np.array_equal(ours.ids, ids)
    assert np.allclose(ours.distances, distances, rtol=1e-9, atol=1e-12)
    pytest.importorskip("scipy.sparse")
    difference = abs(ours.to_csr() - theirs.kneighbors_graph(mode="distance"))
    assert difference.max() < 1e-9


@pytest.mark.parametrize("metric", METRICS)
def test_range(rng, metric):
    corpus, queries = lattice(rng, 400, 5, metric), lattice(rng, 30, 5, metric)
    distances = table(corpus, queries, metric)
    for share in (0.0, 0.02, 0.5, 1.0):
        at = float(np.quantile(distances.astype(np.float64), share, method="nearest"))
        for radius in (at, np.nextafter(at, np.inf), np.nextafter(at, -np.inf), -1.0, 0.0, -np.inf, np.inf):
            got = vicinal.range_search(corpus, queries, radius, metric=metric)
            assert got.offsets.dtype == got.ids.dtype == np.int64
            assert same_range(got, within(distances, metric, radius, everything(queries, corpus))), radius


def test_range_limits_and_errors(rng):
    corpus, queries = lattice(rng, 200, 4, "l1"), lattice(rng, 9, 4, "l1")
    offsets, distances, ids = within(table(corpus, queries, "l1"), "l1", 7, everything(queries, corpus))
    need = int(offsets[-1])
    assert need > 100
    just = vicinal.range_search(corpus, queries, 7, metric="l1", max_results=need)
    assert same_range(just, (offsets, distances, ids))
    with pytest.raises(vicinal.CapacityExceeded, match=str(need)):
        vicinal.range_search(corpus, queries, 7, metric="l1", max_results=need - 1)
    with pytest.raises(MemoryError):
        vicinal.range_search(corpus, queries, 7, metric="l1", max_results=1)
    with pytest.raises(vicinal.InvalidArgument, match="NaN"):
        vicinal.range_search(corpus, queries, float("nan"))
    with pytest.raises(TypeError):
        vicinal.range_search(corpus, queries, "7")
    none = vicinal.range_search(corpus, queries[:0], 3)
    assert np.array_equal(none.offsets, [0]) and none.ids.shape == none.distances.shape == (0,)
    empty = vicinal.range_search(corpus[:0], queries, 3)
    assert np.array_equal(empty.offsets, [0] * 10) and empty.ids.shape == (0,)
    queries[2, 1] = np.nan
    for radius in (-1, 3):
        with pytest.raises(vicinal.InvalidValue, match="query row 2, column 1 is NaN"):
            vicinal.range_search(corpus, queries, radius)


def test_range_is_inclusive_as_in_scikit_learn(rng):
    neighbors = pytest.importorskip("sklearn.neighbors", reason="scikit-learn is not installed")
    corpus, queries = lattice(rng, 500, 4, "l1").astype(np.float64), lattice(rng, 20, 4, "l1").astype(np.float64)
    model = neighbors.NearestNeighbors(radius=5.0, metric="manhattan", algorithm="brute").fit(corpus)
    theirs = model.radius_neighbors(queries, return_distance=False)
    got = vicinal.range_search(corpus, queries, 5.0, metric="l1")
    for row in range(20):
        ours = got.ids[got.offsets[row] : got.offsets[row + 1]]
        assert np.array_equal(np.sort(ours), np.sort(theirs[row]))


def test_range_beside_scipy(rng):
    spatial = pytest.importorskip("scipy.spatial", reason="SciPy is not installed")
    corpus, queries = rng.standard_normal((800, 3)), rng.standard_normal((40, 3))
    theirs = spatial.cKDTree(corpus).query_ball_point(queries, 0.7)
    got = vicinal.range_search(corpus, queries, 0.7)
    ours = [sorted(got.ids[a:b].tolist()) for a, b in zip(got.offsets, got.offsets[1:])]
    assert ours == [sorted(row) for row in theirs]


MASK = np.arange(300) % 3 == 1
IDS = [5, 299, 17, 18, 5, 100, 1000000]
FILTERS = {
    "mask": (MASK, MASK),
    "mask of one": (np.arange(300) == 299, np.arange(300) == 299),
    "ids": (np.array(IDS), np.isin(np.arange(300), IDS)),
    "ids of 32 bits": (np.array(IDS, np.int32), np.isin(np.arange(300), IDS)),
    "range": (range(40, 90), (np.arange(300) >= 40) & (np.arange(300) < 90)),
    "slice": (slice(40, 90), (np.arange(300) >= 40) & (np.arange(300) < 90)),
    "open slice": (slice(250, None), np.arange(300) >= 250),
    "whole slice": (slice(None), np.ones(300, bool)),
    "nothing": (None, np.ones(300, bool)),
}


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("metric", ["euclidean", "inner_product", "hamming"])
def test_eligible(rng, name, metric):
    eligible, allowed = FILTERS[name]
    corpus, queries = lattice(rng, 300, 5, metric), lattice(rng, 12, 5, metric)
    distances, everyone = table(corpus, queries, metric), np.broadcast_to(allowed, (12, 300))
    k = min(5, int(allowed.sum()))
    want = expected(distances, metric, k, everyone)
    assert same_list(vicinal.knn(corpus, queries, k, metric, eligible=eligible), want)
    assert same_list(vicinal.Corpus(corpus, metric).knn(queries, k, eligible=eligible), want)
    radius = float(np.median(distances))
    got = vicinal.range_search(corpus, queries, radius, metric=metric, eligible=eligible)
    assert same_range(got, within(distances, metric, radius, everyone))
    graph = vicinal.knn_graph(corpus, 5, metric, eligible=eligible, pad=True)
    others = allowed & ~np.eye(300, dtype=bool)
    assert np.array_equal(graph.counts, np.minimum(others.sum(1), 5))
    every = table(corpus, corpus, metric)
    for row in (0, 5, 41, 251, 299):
        assert np.array_equal(graph.ids[row][graph.ids[row] >= 0], order(every[row], metric, others[row])[:5])


@pytest.mark.parametrize("rule", ["same", "other"])
@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8])
def test_labels(rng, rule, dtype):
    corpus, queries = lattice(rng, 200, 5, "l1"), lattice(rng, 15, 5, "l1")
    of_rows, of_queries = rng.integers(0, 4, 200).astype(dtype), rng.integers(0, 4, 15).astype(dtype)
    allowed = (of_queries[:, None] == of_rows[None, :]) == (rule == "same")
    distances = table(corpus, queries, "l1")
    labels = {"labels": (of_rows, of_queries), "label_rule": rule}
    want = expected(distances, "l1", 6, allowed)
    assert same_list(vicinal.knn(corpus, queries, 6, "l1", **labels), want)
    assert same_list(vicinal.Corpus(corpus, "l1").knn(queries, 6, **labels), want)
    near = vicinal.range_search(corpus, queries, 8, metric="l1", **labels)
    assert same_range(near, within(distances, "l1", 8, allowed))
    together = vicinal.knn(corpus, queries, 3, "l1", eligible=slice(100, 200), **labels)
    assert same_list(together, expected(distances, "l1", 3, allowed & (np.arange(200) >= 100)))


def test_eligible_errors(rng):
    corpus, queries = lattice(rng, 100, 5, "l1"), lattice(rng, 4, 5, "l1")
    mask = np.arange(100) < 10
    with pytest.raises(vicinal.InvalidArgument, match="k=50 exceeds 10 eligible rows"):
        vicinal.knn(corpus, queries, 50, eligible=mask)
    padded = vicinal.knn(corpus, queries, 50, eligible=mask, pad=True)
    assert (padded.counts == 10).all() and (padded.ids[:, 10:] == -1).all() and (padded.ids[:, :10] >= 0).all()
    none = vicinal.knn(corpus, queries, 2, eligible=np.zeros(100, bool), pad=True)
    assert (none.counts == 0).all() and (none.ids == -1).all()
    with pytest.raises(vicinal.InvalidArgument, match="99"):
        vicinal.knn(corpus, queries, 2, eligible=np.ones(99, bool))
    with pytest.raises(vicinal.InvalidArgument):
        vicinal.knn(corpus, queries, 2, eligible=[1, 2, -1])
    with pytest.raises(TypeError):
        vicinal.knn(corpus, queries, 2, eligible=[0.5, 1.5])
    with pytest.raises(TypeError):
        vicinal.knn(corpus, queries, 2, eligible="all")
    for labels in ((np.zeros(99, int), np.zeros(4, int)), (np.zeros(100, int), np.zeros(5, int))):
        with pytest.raises(vicinal.InvalidArgument):
            vicinal.knn(corpus, queries, 2, labels=labels)
    with pytest.raises(vicinal.InvalidArgument):
        vicinal.knn(corpus, queries, 2, labels=(np.zeros(100, int), np.zeros(4, int)), label_rule="equal")
    corpus[90, 2] = np.nan
    with pytest.raises(vicinal.InvalidValue, match="corpus row 90, column 2 is NaN"):
        vicinal.knn(corpus, queries, 2, eligible=mask)
