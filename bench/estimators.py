"""NearestNeighbors(algorithm="brute"): vicinal.neighbors beside scikit-learn, in turn on the same cores.

    .venv/bin/python bench/estimators.py [--case NAME ...] [--dtype f4] [--repeat 5] [--no-save]

"queries" is kneighbors of 2,000 rows of the same kind, "own rows" kneighbors() of the fitted rows among themselves.
Fitting is not counted; ours prepares at the first search, which is the first round. "wrong" counts rows of the last
answer whose neighbours are not the nearest by vicinal.verify, "ties" those that differ among equals only. Gaussian rows.
Appends to bench/results/estimators.csv with date, commit and machine.
"""

import argparse
import pathlib
import statistics

import numpy as np
import sklearn
from run import append_lines, timed_in_turn
from sklearn import neighbors as theirs

import vicinal
from vicinal import neighbors as ours

RESULTS = pathlib.Path(__file__).resolve().parent / "results" / "estimators.csv"
FIELDS = ["date", "commit", "machine", "threads", "call", "Q", "n", "d", "k", "dtype", "engine", "median_s", "best_s",
          "wrong", "ties"]
CASES = {"20k-128d": (20_000, 128, 10), "10k-784d": (10_000, 784, 15), "100k-16d": (100_000, 16, 15)}


def measure(case, call, dtype, repeat):
    n, d, k = CASES[case]
    rng = np.random.default_rng(7)
    x = rng.standard_normal((n, d)).astype(dtype)
    queries = None if call == "own rows" else rng.standard_normal((2000, d)).astype(dtype)
    models = {"vicinal": ours.NearestNeighbors(n_neighbors=k, algorithm="brute").fit(x),
              "scikit-learn " + sklearn.__version__: theirs.NearestNeighbors(n_neighbors=k, algorithm="brute").fit(x)}
    times, answers = timed_in_turn({name: lambda model=model: model.kneighbors(queries) for name, model in models.items()}, repeat)
    asked = x if queries is None else queries
    base = statistics.median(times["vicinal"])
    for name, seconds in times.items():
        ids = np.asarray(answers[name][1])
        if queries is None:  # as a search of the rows among themselves has it: each row first in its own list
            ids = np.hstack([np.arange(n)[:, None], ids])
        verdict = vicinal.verify(x, asked, ids)
        median, best = statistics.median(seconds), min(seconds)
        print(f"{case:9} {call:9} {dtype} {name:20} median {median:7.3f} s  best {best:7.3f} s  {median / base:5.2f} times ours"
              f"  wrong {verdict.wrong}  ties {verdict.tie_order}", flush=True)
        yield dict(threads=vicinal.info().threads, call=call, Q=len(asked), n=n, d=d, k=k, dtype=dtype, engine=name,
                   median_s=f"{median:.4f}", best_s=f"{best:.4f}", wrong=verdict.wrong, ties=verdict.tie_order)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", action="append", choices=list(CASES))
    parser.add_argument("--call", action="append", choices=["queries", "own rows"])
    parser.add_argument("--dtype", default="f4")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--no-save", action="store_true")
    a = parser.parse_args()
    lines = [line for case in a.case or CASES for call in a.call or ["queries", "own rows"]
             for line in measure(case, call, a.dtype, a.repeat)]
    if not a.no_save:
        append_lines(RESULTS, FIELDS, lines)


if __name__ == "__main__":
    main()
