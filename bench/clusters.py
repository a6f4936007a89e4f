"""Searches over Dask beside one process, in turn on the same cores: seconds, seconds of CPU, and whether the bytes are equal.

    python bench/clusters.py [--case knn|graph ...] [--rounds 3] [--kills 0] [--scale 1] [--no-save]

A LocalCluster of 4 workers of one thread. "knn": 2,000,000 x 64 rows in 16 files of .npy, 5,000 queries, k=20; "graph": 300,000 x 50 in 4 files,
k=15; `--scale` multiplies the rows. One process has 4 threads. Both read the files, which the system has in memory, and end with the lists in this process; the
cluster is started before the clock. CPU seconds are those of the processes that search. With --kills N the search runs N times more
while a worker, any one, is killed by SIGKILL every 0.3 to 4 seconds. Appends to bench/results/clusters.csv. Needs dask and distributed.
"""

import argparse
import os
import pathlib
import random
import signal
import statistics
import tempfile
import threading
import time

import numpy as np
from dask.distributed import Client, LocalCluster
from run import append_lines

import vicinal
import vicinal.dask as vd
from vicinal import distributed

RESULTS = pathlib.Path(__file__).resolve().parent / "results" / "clusters.csv"
FIELDS = ["date", "commit", "machine", "workers", "case", "Q", "n", "d", "k", "engine", "median_s", "best_s", "cpu_s", "tasks", "equal_bytes", "runs", "refused"]
WORKERS = 4


def knn_case(folder, scale):
    rng = np.random.default_rng(5)
    rows = int(125_000 * scale)
    paths = [f"{folder}/part-{number:02}.npy" for number in range(16)]
    for path in paths:
        np.save(path, rng.standard_normal((rows, 64), dtype=np.float32))
    queries = rng.standard_normal((5_000, 64), dtype=np.float32)
    shape = dict(Q=5_000, n=16 * rows, d=64, k=20)
    return shape, lambda: vicinal.knn(read(paths), queries, 20, threads=WORKERS), lambda: vd.knn(paths, queries, 20)


def graph_case(folder, scale):
    rows = np.random.default_rng(6).standard_normal((int(300_000 * scale), 50), dtype=np.float32)
    paths = []
    for number, part in enumerate(np.array_split(rows, 4)):
        paths.append(f"{folder}/rows-{number}.npy")
        np.save(paths[-1], part)
    shape = dict(Q=len(rows), n=len(rows), d=50, k=15)
    return shape, lambda: vicinal.knn_graph(read(paths), 15, threads=WORKERS), lambda: vd.knn_graph(paths, 15)


def read(paths):
    """One array, filled from the files without another copy."""
    return distributed.rows([distributed.RowSlice(file, 0, file.rows) for file in distributed.described(paths)])


def clocked(call, clock):
    start, before = time.perf_counter(), clock()
    found = call()
    return found, time.perf_counter() - start, clock() - before


def equal(found, truth):
    return all(a.tobytes() == b.tobytes() for a, b in zip(found, truth))


def kill_now_and_then(cluster, stop):
    while not stop.wait(random.uniform(0.3, 4)):
        pids = [nanny.pid for nanny in cluster.workers.values() if nanny.pid]
        if pids:
            os.kill(random.choice(pids), signal.SIGKILL)


def with_kills(call, truth, runs):
    """How many runs had equal bytes, and how many ended in one error; anything else is raised. Each has a cluster of its own."""
    counts = [0, 0]
    for _ in range(runs):
        with started() as cluster, Client(cluster) as client:
            client.wait_for_workers(WORKERS)
            stop = threading.Event()
            thread = threading.Thread(target=kill_now_and_then, args=(cluster, stop))
            thread.start()
            try:
                assert equal(call().compute(), truth), "other bytes"
                counts[0] += 1
            except Exception as error:
                if "KilledWorker" not in type(error).__name__:
                    raise
                counts[1] += 1
            finally:
                stop.set()
                thread.join()
        print("  killed", *counts, flush=True)
    return counts


def started():
    return LocalCluster(n_workers=WORKERS, threads_per_worker=1, memory_limit="4GB", dashboard_address=None)


def measure(case, make, scale, rounds, kills):
    with tempfile.TemporaryDirectory() as folder:
        shape, alone, over = make(folder, scale)
        with started() as cluster, Client(cluster) as client:
            first = over()
            first.compute()  # modules are imported, rates measured
            plan, times, answers = first.plan, {"one process": [], "dask": []}, {}
            clocks = {"one process": time.process_time, "dask": lambda: sum(client.run(time.process_time).values())}
            for _ in range(rounds):
                for name, call in (("one process", alone), ("dask", lambda: over().compute())):
                    answers[name], *seconds = clocked(call, clocks[name])
                    times[name].append(seconds)
                    print(f"{case} {name}: {seconds[0]:.2f} s, {seconds[1]:.2f} s of CPU", flush=True)
        same = equal(answers["dask"], answers["one process"])
        lines = [dict(shape, workers=WORKERS, case=case, engine=name, median_s=f"{statistics.median(t for t, _ in each):.3f}",
                      best_s=f"{min(t for t, _ in each):.3f}", cpu_s=f"{statistics.median(c for _, c in each):.3f}",
                      tasks=plan.tasks if name == "dask" else 1, equal_bytes=int(same), runs=rounds, refused=0) for name, each in times.items()]  # fmt: skip
        if kills:
            good, refused = with_kills(over, answers["one process"], kills)
            lines.append(dict(shape, workers=WORKERS, case=case, engine="dask, workers killed", tasks=plan.tasks, equal_bytes=int(good + refused == kills),
                              runs=kills, refused=refused))  # fmt: skip
        return lines


def main():
    cases = {"knn": knn_case, "graph": graph_case}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", nargs="+", choices=list(cases), default=list(cases))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--no-save", action="store_true")
    arguments = parser.parse_args()
    for case in arguments.case:
        lines = measure(case, cases[case], arguments.scale, arguments.rounds, arguments.kills)
        for line in lines:
            print(line)
        if not arguments.no_save:
            append_lines(RESULTS, FIELDS, lines)


if __name__ == "__main__":
    main()
