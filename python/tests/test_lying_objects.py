"""Objects that say one thing and hold another: subclasses with methods of their own, offsets beyond the data, arrays of Arrow
with impossible offsets. The answer is that of what they hold, or an error; memory of others is never read."""

import numpy as np
import pytest
import test_strings
import vicinal

WORDS = ["casa", "gato", "", "perro", "a\u00f1o", "\U0001f600\U0001f600", "casa blanca"]
OCTETS = [word.encode() for word in WORDS]


def lying(kind, **methods):
    """A subclass of `kind` whose every object answers by `methods`."""
    return type("Lying" + kind.__name__, (kind,), methods)


def raising(self, *rest):
    raise RuntimeError("asked")


LIES = {
    "longer": dict(__len__=lambda self: 1 << 40),
    "long": dict(__len__=lambda self: 100_000),
    "shorter": dict(__len__=lambda self: 1),
    "empty": dict(__len__=lambda self: 0),
    "raises": dict(__len__=raising),
    "items": dict(__getitem__=lambda self, at: "x", __iter__=lambda self: iter("xyz")),
    "encodings": dict(encode=lambda self, *rest: b"", isascii=lambda self: True, decode=lambda self, *rest: "",
                      __str__=lambda self: "x", __bytes__=lambda self: b"x", __eq__=lambda self, other: True, __hash__=lambda self: 1),
}  # fmt: skip
HOLDERS = {"list": list, "tuple": tuple, "objects": test_strings.objects}
SEARCHES = {
    "knn": lambda x, q: vicinal.knn(x, q, 3, "levenshtein"),
    "graph": lambda x, q: vicinal.knn_graph([*x, *q] if isinstance(x, list) else x, 2, "levenshtein"),
    "range": lambda x, q: vicinal.range_search(x, q, 4, "levenshtein"),
    "index": lambda x, q: vicinal.PermutationIndex(x, "levenshtein", permutants=3).knn(q, 3, exact=True),
}


def parts(result):
    return [np.asarray(part).tolist() for part in (result.distances, result.ids)]


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("kind", [str, bytes])
def test_strings_are_what_they_hold(kind, lie, holder, search):
    Liar = lying(kind, **LIES[lie])
    plain = WORDS if kind is str else OCTETS
    make = HOLDERS[holder]
    expected = parts(SEARCHES[search](make(plain), make(plain[:2])))
    for some in (range(len(plain)), [3], [0], [len(plain) - 1]):  # all of them lie, or one
        mixed = [Liar(word) if at in some else word for at, word in enumerate(plain)]
        assert parts(SEARCHES[search](make(mixed), make(mixed[:2]))) == expected


@pytest.mark.parametrize("kind", [list, tuple])
def test_lists_of_strings_are_read_once(kind):
    class Changing(kind):
        """Another list each time that it is asked."""

        asked = 0

        def __iter__(self):
            type(self).asked += 1
            return iter(WORDS if self.asked % 2 else [word * 1000 for word in WORDS])

        def __len__(self):
            return 1000

        def __getitem__(self, at):
            return "another"

    result = vicinal.knn(Changing(["a", "b"]), WORDS, 1, "levenshtein")
    assert len(result.ids) == len(WORDS) and result.ids.max() < len(WORDS)


def test_one_that_only_pretends_to_be_a_string_is_refused():
    class Pretender:
        __class__ = str

    class Bytes:
        __class__ = bytes

    for pretender in (Pretender(), Bytes()):
        for words in (["a", pretender, "b"], [pretender, "a"]):
            with pytest.raises(TypeError, match="string [01] must be str, got (Pretender|Bytes)|unsupported dtype"):
                vicinal.knn(words, ["a"], 1, "levenshtein")


@pytest.mark.parametrize("width", ["i4", "i8"])
@pytest.mark.parametrize("offsets, said", [
    ([0, 4, 2, 13], "string 1 ends before it begins"),
    ([-5, 4, 8, 13], "string 0 ends before it begins"),
    ([0, 9000, 8, 13], "string 0 ends at unit 9000, the data have 13"),
    ([0, 2**30, 2**30, 13], "string 0 ends at unit 1073741824, the data have 13"),
])  # fmt: skip
def test_arrow_offsets_that_do_not_fit(width, offsets, said):
    for search in SEARCHES.values():
        words = test_strings.Arrow(["casa", "gato", "perro"], "u" if width == "i4" else "U")
        words.offsets[:] = offsets
        with pytest.raises(vicinal.InvalidArgument, match=said):
            search(words, ["casa"])


