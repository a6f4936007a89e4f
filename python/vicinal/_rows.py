"""Rows of numbers as users pass them, seen where they lie, in memory of the host or of a CUDA device.

Only lists, tables of several blocks and the like, which no strides describe, and integers of more than 8 bits, which no kernel
reads, are converted, once, and the bytes are counted.
"""

from __future__ import annotations

import math
import operator
import sys
from typing import Any

import numpy as np

from . import _frames, _namespaces, _native, _strings, _tables
from .errors import DeviceError, InvalidArgument, Unsupported

# DLPack's numbers for memory that a CPU reads: its own, and host memory pinned for CUDA or ROCm.
_HOST_DEVICES = {1, 3, 11}
_DEVICE_NAMES = {2: "cuda", 4: "opencl", 7: "vulkan", 8: "metal", 10: "rocm", 13: "cuda managed", 14: "oneapi"}

ELEMENTS = {
    "float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "uint8": "u8", "int8": "i8",
    "uint32": "u32",
}  # fmt: skip


# What integers and bools become (element_type in vicinal/elements.hpp): bools are seen in place as bytes of 0 and 1.
INTEGERS = {"bool": "u8", **{name: ELEMENTS[becomes] for name, becomes in _namespaces.WIDE.items()}}


_PLAIN = frozenset("fdeBb")  # letters of the types of elements that NumPy knows
_TORCH = {"torch." + name: short for name, short in ELEMENTS.items() if short != "u32"}


def rows(x: Any, name: str) -> tuple[_native.Rows, int]:
    """`x` as rows for the library, and the bytes that had to be copied (0 unless it was a list, integers or the like)."""
    if type(x) is np.ndarray and x.dtype.char in _PLAIN:
        return _native.Rows.from_buffer(x, name, False), 0
    if (torch := sys.modules.get("torch")) is not None and type(x) is getattr(torch, "Tensor", None):
        plain = _from_torch(x, name)
        if plain is not None:
            return plain, 0
    seen, copied = unconverted(x, name)
    return seen, seen.convert() or copied


def unconverted(x: Any, name: str) -> tuple[_native.Rows, int]:
    """The same but for integers, which stay as they are: for plans, which look at no rows that a search would convert."""
    refuse_masked(x, name)
    if isinstance(x, np.ndarray):
        return _from_array(np.asarray(x), name), 0  # a subclass may say what its memory does not hold
    if isinstance(x, (str, bytes, bytearray)):
        raise TypeError(f"{name}: expected a two-dimensional array of numbers, or a list of strings, got {type(x).__name__}")
    table = _frames.array(x, name) or _tables.array(x, name)
    if table is not None:
        return _from_array(table[0], name), table[1]
    if hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__"):
        if _namespaces.on_cuda(x):
            return _from_cuda(x, name)
        given = _namespaces.resolved(x)
        return _from_dlpack(given, name), 0 if given is x or given.data_ptr() == x.data_ptr() else given.nbytes
    if hasattr(x, "__cuda_array_interface__"):
        return _from_cuda_interface(x, name), 0
    array = array_of(x, name)
    return _from_array(array, name), 0 if _in_place(x, array) else array.nbytes


def refuse_masked(x: Any, name: str) -> None:
    """Before ``np.asarray``, which forgets the mask."""
    if isinstance(x, np.ma.MaskedArray):
        raise TypeError(f"{name}: masked arrays are not supported")


def side(x: Any, name: str) -> tuple[_native.Rows | _native.Strings, int]:
    """Rows of numbers, or strings."""
    return _strings.strings(x, name) if _strings.looks_like(x) else rows(x, name)


def sides(corpus: Any, queries: Any) -> tuple[Any, Any, int]:
    """Both sides of a search, of one sort, and the bytes that were copied."""
    text = [_strings.looks_like(x) for x in (corpus, queries)]
    if text[0] != text[1]:  # no strings at all are of either sort
        nothing = [isinstance(x, (list, tuple)) and len(x) == 0 for x in (corpus, queries)]
        if not nothing[text.index(False)]:
            # Where the other side holds no numbers either, this says so.
            rows(*((corpus, "corpus"), (queries, "query"))[text.index(False)])
            odd = ("corpus", "query")[text.index(True)]
            raise TypeError(f"{odd}: unsupported dtype str, the other side holds numbers")
    seen: tuple[tuple[Any, int], tuple[Any, int]]
    if not any(text):
        seen = rows(corpus, "corpus"), rows(queries, "query")
    else:
        seen = _strings.strings(corpus, "corpus"), _strings.strings(queries, "query")
    (left, copied), (right, more) = seen
    return left, right, copied + more


