"""Sismanis 2012, figure 2, on the CPU: one query, n = 2^10..2^20, truncated bitonic sort against radix and the rest.

    .venv/bin/python repro/sismanis_fig2_cpu.py [--threads 1] [--repeat 5] [--no-save]

Every engine's time beside a full sort (std::partial_sort with k = n would be one; NumPy's sort stands for it). Appends to
repro/results/sismanis_fig2_cpu.csv.
"""

import argparse

import numpy as np

from figure import append, medians, ours, peers, rows_of


def full_sort(x, k, threads):
    ids = np.argsort(x, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(x, ids, axis=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--no-save", action="store_true")
    a = parser.parse_args()
    engines = {"vicinal " + name: ours(name) for name in ("threshold", "bitonic", "radix", "merge", "heap", "quick")} | peers()
    engines["full sort (NumPy)"] = full_sort
    for power in range(10, 21):
        x = rows_of("random", 1, 1 << power)
        for k in (16, 64, 256):
            times = medians(engines, x, k, a.threads, a.repeat)
            baseline = times["full sort (NumPy)"]
            print(f"n=2^{power} k={k}: " + ", ".join(f"{name} {baseline / seconds:.1f}x" for name, seconds in times.items()), flush=True)
            if not a.no_save:
                append("sismanis_fig2_cpu", a.threads, 1, 1 << power, k, times)


if __name__ == "__main__":
    main()
