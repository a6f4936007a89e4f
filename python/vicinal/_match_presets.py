"""How other tools match features, as keywords of vicinal.match: the library's table (src/pipeline/match_presets.cpp) in Python's words."""

from __future__ import annotations

from typing import Any

from . import _native

_KEYWORDS = ("distance", "ratio", "max_distance", "mutual", "strict", "lone")
_MUTUAL = {"tested": True, "nearest": "nearest", "one_way": False}


def _keywords(tests: tuple[Any, ...]) -> dict[str, Any]:
    found = dict(zip(_KEYWORDS, tests))
    return {**found, "mutual": _MUTUAL[found["mutual"]]}


PRESETS: dict[str, dict[str, Any]] = {name: _keywords(tests) for name, tests in _native.match_presets().items()}
