"""The bad-input table, row by row, as Python sees it: the class, the built-in class, the words."""

import numpy as np
import pytest
import vicinal

CORPUS = np.random.default_rng(3).standard_normal((10, 64)).astype(np.float32)
QUERIES = CORPUS[:3] + np.float32(0.25)


def changed(x, row, column, value):
    x = x.copy()
    x[row, column] = value
    return x


def search(corpus=CORPUS, queries=QUERIES, k=2, **options):
    return vicinal.knn(corpus, queries, k, **options)


ZERO_ROW = changed(CORPUS, 5, slice(None), 0)
CONSTANT_ROW = changed(CORPUS, 5, slice(None), 1.5)
HUGE = np.full((3, 4), 1e30, np.float32) * np.array([[1], [-1], [1]], np.float32)

REFUSED = {
    "no rows": (dict(corpus=CORPUS[:0]), "InvalidArgument", "corpus has 0 rows"),
    "no columns": (dict(corpus=CORPUS[:, :0], queries=QUERIES[:, :0]), "InvalidArgument", "dimension is 0"),
    "other d": (dict(queries=QUERIES[:, :30]), "InvalidArgument", "query has d=30, corpus has d=64"),
    "k=0": (dict(k=0), "InvalidArgument", "k must be >= 1, got 0"),
    "k<0": (dict(k=-3), "InvalidArgument", "k must be >= 1, got -3"),
    "k>n": (dict(k=50), "InvalidArgument", "k=50 exceeds the n=10 rows of the corpus"),
    "k of 70 bits": (dict(k=2**70), "InvalidArgument", "k must fit 64 bits"),
    "k a float": (dict(k=2.5), TypeError, "k must be an integer, got float"),
    "k a whole float": (dict(k=2.0), TypeError, "k must be an integer, got float"),
    "k a bool": (dict(k=True), TypeError, "k must be an integer, got bool"),
    "k a NumPy bool": (dict(k=np.True_), TypeError, "k must be an integer, got bool"),
    "k text": (dict(k="3"), TypeError, "k must be an integer, got str"),
    "k None": (dict(k=None), TypeError, "k must be an integer, got NoneType"),
    "one query flat": (dict(queries=QUERIES[0]), "InvalidArgument",
                       r"expected 2 dimensions \(Q,d\), got 1 with shape \(64,\)"),
    "corpus flat": (dict(corpus=CORPUS[0]), "InvalidArgument", r"expected 2 dimensions \(n,d\), got 1 with shape"),
    "three dimensions": (dict(queries=QUERIES[None]), "InvalidArgument",
                         r"got 3 with shape \(1, 3, 64\); a batch of clouds is searched by .*pytorch3d.knn_points"),
    "a batch of clouds as corpus": (dict(corpus=CORPUS[None]), "InvalidArgument", "knn_points"),
    "a scalar": (dict(queries=np.float32(3)), "InvalidArgument", r"got 0 with shape \(\)"),
    "NaN in a query": (dict(queries=changed(changed(QUERIES, 1, 3, np.nan), 2, 0, np.nan)), "InvalidValue",
                       r"query row 1, column 3 is NaN \(2 bad rows in all\)"),
    "infinity in the corpus": (dict(corpus=changed(CORPUS, 7, 9, -np.inf)), "InvalidValue",
                               "corpus row 7, column 9 is -?inf"),
    "zero row": (dict(corpus=ZERO_ROW, metric="cosine"), "InvalidValue", "corpus row 5 is zero: cosine undefined"),
    "constant row": (dict(corpus=CONSTANT_ROW, metric="correlation"), "InvalidValue", "corpus row 5 is constant"),
    "overflow": (dict(corpus=HUGE, queries=-HUGE[:1], k=3, metric="sqeuclidean"), "RangeError",
                 "exceeds f32; use euclidean or distance_type=f64"),
    "int64 beyond float64": (dict(corpus=np.full((3, 64), 2**53 + 1)), "InvalidValue",
                             "corpus row 0, column 0 is 9007199254740993 .*no exact float64"),
    "uint64 beyond float64": (dict(queries=np.full((3, 64), 2**64 - 1, np.uint64)), "InvalidValue",
                              "query row 0, column 0 is 18446744073709551615 .u64, 192 such elements"),
    "longdouble": (dict(queries=QUERIES.astype(np.longdouble)), "InvalidArgument", "dtype longdouble not supported"),
    "complex": (dict(corpus=CORPUS.astype(np.complex64)), TypeError, "corpus: unsupported dtype complex64"),
    "object": (dict(corpus=CORPUS.astype(object)), TypeError, "unsupported dtype object"),
    "strings": (dict(corpus=CORPUS.astype(str)), TypeError, "unsupported dtype str"),
    "structured": (dict(corpus=np.zeros((3, 2), [("a", "f4")])), TypeError, "unsupported dtype"),
    "dates": (dict(corpus=np.zeros((3, 2), "M8[s]")), TypeError, "unsupported dtype datetime64"),
    "a text": (dict(corpus="corpus.npy"), TypeError, "expected a two-dimensional array of numbers, or a list of strings, got str"),
    "None": (dict(queries=None), TypeError, "unsupported dtype object"),
    "ragged": (dict(queries=[[1.0, 2.0], [3.0]]), "InvalidArgument", "not a rectangular table"),
    "large Python integers": (dict(corpus=[[2**53 + 1]], queries=[[1]]), "InvalidValue", "no exact float64"),
    "masked": (dict(corpus=np.ma.masked_invalid(CORPUS)), TypeError, "masked arrays are not supported"),
    "unknown device": (dict(device="cuda"), "DeviceError", "no usable CUDA device"),
    "device not text": (dict(device=0), TypeError, "device must be a str"),
    "unknown metric": (dict(metric="l2sq"), "InvalidArgument", 'unknown metric "l2sq".*did you mean "sqeuclidean"'),
    "metric not text": (dict(metric=2), TypeError, "metric must be a str, got int"),
    "hamming of floats": (dict(metric="hamming"), "InvalidArgument", "hamming"),
    "threads<0": (dict(threads=-1), "InvalidArgument", "threads must be >= 0"),
    "threads a float": (dict(threads=1.5), TypeError, "threads must be an integer, got float"),
    "memory too small": (dict(memory=1), "MemoryBudget", "budget"),
    "memory<0": (dict(memory=-1), "InvalidArgument", "memory must be >= 1"),
    "memory not a size": (dict(memory="plenty"), "InvalidArgument", "plenty"),
    "memory a float": (dict(memory=1e9), TypeError, "memory must be an integer, got float"),
    "distance type": (dict(distance_type="f16"), "InvalidArgument", "f16"),
    "distance dtype": (dict(distance_type=np.int32), "InvalidArgument", "int32"),
    "degenerate": (dict(degenerate="zero"), "InvalidArgument", "zero"),
    "pad not a bool": (dict(pad="yes"), TypeError, "pad must be a bool, got str"),
    "first_id a float": (dict(first_id=1.0), TypeError, "first_id must be an integer"),
    "progress not callable": (dict(progress=1), TypeError, "progress must be callable"),
}  # fmt: skip
BUILTIN = {"DeviceError": RuntimeError, "MemoryBudget": MemoryError}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    arguments, kind, words = REFUSED[case]
    if isinstance(kind, str):
        with pytest.raises(BUILTIN.get(kind, ValueError)):
            search(**arguments)
        kind = getattr(vicinal, kind)
    with pytest.raises(kind, match=words):
        search(**arguments)


