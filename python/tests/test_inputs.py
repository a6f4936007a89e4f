"""Every element type and every way to lie in memory gives the oracle's bits, and nothing is copied."""

import array
import tempfile

import dlpack
import numpy as np
import oracle
import pytest
import vicinal
from vicinal import _inputs

TYPES = ("float32", "float64", "float16", "uint8", "int8")
ROWS, COLUMNS = 24, 35


def numbers(dtype, rows=ROWS, columns=COLUMNS, seed=1):
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        return (3 * rng.standard_normal((rows, columns))).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, (rows, columns), dtype, endpoint=True)


def on_disk(x):
    file = tempfile.TemporaryFile()
    x.tofile(file)
    return np.memmap(file, x.dtype, "r", shape=x.shape)


def unaligned(x):
    raw = np.zeros(x.nbytes + 1, np.uint8)
    view = raw[1:].view(x.dtype).reshape(x.shape)
    view[...] = x
    return view


def read_only(x):
    x = x.copy()
    x.setflags(write=False)
    return x


def wide(x, row_step, column_step):
    """x as every row_step-th row and column_step-th column of something larger."""
    larger = np.full((x.shape[0] * abs(row_step), x.shape[1] * abs(column_step)), 77, x.dtype)
    view = larger[::row_step, ::column_step]
    view[...] = x
    return view


LAYOUTS = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "rows backwards": lambda x: x[::-1].copy()[::-1],
    "columns backwards": lambda x: x[:, ::-1].copy()[:, ::-1],
    "both backwards, with gaps": lambda x: wide(x, -2, -3),
    "with gaps": lambda x: wide(x, 3, 2),
    "unaligned": unaligned,
    "read-only": read_only,
    "big-endian": lambda x: x.astype(x.dtype.newbyteorder(">")),
    "big-endian, unaligned, Fortran": lambda x: unaligned(x.astype(x.dtype.newbyteorder(">")).T).T,
    "mapped": on_disk,
    "memoryview": memoryview,
}


@pytest.fixture(scope="module", params=TYPES)
def expected(request):
    corpus, queries = numbers(request.param), numbers(request.param, 4, seed=2)
    answers = {metric: oracle.knn(corpus, queries, 6, metric) for metric in ("euclidean", "cosine", "l1")}
    return corpus, queries, answers


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(expected, layout):
    corpus, queries, answers = expected
    corpus, queries = LAYOUTS[layout](corpus), LAYOUTS[layout](queries)
    for metric, (distances, ids) in answers.items():
        for result in (vicinal.knn(corpus, queries, 6, metric), vicinal.Corpus(corpus, metric).knn(queries, 6)):
            assert oracle.same_bits(result.distances, distances)
            assert oracle.same_bits(result.ids, ids)
            assert result.stats.copied_bytes == 0


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", TYPES)
def test_seen_in_place(dtype, layout):
    x = LAYOUTS[layout](numbers(dtype))
    rows, copied = _inputs.rows(x, "corpus")
    address = np.asarray(x).__array_interface__["data"][0]
    assert (rows.data, rows.shape, copied) == (address, (ROWS, COLUMNS), 0)


def test_zero_strides():
    row = numbers("float32", 1)
    corpus = np.broadcast_to(row, (50, COLUMNS))
    result = vicinal.knn(corpus, numbers("float32", 2, seed=3), 7)
    assert (result.ids == np.arange(7)).all()
    column = np.broadcast_to(numbers("float64", 9, 1), (9, COLUMNS))
    assert oracle.same_bits(
        vicinal.knn(column, column[:3], 4).distances, oracle.knn(column, column[:3], 4, "euclidean")[0]
    )


@pytest.mark.parametrize("corpus_type, query_type", [("uint8", "float32"), ("float32", "float64"), ("float16", "int8")])
@pytest.mark.parametrize("metric", oracle.METRICS)
def test_mixed_types(corpus_type, query_type, metric):
    corpus, queries = numbers(corpus_type), numbers(query_type, 3, seed=5)
    result = vicinal.knn(corpus, queries, 9, metric)
    distances, ids = oracle.knn(corpus, queries, 9, metric)
    assert oracle.same_bits(result.distances, distances) and oracle.same_bits(result.ids, ids)


