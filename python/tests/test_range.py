"""range_search: against the oracle and scikit-learn, its matrices, limits, refusals, interruption."""

import _thread
import copy
import fractions
import pickle
import threading
import time

import numpy as np
import oracle
import pytest
import vicinal

METRICS = [*oracle.METRICS, "hamming"]


def data(rng, metric, rows, columns=7):
    """Full of ties; no row is zero or constant."""
    x = rng.integers(0, 4, (rows, columns), np.uint8)
    x[:, 0], x[:, 1] = 5, 0
    return x if metric == "hamming" else x.astype(np.float32)


def equal(result, expected):
    arrays = result.offsets, result.distances, result.ids
    return all(oracle.same_bits(a, b) for a, b in zip(arrays, expected))


def radii(corpus, queries, metric):
    """None, few, all, and values that occur, where <= and < differ."""
    distances = np.unique(vicinal.knn(corpus, queries, len(corpus), metric).distances.astype(np.float64))
    middle = distances[len(distances) // 2]
    return [-np.inf, -1.0, 0.0, 0, distances[1], middle, np.nextafter(middle, -np.inf), distances[-1], np.inf]


@pytest.mark.parametrize("metric", METRICS)
def test_against_the_oracle(rng, metric):
    corpus, queries = data(rng, metric, 60), data(rng, metric, 7)
    for radius in radii(corpus, queries, metric):
        expected = oracle.range_search(corpus, queries, radius, metric)
        for threads, memory in ((1, None), (3, "32MiB")):
            result = vicinal.range_search(corpus, queries, radius, metric, threads=threads, memory=memory)
            assert equal(result, expected)
            assert result.certificate.all() and result.certificate.queries == 7


@pytest.mark.parametrize("metric", METRICS)
def test_a_range_is_the_head_of_a_ranking(rng, metric):
    if metric == "hamming":
        corpus, queries = rng.integers(0, 256, (500, 8), np.uint8), rng.integers(0, 256, (40, 8), np.uint8)
    else:
        corpus, queries = rng.standard_normal((500, 20)), rng.standard_normal((40, 20))
    ranked = vicinal.knn(corpus, queries, 500, metric)
    sign = -1 if metric == "inner_product" else 1
    for radius in np.quantile(ranked.distances, [0.001, 0.3]):
        result = vicinal.range_search(corpus, queries, radius, metric)
        within = sign * ranked.distances.astype(np.float64) <= sign * float(radius)
        assert np.array_equal(np.diff(result.offsets), within.sum(axis=1))
        assert oracle.same_bits(result.distances, ranked.distances[within])
        assert oracle.same_bits(result.ids, ranked.ids[within])


def test_names_types_and_rows(rng):
    corpus, queries = data(rng, "l1", 50), data(rng, "l1", 4)
    result = vicinal.range_search(corpus, queries, 5, "l1")
    assert isinstance(result, vicinal.CsrNeighbors) and len(result) == 4 and result.columns == 50
    assert result.offsets.dtype == result.ids.dtype == np.int64 and result.distances.dtype == np.float32
    assert result.stats.pairs == 200 and result.stats.device == "cpu" and "4 rows" in repr(result)
    for i in (0, 3, np.int64(2), -1):
        distances, ids = result[i]
        entries = slice(*result.offsets[[i % 4, i % 4 + 1]])
        assert np.array_equal(distances, result.distances[entries]) and np.array_equal(ids, result.ids[entries])
    for outside in (4, -5):
        with pytest.raises(IndexError):
            result[outside]
    with pytest.raises(TypeError):
        result[1:2]
    with pytest.raises(TypeError, match="differing lengths"):
        distances, ids = vicinal.range_search(corpus, queries[:2], 5, "l1")  # two rows, and no pair of arrays
    assert vicinal.range_search(corpus, queries.astype(np.float64), 5).distances.dtype == np.float64
    assert vicinal.range_search(corpus, queries, 5, distance_type="f64").distances.dtype == np.float64
    listed = vicinal.range_search(corpus.tolist(), queries.tolist(), 5, "l1")
    assert np.array_equal(listed.ids, result.ids) and listed.stats.copied_bytes > 0


def test_radius_is_any_real_number(rng):
    corpus, queries = data(rng, "euclidean", 50), data(rng, "euclidean", 4)
    expected = vicinal.range_search(corpus, queries, 2.0).ids
    for two in (2, np.float32(2), np.int8(2), np.float16(2), fractions.Fraction(2)):
        assert np.array_equal(vicinal.range_search(corpus, queries, two).ids, expected)


def test_radius_is_compared_as_float64():
    corpus, query = np.array([[0.1]], np.float32), np.array([[0.0]], np.float32)
    returned = float(np.float32(0.1))
    assert len(vicinal.range_search(corpus, query, returned, "l1").ids) == 1
    assert len(vicinal.range_search(corpus, query, np.nextafter(returned, 0), "l1").ids) == 0
    assert len(vicinal.range_search(corpus, query, 0.1, "l1").ids) == 0  # 0.1 is less than its float32


def test_negative_and_infinite_radius(rng):
    corpus, queries = data(rng, "euclidean", 50), data(rng, "euclidean", 4)
    for radius in (-1e-300, -1, -np.inf):
        nothing = vicinal.range_search(corpus, queries, radius)
        assert nothing.offsets.tolist() == [0] * 5 and nothing.ids.shape == nothing.distances.shape == (0,)
        assert nothing[1][1].size == 0 and nothing.certificate.all()
    everything = vicinal.range_search(corpus, queries, np.inf)
    ranked = vicinal.knn(corpus, queries, 50)
    assert oracle.same_bits(everything.ids, ranked.ids.ravel())
    assert oracle.same_bits(everything.distances, ranked.distances.ravel())
    products = vicinal.range_search(corpus, queries, -np.inf, "inner_product")
    assert oracle.same_bits(products.ids, vicinal.knn(corpus, queries, 50, "inner_product").ids.ravel())


def test_empty_sides(rng):
    corpus, queries = data(rng, "euclidean", 50), data(rng, "euclidean", 4)
    none = vicinal.range_search(corpus, queries[:0], 3)
    assert len(none) == 0 and none.offsets.tolist() == [0] and none.ids.shape == (0,)
    assert vicinal.range_search(corpus[:0], queries, 3).offsets.tolist() == [0] * 5


def test_max_results(rng):
    corpus, queries = data(rng, "euclidean", 50), data(rng, "euclidean", 4)
    need = len(vicinal.range_search(corpus, queries, 3).ids)
    assert len(vicinal.range_search(corpus, queries, 3, max_results=need).ids) == need
    for limit in (1, need - 1):
        with pytest.raises(vicinal.CapacityExceeded, match=f"has {need} matches, max_results is {limit}; lower the radius, or pass max_results={need}$"):
            vicinal.range_search(corpus, queries, 3, max_results=limit)
    with pytest.raises(MemoryError):
        vicinal.range_search(corpus, queries, np.inf, max_results=np.int64(199))


def test_first_id_eligible_and_labels(rng):
    corpus, queries = data(rng, "l1", 50), data(rng, "l1", 6)
    labels, asked = rng.integers(0, 3, 50).astype(np.uint8), rng.integers(0, 4, 6)
    mask = rng.random(50) < 0.5
    for rule, keep in (("same", lambda a, b: a == b), ("other", lambda a, b: a != b)):
        expected = oracle.range_search(
            corpus, queries, 6, "l1", 100, lambda q, r: mask[r] and keep(asked[q], labels[r])
        )
        result = vicinal.range_search(
            corpus, queries, 6, "l1", first_id=100, eligible=mask, labels=(labels, asked), label_rule=rule
        )
        assert equal(result, expected) and result.columns == 150 and len(result.ids) > 0
    expected = oracle.range_search(corpus, queries, 6, "l1", 100, lambda q, r: 110 <= r + 100 < 130)
    assert equal(vicinal.range_search(corpus, queries, 6, "l1", first_id=100, eligible=range(110, 130)), expected)
    assert len(vicinal.range_search(corpus, queries, 6, "l1", eligible=[]).ids) == 0  # no row may answer: no error here


REFUSED = {
    "NaN radius": (dict(radius=np.nan), "InvalidArgument", "radius is NaN"),
    "radius text": (dict(radius="2"), TypeError, "radius must be a number, got str"),
    "radius None": (dict(radius=None), TypeError, "radius must be a number, got NoneType"),
    "radius bool": (dict(radius=True), TypeError, "radius must be a number, got bool"),
    "radius complex": (dict(radius=2j), TypeError, "radius must be a number, got complex"),
    "radius an array": (dict(radius=np.ones(3)), TypeError, "radius must be a number, got ndarray"),
    "radius of 500 digits": (dict(radius=10**500), "InvalidArgument", "radius must be within the range of float64"),
    "max_results=0": (dict(max_results=0), "InvalidArgument", "max_results must be >= 1, got 0"),
    "max_results<0": (dict(max_results=-4), "InvalidArgument", "max_results must be >= 1, got -4"),
    "max_results a float": (dict(max_results=1e6), TypeError, "max_results must be an integer, got float"),
    "memory too small": (dict(memory=1), "MemoryBudget", "budget"),
    "other d": (dict(queries=np.ones((2, 3))), "InvalidArgument", "query has d=3, corpus has d=4"),
    "flat": (dict(queries=np.ones(4)), "InvalidArgument", r"got 1 with shape \(4,\)"),
    "no columns": (dict(corpus=np.ones((3, 0)), queries=np.ones((2, 0))), "InvalidArgument", "dimension is 0"),
    "NaN": (dict(queries=np.full((2, 4), np.nan)), "InvalidValue", "query row 0, column 0 is NaN"),
    "infinity": (dict(corpus=np.full((2, 4), np.inf)), "InvalidValue", "corpus row 0, column 0 is -?inf"),
    "zero row": (dict(corpus=np.zeros((2, 4)), metric="cosine"), "InvalidValue", "corpus row 0 is zero"),
    "int64 beyond float64": (dict(corpus=np.full((2, 4), 2**53 + 1)), "InvalidValue", "corpus row 0, column 0 is 9007199254740993"),
    "complex": (dict(corpus=np.ones((2, 4), complex)), TypeError, "unsupported dtype complex128"),
    "metric": (dict(metric="angular"), "InvalidArgument", "unknown metric"),
    "labels": (dict(labels=(np.zeros(10, int), np.zeros(3, int))), "InvalidArgument", "3 labels for the 2 queries"),
    "labels of one side": (dict(labels=np.zeros(10, int)), TypeError, "labels must be a pair"),
    "mask": (dict(eligible=np.ones(9, bool)), "InvalidArgument", "mask of eligible rows has 9 entries, corpus has 10"),
    "first_id<0": (dict(first_id=-1), "InvalidArgument", "first_id must be >= 0"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    arguments, kind, words = REFUSED[case]
    corpus = np.arange(40.0).reshape(10, 4) ** 1.5
    with pytest.raises(getattr(vicinal, kind) if isinstance(kind, str) else kind, match=words):
        vicinal.range_search(**{"corpus": corpus, "queries": corpus[:2], "radius": 2.0, **arguments})


def test_overflow_is_refused_within_the_radius():
    corpus = np.array([[1e30], [-1e30]], np.float32)
    with pytest.raises(vicinal.RangeError, match="exceeds f32"):
        vicinal.range_search(corpus, corpus, np.inf, "sqeuclidean")


def test_plan_range():
    plan = vicinal.plan_range((100_000, 64), (1000, 64), memory="64MiB")
    assert plan.peak_bytes <= plan.budget_bytes == 64 << 20 and plan.result_bytes == 0 and plan.match_bytes > 0
    assert "matches" in str(plan)
    with pytest.raises(vicinal.InvalidArgument, match="query has d=3"):
        vicinal.plan_range((10, 4), (2, 3))
    with pytest.raises(vicinal.MemoryBudget):
        vicinal.plan_range((100_000, 64), (1000, 64), memory=1000)


def test_to_csr(rng):
    sparse = pytest.importorskip("scipy.sparse", reason="SciPy is not installed")
    for metric in METRICS:
        corpus, queries = data(rng, metric, 50), data(rng, metric, 6)
        result = vicinal.range_search(corpus, queries, 0.2 if metric in ("cosine", "correlation") else 5, metric)
        matrix = result.to_csr()
        assert isinstance(matrix, sparse.csr_matrix) and matrix.shape == (6, 50)
        arrays = (matrix.indptr, result.offsets), (matrix.data, result.distances), (matrix.indices, result.ids)
        assert all(oracle.same_bits(a, b) and not np.shares_memory(a, b) for a, b in arrays)
        matrix.check_format(full_check=True)
    itself = vicinal.range_search(corpus, corpus[:3], 0, "hamming").to_csr()
    assert itself.nnz >= 3 and not itself.data.any()  # zeros survive as entries
    shifted = vicinal.range_search(corpus, queries, 5, "hamming", first_id=10)
    assert shifted.to_csr().shape == (6, 60) and shifted.to_csr(np.int64(100)).shape == (6, 100)
    with pytest.raises(vicinal.InvalidArgument, match="the largest id is"):
        shifted.to_csr(20)
    with pytest.raises(TypeError):
        shifted.to_csr(60.0)
    assert vicinal.range_search(corpus, queries, -1, "hamming").to_csr(0).shape == (6, 0)
    far = vicinal.range_search(corpus, queries, 5, "hamming", first_id=1 << 40).to_csr()
    assert far.shape == (6, (1 << 40) + 50) and far.indices.min() >= 1 << 40


def test_to_csr_of_knn(rng):
    pytest.importorskip("scipy.sparse", reason="SciPy is not installed")
    corpus, queries = data(rng, "l1", 50), data(rng, "l1", 6)
    result = vicinal.knn(corpus, queries, 3, "l1", first_id=np.int8(7))
    assert result.to_csr().shape == (6, 57) and vicinal.Corpus(corpus).knn(queries, 3).to_csr().shape == (6, 50)
    merged = vicinal.merge([result], metric="l1")
    assert merged.columns is None and merged.to_csr(57).nnz == 18
    with pytest.raises(vicinal.InvalidArgument, match="n_columns is needed"):
        merged.to_csr()


@pytest.mark.parametrize("metric", ["euclidean", "l1", "linf"])
def test_scikit_learn(rng, metric):
    neighbors = pytest.importorskip("sklearn.neighbors", reason="scikit-learn is not installed")
    corpus, queries = (rng.integers(0, 40, (rows, 3)).astype(np.float64) for rows in (400, 50))  # exact in both
    name = {"l1": "cityblock", "linf": "chebyshev"}.get(metric, metric)
    model = neighbors.NearestNeighbors(algorithm="kd_tree", metric=name).fit(corpus)
    for radius in (0.0, 5.0, 13.0, 1000.0):  # whole numbers, where rows lie on the edge: both take them in
        theirs = model.radius_neighbors_graph(queries, radius, mode="distance")
        ours = vicinal.range_search(corpus, queries, radius, metric).to_csr()
        assert ours.shape == theirs.shape and np.array_equal(ours.indptr, theirs.indptr)
        for matrix in (ours, theirs):
            matrix.sort_indices()
        assert np.array_equal(ours.indices, theirs.indices) and np.array_equal(ours.data, theirs.data)


def test_copy_and_pickle(rng):
    result = vicinal.range_search(data(rng, "l1", 50), data(rng, "l1", 6), 5, "l1")
    for again in (pickle.loads(pickle.dumps(result)), copy.copy(result), copy.deepcopy(result)):
        assert equal(again, (result.offsets, result.distances, result.ids)) and again.columns == 50
        assert again.certificate == result.certificate and again.stats == result.stats


def test_results_own_the_memory(rng):
    corpus, queries = data(rng, "l1", 50), data(rng, "l1", 6)
    result = vicinal.range_search(corpus, queries, 5, "l1")
    ids, kept = result.ids, result.ids.copy()
    row, row_kept = result[2][0], result[2][0].copy()
    del result
    for _ in range(50):
        vicinal.range_search(corpus, queries, 5, "l1")
    assert np.array_equal(ids, kept) and np.array_equal(row, row_kept)


def test_ctrl_c_and_other_threads(rng):
    corpus = np.lib.stride_tricks.sliding_window_view(rng.standard_normal(10_000_000).astype(np.float32), 96)
    queries = rng.standard_normal((20_000, 96)).astype(np.float32)
    ticks, fired = 0, 0.0

    def interrupt():
        nonlocal ticks, fired
        for _ in range(20):
            time.sleep(0.01)
            ticks += 1
        fired = time.monotonic()
        _thread.interrupt_main()

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        vicinal.range_search(corpus, queries, 1.0)
    stopped = time.monotonic()
    thread.join()
    assert ticks == 20 and stopped - fired < 2  # the contract says 0.1 s


def test_progress(rng):
    corpus, queries = rng.standard_normal((20000, 32)), rng.standard_normal((200, 32))
    seen = []
    vicinal.range_search(corpus, queries, 3, progress=lambda done, total: seen.append((done, total)))
    assert seen and seen[-1][0] == seen[-1][1] and seen == sorted(seen)
    with pytest.raises(vicinal.Cancelled):
        vicinal.range_search(corpus, queries, 3, threads=1, progress=lambda done, total: False)
