"""Rows of numbers in the containers of other libraries: Arrow lists, HDF5 datasets. None of those is imported here."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from .errors import InvalidArgument, InvalidValue


def is_list_column(x: Any) -> bool:
    """An Arrow column whose items are lists, or tensors: of pyarrow, or of polars."""
    kind = str(getattr(x, "type", None) or getattr(x, "dtype", ""))
    tensors = "extension<arrow.fixed_shape_tensor"
    return kind.startswith(("fixed_size_list", "list<", "large_list", tensors, "Array(", "List("))


def array(x: Any, name: str) -> tuple[np.ndarray, int] | None:
    """`x` as an array, and the bytes that had to be copied; None of what is no such container."""
    if hasattr(x, "tocsr"):
        raise TypeError(f"{name}: sparse rows are not supported; x.toarray() is the same rows, dense")
    if hasattr(x, "column_names") and hasattr(x, "num_rows") and x.num_columns == 1:  # a table of pyarrow
        x = x.column(0)
    if hasattr(x, "get_columns") and x.width == 1:  # a data frame of polars
        x = x.to_series()
    if (hasattr(x, "__arrow_c_array__") or hasattr(x, "__arrow_c_stream__")) and is_list_column(x):
        return _from_arrow(x.to_arrow() if hasattr(x, "to_arrow") else x, name)
    if type(x).__module__.startswith("h5py.") and hasattr(x, "chunks"):
        return _from_hdf5(x)
    return None


def _from_arrow(column: Any, name: str) -> tuple[np.ndarray, int]:
    """Items of equal length lie one after another in Arrow: the values' buffer is the table."""
    copied = 0
    if hasattr(column, "chunks"):
        if column.num_chunks == 1:
            column = column.chunk(0)
        else:
            column = column.combine_chunks()
            copied = column.nbytes
            if hasattr(column, "chunks"):
                column = column.chunk(0)
    if len(getattr(column.type, "shape", (0,))) != 1:  # of tensors, which lie in lists
        raise InvalidArgument(f"{name}: items are tensors of shape {tuple(column.type.shape)}; rows have 1 dimension")
    column = getattr(column, "storage", column)
    if column.null_count:
        raise InvalidValue(f"{name}: {column.null_count} rows are null")
    values = column.flatten()
    if values.null_count:
        raise InvalidValue(f"{name}: {values.null_count} values are null")
    width = getattr(column.type, "list_size", None)
    if width is None:
        lengths = np.diff(column.offsets.to_numpy())
        width = int(lengths[0]) if len(lengths) else 0
        odd = np.flatnonzero(lengths != width)
        if odd.size:
            raise InvalidArgument(f"{name}: row {odd[0]} has {lengths[odd[0]]} values, row 0 has {width}")
    try:
        flat = values.to_numpy(zero_copy_only=True)
    except (ValueError, TypeError):
        raise TypeError(f"{name}: unsupported dtype {column.type}") from None
    return flat.reshape(len(column), width), copied


def _from_hdf5(dataset: Any) -> tuple[np.ndarray, int]:
    """A contiguous dataset is mapped where it lies in the file; one in chunks is read."""
    file = dataset.file
    offset = dataset.id.get_offset()
    if offset is not None and file.driver == "sec2" and not dataset.external and dataset.dtype.kind in "fiu" and _stored_as_numpy(dataset):
        if file.mode != "r":
            file.flush()
        # Of the file that is open, whose name may be another's by now; not by its own handle, which holds HDF5's lock.
        try:
            return np.memmap(f"/proc/self/fd/{file.id.get_vfd_handle()}", dataset.dtype, "r", offset, dataset.shape), 0
        except (OSError, ValueError):  # no /proc; a file that was cut short
            pass
    rows = dataset[...]
    return rows, rows.nbytes


def _stored_as_numpy(dataset: Any) -> bool:
    """Whether elements lie in the file as in memory: h5py converts others (bfloat16, floats of 3 bytes, integers of 12 bits) as it reads."""
    return dataset.id.get_type() == sys.modules["h5py"].h5t.py_create(dataset.dtype)
