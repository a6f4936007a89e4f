"""Results that users hand back: pairs (distances, ids), of vicinal or of others, in the layout that the library reads."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _inputs, _namespaces
from .errors import InvalidArgument


def result_pair(part: Any, where: str) -> tuple[np.ndarray, np.ndarray]:
    """(distances, ids) of a result or of a pair, in the layout that merge reads; ids as int64."""
    try:
        distances, ids = part
    except (TypeError, ValueError):
        raise TypeError(f"{where} must be a result or a pair (distances, ids), got {type(part).__name__}") from None
    distances, ids = np.asarray(_namespaces.to_host(distances)), ids_array(ids, where)
    if distances.shape != ids.shape:
        raise InvalidArgument(f"{where}: distances have shape {distances.shape}, ids {ids.shape}")
    return distances_array(distances, where), ids


def claim(result: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """ids and, where there are any, distances of a result that is to be verified."""
    if isinstance(result, tuple):
        distances, ids = result_pair(result, "result")
        return ids, distances
    return ids_array(result, "result"), None


def ids_array(ids: Any, where: str) -> np.ndarray:
    array = np.asarray(_namespaces.to_host(ids))
    if array.dtype.kind not in "iu":
        raise TypeError(f"{where}: ids must be integers, got dtype {array.dtype.name}")
    if array.ndim != 2:
        raise _not_two_dimensions(where, "ids", array)
    return _inputs.int64(array, f"{where}: id")


def distances_array(distances: Any, where: str) -> np.ndarray:
    array = np.asarray(distances)
    if array.dtype.name not in ("float32", "float64", "uint32"):
        raise TypeError(f"{where}: distances must be float32, float64 or uint32, got dtype {array.dtype.name}")
    if array.ndim != 2:
        raise _not_two_dimensions(where, "distances", array)
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))


def _not_two_dimensions(where: str, what: str, array: np.ndarray) -> InvalidArgument:
    return InvalidArgument(f"{where}: {what} must have 2 dimensions (Q,k), got {array.ndim} with shape {array.shape}")
