"""Neighbours of points in batches as pytorch3d and torch_cluster have them; what is not installed is not run."""

import numpy as np
import pytest
import vicinal
from vicinal.compat import pytorch3d, torch_cluster


def test_knn_points(rng):
    a, b = rng.standard_normal((3, 10, 4)).astype("f4"), rng.standard_normal((3, 12, 4)).astype("f4")
    lengths1, lengths2 = np.array([10, 7, 3]), np.array([12, 2, 9])
    found = pytorch3d.knn_points(a, b, lengths1, lengths2, K=3, return_nn=True)
    for cloud in range(3):
        squares = ((a[cloud, :, None].astype("f8") - b[cloud, None].astype("f8")) ** 2).sum(-1)
        for row in range(10):
            kept = min(3, lengths2[cloud]) if row < lengths1[cloud] else 0
            order = np.argsort(squares[row, : lengths2[cloud]], kind="stable")[:kept]
            assert found.idx[cloud, row].tolist() == [*order, *[0] * (3 - kept)]
            np.testing.assert_allclose(found.dists[cloud, row, :kept], squares[row, order], rtol=1e-6)
            np.testing.assert_array_equal(found.knn[cloud, row, :kept], b[cloud, order])
            assert (found.knn[cloud, row, kept:] == 0).all() and (found.dists[cloud, row, kept:] == 0).all()
    assert found.idx.dtype == np.int64 and found.dists.dtype == np.float32
    assert pytorch3d.knn_points(a, b, norm=1).knn is None
    for kind in ("uint8", "int16", "int64", "bool"):  # whose squares their own type does not hold
        whole = [np.clip(100 + 40 * side, 0, 1 if kind == "bool" else 255).astype(kind) for side in (a, b)]
        mine, exact = pytorch3d.knn_points(*whole, K=3), pytorch3d.knn_points(*(side.astype("f8") for side in whole), K=3)
        np.testing.assert_array_equal(mine.dists, exact.dists)
        np.testing.assert_array_equal(mine.idx, exact.idx)
        assert mine.dists.dtype == np.result_type(kind, np.float32)


def test_knn_points_of_lists_and_empty_clouds(rng):
    a, b = rng.standard_normal((2, 5, 3)), rng.standard_normal((2, 4, 3))
    wanted = pytorch3d.knn_points(a, b, np.array([5, 2]), np.array([4, 0]), K=2, return_nn=True)
    b[1] = np.nan  # padding may be anything
    for mine, other in zip(pytorch3d.knn_points(a, b, [5, 2], [4, 0], K=2, return_nn=True), wanted):
        np.testing.assert_array_equal(mine, other)
    empty = pytorch3d.knn_points(a, b[:, :0], K=2, return_nn=True)
    assert empty.knn.shape == (2, 5, 2, 3) and not any(values.any() for values in empty)
    for lengths in ([1, 6], [-1, 2]):
        with pytest.raises(vicinal.InvalidArgument, match=f"lengths2: cloud {lengths[0] == 1:d} has {lengths[lengths[0] == 1]} points, of 5"):
            pytorch3d.knn_points(np.zeros((2, 3, 4)), np.zeros((2, 5, 4)), lengths2=np.array(lengths))
    with pytest.raises(TypeError, match="lengths1: expected integers, got dtype float64"):
        pytorch3d.knn_points(np.zeros((2, 3, 4)), np.zeros((2, 5, 4)), lengths1=np.array([1.0, 2]))
    with pytest.raises(vicinal.InvalidArgument, match=r"lengths2 has shape \(1,\), there are 2 clouds"):
        pytorch3d.knn_points(a, b, [5, 2], [4])


def half(x):
    return np.asarray(x).astype(np.float16)


def ml_bfloat16(x):
    kinds = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed: not run")
    return np.asarray(x).astype(kinds.bfloat16)


def torch_bfloat16(x):
    torch = pytest.importorskip("torch", reason="torch is not installed: not run")
    return torch.from_numpy(np.asarray(x)).bfloat16()


def jax_half(x):
    return pytest.importorskip("jax.numpy", reason="jax is not installed: not run").asarray(x, "float16")


