"""The papers' figures of selection, on the GPU, on the papers' axes: every sibling here, our best, and today's peers.

    python3 repro/selection_gpu.py [--out repro/results] [--only komarov_fig7] [--seconds 0.02]

Needs torch and the library of bench/select_engines.cu (bench/cuda_selections.py finds it). Komarov 2014: figures 5 to 10, table 2.
Li and Amenta 2015: figure 4. Sismanis 2012: figures 1, 2 and 4. One CSV a figure, a line a point; repro/plot.py draws them.
"""

import argparse
import csv
import ctypes
import datetime
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import torch
from cuda_selections import Selections, Times, times_of

FIELDS = ["date", "commit", "machine", "engine", "milliseconds", "deviation", "repeats"]  # and a point, before the engine
SIBLINGS = ["auto", "sieve_rows", "sieve_block", "sieve_grid", "quick_warp", "quick_block", "merge", "bitonic", "radix", "scan"]
PEERS = ["torch topk", "cub topk", "cub batched topk", "cub sort"]
ALL = ["vicinal " + name for name in SIBLINGS] + PEERS
TRIALS = 200


def log2(first, last, step=1):
    return [1 << power for power in range(first, last + 1, step)]


def square(total, first, last, ks):
    """rows x n = 2^total with log2(n / rows) from `first` to `last`."""
    for ratio in range(first, last + 1):
        if (total + ratio) % 2 == 0:
            n = 1 << (total + ratio) // 2
            for k in ks:
                if k <= n:
                    yield (1 << total) // n, n, k


# figure -> (points of rows, n, k; engines; with ids)
FIGURES = {
    "komarov_fig5": ([(8192, n, k) for n in log2(13, 18) for k in log2(6, 9)], ALL, True),
    "komarov_fig6": ([(rows, 65536, k) for rows in log2(10, 13) for k in log2(6, 9)], ALL, True),
    "komarov_fig7": (list(square(27, -3, 20, (2, 8, 32, 128, 512))), ALL, True),
    "komarov_fig8": (list(square(28, 2, 22, (2, 16, 128, 1024))), ALL, False),
    "komarov_fig9": ([(rows, 1 << 20, k) for rows in log2(3, 8) for k in (2, 32, 512)], ALL, True),
    "komarov_fig10": ([(256, n, k) for n in log2(16, 20) for k in (2, 16, 128, 1024)], ALL, True),
    "li_fig4": ([(rows, 100_000, k) for rows in (50, 100, 200, 400, 700, 1000) for k in (500, 1000, 2000, 3000)]
                + [(90, n, k) for n in (50_000, 100_000, 200_000, 400_000, 700_000, 1_000_000) for k in (500, 1000, 2000, 3000)], ALL, True),
    "sismanis_fig2": ([(1, n, k) for n in log2(10, 20) for k in (16, 64, 256, 1024) if k <= n], ALL, True),
}  # fmt: skip
TABLE2 = [(1 << 27 >> power, 1 << power, k) for power in (13, 16, 20) for k in (16, 128, 512)]


def too_long(engine, rows, n, k):
    """Whether a point would take so long that the whole would not end in minutes."""
    if engine == "cub topk":  # a launch or more a row
        return rows > 2048
    if engine == "vicinal scan":
        return rows > 16384
    if engine == "vicinal bitonic":
        return rows * n * k > 1 << 40
    return engine == "cub sort" and rows * n > 1 << 30


class Report:
    def __init__(self, folder, commit, point=("rows", "n", "k")):
        self.fields = [*FIELDS[:3], *point, *FIELDS[3:]]
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.head = [datetime.date.today().isoformat(), commit, torch.cuda.get_device_name()]
        self.files = {}

    def line(self, figure, *point):
        *point, engine, times = point
        if figure not in self.files:
            file = (self.folder / f"{figure}.csv").open("w", newline="")
            self.files[figure] = file, csv.writer(file, lineterminator="\n")
            self.files[figure][1].writerow(self.fields)
        file, lines = self.files[figure]
        lines.writerow([*self.head, *point, engine, f"{times.median:.5f}", f"{times.deviation:.5f}", times.count])
        file.flush()


def curves(selections, report, figure, seconds):
    points, engines, ids = FIGURES[figure]
    shape = None
    for rows, n, k in points:
        if shape != (rows, n):
            shape = rows, n
            selections.fill(rows, n)
            report.line(figure, rows, n, 1, "read", selections.time("read", 1, seconds=seconds))
        for engine in engines:
            if engine == "cub sort" and (rows, n) == getattr(selections, "sorted_shape", None):
                times = selections.sorted_times  # it does not know k
            elif too_long(engine, rows, n, k):
                continue
            else:
                times = selections.time(engine, k, ids, seconds, most=20)
            if engine == "cub sort":
                selections.sorted_shape, selections.sorted_times = (rows, n), times
            if isinstance(times, Times):
                report.line(figure, rows, n, k, engine, times)