def test_arrow_structures_that_do_not_fit():
    for field, value in dict(length=-1, offset=-1, n_buffers=2).items():
        words = test_strings.Arrow(["casa", "gato", "perro"])
        setattr(words.array, field, value)
        with pytest.raises(vicinal.InvalidArgument, match="Arrow"):
            vicinal.knn(words, ["casa"], 1, "levenshtein")
    words = test_strings.Arrow(["casa", "gato", "perro"])
    words.buffers[1] = None
    with pytest.raises(vicinal.InvalidArgument, match="Arrow"):
        vicinal.knn(words, ["casa"], 1, "levenshtein")


def test_pyarrow_buffers_that_are_too_short():
    arrow = pytest.importorskip("pyarrow")
    data = arrow.py_buffer(b"casagato")
    for offsets in ([0, 4000, 8], [0, 4, 2, 8], [-4, 4, 8]):  # what pyarrow itself lets pass
        places = arrow.py_buffer(np.array(offsets, np.int32))
        try:
            words = arrow.Array.from_buffers(arrow.string(), len(offsets) - 1, [None, places, data])
        except arrow.ArrowInvalid:
            continue
        with pytest.raises(vicinal.InvalidArgument, match="string"):
            vicinal.knn(words, ["casa"], 1, "levenshtein")


class LyingArray(np.ndarray):
    """An array whose attributes and items are not those of its memory."""

    shape = property(lambda self: (10_000, 10_000))
    strides = property(lambda self: (1 << 20, 1 << 20))
    ndim = property(lambda self: 2)
    size = property(lambda self: 1 << 40)
    nbytes = property(lambda self: 1 << 40)
    __array_interface__ = property(raising)
    __array_struct__ = property(raising)

    def __len__(self):
        return 1 << 40

    def __getitem__(self, at):
        return np.zeros(7)

    def __array__(self, *rest, **more):
        return np.zeros((3, 3))


def test_arrays_are_what_they_hold(rng):
    honest = rng.standard_normal((50, 6)).astype(np.float32)
    for corpus in (honest, honest.astype(np.int64), honest[::-2], np.asfortranarray(honest), honest.astype(">f8")):
        liar = corpus.view(LyingArray)
        expected = vicinal.knn(corpus, corpus, 3)
        for result in (vicinal.knn(liar, liar, 3), vicinal.Corpus(liar).knn(liar, 3)):
            assert result.ids.tolist() == expected.ids.tolist() and result.distances.tolist() == expected.distances.tolist()
        assert parts(vicinal.knn_graph(liar, 3)) == parts(vicinal.knn_graph(corpus, 3))
    words = np.array(WORDS)
    for make in (np.asarray, np.char.asarray):
        expected = parts(vicinal.knn(words, words, 2, "levenshtein"))
        assert parts(vicinal.knn(make(words).view(LyingArray), make(words), 2, "levenshtein")) == expected


def test_ids_labels_and_masks_are_what_they_hold(rng):
    corpus = rng.standard_normal((50, 6)).astype(np.float32)
    labels, mask, ids = np.arange(50) % 3, np.arange(50) % 2 == 0, np.arange(20)
    liars = [x.view(type("Flat", (np.ndarray,), dict(vars(LyingArray), ndim=property(lambda self: 1)))) for x in (labels, mask, ids)]
    expected = parts(vicinal.knn(corpus, corpus, 3, eligible=mask, labels=(labels, labels)))
    assert parts(vicinal.knn(corpus, corpus, 3, eligible=liars[1], labels=(liars[0], liars[0]))) == expected
    assert parts(vicinal.knn(corpus, corpus, 3, eligible=liars[2])) == parts(vicinal.knn(corpus, corpus, 3, eligible=ids))


