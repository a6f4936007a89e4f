"""The permutation index from Python: what searches return, that exact ones are the exact search, files, bad input."""

import doctest
import gc
import signal
import time
import weakref

import numpy as np
import pytest
import vicinal


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(1)
    centres = rng.normal(size=(30, 12)) * 3
    rows = (centres[rng.integers(30, size=3000)] + rng.normal(size=(3000, 12))).astype(np.float32)
    return rows[:2900], rows[2900:]


def test_recall_is_promised_and_kept(data):
    base, queries = data
    index = vicinal.PermutationIndex(base, permutants=32, seed=2)
    found = index.knn(queries, 5)
    distances, ids = found
    assert ids.shape == distances.shape == (100, 5) and (found.ids is ids) and found.columns == 2900
    assert 0 < found.fraction < 0.5 and found.recall.low <= found.recall.value <= found.recall.high
    assert found.recall.value >= 0.95 and found.recall.sample == 400
    truth = vicinal.knn(base, queries, 5)
    assert np.mean(distances <= truth.distances[:, -1:]) > 0.9
    assert found.stats.reranked == found.stats.candidates < 100 * 2900 / 2
    share = index.knn(queries, 5, fraction=0.02)
    assert share.stats.candidates == 100 * 58 and np.isnan(share.recall.value)
    assert vicinal.PermutationIndex(base, permutants=32, seed=2, fraction=0.02).knn(queries, 5).ids.tolist() == share.ids.tolist()
    tuned = index.tune(5, fraction=0.02)
    assert 0.3 < tuned.recall.value < 1 and tuned.gain > 0


def test_recall_tuned_on_queries_unlike_the_objects(data):
    base, like = data
    rng = np.random.default_rng(4)
    far = (5 * rng.normal(size=(400, 12))).astype(np.float32)  # between the clusters, where every object is far
    index = vicinal.PermutationIndex(base, permutants=32, seed=2)
    truth = vicinal.knn(base, far, 5).distances[:, -1:]
    achieved = lambda found: np.mean(found.distances <= truth[: len(found.distances)])
    by_objects, by_queries = (index.knn(far, 5, recall=0.9, tune_on=on) for on in ("objects", "queries"))
    assert achieved(by_objects) < by_objects.recall.low  # left-out objects promise too much
    assert by_queries.recall.low <= achieved(by_queries) <= by_queries.recall.high and by_queries.recall.sample == 80
    assert achieved(by_queries) >= 0.9 and by_queries.fraction > by_objects.fraction
    unlike = lambda found: sum("unlike the objects" in note for note in found.stats.notes)
    told = lambda found: sum("200 or more" in note for note in found.stats.notes)
    by_default, too_few = index.knn(far, 5, recall=0.9), index.knn(far[:199], 5, recall=0.9)
    assert by_default.recall == by_queries.recall and by_default.ids.tobytes() == by_queries.ids.tobytes() and told(by_default) == 0
    assert too_few.recall == by_objects.recall and not too_few.recall.of_queries and told(too_few) == 1 == unlike(too_few)
    assert told(by_objects) == 0 and by_queries.recall.of_queries
    assert unlike(by_objects) == 1 == unlike(index.knn(far[:20], 5)) and unlike(by_queries) == 0 == unlike(index.knn(far, 5, fraction=0.1))
    assert [unlike(index.knn(asked, 5, recall=0.9)) for asked in (like, like[:20], base[:50])] == [0, 0, 0]
    few = index.knn(far[:50], 5, recall=0.9, tune_on="queries")  # all of them are measured
    assert few.recall.sample == 50 and few.recall.low == pytest.approx(achieved(few)) == pytest.approx(few.recall.high)
    again = index.range(far, 6.0, recall=0.9, tune_on="queries")
    assert again.recall.value >= 0.9 and again.ids.tobytes() == index.range(far, 6.0, fraction=again.fraction).ids.tobytes()
    for wrong in ({"tune_on": "q"}, {"tune_on": "queries", "exact": True}, {"tune_on": "queries", "fraction": 0.1}):
        with pytest.raises(vicinal.InvalidArgument, match="tune_on"):
            index.knn(far, 5, **wrong)


