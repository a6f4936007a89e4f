"""Results in the arrays that a caller brought."""

from __future__ import annotations

from typing import Any

from ..errors import InvalidArgument


def filled(*named: tuple[str, Any, Any]) -> Any:
    """Of each (name, result, place) the place with the result in it, or the result where there is no place.

    Before any is written, TypeError for what is no array, and InvalidArgument for a place of another shape or dtype,
    which would repeat or round values.
    """
    for name, result, place in named:
        if place is not None and not hasattr(place, "dtype"):
            raise TypeError(f"{name} must be an array, got {type(place).__name__}")
        if place is not None and _described(place) != _described(result):
            raise InvalidArgument(f"{name} is to be {_described(result)}, got {_described(place)}")
    for _, result, place in named:
        if place is not None:
            place[...] = result
    return tuple(result if place is None else place for _, result, place in named)


def _described(array: Any) -> str:
    return f"{tuple(array.shape)} {str(array.dtype).removeprefix('torch.')}"
