"""The oracle itself, against exact arithmetic and against the golden answers that others computed."""

import math
from fractions import Fraction

import numpy as np
import oracle
import pytest
from test_golden import FILES, metrics_of


def test_fma_rounds_once(rng):
    for a, b in rng.standard_normal((500, 2)):
        c = -a * b * (1 + rng.integers(-3, 4) * 2.0**-52)  # leaves little but the rounding error of the product
        assert Fraction(oracle.fma(a, b, c)) == Fraction(float(Fraction(a) * Fraction(b) + Fraction(c)))
    assert oracle.fma(2.0**-600, -(2.0**-600), 0.0) == 0.0
    assert math.copysign(1, oracle.fma(2.0**-600, -(2.0**-600), 0.0)) == -1


@pytest.mark.parametrize("metric", oracle.METRICS)
def test_canonical_is_close_to_exact(rng, metric):
    for d in (1, 2, 31, 32, 33, 70):
        if d == 1 and metric == "correlation":
            continue
        q, r = rng.standard_normal((2, d)) + 3
        exact = oracle.exact(metric, q, r)
        scale = float(np.abs(q * r).sum()) if metric == "inner_product" else max(1.0, abs(float(exact)))
        assert abs(float(exact) - oracle.canonical(metric, list(q), list(r))) <= (d / 16 + 12) * 2.0**-52 * scale


@pytest.mark.parametrize("name", ["gauss_d33_f32", "gauss_d37_f64", "ulps_d65_f32"])
def test_oracle_gives_golden_answers(name):
    data = np.load(next(path for path in FILES if path.stem == name))
    for metric in metrics_of(data):
        corpus, queries = data["corpus"], data["queries"][:2]
        distances, ids = oracle.knn(corpus, queries, 10, metric)
        assert oracle.same_bits(distances, data[f"{metric}_distances"][:2]), metric
        assert oracle.same_bits(ids, data[f"{metric}_ids"][:2]), metric
