"""vicinal.compat beside the libraries that it stands for; what is not installed is not run."""

import importlib.util
import pickle
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import vicinal
from vicinal.compat import cuvs, pytorch3d, torch_cluster
from vicinal.compat import faiss as ours
from vicinal.compat import torch as our_torch


@pytest.fixture
def whole(rng):
    """Small integers: every library's arithmetic is exact, ties are many."""
    return rng.integers(-4, 5, (300, 8)).astype("f4"), rng.integers(-4, 5, (20, 8)).astype("f4")


def same(found, expected):
    for mine, other in zip(found, expected, strict=True):
        assert mine.dtype == other.dtype and mine.shape == other.shape
        np.testing.assert_array_equal(mine, other)


def same_but_for_ties(found, expected, corpus, queries):
    """faiss lists equal inner products in any order: distances to the bit, and each id is at its distance."""
    same(found[:1], expected[:1])
    for distances, ids in (found, expected):
        row, rank = np.nonzero(ids >= 0)
        np.testing.assert_array_equal((queries[row] * corpus[ids[row, rank]]).sum(1), distances[row, rank])
    tied = np.diff(found[0]) == 0
    assert (np.diff(found[1])[tied & (found[1][:, 1:] >= 0)] > 0).all()  # ours by ascending id


class TestFaiss:
    @pytest.fixture
    def theirs(self):
        return pytest.importorskip("faiss", reason="faiss is not installed: not run")

    @pytest.mark.parametrize("metric", ["METRIC_L2", "METRIC_INNER_PRODUCT", "METRIC_L1", "METRIC_Linf"])
    def test_knn(self, theirs, whole, metric):
        corpus, queries = whole
        kinds = (getattr(module, metric) for module in (ours, theirs))
        assert len({*kinds}) == 1
        kind = getattr(ours, metric)
        for k in (1, 7, 300, 310):
            found, expected = ours.knn(queries, corpus, k, kind), theirs.knn(queries, corpus, k, kind)
            if metric == "METRIC_INNER_PRODUCT":
                same_but_for_ties(found, expected, corpus, queries)
            else:
                same(found, expected)
        same(ours.knn(queries.astype("f8"), corpus.astype("f8"), 3, kind)[:1], theirs.knn(queries, corpus, 3, kind)[:1])
        same(ours.knn(queries, corpus, 0, kind), theirs.knn(queries, corpus, 0, kind))

    @pytest.mark.parametrize(
        "name, limits", [("IndexFlatL2", (0.0, 1.0, 40.0, 41.5)), ("IndexFlatIP", (0.0, 20.0, 33.3))]
    )
    def test_indexes(self, theirs, whole, name, limits):
        corpus, queries = whole
        mine, other = getattr(ours, name)(8), getattr(theirs, name)(8)
        same(mine.search(queries, 2), other.search(queries, 2))  # nothing in it yet
        same(mine.range_search(queries, 5.0), other.range_search(queries, 5.0))
        for part in (corpus[:100], corpus[100:]):
            mine.add(part)
            other.add(part)
        assert (mine.ntotal, mine.d, mine.is_trained, mine.metric_type) == (
            other.ntotal, other.d, other.is_trained, other.metric_type)  # fmt: skip
        bad = queries.copy()
        bad[3, 2], bad[5, 0] = np.nan, np.inf if name == "IndexFlatL2" else np.nan  # there, inner products may be inf
        for asked in (queries, bad):
            if name == "IndexFlatL2":
                same(mine.search(asked, 9), other.search(asked, 9))
            else:
                same_but_for_ties(mine.search(asked, 9), other.search(asked, 9), corpus, queries)
        for limit in limits:
            same(mine.range_search(bad, limit), other.range_search(bad, limit))
        same((mine.reconstruct(7), mine.reconstruct_n(5, 9)), (other.reconstruct(7), other.reconstruct_n(5, 9)))
        mine.reset()
        assert mine.ntotal == 0

    def test_given_places_and_errors(self, whole):
        corpus, queries = whole
        distances, ids = np.empty((20, 4), "f4"), np.empty((20, 4), "i8")
        found = ours.knn_gpu(None, queries, corpus, 4, D=distances, I=ids)
        assert found[0] is distances and found[1] is ids
        same(found, ours.knn(queries, corpus, 4))
        index = ours.IndexFlat(8)
        index.add(corpus)
        assert index.search(queries, 4, D=distances)[0] is distances
        same(ours.knn(corpus.astype("i1")[:9], corpus.astype("i1"), 3), ours.knn(corpus[:9], corpus, 3))
        for call, kind, text in (
            (lambda: index.search(queries[:, :3], 2), ValueError, "queries has d=3, the index has d=8"),
            (lambda: index.search(queries[0], 2), ValueError, "expected 2 dimensions"),
            (lambda: index.search(queries, 0), ValueError, "k must be >= 1"),
            (lambda: index.search(queries, 2, params=1), ValueError, "eligible"),
            (lambda: ours.IndexFlat(8, 23), ValueError, "metric 23"),
        ):
            with pytest.raises(kind, match=text):
                call()

    def test_places_of_another_shape_or_type(self, whole):
        """faiss asserts the shapes, and its wrappers take no other types."""
        corpus, queries = whole
        index = ours.IndexFlat(8)
        index.add(corpus)
        kept, narrow, wide = np.full((20, 1), 7, "f4"), np.empty((20, 4), "i4"), np.empty((20, 4), "f8")
        for call, text in (
            (lambda: index.search(queries, 1, D=kept, I=wide.view("i8")), "I is to be (20, 1) int64, got (20, 4) int64"),
            (lambda: index.search(queries, 4, I=narrow), "I is to be (20, 4) int64, got (20, 4) int32"),
            (lambda: ours.knn_gpu(0, queries, corpus, 4, wide), "D is to be (20, 4) float32, got (20, 4) float64"),
        ):
            with pytest.raises(vicinal.InvalidArgument) as refused:
                call()
            assert str(refused.value) == text
        with pytest.raises(TypeError, match="D must be an array, got list"):
            index.search(queries, 1, D=[[0.0]] * 20)
        assert (kept == 7).all()  # nothing is written where another place is refused
        found = ours.knn_gpu(None, queries, corpus, 4, I=narrow)[1]  # which takes int32, there too
        assert found is narrow
        np.testing.assert_array_equal(narrow, ours.knn(queries, corpus, 4)[1])
        many = np.broadcast_to(np.zeros((1, 8), np.uint8), ((1 << 31) + 1, 8))
        with pytest.raises(vicinal.RangeError, match="int32, which does not number 2147483649 rows"):
            ours.knn_gpu(None, queries, many, 4, I=narrow)


