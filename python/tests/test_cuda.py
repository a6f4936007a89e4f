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


@pytest.mark.parametrize("dtype", ["?", "i2", "u2", "i4", "u4", "i8", "u8"])
def test_integers_and_bools_are_searched(library, dtype):
    x = np.random.default_rng(4).integers(0, 2 if dtype == "?" else 120, (500, 24)).astype(dtype)
    try:
        on_device = library.put(x)
    except TypeError:
        pytest.skip("no such type there")
    if dtype == "u8" and isinstance(library, Torch):
        with pytest.raises(vicinal.InvalidArgument, match="uint64"):
            vicinal.knn(on_device, on_device, 5)
        return
    here, there = vicinal.knn(x, x[:40], 5), vicinal.knn(on_device, on_device[:40], 5)
    assert here.distances.tobytes() == library.get(there.distances).tobytes()
    assert here.ids.tobytes() == library.get(there.ids).tobytes() and there.stats.device == "cuda:0"
    transposed = library.put(np.ascontiguousarray(x.T)).T
    assert library.get(vicinal.knn(transposed, on_device[:40], 5).ids).tobytes() == here.ids.tobytes()
    if dtype in ("i8", "u8"):
        largest = np.iinfo(x.dtype).max
        for value in (2**53 + 1, largest, largest - 1):
            x[3, 3] = value
            with pytest.raises(vicinal.InvalidValue, match="no exact float64"):
                vicinal.knn(library.put(x), on_device[:40], 5)


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


def images_of(dtype, columns, counts=(2500, 1, 0, 300, 1000, 257)):
    """Rows around few centres, some of them equal, none of a product above 512 squared."""
    rng = np.random.default_rng(columns)
    centres = rng.integers(0, 80, (60, columns))
    images = []
    for count in counts:
        moved = rng.integers(-6, 7, (count, columns)) * rng.integers(0, 3, (count, 1))
        images.append((centres[rng.integers(0, 60, count)] + moved).clip(0, 80).astype(dtype))
    return images


@pytest.mark.parametrize("mutual", [True, "nearest", False])
@pytest.mark.parametrize("dtype, columns, distance", [
    ("u1", 128, "euclidean"), ("u1", 128, "angle"), ("u1", 200, "sqeuclidean"), ("u1", 500, "euclidean"), ("u1", 7, "euclidean"),
    ("u1", 32, "hamming"), ("i1", 64, "euclidean"), ("f4", 128, "euclidean"), ("f8", 16, "cosine"), ("u1", 900, "euclidean"),
])  # fmt: skip
def test_matches_have_the_bits_of_the_cpu(dtype, columns, distance, mutual):
    if not any(d.usable and str(d.name).startswith("cuda") for d in vicinal.devices()):
        pytest.skip("no CUDA device here")
    images = images_of(dtype, columns)
    if distance == "cosine":
        images = [image + 1 for image in images]
    for ratio in (0.8, 0.99, None):
        want, got = (vicinal.match_pairs(images, ratio=ratio, mutual=mutual, distance=distance, device=device) for device in ("cpu", "cuda"))
        assert got.stats.device == "cuda:0"
        for name in ("offsets", "ids", "distances", "ratios"):
            assert getattr(want, name).tobytes() == getattr(got, name).tobytes()
    assert len(want.ids) > 100


def test_matches_of_tensors_there():
    torch = cuda("torch")
    images = images_of("u1", 128)
    want, got = vicinal.match_pairs(images, "sequential:2"), vicinal.match_pairs([torch.from_numpy(x).cuda() for x in images], "sequential:2")
    assert got.ids.device.type == "cuda" and got.stats.device == "cuda:0"
    assert got.ids.cpu().numpy().tobytes() == want.ids.tobytes() and got.ratios.cpu().numpy().tobytes() == want.ratios.tobytes()


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


# Searches of rows in the device's memory


class Interface:
    """What has CUDA's array interface and nothing else, as arrays of numba."""

    def __init__(self, array):
        self.__cuda_array_interface__ = array.__cuda_array_interface__
        self.owner = array


def rows_of(dtype, rows, columns=48, seed=8):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 200, (rows, columns)).astype(dtype) if np.dtype(dtype).kind in "iu" else rng.standard_normal((rows, columns)).astype(dtype)


