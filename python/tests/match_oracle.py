"""Matching of descriptors in whole numbers and plain loops: what vicinal.match must say of rows of integers.

Every distance is kept as an integer in which it rises: squared differences, sums of differences, bits, or minus the product for angles. A ratio is the
fraction that its binary64 holds, and each test is a comparison of integers. Angles need an arc cosine in binary64, and cosine distances a root in 50
digits; that the rounding of either decides nothing is asserted.
"""

from decimal import Decimal, localcontext
from fractions import Fraction
from math import acos

import numpy as np

SCALE = 512 * 512  # of a product of SIFT rows of COLMAP's norm


def whole(a, b, distance):
    """(len(a), len(b)) int64, of cosine Decimal: a number that rises with the distance."""
    a, b = np.asarray(a, np.int64), np.asarray(b, np.int64)
    if distance == "cosine":
        return np.array([[cosine(p, q) for q in b] for p in a], object).reshape(len(a), len(b))
    if distance == "hamming":
        return np.array([[sum(int(x ^ y).bit_count() for x, y in zip(p, q)) for q in b] for p in a], np.int64).reshape(len(a), len(b))
    if distance == "manhattan":
        return np.array([np.abs(b - row).sum(1) for row in a], np.int64).reshape(len(a), len(b))
    products = a @ b.T
    if distance == "angle":
        return -products
    return (a * a).sum(1)[:, None] - 2 * products + (b * b).sum(1)[None, :]


def cosine(p, q):
    with localcontext(prec=50):
        product, squares = int(p @ q), int(p @ p) * int(q @ q)
        if product >= 0 and product * product == squares:
            return Decimal(0)
        return 1 - Decimal(product) / Decimal(squares).sqrt()


def told(number, distance):
    """The distance that such a number stands for, in fp64."""
    if distance == "angle":
        return acos(min(-number / SCALE, 1.0))
    return float(number) ** (0.5 if distance == "euclidean" else 1)


def nearer(best, second, ratio, distance, strict):
    """best < ratio * second, or <= where it is not strict."""
    fraction = Fraction(ratio)
    if distance == "angle":
        left, right = told(best, distance), ratio * told(second, distance)
        assert abs(left - right) > 1e-13 or left == right == 0, "an angle at the threshold: fp64 cannot decide it"
    elif distance == "cosine":
        with localcontext(prec=50):
            left, right = best, Decimal(ratio) * second
            assert abs(left - right) > Decimal("1e-14") or left == right == 0, "a cosine at the threshold: binary64 cannot decide it"
    elif distance == "euclidean":
        left, right = best * fraction.denominator**2, fraction.numerator**2 * second
    else:
        left, right = best * fraction.denominator, fraction.numerator * second
    return left < right if strict else left <= right


def one_way(numbers, ratio, max_distance, distance, strict, lone, allowed=None, places=None, apart=0):
    """For each row: (column, best, second or None) of its match, or None. allowed: bool, a table like numbers; places: of the columns."""
    found = []
    for number, row in enumerate(numbers.tolist()):
        candidates = [column for column in range(len(row)) if allowed is None or allowed[number][column]]
        order = sorted(candidates, key=lambda column: (row[column], column))
        best = row[order[0]] if order else None
        rivals = [column for column in order[1:] if not apart or ((places[column] - places[order[0]]) ** 2).sum() > apart**2]
        second = row[rivals[0]] if rivals else None
        passes = bool(order)
        if passes and max_distance is not None:
            passes = told(best, distance) <= max_distance
        if passes and ratio is not None:
            passes = lone == "accept" if second is None else nearer(best, second, ratio, distance, strict)
        found.append((order[0], best, second) if passes else None)
    return found


def match(a, b, *, ratio=0.8, max_distance=None, mutual=True, distance="euclidean", strict=True, lone="accept",
          allowed=None, places=(None, None), apart=0):  # fmt: skip
    """(ids (M, 2), distances (M,)), by the first column. allowed: bool (len(a), len(b)); places: of the rows of both, for apart."""
    numbers = whole(a, b, distance)
    turned = None if allowed is None else allowed.T
    there = one_way(numbers, ratio, max_distance, distance, strict, lone, allowed, places[1], apart)
    back = {
        True: lambda: one_way(numbers.T, ratio, max_distance, distance, strict, lone, turned, places[0], apart),
        "nearest": lambda: one_way(numbers.T, None, None, distance, strict, lone, turned),
        False: list,
    }[mutual]()
    ids, distances = [], []
    for row, hit in enumerate(there):
        if hit is None or (mutual and (back[hit[0]] is None or back[hit[0]][0] != row)):
            continue
        ids.append((row, hit[0]))
        distances.append(told(hit[1], distance))
    return np.array(ids, np.int64).reshape(-1, 2), np.array(distances)
