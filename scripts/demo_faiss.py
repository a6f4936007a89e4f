#!/usr/bin/env python3
"""The demo's second half: recall of faiss and of vicinal on the same data, as it is and moved by 1,000.

Moving every point by the same vector changes no distance. faiss multiplies matrices once queries x columns reaches
128,000, as in every case here, and then loses the small difference of large numbers. The truth is computed for the
data as stored: integers for the descriptors, differences in fp64 for the Gaussian rows, ordered by (float32 distance,
id) as docs/semantics.md says.
"""

import sys
from pathlib import Path

import numpy as np

DATA = Path(__file__).resolve().parent.parent / "data" / "demo" / "sift.npz"
K = 100


def squared_distances(corpus, queries):
    """One array a query, in fp64. Integers are exact: every product and sum stays below 2^53, in any order."""
    integers = np.array_equal(corpus, np.rint(corpus))
    shift = corpus.min() if integers else 0  # keeps the integers small; it cancels
    wide = corpus.astype(np.float64) - shift
    moved = queries.astype(np.float64) - shift
    if integers:
        squares = np.einsum("ij,ij->i", wide, wide)
        for query, product in zip(moved, moved @ wide.T):
            yield squares + query @ query - 2 * product
        return
    difference = np.empty_like(wide)
    for query in moved:
        np.subtract(wide, query, out=difference)
        yield np.einsum("ij,ij->i", difference, difference)


def nearest(key):
    """Positions of the K smallest, equal ones in order of position."""
    close = np.flatnonzero(key <= np.partition(key, K - 1)[K - 1])
    return close[np.argsort(key[close], kind="stable")[:K]]


def true_neighbours(corpus, queries):
    """Ids of the K nearest by (distance rounded to float32, id)."""
    return np.array([nearest(np.sqrt(squared).astype(np.float32)) for squared in squared_distances(corpus, queries)])


def recall(found, true):
    return np.mean([np.isin(a, b).mean() for a, b in zip(found, true)])


def faiss_neighbours(faiss, corpus, queries):
    index = faiss.IndexFlatL2(corpus.shape[1])
    index.add(corpus)
    return index.search(queries, K)[1]


def cases():
    sift = np.load(DATA)
    corpus, queries = sift["corpus"].astype(np.float32), sift["queries"].astype(np.float32)
    yield "SIFT descriptors", corpus, queries
    yield "the same + 1,000", corpus + 1000, queries + 1000
    rng = np.random.default_rng(1)
    corpus = rng.standard_normal((10000, 128), dtype=np.float32)
    queries = rng.standard_normal((1024, 128), dtype=np.float32)
    yield "Gaussian, 128 columns", corpus, queries
    yield "Gaussian + 1,000", corpus + np.float32(1000), queries + np.float32(1000)


def main():
    try:
        import faiss
    except ImportError:
        print("To compare with faiss here: .venv/bin/python -m pip install faiss-cpu")
        return 0
    import vicinal

    print(f"recall@{K} of exact search, float32, euclidean; 1,024 queries in one call")
    print(f"{'':<24}{'rows':>8}{f'faiss {faiss.__version__}':>16}{'vicinal':>16}")
    worst = 1.0
    for name, corpus, queries in cases():
        assert queries.size >= 128000, "faiss would not take its product path"
        true = true_neighbours(corpus, queries)
        theirs = recall(faiss_neighbours(faiss, corpus, queries), true)
        ours = vicinal.knn(corpus, queries, k=K).ids
        same_order = np.array_equal(ours, true)
        worst = min(worst, recall(ours, true))
        print(f"{name:<24}{len(corpus):>8,}{theirs:>16.4f}{recall(ours, true):>16.4f}"
              f"{'' if same_order else '  (ties in another order)'}")
    return 0 if worst == 1.0 else 1


if __name__ == "__main__":
    sys.exit(main())