def nth_element(report):
    """Figure 10's baseline on one core of this machine: std::nth_element on (value, id), some rows, scaled to all 256."""
    path = os.environ.get("VICINAL_BENCH_STD")
    if not path:
        print("VICINAL_BENCH_STD names no library: figure 10 has no nth_element")
        return
    function = ctypes.CDLL(path).nth_element_pairs
    generator = torch.Generator().manual_seed(7)
    for rows, n, k in FIGURES["komarov_fig10"][0]:
        few = 4
        x = torch.rand((few, n), generator=generator)
        values, ids = torch.empty((few, k)), torch.empty((few, k), dtype=torch.int64)
        seconds = []
        for _ in range(3):
            start = time.perf_counter()
            function(ctypes.c_void_p(x.data_ptr()), ctypes.c_int64(few), ctypes.c_int64(n), ctypes.c_int64(k), 1,
                     ctypes.c_void_p(values.data_ptr()), ctypes.c_void_p(ids.data_ptr()))  # fmt: skip
            seconds.append((time.perf_counter() - start) * rows / few)
        report.line("komarov_fig10", rows, n, k, "std::nth_element, one core", Times(statistics.median(seconds) * 1e3, 0, 0, 3))


def table2(selections, report):
    """Times over data sets: as many random matrices as trials, one timing each."""
    for rows, n, k in TABLE2:
        for engine in ("vicinal quick_block", "vicinal auto"):
            times = []
            for seed in range(TRIALS):
                selections.fill(rows, n, seed=seed + 1)
                times.append(selections.time(engine, k, seconds=0, most=1).median)
            report.line("komarov_table2", rows, n, k, engine, Times(statistics.mean(times), 0, statistics.stdev(times), TRIALS))


def search_by_product(rows, n, select, k, seconds):
    """Milliseconds of squared distances by a matrix product and of the selection, queued one after the other."""
    corpus, queries = (torch.rand((count, 128), device="cuda") for count in (n, rows))
    squares = (corpus * corpus).sum(1)
    distances = torch.empty((rows, n), device="cuda")

    def product():
        torch.addmm(squares.expand(rows, n), queries, corpus.T, alpha=-2, out=distances)

    return times_of(lambda: (product(), select(distances, k)), seconds, 50), times_of(product, seconds, 50)


def full_sort(distances, k):
    values, ids = torch.sort(distances, stable=True)
    return values[:, :k], ids[:, :k]


def sismanis_fig1(selections, report, seconds):
    """A full sort cut after k, and the truncated bitonic sort: alone, and after the distances of one query, d = 128."""
    for n in log2(10, 20):
        selections.fill(1, n)
        for k in (16, 64, 256, 1024):
            if k > n:
                continue
            product = search_by_product(1, n, lambda x, count: None, k, seconds)[1]
            for engine in ("cub sort", "vicinal bitonic", "vicinal auto"):
                alone = selections.time(engine, k, seconds=seconds)
                report.line("sismanis_fig1", 1, n, k, engine, alone)
                both = Times(alone.median + product.median, 0, alone.deviation, alone.count)
                report.line("sismanis_fig1", 1, n, k, engine + " + distances", both)


def sismanis_fig4(selections, report, seconds):
    """Shares of transfer, distances and selection, for one query and for 128, k = 128, d = 128."""
    k = 128
    for rows in (1, 128):
        for n in log2(10, 20, 2):
            host = torch.rand((n, 128)).pin_memory()
            on_device = torch.empty((n, 128), device="cuda")
            report.line("sismanis_fig4", rows, n, k, "transfer", times_of(lambda: on_device.copy_(host, non_blocking=True), seconds, 20))
            report.line("sismanis_fig4", rows, n, k, "distances", search_by_product(rows, n, lambda x, count: None, k, seconds)[1])
            selections.fill(rows, n)
            for engine in ("cub sort", "vicinal bitonic", "vicinal auto"):
                report.line("sismanis_fig4", rows, n, k, engine, selections.time(engine, k, seconds=seconds))


def arguments(doc, seconds):
    """Of a script that redoes figures: where to, which, how long a point, and at which commit."""
    parser = argparse.ArgumentParser(description=doc.split("\n")[0])
    parser.add_argument("--out", default=ROOT / "repro" / "results")
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=seconds)
    parser.add_argument("--commit", default="")
    a = parser.parse_args()
    a.commit = a.commit or subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    return a


def main():
    a = arguments(__doc__, seconds=0.02)
    report = Report(a.out, a.commit)
    selections = Selections(1 << 31)
    start = time.perf_counter()

    def part(name, body):
        if a.only in name:
            before = time.perf_counter()
            body()
            print(f"{name}: {time.perf_counter() - before:.1f} s", flush=True)

    for figure in FIGURES:
        part(figure, lambda figure=figure: curves(selections, report, figure, a.seconds))
    part("komarov_fig10 nth_element", lambda: nth_element(report))
    part("komarov_table2", lambda: table2(selections, report))
    part("sismanis_fig1", lambda: sismanis_fig1(selections, report, a.seconds))
    part("sismanis_fig4", lambda: sismanis_fig4(selections, report, a.seconds))
    print(f"in all {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
