"""Pickles, and what is built on them: the same bits afterwards, in this process and in others; damaged bytes are our errors."""

import copy
import io
import math
import pickle
import subprocess
import sys
import textwrap

import numpy as np
import oracle
import pytest
import vicinal

PROTOCOLS = range(2, pickle.HIGHEST_PROTOCOL + 1)


def through(thing, protocol, out_of_band=False):
    if not out_of_band:
        return pickle.loads(pickle.dumps(thing, protocol))
    buffers = []
    data = pickle.dumps(thing, 5, buffer_callback=buffers.append)
    return pickle.loads(data, buffers=[bytes(buffer.raw()) for buffer in buffers])


def same_bits(one, other):
    for left, right in zip(one, other):
        assert oracle.same_bits(np.asarray(left), np.asarray(right))


def absolute(query, thing):
    return abs(query - thing)


@pytest.fixture
def rows(rng):
    return (rng.standard_normal((400, 20)) * 20 + 50).astype(np.float32)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "uint8", "int8"])
@pytest.mark.parametrize("metric", ["euclidean", "cosine", "inner_product", "linf"])
def test_corpus(rows, dtype, metric):
    rows = rows.astype(dtype)
    corpus = vicinal.Corpus(rows[::-1], metric, threads=2, memory="300MB", degenerate="one")
    want, graph = corpus.knn(rows[:9], 7), corpus.knn_graph(4)
    for got in [*(through(corpus, protocol) for protocol in PROTOCOLS), through(corpus, 5, True), copy.deepcopy(corpus),
                through(through(corpus, 5), 5)]:  # fmt: skip
        assert (got.shape, got.dtype, got.metric, got.resident) == (corpus.shape, corpus.dtype, metric, True)
        assert (got._device, got._threads, got._memory) == ("auto", 2, "300MB")
        same_bits(got.knn(rows[:9], 7), want)
        same_bits(got.knn_graph(4), graph)
    assert copy.copy(corpus) is corpus


def test_the_rule_for_degenerate_rows_goes_along():
    rows = np.array([[0, 0], [1, 0], [0, 2]], np.float32)
    corpus = through(vicinal.Corpus(rows, "cosine", degenerate="one"), 5)
    assert corpus.knn(rows, 3).distances[0].tolist() == [1, 1, 1]


def test_rows_stay_where_the_pickle_has_them(rows):
    """Out of band nothing is copied on the way in: what is held beside the rows is what was held before."""
    corpus, buffers = vicinal.Corpus(rows), []
    data = pickle.dumps(corpus, 5, buffer_callback=buffers.append)
    assert len(data) < 2000 and len(buffers) == 1
    assert rows.nbytes <= len(buffers[0].raw()) < rows.nbytes + 1000
    memory = np.frombuffer(buffers[0], np.uint8).copy()
    got = pickle.loads(data, buffers=[memory])
    assert got.nbytes == corpus.nbytes
    want = corpus.knn(rows[:5], 3)
    del buffers, memory, data  # the corpus holds what it sees
    same_bits(got.knn(rows[:5], 3), want)


def test_a_corpus_of_a_file_pickles_its_rows(rows, tmp_path):
    path = tmp_path / "corpus.vicinal"
    vicinal.Corpus(rows).save(path)
    for options in ({}, {"copy": True}, {"verify": False}):
        data = pickle.dumps(vicinal.Corpus.open(path, **options))
        assert len(data) > rows.nbytes
        path.rename(tmp_path / "elsewhere.vicinal")
        same_bits(pickle.loads(data).knn(rows[:9], 7), vicinal.knn(rows, rows[:9], 7))
        (tmp_path / "elsewhere.vicinal").rename(path)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ 0x82F63B78 * (crc & 1)
    return crc ^ 0xFFFFFFFF