def test_a_device_that_is_not_there(data):
    if any(device.usable and device.name.startswith("cuda") for device in vicinal.devices()):
        pytest.skip("it is there")
    base, queries = data
    with pytest.raises(vicinal.DeviceError, match="no usable CUDA device"):
        vicinal.PermutationIndex(base, permutants=8).knn(queries, 5, device="cuda")


def test_exact_is_the_exact_search(data, tmp_path):
    base, queries = data
    index = vicinal.PermutationIndex(base, "l1", permutants=[5, 7, 1000, 2000])
    assert index.permutants.tolist() == [5, 7, 1000, 2000] and index.metric == "l1" and len(index) == 2900
    truth = vicinal.knn(base, queries, 7, "l1")
    exact = index.knn(queries, 7, exact=True)
    assert exact.ids.tobytes() == truth.ids.tobytes() and exact.distances.tobytes() == truth.distances.tobytes()
    assert exact.recall == vicinal.Recall(1, 1, 1, 0)
    radius = float(truth.distances[:, 3].mean())
    within, wanted = index.range(queries, radius, exact=True), vicinal.range_search(base, queries, radius, "l1")
    assert within.ids.tobytes() == wanted.ids.tobytes() and within.offsets.tolist() == wanted.offsets.tolist()
    assert index.range(queries, radius, recall=0.8).recall.value >= 0.8
    index.save(tmp_path / "a.vicinal")
    opened = vicinal.PermutationIndex.open(tmp_path / "a.vicinal", fraction=0.1)
    assert opened.knn(queries, 7).ids.tobytes() == index.knn(queries, 7, fraction=0.1).ids.tobytes()
    assert repr(opened) == repr(index) == "<vicinal.PermutationIndex of 2900 objects, l1, 4 permutants>"


def test_strings_and_forms():
    words = ["anna", "anne", "hannah", "bob", "bobby", "rob", "robert", "berta"] * 20
    for form in ("components", "ranks", "prefix", "bits"):
        index = vicinal.PermutationIndex(words, "normalized_levenshtein", 6, form=form)
        exact = index.knn(["ann", "robb"], 3, exact=True)
        assert exact.ids.tolist() == vicinal.knn(words, ["ann", "robb"], 3, "normalized_levenshtein").ids.tolist()
    assert index.rank_bytes == 1
    assert index.knn([], 2).ids.shape == (0, 2)
    assert doctest.testmod(vicinal._permutation).failed == 0


@pytest.mark.parametrize("choice", ["random", "farthest_first", "sss"])
def test_few_objects_are_all_permutants(data, choice):
    """Unless a number is asked for; searches say so."""
    base, _ = data
    for count in (1, 3, 63, 64, 65):
        rows = base[:count]
        for index in (vicinal.PermutationIndex(rows, choice=choice), vicinal.PermutationIndex(rows, choice=choice, form="components"),
                      vicinal.PermutationIndex(list(rows), lambda a, b: float(np.abs(a - b).sum()), choice=choice)):  # fmt: skip
            assert len(index.permutants) <= 64 and sorted({*index.permutants.tolist()}) == sorted(index.permutants.tolist())
            if choice == "random":
                assert len(index.permutants) == min(count, 64)
            found = index.knn(list(rows) if index._metric else rows, min(count, 5), exact=True)
            assert found.ids[:, 0].tolist() == list(range(count))
            few = [note for note in found.stats.notes if "permutants, all of its objects" in note]
            assert len(few) == (len(index.permutants) == count < 64)
    words = ["anna", "anne", "bob"]
    assert len(vicinal.PermutationIndex(words, "levenshtein").permutants) == 3