@pytest.mark.parametrize("make", [half, ml_bfloat16, torch_bfloat16, jax_half])
def test_knn_points_of_16_bits(rng, make):
    """Distances and points of the type of the points; float16 ends at 65504, bfloat16 just before float32 does."""
    whole = [rng.integers(-3, 4, shape).astype("f4") for shape in ((2, 6, 3), (2, 5, 3))]  # which each type has
    wanted = pytorch3d.knn_points(*whole, [6, 3], [5, 1], K=2, return_nn=True)
    a, b = map(make, whole)
    found = pytorch3d.knn_points(a, b, [6, 3], [5, 1], K=2, return_nn=True)
    for mine, other in zip(found, wanted):
        np.testing.assert_array_equal(np.array(mine.tolist()), other)
    assert found.dists.dtype == found.knn.dtype == a.dtype and isinstance(found.dists, type(a))
    short = make in (half, jax_half)
    name, largest, little = ("float16", 65504.0, 2.0**-12) if short else ("bfloat16", (2 - 2.0**-7) * 2.0**127, 2.0**-9)
    origin, within, far = (make(np.array([[pair]], "f4") * largest) for pair in ((0, 0), (1, little), (1, 2.0**-8)))
    assert float(pytorch3d.knn_points(origin, within, norm=1).dists[0, 0, 0]) == largest
    with pytest.raises(vicinal.RangeError, match=f"beyond {name}; give the points as float32"):
        pytorch3d.knn_points(origin, far, norm=1)


def test_edges_between_points(rng):
    x, y = rng.standard_normal((30, 3)).astype("f4"), rng.standard_normal((12, 3)).astype("f4")
    batch_x, batch_y = np.repeat([0, 1, 2], 10), np.repeat([0, 1, 2], [5, 5, 2])
    distance = np.sqrt(((y[:, None].astype("f8") - x[None].astype("f8")) ** 2).sum(-1))
    distance[batch_y[:, None] != batch_x[None]] = np.inf
    order = np.argsort(distance, axis=1, kind="stable")
    expected = [(row, one) for row in range(12) for one in order[row, :4]]
    assert list(map(tuple, torch_cluster.knn(x, y, 4, batch_x, batch_y).T)) == expected
    assert torch_cluster.knn(x, y, 40, batch_x, batch_y).shape == (2, 120)  # all of the batch
    expected = [(row, one) for row in range(12) for one in order[row] if distance[row, one] <= 1.3][:]
    assert list(map(tuple, torch_cluster.radius(x, y, 1.3, batch_x, batch_y).T)) == expected
    capped = [edge for at, edge in enumerate(expected) if sum(e[0] == edge[0] for e in expected[:at]) < 2]
    assert list(map(tuple, torch_cluster.radius(x, y, 1.3, batch_x, batch_y, max_num_neighbors=2).T)) == capped
    graph = torch_cluster.knn_graph(x, 3, batch_x)
    assert graph.shape == (2, 90) and (graph[1] == np.repeat(np.arange(30), 3)).all() and (graph[0] != graph[1]).all()
    assert (batch_x[graph[0]] == batch_x[graph[1]]).all()
    np.testing.assert_array_equal(torch_cluster.knn_graph(x, 3, batch_x, flow="target_to_source"), graph[::-1])
    loops = torch_cluster.radius_graph(x, 1.0, loop=True)
    assert (loops[0] == loops[1]).sum() == 30 and (np.diff(loops[1]) >= 0).all()
    assert torch_cluster.radius_graph(x, 1.0).shape[1] == loops.shape[1] - 30
    assert torch_cluster.knn(x[:0], y, 4).shape == (2, 0)


def test_edges_beside_torch_cluster(rng):
    torch = pytest.importorskip("torch", reason="torch is not installed: not run")
    theirs = pytest.importorskip("torch_cluster", reason="torch_cluster is not installed: not run")
    x, y = torch.from_numpy(rng.standard_normal((300, 3)).astype("f4")), torch.from_numpy(rng.standard_normal((40, 3)).astype("f4"))
    batch_x, batch_y = torch.arange(300) // 100, torch.arange(40) // 14
    for call in (
        lambda module: module.knn(x, y, 5, batch_x, batch_y),
        lambda module: module.knn(x, y, 5),
        lambda module: module.knn_graph(x, 6, batch_x),
        lambda module: module.knn_graph(x, 6, batch_x, loop=True, flow="target_to_source"),
        lambda module: module.radius(x, y, 0.9, batch_x, batch_y, max_num_neighbors=300),
        lambda module: module.radius_graph(x, 0.7, batch_x, max_num_neighbors=300),
    ):
        mine, other = (sorted(map(tuple, call(module).T.tolist())) for module in (torch_cluster, theirs))
        assert mine == other