@pytest.mark.parametrize("metric", oracle.METRICS)
@pytest.mark.parametrize("d", (2, 31, 32, 33, 64, 65))
def test_metrics_and_dimensions(metric, d):
    corpus, queries = numbers("float32", 30, d), numbers("float32", 3, d, seed=6)
    for distance_type, dtype in ((None, np.float32), ("f64", np.float64), (np.float64, np.float64)):
        result = vicinal.knn(corpus, queries, 30, metric, distance_type=distance_type)
        distances, ids = oracle.knn(corpus, queries, 30, metric, dtype)
        assert oracle.same_bits(result.distances, distances) and oracle.same_bits(result.ids, ids)


def test_hamming():
    corpus, queries = numbers("uint8", 60, 13), numbers("uint8", 5, 13, seed=7)
    result = vicinal.knn(corpus, queries, 20, "hamming")
    distances, ids = oracle.knn(corpus, queries, 20, "hamming")
    assert oracle.same_bits(result.distances, distances) and oracle.same_bits(result.ids, ids)


def test_lists_are_converted_once_and_counted():
    corpus, queries = [[0, 0], [3, 4], [6, 8]], [[0.0, 1.0]]
    result = vicinal.knn(corpus, queries, 2)
    assert result.ids.tolist() == [[0, 1]] and result.distances.dtype == np.float64
    assert result.stats.copied_bytes == 8 * 8
    prepared = vicinal.Corpus(corpus)
    assert prepared.dtype == np.float64 and prepared.nbytes >= 6 * 8
    assert prepared.knn(queries, 2).stats.copied_bytes == 2 * 8


def test_list_of_arrays_keeps_its_type(rng):
    rows = list(rng.standard_normal((5, 4)).astype(np.float32))
    assert vicinal.knn(rows, rows[:2], 1).distances.dtype == np.float32
    assert vicinal.knn([np.arange(4, dtype=np.int16)], [np.arange(4, dtype=np.int8)], 1).distances.dtype == np.float32


def test_pandas(small):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    corpus, queries = small
    expected = vicinal.knn(corpus, queries, 5)
    one_block = vicinal.knn(pandas.DataFrame(corpus), pandas.DataFrame(queries), 5)
    assert oracle.same_bits(one_block.ids, expected.ids) and one_block.stats.copied_bytes == 0
    frame = pandas.DataFrame({f"c{i}": corpus[:, i] for i in range(corpus.shape[1])}, copy=True)
    frame["c0"] = frame["c0"].to_numpy().copy()
    assert oracle.same_bits(vicinal.knn(frame, queries, 5).distances, expected.distances)
    with pytest.raises(TypeError, match="corpus: column 'c1' holds str"):
        vicinal.knn(frame.assign(c1="text"), queries, 5)


def test_arrow_lists(small, tmp_path):
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed: not run")
    import pyarrow.parquet

    corpus, queries = small
    expected = vicinal.knn(corpus, queries, 5)
    fixed = arrow.FixedSizeListArray.from_arrays(corpus.ravel(), 37)
    ragged = arrow.array(corpus.tolist(), arrow.list_(arrow.float32()))
    pyarrow.parquet.write_table(arrow.table({"x": fixed}), tmp_path / "x.parquet")
    stored = pyarrow.parquet.read_table(tmp_path / "x.parquet")
    for column, copied in ((fixed, 0), (ragged, 0), (arrow.table({"x": fixed}), 0), (stored, 0), (stored["x"], 0),
                           (arrow.chunked_array([fixed[:9], fixed[9:]]), corpus.nbytes)):
        result = vicinal.knn(column, queries, 5)
        assert oracle.same_bits(result.ids, expected.ids) and result.stats.copied_bytes == copied
    assert oracle.same_bits(vicinal.knn(fixed[3:20], queries, 5).ids, vicinal.knn(corpus[3:20], queries, 5).ids)
    odd = corpus.tolist()
    odd[4] = odd[4][:30]
    for rows, kind, message in ((odd, vicinal.InvalidArgument, "corpus: row 4 has 30 values, row 0 has 37"),
                                ([*corpus.tolist(), None], vicinal.InvalidValue, "1 rows are null"),
                                ([[None, 1.0]], vicinal.InvalidValue, "1 values are null")):
        with pytest.raises(kind, match=message):
            vicinal.knn(arrow.array(rows, arrow.list_(arrow.float32())), queries, 1)
    with pytest.raises(TypeError, match="unsupported dtype"):
        vicinal.knn(arrow.array([["a"]]), queries, 1)