@pytest.mark.parametrize("case", REFUSED)
def test_corpus_refuses_the_same(case):
    arguments, kind, words = REFUSED[case]
    arguments = {"corpus": CORPUS, "queries": QUERIES, "k": 2, **arguments}
    fixed = ("metric", "device", "threads", "memory", "degenerate")
    made = {name: value for name, value in arguments.items() if name in fixed}
    asked = {name: value for name, value in arguments.items() if name not in (*fixed, "corpus", "queries", "k")}
    with pytest.raises(getattr(vicinal, kind) if isinstance(kind, str) else kind, match=words):
        vicinal.Corpus(arguments["corpus"], **made).knn(arguments["queries"], arguments["k"], **asked)


def test_empty_queries():
    distances, ids = search(queries=QUERIES[:0])
    assert distances.shape == ids.shape == (0, 2)
    assert distances.dtype == np.float32 and ids.dtype == np.int64


def test_one_of_everything():
    distances, ids = vicinal.knn(np.array([[3.0]]), np.array([[5.0]]), 1)
    assert distances.tolist() == [[2.0]] and ids.tolist() == [[0]]


def test_integers_of_numpy_are_integers():
    for kind in (np.int8, np.int64, np.uint64):
        assert search(k=kind(5), threads=kind(1), first_id=kind(7), memory=np.int64(1 << 30)).ids.shape == (3, 5)


