"""Lopresti, Piccoli and Reyes: recall of a permutation index by permutants, share and radius; exact mode; many queries at once.

    .venv/bin/python repro/lopresti_tables.py [--words FILE] [--histograms FOLDER] [--dna FILE] [--sift FOLDER] [--embeddings FOLDER]
                                              [--genome FILE] [--other-words FILE] [--times | --targets] [--queries 1000] [--first-seed 1] [--seeds 1] [--no-save]

The paper's sets are SISAP's English words (FILE, one a line; queries are taken out) and 112-d colour histograms, for which FOLDER has
a stand-in, base_u16.npy.gz and query_u16.npy.gz in 4096ths. Recall of k-NN counts every object as near as the k-th, of ranges
queries with an empty answer are left out. Exact mode is held against vicinal.knn and vicinal.range_search, bit by bit. The modern
region: DNA under normalized Levenshtein, SIFT, embeddings, and dynamic time warping of the share of G and C along a genome.
--times measures instead: alone on the machine, please. --targets holds recalls that were aimed at against those that came out, also
for words of another language (--other-words, Latin-1); each seed draws other permutants, and other words to ask. Appends to repro/results/lopresti_recall.csv and lopresti_times.csv.
"""

import argparse
import gzip
import pathlib
import sys
import time

import numpy as np

import vicinal

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "bench"))  # its select.py is not Python's
from run import append_lines

RESULTS = pathlib.Path(__file__).resolve().parent / "results"
RECALL = ["date", "commit", "machine", "threads", "set", "n", "Q", "m", "choice", "form", "metric", "fraction", "answer", "recall", "share_computed"]
TIMES = ["date", "commit", "machine", "threads", "set", "n", "Q", "m", "metric", "what", "seconds", "recall", "note"]
PERMUTANTS, SHARES = (5, 16, 32, 64, 128), (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)


def load(path):
    return np.load(gzip.open(path) if str(path).endswith(".gz") else path)


def words(path, queries, seed=1):
    """Lines of a file, some of them taken out as queries."""
    all_words = pathlib.Path(path).read_text(encoding="utf8", errors="surrogateescape").split("\n")[:-1]
    out = set(np.random.default_rng(seed).choice(len(all_words), queries, replace=False).tolist())
    return [w for i, w in enumerate(all_words) if i not in out], [all_words[i] for i in sorted(out)]