def test_topk_of_arrays(rng):
    x = rng.standard_normal((4, 5, 6)).astype("f4")
    for dim in (None, 0, 1, -1, -3):
        axis = -1 if dim is None else dim
        for largest in (True, False):
            values, indices = our_torch.topk(x, 3, dim, largest)
            order = np.argsort(-x if largest else x, axis=axis, kind="stable").take(range(3), axis)
            np.testing.assert_array_equal(indices, order)
            np.testing.assert_array_equal(values, np.take_along_axis(x, order, axis))
    x[1, 2, 3] = np.nan
    assert our_torch.topk(x, 2).indices[1, 2, 0] == 3 and our_torch.topk(x, 6, largest=False).indices[1, 2, 5] == 3
    out = np.empty((4, 5, 1), "f4"), np.empty((4, 5, 1), "i8")
    assert our_torch.topk(x, 1, out=out).values is out[0]
    for call, text in (
        (lambda: our_torch.topk(x, 1, 3), "dim=3"),
        (lambda: our_torch.topk(x[..., :0], 1), "k=1 exceeds the 0 values"),
        (lambda: our_torch.topk(x, 1, out=(np.empty((4, 5, 3), "f4"), out[1])), r"values is to be \(4, 5, 1\) float32"),
    ):
        with pytest.raises(vicinal.InvalidArgument, match=text):
            call()


