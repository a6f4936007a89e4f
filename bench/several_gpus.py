"""One device against several of one host, in turns: k-NN of a kept corpus, a graph, rows that stream from the host's memory, selection, strings.

    PYTHONPATH=build/python python3 bench/several_gpus.py [--devices cuda:0,cuda:1] [--only NAME,...] [--size 1] [--repeat 3] [--seconds 240]
                                                          [--commit HASH] [--output FILE | --no-save]

The first device named is the one. Each case is called once by either side before the clock, and what these calls returned is compared, bit by
bit. Medians of whole calls; `planned` is what each plan said. A case ends with its line on stdout and in bench/results/several_gpus.csv, so that
a run that is cut off leaves those that were done; after --seconds no case begins and no turn is repeated. --size is the share of the rows (or
queries, or strings) of each case, for machines where all do not fit. `pinned` rows are registered with the driver, where a device is CUDA's.
Needs numpy alone beside the module. Exit status 1 where bits differ.
"""

import argparse
import concurrent.futures
import contextlib
import ctypes
import hashlib
import pathlib
import statistics
import subprocess
import sys
import time

import numpy as np
from run import ROOT, append_lines, machine

import vicinal

FIELDS = ["date", "commit", "machine", "devices", "case", "n", "d", "q", "k", "rows", "one_s", "several_s", "ratio", "planned_one_s", "planned_several_s",
          "GB_s_several", "equal", "hash"]  # fmt: skip
CASES = ("knn", "graph", "stream-q100", "stream-q10000", "select", "strings")
PART = 1 << 25  # elements that are made at a time