def test_results_to_merge_and_verify_are_what_they_hold(rng):
    corpus = rng.standard_normal((50, 6)).astype(np.float32)
    result = vicinal.knn(corpus, corpus[:5], 3)
    pair = (result.distances.view(LyingArray), result.ids.view(LyingArray))
    assert parts(vicinal.merge([pair], k=2)) == parts(vicinal.merge([tuple(result)], k=2))
    assert vicinal.verify(corpus, corpus[:5], pair).ok()
    with pytest.raises(vicinal.InvalidArgument, match="shape"):
        vicinal.merge([(result.distances[:, :1], result.ids)])


def test_an_integer_is_asked_once(rng):
    class Growing:
        """k is 2, then 3, and so on."""

        def __init__(self):
            self.asked = 1

        def __index__(self):
            self.asked += 1
            return self.asked

        __int__ = __index__

    corpus = rng.standard_normal((50, 6)).astype(np.float32)
    for search in (
        lambda k: vicinal.knn(corpus, corpus, k),
        lambda k: vicinal.Corpus(corpus).knn(corpus, k),
        lambda k: vicinal.knn_graph(corpus, k),
        lambda k: vicinal.select_k(corpus, k),
        lambda k: vicinal.PermutationIndex(corpus, permutants=4).knn(corpus, k),
        lambda k: vicinal.knn(corpus, corpus, 2, first_id=k),
        lambda k: vicinal.Corpus(corpus).knn(corpus, 2, first_id=k),
        lambda k: vicinal.range_search(corpus, corpus, 1.0, first_id=k),
    ):
        growing = Growing()
        search(growing)
        assert growing.asked == 2


@pytest.mark.parametrize("count", [0, 3, 5000])
def test_lengths_of_sequences_that_a_callable_compares(count):
    class Sequence:
        def __len__(self):
            return count

        def __getitem__(self, at):
            if at >= 40:
                raise IndexError(at)
            return float(at)

    objects = [float(at) for at in range(40)]
    index = vicinal.PermutationIndex(objects, lambda a, b: abs(a - b), permutants=4, fraction=0.5)
    if count > 40:
        with pytest.raises(IndexError):
            index.knn(Sequence(), 3)
    else:
        assert len(index.knn(Sequence(), 3).ids) == count


NAMES = ["\ud800", "eucl\udfff", "\udc80"]


