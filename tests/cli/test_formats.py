"""File formats against other people's software: h5py and NumPy write, the command reads, and the other way round."""

import struct

import numpy as np
import pytest
from conftest import exact

TYPES = [np.float32, np.float64, np.float16, np.uint8, np.int8]


@pytest.fixture
def h5py(vicinal):
    module = pytest.importorskip("h5py")
    formats = vicinal("info", "--json").succeeds().json["formats"]
    if not any(entry["name"] == "hdf5" and "rows" in entry["reads"] for entry in formats):
        pytest.skip("the command was built without HDF5")
    return module


def same_answer(data, out, k=6):
    with np.load(out) as result:
        ids, distances = exact(data.corpus, data.queries, k)
        assert np.array_equal(result["ids"], ids) and np.array_equal(result["distances"].astype(np.float32), distances)


@pytest.mark.parametrize("options", [{}, {"chunks": (50, 10)}, {"chunks": (64, 24), "compression": "gzip", "shuffle": True},
                                     {"chunks": (100, 24), "fletcher32": True}], ids=["whole", "chunks", "gzip", "fletcher"])
@pytest.mark.parametrize("dtype", [*TYPES, np.dtype(">f4"), np.dtype(">f2")])
def test_datasets_of_h5py(vicinal, data, h5py, dtype, options):
    corpus = data.corpus
    if np.dtype(dtype) == np.uint8:
        corpus, queries = np.abs(corpus), np.abs(data.queries)
        data.corpus, data.queries = corpus, queries
    with h5py.File(data.path("a.hdf5"), "w") as file:
        file.create_dataset("train", data=corpus.astype(dtype), **options)
        file.create_dataset("group/test", data=data.queries.astype(dtype))
    a = str(data.path("a.hdf5"))
    answer = vicinal("knn", a + ":train", a + ":group/test", "-k", 6, "-o", data.path("out.npz"), "--json").succeeds().json
    assert answer["corpus"]["mapped"] is (not options) and answer["corpus"]["rows"] == 300
    same_answer(data, data.path("out.npz"))


def test_an_ann_benchmarks_file(vicinal, data, h5py):
    ids, distances = exact(data.corpus, data.queries, 6)
    for ids_type, distance_type in ((np.int32, np.float32), (np.int64, np.float64)):
        with h5py.File(data.path("a.hdf5"), "w") as file:
            file.attrs["distance"] = "euclidean"
            file["train"], file["test"] = data.corpus, data.queries
            file["neighbors"], file["distances"] = ids.astype(ids_type), distances.astype(distance_type)
        a = str(data.path("a.hdf5"))
        rtol = ["--rtol", "1e-6"] if distance_type == np.float64 else []
        vicinal("verify", a + ":train", a + ":test", a, *rtol).succeeds()
    vicinal("knn", a, a, "-k", 1).fails(3, "FormatError", r"give the name .* it holds .*train \(300, 24\) float32")
    vicinal("knn", a + ":trian", a, "-k", 1).fails(2, "InvalidArgument", 'no dataset "trian"; it holds')


def test_a_user_block(vicinal, data, h5py):
    with h5py.File(data.path("a.h5"), "w", userblock_size=1024) as file:
        file["x"] = data.corpus
    vicinal("knn", data.path("a.h5"), data.queries_path, "-k", 6, "-o", data.path("out.npz")).succeeds()
    same_answer(data, data.path("out.npz"))


def test_results_that_h5py_reads(vicinal, data, h5py):
    for name in ("out.hdf5", "out.h5"):
        vicinal("knn", *data.pair, "-k", 6, "-o", data.path(name)).succeeds()
        with h5py.File(data.path(name)) as file:
            ids, distances = exact(data.corpus, data.queries, 6)
            assert sorted(file) == ["distances", "neighbors"]
            assert file["neighbors"].dtype == np.int64 and np.array_equal(file["neighbors"], ids)
            assert file["distances"].dtype == np.float32 and np.array_equal(file["distances"], distances)
        vicinal("verify", *data.pair, data.path(name)).succeeds()