def same_bits(library, found, wanted, here=False):
    for mine, other in ((found.distances, wanted.distances), (found.ids, wanted.ids), (found.counts, wanted.counts)):
        if other is not None:
            mine = mine if here else library.get(mine)
            assert mine.dtype == other.dtype and mine.shape == other.shape and mine.tobytes() == other.tobytes()
    assert found.stats.device == "cuda:0" and found.certificate.all()


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "u1"])
def test_knn_of_device_rows(library, dtype):
    corpus, queries = rows_of(dtype, 3000), rows_of(dtype, 50, seed=9)
    for metric in ("euclidean", "cosine", "inner_product", "linf", *(["hamming"] if dtype == "u1" else [])):
        wanted = vicinal.knn(corpus, queries, 7, metric)
        there = library.put(corpus), library.put(queries)
        found = vicinal.knn(*there, 7, metric)
        same_bits(library, found, wanted)
        assert found.stats.copied_bytes == 0
        same_bits(library, vicinal.knn(corpus, there[1], 7, metric, device="cuda"), wanted)
        same_bits(library, vicinal.knn(there[0], queries, 7, metric), wanted, here=True)
        same_bits(library, vicinal.knn(Interface(there[0]), there[1], 7, metric), wanted)
        prepared = vicinal.Corpus(there[0], metric)
        same_bits(library, prepared.knn(there[1], 7), wanted)
        same_bits(library, prepared.knn(queries, 7), wanted, here=True)
    wanted = vicinal.knn(corpus[:5], queries, 7, pad=True, distance_type="f64")
    same_bits(library, vicinal.knn(there[0][:5], there[1], 7, pad=True, distance_type="f64"), wanted)


def test_plans_look_at_rows_that_the_current_stream_makes(library):
    """Equal rows are marked before the search, which takes longer than Gaussian ones."""
    x = rows_of("f4", 1 << 17)
    with library.stream():
        there = library.put(x)
        equal = there * 0 + 1
        plans = vicinal.plan(there, there[:2000], 10), vicinal.plan(equal, equal[:2000], 10), vicinal.plan_graph(there, 10)
        blind = vicinal.plan(x.shape, (2000, x.shape[1]), 10, device="cuda")
    assert all(plan.device == "cuda:0" and plan.sampled_rows > 0 and "by a look at" in plan.text for plan in plans)
    assert plans[1].left_rows <= 20 and plans[1].seconds > plans[0].seconds
    assert blind.sampled_rows == 0


def test_graphs_and_what_is_made_of_results(library):
    x = rows_of("f4", 900)
    there = library.put(x)
    same_bits(library, vicinal.knn_graph(there, 5), vicinal.knn_graph(x, 5))
    for how in ("union", "mutual"):
        found, wanted = (vicinal.knn_graph(one, 5, symmetrize=how) for one in (there, x))
        assert np.array_equal(library.get(found.offsets), wanted.offsets) and np.array_equal(library.get(found.by_id().ids), wanted.ids)
        assert (found.to_csr() != wanted.to_csr()).nnz == 0
    result = vicinal.knn(there, there[:9], 4)
    wanted = vicinal.knn(x, x[:9], 4)
    assert (result.to_csr() != wanted.to_csr()).nnz == 0 and vicinal.verify(x, x[:9], result).ok()
    assert np.array_equal(vicinal.merge([result]).ids, wanted.ids)
    assert vicinal.plan(there, there[:9], 4).device == "cuda:0" and vicinal.plan_graph(there, 4).device == "cuda:0"
    labels = np.arange(900) % 4
    some = x[:, 0] > -1
    found = vicinal.knn(there, there[:9], 4, eligible=library.put(some), labels=(library.put(labels), library.put(labels[:9])))
    same_bits(library, found, vicinal.knn(x, x[:9], 4, eligible=some, labels=(labels, labels[:9])))
    assert library.get(vicinal.knn(there, there[:0], 4).ids).shape == (0, 4)


def test_device_rows_with_gaps_and_streams(library):
    x = rows_of("f4", 4000, 64)
    there = library.put(x)
    for cut in (np.s_[::2], np.s_[:, 5:50], np.s_[:, ::3]):
        found = vicinal.knn(there[cut], there[cut][:20], 6)
        same_bits(library, found, vicinal.knn(x[cut], x[cut][:20], 6))
        assert found.stats.copied_bytes == x[cut].nbytes + x[cut][:20].nbytes
    with library.stream():
        late = there * 0.0
        for _ in range(40):
            late = late + there * 0.025
        found = vicinal.knn(late, late[:30], 6)
        same_bits(library, found, vicinal.knn(library.get(late), library.get(late)[:30], 6))
    kept = library.put(x)
    prepared = vicinal.Corpus(kept, copy=True)
    kept *= 0
    same_bits(library, prepared.knn(there[:9], 3), vicinal.knn(x, x[:9], 3))


