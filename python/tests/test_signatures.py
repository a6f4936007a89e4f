"""Names and defaults that other programs rely on; a change here is a change of the interface."""

import doctest
import inspect

import pytest
import vicinal

KNN = {
    "corpus": ..., "queries": ..., "k": 10, "metric": "euclidean", "device": "auto", "threads": 0, "memory": None,
    "distance_type": None, "pad": False, "degenerate": "error", "first_id": 0, "eligible": None,
    "labels": None, "label_rule": "same", "ngram": 0, "max_length": 65535, "progress": None,
}  # fmt: skip
GRAPH = {
    "x": ..., "k": 15, "metric": "euclidean", "symmetrize": None, "include_self": False, "device": "auto", "threads": 0,
    "memory": None, "distance_type": None, "pad": False, "degenerate": "error", "eligible": None, "labels": None,
    "label_rule": "same", "ngram": 0, "max_length": 65535, "progress": None,
}  # fmt: skip
RANGE = {
    "corpus": ..., "queries": ..., "radius": ..., "metric": "euclidean", "max_results": None, "device": "auto",
    "threads": 0, "memory": None, "distance_type": None, "degenerate": "error", "first_id": 0, "eligible": None,
    "labels": None, "label_rule": "same", "ngram": 0, "max_length": 65535, "progress": None,
}  # fmt: skip
CORPUS = {
    "x": ..., "metric": "euclidean", "device": "auto", "threads": 0, "memory": None, "degenerate": "error",
    "copy": False, "progress": None,
}  # fmt: skip
ALSO = {
    "InvalidArgument": ValueError, "InvalidValue": ValueError, "RangeError": ValueError, "FormatError": ValueError,
    "VersionError": ValueError, "Unsupported": ValueError, "MemoryBudget": MemoryError, "OutOfMemory": MemoryError,
    "CapacityExceeded": MemoryError, "IoError": OSError, "DeviceError": RuntimeError, "Internal": RuntimeError,
    "Cancelled": Exception,
}  # fmt: skip


def described(function):
    parameters = inspect.signature(function).parameters
    empty = inspect.Parameter.empty
    return {name: ... if p.default is empty else p.default for name, p in parameters.items() if name != "self"}


def positional(function):
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return [name for name, p in inspect.signature(function).parameters.items() if p.kind == kind]


def test_knn_and_corpus():
    assert described(vicinal.knn) == KNN
    assert described(vicinal.Corpus.__init__) == CORPUS
    assert positional(vicinal.knn) == ["corpus", "queries", "k", "metric"]
    fixed = ("corpus", "metric", "device", "degenerate", "ngram", "max_length")
    assert list(described(vicinal.Corpus.knn)) == [name for name in KNN if name not in fixed]
    assert described(vicinal.Corpus.knn)["k"] == 10
    assert described(vicinal.merge) == {"parts": ..., "k": None, "metric": "euclidean", "pad": False}
    assert list(described(vicinal.plan))[:4] == ["corpus", "queries", "k", "metric"]


def test_graph_and_range():
    assert described(vicinal.knn_graph) == GRAPH and positional(vicinal.knn_graph) == ["x", "k", "metric"]
    assert described(vicinal.range_search) == RANGE
    assert positional(vicinal.range_search) == ["corpus", "queries", "radius", "metric"]
    for plan, search in ((vicinal.plan_graph, GRAPH), (vicinal.plan_range, RANGE), (vicinal.plan, KNN)):
        shared = {name: default for name, default in described(plan).items() if name not in ("dtype", "radius")}
        assert shared.items() <= search.items() and described(plan)["dtype"] == "float32"
    assert described(vicinal.plan_range)["radius"] is None  # a plan of shapes needs none
    for function in (vicinal.Neighbors.to_csr, vicinal.CsrNeighbors.to_csr):
        assert described(function) == {"n_columns": None}


@pytest.mark.parametrize("name", ["_graph", "_range"])
def test_examples_in_docstrings(name):
    tested = doctest.testmod(getattr(vicinal, name))
    assert tested.attempted >= 5 and tested.failed == 0


def test_everything_public_has_a_docstring_and_types():
    for name in vicinal.__all__:
        thing = getattr(vicinal, name)
        assert thing.__doc__, name
        if inspect.isfunction(thing):
            assert all(
                p.annotation is not inspect.Parameter.empty for p in inspect.signature(thing).parameters.values()
            )
            assert inspect.signature(thing).return_annotation is not inspect.Signature.empty


@pytest.mark.parametrize("name, builtin", ALSO.items())
def test_exceptions(name, builtin):
    kind = getattr(vicinal, name)
    assert issubclass(kind, vicinal.Error) and issubclass(kind, builtin)
    assert kind.code == name == kind("text").code
    assert str(kind("text")) == "text"


def test_io_error_is_a_full_oserror():
    error = vicinal.IoError(2, "cannot open X")
    assert error.errno == 2 and error.strerror == "cannot open X"
