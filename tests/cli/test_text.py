"""Text and integers as users have them: headers of pandas, indexes, semicolons, wide integers and bool."""

import numpy as np
import pytest
from conftest import exact

RNG = np.random.default_rng(5)
ROWS = np.round(RNG.normal(size=(40, 4)), 3)


def csv(rows, header=None, index=False, separator=","):
    lines = [] if header is None else [separator.join(([""] if index else []) + [str(name) for name in header])]
    for i, row in enumerate(rows):
        lines.append(separator.join(([str(i)] if index else []) + [repr(float(v)) if v != int(v) else f"{v:.1f}" for v in row]))
    return "\n".join(lines) + "\n"


# what pandas and others write of a table, and what the note says: to_csv(index=False) of unnamed columns, to_csv() with the index, words
TABLES = [
    (dict(), ""),
    (dict(header=range(4)), "was taken as names of columns"),
    (dict(header=range(4), index=True), "column 1 has no name"),
    (dict(header="abcd"), ""),
    (dict(header="abcd", index=True), "column 1 has no name"),
    (dict(separator=";"), ""),
    (dict(header="abcd", separator=";"), ""),
    (dict(header=range(4), separator=";"), "was taken as names of columns"),
    (dict(header=range(4), index=True, separator=";"), "column 1 has no name"),
]


@pytest.mark.parametrize("table, note", TABLES)
def test_ids_are_those_of_the_rows(vicinal, tmp_path, table, note):
    corpus, queries = tmp_path / "c.csv", tmp_path / "q.csv"
    corpus.write_text(csv(ROWS, **table))
    queries.write_text(csv(ROWS[7:12], **table))
    for words in (["knn", corpus, queries, "-k", 1, "--json"], ["range", corpus, queries, "-r", 0, "--json"]):
        done = vicinal(*words)
        assert done.status == 0 and np.ravel(done.json["ids"]).tolist() == list(range(7, 12))
        told = [line for line in done.err.splitlines() if line]
        assert len(told) == (2 if note else 0) and all(line.startswith("vicinal: note: ") and note in line for line in told)
        assert done.json["stats"]["notes"] == [line.removeprefix("vicinal: note: ") for line in told]
    graph = vicinal("graph", corpus, "-k", 1, "--json").json
    assert len(graph["ids"]) == 40 and bool(note) == bool(graph["stats"]["notes"])
    done = vicinal("convert", corpus, tmp_path / "rows.npy")
    assert done.status == 0 and (note in done.err) and bool(note) == bool(done.err)
    np.testing.assert_array_equal(np.load(tmp_path / "rows.npy"), ROWS)
    selected = vicinal("select", corpus, "-k", 1, "--json")
    assert selected.json["input"]["rows"] == 40 and note in selected.err
    vicinal("knn", corpus, queries, "-k", 1, "-o", tmp_path / "truth.npz")
    assert vicinal("verify", corpus, queries, tmp_path / "truth.npz").status == 0
    assert vicinal("index", "build", corpus, "-o", tmp_path / "i.vicinal", "--permutants", 4).status == 0
    assert vicinal("index", "info", tmp_path / "i.vicinal", "--json").json["index"]["objects"] == 40


def test_the_user_decides(vicinal, tmp_path):
    path, first = tmp_path / "c.csv", np.arange(4.0)
    path.write_text("0,1,2,3\n" + csv(ROWS))
    for words, rows in ((["--header"], ROWS), (["--no-header"], np.vstack([first, ROWS]))):
        vicinal("convert", path, tmp_path / "rows.npy", *words).succeeds()
        np.testing.assert_array_equal(np.load(tmp_path / "rows.npy"), rows)
        for command in (["knn", path, path, "-k", 1], ["range", path, path, "-r", 0], ["graph", path, "-k", 1], ["select", path, "-k", 1]):
            done = vicinal(*command, "--json", *words).succeeds().json
            assert (len(done["ids"]) if "ids" in done else done["input"]["rows"]) == len(rows)
        vicinal("knn", path, path, "-k", 1, *words, "-o", tmp_path / "t.npz").succeeds()
        vicinal("verify", path, path, tmp_path / "t.npz", *words).succeeds()
        vicinal("index", "build", path, "-o", tmp_path / "i.vicinal", "--permutants", 4, *words).succeeds()
    vicinal("knn", path, path, "-k", 1, "--header", "--no-header").fails(2, "InvalidArgument", "--header and --no-header exclude each other")
    path.write_text("0,1,label\n1,2,3\n")
    vicinal("knn", path, path, "-k", 1).fails(3, "FormatError", '"label" is not a number; --header if row 1 is names')
    assert vicinal("knn", path, path, "-k", 1, "--header", "--json").succeeds().json["ids"] == [[0]]


def test_pandas_itself(vicinal, tmp_path):
    pandas = pytest.importorskip("pandas")
    frames = [pandas.DataFrame(ROWS), pandas.DataFrame(ROWS, columns=list("abcd")), pandas.DataFrame((ROWS * 1000).astype(int))]
    for frame in frames:
        for index in (False, True):
            frame.to_csv(tmp_path / "c.csv", index=index)
            assert vicinal("convert", tmp_path / "c.csv", tmp_path / "c.npy").status == 0
            np.testing.assert_array_equal(np.load(tmp_path / "c.npy"), frame.to_numpy())


WIDE = ["int16", "int32", "int64", "uint16", "uint32", "uint64", "bool"]


