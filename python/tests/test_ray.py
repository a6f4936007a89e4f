"""vicinal.ray: bytes of one process, ids of the users', and actors that die."""

import os
import signal
import time

import numpy as np
import pytest
import vicinal

ray = pytest.importorskip("ray")
pytest.importorskip("ray.data")
arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

import vicinal.ray as vr  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def cluster():
    ray.init(num_cpus=3, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield
    ray.shutdown()


@pytest.fixture
def tables(rng, tmp_path):
    """Rows with many equal distances, their ids, and both as folders of Parquet."""
    corpus, queries = rng.integers(0, 5, (3_000, 8)).astype(np.float32), rng.integers(0, 5, (200, 8)).astype(np.float32)
    ids = np.array([f"doc-{number:05}" for number in rng.permutation(3_000)])
    for folder, rows, names, files in (("corpus", corpus, ids, 5), ("queries", queries, 10**12 + np.arange(200)[::-1], 2)):
        os.makedirs(tmp_path / folder)
        for number, part in enumerate(np.array_split(np.arange(len(rows)), files)):
            lists = arrow.FixedSizeListArray.from_arrays(arrow.array(rows[part].ravel()), 8)
            parquet.write_table(arrow.table({"id": names[part], "vector": lists}), tmp_path / folder / f"part-{number}.parquet")
    return corpus, queries, ids, ray.data.read_parquet(str(tmp_path / "corpus")), ray.data.read_parquet(str(tmp_path / "queries"))


def lists(table, name, kind):
    return np.stack([np.asarray(item, kind) for item in table[name].to_pylist()])


def test_parquet_in_and_out_with_ids_of_the_users(tables, tmp_path):
    corpus, queries, ids, rows, asking = tables
    wanted = vicinal.knn(corpus, queries, 12)
    found = vr.knn(rows, asking, 12, id_column="id", query_id_column="id", block_rows=60)
    found.write_parquet(str(tmp_path / "out"))
    table = arrow.concat_tables([parquet.read_table(path) for path in sorted((tmp_path / "out").iterdir())]).sort_by([("id", "descending")])
    assert table["id"].to_pylist() == (10**12 + np.arange(200)[::-1]).tolist()
    assert (lists(table, "ids", ids.dtype) == ids[wanted.ids]).all()
    assert lists(table, "distances", np.float32).tobytes() == wanted.distances.tobytes()


def test_a_tree_of_merges_has_the_bits_of_one_process(tables):
    corpus, queries, _, _, asking = tables
    large = np.concatenate([corpus] * 40)
    told = vr.plan(ray.data.from_numpy(np.array_split(large, 7)), asking, 12, column="data", query_column="vector", memory="2 MiB")
    assert len(told.parts) > 1 and told.task_bytes <= 2 << 20
    found = vr.knn(ray.data.from_numpy(np.array_split(large, 7)), asking, 12, column="data", query_column="vector", memory="2 MiB")
    table = arrow.concat_tables(ray.get(found.to_arrow_refs()))
    wanted = vicinal.knn(large, queries, 12)
    assert table["query"].to_pylist() == list(range(200))
    assert lists(table, "ids", np.int64).tobytes() == wanted.ids.tobytes()
    assert lists(table, "distances", np.float32).tobytes() == wanted.distances.tobytes()


def test_what_is_refused(tables):
    corpus, _, ids, rows, asking = tables
    with pytest.raises(vicinal.InvalidArgument, match="no column 'vectors'; it has id, vector"):
        vr.knn(rows, asking, 3, column="vectors")
    with pytest.raises(vicinal.InvalidArgument, match="num_gpus=1, the cluster has 0"):
        vr.knn(rows, asking, 3, num_gpus=1)
    with pytest.raises(vicinal.InvalidArgument, match="k=3001 exceeds the 3000 rows"):
        vr.knn(rows, asking, 3001)
    with pytest.raises(vicinal.MemoryBudget, match="give workers more memory"):
        vr.knn(rows, asking, 3, memory="100 KiB")
    bad = corpus.copy()
    bad[1217, 3] = np.nan
    with pytest.raises(vicinal.InvalidValue, match="corpus row 1217, column 3 is NaN"):
        vr.knn(ray.data.from_numpy(np.array_split(bad, 4)), asking, 3, column="data", query_column="vector").take_all()
    lists = arrow.FixedSizeListArray.from_arrays(arrow.array(bad.ravel()), 8)
    with pytest.raises(vicinal.InvalidValue, match=rf"corpus row 1217 \(id {ids[1217]}\), column 3 is NaN"):
        vr.knn(ray.data.from_arrow(arrow.table({"id": ids, "vector": lists})), asking, 3, id_column="id").take_all()


def dataset(rows, **columns):
    lists = arrow.FixedSizeListArray.from_arrays(arrow.array(rows.ravel()), rows.shape[1])
    return ray.data.from_arrow(arrow.table({"vector": lists, **columns}))


def table_of(found):
    return arrow.concat_tables(ray.get(found.to_arrow_refs()))


def test_large_ids_stay_exact_and_none_may_be_missing(tables):
    corpus, queries, _, _, _ = tables
    ids = 2**60 + np.arange(3_000)
    table = table_of(vr.knn(dataset(corpus, id=ids), dataset(queries), 3, id_column="id"))
    assert (lists(table, "ids", np.int64) == ids[vicinal.knn(corpus, queries, 3).ids]).all()
    gap = [*ids[:2_000].tolist(), None, *ids[2_001:].tolist()]
    with pytest.raises(vicinal.InvalidValue, match=r"corpus: column 'id', row 2000 is missing \(1 in all\)"):
        vr.knn(dataset(corpus, id=gap).repartition(4), dataset(queries), 3, id_column="id")


def test_integers_of_blocks_of_several_types_stay_exact(tables):
    corpus, queries, _, _, _ = tables
    signed, unsigned = dataset(corpus[:1_500], id=2**60 + np.arange(1_500)), dataset(corpus[1_500:], id=2**60 + np.arange(1_500, 3_000).astype(np.uint64))
    table = table_of(vr.knn(signed.union(unsigned), dataset(queries), 3, id_column="id"))
    assert (lists(table, "ids", np.int64) == 2**60 + vicinal.knn(corpus, queries, 3).ids).all()
    with pytest.raises(vicinal.InvalidValue, match="corpus row 1, column 0 is 9007199254740993"):
        vr.Knn([corpus[:1], np.full((1, 8), 2**53 + 1)], 1)


def test_no_queries_and_no_rows(tables):
    corpus, queries, ids, _, _ = tables
    for by in ({}, dict(id_column="id", query_id_column="id")):
        table = table_of(vr.knn(dataset(corpus, id=ids), dataset(queries[:0], id=[]), 3, **by))
        assert table.num_rows == 0 and {"ids", "distances"} < set(table.column_names)
    table = table_of(vr.knn(dataset(corpus[:0]), dataset(queries), 3, pad=True))
    assert table["ids"].to_pylist() == [[]] * 200


def test_distances_of_short_integers_are_those_of_one_process(tables):
    corpus, queries = tables[0].astype(np.int16), tables[1].astype(np.uint16)
    table = table_of(vr.knn(dataset(corpus), dataset(queries), 3))
    assert lists(table, "distances", np.float32).tobytes() == vicinal.knn(corpus, queries, 3).distances.tobytes()
    assert table.schema.field("distances").type.value_type == arrow.float32()


def test_actors_of_which_one_is_killed(tables, tmp_path):
    corpus, queries, ids, _, _ = tables

    class Told(vr.Knn):  # here, so that it travels by value: workers have no module of tests
        """Writes the number of its process to a folder, and takes its time."""

        def __init__(self, folder, **options):
            super().__init__(**options)
            self.folder = folder

        def __call__(self, batch):
            open(os.path.join(self.folder, str(os.getpid())), "w").close()
            time.sleep(0.1)
            return super().__call__(batch)

    many = np.concatenate([queries] * 5)
    np.save(tmp_path / "corpus.npy", corpus)
    os.makedirs(tmp_path / "seen")
    chunks = ray.data.from_numpy(np.array_split(many, 20))
    chunks.context.execution_options.preserve_order = True
    arguments = dict(folder=str(tmp_path / "seen"), corpus=str(tmp_path / "corpus.npy"), k=7, column="data", ids=ids)
    actors = chunks.map_batches(Told, batch_size=20, batch_format="numpy", compute=ray.data.ActorPoolStrategy(size=3), num_cpus=0.5,
                                fn_constructor_kwargs=arguments)  # fmt: skip
    killed, batches = 0, []
    for batch in actors.iter_batches(batch_size=20, batch_format="numpy", prefetch_batches=0):
        batches.append(batch)
        if not killed:
            killed = int(os.listdir(tmp_path / "seen")[0])
            os.kill(killed, signal.SIGKILL)
    assert killed
    wanted = vicinal.knn(corpus, many, 7)
    assert (np.concatenate([batch["data"] for batch in batches]) == many).all()
    assert (np.concatenate([batch["ids"] for batch in batches]) == ids[wanted.ids]).all()
    assert np.concatenate([batch["distances"] for batch in batches]).tobytes() == wanted.distances.tobytes()


def test_the_class_alone(rng):
    """As map_batches calls it, without Ray."""
    corpus, queries = rng.standard_normal((50, 4)).astype(np.float32), rng.standard_normal((6, 4)).astype(np.float32)
    column = np.empty(6, object)
    column[:] = list(queries)
    wanted = vicinal.knn(corpus, queries, 3)
    answer = vr.Knn([corpus[:20], ray.put(corpus[20:])], 3, column="v", ids_to="near", distances_to="far")({"v": column, "name": np.arange(6)})
    assert (answer["near"] == wanted.ids).all() and (answer["far"] == wanted.distances).all() and answer["name"].tolist() == list(range(6))
    column[2] = np.zeros(3)
    with pytest.raises(vicinal.InvalidArgument, match="rows are of one length"):
        vr.Knn(corpus, 3, column="v")({"v": column})
    with pytest.raises(vicinal.InvalidArgument, match="3 ids for 50 rows"):
        vr.Knn(corpus, 3, ids=np.arange(3))
