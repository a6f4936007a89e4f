"""Sismanis 2012, figure 5: 16,777,216 SIFT-like rows of 128 columns in memory of the host, searched on a CUDA device, with the transfer of one part
beside the search of another, and one after the other.

    .venv/bin/python repro/sismanis_fig5.py [--rows 16777216] [--k 128] [--devices cuda:0,cuda:1] [--repeat 5] [--output FILE | --no-save]

The paper's streams are the parts of a corpus that travel and are searched at once, two, four or eight of them. Here the parts are in pieces for
`merge`, each a call, so that nothing overlaps ("one after the other, N parts"), and one call, whose feed overlaps chunks of its own choice, on one device
and, where --devices names them, on several. Bytes, and the same values as floats of 32 bits. Appends to repro/results/sismanis_fig5.csv.
"""

import argparse
import pathlib
import statistics
import time

import numpy as np

from figure import FIELDS, ROOT, append_lines
from several_gpus import machine_name

import vicinal

DIMS = 128


def sift_like(count, seed):
    """Bytes with many zeros, as gradients are, in parts so that memory stays small."""
    rng, rows = np.random.default_rng(seed), np.empty((count, DIMS), np.uint8)
    for begin in range(0, count, 1 << 20):
        part = rows[begin:begin + (1 << 20)]
        part[:] = np.maximum(rng.integers(-96, 160, part.shape, np.int16), 0)
    return rows


def in_parts(rows, queries, k, parts):
    """Parts one after the other: each is sent, then searched; the lists are merged at the end."""
    found, step = [], -(-len(rows) // parts)
    for first in range(0, len(rows), step):
        corpus = vicinal.Corpus(rows[first:first + step], "sqeuclidean", device="cuda")
        found.append(corpus.knn(queries, k, first_id=first))
    return found[0] if parts == 1 else vicinal.merge(found, k, "sqeuclidean")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=16_777_216)
    parser.add_argument("--k", type=int, default=128)
    parser.add_argument("--devices", default="", help="several of them: overlapped calls are timed on all of these too")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--commit", default="")
    parser.add_argument("--output", default=ROOT / "repro" / "results" / "sismanis_fig5.csv")
    parser.add_argument("--no-save", action="store_true")
    a = parser.parse_args()
    bytes_, lines = sift_like(a.rows, 1), []
    for kind, rows in (("u8", bytes_), ("f32", bytes_.astype(np.float32))):
        for count in (1, 128, 10_240):
            queries = sift_like(count, 2).astype(rows.dtype)
            engines = {f"one after the other, {parts} part{'s' * (parts > 1)}": lambda parts=parts: in_parts(rows, queries, a.k, parts) for parts in (1, 2, 4, 8)}
            engines["overlapped"] = lambda: vicinal.knn(rows, queries, a.k, "sqeuclidean", device="cuda")
            if a.devices:
                engines[f"overlapped, {a.devices.count(',') + 1} devices"] = lambda: vicinal.knn(rows, queries, a.k, "sqeuclidean", device=a.devices)
            times, ids = {name: [] for name in engines}, {}
            for turn in range(a.repeat + 1):  # the first is not counted
                for name, call in engines.items():
                    start = time.perf_counter()
                    ids[name] = call().ids
                    if turn > 0:
                        times[name].append(time.perf_counter() - start)
            assert all((one == ids["overlapped"]).all() for one in ids.values())
            one = statistics.median(times["one after the other, 1 part"])
            for name, seconds in times.items():
                median = statistics.median(seconds)
                print(f"{kind}, {count} queries, {name}: {1e3 * median:.1f} ms, {one / median:.2f} times", flush=True)
                lines.append(dict(zip(FIELDS[3:], [0, count, len(rows), a.k, f"{kind}, {name}", f"{median:.6f}"])))
    if not a.no_save:
        known = {"machine": machine_name("cuda:0"), **({"commit": a.commit} if a.commit else {})}
        append_lines(pathlib.Path(a.output), FIELDS, [known | line for line in lines])


if __name__ == "__main__":
    main()
