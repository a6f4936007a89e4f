"""Exact k-NN on a CUDA device of rows that lie in the host's memory, ordinary or pinned: whole calls, beside the rate of a bare copy.

    python3 bench/stream_cuda.py [--repeat 3] [--only NAME,...] > lines.csv

A line has the median of the calls in milliseconds and the gigabytes of rows a second; `copy` is torch's copy of the same rows from pinned
memory. Ids and distances are compared, bit by bit, with those of the same rows in memory of the device. Needs VICINAL_KNN_ENGINE.
"""

import argparse
import csv
import statistics
import sys
import time

import knn_cuda
import torch

CASES = {  # name: rows, columns, queries, k, kind
    "60m-u8-q100": (60_000_000, 128, 100, 100, "u8"), "60m-u8-q10000": (60_000_000, 128, 10_000, 100, "u8"),
    "3m-768d-q100": (3_400_000, 768, 100, 10, "gaussian"), "1m-f32-q10240": (1 << 20, 128, 10_240, 10, "gaussian"),
    "1m-f32-q1": (1 << 20, 128, 1, 10, "gaussian"),
}  # fmt: skip
PART = 1 << 20


def made(n, d, kind):
    """Rows of the device, made in parts."""
    first = knn_cuda.make(kind, min(n, PART), d, 1)
    rows = torch.empty(n, d, dtype=first.dtype, device="cuda")
    for part, begin in enumerate(range(0, n, PART)):
        rows[begin:begin + PART] = knn_cuda.make(kind, min(PART, n - begin), d, part + 1)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--no-pinned", action="store_true")
    a = parser.parse_args()
    engine, lines = knn_cuda.Engine(), csv.writer(sys.stdout, lineterminator="\n")
    lines.writerow(["device", "case", "n", "d", "q", "k", "rows", "ms", "GB_s", "planned_ms", "planned_mib", "used_mib", "equal"])
    device, host = torch.cuda.get_device_name().replace(",", ""), {}
    for name, (n, d, q, k, kind) in CASES.items():
        if a.only and name not in a.only.split(","):
            continue
        there, asked = made(n, d, kind), knn_cuda.make(kind, q, d, 1000)
        want = torch.empty(q, k, dtype=torch.int64), torch.empty(q, k, dtype=torch.float32)
        if (n, d, kind) not in host:
            host = {(n, d, kind): [there.cpu()]}
            if not a.no_pinned:
                host[n, d, kind].append(host[n, d, kind][0].pin_memory())
        queries, gigabytes = asked.cpu(), n * d * there.element_size() / 1e9

        def say(rows, times, facts=None, equal=""):
            ms = statistics.median(times)
            more = [f"{facts[5]:.1f}", f"{facts[6] / 2**20:.0f}", f"{facts[7] / 2**20:.0f}"] if facts else ["", "", ""]
            lines.writerow([device, name, n, d, q, k, rows, f"{ms:.2f}", f"{gigabytes / ms * 1e3:.1f}", *more, equal])
            sys.stdout.flush()

        def timed(rows, out, repeat):
            times, facts = [], None
            for _ in range(repeat + 1):
                begin = time.perf_counter()
                facts = engine.once(rows, queries, k, *out)
                times.append((time.perf_counter() - begin) * 1e3)
            return times[1:], facts

        say("device", *timed(there, want, a.repeat))
        for rows, where in zip(host[n, d, kind], ("ordinary", "pinned")):
            got = torch.empty_like(want[0]), torch.empty_like(want[1])
            times, facts = timed(rows, got, a.repeat)
            say(where, times, facts, all(torch.equal(x.view(torch.uint8), y.view(torch.uint8)) for x, y in zip(got, want)))
        if not a.no_pinned:
            times = []
            for _ in range(3):
                begin = time.perf_counter()
                there.copy_(host[n, d, kind][1], non_blocking=True)
                torch.cuda.synchronize()
                times.append((time.perf_counter() - begin) * 1e3)
            say("copy", times)
        del there


if __name__ == "__main__":
    main()