def test_arrow_columns_of_tensors(small):
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed: not run")
    corpus, queries = small
    tensors = arrow.FixedShapeTensorArray.from_numpy_ndarray(corpus)
    expected = vicinal.knn(corpus, queries, 5)
    cut = arrow.chunked_array([tensors[:9], tensors[9:]])
    for x, copied in ((tensors, 0), (arrow.table({"v": tensors}), 0), (cut, corpus.nbytes)):
        result = vicinal.knn(x, queries, 5)
        assert oracle.same_bits(result.ids, expected.ids) and result.stats.copied_bytes == copied
    kind = arrow.fixed_shape_tensor(arrow.float64(), [2])
    for rows, said in (([None, [1.0, 2.0]], "1 rows are null"), ([[None, 1.0], [1.0, 2.0]], "1 values are null")):
        tensors = arrow.ExtensionArray.from_storage(kind, arrow.array(rows, kind.storage_type))
        with pytest.raises(vicinal.InvalidValue, match=f"corpus: {said}"):
            vicinal.knn(tensors, np.zeros((1, 2)), 1)
    with pytest.raises(vicinal.InvalidArgument, match=r"corpus: items are tensors of shape \(2, 2\)"):
        vicinal.knn(arrow.FixedShapeTensorArray.from_numpy_ndarray(np.zeros((3, 2, 2))), np.zeros((1, 4)), 1)


def test_sparse_rows_are_refused(small):
    sparse = pytest.importorskip("scipy.sparse", reason="SciPy is not installed: not run")
    with pytest.raises(TypeError, match=r"corpus: sparse rows are not supported; x.toarray\(\)"):
        vicinal.knn(sparse.csr_matrix(small[0]), small[1], 2)


def test_a_bar_of_tqdm(small, capsys):
    pytest.importorskip("tqdm", reason="tqdm is not installed: not run")
    vicinal.knn(*small, 3, progress=True)
    assert "vicinal: 100%" in capsys.readouterr().err


def test_one_dimensional_buffers_are_refused():
    with pytest.raises(vicinal.InvalidArgument, match=r"expected 2 dimensions \(n,d\), got 1 with shape \(3,\)"):
        vicinal.knn(array.array("f", [1, 2, 3]), [[1.0]], 1)


# DLPack


def test_bfloat16_through_dlpack(small):
    corpus, queries = (dlpack.rounded_to_bfloat16(x) for x in small)
    tensors = [dlpack.Tensor(dlpack.bfloat16_bits(x), dlpack.BFLOAT) for x in (corpus, queries)]
    result = vicinal.knn(*tensors, 8)
    distances, ids = oracle.knn(corpus, queries, 8, "euclidean")
    assert oracle.same_bits(result.distances, distances) and oracle.same_bits(result.ids, ids)
    assert result.stats.copied_bytes == 0
    assert [tensor.released for tensor in tensors] == [1, 1]


def test_bfloat16_of_ml_dtypes(small):
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    corpus, queries = (x.astype(ml_dtypes.bfloat16) for x in small)
    expected = oracle.knn(corpus.astype(np.float32), queries.astype(np.float32), 8, "l1")
    for stored in (corpus, np.asfortranarray(corpus), corpus[::-1].copy()[::-1]):
        result = vicinal.knn(stored, queries, 8, "l1")
        assert oracle.same_bits(result.distances, expected[0]) and oracle.same_bits(result.ids, expected[1])
    assert vicinal.Corpus(corpus).dtype == ml_dtypes.bfloat16


@pytest.mark.parametrize("dense", [True, False])
def test_dlpack_is_seen_in_place_and_kept(small, dense):
    corpus, queries = small
    tensor = dlpack.Tensor(corpus if dense else np.asfortranarray(corpus), dlpack.FLOAT, dense=dense)
    rows, copied = _inputs.rows(tensor, "corpus")
    assert (rows.data, copied, rows.dtype) == (tensor.array.ctypes.data, 0, "f32")
    prepared = vicinal.Corpus(tensor)
    assert tensor.released == 0
    expected = vicinal.knn(corpus, queries)
    assert oracle.same_bits(prepared.knn(queries).distances, expected.distances)
    del rows, prepared
    assert tensor.released == 2


