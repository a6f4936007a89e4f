"""What users pass, checked for its Python type; rows are the matter of _rows.py.

Wrong types end here, in TypeError; wrong values are the library's to refuse, so that C++, the command and
Python do it in the same words.
"""

from __future__ import annotations

import numbers
import operator
import os
import pickle
import sys
from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex

import numpy as np

from . import _frames, _namespaces, _native, _strings
from ._rows import ELEMENTS, INTEGERS, array_of, host_capsule, refuse_masked, rows, side, sides, unconverted  # noqa: F401
from .errors import InvalidArgument

_INT64 = np.iinfo(np.int64)
_LEAST, _LARGEST = int(_INT64.min), int(_INT64.max)

Memory = int | str | None
Progress = Callable[[int, int], Any] | bool | None


def call(function: str, first: Any, *rest: Any) -> Any:
    """The native function of that name for what the first argument is: numbers or strings."""
    return getattr(_native, function + "_strings" * isinstance(first, _native.Strings))(first, *rest)


def device(asked: Any, *given: Any) -> str:
    """Where a search runs: for "auto" and "cuda" on the CUDA device that holds a side, if one does. given: sides, seen already or not."""
    name = text("device", asked)
    held = [ordinal for ordinal in map(_ordinal, given) if ordinal >= 0]
    return f"cuda:{held[0]}" if held and name in ("auto", "cuda") else name


def _ordinal(x: Any) -> int:
    """Of the CUDA device that holds a side, asked without converting it; -1: none does."""
    if isinstance(x, _native.Rows):
        return x.cuda_device
    if not _namespaces.on_cuda(x):
        return -1
    return _namespaces.dlpack_device(x)[1] if hasattr(x, "__dlpack_device__") else unconverted(x, "rows")[0].cuda_device


def stream(*given: Any) -> int:
    """The CUDA stream that a search begins after: that on which its sides are made; 0: none."""
    return _namespaces.one_stream(*(x.stream for x in given if isinstance(x, _native.Rows)))


def integer(name: str, value: Any) -> int:
    """An integer of Python or NumPy, never a bool or a float that happens to be whole."""
    if type(value) is int and _LEAST <= value <= _LARGEST:
        return value
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be an integer, got bool")
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {type(value).__name__}") from None
    if not _LEAST <= number <= _LARGEST:
        raise InvalidArgument(f"{name} must fit 64 bits, got {number}")
    return number


def real(name: str, value: Any) -> float:
    """A number of Python or NumPy as float64."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, got {type(value).__name__}")
    try:
        return float(value)
    except OverflowError:
        raise InvalidArgument(f"{name} must be within the range of float64") from None


def text(name: str, value: Any) -> str:
    if not issubclass(type(value), str):
        raise TypeError(f"{name} must be a str, got {type(value).__name__}")
    try:
        str.encode(value)
    except UnicodeEncodeError:
        raise InvalidArgument(f"unknown {name} {str.__repr__(value)}: it holds a surrogate, which is no character") from None
    return value


def path_bytes(value: Any) -> bytes:
    """str, bytes or os.PathLike as the file system spells it."""
    try:
        path = os.fsencode(value)
    except TypeError:
        raise TypeError(f"path must be a str, bytes or os.PathLike, got {type(value).__name__}") from None
    except UnicodeEncodeError:
        raise InvalidArgument(f"path {value!r} holds a surrogate that no byte stands for") from None
    if b"\0" in path:
        raise InvalidArgument(f"path {value!r} holds a null character")
    return path


def flag(name: str, value: Any) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be a bool, got {type(value).__name__}")
    return bool(value)


def memory_bytes(value: Any) -> int:
    """None (what is free, less a tenth: 0 to the library), a number of bytes, or text like "256MiB"."""
    if value is None:
        return 0
    if isinstance(value, str):
        return _native.parse_bytes(text("memory", value))
    number = integer("memory", value)
    if number < 1:
        raise InvalidArgument(f"memory must be >= 1 byte, got {number}; None means what is free, less a tenth")
    return number


def element_type(name: str, value: Any) -> str:
    """ "f32" and the like from a dtype, its name, or the short name itself."""
    if isinstance(value, str):
        value = text(name, value)
        return ELEMENTS.get(value, value)
    try:
        known = np.dtype(value).name
    except TypeError:
        raise TypeError(f"{name} must be a dtype or its name, got {type(value).__name__}") from None
    return ELEMENTS.get(known, known)


def common_type(*kinds: Any) -> np.dtype:
    """NumPy's type for elements of several, but float32 where a search takes each for that or less.

    Of int16 and uint16 NumPy makes int32, for which distances would be float64.
    """
    plain = np.result_type(*kinds)
    each = np.result_type(*(_namespaces.WIDE.get(np.dtype(kind).name, kind) for kind in kinds))
    return each if each == np.float32 and plain.kind in "iu" and plain.itemsize > 2 else plain


def joined(arrays: list[Any], name: str) -> Any:
    """Rows one below the other; InvalidValue for an integer that the type of all does not hold."""
    for one in arrays:
        refuse_masked(one, name)
    if len(arrays) == 1:
        return arrays[0]
    arrays = [array_of(_namespaces.to_host(one), name) for one in arrays]
    whole = np.concatenate(arrays, dtype=common_type(*(one.dtype for one in arrays)))
    first = 0
    for one in arrays:
        check_part(whole[first : first + len(one)], one, name, first)
        first += len(one)
    return whole


def check_part(part: np.ndarray, given: np.ndarray, name: str, first: int) -> None:
    """Whether rows are, in the type of all rows, what they were. first: number of the part's first row."""
    if part.ndim == 2 and part.dtype.kind == "f" and given.dtype.kind in "iu" and given.dtype.itemsize == 8:
        _frames.check_exact_rows(part, given, name, first)