@pytest.mark.parametrize("dtype", WIDE)
def test_integers_of_every_width(vicinal, tmp_path, dtype):
    """Answers are those of the exact values, from every format that holds such elements."""
    low, high = (0, 2) if dtype == "bool" else (0 if dtype[0] == "u" else -3000, 3000)
    corpus, queries = (RNG.integers(low, high, shape).astype(dtype) for shape in ((200, 8), (9, 8)))
    ids, distances = exact(corpus.astype(np.int64), queries.astype(np.int64), 5)
    forms = [("c.npy", "q.npy", np.save), ("c.npy", "q.npy", lambda path, rows: np.save(path, np.asfortranarray(rows)))]
    if dtype != "bool":
        forms.append(("c.npy", "q.npy", lambda path, rows: np.save(path, rows.astype(rows.dtype.newbyteorder(">")))))
    for c, q, save in forms:
        save(tmp_path / c, corpus), save(tmp_path / q, queries)
        check(vicinal, tmp_path, tmp_path / c, tmp_path / q, ids, distances)
    np.savez(tmp_path / "both.npz", corpus=corpus, queries=queries)
    check(vicinal, tmp_path, f"{tmp_path}/both.npz:corpus", f"{tmp_path}/both.npz:queries", ids, distances)
    np.savez_compressed(tmp_path / "one.npz", rows=corpus, names=np.arange(200))
    check(vicinal, tmp_path, tmp_path / "one.npz", f"{tmp_path}/both.npz:queries", ids, distances)
    if dtype in ("int16", "int32"):
        code = {"int16": 0x0B, "int32": 0x0C}[dtype]
        head = bytes([0, 0, code, 2]) + np.array(corpus.shape, ">u4").tobytes()
        (tmp_path / "c.idx").write_bytes(head + corpus.astype(corpus.dtype.newbyteorder(">")).tobytes())
        check(vicinal, tmp_path, tmp_path / "c.idx", tmp_path / "q.npy", ids, distances)
    h5py = pytest.importorskip("h5py")
    if "hdf5" in vicinal("info").out:
        with h5py.File(tmp_path / "both.hdf5", "w") as file:
            file["train"], file["test"] = corpus, queries
        check(vicinal, tmp_path, f"{tmp_path}/both.hdf5:train", f"{tmp_path}/both.hdf5:test", ids, distances)


def test_masks_and_ids_beside_rows_are_no_rows(vicinal, tmp_path):
    """Wide integers and bool are rows by name, or where the file has no others."""
    rows = RNG.integers(0, 9, (20, 3)).astype(np.float32)
    named = {"rows": rows, "mask": rows > 4, "ids": rows.astype(np.int64)}
    np.savez(tmp_path / "c.npz", **named)
    files = ["c.npz"]
    if "hdf5" in vicinal("info").out:
        h5py = pytest.importorskip("h5py")
        with h5py.File(tmp_path / "c.hdf5", "w") as file:
            for name, value in named.items():
                file[name] = value
        files.append("c.hdf5")
    for name in files:
        vicinal("knn", tmp_path / name, tmp_path / name, "-k", 1, "-o", tmp_path / "out.npz").succeeds()
        assert np.load(tmp_path / "out.npz")["distances"].dtype == np.float32
        vicinal("knn", f"{tmp_path}/{name}:mask", f"{tmp_path}/{name}:ids", "-k", 1).succeeds()
    np.savez(tmp_path / "two.npz", mask=rows > 4, ids=rows.astype(np.int64))
    vicinal("knn", tmp_path / "two.npz", tmp_path / "two.npz", "-k", 1).fails(3, "FormatError", "2 arrays can be rows")


def check(vicinal, tmp_path, corpus, queries, ids, distances):
    vicinal("knn", corpus, queries, "-k", 5, "-o", tmp_path / "out.npz").succeeds()
    with np.load(tmp_path / "out.npz") as found:
        np.testing.assert_array_equal(found["ids"], ids)
        np.testing.assert_array_equal(found["distances"].astype(np.float32), distances)


@pytest.mark.parametrize("dtype, value, column", [("int64", 2**53 + 1, 2), ("int64", -(2**53) - 1, 0), ("uint64", 2**63 + 1, 1)])
def test_integers_that_no_float_holds_are_named(vicinal, tmp_path, dtype, value, column):
    rows = np.ones((5, 3), dtype)
    np.save(tmp_path / "good.npy", rows)
    rows[4, column] = value
    np.save(tmp_path / "bad.npy", rows)
    for words in (["bad.npy", "good.npy"], ["good.npy", "bad.npy"]):
        vicinal("knn", *words, "-k", 1, cwd=tmp_path).fails(3, "InvalidValue", rf"bad.npy row 4, column {column} is {value}.*2\^53")


def test_ids_stay_ids(vicinal, tmp_path):
    """convert takes wide integers for ids, as before, and for rows where asked."""
    ids = np.array([[3, 2**40], [0, 1]])
    np.save(tmp_path / "ids.npy", ids)
    vicinal("convert", tmp_path / "ids.npy", tmp_path / "ids.csv").succeeds()
    assert (tmp_path / "ids.csv").read_text().startswith("id_0,id_1\n3,") or "rows" not in vicinal("convert", tmp_path / "ids.npy", tmp_path / "b.npy").out
    vicinal("convert", tmp_path / "ids.npy", tmp_path / "rows.npy", "--as", "rows").succeeds()
    assert np.load(tmp_path / "rows.npy").dtype == np.float64
    vicinal("knn", tmp_path / "x.ivecs", tmp_path / "x.ivecs", "-k", 1).fails(4, "IoError", "x.ivecs")
    np.array([2, 5, 6], np.int32).tofile(tmp_path / "x.ivecs")
    vicinal("knn", tmp_path / "x.ivecs", tmp_path / "x.ivecs", "-k", 1).fails(2, "InvalidArgument", "int32 not supported")
