"""Which rows may answer: masks, ids, ranges and labels, in knn, Corpus.knn and verify."""

import sys
import weakref

import numpy as np
import oracle
import pytest
import vicinal
from vicinal import _inputs

N, Q = 70, 5  # more than one word of a mask, and not a multiple of 64


@pytest.fixture
def ties(rng):
    corpus = rng.integers(0, 4, (N, 6)).astype(np.float32)
    return corpus, rng.integers(0, 4, (Q, 6)).astype(np.float32)


def searches(corpus, queries, k, **options):
    """The one-shot call and a prepared corpus, which must agree to the bit."""
    once = vicinal.knn(corpus, queries, k, **options)
    metric = options.pop("metric", "euclidean")
    kept = vicinal.Corpus(corpus, metric).knn(queries, k, **options)
    assert oracle.same_bits(once.ids, kept.ids) and oracle.same_bits(once.distances, kept.distances)
    assert (once.counts is None) == (kept.counts is None)
    return once


def right(result, expected):
    return all(oracle.same_bits(a, b) for a, b in zip(result, expected))


FORMS = {
    "mask": lambda rows: np.isin(np.arange(N), rows),
    "list of bools": lambda rows: np.isin(np.arange(N), rows).tolist(),
    "every second entry of a mask": lambda rows: np.repeat(np.isin(np.arange(N), rows), 2)[::2],
    "ids": lambda rows: np.array(rows),
    "ids backwards, twice": lambda rows: np.array(rows * 2)[::-1],
    "ids with some outside": lambda rows: np.array([*rows, N, 2**62]),
    "list of ids": list,
    "ids of another byte order": lambda rows: np.array(rows, ">i8"),
    "unaligned ids": lambda rows: np.frombuffer(b"x" + np.array(rows).tobytes(), np.int64, offset=1),
    "read-only ids": lambda rows: np.frombuffer(np.array(rows).tobytes(), np.int64),
    **{f"ids of {kind}": (lambda rows, kind=kind: np.array(rows, kind)) for kind in "bBhHiIlLqQ"},
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("metric", ["euclidean", "inner_product"])
def test_every_form_says_the_same(ties, form, metric):
    rows = [3, 8, 9, 21, 22, 40, 63, 64, 69]
    expected = oracle.knn(*ties, 4, metric, may=lambda query, row: row in rows)
    assert right(searches(*ties, 4, metric=metric, eligible=FORMS[form](rows)), expected)


@pytest.mark.parametrize("span", [
    range(8, 41), slice(8, 41), range(0, N), slice(None), slice(None, 30), slice(30, None), slice(5, 5000, 1),
    range(np.int64(1), np.int64(20)),
])  # fmt: skip
def test_ranges(ties, span):
    ids = range(*span.indices(N)) if isinstance(span, slice) else span
    expected = oracle.knn(*ties, 4, "euclidean", may=lambda query, row: row in ids)
    assert right(searches(*ties, 4, eligible=span), expected)


@pytest.mark.parametrize("none", [[], np.empty(0, np.int32), np.zeros(N, bool), range(9, 9), slice(4, 4), [N, N + 1]])
def test_no_row_is_eligible(ties, none):
    result = searches(*ties, 2, eligible=none, pad=True)
    assert (result.ids == -1).all() and result.counts.tolist() == [0] * Q
    with pytest.raises(vicinal.InvalidArgument, match="k=2 exceeds 0 eligible rows"):
        searches(*ties, 2, eligible=none)


def test_first_id_counts_in_ids_and_not_in_masks(ties):
    expected = oracle.knn(*ties, 4, "euclidean", first_id=1000, may=lambda query, row: 20 <= row < 30)
    mask = np.zeros(N, bool)
    mask[20:30] = True
    for eligible in (range(1020, 1030), np.arange(1020, 1030), mask):
        assert right(searches(*ties, 4, first_id=1000, eligible=eligible), expected)
    with pytest.raises(vicinal.InvalidArgument, match="k=4 exceeds 0 eligible rows"):
        searches(*ties, 4, first_id=1000, eligible=range(20, 30))


@pytest.mark.parametrize("kind", ["b", "B", "h", "H", "i", "I", "l", "L", ">i4"])
@pytest.mark.parametrize("rule", ["same", "other"])
def test_labels(ties, rng, rule, kind):
    labels, asked = rng.integers(0, 3, N).astype(kind), np.array([0, 1, 3, 2, 0], kind)  # no row has 3
    expected = oracle.knn(*ties, 60, "euclidean", may=lambda q, r: (labels[r] == asked[q]) == (rule == "same"))
    for pair in ((labels, asked), [labels, asked.tolist()], (labels.tolist(), np.repeat(asked, 2)[::2])):
        result = searches(*ties, 60, labels=pair, label_rule=rule, pad=True)
        assert right(result, expected) and result.counts.max() > result.counts.min()
        assert result.counts.tolist() == (expected[1] >= 0).sum(axis=1).tolist()


def test_labels_and_rows_hold_together(ties, rng):
    labels, asked = rng.integers(-1, 2, N), rng.integers(-1, 2, Q)
    mask = rng.random(N) < 0.7
    expected = oracle.knn(*ties, 5, "euclidean", may=lambda q, r: mask[r] and labels[r] == asked[q])
    assert right(searches(*ties, 5, eligible=mask, labels=(labels, asked), pad=True), expected)


def test_k_is_held_against_what_is_left(ties):
    labels, asked = np.arange(N) % 7, np.array([0, 0, 9, 0, 0])
    with pytest.raises(vicinal.InvalidArgument, match="k=2 exceeds 0 eligible rows of query 2"):
        searches(*ties, 2, labels=(labels, asked))
    with pytest.raises(vicinal.InvalidArgument, match="k=11 exceeds 10 eligible rows"):
        searches(*ties, 11, eligible=slice(10))
    assert searches(*ties, 10, eligible=slice(10)).ids.max() == 9


def test_a_filtered_search_is_a_search_of_the_rows_left(rng):
    corpus, queries = rng.standard_normal((3000, 24)).astype(np.float32), rng.standard_normal((60, 24))
    mask = rng.random(3000) < 0.1
    rows = np.flatnonzero(mask)
    for metric in ("euclidean", "cosine", "l1"):
        fewer = vicinal.knn(corpus[mask], queries, 20, metric)
        result = searches(corpus, queries, 20, metric=metric, eligible=mask)
        assert oracle.same_bits(result.ids, rows[fewer.ids]) and oracle.same_bits(result.distances, fewer.distances)


def test_verify(ties, rng):
    labels, asked = rng.integers(0, 3, N), rng.integers(0, 3, Q)
    which = dict(eligible=slice(5, 65), labels=(labels, asked), label_rule="other")
    result = vicinal.knn(*ties, 6, **which)
    assert vicinal.verify(*ties, result, **which).ok()
    assert vicinal.verify(*ties, result.ids, first_id=0, **which).ok()
    verdict = vicinal.verify(*ties, result)
    assert not verdict.ok() and verdict.wrong > 0
    assert not vicinal.verify(*ties, vicinal.knn(*ties, 6), **which).ok()
    padded = vicinal.knn(*ties, 70, pad=True, **which)
    assert vicinal.verify(*ties, padded, **which).ok() and (padded.ids == -1).any()
    with pytest.raises(TypeError, match="relative_tolerance must be a number, got str"):
        vicinal.verify(*ties, result, relative_tolerance="0")


REFUSED = {
    "short mask": (dict(eligible=np.ones(N - 1, bool)), "InvalidArgument",
                   "mask of eligible rows has 69 entries, corpus has 70 rows"),
    "short mask, as many words": (dict(eligible=np.ones(65, bool)), "InvalidArgument", "mask of eligible rows has 65"),
    "long mask": (dict(eligible=np.ones(N + 1, bool)), "InvalidArgument", "mask of eligible rows has 71 entries"),
    "empty mask": (dict(eligible=np.ones(0, bool)), "InvalidArgument", "mask of eligible rows has 0 entries"),
    "table": (dict(eligible=np.ones((N, 1), bool)), "InvalidArgument",
              r"eligible: expected 1 dimension, got 2 with shape \(70, 1\)"),
    "negative id": (dict(eligible=[3, -1]), "InvalidArgument", "eligible id -1 is negative"),
    "mask of integers": (dict(eligible=np.arange(N, dtype=np.uint8) % 2), "InvalidArgument",
                         "the 70 eligible ids are all 0 or 1: a mask has bools"),
    "id of 64 bits": (dict(eligible=np.array([2**63], np.uint64)), "InvalidArgument",
                      "eligible: id 9223372036854775808 does not fit int64"),
    "negative range": (dict(eligible=range(-3, 5)), "InvalidArgument", "eligible ids -3 to 4 are no range of ids"),
    "from the end": (dict(eligible=slice(-5, None)), "InvalidArgument", "eligible ids -5 to"),
    "to before the end": (dict(eligible=slice(0, -1)), "InvalidArgument", "eligible ids 0 to -2 are no range"),
    "steps": (dict(eligible=range(0, 10, 2)), "InvalidArgument", "a range of ids has step 1, got 2"),
    "range beyond 64 bits": (dict(eligible=range(2**70, 2**71)), "InvalidArgument", "must fit 64 bits"),
    "slice of floats": (dict(eligible=slice(0.0, 5.0)), TypeError, "eligible: start must be an integer, got float"),
    "floats": (dict(eligible=np.ones(N)), TypeError, "eligible: expected bools or integers, got dtype float64"),
    "objects": (dict(eligible={1, 2}), TypeError, "eligible: expected bools or integers, got dtype object"),
    "text": (dict(eligible="3:5"), TypeError, "eligible: expected bools or integers"),
    "a number": (dict(eligible=5), TypeError, "eligible: expected a one-dimensional array, got int"),
    "a bool": (dict(eligible=True), TypeError, "eligible: expected a one-dimensional array, got bool"),
    "ragged": (dict(eligible=[[1], [2, 3]]), "InvalidArgument", "eligible: not a one-dimensional array"),
    "masked": (dict(eligible=np.ma.masked_array(np.ones(N, bool))), TypeError, "masked arrays are not supported"),
    "corpus labels": (dict(labels=(np.zeros(N - 1, int), np.zeros(Q, int))), "InvalidArgument",
                      "69 labels for the 70 rows of the corpus"),
    "query labels": (dict(labels=(np.zeros(N, int), np.zeros(Q + 1, int))), "InvalidArgument",
                     "6 labels for the 5 queries"),
    "labels of one side": (dict(labels=np.zeros(N, int)), TypeError,
                           r"labels must be a pair \(corpus_labels, query_labels\), got ndarray"),
    "three labels": (dict(labels=(np.zeros(N, int),) * 3), TypeError, "labels must be a pair"),
    "labels of floats": (dict(labels=(np.zeros(N), np.zeros(Q, int))), TypeError,
                         "corpus labels: expected integers .*, got dtype float64"),
    "labels of bools": (dict(labels=(np.zeros(N, int), np.zeros(Q, bool))), TypeError,
                        "query labels: expected integers"),
    "labels of text": (dict(labels=(["a"] * N, ["a"] * Q)), TypeError, "return_inverse"),
    "label of 64 bits": (dict(labels=(np.full(N, 2**64 - 1, np.uint64), np.zeros(Q, int))), "InvalidArgument",
                         "corpus labels: label 18446744073709551615 does not fit int64"),
    "unknown rule": (dict(labels=(np.zeros(N, int), np.zeros(Q, int)), label_rule="different"), "InvalidArgument",
                     'unknown label rule "different"; known: same, other'),
    "unknown rule without labels": (dict(label_rule="different"), "InvalidArgument", "unknown label rule"),
    "a rule and no labels": (dict(label_rule="other"), "InvalidArgument", "0 labels for the 70 rows"),
    "rule not text": (dict(label_rule=None), TypeError, "label_rule must be a str, got NoneType"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(ties, case):
    arguments, kind, words = REFUSED[case]
    kind = getattr(vicinal, kind) if isinstance(kind, str) else kind
    prepared = vicinal.Corpus(ties[0])
    for search in (
        lambda: vicinal.knn(*ties, 2, **arguments),
        lambda: prepared.knn(ties[1], 2, **arguments),
        lambda: vicinal.verify(*ties, np.zeros((Q, 2), int), **arguments),
        lambda: vicinal.plan(*ties, 2, **arguments),
        lambda: vicinal.plan_range(*ties, **arguments),
    ):
        with pytest.raises(kind, match=words):
            search()


def test_nothing_is_copied_that_need_not_be():
    ids = np.arange(40)
    assert _inputs.int64(ids, "ids") is ids
    before = sys.getrefcount(ids)
    eligible = _inputs.eligible(ids, (ids, ids[:20]), "same")
    assert sys.getrefcount(ids) > before  # held, not copied
    del eligible
    assert sys.getrefcount(ids) == before


def test_memory_stays_alive_during_the_search(rng):
    corpus, queries = rng.standard_normal((20_000, 32)), rng.standard_normal((400, 32))
    mask, labels, asked = rng.random(20_000) < 0.5, rng.integers(0, 4, 20_000), rng.integers(0, 4, 400)
    expected = vicinal.knn(corpus, queries, 5, eligible=mask, labels=(labels, asked))
    junk = []
    result = vicinal.knn(  # only the search holds the arrays made of these lists, while the callback fills memory
        corpus, queries, 5, eligible=np.flatnonzero(mask).tolist(), labels=(labels.tolist(), asked.tolist()),
        progress=lambda done, total: junk.append(np.full(20_000, -1)),
    )  # fmt: skip
    assert junk and right(result, expected)


def test_arrays_are_let_go(ties):
    class Ids(np.ndarray):
        pass

    ids = np.arange(N).view(Ids)
    gone = weakref.ref(ids)
    vicinal.knn(*ties, 3, eligible=ids)
    del ids
    assert gone() is None
