"""The objects that come back, and the calls that are made of results: merge, Corpus, plan, verify, info."""

import copy
import dataclasses
import pickle

import numpy as np
import oracle
import pytest
import vicinal


def equal(a, b):
    return oracle.same_bits(a.distances, b.distances) and oracle.same_bits(a.ids, b.ids)


def test_result_unpacks_and_has_names(small):
    result = vicinal.knn(*small, 5)
    distances, ids = result
    assert len(result) == 2 and result[0] is distances is result.distances and result[1] is ids is result.ids
    assert result.counts is None
    assert ids.dtype == np.int64 and ids.flags.c_contiguous and distances.flags.c_contiguous
    assert result.certificate.all() and result.certificate.queries == 5
    assert result.stats.pairs == 5 * 40 and result.stats.device == "cpu"
    assert "5 queries" in repr(result)
    again = pickle.loads(pickle.dumps(result))
    assert equal(again, result) and again.certificate == result.certificate and again.stats == result.stats


def test_fields_are_those_of_the_binding(small, monkeypatch):
    """The lists of vicinal/fields.hpp, in their order, and what the binding adds at the end."""
    given = {}

    def recorded(kind):
        def make(**fields):
            given[kind] = list(fields)
            return kind(**fields)

        return make

    for module, name in [(vicinal._results, "Certificate"), (vicinal._results, "Stats"), (vicinal, "Plan"), (vicinal, "Device"),
                         (vicinal._results, "Device"), (vicinal._results, "Info")]:  # fmt: skip
        monkeypatch.setattr(module, name, recorded(getattr(module, name)))
    result = vicinal.knn(*small, 5)
    result.certificate, result.stats, vicinal.plan(*small), vicinal.devices(), vicinal.info()
    kinds = {kind.__name__ for kind in given}
    assert kinds == {"Certificate", "Stats", "Plan", "Device", "Info"}
    for kind, names in given.items():
        assert names == [field.name for field in dataclasses.fields(kind)]


def test_certificate_and_stats_are_made_when_they_are_asked_for(small):
    corpus, queries = small
    for result in (vicinal.knn(corpus, queries, 5), vicinal.Corpus(corpus).knn(queries, 5), vicinal.knn(corpus, queries, 50, pad=True)):
        assert result.stats is result.stats and result.certificate is result.certificate
        assert {"certificate", "stats"} <= set(dir(result))
    asked, fresh = vicinal.knn(corpus, queries, 5), vicinal.knn(corpus, queries, 5)
    assert asked.certificate == fresh.certificate
    for copied in (pickle.loads(pickle.dumps(fresh)), copy.copy(fresh), copy.deepcopy(fresh)):
        assert copied.certificate == fresh.certificate and copied.stats == fresh.stats and equal(copied, fresh)
        assert vars(copied).keys() == {"certificate", "stats", "counts", "columns"}
    converted = vicinal.knn(corpus, queries.tolist(), 5)
    assert converted.stats.copied_bytes == 8 * queries.size


def test_small_results_have_the_bits_of_large_ones(small):
    corpus, queries = small
    prepared = vicinal.Corpus(corpus)
    for kind in (None, "f64"):
        one = prepared.knn(queries, 7, distance_type=kind)
        many = prepared.knn(np.repeat(queries, 1000, axis=0), 7, distance_type=kind)
        assert all(np.array_equal(np.repeat(few, 1000, axis=0), all_) and few.dtype == all_.dtype for few, all_ in zip(one, many))


def test_options_that_a_corpus_keeps_are_those_of_the_call(small):
    corpus, queries = small
    prepared = vicinal.Corpus(corpus)
    for k in (3, 5, np.int64(5), 3):
        assert prepared.knn(queries, k).ids.shape == (len(queries), k)
        assert prepared.knn(queries, k, first_id=10).ids.min() >= 10
        assert prepared.knn(queries, k, pad=True).counts is not None
        assert prepared.knn(queries, k).counts is None
    for wrong, error in ((True, TypeError), (5.0, TypeError), (0, vicinal.InvalidArgument), (len(corpus) + 1, vicinal.InvalidArgument)):
        prepared.knn(queries, 1)
        with pytest.raises(error):
            prepared.knn(queries, wrong)
    with pytest.raises(TypeError):
        prepared.knn(queries, 1, pad=0)
    with pytest.raises(vicinal.InvalidArgument):
        prepared.knn(queries, 1, label_rule="nearest")


def test_results_own_the_memory(small):
    distances, ids = vicinal.knn(*small, 5)
    kept = ids.copy()
    ids[0, 0] = -7  # writable, like any array that one got
    kept[0, 0] = -7
    del distances
    for _ in range(50):
        vicinal.knn(*small, 5)
    assert np.array_equal(ids, kept)