@pytest.mark.parametrize("make", [lambda x: vicinal.Corpus(x), lambda x: vicinal.PermutationIndex(x, permutants=5)])
def test_damaged_bytes_and_newer_versions(rows, make):
    thing, buffers = make(rows[:50]), []
    data = pickle.dumps(thing, 5, buffer_callback=buffers.append)
    good = bytes(buffers[0].raw())
    assert len(pickle.loads(data, buffers=[good])) == 50
    for at in [0, 9, 20, 40, 100, 300, len(good) // 2, len(good) - 1]:
        bad = bytearray(good)
        bad[at] ^= 4
        with pytest.raises(vicinal.FormatError, match="^saved bytes: "):
            pickle.loads(data, buffers=[bytes(bad)])
    for size in (0, 7, 255, 300, len(good) - 1):
        with pytest.raises(vicinal.FormatError, match="^saved bytes: "):
            pickle.loads(data, buffers=[good[:size]])
    newer = bytearray(good)
    newer[8] = 2
    newer[252:256] = crc32c(newer[:252]).to_bytes(4, "little")
    with pytest.raises(vicinal.VersionError):
        pickle.loads(data, buffers=[bytes(newer)])


def test_a_device_that_is_not_here(rows):
    corpus = vicinal.Corpus(rows)
    corpus._device = "cuda:63"  # as if it had been made on such a machine
    data = pickle.dumps(corpus)
    with pytest.raises(vicinal.DeviceError, match="CUDA device 63"):
        pickle.loads(data)


class Named(vicinal.Corpus):
    """A user's own."""


def test_subclasses_keep_their_attributes(rows):
    named = Named(rows)
    named.name = "mine"
    got = through(named, 5)
    assert type(got) is Named and got.name == "mine" and len(got) == 400


@pytest.mark.parametrize("form", ["ranks", "prefix", "bits", "components"])
def test_permutation_index(rows, form):
    index = vicinal.PermutationIndex(rows, permutants=30, form=form, seed=3, fraction=0.2, threads=1)
    for got in [*(through(index, protocol) for protocol in PROTOCOLS), through(index, 5, True), copy.deepcopy(index)]:
        assert repr(got) == repr(index) and got.permutants.tolist() == index.permutants.tolist()
        for aim in ({}, {"exact": True}, {"recall": 0.9}):
            want, found = index.knn(rows[:20] + 1, 5, **aim), got.knn(rows[:20] + 1, 5, **aim)
            same_bits(found, want)
            assert found.fraction == want.fraction and repr(found.recall) == repr(want.recall)  # NaN where nothing was measured
    assert copy.copy(index) is index


def test_permutation_index_of_strings(rng):
    words = ["".join(rng.choice(list("abc\N{GREEK SMALL LETTER ALPHA}"), rng.integers(0, 9))) for _ in range(200)]
    index = vicinal.PermutationIndex(words, "levenshtein", permutants=20)
    got = through(index, 5)
    same_bits(got.knn(words[:9], 4, exact=True), index.knn(words[:9], 4, exact=True))


def test_permutation_index_with_a_callable(rng):
    numbers = rng.standard_normal(150).tolist()
    for choice in ("random", "farthest_first"):
        index = vicinal.PermutationIndex(numbers, absolute, permutants=9, choice=choice, seed=7, fraction=0.2)
        got = through(through(index, 4), 5)
        assert got.permutants.tolist() == index.permutants.tolist() and got.metric == "absolute"
        same_bits(got.knn(numbers[:5], 3), index.knn(numbers[:5], 3))
    with pytest.raises((pickle.PicklingError, AttributeError), match="pickle|lambda|local"):
        pickle.dumps(vicinal.PermutationIndex(numbers, lambda a, b: abs(a - b), permutants=9))
    cloudpickle = pytest.importorskip("cloudpickle")
    index = vicinal.PermutationIndex(numbers, lambda a, b: abs(a - b), permutants=9, fraction=0.2)
    got = pickle.loads(cloudpickle.dumps(index))
    same_bits(got.knn(numbers[:5], 3), index.knn(numbers[:5], 3))


def test_results(rows):
    index = vicinal.PermutationIndex(rows, permutants=9, fraction=0.5)
    near = vicinal.knn(rows, rows[:7] + 1, 5, pad=True)
    results = [
        near, vicinal.knn_graph(rows, 3), vicinal.knn_graph(rows, 3, symmetrize="union"), vicinal.range_search(rows, rows[:5], 60.0),
        vicinal.merge([near]), vicinal.select_k(rows[:3], 4, payload=rows[:3]), index.knn(rows[:3], 2), index.range(rows[:3], 50.0),
        vicinal.verify(rows, rows[:7] + 1, near), vicinal.plan((99, 3), (2, 3)), vicinal.plan_graph((99, 3), 2), index.plan(9), index.tune(3),
        near.certificate, near.stats, vicinal.info(), vicinal.devices(), vicinal.select_algorithms(),
        vicinal.verify(rows, rows[:7] + 1, near.ids[:, ::-1]),
    ]  # fmt: skip
    assert {type(result).__name__ for result in results} >= {
        "Neighbors", "CsrNeighbors", "Selection", "PermutationNeighbors", "PermutationRange", "Verdict", "Plan", "IndexPlan", "Tuning",
        "Certificate", "Stats", "Info"}  # fmt: skip

    def equal(one, other):
        assert type(one) is type(other)
        if isinstance(one, np.ndarray):
            assert oracle.same_bits(one, other)
        elif isinstance(one, float):
            assert one == other or (math.isnan(one) and math.isnan(other))
        elif isinstance(one, (str, int, type(None))):
            assert one == other
        else:
            if isinstance(one, (tuple, list)):
                assert len(one) == len(other)
                for left, right in zip(tuple.__iter__(one), tuple.__iter__(other)):
                    equal(left, right)
            # What certificate and stats were made of stays behind.
            own, others = (getattr(thing, "__dict__", {}).keys() - {"_report"} for thing in (one, other))
            assert own == others
            for name in own:
                equal(getattr(one, name), getattr(other, name))

    for result in results:
        for protocol in PROTOCOLS:
            equal(through(result, protocol), result)
        for got in (through(result, 5, True), copy.copy(result), copy.deepcopy(result)):
            equal(got, result)
    for error in (vicinal.InvalidArgument("k"), vicinal.IoError(2, "cannot open X")):
        got = through(error, 5)
        assert type(got) is type(error) and got.args == error.args


def test_other_processes(rows, tmp_path):
    """spawned, so that nothing but the pickle gets there; and joblib, which keeps arrays apart and maps them."""
    np.save(tmp_path / "rows.npy", rows)
    program = """
        import multiprocessing, sys
        import numpy as np, vicinal

        def ask(job):
            corpus, queries = job
            return corpus.knn(queries, 5)

        if __name__ == "__main__":
            rows = np.load(sys.argv[1])
            corpus = vicinal.Corpus(rows)
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                found = pool.map(ask, [(corpus, rows[:9]), (corpus, rows[9:20])])
            want = corpus.knn(rows[:20], 5)
            assert np.array_equal(np.concatenate([part.ids for part in found]), want.ids)
            assert np.concatenate([part.distances for part in found]).tobytes() == want.distances.tobytes()
            assert all(part.certificate.all() for part in found)
            print("right")
    """
    (tmp_path / "program.py").write_text(textwrap.dedent(program))
    done = subprocess.run([sys.executable, tmp_path / "program.py", tmp_path / "rows.npy"], capture_output=True, text=True, timeout=120)
    assert done.stdout == "right\n", done.stderr
    joblib = pytest.importorskip("joblib")
    corpus = vicinal.Corpus(rows)
    want = corpus.knn(rows[:9], 7)
    joblib.dump(corpus, tmp_path / "corpus.joblib")
    for options in ({}, {"mmap_mode": "r"}):
        same_bits(joblib.load(tmp_path / "corpus.joblib", **options).knn(rows[:9], 7), want)
    file = io.BytesIO()
    joblib.dump(want, file)
    file.seek(0)
    same_bits(joblib.load(file), want)
