"""The array namespace of an input, on its device, in which results are made: NumPy, torch, cupy, or any library of the array API.

None of those is imported here. Lists, tables and what else belongs to no such library is answered in NumPy arrays.
"""

from __future__ import annotations

import ctypes
import operator
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .errors import DeviceError, InvalidArgument, InvalidValue, Unsupported

_DEFAULT_STREAM = 1  # as CUDA and DLPack number it, for work that is only queued; 0 would be waited for
_CUDA_DEVICES = {2, 13}  # DLPack's numbers: CUDA's own memory, and that which it shares with the host
# Integers of more than 8 bits, and what they become, where they are (element_type in vicinal/elements.hpp).
WIDE = {"int16": "float32", "uint16": "float32", "int32": "float64", "uint32": "float64", "int64": "float64", "uint64": "float64"}
_BEYOND = {"int64": 2.0**63, "uint64": 2.0**64}  # the first float64 that is none of them: a device turns it into the largest
_DISTANCES = {"f32": np.float32, "f64": np.float64, "u32": np.uint32}


class Numpy:
    def __init__(self, dtype: Any = None) -> None:
        self._dtype = dtype

    def out(self, shape: tuple[int, ...], dtype: Any = None) -> tuple[Any, int]:
        """An array that is to be filled, and its address. dtype: None for that of the input."""
        array = np.empty(shape, self._dtype if dtype is None else dtype)
        return array, array.ctypes.data

    def stream(self) -> int:
        """The library's current one."""
        return 0

    def like(self, array: np.ndarray) -> Any:
        """A result of the host where the input lies."""
        return array


class Torch:
    def __init__(self, like: Any) -> None:
        self._torch, self._like = sys.modules["torch"], like.detach()

    def out(self, shape: tuple[int, ...], dtype: Any = None) -> tuple[Any, int]:
        known = self._like.dtype if dtype is None else getattr(self._torch, dtype.__name__ if isinstance(dtype, type) else np.dtype(dtype).name)
        tensor = self._torch.empty(shape, dtype=known, device=self._like.device)
        return tensor, tensor.data_ptr()

    def stream(self) -> int:
        if self._like.device.type != "cuda":
            return 0
        number = getattr(getattr(self._torch, "_C", None), "_cuda_getCurrentRawStream", None)  # makes no object of a stream
        if number is not None:
            return int(number(self._like.get_device())) or _DEFAULT_STREAM
        return int(self._torch.cuda.current_stream(self._like.device).cuda_stream) or _DEFAULT_STREAM

    def like(self, array: np.ndarray) -> Any:
        return self._torch.from_numpy(array).to(self._like.device)

    def on_host(self) -> Any:
        """The input in memory of the host, an array of the same library or of NumPy."""
        return self._like.cpu()

    def dense(self, name: str) -> tuple[Any, int]:
        """The input as elements of vectors, row-major and without gaps, and the bytes that were copied for that."""
        given = resolved(self._like)
        kind = str(given.dtype).removeprefix("torch.")
        if kind == "bool":
            given = given.view(self._torch.uint8)
        elif kind in WIDE:
            if kind == "uint64":  # torch compares none of them
                raise InvalidArgument(f"{name}: dtype uint64 not supported in memory of a CUDA device; convert with .to(torch.float64)")
            given = given.to(getattr(self._torch, WIDE[kind]))
            if kind in _BEYOND and given.numel() > 0:
                check_exact(bool(((given >= _BEYOND[kind]) | (given.to(self._like.dtype) != self._like)).any()), kind, name)
        dense = given.contiguous()
        return dense, 0 if dense.data_ptr() == self._like.data_ptr() else dense.numel() * dense.element_size()

    def capsule(self, x: Any, name: str) -> Any:
        """What DLPack hands over of `x`, an array of this library in memory of a CUDA device: for work on the current stream.

        torch does it for tensors of the current device alone.
        """
        with self._torch.cuda.device(self._like.device):
            return handed_over(x, name, stream=self.stream())

    def copied(self) -> Any:
        return self._like.clone(memory_format=self._torch.contiguous_format)


class Cupy:
    def __init__(self, like: Any) -> None:
        self._cupy, self._like = sys.modules["cupy"], like

    def out(self, shape: tuple[int, ...], dtype: Any = None) -> tuple[Any, int]:
        with self._like.device:
            array = self._cupy.empty(shape, self._like.dtype if dtype is None else dtype)
        return array, array.data.ptr

    def stream(self) -> int:
        with self._like.device:
            return int(self._cupy.cuda.get_current_stream().ptr) or _DEFAULT_STREAM

    def like(self, array: np.ndarray) -> Any:
        with self._like.device:
            return self._cupy.asarray(array)

    def on_host(self) -> Any:
        return self._like.get()

    def dense(self, name: str) -> tuple[Any, int]:
        given, kind = self._like, self._like.dtype.name
        with given.device:
            if kind == "bool":
                given = given.view("u1")
            elif kind in WIDE:
                given = given.astype(WIDE[kind], order="C")
                if kind in _BEYOND and given.size > 0:
                    check_exact(bool(((given >= _BEYOND[kind]) | (given.astype(kind) != self._like)).any()), kind, name)
            if not given.flags.c_contiguous:
                given = given.copy(order="C")
        return given, 0 if given.data.ptr == self._like.data.ptr else given.nbytes

    def capsule(self, x: Any, name: str) -> Any:
        with self._like.device:
            return handed_over(x, name, stream=self.stream())

    def copied(self) -> Any:
        with self._like.device:
            return self._like.copy(order="C")


