"""What users pass, checked for its Python type and seen in place.

Wrong types end here, in TypeError; wrong values are the library's to refuse, so that C++, the command and
Python do it in the same words. Arrays are read where they lie: only lists, tables of several blocks and
the like, which no strides describe, are converted, once, and the bytes are counted.
"""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from . import _native
from .errors import DeviceError, InvalidArgument

# DLPack's numbers for memory that a CPU reads: its own, and host memory pinned for CUDA or ROCm.
_HOST_DEVICES = {1, 3, 11}
_DEVICE_NAMES = {2: "cuda", 4: "opencl", 7: "vulkan", 8: "metal", 10: "rocm", 13: "cuda managed", 14: "oneapi"}

_ELEMENTS = {
    "float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "uint8": "u8", "int8": "i8",
    "uint32": "u32",
}  # fmt: skip
_INT64 = np.iinfo(np.int64)


def rows(x: Any, name: str) -> tuple[_native.Rows, int]:
    """`x` as rows for the library, and the bytes that had to be copied (0 unless it was a list or the like)."""
    if isinstance(x, np.ma.MaskedArray):
        raise TypeError(f"{name}: masked arrays are not supported")
    if isinstance(x, np.ndarray):
        return _from_array(x, name), 0
    if isinstance(x, (str, bytes, bytearray)):
        raise TypeError(f"{name}: expected a two-dimensional array of numbers, got {type(x).__name__}")
    if hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__"):
        return _from_dlpack(x, name), 0
    if hasattr(x, "__cuda_array_interface__"):
        raise DeviceError(f"{name}: array is on cuda, this search runs on cpu; copy it to the host")
    array = _converted(x, name)
    return _from_array(array, name), 0 if _in_place(x, array) else array.nbytes


def _from_array(array: np.ndarray, name: str) -> _native.Rows:
    dtype = array.dtype
    bfloat16 = dtype.name == "bfloat16"
    if bfloat16:
        array = array.view(np.uint16)  # the buffer protocol has no letter for it
    elif dtype.kind not in "fiu":
        hint = "; pack bits with numpy.packbits" if dtype.kind == "b" else ""
        raise TypeError(f"{name}: unsupported dtype {dtype.name}{hint}")
    return _native.Rows.from_buffer(array, name, bfloat16)


def _from_dlpack(x: Any, name: str) -> _native.Rows:
    kind, number = x.__dlpack_device__()
    if int(kind) not in _HOST_DEVICES:
        device = _DEVICE_NAMES.get(int(kind), f"device type {int(kind)}")
        raise DeviceError(f"{name}: tensor is on {device}:{int(number)}, this search runs on cpu; copy it to the host")
    try:
        capsule = x.__dlpack__(max_version=(1, 0))  # the version that can say "read-only"
    except TypeError:
        capsule = x.__dlpack__()
    return _native.Rows.from_dlpack(capsule, name)


def _converted(x: Any, name: str) -> np.ndarray:
    try:
        array = np.asarray(x)
    except ValueError as error:
        raise InvalidArgument(f"{name}: not a rectangular table of numbers ({error})") from None
    if array.dtype == object:
        raise TypeError(f"{name}: unsupported dtype object (from {type(x).__name__})")
    if isinstance(x, (list, tuple)) and array.dtype.kind in "iu" and _plain_numbers(x):
        exact = array.astype(np.float64)
        if not np.array_equal(exact.astype(object), array.astype(object)):
            raise InvalidArgument(f"{name}: integers beyond 2^53 have no exact float64; scale them down")
        return exact
    return array


def _plain_numbers(x: Any) -> bool:
    """A list of Python's own numbers has no dtype to respect; a list of NumPy arrays has."""
    while isinstance(x, (list, tuple)) and len(x) > 0:
        x = x[0]
    return type(x) is int


def _in_place(x: Any, array: np.ndarray) -> bool:
    if hasattr(x, "iloc"):  # pandas: one block is seen in place, several are gathered into a new array
        return x.shape[1] > 0 and np.may_share_memory(array, np.asarray(x.iloc[:, :1]))
    try:
        memoryview(x)
    except TypeError:
        return False
    return True


