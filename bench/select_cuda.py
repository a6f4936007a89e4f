"""select_k on a CUDA device beside torch.topk and CUB 3.5, in one process on the same rows: medians of device events, and the share
of the time that reading the rows once takes.

    python3 bench/select_cuda.py [--seconds 0.2] [--families] > lines.csv

Ours are sorted and stable with 64-bit ids. `cub topk` and `cub batched topk` give the set alone, in no order; `cub sort` is its radix
sort of whole rows with their positions. Comma-separated lines for bench/results/select_cuda_peers.csv.
"""

import argparse
import csv
import sys

import torch
from cuda_selections import FAMILIES, Selections, Times

SHAPES = ((1000, 1 << 20, (10, 100, 1000)), (8192, 65536, (100,)), (65536, 8192, (10, 100, 1000)), (524288, 1024, (100,)), (131072, 4096, (100,)),
          (1, 1 << 16, (100,)), (1, 1 << 20, (100,)), (1, 1 << 24, (100, 65536)), (1, 1 << 26, (100,)), (1, 1 << 28, (10, 100, 16384)))  # fmt: skip
PEERS = ("torch topk", "torch sort", "cub topk", "cub batched topk", "cub sort")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=0.2)
    parser.add_argument("--families", action="store_true", help="ours on rows of every family instead")
    a = parser.parse_args()
    lines = csv.writer(sys.stdout, lineterminator="\n")
    lines.writerow(["device", "rows", "cols", "k", "family", "engine", "median_ms", "read_ms", "share_of_read"])
    selections = Selections(1000 << 20)
    device = torch.cuda.get_device_name().replace(",", "")
    for rows, cols, ks in SHAPES:
        for family in FAMILIES if a.families else ("random",):
            selections.fill(rows, cols, family)
            read = selections.time("read", 1, seconds=a.seconds).median
            for k in ks:
                for engine in ("vicinal auto",) if a.families else ("vicinal auto", *PEERS):
                    slow = engine == "torch sort" and rows * cols > 1 << 28 or engine == "cub topk" and rows > 1000
                    times = "left out: too long" if slow else selections.time(engine, k, seconds=a.seconds)
                    good = isinstance(times, Times)
                    lines.writerow([device, rows, cols, k, family, engine, *((f"{times.median:.4f}", f"{read:.4f}", f"{read / times.median:.4f}") if good else ("", "", times))])
                    sys.stdout.flush()


if __name__ == "__main__":
    main()
