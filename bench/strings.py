"""Searches of strings beside rapidfuzz, edlib and polyleven, on the same cores.

    .venv/bin/python bench/strings.py [--words FILE] [--dna FILE] [--texts FILE] [--genome FILE]
                                      [--repeat 5] [--threads N] [--no-save]

Files of strings, one a line; --genome is one long sequence (perhaps .gz, line ends do not count), of which reads of 150 letters are
made, 30 apart, with eight random edits in those that are searched for. --words makes the graph of near duplicates too: 200,000
strings, the file's and random single edits of them, everything within r = 1. A case runs when its file is given.

Answers are results by (distance, id). rapidfuzz gives a table of distances (process.cdist) from which the k first are taken with
numpy, or, for a radius, a table cut off beyond it. edlib and polyleven compare one pair a call, so they get few queries, and what
counts is pairs a second. The answers of vicinal and rapidfuzz must be equal. Engines take turns within a round. Appends to
bench/results/strings.csv with date, commit and machine.
"""

import argparse
import gzip
import os
import pathlib
import statistics

import numpy as np
from run import append_lines, timed_in_turn

import vicinal

RESULTS = pathlib.Path(__file__).resolve().parent / "results" / "strings.csv"
FIELDS = ["date", "commit", "machine", "threads", "case", "call", "Q", "n", "engine", "median_s", "best_s", "pairs_per_s"]


def lines(path):
    return pathlib.Path(path).read_text().split("\n")[:-1]


def edited(rng, text, count):
    letters = sorted(set(text))
    for _ in range(count):
        at, letter, kind = rng.integers(len(text)), rng.choice(letters), rng.integers(3)
        text = text[:at] + (letter if kind < 2 else "") + text[at + (kind > 0) :]
    return text


def reads(path, rng, count=20_000, searched=200):
    genome = (gzip.open(path, "rt") if str(path).endswith(".gz") else open(path)).read().replace("\n", "")
    corpus = [genome[at : at + 150] for at in range(0, 30 * count, 30)]
    return corpus, [edited(rng, corpus[i], 8) for i in rng.choice(count, searched, replace=False)]


def sampled(rng, corpus, count):
    return [corpus[i] for i in rng.choice(len(corpus), min(count, len(corpus)), replace=False)]


def near_duplicates(rng, words, count=200_000):
    made = list(dict.fromkeys(words))[:count]
    while len(made) < count:
        made.append(edited(rng, made[rng.integers(len(words))] or "a", 1))
    return made


def cases(a, rng):
    """name -> (corpus, queries, [("k", 5), ("r", 1), ...])."""
    found = {}
    if a.words:
        words = lines(a.words)
        found["words"] = words, sampled(rng, words, 2048), [("k", 5), ("r", 1), ("r", 2), ("r", 3)]
        many = near_duplicates(rng, words)
        found["near duplicates"] = many, many, [("r", 1)]
    if a.dna:
        strings = lines(a.dna)
        found["DNA 32"] = strings, sampled(rng, strings, 1000), [("k", 5), ("k", 10)]
    if a.texts:
        texts = lines(a.texts)
        found["texts"] = texts, sampled(rng, texts, 300), [("k", 5)]
    if a.genome:
        found["reads"] = *reads(a.genome, rng), [("k", 5)]
    return found


def first_k(table, k):
    """The k first of each row by (distance, column)."""
    keys = table.astype(np.int64) * table.shape[1] + np.arange(table.shape[1])
    chosen = np.sort(np.partition(keys, k - 1, axis=1)[:, :k], axis=1)
    return chosen % table.shape[1]


def by_rapidfuzz(corpus, queries, how, value, threads):
    from rapidfuzz import process
    from rapidfuzz.distance import Levenshtein

    at_once, ids = 256, []
    cutoff = int(value) if how == "r" else None
    for first in range(0, len(queries), at_once):
        table = process.cdist(queries[first : first + at_once], corpus, scorer=Levenshtein.distance, score_cutoff=cutoff,
                              dtype=np.uint16, workers=threads)  # fmt: skip
        ids += list(first_k(table, value)) if how == "k" else [np.flatnonzero(row <= value)[np.argsort(row[row <= value], kind="stable")] for row in table]
    return ids


def by_pairs(distance, corpus, queries):
    for query in queries:
        np.argpartition(np.fromiter((distance(query, text) for text in corpus), np.int64, len(corpus)), 5)


def engines(corpus, queries, how, value, threads):
    """engine -> (function that returns ids or nothing, queries it takes)."""
    options = dict(metric="levenshtein", threads=threads)
    if how == "k":
        found = {"vicinal": (lambda: list(vicinal.knn(corpus, queries, value, **options).ids), len(queries))}
    else:

        def within():
            result = vicinal.range_search(corpus, queries, value, **options)
            return [result[i][1] for i in range(len(result))]

        found = {"vicinal": (within, len(queries))}
    if len(queries) == len(corpus) > 100_000:
        return found  # hours for the others
    try:
        import rapidfuzz

        found["rapidfuzz " + rapidfuzz.__version__] = lambda: by_rapidfuzz(corpus, queries, how, value, threads), len(queries)
    except ImportError:
        print("rapidfuzz is not installed: not run")
    few = 4
    for name, load in (("edlib", lambda m: lambda a, b: m.align(a, b, task="distance")["editDistance"]), ("polyleven", lambda m: m.levenshtein)):
        try:
            module = __import__(name)
        except ImportError:
            print(f"{name} is not installed: not run")
            continue
        if how == "k":
            found[f"{name}, pairs"] = (lambda d=load(module): by_pairs(d, corpus, queries[:few])), few
    return found


def measure(case, corpus, queries, how, value, threads, repeat):
    tried = engines(corpus, queries, how, value, threads)
    answers = {name: call() for name, (call, _) in tried.items()}
    full = [ids for ids in answers.values() if ids is not None]
    assert all(np.array_equal(x, y) for other in full[1:] for x, y in zip(full[0], other, strict=True)), "two answers differ"
    times, _ = timed_in_turn({name: call for name, (call, _) in tried.items()}, repeat)
    print(f"\n{case}: {len(queries)} of {len(corpus)}, {how} = {value}")
    rates = {}
    for name, seconds in times.items():
        pairs, median, best = tried[name][1] * len(corpus), statistics.median(seconds), min(seconds)
        rates[name] = pairs / median
        print(f"  {name:20} median {median:8.4f} s  best {best:8.4f} s  {pairs / median:9.3g} pairs/s"
              f"  vicinal is {rates['vicinal'] / rates[name]:6.1f} times as fast")  # fmt: skip
        yield dict(threads=threads, case=case, call=f"{how}={value}", Q=tried[name][1], n=len(corpus), engine=name,
                   median_s=f"{median:.5f}", best_s=f"{best:.5f}", pairs_per_s=f"{pairs / median:.4g}")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--words", "--dna", "--texts", "--genome"):
        parser.add_argument(name)
    parser.add_argument("--case", action="append", help="only these of the cases")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--no-save", action="store_true")
    a = parser.parse_args()
    rows = []
    for case, (corpus, queries, calls) in cases(a, np.random.default_rng(7)).items():
        if a.case and case not in a.case:
            continue
        for how, value in calls:
            rows += measure(case, corpus, queries, how, value, a.threads, a.repeat)
    if a.no_save:
        return
    append_lines(RESULTS, FIELDS, rows)


if __name__ == "__main__":
    main()
