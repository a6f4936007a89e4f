"""vicinal.dask: bytes of one process, whatever the cluster does."""

import os
import signal
import threading

import numpy as np
import pytest
import vicinal

pytest.importorskip("dask")
pytest.importorskip("distributed")

import dask  # noqa: E402
import dask.array as da  # noqa: E402
import vicinal.dask as vd  # noqa: E402
from dask.distributed import Client, LocalCluster, futures_of, wait  # noqa: E402
from dask.utils import key_split  # noqa: E402


def whole_numbers(rng, rows, columns=8):
    return rng.integers(0, 4, (rows, columns)).astype(np.float32)


def equal(left, right):
    return all(np.asarray(a).tobytes() == np.asarray(b).tobytes() and a.dtype == b.dtype for a, b in zip(left, right))


def lists_of(found):
    return found.offsets, found.distances, found.ids


@pytest.fixture(scope="module")
def client():
    with dask.config.set({"distributed.worker.use-file-locking": False}):
        cluster = LocalCluster(n_workers=2, threads_per_worker=1, memory_limit="1GB", dashboard_address=None, resources={"GPU": 1})
        with cluster, Client(cluster) as connected:
            yield connected


@pytest.fixture
def files(rng, tmp_path):
    rows = whole_numbers(rng, 3_000)
    paths = []
    for number, part in enumerate(np.array_split(rows, 5)):
        paths.append(str(tmp_path / f"part-{number}.npy"))
        np.save(paths[-1], part)
    return rows, paths


@pytest.mark.parametrize("block_rows", [None, 7])
def test_threads_without_a_cluster(block_rows, rng):
    corpus, queries = whole_numbers(rng, 500), whole_numbers(rng, 30)
    x, q = da.from_array(corpus, chunks=(130, 3)), da.from_array(queries, chunks=(11, -1))
    wanted = vicinal.knn(corpus, queries, 9)
    found = vd.knn(x, q, 9, block_rows=block_rows)
    assert found.ids.chunks[0] == tuple(last - first for first, last in found.plan.blocks)
    assert equal(found, wanted) and equal(found.compute(), wanted)
    assert equal(vd.knn_graph(x, 6, block_rows=block_rows).compute(), vicinal.knn_graph(corpus, 6))
    for how in ("union", "mutual"):
        graph = vd.knn_graph(x, 6, symmetrize=how, block_rows=block_rows)
        assert equal(lists_of(graph.compute()), lists_of(vicinal.knn_graph(corpus, 6, symmetrize=how)))
    near = vd.range_search(x, q, 2.5, block_rows=block_rows)
    assert equal(lists_of(near.compute()), lists_of(vicinal.range_search(corpus, queries, 2.5)))


def test_files_of_parts_that_workers_open(client, files, rng):
    rows, paths = files
    queries = whole_numbers(rng, 100)
    wanted = vicinal.knn(rows, queries, 10)
    found = vd.knn(os.path.join(os.path.dirname(paths[0]), "part-*.npy"), queries, 10)
    assert equal(found, wanted) and found.plan.workers == 2
    large = whole_numbers(rng, 40_000)
    np.save(paths[0], large)
    small = vd.knn(paths[0], queries, 10, memory="2 MiB")  # of a task: it is cut
    assert len(small.plan.parts) > 1 and small.plan.task_bytes <= 2 << 20 and equal(small.compute(), vicinal.knn(large, queries, 10))
    np.save(paths[0], rows[:600])
    assert equal(vd.knn(paths, paths[1:2], 10).compute(), vicinal.knn(rows, rows[600:1200], 10))


def test_tasks_have_names_retries_and_resources(client, files, rng):
    _, paths = files
    search = vd.Search("knn", paths, whole_numbers(rng, 10), 5, "euclidean", resources={"GPU": 1}, retries=4)
    block = search.neighbors(persist=False).blocks[0]
    said = {}
    for facts in block.dask.layers.values():
        for name, value in (facts.annotations or {}).items():
            for key in map(str, facts):
                said.setdefault(key_split(key), {})[name] = value(key) if callable(value) else value
    assert said["knn-local"] == {"retries": 4, "resources": {"GPU": 1}} and said["knn-merge"]["retries"] == 4
    assert equal(vd.knn(paths, paths[0], 5, resources={"GPU": 1}).compute(), vd.knn(paths, paths[0], 5).compute())
    with pytest.raises(vicinal.InvalidArgument, match="no worker has the resources TPU=1"):
        vd.knn(paths, paths[0], 5, resources={"TPU": 1})


