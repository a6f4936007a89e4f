"""`vicinal convert`, and `-` for the standard streams."""

import io
import os
import resource
import subprocess

import numpy as np
import pytest
from conftest import COMMAND, call, exact, read_bin, read_vecs


def pipe(*words, data=b""):
    done = subprocess.run([COMMAND, *map(str, words)], input=data, capture_output=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


def fails_with_input(data, status, code, pattern, *words, **options):
    call(*words, input=data, **options).fails(status, code, pattern)


@pytest.mark.parametrize("suffix", [".npy", ".fvecs", ".fbin", ".csv", ".tsv"])
def test_rows_there_and_back(vicinal, data, suffix):
    there, back = data.path("x" + suffix), data.path("back.npy")
    assert vicinal("convert", data.corpus_path, there).succeeds().out == f"wrote {there}: rows of 300 x 24, f32\n"
    vicinal("convert", there, back, "--type", "f32").succeeds()
    assert back.read_bytes() == data.corpus_path.read_bytes()


def test_values_that_no_float_has_survive_text(vicinal, data):
    rows = np.array([[0.1, -0.0, 1e-45], [3.4028235e38, 16777217, 1 / 3]], np.float32)
    vicinal("convert", data.save("r.npy", rows), data.path("r.csv")).succeeds()
    vicinal("convert", data.path("r.csv"), data.path("s.npy"), "--type", "f32").succeeds()
    assert np.load(data.path("s.npy")).tobytes() == rows.tobytes()


@pytest.mark.parametrize("dtype, name", [(np.float16, "f16"), (np.int8, "i8"), (np.uint8, "u8"), (">f4", "f32"), ("<f8", "f64")])
def test_exact_changes_of_type(vicinal, data, dtype, name):
    rows = np.abs(data.corpus).astype(dtype)
    source = data.save("r.npy", rows)
    for out, read in (("a.fvecs", read_vecs), ("a.fbin", read_bin)):
        vicinal("convert", source, data.path(out)).succeeds()
        assert np.array_equal(read(data.path(out), np.float32), np.abs(data.corpus))
    answer = vicinal("convert", source, data.path("b.npy"), "--json").succeeds().json
    assert answer == {"schema": 1, "command": "convert", "input": str(source), "output": str(data.path("b.npy")),
                      "kind": "rows", "rows": 300, "cols": 24, "type": name}
    vicinal("convert", source, data.path("c.u8bin")).succeeds()
    assert np.array_equal(read_bin(data.path("c.u8bin"), np.uint8), np.abs(data.corpus))


def test_counts_of_64_bits(vicinal, data):
    """The longer header of cuVS Bench is read like the shorter, and ids of 64 bits come back."""
    long = data.path("a.fbin")
    long.write_bytes(np.array(data.corpus.shape, np.uint64).tobytes() + data.corpus.tobytes())
    vicinal("convert", long, data.path("b.npy")).succeeds()
    assert np.array_equal(np.load(data.path("b.npy")), data.corpus)
    long.write_bytes(long.read_bytes()[:-1])
    vicinal("convert", long, data.path("b.npy")).fails(3, "FormatError", r"n=300 and d=0 .*; a header of 64-bit counts: n=300 and d=24")
    vicinal("knn", *data.pair, "-k", 6, "--first-id", 2**40, "-o", data.path("c.u64bin"), "--distances", data.path("c.fbin")).succeeds()
    vicinal("knn", *data.pair, "-k", 6, "--first-id", 2**40, "-o", data.path("d.npy")).succeeds()
    ids = read_bin(data.path("c.u64bin"), np.uint64)
    assert np.array_equal(ids, np.load(data.path("d.npy")))
    vicinal("verify", *data.pair, data.path("c.u64bin"), "--distances", data.path("c.fbin"), "--first-id", 2**40).succeeds()


def test_what_would_be_lost_is_refused(vicinal, data):
    def refuse(array, out, pattern, *options):
        vicinal("convert", data.save("r.npy", array), data.path(out), *options).fails(3, "RangeError", pattern)

    refuse(np.array([[1, 2], [3, 0.1]]), "a.fbin", r"row 1, column 1: 0\.1 is not exact in f32; write \.npy or \.csv, which keep f64")
    refuse(np.array([[1e300]]), "a.fvecs", "row 0, column 0: 1e.300 is not exact in f32")
    refuse(np.array([[1.5]], np.float32), "a.u8bin", "1.5 is not exact in u8")
    refuse(np.array([[300.0]], np.float32), "a.npy", "300 is not exact in i8", "--type", "i8")
    refuse(np.array([[-0.0]], np.float32), "a.bvecs", "-0 is not exact in u8")
    vicinal("convert", data.corpus_path, data.path("a.f16bin")).fails(2, "InvalidArgument", "f16bin holds f16 and the rows are f32; convert makes f32, f64, u8 and i8 alone")
    assert data.names() == ["corpus.npy", "queries.npy", "r.npy"]


def result(vicinal, data, name, *options):
    vicinal("knn", *data.pair, "-k", 6, "-o", data.path(name), *options).succeeds()
    return data.path(name)


@pytest.mark.parametrize("suffix", [".npz", ".bin", ".csv", ".tsv", ".hdf5"])
def test_results_there_and_back(vicinal, data, suffix):
    if suffix == ".hdf5" and "built without" in vicinal("info").out:
        pytest.skip("the command was built without HDF5")
    npz = result(vicinal, data, "a.npz")
    there, back = data.path("b" + suffix), data.path("c.npz")
    assert vicinal("convert", npz, there, "--json").succeeds().json["kind"] == "result"
    vicinal("verify", *data.pair, there).succeeds()
    assert vicinal("convert", there, back, "--json").succeeds().json["kind"] == "result"
    assert back.read_bytes() == npz.read_bytes()


def test_ids_alone(vicinal, data):
    npz, ids = result(vicinal, data, "a.npz"), exact(data.corpus, data.queries, 6)[0]
    vicinal("convert", npz, data.path("b.ivecs"), "--distances", data.path("d.fvecs")).succeeds()
    vicinal("convert", data.path("b.ivecs"), data.path("c.ibin")).succeeds()
    assert np.array_equal(read_bin(data.path("c.ibin"), np.int32), ids)
    vicinal("convert", data.path("c.ibin"), data.path("e.npy")).succeeds()
    vicinal("convert", data.path("e.npy"), data.path("f.ivecs")).succeeds()
    assert np.array_equal(read_vecs(data.path("f.ivecs"), np.int32), ids)
    vicinal("convert", data.path("c.ibin"), data.path("g.npz"), "--in-distances", data.path("d.fvecs")).succeeds()
    assert data.path("g.npz").read_bytes() == npz.read_bytes()
    vicinal("convert", npz, data.path("x.ivecs")).fails(2, "InvalidArgument", "distances would be lost; give --distances FILE")
    vicinal("convert", data.path("c.ibin"), data.path("x.bin")).fails(2, "InvalidArgument", "give --in-distances FILE")
    large = data.save("large.npy", np.array([[2**31]]))
    vicinal("convert", large, data.path("x.ibin")).fails(3, "RangeError", "id 2147483648 does not fit.*npy")
    assert not list(data.folder.glob("x.*"))


def test_usage(vicinal, data):
    vicinal("convert", data.corpus_path, data.path("x.foo")).fails(2, "Unsupported", 'unknown suffix ".foo"')
    vicinal("convert", data.corpus_path, data.path("x.idx")).fails(2, "Unsupported", "idx is not for vectors")
    vicinal("convert", data.path("no.npy"), data.path("x.csv")).fails(4, "IoError", "No such file")
    vicinal("convert", data.corpus_path, data.path("x.csv"), "--as", "words").fails(2, "InvalidArgument", "--as must be")
    vicinal("convert", data.corpus_path, data.path("x.csv"), "--type", "f16").fails(2, "InvalidArgument", "--type must be")
    vicinal("convert", data.corpus_path, "-", "--json").fails(2, "InvalidArgument", "exclude each other")


def test_streams(vicinal, data):
    csv = pipe("convert", data.corpus_path, "-")
    assert np.array_equal(np.genfromtxt(io.BytesIO(csv), delimiter=","), data.corpus)
    npy = pipe("convert", "-", "npy:-", "--type", "f32", data=csv)
    assert npy == data.corpus_path.read_bytes()
    assert pipe("convert", "npy:-", "fbin:-", data=npy)[:8] == np.array([300, 24], np.uint32).tobytes()
    ids, distances = exact(data.corpus, data.queries, 6)
    out = pipe("knn", data.corpus_path, "npy:-", "-k", 6, "-o", "-", data=data.queries_path.read_bytes()).decode().splitlines()
    assert out[0].startswith("id_0,id_1,") and len(out) == 18
    assert np.array_equal(np.array([line.split(",")[:6] for line in out[1:]], int), ids)
    assert np.array_equal(np.array([line.split(",")[6:] for line in out[1:]], np.float32), distances)


def test_streams_that_fail(vicinal, data):
    fails_with_input(b"1,2\n3\n", 3, "FormatError", r"stdin\.csv: row 2 has 1 column, expected 2", "convert", "-", data.path("x.npy"))
    fails_with_input(b"", 3, "FormatError", "the file is empty", "convert", "-", data.path("x.npy"))
    fails_with_input(b"", 2, "Unsupported", r'unknown suffix "\.foo"', "convert", "foo:-", data.path("x.npy"))
    vicinal("knn", *data.pair, "-k", 1, "-o", "-", "--json").fails(2, "InvalidArgument", "exclude each other")
    vicinal("knn", *data.pair, "-k", 1, "-o", "fbin:-").fails(2, "Unsupported", "fbin is not for ids")
    fails_with_input(b"1\n", 2, "InvalidArgument", "stdin was named twice", "knn", "-", "-", "-k", 1)
    assert data.names() == ["corpus.npy", "queries.npy"]


def claim(path, shape, descr="|u1"):
    """A header of .npy with nothing behind it."""
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode())
    return path


