"""Do UMAP, scanpy, openTSNE, HDBSCAN and LocalOutlierFactor give the same from vicinal's graph as from scikit-learn's?

    .venv/bin/python repro/graphs.py [--only NAME ...] [--data NAME=FILE ...] [--no-save]

Digits (1,797 x 64 whole numbers, many ties), the same with noise (no ties), and something like embeddings (clusters on the
unit sphere, 3,000 x 96), or rows of files (.npy, .gz of IDX as MNIST has it), in float64. For each tool: rows whose neighbours differ between scikit-learn's exact brute force
and vicinal, how many of them differ among equal distances only, by how much the tool's results differ, and the times
of the two graphs. UMAP and openTSNE, whose optimisers turn the last bit of a distance into another picture, get each
graph's neighbours with distances computed in one way, so that they see which neighbours were found and nothing else.
Appends to repro/results/graphs.csv. What is not installed is said and left out.
"""

import argparse
import csv
import datetime
import gzip
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.sparse import issparse
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsTransformer, LocalOutlierFactor, NearestNeighbors

import vicinal
from vicinal import neighbors as ours

RESULTS = Path(__file__).resolve().parent / "results" / "graphs.csv"
K = 15


def data():
    rng = np.random.default_rng(3)
    digits = load_digits().data
    centres = rng.standard_normal((40, 96))
    spread = centres[rng.integers(0, 40, 3000)] + 0.3 * rng.standard_normal((3000, 96))
    return {"digits": digits, "digits, noisy": digits + 0.01 * rng.standard_normal(digits.shape),
            "embeddings": spread / np.linalg.norm(spread, axis=1, keepdims=True)}


def rows_of(file):
    if file.endswith(".npy"):
        return np.load(file).astype(np.float64)
    raw = gzip.decompress(Path(file).read_bytes())
    shape = np.frombuffer(raw[4 : 4 + 4 * raw[3]], ">i4")
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(shape[0], -1).astype(np.float64)


def exact_squares(x, ids):
    return np.array([((x[row] - x[near]) ** 2).sum(1) for row, near in enumerate(ids)])


def graph(x, model, k):
    """ids, the seconds that they took (the best of five runs, or of what ends within two seconds), and their distances by NumPy."""
    runs = []
    while len(runs) < 5 and sum(runs) < 2:
        start = time.perf_counter()
        ids = np.asarray(model(n_neighbors=k, algorithm="brute").fit(x).kneighbors()[1])
        runs.append(time.perf_counter() - start)
    return ids, min(runs), np.sqrt(exact_squares(x, ids))


def umap(x, model):
    """The fuzzy graph and the embedding, from precomputed_knn."""
    from umap import UMAP

    ids, seconds, distances = graph(x, model, K - 1)
    own = np.arange(len(x))[:, None]
    known = np.hstack([own, ids]), np.hstack([0.0 * own, distances]).astype(np.float32)
    fitted = UMAP(n_neighbors=K, precomputed_knn=known, random_state=1, n_epochs=50).fit(x)
    return ids, seconds, (fitted.graph_, fitted.embedding_)


class SelfAtZero(KNeighborsTransformer):
    """scikit-learn's, whose distance of a row to itself is not 0 but what rounding leaves, put right: scanpy takes the
    smallest distance above 0 for that of the nearest other row."""

    def fit_transform(self, X, y=None):
        found = super().fit_transform(X)
        found.data[found.indices == np.repeat(np.arange(len(X)), np.diff(found.indptr))] = 0
        return found


def scanpy(x, model):
    """The connectivities of pp.neighbors(transformer=...)."""
    import anndata
    import scanpy

    ids, seconds, _ = graph(x, model, K - 1)
    transformer = (SelfAtZero if model is NearestNeighbors else ours.KNeighborsTransformer)(n_neighbors=K, algorithm="brute")
    cells = anndata.AnnData(x.copy())
    scanpy.pp.neighbors(cells, use_rep="X", transformer=transformer)
    return ids, seconds, (cells.obsp["connectivities"],)


