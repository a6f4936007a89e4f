"""The kernels of one search on a CUDA device in their order, by torch's profiler: when each begins, the gap before it, and how long it takes.

    python3 bench/timeline_cuda.py CASE[,CASE,...] > lines.csv

The cases of bench/knn_cuda.py, prepared, rows on the device, after searches that made them warm; `total` is the median of whole searches without
the profiler, in whose company the host launches more slowly. Unlike Nsight Compute (bench/profile_cuda.py) it leaves caches and clocks as they are.
Needs VICINAL_KNN_ENGINE, the path of libknn_engine.so.
"""

import csv
import sys

import knn_cuda
import torch
from torch.profiler import ProfilerActivity, profile

WARM = 3


def kernels_of(run):
    """(begin in us, gap before in us, us, name) of each kernel and memset that a search launches."""
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        run()
        torch.cuda.synchronize()
    events = [event for event in profiled.profiler.kineto_results.events() if event.device_type().name == "CUDA"]
    events.sort(key=lambda event: event.start_ns())
    start = end = events[0].start_ns() if events else 0
    for event in events:
        name = event.name().split("(")[0].split("<")[0].split("::")[-1]
        yield (event.start_ns() - start) / 1e3, (event.start_ns() - end) / 1e3, event.duration_ns() / 1e3, name
        end = max(end, event.start_ns() + event.duration_ns())


def measured(engine, case):
    """(begin, gap, us, kernel) of a case, the total last."""
    n, q, d, k, kind = knn_cuda.CASES[case]
    x = knn_cuda.make(kind, n, d, 11)
    y = x if q == n else knn_cuda.make(kind, q, d, 12)
    metric = knn_cuda.metric_of(case)
    ids, distances = torch.empty(q, k, dtype=torch.int64, device="cuda"), torch.empty(q, k, dtype=torch.float32, device="cuda")
    corpus, _ = engine.prepare(x, metric)

    def run():
        return engine.search(corpus, y, k, ids, distances, metric)

    for _ in range(WARM):
        run()
    ms, _ = knn_cuda.timed(run, 7)
    for begin, gap, us, name in kernels_of(run):
        yield f"{begin:.1f}", f"{gap:.1f}", f"{us:.1f}", name
    yield "", "", f"{1e3 * ms:.1f}", "total"
    engine.lib.knn_forget(corpus)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    engine, lines = knn_cuda.Engine(), csv.writer(sys.stdout, lineterminator="\n")
    lines.writerow(["device", "case", "begin_us", "gap_us", "us", "kernel"])
    device = torch.cuda.get_device_name().replace(",", "")
    for case in sys.argv[1].split(","):
        lines.writerows([device, case, *line] for line in measured(engine, case))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