def integer(name: str, value: Any) -> int:
    """An integer of Python or NumPy, never a bool or a float that happens to be whole."""
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be an integer, got bool")
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {type(value).__name__}") from None
    if not _INT64.min <= number <= _INT64.max:
        raise InvalidArgument(f"{name} must fit 64 bits, got {number}")
    return number


def text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, got {type(value).__name__}")
    return value


def path_bytes(value: Any) -> bytes:
    """str, bytes or os.PathLike as the file system spells it."""
    try:
        return os.fsencode(value)
    except TypeError:
        raise TypeError(f"path must be a str, bytes or os.PathLike, got {type(value).__name__}") from None


def flag(name: str, value: Any) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be a bool, got {type(value).__name__}")
    return bool(value)


def memory_bytes(value: Any) -> int:
    """None (what is free, less a tenth: 0 to the library), a number of bytes, or text like "256MiB"."""
    if value is None:
        return 0
    if isinstance(value, str):
        return _native.parse_bytes(value)
    number = integer("memory", value)
    if number < 1:
        raise InvalidArgument(f"memory must be >= 1 byte, got {number}; None means what is free, less a tenth")
    return number


def element_type(name: str, value: Any) -> str:
    """ "f32" and the like from a dtype, its name, or the short name itself."""
    if isinstance(value, str):
        return _ELEMENTS.get(value, value)
    try:
        known = np.dtype(value).name
    except TypeError:
        raise TypeError(f"{name} must be a dtype or its name, got {type(value).__name__}") from None
    return _ELEMENTS.get(known, known)


def numpy_dtype(element: str) -> Any:
    """The NumPy dtype of "f32" and the like; bfloat16 as ml_dtypes' own if that is loaded, else its name."""
    if element == "bf16":
        extension = sys.modules.get("ml_dtypes")
        return np.dtype(extension.bfloat16) if extension is not None else "bfloat16"
    return np.dtype(next(known for known, short in _ELEMENTS.items() if short == element))


def progress_callback(value: Any) -> Callable[[int, int], bool] | None:
    """The user's callback as one that always answers with a bool: only a real False cancels."""
    if value is None:
        return None
    if not callable(value):
        raise TypeError(f"progress must be callable, got {type(value).__name__}")

    def go_on(done: int, total: int) -> bool:
        answer = value(done, total)
        return not (isinstance(answer, (bool, np.bool_)) and not answer)

    return go_on


def options(
    *, k: Any = 10, metric: Any = "euclidean", device: Any = "auto", threads: Any = 0, memory: Any = None,
    distance_type: Any = None, pad: Any = False, degenerate: Any = "error", first_id: Any = 0, progress: Any = None,
) -> _native.Options:  # fmt: skip
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
        progress=progress_callback(progress),
    )


def result_pair(part: Any, where: str) -> tuple[np.ndarray, np.ndarray]:
    """(distances, ids) of a result or of a pair, in the layout that merge reads; ids as int64."""
    try:
        distances, ids = part
    except (TypeError, ValueError):
        raise TypeError(f"{where} must be a result or a pair (distances, ids), got {type(part).__name__}") from None
    distances, ids = np.asarray(distances), ids_array(ids, where)
    if distances.shape != ids.shape:
        raise InvalidArgument(f"{where}: distances have shape {distances.shape}, ids {ids.shape}")
    return distances_array(distances, where), ids


def ids_array(ids: Any, where: str) -> np.ndarray:
    array = np.asarray(ids)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{where}: ids must be integers, got dtype {array.dtype.name}")
    if array.ndim != 2:
        raise _not_two_dimensions(where, "ids", array)
    if array.dtype == np.uint64 and array.size > 0 and int(array.max()) > _INT64.max:
        raise InvalidArgument(f"{where}: id {int(array.max())} does not fit int64")
    return np.ascontiguousarray(array, dtype=np.int64)


def distances_array(distances: Any, where: str) -> np.ndarray:
    array = np.asarray(distances)
    if array.dtype.name not in ("float32", "float64", "uint32"):
        raise TypeError(f"{where}: distances must be float32, float64 or uint32, got dtype {array.dtype.name}")
    if array.ndim != 2:
        raise _not_two_dimensions(where, "distances", array)
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))


def _not_two_dimensions(where: str, what: str, array: np.ndarray) -> InvalidArgument:
    return InvalidArgument(f"{where}: {what} must have 2 dimensions (Q,k), got {array.ndim} with shape {array.shape}")
