"""hloc's matcher by nearest neighbours, and its files::

    from vicinal.compat.hloc import match_from_paths
    match_from_paths({"ratio_threshold": 0.8}, "pairs.txt", "matches.h5", "features.h5")     # needs h5py

Descriptors are compared by their inner product, as in hloc, which has them of length 1; sums are of 64 bits, and ties go to the smaller row.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from .. import _inputs, _namespaces
from .._corpus import Corpus
from .._results import on_host
from ..errors import FormatError, InvalidArgument, Unsupported

__all__ = ["NearestNeighbor", "match_from_paths"]

_FLUSHED = 256  # pairs that a kill may lose
_HELD = 1 << 30  # bytes of descriptors that stay in memory


class NearestNeighbor:
    """hloc's matchers.nearest_neighbor.

    Parameters
    ----------
    conf : dict, default {}
        ratio_threshold : float or None, default None
            A row is matched where 2 (1 - best) <= ratio_threshold^2 * 2 (1 - second); not where a side has one row.
        distance_threshold : float or None, default None
            And where 2 (1 - best) <= distance_threshold^2.
        do_mutual_check : bool, default True
            And where both ways name each other.
    """

    default_conf = {"ratio_threshold": None, "distance_threshold": None, "do_mutual_check": True}
    required_inputs = ["descriptors0", "descriptors1"]

    def __init__(self, conf: dict[str, Any] | None = None) -> None:
        given = {key: value for key, value in dict(conf or {}).items() if key != "name"}
        unknown = sorted(given.keys() - self.default_conf.keys())
        if unknown:
            raise InvalidArgument(f"conf has {', '.join(map(repr, unknown))}; it takes {', '.join(self.default_conf)}")
        self.conf = {**self.default_conf, **given}
        for key in ("ratio_threshold", "distance_threshold"):
            if self.conf[key] is not None:
                _inputs.real(key, self.conf[key])

    def eval(self) -> NearestNeighbor:  # as a torch module has it
        return self

    def to(self, device: Any) -> NearestNeighbor:
        """Nothing moves: rows are searched where they are."""
        return self

    def __call__(self, data: dict[str, Any]) -> dict[str, Any]:
        """data: descriptors0 (B, D, N0) and descriptors1 (B, D, N1).

        Returns matches0 (B, N0) int64, -1 where there is none, and matching_scores0 (B, N0) float32, (1 + best) / 2.
        """
        for name in self.required_inputs:
            if name not in data:
                raise InvalidArgument(f"{name} is missing in the data")
        sides = data["descriptors0"], data["descriptors1"]
        if len(sides[0].shape) != 3 or len(sides[1].shape) != 3 or sides[0].shape[0] != sides[1].shape[0]:
            raise InvalidArgument(f"descriptors must be (B, D, N), got {tuple(sides[0].shape)} and {tuple(sides[1].shape)}")
        found = [self.match(_rows(one), _rows(other)) for one, other in zip(*sides)]
        shape = len(found), sides[0].shape[2]
        matches = np.array([one[0] for one in found], np.int64).reshape(shape)
        scores = np.array([one[1] for one in found], np.float32).reshape(shape)
        return {"matches0": _like(sides[0], matches), "matching_scores0": _like(sides[0], scores)}

    forward = __call__

    def match(self, rows0: Any, rows1: Any) -> tuple[np.ndarray, np.ndarray]:
        """The same of rows (N0, D) and (N1, D): matches (N0,) int64 and scores (N0,) float32."""
        if not len(rows0) or not len(rows1):
            return np.full(len(rows0), -1, np.int64), np.zeros(len(rows0), np.float32)
        ratio = self.conf["ratio_threshold"] if len(rows0) > 1 and len(rows1) > 1 else None
        matches, scores = self._one_way(rows0, rows1, ratio)
        if self.conf["do_mutual_check"]:
            back, _ = self._one_way(rows1, rows0, ratio)
            matches = np.where((matches >= 0) & (back[matches] == np.arange(len(matches))), matches, -1)
        return matches, scores

    def _one_way(self, rows0: Any, rows1: Any, ratio: float | None) -> tuple[np.ndarray, np.ndarray]:
        products, ids = Corpus(rows1, "inner_product").knn(rows0, 2 if ratio else 1, distance_type="f64")
        alike, near = on_host(products), on_host(ids)
        squares = 2 * (1 - alike)
        kept = np.ones(len(near), bool)
        if ratio:
            kept &= squares[:, 0] <= ratio**2 * squares[:, 1]
        if self.conf["distance_threshold"]:
            kept &= squares[:, 0] <= self.conf["distance_threshold"] ** 2
        return np.where(kept, near[:, 0], -1), np.where(kept, (alike[:, 0] + 1) / 2, 0).astype(np.float32)


def match_from_paths(
    conf: dict[str, Any],
    pairs_path: str | os.PathLike,
    match_path: str | os.PathLike,
    feature_path_q: str | os.PathLike,
    feature_path_ref: str | os.PathLike | None = None,
    overwrite: bool = False,
) -> None:
    """Matches the pairs of a text file, two names a line, with features of HDF5, and writes HDF5, as hloc's match_features does.

    conf : dict
        Of :class:`NearestNeighbor`, or with that under "model".
    match_path :
        Group "name0/name1" (with "-" for "/" in a name) with matches0 (N0,) int16, int32 of 32,768 rows and more, and matching_scores0 (N0,) float16.
        Written beside, in the folder NAME.part, with whose pairs the same call goes on after a kill, and renamed. Pairs that it has are left out.
    feature_path_q, feature_path_ref :
        A group a picture, with descriptors (D, N); those of the second names, where they are in another file.
    overwrite : bool, default False
        Match the pairs that are there again.

    Raises FormatError for a name without descriptors, naming file and picture, or a line that is not two names; InvalidArgument for a NAME.part of
    another conf or of other features (by sizes and times of their files), which stays, but with `overwrite`, that another process is at, or that
    this module did not make.
    """
    try:
        import h5py
    except ImportError as error:
        raise ImportError("vicinal.compat.hloc reads and writes HDF5 by h5py (pip install h5py)") from error
    model = conf.get("model", conf)
    if model.get("name", "nearest_neighbor") != "nearest_neighbor":
        raise Unsupported(f"the model {model['name']!r} is not nearest_neighbor")
    matcher = NearestNeighbor(model)
    target = Path(match_path)
    with h5py.File(feature_path_q, "r") as queries, h5py.File(feature_path_ref or feature_path_q, "r") as references:
        sides = _Features(queries), _Features(references)
        pairs = list(_pairs(pairs_path))
        for name0, name1 in pairs:  # before the work
            sides[0].check(name0)
            sides[1].check(name1)
        stats = [os.stat(path) for path in (feature_path_q, feature_path_ref or feature_path_q)]
        run = json.dumps([matcher.conf, [(stat.st_size, stat.st_mtime_ns) for stat in stats], overwrite], sort_keys=True, default=float)
        with _Pieces(target, run, overwrite) as pieces:
            for name0, name1 in pairs:
                if pieces.has(name0, name1):
                    continue
                matches, scores = matcher.match(sides[0].rows(name0), sides[1].rows(name1))
                few = len(sides[1].rows(name1)) <= np.iinfo(np.int16).max + 1
                pieces.add(_group(name0, name1), matches.astype(np.int16 if few else np.int32), scores.astype(np.float16))
            pieces.publish()


class _Pieces:
    """Matches that are found, in a folder beside their target: files of some hundred pairs, each whole or not there. `run` says what they are of."""

    def __init__(self, target: Path, run: str, overwrite: bool) -> None:
        self._target, self._overwrite = target, overwrite
        self._folder = target.with_name(target.name + ".part")
        self._waiting: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        if self._folder.is_file():
            raise InvalidArgument(f"{self._folder} is a file, and pairs that are done are kept in a folder of that name; remove it")
        self._folder.mkdir(exist_ok=True)
        if not (self._folder / "run").exists() and any(self._folder.iterdir()):
            raise InvalidArgument(f"{self._folder} is no folder of a matching, and pairs that are done are kept in one of that name; move it")
        self._run = open(self._folder / "run", "a+")
        try:
            self._open(run)
        except BaseException:
            self._run.close()
            raise

    def _open(self, run: str) -> None:
        try:
            fcntl.flock(self._run, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InvalidArgument(f"{self._folder}: another process is at it") from None
        self._run.seek(0)
        known = self._run.read()
        if known not in ("", run) and not self._overwrite:
            raise InvalidArgument(f"{self._folder} has pairs of another matching, {known} (this one: {run}); go on with that one, or remove the folder")
        if known != run:
            self._clear()
            self._run.truncate(0)
            self._run.write(run)
            self._run.flush()
        self._done: set[str] = set()
        for piece in self._files():
            self._done |= _groups(piece)
        if self._target.exists() and not self._overwrite:
            self._done |= _groups(self._target)

    def __enter__(self) -> _Pieces:
        return self

    def __exit__(self, *error: Any) -> None:
        self._run.close()

    def _files(self) -> list[Path]:
        named = [path for path in self._folder.iterdir() if re.fullmatch(r"[0-9]+\.h5", path.name)]
        return sorted(named, key=lambda path: int(path.stem))

    def _clear(self) -> None:
        for path in [*self._files(), self._folder / "unfinished", self._folder / "whole"]:
            path.unlink(missing_ok=True)

    def has(self, name0: str, name1: str) -> bool:
        return _group(name0, name1) in self._done or _group(name1, name0) in self._done

    def add(self, group: str, matches: np.ndarray, scores: np.ndarray) -> None:
        self._waiting[group] = matches, scores
        if len(self._waiting) >= _FLUSHED:
            self._save()

    def _save(self) -> None:
        import h5py

        files, unnamed = self._files(), self._folder / "unfinished"
        with h5py.File(unnamed, "w") as out:
            for group, (matches, scores) in self._waiting.items():
                out[f"{group}/matches0"], out[f"{group}/matching_scores0"] = matches, scores
        os.replace(unnamed, self._folder / f"{int(files[-1].stem) + 1 if files else 0}.h5")
        self._waiting.clear()

    def publish(self) -> None:
        """All pairs, those of the target before among them, take its name; then the folder goes."""
        if self._waiting:
            self._save()
        if self._files() or not self._target.exists():
            self._replace()
        self._clear()
        (self._folder / "run").unlink()
        with suppress(OSError):  # files of others stay
            self._folder.rmdir()

    def _replace(self) -> None:
        import h5py

        whole = self._folder / "whole"
        whole.unlink(missing_ok=True)  # of a run that was killed
        if self._target.exists():
            shutil.copy(self._target, whole)
        with h5py.File(whole, "a", libver="latest") as out:
            for path in self._files():
                with h5py.File(path, "r") as piece:
                    for group in _groups(path):
                        first, second = group.split("/")
                        for there in (group, f"{second}/{first}"):
                            if there in out:
                                del out[there]
                        piece.copy(group, out.require_group(first), second)
        os.replace(whole, self._target)


def _groups(path: Path) -> set[str]:
    """Pairs of a file."""
    import h5py

    with h5py.File(path, "r") as file:
        names = [f"{first}/{second}" for first in file if isinstance(file[first], h5py.Group) for second in file[first]]
        return {name for name in names if "matches0" in file[name]}


class _Features:
    """Descriptors of a file as rows; the pictures that were asked for last stay in memory."""

    def __init__(self, file: Any) -> None:
        self._file, self._bytes = file, 0
        self._held: OrderedDict[str, np.ndarray] = OrderedDict()

    def check(self, name: str) -> None:
        if name not in self._file or "descriptors" not in self._file[name]:
            raise FormatError(f"{self._file.filename} has no descriptors of {name!r}")
        shape = self._file[name]["descriptors"].shape
        if len(shape) != 2:
            raise FormatError(f"{self._file.filename}: descriptors of {name!r} have shape {shape}, not (D, N)")

    def rows(self, name: str) -> np.ndarray:
        if name not in self._held:
            self._held[name] = np.ascontiguousarray(self._file[name]["descriptors"][()].T)
            self._bytes += self._held[name].nbytes
            while self._bytes > _HELD and len(self._held) > 1:
                self._bytes -= self._held.popitem(last=False)[1].nbytes
        self._held.move_to_end(name)
        return self._held[name]


def _pairs(path: str | os.PathLike) -> Iterator[tuple[str, str]]:
    """Each pair once, whichever way round, the first first."""
    known = set()
    for number, line in enumerate(Path(path).read_text().splitlines(), 1):
        names = line.split()
        if not names:
            continue
        if len(names) != 2:
            raise FormatError(f"{os.fspath(path)}:{number}: expected two names, got {len(names)}")
        if frozenset(names) not in known:
            known.add(frozenset(names))
            yield names[0], names[1]


def _group(name0: str, name1: str) -> str:
    return "/".join(name.replace("/", "-") for name in (name0, name1))


def _rows(descriptors: Any) -> Any:
    """(D, N) as rows that lie side by side, where they are."""
    turned = descriptors.T
    return turned.contiguous() if hasattr(turned, "contiguous") else np.ascontiguousarray(turned)


def _like(tensor: Any, values: np.ndarray) -> Any:
    if _namespaces.library(tensor) != "torch":
        return values
    import torch

    return torch.from_numpy(values).to(tensor.device)