def same_type(arrays: Sequence[Any], what: str) -> list[Any]:
    """Arrays that NumPy joins, integers as integers: of int64 and uint64 it would make float64."""
    kinds = {np.asarray(one).dtype for one in arrays}
    if all(kind.kind in "iu" for kind in kinds) and kinds and np.result_type(*kinds).kind == "f":
        return [int64(np.asarray(one), what) for one in arrays]
    return list(arrays)


def numpy_dtype(element: str) -> Any:
    """The NumPy dtype of "f32" and the like; bfloat16 as ml_dtypes' own if that is loaded, else its name."""
    if element == "bf16":
        extension = sys.modules.get("ml_dtypes")
        return np.dtype(extension.bfloat16) if extension is not None else "bfloat16"
    return np.dtype(next(known for known, short in ELEMENTS.items() if short == element))


def plan(
    function: str, options: _native.Options, dtype: Any, given: dict[str, Any], *rest: Any, radius: float | None = None
) -> dict[str, Any]:
    """What the native plan of that name says of sides by their names: arrays, (rows, columns), or strings, which are read. Of a
    corpus whose elements a search takes as they are, a sample is looked at; of a range with its radius."""
    if any(map(_strings.looks_like, given.values())):
        first, second = [*given.values(), *given.values()][:2]
        return call(function, *sides(first, second)[: len(given)], options, *rest)
    seen = [shape(x, name, dtype) for name, x in given.items()]
    corpus = seen[0][0]
    shapes = [shape_of(one) if isinstance(one, _native.Rows) else one for one, _ in seen]
    by_rows = isinstance(corpus, _native.Rows) and not corpus.conversion_bytes
    if by_rows and (function != "plan_range" or radius is not None):
        within = () if radius is None else (float(radius),)
        facts = getattr(_native, function + "_rows")(corpus, *shapes[1:], options, *rest, *within)
    else:
        facts = call(function, *shapes, options, *rest)
    notes = tuple(
        f"{name}: {copied} bytes of converted rows besides, which no budget counts" for name, (_, copied) in zip(given, seen) if copied
    )
    facts["notes"] += notes
    facts["text"] += "".join(f"{'note':16}{note}\n" for note in notes)
    return facts


def sort_of(x: Any) -> str:
    """Of metrics, for ``options``."""
    return "strings" if _strings.looks_like(x) else "vectors"


