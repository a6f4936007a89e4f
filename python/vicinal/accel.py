"""scikit-learn's searches by vicinal, in programs that say nothing of vicinal::

    vicinal.patch_sklearn()                          # before or after the program's own imports
    python -m vicinal.accel [--quiet] script.py ...  # the same for a whole script, with a report at its end

``patch_sklearn`` puts the classes of ``vicinal.neighbors`` where scikit-learn's own of the same names are, in every
module of scikit-learn too, so that TSNE, Isomap or LabelSpreading use them. ``report()`` tells what ran where.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import Any

VICINAL, SCIKIT_LEARN = "vicinal", "scikit-learn"

# Packages that search neighbours by code of their own, which no patch of scikit-learn reaches, and what there is for them.
_OUT_OF_REACH = {
    "faiss": "vicinal.compat.faiss has its calls", "pynndescent": "vicinal.compat.pynndescent has its calls",
    "cuvs": "vicinal.compat.cuvs has its calls", "torch_cluster": "vicinal.compat.torch_cluster has its calls",
    "pytorch3d": "vicinal.compat.pytorch3d has its calls", "openTSNE": "vicinal.compat.opentsne gives it neighbours",
    "umap": "its precomputed_knn takes those of vicinal.knn_graph(..., include_self=True)",
    "hdbscan": "", "hnswlib": "", "annoy": "", "nmslib": "", "usearch": "", "scann": "", "voyager": "", "ngtpy": "", "cuml": "",
    "pykeops": "", "rapidfuzz": "",
}  # fmt: skip


@dataclass
class Call:
    """Calls of one method of one class that ran in one place, and their wall time. reason: why not in vicinal."""

    estimator: str
    method: str
    where: str
    reason: str
    calls: int = 0
    seconds: float = 0.0


_recording = False
_calls: dict[tuple[str, ...], Call] = {}
_theirs: dict[type, type] = {}  # scikit-learn's class of each of ours, while those are in its place
_asked_for: set[tuple[str, str]] = set()  # modules and names that held ours before


@contextlib.contextmanager
def noted(estimator: Any, method: str, where: str) -> Iterator[None]:
    """Times what runs inside, while a report is wanted."""
    if not _recording:
        yield
        return
    start = time.perf_counter()
    try:
        yield
    finally:
        reason = "" if where == VICINAL else _reason(estimator)
        key = (type(estimator).__name__, method, where, reason)
        call = _calls.setdefault(key, Call(*key))
        call.calls += 1
        call.seconds += time.perf_counter() - start


def _reason(estimator: Any) -> str:
    metric = getattr(estimator, "metric", None)
    if estimator._fit_method != "brute":
        return f"algorithm={estimator._fit_method}"
    if not isinstance(metric, str) or estimator._served_metric() is None:
        return f"metric={metric if isinstance(metric, str) else getattr(metric, '__name__', type(metric).__name__)}"
    return "sparse rows" if estimator._prepared is None else "sparse rows or an array of radii"


def patch_sklearn() -> None:
    """Puts vicinal's estimators in the place of scikit-learn's, everywhere; calls are counted for :func:`report`.

    Objects that exist already stay what they are. A second call changes nothing.
    """
    global _recording
    from . import neighbors as ours  # says what is missing where scikit-learn is

    from sklearn import neighbors as theirs

    _recording = True
    if _theirs:
        return
    replacement = {getattr(theirs, name): getattr(ours, name) for name in ours.__all__}
    _theirs.update({our: their for their, our in replacement.items()})
    _asked_for.update(place for place, _ in _holders(_theirs))
    _replace(replacement)


def unpatch_sklearn() -> None:
    """Undoes :func:`patch_sklearn`, also in modules imported since; what was counted stays in :func:`report`.

    One of those that imported classes of ``vicinal.neighbors`` by name has scikit-learn's then.
    """
    global _recording
    _recording = False
    _replace(_theirs, _asked_for)
    _theirs.clear()
    _asked_for.clear()


def _holders(classes: Container[type]) -> list[tuple[tuple[str, str], type]]:
    """Where modules but ours have one of these classes: the module's name and the class's there; and the class."""
    return [
        ((name, attribute), value)
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] != "vicinal"
        for attribute, value in list(getattr(module, "__dict__", {}).items())
        if issubclass(type(value), type) and value in classes  # isinstance would ask objects that only pretend
    ]


def _replace(classes: dict[type, type], kept: Container[tuple[str, str]] = ()) -> None:
    for place, value in _holders(classes):
        if place not in kept:
            setattr(sys.modules[place[0]], place[1], classes[value])


def calls() -> tuple[Call, ...]:
    """What was counted since :func:`patch_sklearn`, most time first."""
    return tuple(sorted(_calls.values(), key=lambda call: -call.seconds))


def out_of_reach() -> tuple[str, ...]:
    """Packages that this program has imported and that search neighbours by code of their own."""
    return tuple(name for name in _OUT_OF_REACH if name in sys.modules)


def report() -> str:
    """What ran where, a line a kind of call, and the packages that search by code of their own (:func:`out_of_reach`)."""
    lines = [f"{'estimator':27}{'method':18}{'where':14}{'calls':>6}{'seconds':>9}  why not vicinal"]
    lines += [
        f"{c.estimator:27}{c.method:18}{c.where:14}{c.calls:6}{c.seconds:9.3f}  {c.reason}".rstrip() for c in calls()
    ]
    if not _calls:
        lines = ["no search of neighbours was made"]
    lines += [f"not reached: {name}" + f" ({_OUT_OF_REACH[name]})" * bool(_OUT_OF_REACH[name]) for name in out_of_reach()]
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    quiet = arguments[:1] == ["--quiet"]
    arguments = arguments[quiet:]
    if not arguments or arguments[0].startswith("-"):
        print("usage: python -m vicinal.accel [--quiet] script.py [argument ...]", file=sys.stderr)
        return 2
    import runpy
    from pathlib import Path

    from vicinal import accel  # this file runs as __main__; what is counted is counted in the module

    sys.argv = arguments
    sys.path[0] = str(Path(arguments[0]).resolve().parent)
    accel.patch_sklearn()
    try:
        runpy.run_path(arguments[0], run_name="__main__")
    finally:
        if not quiet:
            print(accel.report(), file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
