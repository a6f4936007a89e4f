"""k-NN graphs: tiles that serve both sides beside a search of the rows among themselves, and beside faiss-cpu.

    .venv/bin/python bench/graph.py [--rows 20000] [--cols 784] [--k 15] [--repeat 7] [--threads N] [--no-save]

Gaussian rows, squared Euclidean. Engines take turns within a round. "one-sided" is vicinal's search of the same rows with
k + 1, where every tile serves one side; the lists, less the row itself, must be equal. Appends to
bench/results/graph.csv with date, commit and machine.
"""

import argparse
import os
import pathlib
import statistics

import numpy as np
from run import append_lines, timed_in_turn

import vicinal

RESULTS = pathlib.Path(__file__).resolve().parent / "results" / "graph.csv"
FIELDS = ["date", "commit", "machine", "threads", "rows", "cols", "k", "engine", "median_s", "best_s"]


def engines(x, k, threads):
    metric = "sqeuclidean"
    found = {
        "vicinal graph": lambda: vicinal.knn_graph(x, k, metric=metric, threads=threads).ids,
        "vicinal one-sided": lambda: vicinal.knn(x, x, k + 1, metric=metric, threads=threads).ids,
    }
    try:
        import faiss

        faiss.omp_set_num_threads(threads)
        index = faiss.IndexFlatL2(x.shape[1])
        index.add(x)
        found["faiss-cpu " + faiss.__version__] = lambda: index.search(x, k + 1)[1]
    except ImportError:
        print("faiss-cpu is not installed: not run")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--cols", type=int, default=784)
    parser.add_argument("--k", type=int, default=15)
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--no-save", action="store_true")
    a = parser.parse_args()
    x = np.random.default_rng(7).standard_normal((a.rows, a.cols), dtype=np.float32)
    tried = engines(x, a.k, a.threads)
    graph, searched = tried["vicinal graph"](), tried["vicinal one-sided"]()
    assert all((row[row != i][: a.k] == graph[i]).all() for i, row in enumerate(searched)), "the two differ"
    times, _ = timed_in_turn(tried, a.repeat)
    ours = statistics.median(times["vicinal graph"])
    lines = []
    for name, seconds in times.items():
        median, best = statistics.median(seconds), min(seconds)
        print(f"{name:20}  median {median:.3f} s  best {best:.3f} s  {median / ours:.2f} times the graph's")
        lines.append(dict(zip(FIELDS[3:], [a.threads, a.rows, a.cols, a.k, name, f"{median:.4f}", f"{best:.4f}"])))
    if a.no_save:
        return
    append_lines(RESULTS, FIELDS, lines)


if __name__ == "__main__":
    main()