@pytest.mark.parametrize("target", ["o.csv", "o.npy", "o.u8bin", "o.bvecs", "o.vicinal", "o.npz"])
def test_rows_without_columns_are_refused(vicinal, tmp_path, target):
    """However many a file of some bytes claims."""
    (tmp_path / "a.fbin").write_bytes(np.array([2**32 - 1, 0], np.uint32).tobytes())
    kind = "result" if target == "o.npz" else "rows"
    for path in (tmp_path / "a.fbin", claim(tmp_path / "a.npy", (2**40, 0)), claim(tmp_path / "b.npy", (2**40, 0), "<i8")):
        if kind == "rows" or path.name == "b.npy":
            vicinal("convert", path, tmp_path / target, "--as", kind).fails(2, "InvalidArgument", r"dimension is 0, of shape \(\d+, 0\)")
    assert not (tmp_path / target).exists()


def test_files_that_nothing_could_read_are_not_written(vicinal, data):
    """0 bytes say neither how many columns nor that there are no rows."""
    none = data.save("none.npy", np.zeros((0, 24), np.float32))
    for target in ("o.fvecs", "o.bvecs", "o.csv", "o.tsv"):
        vicinal("convert", none, data.path(target)).fails(2, "Unsupported", "there are no rows, and a file of .* without rows would be empty; .npy and .fbin")
    vicinal("knn", data.corpus_path, none, "-k", 1, "-o", data.path("o.ivecs")).fails(2, "Unsupported", "there are no ids.*.npz")
    vicinal("knn", data.corpus_path, none, "-k", 1, "-o", data.path("o.npy"), "--distances", data.path("d.fvecs")).fails(2, "Unsupported", "no distances")
    vicinal("truth", data.corpus_path, "--queries", none, "-k", 1, "-o", data.path("o.ivecs")).fails(2, "Unsupported", "there are no ids")
    assert data.names() == ["corpus.npy", "none.npy", "queries.npy"]
    for target in ("o.csv", "o.npz", "o.ibin", "o.npy"):
        vicinal("knn", data.corpus_path, none, "-k", 1, "-o", data.path(target)).succeeds()
        vicinal("convert", data.path(target), data.path("again.npy"), "--as", "result", *(["--distances", data.path("d.npy")] * (target in ("o.csv", "o.npz")))).succeeds()