def test_device_rows_that_cannot_be_searched(library, tmp_path):
    x = rows_of("f4", 100)
    there = library.put(x)
    bad = x.copy()
    bad[41, 3] = np.nan
    for call, kind, message in (
        (lambda: vicinal.knn(library.put(bad), there, 3), vicinal.InvalidValue, "41"),
        (lambda: vicinal.knn(there, there, 101), vicinal.InvalidArgument, "k=101"),
        (lambda: vicinal.knn(there, there, 3, device="cpu"), vicinal.DeviceError, "corpus: rows are in memory of cuda:0"),
        (lambda: vicinal.knn(x, there, 3, device="cpu"), vicinal.DeviceError, "query: rows are in memory of cuda:0"),
        (lambda: vicinal.Corpus(x).knn(there, 3), vicinal.DeviceError, "query: rows are in memory of cuda:0"),
        (lambda: vicinal.range_search(there, there, 3.0, device="cpu"), vicinal.DeviceError, "corpus: rows are in memory of cuda:0"),
        (lambda: vicinal.verify(there, there, np.zeros((100, 1), int)), vicinal.DeviceError, "rows are in memory of cuda:0"),
        (lambda: vicinal.Corpus(there).save(tmp_path / "x.vicinal"), vicinal.DeviceError, "rows are in memory of cuda:0"),
        (lambda: vicinal.knn(there, Interface(there), 3), vicinal.Unsupported, "torch and cupy"),
        (lambda: vicinal.knn(there, there, 3, device="cuda:7"), vicinal.DeviceError, "CUDA device 7"),
    ):
        with pytest.raises(kind, match=message):
            call()


def test_ranges_of_device_rows(library):
    x = rows_of("f4", 900)
    try:
        found = vicinal.range_search(library.put(x), library.put(x[:40]), 8.0)
    except vicinal.Unsupported:
        pytest.skip("ranges do not run on CUDA devices in this version")
    wanted = vicinal.range_search(x, x[:40], 8.0)
    for mine, other in ((found.offsets, wanted.offsets), (found.ids, wanted.ids), (found.distances, wanted.distances)):
        assert library.get(mine).tobytes() == other.tobytes()


def test_bfloat16_of_the_device():
    torch = cuda("torch")
    x = torch.from_numpy(rows_of("f4", 500)).cuda().bfloat16()
    found, wanted = vicinal.knn(x, x[:20], 5), vicinal.knn(x.cpu(), x[:20].cpu(), 5)
    assert torch.equal(found.ids.cpu(), wanted.ids) and torch.equal(found.distances.cpu(), wanted.distances)


def test_corpora_of_device_rows(library):
    """Graphs, ranges and pickles of kept rows; equal rows, which a kept form leaves out of long lists, are in every range."""
    import pickle

    plain, some = rows_of("f4", 6000, 64), rows_of("f4", 40, 64)
    for x, radius in ((plain, 9.5), (np.repeat(some, 200, axis=0), 0.0)):
        there = library.put(x)
        for corpus in (vicinal.Corpus(there), vicinal.Corpus(x, device="cuda")):
            queries = there[:30] if corpus._device == "cuda:0" and corpus._there is not None else x[:30]
            found, wanted = corpus.range_search(queries, radius), vicinal.range_search(x, x[:30], radius)
            assert wanted.ids.shape[0] >= 30 and found.certificate.all()
            for mine, other in ((found.offsets, wanted.offsets), (found.ids, wanted.ids), (found.distances, wanted.distances)):
                mine = mine if isinstance(mine, np.ndarray) else library.get(mine)
                assert mine.tobytes() == other.tobytes()
            graph = corpus.knn_graph(5)
            same_bits(library, graph, vicinal.knn_graph(x, 5), here=isinstance(graph.ids, np.ndarray))
            for protocol in (4, 5):
                again = pickle.loads(pickle.dumps(corpus, protocol))
                assert again._device.startswith("cuda") and again.knn(x[:9], 3).stats.device == "cuda:0"
                same_bits(library, again.knn(x[:30], 7), vicinal.knn(x, x[:30], 7), here=True)
        with pytest.raises(vicinal.DeviceError, match="rows are in memory of cuda:0"):
            vicinal.Corpus(there).verify(x[:9], np.zeros((9, 1), int))
        assert vicinal.Corpus(x, device="cuda").verify(x[:9], vicinal.knn(x, x[:9], 4)).ok()


