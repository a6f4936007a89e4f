"""The permutation index by the command: build, search, info, tune; what they refuse."""

import numpy as np
import pytest
from conftest import exact


@pytest.fixture
def index(vicinal, data):
    path = data.path("index.vicinal")
    vicinal("index", "build", data.corpus_path, "-o", path, "--permutants", 12, "--seed", 3).succeeds()
    return path


def test_search(vicinal, data, index):
    ids, distances = exact(data.corpus, data.queries, 4)
    done = vicinal("index", "search", index, data.queries_path, "-k", 4, "--exact", "--json").succeeds().json
    assert done["ids"] == ids.tolist() and np.array(done["distances"], np.float32).tolist() == distances.tolist()
    assert done["recall"]["value"] == 1 and done["command"] == "index search"
    done = vicinal("index", "search", index, data.queries_path, "-k", 4, "--fraction", 1, "--json").succeeds().json
    assert done["ids"] == ids.tolist()
    vicinal("index", "search", index, data.queries_path, "-k", 4, "--exact", "-o", data.path("near.npz")).succeeds()
    assert np.load(data.path("near.npz"))["ids"].tolist() == ids.tolist()
    text = vicinal("index", "search", index, data.queries_path, "-k", 4, "--recall", 0.8).succeeds().out
    assert "expected recall" in text and "4 nearest of 300 rows of 24 f32 for 17 queries" in text
    text = vicinal("index", "search", index, data.queries_path, "-k", 4, "--tune-on", "queries").succeeds().out
    assert "by 17 of the queries" in text or "recall 1" in text
    done = vicinal("index", "search", index, data.queries_path, "-r", 40, "--exact", "--json").succeeds().json
    wanted = vicinal("range", *data.pair, "-r", 40, "--json").succeeds().json
    assert done["ids"] == wanted["ids"] and done["offsets"] == wanted["offsets"]
    out = vicinal("index", "search", index, data.queries_path, "-k", 1, "--exact", "-o", "-").succeeds().out
    assert len(out.splitlines()) in (17, 18)


def test_info_and_tune(vicinal, data, index):
    assert "12, random, seed 3" in vicinal("index", "info", index).succeeds().out
    assert vicinal("index", "info", index, "--json").succeeds().json["index"]["objects"] == 300
    done = vicinal("index", "tune", index, "-k", 3, "--recall", 0.9, "--json").succeeds().json
    assert done["recall"]["value"] >= 0.9 and done["gain"] > 0 and done["advice"] in ("index", "exact")
    assert "advice" in vicinal("index", "tune", index).succeeds().out


def test_strings(vicinal, tmp_path):
    words, typed, index = tmp_path / "words.txt", tmp_path / "typed.txt", tmp_path / "words.vicinal"
    words.write_text("\n".join(["anna", "anne", "hannah", "bob", "bobby", "rob"]))
    typed.write_text("ann\nrobb\n")
    vicinal("index", "build", words, "-o", index, "--metric", "levenshtein", "--permutants", 3, "--form", "prefix").succeeds()
    done = vicinal("index", "search", index, typed, "-k", 2, "--exact", "--json").succeeds().json
    assert done["ids"] == [[0, 1], [5, 3]] and done["distances"] == [[1, 1], [1, 2]]


def test_refused(vicinal, data, index):
    vicinal("index", "make", data.corpus_path).fails(2, "InvalidArgument", "unknown action make")
    vicinal("index", "build", data.corpus_path).fails(2, "InvalidArgument", "needs -o")
    vicinal("index", "build", data.corpus_path, "-o", data.path("b.npy")).fails(2, "Unsupported", ".vicinal")
    vicinal("index", "build", data.corpus_path, "-o", index, "--permutants", 301).fails(2, "InvalidArgument", "exceeds the 300")
    vicinal("index", "build", data.corpus_path, "-o", index, "-k", 3).fails(2, "InvalidArgument", "does not take -k")
    vicinal("index", "info", index, "--permutants", 3).fails(2, "InvalidArgument", "does not take --permutants; it is of index build")
    vicinal("index", "search", index).fails(2, "InvalidArgument", "index search needs QUERIES: vicinal index search FILE QUERIES")
    vicinal("index", "search", index, data.queries_path, "--tune-on", "rows").fails(2, "InvalidArgument", 'unknown tune_on "rows"; .*known: auto, objects, queries')
    vicinal("index", "search", index, data.queries_path, "-k", 301).fails(2, "InvalidArgument", "k=301 exceeds the n=300")
    vicinal("index", "search", data.corpus_path, data.queries_path, "-k", 3).fails(3, "FormatError", "not a vicinal file")
