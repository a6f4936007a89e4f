"""select_k against NumPy's stable sort: every type, NaN and ties, strides and byte orders, both ends, payloads, errors."""

import contextlib
import ctypes
import os
import pickle
import signal
import sys
import threading
import types

import dlpack
import numpy as np
import pytest
import vicinal

TYPES = ("f2", "f4", "f8", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8")
CPU_NAMES = [str(name) for name in vicinal.select_algorithms() if "cpu" in name.devices]


def expected(x, k, largest=False):
    """Positions of the first k: by value, NaN last, ties by position."""
    x = np.atleast_2d(x)
    if x.dtype.kind == "f":
        key = x.astype("f8")
        key = np.where(np.isnan(key), np.inf, -key if largest else key)
        return np.lexsort((np.broadcast_to(np.arange(x.shape[1]), x.shape), key, np.isnan(x)), axis=-1)[:, :k]
    return np.argsort(np.invert(x) if largest else x, axis=-1, kind="stable")[:, :k]


def numbers(dtype, rows=5, columns=200, seed=1):
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind != "f":
        limits = np.iinfo(dtype)
        x = rng.integers(limits.min, limits.max, (rows, columns), dtype, endpoint=True)
        x[:, ::7] = x[:, :1]
        return x
    x = rng.standard_normal((rows, columns)).astype(dtype)
    x[:, ::5] = np.round(x[:, ::5])
    for at, value in zip((3, 50, 51, 90, 120, 199), (np.nan, np.inf, -np.inf, -0.0, -np.nan, np.nan), strict=True):
        x[:, at % columns] = value
    return x


def same(x, result, k, largest=False):
    ids = expected(x, k, largest)
    native = np.atleast_2d(x).astype(x.dtype.newbyteorder("="))
    assert np.array_equal(np.atleast_2d(result.ids), ids)
    got = np.atleast_2d(result.values)
    assert got.dtype == native.dtype
    assert got.tobytes() == np.take_along_axis(native, ids, 1).tobytes()


@pytest.mark.parametrize("rows", [1, 2, 5, 64])
def test_several_devices_share_the_rows(rows):
    x, names = numbers("f4", rows=rows), np.arange(rows * 200, dtype="i8").reshape(rows, 200)
    result = vicinal.select_k(x, 9, payload=names, device="cpu,cpu,cpu")
    same(x, result, 9)
    assert np.array_equal(result.payload, np.take_along_axis(names, result.ids, 1))
    assert result.stats.device == "cpu,cpu,cpu"
    assert result.stats.why.startswith(f"3 devices, each with {-(-rows // 3)} rows: ")
    same(x[0], vicinal.select_k(x[0], 3, device="cpu,cpu"), 3)
    with pytest.raises(vicinal.InvalidArgument, match="several devices are of one kind"):
        vicinal.select_k(x, 3, device="cpu,cuda:0")


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("largest", [False, True])
def test_types(dtype, largest):
    x = numbers(dtype)
    for k in (1, 7, 200):
        result = vicinal.select_k(x, k, largest=largest)
        same(x, result, k, largest)
        values, ids = result
        assert values is result.values and ids is result.ids and ids.dtype == np.int64 and result.payload is None


@pytest.mark.parametrize("name", CPU_NAMES)
def test_algorithms_agree(name):
    for dtype in ("f4", "i8"):
        x = numbers(dtype, columns=301)
        result = vicinal.select_k(x, 20, algorithm=name, threads=2)
        same(x, result, 20)
        assert result.stats.algorithm == name or name == "auto"
        assert result.stats.device == "cpu"


def test_long_rows():
    x = numbers("f4", 2, 300_000)
    same(x, vicinal.select_k(x, 100, largest=True), 100, True)
    same(x[0], vicinal.select_k(x[0], 5, threads=2), 5)


@pytest.mark.parametrize("dtype", ["f2", "f8", "i4", "u1"])
def test_layouts(dtype):
    x = numbers(dtype, 6, 200)
    raw = np.zeros(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape)
    raw[...] = x
    frozen = x.copy()
    frozen.setflags(write=False)
    for y in (np.asfortranarray(x), x[::-1, ::-2], x[:, ::3], x.astype(x.dtype.newbyteorder(">")), raw, frozen, x[:0],
              np.broadcast_to(x[0], (3, 200)), memoryview(np.ascontiguousarray(x))):  # fmt: skip
        same(np.asarray(y), vicinal.select_k(y, 9), 9)


def test_one_dimension():
    x = numbers("f4")[0]
    values, ids = result = vicinal.select_k(x, 3, payload=np.arange(200))
    assert values.shape == ids.shape == result.payload.shape == (3,)
    same(x, result, 3)
    assert vicinal.select_k([3, 1, 2], 2).values.tolist() == [1, 2]
    assert vicinal.select_k([3, 1, 2], 2).values.dtype == np.int64
    assert vicinal.select_k(([0.5, 0.25], [1.0, 2.0]), 1, largest=True).ids.tolist() == [[0], [1]]


def test_unsorted_is_the_same_set():
    x = numbers("f4", 3, 5000)
    result = vicinal.select_k(x, 40, sorted=False)
    assert np.array_equal(np.sort(result.ids), np.sort(expected(x, 40)))


@pytest.mark.parametrize("payload", ["u1", "<u2", ">i4", "f4", "f8", "?", "S4", "M8[s]", "c8", [("a", "i2"), ("b", "u2")]])
def test_payload(payload):
    x = numbers("f4", 4, 90)
    items = np.random.default_rng(2).integers(0, 2, (4, 90 * np.dtype(payload).itemsize)).astype("u1").view(payload)
    result = vicinal.select_k(x, 6, payload=items)
    assert result.payload.dtype == items.dtype
    assert result.payload.tobytes() == np.take_along_axis(items, expected(x, 6), 1).tobytes()
    assert np.array_equal(vicinal.select_k(x, 6, payload=items[:, ::-1]).payload.tobytes(),
                          np.take_along_axis(items[:, ::-1], expected(x, 6), 1).tobytes())  # fmt: skip


def test_dlpack():
    x = numbers("f4")
    tensor = dlpack.Tensor(x[:, ::2], dlpack.FLOAT)
    same(x[:, ::2], vicinal.select_k(tensor, 5, payload=dlpack.Tensor(x[:, ::2].astype("c8"), dlpack.COMPLEX)), 5)
    assert tensor.released == 1
    bits = dlpack.bfloat16_bits(np.array([[3.0, -1.0, 0.5]]))
    result = vicinal.select_k(dlpack.Tensor(bits, dlpack.BFLOAT), 2)
    assert result.ids.tolist() == [[1, 2]]
    assert result.values.view(np.uint16).tolist() == [[bits[0, 1], bits[0, 2]]]


def test_memory_of_a_device():
    x = np.zeros((2, 3), "f4")
    with pytest.raises(vicinal.Unsupported, match="made by torch and cupy, got dlpack.Tensor"):
        vicinal.select_k(dlpack.Tensor(x, dlpack.FLOAT, device=(dlpack.CUDA, 0)), 1)
    with pytest.raises(vicinal.DeviceError, match="tensor is on rocm:1"):
        vicinal.select_k(dlpack.Tensor(x, dlpack.FLOAT, device=(10, 1)), 1)
    foreign = types.SimpleNamespace(__cuda_array_interface__={})
    with pytest.raises(vicinal.Unsupported, match="got types.SimpleNamespace"):
        vicinal.select_k(foreign, 1)


class FakeTorch(types.ModuleType):
    """As much of torch as select_k touches, over NumPy: allocation, addresses, the current stream."""

    int64 = np.dtype("i8")

    class Tensor(dlpack.Tensor):
        def __init__(self, array, kind="cpu"):
            code = {"f": dlpack.FLOAT, "i": dlpack.INT, "u": dlpack.UINT}[array.dtype.kind]
            super().__init__(array, code, device=(dlpack.CUDA if kind == "cuda" else dlpack.CPU, 0))
            self.dtype, self.shape = array.dtype, array.shape
            self.type, self.streams = kind, []

        device = property(lambda self: types.SimpleNamespace(type=self.type), lambda self, value: setattr(self, "where", value))

        def __dlpack_device__(self):
            return self.where

        def __dlpack__(self, stream=None):
            self.streams.append(stream)
            array, self.device = self.array, self.where
            keep = types.SimpleNamespace(array=array, device=self.where, code=self.code, bits=self.bits, dense=False,
                                         keep=self.keep, released=0)  # fmt: skip
            return dlpack.Tensor.__dlpack__(keep)

        def detach(self):
            return self

        def data_ptr(self):
            return self.array.ctypes.data

    Tensor.__module__ = "torch"

    def __init__(self, stream):
        super().__init__("torch")
        self.cuda = types.SimpleNamespace(
            current_stream=lambda device: types.SimpleNamespace(cuda_stream=stream), device=lambda device: contextlib.nullcontext()
        )

    def empty(self, shape, dtype, device):
        return self.Tensor(np.empty(shape, dtype), device.type)


def test_torch_gets_tensors_back(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", FakeTorch(0))
    x = numbers("f4")
    result = vicinal.select_k(FakeTorch.Tensor(x), 4, payload=FakeTorch.Tensor(np.arange(1000).reshape(5, 200)))
    assert all(isinstance(part, FakeTorch.Tensor) for part in (*result, result.payload))
    assert np.array_equal(result.ids.array, expected(x, 4))
    assert np.array_equal(result.payload.array, expected(x, 4) + 200 * np.arange(5)[:, None])
    assert "5 rows, k=4" in repr(result)


@pytest.mark.parametrize("stream, passed", [(0, 1), (77, 77)])
def test_torch_on_a_device_is_read_on_its_stream(monkeypatch, stream, passed):
    """No device here: the library refuses it, after everything up to the call was done."""
    monkeypatch.setitem(sys.modules, "torch", FakeTorch(stream))
    tensor = FakeTorch.Tensor(numbers("f4"), "cuda")
    with pytest.raises(vicinal.DeviceError):
        vicinal.select_k(tensor, 4, device="cpu" if any(d.usable and d.name != "cpu" for d in vicinal.devices()) else "auto")
    assert tensor.streams == [passed]


X = np.arange(12.0).reshape(3, 4)


@pytest.mark.parametrize("call, error, message", [
    (lambda: vicinal.select_k(X, 2.0), TypeError, "k must be an integer, got float"),
    (lambda: vicinal.select_k(X, True), TypeError, "k must be an integer, got bool"),
    (lambda: vicinal.select_k(X, 0), ValueError, "k must be >= 1, got 0"),
    (lambda: vicinal.select_k(X, -(10**12)), ValueError, "k must be >= 1"),
    (lambda: vicinal.select_k(X, 5), ValueError, "k=5 exceeds the 4 values of a row"),
    (lambda: vicinal.select_k(X, 10**15), ValueError, "exceeds the 4 values of a row"),
    (lambda: vicinal.select_k(X[:, :0], 1), ValueError, "k=1 exceeds the 0 values of a row"),
    (lambda: vicinal.select_k(X > 3, 1), TypeError, "unsupported dtype bool"),
    (lambda: vicinal.select_k(X.astype("c16"), 1), TypeError, "unsupported dtype complex128"),
    (lambda: vicinal.select_k(X.astype(object), 1), TypeError, "unsupported dtype object"),
    (lambda: vicinal.select_k([["a"]], 1), TypeError, "unsupported dtype str"),
    (lambda: vicinal.select_k("abc", 1), TypeError, "expected an array of numbers, got str"),
    (lambda: vicinal.select_k([[1, 2], [3]], 1), ValueError, "not a rectangular table"),
    (lambda: vicinal.select_k(np.ma.array([1.0]), 1), TypeError, "masked"),
    (lambda: vicinal.select_k(X.reshape(3, 2, 2), 1), ValueError, r"expected 1 or 2 dimensions, got 3 with shape \(3, 2, 2\)"),
    (lambda: vicinal.select_k(np.float32(3), 1), ValueError, "expected 1 or 2 dimensions, got 0"),
    (lambda: vicinal.select_k(X.astype("g"), 1), ValueError, "longdouble not supported"),
    (lambda: vicinal.select_k(dlpack.Tensor(X > 3, dlpack.BOOL), 1), TypeError, "unsupported dtype bool"),
    (lambda: vicinal.select_k(X, 1, algorithm="qick"), ValueError, 'did you mean "quick"\\? known: auto, threshold, '),
    (lambda: vicinal.select_k(X, 1, algorithm="quick_warp"), ValueError, "runs on CUDA only"),
    (lambda: vicinal.select_k(X, 1, algorithm=None), TypeError, "algorithm must be a str"),
    (lambda: vicinal.select_k(X, 1, largest=1), TypeError, "largest must be a bool"),
    (lambda: vicinal.select_k(X, 1, sorted="no"), TypeError, "sorted must be a bool"),
    (lambda: vicinal.select_k(X, 1, device="gpu"), ValueError, 'unknown device "gpu"'),
    (lambda: vicinal.select_k(X, 1, threads=-1), ValueError, "threads must be >= 0"),
    (lambda: vicinal.select_k(X, 1, payload=X[:2]), ValueError, r"payload has shape \(2, 4\), values \(3, 4\)"),
    (lambda: vicinal.select_k(X, 1, payload=X.astype("c16")), ValueError, "payload has items of 16 bytes"),
    (lambda: vicinal.select_k(X, 1, payload=X.astype(object)), TypeError, "payload: unsupported dtype object"),
])  # fmt: skip
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_no_rows():
    assert vicinal.select_k(X[:0], 3).ids.shape == (0, 3)
    assert vicinal.select_k(np.empty((0, 0)), 3).values.shape == (0, 3)
    assert vicinal.select_k(X[:0], (1 << 60) - 1, payload=X[:0]).payload.shape == (0, (1 << 60) - 1)
    for k in (1 << 60, 1 << 62):
        with pytest.raises(vicinal.InvalidArgument, match=f"k={k} is beyond"):
            vicinal.select_k(X[:0], k)


@pytest.mark.parametrize("library", ["pyarrow", "pandas", "polars"])
def test_columns_with_a_missing_value(library):
    """As floats, which NumPy makes of them, 2^60 + 1 would be rounded."""
    module = pytest.importorskip(library, reason=f"{library} is not installed: not run")
    made = {
        "pyarrow": [lambda x: module.array(x), lambda x: module.chunked_array([x, [5]])],
        "pandas": [lambda x: module.Series(x, dtype="Int64")],
        "polars": [lambda x: module.Series(x, dtype=module.Int64)],
    }[library]
    for column in made:
        found = vicinal.select_k(column([(1 << 60) + 1, 4, 3]), 3, largest=True)
        assert found.values.dtype == np.int64 and found.values[0] == (1 << 60) + 1
        with pytest.raises(vicinal.InvalidValue, match="values: row 1 is missing"):
            vicinal.select_k(column([(1 << 60) + 1, None, 3]), 3)
        with pytest.raises(vicinal.InvalidValue, match="payload: row 1 is missing"):
            vicinal.select_k(np.arange(len(column([1, 2, 3]))), 1, payload=column([1, None, 3]))
    if library == "pandas":  # whose columns are attributes of a frame
        frame = module.DataFrame({"type": [1.0, np.nan], "other": [0.5, 2.0]})
        assert vicinal.select_k(frame, 1).values.tolist() == [[0.5], [2.0]]


def test_names():
    names = vicinal.select_algorithms()
    assert names[0] == "auto" and "heap" in names and isinstance(names, tuple)
    assert str(names[1]) == "threshold" and all(name.about for name in names)
    assert pickle.loads(pickle.dumps(names))[3].source == names[3].source
    x = numbers("f4")
    same(x, vicinal.select_k(x, 3, algorithm=next(name for name in names if name == "heap")), 3)


def test_result_pickles():
    result = vicinal.select_k(X, 2)
    again = pickle.loads(pickle.dumps(result))
    assert np.array_equal(again.ids, result.ids) and again.stats == result.stats
    assert repr(result) == "<vicinal.Selection of 3 rows, k=2, float64: threshold>"


def test_ctrl_c_stops_it():
    """Many rows by the slowest sort take many seconds; the signal ends them at once. The GIL is free meanwhile."""
    x = np.random.default_rng(1).random((8_000, 2_000), "f4")
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        vicinal.select_k(x, 1_000, algorithm="bubble", threads=1)


def test_threads_share_no_state():
    x = numbers("f4", 50, 1000)
    results = [None] * 4

    def work(i):
        results[i] = vicinal.select_k(x, 10 + i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i, result in enumerate(results):
        same(x, result, 10 + i)


def test_addresses_are_64_bits():
    assert ctypes.sizeof(ctypes.c_void_p) == 8  # pointers travel as Python integers
