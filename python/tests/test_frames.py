"""Data frames: bools, nullable and Arrow columns, columns of arrays; what is no number is refused by the name of its column."""

import numpy as np
import pytest
import vicinal

pandas = pytest.importorskip("pandas", reason="pandas is not installed: not run")

X = np.random.default_rng(5).integers(-50, 50, (30, 3))


def knn(x, **options):
    return vicinal.knn(x, x, 4, **options)


def same(left, right):
    assert left.distances.dtype == right.distances.dtype
    assert left.distances.tobytes() == right.distances.tobytes() and left.ids.tobytes() == right.ids.tobytes()


def frame(**dtypes):
    """Columns of these types, with values of X."""
    return pandas.DataFrame({name: pandas.array(X[:, at], dtype=dtype) if isinstance(dtype, str) else dtype(X[:, at])
                             for at, (name, dtype) in enumerate(dtypes.items())})  # fmt: skip


def arrow_type(name):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed: not run")
    return name + "[pyarrow]"


@pytest.mark.parametrize("dtypes, wide", [
    (("float32", "float32", "float32"), False), (("int64", "int64", "int64"), True), (("int16", "int16", "int16"), False),
    (("int8", "float32", "int16"), False), (("float32", "int32", "float32"), True), (("Int64", "Int64", "Int64"), True),
    (("Int16", "Float32", "int8"), False), (("Int64", "float64", "int8"), True), (("Float64", "Float64", "Int32"), True),
    (("int8", "int8", "Int8"), False), (("arrow int64", "arrow int16", "arrow float"), True),
    (("arrow float", "arrow int8", "arrow int16"), False), (("int64", "arrow int64", "Int64"), True),
])  # fmt: skip
def test_columns_of_numbers(dtypes, wide):
    dtypes = [arrow_type(kind[6:]) if kind.startswith("arrow") else kind for kind in dtypes]
    x = frame(**dict(zip("abc", dtypes)))
    expected = X.astype(np.float64 if wide else np.float32)
    for search in (knn, lambda x: vicinal.Corpus(x).knn(x, 4), lambda x: vicinal.knn_graph(x, 4), lambda x: vicinal.range_search(x, x, 9)):
        same(search(x), search(expected))
    assert vicinal.plan(x, x, 4).distance_type == ("f64" if wide else "f32")


@pytest.mark.parametrize("kind", ["bool", "boolean", "arrow bool"])
def test_columns_of_bools(kind):
    kind = arrow_type("bool") if kind.startswith("arrow") else kind
    flags = X > 0
    columns = {name: pandas.array(flags[:, at], dtype=kind) for at, name in enumerate("abc")}
    same(knn(pandas.DataFrame(columns)), knn(flags))
    mixed = pandas.DataFrame({**columns, "d": X[:, 0].astype(np.float32), "e": X[:, 1].astype(np.int16)})
    same(knn(mixed), knn(np.column_stack([flags, X[:, :2]]).astype(np.float32)))


def test_one_block_is_seen_in_place():
    for kind in ("float32", "float64", "int8", "uint8", "bool"):
        assert knn(pandas.DataFrame(X.astype(kind))).stats.copied_bytes == 0
    assert knn(pandas.DataFrame(X)).stats.copied_bytes == 2 * 8 * X.size
    assert knn(pandas.DataFrame({"a": X[:, 0].astype("f4"), "b": X[:, 1].astype("i2")})).stats.copied_bytes == 2 * 4 * 2 * len(X)


def columns_with_missing():
    yield "Int64", pandas.array([1, None] + [3] * 28, dtype="Int64")
    yield "boolean", pandas.array([True, None] + [False] * 28, dtype="boolean")
    yield "Float32", pandas.array([1.5, None] + [2.5] * 28, dtype="Float32")
    yield "category", pandas.Categorical([1, None] + [3] * 28)
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        return
    yield "arrow", pandas.array([1, None] + [3] * 28, dtype="int64[pyarrow]")


@pytest.mark.parametrize("column", [column for _, column in columns_with_missing()], ids=[name for name, _ in columns_with_missing()])
def test_a_missing_value_is_refused_by_column_and_row(column):
    for x in (pandas.DataFrame({"fine": X[:, 0], "holey": column}), pandas.DataFrame({"holey": column})):
        with pytest.raises(vicinal.InvalidValue, match=r"corpus: column 'holey', row 1 is missing \(1 in all\); drop or fill"):
            knn(x)
    missing = pandas.DataFrame({"a": [1.0, np.nan, 2.0]})
    with pytest.raises(vicinal.InvalidValue, match="row 1, column 0 is NaN"):
        vicinal.knn(missing, missing, 1)


