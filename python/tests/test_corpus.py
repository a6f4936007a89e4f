"""Corpus.knn_graph, .range_search and .verify: what the functions of the same names return, and their errors."""

import inspect

import numpy as np
import oracle
import pytest
import vicinal


def same(one, other):
    arrays = ("offsets", "distances", "ids") if isinstance(one, vicinal.CsrNeighbors) else ("distances", "ids")
    assert type(one) is type(other) and one.columns == other.columns and one.certificate.all()
    for name in arrays:
        assert oracle.same_bits(getattr(one, name), getattr(other, name)), name


@pytest.fixture
def tables(rng):
    return rng.standard_normal((700, 24)).astype(np.float32), rng.standard_normal((12, 24)).astype(np.float32)


@pytest.mark.parametrize("memory", [None, "200MB", 1], ids=["kept", "budget", "not kept"])
@pytest.mark.parametrize("metric", ["euclidean", "cosine", "inner_product", "linf"])
def test_the_same_bits(tables, metric, memory):
    rows, queries = tables
    corpus = vicinal.Corpus(rows, metric, memory=memory)
    assert corpus.resident == (memory != 1)
    given = {} if memory != 1 else {"memory": "200MB"}
    labels, asked = np.arange(700) % 3, np.arange(12) % 3
    for options in ({}, {"include_self": True, "symmetrize": "union"}, {"symmetrize": "mutual", "eligible": range(50, 600), "pad": True},
                    {"labels": labels, "label_rule": "other", "distance_type": "f64"}):  # fmt: skip
        same(corpus.knn_graph(9, **options, **given), vicinal.knn_graph(rows, 9, metric, **options))
    found = corpus.knn(queries, 20, **given)
    radius = float(found.distances[:, 12].max())
    for options in ({}, {"first_id": 1000, "eligible": range(1100, 1600)}, {"labels": (labels, asked)}, {"distance_type": "f64"}):
        same(corpus.range_search(queries, radius, **options, **given), vicinal.range_search(rows, queries, radius, metric, **options))
    assert corpus.verify(queries, found, **given).ok() and corpus.verify(queries, found.ids, **given).ok()
    wrong = found.ids.copy()
    wrong[3, 5] = vicinal.knn(rows, queries[3:4], 700, metric).ids[0, -1]
    one, other = corpus.verify(queries, (found.distances, wrong), **given), vicinal.verify(rows, queries, (found.distances, wrong), metric)
    assert one.faults == other.faults and [(fault.row, fault.kind, fault.rank) for fault in one.faults] == [(3, "wrong", 5)]
    assert one.faults[0].expected == found.distances[3, 5] != one.faults[0].given
    assert (one.wrong, one.correct, one.recall) == (other.wrong, other.correct, other.recall) == (1, 11, 239 / 240)
    shifted = vicinal.knn(rows, queries, 5, metric, first_id=70)
    assert corpus.verify(queries, shifted, first_id=70, **given).ok() and not corpus.verify(queries, shifted, **given).ok()


def test_signatures_are_those_of_the_functions():
    fixed = {"corpus", "x", "metric", "device", "degenerate", "ngram", "max_length"}
    for name in ("knn", "knn_graph", "range_search", "verify"):
        method = {n: p.default for n, p in inspect.signature(getattr(vicinal.Corpus, name)).parameters.items() if n != "self"}
        function = {n: p.default for n, p in inspect.signature(getattr(vicinal, name)).parameters.items() if n not in fixed}
        assert list(method) == list(function)
        assert method == function | {"threads": None}  # the Corpus's own


def test_the_same_errors(tables):
    rows, queries = tables
    corpus = vicinal.Corpus(rows)
    calls = [
        (lambda: corpus.knn_graph(700), lambda: vicinal.knn_graph(rows, 700)),
        (lambda: corpus.knn_graph(3, symmetrize="both"), lambda: vicinal.knn_graph(rows, 3, symmetrize="both")),
        (lambda: corpus.range_search(queries, np.nan), lambda: vicinal.range_search(rows, queries, np.nan)),
        (lambda: corpus.range_search(queries[:, :3], 1), lambda: vicinal.range_search(rows, queries[:, :3], 1)),
        (lambda: corpus.range_search(queries, 99, max_results=5), lambda: vicinal.range_search(rows, queries, 99, max_results=5)),
        (lambda: corpus.range_search(queries, 1, max_results=0), lambda: vicinal.range_search(rows, queries, 1, max_results=0)),
        (lambda: corpus.verify(queries, np.zeros((3, 2), int)), lambda: vicinal.verify(rows, queries, np.zeros((3, 2), int))),
        (lambda: corpus.verify(queries, "ids"), lambda: vicinal.verify(rows, queries, "ids")),
        (lambda: corpus.verify(queries, np.zeros((12, 2), int), relative_tolerance=-1),
         lambda: vicinal.verify(rows, queries, np.zeros((12, 2), int), relative_tolerance=-1)),
    ]  # fmt: skip
    for one, other in calls:
        with pytest.raises((vicinal.Error, TypeError)) as wanted:
            other()
        with pytest.raises(type(wanted.value)) as raised:
            one()
        assert str(raised.value) == str(wanted.value)


def test_progress_and_cancelling(tables):
    rows, queries = tables
    corpus = vicinal.Corpus(rows)
    for call in (lambda **with_: corpus.knn_graph(3, **with_), lambda **with_: corpus.range_search(queries, 1.0, **with_),
                 lambda **with_: corpus.verify(queries, np.zeros((12, 2), int), **with_)):  # fmt: skip
        heard = []
        call(progress=lambda done, total, heard=heard: heard.append(done))
        assert heard
        with pytest.raises(vicinal.Cancelled):
            call(progress=lambda done, total: False)


def test_near_ties_of_float32_pass_within_the_tolerance(rng):
    """What scikit-learn's float32 brute force and faiss do: the expanded square, in float32, and its own order."""
    queries = rng.standard_normal((30, 40)).astype(np.float32)
    steps = rng.standard_normal((30, 20, 40))
    rows = (queries[:, None] + steps / np.linalg.norm(steps, axis=2, keepdims=True)).astype(np.float32).reshape(-1, 40)
    squares = (queries * queries).sum(1)[:, None] + (rows * rows).sum(1) - 2 * queries @ rows.T
    ids = np.argsort(squares, axis=1, kind="stable")[:, :10]
    distances = np.sqrt(np.take_along_axis(squares, ids, 1))
    for corpus in (None, vicinal.Corpus(rows)):
        verify = (lambda *a, **k: vicinal.verify(rows, *a, **k)) if corpus is None else corpus.verify
        strict = verify(queries, ids)
        assert strict.wrong > 20 and strict.near_ties == 0
        for claim in (ids, (distances, ids)):
            verdict = verify(queries, claim, relative_tolerance=1e-4)
            assert verdict.ok() and verdict.near_ties > 20 and verdict.recall < 1
        far = ids.copy()
        far[4, 9] = (ids[4, 0] + 300) % 600
        verdict = verify(queries, far, relative_tolerance=1e-4)
        assert [(fault.row, fault.kind, fault.rank) for fault in verdict.faults] == [(4, "wrong", 9)]
        assert verdict.faults[0].given > 1.5 and verdict.faults[0].expected == pytest.approx(1, rel=1e-5)
