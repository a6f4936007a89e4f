"""Arrays in memory of a CUDA device as their owners hand them over, played by stand-ins in the host's memory: which device is current
while a tensor is asked for its memory, which stream the search begins after, and what is said where memory is not handed over."""

import sys
import types

import dlpack
import numpy as np
import pytest
import vicinal
from vicinal import _inputs, _rows


class Device:
    """A device of a stand-in library; entering it makes it current, as cupy's own and torch.cuda.device() do."""

    type = "cuda"
    current = 0

    def __init__(self, index):
        self.index, self.before = index, []

    def __enter__(self):
        self.before.append(Device.current)
        Device.current = self.index
        return self

    def __exit__(self, *_):
        Device.current = self.before.pop()


class Tensor(dlpack.Tensor):
    """Hands its memory over as torch does: of the current device, without gradient, and for a stream that is named by a number."""

    requires_grad = False

    def __init__(self, array, index, code=dlpack.FLOAT):
        super().__init__(array, code, device=(dlpack.CUDA, index))
        self.dtype, self.asked = array.dtype, []

    def __dlpack__(self, stream=-1):
        if Device.current != self.device[1]:
            raise BufferError(f"Can't export tensors on a different CUDA device index. Expected: {self.device[1]}. Current device: {Device.current}.")
        if stream is not None and (type(stream) is not int or stream == 0):
            raise TypeError(f"stream must be a number other than 0, got {stream!r}")
        self.asked.append(stream)
        return super().__dlpack__()


class TorchTensor(Tensor):
    __module__ = "torch"

    def __init__(self, array, index, code=dlpack.FLOAT):
        super().__init__(array, index, code)
        self.where = self.device
        self.device = Placed(index, self.where)

    def detach(self):
        return self

    def contiguous(self):
        return self

    def data_ptr(self):
        return self.array.ctypes.data


class Placed(tuple):
    """DLPack's pair (kind, ordinal), and what torch calls a tensor's device."""

    type = "cuda"

    def __new__(cls, index, pair):
        self = super().__new__(cls, pair)
        self.index = index
        return self


class CupyArray(Tensor):
    __module__ = "cupy"

    def __init__(self, array, index, code=dlpack.FLOAT):
        super().__init__(array, index, code)
        self.pair, self.device = self.device, Device(index)
        self.flags = types.SimpleNamespace(c_contiguous=True)
        self.data = types.SimpleNamespace(ptr=array.ctypes.data)

    def __dlpack_device__(self):
        return self.pair

    def __dlpack__(self, stream=-1):
        self.device, before = self.pair, self.device
        try:
            return super().__dlpack__(stream)
        finally:
            self.device = before


STREAMS = {0: 0, 1: 0x51EA}  # current streams of the two devices, the first of which is the default one


@pytest.fixture(params=["torch", "cupy"])
def tensor(request, monkeypatch):
    monkeypatch.setattr(Device, "current", 0)
    torch = types.ModuleType("torch")
    torch.cuda = types.SimpleNamespace(
        device=lambda placed: Device(placed.index),
        current_stream=lambda placed: types.SimpleNamespace(cuda_stream=STREAMS[placed.index]),
    )
    torch.float32, torch.int64, torch.empty = np.float32, np.int64, lambda shape, dtype, device: TorchTensor(np.empty(shape, dtype), device.index)
    cupy = types.ModuleType("cupy")
    cupy.empty = lambda shape, dtype: CupyArray(np.empty(shape, dtype), Device.current)
    cupy.cuda = types.SimpleNamespace(get_current_stream=lambda: types.SimpleNamespace(ptr=STREAMS[Device.current]))
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    return TorchTensor if request.param == "torch" else CupyArray


@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("current", [0, 1])
def test_a_tensor_of_any_device_is_seen_while_another_is_current(tensor, index, current):
    Device.current = current
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    rows, copied = _rows.rows(tensor(x, index), "corpus")
    assert (rows.cuda_device, rows.data, rows.shape, copied) == (index, x.ctypes.data, (4, 3), 0)
    assert rows.stream == (STREAMS[index] or 1)
    assert Device.current == current
    for asked in ("auto", "cuda"):
        assert _inputs.device(asked, rows) == f"cuda:{index}"
    assert _inputs.device("cuda:5", rows) == "cuda:5"


def test_every_call_takes_tensors_of_the_second_device(tensor):
    """There is no such device, which is the library's to say; nothing else may go wrong before."""
    x = np.zeros((40, 3), np.float32)
    calls = [
        lambda t: vicinal.knn(t, t, 2),
        lambda t: vicinal.knn(x, t, 2, device="cuda:1"),
        lambda t: vicinal.knn(t, t, 2, device="cuda:1"),
        lambda t: vicinal.knn_graph(t, 2),
        lambda t: vicinal.range_search(t, t, 1.0),
        lambda t: vicinal.Corpus(t),
        lambda t: vicinal.plan(t, t, 2),
    ]
    if any(device.name == "cuda:1" and device.usable for device in vicinal.devices()):
        pytest.skip("there is a second device here, which these arrays are not in memory of")
    for call in calls:
        with pytest.raises(vicinal.DeviceError, match="no usable CUDA device 1"):
            call(tensor(x, 1))
    with pytest.raises(vicinal.DeviceError, match="corpus: rows are in memory of cuda:1, this search runs on cpu"):
        vicinal.knn(tensor(x, 1), x, 2, device="cpu")


