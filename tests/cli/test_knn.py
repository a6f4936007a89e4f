"""`vicinal knn`: every output format read back, the table, JSON, plan and explain."""

import os

import numpy as np
import pytest
from conftest import call, exact, read_bin, read_vecs

READERS = {
    ".npy": np.load,
    ".ivecs": lambda path: read_vecs(path, np.int32),
    ".ibin": lambda path: read_bin(path, np.int32),
    ".fvecs": lambda path: read_vecs(path, np.float32),
    ".fbin": lambda path: read_bin(path, np.float32),
}


def check_equal(data, ids, distances, k=6):
    true_ids, true_distances = exact(data.corpus, data.queries, k)
    assert np.array_equal(ids, true_ids)
    if distances is not None:
        assert distances.dtype == np.float32 and np.array_equal(distances, true_distances)


def test_npz_holds_ids_and_distances(vicinal, data):
    out = data.path("out.npz")
    vicinal("knn", *data.pair, "-k", 6, "-o", out).succeeds()
    with np.load(out) as result:
        assert sorted(result.files) == ["distances", "ids"] and result["ids"].dtype == np.int64
        check_equal(data, result["ids"], result["distances"])
    assert data.names() == ["corpus.npy", "out.npz", "queries.npy"]


@pytest.mark.parametrize("ids", [".npy", ".ivecs", ".ibin"])
@pytest.mark.parametrize("distances", ["", ".npy", ".fvecs", ".fbin"])
def test_ids_and_distances_in_files_of_their_own(vicinal, data, ids, distances):
    out, other = data.path("ids" + ids), data.path("distances" + distances)
    extra = ["--distances", other] if distances else []
    vicinal("knn", *data.pair, "-k", 6, "-o", out, *extra).succeeds()
    check_equal(data, READERS[ids](out), READERS[distances](other) if distances else None)


def test_an_existing_result_is_replaced(vicinal, data):
    out = data.save("out.npy", np.zeros(3))
    vicinal("knn", *data.pair, "-k", 6, "-o", out).succeeds()
    check_equal(data, np.load(out), None)


def test_table_without_output(vicinal, data):
    lines = vicinal("knn", *data.pair, "-k", 6).succeeds().out.splitlines()
    ids, distances = exact(data.corpus, data.queries, 6)
    assert lines[0].split()[:3] == ["query", "nearest", "id"]
    for query in range(8):
        cells = lines[1 + query].split()
        assert cells[0] == str(query) and cells[1::2] == [str(i) for i in ids[query, :4]]
        assert np.allclose(np.array(cells[2::2], float), distances[query, :4], rtol=1e-5)
    assert len({len(line) for line in lines[:9]}) == 1, "columns are aligned"
    assert lines[9] == "and 9 queries more; 2 neighbours more a query"
    assert lines[-1].startswith("certified exact: ")


def test_json_is_one_object(vicinal, data):
    answer = vicinal("knn", *data.pair, "-k", 6, "--json", "-o", data.path("out.npz")).succeeds().json
    assert list(answer)[:2] == ["schema", "command"] and (answer["schema"], answer["command"]) == (1, "knn")
    shape = {"path": str(data.corpus_path), "rows": 300, "cols": 24, "dtype": "f32", "mapped": True}
    assert answer["corpus"] == shape and answer["queries"]["rows"] == 17
    assert (answer["k"], answer["metric"], answer["device"], answer["distance_type"]) == (6, "euclidean", "cpu", "f32")
    certificate = answer["certificate"]
    assert certificate["certified"] is True and certificate["queries"] == 17
    assert certificate["proven"] + certificate["redone"] == 17 and certificate["precisions"]
    stats = answer["stats"]
    assert stats["pairs"] == 300 * 17 and stats["threads"] >= 1 and stats["passes"] >= 1
    assert set(stats) == {"device", "instruction_set", "threads", "seconds", "prepare_seconds", "pairs", "candidates",
                          "reranked", "underflowed", "copied_bytes", "planned_bytes", "used_bytes", "rotated", "projected", "planned_seconds",
                          "passes", "notes"}
    assert isinstance(answer["seconds"], float) and answer["output"] == {"ids": str(data.path("out.npz"))}
    assert "ids" not in answer


def test_json_without_output_carries_the_result(vicinal, data):
    answer = vicinal("knn", *data.pair, "-k", 6, "--json").succeeds().json
    check_equal(data, np.array(answer["ids"]), np.array(answer["distances"], np.float32))