def filled(n, d, fill):
    """(n, d) of what fill(generator, rows, columns) makes, by all cores, the same on every machine."""
    step = max(PART // d, 1)
    parts = range(0, n, step)
    made = [None]

    def part(begin):
        rows = fill(np.random.Generator(np.random.SFC64(begin)), min(step, n - begin), d)
        if made[0] is None:
            made[0] = np.empty((n, d), rows.dtype)
        made[0][begin : begin + len(rows)] = rows

    part(0)
    with concurrent.futures.ThreadPoolExecutor() as threads:
        list(threads.map(part, parts[1:]))
    return made[0]


def floats(n, d):
    return filled(n, d, lambda random, rows, cols: random.standard_normal((rows, cols), dtype=np.float32))


def byte_rows(n, d):
    return filled(n, d, lambda random, rows, cols: random.integers(0, 1 << 64, (rows, cols // 8), dtype=np.uint64).view(np.uint8))


def texts(n, seed):
    """Strings of 24 to 40 of four letters, as of DNA."""
    random = np.random.Generator(np.random.SFC64(seed))
    letters = np.frombuffer(b"ACGT", np.uint8)[random.integers(0, 4, n * 40)].tobytes()
    return [letters[40 * i : 40 * i + length] for i, length in enumerate(random.integers(24, 41, n).tolist())]


class Pinned:
    """Rows registered with the driver for all devices while the block lasts; `done` is False where there is no driver."""

    PORTABLE = 1

    def __init__(self, rows):
        self.address, self.bytes, self.done = rows.ctypes.data, rows.nbytes, False

    def __enter__(self):
        try:
            self.driver = ctypes.CDLL("libcuda.so.1")
        except OSError:
            return self
        context = ctypes.c_void_p()
        calls = (("cuInit", 0), ("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0), ("cuCtxSetCurrent", context),
                 ("cuMemHostRegister_v2", ctypes.c_void_p(self.address), ctypes.c_size_t(self.bytes), self.PORTABLE))  # fmt: skip
        self.done = all(getattr(self.driver, name)(*words) == 0 for name, *words in calls)
        return self

    def __exit__(self, *_):
        if self.done:
            self.driver.cuMemHostUnregister(ctypes.c_void_p(self.address))


def digest(answer):
    """Of the bits of an answer's arrays."""
    found = hashlib.sha256()
    for part in (answer.distances, answer.ids) if hasattr(answer, "distances") else answer:
        found.update(np.ascontiguousarray(part).view(np.uint8))
    return found.hexdigest()[:16]


def planned(answer):
    return getattr(answer.stats, "planned_seconds", None)


class Bench:
    def __init__(self, args):
        self.args, self.end = args, time.perf_counter() + args.seconds
        self.sides = (args.devices.split(",")[0], args.devices)
        if args.devices == "cuda:all":
            self.sides = ("cuda:0", "cuda:all")

    def size(self, count, least=1000):
        return max(int(count * self.args.size), least)

    def late(self):
        return time.perf_counter() > self.end

    def turns(self, call, **facts):
        """call(device, side) -> an answer; one line of both sides."""
        begin = time.perf_counter()
        digests, plans, times = [], [], ([], [])
        for side, device in enumerate(self.sides):
            answer = call(device, side)
            digests.append(digest(answer))
            plans.append(planned(answer))
            del answer
        for repeat in range(self.args.repeat):
            if repeat > 0 and self.late():
                break
            for side, device in enumerate(self.sides):
                start = time.perf_counter()
                call(device, side)
                times[side].append(time.perf_counter() - start)
        one, several = (statistics.median(side) for side in times)
        gigabytes = facts.pop("gigabytes")
        line = dict(machine=machine_name(self.sides[0]), devices=self.args.devices, one_s=f"{one:.5f}", several_s=f"{several:.5f}", ratio=f"{one / several:.3f}",
                    planned_one_s=seconds_text(plans[0]), planned_several_s=seconds_text(plans[1]), GB_s_several=f"{gigabytes / several:.1f}",
                    equal=digests[0] == digests[1], hash=digests[1], **facts)  # fmt: skip
        if self.args.commit:
            line["commit"] = self.args.commit
        if not self.args.no_save:
            append_lines(pathlib.Path(self.args.output), FIELDS, [line])
        print(f"{line['case']:14} {facts['rows']:9} one {one:9.4f} s (planned {line['planned_one_s'] or '-'}), several {several:9.4f} s "
              f"(planned {line['planned_several_s'] or '-'}), {one / several:.2f} times, {line['GB_s_several']} GB/s, "
              f"{'equal bits' if line['equal'] else 'OTHER BITS'}; {time.perf_counter() - begin:.1f} s in all", flush=True)  # fmt: skip
        return line["equal"]

    def knn(self):
        n, q = self.size(1 << 20), self.size(10_240, 64)
        rows, queries = floats(n, 128), floats(q, 128)
        kept = [vicinal.Corpus(rows, device=device) for device in self.sides]
        return self.turns(lambda _, side: kept[side].knn(queries, 10), case="knn", n=n, d=128, q=q, k=10, rows="prepared", gigabytes=rows.nbytes / 1e9)

    def graph(self):
        n = self.size(1 << 20)
        rows = floats(n, 128)
        return self.turns(lambda device, _: vicinal.knn_graph(rows, 15, device=device), case="graph", n=n, d=128, q=n, k=15, rows="ordinary",
                          gigabytes=rows.nbytes / 1e9)  # fmt: skip

    def stream(self, counts):
        n = self.size(60_000_000)
        rows, same = byte_rows(n, 128), True
        for pin in (False, True):
            with Pinned(rows) if pin else contextlib.nullcontext() as pinned:
                if pin and not pinned.done:
                    print("rows cannot be pinned here", flush=True)
                    continue
                for q in counts:
                    if self.late():
                        return same
                    queries = byte_rows(q, 128)
                    same &= self.turns(lambda device, _, queries=queries: vicinal.knn(rows, queries, k=100, device=device), case=f"stream-q{q}", n=n, d=128,
                                       q=q, k=100, rows="pinned" if pin else "ordinary", gigabytes=rows.nbytes / 1e9)  # fmt: skip
        return same

    def select(self):
        n = self.size(1 << 16)
        values = floats(n, 8192)
        return self.turns(lambda device, _: vicinal.select_k(values, 100, device=device), case="select", n=n, d=8192, q="", k=100, rows="ordinary",
                          gigabytes=values.nbytes / 1e9)  # fmt: skip

    def strings(self):
        n, q = self.size(1_000_000), self.size(32_768, 64)
        corpus, queries = texts(n, 1), texts(q, 2)
        return self.turns(lambda device, _: vicinal.knn(corpus, queries, k=5, metric="levenshtein", device=device), case="strings", n=n, d="", q=q, k=5,
                          rows="ordinary", gigabytes=sum(map(len, corpus)) / 1e9)  # fmt: skip


def seconds_text(seconds):
    return "" if seconds is None else f"{seconds:.5f}"


def machine_name(device):
    if device == "cpu":
        return machine()
    asked = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    names = subprocess.run(asked, capture_output=True, text=True).stdout.strip().split("\n")
    name, _, driver = names[0].partition(", ")
    return f"{len(names)} x {name} (driver {driver})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--devices", default="cuda:0,cuda:1")
    parser.add_argument("--only", default=",".join(CASES), help="of " + ", ".join(CASES))
    parser.add_argument("--size", type=float, default=1)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=240)
    parser.add_argument("--commit", default="")
    parser.add_argument("--output", default=ROOT / "bench" / "results" / "several_gpus.csv")
    parser.add_argument("--no-save", action="store_true")
    args = parser.parse_args()
    wanted = args.only.split(",")
    for name in wanted:
        if name not in CASES:
            parser.error(f"no case {name}; there are {', '.join(CASES)}")
    bench, same = Bench(args), True
    streams = [int(name.removeprefix("stream-q")) for name in wanted if name.startswith("stream")]
    for name in dict.fromkeys("stream" if name.startswith("stream") else name for name in wanted):
        if bench.late():
            print(f"{name}: no time left", flush=True)
            continue
        same &= bench.stream(streams) if name == "stream" else getattr(bench, name)()
    sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()