def test_bad_input(data):
    base, queries = data
    for wrong in (
        dict(permutants=0), dict(permutants=1025), dict(permutants=[1, 1]), dict(choice="best"), dict(form="rank"),
        dict(rank_distance="tau"), dict(prefix=3), dict(metric="levenshtein"),
    ):  # fmt: skip
        with pytest.raises(vicinal.InvalidArgument):
            vicinal.PermutationIndex(base, **wrong)
    with pytest.raises(vicinal.InvalidArgument, match="permutants=64 exceeds the 3 objects"):
        vicinal.PermutationIndex(base[:3], permutants=64)
    with pytest.raises(TypeError):
        vicinal.PermutationIndex(base, permutants=2.5)
    index = vicinal.PermutationIndex(base, permutants=4)
    with pytest.raises(vicinal.InvalidArgument, match="exclude"):
        index.knn(queries, 3, recall=0.5, exact=True)
    with pytest.raises(vicinal.InvalidArgument, match="strings"):
        index.knn(["a"], 3)
    with pytest.raises(vicinal.InvalidArgument, match="d=2"):
        index.knn(queries[:, :2], 3)
    with pytest.raises(vicinal.InvalidValue, match="NaN"):
        index.knn(np.full((1, 12), np.nan, np.float32), 3)
    with pytest.raises(vicinal.Cancelled):
        index.knn(queries, 3, progress=lambda done, total: False)
    with pytest.raises(vicinal.IoError):
        vicinal.PermutationIndex.open("/nowhere/a.vicinal")
    for ask in (lambda k: index.knn(queries, k), lambda k: index.plan(3, k=k), lambda k: index.tune(k=k)):  # alike in all three
        with pytest.raises(vicinal.InvalidArgument, match="k must be >= 1, got 0"):
            ask(0)
        with pytest.raises(vicinal.InvalidArgument, match=f"k={len(index) + 1} exceeds the n={len(index)} objects"):
            ask(len(index) + 1)
    with pytest.raises(vicinal.InvalidArgument, match="queries must be >= 0, got -1"):
        index.plan(-1)
    with pytest.raises(vicinal.InvalidArgument, match="max_results must be >= 1, got 0; None means"):
        index.range(queries, 1.0, max_results=0)


def test_converted_queries_are_counted(data):
    base, queries = data
    index = vicinal.PermutationIndex(base, permutants=4)
    for asked in (queries, queries.astype(np.int16), queries.astype(np.int64)):
        wanted = vicinal.knn(base, asked, 3).stats.copied_bytes
        assert index.knn(asked, 3, exact=True).stats.copied_bytes == wanted
        assert index.range(asked, 1.0, exact=True).stats.copied_bytes == wanted
    assert wanted == 100 * 12 * 8


def test_distances_of_an_index_alone(data):
    rng = np.random.default_rng(3)
    rows = rng.dirichlet(np.ones(20), 300)
    for metric in ("jensen_shannon", "hellinger", "kullback_leibler", "emd", "dtw"):
        index = vicinal.PermutationIndex(rows, metric, 8, window=3 if metric == "dtw" else 0)
        assert index.knn(rows[:5], 1, exact=True).ids[:, 0].tolist() == [0, 1, 2, 3, 4]
        with pytest.raises(vicinal.InvalidArgument, match="PermutationIndex"):
            vicinal.knn(rows, rows, 1, metric)
    scipy = pytest.importorskip("scipy.spatial.distance")
    found = vicinal.PermutationIndex(rows, "jensen_shannon", 8).knn(rows[:1], 300, exact=True)
    for distance, i in zip(found.distances[0, 1:], found.ids[0, 1:]):
        assert distance == pytest.approx(scipy.jensenshannon(rows[0], rows[i]), rel=1e-6)