@pytest.mark.parametrize("column, said", [
    (["a"] * 30, "str"), ([1, "a"] * 15, "object"), (pandas.date_range("2020", periods=30), "datetime64"),
    (pandas.Categorical(["a", "b"] * 15), "category"), ([1 + 2j] * 30, "complex128"), ([None] * 30, "object"), ([{}] * 30, "object"),
], ids=["strings", "mixed", "dates", "categories", "complex", "nothing", "dicts"])  # fmt: skip
def test_what_is_no_number_is_refused_by_column(column, said):
    for x in (pandas.DataFrame({"fine": X[:, 0], "odd": column}), pandas.DataFrame({"odd": column})):
        with pytest.raises((TypeError, vicinal.InvalidValue), match="corpus: column 'odd'"):
            knn(x)


def test_strings_of_arrow_are_refused_by_column():
    words = pandas.array(["a"] * 30, dtype=arrow_type("string"))
    with pytest.raises(TypeError, match="column 'odd' holds string.* no number"):
        knn(pandas.DataFrame({"fine": X[:, 0], "odd": words}))


def test_integers_beyond_a_float_are_refused_by_column():
    large = np.arange(30) + 2**53
    for column in (large, pandas.array(large, dtype="Int64")):
        with pytest.raises(vicinal.InvalidValue, match="column 'large', row 1 is 9007199254740993: integers beyond"):
            knn(pandas.DataFrame({"fine": np.linspace(0, 1, 30), "large": column}))
    with pytest.raises(vicinal.InvalidValue, match="(row 1, column 1|column 'large', row 1) is 9007199254740993"):
        knn(pandas.DataFrame({"fine": X[:, 0], "large": large}))


@pytest.mark.parametrize("make", [list, tuple, lambda x: np.array(x), lambda x: np.array(x, np.float32), lambda x: np.array(x) > 0])
def test_a_column_of_arrays(make):
    items = [make(row.tolist()) for row in X]
    column = pandas.Series(items, name="vectors")
    for x in (column, column.to_frame()):
        same(knn(x), knn(np.array(items)))
        same(vicinal.Corpus(x).knn(x, 4), knn(np.array(items)))


@pytest.mark.parametrize("items, kind, said", [
    ([[1, 2], [1, 2, 3]], vicinal.InvalidArgument, "column 'v', row 1 has 3 values, row 0 has 2"),
    ([[1, 2], None], TypeError, "column 'v', row 1 is NoneType, row 0 an array"),
    ([[1, 2], 7], TypeError, "column 'v', row 1 is int, row 0 an array"),
    ([["a", "b"], ["c", "d"]], TypeError, "column 'v', row 0 holds str"),
    ([[[1]], [[2]]], vicinal.InvalidArgument, "column 'v', row 0 has 2 dimensions"),
    ([[0.5, 1], [1, 2**53 + 1]], vicinal.InvalidValue, "column 'v', row 1, element 1 is 9007199254740993"),
    ([[0.5, 1], [0.5, 2**53 + 1]], vicinal.InvalidValue, "column 'v', row 1, element 1 is 9007199254740993"),
])  # fmt: skip
def test_a_column_of_arrays_that_do_not_fit(items, kind, said):
    column = pandas.Series(items, name="v")
    for x in (column, column.to_frame()):
        with pytest.raises(kind, match="corpus: " + said):
            vicinal.knn(x, x, 1)


def test_arrow_columns_of_lists_in_a_frame():
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed: not run")
    column = pandas.Series(X.tolist(), dtype=pandas.ArrowDtype(arrow.list_(arrow.int32())), name="v")
    for x in (column, column.to_frame()):
        same(knn(x), knn(X))


def test_a_data_frame_of_polars_with_one_column_of_arrays():
    polars = pytest.importorskip("polars", reason="polars is not installed: not run")
    rows = X.astype(np.float32)
    for kind in (polars.Array(polars.Float32, rows.shape[1]), polars.List(polars.Float32)):
        column = polars.Series("v", rows.tolist(), dtype=kind)
        for x in (column, column.to_frame()):
            same(knn(x), knn(rows))


def test_tables_of_arrow():
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed: not run")
    x = arrow.table({"a": X[:, 0].astype("f4"), "b": arrow.chunked_array([X[:9, 1], X[9:, 1]]), "c": X[:, 2] > 0})
    same(knn(x), knn(np.column_stack([X[:, :2], X[:, 2] > 0]).astype(np.float64)))
    with pytest.raises(vicinal.InvalidValue, match="column 'b', row 1 is missing"):
        knn(arrow.table({"a": X[:, 0], "b": [1, None] + [2] * 28}))
    with pytest.raises(TypeError, match="column 'b' holds string"):
        knn(arrow.table({"a": X[:, 0], "b": ["x"] * 30}))
    assert vicinal.knn(arrow.array(X.tolist()), arrow.array(X.tolist()), 4).ids.tolist() == knn(X).ids.tolist()


def test_frames_of_no_columns_and_no_rows():
    with pytest.raises(vicinal.InvalidArgument, match="dimension is 0"):
        knn(pandas.DataFrame(index=range(30)))
    nothing = pandas.DataFrame({"a": np.zeros(0, "i8"), "b": np.zeros(0, "f4")})
    assert vicinal.knn(X[:, :2], nothing, 3).ids.shape == (0, 3)