class ArrayApi(Numpy):
    """A library of the array API on the host.

    A result whose type it would narrow stays NumPy's: jax has no elements of 64 bits unless ``jax_enable_x64`` is set.
    """

    def __init__(self, like: Any) -> None:
        super().__init__()
        self._space = like.__array_namespace__()

    def like(self, array: np.ndarray) -> Any:
        wanted = getattr(self._space, array.dtype.name, None)
        made = array if wanted is None else self._space.asarray(array)
        return made if made.dtype == wanted else array


Namespace = Numpy | Torch | Cupy
_HOST = Numpy()


def library(x: Any) -> str:
    return type(x).__module__.partition(".")[0]


def of(x: Any, name: str = "query") -> Namespace:
    """Where results for queries like `x` are made. Unsupported for memory of a CUDA device in which nothing can be made."""
    if type(x) is np.ndarray:
        return _HOST
    owner = library(x)
    if owner == "torch" and hasattr(x, "detach"):
        return Torch(x)
    if owner == "cupy":
        return Cupy(x)
    if on_cuda(x):
        raise foreign(x, name)
    if owner != "numpy" and hasattr(x, "__array_namespace__") and hasattr(x, "__dlpack__"):
        return ArrayApi(x)
    return Numpy()


def of_device(x: Any, name: str) -> Torch | Cupy:
    """The library that owns `x`, in memory of a CUDA device; Unsupported where it makes no results there."""
    namespace = of(x, name)
    if isinstance(namespace, Numpy):
        raise foreign(x, name)
    return namespace


def on_cuda(x: Any) -> bool:
    """In memory of a CUDA device, where it is read in place."""
    if hasattr(x, "__dlpack_device__"):
        return dlpack_device(x)[0] in _CUDA_DEVICES
    return hasattr(x, "__cuda_array_interface__")


def dlpack_device(x: Any) -> tuple[int, int]:
    """DLPack's numbers of the sort of device and of the device."""
    device = x.__dlpack_device__()
    try:
        kind, number = map(operator.index, device)
    except (TypeError, ValueError):
        raise TypeError(f"{type(x).__name__}.__dlpack_device__() gave {device!r}, which is not (device type, number)") from None
    return kind, number


def ordinal(address: int) -> int:
    """Of the CUDA device whose memory it is."""
    found = ctypes.c_int(0)
    try:
        ctypes.CDLL("libcuda.so.1").cuPointerGetAttribute(ctypes.byref(found), 9, ctypes.c_uint64(address))
    except OSError:
        raise DeviceError("an array says that it is in memory of a CUDA device, and there is no driver of CUDA here") from None
    return found.value


def resolved(x: Any) -> Any:
    """A tensor of torch without gradient, copied where a sign or a conjugate is still to be taken; else `x` itself.

    DLPack has no word for such a sign, and hands over what lies there.
    """
    return x.detach().resolve_conj().resolve_neg() if hasattr(x, "resolve_neg") else x


def handed_over(x: Any, name: str, **how: Any) -> Any:
    """The capsule of ``x.__dlpack__``; Unsupported, with its owner's words, where it is refused."""
    try:
        return resolved(x).__dlpack__(**how)
    except BufferError as error:
        kind = f"{type(x).__module__}.{type(x).__qualname__}"
        raise Unsupported(f"{name}: {kind} does not hand over its memory by DLPack ({error}); copy it to an array that does") from error


def interface_stream(facts: dict[str, Any], name: str) -> int:
    """The stream that ``__cuda_array_interface__`` says its data are made on; 0: none."""
    stream = facts.get("stream")
    if stream is None:
        return 0
    if isinstance(stream, bool) or not isinstance(stream, int) or stream < 1:
        raise InvalidArgument(f"{name}: the stream of __cuda_array_interface__ is None or a number from 1 on, got {stream!r}")
    return stream


def one_stream(*streams: int) -> int:
    """The first stream of those that inputs are made on (0: none), when what is queued on the others has run."""
    distinct = list(dict.fromkeys(stream for stream in streams if stream))
    for stream in distinct[1:]:
        try:
            status = ctypes.CDLL("libcuda.so.1").cuStreamSynchronize(ctypes.c_void_p(stream))
        except OSError:
            raise DeviceError("an array says that a CUDA stream works on it, and there is no driver of CUDA here") from None
        if status != 0:
            raise DeviceError(f"CUDA: waiting for the stream of an array: error {status} of the driver")
    return distinct[0] if distinct else 0


def check_exact(inexact: bool, kind: str, name: str) -> None:
    if inexact:
        raise InvalidValue(f"{name}: {kind} elements beyond 2^53 have no exact float64; subtract an offset, or scale them down")


def foreign(x: Any, name: str) -> Unsupported:
    kind = f"{type(x).__module__}.{type(x).__qualname__}"
    return Unsupported(f"{name}: results in memory of a CUDA device are made by torch and cupy, got {kind}; "
                       "torch.from_dlpack and cupy.asarray see it without a copy")  # fmt: skip


def to_host(x: Any) -> Any:
    """A tensor of torch or cupy as a NumPy array, seen in place where the CPU can read it; anything else as it is."""
    name = library(x)
    if name == "torch" and hasattr(x, "detach"):
        return resolved(x).cpu().numpy()
    return x.get() if name == "cupy" and hasattr(x, "get") else x


def search(namespace: Namespace, shape: tuple[int, int], pad: bool, distance_type: str, into: Callable[[Any], Any]) -> tuple[Any, ...]:
    """A search whose results are made where the queries lie; what the native one returns that makes them on the host."""
    distances, ids = namespace.out(shape, _DISTANCES[distance_type]), namespace.out(shape, np.int64)
    counts = namespace.out(shape[:1], np.int64) if pad else (None, 0)
    # Work that was queued with that memory before may still use it on the queries' stream, which the search begins after.
    report = into((distances[1], ids[1], counts[1]))
    return distances[0], ids[0], report, counts[0]
