"""The obviously right answer: the contract's arithmetic one operation at a time, then a full sort.

fma is exact integer arithmetic and one division of integers, which Python rounds correctly; everything else
is Python's float, IEEE binary64. About a microsecond an operation: for small cases. `exact` is a second
opinion that shares nothing with it: rational numbers, and 60 digits where a root is taken.
"""

import decimal
import math
from fractions import Fraction

import numpy as np

LANES = 32
METRICS = ("sqeuclidean", "euclidean", "cosine", "correlation", "inner_product", "l1", "linf")
DESCENDING = ("inner_product",)


def fma(a, b, c):
    (an, ad), (bn, bd), (cn, cd) = a.as_integer_ratio(), b.as_integer_ratio(), c.as_integer_ratio()
    return (an * bn * cd + cn * ad * bd) / (ad * bd * cd)


def fold(step, combine, *rows):
    lanes = [0.0] * LANES
    for i, elements in enumerate(zip(*rows)):
        lanes[i % LANES] = step(lanes[i % LANES], *elements)
    half = LANES // 2
    while half:
        for j in range(half):
            lanes[j] = combine(lanes[j], lanes[j + half])
        half //= 2
    return lanes[0]


def add(a, b):
    return a + b


def dot(q, r):
    return fold(lambda s, a, b: fma(a, b, s), add, q, r)


def square(s, a, b):
    return fma(a - b, a - b, s)


def cosine(q, r):
    distance = 1.0 - dot(q, r) / math.sqrt(dot(q, q) * dot(r, r))
    return min(max(distance, 0.0), 2.0)


def centred(x):
    mean = fold(add, add, x) / len(x)
    return [element - mean for element in x]


def degenerate(metric, x):
    return not any(x) if metric == "cosine" else min(x) == max(x) if metric == "correlation" else False


def canonical(metric, q, r):
    """The fp64 value of the contract for two rows of Python floats (ints of packed bytes for hamming)."""
    if degenerate(metric, q) or degenerate(metric, r):
        return 1.0
    if metric == "sqeuclidean":
        return fold(square, add, q, r)
    if metric == "euclidean":
        return math.sqrt(fold(square, add, q, r))
    if metric == "inner_product":
        return dot(q, r)
    if metric == "cosine":
        return cosine(q, r)
    if metric == "correlation":
        return cosine(centred(q), centred(r))
    if metric == "l1":
        return fold(lambda s, a, b: s + abs(a - b), add, q, r)
    if metric == "linf":
        return fold(lambda s, a, b: max(s, abs(a - b)), max, q, r)
    assert metric == "hamming"
    return sum(bin(a ^ b).count("1") for a, b in zip(q, r))


def output_type(metric, *arrays):
    if metric == "hamming":
        return np.uint32
    return np.float64 if any(array.dtype == np.float64 for array in arrays) else np.float32


def listed(array, metric):
    return [[int(x) if metric == "hamming" else float(x) for x in row] for row in np.asarray(array)]


def ranked(corpus, queries, metric, dtype, may=None):
    """For each query the (value, row) of every row that may answer it, in the contract's order."""
    sign = -1 if metric in DESCENDING else 1
    rows = listed(corpus, metric)
    for number, query in enumerate(listed(queries, metric)):
        answers = [i for i in range(len(rows)) if may is None or may(number, i)]
        found = [(dtype(canonical(metric, query, rows[i])), i) for i in answers]
        yield sorted(found, key=lambda entry: (sign * float(entry[0]), entry[1]))


def knn(corpus, queries, k, metric, dtype=None, first_id=0, may=None):
    """(distances, ids) as the contract has them; padded where fewer than k rows may answer."""
    dtype = dtype or output_type(metric, corpus, queries)
    worst = np.iinfo(dtype).max if dtype == np.uint32 else -np.inf if metric in DESCENDING else np.inf
    distances, ids = np.full((len(queries), k), worst, dtype), np.full((len(queries), k), -1, np.int64)
    for row, found in enumerate(ranked(corpus, queries, metric, dtype, may)):
        for rank, (value, i) in enumerate(found[:k]):
            distances[row, rank], ids[row, rank] = value, i + first_id
    return distances, ids


def knn_graph(x, k, metric, include_self=False, may=None):
    """The lists of a graph: row i may not answer itself."""
    allowed = may or (lambda query, row: True)
    return knn(x, x, k, metric, may=lambda query, row: (include_self or query != row) and allowed(query, row))


def symmetrized(distances, ids, how):
    """(offsets, distances, ids) of the matrix, rows by id: an edge where either row, or both, list the other."""
    listed = {(i, int(j)): d for i, row in enumerate(ids) for d, j in zip(distances[i], row) if j >= 0}
    edges = {}
    for (i, j), d in listed.items():
        if how == "union" or (j, i) in listed:
            edges[i, j] = edges[j, i] = d
    order = sorted(edges)
    return lists([[(edges[e], e[1]) for e in order if e[0] == i] for i in range(len(ids))], distances.dtype)


def range_search(corpus, queries, radius, metric, first_id=0, may=None):
    """(offsets, distances, ids): every row whose returned distance is within the radius."""
    dtype = output_type(metric, corpus, queries)
    near = (lambda value: value >= radius) if metric in DESCENDING else (lambda value: value <= radius)
    found = ranked(corpus, queries, metric, dtype, may)
    return lists([[(value, i + first_id) for value, i in row if near(float(value))] for row in found], dtype)


def lists(rows, dtype):
    entries = [entry for row in rows for entry in row]
    offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    return offsets, np.array([d for d, _ in entries], dtype), np.array([i for _, i in entries], np.int64)


def exact(metric, q, r):
    """The true distance of two rows, to 60 digits, by a way that has nothing in common with `canonical`."""
    q, r = [Fraction(float(x)) for x in q], [Fraction(float(x)) for x in r]
    if metric == "correlation":
        q, r = [x - sum(q) / len(q) for x in q], [x - sum(r) / len(r) for x in r]
    with decimal.localcontext(decimal.Context(prec=60)):
        if metric in ("euclidean", "sqeuclidean"):
            total = digits(sum((a - b) ** 2 for a, b in zip(q, r)))
            return total.sqrt() if metric == "euclidean" else total
        if metric == "inner_product":
            return digits(sum(a * b for a, b in zip(q, r)))
        if metric == "l1":
            return digits(sum(abs(a - b) for a, b in zip(q, r)))
        if metric == "linf":
            return digits(max(abs(a - b) for a, b in zip(q, r)))
        assert metric in ("cosine", "correlation")
        norms = digits(sum(a * a for a in q) * sum(b * b for b in r)).sqrt()
        return 1 - digits(sum(a * b for a, b in zip(q, r))) / norms


def digits(number):
    number = Fraction(number)
    return decimal.Decimal(number.numerator) / decimal.Decimal(number.denominator)


def same_bits(a, b):
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
