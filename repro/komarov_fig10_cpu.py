"""Komarov 2014, figure 10, on the CPU: Q = 256 rows, n = 2^16..2^20, k = 2..1024, against std::nth_element on (value, id).

    .venv/bin/python repro/komarov_fig10_cpu.py [--threads 1] [--repeat 3] [--no-save]

The paper's baseline is one core, so one thread is the default. Quadratic algorithms are timed on few rows and small k. Appends
to repro/results/komarov_fig10_cpu.csv.
"""

import argparse

from figure import append, medians, ours, peers, rows_of

QUADRATIC = ("bubble", "insertion")
OURS = ("threshold", "heap", "quick", "radix", "merge", "bitonic", "insertion", "bubble")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--no-save", action="store_true")
    a = parser.parse_args()
    standard = peers()
    for power in range(16, 21):
        n = 1 << power
        x = rows_of("random", 256, n)
        for k in (2, 16, 128, 1024):
            engines = {"vicinal " + name: ours(name) for name in OURS if name not in QUADRATIC or n * k <= 1 << 24} | standard
            slow = {name: 256 if name in ("vicinal threshold", "read only") or name.startswith(("faiss", "torch")) else 2 for name in engines}
            times = medians(engines, x, k, a.threads, a.repeat, slow)
            baseline = times["std::nth_element pairs"]
            print(f"n=2^{power} k={k}: " + ", ".join(f"{name} {baseline / seconds:.2f}x" for name, seconds in times.items()), flush=True)
            if not a.no_save:
                append("komarov_fig10_cpu", a.threads, 256, n, k, times)


if __name__ == "__main__":
    main()
