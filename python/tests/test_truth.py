"""ground_truth and update_ground_truth: the bytes of knn over all rows together, whatever the parts, and what they refuse."""

import numpy as np
import pytest
import vicinal


@pytest.fixture
def rows():
    return np.random.default_rng(6).integers(0, 5, (400, 6)).astype(np.float32)


def same(got, want):
    assert np.array_equal(got.ids, want.ids) and got.distances.tobytes() == want.distances.tobytes()
    assert (got.counts is None) == (want.counts is None) and got.columns == want.columns


@pytest.mark.parametrize("metric", ["euclidean", "inner_product", "l1"])
def test_parts_and_tiers(rows, metric):
    queries = rows[::40]
    parts = [rows[:1], rows[1:130][::-1][::-1], np.asfortranarray(rows[130:131]), rows[131:]]
    whole = vicinal.knn(rows, queries, 7, metric, first_id=3)
    same(vicinal.ground_truth(parts, queries, 7, metric, first_id=3), whole)
    same(vicinal.ground_truth(rows, queries, 7, metric, first_id=3, verified_queries=0), whole)
    first, last = vicinal.ground_truth(tuple(parts), queries, 7, metric, tiers=iter([131, 400]))
    same(first, vicinal.knn(rows[:131], queries, 7, metric))
    same(last, vicinal.knn(rows, queries, 7, metric))
    eligible = rows[:, 0] > 1
    same(vicinal.ground_truth(parts, queries, 500, metric, pad=True, eligible=eligible), vicinal.knn(rows, queries, 500, metric, pad=True, eligible=eligible))


def test_resume(rows, tmp_path):
    calls = []

    def stop(done, total):
        calls.append((done, total))
        return len(calls) < 2

    folder = tmp_path / "pieces"
    large = np.random.default_rng(0).random((60_000, 32), np.float32)
    queries = large[:900]
    with pytest.raises(vicinal.Cancelled):
        vicinal.ground_truth([large[:100], large[100:]], queries, 10, resume=folder, progress=stop)
    got = vicinal.ground_truth([large[:100], large[100:]], queries, 10, resume=folder)
    same(got, vicinal.knn(large, queries, 10))
    assert calls[-1][1] == 60_000 * (900 + 8)
    again = vicinal.ground_truth([large[:100], large[100:]], queries, 10, resume=folder)
    assert any("were done before" in note for note in again.stats.notes)
    with pytest.raises(vicinal.InvalidArgument, match="another search"):
        vicinal.ground_truth([large[:101], large[101:]], queries, 10, resume=folder)


def test_update(rows):
    queries = rows[::40]
    lists = vicinal.knn(rows[:300], queries, 9)
    gone = np.unique(np.concatenate([lists.ids[4, :3], [399]]))
    mask = np.zeros(400, bool)
    mask[gone] = True
    want = vicinal.knn(rows, queries, 9, eligible=~mask)
    for deleted in (gone, mask, gone.tolist()):
        got = vicinal.update_ground_truth(lists, [rows[:200], rows[200:300]], queries, inserted=rows[300:], deleted=deleted)
        same(got, want)
        assert any("lost rows beyond their lists" in note for note in got.stats.notes)
    same(vicinal.update_ground_truth((lists.distances, lists.ids), rows[:300], queries, k=5, inserted=[rows[300:350], rows[350:]]),
         vicinal.knn(rows, queries, 5))


def test_updates_of_nothing(rows):
    """No queries, of whose lists none lacks rows; and no deleted rows, as a list of no type."""
    lists, queries = vicinal.knn(rows[:3], rows[:2], 3), rows[:2]
    assert vicinal.update_ground_truth(lists, rows[:3], queries, deleted=[]).ids.tolist() == lists.ids.tolist()
    none = vicinal.knn(rows[:3], rows[:0], 3)
    assert vicinal.update_ground_truth(none, rows[:3], rows[:0], deleted=[0]).ids.shape == (0, 3)
    assert vicinal.knn(rows[:3], rows[:0], 3, eligible=[1, 2]).ids.shape == (0, 3)
    for count, k in ((0, 4), (2, 3)):
        with pytest.raises(vicinal.InvalidArgument, match=f"k={k} exceeds the"):
            vicinal.update_ground_truth(vicinal.knn(rows[:3], rows[:count], 4, pad=True), rows[:3], rows[:count], k, deleted=[0])


def test_refusals(rows):
    queries = rows[:3]
    lists = vicinal.knn(rows, queries, 4)
    for error, words, call in (
        (vicinal.InvalidArgument, "tiers must ascend", lambda: vicinal.ground_truth(rows, queries, 2, tiers=[9, 9])),
        (vicinal.InvalidArgument, "k=2 exceeds the n=1 rows of a tier",
         lambda: vicinal.ground_truth(rows, queries[:0], 2, tiers=[1, 9], eligible=np.arange(9))),
        (vicinal.InvalidArgument, "k=2 exceeds the n=1 rows of a tier",
         lambda: vicinal.ground_truth(rows, queries[:0], 2, tiers=[1, 9], labels=(np.zeros(len(rows), int), np.zeros(0, int)))),
        (vicinal.InvalidArgument, "tiers is empty", lambda: vicinal.ground_truth(rows, queries, 2, tiers=[])),
        (TypeError, "tiers must be an integer", lambda: vicinal.ground_truth(rows, queries, 2, tiers=[9.0])),
        (vicinal.InvalidArgument, "part 1 of the base: rows are f64", lambda: vicinal.ground_truth([rows, rows.astype(float)], queries, 2)),
        (vicinal.InvalidArgument, "the base has no parts", lambda: vicinal.ground_truth([], queries, 2)),
        (vicinal.InvalidArgument, "verified_queries must be >= 0", lambda: vicinal.ground_truth(rows, queries, 2, verified_queries=-1)),
        (TypeError, "path must be", lambda: vicinal.ground_truth(rows, queries, 2, resume=7)),
        (vicinal.InvalidArgument, "400 is to be deleted", lambda: vicinal.update_ground_truth(lists, rows, queries, deleted=[400])),
        (vicinal.InvalidArgument, "k=5 was asked for", lambda: vicinal.update_ground_truth(lists, rows, queries, 5)),
        (vicinal.InvalidArgument, r"the mask has shape \(3,\)", lambda: vicinal.update_ground_truth(lists, rows, queries, deleted=[True] * 3)),
        (TypeError, "deleted", lambda: vicinal.update_ground_truth(lists, rows, queries, deleted=[1.5])),
    ):  # fmt: skip
        with pytest.raises(error, match=words):
            call()