@pytest.mark.parametrize("name", NAMES)
def test_lone_surrogates_in_names(name, rng, tmp_path):
    x = rng.standard_normal((20, 4)).astype(np.float32)
    calls = [
        *(lambda option=option: vicinal.knn(x, x, 2, **{option: name})
          for option in ("metric", "device", "memory", "distance_type", "degenerate", "label_rule")),
        lambda: vicinal.Corpus(x, name), lambda: vicinal.Corpus(x, device=name), lambda: vicinal.knn_graph(x, 2, symmetrize=name),
        lambda: vicinal.merge([vicinal.knn(x, x, 2)], metric=name), lambda: vicinal.plan((9, 9), (9, 9), dtype=name),
        lambda: vicinal.select_k(x, 1, algorithm=name), lambda: vicinal.select_k(x, 1, device=name),
        lambda: vicinal.PermutationIndex(x, form=name), lambda: vicinal.PermutationIndex(x, choice=name),
        lambda: vicinal.PermutationIndex(x, rank_distance=name), lambda: vicinal.PermutationIndex(x).knn(x, 2, tune_on=name),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(vicinal.InvalidArgument):
            call()


def test_paths_that_no_system_has(rng, tmp_path):
    corpus = vicinal.Corpus(rng.standard_normal((20, 4)).astype(np.float32))
    for path in (str(tmp_path / "a\0b.vicinal"), str(tmp_path / "\ud800.vicinal"), "\0"):
        with pytest.raises(vicinal.InvalidArgument, match="path"):
            corpus.save(path)
        with pytest.raises(vicinal.InvalidArgument, match="path"):
            vicinal.Corpus.open(path)
    assert list(tmp_path.iterdir()) == []


def fake(**attributes):
    return type("Fake", (), attributes)()


@pytest.mark.parametrize("facts", [
    {}, None, 5, [], {"shape": (3, 3)}, {"shape": (3, 3), "typestr": "<f4"}, {"shape": None, "typestr": "<f4", "data": (1, True)},
    {"shape": (3, 3), "typestr": "nonsense", "data": (1, True)}, {"shape": (3, 3), "typestr": "<f4", "data": None},
    {"shape": (3, 3), "typestr": "<f4", "data": ("x", True)}, {"shape": ("a", 3), "typestr": "<f4", "data": (1, True)},
    {"shape": (-3, 3), "typestr": "<f4", "data": (1, True)}, {"shape": (2**70, 3), "typestr": "<f4", "data": (1, True)},
    {"shape": (3, 3), "typestr": "<f4", "data": (-1, True)}, {"shape": (3, 3), "typestr": "<f4", "data": (2**70, True)},
    {"shape": (3, 3), "typestr": "<f4", "data": (1, True), "strides": 7},
    {"shape": (3, 3), "typestr": "<f4", "data": (1, True), "strides": (12,)},
])  # fmt: skip
def test_interfaces_of_cuda_arrays_that_say_nothing(facts, rng):
    x = rng.standard_normal((3, 3)).astype(np.float32)
    for call in (lambda bad: vicinal.knn(x, bad, 1), lambda bad: vicinal.knn(bad, x, 1), vicinal.Corpus, lambda bad: vicinal.select_k(bad, 1)):
        with pytest.raises((TypeError, vicinal.Error)) as caught:
            call(fake(__cuda_array_interface__=facts))
        assert type(caught.value).__module__.startswith("vicinal") or "__cuda_array_interface__" in str(caught.value)


@pytest.mark.parametrize("answer", [None, (), (1,), 1, "cpu", ("cpu", 0), (1.5, 0), (None, None), [], (99, 0)])
def test_dlpack_devices_that_say_nothing(answer, rng):
    x = rng.standard_normal((3, 3)).astype(np.float32)

    def device(self):
        return answer

    def tensor(self, **options):
        return x.__dlpack__()

    bad = fake(__dlpack_device__=device, __dlpack__=tensor)
    for call in (lambda: vicinal.knn(x, bad, 1), lambda: vicinal.knn(bad, x, 1), lambda: vicinal.Corpus(bad), lambda: vicinal.select_k(bad, 1)):
        with pytest.raises((TypeError, vicinal.Error)) as caught:
            call()
        assert type(caught.value).__module__.startswith("vicinal") or "__dlpack_device__" in str(caught.value)


@pytest.mark.parametrize("capsule", [None, 5, "tensor", object()])
def test_dlpack_that_hands_over_nothing(capsule, rng):
    x = rng.standard_normal((3, 3)).astype(np.float32)
    bad = fake(__dlpack_device__=lambda self: (1, 0), __dlpack__=lambda self, **options: capsule)
    for call in (lambda: vicinal.knn(x, bad, 1), lambda: vicinal.Corpus(bad), lambda: vicinal.select_k(bad, 1)):
        with pytest.raises(TypeError, match="__dlpack__"):
            call()


@pytest.mark.parametrize("span", [range(2, 0), range(0, 0), range(7, 7), range(5, -5), range(0, -1), slice(4, 2), slice(3, 3), slice(9, 0)])
def test_an_empty_range_is_an_empty_list(span, rng):
    x = rng.standard_normal((12, 4)).astype(np.float32)
    result = vicinal.knn(x, x, 2, eligible=span, pad=True)
    assert result.counts.tolist() == [0] * 12 and (result.ids == -1).all()
    assert vicinal.range_search(x, x, 1.0, eligible=span).offsets.tolist() == [0] * 13
    with pytest.raises(vicinal.InvalidArgument, match="eligible"):
        vicinal.knn(x, x, 2, eligible=span)


@pytest.mark.parametrize("span", [range(-2, 5), slice(-3, None), slice(0, -1), range(-5, -2)])
def test_a_range_of_negative_ids_is_refused(span, rng):
    x = rng.standard_normal((12, 4)).astype(np.float32)
    with pytest.raises(vicinal.InvalidArgument, match="eligible"):
        vicinal.knn(x, x, 2, eligible=span, pad=True)
