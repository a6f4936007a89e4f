"""`vicinal verify`: right results pass; each kind of doctored row is named, with its rank."""

import numpy as np
import pytest
from conftest import exact


@pytest.fixture
def claim(data):
    """ids and distances of 3 x 6, right to the bit; row 0 begins with the tie of corpus rows 0 and 290."""
    data.queries_path = data.save("queries.npy", data.queries[:3])
    ids, distances = exact(data.corpus, data.queries[:3], 6)
    assert list(ids[0, :2]) == [0, 290] and distances[0, 0] == distances[0, 1] == 0
    return ids, distances


def save(data, ids, distances=None):
    arrays = {"ids": ids} if distances is None else {"ids": ids, "distances": distances}
    np.savez(data.path("claim.npz"), **arrays)
    return data.path("claim.npz")


def test_a_right_result_passes(vicinal, data, claim):
    done = vicinal("verify", *data.pair, save(data, *claim)).succeeds()
    assert done.out.splitlines()[0] == "3 of 3 rows right" and done.out.endswith("OK\n")
    assert "recall 1.000000" in done.out
    vicinal("verify", *data.pair, save(data, claim[0])).succeeds()


def test_our_own_results_pass_in_every_format(vicinal, data):
    for name, extra in (("r.npz", []), ("r.ivecs", ["--distances", data.path("d.fvecs")]),
                        ("r.ibin", ["--distances", data.path("d.fbin")]), ("r.npy", ["--distances", data.path("d.npy")])):
        vicinal("knn", *data.pair, "-k", 7, "-o", data.path(name), *extra).succeeds()
        answer = vicinal("verify", *data.pair, data.path(name), *extra, "--json").succeeds().json
        assert answer["ok"] and answer["has_distances"] and answer["k"] == 7


def test_a_wrong_row_is_named(vicinal, data, claim):
    ids, distances = claim
    far = int(np.argmax(((data.corpus - data.queries[1]) ** 2).sum(1)))
    true = int(ids[1, 3])
    ids[1, 3] = far
    done = vicinal("verify", *data.pair, save(data, ids, distances))
    assert (done.status, done.err) == (1, "")
    assert "2 of 3 rows right" in done.out and "1 row: wrong neighbours" in done.out
    ours = np.sqrt(((data.corpus[far] - data.queries[1]) ** 2).sum())
    wanted = f"row 1, rank 3: has id {far} at distance {ours:.9g}, should have id {true} at distance {distances[1, 3]:.9g}\n"
    assert wanted in done.out
    assert "recall 0.944444" in done.out and done.out.endswith("FAILED\n")


@pytest.mark.parametrize("bad", [300, -1, -5, 2**40])
def test_an_id_outside_the_corpus_is_wrong(vicinal, data, claim, bad):
    claim[0][2, 5] = bad
    done = vicinal("verify", *data.pair, save(data, *claim), "--json")
    true = float(claim[1][2, 5])
    assert done.status == 1 and done.json["faults"] == [
        {"row": 2, "rank": 5, "fault": "wrong", "given": None, "expected": true}]
    text = vicinal("verify", *data.pair, save(data, *claim)).out
    assert f"  row 2, rank 5: has id {bad} which is no row that may answer, should have id " in text


def test_an_id_twice_in_a_row_is_wrong(vicinal, data, claim):
    claim[0][0, 1] = 0
    done = vicinal("verify", *data.pair, save(data, *claim), "--json")
    assert done.status == 1 and done.json["faults"] == [
        {"row": 0, "rank": 1, "fault": "wrong", "given": None, "expected": 0}]
    text = vicinal("verify", *data.pair, save(data, *claim), "--rtol", "0.1").out
    assert "  row 0, rank 1: has id 0 a second time, should have id 290 at distance 0\n" in text


def test_ties_in_another_order(vicinal, data, claim):
    ids, distances = claim
    ids[0, :2] = ids[0, 1::-1]
    path = save(data, ids, distances)
    strict = vicinal("verify", *data.pair, path)
    assert strict.status == 1 and "1 row: wrong only in the order of ties\n  row 0, rank 0: " in strict.out
    assert "recall 1.000000" in strict.out
    loose = vicinal("verify", *data.pair, path, "--ties", "any").succeeds()
    assert "1 row: wrong only in the order of ties (allowed by --ties any)" in loose.out
    answer = vicinal("verify", *data.pair, path, "--ties", "any", "--json").succeeds().json
    assert answer["ok"] and answer["tie_order"] == 1
    assert answer["faults"] == [{"row": 0, "rank": 0, "fault": "tie_order", "given": 0, "expected": 0}]
    assert "has id 290 at distance 0, should have id 0 at distance 0\n" in strict.out
    vicinal("verify", *data.pair, path, "--rtol", "1e-6").succeeds()  # what ties has no order


def test_a_wrong_distance(vicinal, data, claim):
    ids, distances = claim
    true = distances[2, 4]
    distances[2, 4] = np.nextafter(true, np.float32(np.inf))
    path = save(data, ids, distances)
    done = vicinal("verify", *data.pair, path)
    assert done.status == 1 and "1 row: wrong only in distance\n  row 2, rank 4: has distance " in done.out
    assert f"should have {true:.9g}" in done.out
    vicinal("verify", *data.pair, path, "--rtol", "1e-6").succeeds()
    done = vicinal("verify", *data.pair, path, "--json")
    assert done.status == 1 and done.json["faults"] == [
        {"row": 2, "rank": 4, "fault": "distance", "given": float(distances[2, 4]), "expected": float(true)}]
    assert 0 < done.json["largest_relative_difference"] < 1.2e-7


