"""Searches of few columns on the CPU, by trees, beside scipy's cKDTree, pykdtree and small_gicp, in turn in one process on the same cores.

    .venv/bin/python bench/tree.py [--rows 1000000] [--queries 200000] [--cols 3] [--k 10] [--threads 1 2] [--repeat 5]
                                 [--commit HASH] [--output FILE | --no-save]

"build" makes a tree of rows of f32, "prepared" searches it, "both" is from arrays to the answer. Each number of threads is a process of its own, since
pykdtree asks OMP_NUM_THREADS once. Peers that are not installed are left out; scipy builds on one thread, and small_gicp takes rows of three columns alone. Distances must
agree to five digits, since peers compute in other precisions. Appends to bench/results/tree.csv with date, commit and machine.
"""

import argparse
import os
import pathlib
import statistics
import sys

import numpy as np
from run import append_lines, timed_in_turn

import vicinal

RESULTS = pathlib.Path(__file__).resolve().parent / "results" / "tree.csv"
FIELDS = ["date", "commit", "machine", "threads", "Q", "n", "d", "k", "engine", "call", "median_s", "best_s"]


def ours(x, threads):
    return lambda: vicinal.Corpus(x, threads=threads), lambda tree, q, k: tree.knn(q, k=k, threads=threads).distances


def scipys(x, threads):
    from scipy.spatial import cKDTree

    return lambda: cKDTree(x), lambda tree, q, k: tree.query(q, k=k, workers=threads)[0]


def pykdtrees(x, _threads):
    from pykdtree.kdtree import KDTree

    return lambda: KDTree(x), lambda tree, q, k: tree.query(q, k=k)[0]


def small_gicps(x, threads):
    import small_gicp

    if x.shape[1] != 3:
        raise ImportError("small_gicp takes three columns")
    points = small_gicp.PointCloud(x.astype(np.float64))
    return (lambda: small_gicp.KdTree(points, num_threads=threads),
            lambda tree, q, k: np.sqrt(np.asarray(tree.batch_knn_search(q.astype(np.float64), k, num_threads=threads)[1])))  # fmt: skip


def engines(x, threads):
    """Name -> what builds, what searches."""
    found = {}
    for name, make in (("vicinal", ours), ("cKDTree", scipys), ("pykdtree", pykdtrees), ("small_gicp", small_gicps)):
        try:
            found[name] = make(x, threads)
        except ImportError as error:
            print(f"without {name}: {error}", flush=True)
    return found


def measure(args, threads):
    rng = np.random.default_rng(args.cols)
    x, q = (rng.random((m, args.cols)).astype(np.float32) for m in (args.rows, args.queries))
    calls = {}
    for name, (build, search) in engines(x, threads).items():
        tree = build()
        calls[name, "build"] = build
        calls[name, "prepared"] = lambda search=search, tree=tree: search(tree, q, args.k)
        calls[name, "both"] = lambda build=build, search=search: search(build(), q, args.k)
    times, said = timed_in_turn(calls, args.repeat)
    want = said["vicinal", "prepared"]
    for (name, call), answer in said.items():
        assert call == "build" or np.allclose(answer, want, rtol=1e-5, atol=1e-6), f"{name}: distances differ"
    for call in ("build", "prepared", "both"):
        mine = min(times["vicinal", call])
        shown = "  ".join(f"{name} {1e3 * min(seconds):9.2f} ms ({min(seconds) / mine:.2f})" for (name, c), seconds in times.items() if c == call)
        print(f"{threads:3} threads  {call:9} {shown}", flush=True)
    return [dict(threads=threads, Q=args.queries, n=args.rows, d=args.cols, k=args.k, engine=name, call=call,
                 median_s=f"{statistics.median(seconds):.6f}", best_s=f"{min(seconds):.6f}") for (name, call), seconds in times.items()]  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("rows", 1_000_000), ("queries", 200_000), ("cols", 3), ("k", 10), ("repeat", 5)):
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, vicinal.info().threads])
    parser.add_argument("--commit", default="", help="where git is not there to be asked")
    parser.add_argument("--output", default=RESULTS)
    parser.add_argument("--no-save", action="store_true")
    args = parser.parse_args()
    if os.environ.get("OMP_NUM_THREADS") != str(args.threads[0]) or len(args.threads) > 1:
        rest = [word for name in ("rows", "queries", "cols", "k", "repeat") for word in ("--" + name, str(getattr(args, name)))]
        for threads in dict.fromkeys(args.threads):
            command = [sys.executable, __file__, *rest, "--threads", str(threads)] + ["--commit", args.commit, "--output", str(args.output)] + ["--no-save"] * args.no_save
            status = os.spawnve(os.P_WAIT, sys.executable, command, {**os.environ, "OMP_NUM_THREADS": str(threads)})
            if status != 0:
                sys.exit(status)
        return
    lines = measure(args, args.threads[0])
    if not args.no_save:
        append_lines(pathlib.Path(args.output), FIELDS, [line | ({"commit": args.commit} if args.commit else {}) for line in lines])


if __name__ == "__main__":
    main()