@pytest.mark.parametrize("cascade", ["auto", "int8", "f32", "canonical"])
def test_rows_beyond_32_bits_of_the_device(library, monkeypatch, cascade):
    """Planted rows that nothing else of 4.4e9 equals, on both sides of row 2^32, and equal ones at i and i + 2^32."""
    module, beyond, n = library.module, 1 << 32, 4_400_000_000
    free = module.cuda.mem_get_info()[0] if hasattr(module.cuda, "mem_get_info") else module.cuda.runtime.memGetInfo()[0]
    if free < 40e9:
        pytest.skip(f"8.8 GB of rows and their search take 40 GB of the device, {free / 1e9:.1f} GB are free")
    planted = {(0, 0): [104, 4_294_967_400], (3, 90): [105_032_703, n - 1], (50, 7): [5, 12345, beyond + 5, beyond + 12345],
               (77, 77): [beyond - 1, beyond, beyond + 1]}  # fmt: skip
    rows = module.empty((n, 2), dtype=module.uint8, **({"device": "cuda"} if module.__name__ == "torch" else {}))
    for first in range(0, n, 1 << 28):
        count = min(1 << 28, n - first)
        if module.__name__ == "torch":
            rows[first : first + count].random_(128, 256)
        else:
            rows[first : first + count] = module.random.randint(128, 256, (count, 2), dtype=module.uint8)
    for value, where in planted.items():
        for row in where:
            rows[row] = library.put(np.array(value, np.uint8))
    monkeypatch.setenv("VICINAL_FILTER", cascade)
    for value, where in planted.items():
        query = library.put(np.array([value], np.uint8))
        found = vicinal.knn(rows, query, len(where))
        assert library.get(found.ids).tolist() == [where]
        assert not library.get(found.distances).any()
        assert found.certificate.all()
        within = vicinal.range_search(rows, query, 0.0)
        assert library.get(within.ids).tolist() == where


# Streams, captures, contexts, memory, and a second device


def same_arrays(library, found, wanted):
    for mine, other in ((found.distances, wanted.distances), (found.ids, wanted.ids)):
        assert library.get(mine).tobytes() == other.tobytes()


def test_a_stream_that_captures_is_refused_and_goes_on():
    torch = cuda("torch")
    x = torch.from_numpy(rows_of("f4", 500)).cuda()
    wanted = vicinal.knn(x, x[:20], 4)  # what is made once is there
    y = torch.zeros_like(x)
    calls = (lambda: vicinal.knn(x, x[:20], 4), lambda: vicinal.knn_graph(x, 4), lambda: vicinal.range_search(x, x, 3.0),
             lambda: vicinal.Corpus(x), lambda: vicinal.select_k(x, 4))  # fmt: skip
    refused = 0
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y.copy_(x * 2)
        for call in calls:
            try:
                call()
            except vicinal.Unsupported as error:
                refused += "capturing a CUDA graph" in str(error)
        y.add_(1)
    assert refused == len(calls)
    graph.replay()
    assert torch.equal(y, x * 2 + 1)
    assert torch.equal(vicinal.knn(x, x[:20], 4).ids, wanted.ids)


def test_the_stream_of_the_array_interface_comes_first():
    torch = cuda("torch")
    x = rows_of("f4", 20000, 64)
    wanted = vicinal.knn(x, x[:50], 6)
    there, queries = torch.from_numpy(x).cuda(), torch.from_numpy(x[:50]).cuda()
    late = torch.zeros_like(there)
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(200):
            late.add_(there, alpha=0.0)
        torch.cuda._sleep(50_000_000)
        late.copy_(there)

    class Streamed:
        __cuda_array_interface__ = {**late.__cuda_array_interface__, "stream": side.cuda_stream}

    same_arrays(Torch(), vicinal.knn(Streamed(), queries, 6), wanted)  # its queries are of another stream
    same_arrays(Torch(), vicinal.Corpus(Streamed()).knn(queries, 6), wanted)


def test_refused_memory_makes_batches_smaller():
    torch = cuda("torch")
    x, queries = rows_of("f4", 100000, 64), rows_of("f4", 60000, 64, seed=3)
    there, asked = torch.from_numpy(x).cuda(), torch.from_numpy(queries).cuda()
    wanted = vicinal.knn(there, asked, 10)
    vicinal.release_memory()
    torch.cuda.empty_cache()
    plan = vicinal.plan(there, asked, 10, memory="100GiB")
    free = torch.cuda.mem_get_info()[0]
    hog = torch.empty(free - int(plan.peak_bytes * 0.6), dtype=torch.uint8, device="cuda")
    found = vicinal.knn(there, asked, 10, memory="100GiB")
    del hog
    assert any("memory was refused on cuda:0" in note for note in found.stats.notes)
    assert torch.equal(found.ids, wanted.ids) and torch.equal(found.distances, wanted.distances)