def test_json_writes_null_for_the_infinite_distance_of_padding(vicinal, data):
    answer = vicinal("knn", *data.pair, "-k", 302, "--pad", "--json").succeeds().json
    assert [row[-2:] for row in answer["ids"]] == [[-1, -1]] * 17
    assert [row[-2:] for row in answer["distances"]] == [[None, None]] * 17


def test_padding_shows_as_a_dash(vicinal, data):
    small = data.save("small.npy", data.corpus[:2])
    first = vicinal("knn", small, data.queries_path, "-k", 3, "--pad").succeeds().out.splitlines()[1].split()
    assert first[1] in ("0", "1") and first[5:7] == ["-", "inf"]


@pytest.mark.parametrize("asked, dtype", [("f32", np.float32), ("f64", np.float64)])
def test_distance_type(vicinal, data, asked, dtype):
    out = data.path("out.npz")
    vicinal("knn", *data.pair, "-k", 6, "--distance-type", asked, "-o", out).succeeds()
    assert np.load(out)["distances"].dtype == dtype


def test_metrics_and_their_other_names(vicinal, data):
    difference = np.abs(data.queries[:, None, :] - data.corpus[None, :, :])
    for names, distances in ((("l1", "cityblock", "manhattan"), difference.sum(2)),
                             (("linf", "chebyshev"), difference.max(2))):
        for name in names:
            vicinal("knn", *data.pair, "-k", 6, "--metric", name, "-o", data.path("out.npy")).succeeds()
            assert np.array_equal(np.load(data.path("out.npy")), np.argsort(distances, 1, kind="stable")[:, :6])


def test_first_id_moves_every_id(vicinal, data):
    vicinal("knn", *data.pair, "-k", 6, "--first-id", 10**12, "-o", data.path("out.npy")).succeeds()
    check_equal(data, np.load(data.path("out.npy")) - 10**12, None)


@pytest.mark.parametrize("options", [["--threads", 1], ["--threads", 5], ["--memory", "least"], ["--device", "cpu"]])
def test_how_it_runs_changes_no_byte(vicinal, data, options):
    vicinal("knn", *data.pair, "-k", 6, "-o", data.path("a.npz")).succeeds()
    if options[1] == "least":
        options = ["--memory", vicinal("knn", *data.pair, "-k", 6, "--plan", "--json").json["plan"]["minimum_bytes"]]
    vicinal("knn", *data.pair, "-k", 6, "-o", data.path("b.npz"), *options).succeeds()
    assert data.path("a.npz").read_bytes() == data.path("b.npz").read_bytes()


def test_arrays_of_an_npz_by_name(vicinal, data):
    np.savez(data.path("both.npz"), x=data.corpus, y=data.queries)
    both = str(data.path("both.npz"))
    vicinal("knn", both + ":x", both + ":y", "-k", 6, "-o", data.path("out.npz")).succeeds()
    check_equal(data, np.load(data.path("out.npz"))["ids"], None)


@pytest.mark.parametrize("change", [np.asfortranarray, lambda a: a.astype(">f4"), lambda a: a.astype(np.float64),
                                    lambda a: a.astype(np.float16), lambda a: a.astype(np.int8)])
def test_order_endianness_and_types_of_npy(vicinal, data, change):
    corpus, queries = data.save("c.npy", change(data.corpus)), data.save("q.npy", change(data.queries))
    vicinal("knn", corpus, queries, "-k", 6, "-o", data.path("out.npy")).succeeds()
    check_equal(data, np.load(data.path("out.npy")), None)


def test_no_queries_is_no_error(vicinal, data):
    none = data.save("none.npy", data.queries[:0])
    vicinal("knn", data.corpus_path, none, "-k", 6, "-o", data.path("out.npy")).succeeds()
    assert np.load(data.path("out.npy")).shape == (0, 6)


def test_degenerate_rows_on_request(vicinal, data):
    corpus = data.corpus.copy()
    corpus[5] = 0
    path = data.save("zero.npy", corpus)
    answer = vicinal("knn", path, data.queries_path, "-k", 300, "--metric", "cosine", "--degenerate", "one",
                     "--json").succeeds().json
    assert all(row[ids.index(5)] == 1 for ids, row in zip(answer["ids"], answer["distances"]))


