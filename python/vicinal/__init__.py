"""vicinal: which k things are nearest to this one, exactly?

    import vicinal
    distances, ids = vicinal.knn(corpus, queries, k=10, metric="cosine")

The answer is the first k rows by (returned distance, id), proved for every query, and its bits depend on
values, metric and k alone: not on the instruction set, the threads, the memory or the number of parts.
``knn_graph`` lists each row's nearest others, ``range_search`` everything within a radius; ``eligible`` and
``labels`` say which rows may answer. ``Corpus`` prepares once for many searches, ``plan`` tells memory and time
before the work, ``merge`` joins results of parts, ``verify`` checks any tool's result, ``ground_truth`` is the answer for a base of any size, ``info`` and ``devices``
describe this machine. ``select_k`` is the k smallest or largest values of every row, by any of ``select_algorithms()``.
``match`` and ``match_pairs`` match the features of images, by ratio and both ways.
``PermutationIndex`` answers approximately, or exactly, where distances are costly. ``vicinal.neighbors`` has scikit-learn's
estimators on top of it, ``vicinal.compat`` the calls of other libraries; ``patch_sklearn`` brings it to programs that know
nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import _inputs, _lists, _namespaces, _native, _results, errors
from ._corpus import Corpus
from ._graph import knn_graph, plan_graph
from ._index_results import IndexPlan, PermutationNeighbors, PermutationRange, Recall, Tuning
from ._inputs import Memory, Progress
from ._match import Matches, PairMatches, match, match_pairs
from ._permutation import PermutationIndex
from ._range import plan_range, range_search
from ._results import Certificate, CsrNeighbors, Device, Fault, Info, Neighbors, Plan, Stats, Verdict
from ._select import SelectAlgorithm, Selection, SelectStats, select_algorithms, select_k
from ._truth import ground_truth, update_ground_truth
from .errors import (
    Cancelled,
    CapacityExceeded,
    DeviceError,
    Error,
    FormatError,
    Internal,
    InvalidArgument,
    InvalidValue,
    IoError,
    MemoryBudget,
    OutOfMemory,
    RangeError,
    Unsupported,
    VersionError,
)

if TYPE_CHECKING:
    from .accel import patch_sklearn, unpatch_sklearn

__all__ = [
    "knn", "knn_graph", "range_search", "Corpus", "IndexPlan", "PermutationIndex", "PermutationNeighbors", "PermutationRange", "Recall", "Tuning", "plan", "plan_graph", "plan_range", "merge", "verify", "ground_truth", "update_ground_truth", "devices",
    "match", "match_pairs", "Matches", "PairMatches", "info", "release_memory", "select_k", "select_algorithms", "Selection", "SelectStats", "SelectAlgorithm", "Neighbors", "CsrNeighbors", "Certificate", "Stats", "Plan", "Device", "Info", "Verdict", "Fault", "errors",
    "Error", "InvalidArgument", "InvalidValue", "RangeError", "CapacityExceeded", "MemoryBudget", "OutOfMemory",
    "DeviceError", "IoError", "FormatError", "VersionError", "Cancelled", "Unsupported", "Internal", "patch_sklearn",
    "unpatch_sklearn",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """What other libraries are needed for, or few programs want, is imported when it is asked for."""
    if name in ("patch_sklearn", "unpatch_sklearn"):
        return getattr(import_module(".accel", __name__), name)
    if name in ("neighbors", "compat", "accel", "plots", "distributed", "dask", "ray"):
        return import_module("." + name, __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def knn(
    corpus: Any,
    queries: Any,
    k: int = 10,
    metric: str = "euclidean",
    *,
    device: str = "auto",
    threads: int = 0,
    memory: Memory = None,
    distance_type: Any = None,
    pad: bool = False,
    degenerate: str = "error",
    first_id: int = 0,
    eligible: Any = None,
    labels: Any = None,
    label_rule: str = "same",
    ngram: int = 0,
    max_length: int = 65535,
    progress: Progress = None,
) -> Neighbors:
    """The k nearest rows of `corpus` for each row of `queries`, certified exact.

    Parameters
    ----------
    corpus : (n, d) array
    queries : (Q, d) array
        float32, float64, float16, bfloat16, uint8, int8 or bool (0 and 1), of any strides, alignment and byte order:
        NumPy arrays, and anything with DLPack on the CPU or the buffer protocol, are read in place.
        Integers of 16 bits are converted to float32, those of 32 and 64 bits to float64, exactly or not at all: where their values
        fit, ``astype(np.uint8)`` or ``np.int8`` takes an eighth of that memory.
        So are Arrow columns of lists of one length, numpy.memmap, and HDF5 datasets of h5py that lie in one piece.
        Lists, data frames (nullable and Arrow columns too, or one column of arrays) and HDF5 datasets in chunks are converted once
        (``stats.copied_bytes``; ``memory`` does not count that). Q may be 0. NaN, infinity and missing values are refused.
        Or strings, (n,) and (Q,): lists of str or bytes, NumPy arrays of them, Arrow arrays (read in place), a pandas
        column. A symbol is a code point of a str, as it is (nothing is normalised), or a byte.
        Or tensors of torch, arrays of cupy and others with DLPack or ``__cuda_array_interface__`` in memory of a CUDA device: they
        are read there, what has gaps is made dense there first, and the search begins after what is queued on the library's current
        stream (``__cuda_array_interface__``: its ``stream``). It returns when the results are complete. A stream that captures a
        CUDA graph is Unsupported.
    k : int, default 10
        Neighbours a query, at most the rows that may answer it; above only with ``pad``.
    metric : str, default "euclidean"
        "sqeuclidean", "euclidean", "cosine", "correlation", "inner_product" (larger is nearer), "l1"
        ("cityblock", "manhattan"), "linf" ("chebyshev"), "hamming" (differing bits of packed uint8 rows).
        Of strings: "levenshtein" (insertions, deletions and substitutions L), "normalized_levenshtein"
        ``2 L / (|a| + |b| + L)``, "hamming" (differing positions; one length), "jaccard" (of sets of tokens).
    device : str, default "auto"
        "auto", "cpu", "cuda" or "cuda:N"; see :func:`devices`. auto: the CUDA device whose memory holds a side, else the CPU.
        "cuda:all", or several such as "cuda:0,cuda:1": each searches a share of the rows or of the queries; arrays are in the host's memory.
    threads : int, default 0
        0: as many as the affinity mask and the cgroup quota allow; one where a search on the CPU is over before another would be awake.
    memory : int, str or None, default None
        Bytes that the search may use beyond what the process holds, results not counted: 268435456,
        "256MiB", "1.5 GB". None: what is free, less a tenth. The answer does not depend on it.
    distance_type : None, "f32", "f64", "u32" or a dtype, default None
        Type of the returned distances. None: float64 if either side is float64 or integers of 32 or 64 bits, uint32 for hamming
        and levenshtein, else float32. The order is that of the returned values, ties by smaller id.
    pad : bool, default False
        With k above the eligible rows: fill up with id -1 and the worst distance, and return ``counts``.
    degenerate : "error" or "one", default "error"
        A zero row under cosine, a constant row under correlation: refused, or at distance 1 to everything.
    first_id : int, default 0
        id of corpus row 0, so that parts of a larger corpus return global ids.
    eligible : (n,) bool array, array of ids, range or slice of ids; default None, every row
        Which rows may answer: where True, or of these ids (as they are returned: ``first_id`` counts; ids outside
        the corpus are of no use). int64 ids are read in place, a mask is packed into bits. k counts what is left.
    labels : (corpus_labels, query_labels), integers (n,) and (Q,); default None
        Which rows may answer which query: ``label_rule`` says. Holds together with ``eligible``.
    label_rule : "same" or "other", default "same"
        Only rows of the query's label may answer, or only rows of another. Of no use without ``labels``.
    ngram : int, default 0
        jaccard: tokens are the runs of this many symbols; 0: the words between white space.
    max_length : int, default 65535
        Strings of more symbols are refused.
    progress : callable, True or None, default None
        Called now and then as progress(done, total) in this thread; returning False raises Cancelled. True: a bar
        of tqdm, if that is installed.

    Returns
    -------
    Neighbors
        ``.distances`` (Q, k), ``.ids`` (Q, k) int64, ``.certificate``, ``.stats``, ``.counts``, ``.to_csr()``;
        unpacks as (distances, ids). Arrays of torch, cupy or the array API's library whose the queries are, where those are;
        of NumPy for all others, and where that library has no such type, as jax has none of 64 bits by default.

    Raises
    ------
    TypeError
        An argument or an array is of the wrong Python type.
    InvalidArgument, InvalidValue, RangeError, Unsupported
        Also ValueError. A parameter, a value in the data, or a distance beyond its type.
    MemoryBudget, OutOfMemory
        Also MemoryError; the first before any work, stating the least that would do.
    DeviceError
        Also RuntimeError.
    Cancelled
        ``progress`` returned False. Ctrl-C raises KeyboardInterrupt within 100 ms.
    """
    corpus_rows, query_rows, copied = _inputs.sides(corpus, queries)
    options = _inputs.options(
        k=k, metric=metric, device=_inputs.device(device, corpus_rows, query_rows), threads=threads, memory=memory,
        distance_type=distance_type, pad=pad, degenerate=degenerate, first_id=first_id,
        eligible=_inputs.eligible(eligible, labels, label_rule), ngram=ngram, max_length=max_length, progress=progress,
        sort=corpus_rows, stream=_inputs.stream(corpus_rows, query_rows),
    )  # fmt: skip
    columns, namespace = corpus_rows.shape[0] + options.first_id, _namespaces.of(queries)
    if getattr(query_rows, "cuda_device", -1) < 0:
        return _results.neighbors(_inputs.call("knn", corpus_rows, query_rows, options), copied, columns, namespace)
    native = _namespaces.search(
        namespace, (query_rows.shape[0], options.k), options.pad, _native.distance_type(corpus_rows, query_rows, options),
        lambda out: _native.knn_into(corpus_rows, query_rows, options, out),
    )  # fmt: skip
    return _results.neighbors(native, copied, columns)


def plan(
    corpus: Any,
    queries: Any,
    k: int = 10,
    metric: str = "euclidean",
    *,
    dtype: Any = "float32",
    device: str = "auto",
    threads: int = 0,
    memory: Memory = None,
    distance_type: Any = None,
    pad: bool = False,
    eligible: Any = None,
    labels: Any = None,
    label_rule: str = "same",
    ngram: int = 0,
    max_length: int = 65535,
) -> Plan:
    """What :func:`knn` would do and need, without doing it; ``print(plan(...))`` reads well.

    :func:`plan_graph` and :func:`plan_range` are its like for the other searches.

    Parameters
    ----------
    corpus, queries : (rows, columns) or arrays
        A shape is taken with ``dtype``; an array brings its own. Of a corpus that is an array some hundred to some thousand rows are looked at, in
        milliseconds: they tell which filter the search will begin with and how many rows it will leave. Strings are read. What a search would
        convert first is counted in a note.
    dtype : dtype or name, default "float32"
        Element type of what is given as a shape.
    k, metric, device, threads, memory, distance_type, pad, eligible, labels, label_rule, ngram, max_length :
        As in :func:`knn`. k is held against all rows: what a filter leaves is counted by the search.

    Raises
    ------
    What the search itself would raise before its work: InvalidArgument, Unsupported, DeviceError, MemoryBudget.
    """
    options = _inputs.options(
        k=k, metric=metric, device=_inputs.device(device, corpus, queries), threads=threads, memory=memory,
        distance_type=distance_type, pad=pad, eligible=_inputs.eligible(eligible, labels, label_rule), ngram=ngram,
        max_length=max_length, sort=_inputs.sort_of(corpus),
    )  # fmt: skip
    return Plan(**_inputs.plan("plan", options, dtype, dict(corpus=corpus, query=queries)))


def merge(
    parts: Iterable[Neighbors | tuple[Any, Any]],
    k: int | None = None,
    metric: str = "euclidean",
    pad: bool = False,
) -> Neighbors:
    """One result from the results of parts of a corpus; any tree of merges gives the bits of one search.

    Parameters
    ----------
    parts : iterable of results or of pairs (distances, ids)
        All of the same number of rows and distance type, ids already global (``first_id``) and distinct
        across parts. Entries with id -1 are skipped.
    k : int or None
        Width of the merged result. None: that of the widest part.
    metric : str, default "euclidean"
        That of the searches: "inner_product" ranks descending.
    pad : bool, default False
        Fill up when all parts together hold fewer than k entries, and return ``counts``.

    Raises
    ------
    TypeError, InvalidArgument
    """
    if isinstance(parts, Neighbors):
        raise TypeError("parts must be a list of results, got one result")
    pairs = [_lists.result_pair(part, f"part {number}") for number, part in enumerate(parts)]
    width = 0
    if k is not None:
        width = _inputs.integer("k", k)
        if width < 1:
            raise InvalidArgument(f"k must be >= 1, got {width}")
    native = _native.merge(pairs, width, _inputs.text("metric", metric), _inputs.flag("pad", pad))
    return _results.neighbors(native)


def verify(
    corpus: Any,
    queries: Any,
    result: Any,
    metric: str = "euclidean",
    *,
    device: str = "auto",
    threads: int = 0,
    memory: Memory = None,
    degenerate: str = "error",
    first_id: int = 0,
    eligible: Any = None,
    labels: Any = None,
    label_rule: str = "same",
    relative_tolerance: float = 0.0,
    progress: Progress = None,
) -> Verdict:
    """Checks a result, ours or any tool's, against the exact answer.

    Parameters
    ----------
    corpus, queries, metric, device, threads, memory, degenerate, first_id, eligible, labels, label_rule, progress :
        As in :func:`knn`.
    result : Neighbors, a pair (distances, ids), or an array of ids
        (Q, k); distances float32, float64 or uint32.
    relative_tolerance : float, default 0
        Distances within it tie: a row is right where each of its ids, all of them different and eligible, is at a distance
        within it of the true one at that rank, in any order and choice, and each claimed distance within it of the id's own. 1e-5 suits
        tools that compute in float32. 0 compares bits, and takes ties by smaller id alone.

    Returns
    -------
    Verdict
        ``.ok()``, the numbers of rows right and wrong by kind, and every faulty row with the distance given and the right one.

    Raises
    ------
    TypeError, InvalidArgument
        A result of another type, or of another number of rows than there are queries.
    DeviceError
        Rows in memory of a CUDA device: claimed rows are looked at on the host.
    Error
        What else :func:`knn` raises.
    """
    options = _inputs.options(
        metric=metric, device=device, threads=threads, memory=memory, degenerate=degenerate, first_id=first_id,
        eligible=_inputs.eligible(eligible, labels, label_rule), progress=progress, sort="vectors",
    )  # fmt: skip
    ids, distances = _lists.claim(result)
    corpus_rows, query_rows = _inputs.rows(corpus, "corpus")[0], _inputs.rows(queries, "query")[0]
    tolerance = _inputs.real("relative_tolerance", relative_tolerance)
    return _results.verdict(_native.verify(corpus_rows, query_rows, ids, distances, options, tolerance))


def devices() -> tuple[Device, ...]:
    """Where a search could run: the CPU first; what is absent is listed with the reason."""
    return tuple(Device(**device) for device in _native.devices())


def release_memory() -> int:
    """Gives back to the drivers what CUDA devices keep of their memory between calls, for another library: at most 4 GiB each, or an eighth
    while a Corpus is prepared there.

    Returns how many bytes that were. A prepared Corpus stays, and the next search takes memory anew, in about 1 ms a GiB.

    Raises
    ------
    DeviceError
    """
    return _native.release_memory()


def info() -> Info:
    """Version, instruction sets, filters, backends and devices of this build on this machine."""
    return _results.info(_native.info())


__version__ = _native.info()["version"]
