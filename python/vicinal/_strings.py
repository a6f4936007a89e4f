"""Strings as users pass them: lists, NumPy arrays, Arrow arrays, pandas columns. A symbol is a code point of a str, or a byte.

A str keeps what Python lets it hold; the library refuses surrogates, in the same words for all languages.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _native, _tables
from .errors import InvalidArgument, InvalidValue


def looks_like(x: Any) -> bool:
    """Is this a column of strings? Only the first item of lists and of arrays of objects is looked at."""
    if isinstance(x, np.ndarray):
        array = np.asarray(x)
        return array.dtype.kind in "UST" or (
            array.dtype.kind == "O" and array.ndim == 1 and array.size > 0 and isinstance(array[0], (str, bytes))
        )
    if isinstance(x, (list, tuple)):
        return isinstance(next(iter(x), None), (str, bytes))
    if hasattr(x, "iloc") and getattr(x, "ndim", 0) == 1:
        return len(x) > 0 and isinstance(x.iloc[0], (str, bytes))
    # no table, and no column of rows
    return not hasattr(x, "columns") and not _tables.is_list_column(x) and (hasattr(x, "__arrow_c_array__") or hasattr(x, "__arrow_c_stream__"))


def strings(x: Any, name: str) -> tuple[_native.Strings, int]:
    """`x` for the library, and the bytes that had to be copied (0 for Arrow)."""
    if hasattr(x, "__arrow_c_array__"):
        schema, array = x.__arrow_c_array__()
        return _native.Strings.from_arrow(schema, array, name), 0
    if hasattr(x, "__arrow_c_stream__") and not hasattr(x, "iloc"):  # in chunks
        x = x.to_pylist() if hasattr(x, "to_pylist") else x.to_list()
        if None in x:
            raise InvalidValue(f"{name} string {x.index(None)} is null; drop or fill it")
    if isinstance(x, np.ndarray):
        x = np.asarray(x)  # a subclass may say what its memory does not hold
        if x.ndim != 1:
            raise InvalidArgument(f"{name}: expected 1 dimension of strings, got {x.ndim} with shape {x.shape}")
        if x.dtype.kind in "US":
            return _from_fixed(x)
    return _from_list(list(x.tolist() if hasattr(x, "tolist") else x), name)


def _from_fixed(array: np.ndarray) -> tuple[_native.Strings, int]:
    """Items of one width, filled up with zeros."""
    lengths = np.char.str_len(array)
    unit = np.uint32 if array.dtype.kind == "U" else np.uint8
    width = array.dtype.itemsize // np.dtype(unit).itemsize
    table = np.ascontiguousarray(array, array.dtype.newbyteorder("=")).view(unit).reshape(array.size, width)
    symbols = table[np.arange(width) < lengths[:, None]]
    return _joined(symbols, lengths, "utf32" if unit is np.uint32 else "bytes")


def _from_list(items: list, name: str) -> tuple[_native.Strings, int]:
    """`items` is a list that nothing else refers to. A subclass may have methods of its own, so str and bytes themselves are asked what it holds."""
    kind = bytes if items and issubclass(type(items[0]), bytes) else str
    try:
        joined: Any = kind().join(items)
        lengths = np.fromiter(map(kind.__len__, items), np.int64, len(items))  # type: ignore[arg-type]
    except TypeError:
        at, item = next((at, item) for at, item in enumerate(items) if not issubclass(type(item), kind))
        raise TypeError(f"{name}: string {at} must be {kind.__name__}, got {type(item).__name__}") from None
    if kind is bytes:
        return _joined(np.frombuffer(joined, np.uint8), lengths, "bytes")
    if joined.isascii():
        return _joined(np.frombuffer(joined.encode(), np.uint8), lengths, "utf8")
    native = np.dtype(np.uint32).newbyteorder("<")
    symbols = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), native).astype(np.uint32, copy=False)
    return _joined(symbols, lengths, "utf32")


def _joined(symbols: np.ndarray, lengths: np.ndarray, encoding: str) -> tuple[_native.Strings, int]:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return _native.Strings(symbols, offsets, encoding), symbols.nbytes + offsets.nbytes
