"""`vicinal recall` and `vicinal merge`."""

import numpy as np
import pytest


def save(data, name, ids, distances=None):
    if distances is None:
        return data.save(name, np.array(ids, np.int64))
    np.savez(data.path(name), ids=np.array(ids, np.int64), distances=np.array(distances, np.float32))
    return data.path(name)


def test_recall_by_id_and_by_distance(vicinal, data):
    truth = save(data, "t.npz", [[0, 1, 2, 3], [5, 6, 7, 8]], [[0, 1, 1, 1], [1, 2, 3, 4]])
    found = save(data, "r.npz", [[0, 2], [5, 8]], [[0, 1], [1, 4]])
    answer = vicinal("recall", found, truth, "--json").succeeds().json
    assert answer == {"schema": 1, "command": "recall", "rows": 2, "k": 2, "neighbors": 4, "recall": 0.5,
                      "recall_by_distance": 0.75, "perfect_rows": 0}
    text = vicinal("recall", found, truth).succeeds().out
    assert text == "recall@2 0.500000 by id (2 of 4)\nrecall@2 0.750000 by distance (3 of 4), ties counted\n0 of 2 rows whole\n"
    assert vicinal("recall", found, truth, "-k", 1, "--json").json["recall"] == 1
    ids = save(data, "i.npy", [[0, 2], [5, 8]])
    answer = vicinal("recall", ids, truth, "--json").succeeds().json
    assert (answer["recall"], answer["recall_by_distance"]) == (0.5, 0.75), "the truth lists the tie"
    answer = vicinal("recall", found, save(data, "j.npy", [[0, 1], [5, 6]]), "--json").succeeds().json
    assert (answer["recall"], answer["recall_by_distance"]) == (0.5, None)


def test_recall_counts_an_id_once_and_padding_never(vicinal, data):
    truth = save(data, "t.npz", [[0, 1, -1]], [[0, 1, np.inf]])
    for ids, recall in (([[0, 0, 0]], 0.5), ([[1, 0, -1]], 1), ([[-1, -1, -1]], 0)):
        answer = vicinal("recall", save(data, "r.npz", ids, [[0, 0, 0]]), truth, "--json").succeeds().json
        assert (answer["recall"], answer["recall_by_distance"], answer["neighbors"]) == (recall, recall, 2)


def test_recall_of_inner_products_looks_up(vicinal, data):
    truth = save(data, "t.npz", [[0, 1]], [[9, 7]])
    found = save(data, "r.npz", [[4, 5]], [[7, 6]])
    assert vicinal("recall", found, truth, "--metric", "inner_product", "--json").json["recall_by_distance"] == 0.5
    assert vicinal("recall", found, truth, "--json").json["recall_by_distance"] == 1


def test_recall_of_a_real_result(vicinal, data):
    vicinal("knn", *data.pair, "-k", 6, "-o", data.path("t.npz")).succeeds()
    vicinal("knn", *data.pair, "-k", 6, "-o", data.path("t.csv")).succeeds()
    answer = vicinal("recall", data.path("t.csv"), data.path("t.npz"), "--json").succeeds().json
    assert (answer["recall"], answer["recall_by_distance"], answer["perfect_rows"]) == (1, 1, 17)


def test_recall_usage(vicinal, data):
    a, b = save(data, "a.npy", np.zeros((2, 3))), save(data, "b.npy", np.zeros((2, 2)))
    vicinal("recall", a, b).fails(2, "InvalidArgument", r"k=3 exceeds the 2 columns of .*b\.npy; -k 2 looks at fewer")
    vicinal("recall", a, b, "-k", 0).fails(2, "InvalidArgument", "k must be >= 1, got 0")
    vicinal("recall", a, save(data, "c.npy", np.zeros((3, 3)))).fails(2, "InvalidArgument", r"a\.npy has 2 rows, .*c\.npy has 3; give the truth of the same queries")
    vicinal("recall", a, b, "--metric", "l2").fails(2, "InvalidArgument", "unknown metric")


@pytest.fixture
def parts(vicinal, data):
    names = []
    for at, (first, last) in enumerate([(0, 100), (100, 130), (130, 300)]):
        part = data.save(f"c{at}.npy", data.corpus[first:last])
        names.append(data.path(f"part{at}.npz"))
        vicinal("knn", part, data.queries_path, "-k", 6, "--first-id", first, "-o", names[-1]).succeeds()
    return names


def test_merge_has_the_bits_of_one_search(vicinal, data, parts):
    vicinal("knn", *data.pair, "-k", 6, "-o", data.path("whole.npz")).succeeds()
    out = data.path("merged.npz")
    for order in (parts, parts[::-1]):
        assert vicinal("merge", *order, "-o", out).succeeds().out == f"merged 3 parts into {out}: 17 queries, k=6\n"
        assert out.read_bytes() == data.path("whole.npz").read_bytes()
    vicinal("merge", *parts[:2], "-o", data.path("half.bin")).succeeds()
    answer = vicinal("merge", data.path("half.bin"), parts[2], "-o", out, "--json").succeeds().json
    assert out.read_bytes() == data.path("whole.npz").read_bytes()
    assert answer == {"schema": 1, "command": "merge", "parts": [str(data.path("half.bin")), str(parts[2])], "rows": 17,
                      "k": 6, "metric": "euclidean", "distance_type": "f32", "output": {"ids": str(out)}}
    vicinal("merge", *parts, "-k", 2, "-o", data.path("two.npy")).succeeds()
    assert np.array_equal(np.load(data.path("two.npy")), np.load(out)["ids"][:, :2])
    text = vicinal("merge", *parts, "-k", 1, "-o", "-").succeeds().out.splitlines()
    assert text[0] == "id_0,d_0" and len(text) == 18


def test_merge_usage(vicinal, data, parts):
    out = ("-o", data.path("out.npz"))
    vicinal("merge", parts[0], parts[0], *out).fails(2, "InvalidArgument", "id .* is in two parts")
    vicinal("merge", *parts, "-k", 0, *out).fails(2, "InvalidArgument", "k must be >= 1")
    vicinal("merge", *parts, "-k", 100, *out).fails(2, "InvalidArgument", "pad")
    vicinal("merge", *parts, "-k", 20, "--pad", *out).succeeds()
    ids = data.save("ids.npy", np.zeros((17, 6), np.int64))
    vicinal("merge", parts[0], ids, *out).fails(2, "InvalidArgument", "ids.npy has no distances; merge needs them")
    vicinal("merge", *parts).fails(2, "InvalidArgument", "--output|-o")
    vicinal("merge", data.path("none.npz"), "-o", data.path("out.foo")).fails(2, "Unsupported", "unknown suffix")