def shape(x: Any, name: str, dtype: Any) -> tuple[_native.Shape | _native.Rows, int]:
    """What a plan needs to know: of (rows, columns) with `dtype`, or an array as it is; and the bytes of its elements where a
    search converts them first."""
    if isinstance(x, tuple) and len(x) == 2 and not any(hasattr(part, "__len__") for part in x):
        count, width = (integer(f"{name} shape", part) for part in x)
        element = element_type("dtype", dtype)
        known = INTEGERS.get({"u32": "uint32"}.get(element, element))  # u32 is a type of distances as well
        size = {"f64": 8, "f32": 4}.get(known or "", 0)
        return _native.Shape(count, width, known or element), max(count * width * size, 0)
    seen, copied = unconverted(x, name)
    return seen, seen.conversion_bytes or copied


def shape_of(seen: _native.Rows) -> _native.Shape:
    count, width = seen.shape
    return _native.Shape(count, width, seen.dtype, seen.cuda_device >= 0)


def progress_callback(value: Any) -> Callable[[int, int], bool] | None:
    """The user's callback as one that always answers with a bool: only a real False cancels."""
    if value is None or value is False:
        return None
    if value is True:
        value = _bar()
    if not callable(value):
        raise TypeError(f"progress must be callable, got {type(value).__name__}")

    def go_on(done: int, total: int) -> bool:
        answer = value(done, total)
        return not (isinstance(answer, (bool, np.bool_)) and not answer)

    return go_on


def _bar() -> Callable[[int, int], None]:
    try:
        from tqdm.auto import tqdm
    except ImportError as error:
        raise ImportError("progress=True shows a bar of tqdm (pip install tqdm); or give a callable") from error
    bar = tqdm(desc="vicinal", unit_scale=True)

    def show(done: int, total: int) -> None:
        bar.total = total
        bar.update(done - bar.n)
        if done >= total:
            bar.close()

    return show


def eligible(which: Any, labels: Any, label_rule: Any, *, graph: bool = False) -> _native.Eligible:
    """Which rows may answer. int64 arrays are seen in place; a mask is packed into words once."""
    if which is None and labels is None and type(label_rule) is str and label_rule == "same":
        return EVERY_ROW
    conditions: dict[str, Any] = dict(first=0, last=_INT64.max, ids=None, bitmap=None, mask_rows=0)
    if isinstance(which, (range, slice)):
        conditions.update(eligible_span(which))
    elif which is not None:
        array = eligible_vector(which)
        if array.dtype.kind == "b":
            conditions.update(bitmap=_packed(array), mask_rows=array.size)
        else:
            conditions.update(ids=int64(array, "eligible: id"))
    rule = text("label_rule", label_rule)
    of_corpus = of_queries = None
    if labels is not None and graph:
        of_corpus = labels_vector(labels, "labels")
    elif labels is not None:
        of_corpus, of_queries = label_pair(labels)
    return _native.Eligible(
        **conditions,
        corpus_labels=of_corpus,
        query_labels=of_queries,
        label_rule=None if labels is None and rule == "same" else rule,
    )


def eligible_span(span: range | slice) -> dict[str, Any]:
    """The first and the last id, as far as they are given, or no ids; InvalidArgument for a step."""
    if isinstance(span, range) and not span:
        return dict(ids=np.empty(0, np.int64))
    step = 1 if span.step is None else integer("eligible: step", span.step)
    if step != 1:
        raise InvalidArgument(f"eligible: a range of ids has step 1, got {step}; give the ids as an array")
    first = 0 if span.start is None else integer("eligible: start", span.start)
    if span.stop is None:
        return dict(first=first)
    stop = integer("eligible: stop", span.stop)
    if stop <= first and stop >= 0:  # a negative stop of a slice would count from the end
        return dict(ids=np.empty(0, np.int64))
    return dict(first=first, last=stop - 1)