def opentsne(x, model):
    """The affinities and an embedding."""
    import openTSNE
    from openTSNE.nearest_neighbors import PrecomputedNeighbors

    ids, seconds, distances = graph(x, model, 30)
    affinities = openTSNE.affinity.PerplexityBasedNN(knn_index=PrecomputedNeighbors(ids, distances), perplexity=10)
    embedding = openTSNE.TSNE(n_iter=50, early_exaggeration_iter=50, random_state=1, n_jobs=1).fit(
        affinities=affinities, initialization=x @ np.random.default_rng(1).standard_normal((x.shape[1], 2)) * 1e-6)
    return ids, seconds, (affinities.P, np.asarray(embedding))


def hdbscan(x, model):
    """Labels and probabilities from the union of the lists as a precomputed matrix; unconnected parts are joined far away."""
    from hdbscan import HDBSCAN
    from scipy.sparse.csgraph import connected_components

    ids, seconds, _ = graph(x, model, 2 * K)
    edges = model(n_neighbors=2 * K, algorithm="brute").fit(x).kneighbors_graph(mode="distance")
    edges = edges.maximum(edges.T).tolil()
    parts, part = connected_components(edges)
    firsts = [int(np.flatnonzero(part == one)[0]) for one in range(parts)]
    for other in firsts[1:]:
        edges[firsts[0], other] = edges[other, firsts[0]] = 1e6
    fitted = HDBSCAN(metric="precomputed", min_samples=5).fit(edges.tocsr())
    return ids, seconds, (fitted.labels_, fitted.probabilities_)


def outliers(x, model):
    """LocalOutlierFactor's scores and verdicts."""
    ids, seconds, _ = graph(x, model, 20)
    kind = LocalOutlierFactor if model is NearestNeighbors else ours.LocalOutlierFactor
    fitted = kind(n_neighbors=20, algorithm="brute").fit(x)
    return ids, seconds, (fitted.negative_outlier_factor_, fitted.fit_predict(x))


TOOLS = {"umap": umap, "scanpy": scanpy, "openTSNE": opentsne, "hdbscan": hdbscan, "LocalOutlierFactor": outliers}


def compare(name, tool, label, x):
    theirs = tool(x, NearestNeighbors)
    mine = tool(x, ours.NearestNeighbors)
    differ = (mine[0] != theirs[0]).any(axis=1)
    squares = [exact_squares(x, ids) for ids in (mine[0], theirs[0])]
    ties = np.isclose(*squares, rtol=1e-12, atol=0).all(axis=1)[differ].sum()
    gaps = [np.abs((a - b).data if issparse(a) else np.asarray(a, float) - b) for a, b in zip(mine[2], theirs[2])]
    sizes = [np.abs(b).sum() / (b.nnz if issparse(b) else b.size) for b in theirs[2]]
    of = [b.nnz if issparse(b) else b.size for b in theirs[2]]
    return dict(tool=name, data=label, rows=len(x), rows_that_differ=int(differ.sum()), of_them_ties=int(ties),
                largest_difference=f"{max(float(gap.max(initial=0)) for gap in gaps):.2g}",
                share_equal=f"{min(1 - (gap > 1e-5 * size).sum() / count for gap, size, count in zip(gaps, sizes, of)):.6f}",
                seconds_vicinal=f"{mine[1]:.3f}", seconds_scikit_learn=f"{theirs[1]:.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=list(TOOLS))
    parser.add_argument("--data", action="append", default=[], metavar="NAME=FILE")
    parser.add_argument("--no-save", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = []
    sets = {label: rows_of(file) for label, file in (entry.split("=", 1) for entry in arguments.data)} or data()
    for name in arguments.only or TOOLS:
        for label, x in sets.items():
            try:
                line = compare(name, TOOLS[name], label, x)
            except ImportError as error:
                print(f"{name}: not run ({error})")
                break
            print("  ".join(f"{key} {value}" for key, value in line.items()), flush=True)
            lines.append({"date": datetime.date.today().isoformat(), "vicinal": vicinal.__version__, **line})
    if lines and not arguments.no_save:
        new = not RESULTS.exists()
        with RESULTS.open("a", newline="") as file:
            writer = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
            if new:
                writer.writeheader()
            writer.writerows(lines)


if __name__ == "__main__":
    main()