class Foreign(Tensor):
    """Of a library that vicinal does not know."""


class WithInterface(Foreign):
    @property
    def __cuda_array_interface__(self):
        return dict(shape=self.array.shape, typestr=self.array.dtype.str, data=(self.array.ctypes.data, True), version=3, stream=7)


def test_memory_that_is_not_handed_over(monkeypatch):
    monkeypatch.setattr(Device, "current", 0)
    x = np.zeros((4, 3), np.float32)
    assert _rows.rows(Foreign(x, 0), "corpus")[0].stream == 1
    with pytest.raises(vicinal.Unsupported, match="corpus: .*Foreign does not hand over its memory by DLPack .Can't export tensors on a different"):
        vicinal.knn(Foreign(x, 1), x, 1)
    monkeypatch.setattr(vicinal._namespaces, "ordinal", lambda address: 1)
    rows, _ = _rows.rows(WithInterface(x, 1), "corpus")
    assert (rows.cuda_device, rows.data, rows.stream) == (1, x.ctypes.data, 7)

    class Refusing(dlpack.Tensor):
        def __dlpack__(self, **how):
            raise BufferError("conjugated")

    for call in (lambda t: vicinal.knn(t, x, 1), lambda t: vicinal.select_k(t, 1)):
        with pytest.raises(vicinal.Unsupported, match="Refusing does not hand over its memory by DLPack .conjugated"):
            call(Refusing(x, dlpack.FLOAT))


@pytest.mark.parametrize(("stream", "seen"), [(None, 0), (1, 1), (2, 2), (0xABC, 0xABC), (0, None), (-1, None), ("1", None), (True, None)])
def test_the_stream_of_the_array_interface(monkeypatch, stream, seen):
    monkeypatch.setattr(vicinal._namespaces, "ordinal", lambda address: 0)
    x = np.zeros((4, 3), np.float32)
    facts = dict(shape=x.shape, typestr="<f4", data=(x.ctypes.data, True), version=3, stream=stream)
    array = types.SimpleNamespace(__cuda_array_interface__=facts)
    if seen is None:
        with pytest.raises(vicinal.InvalidArgument, match="stream of __cuda_array_interface__ is None or a number from 1 on"):
            _rows.rows(array, "corpus")
    else:
        assert _rows.rows(array, "corpus")[0].stream == seen


def test_one_stream_of_several(monkeypatch):
    waited = []
    driver = types.SimpleNamespace(cuStreamSynchronize=lambda stream: waited.append(stream.value) or 0)
    monkeypatch.setattr(vicinal._namespaces.ctypes, "CDLL", lambda name: driver)
    assert vicinal._namespaces.one_stream() == vicinal._namespaces.one_stream(0, 0) == 0
    assert vicinal._namespaces.one_stream(0, 5, 5) == 5 and waited == []
    assert vicinal._namespaces.one_stream(5, 0, 9, 5, 8) == 5 and waited == [9, 8]
    driver.cuStreamSynchronize = lambda stream: 900
    with pytest.raises(vicinal.DeviceError, match="waiting for the stream of an array: error 900"):
        vicinal._namespaces.one_stream(5, 9)


def test_release_memory_without_a_device():
    assert vicinal.release_memory() >= 0


class OwnTensor:
    """torch's own class as far as rows are seen by their address; it hands nothing over by DLPack."""

    is_cpu, is_cuda, layout = True, False, "torch.strided"

    def __init__(self, array, neg=False):
        self.array, self.neg, self.ndim, self.shape = array, neg, array.ndim, array.shape
        self.dtype = f"torch.{array.dtype.name}"

    def is_neg(self):
        return self.neg

    def detach(self):
        return OwnTensor(self.array)

    def data_ptr(self):
        return self.array.ctypes.data

    def get_device(self):
        return -1

    def stride(self):
        return tuple(stride // self.array.itemsize for stride in self.array.strides)

    def __dlpack_device__(self):
        raise AssertionError("asked by DLPack")

    __dlpack__ = __dlpack_device__


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "uint8", "int8"])
def test_a_tensor_of_torchs_own_class_is_seen_by_its_address(monkeypatch, dtype):
    torch = types.ModuleType("torch")
    torch.Tensor = OwnTensor
    monkeypatch.setitem(sys.modules, "torch", torch)
    x = np.random.default_rng(1).integers(0, 50, (40, 12)).astype(dtype)
    for view in (x, x[::2], x[:, ::3], x[:0], x.T):
        rows, copied = _rows.rows(OwnTensor(view), "query")
        assert (rows.data, rows.shape, rows.cuda_device, rows.stream, copied) == (view.ctypes.data, view.shape, -1, 0, 0)
        assert rows.dtype == _rows.rows(view, "query")[0].dtype
    corpus = np.ascontiguousarray(x)
    seen, plain = _rows.rows(OwnTensor(x[::-1][1::3, ::2]), "query")[0], _rows.rows(np.ascontiguousarray(x[::-1][1::3, ::2]), "query")[0]
    native = _inputs.options(k=3)
    kept = vicinal._native.Corpus(_rows.rows(np.ascontiguousarray(corpus[:, ::2]), "corpus")[0], native, False)
    assert all(np.array_equal(one, other) for one, other in zip(kept.knn(seen, native)[:2], kept.knn(plain, native)[:2]))
    for odd in (OwnTensor(x, neg=True), OwnTensor(x[0])):
        with pytest.raises(AssertionError, match="asked by DLPack"):
            _rows.rows(odd, "query")
