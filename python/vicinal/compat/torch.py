"""torch.topk, with ties by smallest position."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .._namespaces import library
from .._inputs import integer
from .._select import select_k
from ..errors import InvalidArgument
from ._places import filled


class TopK(NamedTuple):
    values: Any
    indices: Any


def topk(
    input: Any, k: int, dim: int | None = None, largest: bool = True, sorted: bool = True, *, out: Any = None
) -> TopK:
    """The k largest (or smallest) values along a dimension, and where they stand.

    Parameters
    ----------
    input : tensor or array of any number of dimensions from 1
        On the CPU or a CUDA device; see :func:`vicinal.select_k`.
    k : int
    dim : int or None
        None: the last.
    largest, sorted : bool
    out : pair of tensors, or None
        Of the results' shape and dtypes, which are filled and returned; tensors of no elements are resized first.

    Returns
    -------
    TopK
        A named tuple (values, indices); as torch has it, NaN is the largest value here.
    """
    axes = input.ndim
    if axes == 0:
        raise InvalidArgument("input has no dimension to select along")
    axis = axes - 1 if dim is None else integer("dim", dim)
    if not -axes <= axis < axes:
        raise InvalidArgument(f"dim={axis} of an input with {axes} dimensions")
    swap = (lambda x: x.swapaxes(axis, axes - 1)) if axes > 1 else (lambda x: x)
    rows = swap(input)
    shape = rows.shape
    found = _nan_largest(rows.reshape(math.prod(shape[:-1]), shape[-1]), k, largest, sorted)
    values, indices = (swap(x.reshape(*shape[:-1], k)) for x in found)
    places: Any = (None, None) if out is None else out
    for place in places:
        if hasattr(place, "resize_") and place.numel() == 0:
            place.resize_(values.shape)
    return TopK(*filled(("values", values, places[0]), ("indices", indices, places[1])))


def _nan_largest(rows: Any, k: int, largest: bool, sorted: bool) -> tuple[Any, Any]:
    """select_k has NaN after everything; torch has it above everything, which is the same when the smallest are wanted."""
    found = select_k(rows, k, largest=largest, sorted=sorted)
    dtype = str(rows.dtype)
    if not largest or "float" not in dtype or not bool((rows != rows).any()):
        return found[0], found[1]
    # NaN first, by position; then the largest of the rest: an order of a stable sort by what select_k finds in all.
    whole = select_k(rows, rows.shape[-1], largest=True)
    values, ids = whole[0], whole[1]
    nan = values != values
    if library(rows) == "torch":
        import torch

        order = torch.argsort((~nan).to(torch.int8), dim=-1, stable=True)[:, :k]
        return torch.gather(values, -1, order), torch.gather(ids, -1, order)
    order = np.argsort(~nan, axis=-1, kind="stable")[:, :k]
    return np.take_along_axis(values, order, -1), np.take_along_axis(ids, order, -1)