def test_topk_beside_torch(rng):
    torch = pytest.importorskip("torch", reason="torch is not installed: not run")
    x = torch.from_numpy(rng.permutation(60).reshape(3, 4, 5).astype("f4"))  # no ties, which torch breaks as it likes
    x[1, 2, 3] = float("nan")
    for dim in (None, 0, 1):
        for largest in (True, False):
            mine, other = our_torch.topk(x, 2, dim, largest), torch.topk(x, 2, -1 if dim is None else dim, largest)
            assert torch.equal(mine.indices, other.indices) and mine.values.dtype == other.values.dtype
            assert torch.equal(mine.values.nan_to_num(99), other.values.nan_to_num(99))
    for module in (our_torch, torch):
        out = torch.empty(0), torch.empty(0, dtype=torch.int64)
        found = module.topk(x[0], 2, out=out)
        assert found.values is out[0] and torch.equal(out[1], our_torch.topk(x[0], 2).indices)


def test_nndescent(rng):
    """Beside pynndescent itself, which compiles for minutes: repro/graphs.py."""
    from vicinal.compat.pynndescent import NNDescent

    x = rng.standard_normal((200, 6)).astype("f4")
    index = NNDescent(x, n_neighbors=8, random_state=1)
    for (ids, distances), wanted in ((index.neighbor_graph, x), (index.query(x[:9] + 0.1, k=5), x[:9] + 0.1)):
        true = vicinal.knn(x, wanted, ids.shape[1])
        assert ids.dtype == np.int32 and distances.dtype == np.float32
        np.testing.assert_array_equal(ids, true.ids)
        np.testing.assert_array_equal(distances, true.distances)
    same(pickle.loads(pickle.dumps(index)).query(x[:3], 4), index.query(x[:3], 4))
    with pytest.raises(ValueError, match="hellinger"):
        NNDescent(x, "hellinger")


def test_nndescent_pads(rng):
    from vicinal.compat.pynndescent import NNDescent

    ids, distances = NNDescent(rng.standard_normal((3, 2)), n_neighbors=5).neighbor_graph
    assert ids[:, 0].tolist() == [0, 1, 2] and (ids[:, 3:] == -1).all() and np.isinf(distances[:, 3:]).all()


def test_opentsne(rng):
    theirs = pytest.importorskip("openTSNE.nearest_neighbors", reason="openTSNE is not installed: not run")
    from vicinal.compat.opentsne import KNNIndex

    x = rng.standard_normal((150, 6))
    for metric in ("euclidean", "cosine", "manhattan"):
        mine, other = KNNIndex(x, 9, metric), theirs.Sklearn(x, 9, metric)
        for found, expected in ((mine.build(), other.build()), (mine.query(x[:7], 4), other.query(x[:7], 4))):
            np.testing.assert_array_equal(found[0], expected[0])
            np.testing.assert_allclose(found[1], expected[1], atol=1e-7)
            assert found[0].dtype == expected[0].dtype and found[1].dtype == expected[1].dtype
    with pytest.raises(ValueError, match="canberra"):
        KNNIndex(x, 9, "canberra")


def test_cuvs_shapes(whole):
    corpus, queries = whole
    for metric, ours_name in (("sqeuclidean", "sqeuclidean"), ("inner_product", "inner_product"), ("cosine", "cosine")):
        rows = corpus + 5
        index = cuvs.brute_force.build(rows, metric)
        distances, ids = cuvs.brute_force.search(index, queries + 5, 6)
        same((distances, ids), vicinal.knn(rows, queries + 5, 6, ours_name))
    mask = np.arange(300) % 3 == 0
    places = np.empty((20, 2), "f4"), np.empty((20, 2), "i8")
    index = cuvs.brute_force.build(corpus)
    found = cuvs.brute_force.search(index, queries, 2, distances=places[0], neighbors=places[1], prefilter=mask)
    assert found[0] is places[0] and found[1] is places[1] and (found[1] % 3 == 0).all()
    for other in (mask.astype("u1"), np.flatnonzero(mask), range(9)):  # ids, to vicinal.knn
        with pytest.raises(TypeError, match="prefilter must be a mask of bools"):
            cuvs.brute_force.search(index, queries, 2, prefilter=other)
    with pytest.raises(vicinal.InvalidArgument, match=r"neighbors is to be \(20, 1\) int64, got \(20, 2\) int64"):
        cuvs.brute_force.search(index, queries, 1, neighbors=places[1])
    values, ids = cuvs.select_k(queries, 3, select_min=False)
    same((values, ids), tuple(vicinal.select_k(queries, 3, largest=True)))
    with pytest.raises(vicinal.InvalidArgument, match=r"indices is to be \(20, 3\) int64, got \(20, 3\) int32"):
        cuvs.select_k(queries, 3, indices=np.empty((20, 3), "i4"))


