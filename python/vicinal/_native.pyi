from collections.abc import Sequence
from typing import Annotated

import numpy
from numpy.typing import NDArray

class Report:
    """Certificate and stats of one call, by the names of their fields."""

    def certificate(self) -> dict: ...
    def stats(self) -> dict: ...

class Rows:
    """Two-dimensional numbers seen in place; holds their owner."""

    @staticmethod
    def from_buffer(array: object, name: str, bfloat16: bool) -> Rows: ...
    @staticmethod
    def from_dlpack(capsule: object | None, name: str, stream: int = 0) -> Rows: ...
    @staticmethod
    def from_address(address: int, shape: tuple, dtype: str, name: str, cuda_device: int, owner: object, stream: int = 0, strides: tuple | None = None) -> Rows: ...
    @property
    def shape(self) -> tuple: ...
    @property
    def dtype(self) -> str: ...
    def convert(self) -> int: ...
    @property
    def conversion_bytes(self) -> int: ...
    @property
    def cuda_device(self) -> int:
        """Ordinal of the device whose memory it is, -1: the host's."""

    @property
    def stream(self) -> int:
        """CUDA stream that its owner still works on, 0: none."""

    @property
    def data(self) -> int:
        """
        Address of element (0, 0): tests use it to see that nothing was copied.
        """

class ValueRows:
    """Rows of values seen in place; holds their owner."""

    @staticmethod
    def from_buffer(array: object, name: str, bfloat16: bool) -> ValueRows: ...
    @staticmethod
    def from_dlpack(capsule: object | None, name: str, payload: bool) -> ValueRows: ...
    @property
    def shape(self) -> tuple: ...
    @property
    def extents(self) -> tuple:
        """The shape as it was given: one dimension or two."""

    @property
    def dtype(self) -> str: ...

class Eligible:
    """Which rows may answer; holds the arrays."""

    def __init__(
        self,
        *,
        first: int,
        last: int,
        ids: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)] | None,
        bitmap: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order="C", device="cpu", writable=False)] | None,
        mask_rows: int,
        corpus_labels: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)] | None,
        query_labels: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)] | None,
        label_rule: str | None,
    ) -> None: ...

class Options:
    """Checked options of one call."""

    def __init__(
        self,
        *,
        k: int,
        metric: str,
        device: str,
        threads: int,
        memory: int,
        distance_type: str,
        pad: bool,
        degenerate: str,
        first_id: int,
        eligible: Eligible,
        ngram: int,
        max_length: int,
        progress: object | None,
        sort: str,
        stream: int = 0,
    ) -> None: ...
    @property
    def k(self) -> int: ...
    @property
    def pad(self) -> bool: ...
    @property
    def first_id(self) -> int: ...


def knn(corpus: Rows, queries: Rows, options: Options) -> tuple: ...
def knn_into(corpus: Rows, queries: Rows, options: Options, out: tuple) -> Report: ...
def distance_type(corpus: Rows, queries: Rows, options: Options) -> str: ...
def merge(
    parts: Sequence[
        tuple[
            Annotated[NDArray, dict(shape=(None, None), order="C", device="cpu", writable=False)],
            Annotated[NDArray, dict(shape=(None, None), order="C", device="cpu", writable=False)],
        ]
    ],
    k: int,
    metric: str,
    pad: bool,
) -> tuple: ...
def verify(
    corpus: Rows,
    queries: Rows,
    ids: Annotated[NDArray, dict(shape=(None, None), order="C", device="cpu", writable=False)],
    distances: Annotated[NDArray, dict(shape=(None, None), order="C", device="cpu", writable=False)] | None,
    options: Options,
    relative_tolerance: float,
) -> dict: ...
def ground_truth(
    base: list, queries: Rows, options: Options, tiers: Sequence[int], directory: bytes, verified_queries: int
) -> list: ...
def update_ground_truth(
    lists: tuple[
        Annotated[NDArray, dict(shape=(None, None), order="C", device="cpu", writable=False)],
        Annotated[NDArray, dict(shape=(None, None), order="C", device="cpu", writable=False)],
    ],
    base: list,
    queries: Rows,
    inserted: list,
    deleted: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    options: Options,
    directory: bytes,
    verified_queries: int,
) -> list: ...
def parse_bytes(text: str) -> int: ...

class Shape:
    """Rows, columns and element type, for plan."""

    def __init__(self, rows: int, cols: int, dtype: str, on_device: bool = False) -> None: ...

def plan(corpus: Shape, queries: Shape, options: Options) -> dict: ...
def plan_rows(corpus: Rows, queries: Shape, options: Options) -> dict: ...