def sparse_npy(path, rows, cols):
    """A file of zeros that takes no room on disk: only its header is ever looked at."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {cols}), }}"
    header = header.ljust(117) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode())
        file.truncate(10 + len(header) + rows * cols * 4)


def test_plan_reads_a_few_rows_at_most(vicinal, data):
    """Sixteen GiB of rows are planned for at once, and nothing is written."""
    sparse_npy(data.path("huge.npy"), 2**25, 128)
    queries = data.save("q.npy", np.full((100, 128), np.nan, np.float32))  # a search would refuse NaN
    arguments = ("knn", data.path("huge.npy"), queries, "-k", 6, "--memory", "256MiB", "--plan")
    text = vicinal(*arguments, "-o", data.path("out.npz")).succeeds().out
    assert "memory" in text and "predicted" in text
    plan = vicinal(*arguments, "--json").succeeds().json
    assert plan["command"] == "knn" and plan["corpus"]["rows"] == 2**25
    assert plan["plan"]["peak_bytes"] <= 2**28 and plan["plan"]["cascade"][-1] == "canonical"
    assert not data.path("out.npz").exists()


def test_explain(vicinal, data):
    text = vicinal("knn", *data.pair, "-k", 6, "--explain").succeeds().out
    facts = [line.split()[0] for line in text.split("\n\n")[-1].splitlines()]
    for word in ("device", "precisions", "certified", "survivors", "reranked", "corpus", "memory", "prepare", "search"):
        assert word in facts
    explained = vicinal("knn", *data.pair, "-k", 6, "--explain", "--json").succeeds().json["explain"]
    assert explained["survivors_per_query"] >= 6 and explained["corpus_bytes"] == 300 * 24 * 4
    forced = vicinal("knn", *data.pair, "-k", 6, "--explain", "--json", env={**os.environ, "VICINAL_FILTER": "int8"}).succeeds().json["explain"]
    assert forced["product_share"] > 0 and forced["memory_share"] > 0
    rotated = vicinal("knn", *data.pair, "-k", 6, "--metric", "cosine", "--explain", env={**os.environ, "VICINAL_FILTER": "rotated"}).succeeds().out
    assert "bytes of rotated rows" in rotated and "bytes of rotated rows" not in text
    projected = vicinal("knn", *data.pair, "-k", 6, "--metric", "cosine", "--explain", env={**os.environ, "VICINAL_FILTER": "projected"}).succeeds().out
    assert "bytes of rows projected to " in projected and "bytes of rows projected to " not in text


def test_a_path_that_is_not_utf8(vicinal, data):
    folder = bytes(data.folder)
    odd = folder + b"/\xff\xfe.npy"
    with open(odd, "wb") as file:
        np.save(file, data.corpus)
    answer = call("knn", odd, data.queries_path, "-k", 6, "--json", "-o", folder + b"/\xfd.npy").succeeds().json
    assert answer["corpus"]["rows"] == 300
    with open(folder + b"/\xfd.npy", "rb") as file:
        check_equal(data, np.load(file), None)


def test_any_path_in_json(vicinal, data):
    """Escapes, and the same replacement of what is not UTF-8 that Python's decoder makes."""
    pieces = [b'"\\\n\t\x01\x1f\x7f', "\u00e9\u20ac\U0001f600\U0010ffff".encode(), b"\x80", b"\xc3", b"\xc0\xaf", b"\xe2\x82",
              b"\xe0\x9f\xbf", b"\xed\xa0\x80", b"\xf0\x9f\x98", b"\xf0\x8f\xbf\xbf", b"\xf4\x90\x80\x80", b"\xf5", b"\xe2\xe2\x82\xac"]
    name = bytes(data.folder) + b"/" + b"_".join(pieces) + b".npy"
    with open(name, "wb") as file:
        np.save(file, data.corpus)
    answer = call("knn", name, data.queries_path, "-k", 1, "--plan", "--json").succeeds().json
    assert answer["corpus"]["path"] == name.decode(errors="replace")


def test_numbers_in_json(vicinal, tmp_path):
    """Every distance reads back as the bits that the library found, as a float and never as an integer; padding is null."""
    scales = 10.0 ** np.arange(-12, 20)
    corpus = np.outer(scales, [1.0, 0.0]) * 1.1
    np.save(tmp_path / "corpus.npy", corpus)
    np.save(tmp_path / "origin.npy", np.zeros((1, 2)))
    words = ["knn", tmp_path / "corpus.npy", tmp_path / "origin.npy", "-k", len(scales) + 1, "--pad"]
    distances = call(*words, "--json").succeeds().json["distances"][0]
    call(*words, "-o", tmp_path / "ids.npy", "--distances", tmp_path / "distances.npy").succeeds()
    assert all(isinstance(distance, float) for distance in distances[:-1]) and distances[-1] is None
    assert np.load(tmp_path / "distances.npy")[0][:-1].tolist() == distances[:-1]
