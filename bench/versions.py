"""Two builds of vicinal beside one another: the cases of run.py, in two processes that take turns.

    .venv/bin/python bench/versions.py BEFORE AFTER [--case NAME ...] [--repeat 11]

BEFORE and AFTER are build folders (python/ and lib/ inside). Each build keeps a corpus and answers in a process of its own; within a round both
run once, in an order that alternates, so that a slow moment of the machine hits both. Prints for each case and call the median times in
milliseconds and the median of the rounds' ratios, and at the end their geometric mean. Nothing is appended to bench/results.
"""

import argparse
import math
import os
import statistics
import subprocess
import sys
from pathlib import Path

import run

SERVER = """
import sys, time
sys.path.insert(0, {bench!r})
import run, vicinal
x, q = run.data(run.cases()[{case!r}])
k = run.cases()[{case!r}][3]
corpus = vicinal.Corpus(x, metric="sqeuclidean")
calls = {{"one-shot": lambda: vicinal.knn(x, q, k=k, metric="sqeuclidean"), "prepared": lambda: corpus.knn(q, k=k)}}
print(vicinal.__file__, flush=True)
for line in sys.stdin:
    begin = time.perf_counter()
    calls[line.strip()]()
    print(time.perf_counter() - begin, flush=True)
"""


class Build:
    """One build's process for one case."""

    def __init__(self, folder, case):
        folder = Path(folder).resolve()
        environment = os.environ | {"PYTHONPATH": str(folder / "python"), "LD_LIBRARY_PATH": str(folder / "lib")}
        program = SERVER.format(bench=str(Path(__file__).parent), case=case)
        self.child = subprocess.Popen([sys.executable, "-c", program], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        loaded = self.child.stdout.readline().strip()
        if not loaded.startswith(str(folder)):
            sys.exit(f"asked for the build in {folder}, Python loaded {loaded!r}")

    def seconds(self, call):
        self.child.stdin.write(call + "\n")
        self.child.stdin.flush()
        return float(self.child.stdout.readline())

    def close(self):
        self.child.stdin.close()
        self.child.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--case", nargs="*", default=list(run.cases()), choices=list(run.cases()))
    parser.add_argument("--repeat", type=int, default=11)
    arguments = parser.parse_args()
    ratios = {"prepared": [], "one-shot": []}
    for case in arguments.case:
        builds = [Build(folder, case) for folder in (arguments.before, arguments.after)]
        for call, found in ratios.items():
            for build in builds:
                build.seconds(call)  # memory is touched, threads are there
            rounds = []
            for number in range(arguments.repeat):
                times = {which: builds[which].seconds(call) for which in ((0, 1) if number % 2 == 0 else (1, 0))}
                rounds.append((times[0], times[1]))
            before, after = (statistics.median(times) * 1e3 for times in zip(*rounds))
            found.append(statistics.median(b / a for a, b in rounds))
            print(f"{case:16} {call:9} {before:9.3f} {after:9.3f} ms  {found[-1]:.3f} of before", flush=True)
        for build in builds:
            build.close()
    for call, found in ratios.items():
        print(f"{call}: geometric mean {math.exp(statistics.fmean(map(math.log, found))):.3f}")


if __name__ == "__main__":
    main()