def _packed(mask: np.ndarray) -> np.ndarray:
    words = np.zeros(-(-mask.size // 64), "<u8")
    octets = np.packbits(mask, bitorder="little")
    words.view(np.uint8)[: octets.size] = octets
    return words.astype(np.uint64, copy=False)


def eligible_vector(which: Any) -> np.ndarray:
    """A mask or ids, as an array of one dimension."""
    return _vector(which, "eligible", "biu", "bools or integers")


def label_pair(labels: Any) -> tuple[np.ndarray, np.ndarray]:
    """Labels of the corpus and of the queries."""
    if not isinstance(labels, (tuple, list)) or len(labels) != 2:
        raise TypeError(f"labels must be a pair (corpus_labels, query_labels), got {type(labels).__name__}")
    return labels_vector(labels[0], "corpus labels"), labels_vector(labels[1], "query labels")


def labels_vector(x: Any, name: str) -> np.ndarray:
    array = _vector(x, name, "iu", "integers (numpy.unique(..., return_inverse=True) makes them)")
    return int64(array, f"{name}: label")


def _vector(x: Any, name: str, kinds: str, wanted: str) -> np.ndarray:
    refuse_masked(x, name)
    try:
        array = np.asarray(_namespaces.to_host(x))  # a subclass may say what its memory does not hold
    except ValueError as error:
        raise InvalidArgument(f"{name}: not a one-dimensional array ({error})") from None
    if array.size == 0 and isinstance(x, (list, tuple)):
        array = array.astype(np.int64)  # nothing, of no type
    if array.dtype.kind not in kinds:
        raise TypeError(f"{name}: expected {wanted}, got dtype {array.dtype.name}")
    if array.ndim == 0:
        raise TypeError(f"{name}: expected a one-dimensional array, got {type(x).__name__}")
    if array.ndim != 1:
        raise InvalidArgument(f"{name}: expected 1 dimension, got {array.ndim} with shape {array.shape}")
    return array


def ids_vector(x: Any, name: str) -> np.ndarray:
    """One-dimensional ids as int64."""
    return int64(_vector(x, name, "iu", "integers"), f"{name}: id")


def int64(array: np.ndarray, what: str) -> np.ndarray:
    """The array itself when it is int64, dense and aligned."""
    if array.dtype.kind == "u" and array.dtype.itemsize == 8 and array.size > 0 and int(array.max()) > _INT64.max:
        raise InvalidArgument(f"{what} {int(array.max())} does not fit int64")
    return np.require(array, np.int64, ["C", "A"])


EVERY_ROW = _native.Eligible(
    first=0, last=_INT64.max, ids=None, bitmap=None, mask_rows=0, corpus_labels=None, query_labels=None, label_rule=None
)


def options(
    *, k: Any = 10, metric: Any = "euclidean", device: Any = "auto", threads: Any = 0, memory: Any = None,
    distance_type: Any = None, pad: Any = False, degenerate: Any = "error", first_id: Any = 0,
    eligible: _native.Eligible = EVERY_ROW, ngram: Any = 0, max_length: Any = 65535, progress: Any = None, sort: Any = "",
    stream: int = 0,
) -> _native.Options:  # fmt: skip
    """sort: what is searched, "vectors", "strings" or a side of theirs: an unknown metric's error says the metrics of those."""
    return _native.Options(
        k=integer("k", k),
        metric=text("metric", metric),
        device=text("device", device),
        threads=integer("threads", threads),
        memory=memory_bytes(memory),
        distance_type="auto" if distance_type is None else element_type("distance_type", distance_type),
        pad=flag("pad", pad),
        degenerate=text("degenerate", degenerate),
        first_id=integer("first_id", first_id),
        eligible=eligible,
        ngram=integer("ngram", ngram),
        max_length=integer("max_length", max_length),
        progress=progress_callback(progress),
        sort=sort if isinstance(sort, str) else "strings" if isinstance(sort, _native.Strings) else "vectors",
        stream=stream,
    )


def max_results(value: Any) -> int:
    """The most entries of a range search; 0 to the library where nothing is said."""
    limit = 0 if value is None else integer("max_results", value)
    if value is not None and limit < 1:
        raise InvalidArgument(f"max_results must be >= 1, got {limit}; None means what free memory holds")
    return limit


def pickled(saved: Any, protocol: SupportsIndex) -> Any:
    """Saved bytes for a pickle: a buffer that travels out of band, or for older protocols the array, which joblib keeps apart and maps."""
    return pickle.PickleBuffer(saved) if operator.index(protocol) >= 5 else saved