class Corpus:
    """A prepared corpus that keeps borrowed rows alive."""

    def __init__(self, rows: Rows, options: Options, copy: bool) -> None: ...
    @staticmethod
    def open(path: bytes, options: Options, verify: bool, copy: bool) -> Corpus: ...
    def save(self, path: bytes) -> None: ...
    @staticmethod
    def opened(
        saved: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)], options: Options
    ) -> Corpus: ...
    def saved(self) -> object: ...
    def knn_graph(self, options: Options, include_self: bool, symmetrize: str | None) -> tuple: ...
    def range_search(self, queries: Rows, radius: float, options: Options, max_results: int) -> tuple: ...
    def verify(
        self,
        queries: Rows,
        ids: Annotated[NDArray, dict(shape=(None, None), order="C", device="cpu", writable=False)],
        distances: Annotated[NDArray, dict(shape=(None, None), order="C", device="cpu", writable=False)] | None,
        options: Options,
        relative_tolerance: float,
    ) -> dict: ...
    def knn(self, queries: Rows, options: Options) -> tuple: ...
    def knn_into(self, queries: Rows, options: Options, out: tuple) -> Report: ...
    def distance_type(self, queries: Rows, options: Options) -> str: ...
    @property
    def shape(self) -> tuple: ...
    @property
    def dtype(self) -> str: ...
    @property
    def metric(self) -> str: ...
    @property
    def resident(self) -> bool: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def prepare_seconds(self) -> float: ...

def knn_graph(rows: Rows, options: Options, include_self: bool, symmetrize: str | None) -> tuple: ...
def range_search(corpus: Rows, queries: Rows, radius: float, options: Options, max_results: int) -> tuple: ...
def plan_graph(rows: Shape, options: Options, include_self: bool) -> dict: ...
def plan_range(corpus: Shape, queries: Shape, options: Options) -> dict: ...
def plan_graph_rows(rows: Rows, options: Options, include_self: bool) -> dict: ...
def plan_range_rows(corpus: Rows, queries: Shape, options: Options, radius: float) -> dict: ...
def match_pairs(
    images: list,
    pairs: Annotated[NDArray[numpy.int64], dict(shape=(None, 2), order="C", device="cpu", writable=False)],
    options: Options,
    distance: str,
    ratio: float | None,
    max_distance: float | None,
    mutual: str,
    strict: bool,
    lone: str,
    guide: tuple | None,
    directory: bytes,
) -> tuple: ...
def match_presets() -> dict: ...
def image_pairs(how: str, images: int) -> object: ...
def select_k(
    values: ValueRows,
    payload: ValueRows | None,
    out: tuple,
    k: int,
    largest: bool,
    sorted: bool,
    algorithm: str,
    device: str,
    threads: int,
    stream: int,
) -> dict: ...
def select_algorithms() -> list: ...

class Strings:
    """Strings seen in place; holds their owner."""

    def __init__(
        self,
        data: Annotated[NDArray, dict(shape=(None,), order="C", device="cpu", writable=False)],
        offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        encoding: str,
    ) -> None: ...
    @staticmethod
    def from_arrow(schema: object, array: object, name: str) -> Strings: ...
    @property
    def shape(self) -> tuple: ...

def knn_strings(corpus: Strings, queries: Strings, options: Options) -> tuple: ...
def knn_graph_strings(rows: Strings, options: Options, include_self: bool, symmetrize: str | None) -> tuple: ...
def range_search_strings(
    corpus: Strings, queries: Strings, radius: float, options: Options, max_results: int
) -> tuple: ...
def plan_strings(corpus: Strings, queries: Strings, options: Options) -> dict: ...
def plan_graph_strings(rows: Strings, options: Options, include_self: bool) -> dict: ...
def plan_range_strings(corpus: Strings, queries: Strings, options: Options) -> dict: ...

class PermutationIndex:
    """An index that keeps borrowed rows alive."""

    def __init__(
        self,
        objects: Rows | Strings,
        options: Options,
        permutants: int | None,
        choice: str,
        given: Sequence[int],
        seed: int,
        rank_distance: str,
        form: str,
        prefix: int,
        window: int,
        bounds: bool,
        copy: bool,
    ) -> None: ...
    def knn(
        self, queries: Rows | Strings, options: Options, recall: float | None, fraction: float | None, exact: bool, tune_on: str
    ) -> tuple: ...
    def range(
        self,
        queries: Rows | Strings,
        radius: float,
        options: Options,
        recall: float | None,
        fraction: float | None,
        exact: bool,
        tune_on: str,
        max_results: int,
    ) -> tuple: ...
    @staticmethod
    def open(path: bytes, options: Options, verify: bool, copy: bool) -> PermutationIndex: ...
    @staticmethod
    def own(
        count: int,
        between: object,
        options: Options,
        permutants: int | None,
        choice: str,
        given: Sequence[int],
        seed: int,
        rank_distance: str,
        form: str,
        prefix: int,
    ) -> PermutationIndex: ...
    def knn_own(
        self, queries: int, distance: object, options: Options, recall: float | None, fraction: float | None, exact: bool, tune_on: str
    ) -> tuple: ...
    def range_own(
        self,
        queries: int,
        distance: object,
        radius: float,
        options: Options,
        recall: float | None,
        fraction: float | None,
        exact: bool,
        tune_on: str,
        max_results: int,
    ) -> tuple: ...
    def tune(self, options: Options, recall: float | None, fraction: float | None) -> tuple: ...
    def plan(self, queries: int, options: Options, recall: float | None, fraction: float | None, exact: bool) -> tuple: ...
    def save(self, path: bytes) -> None: ...
    @staticmethod
    def opened(
        saved: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)], options: Options
    ) -> PermutationIndex: ...
    def saved(self) -> object: ...
    @property
    def facts(self) -> dict: ...

def info() -> dict: ...
def devices() -> list: ...
def release_memory() -> int: ...
