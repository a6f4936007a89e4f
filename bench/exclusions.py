"""Pairs checked for wrongful exclusion: range searches whose filter is int8, int8 of rotated or projected rows, or f32, against the scan of every pair.

    .venv/bin/python bench/exclusions.py [--pairs 1e9]

A pair within the radius that a filter drops would be missing from the result; ids and distances are compared to the bit. The
families, dimensions and metrics take turns until so many pairs have been compared for the int8 filter. Prints a line a
round and ends with the sum, appended to bench/results/exclusions.csv; the exit status is 1 when anything was missing.
"""

import argparse
import os
import pathlib
import sys

import numpy as np
from families import families
from run import append_lines

import vicinal


FIELDS = ["date", "commit", "machine", "instruction_set", "pairs", "searches_with_a_missing_pair"]


def search(x, q, radius, metric, name):
    os.environ["VICINAL_FILTER"] = name
    return vicinal.range_search(x, q, radius=radius, metric=metric)


def note(pairs, wrong):
    line = dict(zip(FIELDS[3:], [os.environ.get("VICINAL_ISA", vicinal.info().instruction_sets[0]), f"{pairs:.3g}", wrong]))
    append_lines(pathlib.Path(__file__).resolve().parent / "results" / "exclusions.csv", FIELDS, [line])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=float, default=1e9)
    wanted = parser.parse_args().pairs
    pairs = wrong = 0
    rows, queries = 50_000, 200
    for round_number in range(10**6):
        dims, metric = (8, 33, 64, 100)[round_number % 4], ("sqeuclidean", "cosine", "inner_product")[round_number % 3]
        for name, x, q in families(rows, queries, dims):
            if pairs >= wanted:
                print(f"{pairs:.3g} pairs, {wrong} excluded wrongly")
                note(pairs, wrong)
                sys.exit(wrong > 0)
            if name == "all equal" and round_number > 0:
                continue
            near = vicinal.knn(x, q[:20], k=500, metric=metric).distances
            radius = float(np.median(near[:, 20 + 37 * round_number % 480]))
            scan = search(x, q, radius, metric, "canonical")
            for filter_name in ("int8", "rotated", "projected", "f32"):
                found = search(x, q, radius, metric, filter_name)
                same = np.array_equal(found.offsets, scan.offsets) and np.array_equal(found.ids, scan.ids) and np.array_equal(found.distances, scan.distances)
                if not same:
                    wrong += 1
                    print(f"WRONG: {name} d={dims} {metric} {filter_name} radius {radius}")
            pairs += rows * queries
        print(f"round {round_number}: d={dims} {metric}, {pairs:.3g} pairs, {wrong} wrong", flush=True)


if __name__ == "__main__":
    main()
