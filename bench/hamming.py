"""Searches of packed bits on the CPU beside faiss's IndexBinaryFlat, in turn in one process on the same cores.

    .venv/bin/python bench/hamming.py [--rows 1000000] [--bits 64 256 512 2048] [--queries 1 100 2000] [--k 10 100] [--threads N] [--repeat 5] [--no-save]

"prepared" searches a Corpus, or faiss's index that the rows were added to; "one-shot" is arrays to answer. Each row of times has the best of so
many rounds of every engine, and the share of them that ours takes of faiss's. Distances must be equal, and ids those of the one total order.
Appends to bench/results/hamming.csv with date, commit and machine.
"""

import argparse
import itertools
import pathlib
import statistics

import numpy as np
from run import append_lines, timed_in_turn

import vicinal

RESULTS = pathlib.Path(__file__).resolve().parent / "results" / "hamming.csv"
FIELDS = ["date", "commit", "machine", "threads", "Q", "n", "bits", "k", "engine", "call", "median_s", "best_s"]


def engines(x, q, k, threads, one_shot):
    import faiss

    faiss.omp_set_num_threads(threads)
    index = faiss.IndexBinaryFlat(8 * x.shape[1])
    index.add(x)
    corpus = vicinal.Corpus(x, metric="hamming", threads=threads)
    found = {("vicinal", "prepared"): lambda: corpus.knn(q, k=k, threads=threads),
             ("faiss-cpu " + faiss.__version__, "prepared"): lambda: index.search(q, k)}
    if one_shot:
        found["vicinal", "one-shot"] = lambda: vicinal.knn(x, q, k=k, metric="hamming", threads=threads)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    for name, default in (("bits", [64, 256, 512, 2048]), ("queries", [1, 100, 2000]), ("k", [10, 100])):
        parser.add_argument("--" + name, type=int, nargs="+", default=default)
    parser.add_argument("--threads", type=int, default=vicinal.info().threads)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--no-save", action="store_true")
    args = parser.parse_args()
    lines = []
    for bits, count in itertools.product(args.bits, args.queries):
        rng = np.random.default_rng(bits)
        x, q = (rng.integers(0, 256, (m, bits // 8), dtype=np.uint8) for m in (args.rows, count))
        for k in args.k:
            repeat = args.repeat * max(1, min(20, 100 // count))
            times, said = timed_in_turn(engines(x, q, k, args.threads, one_shot=True), repeat)
            ours, theirs = said["vicinal", "prepared"], next(answer for (name, _), answer in said.items() if name != "vicinal")
            assert np.array_equal(ours.distances, theirs[0]), "distances differ"
            assert np.array_equal(ours.ids, said["vicinal", "one-shot"].ids), "ids differ"
            faiss_best = next(min(seconds) for (name, _), seconds in times.items() if name != "vicinal")
            shown = "  ".join(f"{name} {call} {1e3 * min(seconds):9.3f} ms ({min(seconds) / faiss_best:.2f})" for (name, call), seconds in times.items())
            print(f"{bits:5} bits  Q={count:<5} k={k:<4} {shown}", flush=True)
            lines += [dict(threads=args.threads, Q=count, n=args.rows, bits=bits, k=k, engine=name, call=call,
                           median_s=f"{statistics.median(seconds):.6f}", best_s=f"{min(seconds):.6f}") for (name, call), seconds in times.items()]
    if not args.no_save:
        append_lines(RESULTS, FIELDS, lines)


if __name__ == "__main__":
    main()
