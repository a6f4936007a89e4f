"""Is a recall that was aimed at met by descriptors of photographs that the index has never seen?

    .venv/bin/python repro/photographs.py --sift FOLDER --pictures FOLDER [--cache FILE] [--first-seed 1] [--seeds 5] [--no-save]

--sift: a folder with base_u8.npy.gz, SIFT descriptors of some photographs, which are indexed, and query_u8.npy, of which rows from 512 on are
descriptors of the same photographs that were left out. --pictures: other photographs (measured: Debian's ukui-wallpapers,
lomiri-wallpapers-16.04 and -20.04), whose descriptors are found by OpenCV as those of the base were: longest side 2560, 6000 a
picture, contrast threshold 0.01. Every seed draws other permutants and other queries. Appends to results/photographs.csv.
"""

import argparse
import pathlib
import sys

import numpy as np

import vicinal

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "bench"))  # its select.py is not Python's
from lopresti_tables import load
from run import append_lines

RESULTS = pathlib.Path(__file__).resolve().parent / "results" / "photographs.csv"
FIELDS = ["date", "commit", "machine", "threads", "queries", "pictures", "n", "Q", "m", "k", "seed", "tune_on", "target", "low", "value", "high",
          "recall", "where", "fraction", "noted"]  # fmt: skip
SIDE, MOST, CONTRAST = 2560, 6000, 0.01


def descriptors(folder):
    """Of every picture of a folder: rows, and the number of the picture of each."""
    import cv2

    found, pictures = [], []
    files = sorted(p for p in pathlib.Path(folder).rglob("*") if p.suffix.lower() in (".jpg", ".jpeg", ".png"))
    for number, file in enumerate(files):
        picture = cv2.imread(str(file), cv2.IMREAD_GRAYSCALE)
        if picture is None:
            continue
        scale = SIDE / max(picture.shape)
        if scale < 1:
            picture = cv2.resize(picture, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
        rows = cv2.SIFT_create(nfeatures=MOST, contrastThreshold=CONTRAST).detectAndCompute(picture, None)[1]
        if rows is None:
            continue
        found.append(rows.astype(np.uint8))
        pictures.append(np.full(len(rows), number))
        print(f"{file.name}: {len(rows)} descriptors", flush=True)
    rows, first = np.unique(np.concatenate(found), axis=0, return_index=True)
    return rows, np.concatenate(pictures)[first]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sift", required=True)
    parser.add_argument("--pictures", required=True)
    parser.add_argument("--cache")
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--no-save", action="store_true")
    a = parser.parse_args()
    if a.cache and pathlib.Path(a.cache).exists():
        kept = np.load(a.cache)
        rows, pictures = kept["rows"], kept["pictures"]
    else:
        rows, pictures = descriptors(a.pictures)
        if a.cache:
            np.savez(a.cache, rows=rows, pictures=pictures)
    base, own = load(pathlib.Path(a.sift) / "base_u8.npy.gz"), load(pathlib.Path(a.sift) / "query_u8.npy")[512:]
    met = {}
    for seed in range(a.first_seed, a.first_seed + a.seeds):
        index = vicinal.PermutationIndex(base, permutants=64, seed=seed, threads=a.threads)
        drawn = np.random.default_rng(seed).choice(len(rows), a.queries, replace=False)
        one = np.bincount(pictures).argsort()[-seed]  # a photograph alone: of those with most descriptors, one a seed
        alone = np.flatnonzero(pictures == one)[: a.queries]
        for name, asked, shown in (("the same photographs", own, 0), ("other photographs", rows[drawn], len(set(pictures[drawn]))),
                                   ("one other photograph", rows[alone], 1)):  # fmt: skip
            truth = vicinal.knn(base, asked, 10, threads=a.threads)
            lines = []
            for tune_on in ("auto", "objects"):  # by default, and as it was before
                for target in (0.9, 0.95, 0.99):
                    found = index.knn(asked, 10, recall=target, tune_on=tune_on)
                    recall, said = float(np.mean(found.distances <= truth.distances[:, -1:])), found.recall
                    by = tune_on if tune_on != "auto" else "auto: queries" if said.of_queries else "auto: objects"
                    where = "below" if recall < said.low - 1e-9 else "above" if recall > said.high + 1e-9 else "within"
                    met.setdefault((name, by), []).append((where, recall - target))
                    lines.append({"threads": a.threads or 2, "queries": name, "pictures": shown, "n": len(base), "Q": len(asked), "m": 64, "k": 10,
                                  "seed": seed, "tune_on": by, "target": target, "low": round(said.low, 4), "value": round(said.value, 4),
                                  "high": round(said.high, 4), "recall": round(recall, 4), "where": where, "fraction": round(found.fraction, 5),
                                  "noted": int(any("unlike" in note for note in found.stats.notes))})  # fmt: skip
            for line in lines:
                print(", ".join(f"{k} {v}" for k, v in line.items() if k not in ("threads", "n", "m", "k")), flush=True)
            if not a.no_save:
                append_lines(RESULTS, FIELDS, lines)
    for (name, by), runs in met.items():
        where = [w for w, _ in runs]
        print(f"{name}, by {by}: {where.count('within')} within, {where.count('above')} above, {where.count('below')} below the interval; "
              f"target reached in {sum(off >= 0 for _, off in runs)} of {len(runs)}, worst {min(off for _, off in runs):+.4f}")  # fmt: skip


if __name__ == "__main__":
    main()