def test_an_infinite_divergence_says_what_can_be_done():
    rows = np.random.default_rng(3).dirichlet(np.ones(6), 40)
    index = vicinal.PermutationIndex(rows, "kullback_leibler", 4)
    holes = rows[:2].copy()
    holes[1, 2] = 0
    with pytest.raises(vicinal.RangeError, match="^query 1: .* a 0 of one histogram stands against a mass of the other; .*jensen_shannon") as caught:
        index.knn(holes, 1)
    assert "scale" not in str(caught.value)
    with pytest.raises(vicinal.RangeError, match="a 0 of one histogram stands against a mass"):
        vicinal.PermutationIndex(np.vstack([holes, rows]), "kullback_leibler", 42)
    with pytest.raises(vicinal.RangeError, match="a 0 of one histogram stands against a mass"):
        vicinal.PermutationIndex(np.vstack([rows, holes]), "kullback_leibler", 4, choice="farthest_first")


def test_a_callable(data):
    base, queries = data
    index = vicinal.PermutationIndex(list(base[:200]), lambda a, b: float(np.abs(a - b).sum()), 6)
    exact = index.knn(list(queries[:4]), 3, exact=True)
    assert exact.ids.tolist() == vicinal.knn(base[:200].astype(np.float64), queries[:4].astype(np.float64), 3, "l1").ids.tolist()
    assert index.knn(queries[:4], 3, fraction=0.3).stats.reranked == 4 * 60
    assert len(index.range(queries[:4], 1e9, exact=True).ids) == 800
    assert index.metric == "<lambda>"

    def broken(a, b):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        vicinal.PermutationIndex(list(base[:20]), broken, 4)
    with pytest.raises(vicinal.InvalidValue, match="NaN"):
        vicinal.PermutationIndex(list(base[:20]), lambda a, b: float("nan"), 4)
    with pytest.raises(vicinal.Unsupported):
        index.save("/tmp/never.vicinal")


OWN_CALLS = {
    "exact": lambda index, q: index.knn(q, 3, exact=True),
    "fraction": lambda index, q: index.knn(q, 3, fraction=0.1),
    "objects": lambda index, q: index.knn(q, 3, recall=0.9, tune_on="objects"),
    "queries": lambda index, q: index.knn(q, 3, recall=0.9, tune_on="queries"),
    "range": lambda index, q: index.range(q, 0.1, exact=True),
    "tune": lambda index, q: index.tune(3),
}


@pytest.mark.parametrize("name", OWN_CALLS)
def test_what_a_callable_raises_later_goes_on_and_nothing_keeps_it(name):
    """A search for a recall and tune measure left-out objects, by the distance that the index was made with."""

    class Distance:
        error = None

        def __call__(self, a, b):
            if isinstance(self.error, signal.Signals):
                signal.raise_signal(self.error)
            elif self.error is not None:
                raise self.error
            return abs(a - b)

    distance = Distance()
    index = vicinal.PermutationIndex([float(i * i % 97) for i in range(60)], distance, 8)
    for error, kind in ((ZeroDivisionError("mine"), ZeroDivisionError), (signal.SIGINT, KeyboardInterrupt)):
        distance.error = error
        with pytest.raises(kind, match="mine" if kind is ZeroDivisionError else None) as caught:
            OWN_CALLS[name](index, [1.0, 5.0])
        assert kind is KeyboardInterrupt or caught.value is error
    distance.error = None
    OWN_CALLS[name](index, [1.0, 5.0])
    kept = weakref.ref(distance)
    del distance, index, error, caught
    gc.collect()
    assert kept() is None


@pytest.mark.parametrize("form", ["ranks", "components"])
@pytest.mark.parametrize("choice", ["random", "farthest_first"])
def test_building_over_an_expensive_distance_is_left_soon(form, choice):
    """The caller is asked after some thousand distances, however many objects and permutants these are of."""
    x = np.random.default_rng(9).standard_normal((3000, 4))
    calls = 0

    def expensive(a, b):
        nonlocal calls
        calls += 1
        time.sleep(2e-5)
        return float(np.abs(a - b).sum())

    def leave(done, total):
        if calls > 0:
            raise InterruptedError
        return True

    with pytest.raises(InterruptedError):
        vicinal.PermutationIndex(x, expensive, permutants=256, form=form, choice=choice, progress=leave)
    assert 0 < calls < 2500
