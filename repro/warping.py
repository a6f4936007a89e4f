"""Dynamic time warping: gain of an index of 64 permutants over our own exact search, on queries that nothing was tuned on.

    .venv/bin/python repro/warping.py --genome FILE [--stride 128] [--first-seed 1] [--seeds 5] [--queries 100] [--form ranks]
                                      [--threads N] [--no-save]

Series: the share of G and C along a genome, 128 running means of 128 letters, 16 letters apart; a series begins every --stride letters.
The rule is fixed before anything is measured: permutants by farthest_first, principal components of the distances to them
(or, --form ranks, orders compared by rho). Each seed draws other permutants, 200 series
to tune on and other queries; both are taken out and get noise (0.01). The share of candidates is the least with which the tuning queries
have recall 0.95. Then, for the queries: its recall, its time, and that of the exact search of the same index, which computes every distance.
For each seed also the share that the index takes by itself for recall=0.95, whose lower limit, not whose mean, reaches it. Shares and recalls do
not hang on the machine's load: --shares prints them alone, and --given takes them, a pair a seed, and measures alone on the machine.
Appends to results/warping.csv.
"""

import argparse
import pathlib
import sys
import time

import numpy as np

import vicinal

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
from lopresti_tables import gc_series
from run import append_lines

RESULTS = pathlib.Path(__file__).resolve().parent / "results" / "warping.csv"
FIELDS = ["date", "commit", "machine", "threads", "n", "stride", "Q", "m", "k", "choice", "ranks", "seed", "share by", "fraction", "recall", "seconds",
          "exact_seconds", "gain"]  # fmt: skip
WINDOW, K, TARGET = 12, 10, 0.95


def recall_of(found, truth):
    return float(np.mean(found.distances <= truth.distances[:, -1:]))


def least_share(index, queries, truth):
    """By halving; to a part in 500 of it."""
    low, high = 0.0, 0.5
    while high - low > 0.002 * high:
        middle = (low + high) / 2
        if recall_of(index.knn(queries, K, fraction=middle), truth) >= TARGET:
            high = middle
        else:
            low = middle
    return high


def left_by_bounds(base, queries, truth):
    """The share of all series that LB_Keogh's bound (2002) does not rule out at the true k-th distance, by the query's envelope alone and by that
    of the series as well: a search that computes no other distance is at most so many times as fast."""
    def envelope(rows):
        padded = np.pad(rows, ((0, 0), (WINDOW, WINDOW)), mode="edge")
        around = np.lib.stride_tricks.sliding_window_view(padded, 2 * WINDOW + 1, axis=1)
        return around.min(axis=-1), around.max(axis=-1)

    low, high = envelope(base)
    query_low, query_high = envelope(queries)
    one = both = 0.0
    for i, query in enumerate(queries):
        by_query = np.maximum(0, np.maximum(base - query_high[i], query_low[i] - base)).sum(axis=1, dtype=np.float64)
        by_series = np.maximum(0, np.maximum(query - high, low - query)).sum(axis=1, dtype=np.float64)
        kth = truth.distances[i, -1] * 1.0001
        one += np.mean(by_query <= kth) / len(queries)
        both += np.mean(np.maximum(by_query, by_series) <= kth) / len(queries)
    return one, both


def median_seconds(work, repeat):
    seconds = []
    for _ in range(repeat):
        began = time.perf_counter()
        found = work()
        seconds.append(time.perf_counter() - began)
    return sorted(seconds)[repeat // 2], found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--genome", required=True)
    parser.add_argument("--stride", type=int, default=128)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--form", default="components")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--shares", action="store_true")
    parser.add_argument("--given", nargs="*", metavar="SHARE,SHARE")
    parser.add_argument("--no-save", action="store_true")
    a = parser.parse_args()
    series = gc_series(a.genome, stride=a.stride)
    lines = []
    for seed in range(a.first_seed, a.first_seed + a.seeds):
        rng = np.random.default_rng(seed)
        out = rng.choice(len(series), 200 + a.queries, replace=False)
        asked = series[out] + rng.normal(0, 0.01, (len(out), series.shape[1])).astype(np.float32)
        base, tuning, fresh = np.delete(series, out, axis=0), asked[:200], asked[200:]
        index = vicinal.PermutationIndex(
            base, "dtw", 64, seed=seed, choice="farthest_first", rank_distance="rho", form=a.form, window=WINDOW, threads=a.threads
        )
        if a.given:
            shares = [float(share) for share in a.given[seed - a.first_seed].split(",")]
        else:
            shares = [least_share(index, tuning, index.knn(tuning, K, fraction=1)), index.knn(fresh[:1], K, recall=TARGET).fraction]
        if a.shares:
            print(",".join(f"{share:.6f}" for share in shares), flush=True)
            continue
        exact_seconds, truth = median_seconds(lambda: index.knn(fresh, K, exact=True), 1)
        one, both = left_by_bounds(base, fresh, truth)
        print(f"seed {seed}: LB_Keogh leaves {one:.3f} of all series, with the other envelope {both:.3f}", flush=True)
        for by, fraction in zip(("tuning queries", "recall=0.95"), shares):
            seconds, found = median_seconds(lambda: index.knn(fresh, K, fraction=fraction), 5)
            lines.append({"threads": a.threads or 2, "n": len(base), "stride": a.stride, "Q": len(fresh), "m": 64, "k": K, "choice": "farthest_first",
                          "ranks": a.form if a.form != "ranks" else "rho", "seed": seed, "share by": by, "fraction": round(fraction, 5), "recall": round(recall_of(found, truth), 4),
                          "seconds": round(seconds, 4), "exact_seconds": round(exact_seconds, 3), "gain": round(exact_seconds / seconds, 1)})  # fmt: skip
            print(", ".join(f"{k} {v}" for k, v in lines[-1].items()), flush=True)
            if not a.no_save:
                append_lines(RESULTS, FIELDS, lines[-1:])
    for by in ("tuning queries", "recall=0.95") if lines else ():
        for what in ("fraction", "recall", "gain"):
            all_of = [line[what] for line in lines if line["share by"] == by]
            print(f"{by}: {what} {np.mean(all_of):.4g} ({min(all_of)} to {max(all_of)})")


if __name__ == "__main__":
    main()