@pytest.mark.parametrize("metric, worst", [("euclidean", np.inf), ("inner_product", -np.inf)])
def test_padding(metric, worst):
    result = search(k=13, pad=True, metric=metric)
    assert (result.ids[:, 10:] == -1).all() and (result.distances[:, 10:] == worst).all()
    assert result.counts.tolist() == [10, 10, 10] and result.counts.dtype == np.int64
    assert np.array_equal(result.ids[:, :10], search(k=10, metric=metric).ids)
    empty = search(corpus=CORPUS[:0], k=2, pad=True, metric=metric)
    assert (empty.ids == -1).all() and empty.counts.tolist() == [0, 0, 0]


def test_padding_of_integers():
    result = vicinal.knn(np.array([[1], [3]], np.uint8), np.array([[0]], np.uint8), 3, "hamming", pad=True)
    assert result.distances.tolist() == [[1, 2, 2**32 - 1]] and result.distances.dtype == np.uint32


def test_degenerate_one():
    result = search(corpus=ZERO_ROW, metric="cosine", degenerate="one", k=10)
    assert result.distances[result.ids == 5].tolist() == [1.0] * 3
    prepared = vicinal.Corpus(CONSTANT_ROW, "correlation", degenerate="one").knn(CONSTANT_ROW[5:6], 10)
    assert (prepared.distances == 1).all() and prepared.ids.tolist() == [list(range(10))]


def test_many_threads_are_capped_with_a_note():
    result = search(threads=100000)
    assert result.stats.threads <= 1024 and any("thread" in note for note in result.stats.notes)


def test_an_error_changes_nothing():
    prepared = vicinal.Corpus(CORPUS)
    before = prepared.knn(QUERIES, 3)
    for bad in (QUERIES[:, :5], changed(QUERIES, 0, 0, np.nan), QUERIES[0]):
        with pytest.raises(vicinal.Error):
            prepared.knn(bad, 3)
    assert np.array_equal(prepared.knn(QUERIES, 3).ids, before.ids)


def listed(call):
    with pytest.raises(vicinal.InvalidArgument, match='unknown metric "manhatan"') as caught:
        call("manhatan")
    return str(caught.value)


def test_an_unknown_metric_lists_those_of_the_call(rng):
    x, words = rng.standard_normal((20, 4)).astype(np.float32), ["ab", "abc", "b"]
    of_vectors = [
        lambda m: vicinal.knn(x, x, 2, m), lambda m: vicinal.Corpus(x, m), lambda m: vicinal.knn_graph(x, 2, m), lambda m: vicinal.range_search(x, x, 1.0, m),
        lambda m: vicinal.plan((9, 4), (9, 4), 2, m), lambda m: vicinal.plan_graph(x, 2, m), lambda m: vicinal.plan_range(x, x, m),
        lambda m: vicinal.verify(x, x, np.zeros((20, 1), int), m),
    ]  # fmt: skip
    of_strings = [
        lambda m: vicinal.knn(words, words, 2, m), lambda m: vicinal.knn_graph(words, 2, m), lambda m: vicinal.range_search(words, words, 1.0, m),
        lambda m: vicinal.plan(words, words, 2, m), lambda m: vicinal.plan_graph(words, 2, m), lambda m: vicinal.plan_range(words, words, m),
    ]  # fmt: skip
    for call in of_vectors:
        said = listed(call)
        assert "manhattan" in said and "correlation" in said and "levenshtein" not in said and "dtw" not in said, said
    for call in of_strings:
        said = listed(call)
        assert "jaccard" in said and "hamming" in said and "euclidean" not in said and "manhattan" not in said and "dtw" not in said, said
    assert all(name in listed(lambda m: vicinal.PermutationIndex(x, m)) for name in ("dtw", "levenshtein", "euclidean"))
