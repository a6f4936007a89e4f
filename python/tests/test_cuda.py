"""Searches and select_k on a real CUDA device; of tensors in its memory, with torch and cupy, against NumPy's stable sort: values are read
where they are and results made there, on the library's current stream."""

import numpy as np
import pytest
import vicinal
from test_select import TYPES, expected, numbers

CUDA = [str(name) for name in vicinal.select_algorithms() if "cuda" in name.devices]


def cuda(library):
    module = pytest.importorskip(library)
    try:
        found = module.cuda.is_available()
    except Exception:  # a library whose driver is missing says so in its own way
        found = False
    if not found:
        pytest.skip(f"{library} sees no CUDA device")
    return module


class Torch:
    def __init__(self):
        self.module = cuda("torch")

    def put(self, x):
        return self.module.from_numpy(np.ascontiguousarray(x)).cuda()

    def get(self, x):
        assert x.device.type == "cuda"
        return x.cpu().numpy()

    def has(self, dtype):
        return dtype not in ("u2", "u4", "u8") or hasattr(self.module, "uint16")

    def stream(self):
        return self.module.cuda.stream(self.module.cuda.Stream())


class Cupy:
    def __init__(self):
        self.module = cuda("cupy")

    def put(self, x):
        return self.module.asarray(x)

    def get(self, x):
        assert isinstance(x, self.module.ndarray)
        return x.get()

    def has(self, dtype):
        return True

    def stream(self):
        return self.module.cuda.Stream(non_blocking=True)


@pytest.fixture(params=[Torch, Cupy], ids=["torch", "cupy"])
def library(request):
    return request.param()


def same(library, x, result, k, largest=False):
    ids = expected(x, k, largest)
    assert np.array_equal(np.atleast_2d(library.get(result.ids)), ids)
    assert np.atleast_2d(library.get(result.values)).tobytes() == np.take_along_axis(np.atleast_2d(x), ids, 1).tobytes()
    assert result.stats.device == "cuda:0"


@pytest.mark.parametrize("dtype", TYPES)
def test_types(library, dtype):
    if not library.has(dtype):
        pytest.skip("no such type there")
    x = numbers(dtype, 7, 3000)
    on_device = library.put(x)
    for k in (1, 33, 3000):
        for largest in (False, True):
            same(library, x, vicinal.select_k(on_device, k, largest=largest), k, largest)


@pytest.mark.parametrize("name", CUDA)
def test_algorithms(library, name):
    x = numbers("f4", 4, 1 << 16) if name == "sieve_parts" else numbers("f4", 40, 5000)
    result = vicinal.select_k(library.put(x), 20, algorithm=name)
    assert result.stats.algorithm == name or name == "auto"
    same(library, x, result, 20)


@pytest.mark.parametrize(("rows", "columns", "k"), [(3, 1 << 20, 100), (1, 1 << 22, 5000), (20000, 300, 10), (500, 8192, 8192)])
def test_shapes(library, rows, columns, k):
    x = np.random.default_rng(3).standard_normal((rows, columns)).astype("f4")
    x[:, ::3] = np.round(x[:, ::3], 1)
    same(library, x, vicinal.select_k(library.put(x), k), k)


def test_strides(library):
    x = numbers("f4", 64, 900)
    on_device = library.put(x)
    for cut in (np.s_[:, ::3], np.s_[::2], np.s_[5:9, 100:107], np.s_[0], np.s_[:0]):
        k = min(3, x[cut].shape[-1])
        if x[cut].shape[0] == 0:
            assert vicinal.select_k(on_device[cut], k).ids.shape == (0, k)
        else:
            same(library, x[cut], vicinal.select_k(on_device[cut], k), k)
    same(library, x.T, vicinal.select_k(on_device.T, 5), 5)


def test_payload_and_bfloat16(library):
    x = numbers("f4", 5, 700)
    items = np.random.default_rng(4).standard_normal(x.shape)
    result = vicinal.select_k(library.put(x), 9, payload=library.put(items))
    assert np.array_equal(library.get(result.payload), np.take_along_axis(items, expected(x, 9), 1))
    with pytest.raises(vicinal.InvalidArgument, match="payload is in memory of the host, values of cuda:0"):
        vicinal.select_k(library.put(x), 9, payload=items)
    if isinstance(library, Torch):
        torch = library.module
        half = library.put(x).to(torch.bfloat16)
        chosen = vicinal.select_k(half, 9)
        assert chosen.values.dtype == torch.bfloat16
        wide = vicinal.Selection(chosen.values.float(), chosen.ids, None, chosen.stats)
        same(library, half.float().cpu().numpy(), wide, 9)


def test_current_stream(library):
    """The values are still being made on a stream of the library's when select_k is called on it."""
    x = numbers("f4", 2000, 4000)
    zeros = library.put(np.zeros_like(x))
    whole = library.put(x)
    with library.stream():
        late = zeros
        for _ in range(20):
            late = late + whole * 0.05
        result = vicinal.select_k(late, 8)
        again = vicinal.select_k(late, 8, algorithm="radix")
        assert np.array_equal(library.get(result.ids), library.get(again.ids))
        same(library, library.get(late), result, 8)


def test_gradients(library):
    x = numbers("f4", 3, 500)
    on_device = library.put(x)
    if isinstance(library, Torch):
        on_device.requires_grad_()
    same(library, x, vicinal.select_k(on_device, 4), 4)


def test_host_values_on_the_device():
    cuda("torch")
    x = numbers("f4", 30, 4000)
    result = vicinal.select_k(x, 11, device="cuda")
    assert isinstance(result.ids, np.ndarray) and result.stats.device == "cuda:0"
    assert np.array_equal(result.ids, expected(x, 11))


def test_wrong_arguments(library):
    on_device = library.put(numbers("f4", 3, 50))
    with pytest.raises(vicinal.InvalidArgument, match="51"):
        vicinal.select_k(on_device, 51)
    with pytest.raises(vicinal.DeviceError):
        vicinal.select_k(on_device, 5, device="cpu")
    with pytest.raises(ValueError, match="auto"):
        vicinal.select_k(on_device, 5, algorithm="nosuch")


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "inner_product", "l1"])
def test_a_search_of_host_rows_has_the_bits_of_the_cpu(metric):
    if not any(d.usable and str(d.name).startswith("cuda") for d in vicinal.devices()):
        pytest.skip("no CUDA device here")
    rng = np.random.default_rng(3)
    corpus, queries = rng.standard_normal((9000, 48), dtype=np.float32), rng.standard_normal((70, 48), dtype=np.float32)
    want, got = (vicinal.knn(corpus, queries, k=12, metric=metric, device=device) for device in ("cpu", "cuda"))
    assert np.array_equal(want.ids, got.ids) and want.distances.tobytes() == got.distances.tobytes()
    kept = vicinal.Corpus(corpus, metric=metric, device="cuda").knn(queries, k=12)
    assert np.array_equal(want.ids, kept.ids) and want.distances.tobytes() == kept.distances.tobytes()