def test_duplicates_and_ties(small):
    result = vicinal.knn(*small, 2)
    assert result.ids[2].tolist() == [7, 31] and result.distances[2].tolist() == [0, 0]


@pytest.mark.parametrize("offset", [0, 1000])
@pytest.mark.parametrize("metric", oracle.METRICS)
def test_offset_data(rng, metric, offset):
    corpus = (rng.standard_normal((400, 48)) + offset).astype(np.float32)
    queries = (rng.standard_normal((4, 48)) + offset).astype(np.float32)
    distances, ids = oracle.knn(corpus, queries, 10, metric)
    for threads in (1, 2, 7):
        for memory in (None, "64MiB", 100_000_000):
            result = vicinal.knn(corpus, queries, 10, metric, threads=threads, memory=memory)
            assert oracle.same_bits(result.distances, distances) and oracle.same_bits(result.ids, ids)


@pytest.mark.parametrize("metric", [*oracle.METRICS, "hamming"])
@pytest.mark.parametrize("parts", [1, 2, 3, 7])
def test_merge_of_parts_is_the_whole(rng, metric, parts):
    corpus = rng.integers(0, 8, (300, 9), np.uint8)  # full of ties
    queries = rng.integers(1, 8, (11, 9), np.uint8)
    corpus[:, 0] = np.arange(300) % 5
    corpus[:, 1] = 9
    queries[:, 1] = 0
    whole = vicinal.knn(corpus, queries, 12, metric)
    edges = np.linspace(0, 300, parts + 1).astype(int)
    found = [
        vicinal.knn(corpus[a:b], queries, 12, metric, first_id=a) for a, b in zip(edges, edges[1:])
    ]  # fmt: skip
    assert equal(vicinal.merge(found, metric=metric), whole)
    assert equal(vicinal.merge(reversed(found), 12, metric), whole)
    pairs = [(part.distances, part.ids.astype(np.int32)) for part in found]
    assert equal(vicinal.merge(pairs, 12, metric), whole)
    tree = found[0]
    for part in found[1:]:
        tree = vicinal.merge([part, tree], 12, metric)
    assert equal(tree, whole)


def test_merge_pads(small):
    corpus, queries = small
    part = vicinal.knn(corpus[:3], queries, 5, pad=True)
    with pytest.raises(vicinal.InvalidArgument):
        vicinal.merge([part], 5)
    merged = vicinal.merge([part], 5, pad=True)
    assert equal(merged, part) and merged.counts.tolist() == [3] * 5


@pytest.mark.parametrize("parts, k, kind", [
    ([], None, vicinal.InvalidArgument),
    ([np.zeros((2, 2))], None, TypeError),
    ([(np.zeros((2, 2)), np.zeros((2, 2)))], None, TypeError),
    ([(np.zeros((2, 2), np.int64), np.zeros((2, 2), np.int64))], None, TypeError),
    ([(np.zeros((2, 3)), np.zeros((2, 2), np.int64))], None, vicinal.InvalidArgument),
    ([(np.zeros(2), np.zeros(2, np.int64))], None, vicinal.InvalidArgument),
    ([(np.zeros((2, 2)), np.zeros((2, 2), np.int64))], 0, vicinal.InvalidArgument),
    ([(np.zeros((2, 2)), np.zeros((2, 2), np.int64))], 2.0, TypeError),
    ([(np.zeros((n, 2)), np.zeros((n, 2), np.int64)) for n in (2, 3)], None, vicinal.InvalidArgument),
    ([(np.zeros((2, 2), t), np.full((2, 2), i)) for i, t in enumerate("fd")], None, vicinal.InvalidArgument),
])  # fmt: skip
def test_merge_refuses(parts, k, kind):
    with pytest.raises(kind):
        vicinal.merge(parts, k)


def test_merge_of_one_result_is_a_mistake(small):
    with pytest.raises(TypeError, match="list of results"):
        vicinal.merge(vicinal.knn(*small, 5))


def test_corpus(small):
    corpus, queries = small
    prepared = vicinal.Corpus(corpus, "cityblock")
    assert prepared.shape == (40, 37) and prepared.dtype == np.float32 and prepared.metric == "l1"
    assert len(prepared) == 40 and isinstance(prepared.resident, bool) and prepared.nbytes >= 0
    assert "40 x 37 float32, l1" in repr(prepared)
    for k in (1, 7, 40):
        assert equal(prepared.knn(queries, k), vicinal.knn(corpus, queries, k, "l1"))
    assert equal(
        prepared.knn(queries, 3, first_id=1 << 40, threads=1),
        vicinal.knn(corpus, queries, 3, "manhattan", first_id=1 << 40),
    )


