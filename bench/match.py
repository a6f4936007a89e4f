"""Matching of features of pictures beside OpenCV on the same cores, or torch on the same CUDA device.

    .venv/bin/python bench/match.py [--device cpu] [--pictures 8] [--rows 8192] [--large 125000] [--repeat 3] [--threads N] [--no-save]

Pictures are made: rows like SIFT's, bytes of length about 512, of which a fifth is near rows that all pictures share. Cases: every pair of the
pictures (mutual, ratio 0.8), and one pair of large ones. OpenCV's BFMatcher looks for the two nearest of each row, f32 and u8, both ways, on one
pair; torch multiplies in f16 and takes two topk a pair. Their matches by the same rule are compared with ours: equal for OpenCV, but for ties.
Engines take turns within a round. Appends to bench/results/match.csv with date, commit and machine.
"""

import argparse
import os
import pathlib
import statistics

import numpy as np
from run import append_lines, timed_in_turn

import vicinal

RESULTS = pathlib.Path(__file__).resolve().parent / "results" / "match.csv"
FIELDS = ["date", "commit", "machine", "device", "threads", "case", "pictures", "rows", "engine", "pairs", "median_s", "best_s", "pairs_per_s"]


def sift_like(rng, count):
    made = rng.standard_gamma(0.6, (count, 128), dtype=np.float32)
    made = np.minimum(made / np.linalg.norm(made, axis=1, keepdims=True), 0.2)
    return np.rint(512 * made / np.linalg.norm(made, axis=1, keepdims=True)).clip(0, 255).astype(np.uint8)


def pictures(count, rows):
    rng = np.random.default_rng(1)
    shared = sift_like(rng, rows // 5)
    made = []
    for _ in range(count):
        x = sift_like(rng, rows)
        x[: len(shared)] = (shared.astype(np.int16) + rng.integers(-6, 7, shared.shape, dtype=np.int16)).clip(0, 255)
        made.append(x[rng.permutation(rows)])
    return made


def mutual_matches(forth, back, ratio=0.8):
    """Of (ids, best, second) both ways the pairs that pass in both."""
    passing = [np.where(best < ratio * second, ids, -1) for ids, best, second in (forth, back)]
    rows = np.flatnonzero(passing[0] >= 0)
    rows = rows[passing[1][passing[0][rows]] == rows]
    return np.stack([rows, passing[0][rows]], 1)


def by_opencv(a, b, dtype):
    import cv2

    def one_way(x, y):
        found = cv2.BFMatcher(cv2.NORM_L2).knnMatch(x.astype(dtype), y.astype(dtype), 2)
        return np.array([f[0].trainIdx for f in found]), *(np.array([f[i].distance for f in found]) for i in (0, 1))

    return mutual_matches(one_way(a, b), one_way(b, a))


def by_torch(images, pairs):
    import torch

    held = [torch.from_numpy(x).to("cuda").half() / 512 for x in images]
    found = 0
    for i, j in pairs:
        table = held[i] @ held[j].T
        ways = [(t.indices[:, 0], *(2 - 2 * t.values.float()).clamp_min(0).sqrt().T) for t in (torch.topk(table, 2, 1), torch.topk(table.T, 2, 1))]
        forth, back = (torch.where(best < 0.8 * second, ids, -1) for ids, best, second in ways)
        rows = torch.nonzero(forth >= 0)[:, 0]
        found += int((back[forth[rows]] == rows).sum())
    torch.cuda.synchronize()
    return found


def calls(images, every, device, threads):
    """engine -> (function, pairs it matches)."""
    first = images[:2]
    found = {"vicinal": (lambda: vicinal.match_pairs(images, device=device, threads=threads), every)}
    if device == "cpu":
        try:
            import cv2
        except ImportError:
            print("OpenCV is not installed: not run")
            return found
        cv2.setNumThreads(threads)
        if len(first[0]) <= 20_000:  # minutes beyond
            for name, dtype in (("f32", np.float32), ("u8", np.uint8)):
                found[f"OpenCV {cv2.__version__}, {name}"] = (lambda dtype=dtype: by_opencv(*first, dtype)), 1
        return found
    try:
        import torch
    except ImportError:
        print("torch is not installed: not run")
        return found
    if len(first[0]) <= 50_000:
        pairs = vicinal.match_pairs(images[:4], ratio=None, max_distance=0).pairs
        found[f"torch {torch.__version__}, f16"] = (lambda: by_torch(images, pairs)), len(pairs)
    return found


def measure(case, images, device, threads, repeat):
    every = len(images) * (len(images) - 1) // 2
    tried = calls(images, every, device, threads)
    answers = {name: call() for name, (call, _) in tried.items()}
    ours = answers["vicinal"][0].ids
    for name, theirs in answers.items():
        if name.startswith("OpenCV"):
            differ = {tuple(x) for x in ours.tolist()} ^ {tuple(x) for x in theirs.tolist()}
            print(f"  {name}: {len(theirs)} matches of the first pair, {len(differ)} not ours or not theirs")
    times, _ = timed_in_turn({name: call for name, (call, _) in tried.items()}, repeat)
    print(f"\n{case}: {len(images)} pictures of {len(images[0])} rows, {device}, {threads} threads; {len(answers['vicinal'].ids)} matches")
    for name, seconds in times.items():
        pairs, median, best = tried[name][1], statistics.median(seconds), min(seconds)
        print(f"  {name:20} median {median:8.4f} s  best {best:8.4f} s  {pairs / median:9.4g} pairs/s")
        yield dict(device=device, threads=threads, case=case, pictures=len(images), rows=len(images[0]), engine=name, pairs=pairs,
                   median_s=f"{median:.5f}", best_s=f"{best:.5f}", pairs_per_s=f"{pairs / median:.4g}")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--pictures", type=int, default=8)
    parser.add_argument("--rows", type=int, default=8192)
    parser.add_argument("--large", type=int, default=0, help="rows of a pair of large pictures; 0: none")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--no-save", action="store_true")
    a = parser.parse_args()
    done = list(measure("every pair", pictures(a.pictures, a.rows), a.device, a.threads, a.repeat))
    if a.large:
        done += measure("one large pair", pictures(2, a.large), a.device, a.threads, a.repeat)
    if not a.no_save:
        append_lines(RESULTS, FIELDS, done)


if __name__ == "__main__":
    main()