def test_memory_is_given_back():
    torch = cuda("torch")
    there = torch.from_numpy(rows_of("f4", 300000, 64)).cuda()
    vicinal.knn_graph(there, 10)
    before = torch.cuda.mem_get_info()[0]
    released = vicinal.release_memory()
    assert 0 < released <= (4 << 30) + (64 << 20)
    assert torch.cuda.mem_get_info()[0] >= before + released - (64 << 20)
    assert vicinal.release_memory() == 0
    corpus = vicinal.Corpus(there)
    vicinal.release_memory()
    held = torch.cuda.mem_get_info()[0]
    del corpus
    vicinal.release_memory()
    assert torch.cuda.mem_get_info()[0] > held


def test_another_context_of_the_device_is_set_aside():
    import ctypes

    if not any(d.usable and d.name == "cuda:0" for d in vicinal.devices()):
        pytest.skip("no CUDA device here")
    driver = ctypes.CDLL("libcuda.so.1")
    x = rows_of("f4", 3000)
    wanted = vicinal.knn(x, x[:40], 5, device="cuda")
    theirs, now = ctypes.c_void_p(), ctypes.c_void_p()
    assert driver.cuCtxCreate_v2(ctypes.byref(theirs), 0, 0) == 0
    try:
        found = vicinal.knn(x, x[:40], 5, device="cuda")
        prepared = vicinal.Corpus(x, device="cuda").knn(x[:40], 5)
        chosen = vicinal.select_k(x, 3, device="cuda")
        assert driver.cuCtxGetCurrent(ctypes.byref(now)) == 0 and now.value == theirs.value
    finally:
        driver.cuCtxDestroy_v2(theirs)
    assert found.ids.tobytes() == prepared.ids.tobytes() == wanted.ids.tobytes()
    assert chosen.ids.tobytes() == vicinal.select_k(x, 3).ids.tobytes()


def second_device():
    torch = cuda("torch")
    if torch.cuda.device_count() < 2:
        pytest.skip("one CUDA device here")
    return torch


def test_tensors_of_a_device_that_is_not_the_current_one():
    torch = second_device()
    x = rows_of("f4", 2000)
    graph, ranges, wanted = vicinal.knn_graph(x, 5), vicinal.range_search(x, x[:30], 8.0), vicinal.knn(x, x[:30], 5)
    for current in (0, 1):
        with torch.cuda.device(current):
            there = torch.from_numpy(x).to("cuda:1")
            results = [vicinal.knn(there, there[:30], 5, device=device) for device in ("auto", "cuda", "cuda:1")]
            results += [vicinal.Corpus(there).knn(there[:30], 5), vicinal.knn(there[::1, :], there[:60:2], 5)]
            for found in results[:-1]:
                assert found.ids.device.index == 1 and found.stats.device == "cuda:1"
                assert found.ids.cpu().numpy().tobytes() == wanted.ids.tobytes() and found.distances.cpu().numpy().tobytes() == wanted.distances.tobytes()
            assert results[-1].ids.cpu().numpy().tobytes() == vicinal.knn(x, x[:60:2], 5).ids.tobytes()
            assert vicinal.knn_graph(there, 5).ids.cpu().numpy().tobytes() == graph.ids.tobytes()
            assert vicinal.range_search(there, there[:30], 8.0).ids.cpu().numpy().tobytes() == ranges.ids.tobytes()
            chosen = vicinal.select_k(there, 3)
            assert chosen.ids.device.index == 1 and chosen.ids.cpu().numpy().tobytes() == vicinal.select_k(x, 3).ids.tobytes()
            assert torch.cuda.current_device() == current


def test_devices_that_are_mixed_up():
    torch = second_device()
    x = torch.from_numpy(rows_of("f4", 500))
    first, second = x.to("cuda:0"), x.to("cuda:1")
    prepared = vicinal.Corpus(first)
    for call in (
        lambda: vicinal.knn(first, second, 3),
        lambda: vicinal.knn(first, first, 3, device="cuda:1"),
        lambda: vicinal.range_search(second, first, 3.0),
        lambda: prepared.knn(second, 3),
    ):
        with pytest.raises(vicinal.DeviceError, match="in memory of cuda:[01], this search runs on cuda:[01]"):
            call()
