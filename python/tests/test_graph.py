"""knn_graph: lists against the oracle and scikit-learn, symmetric forms, SciPy matrices, what downstream tools take."""

import copy
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import oracle
import pytest
import vicinal

METRICS = [*oracle.METRICS, "hamming"]


def data(rng, metric, rows=45, columns=9):
    """Full of ties and duplicates; no row is zero or constant."""
    x = rng.integers(0, 4, (rows, columns), np.uint8)
    x[:, 0], x[:, 1] = 5, 0
    x[rows // 2] = x[3]
    return x if metric == "hamming" else x.astype(np.float32)


def equal(result, expected):
    arrays = (result.offsets, result.distances, result.ids) if len(expected) == 3 else tuple(result)
    return all(oracle.same_bits(a, b) for a, b in zip(arrays, expected))


@pytest.mark.parametrize("include_self", [False, True])
@pytest.mark.parametrize("metric", METRICS)
def test_lists(rng, metric, include_self):
    for rows, dtype in ((45, None), (20, np.uint8 if metric == "hamming" else np.float64)):
        x = data(rng, metric, rows)
        x = x if dtype is None else x.astype(dtype)
        for k in (1, 6, rows - 1):
            expected = oracle.knn_graph(x, k, metric, include_self)
            for threads, memory in ((1, None), (3, "32MiB")):
                result = vicinal.knn_graph(x, k, metric, include_self=include_self, threads=threads, memory=memory)
                assert equal(result, expected)
                assert result.certificate.all() and result.certificate.queries == len(x) and result.counts is None


def test_names_types_and_defaults(rng):
    x = rng.standard_normal((100, 8))
    result = vicinal.knn_graph(x)
    distances, ids = result
    assert ids is result.ids and distances is result.distances and ids.shape == distances.shape == (100, 15)
    assert ids.dtype == np.int64 and distances.dtype == np.float64 and isinstance(result, vicinal.Neighbors)
    assert result.stats.pairs > 0 and result.columns == 100
    assert not (ids == np.arange(100)[:, None]).any()
    assert equal(result, tuple(vicinal.knn_graph(x.tolist())))
    assert vicinal.knn_graph(x.tolist()).stats.copied_bytes >= x.nbytes > result.stats.copied_bytes
    assert vicinal.knn_graph(x, distance_type="f32").distances.dtype == np.float32


def test_duplicates_stay(rng):
    x = np.repeat(rng.standard_normal((3, 4)).astype(np.float32), 3, axis=0)
    result = vicinal.knn_graph(x, 2)
    assert result.ids[:3].tolist() == [[1, 2], [0, 2], [0, 1]] and (result.distances == 0).all()
    assert vicinal.knn_graph(x, 2, include_self=True).ids[:3].tolist() == [[0, 1]] * 3  # the lower ids come first


@pytest.mark.parametrize("how", ["union", "mutual"])
@pytest.mark.parametrize("metric", METRICS)
def test_symmetrize(rng, metric, how):
    x = data(rng, metric)
    for k, include_self in ((3, False), (5, True)):
        result = vicinal.knn_graph(x, k, metric, symmetrize=how, include_self=include_self)
        assert isinstance(result, vicinal.CsrNeighbors) and len(result) == len(x)
        assert equal(result, oracle.symmetrized(*oracle.knn_graph(x, k, metric, include_self), how))
        assert result.offsets.dtype == result.ids.dtype == np.int64
        distances, ids = result[-1]
        assert np.array_equal(ids, result.ids[result.offsets[-2] :]) and len(distances) == len(ids)
        assert result.certificate.all() and result.stats.device == "cpu"


def test_padding(rng):
    x = data(rng, "l1", 5)
    result = vicinal.knn_graph(x, 7, "l1", pad=True)
    assert equal(result, oracle.knn_graph(x, 7, "l1")) and result.counts.tolist() == [4] * 5
    assert (result.ids[:, 4:] == -1).all() and np.isinf(result.distances[:, 4:]).all()
    assert vicinal.knn_graph(x, 5, "l1", pad=True, include_self=True).counts.tolist() == [5] * 5
    alone = vicinal.knn_graph(x[:1], 2, pad=True)
    assert alone.ids.tolist() == [[-1, -1]] and alone.counts.tolist() == [0]
    assert len(vicinal.knn_graph(x[:0], 2, pad=True).ids) == 0
    assert vicinal.knn_graph(x, 7, "l1", pad=True, symmetrize="union").offsets.tolist() == [0, 4, 8, 12, 16, 20]


@pytest.mark.parametrize("how", ["union", "mutual"])
def test_eligible_and_labels(rng, how):
    x, labels = data(rng, "euclidean"), rng.integers(0, 4, 45).astype(np.int16)
    mask = rng.random(45) < 0.6
    for rule, keep in (("same", lambda a, b: a == b), ("other", lambda a, b: a != b)):
        lists = oracle.knn_graph(x, 6, "euclidean", may=lambda q, r: mask[r] and keep(labels[q], labels[r]))
        result = vicinal.knn_graph(x, 6, pad=True, eligible=mask, labels=labels, label_rule=rule)
        assert equal(result, lists) and result.counts.tolist() == (lists[1] >= 0).sum(axis=1).tolist()
        again = vicinal.knn_graph(
            x, 6, pad=True, eligible=np.flatnonzero(mask), labels=labels.tolist(), label_rule=rule, symmetrize=how
        )
        assert equal(again, oracle.symmetrized(*lists, how))


REFUSED = {
    "k above the others": (dict(k=10), "InvalidArgument", "k=10 exceeds the 9 other rows of n=10"),
    "k above n with self": (dict(k=11, include_self=True), "InvalidArgument", "k=11 exceeds the n=10 rows"),
    "one row": (dict(x=np.ones((1, 4)), k=1), "InvalidArgument", "k=1 exceeds the 0 other rows of n=1"),
    "no rows": (dict(x=np.ones((0, 4))), "InvalidArgument", "corpus has 0 rows"),
    "no columns": (dict(x=np.ones((10, 0))), "InvalidArgument", "dimension is 0"),
    "k=0": (dict(k=0), "InvalidArgument", "k must be >= 1, got 0"),
    "k a float": (dict(k=2.0), TypeError, "k must be an integer, got float"),
    "flat": (dict(x=np.ones(4)), "InvalidArgument", "got 1 with shape"),
    "NaN": (dict(x=np.where(np.eye(10) == 1, np.nan, 0.0)), "InvalidValue", r"row 0, column 0 is NaN \(10 bad rows"),
    "zero row": (dict(x=np.eye(10)[:, :9], metric="cosine"), "InvalidValue", "row 9 is zero: cosine undefined"),
    "int64 beyond float64": (dict(x=np.full((10, 4), 2**53 + 1)), "InvalidValue", "row 0, column 0 is 9007199254740993"),
    "memory too small": (dict(memory=1), "MemoryBudget", "budget"),
    "metric": (dict(metric="l2"), "InvalidArgument", "unknown metric"),
    "threads": (dict(threads=-1), "InvalidArgument", "threads must be >= 0"),
    "device": (dict(device="cuda"), "DeviceError", "no usable CUDA device"),
    "symmetrize": (dict(symmetrize="max"), "InvalidArgument", 'unknown symmetrize "max"; ways: union, mutual'),
    "symmetrize not text": (dict(symmetrize=True), TypeError, "symmetrize must be a str, got bool"),
    "include_self": (dict(include_self=1), TypeError, "include_self must be a bool, got int"),
    "labels": (dict(labels=np.zeros(9, int)), "InvalidArgument", "9 labels for the 10 rows"),
    "labels of both": (dict(labels=(np.zeros(10, int),) * 2), "InvalidArgument", "labels: expected 1 dimension, got 2"),
    "mask": (dict(eligible=np.ones(11, bool)), "InvalidArgument", "mask of eligible rows has 11 entries"),
    "few eligible": (dict(k=3, eligible=[1, 2, 3]), "InvalidArgument", "k=3 exceeds 2 eligible rows of query 1"),
    "progress": (dict(progress=3), TypeError, "progress must be callable"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    arguments, kind, words = REFUSED[case]
    arguments = {"x": np.arange(40.0).reshape(10, 4) ** 1.5, "k": 2, **arguments}
    with pytest.raises(getattr(vicinal, kind) if isinstance(kind, str) else kind, match=words):
        vicinal.knn_graph(**arguments)


def test_plan_graph(rng):
    plan = vicinal.plan_graph((10_000, 64), 15, memory="64MiB")
    assert plan.peak_bytes <= plan.budget_bytes == 64 << 20 and plan.result_bytes == 10_000 * 15 * 12
    assert plan.match_bytes == 0 and str(plan) == plan.text
    assert vicinal.plan_graph((10_000, 64), dtype=np.float64, include_self=True).distance_type == "f64"
    assert vicinal.plan_graph(rng.standard_normal((30, 4)), eligible=np.arange(40)).result_bytes == 30 * 15 * 16
    with pytest.raises(vicinal.InvalidArgument, match="k=10 exceeds the 9 other rows of n=10"):
        vicinal.plan_graph((10, 4), 10)
    with pytest.raises(vicinal.MemoryBudget):
        vicinal.plan_graph((10_000, 64), memory=1000)


def test_plans_of_arrays_see_a_sample(rng):
    """The filter of the search, where rows are given: of equal rows and of Gaussian ones; of shapes none is looked at."""
    for x in (rng.standard_normal((6000, 64)).astype("f4"), np.full((6000, 64), 3.25, "f4")):
        seen = vicinal.plan(x, x[:300], 10)
        found = vicinal.knn(x, x[:300], 10)
        assert seen.cascade[0] == found.certificate.precisions[0] and seen.rotated == found.stats.rotated
        assert 16 <= seen.sampled_rows <= 512 and "by a look at" in seen.text
        assert vicinal.plan(x, (300, 64), 10).seconds == seen.seconds
        assert vicinal.plan_graph(x).sampled_rows > 0
        assert vicinal.plan_range(x, x[:9], radius=1.5).sampled_rows > 0 == vicinal.plan_range(x, x[:9]).sampled_rows
    blind = vicinal.plan((6000, 64), (300, 64), 10)
    assert blind.sampled_rows == 0 and blind.peak_bytes == seen.peak_bytes and "by a look at" not in blind.text


def test_copy_and_pickle(rng):
    x = data(rng, "euclidean")
    for result in (vicinal.knn_graph(x, 4, pad=True), vicinal.knn_graph(x, 4, symmetrize="union")):
        for again in (pickle.loads(pickle.dumps(result)), copy.copy(result), copy.deepcopy(result)):
            assert type(again) is type(result) and repr(again) == repr(result) and again.columns == 45
            for name in ("ids", "distances", "counts" if isinstance(result, vicinal.Neighbors) else "offsets"):
                assert oracle.same_bits(getattr(again, name), getattr(result, name))
            assert again.certificate == result.certificate and again.stats == result.stats


def test_to_csr(rng):
    sparse = pytest.importorskip("scipy.sparse", reason="SciPy is not installed")
    x = data(rng, "euclidean")
    for metric in METRICS:
        result = vicinal.knn_graph(data(rng, metric), 6, metric)
        matrix = result.to_csr()
        assert isinstance(matrix, sparse.csr_matrix) and matrix.shape == (45, 45) and matrix.nnz == 45 * 6
        assert oracle.same_bits(matrix.data, result.distances.ravel())
        assert oracle.same_bits(matrix.indices, result.ids.ravel())
        assert oracle.same_bits(matrix.indptr, np.arange(0, 45 * 6 + 1, 6))
        matrix.check_format(full_check=True)
    result = vicinal.knn_graph(x, 6)
    matrix = result.to_csr()
    assert (matrix.data == 0).sum() == 2 and matrix.nnz == 270  # the duplicates' distances survive as entries
    assert matrix.copy().nnz == 270 and matrix.T.tocsr().nnz == 270
    matrix.sort_indices()
    matrix.data[:] = 7
    assert equal(result, oracle.knn_graph(x, 6, "euclidean"))  # the matrix had memory of its own
    padded = vicinal.knn_graph(x[:4], 6, pad=True).to_csr()
    assert padded.nnz == 12 and padded.shape == (4, 4) and np.isfinite(padded.data).all()


def test_to_csr_of_symmetric_forms(rng):
    csgraph = pytest.importorskip("scipy.sparse.csgraph", reason="SciPy is not installed")
    x = np.concatenate([data(rng, "euclidean"), data(rng, "euclidean") + 100])
    lists = vicinal.knn_graph(x, 5).to_csr()
    union, mutual = (vicinal.knn_graph(x, 5, symmetrize=how).to_csr() for how in ("union", "mutual"))
    assert union.nnz > lists.nnz > mutual.nnz
    for matrix in (union, mutual):
        matrix.check_format(full_check=True)
        turned = matrix.T.tocsr()
        assert matrix.has_sorted_indices and matrix.indices.dtype == np.int64
        for a, b in ((matrix.data, turned.data), (matrix.indices, turned.indices), (matrix.indptr, turned.indptr)):
            assert np.array_equal(a, b)
    for matrix in (lists, union):
        parts, member = csgraph.connected_components(matrix, directed=False)
        assert parts >= 2 and set(member[:45]).isdisjoint(member[45:])


def test_to_csr_without_scipy(rng):
    code = """
        import sys
        sys.modules["scipy"] = sys.modules["scipy.sparse"] = None
        import numpy as np, vicinal
        graph = vicinal.knn_graph(np.arange(12.0).reshape(6, 2), 2)
        try:
            graph.to_csr()
        except ImportError as error:
            assert "install SciPy" in str(error)
        else:
            raise SystemExit("no ImportError")
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("include_self", [False, True])
@pytest.mark.parametrize("metric", ["euclidean", "l1", "linf"])
def test_scikit_learn(rng, metric, include_self):
    neighbors = pytest.importorskip("sklearn.neighbors", reason="scikit-learn is not installed")
    x = rng.integers(0, 2000, (300, 3)).astype(np.float64)  # whole numbers: their sums are exact too
    x[200] = x[10]
    name = {"l1": "cityblock", "linf": "chebyshev"}.get(metric, metric)
    # one spare neighbour shows the rows whose last place is a tie: scikit-learn promises no order there
    table = vicinal.knn_graph(x, 9, metric, include_self=include_self).distances
    certain = (np.diff(table, axis=1) != 0).all(axis=1)
    assert certain.sum() > 150
    ours = vicinal.knn_graph(x, 8, metric, include_self=include_self).to_csr()
    model = neighbors.NearestNeighbors(n_neighbors=8, algorithm="kd_tree", metric=name).fit(x)
    theirs = model.kneighbors_graph(x if include_self else None, mode="distance")
    assert ours.shape == theirs.shape and np.array_equal(ours.indptr, theirs.indptr)
    assert np.array_equal(ours.data, theirs.data)
    rows = np.flatnonzero(certain)
    assert np.array_equal(ours.indices.reshape(-1, 8)[rows], theirs.indices.reshape(-1, 8)[rows])


def test_umap():
    umap = pytest.importorskip("umap", reason="umap-learn is not installed")
    x = np.random.default_rng(5).standard_normal((200, 10)).astype(np.float32)
    graph = vicinal.knn_graph(x, 15, include_self=True)
    fitted = umap.UMAP(n_neighbors=15, n_epochs=20, random_state=1, precomputed_knn=(graph.ids, graph.distances)).fit(x)
    assert np.isfinite(fitted.embedding_).all()


def endless(rng):
    """A graph of a minute and more in 40 MB: windows of one long vector."""
    return np.lib.stride_tricks.sliding_window_view(rng.standard_normal(600_000).astype(np.float32), 256)


def test_ctrl_c_and_other_threads(rng):
    ticks, fired = 0, 0.0

    def interrupt():
        nonlocal ticks, fired
        for _ in range(20):
            time.sleep(0.01)
            ticks += 1
        fired = time.monotonic()
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        vicinal.knn_graph(endless(rng), 2, memory="64MiB")
    stopped = time.monotonic()
    thread.join()
    assert ticks == 20 and stopped - fired < 2  # the contract says 0.1 s


def test_progress(rng):
    x = rng.standard_normal((4000, 32))
    seen = []
    result = vicinal.knn_graph(x, 3, progress=lambda done, total: seen.append((done, total)))
    assert seen and seen[-1][0] == seen[-1][1] and seen == sorted(seen)
    assert equal(result, tuple(vicinal.knn_graph(x, 3)))
    for how in (None, "union"):
        with pytest.raises(vicinal.Cancelled):
            vicinal.knn_graph(x, 3, symmetrize=how, threads=1, progress=lambda done, total: False)


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("device", ["cpu,cpu", "cpu,cpu,cpu"])
def test_several_devices_share_the_rows_of_a_graph(rng, device, kept):
    n, count = 16400 * (device.count(",") + 1) - 1, device.count(",") + 1
    x = rng.integers(0, 12, (n, 3)).astype(np.float32)  # most rows have equals
    labels = rng.integers(0, 4, n)
    prepared = vicinal.Corpus(x, device=device) if kept else None
    for options in ({"k": 3}, {"k": 5, "include_self": True}, {"k": 4, "label_rule": "other", "labels": labels}):
        want = vicinal.knn_graph(x, device="cpu", **options)
        got = prepared.knn_graph(**options) if kept else vicinal.knn_graph(x, device=device, **options)
        assert np.array_equal(got.ids, want.ids)
        assert got.distances.tobytes() == want.distances.tobytes()
        assert got.stats.device == device
        assert got.stats.notes[0] == f"{count} devices, each with {-(-n // count)} queries"
    assert f"{count} devices, by queries: each searches all rows" in str(vicinal.plan_graph(x, k=3, device=device))
    with pytest.raises(vicinal.InvalidArgument, match=f"k={n} exceeds the {n - 1} other rows"):
        vicinal.knn_graph(x, k=n, device=device)
