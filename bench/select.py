"""Selection on the CPU beside the peers: the k smallest of rows of float32, sorted, with ids.

    .venv/bin/python bench/select.py [--rows 256] [--cols 1048576] [--k 2 --k 100 ...] [--family random ...] [--repeat 3]
                                     [--threads N] [--no-save]

Engines take turns within a round. "read only" adds everything up and selects nothing: its time is the bound, and the share
is that time over an engine's. std::nth_element and NumPy run on fewer rows (--slow-rows), and their times are scaled up, which
favours none: rows are independent. Appends to bench/results/select.csv with date, commit and machine.
"""

import argparse
import os
import statistics
import time
from pathlib import Path

import numpy as np
from run import append_lines
from selections import ours, peers, rows_of

RESULTS = Path(__file__).resolve().parent / "results" / "select.csv"
FIELDS = ["date", "commit", "machine", "threads", "family", "rows", "cols", "k", "engine", "median_s", "best_s", "share_of_read"]
FAMILIES = ["random", "ascending", "descending", "few-valued", "equal", "one outlier", "NaN-rich", "denormals"]
SLOW = ("std::", "numpy")


def timed(call, x, k, threads):
    start = time.perf_counter()
    values = call(x, k, threads)
    return time.perf_counter() - start, values


def measure(family, a):
    x = rows_of(family, a.rows, a.cols)
    engines = {"vicinal": ours("auto")} | peers()
    if family == "NaN-rich":  # the heap and the standard library have no order for it
        engines = {name: call for name, call in engines.items() if not name.startswith(("std::", "faiss"))}
    for k in a.k or [2, 10, 100, 1024]:
        times = {name: [] for name in engines}
        for _ in range(a.repeat):
            for name, call in engines.items():
                rows = min(a.slow_rows, a.rows) if name.startswith(SLOW) else a.rows
                seconds, values = timed(call, x[:rows], k, a.threads)
                times[name].append(seconds * a.rows / rows)
                if name == "vicinal":
                    truth = values
                elif name != "read only":
                    assert np.array_equal(values, truth[:rows], equal_nan=True), f"{name} differs at k={k}, {family}"
        bound = min(times["read only"])
        for name, seconds in times.items():
            median, best = statistics.median(seconds), min(seconds)
            print(f"{family:12} k={k:<5} {name:28} median {median:8.3f} s  best {best:8.3f} s  {x.nbytes / best / 1e9:6.2f} GB/s"
                  f"  {bound / best:6.1%} of reading  {median / statistics.median(times['vicinal']):7.2f} times ours", flush=True)
            yield dict(zip(FIELDS[3:], [a.threads, family, a.rows, a.cols, k,
                                    name, f"{median:.5f}", f"{best:.5f}", f"{bound / best:.4f}"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=256)
    parser.add_argument("--cols", type=int, default=1 << 20)
    parser.add_argument("--k", type=int, action="append")
    parser.add_argument("--family", action="append", choices=FAMILIES)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--slow-rows", type=int, default=8)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--no-save", action="store_true")
    a = parser.parse_args()
    lines = [line for family in a.family or FAMILIES for line in measure(family, a)]
    if a.no_save:
        return
    append_lines(RESULTS, FIELDS, lines)


if __name__ == "__main__":
    main()
