"""Data that most tests share."""

import numpy as np
import pytest


@pytest.fixture
def rng():
    return np.random.default_rng(20260)


@pytest.fixture
def small(rng):
    """A corpus and queries small enough for the oracle, with exact ties among them."""
    corpus = rng.standard_normal((40, 37)).astype(np.float32)
    corpus[31] = corpus[7]
    queries = rng.standard_normal((5, 37)).astype(np.float32)
    queries[2] = corpus[7]
    return corpus, queries
