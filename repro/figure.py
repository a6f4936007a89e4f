"""What the scripts of repro/ share: engines timed in turn, lines appended to repro/results, and what they were run on."""

import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))
from run import append_lines
from selections import ours, peers, rows_of  # noqa: F401

FIELDS = ["date", "commit", "machine", "threads", "rows", "n", "k", "engine", "median_s"]


def medians(engines, x, k, threads, repeat, slow_rows=None):
    """engine -> median seconds for all of x. slow_rows: engine -> rows that it is timed on, scaled up."""
    times = {name: [] for name in engines}
    for _ in range(repeat):
        for name, call in engines.items():
            rows = min((slow_rows or {}).get(name, len(x)), len(x))
            start = time.perf_counter()
            call(x[:rows], k, threads)
            times[name].append((time.perf_counter() - start) * len(x) / rows)
    return {name: statistics.median(seconds) for name, seconds in times.items()}


def append(figure, threads, rows, n, k, times):
    lines = [dict(zip(FIELDS[3:], [threads, rows, n, k, name, f"{seconds:.6f}"])) for name, seconds in times.items()]
    append_lines(ROOT / "repro" / "results" / f"{figure}.csv", FIELDS, lines)
