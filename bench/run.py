"""Speed beside the peers, measured in turn in one process on the same cores.

    .venv/bin/python bench/run.py [--case NAME ...] [--repeat 7] [--threads N] [--kernels CORE] [--no-save]

For each case and each engine: median and best wall time of one call, and the share of the cores' peak of float
multiply-adds that Q n d of them would take in that time (bench_tile --peak measures the peak in the same run).
"one-shot" is arrays to answer, preparing included; "prepared" is a search of a Corpus (ours) or of a built index
(faiss: rows copied in; scikit-learn: fit). Engines take turns within a round, so a slow moment of the machine hits all
of them. Appends to bench/results/knn.csv with date, commit and machine.
"""

import argparse
import csv
import datetime
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

import vicinal

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results" / "knn.csv"
SETTLE_S = 0.05
FIELDS = ["date", "commit", "machine", "threads", "case", "Q", "n", "d", "k", "data", "engine", "call", "median_s", "best_s",
          "share_of_peak", "recall"]


def cases():
    """name -> (Q, n, d, k, offset). Shapes of ordinary use, one away from the origin, few columns, one of bytes (offset "u8")."""
    return {
        "128d-k10": (1000, 100_000, 128, 10, 0.0),
        "128d-k100": (1000, 100_000, 128, 100, 0.0),
        "784d-k15": (10_000, 10_000, 784, 15, 0.0),
        "64d-k1000": (90, 100_000, 64, 1000, 0.0),
        "128d-k1000": (500, 100_000, 128, 1000, 0.0),
        "8d-k10": (1000, 100_000, 8, 10, 0.0),
        "128d-k10-offset": (1000, 100_000, 128, 10, 1000.0),
        "128d-1M-k100": (1000, 1_000_000, 128, 100, 0.0),
        "384d-k100": (1000, 300_000, 384, 100, 0.0),
        "784d-100k-k100": (1000, 100_000, 784, 100, 0.0),
        "128d-u8-k100": (1000, 1_000_000, 128, 100, "u8"),
        "2d-k10": (1000, 60_000, 2, 10, 0.0),
        "3d-k10": (1000, 100_000, 3, 10, 0.0),
        "1-query": (1, 1_000_000, 128, 10, 0.0),
        "16-queries": (16, 1_000_000, 128, 10, 0.0),
    }


def data(shape):
    queries, rows, dims, _, offset = shape
    rng = np.random.default_rng(7)
    if offset == "u8":  # about as skewed as descriptors of images are
        return tuple(np.minimum(rng.exponential(30, (count, dims)), 255).astype(np.uint8) for count in (rows, queries))
    x = rng.standard_normal((rows, dims), dtype=np.float32) + np.float32(offset)
    return x, rng.standard_normal((queries, dims), dtype=np.float32) + np.float32(offset)


class OtherKernels:
    """faiss in a process of its own, whose OpenBLAS is told which kernels to take: the wheel may not know this processor."""

    def __init__(self, core, case, threads):
        program = (f"import sys, time; sys.path.insert(0, {str(ROOT / 'bench')!r}); import faiss, numpy as np, run\n"
                   f"shape = run.cases()[{case!r}]; x, q = (a.astype(np.float32) for a in run.data(shape))\n"
                   f"faiss.omp_set_num_threads({threads}); index = faiss.IndexFlatL2(x.shape[1]); index.add(x)\n"
                   "for line in sys.stdin:\n"
                   "    start = time.perf_counter(); ids = index.search(q, shape[3])[1]; seconds = time.perf_counter() - start\n"
                   "    np.save(line.strip(), ids) if line.strip() else None; print(seconds, flush=True)\n")
        self.child = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                      env={**os.environ, "OPENBLAS_CORETYPE": core, "OMP_NUM_THREADS": str(threads)})

    def search(self, save=""):
        self.child.stdin.write(save + "\n")
        self.child.stdin.flush()
        return float(self.child.stdout.readline())

    def ids(self):
        with tempfile.NamedTemporaryFile(suffix=".npy") as file:
            self.search(file.name)
            return np.load(file.name)

    def close(self):
        self.child.stdin.close()
        self.child.wait()


def engines(x, q, k, threads):
    """(engine, call) -> function that returns ids. Peers that are not installed are left out, and said so."""
    corpus = vicinal.Corpus(x, metric="sqeuclidean", threads=threads)
    found = {
        ("vicinal", "one-shot"): lambda: vicinal.knn(x, q, k=k, metric="sqeuclidean", threads=threads).ids,
        ("vicinal", "prepared"): lambda: corpus.knn(q, k=k, threads=threads).ids,
    }
    try:
        import faiss

        faiss.omp_set_num_threads(threads)
        index = faiss.IndexFlatL2(x.shape[1])
        index.add(x.astype(np.float32))
        floats = q.astype(np.float32)
        found["faiss-cpu " + faiss.__version__, "prepared"] = lambda: index.search(floats, k)[1]
    except ImportError:
        print("faiss-cpu is not installed: not run")
    try:
        if len(x) * len(q) > 3e8:
            return found  # scikit-learn takes minutes
        import sklearn
        from sklearn.neighbors import NearestNeighbors

        for algorithm in ["brute"] + (["kd_tree"] if x.shape[1] <= 16 else []):
            fitted = NearestNeighbors(n_neighbors=k, algorithm=algorithm, n_jobs=threads).fit(x)
            found[f"scikit-learn {sklearn.__version__} {algorithm}", "prepared"] = (
                lambda fitted=fitted: fitted.kneighbors(q, return_distance=True)[1])
    except ImportError:
        print("scikit-learn is not installed: not run")
    return found


