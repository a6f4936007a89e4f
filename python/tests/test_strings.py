"""Strings from Python: what may hold them, what is answered, what is refused. Distances come from a full table of edits here."""

import ctypes
import itertools

import numpy as np
import pytest
import vicinal

WORDS = ["casa", "gato", "", "perro", "gatos", "a\u00f1o", "ano", "\U0001f600\U0001f600", "gato", "casa blanca", "casas"]
TYPED = ["gata", "caza", "", "a\u00f1os", "\U0001f600"]


def edits(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        diagonal, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (x != y))
    return row[-1]


def nearest(corpus, queries, k, distance=edits):
    ranked = [sorted((distance(q, c), i) for i, c in enumerate(corpus))[:k] for q in queries]
    return np.array([[d for d, _ in row] for row in ranked]), np.array([[i for _, i in row] for row in ranked])


class Schema(ctypes.Structure):
    _fields_ = [("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_char_p), ("flags", ctypes.c_int64),
                ("n_children", ctypes.c_int64), ("children", ctypes.c_void_p), ("dictionary", ctypes.c_void_p),
                ("release", ctypes.c_void_p), ("private_data", ctypes.c_void_p)]  # fmt: skip


class Array(ctypes.Structure):
    _fields_ = [("length", ctypes.c_int64), ("null_count", ctypes.c_int64), ("offset", ctypes.c_int64), ("n_buffers", ctypes.c_int64),
                ("n_children", ctypes.c_int64), ("buffers", ctypes.POINTER(ctypes.c_void_p)), ("children", ctypes.c_void_p),
                ("dictionary", ctypes.c_void_p), ("release", ctypes.c_void_p), ("private_data", ctypes.c_void_p)]  # fmt: skip


Release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Arrow:
    """Strings as a producer of the Arrow C data interface hands them over; `released` counts what consumers gave back."""

    def __init__(self, items, fmt="u", skip=0, null=None):
        encoded = [item.encode() if isinstance(item, str) else item for item in items]
        lengths = [0, *itertools.accumulate(map(len, encoded))]
        self.offsets = np.array(lengths, np.int64 if fmt in "UZ" else np.int32)
        self.data = np.frombuffer(b"".join(encoded) + b"\0", np.uint8)
        valid = np.full(-(-len(items) // 8), 255, np.uint8)
        if null is not None:
            valid[null // 8] &= ~np.uint8(1 << null % 8)
        self.valid, self.released = valid, 0
        self.release = Release(self._release)
        self.buffers = (ctypes.c_void_p * 3)(valid.ctypes.data if null is not None else None, self.offsets.ctypes.data, self.data.ctypes.data)
        release = ctypes.cast(self.release, ctypes.c_void_p)
        self.schema = Schema(format=fmt.encode(), release=release)
        self.array = Array(length=len(items) - skip, null_count=-1 if null is not None else 0, offset=skip, n_buffers=3, buffers=self.buffers, release=release)

    def _release(self, _):
        self.released += 1

    def __arrow_c_array__(self, requested_schema=None):
        schema, array = (ctypes.addressof(at) for at in (self.schema, self.array))
        return new_capsule(schema, b"arrow_schema", None), new_capsule(array, b"arrow_array", None)


def objects(items):
    array = np.empty(len(items), object)
    array[:] = items
    return array


@pytest.mark.parametrize("make", [list, tuple, np.array, objects, Arrow, lambda x: Arrow(x, "U"), lambda x: Arrow(["left out", *x], skip=1)],
                         ids=["list", "tuple", "U", "object", "arrow", "large arrow", "arrow slice"])  # fmt: skip
def test_every_holder_of_str(make):
    result = vicinal.knn(make(WORDS), make(TYPED), k=4, metric="levenshtein")
    distances, ids = nearest(WORDS, TYPED, 4)
    assert result.distances.dtype == np.uint32
    np.testing.assert_array_equal(result.distances, distances)
    np.testing.assert_array_equal(result.ids, ids)
    assert result.certificate.all() and result.columns == len(WORDS)


@pytest.mark.parametrize("make", [list, lambda x: np.array(x, "S"), objects, lambda x: Arrow(x, "z"), lambda x: Arrow(x, "Z")])
def test_bytes_are_bytes(make):
    corpus, queries = [w.encode() for w in WORDS], [w.encode() for w in TYPED]
    result = vicinal.knn(make(corpus), make(queries), k=3, metric="levenshtein")
    distances, ids = nearest(corpus, queries, 3)
    np.testing.assert_array_equal(result.distances, distances)
    np.testing.assert_array_equal(result.ids, ids)
    assert vicinal.knn(["a\u00f1o"], ["ano"], 1, "levenshtein").distances[0, 0] == 1
    assert vicinal.knn(["a\u00f1o".encode()], [b"ano"], 1, "levenshtein").distances[0, 0] == 2


@pytest.mark.parametrize("device", ["cpu,cpu", "cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu"])
def test_several_devices_share_the_queries(device):
    distances, ids = nearest(WORDS, TYPED, 4)
    result = vicinal.knn(WORDS, TYPED, k=4, metric="levenshtein", device=device)
    assert np.array_equal(result.distances, distances)
    assert np.array_equal(result.ids, ids)
    assert result.stats.device == device
    plan = vicinal.plan(WORDS, TYPED, k=4, metric="levenshtein", device=device)
    count = device.count(",") + 1
    assert f"{count} devices, by queries: each searches all rows for {-(-len(TYPED) // count)} of the 5 queries" in str(plan)


def test_arrays_of_other_strides_and_byte_order():
    array = np.array([WORDS, WORDS]).T
    wanted = vicinal.knn(WORDS, TYPED, 3, "levenshtein")
    for corpus in (array[:, 1], array[::-1, 0][::-1], array[:, 0].astype(array.dtype.newbyteorder(">"))):
        np.testing.assert_array_equal(vicinal.knn(corpus, np.array(TYPED), 3, "levenshtein").ids, wanted.ids)


def test_arrow_memory_is_given_back():
    corpus, queries = Arrow(WORDS), Arrow(TYPED)
    result = vicinal.knn(corpus, queries, 2, "levenshtein")
    assert (corpus.released, queries.released) == (1, 1) and result.stats.copied_bytes == 0


def test_ratios():
    def normalized(a, b):
        n = edits(a, b)
        return np.float32(2 * n / (len(a) + len(b) + n)) if n else np.float32(0)

    def jaccard(a, b, cut=str.split):
        left, right = set(cut(a)), set(cut(b))
        return np.float32(1 - len(left & right) / len(left | right)) if left | right else np.float32(0)

    def pairs(text):
        return [text[i : i + 2] for i in range(max(len(text) - 1, 1))] if text else []

    for metric, distance, rules in (("normalized_levenshtein", normalized, {}), ("jaccard", jaccard, {}),
                                    ("jaccard", lambda a, b: jaccard(a, b, pairs), {"ngram": 2})):  # fmt: skip
        result = vicinal.knn(WORDS, TYPED, 5, metric, **rules)
        distances, ids = nearest(WORDS, TYPED, 5, distance)
        assert result.distances.dtype == np.float32
        np.testing.assert_allclose(result.distances, distances, rtol=1e-7)
        np.testing.assert_array_equal(result.ids, ids)


def test_hamming_counts_positions():
    result = vicinal.knn(["GATTACA", "GACTATA", "CATTACA"], ["GATTATA"], 3, "hamming")
    assert result.ids.tolist() == [[0, 1, 2]] and result.distances.tolist() == [[1, 1, 2]]
    with pytest.raises(vicinal.InvalidArgument, match="one length; query string 0 has 2 symbols, corpus string 0 has 3"):
        vicinal.knn(["abc"], ["ab"], 1, "hamming")


def test_graph_range_and_plan():
    graph = vicinal.knn_graph(WORDS, 2, "levenshtein")
    others = [sorted((edits(a, b), j) for j, b in enumerate(WORDS) if j != i)[:2] for i, a in enumerate(WORDS)]
    assert graph.ids.tolist() == [[j for _, j in row] for row in others]
    mutual = vicinal.knn_graph(WORDS, 2, "levenshtein", symmetrize="mutual").to_csr()
    assert (mutual != mutual.T).nnz == 0
    near = vicinal.range_search(WORDS, TYPED, 1, "levenshtein")
    for i, query in enumerate(TYPED):
        wanted = sorted((edits(query, word), j) for j, word in enumerate(WORDS) if edits(query, word) <= 1)
        assert [list(column) for column in near[i]] == [[d for d, _ in wanted], [j for _, j in wanted]]
    for plan in (vicinal.plan(WORDS, TYPED, 2, "levenshtein"), vicinal.plan_graph(WORDS, 2, "levenshtein"),
                 vicinal.plan_range(WORDS, TYPED, "levenshtein")):  # fmt: skip
        assert 0 < plan.peak_bytes <= plan.budget_bytes and plan.distance_type == "u32"


def test_empty_sides():
    assert vicinal.knn(WORDS, [], 2, "levenshtein").ids.shape == (0, 2)
    assert vicinal.range_search(WORDS, np.array([], "U4"), 1, "levenshtein").offsets.tolist() == [0]
    assert vicinal.knn([], WORDS, 2, "levenshtein", pad=True).ids.tolist() == [[-1, -1]] * len(WORDS)


def test_an_empty_list_is_of_either_kind():
    for metric in ("levenshtein", "jaccard"):
        assert vicinal.knn([b"a", b"b c"], [], 1, metric).ids.shape == (0, 1)
        assert vicinal.knn([], [b"a", b"b c"], 1, metric, pad=True).ids.tolist() == [[-1], [-1]]
        assert vicinal.range_search([b"a"], [], 1, metric).offsets.tolist() == [0]
        assert vicinal.range_search([], [b"a"], 1, metric).offsets.tolist() == [0, 0]
        assert vicinal.PermutationIndex([b"a", b"b c"], metric, 2).knn([], 1).ids.shape == (0, 1)


REFUSED = [
    (["a", "b\ud800"], "levenshtein", vicinal.InvalidValue, "corpus string 1 holds U\\+D800"),
    (np.array(["a", "\udfff"]), "levenshtein", vicinal.InvalidValue, "corpus string 1 holds U\\+DFFF"),
    (["a", 3], "levenshtein", TypeError, "corpus: string 1 must be str, got int"),
    (["a", b"b"], "levenshtein", TypeError, "corpus: string 1 must be str, got bytes"),
    (["a", None], "levenshtein", TypeError, "corpus: string 1 must be str, got NoneType"),
    ([b"a"], "levenshtein", vicinal.InvalidArgument, "corpus holds bytes, query side code points"),
    (["a"], "euclidean", vicinal.InvalidArgument, "euclidean compares vectors"),
    (np.zeros((3, 2)), "levenshtein", TypeError, "query: unsupported dtype str, the other side holds numbers"),
    (np.array([["a"]]), "levenshtein", vicinal.InvalidArgument, "expected 1 dimension of strings, got 2"),
    (Arrow(["a", "b"], null=1), "levenshtein", vicinal.InvalidValue, "corpus string 1 is null"),
    (Arrow(["a"], "i"), "levenshtein", vicinal.InvalidArgument, 'format "i"'),
    (Arrow([b"\xff"]), "levenshtein", vicinal.InvalidValue, "corpus string 0: invalid UTF-8 at byte 0"),
    (["a" * 65536], "levenshtein", vicinal.InvalidArgument, "has 65536 symbols, the limit is 65535"),
]


@pytest.mark.parametrize("corpus, metric, error, text", REFUSED)
def test_refused(corpus, metric, error, text):
    with pytest.raises(error, match=text):
        vicinal.knn(corpus, ["a"], 1, metric)


@pytest.mark.parametrize("library, made", [
    ("pyarrow", lambda module: module.chunked_array([["a", "b"], [None, "c"]])),
    ("polars", lambda module: module.Series(["a", "b", None, "c"])),
])  # fmt: skip
def test_nulls_of_columns_in_chunks(library, made):
    column = made(pytest.importorskip(library, reason=f"{library} is not installed: not run"))
    with pytest.raises(vicinal.InvalidValue, match="corpus string 2 is null; drop or fill it"):
        vicinal.knn(column, ["a"], 1, "levenshtein")


def test_errors_name_the_side_that_is_neither():
    """Neither a column of strings nor rows of numbers."""
    arrow = pytest.importorskip("pyarrow")
    with pytest.raises(TypeError, match=r"^corpus: unsupported dtype .*Table"):
        vicinal.knn(arrow.table({"s": ["a", "b"]}), ["a"], 1, "levenshtein")
    pandas = pytest.importorskip("pandas")
    with pytest.raises(TypeError, match="^query: column 's' holds .*, which is no number"):
        vicinal.knn(["a"], pandas.DataFrame({"s": ["a", "b"]}), 1, "levenshtein")


def test_refused_arguments():
    for bad, error in ((dict(ngram=-1), vicinal.InvalidArgument), (dict(ngram=2.5), TypeError), (dict(max_length=-1), vicinal.InvalidArgument),
                       (dict(distance_type="f32"), vicinal.InvalidArgument), (dict(memory=10), vicinal.MemoryBudget)):  # fmt: skip
        with pytest.raises(error):
            vicinal.knn(WORDS, TYPED, 1, "levenshtein", **bad)
    with pytest.raises(vicinal.InvalidArgument, match="levenshtein compares strings, corpus holds rows of f64"):
        vicinal.knn(np.zeros((3, 2)), np.zeros((3, 2)), 1, "levenshtein")


def test_agrees_with_rapidfuzz():
    fuzz = pytest.importorskip("rapidfuzz")
    rng = np.random.default_rng(5)
    words = ["".join(rng.choice(list("abcde"), n)) for n in rng.integers(0, 30, 500)]
    table = fuzz.process.cdist(words[:60], words, scorer=fuzz.distance.Levenshtein.distance, dtype=np.int32)
    result = vicinal.knn(words, words[:60], 9, "levenshtein", threads=2)
    ids = np.argsort(table, axis=1, kind="stable")[:, :9]
    np.testing.assert_array_equal(result.ids, ids)
    np.testing.assert_array_equal(result.distances, np.take_along_axis(table, ids, 1))