def _from_array(array: np.ndarray, name: str) -> _native.Rows:
    dtype = array.dtype
    bfloat16 = dtype.name == "bfloat16"
    if bfloat16:
        array = array.view(np.uint16)  # the buffer protocol has no letter for it
    elif dtype.kind == "b":
        array = array.view(np.uint8)
    elif dtype.kind not in "fiu":
        raise TypeError(f"{name}: unsupported dtype {dtype.name}")
    return _native.Rows.from_buffer(array, name, bfloat16)


def _from_torch(x: Any, name: str) -> _native.Rows | None:
    """A tensor of torch's own class by its address, in a tenth of the time that DLPack takes; None: DLPack has to say what it is."""
    element = _TORCH.get(str(x.dtype))
    if element is None or str(x.layout) != "torch.strided" or x.ndim != 2 or x.is_neg() or not (x.is_cpu or x.is_cuda and x.is_contiguous()):
        return None
    held = x.detach()  # whose memory stays where it is, whatever becomes of x
    stream = _namespaces.Torch(held).stream() if held.is_cuda else 0
    return _native.Rows.from_address(held.data_ptr(), held.shape, element, name, held.get_device(), held, stream, held.stride())


def _from_dlpack(x: Any, name: str) -> _native.Rows:
    return _native.Rows.from_dlpack(host_capsule(x, name), name)


def _from_cuda(x: Any, name: str) -> tuple[_native.Rows, int]:
    """Rows that lie dense in memory of a CUDA device are read there; others become so there."""
    if _namespaces.library(x) not in ("torch", "cupy"):
        try:
            return _native.Rows.from_dlpack(_namespaces.handed_over(x, name, stream=1), name, 1), 0
        except Unsupported:  # an owner who hands over what is of the current device alone, for one
            if not hasattr(x, "__cuda_array_interface__"):
                raise
            return _from_cuda_interface(x, name), 0
    namespace = _namespaces.of_device(x, name)
    dense, copied = namespace.dense(name)
    return _native.Rows.from_dlpack(namespace.capsule(dense, name), name, namespace.stream()), copied


def _from_cuda_interface(x: Any, name: str) -> _native.Rows:
    facts = x.__cuda_array_interface__
    try:
        shape, dtype, address = tuple(map(operator.index, facts["shape"])), np.dtype(str(facts["typestr"])), operator.index(facts["data"][0])
        strides = None if facts.get("strides") is None else tuple(map(operator.index, facts["strides"]))
    except (TypeError, KeyError, IndexError, ValueError, AttributeError) as error:
        raise TypeError(f"{name}: __cuda_array_interface__ describes no array ({type(error).__name__}: {error})") from None
    if not all(0 <= count < 1 << 63 for count in shape) or not 0 <= address < 1 << 64:
        raise InvalidArgument(f"{name}: __cuda_array_interface__ has shape {shape} at address {address}, which no array has")
    dense = strides is None or strides == tuple(dtype.itemsize * math.prod(shape[at + 1 :]) for at in range(len(shape)))
    if not dense or not dtype.isnative:
        raise Unsupported(f"{name}: rows in memory of a CUDA device must be dense, row-major and of this machine's byte order")
    stream = _namespaces.interface_stream(facts, name)
    element = "u8" if dtype.kind == "b" else ELEMENTS.get(dtype.name)
    if element is None or element == "u32":
        raise InvalidArgument(f"{name}: dtype {dtype.name} not supported in memory of a CUDA device; convert with astype")
    where = _namespaces.ordinal(address)
    return _native.Rows.from_address(address, shape, element, name, where, x, stream)


def host_capsule(x: Any, name: str) -> Any:
    """What DLPack hands over of a tensor that the CPU can read."""
    kind, number = _namespaces.dlpack_device(x)
    if kind not in _HOST_DEVICES:
        device = _DEVICE_NAMES.get(kind, f"device type {kind}")
        raise DeviceError(f"{name}: tensor is on {device}:{number}, this search runs on cpu; copy it to the host")
    try:
        return _namespaces.handed_over(x, name, max_version=(1, 0))  # the version that can say "read-only"
    except TypeError:
        return _namespaces.handed_over(x, name)


def array_of(x: Any, name: str) -> np.ndarray:
    """What NumPy makes of `x`, lists and the like; InvalidValue for integers among floats that are none themselves."""
    try:
        array = np.asarray(x)
    except ValueError as error:
        raise InvalidArgument(f"{name}: not a rectangular table of numbers ({error})") from None
    if array.dtype == object:
        raise TypeError(f"{name}: unsupported dtype object (from {type(x).__name__})")
    if array.dtype == np.float64 and array.ndim == 2 and isinstance(x, (list, tuple)):  # integers among them, perhaps
        _frames.check_exact_rows(array, x, name)
    return array


def _in_place(x: Any, array: np.ndarray) -> bool:
    try:
        memoryview(x)
    except TypeError:
        return False
    return True