def in_float32(corpus, queries, k):
    """What tools of float32 return: squared distances by the expanded square, which lose digits, and their own order."""
    squares = ((queries * queries).sum(1)[:, None] + (corpus * corpus).sum(1) - 2 * (queries @ corpus.T)).astype(np.float32)
    ids = np.argsort(squares, axis=1, kind="stable")[:, :k]
    return ids, np.take_along_axis(squares, ids, 1)


def test_near_ties_of_other_tools_pass_within_rtol(vicinal, data):
    """Rows on a sphere about each query, a few float32 roundings apart: the order is the other tool's, and so is who comes last."""
    rng = np.random.default_rng(5)
    queries = rng.standard_normal((40, 24)).astype(np.float32)
    steps = rng.standard_normal((40, 30, 24))
    steps *= (1 + rng.integers(0, 3, (40, 30, 1)) * 3e-7) / np.linalg.norm(steps, axis=2, keepdims=True)
    corpus = (queries[:, None] + steps).astype(np.float32).reshape(-1, 24)
    pair = data.save("sphere.npy", corpus), data.save("centres.npy", queries)
    ids, squares = in_float32(corpus, queries, 10)
    path = save(data, ids, squares)
    strict = vicinal("verify", *pair, path, "--metric", "sqeuclidean", "--json")
    assert strict.status == 1 and strict.json["wrong"] > 30 and strict.json["recall"] < 0.9
    for claimed in (path, save(data, ids)):
        answer = vicinal("verify", *pair, claimed, "--metric", "sqeuclidean", "--rtol", "2e-5", "--json").succeeds().json
        assert answer["ok"] and answer["correct"] == 40 and answer["near_ties"] > 30 and answer["faults"] == []
        text = vicinal("verify", *pair, claimed, "--metric", "sqeuclidean", "--rtol", "2e-5").succeeds().out
        wanted = f"40 of 40 rows right, {answer['near_ties']} of them with other neighbours at distances equal within --rtol 2e-05\n"
        assert text.startswith(wanted)
    # A row that is farther by more than that is none of them, wherever it stands; the text has its distance and the right one.
    other = int((ids[7, 0] // 30 + 1) % 40 * 30)
    for rank in (0, 4, 9):
        doctored = ids.copy()
        doctored[7, rank] = other
        done = vicinal("verify", *pair, save(data, doctored), "--metric", "sqeuclidean", "--rtol", "2e-5")
        given = ((corpus[other].astype(float) - queries[7]) ** 2).sum()
        assert done.status == 1 and "1 row: wrong neighbours\n" in done.out
        line = next(line for line in done.out.splitlines() if line.startswith("  row "))
        assert line.startswith(f"  row 7, rank {rank}: has id {other} at distance {given:.5g}"[:-1])
        assert float(line.split()[-1]) == pytest.approx(1, rel=1e-5)


def test_ten_rows_of_a_kind_are_named_and_the_rest_counted(vicinal, data):
    ids, _ = exact(data.corpus, data.queries, 2)
    done = vicinal("verify", *data.pair, save(data, np.roll(ids, 1, axis=0)))
    named = [line for line in done.out.splitlines() if line.startswith("  row ")]
    wrong = int(done.out.split(" rows: wrong neighbours")[0].splitlines()[-1])
    assert len(named) == 10 and wrong > 10 and f"  and {wrong - 10} rows more\n" in done.out
    assert [int(line.split()[1].rstrip(",")) for line in named] == sorted(
        int(line.split()[1].rstrip(",")) for line in named)


def test_json_of_verify(vicinal, data, claim):
    answer = vicinal("verify", *data.pair, save(data, *claim), "--json").succeeds().json
    assert (answer["schema"], answer["command"], answer["ok"], answer["rows"], answer["correct"]) == (1, "verify", True, 3, 3)
    assert (answer["wrong"], answer["tie_order"], answer["distance"], answer["recall"]) == (0, 0, 0, 1)
    assert answer["faults"] == [] and answer["certificate"]["certified"] is True


def test_ids_of_a_part(vicinal, data, claim):
    vicinal("verify", *data.pair, save(data, claim[0] + 5000, claim[1]), "--first-id", 5000).succeeds()


def test_padded_results_are_checked_too(vicinal, data):
    vicinal("knn", *data.pair, "-k", 303, "--pad", "-o", data.path("pad.npz")).succeeds()
    vicinal("verify", *data.pair, data.path("pad.npz")).succeeds()


def test_errors(vicinal, data, claim):
    path = save(data, *claim)
    vicinal("verify", *data.pair, path, "--ties", "loose").fails(2, "InvalidArgument", "strict or any, got loose")
    vicinal("verify", *data.pair, path, "--rtol", "much").fails(2, "InvalidArgument", "--rtol must be a number, got much")
    vicinal("verify", *data.pair, data.path("none.npz")).fails(4, "IoError", "No such file")
    vicinal("verify", *data.pair).fails(2, "InvalidArgument", "RESULT is required")
    vicinal("verify", *data.pair, save(data, claim[0][:2])).fails(2, "InvalidArgument", "2 rows, there are 3 queries")
    vicinal("verify", *data.pair, save(data, claim[0].astype(float))).fails(2, "InvalidArgument", "ids must be integers")