@pytest.mark.parametrize("code, bits, kind, message", [
    (dlpack.INT, 128, vicinal.InvalidArgument, "dtype int128 not supported; convert with astype"),
    (dlpack.UINT, 4, vicinal.InvalidArgument, "dtype uint4 not supported"),
    (dlpack.FLOAT, 128, vicinal.InvalidArgument, "dtype float128 not supported"),
    (dlpack.BOOL, 16, TypeError, "unsupported dtype bool"),
    (dlpack.COMPLEX, 64, TypeError, "unsupported dtype complex64"),
])  # fmt: skip
def test_dlpack_types_that_are_refused(code, bits, kind, message):
    with pytest.raises(kind, match=message):
        vicinal.knn(dlpack.Tensor(np.zeros((3, 2)), code, bits), np.zeros((1, 2)), 1)


@pytest.mark.parametrize("how", [dict(strides=(2**62, 1)), dict(strides=(2, -(2**62))), dict(strides=(2**60, 1)), dict(offset=2**63)])
def test_tensors_at_impossible_addresses(how):
    x = np.zeros((9, 2), np.float32)
    for call in (lambda x: vicinal.knn(x, np.zeros((1, 2)), 1), lambda x: vicinal.select_k(x, 1)):
        with pytest.raises(vicinal.InvalidArgument, match=r"a tensor of shape \(9, 2\) has strides or an offset that no memory has"):
            call(dlpack.Tensor(x, dlpack.FLOAT, **how))
    one = dlpack.Tensor(x[:1], dlpack.FLOAT, strides=(2**62, 1))  # by which nothing is reached
    assert vicinal.knn(one, x[:1], 1).ids.tolist() == [[0]]


def test_dlpack_on_another_device():
    tensor = dlpack.Tensor(np.zeros((3, 2), np.float32), dlpack.FLOAT, device=(dlpack.CUDA, 1))
    queries = np.zeros((1, 2), np.float32)
    for call, message in (
        (lambda: vicinal.knn(tensor, queries, 1), "(?i)cuda"),  # goes there, and finds no such device
        (lambda: vicinal.Corpus(tensor), "(?i)cuda"),
        (lambda: vicinal.knn(tensor, queries, 1, device="cpu"), "corpus: rows are in memory of cuda:1, this search runs on cpu"),
        (lambda: vicinal.Corpus(tensor, device="cpu"), "corpus: rows are in memory of cuda:1, this search runs on cpu"),
        (lambda: vicinal.knn_graph(tensor, 1, device="cpu"), "corpus: rows are in memory of cuda:1, this search runs on cpu"),
        (lambda: vicinal.range_search(tensor, queries, 1.0, device="cpu"), "corpus: rows are in memory of cuda:1, this search runs on cpu"),
        (lambda: vicinal.verify(tensor, queries, np.zeros((1, 1), int)), "corpus: rows are in memory of cuda:1"),
        (lambda: vicinal.PermutationIndex(tensor), "rows are in memory of cuda:1"),
        (lambda: vicinal.plan(tensor, queries, 1), "(?i)cuda"),
    ):
        with pytest.raises(vicinal.DeviceError, match=message):
            call()
    with pytest.raises(vicinal.Unsupported, match="query: results in memory of a CUDA device are made by torch and cupy"):
        vicinal.knn(queries, tensor, 1)


