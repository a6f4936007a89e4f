"""Searches by the kernels of compute capability 9.0, thousands of times: each has the bits of the first. For a build with -DVICINAL_CUDA_DELAYS=ON, in which
warps wait at random before what orders them, beside one without; the lines of both must be the same.

    VICINAL_KNN_ENGINE=lib/libknn_engine.so python3 tests/kernels/same_bits.py [--searches 10000]

Prints a line a case: its name, how many searches had other bits than the first, and a hash of those. Exits 1 where one had. Needs torch, a CUDA
device and the engine of bench/knn_cuda.py.
"""

import argparse
import hashlib
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import knn_cuda

CASES = {  # name: rows, queries (None: the rows themselves, whose tiles serve both sides), columns, k, kind of data
    "groups-k10": (65536, 2048, 128, 10, "gaussian"), "groups-k100": (65536, 1024, 128, 100, "gaussian"), "groups-64d": (65536, 1024, 64, 20, "gaussian"),
    "groups-u8": (65536, 2048, 128, 10, "u8"), "groups-sorted": (65536, 1024, 64, 16, "sorted"), "groups-heavy": (32768, 1024, 128, 10, "heavy"),
    "slabs-256d": (32768, 1024, 256, 15, "gaussian"), "slabs-784d": (32768, 1024, 784, 15, "gaussian"), "slabs-u8": (32768, 1024, 784, 15, "digits"),
    "few-1": (131072, 1, 128, 10, "gaussian"), "few-16": (131072, 16, 128, 10, "gaussian"), "few-17": (131072, 17, 128, 10, "gaussian"),
    "few-long": (1310720, 16, 64, 10, "gaussian"),
    "q128": (131072, 128, 128, 10, "gaussian"), "q100-64d": (131072, 100, 64, 10, "gaussian"), "q200": (131072, 200, 128, 100, "gaussian"), "clusters": (65536, 1024, 64, 10, "clusters-5"), "equal": (32768, 512, 64, 10, "equal"),
    "k2000": (32768, 256, 128, 2000, "gaussian"),
    "graph-128d": (98560, None, 128, 15, "gaussian"), "graph-64d": (98304, None, 64, 10, "clusters-2"), "graph-slabs": (98304, None, 256, 15, "gaussian"),
    "graph-u8": (100001, None, 100, 15, "digits"),
}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--searches", type=int, default=10_000)
    each = -(-parser.parse_args().searches // len(CASES))
    engine, others = knn_cuda.Engine(), 0
    for name, (n, q, d, k, kind) in CASES.items():
        x = knn_cuda.make(kind, n, d, 11)
        y = x if q is None else knn_cuda.make(kind, q, d, 12)
        corpus, _ = engine.prepare(x)
        lists = [(torch.empty(len(y), k, dtype=torch.int64, device="cuda"), torch.empty(len(y), k, dtype=torch.float32, device="cuda")) for _ in range(2)]
        engine.search(corpus, y, k, *lists[0])
        differing = torch.zeros((), dtype=torch.int64, device="cuda")
        searches = each if q is not None else max(1, each // 4)  # each is of ten times as many pairs
        for _ in range(searches):
            engine.search(corpus, y, k, *lists[1])
            differing += ((lists[0][0] != lists[1][0]).any() | (lists[0][1] != lists[1][1]).any()).long()
        engine.lib.knn_forget(corpus)
        others += int(differing)
        digest = hashlib.sha256(lists[0][0].cpu().numpy().tobytes() + lists[0][1].cpu().numpy().tobytes()).hexdigest()[:16]
        print(f"{name} {int(differing)} of {searches} {digest}", flush=True)
    return int(others > 0)


if __name__ == "__main__":
    sys.exit(main())