def peak_gfma(threads):
    """Float multiply-adds a second of the cores, from the registers' peak of one core; 0 when bench_tile is not built."""
    program = ROOT / "build" / "bin" / "bench_tile"
    if not program.exists():
        subprocess.run([ROOT / "scripts" / "build", "cpu", "bench_tile"], check=False)
    if not program.exists():
        return 0.0
    out = subprocess.run([program, "--peak"], capture_output=True, text=True, check=True).stdout
    return float(out.split()[-1]) * threads


def recall(ids, truth):
    hits = sum(len(np.intersect1d(a, b)) for a, b in zip(ids, truth))
    return hits / truth.size


def machine():
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    return f"{model}, {os.cpu_count()} cores, {platform.system()}"


def commit():
    try:
        run = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True, text=True)
    except FileNotFoundError:  # a machine without git
        return "?"
    return run.stdout.strip() or "?"


def timed_in_turn(calls, repeat):
    """name -> its seconds, and name -> its last answer: every call once a round, so that a slow minute is shared by all. Between two of them
    threads that spin for a while after a loop, as OpenMP's do, give up the cores."""
    times, answers = {name: [] for name in calls}, {}
    for _ in range(repeat):
        for name, call in calls.items():
            time.sleep(SETTLE_S)
            start = time.perf_counter()
            answers[name] = call()
            times[name].append(time.perf_counter() - start)
    return times, answers


def append_lines(path, fields, lines):
    """Dictionaries to a CSV file, which begins with the names of the fields; date, commit and machine are filled in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = not path.exists()
    stamp = dict(date=datetime.date.today().isoformat(), commit=commit(), machine=machine())
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, fields, lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerows({**stamp, **line} for line in lines)


def measure(name, shape, threads, repeat, peak, kernels):
    from threadpoolctl import threadpool_limits

    queries, rows, dims, k, offset = shape
    x, q = data(shape)
    with threadpool_limits(threads):
        found = engines(x, q, k, threads)
        truth = found["vicinal", "one-shot"]()  # proved by its certificate; the tests check it against the oracle
        answers, times = {}, {engine: [] for engine in found}
        for engine, call in found.items():
            answers[engine] = recall(call(), truth)
        other = OtherKernels(kernels, name, threads) if kernels else None
        if other:
            forced = ("faiss-cpu, " + kernels + " kernels", "prepared")
            answers[forced], times[forced] = recall(other.ids(), truth), []
        for _ in range(repeat):
            for engine, call in found.items():
                time.sleep(SETTLE_S)
                start = time.perf_counter()
                call()
                times[engine].append(time.perf_counter() - start)
            if other:
                times[forced].append(other.search())
        if other:
            other.close()
    work = queries * rows * dims
    print(f"\n{name}: Q={queries} n={rows} d={dims} k={k} {'+%s' % offset if offset else ''}")
    for (engine, call), seconds in times.items():
        median, best = statistics.median(seconds), min(seconds)
        share = work / median / 1e9 / peak if peak else float("nan")
        print(f"  {engine:28s} {call:9s} median {median:8.4f} s  best {best:8.4f} s  {share:6.1%} of peak"
              f"  recall {answers[engine, call]:.4f}")
        yield dict(threads=threads, case=name, Q=queries, n=rows, d=dims, k=k, data="u8" if offset == "u8" else f"gaussian+{offset:g}", engine=engine,
                   call=call, median_s=f"{median:.5f}", best_s=f"{best:.5f}", share_of_peak=f"{share:.4f}",
                   recall=f"{answers[engine, call]:.4f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", action="append", choices=list(cases()))
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--threads", type=int, default=vicinal.info().threads)
    parser.add_argument("--kernels", metavar="CORE", help="faiss once more, with OPENBLAS_CORETYPE=CORE (SkylakeX: AVX-512)")
    parser.add_argument("--no-save", action="store_true")
    args = parser.parse_args()
    try:
        import threadpoolctl  # noqa: F401  (comes with scikit-learn; holds every BLAS to the same cores)
    except ImportError:
        sys.exit("bench/run.py needs threadpoolctl: .venv/bin/pip install scikit-learn faiss-cpu")
    peak = peak_gfma(args.threads)
    print(f"{machine()}; {args.threads} threads; peak {peak:.0f} GFMA/s; vicinal {vicinal.__version__} at {commit()}")
    rows = []
    for name, shape in cases().items():
        if not args.case or name in args.case:
            rows += measure(name, shape, args.threads, args.repeat, peak, args.kernels)
    if args.no_save:
        return
    append_lines(RESULTS, FIELDS, rows)
    print(f"\nappended to {RESULTS.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
