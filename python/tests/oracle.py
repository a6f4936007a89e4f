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


def knn(corpus, queries, k, metric, dtype=None, first_id=0):
    """(distances, ids) as the contract has them."""
    dtype = dtype or output_type(metric, corpus, queries)
    sign = -1 if metric in DESCENDING else 1
    distances, ids = np.empty((len(queries), k), dtype), np.empty((len(queries), k), np.int64)
    rows = listed(corpus, metric)
    for row, query in enumerate(listed(queries, metric)):
        values = [dtype(canonical(metric, query, other)) for other in rows]
        order = sorted(range(len(rows)), key=lambda i: (sign * float(values[i]), i))[:k]
        distances[row], ids[row] = [values[i] for i in order], [i + first_id for i in order]
    return distances, ids


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
