"""Sismanis 2012, figure 6: 1,024 SIFT descriptors of photographs among 65,536, their 32 nearest, beside a k-d tree on one core.

    .venv/bin/python repro/sismanis_fig6.py --sift FOLDER [--threads 1] [--repeat 5] [--device cpu] [--no-save]

--sift: a folder with base_u8.npy.gz (65,536 x 128) and query_u8.npy (1,024 x 128); data/demo has no such many. The paper's baseline is VLFeat's
approximate forest of k-d trees on one core; FLANN's, as OpenCV has it, stands for it, one tree as VLFeat has by default and four, with as many leaves
looked at as reach the recall that is written beside it. OpenCV's exact matcher stands beside both, of bytes and of floats; NumPy's single-precision
product and a partition too. Appends to repro/results/sismanis_fig6.csv.
"""

import argparse
import pathlib
import statistics
import time

import numpy as np

from figure import FIELDS, ROOT, append_lines
from lopresti_tables import load

import vicinal

K = 32


def ours(base, queries, threads, device):
    """One call with everything in it, and a search of prepared rows."""
    prepared = vicinal.Corpus(base, "sqeuclidean", threads=threads, device=device)
    return {
        f"vicinal {device}": lambda: vicinal.knn(base, queries, K, "sqeuclidean", threads=threads, device=device).ids,
        f"vicinal {device}, prepared": lambda: prepared.knn(queries, K).ids,
    }


def opencv(base, queries, threads):
    try:
        import cv2
    except ImportError:
        return {}
    cv2.setNumThreads(threads)
    floats = base.astype(np.float32), queries.astype(np.float32)
    engines = {}
    for kind, (rows, asked) in (("bytes", (base, queries)), ("floats", floats)):
        matcher = cv2.BFMatcher(cv2.NORM_L2)
        engines[f"OpenCV BFMatcher, {kind}"] = lambda matcher=matcher, rows=rows, asked=asked: np.array(
            [[one.trainIdx for one in found] for found in matcher.knnMatch(asked, rows, k=K)]
        )
    for trees, checks in ((1, 512), (4, 512), (4, 4096)):
        index = cv2.flann.Index(floats[0], dict(algorithm=1, trees=trees))
        engines[f"k-d trees (FLANN), {trees}, {checks} checks"] = (
            lambda index=index, checks=checks: index.knnSearch(floats[1], K, params=dict(checks=checks))[0]
        )
    return engines


def numpy_product(base, queries):
    rows, asked = base.astype(np.float32), queries.astype(np.float32)
    norms = (rows * rows).sum(1)

    def search():
        ids = []
        for part in np.array_split(asked, 8):
            squares = norms - 2 * (part @ rows.T)
            near = np.argpartition(squares, K, axis=1)[:, :K]
            ids.append(np.take_along_axis(near, np.take_along_axis(squares, near, 1).argsort(1, kind="stable"), 1))
        return np.concatenate(ids)

    return {"NumPy product and partition": search}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sift", required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--no-save", action="store_true")
    a = parser.parse_args()
    folder = pathlib.Path(a.sift)
    base, queries = load(folder / "base_u8.npy.gz"), load(folder / "query_u8.npy")
    truth = vicinal.knn(base, queries, K, "sqeuclidean", threads=a.threads)
    assert truth.certificate.all()
    engines = {**ours(base, queries, a.threads, a.device), **opencv(base, queries, a.threads), **numpy_product(base, queries)}
    times = {name: [] for name in engines}
    recalls = {}
    for _ in range(a.repeat):
        for name, call in engines.items():
            start = time.perf_counter()
            ids = call()
            times[name].append(time.perf_counter() - start)
            recalls[name] = np.mean([len(set(one) & set(two)) for one, two in zip(ids.tolist(), truth.ids.tolist())]) / K
    lines = []
    for name, seconds in times.items():
        median = statistics.median(seconds)
        print(f"{name}: {1e3 * median:.1f} ms, recall {recalls[name]:.4f}", flush=True)
        lines.append(dict(zip(FIELDS[3:], [a.threads, len(queries), len(base), K, name, f"{median:.6f}"]), recall=f"{recalls[name]:.4f}"))
    if not a.no_save:
        append_lines(ROOT / "repro" / "results" / "sismanis_fig6.csv", [*FIELDS, "recall"], lines)


if __name__ == "__main__":
    main()