def test_wrapper_of_ann_benchmarks(rng):
    """Loaded as ann-benchmarks loads it, with a base class of that name; its config names what the module has."""
    folder = Path(__file__).parents[2] / "bench" / "ann_benchmarks"
    names = ("ann", "ann.algorithms", "ann.algorithms.base", "ann.algorithms.base.module")
    packages = {name: types.ModuleType(name) for name in names}
    packages["ann.algorithms.base.module"].BaseANN = type("BaseANN", (), {"__str__": lambda self: self.name})
    for package in packages.values():
        package.__path__ = []
    sys.modules.update(packages)
    try:
        spec = importlib.util.spec_from_file_location("ann.algorithms.vicinal.module", folder / "module.py")
        spec.loader.exec_module(module := importlib.util.module_from_spec(spec))
    finally:
        for name in packages:
            del sys.modules[name]
    config = (folder / "config.yml").read_text()
    assert config.count("constructor: Vicinal\n") == 2 and "base_args: ['@metric']" in config
    x, queries = rng.standard_normal((60, 16)), rng.standard_normal((5, 16))
    for metric, rows, asked, true in (
        ("euclidean", x, queries, vicinal.knn(x.astype("f4"), queries.astype("f4"), 4)),
        ("angular", x, queries, vicinal.knn(x.astype("f4"), queries.astype("f4"), 4, "cosine")),
        ("hamming", x > 0, queries > 0, vicinal.knn(np.packbits(x > 0, 1), np.packbits(queries > 0, 1), 4, "hamming")),
    ):
        algorithm = module.Vicinal(metric)
        algorithm.fit(rows)
        algorithm.batch_query(asked, 4)
        np.testing.assert_array_equal(algorithm.get_batch_results(), true.ids)
        np.testing.assert_array_equal([algorithm.query(query, 4) for query in asked], true.ids)
        assert str(algorithm) == "vicinal()" and algorithm.get_memory_usage() > 0
        algorithm.done()
    with pytest.raises(NotImplementedError, match="jaccard"):
        module.Vicinal("jaccard")


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_tensors_in_tensors_out(rng, device):
    torch = pytest.importorskip("torch", reason="torch is not installed: not run")
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("torch has no CUDA device here: not run")
    a, b = (torch.from_numpy(rng.standard_normal((2, n, 3)).astype("f4")).to(device) for n in (9, 14))
    found = pytorch3d.knn_points(a.requires_grad_(), b, K=4, return_nn=True)
    expected = torch.cdist(a.double(), b.double()).square().topk(4, largest=False)
    assert torch.equal(found.idx, expected.indices) and found.idx.device == found.dists.device == a.device
    assert torch.allclose(found.dists, expected.values.float(), rtol=1e-5)
    gathered = b[torch.arange(2, device=device)[:, None, None], found.idx]
    assert torch.equal(found.knn, gathered)

    x, y = b[0], a[0]
    batch_x, batch_y = torch.arange(14, device=device) // 7, torch.arange(9, device=device) // 5
    edges = torch_cluster.knn(x, y, 3, batch_x, batch_y)
    assert edges.dtype == torch.int64 and edges.shape == (2, 27) and edges.device == x.device
    assert torch.equal(batch_x[edges[1]], batch_y[edges[0]])
    near = torch_cluster.radius(x, y, 1.0)
    assert near.shape[1] == int((torch.cdist(y.double(), x.double()) <= 1.0).sum()) and near.device == x.device
    short = x.bfloat16()
    assert torch.equal(torch_cluster.radius_graph(short, 1.0), torch_cluster.radius_graph(short.float(), 1.0))

    distances, ids = cuvs.brute_force.search(cuvs.brute_force.build(x), y, 3)
    assert (
        torch.equal(ids, torch.cdist(y.double(), x.double()).topk(3, largest=False).indices) and ids.device == x.device
    )
    assert distances.dtype == torch.float32
    values, indices = cuvs.select_k(x, 2)
    expected = x.topk(2, largest=False)
    assert torch.equal(values, expected.values) and torch.equal(indices, expected.indices) and values.device == x.device
    assert torch.equal(our_torch.topk(x, 2, 0).indices, x.topk(2, 0).indices)
