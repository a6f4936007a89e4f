"""The rows of a part of a distributed search: opened where a task runs, and named in its errors."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from . import _inputs
from ._row_files import RowSlice
from .errors import InvalidValue


def rows(part: Any) -> Any:
    """The rows of a part as an array: slices of files are opened, lists are joined in their order.

    Raises
    ------
    InvalidValue
        A list is of several types, and an integer of 64 bits is none of theirs all.
    """
    return opened(part, "rows")


def opened(part: Any, name: str) -> Any:
    """The same; a message is about that side."""
    if isinstance(part, RowSlice):
        return part.read()
    if isinstance(part, list) and len(part) > 1 and all(isinstance(piece, RowSlice) for piece in part):
        kind = _inputs.common_type(*(piece.file.dtype for piece in part))
        whole = np.empty((sum(piece.shape[0] for piece in part), part[0].shape[1]), kind)
        start = 0
        for piece in part:
            rows_of_piece = whole[start : start + piece.shape[0]]
            piece.file.read_into(rows_of_piece, piece.first)
            if kind.kind == "f" and np.dtype(piece.file.dtype).kind in "iu":
                _inputs.check_part(rows_of_piece, piece.read(), name, start)
            start += piece.shape[0]
        return whole
    if isinstance(part, list):
        return _inputs.joined([rows(piece) for piece in part], name)
    return part


class Named:
    """Says in an InvalidValue which file, and which row of the whole, a row of a part or a block is."""

    def __init__(self, part: Any, first_id: int, block: Any, first_query: int) -> None:
        self._sides = {"corpus": (part, first_id, "corpus"), "query": (block, first_query, "query")}

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        told = re.match(r"(corpus|query) row (\d+)(.*)", str(error), re.DOTALL) if isinstance(error, InvalidValue) else None
        if told:
            part, first, side = self._sides[told[1]]
            row = int(told[2])
            file, inside = _place(part, row)
            where = f"{file} row {inside} ({side} row {first + row})" if file else f"{side} row {first + row}"
            raise InvalidValue(where + re.sub(r"( rows?)( in all)?\)", r"\1 of this part)", told[3], count=1)) from None


def _place(part: Any, row: int) -> tuple[str, int]:
    """The file of a part's row, and the row's number in it; "" where it is of no file."""
    for piece in part if isinstance(part, list) else [part]:
        count = piece.shape[0]
        if row < count:
            return (piece.file.path, piece.first + row) if isinstance(piece, RowSlice) else ("", row)
        row -= count
    return "", row
