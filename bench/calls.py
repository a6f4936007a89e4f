"""One query of a kept corpus from Python, again and again on the same cores, beside faiss's flat index, usearch's exact search, scipy's cKDTree (few
columns), and NumPy's maximum over as many bytes as the first filter of a large corpus reads, which memory gives faster than that takes.

    .venv/bin/python bench/calls.py [--rounds 15] [--k 10] [--commit HASH] [--output FILE | --no-save]

A round is some 10 ms of one engine's calls with 64 queries in turn, engines one after the other; us_call is the median round's, best_us the best's.
Peers that are not installed are left out. Appends to bench/results/calls.csv with date, commit and machine.
"""

import argparse
import pathlib
import statistics
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from run import SETTLE_S, append_lines

import vicinal

RESULTS = pathlib.Path(__file__).resolve().parent / "results" / "calls.csv"
FIELDS = ["date", "commit", "machine", "threads", "n", "d", "k", "queries", "engine", "us_call", "best_us"]
SHAPES = ((1000, 64), (1000, 128), (200_000, 3), (1_000_000, 128))
ROUND_S = 0.01
LEAST_CALLS, WARM_CALLS = 4, 32  # of a round, and before it
QUERIES = 64
FEW_COLUMNS = 8  # of which scipy's tree is a peer


def faiss_flat(x, k, threads):
    import faiss

    faiss.omp_set_num_threads(threads)
    index = faiss.IndexFlatL2(x.shape[1])
    index.add(x)
    return lambda query: index.search(query, k)


def usearch_exact(x, k, threads):
    from usearch.index import MetricKind, search

    return lambda query: search(x, query, k, MetricKind.L2sq, exact=True, threads=threads)


def scipy_tree(x, k, _threads):
    from scipy.spatial import cKDTree

    if x.shape[1] > FEW_COLUMNS:
        raise ImportError(f"cKDTree is for up to {FEW_COLUMNS} columns")
    tree = cKDTree(x)
    return lambda query: tree.query(query, k=k, workers=1)


def vicinal_corpus(x, k, _threads):
    corpus = vicinal.Corpus(x, metric="sqeuclidean")
    return lambda query: corpus.knn(query, k=k)


def reading(x, k, threads):
    """The maximum of as many bytes as x has elements: those that int8 reads. It takes some 1.6 of the time of a loop over huge pages."""
    if x.nbytes < 1 << 26:
        raise ImportError("what fits into caches is not bound by reading")
    parts = np.array_split(np.frombuffer(x.data, np.float32)[: x.size // 4], threads)
    pool = ThreadPoolExecutor(threads)
    return lambda query: list(pool.map(np.maximum.reduce, parts))


ENGINES = {"vicinal": vicinal_corpus, "faiss-cpu": faiss_flat, "usearch": usearch_exact, "cKDTree": scipy_tree, "reading": reading}


def measure(rows, columns, args):
    random = np.random.default_rng(columns)
    x, queries = (random.standard_normal((count, columns), dtype=np.float32) for count in (rows, QUERIES))
    asked = [queries[i : i + 1] for i in range(QUERIES)]
    calls = {}
    for name, make in ENGINES.items():
        try:
            calls[name] = make(x, args.k, args.threads)
        except ImportError as error:
            print(f"without {name}: {error}", flush=True)
    times = {name: [] for name in calls}
    for _ in range(args.rounds):
        for name, call in calls.items():
            time.sleep(SETTLE_S)
            for _ in range(WARM_CALLS):  # the first after a pause take several times as long, and would say that few fit into a round
                start = time.perf_counter()
                call(asked[0])
                once = time.perf_counter() - start
                if once > ROUND_S / WARM_CALLS:
                    break
            count = max(LEAST_CALLS, int(ROUND_S / once))
            start = time.perf_counter()
            for i in range(count):
                call(asked[i % QUERIES])
            times[name].append((time.perf_counter() - start) / count * 1e6)
    mine = statistics.median(times["vicinal"])
    shown = "  ".join(f"{name} {statistics.median(t):.1f} us ({statistics.median(t) / mine:.2f})" for name, t in times.items())
    print(f"{rows} x {columns}, k = {args.k}, {args.threads} threads: {shown}", flush=True)
    return [dict(threads=args.threads, n=rows, d=columns, k=args.k, queries=QUERIES, engine=name, us_call=f"{statistics.median(t):.2f}",
                 best_us=f"{min(t):.2f}") for name, t in times.items()]  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("rounds", 15), ("k", 10)):
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--commit", default="", help="where git is not there to be asked")
    parser.add_argument("--output", default=RESULTS)
    parser.add_argument("--no-save", action="store_true")
    args = parser.parse_args()
    args.threads = vicinal.info().threads  # of the cores that this process may use; a search so short takes one of them
    lines = [line for shape in SHAPES for line in measure(*shape, args)]
    if not args.no_save:
        append_lines(pathlib.Path(args.output), FIELDS, [line | ({"commit": args.commit} if args.commit else {}) for line in lines])


if __name__ == "__main__":
    main()
