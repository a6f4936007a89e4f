"""Tensors of torch in, tensors of torch out; NumPy arrays stay NumPy arrays. torch is not imported here."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np


def is_tensor(x: Any) -> bool:
    return type(x).__module__.partition(".")[0] == "torch"


def to_host(x: Any) -> np.ndarray:
    """Seen in place where the CPU can read it."""
    return x.detach().cpu().numpy() if is_tensor(x) else np.asarray(x)


def like(x: Any, *results: np.ndarray) -> tuple[Any, ...]:
    """The results as what `x` is, where `x` is."""
    if not is_tensor(x):
        return results
    torch = sys.modules["torch"]
    return tuple(torch.from_numpy(np.ascontiguousarray(result)).to(x.device) for result in results)