def test_corpus_borrows_or_copies(small):
    corpus, queries = small
    expected = vicinal.knn(corpus, queries)
    own = corpus.copy()
    prepared = vicinal.Corpus(own, copy=True)
    own[...] = 0
    assert equal(prepared.knn(queries), expected)
    assert prepared.nbytes >= corpus.nbytes
    borrowed = vicinal.Corpus(corpus.copy())  # only the Corpus keeps these rows alive
    for _ in range(20):
        np.full_like(corpus, 5)
    assert equal(borrowed.knn(queries), expected)


def test_plan(small):
    corpus, queries = small
    plan = vicinal.plan((1_000_000, 128), (1000, 128), 10, memory="256MiB")
    assert plan.peak_bytes <= plan.budget_bytes == 256 << 20 and plan.minimum_bytes <= plan.peak_bytes
    assert plan.result_bytes == 1000 * 10 * 12 and plan.distance_type == "f32" and plan.cascade[-1] == "canonical"
    assert str(plan) == plan.text and len(str(plan).splitlines()) > 3
    assert vicinal.plan(corpus, queries.astype(np.float64), 5).distance_type == "f64"
    assert vicinal.plan((10, 4), (2, 4), 3, "hamming", dtype="uint8").distance_type == "u32"
    assert vicinal.plan((10, 4), (2, 4), 3, dtype=np.float64).distance_type == "f64"
    assert vicinal.plan((10, 4), (2, 4), 3, dtype="bfloat16").distance_type == "f32"
    with pytest.raises(vicinal.MemoryBudget):
        vicinal.plan((1_000_000, 128), (1000, 128), memory=1000)
    with pytest.raises(vicinal.InvalidArgument, match="k=11 exceeds the n=10 rows"):
        vicinal.plan((10, 4), (2, 4), 11)
    with pytest.raises(vicinal.InvalidArgument, match="complex64"):
        vicinal.plan((10, 4), (2, 4), 3, dtype=np.complex64)
    with pytest.raises(TypeError):
        vicinal.plan((10.0, 4), (2, 4))


def test_verify(small):
    corpus, queries = small
    result = vicinal.knn(corpus, queries, 5)
    for claim in (result, result.ids, tuple(result), result.ids.astype(np.int32)):
        verdict = vicinal.verify(corpus, queries, claim)
        assert verdict.ok() and verdict.recall == 1 and verdict.faults == () and equal(verdict.truth, result)
    ids, distances = result.ids.copy(), result.distances.copy()
    ids[0, 4] = 39 if 39 not in ids[0] else 38
    ids[2, :2] = [31, 7]  # at equal distance
    distances[4, 1] = np.nextafter(distances[4, 1], np.float32(9))
    verdict = vicinal.verify(corpus, queries, (distances, ids))
    assert (verdict.wrong, verdict.tie_order, verdict.distance, verdict.correct) == (1, 1, 1, 2)
    assert [(fault.row, fault.kind) for fault in verdict.faults] == [(0, "wrong"), (2, "tie_order"), (4, "distance")]
    assert not verdict.ok() and verdict.recall == pytest.approx(24 / 25)


def test_info_and_devices():
    info = vicinal.info()
    assert info.version == vicinal.__version__ and info.semantics_version == 1 and info.threads >= 1
    assert "plain" in info.instruction_sets and set(info.instruction_sets) <= set(info.built_instruction_sets)
    assert info.filters[-1] == "canonical" and "cpu" in info.backends
    first = vicinal.devices()[0]
    assert first.name == "cpu" and first.usable and first.free_bytes > 0
    assert [device.name for device in info.devices] == [device.name for device in vicinal.devices()]


def test_progress(rng):
    corpus, queries = rng.standard_normal((20000, 64)), rng.standard_normal((200, 64))
    seen = []
    result = vicinal.knn(corpus, queries, 3, progress=lambda done, total: seen.append((done, total)))
    assert seen and seen[-1][0] == seen[-1][1] and seen == sorted(seen)
    assert equal(result, vicinal.knn(corpus, queries, 3))
    with pytest.raises(vicinal.Cancelled):
        vicinal.knn(corpus, queries, 3, threads=1, progress=lambda done, total: False)
    with pytest.raises(vicinal.Cancelled):
        vicinal.Corpus(corpus).knn(queries, 3, threads=1, progress=lambda done, total: np.bool_(False))

    def broken(done, total):
        raise KeyError("from the callback")

    with pytest.raises(KeyError, match="from the callback"):
        vicinal.knn(corpus, queries, 3, progress=broken)
