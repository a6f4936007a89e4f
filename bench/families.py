"""Time over kinds of data: what the precision cascade chooses beside filters forced by name, and beside faiss-cpu.

    .venv/bin/python bench/families.py [--rows 100000] [--cols 96] [--queries 500] [--k 100] [--repeat 5] [--no-save]

For each family: median time of a search of a prepared corpus, precisions (column `rungs`), share of queries that the first one proved, rows ranked
a query. The bits of all of ours must be equal. Appends to bench/results/families.csv with date, commit and machine.
"""

import argparse
import os
import pathlib
import statistics

import numpy as np
from run import append_lines, timed_in_turn

import vicinal

RESULTS = pathlib.Path(__file__).resolve().parent / "results" / "families.csv"
FIELDS = ["date", "commit", "machine", "threads", "family", "Q", "n", "d", "k", "engine", "median_s", "best_s", "rungs", "proven", "ranked"]


def families(n, q, d):
    """name -> function that makes rows and queries."""
    rng, later = np.random.default_rng(3), np.random.default_rng(4)  # so that families that were added later leave the others as they were
    centres = rng.standard_normal((100, d))

    def clusters(sigma):
        return lambda m: centres[rng.integers(0, 100, m)] + sigma * rng.standard_normal((m, d))

    def low_rank(m, basis=rng.standard_normal((16, d))):
        return rng.standard_normal((m, 16)) @ basis + 0.1 * rng.standard_normal((m, d))

    makers = {
        "gaussian": lambda m: rng.standard_normal((m, d)),
        "embeddings (rank 16 and noise)": low_rank,
        "uniform": lambda m: rng.random((m, d)),
        "u8, skewed": lambda m: np.minimum(rng.exponential(30, (m, d)), 255).astype(np.uint8),
        "heavy tails (t, 2)": lambda m: rng.standard_t(2, (m, d)),
        "lognormal 1.5": lambda m: np.exp(1.5 * rng.standard_normal((m, d))),
        "a few large columns": lambda m: later.standard_normal((m, d)) * np.where(np.arange(d) % 31 == 5, 50, 1),
        "variances as 1 / j^2": lambda m: later.standard_normal((m, d)) / np.arange(1, d + 1),
        "sparse histograms": lambda m: later.dirichlet(np.full(d, 0.05), m),
        "tight clusters 1e-2": clusters(1e-2),
        "tight clusters 1e-5": clusters(1e-5),
        "moved by 1e6": lambda m: rng.standard_normal((m, d)) + 1e6,
        "all equal": lambda m: np.ones((m, d)),
    }
    for name, make in makers.items():
        x, y = make(n), make(q)
        yield name, *(a if a.dtype == np.uint8 else a.astype(np.float32) for a in (x, y))
    x, y = (rng.standard_normal((m, d), dtype=np.float32) for m in (n, q))
    yield "from far to near", x[np.argsort(((x - y[0]) ** 2).sum(1))[::-1]], y


def engines(x, q, k, threads):
    import faiss

    def ours(name):
        os.environ["VICINAL_FILTER"] = name
        corpus = vicinal.Corpus(x, metric="sqeuclidean", threads=threads)

        def call():
            os.environ["VICINAL_FILTER"] = name
            return corpus.knn(q, k=k, threads=threads)

        return call

    faiss.omp_set_num_threads(threads)
    index = faiss.IndexFlatL2(x.shape[1])
    index.add(x.astype(np.float32))
    floats = q.astype(np.float32)
    return {**{"vicinal " + name: ours(name) for name in ("auto", "int8", "rotated", "projected", "f32")},
            "faiss-cpu " + faiss.__version__: lambda: index.search(floats, k)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("rows", 100_000), ("cols", 96), ("queries", 500), ("k", 100), ("repeat", 5), ("threads", vicinal.info().threads)):
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--no-save", action="store_true")
    args = parser.parse_args()
    lines = []
    for name, x, q in families(args.rows, args.queries, args.cols):
        found = engines(x, q, args.k, args.threads)
        times, said = timed_in_turn(found, args.repeat)
        answers = [r for r in said.values() if hasattr(r, "certificate")]
        assert all(np.array_equal(r.ids, answers[0].ids) and np.array_equal(r.distances, answers[0].distances) for r in answers), name
        base = statistics.median(times["vicinal f32"])
        print(name)
        for engine, seconds in times.items():
            median, r = statistics.median(seconds), said[engine]
            report = dict(rungs="", proven="", ranked="")
            if hasattr(r, "certificate"):
                report = dict(rungs=" ".join(r.certificate.precisions), proven=f"{r.certificate.proven / len(q):.4f}", ranked=f"{r.stats.reranked / len(q):.0f}")
            print(f"  {engine:18} {median:8.4f} s  {median / base:5.2f} of f32's  {report['rungs']:22} proven {report['proven']:7} ranked {report['ranked']}")
            lines.append(dict(threads=args.threads, family=name,
                              Q=args.queries, n=args.rows, d=args.cols, k=args.k, engine=engine, median_s=f"{median:.5f}",
                              best_s=f"{min(seconds):.5f}", **report))
    if args.no_save:
        return
    append_lines(RESULTS, FIELDS, lines)


if __name__ == "__main__":
    main()