def gc_series(path, steps=128, letters=16, stride=128):
    """The share of G and C along a genome, in windows that overlap by half, running means of 128 letters."""
    text = np.frombuffer((gzip.open(path) if str(path).endswith(".gz") else open(path, "rb")).read(), np.uint8)
    strong = np.isin(text[text > 32], np.frombuffer(b"GCgc", np.uint8)).astype(np.float64)
    mean = np.convolve(strong, np.ones(128) / 128, "valid")[::letters]
    starts = np.arange(0, len(mean) - steps, stride // letters)
    return np.stack([mean[s : s + steps] for s in starts]).astype(np.float32)


def cases(a):
    """(name, base, queries, metric, k, radii, window)"""
    if a.words:
        yield ("words", *words(a.words, a.queries), "levenshtein", (3, 5), (1, 2, 3), 0)
    if a.histograms:
        folder = pathlib.Path(a.histograms)
        base, queries = (load(folder / name).astype(np.float32) / 4096 for name in ("base_u16.npy.gz", "query_u16.npy.gz"))
        yield "histograms", base, queries[: a.queries], "euclidean", (3, 5), (0.05, 0.08, 0.13), 0
    if a.dna:
        base, queries = words(a.dna, 200)
        yield "dna32", base, queries, "normalized_levenshtein", (10,), (), 0
    if a.sift:
        folder = pathlib.Path(a.sift)
        yield "sift", load(folder / "base_u8.npy.gz"), load(folder / "query_u8.npy")[512:], "euclidean", (10,), (), 0
    if a.embeddings:
        folder = pathlib.Path(a.embeddings)
        yield "embeddings", *(load(folder / name).astype(np.float32) for name in ("base_f16.npy", "query_f16.npy")), "euclidean", (10,), (), 0
    if a.genome:
        series = gc_series(a.genome)
        rng = np.random.default_rng(1)
        out = rng.choice(len(series), 100, replace=False)
        queries = series[out] + rng.normal(0, 0.01, (100, series.shape[1])).astype(np.float32)
        yield "genome, dtw", np.delete(series, out, axis=0), queries, "dtw", (10,), (), 12


def save(a, name, fields, lines):
    for line in lines:
        print(", ".join(f"{k} {v}" for k, v in line.items()), flush=True)
    if not a.no_save:
        append_lines(RESULTS / name, fields, [{"threads": a.threads or 2} | line for line in lines])


def same(a, b):
    ids, distances = np.array_equal(a.ids, b.ids), np.array_equal(a.distances, b.distances)
    return ids and distances and (not hasattr(a, "offsets") or np.array_equal(a.offsets, b.offsets))


def recall_tables(a):
    for name, base, queries, metric, ks, radii, window in cases(a):
        exact_there = metric != "dtw"
        most = max(ks)
        if exact_there:
            truth = vicinal.knn(base, queries, most, metric, threads=a.threads)
        shares = SHARES if radii else (0.001, 0.002, 0.004, *SHARES[:5])
        for m in PERMUTANTS if radii else (16, 64, 128):
            for choice in ("random",) if radii or metric == "dtw" else ("random", "farthest_first"):
                began = time.perf_counter()
                index = vicinal.PermutationIndex(base, metric, m, seed=1, choice=choice, window=window, threads=a.threads)
                built = time.perf_counter() - began
                if not exact_there:
                    truth = index.knn(queries, most, fraction=1)
                lines, head = [], {"set": name, "n": len(base), "Q": len(queries), "m": m, "choice": choice, "form": "ranks", "metric": metric}
                within = {r: vicinal.range_search(base, queries, r, metric, threads=a.threads) for r in radii}
                for f in shares:
                    found = index.knn(queries, most, fraction=f)
                    for k in ks:
                        recall = np.mean(found.distances[:, :k] <= truth.distances[:, k - 1 : k])
                        lines.append(head | {"fraction": f, "answer": f"k={k}", "recall": round(float(recall), 4), "share_computed": f})
                    if radii:
                        near = index.range(queries, max(radii), fraction=f)
                        rows = np.repeat(np.arange(len(queries)), np.diff(near.offsets))
                    for r in radii:
                        wanted = np.diff(within[r].offsets)
                        hits = np.bincount(rows[near.distances <= r], minlength=len(queries))
                        recall = np.mean(hits[wanted > 0] / wanted[wanted > 0])
                        lines.append(head | {"fraction": f, "answer": f"r={r}", "recall": round(float(recall), 4), "share_computed": f})
                if exact_there:
                    answers = [(f"k={most}", index.knn(queries, most, exact=True), truth)]
                    answers += [(f"r={r}", index.range(queries, r, exact=True), within[r]) for r in radii]
                    for answer, mine, truly in answers:
                        assert same(mine, truly), (name, m, answer)
                        share = mine.stats.reranked / mine.stats.pairs
                        lines.append(head | {"fraction": "exact", "answer": answer, "recall": 1, "share_computed": round(share, 6)})
                for target in (0.9, 0.95, 0.99) if m >= 64 else ():
                    aimed = index.knn(queries, most, recall=target)
                    recall = float(np.mean(aimed.distances <= truth.distances[:, most - 1 :]))
                    said = aimed.recall
                    lines.append(head | {"fraction": round(aimed.fraction, 5), "answer": f"k={most} target {target} said {said.low:.4f}..{said.high:.4f}",
                                         "recall": round(recall, 4), "share_computed": round(aimed.fraction, 5)})
                print(f"{name} m={m} {choice}: built in {built:.2f} s", flush=True)
                save(a, "lopresti_recall.csv", RECALL, lines)


def targets(a, seed, inside):
    """Aimed at, said, achieved: as it is by default, and by objects that were left out."""
    sets = list(cases(a))
    if a.words and a.other_words:
        others = pathlib.Path(a.other_words).read_text(encoding="latin-1").split("\n")[:-1]
        asked = [others[i] for i in np.random.default_rng(seed + 1).choice(len(others), a.queries, replace=False)]
        sets.append(("words, asked in another language", words(a.words, a.queries)[0], asked, "levenshtein", (5,), (), 0))
    for name, base, queries, metric, _, _, window in sets:
        for m in (64, 128):
            index = vicinal.PermutationIndex(base, metric, m, seed=seed, window=window, threads=a.threads)
            for k in (5, 10):
                truth = index.knn(queries, k, exact=True)
                for tune_on in ("auto", "objects"):
                    lines = []
                    for target in (0.9, 0.95, 0.99):
                        found = index.knn(queries, k, recall=target, tune_on=tune_on)
                        recall, said = float(np.mean(found.distances <= truth.distances[:, k - 1 :])), found.recall
                        by = tune_on if tune_on != "auto" else "auto: queries" if said.of_queries else "auto: objects"
                        inside.setdefault((name, by), []).append((recall < said.low - 1e-9) - (recall > said.high + 1e-9))
                        lines.append({"set": name, "n": len(base), "Q": len(queries), "m": m, "choice": "random", "form": "ranks", "metric": metric,
                                      "fraction": round(found.fraction, 5), "answer": f"k={k} target {target} by {by} said {said.low:.4f}..{said.high:.4f}",
                                      "recall": round(recall, 4), "share_computed": round(found.fraction, 5)})
                    save(a, "lopresti_recall.csv", RECALL, lines)


def timed(work, repeat=3):
    seconds = []
    for _ in range(repeat):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return sorted(seconds)[repeat // 2]


def times(a):
    for name, base, queries, metric, ks, radii, window in cases(a):
        k, lines = max(ks), []
        for m in (64,) if radii else (16, 64):
            index = vicinal.PermutationIndex(base, metric, m, seed=1, window=window, threads=a.threads)
            head = {"set": name, "n": len(base), "Q": len(queries), "m": m, "metric": metric}
            truth = index.knn(queries, k, exact=True)
            index.knn(queries[:1], k)  # measures recall once
            def add(what, seconds, found=None, note=""):
                recall = "" if found is None else round(float(np.mean(found.distances <= truth.distances[:, k - 1 :])), 4)
                lines.append(head | {"what": what, "seconds": round(seconds, 5), "recall": recall, "note": note})
            add("build", index.build_seconds)
            if metric != "dtw":
                corpus = vicinal.Corpus(base, metric, threads=a.threads) if not isinstance(base, list) else None
                exact = (lambda: corpus.knn(queries, k)) if corpus else (lambda: vicinal.knn(base, queries, k, metric, threads=a.threads))
                add("exact search", timed(exact))
            add("every distance, a pair at a time", timed(lambda: index.knn(queries, k, fraction=1), 1))
            add("exact mode", timed(lambda: index.knn(queries, k, exact=True)))
            for target in (0.9, 0.95, 0.99):
                found = index.knn(queries, k, recall=target, tune_on="objects")
                add(f"recall {target}", timed(lambda: index.knn(queries, k, recall=target, tune_on="objects")), found, f"fraction {found.fraction:.4f}")
            if radii:
                for f in (0.1, 0.2, 0.3, 0.5):
                    add(f"f={f}", timed(lambda: index.knn(queries, k, fraction=f), 1), index.knn(queries, k, fraction=f))
                one = timed(lambda: [index.knn(queries[i : i + 1], k, fraction=0.1) for i in range(80)])
                add("80 queries, one at a time, f=0.1", one)
                add("80 queries at once, f=0.1", timed(lambda: index.knn(queries[:80], k, fraction=0.1)))
        save(a, "lopresti_times.csv", TIMES, lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("words", "other-words", "histograms", "dna", "sift", "embeddings", "genome"):
        parser.add_argument("--" + name)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--times", action="store_true")
    parser.add_argument("--targets", action="store_true")
    parser.add_argument("--no-save", action="store_true")
    a = parser.parse_args()
    if not a.targets:
        return times(a) if a.times else recall_tables(a)
    inside = {}
    for seed in range(a.first_seed, a.first_seed + a.seeds):
        targets(a, seed, inside)
    for (name, by), where in inside.items():
        print(f"{name}, by {by}: {where.count(0)} inside, {where.count(1)} below, {where.count(-1)} above")


if __name__ == "__main__":
    main()