def test_a_bad_row_is_named_by_its_file(client, files):
    rows, paths = files
    part = rows[600:1200].copy()
    part[17, 3] = np.nan
    np.save(paths[1], part)
    with pytest.raises(vicinal.InvalidValue, match=r"part-1\.npy row 17 \(corpus row 617\), column 3 is NaN"):
        vd.knn(paths, rows[:10], 5, retries=0).compute()


def test_what_does_not_fit_is_refused_before_the_work(client, rng):
    x = da.from_array(whole_numbers(rng, 100_000, 64), chunks=(100_000, 64))
    with pytest.raises(vicinal.MemoryBudget, match="chunk of 100000 rows .* rechunk it to"):
        vd.knn(x, x[:10], 5, memory="20 MiB")
    with pytest.raises(vicinal.InvalidArgument, match="k=11 exceeds the 10 rows"):
        vd.knn(x[:10], x[:3], 11)
    with LocalCluster(n_workers=1, threads_per_worker=1, memory_limit="100MB", dashboard_address=None) as cluster, Client(cluster) as poor:
        with pytest.raises(vicinal.MemoryBudget, match=r"has 100000000 bytes \(memory_limit\).*give it at least"):
            vd.knn(x, x[:10], 5, client=poor)


@pytest.mark.parametrize("kind", ["range", "mask", "labels"])
def test_eligible_rows(client, kind, rng):
    corpus, queries = whole_numbers(rng, 400), whole_numbers(rng, 20)
    options = {
        "range": dict(eligible=range(50, 300)), "mask": dict(eligible=rng.random(400) < 0.4),
        "labels": dict(labels=(rng.integers(0, 3, 400), rng.integers(0, 3, 20)), label_rule="other"),
    }[kind]  # fmt: skip
    x = da.from_array(corpus, chunks=(90, -1))
    wanted = vicinal.knn(corpus, queries, 200, pad=True, **options)
    found = vd.knn(x, queries, 200, pad=True, block_rows=6, **options).compute()
    assert equal(found, wanted) and found.counts.tolist() == wanted.counts.tolist()


def test_masks_and_labels_are_of_the_whole(rng):
    x = da.from_array(whole_numbers(rng, 100), chunks=(30, -1))
    with pytest.raises(vicinal.InvalidArgument, match=r"eligible has shape \(101,\), the corpus has 100 rows"):
        vd.knn(x, x, 3, eligible=np.ones(101, bool))
    with pytest.raises(vicinal.InvalidArgument, match=r"ids are >= 0, got -1"):
        vd.knn(x, x, 3, eligible=[-1, 4])
    with pytest.raises(vicinal.InvalidArgument, match=r"query labels have shape \(9,\), there are 100 rows"):
        vd.knn(x, x, 3, labels=(np.zeros(100, int), np.zeros(9, int)))


def test_an_empty_list_of_eligible_rows(client, rng):
    x = da.from_array(whole_numbers(rng, 100), chunks=(30, -1))
    assert (vd.knn(x, x, 3, eligible=[], pad=True).compute().ids == -1).all()
    with pytest.raises(vicinal.InvalidArgument, match="a range of ids has step 1, got 2"):
        vd.knn(x, x, 3, eligible=slice(0, 100, 2))


def test_masked_arrays_are_refused(client, rng):
    rows = whole_numbers(rng, 100)
    x, masked = da.from_array(rows, chunks=(30, -1)), np.ma.masked_greater(rows, 1)
    labels = np.ma.masked_greater(np.arange(100), 3)
    for call in (
        lambda: vd.knn(masked, x, 3),
        lambda: vd.knn(x, masked, 3),
        lambda: vd.knn(x, x, 3, eligible=labels),
        lambda: vd.knn(x, x, 3, labels=(labels, labels)),
        lambda: vd.knn_graph(x, 3, labels=labels),
        lambda: vd.KNeighborsClassifier().fit(x, labels),
    ):
        with pytest.raises(TypeError, match="masked arrays are not supported"):
            call()


def test_distances_of_short_integers_are_those_of_one_process(client, rng):
    corpus, queries = whole_numbers(rng, 100).astype(np.int16), whole_numbers(rng, 20).astype(np.uint16)
    assert equal(vd.knn(da.from_array(corpus, chunks=(30, -1)), queries, 5), vicinal.knn(corpus, queries, 5))


def test_verify_of_a_claim(client, files, rng):
    rows, paths = files
    queries = whole_numbers(rng, 60)
    truth = vicinal.knn(rows, queries, 8)
    assert vd.verify(paths, queries, truth).ok()
    claimed = truth.ids.copy()
    claimed[41, 7] = (set(range(3_000)) - set(truth.ids[41])).pop()
    wanted = vicinal.verify(rows, queries, claimed)
    found = vd.verify(paths, queries, da.from_array(claimed, chunks=(13, -1)), block_rows=9)
    assert (found.correct, found.wrong, found.recall) == (wanted.correct, wanted.wrong, pytest.approx(wanted.recall))
    assert [(one.row, one.kind) for one in found.faults] == [(one.row, one.kind) for one in wanted.faults]
    assert equal(found.truth, truth)


