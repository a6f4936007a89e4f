"""Selection: the k smallest or largest values of every row."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from . import _frames, _inputs, _namespaces, _native
from .errors import InvalidArgument, InvalidValue

_NUMPY_TYPES = {
    "f32": "float32", "f64": "float64", "f16": "float16", "u8": "uint8", "i8": "int8", "u16": "uint16", "i16": "int16",
    "u32": "uint32", "i32": "int32", "u64": "uint64", "i64": "int64",
}  # fmt: skip


@dataclass(frozen=True)
class SelectStats:
    """How a selection was done; not covered by the promise of equal bits.

    algorithm: the one that ran. device: "cpu", "cuda:0", "cuda:0,cuda:1". threads: of the CPU. seconds: wall time; on a CUDA
    device that of queueing the work. why: what made "auto" choose it, and the rows of each of several devices.
    """

    algorithm: str
    device: str
    threads: int
    seconds: float
    why: str


class Selection(tuple):
    """The answer of ``select_k``; unpacks as ``values, ids = result``.

    values: (rows, k), of the type of the input, bits unchanged. ids: (rows, k) int64, positions in the row. Both are (k,)
    for one-dimensional input. payload: that of the chosen positions, or None. stats: see its class.
    """

    payload: Any
    stats: SelectStats

    def __new__(cls, values: Any, ids: Any, payload: Any, stats: SelectStats) -> Selection:
        self = super().__new__(cls, (values, ids))
        self.payload = payload
        self.stats = stats
        return self

    @property
    def values(self) -> Any:
        return self[0]

    @property
    def ids(self) -> Any:
        return self[1]

    def __getnewargs__(self) -> tuple[Any, ...]:
        return self[0], self[1], self.payload, self.stats

    def __repr__(self) -> str:
        *rows, k = self.ids.shape
        return f"<vicinal.Selection of {rows[0] if rows else 1} rows, k={k}, {self.values.dtype}: {self.stats.algorithm}>"


class SelectAlgorithm(str):
    """The name of an algorithm, which is what it is compared and passed as.

    devices: "cpu", "cuda" or both. source: paper and section. about: one line.
    """

    devices: str
    source: str
    about: str

    def __new__(cls, name: str, devices: str, source: str, about: str) -> SelectAlgorithm:
        self = super().__new__(cls, name)
        self.devices, self.source, self.about = devices, source, about
        return self

    def __getnewargs__(self) -> tuple[str, ...]:  # type: ignore[override]
        return str(self), self.devices, self.source, self.about


def select_algorithms() -> tuple[SelectAlgorithm, ...]:
    """The names that ``select_k(algorithm=...)`` takes, "auto" first; each knows its devices, source and about."""
    return tuple(SelectAlgorithm(*facts) for facts in _native.select_algorithms())


def select_k(
    values: Any,
    k: int,
    *,
    largest: bool = False,
    sorted: bool = True,
    algorithm: str = "auto",
    payload: Any = None,
    device: str = "auto",
    threads: int = 0,
) -> Selection:
    """The k smallest or largest values of each row, and where they stand, the same on every machine.

    The order is total: -inf < finite < +inf, -0 equals +0, ties by lowest position, NaN after everything whichever end
    is asked for. Values keep their bits.

    Parameters
    ----------
    values : (rows, columns) or (columns,) array
        Floats of 16 (bfloat16 too), 32 and 64 bits or integers of 8 to 64, of any strides and byte order: NumPy arrays and
        whatever has DLPack on the CPU are read in place, lists are converted. Tensors of torch and arrays of cupy on a
        CUDA device are read there, on the library's current stream, and the call returns when the work is queued.
    k : int
        1 to the columns.
    largest : bool, default False
        The largest values, largest first.
    sorted : bool, default True
        False: the same set in any order.
    algorithm : str, default "auto"
        A name of :func:`select_algorithms`. The answer does not depend on it.
    payload : array of the shape of the values, or None
        Items of 1, 2, 4 or 8 bytes, of any type, where the values are: those of the chosen positions are returned too.
    device : str, default "auto"
        "auto": where the values are; "cpu"; "cuda" and "cuda:N", also for values on the host.
        "cuda:all", or several such as "cuda:0,cuda:1": each takes a share of the rows; arrays are in the host's memory.
    threads : int, default 0
        Of the CPU. 0: as many as the affinity mask and the cgroup quota allow.

    Returns
    -------
    Selection
        ``.values``, ``.ids`` int64, ``.payload``, ``.stats``; unpacks as (values, ids). Arrays of torch or cupy where the
        values were, else of NumPy (bfloat16 as uint16 bits where ml_dtypes is not imported).

    Raises
    ------
    TypeError
        An argument is of the wrong Python type, values are bool, complex or object.
    InvalidArgument, Unsupported
        Also ValueError. k, a shape, an unknown algorithm, or one that cannot take this problem and why.
    OutOfMemory, DeviceError
        Also MemoryError, RuntimeError. Ctrl-C raises KeyboardInterrupt.

    Examples
    --------
    >>> import numpy as np, vicinal
    >>> scores = np.array([[0.5, 0.25, np.nan, 0.25], [3.0, 1.0, 2.0, 0.0]])
    >>> values, ids = vicinal.select_k(scores, 2)
    >>> values.tolist(), ids.tolist()
    ([[0.25, 0.25], [0.0, 1.0]], [[1, 3], [3, 1]])
    >>> vicinal.select_k(scores[1], 2, largest=True, payload=np.array(list("abcd"), "S1")).payload.tolist()
    [b'a', b'c']
    """
    count = _inputs.integer("k", k)
    wanted: dict[str, Any] = dict(
        largest=_inputs.flag("largest", largest), sorted=_inputs.flag("sorted", sorted),
        algorithm=_inputs.text("algorithm", algorithm), device=_inputs.text("device", device),
        threads=_inputs.integer("threads", threads),
    )  # fmt: skip
    source = _seen(values, "values")
    carried = None if payload is None else _seen(payload, "payload")
    if carried is not None and carried.shape != source.shape:
        raise InvalidArgument(f"payload has shape {carried.shape}, values {source.shape}; it has one item for each value")
    # A k that will be refused gets no memory; what is wrong with it is the library's to say.
    rows, columns = source.rows.shape
    if rows == 0 and count >= 1 << 60:
        raise InvalidArgument(f"k={count} is beyond the 2^60 - 1 columns that an array of no rows may have")
    shape = (*source.shape[:-1], max(0, min(count, columns) if rows > 0 else count))
    chosen, ids = source.namespace.out(shape), source.namespace.out(shape, np.int64)
    companions = None if carried is None else carried.namespace.out(shape)
    stats = _native.select_k(
        source.rows, None if carried is None else carried.rows,
        (chosen[1], ids[1], 0 if companions is None else companions[1]),
        k=count, stream=source.namespace.stream(), **wanted,
    )  # fmt: skip
    return Selection(chosen[0], ids[0], None if companions is None else companions[0], SelectStats(**stats))


class _Seen(NamedTuple):
    """An input in place: for the library, as the user shaped it, and where results like it are made."""

    rows: _native.ValueRows
    shape: tuple[int, ...]
    namespace: _namespaces.Namespace


def _seen(x: Any, name: str) -> _Seen:
    _inputs.refuse_masked(x, name)
    if isinstance(x, (str, bytes, bytearray)):
        raise TypeError(f"{name}: expected an array of numbers, got {type(x).__name__}")
    if not isinstance(x, np.ndarray):
        _refuse_missing(x, name)
        if hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__"):
            return _from_dlpack(x, name)
        if hasattr(x, "__cuda_array_interface__"):
            raise _namespaces.foreign(x, name)
        try:
            x = np.asarray(x)
        except (ValueError, OverflowError) as error:
            raise InvalidArgument(f"{name}: not a rectangular table of numbers ({error})") from None
    return _from_array(np.asarray(x), name)  # a subclass may say what its memory does not hold


def _refuse_missing(x: Any, name: str) -> None:
    """A missing value in a column of pyarrow, pandas or polars, of which NumPy makes floats, rounding integers."""
    kind = getattr(x, "dtype", getattr(x, "type", None))
    if kind is None or isinstance(kind, np.dtype) or getattr(x, "ndim", 1) != 1:  # NumPy's types have NaN alone
        return
    missing = _frames.missing_rows(x)
    if missing.size:
        raise InvalidValue(f"{name}: row {missing[0]} is missing ({missing.size} in all); drop or fill it")


def _from_array(array: np.ndarray, name: str) -> _Seen:
    dtype, bfloat16 = array.dtype, array.dtype.name == "bfloat16"
    if name == "payload":
        if dtype.hasobject:
            raise TypeError(f"{name}: unsupported dtype {dtype.name}")
        if dtype.itemsize not in (1, 2, 4, 8):
            raise InvalidArgument(f"payload has items of {dtype.itemsize} bytes; 1, 2, 4 and 8 are possible. "
                                  "Select ids and gather by them")  # fmt: skip
        rows = _native.ValueRows.from_buffer(array.view(f"u{dtype.itemsize}"), name, False)
        return _Seen(rows, array.shape, _namespaces.Numpy(dtype))
    if not bfloat16 and dtype.kind not in "fiu":
        raise TypeError(f"{name}: unsupported dtype {dtype.name}")
    rows = _native.ValueRows.from_buffer(array.view(np.uint16) if bfloat16 else array, name, bfloat16)
    return _Seen(rows, array.shape, _namespaces.Numpy(dtype.newbyteorder("=")))


def _from_dlpack(x: Any, name: str) -> _Seen:
    library = _namespaces.library(x)
    namespace: Any = _namespaces.of(x) if library in ("torch", "cupy") else None
    if _namespaces.on_cuda(x):
        if namespace is None:
            raise _namespaces.foreign(x, name)
        capsule = namespace.capsule(x, name)
    else:
        capsule = _inputs.host_capsule(x, name)
    rows = _native.ValueRows.from_dlpack(capsule, name, name == "payload")
    if namespace is None:
        known = _NUMPY_TYPES.get(rows.dtype)
        namespace = _namespaces.Numpy(known or getattr(sys.modules.get("ml_dtypes"), "bfloat16", np.uint16))
    return _Seen(rows, tuple(rows.extents), namespace)
