"""Strings by the command: text files in, the same answers as Python's own table of edits, and what is refused."""

import json

import numpy as np
import pytest

WORDS = ["casa", "gato", "perro", "gatos", "a\u00f1o", "ano", "gato"]
TYPED = ["gata", "caza", "a\u00f1os"]


def edits(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        diagonal, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (x != y))
    return row[-1]


@pytest.fixture
def files(tmp_path):
    corpus, queries = tmp_path / "words.txt", tmp_path / "typed.txt"
    corpus.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(WORDS).encode() + b"\r\n")  # a mark, CR LF
    queries.write_text("\n".join(TYPED))  # no line end at the end
    return corpus, queries


def test_knn(vicinal, files, tmp_path):
    done = vicinal("knn", *files, "-k", 3, "--metric", "levenshtein", "--json").succeeds().json
    ranked = [sorted((edits(q, w), i) for i, w in enumerate(WORDS))[:3] for q in TYPED]
    assert done["ids"] == [[i for _, i in row] for row in ranked]
    assert done["distances"] == [[d for d, _ in row] for row in ranked]
    assert done["corpus"] == {"path": str(files[0]), "rows": 7, "strings": "utf8"} and done["distance_type"] == "u32"
    vicinal("knn", *files, "-k", 3, "--metric", "levenshtein", "-o", tmp_path / "near.npz", "--explain").succeeds()
    assert np.load(tmp_path / "near.npz")["ids"].tolist() == done["ids"]
    text = vicinal("knn", *files, "-k", 1, "--metric", "normalized_levenshtein").succeeds().out
    assert "1 nearest of 7 rows for 3 queries, strings, normalized_levenshtein" in text
    plan = vicinal("knn", *files, "-k", 1, "--metric", "levenshtein", "--plan").succeeds().out
    assert "distances       u32" in plan


def test_bytes_and_streams(vicinal, files):
    flags = ("-k", 1, "--metric", "levenshtein", "--json")
    done = vicinal("knn", files[0], "-", *flags, input="a\u00f1o\n".encode()).succeeds().json
    assert (done["ids"], done["distances"]) == ([[4]], [[0]])
    done = vicinal("knn", files[1], "-", "--bytes", *flags, input=b"ano\n").succeeds().json
    assert (done["ids"], done["distances"]) == ([[0]], [[3]])  # "a\u00f1os" is as far by bytes
    assert vicinal("knn", files[1], "-", *flags, input=b"ano\n").succeeds().json["ids"] == [[2]]


def test_range_and_graph(vicinal, files):
    done = vicinal("range", files[0], files[0], "-r", 1, "--metric", "levenshtein", "--json").succeeds().json
    wanted = [[i for _, i in sorted((edits(a, b), i) for i, b in enumerate(WORDS) if edits(a, b) <= 1)] for a in WORDS]
    bounds = done["offsets"]
    assert [done["ids"][a:b] for a, b in zip(bounds, bounds[1:])] == wanted
    graph = vicinal("graph", files[0], "-k", 1, "--metric", "jaccard", "--ngram", 2, "--json").succeeds().json
    assert graph["ids"][1] == [6] and graph["distances"][1] == [0]
    vicinal("graph", files[0], "-k", 1, "--metric", "levenshtein", "--symmetrize", "union").succeeds()


def test_hamming_needs_to_be_told(vicinal, tmp_path):
    path = tmp_path / "codes.txt"
    path.write_text("GATTACA\nGATTATA\n")
    done = vicinal("knn", path, path, "-k", 2, "--metric", "hamming", "--strings", "--json").succeeds().json
    assert done["distances"] == [[0, 1], [0, 1]]
    vicinal("knn", path, path, "-k", 2, "--metric", "hamming").fails(2, "Unsupported", "txt")


def test_refused(vicinal, files, tmp_path):
    flags = ("-k", 1, "--metric", "levenshtein")
    wrong = tmp_path / "wrong.txt"
    wrong.write_bytes(b"fine\n" * 43 + b"not fine \xff\n")
    vicinal("knn", wrong, files[1], *flags).fails(3, "FormatError", "line 44: invalid UTF-8 at byte 9")
    vicinal("knn", wrong, files[1], "--bytes", *flags).succeeds()
    vicinal("knn", tmp_path / "none.txt", files[1], *flags).fails(4, "IoError", "No such file")
    vicinal("knn", tmp_path / "a.npy", files[1], *flags).fails(2, "Unsupported", "strings are read from text files")
    vicinal("knn", *files, "-k", 9, "--metric", "levenshtein").fails(2, "InvalidArgument", "k=9 exceeds the n=7 rows of the corpus")
    vicinal("knn", *files, "--max-length", 3, *flags).fails(2, "InvalidArgument", "corpus string 0 has 4 symbols, the limit is 3")
    vicinal("knn", *files, "--strings", "-k", 1).fails(2, "InvalidArgument", "euclidean compares vectors")
    vicinal("knn", *files, "--resume", tmp_path / "d", "-o", tmp_path / "o.npz", *flags).fails(2, "Unsupported", "--resume")
    vicinal("knn", *files, "--memory", 1000, *flags).fails(5, "MemoryBudget", "needs at least")
    (tmp_path / "empty.txt").write_text("")
    vicinal("knn", tmp_path / "empty.txt", files[1], *flags).fails(2, "InvalidArgument", "corpus has 0 rows")
    assert json.loads(vicinal("knn", files[0], tmp_path / "empty.txt", "--json", *flags).succeeds().out)["ids"] == []