@pytest.mark.parametrize("library", ["torch", "array_api_strict"])
def test_results_are_of_the_queries_library(small, library):
    module = pytest.importorskip(library, reason=f"{library} is not installed: not run")
    corpus, queries = small
    their_corpus, their_queries = map(module.from_dlpack, small)
    kind = type(their_queries)
    wanted = vicinal.knn(corpus, queries, 4)
    for found in (vicinal.knn(their_corpus, their_queries, 4), vicinal.knn(corpus, their_queries, 4),
                  vicinal.Corpus(their_corpus).knn(their_queries, 4, pad=True)):
        assert isinstance(found.ids, kind) and isinstance(found.distances, kind) and found.stats.copied_bytes == 0
        assert oracle.same_bits(np.asarray(found.ids), wanted.ids)
        assert oracle.same_bits(np.asarray(found.distances), wanted.distances)
        assert (found.to_csr() != wanted.to_csr()).nnz == 0
    assert isinstance(vicinal.knn(their_corpus, queries, 4).ids, np.ndarray)
    assert vicinal.verify(their_corpus, their_queries, found).ok() and vicinal.merge([found]).ids.tolist() == wanted.ids.tolist()
    edges, theirs = (vicinal.knn_graph(x, 3, symmetrize="union") for x in (corpus, their_corpus))
    assert isinstance(theirs.ids, kind) and (theirs.to_csr() != edges.to_csr()).nnz == 0
    within = vicinal.range_search(their_corpus, their_queries, 8.0)
    for row, (found, wanted) in enumerate(zip(map(within.by_id().__getitem__, range(5)), map(within.__getitem__, range(5)))):
        assert isinstance(found[1], kind) and np.asarray(found[1]).tolist() == sorted(np.asarray(wanted[1]).tolist()), row
    assert vicinal.plots.hubness(theirs).in_degree.tolist() == vicinal.plots.hubness(edges).in_degree.tolist()
    bits = np.packbits(corpus > 0, axis=1)
    assert np.asarray(vicinal.knn(module.from_dlpack(bits), module.from_dlpack(bits), 1, "hamming").distances).dtype == np.uint32


def test_signs_that_torch_has_still_to_take(small):
    torch = pytest.importorskip("torch", reason="torch is not installed: not run")
    corpus, queries = small
    turned = [torch.complex(torch.zeros(x.shape), torch.from_numpy(-x)).conj().imag for x in small]
    assert all(x.is_neg() for x in turned)
    wanted = vicinal.knn(corpus, queries, 4)
    for found in (vicinal.knn(*turned, 4), vicinal.Corpus(turned[0]).knn(turned[1], 4)):
        assert oracle.same_bits(found.ids.numpy(), wanted.ids)
        assert oracle.same_bits(found.distances.numpy(), wanted.distances)
    assert vicinal.knn(turned[0], queries, 4).stats.copied_bytes == corpus.nbytes
    dense, copied = vicinal._namespaces.Torch(turned[0]).dense("corpus")  # as of tensors in memory of a CUDA device
    assert not dense.is_neg() and torch.equal(dense, turned[0]) and copied == corpus.nbytes
    assert oracle.same_bits(vicinal._namespaces.to_host(turned[0]), corpus)
    payload = torch.complex(*map(torch.from_numpy, small[:1] * 2)).conj()
    chosen = vicinal.select_k(turned[0], 3, payload=payload)
    assert oracle.same_bits(chosen.values.numpy(), vicinal.select_k(corpus, 3).values)
    assert torch.equal(chosen.payload.imag, -chosen.values)


def test_results_of_a_type_that_the_library_has_not_are_numpys(small):
    """jax has no elements of 64 bits unless it is told to: ids would lose their upper half."""
    jax = pytest.importorskip("jax", reason="jax is not installed: not run")
    corpus, queries = small[0], jax.numpy.asarray(small[1])
    with jax.enable_x64(False):
        found = vicinal.knn(corpus, queries, 4, first_id=2**40)
        assert isinstance(found.distances, jax.Array) and isinstance(found.ids, np.ndarray)
        assert oracle.same_bits(found.ids, vicinal.knn(*small, 4, first_id=2**40).ids)
        wide = vicinal.knn(corpus, queries, 4, distance_type="f64")
        assert oracle.same_bits(wide.distances, vicinal.knn(*small, 4, distance_type="f64").distances)
        assert (vicinal.knn(corpus, queries, 4).to_csr() != vicinal.knn(*small, 4).to_csr()).nnz == 0
    with jax.enable_x64(True):
        assert isinstance(vicinal.knn(corpus, queries, 4).ids, jax.Array)


def test_dlpack_of_other_shapes():
    with pytest.raises(vicinal.InvalidArgument, match=r"expected 2 dimensions \(Q,d\), got 3 with shape \(1, 2, 3\)"):
        vicinal.knn(np.zeros((3, 2)), dlpack.Tensor(np.zeros((1, 2, 3)), dlpack.FLOAT), 1)