def test_hdf5_that_cannot_be_used(vicinal, data, h5py):
    good = data.path("good.h5")
    with h5py.File(good, "w") as file:
        file["x"] = data.corpus
    def knn(name, status, code, pattern):
        vicinal("knn", data.path(name), data.queries_path, "-k", 1).fails(status, code, pattern)

    data.path("cut.h5").write_bytes(good.read_bytes()[:-100])
    knn("cut.h5", 3, "FormatError", "truncated or damaged")
    data.path("text.h5").write_text("not at all\n")
    knn("text.h5", 3, "FormatError", "not an HDF5 file .first bytes 6E 6F 74")
    with h5py.File(data.path("other.h5"), "w") as file:
        file["line"], file["flags"], file["text"] = data.corpus[0], data.corpus > 0, "word"
        file["complex"] = data.corpus.astype(np.complex64)
        file.create_dataset("lzf", data=data.corpus, chunks=(10, 10), compression="lzf")
        file.create_dataset("outside", (300, 24), np.float32, external=[("corpus.npy", 128, 300 * 24 * 4)])
        file["elsewhere"] = h5py.ExternalLink("good.h5", "x")
        file.create_group("group")
        file.create_dataset("huge", (2**40, 1024), np.float32, chunks=(64, 64))
    knn("other.h5:line", 2, "InvalidArgument", r"expected 2 dimensions, got line \(24,\) float32")
    knn("other.h5:complex", 2, "InvalidArgument", "type is not supported")
    vicinal("select", data.path("other.h5:flags"), "-k", 1).fails(2, "InvalidArgument", "type is not supported")
    vicinal("knn", data.path("other.h5:flags"), data.queries_path, "-k", 1).succeeds()  # bool is rows of 0 and 1
    knn("other.h5:lzf", 2, "Unsupported", "h5repack")
    knn("other.h5:outside", 2, "Unsupported", "outside this file")
    knn("other.h5:elsewhere", 2, "Unsupported", "lies in another file")
    knn("other.h5:group", 2, "Unsupported", '"group" is no dataset')
    knn("other.h5:huge", 3, "FormatError", "stores 0")


def test_mnist_names(vicinal, data):
    images = np.abs(data.corpus[:, :24]).astype(np.uint8)
    for name in ("train-images-idx3-ubyte", "train-images.idx3-ubyte", "train.idx"):
        data.path(name).write_bytes(struct.pack(">BBBBIII", 0, 0, 8, 3, 300, 4, 6) + images.tobytes())
        answer = vicinal("knn", data.path(name), data.path(name), "-k", 1, "--json").succeeds().json
        assert answer["corpus"] | {"path": 0} == {"path": 0, "rows": 300, "cols": 24, "dtype": "u8", "mapped": True}
        assert [row[0] for row in answer["ids"]][:290] == list(range(290))


@pytest.mark.parametrize("suffix, delimiter", [(".csv", ","), (".tsv", "\t")])
def test_text(vicinal, data, suffix, delimiter):
    corpus, queries = data.path("c" + suffix), data.path("q" + suffix)
    np.savetxt(corpus, data.corpus, delimiter=delimiter, fmt="%g", header=delimiter.join("abcdefghijklmnopqrstuvwx"), comments="")
    np.savetxt(queries, data.queries, delimiter=delimiter)
    out = data.path("out" + suffix)
    vicinal("knn", corpus, queries, "-k", 6, "-o", out).succeeds()
    names = out.read_text().splitlines()[0].split(delimiter)
    assert names == [f"id_{i}" for i in range(6)] + [f"d_{i}:f64" for i in range(6)]
    read = np.genfromtxt(out, delimiter=delimiter, skip_header=1)
    ids, distances = exact(data.corpus, data.queries, 6)
    assert np.array_equal(read[:, :6], ids) and np.array_equal(read[:, 6:].astype(np.float32), distances)
    vicinal("verify", corpus, queries, out).succeeds()
    vicinal("knn", *data.pair, "-k", 6, "-o", out).succeeds()
    vicinal("verify", *data.pair, out).succeeds()


def test_a_bad_cell_is_named(vicinal, data):
    data.path("c.csv").write_text("\ufeff1,2,3\r\n" * 1 + "4,5,6\r\n" * 6 + '7,8,"1,5"\r\n')
    vicinal("knn", data.path("c.csv"), data.path("c.csv"), "-k", 1).fails(
        3, "FormatError", r'c\.csv: row 8, column 3: "1,5" is not a number')


def test_big_ann_truth(vicinal, data):
    out = data.path("truth.bin")
    vicinal("knn", *data.pair, "-k", 6, "-o", out).succeeds()
    raw = out.read_bytes()
    assert struct.unpack("<II", raw[:8]) == (17, 6) and len(raw) == 8 + 17 * 6 * 8
    ids, distances = exact(data.corpus, data.queries, 6)
    assert np.array_equal(np.frombuffer(raw, np.int32, 102, 8).reshape(17, 6), ids)
    assert np.array_equal(np.frombuffer(raw, np.float32, 102, 8 + 408).reshape(17, 6), distances)
    vicinal("verify", *data.pair, out).succeeds()
    vicinal("knn", *data.pair, "-k", 6, "--distance-type", "f64", "-o", data.path("b.bin")).fails(
        3, "RangeError", r"bin holds float32, the distances are float64; \.npy and \.npz")


def test_matrix_market_of_scipy(vicinal, data):
    scipy_io = pytest.importorskip("scipy.io")
    sparse = pytest.importorskip("scipy.sparse")
    scipy_io.mmwrite(data.path("c.mtx"), sparse.coo_matrix(data.corpus))
    scipy_io.mmwrite(data.path("q.mtx"), data.queries, symmetry="general")
    vicinal("knn", data.path("c.mtx"), data.path("q.mtx"), "-k", 6, "-o", data.path("out.npz")).succeeds()
    same_answer(data, data.path("out.npz"))