def test_halves_are_kept_and_not_made(vicinal, data):
    vicinal("convert", data.corpus_path, data.path("o.f16bin")).fails(2, "InvalidArgument", "holds f16 and the rows are f32; convert makes f32, f64, u8 and i8 alone")
    vicinal("convert", data.corpus_path, data.path("o.hbin"), "--type", "f64").fails(2, "InvalidArgument", "the rows are f64")
    vicinal("convert", data.save("halves.npy", data.corpus.astype(np.float16)), data.path("o.f16bin")).succeeds()


def test_the_folder_for_streams(vicinal, data, tmp_path):
    for words in (["-k", 1, "-o", "-"], ["-k", 1, "-o", "npy:-", "--distances", tmp_path / "d.npy"]):
        vicinal("knn", *data.pair, *words, env={**os.environ, "TMPDIR": "/nonexistent"}).fails(4, "IoError", "TMPDIR=/nonexistent, which cannot be used")
    fails_with_input(b"1,2\n", 4, "IoError", "TMPDIR=/nonexistent, which cannot be used", "convert", "-", tmp_path / "o.npy", env={**os.environ, "TMPDIR": "/nonexistent"})
    fails_with_input(bytes(1 << 20), 4, "IoError", f"cannot keep stdin in TMPDIR={tmp_path}: File too large", "convert", "-", tmp_path / "o.npy",
                     env={**os.environ, "TMPDIR": str(tmp_path)}, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)))  # fmt: skip
