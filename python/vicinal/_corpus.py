"""A corpus prepared once and searched often."""

from __future__ import annotations

from functools import partial
from typing import Any, SupportsIndex

import numpy as np

from . import _inputs, _lists, _namespaces, _native, _results
from ._inputs import Memory, Progress
from ._results import CsrNeighbors, Neighbors, Verdict


class Corpus:
    """Rows prepared once for many searches; immutable, and safe to search from many threads at once.

    A pickle holds the bytes that :meth:`save` would write, rows of a CUDA device included, which come through the host: a Corpus
    goes to other processes (joblib, multiprocessing, Dask) without a path, out of band with protocol 5, and answers there to the bit as
    here. Unpickled it keeps those bytes as its rows, and its ``device``, ``threads`` and ``memory``. ``copy.copy`` is the object itself.

    Parameters
    ----------
    x : (n, d) array of numbers
        As in :func:`vicinal.knn`. Without ``copy`` the rows are borrowed: the Corpus keeps the array alive,
        and it must not be changed while the Corpus is used.
    metric, device, threads, memory, degenerate, progress :
        As in :func:`vicinal.knn`. metric and degenerate are fixed here; device, threads and memory are also
        what searches use unless they say otherwise. If the prepared form does not fit ``memory``, it
        is made again in each search (``resident`` is False then).
    copy : bool, default False
        Keep an own copy of the rows.

    Raises
    ------
    As :func:`vicinal.knn`, for what concerns the corpus.
    """

    __slots__ = ("_native", "_rows", "_copied_bytes", "_device", "_threads", "_memory", "_degenerate", "_there", "_usual", "__weakref__")

    def __init__(
        self,
        x: Any,
        metric: str = "euclidean",
        *,
        device: str = "auto",
        threads: int = 0,
        memory: Memory = None,
        degenerate: str = "error",
        copy: bool = False,
        progress: Progress = None,
    ) -> None:
        own = _inputs.flag("copy", copy)
        if own and _namespaces.on_cuda(x):
            x, own = _namespaces.of_device(x, "corpus").copied(), False
        rows, self._copied_bytes = _inputs.rows(x, "corpus")
        device = _inputs.device(device, rows)
        options = _inputs.options(
            metric=metric, device=device, threads=threads, memory=memory, degenerate=degenerate, progress=progress, sort="vectors",
            stream=_inputs.stream(rows),
        )  # fmt: skip
        self._native = _native.Corpus(rows, options, own)
        self._device, self._threads, self._memory, self._degenerate = device, threads, memory, degenerate
        self._there = x if rows.cuda_device >= 0 else None  # rows that only their own library brings to the host
        self._usual: tuple[int, _native.Options | None] = 0, None  # k of the last search that said nothing else, and its options
        self._rows = self._native.shape[0]

    @classmethod
    def open(
        cls,
        path: Any,
        *,
        verify: bool = True,
        copy: bool = False,
        device: str = "auto",
        threads: int = 0,
        memory: Memory = None,
        progress: Progress = None,
    ) -> Corpus:
        """A corpus that :meth:`save` wrote; it answers as the saved one did, to the bit.

        Parameters
        ----------
        path : str, bytes or os.PathLike
        verify : bool, default True
            Check every checksum of the file. False: those of its header alone, for a file that is known to be whole.
        copy : bool, default False
            Read the rows into memory. Otherwise the file stays mapped and must not be changed or shortened while
            the Corpus is used: a process that touches a lost part dies by SIGBUS.
        device, threads, memory, progress :
            As for a new Corpus. Metric and rule for degenerate rows come from the file.

        Raises
        ------
        IoError, FormatError, VersionError
            The system refuses the file; it is not what it says it is, or damaged; it is from a newer version.
        """
        options = _inputs.options(device=device, threads=threads, memory=memory, progress=progress)
        native = _native.Corpus.open(
            _inputs.path_bytes(path), options, _inputs.flag("verify", verify), _inputs.flag("copy", copy)
        )
        return cls._of(native, device, threads, memory)

    @classmethod
    def _of(cls, native: _native.Corpus, device: str, threads: int, memory: Memory) -> Corpus:
        self = cls.__new__(cls)
        self._native, self._copied_bytes, self._there, self._usual = native, 0, None, (0, None)
        self._rows = native.shape[0]
        # The rule for degenerate rows is the native object's own; searches ignore the one that options name.
        self._device, self._threads, self._memory, self._degenerate = device, threads, memory, "error"
        return self

    def __copy__(self) -> Corpus:
        return self

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        native = self._native
        if self._there is not None:
            rows = _inputs.rows(_namespaces.of_device(self._there, "corpus").on_host(), "corpus")[0]
            # Of this little memory nothing is prepared: the rows are only written.
            native = _native.Corpus(rows, _inputs.options(metric=self.metric, device="cpu", memory=1, degenerate=self._degenerate), False)
        settings = self._device, self._threads, self._memory
        own = getattr(self, "__dict__", None) or None
        return _unpickled, (type(self), _inputs.pickled(native.saved(), protocol), *settings), own

    def save(self, path: Any) -> None:
        """Writes rows, metric and rule for degenerate rows to `path`, which must end in ``.vicinal``.

        The bytes go to a new file in the same folder, which takes the name when it is complete and on the disk:
        whatever happens, the name holds the old file or the new one.

        Raises
        ------
        IoError, Unsupported
        """
        self._native.save(_inputs.path_bytes(path))

    def knn(
        self,
        queries: Any,
        k: int = 10,
        *,
        threads: int | None = None,
        memory: Memory = None,
        distance_type: Any = None,
        pad: bool = False,
        first_id: int = 0,
        eligible: Any = None,
        labels: Any = None,
        label_rule: str = "same",
        progress: Progress = None,
    ) -> Neighbors:
        """The k nearest rows for each query, bit for bit what :func:`vicinal.knn` returns.

        Parameters are those of :func:`vicinal.knn`; ``threads`` and ``memory`` default to the Corpus's own.

        Raises
        ------
        As :func:`vicinal.knn`.
        """
        rows, copied = _inputs.rows(queries, "query")
        usual = (
            type(k) is int and pad is False and type(first_id) is int and first_id == 0 and threads is None and memory is None
            and distance_type is None and eligible is None and labels is None and type(label_rule) is str and label_rule == "same"
            and progress is None
        )  # fmt: skip
        made_for, options = self._usual
        if options is None or not usual or made_for != k:
            options = self._options(
                threads, memory, k=k, distance_type=distance_type, pad=pad, first_id=first_id,
                eligible=_inputs.eligible(eligible, labels, label_rule), progress=progress,
            )  # fmt: skip
            if usual:
                self._usual = k, options
        native, columns, namespace = self._native, self._rows + (0 if usual else options.first_id), _namespaces.of(queries)
        if rows.cuda_device < 0:
            return _results.neighbors(native.knn(rows, options), copied, columns, namespace)
        found = _namespaces.search(
            namespace, (rows.shape[0], options.k), options.pad, native.distance_type(rows, options),
            partial(native.knn_into, rows, options),
        )  # fmt: skip
        return _results.neighbors(found, copied, columns)

    def knn_graph(
        self,
        k: int = 15,
        *,
        symmetrize: str | None = None,
        include_self: bool = False,
        threads: int | None = None,
        memory: Memory = None,
        distance_type: Any = None,
        pad: bool = False,
        eligible: Any = None,
        labels: Any = None,
        label_rule: str = "same",
        progress: Progress = None,
    ) -> Neighbors | CsrNeighbors:
        """The k nearest other rows of each row, bit for bit what :func:`vicinal.knn_graph` returns, errors included.

        Parameters are those of :func:`vicinal.knn_graph`; ``threads`` and ``memory`` default to the Corpus's own. Arrays of NumPy, or of
        torch and cupy where they hold the rows in memory of a CUDA device.

        Raises
        ------
        As :func:`vicinal.knn_graph`.
        """
        options = self._options(
            threads, memory, k=k, distance_type=distance_type, pad=pad,
            eligible=_inputs.eligible(eligible, labels, label_rule, graph=True), progress=progress,
        )  # fmt: skip
        how = None if symmetrize is None else _inputs.text("symmetrize", symmetrize)
        result = _results.neighbors if how is None else _results.csr_neighbors
        native = self._native.knn_graph(options, _inputs.flag("include_self", include_self), how)
        return result(native, 0, self.shape[0], None if self._there is None else _namespaces.of(self._there, "corpus"))

    def range_search(
        self,
        queries: Any,
        radius: float,
        *,
        max_results: int | None = None,
        threads: int | None = None,
        memory: Memory = None,
        distance_type: Any = None,
        first_id: int = 0,
        eligible: Any = None,
        labels: Any = None,
        label_rule: str = "same",
        progress: Progress = None,
    ) -> CsrNeighbors:
        """Every row within `radius` of each query, bit for bit what :func:`vicinal.range_search` returns, errors included.

        Parameters are those of :func:`vicinal.range_search`; ``threads`` and ``memory`` default to the Corpus's own.

        Raises
        ------
        As :func:`vicinal.range_search`.
        """
        rows, copied = _inputs.rows(queries, "query")
        options = self._options(
            threads, memory, distance_type=distance_type, first_id=first_id,
            eligible=_inputs.eligible(eligible, labels, label_rule), progress=progress, stream=_inputs.stream(rows),
        )  # fmt: skip
        native = self._native.range_search(rows, _inputs.real("radius", radius), options, _inputs.max_results(max_results))
        return _results.csr_neighbors(native, copied, self.shape[0] + options.first_id, _namespaces.of(queries))

    def verify(
        self,
        queries: Any,
        result: Any,
        *,
        threads: int | None = None,
        memory: Memory = None,
        first_id: int = 0,
        eligible: Any = None,
        labels: Any = None,
        label_rule: str = "same",
        relative_tolerance: float = 0.0,
        progress: Progress = None,
    ) -> Verdict:
        """Checks a result against the exact answer over these rows, as :func:`vicinal.verify` does.

        Parameters are those of :func:`vicinal.verify`; ``threads`` and ``memory`` default to the Corpus's own.

        Raises
        ------
        As :func:`vicinal.verify`, and DeviceError where the rows are in memory of a CUDA device: claimed rows are looked at on the host.
        """
        options = self._options(
            threads, memory, first_id=first_id, eligible=_inputs.eligible(eligible, labels, label_rule), progress=progress
        )
        ids, distances = _lists.claim(result)
        tolerance = _inputs.real("relative_tolerance", relative_tolerance)
        return _results.verdict(self._native.verify(_inputs.rows(queries, "query")[0], ids, distances, options, tolerance))

    def _options(self, threads: int | None, memory: Memory, **more: Any) -> _native.Options:
        """Of a search: the Corpus's own where it says nothing else."""
        return _inputs.options(
            metric=self.metric, device=self._device, threads=self._threads if threads is None else threads,
            memory=self._memory if memory is None else memory, degenerate=self._degenerate, **more,
        )  # fmt: skip

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d)."""
        return self._native.shape

    @property
    def dtype(self) -> Any:
        """Element type of the rows: a numpy.dtype ("bfloat16" as text where NumPy has no such type)."""
        return _inputs.numpy_dtype(self._native.dtype)

    @property
    def metric(self) -> str:
        return self._native.metric

    @property
    def resident(self) -> bool:
        """The prepared form is kept in memory between searches."""
        return self._native.resident

    @property
    def nbytes(self) -> int:
        """Bytes of memory held beyond the borrowed rows."""
        return self._native.nbytes + self._copied_bytes

    @property
    def prepare_seconds(self) -> float:
        """Wall time that the preparation took."""
        return self._native.prepare_seconds

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        rows, columns = self.shape
        return f"<vicinal.Corpus {rows} x {columns} {self.dtype}, {self.metric}, {self.nbytes} bytes held>"


def _unpickled(cls: type[Corpus], saved: Any, device: str, threads: int, memory: Memory) -> Corpus:
    """Of the bytes in a pickle, which the corpus borrows; every checksum is verified."""
    options = _inputs.options(device=device, threads=threads, memory=memory)
    return cls._of(_native.Corpus.opened(np.frombuffer(saved, np.uint8), options), device, threads, memory)
