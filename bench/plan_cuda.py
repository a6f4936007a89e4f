"""What the plan says of a search on a CUDA device, held against the search: time, and the most memory of the device at once.

    python3 bench/plan_cuda.py [--repeat 5] [--only NAME,...] > lines.csv

The cases of bench/knn_cuda.py, rows on the device, `prepared` and in `one call`; then some with rows of the host. In one call the plan is that of `plan`, which looks at a sample of the rows, and
`by shapes` the one that the search itself begins with, as a kept corpus does. Memory is what a search takes beside a corpus that was kept before; few queries work in what it keeps. `decides` says data where the first
precision left some queries: then no plan can know the time.
Needs VICINAL_KNN_ENGINE, the path of libknn_engine.so.
"""

import argparse
import csv
import sys

import knn_cuda
import torch

HOST = ("k10", "k1000", "784d-u8", "sift10m", "q1", "sorted")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--only", default="")
    a = parser.parse_args()
    engine, lines = knn_cuda.Engine(), csv.writer(sys.stdout, lineterminator="\n")
    lines.writerow(["device", "case", "call", "rows", "predicted_ms", "measured_ms", "ratio", "planned_mib", "used_mib", "bytes_ratio", "decides"])
    device = torch.cuda.get_device_name().replace(",", "")
    for name, (n, q, d, k, kind) in knn_cuda.CASES.items():
        if a.only and name not in a.only.split(","):
            continue
        x = knn_cuda.make(kind, n, d, 11)
        y = x if q == n else knn_cuda.make(kind, q, d, 12)

        def say(call, where, run, repeat, predicted=None):
            _, facts = knn_cuda.timed(run, repeat)
            ms = facts[0]  # inside of the call, which is what the plan is of
            planned, used = facts[6] / (1 << 20), facts[7] / (1 << 20)
            for what, said in ((call, predicted), ("by shapes", facts[5])) if predicted else ((call, facts[5]),):
                lines.writerow([device, name, what, where, f"{said:.3f}", f"{ms:.3f}", f"{said / ms:.2f}", f"{planned:.0f}", f"{used:.0f}",
                                f"{planned / used:.2f}" if used > 0 else "", "data" if facts[2] > 0 else "bytes"])  # fmt: skip
            sys.stdout.flush()

        def room(where):
            return torch.empty(q, k, dtype=torch.int64, device=where), torch.empty(q, k, dtype=torch.float32, device=where)

        try:
            repeat = a.repeat if q * n < 1 << 36 else 2
            out = room("cuda")
            metric = knn_cuda.metric_of(name)
            corpus, _ = engine.prepare(x, metric)
            say("prepared", "device", lambda: engine.search(corpus, y, k, *out, metric), repeat)
            engine.lib.knn_forget(corpus)
            say("one call", "device", lambda: engine.once(x, y, k, *out, metric), repeat, engine.plan(x, y, k, metric))
            if name in HOST:
                rows, asked = x.cpu(), y.cpu()  # lists of 32 MiB and more come to new memory each time, as those that knn returns
                say("one call", "host", lambda: engine.once(rows, asked, k, *room("cpu"), metric), 3, engine.plan(rows, asked, k, metric))
        except RuntimeError as error:
            print(name, error, file=sys.stderr)


if __name__ == "__main__":
    main()