def test_results_are_stored_in_blocks(client, files, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    rows, paths = files
    wanted = vicinal.knn_graph(rows, 5)
    graph = vd.knn_graph(paths, 5, block_rows=700, persist=False)
    written = graph.to_parquet(tmp_path / "graph")
    assert len(written) == len(graph.blocks) > 1
    tables = [parquet.read_table(path) for path in written]
    assert np.concatenate([np.stack(table["ids"].to_numpy(zero_copy_only=False)) for table in tables]).tobytes() == wanted.ids.tobytes()
    matrices = dask.compute(*graph.to_csr_blocks())
    assert sum(matrix.nnz for matrix in matrices) == 15_000 and matrices[0].shape[1] == 3_000
    zarr = pytest.importorskip("zarr")
    graph.to_zarr(tmp_path / "graph.zarr")
    group = zarr.open_group(tmp_path / "graph.zarr", mode="r")
    assert (group["ids"][:] == wanted.ids).all() and (group["distances"][:] == wanted.distances).all()
    union = vd.knn_graph(paths, 5, block_rows=700, symmetrize="union")
    union.to_zarr(tmp_path / "union.zarr")
    second = zarr.open_group(tmp_path / "union.zarr", mode="r")["block-00001"]
    assert second.attrs["first"] == union.plan.blocks[1][0]
    whole = vicinal.knn_graph(rows, 5, symmetrize="union")
    first, last = union.plan.blocks[1]
    assert second["ids"][:].tobytes() == whole.ids[whole.offsets[first] : whole.offsets[last]].tobytes()


def test_zarr_and_data_frames(client, rng, tmp_path):
    frames, pandas, zarr = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas"), pytest.importorskip("zarr")
    rows = whole_numbers(rng, 500)
    wanted = vicinal.knn(rows, rows[:20], 5)
    array = zarr.create_array(str(tmp_path / "x.zarr"), shape=rows.shape, chunks=(90, 8), dtype="float32")
    array[:] = rows
    assert equal(vd.knn(str(tmp_path / "x.zarr"), rows[:20], 5), wanted) and equal(vd.knn(array, rows[:20], 5), wanted)
    frame = frames.from_pandas(pandas.DataFrame(rows, columns=list("abcdefgh")), npartitions=4)
    assert equal(vd.knn(frame, rows[:20], 5), wanted)


def killing(cluster, stop, rng):
    """Kills a worker's process, any one, until told to stop."""
    while not stop.wait(float(rng.uniform(0.3, 1.0))):
        pids = [nanny.pid for nanny in cluster.workers.values() if nanny.pid]
        if pids:
            os.kill(int(rng.choice(pids)), signal.SIGKILL)


def test_killed_workers_cost_their_tasks_alone(rng):
    corpus, queries = whole_numbers(rng, 60_000, 16), whole_numbers(rng, 2_000, 16)
    wanted = vicinal.knn(corpus, queries, 10)
    x = da.from_array(corpus, chunks=(5_000, -1))
    with LocalCluster(n_workers=3, threads_per_worker=1, memory_limit="1GB", dashboard_address=None) as cluster, Client(cluster) as client:
        # Lists that are merged already and lost with the worker that holds them are made again.
        found = vd.knn(x, queries, 10, client=client, block_rows=500)
        wait(futures_of(found.blocks))
        holder = next(iter(client.who_has(futures_of(found.blocks[0])).values()))[0]
        os.kill(next(nanny.pid for nanny in cluster.workers.values() if nanny.worker_address == holder), signal.SIGKILL)
        assert equal(found.compute(), wanted)
        client.wait_for_workers(3)
        stop = threading.Event()
        thread = threading.Thread(target=killing, args=(cluster, stop, rng), daemon=True)
        thread.start()
        try:
            found = vd.knn(x, queries, 10, client=client, block_rows=50, memory="8 MiB").compute()
        except Exception as error:  # the one clear error, when a task was on too many workers that died
            assert "KilledWorker" in type(error).__name__, error
            return
        finally:
            stop.set()
            thread.join()
    assert equal(found, wanted)


def test_estimators_have_the_calls_of_cuml(client, rng):
    """The documented program of cuml.dask.neighbors, with the import changed."""
    neighbors, frames, pandas = pytest.importorskip("sklearn.neighbors"), pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    rows = rng.standard_normal((400, 6)).astype(np.float32)
    df = frames.from_pandas(pandas.DataFrame(rows, columns=list("abcdef")), npartitions=3)

    nn = vd.NearestNeighbors(n_neighbors=10, client=client)
    nn.fit(df)
    distances, indices = nn.kneighbors(df)

    wanted = vicinal.knn(rows, rows, 10)
    assert (indices.compute().to_numpy() == wanted.ids).all() and (distances.compute().to_numpy() == wanted.distances).all()
    assert nn.kneighbors(n_neighbors=3, return_distance=False).compute().shape == (400, 3)
    labels, queries = rng.integers(5, 9, 400), rng.standard_normal((50, 6)).astype(np.float32)
    x, y, q = da.from_array(rows, chunks=(90, -1)), da.from_array(labels, chunks=70), da.from_array(queries, chunks=(20, -1))
    for weights in ("uniform", "distance"):
        theirs = neighbors.KNeighborsClassifier(7, weights=weights, algorithm="brute").fit(rows, labels)
        ours = vd.KNeighborsClassifier(n_neighbors=7, client=client, weights=weights, streams_per_handle=0, verbose=False).fit(x, y)
        assert (ours.predict(q).compute() == theirs.predict(queries)).all()
        assert np.allclose(ours.predict_proba(q).compute(), theirs.predict_proba(queries), atol=1e-6)
        assert ours.score(x, y) == pytest.approx(theirs.score(rows, labels))
        values = rng.standard_normal((400, 2))
        model = neighbors.KNeighborsRegressor(7, weights=weights, algorithm="brute").fit(rows, values)
        mine = vd.KNeighborsRegressor(n_neighbors=7, weights=weights).fit(x, da.from_array(values, chunks=(110, -1)))
        assert np.allclose(mine.predict(q).compute(), model.predict(queries), atol=1e-6)
        assert mine.score(q, model.predict(queries)) == pytest.approx(1)
    with pytest.raises(ValueError, match="Expected 0 < n_neighbors <= n_samples_fit"):
        nn.kneighbors(df, n_neighbors=401)
    with pytest.raises(TypeError, match="unexpected keyword argument 'neighbours'"):
        vd.NearestNeighbors(neighbours=3)


def test_labels_of_several_outputs(client, rng):
    rows, labels = whole_numbers(rng, 200), np.stack([rng.integers(0, 3, 200), rng.integers(0, 5, 200)], axis=1)
    theirs = pytest.importorskip("sklearn.neighbors").KNeighborsClassifier(1, algorithm="brute").fit(rows + np.arange(8) / 97, labels)
    ours = vd.KNeighborsClassifier(n_neighbors=1).fit(rows + np.arange(8, dtype=np.float32) / 97, labels)
    assert (ours.predict(rows).compute().shape, len(ours.predict_proba(rows)), ours.n_unique) == ((200, 2), 2, [3, 5])
    assert theirs.predict(rows).shape == (200, 2)


def test_parameters_of_the_transformer():
    given = dict(n_neighbors=7, metric="minkowski", p=1, batch_size=100, mode="connectivity", client=None, threads=2)
    model = vd.KNeighborsTransformer(**given)
    assert model.get_params() == given == vd.KNeighborsTransformer(**model.get_params()).get_params()
    assert model.set_params(p=2, memory="1 GiB").get_params() == {**given, "p": 2, "memory": "1 GiB"}
    with pytest.raises(ValueError, match="Invalid parameter 'neighbours' for estimator KNeighborsTransformer"):
        model.set_params(p=1, neighbours=3)
    assert model.p == 2
    clone = pytest.importorskip("sklearn.base").clone
    assert clone(model).get_params() == model.get_params()


def test_scanpy_takes_the_transformer(client, rng):
    scanpy, anndata = pytest.importorskip("scanpy"), pytest.importorskip("anndata")
    rows = rng.standard_normal((300, 20)).astype(np.float32)
    ours, theirs = anndata.AnnData(rows.copy()), anndata.AnnData(rows.copy())
    scanpy.pp.neighbors(ours, n_neighbors=15, use_rep="X", transformer=vd.KNeighborsTransformer(n_neighbors=15, client=client))
    scanpy.pp.neighbors(theirs, n_neighbors=15, use_rep="X", transformer=vicinal.neighbors.KNeighborsTransformer(n_neighbors=15))
    difference = ours.obsp["connectivities"] - theirs.obsp["connectivities"]
    assert abs(difference).max() < 1e-5 and (ours.obsp["distances"] != 0).nnz == (theirs.obsp["distances"] != 0).nnz
