"""Integers of every width, bools, and frames of columns of many types: exactly, in a type that the dtypes alone decide, or an
error that names row, column and value."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest
import vicinal

INTEGERS = ["int16", "uint16", "int32", "uint32", "int64", "uint64"]


def table(dtype, rows=60, columns=9, seed=3, most=2**53):
    """Values of every size that fit."""
    rng = np.random.default_rng(seed)
    info = np.iinfo(dtype)
    bits = rng.integers(0, np.log2(min(int(info.max), most)), (rows, columns))
    values = (2.0**bits * rng.random((rows, columns))).astype(np.int64)
    return (values if info.min == 0 else values * rng.choice([-1, 1], values.shape)).astype(dtype)


def same(left, right):
    assert left.distances.dtype == right.distances.dtype
    assert np.asarray(left.distances).tobytes() == np.asarray(right.distances).tobytes()
    assert np.asarray(left.ids).tobytes() == np.asarray(right.ids).tobytes()


def promoted(dtype):
    """The type that the contract gives such elements."""
    return np.uint8 if dtype == "bool" else np.result_type(dtype, np.float32)


SEARCHES = {
    "knn": lambda x, q: vicinal.knn(x, q, 4),
    "corpus": lambda x, q: vicinal.Corpus(x).knn(q, 4),
    "cosine": lambda x, q: vicinal.knn(x, q, 4, "cosine", degenerate="one"),
    "l1 as f64": lambda x, q: vicinal.knn(x, q, 4, "l1", distance_type="f64"),
    "graph": lambda x, q: vicinal.knn_graph(x, 4),
    "symmetric": lambda x, q: vicinal.knn_graph(x, 4, symmetrize="union"),
    "range": lambda x, q: vicinal.range_search(x, q, 1e4),
    "index": lambda x, q: vicinal.PermutationIndex(x, permutants=8).knn(q, 4, exact=True),
    "verify": lambda x, q: vicinal.verify(x, q, vicinal.knn(x, q, 4)).truth,
}


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("dtype", [*INTEGERS, "bool"])
def test_integers_are_their_values(dtype, search):
    x = table("int16") > 0 if dtype == "bool" else table(dtype)
    q = x[::7]
    same(SEARCHES[search](x, q), SEARCHES[search](x.astype(promoted(dtype)), q.astype(promoted(dtype))))


@pytest.mark.parametrize("left", [*INTEGERS, "bool", "uint8", "float32", "float64"])
@pytest.mark.parametrize("right", [*INTEGERS, "bool", "int8", "float16", "float64"])
def test_the_type_of_distances_is_that_of_the_dtypes(left, right):
    small, large = np.ones((5, 3)), np.array([[0, 1, 0]])
    for scale in (1, 100):  # of values that would fit narrower types, and others
        x, q = (np.minimum(side * scale, 1 if "bool" in kind else 100).astype(kind) for side, kind in ((small, left), (large, right)))
        wide = np.float64 in (promoted(left), promoted(right))
        assert vicinal.knn(x, q, 2).distances.dtype == (np.float64 if wide else np.float32)
        assert vicinal.plan(x, q, 2).distance_type == ("f64" if wide else "f32")
        assert vicinal.plan((5, 3), (1, 3), 2, dtype=left).distance_type == ("f64" if promoted(left) == np.float64 else "f32")


def layouts(x):
    yield x[::-1]
    yield np.asfortranarray(x)
    yield x.astype(x.dtype.newbyteorder())
    yield np.broadcast_to(x[:1], x.shape)
    unaligned = np.zeros(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape)
    unaligned[...] = x
    yield unaligned
    frozen = x.copy()
    frozen.flags.writeable = False
    yield frozen


@pytest.mark.parametrize("dtype", [*INTEGERS, "bool"])
def test_every_layout_of_integers(dtype):
    x = table("int16") > 0 if dtype == "bool" else table(dtype)
    for shown in layouts(x):
        same(vicinal.knn(shown, shown, 5), vicinal.knn(shown.astype(promoted(dtype)), shown.astype(promoted(dtype)), 5))
        same(vicinal.knn(memoryview(np.ascontiguousarray(shown)), x, 5), vicinal.knn(np.ascontiguousarray(shown), x, 5))


@pytest.mark.parametrize("dtype", [*INTEGERS, "bool"])
def test_integers_by_dlpack(dtype):
    x = table("int16") > 0 if dtype == "bool" else table(dtype)

    class Tensor:
        def __dlpack_device__(self):
            return x.__dlpack_device__()

        def __dlpack__(self, **options):
            return x.__dlpack__(**options)

    same(vicinal.knn(Tensor(), Tensor(), 5), vicinal.knn(x, x, 5))


def test_bools_are_seen_in_place_and_counted():
    x = np.random.default_rng(1).random((50, 21)) > 0.5
    assert vicinal.knn(x, x, 3).stats.copied_bytes == 0
    found = vicinal.knn(x, x, 50, "hamming")
    assert found.distances.dtype == np.uint32
    assert np.array_equal(found.distances[0], np.sort((x != x[0]).sum(1)))
    with pytest.raises(vicinal.InvalidArgument, match="hamming"):
        vicinal.knn(x.astype(np.int64), x, 3, "hamming")


def test_what_was_copied_is_told():
    x = table("int64", 100, 10)
    assert vicinal.knn(x, x[:3], 2).stats.copied_bytes == 8 * (1000 + 30)
    assert vicinal.Corpus(x.astype("int16")).nbytes >= 4000
    assert vicinal.Corpus(x.astype("int16")).dtype == np.float32
    plan = vicinal.plan(x, x[:3], 2)
    assert sum("8000 bytes of converted rows" in note for note in plan.notes) == 1 and "8000 bytes of converted rows" in str(plan)
    assert vicinal.plan((100, 10), (3, 10), 2, dtype=np.int32).notes[-2:] == plan.notes[-2:]
    assert not any("converted" in note for note in vicinal.plan(x.astype(float), x[:3] > 0, 2).notes)
    assert any("8000" in note for note in vicinal.plan_graph(x, 2).notes) and any("240" in note for note in vicinal.plan_range(x, x[:3]).notes)


def test_saved_and_opened(tmp_path):
    x = table("int32")
    corpus = vicinal.Corpus(x)
    corpus.save(tmp_path / "x.vicinal")
    same(vicinal.Corpus.open(tmp_path / "x.vicinal").knn(x, 3), corpus.knn(x, 3))


@pytest.mark.parametrize("value", [2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63) + 1])
def test_integers_that_no_float_holds(value):
    x = np.zeros((2000, 300), np.int64)
    x[1234, 7] = x[1999, 8] = value
    for call in (lambda: vicinal.knn(x, x[:1], 1), lambda: vicinal.Corpus(x), lambda: vicinal.knn_graph(x[:, ::-1][:, ::-1], 1)):
        with pytest.raises(vicinal.InvalidValue, match=f"corpus row 1234, column 7 is {value} .*2 such elements.*subtract an offset"):
            call()
    with pytest.raises(vicinal.InvalidValue, match=f"query row 0, column 7 is {value} "):
        vicinal.knn(x[:1], x[1234:1235], 1)
    x[1234, 7] = x[1999, 8] = value // 2048 * 2048
    assert vicinal.knn(x, x[1234:1235], 1).ids.tolist() == [[1234]]


def test_lists_of_integers():
    assert vicinal.knn([[1, 2], [3, 4]], [[3, 4]], 1).distances.dtype == np.float64
    assert vicinal.knn([[True, False], [False, True]], [[False, True]], 1).ids.tolist() == [[1]]
    with pytest.raises(vicinal.InvalidValue, match="query row 0, column 1 is 9007199254740993 "):
        vicinal.knn([[1, 2]], [[1, 2**53 + 1]], 1)


@pytest.mark.parametrize("other", [0.5, np.float32(1), -1])
def test_lists_of_integers_and_other_numbers(other):
    """NumPy makes float64 of them, and rounds."""
    least = 2**63 if other == -1 else 2**53
    for value in (least, least + 1):
        rows = [[0, other], [value, other]]
        for x in (rows, tuple(map(tuple, rows))):
            if value % 2 == 0:
                assert vicinal.knn(x, [[value, other]], 1).distances.tolist() == [[0]]
                continue
            with pytest.raises(vicinal.InvalidValue, match=f"query row 1, column 0 is {value}: integers beyond"):
                vicinal.knn([[1.0, 2.0]], x, 1)
    arrays = [np.array([2**53 + 1, 0]), np.array([1, 0], np.float32)]
    with pytest.raises(vicinal.InvalidValue, match="corpus row 0, column 0 is 9007199254740993"):
        vicinal.knn(arrays, [[1, 2]], 1)


def test_a_conversion_takes_one_copy():
    """Twice the result, or the source in another type besides, would not fit."""
    code = """
    import numpy as np
    import vicinal
    x = np.ones((1 << 20, 16), np.int32)
    x[1:, 0] = 2
    vicinal.knn(x[:9], x[:9], 1, threads=1)
    def most():
        return int(open("/proc/self/status").read().partition("VmHWM:")[2].split()[0])
    open("/proc/self/clear_refs", "w").write("5")  # the peak starts again
    before = most()
    rows, copied = vicinal._inputs.rows(x, "corpus")
    assert copied == 8 << 24, copied
    print((most() - before) / 1024)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    assert 100 < float(done.stdout) < 128 + 24


def test_estimators_take_integers():
    neighbors = pytest.importorskip("vicinal.neighbors", reason="scikit-learn is not installed: not run")
    for dtype in (*INTEGERS, "bool", "int8"):
        x = table("int16") > 0 if dtype == "bool" else table(dtype, most=100)
        for q in (x[:5], None):
            ours = neighbors.NearestNeighbors(algorithm="brute").fit(x).kneighbors(q, 4)
            same(ours, neighbors.NearestNeighbors(algorithm="brute").fit(x.astype(np.float64)).kneighbors(None if q is None else q.astype(float), 4))
    x = np.full((9, 8), 2**53 + 1)
    with pytest.raises(vicinal.InvalidValue, match="no exact float64"):
        neighbors.NearestNeighbors(algorithm="brute").fit(x).kneighbors(x, 2)
