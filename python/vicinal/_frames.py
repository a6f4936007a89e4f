"""Data frames and columns of arrays: of pandas, pyarrow and polars, none of which is imported here.

The columns of a frame become one array of the type that NumPy promotes theirs to, each exactly; what cannot is refused by the
name of its column. A frame of one block of numbers is seen in place.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from .errors import InvalidArgument, InvalidValue


def array(x: Any, name: str) -> tuple[np.ndarray, int] | None:
    """`x` as an array, and the bytes that had to be copied; None of what is no frame and no column of arrays."""
    if hasattr(x, "iloc") and getattr(x, "ndim", 0) == 2:  # pandas
        labels, columns = list(x.columns), [x.iloc[:, at] for at in range(x.shape[1])]
        if len(columns) != 1 or not _holds_arrays(columns[0]):
            return _in_place(x, columns) or _gathered(labels, columns, len(x), name)
        x = columns[0]
    if hasattr(x, "iloc") and getattr(x, "ndim", 0) == 1:
        return _stacked(x, name) if _holds_arrays(x) else None
    if hasattr(x, "column_names") and hasattr(x, "num_rows") and x.num_columns != 1:  # a table of pyarrow
        return _gathered(x.column_names, x.columns, x.num_rows, name)
    if hasattr(x, "get_columns") and hasattr(x, "height"):  # polars
        columns = x.get_columns()
        return _gathered(x.columns, columns, x.height, name) if len(columns) != 1 or not _lists(columns[0]) else None
    return None


def _lists(column: Any) -> bool:
    return str(getattr(column, "dtype", "")).startswith(("Array(", "List("))


def _holds_arrays(column: Any) -> bool:
    """A pandas column whose items are arrays, lists or tuples."""
    kind = str(column.dtype)
    if kind.startswith(("list<", "fixed_size_list<", "large_list<")):
        return True
    return kind == "object" and len(column) > 0 and isinstance(column.iloc[0], (np.ndarray, list, tuple))


def _in_place(frame: Any, columns: list) -> tuple[np.ndarray, int] | None:
    """The frame's own memory, where it is one block of one of NumPy's types."""
    if not columns or any(column.dtype != columns[0].dtype or not isinstance(column.dtype, np.dtype) for column in columns):
        return None
    if columns[0].dtype.kind not in "fiub":
        return None
    block = np.asarray(frame)
    return (block, 0) if np.may_share_memory(block, np.asarray(columns[0])) else (block, block.nbytes)


def _gathered(labels: Any, columns: Any, count: int, name: str) -> tuple[np.ndarray, int]:
    numbers = [_numbers(column, f"{name}: column {label!r}") for label, column in zip(labels, columns)]
    if not numbers:
        return np.empty((count, 0), np.float32), 0
    kind = np.result_type(*(column.dtype for column in numbers))
    if kind.kind in "iu" and kind.itemsize > 1:
        kind = np.result_type(kind, np.float32)  # as integers of one block become
    table = np.empty((count, len(numbers)), kind)
    for at, (label, column) in enumerate(zip(labels, numbers)):
        table[:, at] = column
        if column.dtype.kind in "iu" and column.dtype.itemsize == 8 and kind.kind == "f":
            check_exact(table[:, at], column, f"{name}: column {label!r}")
    return table, table.nbytes


def check_exact(floats: np.ndarray, given: Any, where: str, what: str = "row") -> None:
    """64-bit integers as float64: those beyond 2^53 are compared as Python's own. given: may hold floats too. what: each of them is in the message."""
    for row in np.flatnonzero(_beyond(floats)).tolist():
        try:
            exact = operator.index(given[row]) == int(floats[row])
        except TypeError:  # no integer
            continue
        if not exact:
            raise InvalidValue(f"{where}, {what} {row} is {given[row]}: integers beyond 2^53 have no exact float64; "
                               "subtract an offset, or scale them down")  # fmt: skip


def check_exact_rows(floats: np.ndarray, given: Any, name: str, first: int = 0) -> None:
    """The same of a table of float64, whose row 0 is row `first` of what the message is about. given: the table as it was, or lists of rows."""
    for row in np.flatnonzero(_beyond(floats).any(axis=1)).tolist():
        check_exact(floats[row], np.asarray(given[row], object), f"{name} row {first + row}", "column")


def _beyond(floats: np.ndarray) -> np.ndarray:
    """Where not every integer is a float64."""
    return (floats >= 2.0**53) | (floats <= -(2.0**53))


def _numbers(column: Any, where: str) -> np.ndarray:
    """A column of NumPy's, of pandas' nullable or of Arrow's numbers or bools, as NumPy's."""
    kind = getattr(column, "dtype", None)
    kind = getattr(column, "type", None) if kind is None else kind
    missing = missing_rows(column)
    if missing.size and not (isinstance(kind, np.dtype) and kind.kind == "f"):
        raise InvalidValue(f"{where}, row {missing[0]} is missing ({missing.size} in all); drop or fill it")
    if isinstance(kind, np.dtype):
        values = column.to_numpy()
    else:
        numpy_kind = getattr(kind, "numpy_dtype", None)  # of pandas; of Arrow's strings and dates: object
        known = isinstance(numpy_kind, np.dtype) and numpy_kind.kind in "fiub"
        values = column.to_numpy(dtype=numpy_kind) if known else np.asarray(column)
    if values.dtype.kind not in "fiub":
        item = f" ({type(values[0]).__name__} in row 0)" if values.dtype == object and len(values) else ""
        raise TypeError(f"{where} holds {kind}{item}, which is no number; drop it, or convert it")
    return values


def missing_rows(column: Any) -> np.ndarray:
    """Rows that hold no value: NA of pandas, null of Arrow."""
    if hasattr(column, "isna"):
        return np.flatnonzero(np.asarray(column.isna(), bool))
    if getattr(column, "null_count", 0):
        nulls = column.is_null()
        return np.flatnonzero(np.asarray(nulls, bool))
    return np.empty(0, np.int64)


def _stacked(column: Any, name: str) -> tuple[np.ndarray, int]:
    """Items of one length, one below the other."""
    where = name if column.name is None else f"{name}: column {column.name!r}"
    items, width, kinds = [], None, set()
    for row, item in enumerate(column):
        if not isinstance(item, (np.ndarray, list, tuple)):
            raise TypeError(f"{where}, row {row} is {type(column.iloc[row]).__name__}, row 0 an array")
        values = np.asarray(item)
        if values.ndim != 1:
            raise InvalidArgument(f"{where}, row {row} has {values.ndim} dimensions, an item has 1")
        if values.dtype == np.float64 and not isinstance(item, np.ndarray):  # integers among them, perhaps
            check_exact(values, item, f"{where}, row {row}", "element")
        width = len(values) if width is None else width
        if len(values) != width:
            raise InvalidArgument(f"{where}, row {row} has {len(values)} values, row 0 has {width}")
        if values.dtype.kind not in "fiub":
            raise TypeError(f"{where}, row {row} holds {values.dtype.name}, which is no number")
        kinds.add(values.dtype)
        items.append(values)
    table = np.empty((len(items), width or 0), np.result_type(*kinds))
    for row, values in enumerate(items):
        table[row] = values
        if values.dtype.kind in "iu" and values.dtype.itemsize == 8 and table.dtype.kind == "f":
            check_exact(table[row], values, f"{where}, row {row}", "element")
    return table, table.nbytes
